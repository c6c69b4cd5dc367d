"""`inspector check`: relations that must not flip, and planted regressions that must be caught with their line.

    python benchmarks/gates.py                    10 minutes; five captures on this machine
    python benchmarks/gates.py versions|times|regressions     one of its parts
    python benchmarks/gates.py regressions --python OTHER...     with other versions of torch too
    python benchmarks/gates.py --repeat 20        an hour; the good program captured as often, with a baseline

Versions: the same program from torch 2.6, 2.13 and 2.15, each budget against each run, twenty times with noise: the log or
the trace alone tells (as older captures and bare folders have it), process numbers change. Times: every sample run with a
baseline, twenty times with its calls' times drawn anew (with replacement) and each side slowed by up to 3 %, as from run to
run; a flip is a repetition whose answer is not the run's own. Regressions: a good program's budget against the program with
one planted change. 1 where a relation of a version flips or a regression is missed.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from common import CLI, PYTHON, ROOT, corpus, machine

from inspector.gates.budget import Budget, read_budget
from inspector.gates.judge import Report, judge
from inspector.gates.write import budget_of
from inspector.readers.run import Run

VERSIONS = ("cpu-torch2.6.0", "cpu-torch2.13", "cpu-torch2.15.0")
REPETITIONS = 20
RUN_TO_RUN = 0.03

GOOD = """\
import torch
import torch.nn.functional as F

def block(x, w):
    y = F.gelu(x + w)
    y = F.layer_norm(y, (256,))
    return y.softmax(-1)

compiled = torch.compile(block, dynamic=False)
w = torch.randn(256)
for size in SIZES:
    for _ in range(CALLS):
        compiled(torch.randn(size, 256), w)
"""
SIZES = ("SIZES", "(512,)")
PLANTED = {
    "a graph break": ("graph_breaks", "    y = F.layer_norm", "    print('step')\n    y = F.layer_norm", 6),
    # Values that are computed again where they are used are in one kernel all the same: bytes tell.
    "an unfused pair": (
        "traffic",
        "import torch\n",
        "import torch\nimport torch._inductor.config as config; config.max_fusion_size = 1\n",
        8,
    ),
    "a fallback": ("no_fallback", "    return y", "    y = y.sort(-1).values\n    return y", 7),
    "a recompile": ("recompiles", *SIZES, 4),
}
"""What -> (relation, text of the good program, its replacement, the line that the breach has to name)."""


def noised(run: Path, target: Path, chance: random.Random) -> Path:
    """The run as another machine or capture might have left it."""
    shutil.copytree(run, target)
    told = chance.choice(("both", "log", "trace"))
    if told == "trace":
        for name in ("torch_logs.txt", "stderr.txt", "logs/torch_logs.txt", "logs/stderr.txt"):
            (target / name).unlink(missing_ok=True)
    elif told == "log":
        shutil.rmtree(target / "trace", ignore_errors=True)
    pid = chance.randrange(1000, 99999)
    for path in sorted(target.glob("torch_compile_debug/run_*")):
        path.rename(path.with_name(re.sub(r"pid_\d+", f"pid_{pid}", path.name)))
    return target


def slower(run: Path, target: Path, chance: random.Random) -> Path:
    """The same calls, drawn anew from what was measured, each side a few percent slower or faster."""
    shutil.copytree(run, target)
    for side in ("record", "baseline/compiled/record", "baseline/eager/record"):
        factor = 1 + chance.uniform(-RUN_TO_RUN, RUN_TO_RUN)
        for path in (target / side).glob("*.jsonl"):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            for line in lines:
                redraw(line, factor, chance)
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return target


def redraw(value: object, factor: float, chance: random.Random) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "steady_ms" and isinstance(item, list) and item:
                picked = chance.choices(range(len(item)), k=len(item))
                value[key] = [item[place] * factor for place in picked]
                if isinstance(sizes := value.get("steady_sizes"), list) and len(sizes) == len(item):
                    value["steady_sizes"] = [sizes[place] for place in picked]
            else:
                redraw(item, factor, chance)
    elif isinstance(value, list):
        for item in value:
            redraw(item, factor, chance)


def answers(report: Report) -> dict[str, bool]:
    """relation -> whether it is kept; those that were not judged are neither."""
    return {item.relation: not item.breaches for item in report.judged if not item.note}


def versions(place: Path) -> int:
    print(f"{'budget of':<18}{'run of':<18}{'relations':>10}{'repetitions':>12}{'flips':>7}")
    bad = 0
    with corpus() as folder:
        budgets = {version: budget_of(Run.open(folder / version / "softmax")) for version in VERSIONS}
        for made, budget in budgets.items():
            for version in VERSIONS:
                own = answers(judge(Run.open(folder / version / "softmax"), budget))
                flips: Counter[str] = Counter()
                for seed in range(REPETITIONS):
                    run = noised(
                        folder / version / "softmax", place / f"{made}-{version}-{seed}", random.Random(seed)
                    )
                    there = answers(judge(Run.open(run), budget))
                    flips.update(name for name in own if there.get(name) is not True)
                bad += sum(flips.values()) + (not all(own.values()))
                print(
                    f"{made:<18}{version:<18}{len(own):>10}{REPETITIONS:>12}{sum(flips.values()):>7}  {dict(flips) or ''}"
                )
    return bad


def times(place: Path) -> int:
    print(f"\n{'times of':<24}{'as measured':>14}{'repetitions':>12}{'flips':>7}")
    for archive in sorted((ROOT / "sample_runs" / "stories").glob("*/run.tar.xz")):
        name = archive.parent.name
        with tarfile.open(archive) as tar:
            tar.extractall(place / "stories", filter="data")
        root = place / "stories" / name
        own = answers(judge(Run.open(root), Budget(faster=True))).get("faster")
        if own is None or not (root / "baseline" / "eager").is_dir():
            print(f"{name:<24}{'not judged':>14}")
            continue
        flips = 0
        for seed in range(REPETITIONS):
            run = slower(root, place / f"{name}-{seed}", random.Random(seed))
            flips += answers(judge(Run.open(run), Budget(faster=True))).get("faster") is not own
            shutil.rmtree(run)
        print(f"{name:<24}{'kept' if own else 'broken':>14}{REPETITIONS:>12}{flips:>7}", flush=True)
    # What is as fast as eager but for noise may be called either.
    return 0


def captured(place: Path, name: str, text: str, *options: str, calls: int = 3, python: str = PYTHON) -> Path:
    program = place / f"{name.replace(' ', '_')}.py"
    program.write_text(text.replace("CALLS", str(calls)), encoding="utf-8")
    run = program.with_suffix(".run")
    command = [*CLI, "capture", "--quiet", *options, "-o", str(run), "--", python, str(program)]
    subprocess.run(command, check=True, capture_output=True)
    return run


def regressions(place: Path, pythons: Sequence[str] = (PYTHON,)) -> int:
    """With each interpreter's torch, against the budget that the good program's run with the first one's gives."""
    good = GOOD.replace(*SIZES)
    budget = place / "budget.toml"
    missed = 0
    for number, python in enumerate(pythons):
        folder = place / f"python{number}"
        folder.mkdir()
        run = captured(folder, "good", good, python=python)
        print(f"\ntorch {Run.open(run).torch_version}")
        if number == 0:
            subprocess.run([*CLI, "check", str(run), "--budget", str(budget), "--write"], check=True)
            print(f"{budget.read_text()}")
        else:
            breaches = judge(Run.open(run), read_budget(budget)).breaches
            missed += bool(breaches)
            print(f"the good program: {'broken: ' + str(breaches) if breaches else 'kept'}")
        missed += sum(not planted(folder, name, budget, python) for name in PLANTED)
    return missed


