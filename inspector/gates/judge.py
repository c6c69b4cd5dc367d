"""Whether a run keeps its budget: each relation judged by what the run's own files say.

Nothing is executed, and no time of this machine is taken. What the run cannot tell is a breach too, since a
gate that judges nothing would be green for ever; but for results of replays, which need not be there, and
times that a busy machine took, which are no evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from inspector.analysis.load import busy_text
from inspector.analysis.replay_history import latest
from inspector.analysis.steady import SAME
from inspector.analysis.summary import RunSummary
from inspector.frozen import dataclass
from inspector.gather import fusion_of, summary_of
from inspector.model.fusion import FusionGroup, FusionReport
from inspector.model.logs import GraphBreak
from inspector.model.replay import OutputCheck, ReplayResult
from inspector.model.run import GraphArtifacts
from inspector.model.source import SourceLocation, short_places, users_place
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.text import headline, joined
from inspector.units import comparison, duration, plural, size, untold

from .budget import Budget, Share
from .memory import peak_bytes

_CALLED = re.compile(r"(?<!\w)(\w+)\(")
_EAGER_EVENTS = {
    "skipped_frame": "the frame runs in eager",
    "compile_error": "compiling failed, and the frame runs in eager",
    "cache_limit": "too many recompiles: the frame runs in eager from now on",
}
"""What happened to a frame that no graph break tells of."""
_ROUNDING = 2.0
"""Errors outside the tolerance that are as near to each other come from the order of additions."""


@dataclass(frozen=True, slots=True)
class Breach:
    """One way in which a relation is not kept. `reason` is torch's where it gives one; `graph` the compiled
    graph that it is about."""

    relation: str
    message: str
    place: SourceLocation | None = None
    reason: str = ""
    graph: str | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """One relation: what is allowed and what there is, as text. `note` says why it was not judged."""

    relation: str
    allowed: str
    there: str
    breaches: tuple[Breach, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All relations of a budget for one run."""

    run: str
    judged: tuple[Judged, ...]

    @property
    def breaches(self) -> tuple[Breach, ...]:
        return tuple(breach for item in self.judged for breach in item.breaches)


class Evidence:
    """What the relations ask of a run, worked out when the first of them does."""

    def __init__(self, run: Run, results: Sequence[ReplayResult] = ()) -> None:
        self.run = run
        self.replays = latest(results)

    @cached_property
    def summary(self) -> RunSummary:
        known = {graph.ident: fusion for graph, _, fusion in self.graphs}
        return summary_of(self.run, lambda graph: known[graph.ident])

    @cached_property
    def graphs(self) -> tuple[tuple[CompiledGraph, GraphArtifacts, FusionReport], ...]:
        graphs = [graph for graph in self.run.graphs if graph.files]
        return tuple((graph, graph.artifacts(), fusion_of(graph)) for graph in graphs)

    @cached_property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """Each place once, of the rank that has most: a break is met again in every frame that holds it."""
        facts = self.summary.facts
        events = [
            GraphBreak(event.location, f"{_EAGER_EVENTS[event.kind]}: {event.reason}", (), None, False, 0, "")
            for process in facts.calls
            for event in process.events
            if event.kind in _EAGER_EVENTS and not event.raised
        ]
        places: dict[tuple[str, int | None], GraphBreak] = {}
        for item in (*facts.graph_breaks, *facts.given_up, *events):
            place = users_place(item.location, item.frames)
            key = (place.path if place else item.headline, place.line if place else None)
            if key not in places or places[key].suppressed:
                places[key] = replace(item, location=place)
        return tuple(places.values())

    @property
    def events_known(self) -> bool:
        return bool(self.run.logs or self.run.traces)

    @cached_property
    def generated(self) -> tuple[Generated, ...]:
        """Each group that a generated kernel computes."""
        made: list[Generated] = []
        for _, artifacts, report in self.graphs:
            groups = [each for each in report.groups if each.kernel is not None and not each.is_wall]
            loops = Counter(group.calls for group in groups)
            for group in groups:
                operators = frozenset(_operators(group, report, artifacts))
                # One C++ function may hold several loops, which are no more fused than kernels are.
                name = f"_{group.kernel}_" if loops[group.calls] == 1 else ""
                made.append(Generated(report, group, operators, frozenset(_written(group)), name))
        return tuple(made)


@dataclass(frozen=True, slots=True)
class Generated:
    """A group with the names of its `operators`, as the graph and the kernel have them, and as its lines in
    the program are `written`. `name` is the kernel's, between low lines, where it computes nothing else."""

    report: FusionReport
    group: FusionGroup
    operators: frozenset[str]
    written: frozenset[str]
    name: str

    def has(self, name: str) -> bool:
        """A C++ kernel says only by its own name which operators it was made of."""
        return name in self.operators or f"_{name}_" in self.name


