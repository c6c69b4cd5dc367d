"""A custom operator with a backward, and an autograd function of the user's own."""

import torch


@torch.library.custom_op("mine::soft_shrink", mutates_args=())
def soft_shrink(x: torch.Tensor, by: float) -> torch.Tensor:
    return torch.sign(x) * torch.clamp(x.abs() - by, min=0)


@soft_shrink.register_fake
def _(x, by):
    return torch.empty_like(x)


def backward(ctx, gradient):
    return gradient * (ctx.saved_tensors[0].abs() > ctx.by), None


def setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.by = inputs[1]


soft_shrink.register_autograd(backward, setup_context=setup)


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x * 16) / 16

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@torch.compile
def loss(weights, x):
    hidden = Round.apply(x @ weights)
    return soft_shrink(torch.tanh(hidden), 0.1).square().mean()


torch.manual_seed(0)
weights = torch.randn(64, 64, requires_grad=True)
for _ in range(20):
    value = loss(weights, torch.randn(128, 64))
    value.backward()
    weights.data -= 0.1 * weights.grad
    weights.grad = None
print(round(value.item(), 4))
