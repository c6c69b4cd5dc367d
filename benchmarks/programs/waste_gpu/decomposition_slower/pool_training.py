"""A block that is trained: overlapping windows after GELU, and their gradient."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)
TRAINS = True


@torch.library.custom_op("waste::pool_whole", mutates_args=())
def pool_whole(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return F.max_pool2d(x, 3, 2, 1, return_indices=True)


@pool_whole.register_fake
def _(x):
    y = x.new_empty(*x.shape[:2], (x.shape[2] + 1) // 2, (x.shape[3] + 1) // 2)
    return y, torch.empty_like(y, dtype=torch.int64)


@torch.library.custom_op("waste::pool_whole_backward", mutates_args=())
def pool_whole_backward(grad: torch.Tensor, x: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return torch.ops.aten.max_pool2d_with_indices_backward(
        grad, x, [3, 3], [2, 2], [1, 1], [1, 1], False, where
    )


@pool_whole_backward.register_fake
def _(grad, x, where):
    return torch.empty_like(x)


def _save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0], output[1])


def _backward(ctx, grad, _):
    return pool_whole_backward(grad.contiguous(), *ctx.saved_tensors)


pool_whole.register_autograd(_backward, setup_context=_save)


def inputs():
    return (torch.randn(32, 64, 112, 112, device="cuda", requires_grad=True),)


def step(x):
    return F.max_pool2d(F.gelu(x), 3, 2, 1)


def twin(x):
    return pool_whole(F.gelu(x))[0]


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    for _ in range(30):
        run(*args).square().mean().backward()
    torch.cuda.synchronize()
