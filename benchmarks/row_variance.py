"""A regression of torch's own: the variance of each row of a large table, compiled by 2.9.1 and by 2.13.

    inspector capture --exit-zero --env OMP_NUM_THREADS=1 -o run -- python2.13 benchmarks/row_variance.py
    inspector blame run --metric exit --over packages --python python2.9.1 --python python2.13

As a test of a program would, it says whether that takes little longer than reading the table once does: the
exit code is 1 where it takes more than 1.6 times as long as a sum. Processor time, the least of 30 calls.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch


def spread(table: torch.Tensor) -> torch.Tensor:
    return table.var(dim=1)


def total(table: torch.Tensor) -> torch.Tensor:
    return table.sum(dim=1)


def least(function: Callable[[torch.Tensor], torch.Tensor], table: torch.Tensor) -> float:
    times = []
    for _ in range(30):
        began = time.process_time()
        function(table)
        times.append(time.process_time() - began)
    return min(times)


def main() -> int:
    torch.manual_seed(0)
    table = torch.randn(51_200, 1_000)
    with torch.no_grad():
        spread_s, total_s = (least(torch.compile(function), table) for function in (spread, total))
    print(f"torch {torch.__version__}: spread {spread_s * 1e3:.1f} ms, sum {total_s * 1e3:.1f} ms")
    return int(spread_s > 1.6 * total_s)


if __name__ == "__main__":
    sys.exit(main())
