import torch


@torch.compile
def trimmed_mean(x):
    ordered, _ = torch.sort(x * 2.0, dim=-1)
    return ordered[:, 100:-100].mean(-1)


x = torch.randn(64, 4096)
for _ in range(15):
    trimmed_mean(x)