def judge(run: Run, budget: Budget, results: Sequence[ReplayResult] = ()) -> Report:
    """Every relation that the budget asks about; `results` are replays of this run."""
    return judge_by(Evidence(run, results), budget)


def judge_by(evidence: Evidence, budget: Budget) -> Report:
    """The same of evidence that serves several budgets."""
    shown = evidence.run.shown
    judged = [*_program(evidence)]
    if judged:
        return Report(shown, tuple(judged))
    for name, relation in _RELATIONS.items():
        allowed = getattr(budget, name)
        if allowed not in (None, ()):
            judged.append(relation(evidence, allowed))
    for package, own in (budget.packages or {}).items():
        for name in ("graph_breaks", "recompiles"):
            if (most := getattr(own, name)) is not None:
                judged.append(_events(evidence, name, most, package))
    return Report(shown, tuple(judged))


def _program(evidence: Evidence) -> Iterator[Judged]:
    """Where there is nothing to judge."""
    summary = evidence.summary
    manifest = summary.facts.manifest
    if manifest is not None and manifest.exit_code not in (None, 0):
        message = f"the program ended with exit code {manifest.exit_code}"
        yield Judged("program", "ends well", message, (Breach("program", message),))
    elif summary.nothing_compiled is not None:
        yield Judged("program", "compiles", "nothing", (Breach("program", summary.nothing_compiled),))


# -- breaks and recompiles


_Event = tuple[SourceLocation | None, str, str]
"""Place, message, torch's reason."""


def _graph_breaks(evidence: Evidence, most: int) -> Judged:
    return _events(evidence, "graph_breaks", most)


def _recompiles(evidence: Evidence, most: int) -> Judged:
    return _events(evidence, "recompiles", most)


def _events(evidence: Evidence, name: str, most: int, package: str | None = None) -> Judged:
    relation = name if package is None else f"{name} in {package}"
    noun = "graph break" if name == "graph_breaks" else "recompile"
    if name == "recompiles" and not evidence.events_known:
        return _unknown(relation, f"at most {most}", "neither a log nor a trace tells of recompiles")
    items: list[_Event] = []
    if name == "graph_breaks":
        for item in evidence.breaks:
            where = item.location.function if item.location is not None and item.location.function else ""
            items.append((item.location, f"graph break{' in ' * bool(where)}{where}", item.headline))
    else:
        ranks: dict[int | None, list[_Event]] = {}
        for again in evidence.summary.facts.recompiles:
            event = (
                again.location,
                f"{again.name} was compiled again",
                again.headline,
            )
            ranks.setdefault(again.rank, []).append(event)
        # Ranks run the same program.
        items = max(ranks.values(), key=len, default=[])
    items = [item for item in items if package is None or _inside(item[0], package)]
    breaches = [Breach(relation, message, place, headline(reason)) for place, message, reason in items]
    # Which of them are too many nobody can say.
    kept = tuple(breaches) if len(breaches) > most else ()
    return Judged(relation, f"at most {most}", plural(len(breaches), noun), kept)


def _inside(place: SourceLocation | None, package: str) -> bool:
    """Whether a file belongs to a package (``acme.layers``) or is one (``model.py``)."""
    if place is None:
        return False
    path = "/" + place.path.replace("\\", "/").lstrip("/")
    if package.endswith(".py"):
        return path.endswith("/" + package.lstrip("/"))
    folder = "/" + package.replace(".", "/")
    return f"{folder}/" in path or path.endswith(f"{folder}.py")


# -- kernels


def _operators(group: FusionGroup, report: FusionReport, artifacts: GraphArtifacts) -> Iterator[str]:
    fx = (
        {node.name: node.target for node in artifacts.fx_after.nodes}
        if artifacts.fx_after is not None
        else {}
    )
    kernel = artifacts.code.kernel(group.kernel) if artifacts.code is not None and group.kernel else None
    nodes = (node for node in report.nodes if node.group == group.name)
    targets = [fx[name] for node in nodes for name in node.fx if name in fx]
    for target in (*targets, *(kernel.origin.operators if kernel is not None and kernel.origin else ())):
        yield from _names(target)


def _written(group: FusionGroup) -> Iterator[str]:
    for place in group.sources:
        yield place.short
        yield from _CALLED.findall(place.code or "")


def _names(target: str) -> tuple[str, ...]:
    """``torch.ops.aten.add.Tensor`` is ``aten.add`` and ``add``; ``aten._softmax`` is ``softmax``, too."""
    parts = target.removeprefix("torch.ops.").split(".")
    if len(parts) < 2:
        return (target, target.lstrip("_"))
    return (f"{parts[0]}.{parts[1]}", parts[1], parts[1].lstrip("_"))


