import torch


@torch.library.custom_op("shop::soft_round", mutates_args=())
def soft_round(x: torch.Tensor) -> torch.Tensor:
    return x + 0.3 * torch.sin(2 * torch.pi * x) / torch.pi


@soft_round.register_fake
def _(x):
    return torch.empty_like(x)


@torch.compile
def quantise(x):
    return soft_round(x * 16) / 16


x = torch.randn(1000, 1000)
for _ in range(20):
    quantise(x)
