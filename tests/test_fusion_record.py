"""Decisions from the recorder in place of the log's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from build import artifacts, computed, dep, layout, node, origins, scheduled
from build import fused as merged
from words import text

from inspector.analysis.fusion import analyse_fusion
from inspector.contract.fusions import to_json
from inspector.model.decision import Evidence
from inspector.model.fusion import FusionReport
from inspector.model.record import GraphRecord, ProcessRecord
from inspector.present.fusion import evidence_text
from inspector.present.fusion import lines as words_of
from inspector.present.fusion_why import Partners, why_page
from inspector.readers.record import parse_record
from inspector.readers.run import Run

SAMPLE = Path(__file__).parent.parent / "sample_runs" / "softmax" / "run.tar.xz"


def read(
    nodes: Sequence[Mapping[str, object]], *decisions: dict[str, object], **more: object
) -> ProcessRecord:
    """A recorder's file with one graph."""
    graph = {
        "kind": "graph", "graph": "model__0_inference_0.0", "compile_id": "0/0", "rounds": [],
        "nodes": nodes, "decisions": [{"round": 1, "reason": None, **item} for item in decisions], **more,
    }  # fmt: skip
    return parse_record(json.dumps(graph) + "\n", "rank0.jsonl")


UNFUSABLE = "unfusable node: op2 is an extern kernel (extern_kernels.mm)"

NODES = (
    {"name": "op0"},
    {"name": "op1"},
    {"name": "op0_op1", "members": ["op0", "op1"]},
    {"name": "op2"},
    {"name": "op3"},
)
(RECORD,) = read(
    NODES,
    {"first": 0, "second": 1, "verdict": "fused", "score": [2, False, 25600, -1]},
    {
        "first": 2,
        "second": 3,
        "verdict": "rejected",
        "reason": "memory deps did not match",
        "source": "torch",
        "benchmark": {"fused": False, "times_ms": [0.012, 0.011, 0.031]},
    },
    {"first": 3, "second": 4, "verdict": "never_tried", "reason": UNFUSABLE, "source": "recorder"},
    score_fields=["template_score", "node_type_score", "memory_score"],
).graphs


def test_answers_of_torch_and_pairs_that_were_never_asked_are_taken_over() -> None:
    fused, refused, untried = RECORD.decisions
    assert (fused.first, fused.second, fused.verdict, fused.measured) == ("op0", "op1", "fused", False)
    assert (refused.verdict, refused.reason, refused.measured) == (
        "rejected",
        "memory deps did not match",
        True,
    )
    assert refused.first_members == ("op0", "op1")
    assert (untried.verdict, untried.reason, untried.by_torch) == ("never_tried", UNFUSABLE, False)
    assert untried.evidence == Evidence()


def test_a_pair_that_timing_allowed_and_something_else_refused_was_not_slower() -> None:
    (record,) = read(
        NODES,
        {
            "first": 0,
            "second": 1,
            "verdict": "rejected",
            "reason": "will create cycle",
            "source": "recorder",
            "benchmark": {"fused": True, "times_ms": [0.03, 0.03, 0.01]},
        },
    ).graphs
    assert not record.decisions[0].measured


def test_scores_and_measured_times_are_told() -> None:
    shared = dep("x", c0=6400)
    nodes = tuple(
        computed(f"op{number}", (shared,), (6400,), users="OUTPUT", inputs=(("x", layout(6400)),))
        for number in range(4)
    )
    report = analyse_fusion(replace(scheduled(nodes, (merged(*nodes[:2]), *nodes[2:])), record=RECORD))
    fused, refused, untried = to_json([report])["graphs"][0]["decisions"][:3]
    # What torch gives beyond its names is counted, not dropped.
    assert fused["score"] == {"template_score": 2, "node_type_score": False, "memory_score": 25600, "3": -1}
    assert (fused["times_ms"], untried["score"], untried["times_ms"]) == (None, None, None)
    assert refused["times_ms"] == [0.012, 0.011, 0.031]
    assert "torch measured 12.0 us and 11.0 us apart, 31.0 us as one" in text(words_of([report], 120, True))
    assert "round 1, op0 + op1, fused: torch's score: template 2" in text(words_of([report], 120, True))
    (missed,) = (pair for pair in report.missed if "op2" in pair.second and pair.verdict == "rejected")
    assert missed.evidence.times_ms == (0.012, 0.011, 0.031)
    brief = text(words_of([report], 120))
    assert "torch's score" not in brief and "31.0 us as one" in brief
    why = text(why_page(Partners.of(report), "op2", 120).lines)
    assert "12.0 us and 11.0 us apart, 31.0 us as one" in why
    assert "score: template 2, node type no, memory 25,600, 3 -1" in evidence_text(
        report, report.decisions[0]
    )


