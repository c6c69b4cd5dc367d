"""CUDA graphs are recorded anew for each size of a graph that was compiled for any, and calls lose by it.

Looks at: torch's own line (torch/_inductor/cudagraph_utils.py: maybe_warning_due_to_dynamic_shape), and how
long calls of each size take.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.block_words import calls_text
from inspector.explain.case import Case
from inspector.explain.claims import on_whole
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding

_ADVICE = "pad to a few sizes, or set torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True"
_FOR_EACH = re.compile(r"recording a new graph for each distinct input size.*?observed (\d+) distinct sizes")


def find(case: Case) -> Iterable[Finding]:
    calls, told = case.times.by_sizes, per_size(case)
    if calls is None or told is None or not case.times.losing:
        return
    line, sizes = told
    group = case.times.losing[0]
    lost = group.lost_ms / sum(other.compiled.count for other in calls.groups)
    share = case.share(lost)
    place = source_evidence(case, calls.location) if calls.location is not None else None
    yield Finding(
        rule="cudagraphs_per_size",
        severity=severity_of(share),
        title=f"{calls_text(group)}; torch records CUDA graphs anew for each size ({sizes} when it warned)",
        graph=None,
        cost_ms=lost,
        evidence=(*([place] if place is not None else []), line),
        advice=_ADVICE,
        how="measured",
        share=share,
        claims=(on_whole(lost, "measured", "eager"),),
    )


def per_size(case: Case) -> tuple[Evidence, int] | None:
    """Torch's last line that graphs are recorded for each size, and how many sizes it had seen by then."""
    found = [
        (record, int(match[1])) for record in case.records if (match := _FOR_EACH.search(record.message))
    ]
    if not found:
        return None
    record, sizes = found[-1]
    return Evidence(case.log_path, record.line, f"{sizes} distinct sizes"), sizes


RULE = Rule("cudagraphs_per_size", Stage.LOST, find)
