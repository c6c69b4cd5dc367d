"""What a reader gets of a wrong kernel: faults planted again, judged, and written as programs.

    python benchmarks/fault_evidence.py PLANTED.jsonl [--faults N]

PLANTED.jsonl is what `faults.py plant` wrote; of its faults that were caught the first of each kind are
taken. For each: whether the result, and the lines that are shown of it, have the first wrong kernel, output,
index, three values, ulps or relative error and the values that show it, and whether the program that
`inspector repro` writes runs where `inspector` cannot be imported, says what is wrong and exits with 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fault_kinds import Fault
from faults import verdicts

_ALONE = (
    "import runpy, sys; sys.modules['inspector'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
)


def chosen(path: Path, most: int) -> list[dict[str, Any]]:
    """Faults that were caught, the first of each kind; half of them show on some values only."""
    kinds: dict[str, dict[str, Any]] = {}
    for line in map(json.loads, path.read_text().splitlines()):
        if line.get("verdict") == "mismatch" and "fault" in line:
            kinds.setdefault(line["fault"][1], line)
    ordered = sorted(kinds.values(), key=lambda line: line["real"] != "values")
    return ordered[: most // 2] + ordered[max(most // 2, len(ordered) - (most - most // 2)) :]


def looked_at(line: dict[str, Any], folder: Path) -> str:
    """What is missing for one fault, in a few words; empty where all is there."""
    from inspector.present.replay import element_text, evidence_texts, problem_text
    from inspector.readers.run import Run
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions

    files = graph_files(Run.open(Path(line["run"])).graph(line["graph"]))
    module = folder / "output_code.py"
    module.write_text(Fault(line["graph"], *line["fault"]).plant(files.output_code.read_text()))
    options = ReplayOptions(whole=False, time_kernels=False, seed=1, repro=True)
    programs: dict[int, str] = {}
    kernels, _, failure = verdicts(replace(files, output_code=module), options, programs)
    wrong = next((each for _, each in sorted(kernels.items()) if each.verdict == "mismatch"), None)
    if wrong is None or wrong.name != line["fault"][0]:
        return f"{failure} {[(each.name, each.verdict) for each in kernels.values()]}"
    missing = []
    worst = wrong.worst[0] if wrong.worst else None
    if worst is None or worst.first is None:
        missing.append("no worst element")
    else:
        shown = " ".join([problem_text(wrong), element_text(worst), *evidence_texts(worst)])
        finite = isinstance(worst.reference, float) and isinstance(worst.compiled, float)
        if finite and worst.reference and worst.ulps is None and worst.relative is None:
            missing.append("neither ulps nor relative error")
        for part in (wrong.name, "mismatch", worst.output, "compiled", "op by op", "wrong from"):
            if part not in shown:
                missing.append(f"{part} is not shown")
    if line["real"] == "values" and not wrong.reason.startswith("on "):
        missing.append("the values that show it are not named")
    program = folder / "program.py"
    program.write_text(programs.get(wrong.call, ""))
    environment = {**os.environ, "PYTHONPATH": ""}
    command = [sys.executable, "-c", _ALONE, str(program)]
    alone = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
    if alone.returncode != 1 or "first [" not in alone.stdout:
        missing.append(f"the program exits with {alone.returncode}: {(alone.stdout + alone.stderr)[-300:]}")
    return "; ".join(missing)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("planted", type=Path)
    parser.add_argument("--faults", type=int, default=12)
    options = parser.parse_args()
    for line in chosen(options.planted, options.faults):
        with TemporaryDirectory() as folder:
            try:
                missing = looked_at(line, Path(folder))
            except Exception as error:
                missing = f"{type(error).__name__}: {error}"
        kernel, kind, _ = line["fault"]
        print(f"{kind} ({line['real']}) in {kernel[:50]}: {missing or 'all there'}", flush=True)


if __name__ == "__main__":
    main()
