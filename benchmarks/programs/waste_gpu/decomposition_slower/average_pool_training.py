"""An Inception branch that is trained: average of 5 x 5 windows, and its gradient."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
TRAINS = True


@torch.library.custom_op("waste::average", mutates_args=())
def average(x: torch.Tensor) -> torch.Tensor:
    return F.avg_pool2d(x, 5, 1, 2)


@average.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("waste::average_backward", mutates_args=())
def average_backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.avg_pool2d_backward(grad, x, [5, 5], [1, 1], [2, 2], False, True, None)


@average_backward.register_fake
def _(grad, x):
    return torch.empty_like(x)


def _save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _backward(ctx, grad):
    return average_backward(grad.contiguous(), *ctx.saved_tensors)


average.register_autograd(_backward, setup_context=_save)


def inputs():
    return (torch.randn(32, 192, 56, 56, device="cuda", requires_grad=True),)


def step(x):
    return torch.sigmoid(F.avg_pool2d(F.softplus(x), 5, 1, 2))


def twin(x):
    return torch.sigmoid(average(F.softplus(x)))


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    for _ in range(30):
        run(*args).square().mean().backward()
    torch.cuda.synchronize()
