"""What a CPU takes for numbers below the smallest that floats have a usual form for.

``python benchmarks/subnormal.py`` prints, for parts of the elements of a tensor that are subnormal, what a
compiled loop and a product take with them, and with ``torch.set_flush_denormal(True)``: both in turns in one
process, medians, and their ratio. The rule `subnormal_numbers` goes by these parts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial

import torch
from awkward_calls import once
from torch import Tensor

ROUNDS = 15
PARTS = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)
SIZE = (768, 1960)


def loop(x: Tensor) -> Tensor:
    return 0.5 * x + x * 0.25


def product(x: Tensor) -> Tensor:
    return WEIGHT @ x


WEIGHT = torch.randn(48, SIZE[0])


def flushed(call: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    torch.set_flush_denormal(True)
    try:
        return call(x)
    finally:
        torch.set_flush_denormal(False)


def main() -> None:
    torch.set_num_threads(1)  # threads that have been started keep their own setting
    print(f"torch {torch.__version__}, one thread of a CPU: as it is, flushed to zero, their ratio")
    for name, call in (("a compiled loop", torch.compile(loop)), ("a product", product)):
        for part in PARTS:
            x = torch.randn(SIZE)
            x = torch.where(torch.rand(SIZE) < part, x * 1e-40, x)
            for _ in range(3):
                call(x)
            times: list[list[float]] = [[], []]
            for _ in range(ROUNDS):
                for run, own in zip((call, partial(flushed, call)), times, strict=True):
                    own.append(once(partial(run, x), "cpu"))
            one, other = (statistics.median(own) for own in times)
            what = f"{name}, {part:7.2%} of 768x1960"
            print(f"  {what:40} {one:10.1f} {other:10.1f} us {one / other:7.2f}", flush=True)


if __name__ == "__main__":
    main()
