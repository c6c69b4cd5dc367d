"""One generated kernel takes far longer than its memory traffic and arithmetic ask for.

Looks at: a replayed kernel's share of the roofline; without one, a compiled call that takes longer than
eager although neither the host nor any other finding explains it.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.ledger import outside_graphs_ms
from inspector.explain.rule import Rule, Stage, amount, percent, severity_of, size, source_evidence
from inspector.model.explain import Finding, Trial

from . import (
    atomics,
    cpu_not_vectorized,
    cpu_serial,
    device_transfer,
    fallback_kernels,
    layout_copies,
    precision_upcast,
    training_mode,
)

SLOW_FRACTION = 0.3
"""Of what the roofline allows; generated pointwise and reduction kernels reach 0.5 to 0.9 of it."""
LEAST_MS = 0.02
"""A shorter kernel is mostly its own start."""
LEAST_CALLS = 5
"""Fewer steady calls say too little to compare them with eager."""
EXPLAINED = 0.4
"""Of the time lost: a finding that names the reason says more than one that names the kernel."""
SLOWER = 0.87
"""Eager over compiled: outside what two medians on a busy machine differ by."""

_MORE_PRECISE = (
    atomics.RULE,
    cpu_not_vectorized.RULE,
    cpu_serial.RULE,
    device_transfer.RULE,
    fallback_kernels.RULE,
    layout_copies.RULE,
    precision_upcast.RULE,
    training_mode.RULE,
)


def find(case: Case) -> Iterable[Finding]:
    measured = [
        (graph.ms(launch), graph, launch)
        for graph, launch in case.launches()
        if launch.measured
        and not launch.scaled
        and launch.ms >= LEAST_MS
        and launch.role in ("generated", "copy")
        and launch.roofline_fraction is not None
        and launch.roofline_fraction < SLOW_FRACTION
    ]
    if measured:
        ms, graph, launch = max(measured, key=lambda item: item[0] * (1 - (item[2].roofline_fraction or 0)))
        fraction = launch.roofline_fraction or 0.0
        cost = ms * (1 - fraction)
        if _named(case) >= EXPLAINED * cost:
            return
        share = case.share(cost)
        evidence = [
            graph.launch_evidence(
                launch, f"{amount(ms)}, {size(launch.bytes or 0)}, {percent(fraction)} of the roofline"
            )
        ]
        evidence += [source_evidence(case, place) for place in launch.sources[:2]]
        yield Finding(
            rule="slow_kernel",
            severity=severity_of(share),
            title=f"{launch.name} takes {amount(ms)}, {percent(fraction)} of what the machine allows",
            graph=graph.name,
            cost_ms=cost,
            evidence=tuple(evidence),
            advice=_advice(case),
            measured=True,
            share=share,
            trial=_trial(case),
        )
        return
    yield from _by_difference(case)


def _by_difference(case: Case) -> Iterable[Finding]:
    ratio = case.times.ratio
    if ratio is None or ratio >= SLOWER or case.times.compiled_ms is None or case.times.eager_ms is None:
        return
    if case.times.steady_calls < LEAST_CALLS:
        return
    lost = case.times.compiled_ms - case.times.eager_ms
    outside = outside_graphs_ms(case) or 0.0
    rest = lost - case.host_ms - outside
    generated = [
        (graph.ms(launch), graph, launch)
        for graph, launch in case.launches()
        if launch.role in ("generated", "copy")
    ]
    if not generated or rest <= 0 or case.facts.graph_breaks:
        return
    # No more can be lost in generated kernels than they take.
    rest = min(rest, sum(ms for ms, _, _ in generated))
    if _named(case) >= EXPLAINED * rest:
        return
    _, graph, launch = max(generated, key=lambda item: item[0])
    share = case.share(rest)
    evidence = [
        graph.launch_evidence(launch, f"the largest generated kernel: {launch.points or 0:,} loop points")
    ]
    evidence += [source_evidence(case, place) for place in launch.sources[:2]]
    yield Finding(
        rule="slow_kernel",
        severity=severity_of(share),
        title=(
            f"a call takes {amount(lost)} more than in eager, and {launch.name} is the "
            "largest generated kernel"
        ),
        graph=graph.name,
        cost_ms=rest,
        evidence=tuple(evidence),
        advice=_advice(case),
        measured=False,
        share=share,
        trial=_trial(case),
    )


def _named(case: Case) -> float:
    """Milliseconds that findings with a reason account for."""
    return sum(finding.cost_ms or 0.0 for rule in _MORE_PRECISE for finding in rule.find(case))


def _advice(case: Case) -> str:
    if case.gpu:
        return 'try mode="max-autotune" or coordinate_descent_tuning, and see the kernel: inspector replay'
    return "replay it alone (inspector replay), and write the line with an operator that has a library kernel"


def _trial(case: Case) -> Trial | None:
    return Trial(config=(("coordinate_descent_tuning", True),)) if case.gpu else None


RULE = Rule("slow_kernel", Stage.CODE, find)
