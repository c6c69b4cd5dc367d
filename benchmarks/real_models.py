"""Programs of benchmarks/programs/real, as users of their libraries write them, through every command.

    python benchmarks/real_models.py [-k TEXT] [--python EXE] [--keep FOLDER] [--out FILE] [--with nothing|baseline|profiles]

Each program runs plainly, then below `inspector capture --baseline` (hours, `--with nothing` less), and what came of it is summarised,
explained, listed, replayed and browsed (a walk through the main screens, in a terminal of 100 x 30 that nobody
sees). A program is skipped where its library cannot be imported. A line of the table is printed, and appended to
FILE, as soon as its program is done. Exits with 1 where a command of ours failed, or showed a traceback.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common import CLI, PYTHON, ROOT

PROGRAMS = ROOT / "benchmarks" / "programs" / "real"
LIMIT_S = 900.0
UNPRINTED = ("test_", "ddp_", "notebook")
COLUMNS = (
    f"{'program':22} {'graphs':>6} {'torch':>5} {'breaks':>6} {'torch':>5} {'again':>5} {'torch':>5} {'kernels':>7} {'plain':>7} {'captured':>8} {'ratio':>5}"
    f" {'MB':>5} {'peak MB':>7} {'TUI MB':>6}  said first"
)

# How a program that is no plain script is run, by the beginning of its name.
WAYS = {
    "test_": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "FILE"),
    "ddp_": ("-m", "torch.distributed.run", "--nproc-per-node", "2", "FILE"),
    "notebook": ("-m", "jupyter", "execute", "FILE"),
}
WITH = {"nothing": [], "baseline": ["--baseline", "--no-profile"], "profiles": ["--baseline"]}
FAILS = {"test_of_a_model"}
"""Those that end with exit code 1 as they are meant to."""

COUNTS = """
import atexit, json, os, sys
def tell():
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        graphs = sum(utils.counters["inductor"].get("fxgraph_cache_" + how, 0) for how in ("miss", "hit", "bypass"))
        ids = {metrics.compile_id.split("_")[0] for metrics in utils.get_compilation_metrics() if metrics.compile_id}
        again = sum(not one.endswith("/0") for one in ids)
        counts = {"graphs": graphs, "breaks": sum(utils.counters["graph_break"].values()), "again": again}
        open(os.path.join(os.environ["COUNTS"], "counts.%d" % os.getpid()), "w").write(json.dumps(counts))