def test_times_around_a_template_are_not_told_apart() -> None:
    report = analyse_fusion(replace(scheduled((), ()), record=RECORD))
    assert "as one" in evidence_text(report, report.decisions[1])
    template = scheduled((), (node("op9", inner="TemplateBuffer"),))
    among = replace(report, nodes=analyse_fusion(template).nodes)
    assert "as one" not in evidence_text(among, report.decisions[1])


def test_the_record_comes_before_the_log() -> None:
    post = tuple(node(f"op{index}", writes=f"buf{index}") for index in range(4))
    logged = artifacts(post, fusion=origins(op0="add"))
    assert analyse_fusion(logged).decision_source == "log"
    recorded = analyse_fusion(replace(logged, record=RECORD))
    assert recorded.decision_source == "recorder"
    assert [item.category for item in recorded.decisions] == [None, "measured_slower", "extern_kernel"]
    (untried,) = (item for item in recorded.decisions if item.verdict == "never_tried")
    assert (untried.reason, untried.by_torch, untried.inferred) == (UNFUSABLE, False, False)


@pytest.fixture(scope="module")
def recorded() -> list[tuple[GraphRecord, FusionReport]]:
    """Every graph of the sample runs that has a record."""
    found = []
    for path in sorted((Path(__file__).parent.parent / "sample_runs").glob("*/run.tar.xz")):
        for graph in Run.open(path).graphs:
            record = graph.record()
            if record is not None:
                found.append((record, analyse_fusion(graph.artifacts())))
    assert len(found) > 8
    return found


def test_each_pair_of_a_record_is_a_decision(recorded: list[tuple[GraphRecord, FusionReport]]) -> None:
    for record, report in recorded:
        assert report.decision_source == "recorder"
        assert Counter(
            (d.first, d.second, d.round, d.verdict, d.reason) for d in record.decisions
        ) == Counter((d.first, d.second, d.round, d.verdict, d.reason) for d in report.decisions)
        kinds = Counter(d.category or "fused" for d in report.decisions)
        assert sum(kinds.values()) == len(record.decisions)
        (graph,) = to_json([report])["graphs"]
        extra = graph["decisions"][len(record.decisions) :]
        known = {frozenset((d.first, d.second)) for d in report.decisions}
        assert not [d for d in extra if frozenset((d["first"], d["second"])) in known], "no pair twice"


def test_other_reasons_of_records_are_below_two_percent(
    recorded: list[tuple[GraphRecord, FusionReport]],
) -> None:
    found = Counter(d.category for _, report in recorded for d in report.decisions if d.category)
    assert sum(found.values()) > 100
    assert found["other"] < 0.02 * sum(found.values()), found


def test_reasons_of_the_recorder_are_not_put_into_torchs_mouth() -> None:
    report = analyse_fusion(next(iter(Run.open(SAMPLE).graphs)).artifacts())
    shown = text(words_of([report], 100))
    assert 'recorder: "unfusable node: op0 is an extern kernel (extern_kernels.mm)"' in shown
    assert 'torch: "unfusable' not in shown
    assert "7 never tried (4 extern kernel in the way, 3 never tried)" in " ".join(shown.split())
    (graph,) = to_json([report])["graphs"]
    untried = [d for d in graph["decisions"] if d["verdict"] == "never_tried"]
    assert {d["reason_by"] for d in untried} == {"recorder"}
