"""Which kernels of two runs are the same: the share that `inspector diff` gets right, by pair.

    python benchmarks/diff.py FOLDER [--capture] [--jobs N] [--wrong] [--constants] [--repeats]

FOLDER keeps the runs of `diff_programs.py` (`--capture` makes those that are not there, half a minute each on
a CPU), with --repeats those of `diff_repeats.py`. What a launch computes is read where `diff` does not look:
every step of these programs multiplies by a constant of its own, which stands in the generated kernel, and
every matrix has a width of its own, which stands in the library call. `diff` is made to ignore the constants,
but with --constants. A launch without a constant or width (a copy, a bias' gradient) has no label and isn't
counted. Launches with the same set of labels belong together, in their order where it stands as often on both
sides; others with all that share a label and have no such twin. A launch is right where the labelled launches
of its match are exactly those.

Without --repeats pairs of tests/data follow, labelled by hand from both wrappers. Last, ten planted cache
misses: whether the part of the key that was changed is named, and how many others are.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import diff_programs
import diff_repeats
from common import CLI, PYTHON, corpus, seconds
from diff_programs import MISSES, Pair, miss

from inspector.analysis.diff import nodes
from inspector.analysis.diff.compare import Matched, match_runs
from inspector.analysis.diff.settings import cache_misses
from inspector.comparison import Side
from inspector.model.code import KernelCall, OutputCode
from inspector.model.diff import LaunchId
from inspector.readers.cache_keys import cache_keys
from inspector.readers.run import Run

# static_cast<float>(1.0101), and (half) 1.0101 as it was rounded for another dtype stays the same text
_CONSTANT = re.compile(r"\b[01]\.\d\d0\d\b")
_ALLOCATED = re.compile(r"^\s*(\w+) = empty_strided\w*\(\(([^)]*)\)", re.M)
_INTEGER = re.compile(r"\d+")


def labels_of(code: OutputCode, call: KernelCall, widths: Iterable[int]) -> frozenset[str]:
    """What a launch computes, as read from its source or from the sizes of its arguments."""
    kernel = code.kernel(call.kernel)
    if kernel is not None and kernel.source:
        return frozenset(_CONSTANT.findall(kernel.source))
    allocated = dict(_ALLOCATED.findall(code.text))
    text = f"{call.text} {' '.join(allocated.get(name, '') for name in call.outputs)}"
    known = {int(number) for number in _INTEGER.findall(re.sub(r"\b[a-z_]+\d+(?:_\d+)?\b", "", text))}
    own = sorted(known & set(widths))
    made = [
        size
        for name in call.outputs
        for size in _INTEGER.findall(allocated.get(name, ""))
        if int(size) in own
    ]
    return frozenset({f"reads {own} makes {made}"}) if own else frozenset()


def labelled(side: Side, widths: Iterable[int]) -> dict[str, frozenset[str]]:
    """Library calls that have the same label, as two matrices of one width, say nothing and have none."""
    labels = all_labels(side, widths)
    often = Counter(own for own in labels.values() if any("reads" in label for label in own))
    return {name: own for name, own in labels.items() if often[own] < 2}


def all_labels(side: Side, widths: Iterable[int]) -> dict[str, frozenset[str]]:
    return {
        f"{facts.artifacts.ident}/{call.index}": labels
        for facts in side.graphs
        if (code := facts.artifacts.code) is not None
        for call in code.calls
        if (labels := tagged(facts.artifacts.phase, labels_of(code, call, widths)))
    }


def tagged(phase: str, labels: frozenset[str]) -> frozenset[str]:
    """A backward graph's constants are its own."""
    return frozenset(f"backward {label}" if phase == "backward" else label for label in labels)


