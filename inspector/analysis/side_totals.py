"""One profiled side as a whole: its work, and what the host did while the device had none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest

from inspector.model.profile import HostEvent, Profile
from inspector.model.two_sides import HostOperator, SideTotals

from .eager_side import Place, marks
from .profile_work import (
    Interval,
    Work,
    length_ms,
    region_of,
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
"""Longer than `LONG_GAP`: not Python between two operators, and under no event that says more than that a
compiled region or autograd's engine was at it, so unexplained."""

NAMED = (GUARDS, DISPATCH, WRAPPER, OPERATORS, AUTOGRAD, SYNC, PYTHON)
"""What the host does beside the device's work that an event, or its place between two, names."""

LONG_GAP = 300.0
"""Microseconds. Python between two operators takes tens, with a profiler on it."""
_PAGEABLE = "Pageable"
"""Memcpy HtoD (Pageable -> Device), by CUPTI (libkineto/src/CuptiActivity.cpp: memcpyName)."""
_ROUNDING = 1e-9
_MOST_OPERATORS = 5
_CANDIDATES = 50
"""By all of their own time: more would be held against the device's gaps for nothing."""
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
    transfers = sum(piece.taken_ms for piece in work if piece.transfer)
    pageable = sum(piece.taken_ms for piece in work if piece.transfer and _PAGEABLE in piece.name)
    total = sum(piece.ms for piece in work)
    told = sum(
        piece.ms
        for piece, place in zip(work, places, strict=True)
        if piece.transfer or place.graph is None or place.parts
    )
    marked = marks(profile)
    spans = union(marked) or _span(profile, windows)
    overlap = total - length_ms((piece.start, piece.end) for piece in work) if device else 0.0
    idle = without(spans, [(piece.start, piece.end) for piece in work]) if device else []
    intervals = _host_intervals(profile) if device else {}
    host = _idle_parts(intervals, idle) if device else _section_parts(profile, spans)
    outside = dict(_idle_parts(intervals, without(idle, _compiled_code(profile)))) if device else {}
    return SideTotals(
        calls=calls,
        device=device,
        marked=bool(marked),
        wall_ms=(length_ms(spans) - _waited_ms(work, spans)) / calls,
        work_ms=total / calls,
        attributed_ms=told / calls,
        overlap_ms=overlap / calls if overlap > _ROUNDING else 0.0,
        transfers_ms=transfers / calls,
        pageable_ms=pageable / calls,
        host=tuple((name, ms / calls) for name, ms in host if ms > 0),
        outside_ms=sum(outside.get(name, 0.0) for name in (OPERATORS, AUTOGRAD, PYTHON)) / calls,
        operators=_longest_operators(profile, idle, spans, calls) if device else (),
        notes=tuple(notes),
    )


