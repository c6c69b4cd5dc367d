"""Ways to add rows into cells by index on a CPU: what Inductor makes of it, ATen's kernels, sorting first.

``python benchmarks/scatter.py`` prints medians in microseconds, in turns in one process; `sorted once` is
what a call takes whose indices were put in order before. The advice of the rule `atomics` goes by these.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch
from awkward_calls import once
from torch import Tensor
from torch.nn import functional

ROUNDS = 9
SIZES = (
    (200_000, 4_000, 1),
    (200_000, 200_000, 1),
    (1_000_000, 10_000, 1),
    (200_000, 4_000, 8),
    (200_000, 100_000, 8),
    (100_000, 2_000, 64),
    (100_000, 50_000, 64),
    (20_000, 100_000, 32),
)
"""Rows, cells, columns."""


def ways(rows: int, cells: int, columns: int) -> dict[str, Callable[[], Tensor]]:
    index, values = torch.randint(0, cells, (rows,)), torch.randn(rows, columns)
    wide = index[:, None].expand(rows, columns)
    order, counts = torch.argsort(index), torch.bincount(index, minlength=cells)
    offsets = counts.cumsum(0) - counts

    def adding() -> Tensor:
        return torch.zeros(cells, columns).index_add(0, index, values)

    def sorting() -> Tensor:
        now, places = torch.sort(index)
        lengths = torch.bincount(now, minlength=cells)
        return torch.segment_reduce(values[places], "sum", lengths=lengths)

    return {
        "compiled": torch.compile(adding),
        "index_add": adding,
        "scatter_add": lambda: torch.zeros(cells, columns).scatter_add(0, wide, values),
        "sorted each time": sorting,
        "sorted once": lambda: functional.embedding_bag(order, values, offsets, mode="sum"),
    }


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads of a CPU")
    for size in SIZES:
        torch._dynamo.reset()
        calls = ways(*size)
        for call in calls.values():
            torch.testing.assert_close(call(), calls["index_add"](), rtol=1e-3, atol=1e-2)
            call()
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                times[name].append(once(call, "cpu"))
        said = ", ".join(f"{name} {statistics.median(own):.0f}" for name, own in times.items())
        print("  {:>9,} rows into {:>7,} cells of {:>2}: {}".format(*size, said), flush=True)


if __name__ == "__main__":
    main()
