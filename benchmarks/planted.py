"""Costs that no kernel shows, planted into programs: whether the two-sided ledger leaves them unexplained.

    python benchmarks/planted.py OUT [--seconds S] [MODEL/PLANT ...]

Captures `programs/planted.py MODEL PLANT` with a baseline into OUT/MODEL-PLANT, unless that is there; without
names, every model with every plant. `hook` sleeps in a forward hook and `copy` copies with NumPy, both inside
the compiled call; during `burn` as many other processes spin as there are cores to run on, so that `taskset`
keeps several of these apart. Of either side is told how its wall divides into work, the host's named parts,
Python and what is unexplained, and beside the same model with nothing planted (`none`), where the planted
milliseconds went.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common import PYTHON as INTERPRETER
from common import ROOT, machine
from two_sides import captured, side

from inspector.analysis.side_totals import NAMED, PYTHON
from inspector.analysis.two_sides import HOST
from inspector.explain.engine import explain
from inspector.model.explain import Explanation
from inspector.model.two_sides import TwoSidedLedger
from inspector.readers.run import Run

PROGRAM = ROOT / "benchmarks" / "programs" / "planted.py"
MODELS = ("transformer", "breaks", "conv", "rnn")
PLANTS = ("none", "hook", "copy", "burn")
SIDES = ("eager", "compiled")


@contextmanager
def burning(processes: int) -> Iterator[None]:
    """As many processes that only use a core each."""
    burners = [subprocess.Popen([INTERPRETER, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def shares(ledger: TwoSidedLedger, name: str) -> dict[str, float]:
    """Milliseconds of one side's wall by kind, which add up to it."""
    kinds = {"busy": 0.0, "host": 0.0, "Python": 0.0}
    for part in ledger.differences:
        kind = "Python" if part.part == PYTHON else "host" if part.part in (HOST, *NAMED) else "busy"
        kinds[kind] += getattr(part, f"{name}_ms")
    return {
        "wall": getattr(ledger, f"{name}_ms"),
        **kinds,
        "unexplained": getattr(ledger, f"unexplained_{name}_ms"),
    }


def planted_ms(run: Path, name: str) -> float:
    """What the program itself took for its plant in the run that the wall is of."""
    match = re.search(r"planted (\S+) ms", (run / "baseline" / name / "stdout.txt").read_text())
    return float(match[1]) if match else 0.0


def told(title: str, took: str, run: Path, explanation: Explanation, without: TwoSidedLedger | None) -> str:
    lines = [f"{title}: {took}, quality {explanation.quality}: {explanation.verdict}"]
    sides = explanation.sides
    ledger = sides.ledger if sides is not None else None
    if sides is None or ledger is None:
        return "\n    ".join([*lines, "no ledger of two sides"])
    for name, totals in zip(SIDES, (sides.joined.eager, sides.joined.compiled), strict=True):
        now = shares(ledger, name)
        parts = " + ".join(f"{kind} {ms:.2f}" for kind, ms in now.items() if kind != "wall")
        lines.append(f"{name}: {now['wall']:.2f} ms = {parts}; in blocks {side(totals)}")
        lines += [f"    {part} {ms:.2f}" for part, ms in totals.host] if totals is not None else []
        if without is not None:
            before = shares(without, name)
            more = ", ".join(f"{kind} {ms - before[kind]:+.2f}" for kind, ms in now.items())
            lines.append(f"{name}: planted {planted_ms(run, name):.2f} ms, beside none: {more}")
    lines += [f"remark: {remark}" for remark in explanation.remarks]
    lines += [f"note: {note}" for note in sides.notes]
    return "\n    ".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="MODEL/PLANT")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument(
        "--no-fresh", action="store_true", help="the user's caches, which saves compiling twice"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    names = options.names or [f"{model}/{plant}" for model in MODELS for plant in PLANTS]
    plain: dict[str, TwoSidedLedger] = {}
    for title in names:
        model, plant = title.split("/")
        run = options.out / f"{model}-{plant}"
        with burning(len(os.sched_getaffinity(0)) if plant == "burn" and not run.exists() else 0):
            took = captured([str(PROGRAM), model, plant], run, options.seconds, not options.no_fresh)
        try:
            explanation = explain(Run.open(run))
            print(told(title, took, run, explanation, plain.get(model)), flush=True)
        except Exception as error:
            print(f"{title}: {took}: {type(error).__name__}: {error}", flush=True)
            continue
        if plant == "none" and explanation.sides is not None and explanation.sides.ledger is not None:
            plain[model] = explanation.sides.ledger


if __name__ == "__main__":
    main()