def planted(place: Path, name: str, budget: Path, python: str) -> bool:
    """Whether one planted regression is a breach of its relation, at its line."""
    relation, old, new, line = PLANTED[name]
    good = GOOD.replace(*SIZES)
    text = (
        GOOD.replace(old, "(512, 256, 128)").replace(*SIZES)
        if relation == "recompiles"
        else good.replace(old, new)
    )
    assert text != good, name
    run = captured(place, name, text, python=python)
    breaches = judge(Run.open(run), read_budget(budget)).breaches
    hit = [
        breach
        for breach in breaches
        if breach.relation == relation
        and breach.place is not None
        and (line is None or breach.place.line == line)
    ]
    print(f"{name}: {'caught' if hit else 'MISSED'}")
    done = subprocess.run([*CLI, "check", str(run), "--budget", str(budget)], capture_output=True, text=True)
    print(
        "".join(f"    {said.replace(str(place), 'PLACE')}\n" for said in done.stdout.splitlines()), flush=True
    )
    return bool(hit)


def repeat(place: Path, count: int) -> int:
    """The good program again and again, each captured with a baseline."""
    budget, flips = None, 0
    for number in range(count):
        run = Run.open(captured(place, f"again {number}", GOOD.replace(*SIZES), "--baseline", calls=60))
        budget = budget or budget_of(run)
        report = judge(run, budget)
        flips += bool(report.breaches)
        said = ", ".join(f"{item.relation} {item.there or item.note}" for item in report.judged)
        print(f"{number}: {'broken' if report.breaches else 'kept'}: {said}", flush=True)
    print(f"{count} captures, {flips} broken")
    return flips


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="?", choices=("versions", "times", "regressions"))
    parser.add_argument(
        "--repeat", type=int, metavar="N", help="capture the good program so often, and nothing else"
    )
    parser.add_argument(
        "--python", action="append", help="plant regressions with this interpreter's torch too; repeatable"
    )
    options = parser.parse_args()
    print(machine())
    with TemporaryDirectory() as folder:
        place = Path(folder)
        if options.repeat:
            return int(repeat(place, options.repeat) > 0)
        bad = 0
        for part in (versions, times, regressions):
            if options.part in (None, part.__name__):
                bad += (
                    part(place, [PYTHON, *options.python])
                    if options.python and part is regressions
                    else part(place)
                )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
