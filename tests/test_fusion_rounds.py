"""Fusion round by round: groups after each, against torch's own counts and the recorder's own rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import build
import pytest

from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.fusion_rounds import fusion_history
from inspector.model.decision import Decision
from inspector.model.fusion import FusionHistory
from inspector.model.logs import FusionLog, FusionRound
from inspector.model.run import GraphArtifacts
from inspector.readers.run import Run

ROOT = Path(__file__).parent.parent


def history(artifacts: GraphArtifacts) -> FusionHistory:
    return fusion_history(artifacts, analyse_fusion(artifacts))


def three_nodes(*decisions: Decision, merged: bool = True) -> GraphArtifacts:
    one = build.computed("op0", (build.dep("x"),), (64,), inputs=(("x", build.layout(64)),), users="op1")
    two = build.computed("op1", (build.dep("buf0"),), (64,), users="op2")
    three = build.computed("op2", (build.dep("buf1"),), (64,), users="OUTPUT")
    post = (build.fused(one, two, three),) if merged else (one, two, three)
    rounds = tuple(FusionRound(number, None, None, None, number) for number in (1, 2, 3))
    log = FusionLog("0/0", 0, "model__0_inference_0.0", rounds, decisions, (), ())
    return build.scheduled((one, two, three), post, fusion=log if decisions else None)


def test_groups_grow_round_by_round() -> None:
    found = history(
        three_nodes(
            Decision("op1", "op2", 1, "fused", None, 1),
            Decision("op0", "op1_op2", 2, "fused", None, 2),
        )
    )
    assert found.source == "log" and not found.notes
    assert [(step.number, step.groups, step.count) for step in found.steps] == [
        (0, (), 3),
        (1, (("op1", "op2"),), 2),
        (2, (("op0", "op1", "op2"),), 1),
        (3, (("op0", "op1", "op2"),), 1),
    ]
    assert found.steps[2].fused == (("op0", "op1_op2"),)


def test_what_no_round_tells_of_is_a_last_step_with_a_note() -> None:
    found = history(three_nodes(Decision("op1", "op2", 1, "fused", None, 1)))
    assert found.steps[-1].number is None
    assert found.steps[-1].groups == (("op0", "op1", "op2"),)
    assert "does not tell how 1 group came about" in found.notes[0]


def test_without_log_and_record_only_beginning_and_end_are_known() -> None:
    found = history(three_nodes())
    assert found.source == "none"
    assert [(step.number, step.count) for step in found.steps] == [(0, 3), (None, 1)]
    assert "only the beginning and the end are known" in found.notes[0]


def test_groups_of_the_file_before_fusion_are_there_from_the_beginning() -> None:
    whole = three_nodes(Decision("op0", "op1", 1, "rejected", "no shared data", 1))
    assert whole.pre is not None and whole.post is not None
    foreach = replace(whole, pre=replace(whole.pre, nodes=whole.post.nodes))
    found = history(foreach)
    assert found.steps[0].groups == (("op0", "op1", "op2"),)
    assert all(step.number is not None for step in found.steps)


def test_every_log_leads_to_the_file_and_agrees_with_torchs_counts(corpus_runs: list[Path]) -> None:
    seen = 0
    for root in corpus_runs:
        for graph in Run.open(root).graphs:
            artifacts = graph.artifacts()
            if artifacts.fusion is None or artifacts.post is None or artifacts.pre is None:
                continue
            found = history(artifacts)
            assert found.notes == () and found.steps[-1].number is not None, (root, graph.name)
            assert found.steps[-1].count == len(artifacts.post.nodes)
            told = {item.number: item.nodes_after for item in artifacts.fusion.rounds}
            for step in found.steps:
                if step.number and told[step.number] is not None:
                    seen += 1
                    assert step.count == told[step.number], (root, graph.name, step.number)
    assert seen > 80


@pytest.mark.parametrize("name", ["softmax", "transformer", "breaks"])
def test_the_recorders_own_rounds_are_the_same(name: str) -> None:
    for graph in Run.open(ROOT / "sample_runs" / name / "run.tar.xz").graphs:
        artifacts = graph.artifacts()
        record = artifacts.record
        if record is None:
            continue
        found = history(artifacts)
        assert found.source == "recorder" and found.notes == ()
        for step, later in zip(found.steps, record.rounds, strict=False):
            own = {tuple(sorted(record.members.get(node, (node,)))) for node in later.nodes}
            assert {tuple(sorted(group)) for group in step.groups} == {g for g in own if len(g) > 1}
            assert step.count == len(later.nodes)
