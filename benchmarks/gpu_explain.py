"""Programs with one known dominant cause each on a GPU: what `explain` says, and its advice tried.

    python benchmarks/gpu_explain.py capture OUT [JOBS]    capture each program of programs/gpu, JOBS at once
    python benchmarks/gpu_explain.py measure OUT SECONDS   replay the captured runs, as time allows
    python benchmarks/gpu_explain.py try OUT               advice for the softmax and the transformer, tried

`python benchmarks/explain_accuracy.py --programs gpu --runs OUT` then says which cause comes first.
OUT/try.txt holds the text of the trials.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import CLI, ROOT
from explain_accuracy import capture as capture_one

PROGRAMS = ROOT / "benchmarks" / "programs" / "gpu"
TRIED = {
    "softmax": ROOT / "sample_runs" / "softmax" / "softmax.py",
    "transformer": ROOT / "sample_runs" / "stories" / "transformer_gpu" / "transformer_gpu.py",
}


def quietly(*words: str, seconds: float = 400) -> int:
    """One command with its output thrown away; its exit code, 124 where it took longer."""
    try:
        return subprocess.run([*CLI, *words], capture_output=True, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return 124


def capture(out: Path, jobs: int) -> None:
    def one(program: Path) -> None:
        name = f"{program.parent.name}-{program.stem}"
        start = time.perf_counter()
        code = capture_one(program, out / name, baseline=True, measure=False)
        print(f"{name}: exit code {code}, {time.perf_counter() - start:.0f} s", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, sorted(PROGRAMS.glob("*/*.py"))))


def measure(out: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    for run in sorted(out.glob("*/inspector.json")):
        if time.monotonic() < end:
            code = quietly("replay", str(run.parent), "--rounds", "10", seconds=end - time.monotonic())
            print(f"{run.parent.name}: exit code {code}", flush=True)


def try_advice(out: Path) -> None:
    with (out / "try.txt").open("w") as text:
        for name, program in TRIED.items():
            run = out.parent / f"tried_{name}"
            capture_one(program, run, baseline=True, measure=False)
            for options in (("--measure",), ("--try", "first")):
                done = subprocess.run(
                    [*CLI, "explain", str(run), *options], stdout=subprocess.PIPE, text=True
                )
                text.write(f"== {name}: inspector explain RUN {' '.join(options)}\n{done.stdout}\n")
                text.flush()


def main() -> None:
    what, out = sys.argv[1], Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    if what == "capture":
        capture(out, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    elif what == "measure":
        measure(out, float(sys.argv[3]))
    else:
        try_advice(out)


if __name__ == "__main__":
    main()
