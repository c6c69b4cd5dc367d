"""What a reader gets of a wrong kernel: faults planted in a copy of a run, replayed and written as programs.

    python benchmarks/fault_evidence.py PLANTED.jsonl [--faults N] [--interpreter]

PLANTED.jsonl is what `faults.py plant` wrote; of its faults that were caught the first of each kind are
taken. For each: whether what `inspector replay` prints and the JSON that it keeps name the first wrong
kernel, output, index, three values, ulps or relative error and the values that show it, and whether the
program that `inspector repro` writes runs where `inspector` cannot be imported, says what is wrong and
exits with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fault_kinds import Fault

_ALONE = (
    "import runpy, sys; sys.modules['inspector'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
)


def chosen(path: Path, most: int) -> list[dict[str, Any]]:
    """Faults that were caught, the first of each kind."""
    kinds: dict[str, dict[str, Any]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        if line.get("verdict") == "mismatch" and "fault" in line:
            kinds.setdefault(line["fault"][1], line)
    # Those that show on some values only first: they need the more evidence.
    ordered = sorted(kinds.values(), key=lambda line: line["real"] != "values")
    return ordered[: most // 2] + ordered[max(most // 2, len(ordered) - (most - most // 2)) :]


def inspected(*words: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inspector.cli", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, stdin=subprocess.DEVNULL
    )


def looked_at(line: dict[str, Any], folder: Path, interpreter: bool) -> str:
    """What is missing for one fault, in a few words; empty where all is there."""
    from inspector.readers.run import Run

    run = folder / "run"
    shutil.copytree(line["run"], run, ignore=shutil.ignore_patterns("cache", "replay"))
    graph = Run.open(run).graph(line["graph"])
    assert graph.folder is not None
    module = graph.folder / "output_code.py"
    module.write_text(Fault(line["graph"], *line["fault"]).plant(module.read_text()))
    environment = {**os.environ, "NO_COLOR": "1"}
    device = ["--interpreter"] if interpreter else []
    words = (str(run), "--graph", line["graph"], "--trust", *device)
    text = inspected("replay", *words, "--rounds", "3", environment=environment)
    kept = sorted((run / "replay").glob("*.json"))
    missing = []
    graphs = json.loads(kept[-1].read_text())["graphs"]
    wrong = [each for each in graphs[0]["kernels"] if each["verdict"] == "mismatch"]
    if not wrong or wrong[0]["name"] != line["fault"][0]:
        return (
            f"no mismatch of the kernel: {[(each['name'], each['verdict']) for each in graphs[0]['kernels']]}"
        )
    kernel = wrong[0]
    worst = kernel["worst"][0] if kernel["worst"] else {}
    for field in ("output", "index", "first", "compiled", "eager", "reference"):
        if worst.get(field) is None:
            missing.append(f"JSON: {field}")
    finite = all(isinstance(worst.get(side), float) for side in ("compiled", "reference"))
    if finite and worst["reference"] and worst.get("ulps") is None and worst.get("relative") is None:
        missing.append("JSON: ulps and relative error")
    if not kernel["kinds"]:
        missing.append("JSON: kinds of values")
    for part in (kernel["name"][:40], "mismatch", str(worst.get("output", ""))[:20]):
        if part not in text.stdout:
            missing.append(f"text: {part}")
    program = folder / "program.py"
    made = inspected(
        "repro", *words[:4], "--kernel", str(kernel["call"]), "-o", str(program), environment=environment
    )
    if not program.exists():
        return "; ".join([*missing, f"no program: {made.stderr[-300:]}"])
    alone = subprocess.run(
        [sys.executable, "-c", _ALONE, str(program)], capture_output=True, text=True, timeout=200, cwd=folder,
        env={**environment, "PYTHONPATH": ""},
    )  # fmt: skip
    if alone.returncode != 1 or "first [" not in alone.stdout:
        said = (alone.stdout + alone.stderr)[-300:]
        missing.append(f"the program exits with {alone.returncode}: {said}")
    return "; ".join(missing)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("planted", type=Path)
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--interpreter", action="store_true")
    options = parser.parse_args()
    for line in chosen(options.planted, options.faults):
        with TemporaryDirectory() as folder:
            try:
                missing = looked_at(line, Path(folder), options.interpreter)
            except Exception as error:
                missing = f"{type(error).__name__}: {error}"
        kernel, kind, _ = line["fault"]
        print(f"{kind} ({line['real']}) in {kernel[:50]}: {missing or 'all there'}", flush=True)


if __name__ == "__main__":
    main()
