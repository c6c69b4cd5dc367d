"""One profiled side as a whole: its work, and what the host did while the device had none."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.model.profile import Profile
from inspector.model.two_sides import SideTotals

from .eager_side import Place, marks
from .profile_work import (
    Interval,
    Work,
    inner_ms,
    length_ms,
    section_of,
    union,
    within,
    without,
)

GUARDS = "guards"
DISPATCH = "dispatch of compiled code"
WRAPPER = "wrappers and launches"
OPERATORS = "operators' dispatch"
AUTOGRAD = "autograd's engine"
SYNC = "synchronising with the device"
PYTHON = "Python between operators"
GAPS = "gaps in which torch did nothing"
"""Longer than `LONG_GAP`: not Python between two operators, and under no event, so unexplained."""

NAMED = (GUARDS, DISPATCH, WRAPPER, OPERATORS, AUTOGRAD, SYNC, PYTHON)
"""What the host does beside the device's work that an event, or its place between two, names."""

LONG_GAP = 300.0
"""Microseconds. Python between two operators takes tens, with a profiler on it."""
_ROUNDING = 1e-9
_SECTIONS = {"guards": GUARDS, "dispatch": DISPATCH, "wrapper": WRAPPER, "autograd": AUTOGRAD}


def totals(
    profile: Profile,
    work: Sequence[Work],
    places: Sequence[Place],
    calls: int,
    windows: Sequence[Interval],
    device: bool,
    notes: Sequence[str],
) -> SideTotals:
    """Per steady call; `windows` are the calls' times, on the host."""
    transfers = sum(piece.ms for piece in work if piece.transfer)
    total = sum(piece.ms for piece in work)
    told = sum(
        piece.ms
        for piece, place in zip(work, places, strict=True)
        if piece.transfer or place.graph is None or place.parts
    )
    marked = marks(profile)
    spans = union(marked) or _span(profile, windows)
    overlap = total - length_ms((piece.start, piece.end) for piece in work) if device else 0.0
    host = _idle_parts(profile, work, spans) if device else _section_parts(profile, spans)
    return SideTotals(
        calls=calls,
        device=device,
        marked=bool(marked),
        wall_ms=length_ms(spans) / calls,
        work_ms=total / calls,
        attributed_ms=told / calls,
        overlap_ms=overlap / calls if overlap > _ROUNDING else 0.0,
        transfers_ms=transfers / calls,
        host=tuple((name, ms / calls) for name, ms in host if ms > 0),
        notes=tuple(notes),
    )


def _span(profile: Profile, windows: Sequence[Interval]) -> list[Interval]:
    """From the first call's beginning to the end of all; what the profiler does before is none of it."""
    events = [event for event in profile.host if event.kind != "python"]
    if not events:
        return []
    start = min((window[0] for window in windows), default=min(event.start for event in events))
    ends = [event.end for event in profile.device]
    ends += [event.end for event in events if event.kind != "runtime"]
    return [(start, max(ends))]


def _idle_parts(profile: Profile, work: Sequence[Work], spans: Sequence[Interval]) -> list[tuple[str, float]]:
    """The device's idle time by what the host was in then: the innermost event that says something."""
    idle = without(spans, [(piece.start, piece.end) for piece in work])
    parts = []
    for name, intervals in _host_intervals(profile).items():
        covered = within(intervals, idle)
        parts.append((name, length_ms(covered)))
        idle = without(idle, covered)
    return [*parts, *_gaps(idle)]


def _host_intervals(profile: Profile) -> dict[str, list[Interval]]:
    """In the order in which they count where threads work at once."""
    intervals: dict[str, list[Interval]] = {
        name: [] for name in (SYNC, OPERATORS, WRAPPER, GUARDS, DISPATCH, AUTOGRAD)
    }
    for event in profile.host:
        if event.kind == "runtime":
            if "Synchronize" in event.name:
                intervals[SYNC].append((event.start, event.end))
            continue
        section = section_of(event)
        if event.kind == "operator" and section is None:
            intervals[OPERATORS].append((event.start, event.end))
        elif section in _SECTIONS:
            intervals[_SECTIONS[section]].append((event.start, event.end))
    return intervals


def _gaps(idle: Sequence[Interval]) -> list[tuple[str, float]]:
    short = [gap for gap in union(idle) if gap[1] - gap[0] <= LONG_GAP]
    long = [gap for gap in union(idle) if gap[1] - gap[0] > LONG_GAP]
    return [(PYTHON, length_ms(short)), (GAPS, length_ms(long))]


def _section_parts(profile: Profile, spans: Sequence[Interval]) -> list[tuple[str, float]]:
    """On a CPU: the own time of torch's sections, and what lies under no event at all."""
    inside = inner_ms(profile)
    own: dict[str, float] = {}
    covered: list[Interval] = []
    for position, event in enumerate(profile.host):
        section = section_of(event)
        if event.kind == "operator" or section in _SECTIONS:
            covered.append((event.start, event.end))
        if section in _SECTIONS:
            name = _SECTIONS[section]
            own[name] = own.get(name, 0.0) + max(event.duration / 1e3 - inside.get(position, 0.0), 0.0)
    return [*own.items(), *_gaps(without(spans, covered))]
