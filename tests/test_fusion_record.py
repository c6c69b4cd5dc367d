"""Decisions from the recorder in place of the log's."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from build import artifacts, node, origins
from words import text

from inspector.analysis.decisions import records_of_record
from inspector.analysis.fusion import analyse_fusion
from inspector.contract.fusions import to_json
from inspector.model.fusion import FusionReport
from inspector.model.record import GraphRecord, RecordedBenchmark, RecordedDecision
from inspector.present.fusion import lines as words_of
from inspector.readers.run import Run

SAMPLE = Path(__file__).parent.parent / "sample_runs" / "softmax" / "run.tar.xz"


def decision(first: str, second: str, verdict: str, reason: str | None, **more: object) -> RecordedDecision:
    plain = RecordedDecision(first, second, 1, "fused", None, "torch", 64)
    return replace(plain, verdict=verdict, reason=reason, **more)  # type: ignore[arg-type]


UNFUSABLE = "unfusable node: op2 is an extern kernel (extern_kernels.mm)"

RECORD = GraphRecord(
    graph="model__0_inference_0.0",
    process=None,
    aot=None,
    compile_id="0/0",
    part=0,
    finished=True,
    rounds=(),
    decisions=(
        decision("op0", "op1", "fused", None),
        decision(
            "op0_op1", "op2", "rejected", "memory deps did not match", benchmark=RecordedBenchmark(False, ())
        ),
        decision("op2", "op3", "never_tried", UNFUSABLE, source="recorder"),
    ),
    buffers=(),
    inputs=(),
    members={"op0_op1": ("op0", "op1")},
)


def test_answers_of_torch_and_pairs_that_were_never_asked_are_taken_over() -> None:
    fused, refused, untried = records_of_record(RECORD)
    assert (fused.first, fused.second, fused.verdict, fused.measured) == ("op0", "op1", "fused", False)
    assert (refused.verdict, refused.reason, refused.measured) == (
        "rejected",
        "memory deps did not match",
        True,
    )
    assert refused.first_members == ("op0", "op1")
    assert (untried.verdict, untried.reason, untried.by_torch) == ("never_tried", UNFUSABLE, False)


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
