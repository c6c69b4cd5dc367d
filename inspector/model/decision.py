"""What the scheduler answered to "may these two fuse?", whoever wrote it down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Verdict = Literal["fused", "rejected", "never_tried"]

Category = Literal[
    "no_shared_data",
    "cycle",
    "iteration_ranges",
    "index_mismatch",
    "too_far",
    "extern_kernel",
    "template_rule",
    "device",
    "order",
    "measured_slower",
    "below_threshold",
    "limit",
    "disabled",
    "never_tried",
    "other",
]


class Evidence(NamedTuple):
    """What was noted down with a decision, beside its outcome; None where nobody did.

    A field added here and filled in by a reader is in `inspector fusions --json` and in the fusion pane under
    its name. `score` is torch's priority of the pair by the names of its parts (torch/_inductor/choices.py:
    score_fusion), or their numbers where torch gives no names; its memory part is in bytes. `times_ms` are
    what torch measured, in its order (scheduler.py: speedup_by_fusion): for a pair the first, the second, and
    both as one; where a template is among them, one for each of its choices too. `reasons` has all that torch
    gave where there are several.
    """

    score: Mapping[str, float] | None = None
    times_ms: tuple[float, ...] | None = None
    reasons: tuple[str, ...] | None = None


NO_EVIDENCE = Evidence()


class Decision(NamedTuple):
    """One answer of the scheduler to "may these two fuse?", whoever wrote it down.

    `first` and `second` are scheduler names at that time; a group's name joins its members' by ``_``.
    `first_members` and `second_members` give them where that is known. `round` counts from 1. `reason` is
    torch's text where `by_torch`, else the recorder's; None for a fused pair and where nobody gave one.
    `line` is the log's, None where there is no log. `measured`: refused for the times that torch measured.

    The last five are the analysis's: `category` of what did not fuse; `shared` are the buffers that both
    touch, `shared_bytes` the smaller of the two sides' bytes of each, added up. `fused_later`: its members
    ended in one group. `inferred`: nobody gave a reason; the category is what the schedule suggests. A named
    tuple, as a log has tens of thousands.
    """

    first: str
    second: str
    round: int
    verdict: Verdict
    reason: str | None
    line: int | None = None
    measured: bool = False
    first_members: tuple[str, ...] = ()
    second_members: tuple[str, ...] = ()
    by_torch: bool = True
    evidence: Evidence = NO_EVIDENCE
    category: Category | None = None
    shared: tuple[str, ...] = ()
    shared_bytes: int | None = None
    fused_later: bool = False
    inferred: bool = False


DecisionSource = Literal["recorder", "log", "none"]
