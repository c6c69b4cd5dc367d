"""What generated C++ takes to keep masks in memory and to read them, against eager's kernels.

``python benchmarks/bool_masks.py`` prints for each case and size the medians in microseconds of eager's
kernels, of Inductor's, of Inductor's with a compiler that gets ``-ftree-loop-vectorize`` behind all that
Inductor asks for (a script that the benchmark writes), and with random numbers drawn by ATen (the setting
fallback_random): the rules `bool_masks` and `random_numbers` are about the second column.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 60
SIZES = (20_000, 73_728, 300_000, 1_200_000)


def once(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e6


def measure() -> None:
    """One column: the medians of the compiled cases, and of eager's where asked for."""
    import torch
    import torch._inductor.config

    eager = sys.argv[1] == "eager"
    torch._inductor.config.fallback_random = sys.argv[1] == "drawn"
    for size in SIZES:
        x = torch.randn(size)
        mask = x > 0
        cases: dict[str, tuple[Callable[..., object], tuple[torch.Tensor, ...]]] = {
            "x > 0": (lambda x: x > 0, (x,)),
            "(x > 0).float()": (lambda x: (x > 0).float(), (x,)),
            "where(mask, x, 0.1 x)": (lambda m, x: torch.where(m, x, x * 0.1), (mask, x)),
            "mask & ~mask": (lambda m: m & ~m, (mask,)),
            "float64 > 0": (lambda x: x > 0, (x.double(),)),
            "bfloat16 > 0": (lambda x: x > 0, (x.bfloat16(),)),
            "dropout, with its mask": (lambda x: torch.ops.aten.native_dropout(x, 0.1, True), (x,)),
            "rand": (lambda x: torch.rand_like(x) + x, (x,)),
            "randn": (lambda x: torch.randn_like(x) + x, (x,)),
        }
        for name, (case, given) in cases.items():
            torch._dynamo.reset()
            call = case if eager else torch.compile(case)
            for _ in range(10):
                call(*given)
            took = statistics.median(once(lambda: call(*given)) for _ in range(ROUNDS))  # noqa: B023
            print(f"{name}\t{size}\t{took}", flush=True)


def column(which: str, compiler: str | None, cache: Path) -> dict[tuple[str, str], float]:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    if compiler is not None:
        environment["CXX"] = compiler
    command = [sys.executable, __file__, which]
    text = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    rows = (line.split("\t") for line in text.splitlines())
    return {(name, size): float(took) for name, size, took in rows}


def main() -> None:
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {capability}")
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "g++-loops")
        script.write_text('#!/bin/sh\nexec g++ "$@" -ftree-loop-vectorize\n')
        script.chmod(0o755)
        ways = (("eager", None), ("compiled", None), ("vectors", str(script)), ("drawn", None))
        columns = [column(name, compiler, Path(folder, name)) for name, compiler in ways]
    print(f"  {'':24} {'elements':>10} {'eager':>10} {'compiled':>10} {'vectors':>10} {'drawn':>10} us")
    for name, size in columns[0]:
        times = "".join(f" {each[name, size]:10.1f}" for each in columns)
        print(f"  {name:24} {int(size):10,}{times}")


if __name__ == "__main__":
    measure() if len(sys.argv) > 1 else main()
