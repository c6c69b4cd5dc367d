"""A budget that a good run keeps, to be kept by those after it."""

from __future__ import annotations

import keyword
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from inspector.model.replay import ReplayResult
from inspector.readers.run import Run

from .budget import Budget, Share, merged
from .judge import Evidence, Generated, judge_by
from .memory import peak_bytes

_SLACK = 1.25
"""Over what was counted: other versions lay out a buffer or two otherwise."""
_SIGNS = {"add": " + ", "mul": " * ", "sub": " - ", "div": " / "}
_NO_WORK = frozenset(
    [
        "view",
        "reshape",
        "permute",
        "transpose",
        "contiguous",
        "expand",
        "unsqueeze",
        "squeeze",
        "flatten",
        "to",
        "float",
        "half",
        "bfloat16",
        "size",
        "cat",
        "stack",
        "arange",
        "zeros",
        "ones",
        "full",
        "new_ones",
        "new_zeros",
        "zeros_like",
        "ones_like",
        "empty",
        "clone",
        "detach",
    ]
)
"""What a line calls and other versions or devices do elsewhere, or not at all."""


def budget_of(run: Run, results: Sequence[ReplayResult] = ()) -> Budget:
    """What the run is asked and keeps; a relation that it does not tell of, or breaks, is left out."""
    evidence = Evidence(run, results)
    budget = Budget()
    for wanted in _wanted(evidence):
        report = judge_by(evidence, wanted)
        if not report.breaches and not any(item.note for item in report.judged):
            budget = merged(budget, wanted)
    return budget


def _wanted(evidence: Evidence) -> Iterator[Budget]:
    facts = evidence.summary.facts
    yield Budget(graph_breaks=len(evidence.breaks))
    ranks = Counter(item.rank for item in facts.recompiles)
    yield Budget(recompiles=max(ranks.values(), default=0))
    yield Budget(share_kernel=tuple(_shares(evidence.generated)))
    yield Budget(no_fallback=("*",))
    reports = [report for _, _, report in evidence.graphs]
    least = sum(report.bytes_minimum or 0 for report in reports)
    if least:
        moved = sum(report.bytes_fused or 0 for report in reports)
        yield Budget(traffic=max(1.0, math.ceil(100 * _SLACK * moved / least) / 100))
    peaks = [peak_bytes(artifacts.code) for _, artifacts, _ in evidence.graphs if artifacts.code is not None]
    if peaks and None not in peaks:
        yield Budget(peak_memory=math.ceil(_SLACK * max(peak[0] for peak in peaks if peak is not None)))
    yield Budget(error="eager")
    calls = evidence.summary.calls
    if calls is not None and calls.outcome == "faster":
        # As fast as eager is as often called slower, by noise.
        yield Budget(faster=True)


def _shares(groups: Sequence[Generated]) -> Iterator[Share]:
    """For each kernel the operators that the program's own lines name: any version and device has these."""
    counted = Counter(names for item in groups if len(names := tuple(sorted(_named(item)))) > 1)
    for names, kernels in counted.items():
        # Kernels with more operators have these, too.
        more = sum(count for others, count in counted.items() if {*names} < {*others})
        yield Share(names, kernels + more)


def _named(item: Generated) -> set[str]:
    code = " ".join(place.code or "" for place in item.group.sources)
    called = {name for name in item.written if name.isidentifier() and not keyword.iskeyword(name)}
    signs = {name for name, sign in _SIGNS.items() if re.search(re.escape(sign), code)}
    return {name for name in (called - _NO_WORK) | signs if item.has(name)}