def _share_kernel(evidence: Evidence, shares: tuple[Share, ...]) -> Judged:
    breaches = [breach for share in shares for breach in _unshared(share, evidence.generated)]
    allowed = "; ".join(" + ".join(share.operators) for share in shares)
    return Judged("share_kernel", allowed, f"{len(shares) - len(breaches)} of {len(shares)}", tuple(breaches))


def _unshared(share: Share, groups: Sequence[Generated]) -> Iterator[Breach]:
    """At most one breach. What no graph and no kernel calls so is looked for in the program's own lines."""
    held: list[list[Generated]] = []
    for name in share.operators:
        own = [item for item in groups if item.has(name)]
        held.append(own or [item for item in groups if name in item.written])
    both = [item for item in groups if all(item in own for own in held)]
    if len(both) >= share.kernels:
        return
    what = f"{joined(share.operators, 6)} don't share a kernel"
    if share.kernels > 1:
        what += f" in {share.kernels} places but in {len(both)}"
    missing = [name for name, own in zip(share.operators, held, strict=True) if not own]
    if missing:
        yield Breach("share_kernel", f"{what}: no generated kernel computes {joined(missing, 4)}")
        return
    apart = [
        (one, other, _refusal(one.report, one.group, other.group))
        for one in held[0]
        for own in held[1:]
        for other in own
        if one.report is other.report and one not in both and other not in both
    ]
    if not apart:
        yield Breach("share_kernel", what, _first(held[0][0].group.sources), "", held[0][0].report.ident)
        return
    one, other, reason = next((pair for pair in apart if pair[2]), apart[0])
    kernels = dict.fromkeys(f"{each.group.kernel}" for each in (one, other))
    message = (
        f"{what}: {' and '.join(kernels)}" if len(kernels) > 1 else f"{what}: two loops of {one.group.kernel}"
    )
    place = _first(other.group.sources) or _first(one.group.sources)
    yield Breach("share_kernel", message, place, reason, one.report.ident)


def _refusal(report: FusionReport, first: FusionGroup, second: FusionGroup) -> str:
    """Why the two are not one, in torch's words where it gave any."""
    ends = {first.name, second.name}
    for missed in (*report.missed, *report.minor):
        if {missed.first, missed.second} == ends:
            return headline(missed.reason or missed.plain)
    for decision in report.decisions:
        sides = {group.name for name in (decision.first, decision.second) if (group := report.group(name))}
        if decision.verdict == "rejected" and sides == ends and decision.reason:
            return headline(decision.reason)
    return ""


def _no_fallback(evidence: Evidence, names: tuple[str, ...]) -> Judged:
    breaches = []
    for _, artifacts, report in evidence.graphs:
        calls = artifacts.code.calls if artifacts.code is not None else ()
        for kernel in dict.fromkeys(call.kernel for call in calls if call.kind == "fallback"):
            if "*" in names or {*_names(kernel)} & {*names}:
                place = _place_of((call.index for call in calls if call.kernel == kernel), report)
                message = f"{_names(kernel)[0]} is left to ATen: no kernel is generated for it"
                breaches.append(Breach("no_fallback", message, place, "", report.ident))
    there = joined([breach.message.split(" ")[0] for breach in breaches], 6) or "none"
    return Judged("no_fallback", f"none of {joined(names, 6)}", there, tuple(breaches))


def _place_of(calls: Iterable[int], report: FusionReport) -> SourceLocation | None:
    wanted = {*calls}
    return next((_first(group.sources) for group in report.groups if wanted & {*group.calls}), None)


def _first(places: Sequence[SourceLocation]) -> SourceLocation | None:
    return places[0] if places else None


# -- bytes


def _traffic(evidence: Evidence, most: float) -> Judged:
    allowed = f"at most {most:g}x the least possible"
    known = [report for _, _, report in evidence.graphs if report.excess_ratio is not None]
    if not known or len(known) < len(evidence.graphs):
        return _unknown("traffic", allowed, "a graph's sizes or its schedule are not known")
    moved, least = (
        sum(each.bytes_fused or 0 for each in known),
        sum(each.bytes_minimum or 0 for each in known),
    )
    there = f"{moved / least:.2f}x" if least else "1x"
    if moved <= most * least:
        return Judged("traffic", allowed, there)
    worst = max(known, key=lambda each: (each.bytes_fused or 0) - (each.bytes_minimum or 0))
    missed = next(iter(worst.missed), None)
    message = f"kernels move {size(moved)}, {there} the least possible {size(least)}"
    place, reason = None, ""
    if missed is not None:
        place = _first(missed.second_sources) or _first(missed.first_sources)
        reason = headline(missed.reason or missed.plain)
        sides = ((missed.first, missed.first_sources), (missed.second, missed.second_sources))
        ends = [f"{name} ({', '.join(short_places(lines))})" if lines else name for name, lines in sides]
        message += f"; {size(missed.bytes)} go between {' and '.join(ends)}"
    return Judged("traffic", allowed, there, (Breach("traffic", message, place, reason, worst.ident),))


