"""Fusion as it happened: the groups after each round, from what the recorder or the log says was fused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from inspector.model.fusion import DecisionSource, FusionHistory, FusionReport, FusionStep
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Schedule

from .decisions import Names


def fusion_history(artifacts: GraphArtifacts, report: FusionReport) -> FusionHistory:
    """The schedule before fusion, after each round, and as it is in ir_post_fusion.txt.

    A record knows the nodes of each round; from a log the groups follow from its ``fusing A with B`` lines
    (torch/_inductor/scheduler.py: Scheduler.fuse_nodes_once). What formed without either, such as foreach
    groups, is there from the beginning where ir_pre_fusion.txt has it, and otherwise in the last step.
    """
    names = Names(report.nodes)
    order = {node.name: position for position, node in enumerate(report.nodes)}
    final = tuple(tuple(group.nodes) for group in report.groups if len(group.nodes) > 1)
    start = _Parts(order, _groups_of(artifacts.pre))
    if artifacts.record is not None:
        for name, members in artifacts.record.members.items():
            names.learn(name, members)
        if artifacts.record.rounds:
            start = _Parts(order, [names.members(name) for name in artifacts.record.rounds[0].nodes])
    steps = [FusionStep(0, start.groups(), (), start.count)]
    fused = _fused(report)
    for number in _rounds(artifacts, fused):
        pairs = fused.get(number, ())
        for first, second in pairs:
            start.join((*names.members(first), *names.members(second)))
        steps.append(FusionStep(number, start.groups(), tuple(pairs), start.count))
    source = report.decision_source if len(steps) > 1 else "none"
    notes = []
    if source == "none":
        notes.append(
            "there is no record and no fusion log of this graph: only the beginning and the end are known, "
            "not the rounds between"
        )
    if artifacts.post is not None and set(steps[-1].groups) != set(final):
        steps.append(FusionStep(None, final, (), len(report.groups)))
        if source != "none":
            notes.append(_unexplained(source, steps[-2].groups, final))
    return FusionHistory(source, tuple(steps), tuple(notes))


def _groups_of(schedule: Schedule | None) -> list[tuple[str, ...]]:
    nodes = schedule.nodes if schedule is not None else ()
    return [tuple(leaf.name for leaf in node.leaves()) for node in nodes if node.is_group]


def _fused(report: FusionReport) -> dict[int, list[tuple[str, str]]]:
    found: dict[int, list[tuple[str, str]]] = {}
    for decision in report.decisions:
        if decision.verdict == "fused":
            found.setdefault(decision.round, []).append((decision.first, decision.second))
    return found


def _rounds(artifacts: GraphArtifacts, fused: Mapping[int, object]) -> list[int]:
    """Numbers of the rounds that were told of, those that fused nothing included."""
    told: set[int] = set(fused)
    if artifacts.record is not None:
        told.update(item.number for item in artifacts.record.rounds)
    elif artifacts.fusion is not None:
        told.update(item.number for item in artifacts.fusion.rounds)
    return sorted(told)


def _unexplained(
    source: DecisionSource, before: Sequence[tuple[str, ...]], after: Sequence[tuple[str, ...]]
) -> str:
    known = set(before)
    count = sum(group not in known for group in after)
    where = "record" if source == "recorder" else "log"
    what = "1 group" if count == 1 else f"{count} groups"
    return f"the last step is that of ir_post_fusion.txt: the {where} does not tell how {what} came about"


class _Parts:
    """A partition of the nodes that only grows coarser."""

    def __init__(self, order: Mapping[str, int], groups: Iterable[Sequence[str]]) -> None:
        self._order = order
        self._part: dict[str, list[str]] = {name: [name] for name in order}
        self.count = len(order)
        for group in groups:
            self.join(group)

    def join(self, names: Sequence[str]) -> None:
        known = [name for name in names if name in self._part]
        for name in known[1:]:
            one, two = self._part[known[0]], self._part[name]
            if one is not two:
                if len(one) < len(two):
                    one, two = two, one
                one.extend(two)
                for member in two:
                    self._part[member] = one
                self.count -= 1

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Parts of several nodes, each in execution order, in the order of their first node."""
        found: dict[int, tuple[str, ...]] = {}
        for part in self._part.values():
            if len(part) > 1 and id(part) not in found:
                found[id(part)] = tuple(sorted(part, key=self._order.__getitem__))
        return tuple(sorted(found.values(), key=lambda group: self._order[group[0]]))
