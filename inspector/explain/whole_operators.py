"""Operators that ATen has kernels for, as generated code does them and as ATen does: what each takes.

ATen's time is that of a replay, which ran the operator alone on inputs of the same strides, or what eager's
profile has for it in the same block; where there is neither, no more than all of eager's call. Where
generated kernels do other work too, that work would need kernels of its own, and moves more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from inspector.analysis.steady import SAME
from inspector.analysis.whole_operators import is_kernel_of
from inspector.frozen import dataclass
from inspector.model.account import Claim, ClaimHow, Interval
from inspector.model.explain import Finding, FindingHow, Trial
from inspector.model.two_sides import KernelTime
from inspector.model.waste import WholeOperator
from inspector.units import duration

from .block_words import kernel_text
from .bool_stores import bool_stores
from .case import Case, GraphCase, Launch
from .claims import on_launch
from .doubts import profile_fits
from .estimate import FACTOR, FAR_OFF, memory_ms, peak, wrapper_ms
from .launches import shares_of
from .rule import about, how_timed, severity_of, source_evidence, timed

LEAST_TIMES = 1.15
"""Generated code's time over ATen's and that of what is left beside it."""
_REST = (0.5, 2.0)
"""Times the estimate that what is left beside an operator may take."""


@dataclass(frozen=True, slots=True)
class Slower:
    """Operators that share launches, and what these take beside ATen. Times are per steady call:
    `compiled_ms` of `launches`; `ms` is what running the operators whole would save, `aten_ms` the most that
    they take alone, and `aten` says that, and how it is known."""

    graph: GraphCase
    operators: tuple[WholeOperator, ...]
    launches: tuple[Launch, ...]
    compiled_ms: float
    aten: str
    how: ClaimHow
    ms: Interval
    aten_ms: float

    @property
    def names(self) -> tuple[str, ...]:
        """Of the operators, each once."""
        return tuple(dict.fromkeys(item.operator for item in self.operators))

    @property
    def both_times(self) -> str:
        """`ATen's own takes 3.10 ms, replayed alone, the generated kernel 9.20 ms`."""
        kernels = "kernel" if len(self.launches) == 1 else f"{len(self.launches)} kernels"
        return (
            f"ATen's own takes {self.aten}, the generated {kernels} "
            f"{about(self.compiled_ms, how_timed(self.launches))}"
        )

    @property
    def claims(self) -> tuple[Claim, ...]:
        shares = [(launch, self.graph.ms(launch) / self.compiled_ms) for launch in self.launches]
        low, high = self.ms
        return tuple(
            on_launch(self.graph, launch, (low * share, high * share), self.how) for launch, share in shares
        )


def found_slower(
    case: Case, item: Slower, rule: str, title: str, advice: str, trial: Trial | None = None
) -> Finding:
    """The rule's finding: the operators' lines and the kernels that do them."""
    cost = case.within_call(item.ms[1])
    share = case.share(cost)
    sources = list(dict.fromkeys(each.source for each in item.operators if each.source is not None))
    return Finding(
        rule=rule,
        severity=severity_of(share),
        title=title,
        graph=item.graph.name,
        cost_ms=cost,
        evidence=(
            *(source_evidence(case, place) for place in sources[:2]),
            *(
                item.graph.launch_evidence(launch, f"{timed(launch, item.graph.ms(launch))}: {launch.name}")
                for launch in item.launches[:2]
            ),
        ),
        advice=advice,
        how=_HOW.get(item.how, "measured"),
        share=share,
        trial=trial,
        claims=item.claims,
    )


_HOW: dict[ClaimHow, FindingHow] = {"replayed": "replayed", "estimated": "estimated"}
_Alone = tuple[Interval, str, ClaimHow, float]
"""ATen's milliseconds, what they are in words, how that is known, and what eager took for the rest."""


