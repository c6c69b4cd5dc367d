import torch

torch.manual_seed(0)


@torch.library.custom_op("mine::smooth", mutates_args=())
def smooth(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    for _ in range(6):
        y = (y + y.roll(1, -1) + y.roll(-1, -1)) / 3
    return y


@smooth.register_fake
def _(x):
    return torch.empty_like(x)


@torch.compile
def f(x):
    return torch.sin(smooth(x * 2)) + 1


x = torch.randn(500, 2000)
for _ in range(30):
    f(x)
