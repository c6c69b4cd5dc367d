"""Capture and replay on a CUDA machine: every workload here, the samples, and the captured H200 runs.

    python benchmarks/gpu.py OUT [NAME ...]

Writes OUT/gpu.json (summaries and replays, as the commands print them), OUT/gpu.txt (a table) and, for
each capture, OUT/NAME.tar.xz without caches and local paths. The step named `kernels` is gpu_kernels.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import CLI, DATA, PYTHON, ROOT

sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "sample_runs"))

import gpu_kernels
import refresh

PROGRAMS = [
    *(ROOT / "sample_runs" / name / f"{name}.py" for name in ("softmax", "transformer", "breaks", "h200")),
    *sorted((ROOT / "benchmarks" / "workloads").glob("*.py")),
]


def run_json(*arguments: str) -> dict[str, Any]:
    """The command's object; a failure is recorded with its error line instead."""
    start = time.perf_counter()
    done = subprocess.run([*CLI, *arguments, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=590)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        result = {"error": done.stderr.strip()[-2000:]}
    result["exit_code"] = done.returncode
    result["seconds"] = round(time.perf_counter() - start, 2)
    return result


def capture(program: Path, run: Path) -> dict[str, Any]:
    command = [*CLI, "capture", "-o", str(run), "--", PYTHON, str(program)]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    seconds = round(time.perf_counter() - start, 2)
    return {"exit_code": done.returncode, "seconds": seconds, "stderr": done.stderr[-1500:]}


def lines(name: str, result: dict[str, Any]) -> list[str]:
    if "error" in result:
        return [f"{name:<24} replay failed: {result['error']}"]
    found = []
    for graph in result["graphs"]:
        verdicts: dict[str, int] = {}
        for output in graph["outputs"]:
            verdicts[output["verdict"]] = verdicts.get(output["verdict"], 0) + 1
        times = [graph.get(key) for key in ("eager_ms", "compiled_ms", "speedup")]
        shown = ["-" if value is None else f"{value:.4f}" for value in times]
        outcome = graph.get("failure") or ", ".join(
            f"{count} {verdict}" for verdict, count in verdicts.items()
        )
        found.append(f"{name:<24} {graph['name']:<26} {shown[0]:>9} {shown[1]:>9} {shown[2]:>8}  {outcome}")
    return found


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    wanted = set(sys.argv[2:])
    out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {}
    table = [f"{'run':<24} {'graph':<26} {'eager ms':>9} {'compiled':>9} {'speedup':>8}  outputs"]
    with TemporaryDirectory() as folder:
        for program in PROGRAMS:
            if wanted and program.stem not in wanted:
                continue
            run = Path(folder).resolve() / program.stem
            result = {"capture": capture(program, run)}
            if run.is_dir():
                result["summary"] = run_json("summary", str(run))
                result["replay"] = run_json("replay", str(run), "--trust")
                table += lines(program.stem, result["replay"])
                refresh.pack(run, out / f"{program.stem}.tar.xz")
            results[program.stem] = result
            save(out, results, table)
        if not wanted or "kernels" in wanted:
            gpu_kernels.kernels_of_corpus(out, [])
        if not wanted or "corpus" in wanted:
            archive = DATA / "h200-torch2.11.tar.xz"
            subprocess.run(["tar", "xf", str(archive), "-C", folder], check=True)
            for run in sorted((Path(folder) / "h200-torch2.11").iterdir()):
                result = {"replay": run_json("replay", str(run), "--trust")}
                table += lines(f"corpus/{run.name}", result["replay"])
                results[f"corpus/{run.name}"] = result
                save(out, results, table)


def save(out: Path, results: dict[str, Any], table: list[str]) -> None:
    """After every run, so that a time limit costs only what was not done."""
    (out / "gpu.json").write_text(json.dumps(results, indent=1))
    (out / "gpu.txt").write_text("\n".join(table) + "\n")
    print(table[-1], flush=True)


if __name__ == "__main__":
    main()
