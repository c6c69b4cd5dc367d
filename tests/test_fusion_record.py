"""Decisions from the recorder in place of the log's."""

from __future__ import annotations

from dataclasses import replace

from build import artifacts, node, origins

from inspector.analysis.decisions import records_of_record
from inspector.analysis.fusion import analyse_fusion
from inspector.model.record import GraphRecord, RecordedBenchmark, RecordedDecision


def decision(first: str, second: str, verdict: str, reason: str | None, **more: object) -> RecordedDecision:
    plain = RecordedDecision(first, second, 1, "fused", None, "torch", 64)
    return replace(plain, verdict=verdict, reason=reason, **more)  # type: ignore[arg-type]


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
        decision("op2", "op3", "never_tried", "unfusable node", source="recorder"),
    ),
    buffers=(),
    inputs=(),
    members={"op0_op1": ("op0", "op1")},
)


def test_answers_of_torch_are_taken_over_and_what_was_never_asked_is_not() -> None:
    fused, refused = records_of_record(RECORD)
    assert (fused.first, fused.second, fused.verdict, fused.measured) == ("op0", "op1", "fused", False)
    assert (refused.verdict, refused.reason, refused.measured) == (
        "rejected",
        "memory deps did not match",
        True,
    )
    assert refused.first_members == ("op0", "op1")


def test_the_record_comes_before_the_log() -> None:
    post = tuple(node(f"op{index}", writes=f"buf{index}") for index in range(4))
    logged = artifacts(post, fusion=origins(op0="add"))
    assert analyse_fusion(logged).decision_source == "log"
    recorded = analyse_fusion(replace(logged, record=RECORD))
    assert recorded.decision_source == "recorder"
    assert len([item for item in recorded.decisions if item.verdict != "never_tried"]) == 2
