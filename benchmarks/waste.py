"""Each program of programs/waste beside its twin, which does the same without the waste.

    python benchmarks/waste.py OUT.jsonl [--only WORD] [--jobs 8] [--seconds 1.0]

A program has `step`, `twin` and `inputs`; where `TWIN_CONFIG` is set the twin is compiled with those settings
of torch._inductor.config. Programs compile several at a time, each in a process of its own; when all are
ready they are timed one after another, eager, compiled and twin in turns, and a JSON line has the medians
in milliseconds, the ratio of compiled to twin, and the largest difference between their results.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs/waste"


def measure(name: str, seconds: float) -> dict[str, object]:
    """Compile, say so, wait to be told to go on, time."""
    import torch

    sys.path.insert(0, str(PROGRAMS / Path(name).parent))
    program = importlib.import_module(Path(name).name)
    sides = {"eager": program.step, "compiled": torch.compile(program.step)}
    config = getattr(program, "TWIN_CONFIG", {})
    sides["twin"] = torch.compile(program.twin, options=config) if config else torch.compile(program.twin)
    result: dict[str, object] = {"program": name}
    with torch.no_grad():
        values = {}
        for side, function in sides.items():
            torch.manual_seed(1)
            values[side] = function(*program.inputs())
            args = program.inputs()
            function(*args)
        print("ready", flush=True)
        sys.stdin.readline()
        args = program.inputs()
        times: dict[str, list[float]] = {side: [] for side in sides}
        for function in sides.values():
            function(*args)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times["twin"]) < 5:
            for side, function in sides.items():
                start = time.perf_counter()
                function(*args)
                times[side].append((time.perf_counter() - start) * 1e3)
    medians = {side: statistics.median(own) for side, own in times.items()}
    result.update({side: round(value, 4) for side, value in medians.items()})
    result["ratio"] = round(medians["compiled"] / medians["twin"], 2)
    result["rounds"] = len(times["twin"])
    result["difference"] = float((values["compiled"] - values["twin"]).abs().max())
    result["torch"] = torch.__version__
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--one", action="store_true", help="in this process, after a line on standard input")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.only, options.seconds)), flush=True)
        return
    names = [f"{path.parent.name}/{path.stem}" for path in sorted(PROGRAMS.glob("*/*.py"))]
    names = [name for name in names if options.only in name]
    waiting = list(names)
    running: dict[str, subprocess.Popen[str]] = {}
    ready: dict[str, subprocess.Popen[str]] = {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            command = [sys.executable, __file__, str(options.out), "--one", "--only", name]
            command += ["--seconds", str(options.seconds)]
            running[name] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "OMP_WAIT_POLICY": "passive"},
            )
        for name, process in list(running.items()):
            del running[name]
            if process.stdout is not None and process.stdout.readline() == "ready\n":
                ready[name] = process
            else:
                print(f"{name}: failed", flush=True)
    with options.out.open("a") as out:
        for name, process in ready.items():
            line = process.communicate("go\n")[0].strip()
            print(line or f"{name}: failed", flush=True)
            out.write(line + "\n" if line else "")


if __name__ == "__main__":
    main()
