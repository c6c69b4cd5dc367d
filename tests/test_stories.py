"""The known stories: each committed run is explained as its program was written to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.explain import explain
from inspector.model.explain import Explanation
from inspector.readers.run import Run

STORIES = Path(__file__).parent.parent / "sample_runs" / "stories"


def told(name: str) -> Explanation:
    return explain(Run.open(STORIES / name / "run.tar.xz"))


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        ("small_softmax", "host_bound"),
        ("ten_million", "healthy"),
        ("resnet_as_trained", "training_mode_inference"),
        ("old_gpu", "eager_in_disguise"),
        ("first_call", "benchmark_artifact"),
        ("batch_sizes", "recompiles"),
        ("matmuls", "extern_dominated"),
    ],
)
def test_the_cause_comes_first(story: str, rule: str) -> None:
    assert told(story).findings[0].rule == rule


def test_a_resnet_in_inference_is_not_told_to_leave_training() -> None:
    rules = [finding.rule for finding in told("resnet_inference").findings]
    assert "training_mode_inference" not in rules


def test_a_training_step_has_forward_and_backward_in_one_ledger() -> None:
    result = told("training_step")
    assert "training_mode_inference" not in [finding.rule for finding in result.findings]
    ledger = result.ledger
    assert ledger.compiled_ms is not None and ledger.eager_ms is not None
    assert {"library kernels", "generated kernels"} <= {part.part for part in ledger.parts}


@pytest.mark.parametrize("story", [path.parent.name for path in sorted(STORIES.glob("*/run.tar.xz"))])
def test_ledgers_add_up_and_explain_nine_tenths(story: str) -> None:
    ledger = told(story).ledger
    if ledger.compiled_ms is None or not ledger.parts:
        return
    assert ledger.unexplained_ms is not None
    whole = sum(part.ms for part in ledger.parts) + ledger.unexplained_ms
    assert whole == pytest.approx(ledger.compiled_ms)
    assert abs(ledger.unexplained_ms) < 0.1 * ledger.compiled_ms


def test_advice_of_the_sizes_that_change_can_be_tried() -> None:
    first = told("batch_sizes").findings[0]
    assert first.trial is not None and first.trial.dynamic is True
    assert first.evidence[0].path.endswith("batch_sizes.py")
