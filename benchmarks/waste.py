"""Each program of programs/waste beside its twin, which does the same without the waste.

    python benchmarks/waste.py OUT.jsonl [--programs FOLDER] [--only WORD] [--jobs 8] [--seconds 1.0]

A program has `step`, `twin` and `inputs`; where `TWIN_CONFIG` is set the twin is compiled with those settings
of torch._inductor.config, and where `TRAINS` is, the gradient of its inputs is taken too. Programs compile
several at a time, each in a process of its own; when all are ready they are timed one after another, eager,
compiled and twin in turns, and a JSON line has the medians in milliseconds (of ten calls at once on a GPU),
the ratio of compiled to twin, and the largest difference between their results.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parent / "programs/waste"


def measure(programs: Path, name: str, seconds: float) -> dict[str, object]:
    """Compile, say so, wait to be told to go on, time."""
    import torch
    from torch.utils._pytree import tree_leaves

    sys.path.insert(0, str(programs / Path(name).parent))
    program = importlib.import_module(Path(name).name)
    sides = {"eager": program.step, "compiled": torch.compile(program.step)}
    config = getattr(program, "TWIN_CONFIG", {})
    sides["twin"] = torch.compile(program.twin, options=config) if config else torch.compile(program.twin)
    trains = getattr(program, "TRAINS", False)

    def call(function: Callable[..., object], args: tuple[object, ...]) -> list[torch.Tensor]:
        result = [leaf for leaf in tree_leaves(function(*args)) if isinstance(leaf, torch.Tensor)]
        if not trains:
            return result
        wanted = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
        return list(torch.autograd.grad(result[0].square().mean(), wanted))

    gpu = any(isinstance(arg, torch.Tensor) and arg.is_cuda for arg in program.inputs())
    calls = 10 if gpu else 1
    wait = torch.cuda.synchronize if gpu else lambda: None
    result: dict[str, object] = {"program": name}
    with torch.set_grad_enabled(trains):
        values = {}
        for side, function in sides.items():
            torch.manual_seed(1)
            values[side] = call(function, program.inputs())
            call(function, program.inputs())
        far = (
            float((one.double() - other.double()).abs().max())
            for one, other in zip(values["compiled"], values["twin"], strict=True)
        )
        result["difference"] = max(far)
        values.clear()
        print("ready", flush=True)
        sys.stdin.readline()
        args = program.inputs()
        times: dict[str, list[float]] = {side: [] for side in sides}
        for function in sides.values():
            call(function, args)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(times["twin"]) < 5:
            for side, function in sides.items():
                wait()
                start = time.perf_counter()
                for _ in range(calls):
                    call(function, args)
                wait()
                times[side].append((time.perf_counter() - start) * 1e3 / calls)
    medians = {side: statistics.median(own) for side, own in times.items()}
    result.update({side: round(value, 4) for side, value in medians.items()})
    result["ratio"] = round(medians["compiled"] / medians["twin"], 2)
    result["rounds"] = len(times["twin"])
    result["torch"] = torch.__version__
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--programs", type=Path, default=PROGRAMS)
    parser.add_argument("--only", default="", help="words with commas, each a part of a program's name")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--one", action="store_true", help="in this process, after a line on standard input")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.programs, options.only, options.seconds)), flush=True)
        return
    names = [f"{path.parent.name}/{path.stem}" for path in sorted(options.programs.glob("*/*.py"))]
    names = [name for name in names if any(word in name for word in options.only.split(","))]
    waiting = list(names)
    running: dict[str, subprocess.Popen[str]] = {}
    ready: dict[str, subprocess.Popen[str]] = {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            command = [sys.executable, __file__, str(options.out), "--one", "--only", name]
            command += ["--programs", str(options.programs), "--seconds", str(options.seconds)]
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
