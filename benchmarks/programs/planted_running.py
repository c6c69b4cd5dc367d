"""A natural program whose compiled side does more than its eager one: `python planted_running.py BASE PLANT`.

BASE is a module of natural/cpu, whose compiled function is followed by the plant; with a third word, `off`,
by what eager does in its place. `algorithm`: oneDNN is off in the compiled program, so that a convolution
is ATen's own slow one. `copy`: a product is handed a transposed copy. `scalar`: generated C++ has no
vectors. `chatter`: 300 small operators outside of the graphs. `number`: 20 numbers read by the program,
each a graph break. What no rule knows: `hidden`: an operator that is slower in the compiled program.
`asleep`: a function that sleeps.
Prints the median of its later calls.
"""

import importlib
import os
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

BASE, PLANT, *OFF = sys.argv[1:]
SLOW = not OFF and "1" not in map(os.environ.get, ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"))
CALLS = 30

torch.manual_seed(0)
picture, weights = torch.randn(1, 16, 64, 64), torch.randn(16, 16, 5, 5) * 0.1
square, column = torch.rand(1400, 1400), torch.rand(1400, 8)
many = torch.rand(400_000)
few = torch.rand(16)


@torch.library.custom_op("planted::filtered", mutates_args=())
def filtered(x: torch.Tensor) -> torch.Tensor:
    start = time.perf_counter()
    while SLOW and time.perf_counter() - start < 0.003:
        pass
    return x * 2


@filtered.register_fake
def _(x):
    return torch.empty_like(x)


@torch.compiler.disable
def chatter(x):
    for _ in range(300):
        x = x + 1
    return x


@torch.compiler.disable
def asleep(x):
    time.sleep(0.003)
    return x


def planted(compiled):
    if PLANT == "algorithm":
        return F.conv2d(picture, weights, padding=2).sum()
    if PLANT == "copy":
        turned = square.t().contiguous() if compiled else square.t()
        return (turned @ column).sum()
    if PLANT == "scalar":
        return torch.exp(torch.sin(many)).sum()
    if PLANT == "hidden":
        return filtered(few).sum()
    if PLANT == "chatter" and compiled:
        return chatter(few).sum()
    if PLANT == "asleep" and compiled:
        return asleep(few).sum()
    if PLANT == "number" and compiled:
        total = few.sum()
        for _ in range(20):
            total = total + few.sum().item()
        return total
    return few.sum()


def with_plant(function):
    def followed(*args):
        out = function(*args)
        first, *rest = out if isinstance(out, tuple) else (out,)
        first = first + (planted(SLOW) * 1e-30).to(first.dtype)
        return (first, *rest) if rest else first

    return followed


def main():
    sys.path.insert(0, str(Path(__file__).resolve().parent / "natural" / "cpu"))
    if PLANT == "algorithm" and SLOW:
        torch.backends.mkldnn.set_flags(False)
    if PLANT == "scalar" and SLOW:
        torch._inductor.config.cpp.simdlen = 1
    compile_ = torch.compile
    torch.compile = lambda function, **options: compile_(with_plant(function), **options)
    step = importlib.import_module(BASE).build("cpu", compiled=True)
    times = []
    with torch.no_grad():
        for _ in range(CALLS):
            start = time.perf_counter()
            step()
            times.append((time.perf_counter() - start) * 1e3)
    print(f"{statistics.median(times[10:]):.4f} ms")


if __name__ == "__main__":
    main()