def _waited_ms(work: Sequence[Work], spans: Sequence[Interval]) -> float:
    return sum(
        piece.waited_ms
        for piece in work
        if piece.waited_ms and any(start <= piece.start < end for start, end in spans)
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


def _compiled_code(profile: Profile) -> list[Interval]:
    """When any thread was in compiled code or on the way to it, operators that it calls included."""
    sections = ("guards", "dispatch", "wrapper")
    return [(event.start, event.end) for event in profile.host if section_of(event) in sections]


def _idle_parts(host: Mapping[str, Sequence[Interval]], idle: Sequence[Interval]) -> list[tuple[str, float]]:
    """The device's idle time by what the `host` was in then: the innermost event that says something."""
    parts = []
    for name, intervals in host.items():
        covered = within(intervals, idle)
        parts.append((name, length_ms(covered)))
        idle = without(idle, covered)
    return [*parts, *_gaps(idle)]


def _longest_operators(
    profile: Profile, idle: Sequence[Interval], spans: Sequence[Interval], calls: int
) -> tuple[HostOperator, ...]:
    """By the time of an operator itself, without operators inside, in which the device was idle."""
    # Waiting for the device is none of an operator's own work.
    inside = _inside(profile, lambda event: _is_operator(event) or _is_sync(event), _is_operator)
    own: dict[str, list[Interval]] = {}
    counts: dict[str, int] = {}
    for position, event in enumerate(profile.host):
        if _is_operator(event) and any(event.start < end and start < event.end for start, end in spans):
            own.setdefault(event.name, []).extend(
                without([(event.start, event.end)], inside.get(position, ()))
            )
            counts[event.name] = counts.get(event.name, 0) + 1
    longest = nlargest(_CANDIDATES, own, key=lambda name: length_ms(own[name]))
    found = [
        HostOperator(name, length_ms(within(own[name], idle)) / calls, counts[name] / calls)
        for name in longest
    ]
    return tuple(nlargest(_MOST_OPERATORS, found, key=lambda item: item.ms))


def _is_operator(event: HostEvent) -> bool:
    return event.kind == "operator" and section_of(event) is None


def _is_sync(event: HostEvent) -> bool:
    return event.kind == "runtime" and "Synchronize" in event.name


def _host_intervals(profile: Profile) -> dict[str, list[Interval]]:
    """In the order in which they count where threads work at once."""
    intervals: dict[str, list[Interval]] = {
        name: [] for name in (SYNC, OPERATORS, WRAPPER, GUARDS, DISPATCH, AUTOGRAD)
    }
    for event in profile.host:
        if _is_sync(event):
            intervals[SYNC].append((event.start, event.end))
        elif _is_operator(event):
            intervals[OPERATORS].append((event.start, event.end))
    for name, pieces in _own(profile):
        intervals[name] += pieces
    return intervals


def _own(profile: Profile) -> Iterator[tuple[str, list[Interval]]]:
    """When each of torch's sections was at work itself, with no operator or other section in it.

    In a compiled region (between its graphs) and in autograd's engine (in hooks) the program's own Python
    runs: a long gap between two events there, the runtime's calls among them, is none of torch's work.
    """
    inside = _inside(profile, lambda event: event.kind != "runtime" and _counts(event), _counts)
    calls = _inside(profile, lambda event: event.kind == "runtime", _counts)
    for position, event in enumerate(profile.host):
        section = section_of(event)
        if section in _SECTIONS:
            own = without([(event.start, event.end)], inside.get(position, ()))
            if section == "autograd" or region_of(event) is not None:
                own = without(own, _long(without(own, calls.get(position, ()))))
            yield _SECTIONS[section], own


def _inside(
    profile: Profile, wanted: Callable[[HostEvent], bool], holds: Callable[[HostEvent], bool]
) -> dict[int, list[Interval]]:
    """When the `wanted` events were, by the position of the innermost one around each that `holds`."""
    inside: dict[int, list[Interval]] = {}
    for position, event in enumerate(profile.host):
        if wanted(event):
            outer = next((outer for outer in profile.around(position) if holds(profile.host[outer])), -1)
            inside.setdefault(outer, []).append((event.start, event.end))
    return inside


def _counts(event: HostEvent) -> bool:
    """An operator or one of torch's sections; what the user marked is none."""
    return event.kind == "operator" or section_of(event) in _SECTIONS


def _gaps(idle: Sequence[Interval]) -> list[tuple[str, float]]:
    long = _long(union(idle))
    return [(PYTHON, length_ms(without(idle, long))), (GAPS, length_ms(long))]


def _long(gaps: Sequence[Interval]) -> list[Interval]:
    return [gap for gap in gaps if gap[1] - gap[0] > LONG_GAP]


def _section_parts(profile: Profile, spans: Sequence[Interval]) -> list[tuple[str, float]]:
    """On a CPU: the own time of torch's sections, and what lies under no event at all."""
    own: dict[str, float] = {}
    covered = [(event.start, event.end) for event in profile.host if _is_operator(event)]
    for name, pieces in _own(profile):
        own[name] = own.get(name, 0.0) + length_ms(pieces)
        covered += pieces
    return [*own.items(), *_gaps(without(spans, covered))]