def truth_of(
    a: dict[str, frozenset[str]], b: dict[str, frozenset[str]]
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Launch of either side -> those of the other that compute the same, by their labels."""
    by_labels: tuple[dict[frozenset[str], list[str]], ...] = (defaultdict(list), defaultdict(list))
    for own, names in zip((a, b), by_labels, strict=True):
        for name, labels in own.items():
            names[labels].append(name)
    twins = {
        pair
        for labels, ours in by_labels[0].items()
        if len(ours) == len(by_labels[1].get(labels, ()))
        for pair in zip(ours, by_labels[1][labels], strict=True)
    }
    of_a, of_b = ({name: set[str]() for name in own} for own in (a, b))
    for x, y in twins:
        of_a[x].add(y)
        of_b[y].add(x)
    ours, theirs = ([name for name, others in side.items() if not others] for side in (of_a, of_b))
    for x in ours:
        for y in theirs:
            if a[x] & b[y]:
                of_a[x].add(y)
                of_b[y].add(x)
    return of_a, of_b


def right(
    a: dict[str, frozenset[str]], b: dict[str, frozenset[str]], matched: Matched
) -> tuple[int, int, list[str]]:
    """(launches that are matched rightly, all that have labels, the others)."""
    good, wrong = 0, []
    of_a, of_b = truth_of(a, b)
    for match in matched.kernels:
        ours = [name for launch in match.a if (name := str(launch)) in a]
        theirs = [name for launch in match.b if (name := str(launch)) in b]
        for name, side, labels, truth, given in (
            *((name, "A", a[name], of_a[name], theirs) for name in ours),
            *((name, "B", b[name], of_b[name], ours) for name in theirs),
        ):
            if truth == set(given):
                good += 1
            else:
                wrong.append(f"{side} {name} {sorted(labels)}: {sorted(given)}, not {sorted(truth)}")
    return good, len(a) + len(b), wrong


BY_HAND: dict[tuple[str, str], dict[str, str]] = {
    ("cpu-torch2.4.1/softmax", "cpu-torch2.6.0/softmax"): {},
    ("cpu-torch2.4.1/softmax", "cpu-torch2.13/softmax"): {},
    ("cpu-torch2.6.0/softmax", "cpu-torch2.15.0/softmax"): {},
    ("cpu-torch2.15.0/softmax", "h200-torch2.11/softmax"): {},
    ("cpu-torch2.4.1/mlp", "cpu-torch2.13/mlp"): {},
    ("cpu-torch2.13/norms", "h200-torch2.11/norms"): {},
    ("cpu-torch2.13/addrelumul", "h200-torch2.11/addrelumul"): {},
    ("cpu-torch2.13/breaks", "h200-torch2.11/breaks"): {
        "model__2_forward_7.2": "0:0 1:1,2",
        "model__4_backward_14.5": "0,2:0 1:1",
        "model__7_forward_19.8": "0:0 1:1,2",
        "model__7_backward_20.9": "0:0,1 1:2 2:3 3:4",
        "model__8_forward_22.10": "0:0,1",
    },
}
"""Launches of each graph that are the same, where they are not so one by one in their order."""


def by_hand(a: Side, labels: dict[str, str]) -> set[tuple[tuple[str, ...], tuple[str, ...]]]:
    groups = set()
    for facts in a.graphs:
        name, code = facts.artifacts.ident, facts.artifacts.code
        text = labels.get(name) or " ".join(
            f"{call.index}:{call.index}" for call in (code.calls if code else ())
        )
        for pair in text.split():
            ours, theirs = (tuple(f"{name}/{call}" for call in side.split(",")) for side in pair.split(":"))
            groups.add((ours, theirs))
    return groups


def versions() -> tuple[int, int]:
    good = every = 0
    with corpus() as folder:
        for (a, b), labels in BY_HAND.items():
            ours, theirs = Side(Run.open(folder / a)), Side(Run.open(folder / b))
            matched = match_runs(ours.graphs, theirs.graphs)
            found = {(tuple(map(str, match.a)), tuple(map(str, match.b))) for match in matched.kernels}
            truth = by_hand(ours, labels)
            launches = sum(len(one) + len(two) for one, two in truth)
            right_ones = sum(len(one) + len(two) for one, two in truth & found)
            print(f"{a:<26}{b:<26}{right_ones:>4} of {launches}")
            good, every = good + right_ones, every + launches
    return good, every


def misses(folder: Path) -> None:
    """Whether each planted cause is named."""
    base = cache_keys(Run.open(folder / "base" / "trace"))
    named = 0
    for name, (_, part) in MISSES.items():
        found = cache_misses(
            base, cache_keys(Run.open(folder / name / "trace")), {"model__0_inference": "model__0_inference"}
        )
        causes = [cause.what for miss in found for cause in miss.causes]
        named += part in causes
        told = "named" if part in causes else "NOT NAMED"
        print(f"{name:<16}{part:<42}{told}, of {len(causes)}: {', '.join(causes[:4])}")
    print(f"{named} of {len(MISSES)} planted causes are named")


def name_of(pair: Pair) -> str:
    return re.sub(r"\W+", "_", pair.name)


def capture(folder: Path, pairs: Iterable[Pair], bases: dict[str, str], jobs: int) -> None:
    def one(item: tuple[str, str]) -> None:
        name, text = item
        program, run = folder / f"{name}.py", folder / f"{name}.run"
        if not run.exists():
            program.write_text(text)
            command = [*CLI, "capture", "-o", str(run), "--", PYTHON, str(program)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    folder.mkdir(exist_ok=True)
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, [*bases.items(), *((name_of(pair), pair.text) for pair in pairs)]))


def capture_misses(folder: Path) -> None:
    for name, text in [("base", miss()), *((name, text) for name, (text, _) in MISSES.items())]:
        place = folder / name
        if not (place / "trace").exists():
            place.mkdir(parents=True, exist_ok=True)
            (place / "m.py").write_text(text)
            traced = {"TORCH_TRACE": str(place / "trace"), "TORCHINDUCTOR_CACHE_DIR": str(place / "cache")}
            seconds([PYTHON, str(place / "m.py")], **traced)


def tell(folder: Path, pairs: Iterable[Pair], told_wrong: bool) -> None:
    sides: dict[str, Side] = {}

    def side(name: str) -> Side:
        if name not in sides:
            sides[name] = Side(Run.open(folder / f"{name}.run"))
        return sides[name]

    whole = [0, 0]
    print(f"{'pair':<36}{'program':<14}{'right':>12}  relations")
    for pair in pairs:
        a, b = side(pair.base), side(name_of(pair))
        matched = match_runs(a.graphs, b.graphs)
        good, every, wrong = right(labelled(a, pair.widths), labelled(b, pair.widths), matched)
        whole = [whole[0] + good, whole[1] + every]
        relations = [match.relation for match in matched.kernels]
        counts = ", ".join(f"{relations.count(name)} {name}" for name in dict.fromkeys(relations))
        print(f"{pair.name:<36}{pair.base:<14}{good:>4} of {every:<5} {counts}")
        if swapped(matched) != swapped(match_runs(b.graphs, a.graphs), back=True):
            print("     B against A says something else")
        for line in wrong if told_wrong else ():
            print("    ", line)
    print(f"{'all':<50}{whole[0]:>4} of {whole[1]} ({whole[0] / whole[1]:.1%})\n")


def swapped(matched: Matched, back: bool = False) -> set[tuple[tuple[LaunchId, ...], tuple[LaunchId, ...]]]:
    return {(match.b, match.a) if back else (match.a, match.b) for match in matched.kernels}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--capture", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--wrong", action="store_true", help="which launches are wrong")
    parser.add_argument("--constants", action="store_true", help="diff sees them, as it does of a user's")
    parser.add_argument("--repeats", action="store_true", help="the pairs of diff_repeats.py")
    given = parser.parse_args()
    programs = diff_repeats if given.repeats else diff_programs
    if given.capture:
        capture(given.folder, programs.PAIRS, programs.BASES, given.jobs)
    if not given.constants:
        nodes._NUMBER = re.compile(r"(?!)")
    tell(given.folder, programs.PAIRS, given.wrong)
    if given.repeats:
        return
    if given.capture:
        capture_misses(given.folder / "misses")
    good, every = versions()
    print(f"{'all':<52}{good:>4} of {every} ({good / every:.1%})\n")
    misses(given.folder / "misses")


if __name__ == "__main__":
    main()
