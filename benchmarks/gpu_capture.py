"""What a capture holds on a CUDA machine: results of kernels, saved inputs, the baseline where there is one.

    python benchmarks/gpu_capture.py OUT [NAME ...]

Captures a softmax, the softmax once more with everything tuned, ResNet-50 in half precision, a small Llama
and a training step with indices, each with --save-inputs, and replays the last on what was saved. Writes
OUT/gpu_capture.json (the commands' own objects and the checks), OUT/gpu_capture.txt (their text) and
OUT/records.jsonl (the lines about kernels and inputs). Without a GPU the programs are tiny and no kernel is
checked. Exit code 1 where a check fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import CLI, PYTHON, ROOT

WORKLOADS = ROOT / "benchmarks" / "workloads"
SOFTMAX = ROOT / "sample_runs" / "softmax" / "softmax.py"
TUNED = ("--mode", "max-autotune-no-cudagraphs", "--config", "coordinate_descent_tuning=true")
LIMIT = "1G"


def programs() -> dict[str, tuple[Path, tuple[str, ...]]]:
    """Name -> the program and the capture's options for it."""
    return {
        "softmax": (SOFTMAX, ()),
        "softmax_tuned": (SOFTMAX, TUNED),
        "resnet50": (WORKLOADS / "resnet50.py", ()),
        "llama": (WORKLOADS / "llama.py", ()),
        "embedding": (WORKLOADS / "embedding.py", ()),
    }


def run(*arguments: str, seconds: float = 560) -> dict[str, Any]:
    """One command: exit code, wall time, and both streams; the last lines of standard error."""
    start = time.perf_counter()
    done = subprocess.run([*CLI, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=seconds)
    return {
        "exit_code": done.returncode,
        "seconds": round(time.perf_counter() - start, 2),
        "stdout": done.stdout,
        "stderr": done.stderr[-2000:],
    }


def as_json(*arguments: str) -> dict[str, Any]:
    """The object that a command prints; its error line where it prints none."""
    done = run(*arguments, "--json")
    try:
        found: dict[str, Any] = json.loads(done["stdout"])
    except ValueError:
        return {"error": done["stderr"]}
    return found


def record_lines(folder: Path) -> Iterator[str]:
    """The record's lines that are not about fusion."""
    for path in sorted((folder / "record").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            if json.loads(line)["kind"] != "graph":
                yield line


def check(name: str, folder: Path, summary: dict[str, Any]) -> dict[str, bool]:
    """What must be true of the capture; kernels only where Triton made some."""
    checks = {
        "the recorder had no fault": not (folder / "logs" / "recorder.log").exists(),
        "each graph's inputs were saved": bool(summary.get("saved_inputs"))
        and all(item["file"] is not None for item in summary["saved_inputs"]),
    }
    graphs = summary.get("graphs", [])
    if not sum(graph["kernels"]["triton"] for graph in graphs if graph["kernels"]):
        return checks
    kernels = summary["kernel_results"]
    launched = sum(
        graph["kernels"][kind]
        for graph in graphs
        if graph["kernels"]
        for kind in ("triton", "template", "user")
    )
    checks["every kernel of the wrappers has results"] = len(kernels) >= launched
    checks["with registers, spills and shared memory"] = all(
        isinstance(kernel[key], int) for kernel in kernels for key in ("registers", "spills", "shared_bytes")
    )
    checks["with its configuration"] = all("num_warps" in kernel["config"] for kernel in kernels)
    checks["under its graph"] = all(kernel["graph"] for kernel in kernels)
    if name == "softmax_tuned":
        checks["a table of what tuning tried"] = any(len(kernel["tried"]) > 1 for kernel in kernels)
        checks["max-autotune's choices"] = any('"kind":"choices"' in line for line in record_lines(folder))
    return checks


def main() -> int:
    out = Path(sys.argv[1]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[2:] or list(programs())
    baseline = ("--baseline",) if "--baseline" in run("capture", "--help")["stdout"] else ()
    results: dict[str, Any] = {}
    text: list[str] = []
    lines: list[str] = []
    with TemporaryDirectory(prefix="inspector-gpu-") as temporary:
        for name in wanted:
            program, options = programs()[name]
            folder = Path(temporary) / name
            words = ["-o", str(folder), f"--save-inputs={LIMIT}", *baseline, *options]
            captured = run("capture", *words, "--", PYTHON, str(program))
            summary = as_json("summary", str(folder))
            checks = {"the command succeeded": captured["exit_code"] == 0, **check(name, folder, summary)}
            results[name] = {"capture": captured, "summary": summary, "checks": checks}
            text += [f"== {name}", run("summary", str(folder))["stdout"]]
            if name == "embedding":
                replay = as_json("replay", str(folder), "--trust", "--rounds", "10")
                results[name]["replay"] = replay
                graphs = replay.get("graphs", [])
                checks["replayed on the saved inputs, and right"] = bool(graphs) and all(
                    any(note.startswith("inputs: saved at capture, all") for note in graph["notes"])
                    and {output["verdict"] for output in graph["outputs"]} <= {"match", "compiled_closer"}
                    for graph in graphs
                )
            text += [f"{'yes' if good else 'NO '} {what}" for what, good in checks.items()] + [""]
            lines += [f'{{"run":{json.dumps(name)},"line":{line}}}' for line in record_lines(folder)]
            # After every program, so that a time limit costs only what was not done.
            (out / "gpu_capture.json").write_text(json.dumps(results, indent=1))
            (out / "gpu_capture.txt").write_text("\n".join(text))
            (out / "records.jsonl").write_text("".join(f"{line}\n" for line in lines))
            print("\n".join(text[text.index(f"== {name}") :]), flush=True)
    return int(any(not good for result in results.values() for good in result["checks"].values()))


if __name__ == "__main__":
    raise SystemExit(main())
