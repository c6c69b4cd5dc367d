"""Which finding comes first on programs with one known dominant cause each.

    python benchmarks/explain_accuracy.py [--programs SET] [--runs FOLDER] [--only WORD]
                                          [--capture] [--baseline] [--measure]

Captures each program of benchmarks/programs/SET (development, unseen, gpu or waste) once, kept in --runs,
explains it, and prints the rule that came first, whether the right one is among the first three, how a call
compares with eager, and the share of it that the ledger leaves unexplained.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

from common import CLI, PYTHON

PROGRAMS = Path(__file__).resolve().parent / "programs"


def capture(program: Path, run: Path, baseline: bool, measure: bool) -> int:
    """Capture into `run`; the program's exit code. A failed one leaves its run, which says why."""
    options = ["--baseline"] if baseline else []
    command = [*CLI, "capture", "-q", *options, "-o", str(run), "--", PYTHON, str(program)]
    code = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900
    ).returncode
    if measure:
        replay = [*CLI, "replay", str(run), "--rounds", "5"]
        subprocess.run(replay, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900)
    shutil.rmtree(run / "cache", ignore_errors=True)
    return code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("explain_runs"))
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--programs", default="development", choices=("development", "unseen", "gpu", "waste")
    )
    parser.add_argument("--capture", action="store_true", help="capture what is not there yet")
    parser.add_argument("--baseline", action="store_true")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    from inspector.explain import explain
    from inspector.hardware.host import this_host
    from inspector.model.problem import InspectorError
    from inspector.readers.run import Run
    from inspector.replay.store import load_results
    from inspector.units import comparison, duration

    total = first = third = 0
    false_alarms = []
    for program in sorted((PROGRAMS / options.programs).glob("*/*.py")):
        rule, name = program.parent.name, program.stem
        if options.only not in f"{rule}/{name}":
            continue
        run = options.runs / f"{rule}-{name}"
        if options.capture and not (run / "inspector.json").is_file():
            capture(program, run, options.baseline, options.measure)
        if not (run / "inspector.json").is_file():
            continue
        try:
            result = explain(Run.open(run), load_results(run), this_host())
        except InspectorError as error:
            print(f"{rule:<28}{name:<22} cannot be explained: {error}", flush=True)
            total += 1
            continue
        rules = [finding.rule for finding in result.findings]
        total += 1
        first += rules[:1] == [rule]
        third += rule in rules[:3]
        if rule == "healthy":
            false_alarms += [name for finding in result.findings if finding.severity == "high"]
        mark = "first" if rules[:1] == [rule] else "top 3" if rule in rules[:3] else "MISSED"
        shown = " ".join(f"{item.rule}:{item.severity[0]}" for item in result.findings[:4])
        ledger = result.ledger
        left = ""
        if ledger.unexplained_ms is not None and ledger.compiled_ms and ledger.parts:
            left = f"{ledger.unexplained_ms / ledger.compiled_ms:6.1%}"
        eager, compiled = ledger.eager_ms, ledger.compiled_ms
        ratio = comparison(eager / compiled) if eager and compiled else "-"
        wall = duration(ledger.compiled_ms) if ledger.compiled_ms else "-"
        print(f"{mark:<7}{rule:<28}{name:<20}{wall:>8} {ratio:>14} {left:>7}  {shown}", flush=True)
    if total:
        print(f"first: {first} of {total} ({first / total:.0%}); among three: {third} ({third / total:.0%})")
        print(f"high findings on healthy programs: {len(false_alarms)}")


if __name__ == "__main__":
    main()