def slower_operators(case: Case) -> Iterable[Slower]:
    """Those that ATen surely does in less time, where both were measured."""
    for graph, operators, launches, (aten_ms, words, how, eager_rest) in _compared(case):
        # What is computed again and again is another's to claim, and so are masks that are kept.
        compiled_ms = sum(graph.ms(launch) for launch in launches)
        masks = [bool_stores(case, graph, launch).ms for launch in launches]
        own_ms = sum(graph.ms(launch) * launch.useful for launch in launches) - sum(ms[1] for ms in masks)
        # Kernels of its own for the rest take no longer than eager's; all of eager's call has it, too.
        rest = min(_rest_ms(case, graph, operators, launches), eager_rest)
        least, most = (own_ms - aten_ms[1] - rest * times for times in reversed(_REST))
        if least > 0 and own_ms >= LEAST_TIMES * (aten_ms[1] + rest):
            # What eager took for the rest is the most that it can take: only what is left then is sure. Of
            # more work than the operator's that may as well be what generated code is slow at.
            sure = least if math.isinf(eager_rest) else max(own_ms - aten_ms[1] - eager_rest, 0.0)
            if aten_ms[0] < eager_rest < math.inf:
                sure = 0.0
            most += sum(ms[1] - ms[0] for ms in masks)
            yield Slower(graph, operators, launches, compiled_ms, words, how, (sure, most), aten_ms[1])


def no_slower_than_aten(case: Case) -> frozenset[tuple[str, int]]:
    """Graph and call of the launches that take no longer, with all that they do, than ATen's own kernels for
    their operators, where both were measured."""
    return frozenset(
        (graph.name, launch.call.index)
        for graph, _, launches, (aten_ms, _, _, _) in _compared(case)
        for launch in launches
        if sum(graph.ms(each) for each in launches) <= aten_ms[0]
    )


def _compared(
    case: Case,
) -> Iterable[tuple[GraphCase, tuple[WholeOperator, ...], tuple[Launch, ...], _Alone]]:
    """Operators that share launches, these, and what ATen takes, where both were measured."""
    for graph in case.graphs:
        for operators in _sharing(case, graph) if graph.runs else ():
            calls = {call for item in operators for call in item.calls}
            launches = tuple(launch for launch in graph.launches if launch.call.index in calls)
            alone = _replayed(graph, operators)
            if alone is None or not all(launch.measured for launch in launches):
                # Two profiles of slower calls say together what one of them does not.
                pace = _pace(case)
                launches = tuple(
                    replace(launch, ms=launch.profiled_ms * pace, measured=pace == 1.0)
                    for launch in launches
                    if launch.profiled_ms is not None
                )
                alone = _profiled(case, graph, operators, calls, "profiled" if pace == 1.0 else "estimated")
            if alone is None and (sure := _sure(case, graph, calls)):
                launches, alone = sure, _within_eager(case)
            if launches and alone is not None:
                yield graph, operators, launches, alone


def _rest_ms(
    case: Case, graph: GraphCase, operators: Sequence[WholeOperator], launches: Sequence[Launch]
) -> float:
    """What the launches' other work takes by itself: to be moved, and its expensive operators once for each
    element."""
    if not any(item.fused for item in operators):
        return 0.0
    amount = max(
        sum(item.rest_bytes for item in operators), sum(launch.useful_bytes or 0 for launch in launches)
    )
    moving = memory_ms(amount, peak(case.facts.devices, graph.gpu, case.threads), graph.gpu) * graph.runs
    # Estimates are of an idle machine, what they are set against may be of a busy one.
    expected = sum(launch.expected_ms or 0.0 for launch in launches)
    took = sum(launch.ms for launch in launches)
    moving *= min(max(took / expected, 1.0), FAR_OFF) if expected and not graph.gpu else 1.0
    own = {name for item in operators for name in item.fx}
    computing = 0.0
    for launch in launches:
        shares = shares_of(graph, launch)
        part = sum(
            (item.whole - item.part) * shares[item.group]
            for item in graph.fusion.evaluations
            if item.group in shares and not own.issuperset(item.fx)
        )
        computing += graph.ms(launch) * min(1.0, max(part, 0.0))
    return max(moving, computing)


