"""Operators in which the host stays far longer than a launch takes, while the device has nothing to do."""

from __future__ import annotations

from dataclasses import replace

from inspector.analysis.profile_work import is_generated
from inspector.explain.case import Case
from inspector.explain.doubts import profile_fits
from inspector.explain.estimate import FAR_OFF
from inspector.explain.ledger import host_part_ms
from inspector.model.two_sides import HostOperator


def slow_operators(case: Case) -> tuple[HostOperator, ...]:
    """Those of the compiled side, longest first, at the pace of calls that no profiler slows: planning,
    allocating or sorting out sizes, and no launching, which takes its `launch_ms`. A kernel of Inductor's is
    none of them."""
    side = case.sides.joined.compiled if case.sides is not None else None
    if side is None or not profile_fits(case):
        return ()
    profiled = sum(ms for _, ms in side.host)
    pace = min(host_part_ms(case) / profiled, 1.0) if profiled > 0 else 1.0
    return slow_when_profiled(case, pace)


def slow_when_profiled(case: Case, pace: float = 1.0) -> tuple[HostOperator, ...]:
    """The same of profiled calls as they were, or `pace` times that."""
    side = case.sides.joined.compiled if case.sides is not None else None
    if side is None or not side.device:
        return ()
    at_pace = (replace(item, ms=item.ms * pace) for item in side.operators)
    longer = (item for item in at_pace if item.ms > FAR_OFF * case.costs.launch_ms * item.calls)
    return tuple(item for item in longer if not is_generated(item.name))
