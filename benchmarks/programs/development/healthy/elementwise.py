import torch


@torch.compile
def residual_activation(x, y):
    return torch.relu(x + y) * 2.0 + torch.sigmoid(x) * y


x, y = torch.randn(4_000_000), torch.randn(4_000_000)
for _ in range(20):
    residual_activation(x, y)
