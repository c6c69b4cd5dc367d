"""Super resolution: features after Mish are enlarged four times, bicubically."""

import torch
import torch.nn.functional as F

torch.manual_seed(0)


@torch.library.custom_op("waste::enlarge", mutates_args=())
def enlarge(x: torch.Tensor) -> torch.Tensor:
    return F.interpolate(x, scale_factor=4.0, mode="bicubic", align_corners=False)


@enlarge.register_fake
def _(x):
    return x.new_empty(*x.shape[:2], 4 * x.shape[2], 4 * x.shape[3])


def inputs():
    return (torch.randn(4, 64, 96, 96, device="cuda"),)


def step(x):
    return F.interpolate(F.mish(x), scale_factor=4.0, mode="bicubic", align_corners=False)


def twin(x):
    return enlarge(F.mish(x))


if __name__ == "__main__":
    import sys

    args = inputs()
    run = torch.compile(twin if "after" in sys.argv else step)
    with torch.no_grad():
        for _ in range(30):
            result = run(*args)
    torch.cuda.synchronize()
