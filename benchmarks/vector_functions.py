"""What functions take in a compiled loop of a CPU: nanoseconds of one element in one thread, by dtype.

    python benchmarks/vector_functions.py

Each is the best of nine blocks of a loop that adds the function's result to what it reads, less the same loop
without it; a plain operation is a fortieth of twenty products and sums. What has vectors is torch's choice
(torch/_inductor/codegen/cpp.py: CppVecOverrides), and how wide they are the machine's.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable

import torch

POINTS = 1 << 15
"""What fits into a core's second cache with all that is read and written."""
BLOCKS, CALLS = 9, 60
OF_ONE = (
    "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "sin", "cos", "tan", "erf", "erfc", "sqrt", "rsqrt",
    "asin", "acos", "atan", "sinh", "lgamma", "digamma", "erfinv",
)  # fmt: skip
OF_TWO = ("div", "pow", "atan2", "fmod", "remainder")

Function = Callable[..., torch.Tensor]


def element_ns(function: Function, *inputs: torch.Tensor) -> float:
    torch._dynamo.reset()
    compiled = torch.compile(function)
    best = float("inf")
    with torch.no_grad():
        for _ in range(3):
            compiled(*inputs)
        for _ in range(BLOCKS):
            start = time.perf_counter()
            for _ in range(CALLS):
                compiled(*inputs)
            best = min(best, time.perf_counter() - start)
    return best / CALLS / POINTS * 1e9


def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        x = x * y + y
    return x


def added(name: str) -> Function:
    function = getattr(torch, name)
    if name in OF_TWO:
        return lambda x, y: function(x, y) + y
    return lambda x, y: function(x) + y


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {platform.machine()}")
    columns = []
    for dtype in (torch.float32, torch.float64):
        inputs = [0.1 + 0.8 * torch.rand(POINTS, dtype=dtype) for _ in range(2)]
        base = element_ns(lambda x, y: x + y, *inputs)
        column = {"plain": (element_ns(plain, *inputs) - base) / 40}
        column |= {name: element_ns(added(name), *inputs) - base for name in (*OF_ONE, *OF_TWO)}
        columns.append(column)
    print(f"{'':12}{'float32':>10}{'float64':>10}")
    for name in columns[0]:
        print(f"{name:12}" + "".join(f"{column[name]:10.2f}" for column in columns))


if __name__ == "__main__":
    main()
