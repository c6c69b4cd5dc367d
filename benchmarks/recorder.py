"""What watching costs: a captured run beside the same command with torch's own debug output, run in turn.

    python benchmarks/recorder.py [ROUNDS] [PROGRAM.py]

Both have empty caches. The capture adds the recorder, the structured trace, the log and its own start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from common import PYTHON, ROOT, describe, machine, ratio

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


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    program = str(Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else PROGRAM)
    capture = [PYTHON, "-m", "inspector.cli", "capture", "-q", "-o", "FOLDER/run"]
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


if __name__ == "__main__":
    main()