atexit.register(tell)
"""
"""A `sitecustomize.py` of the plain run: torch's own counters at each process's end (torch/_dynamo/utils.py: counters,
of which Inductor's count forward and backward graphs, and CompilationMetrics, of which the last 64 are kept)."""

BROWSE = """
import asyncio, resource, sys
from inspector.tui.app import InspectorApp
async def main():
    app = InspectorApp(sys.argv[1])
    async with app.run_test(size=(100, 30)) as pilot:
        for key in ("", "g", "escape", "enter", "1", "2", "3", "4", "5", "6", "escape", "f", "escape", "t", "escape"):
            await pilot.press(*([key] if key else []))
            await pilot.pause(0.3)
asyncio.run(main())
"""


@dataclass
class Ran:
    """How a command ended: seconds, peak memory in MB, what it printed."""

    code: int
    seconds: float
    peak: float
    out: str
    errors: str


def run(command: list[str], folder: Path, **environment: str) -> Ran:
    """One command; of its peak the kernel tells that of the largest child so far, so each has a process."""
    measured = (
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[2:]);"
        "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(code)"
    )
    start = time.perf_counter()
    peak = folder / "peak"
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", **environment}
    try:
        done = subprocess.run(
            [PYTHON, "-c", measured, str(peak), *command],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        code, out, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, out, errors = 124, "", f"not done after {LIMIT_S:.0f} s"
    memory = float(peak.read_text()) / 1024 if peak.exists() else 0.0
    peak.unlink(missing_ok=True)
    return Ran(code, time.perf_counter() - start, memory, out, errors)


def command_of(program: Path, python: str) -> list[str]:
    words = next((words for start, words in WAYS.items() if program.name.startswith(start)), ("FILE",))
    return [python, *(str(program) if word == "FILE" else word for word in words)]


def counted(command: list[str], folder: Path) -> tuple[Ran, dict[str, int]]:
    """A plain run of the program, and what Dynamo itself counted in all of its processes."""
    with tempfile.TemporaryDirectory(prefix="inspector-counts-") as counts:
        (Path(counts) / "sitecustomize.py").write_text(COUNTS)
        paths = os.pathsep.join([counts, *filter(None, [os.environ.get("PYTHONPATH")])])
        plain = run(
            command, folder, PYTHONPATH=paths, COUNTS=counts, TORCHINDUCTOR_CACHE_DIR=f"{counts}/cache"
        )
        told = [json.loads(path.read_text()) for path in Path(counts).glob("counts.*")]
    return plain, {what: sum(one[what] for one in told) for what in ("graphs", "breaks", "again")}


def look(program: Path, python: str, folder: Path, baseline: list[str]) -> tuple[str, list[str]]:
    """The program's line of the table, and what is wrong."""
    name, wrong = program.stem, []
    command = command_of(program, python)
    plain, theirs = counted(command, folder)
    if plain.code and name not in FAILS:
        missing = re.findall(r"(?:ModuleNotFoundError|ImportError): (.*)", plain.errors)
        return f"{name:22} skipped: {missing[-1] if missing else plain.errors.strip()[-100:]}", []
    kept = folder / name
    captured = run([*CLI, "capture", *baseline, "-o", str(kept), "--", *command], folder)
    if captured.code != plain.code:
        wrong.append(f"captured: exit code {captured.code}, plain: {plain.code}")
    results = {
        what: run([*CLI, *words], folder)
        for what, words in {
            "summary": ["summary", str(kept), "--json"],
            "summary text": ["summary", str(kept)],
            "explain": ["explain", str(kept)],
            "fusions": ["fusions", str(kept)],
            "trace": ["trace", str(kept)],
            "replay": ["replay", str(kept), "--no-kernels", "--rounds", "5", "--timeout", "60", "--trust"],
        }.items()
    }
    results["browse"] = run([PYTHON, "-c", BROWSE, str(kept)], folder)
    for what, result in {**results, "capture": captured}.items():
        text = result.errors + (result.out if what != "capture" else "")
        ours = re.findall(r"Traceback[\s\S]*?inspector/[a-z]\w+/\S+\.py[\s\S]*?\n(\w+(?:\.\w+)*: .*)", text)
        if ours:
            wrong.append(f"{what}: {ours[-1]}")
        elif result.code not in (0, 1) and what != "capture" and "no compiled graph to replay" not in text:
            wrong.append(f"{what}: exit code {result.code}: {result.errors.strip()[-200:]}")
        (kept / f"{what.replace(' ', '_')}.said").write_text(result.out + result.errors)
    try:
        told = json.loads(results["summary"].out)
    except ValueError:
        return f"{name:22} summary said no JSON", [*wrong, "summary --json"]
    kernels = sum(graph["kernel_calls"] or 0 for graph in told["graphs"])
    size = sum(path.stat().st_size for path in kept.rglob("*") if path.is_file() and not path.is_symlink())
    first = results["explain"].out.strip().splitlines()
    line = (
        f"{name:22} {len(told['graphs']):6} {theirs['graphs']:5} {told['graph_breaks']:6} {theirs['breaks']:5} {told['recompiles']:5} {theirs['again']:5} {kernels:7}"
        f" {plain.seconds:6.1f}s {captured.seconds:7.1f}s {captured.seconds / plain.seconds:5.2f}"
        f" {size / 1e6:5.0f} {results['summary text'].peak:7.0f} {results['browse'].peak:6.0f}"
        f"  {first[0][:100] if first else 'nothing'}"
    )
    return line, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "-k", default="", help="only programs with one of these words, by commas, in their names"
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the libraries")
    parser.add_argument("--keep", type=Path, help="a folder that keeps the runs")
    parser.add_argument("--out", type=Path, help="a file that gets the lines, too")
    parser.add_argument(
        "--with", dest="with_", choices=WITH, default="profiles", help="what a capture runs besides"
    )
    options = parser.parse_args()
    baseline = WITH[options.with_]
    with tempfile.TemporaryDirectory(prefix="inspector-real-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(COLUMNS, flush=True)
        failed = 0
        for program in sorted(PROGRAMS.iterdir()):
            if program.suffix not in (".py", ".ipynb") or not any(
                k in program.stem for k in options.k.split(",")
            ):
                continue
            line, wrong = look(program, options.python, folder, baseline)
            failed += bool(wrong)
            for text in (line, *(f"    {item}" for item in wrong)):
                print(text, flush=True)
                if options.out is not None:
                    with options.out.open("a") as file:
                        file.write(f"{text}\n")
    print(
        f"{failed} with something wrong; largest of ours {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MB"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
