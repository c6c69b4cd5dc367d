"""Each program of programs/waste beside its twin, which does the same without the waste.

    python benchmarks/waste.py OUT.jsonl [--programs FOLDER ...] [--only WORD] [--jobs 8] [--seconds 1.0]
                               [--runs FOLDER]

Some of them are stories and lie in sample_runs/stories; what has no twin there is passed over. A program has
`step`, `twin` and `inputs`; where `TWIN_CONFIG` is set the twin is compiled with those settings of
torch._inductor.config, and where `TRAINS` is, the gradient of its inputs is taken too. Programs compile
several at a time, each in a process of its own; when all are ready they are timed one after another, eager,
compiled and twin in turns, and a JSON line has the medians in milliseconds (of ten calls at once on a GPU),
the ratio of compiled to twin, and the largest difference between their results. With `--runs`, which holds
a capture of each as KIND-NAME, the setting that explain advises there is timed beside them, as `tried`.
"""

from __future__ import annotations

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
from types import FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inspector.model.explain import Trial

HERE = Path(__file__).resolve().parent
PROGRAMS = (HERE / "programs/waste", HERE.parent / "sample_runs/stories")
KINDS = ("functionalized_copies", "recomputed", "decomposition_slower", "random_numbers", "constant_work")


def advised(runs: Path, path: Path) -> Trial | None:
    """The setting of the first finding that has one and is louder than low."""
    from inspector.explain import explain
    from inspector.readers.run import Run
    from inspector.replay.store import load_results

    run = runs / f"{path.parent.name}-{path.stem}"
    findings = explain(Run.open(run), load_results(run)).findings if run.is_dir() else ()
    loud = (item.trial for item in findings if item.severity != "low" and item.rule in KINDS)
    return next(filter(None, loud), None)


def with_setting(step: FunctionType, trial: Trial) -> Callable[..., object]:
    """The step compiled with it: from its first call on, everything else is compiled so, too."""
    import torch

    from inspector.capture.bootstrap.sitecustomize import keep_in_place, keep_whole

    for name in trial.whole:
        keep_whole(torch, name)
    if trial.in_place:
        keep_in_place()
    own = FunctionType(step.__code__.replace(co_name="tried"), step.__globals__, "tried")
    return torch.compile(own, options=dict(trial.config) or None)


def measure(path: Path, seconds: float, runs: Path | None) -> dict[str, object]:
    """Compile, say so, wait to be told to go on, time."""
    import torch
    from torch.utils._pytree import tree_leaves

    sys.path.insert(0, str(path.parent))
    program = importlib.import_module(path.stem)
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
    result: dict[str, object] = {"program": f"{path.parent.name}/{path.stem}"}
    trial = advised(runs, path) if runs is not None else None
    if trial is not None:
        result["setting"] = trial.label
    with torch.set_grad_enabled(trains):
        values = {}
        for side, function in sides.items():
            torch.manual_seed(1)
            values[side] = call(function, program.inputs())
            call(function, program.inputs())
        if trial is not None:
            sides["tried"] = with_setting(program.step, trial)
            torch.manual_seed(1)
            values["tried"] = call(sides["tried"], program.inputs())
        far = (
            float((one.double() - other.double()).abs().max())
            for side in ("twin", "tried")[: len(values) - 2]
            for one, other in zip(values["compiled"], values[side], strict=True)
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
    parser.add_argument("--programs", type=Path, nargs="+", default=PROGRAMS)
    parser.add_argument("--only", default="", help="words with commas, each a part of a program's name")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--one", type=Path, help="in this process, after a line on standard input")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.seconds, options.runs)), flush=True)
        return
    waiting = [
        path
        for folder in options.programs
        for path in sorted(folder.glob("*/*.py"))
        if "twin" in path.read_text() and any(word in str(path) for word in options.only.split(","))
    ]
    running: dict[Path, subprocess.Popen[str]] = {}
    ready: dict[Path, subprocess.Popen[str]] = {}
    while waiting or running:
        while waiting and len(running) < options.jobs:
            path = waiting.pop(0)
            command = [sys.executable, __file__, str(options.out), "--one", str(path)]
            command += ["--seconds", str(options.seconds)]
            command += ["--runs", str(options.runs)] if options.runs is not None else []
            running[path] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "OMP_WAIT_POLICY": "passive", "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"},
            )
        for path, process in list(running.items()):
            del running[path]
            if process.stdout is not None and process.stdout.readline() == "ready\n":
                ready[path] = process
            else:
                print(f"{path.stem}: failed", flush=True)
    with options.out.open("a") as out:
        for path, process in ready.items():
            line = process.communicate("go\n")[0].strip()
            print(line or f"{path.stem}: failed", flush=True)
            out.write(line + "\n" if line else "")


if __name__ == "__main__":
    main()
