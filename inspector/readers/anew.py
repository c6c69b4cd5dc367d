"""Callables that a program makes anew for each part of its work, as one: a closure compiled in a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, chain, pairwise

from inspector.model.calls import CompiledCallable, ProcessCalls, Sizes


def made_anew(calls: ProcessCalls) -> ProcessCalls:
    """`calls` with one callable for those of one line of the program of which each is called only after the
    last call of the one before. Layers that are compiled in a loop take turns in a call and stay apart."""
    groups: dict[tuple[object, ...], list[CompiledCallable]] = {}
    for item in calls.callables:
        alike = (item.kind, item.name, item.location, item.mode, item.backend)
        groups.setdefault(alike if item.location and item.span else (item.kind, item.order), []).append(item)
    kept = [
        one for group in groups.values() for one in ([_one(group)] if _one_after_another(group) else group)
    ]
    return replace(calls, callables=tuple(sorted(kept, key=lambda item: (item.kind != "call", item.order))))


def _one_after_another(group: Sequence[CompiledCallable]) -> bool:
    spans = sorted(item.span for item in group if item.span)
    return len(group) > 1 and all(one[1] < other[0] for one, other in pairwise(spans))


def _one(group: Sequence[CompiledCallable]) -> CompiledCallable:
    group = sorted(group, key=lambda item: item.span or ())
    before = tuple(accumulate((item.calls for item in group), initial=0))
    # What was made anew may do more or less than the one before: told apart as calls of other sizes are.
    sizes: list[Sizes] = []
    places: list[int] = []
    for number, item in enumerate(group, 1):
        places += (len(sizes) + place for place in item.steady_sizes)
        sizes += ((*each, f"no. {number} of {len(group)}") for each in (*item.sizes, ("other sizes",)))
    first, last = group[0], group[-1]
    return replace(
        last,
        order=first.order,
        calls=before[-1],
        first_ms=first.first_ms,
        cold_ms=tuple(chain.from_iterable(item.cold_ms for item in group)),
        cold_index=tuple(
            at + index for at, item in zip(before, group, strict=False) for index in item.cold_index
        ),
        steady_ms=tuple(chain.from_iterable(item.steady_ms for item in group)),
        total_ms=sum(item.total_ms for item in group),
        setup_ms=sum(item.setup_ms for item in group),
        states=tuple(dict.fromkeys(chain.from_iterable(item.states for item in group))),
        sizes=tuple(sizes),
        steady_sizes=tuple(places),
        steady_faults=tuple(chain.from_iterable(item.steady_faults for item in group)),
        span=(first.span[0], last.span[1]) if first.span and last.span else None,
    )
