"""Costs planted into programs that run: what findings claim of them, and what nobody claims where.

    python benchmarks/planted_running.py OUT [--only WORD] [--turns N]

Captures `programs/planted_running.py BASE PLANT` with a baseline into OUT/BASE-PLANT, unless that is there.
What was planted is told by running the program with it and with what eager does in its place, in turns: the
difference of the medians of its calls. A plant that a rule knows should be claimed by it, within a quarter;
what no rule knows should be unexplained: on its own line's block (`hidden`), or in the ledger (`asleep`).
Each case is a line of OUT/results.jsonl, so that a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
from pathlib import Path

from common import CLI, PYTHON, ROOT
from planted_claims import PLACES, WITHIN

from inspector.explain.engine import explain
from inspector.model.explain import Explanation
from inspector.readers.run import Run

PROGRAM = ROOT / "benchmarks" / "programs" / "planted_running.py"
KNOWN = {
    "algorithm": {"library_kernel_differs"},
    "copy": {"layout_copies"},
    "scalar": {"cpu_not_vectorized"},
    "chatter": {"graph_breaks", "host_bound"},
    "number": {"graph_breaks", "host_bound", "host_sync"},
}
HIDDEN = ("viterbi_decode", "knn_classifier", "jpeg_dct", "edit_distance", "gray_scott")
ASLEEP = (
    "matrix_profile",
    "histogram_equalise",
    "bvh_traversal",
    "particle_filter",
    "wave_equation_absorbing",
)
CASES = (
    ("viterbi_decode", "algorithm"),
    ("matrix_profile", "algorithm"),
    ("histogram_equalise", "copy"),
    ("wave_equation_absorbing", "copy"),
    ("knn_classifier", "scalar"),
    ("jpeg_dct", "scalar"),
    ("particle_filter", "chatter"),
    ("edit_distance", "chatter"),
    ("bvh_traversal", "number"),
    ("gray_scott", "number"),
    *((base, "hidden") for base in HIDDEN),
    *((base, "asleep") for base in ASLEEP),
)


def call_ms(*words: str) -> float:
    output = subprocess.run([PYTHON, str(PROGRAM), *words], capture_output=True, text=True, check=True)
    return float(output.stdout.split()[-2])


def claimed(said: Explanation, rules: set[str]) -> tuple[float, float]:
    """What these rules claim of a call."""
    claims = [
        claim
        for finding in said.findings
        if finding.rule in rules and finding.account == "call"
        for claim in finding.claims
    ]
    return sum(claim.ms[0] for claim in claims), sum(claim.ms[1] for claim in claims)


def unexplained(said: Explanation, plant: str) -> float:
    """What nobody claims but rules that only say where: of blocks with the plant's lines, or of the call."""
    assert said.account is not None
    if plant == "asleep":
        return said.ledger.unexplained_ms or 0.0
    blocks = said.sides.joined.blocks if said.sides is not None else ()
    own = {
        number
        for number, block in enumerate(blocks)
        if any(line.path.endswith(PROGRAM.name) for line in block.lines)
    }
    places = [
        claim.ms[1]
        for finding in said.findings
        if finding.rule in PLACES
        for claim in finding.claims
        if claim.block in own
    ]
    return sum(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results = options.out / "results.jsonl"
    done = (
        {json.loads(line)["case"] for line in results.read_text().splitlines()} if results.exists() else set()
    )
    good = 0
    for base, plant in CASES:
        case = f"{base}-{plant}"
        if options.only not in case:
            continue
        if case not in done:
            run = options.out / case
            if not (run / "inspector.json").is_file():
                command = [*CLI, "capture", "-q", "--baseline", "-o", str(run), "--", PYTHON, str(PROGRAM)]
                subprocess.run([*command, base, plant], check=True, stdout=subprocess.DEVNULL)
            pairs = [(call_ms(base, plant, "off"), call_ms(base, plant)) for _ in range(options.turns)]
            without, with_it = (statistics.median(side) for side in zip(*pairs, strict=True))
            with results.open("a") as file:
                file.write(json.dumps({"case": case, "without": without, "with": with_it}) + "\n")
    for line in results.read_text().splitlines():
        item = json.loads(line)
        base, _, plant = item["case"].rpartition("-")
        said = explain(Run.open(options.out / item["case"]))
        ms = item["with"] - item["without"]
        if plant in KNOWN:
            low, high = claimed(said, KNOWN[plant])
            text = f"claimed {low:.2f}..{high:.2f}"
        else:
            low = high = unexplained(said, plant)
            text = f"unexplained {low:.2f}"
        ok = low <= ms * (1 + WITHIN) and high >= ms * (1 - WITHIN)
        good += ok
        first = said.findings[0].rule
        print(f"{'ok ' if ok else 'OFF'} {base:26}{plant:10} planted {ms:6.2f} ms, {text}; first {first}")
    print(f"{good} of {len(results.read_text().splitlines())}")


if __name__ == "__main__":
    main()
