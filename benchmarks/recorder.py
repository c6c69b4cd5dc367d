"""What watching costs: a captured run beside the same command with torch's own debug output, run in turn.

    python benchmarks/recorder.py [ROUNDS] [PROGRAM.py]

Both have empty caches. The capture adds the recorder, the structured trace, the log and its own start.
Then the steady calls of two compiled functions, timed by the program itself: captured, and not.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from common import CLI, PYTHON, ROOT, describe, machine, ratio

STEADY = ROOT / "benchmarks" / "workloads" / "steady.py"
PROGRAM = ROOT / "sample_runs" / "transformer" / "transformer.py"


def seconds(command: list[str], **environment: str) -> float:
    """Wall time of a command in a folder that is thrown away; raises where it fails."""
    with TemporaryDirectory(prefix="inspector-bench-") as folder:
        texts = {name: value.replace("FOLDER", folder) for name, value in environment.items()}
        words = [word.replace("FOLDER", folder) for word in command]
        start = time.perf_counter()
        subprocess.run(
            words,
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **texts},
        )
        return time.perf_counter() - start


def steady(command: list[str], folder: Path, **environment: str) -> list[float]:
    """Microseconds a call that the program prints, one number for each of its functions."""
    words = [word.replace("FOLDER", str(folder)) for word in command]
    done = subprocess.run(
        words, check=True, capture_output=True, text=True, env={**os.environ, **environment}, cwd=folder
    )
    return [float(line) for line in done.stdout.split()]


def compare_steady(rounds: int) -> None:
    """Pairs of an uncaptured and a captured run, in turn; the caches are shared by the uncaptured ones."""
    found: dict[str, list[list[float]]] = {"uncaptured": [], "captured": []}
    with TemporaryDirectory(prefix="inspector-bench-") as caches:
        for number in range(rounds):
            bare = [PYTHON, str(STEADY)]
            found["uncaptured"].append(steady(bare, Path(caches), TORCHINDUCTOR_CACHE_DIR=caches))
            words = [*CLI, "capture", "-q", "-o", f"FOLDER/run{number}", "--", *bare]
            found["captured"].append(steady(words, Path(caches), PYTHONPATH=str(ROOT)))
    for index, name in enumerate(("softmax of 100x100", "pointwise on 1 M elements")):
        bare_us, captured_us = ([one[index] for one in found[key]] for key in ("uncaptured", "captured"))
        print(
            f"steady {name}: uncaptured {statistics.median(bare_us):.1f} us a call, captured "
            f"{statistics.median(captured_us):.1f} us; ratio {ratio(captured_us, bare_us)}"
        )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    program = str(Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else PROGRAM)
    capture = [*CLI, "capture", "-q", "-o", "FOLDER/run"]
    commands = {
        "capture": [*capture, "--", PYTHON, program],
        "capture --no-record": [*capture, "--no-record", "--", PYTHON, program],
    }
    torch = {
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": "FOLDER/debug",
        "TORCHINDUCTOR_CACHE_DIR": "FOLDER/inductor",
        "TRITON_CACHE_DIR": "FOLDER/triton",
    }
    print(machine())
    times: dict[str, list[float]] = {name: [] for name in ("debug", *commands)}
    for _ in range(rounds):
        times["debug"].append(seconds([PYTHON, program], **torch))
        for name, command in commands.items():
            times[name].append(seconds(command))
    print(f"{Path(program).name} with TORCH_COMPILE_DEBUG=1 alone: {describe(times['debug'])}")
    for name in commands:
        print(f"{name}: {describe(times[name])}; ratio {ratio(times[name], times['debug'])}")
    compare_steady(rounds)


if __name__ == "__main__":
    main()
