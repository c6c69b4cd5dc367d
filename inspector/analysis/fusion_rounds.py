"""Fusion as it happened: the groups after each round, from what the recorder or the log says was fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inspector.model.decision import DecisionSource
from inspector.model.fusion import FusionHistory, FusionReport, FusionStep
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import Schedule

from .decisions import Names
from .partition import Partition


def fusion_history(artifacts: GraphArtifacts, report: FusionReport) -> FusionHistory:
    """The schedule before fusion, after each round, and as it is in ir_post_fusion.txt.

    A record knows the nodes of each round; from a log the groups follow from its ``fusing A with B`` lines
    (torch/_inductor/scheduler.py: Scheduler.fuse_nodes_once). What formed without either, such as foreach
    groups, is there from the beginning where ir_pre_fusion.txt has it, and otherwise in the last step.
    """
    names = Names(report.nodes)
    final = tuple(tuple(group.nodes) for group in report.groups if len(group.nodes) > 1)
    unfused = _groups_of(artifacts.pre)
    if artifacts.record is not None:
        for name, members in artifacts.record.members.items():
            names.learn(name, members)
        if artifacts.record.rounds:
            unfused = [names.members(name) for name in artifacts.record.rounds[0].nodes]
    parts = Partition(node.name for node in report.nodes)
    for group in unfused:
        parts.join(group)
    steps = [FusionStep(0, parts.groups(), (), parts.count)]
    fused = _fused(report)
    for number in _rounds(artifacts, fused):
        pairs = fused.get(number, ())
        for first, second in pairs:
            parts.join((*names.members(first), *names.members(second)))
        steps.append(FusionStep(number, parts.groups(), tuple(pairs), parts.count))
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
    rounds: dict[int, list[tuple[str, str]]] = {}
    for decision in report.decisions:
        if decision.verdict == "fused":
            rounds.setdefault(decision.round, []).append((decision.first, decision.second))
    return rounds


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
