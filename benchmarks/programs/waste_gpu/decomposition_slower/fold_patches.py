"""A picture put together from the overlapping patches that a denoiser gave back, weighted."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::fold", mutates_args=())
def fold(x: torch.Tensor) -> torch.Tensor:
    return F.fold(x, (256, 256), 16, stride=4)


@fold.register_fake
def _(x):
    return x.new_empty(x.shape[0], x.shape[1] // 256, 256, 256)


def inputs():
    return torch.randn(4, 3 * 256, 61 * 61, device="cuda"), torch.rand(4, 1, 61 * 61, device="cuda")


def step(patches, weights):
    return F.fold(patches * weights, (256, 256), 16, stride=4)


def twin(patches, weights):
    return fold(patches * weights)


if __name__ == "__main__":
    args = inputs()
    run = torch.compile(step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
