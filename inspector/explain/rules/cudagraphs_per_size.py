"""CUDA graphs are recorded anew for each size of a graph that was compiled for any, and calls lose by it.

Looks at: torch's own line (torch/_inductor/cudagraph_utils.py: maybe_warning_due_to_dynamic_shape), and how
long calls of each size take.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage
from inspector.explain.sized_calls import losing_calls
from inspector.model.explain import Evidence, Finding

_ADVICE = "pad to a few sizes, or set torch._inductor.config.triton.cudagraph_skip_dynamic_graphs = True"
_FOR_EACH = re.compile(
    r"recording a new graph for each distinct input size.{0,200}?observed (\d{1,9}) distinct sizes"
)


def find(case: Case) -> Iterable[Finding]:
    if case.times.losing and (told := per_size(case)) is not None:
        line, sizes = told
        why = f"; torch records CUDA graphs anew for each size ({sizes} when it warned)"
        yield from losing_calls(case, "cudagraphs_per_size", _ADVICE, why, (line,))


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
