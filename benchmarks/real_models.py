"""Programs of benchmarks/programs/real, as users of their libraries write them, through every command.

    python benchmarks/real_models.py [-k TEXT,TEXT] [--python EXE] [--keep FOLDER] [--out FILE]
                                     [--with nothing|baseline|profiles] [--jobs N] [--until SECONDS] [--gpus 0,1]

Each program runs plainly, then below `inspector capture --baseline` (hours, `--with nothing` less), and what came of it is summarised,
explained, listed, replayed and browsed (a walk through the main screens, in a terminal of 100 x 30 that nobody
sees). A program is skipped where its library cannot be imported. A line of the table is printed, and appended to
FILE, as soon as its program is done; of a program that is not done after `--until` there is what was reached. With
`--jobs` several run at a time, in turn on the GPUs that are named. Exits with 1 where a command of ours failed, showed
a traceback, or said another number of breaks or recompiles than another one did.

FOLDER/NAME has, beside the run, what each command said (*.said), torch's own counters of the plain run (torch.json) and
what the profiles hold, summed without any code of ours (profiles.json), for whoever judges what was said.
"""

# ruff: noqa: E501

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import CLI, PYTHON, ROOT

PROGRAMS = ROOT / "benchmarks" / "programs" / "real"
LIMIT_S = 900.0
LOOKING_S = 45.0
"""What is left for the other commands where a capture is ended because the time is over."""
COLUMNS = (
    f"{'program':22} {'graphs':>6} {'torch':>5} {'breaks':>6} {'torch':>5} {'again':>5} {'torch':>5} {'kernels':>7} {'plain':>7} {'captured':>8} {'ratio':>5}"
    f" {'MB':>5} {'peak MB':>7} {'TUI MB':>6}  said first"
)

# How a program that is no plain script is run, by the beginning of its name.
WAYS = {
    "test_": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "FILE"),
    "ddp_": ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "FILE"),
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
        counts["reasons"] = dict(utils.counters["graph_break"])
        counts["compilations"] = [
            [one.compile_id, one.co_name, one.co_filename, one.co_firstlineno, one.fail_type, one.recompile_reason]
            for one in utils.get_compilation_metrics()
        ]
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


class Limits:
    """Until when commands may run (time.monotonic), and the GPUs that programs take in turn."""

    end = float("inf")
    gpus: Iterator[str] | None = None