def _peak_memory(evidence: Evidence, most: int) -> Judged:
    allowed = f"at most {size(most)}"
    peaks = []
    for _, artifacts, report in evidence.graphs:
        held = peak_bytes(artifacts.code) if artifacts.code is not None else None
        if held is None:
            return _unknown(
                "peak_memory", allowed, f"a size in {report.ident} is symbolic, or its code is not here"
            )
        peaks.append((held[0], held[1], report))
    count, line, report = max(peaks, key=lambda item: item[0])
    if count <= most:
        return Judged("peak_memory", allowed, size(count))
    message = f"buffers of its own hold {size(count)} at once, at line {line} of output_code.py"
    return Judged("peak_memory", allowed, size(count), (Breach("peak_memory", message, graph=report.ident),))


# -- results and times


def _error(evidence: Evidence, _allowed: str) -> Judged:
    checks: list[tuple[FusionReport, SourceLocation | None, OutputCheck]] = []
    for _, _, report in evidence.graphs:
        if (replay := evidence.replays.get(report.ident)) is not None:
            checks += [(report, None, check) for check in replay.outputs]
            for kernel in replay.kernels:
                place = _place_of([kernel.call], report)
                checks += [(report, place, check) for check in kernel.outputs]
    judged = [item for item in checks if item[2].verdict != "unverifiable"]
    if not judged:
        return Judged("error", "at most eager's", "", note="no replay of this run: inspector replay RUN")
    breaches = [
        Breach(
            "error",
            f"{check.name or f'output {check.index}'} is {_off(check.error_compiled)} off, "
            f"{_off(check.error_eager)} in eager",
            place,
            headline(check.reason),
            report.ident,
        )
        for report, place, check in judged
        if _worse(check)
    ]
    there = f"{plural(len(judged), 'result')} compared"
    return Judged("error", "at most eager's", there, tuple(breaches))


def _worse(check: OutputCheck) -> bool:
    if check.verdict == "eager_closer" and None not in (check.error_compiled, check.error_eager):
        return (check.error_compiled or 0.0) > _ROUNDING * (check.error_eager or 0.0)
    return check.verdict in ("mismatch", "eager_closer")


def _off(error: float | None) -> str:
    return "?" if error is None else f"{error:.2g}"


def _faster(evidence: Evidence, _allowed: bool) -> Judged:
    calls = evidence.summary.calls
    busy = busy_text(evidence.summary.busy)
    allowed = "at least as fast as eager"
    if calls is None or not calls.baseline:
        return _unknown("faster", allowed, "eager was not measured: inspector capture --baseline")
    if busy:
        return Judged("faster", allowed, "", note=busy)
    there = comparison(calls.ratio, "eager") if calls.ratio else calls.outcome
    if calls.outcome == "unknown":
        why = (
            f"{there}{untold(calls.outcome, calls.again)}"
            if calls.again
            else "too few steady calls to compare"
        )
        return _unknown("faster", allowed, why)
    if calls.outcome != "slower" or not calls.ratio or calls.ratio > 1 - SAME:
        # One that is called slower by less is called the same in the next run.
        return Judged("faster", allowed, there)
    breaches = tuple(
        Breach(
            "faster",
            f"{item.name} takes {duration(ours)} compiled and {duration(theirs)} in eager",
            item.location,
        )
        for item, ours, theirs in (
            (item, item.compiled.median_ms, item.eager.median_ms)
            for item in calls.callables
            if item.outcome == "slower" and item.compiled and item.eager
        )
    )
    return Judged("faster", allowed, there, breaches or (Breach("faster", f"compiled is {there}"),))


def _unknown(relation: str, allowed: str, why: str) -> Judged:
    return Judged(relation, allowed, "not known", (Breach(relation, f"cannot be judged: {why}"),))


_RELATIONS: Mapping[str, Callable[[Evidence, Any], Judged]] = {
    "graph_breaks": _graph_breaks, "recompiles": _recompiles, "share_kernel": _share_kernel,
    "no_fallback": _no_fallback, "traffic": _traffic, "peak_memory": _peak_memory, "error": _error,
    "faster": _faster,
}  # fmt: skip
