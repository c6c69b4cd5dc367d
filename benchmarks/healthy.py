"""What is said of healthy programs, beside what was measured and counted without the tool.

    python benchmarks/healthy.py MEASURED.jsonl RUN...

RUN are captures of `programs/healthy.py NAME`, each in a folder of that name; MEASURED is what that printed
with `--measure` on the same machine. Bytes, milliseconds and rates that a verdict names are compared.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from inspector.explain.engine import explain
from inspector.model.explain import Finding
from inspector.readers.run import Run

WITHIN = 0.2
_UNITS = {
    "ns": 1e-6,
    "us": 1e-3,
    "ms": 1.0,
    "s": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "Gflop/s": 1e9,
    "Tflop/s": 1e12,
}
_MOVES = re.compile(r"moves ([\d.,]+) (\w+) in ([\d.,]+) (\w+)")
_FLOPS = re.compile(r"([\d.,]+) ([GT]flop/s)")
_TAKES = re.compile(r"kernels take ([\d.,]+) (\w+) of")


def number(text: str, unit: str) -> float:
    return float(text.replace(",", "")) * _UNITS[unit]


def compared(finding: Finding, measured: dict[str, float]) -> list[tuple[str, float, float]]:
    """(figure, as it is said, as it was measured)."""
    if match := _MOVES.search(finding.title):
        moved, ms = number(match[1], match[2]), number(match[3], match[4])
        rates = moved / ms / 1e9, measured["bytes"] / measured["ms"] / 1e9
        return [("MB", moved / 1e6, measured["bytes"] / 1e6), ("ms", ms, measured["ms"]), ("TB/s", *rates)]
    if match := _FLOPS.search(finding.title):
        return [("Tflop/s", number(match[1], match[2]) / 1e12, measured["flop"] / measured["ms"] / 1e9)]
    if match := _TAKES.search(finding.title):
        return [("ms", number(match[1], match[2]), measured["ms"])]
    return []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("runs", nargs="+", type=Path)
    options = parser.parse_args()
    measured = {item["name"]: item for item in map(json.loads, options.measured.read_text().splitlines())}
    good = figures = 0
    for path in options.runs:
        explanation = explain(Run.open(path))
        of_rule = {finding.rule: finding for finding in explanation.findings}
        bound = of_rule.get("healthy") or of_rule.get("nothing_found")
        loud = [
            f"{finding.rule} {finding.severity}"
            for finding in explanation.findings
            if finding.severity != "low"
        ]
        print(
            f"{path.name}: {bound.title if bound else explanation.verdict}"
            + (f" [{', '.join(loud)}]" if loud else "")
        )
        for name, said, real in compared(bound, measured[path.name]) if bound else []:
            off = said / real - 1 if real else 0.0
            figures, good = figures + 1, good + (abs(off) <= WITHIN)
            print(f"    {name:8} said {said:9.3f}  measured {real:9.3f}  {off:+6.1%}")
    print(f"{good} of {figures} figures within {WITHIN:.0%}")


if __name__ == "__main__":
    main()