def run(command: list[str], folder: Path, spare: float = 0.0, /, **environment: str) -> Ran:
    """One command, ended `spare` seconds before the time is over; of its peak the kernel tells that of the largest
    child so far, so each has a process."""
    measured = (
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[2:]);"
        "open(sys.argv[1], 'w').write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.exit(code)"
    )
    start = time.perf_counter()
    peak = folder / f"peak.{threading.get_ident()}"
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", **environment}
    limit = min(LIMIT_S, Limits.end - spare - time.monotonic())
    if limit <= 0:
        return Ran(124, 0.0, 0.0, "", "no time was left")
    child = subprocess.Popen(
        [PYTHON, "-c", measured, str(peak), *command], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        out, errors = child.communicate(timeout=limit)
        code = child.returncode
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                child.wait(8)
            os.killpg(child.pid, signal.SIGKILL)
        out, errors = child.communicate()
        code, errors = 124, f"{errors}\nnot done after {limit:.0f} s"
    memory = float(peak.read_text()) / 1024 if peak.exists() else 0.0
    peak.unlink(missing_ok=True)
    return Ran(code, time.perf_counter() - start, memory, out, errors)


def command_of(program: Path, python: str) -> list[str]:
    words = next((words for start, words in WAYS.items() if program.name.startswith(start)), ("FILE",))
    return [python, *(str(program) if word == "FILE" else word for word in words)]


def counted(command: list[str], folder: Path, **environment: str) -> tuple[Ran, list[dict[str, Any]]]:
    """A plain run of the program, and what Dynamo itself counted in each of its processes."""
    with tempfile.TemporaryDirectory(prefix="inspector-counts-") as counts:
        (Path(counts) / "sitecustomize.py").write_text(COUNTS)
        paths = os.pathsep.join([counts, *filter(None, [os.environ.get("PYTHONPATH")])])
        plain = run(
            command,
            folder,
            PYTHONPATH=paths,
            COUNTS=counts,
            TORCHINDUCTOR_CACHE_DIR=f"{counts}/cache",
            **environment,
        )
        told = [json.loads(path.read_text()) for path in Path(counts).glob("counts.*")]
    return plain, told


def summed(profile: Path) -> dict[str, Any]:
    """What torch.profiler wrote, in ms over all of its calls: kernels by name, their sum, their union, the span."""
    events = json.loads(gzip.decompress(profile.read_bytes()))["traceEvents"]
    device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    shown = device or [e for e in events if e.get("cat") == "cpu_op"]
    by_name: Counter[str] = Counter()
    for event in shown:
        by_name[event["name"][:120]] += event["dur"]
    busy = last = 0.0
    for start, end in sorted((e["ts"], e["ts"] + e["dur"]) for e in shown):
        busy += max(0.0, end - max(start, last))
        last = max(last, end)
    times = [
        e["ts"] for e in events if "dur" in e and e.get("cat") in ("cpu_op", "kernel", "user_annotation")
    ]
    syncs = Counter(e["name"] for e in events if "Synchronize" in e.get("name", "") and "dur" in e)
    return {
        "on": "device" if device else "operators (with those within)",
        "span": (max(times) - min(times)) / 1e3 if times else None,
        "busy": busy / 1e3,
        "launches": len(device),
        "syncs": dict(syncs),
        "by name": {name: [round(us / 1e3, 3), sum(e["name"][:120] == name for e in shown)]
                    for name, us in by_name.most_common(25)},
    }  # fmt: skip


def counts_said(results: dict[str, Ran]) -> list[str]:
    """Where `summary` and `trace` say another number of graph breaks or recompiles."""
    try:
        summary, trace = (json.loads(results[what].out) for what in ("summary", "trace json"))
    except ValueError:
        return ["summary or trace said no JSON"]
    compilations = [one for each in trace["traces"] for one in each["compilations"]]
    pairs = {
        what: (summary[what], sum(len(one[what]) for one in compilations))
        for what in ("graph_breaks", "recompiles")
    }
    return [f"{what}: summary {a}, trace {b}" for what, (a, b) in pairs.items() if a != b]


def look(program: Path, python: str, folder: Path, baseline: list[str]) -> tuple[str, list[str]]:
    """The program's line of the table, and what is wrong."""
    name, wrong = program.stem, []
    command = command_of(program, python)
    devices = {}
    if Limits.gpus is not None and not name.startswith("ddp_"):
        devices["CUDA_VISIBLE_DEVICES"] = next(Limits.gpus)
    plain, told_by_torch = counted(command, folder, **devices)
    theirs = {what: sum(one[what] for one in told_by_torch) for what in ("graphs", "breaks", "again")}
    if plain.code and name not in FAILS:
        missing = re.findall(r"(?:ModuleNotFoundError|ImportError): (.*)", plain.errors)
        return f"{name:22} skipped: {missing[-1] if missing else plain.errors.strip()[-100:]}", []
    kept = folder / name
    captured = run(
        [*CLI, "capture", *baseline, "-o", str(kept), "--", *command], folder, LOOKING_S, **devices
    )
    if not kept.is_dir():
        return f"{name:22} not captured: {captured.errors.strip()[-100:]}", ["capture made no folder"]
    (kept / "torch.json").write_text(json.dumps(told_by_torch, indent=1))
    (kept / "plain.said").write_text(plain.out + plain.errors)
    if captured.code != plain.code:
        wrong.append(f"captured: exit code {captured.code}, plain: {plain.code}")
    results = {
        what: run([*CLI, *words], folder, **devices)
        for what, words in {
            "summary": ["summary", str(kept), "--json"],
            "summary text": ["summary", str(kept)],
            "explain": ["explain", str(kept)],
            "explain all": ["explain", str(kept), "--all"],
            "explain json": ["explain", str(kept), "--json"],
            "fusions": ["fusions", str(kept)],
            "trace": ["trace", str(kept)],
            "trace json": ["trace", str(kept), "--json", "--limit", "0"],
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
        (kept / f"{what.replace(' ', '_')}.said").write_text(
            f"{result.out}\n{result.errors}\n[{result.seconds:.1f} s, {result.peak:.0f} MB, code {result.code}]\n"
        )
    wrong += counts_said(results)
    profiles = {}
    for path in sorted(kept.glob("profile/*.json.gz")):
        with suppress(ValueError, KeyError, OSError):
            profiles[path.name] = summed(path)
    (kept / "profiles.json").write_text(json.dumps(profiles, indent=1))
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
    parser.add_argument("--jobs", type=int, default=1, help="so many programs at a time")
    parser.add_argument("--until", type=float, help="seconds after which what still runs is ended")
    parser.add_argument("--gpus", help="numbers of GPUs, by commas, which programs take in turn")
    options = parser.parse_args()
    baseline = WITH[options.with_]
    if options.until is not None:
        Limits.end = time.monotonic() + options.until
    if options.gpus:
        Limits.gpus = itertools.cycle(options.gpus.split(","))
    programs = sorted(path for path in PROGRAMS.iterdir() if path.suffix in (".py", ".ipynb"))
    ordered = dict.fromkeys(path for k in options.k.split(",") for path in programs if k in path.stem)
    with tempfile.TemporaryDirectory(prefix="inspector-real-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(COLUMNS, flush=True)

        def one(program: Path) -> bool:
            try:
                line, wrong = look(program, options.python, folder, baseline)
            except Exception as error:
                line, wrong = f"{program.stem:22} this script failed", [repr(error)]
            text = "\n".join((line, *(f"    {item}" for item in wrong)))
            with printing:
                print(text, flush=True)
                if options.out is not None:
                    with options.out.open("a") as file:
                        file.write(f"{text}\n")
            return bool(wrong)

        printing = threading.Lock()
        with ThreadPoolExecutor(options.jobs) as pool:
            failed = sum(pool.map(one, ordered))
    print(
        f"{failed} with something wrong; largest of ours {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MB"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