def _sharing(case: Case, graph: GraphCase) -> list[tuple[WholeOperator, ...]]:
    """The graph's operators, those together that share a launch or, as profiled, a block."""
    blocks = case.sides.joined.blocks if case.sides is not None else ()
    together = [{call for ident, call in block.launches if ident == graph.name} for block in blocks]
    groups: list[tuple[set[int], list[WholeOperator]]] = []
    for item in graph.operators:
        own = set(item.calls).union(*(calls for calls in together if calls.intersection(item.calls)))
        near = [group for group in groups if group[0] & own]
        groups = [group for group in groups if not group[0] & own]
        items = [each for group in near for each in group[1]]
        groups.append((own.union(*(group[0] for group in near)), [*items, item]))
    return [tuple(items) for _, items in groups]


def _replayed(graph: GraphCase, operators: Sequence[WholeOperator]) -> _Alone | None:
    results = {item.name: item for item in graph.replay.operators} if graph.replay is not None else {}
    times = [results[item.name] for item in operators if item.name in results]
    if len(times) < len(operators) or not all(item.sure for item in times):
        return None
    ms = sum(results[item.name].own_ms for item in operators) * graph.runs
    made_up = any(results[item.name].made_up for item in operators)
    words = f"{duration(ms)}, replayed alone" + (" on made-up values" if made_up else "")
    return (ms, ms), words, "replayed", math.inf


def _pace(case: Case) -> float:
    """The part of its profiled time that a launch takes in a call without a profiler: of all alike, where
    profiled calls were slower."""
    wall = case.times.compiled_ms
    totals = case.sides.joined.compiled if case.sides is not None else None
    if wall is None or totals is None or not totals.wall_ms or profile_fits(case):
        return 1.0
    return min(wall / totals.wall_ms, 1.0)


def _profiled(
    case: Case, graph: GraphCase, operators: Sequence[WholeOperator], calls: set[int], how: ClaimHow
) -> _Alone | None:
    """What eager's kernels for the operators take in the blocks of these launches."""
    kernels: list[KernelTime] = []
    whole = 0.0
    for block in case.sides.joined.blocks if case.sides is not None else ():
        if any(ident == graph.name and call in calls for ident, call in block.launches):
            whole += block.eager_ms or 0.0
            kernels += (
                kernel
                for kernel in block.eager_kernels
                if any(is_kernel_of(kernel, item.operator) for item in operators)
            )
    # Of each of them, or it is not known what all of them take.
    if not all(any(is_kernel_of(kernel, item.operator) for kernel in kernels) for item in operators):
        return None
    ms = sum(kernel.ms for kernel in kernels)
    words = f"{duration(ms)}, in eager ({kernel_text(kernels[0])})"
    return (ms, ms), words, how, max(whole - ms, 0.0)


def _within_eager(case: Case) -> _Alone | None:
    """Without a profile of eager its kernels for an operator take no longer than its whole call."""
    eager = case.times.eager_ms
    if eager is None or (case.sides is not None and case.sides.joined.eager is not None):
        return None
    return (0.0, eager), f"less than {duration(eager)}, all of eager's call", "estimated", 0.0


def _sure(case: Case, graph: GraphCase, calls: set[int]) -> tuple[Launch, ...]:
    """The launches of these calls with what they surely take of their graph's run, others being twice as long
    as thought; none where they do other things that are known to be slow."""
    own = [launch for launch in graph.launches if launch.call.index in calls]
    others = sum(launch.ms for launch in graph.launches if launch.call.index not in calls)
    whole = graph.in_process_ms
    if case.times.compiled_ms is not None and graph.runs:
        whole = min(whole or math.inf, case.times.compiled_ms / graph.runs)
    together = sum(launch.ms for launch in own)
    slow = any(
        launch.useful < 1 - SAME or "atomic_add" in launch.source or launch.call.index in graph.rewriting
        for launch in own
    )
    if slow or whole is None or not together:
        return ()
    sure = min(whole - FACTOR * others - wrapper_ms(len(graph.launches)), together)
    return tuple(replace(launch, ms=launch.ms * sure / together) for launch in own) if sure > 0 else ()
