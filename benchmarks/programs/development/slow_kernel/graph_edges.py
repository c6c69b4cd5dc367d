import torch


@torch.compile
def edge_lengths(x, y, source, target):
    return torch.sqrt((x[source] - x[target]) ** 2 + (y[source] - y[target]) ** 2)


x, y = torch.randn(8_000_000), torch.randn(8_000_000)
source, target = torch.randint(0, 8_000_000, (2, 2_000_000))
for _ in range(15):
    edge_lengths(x, y, source, target)
