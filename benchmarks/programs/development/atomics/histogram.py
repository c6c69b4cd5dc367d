import torch


@torch.compile
def histogram(values, weights):
    bins = (values.clamp(0, 0.999) * 256).long()
    return torch.zeros(256).index_add(0, bins, weights)


values, weights = torch.rand(1_000_000), torch.rand(1_000_000)
for _ in range(15):
    histogram(values, weights)
