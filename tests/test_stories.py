"""The known stories: each committed run is explained as its program was written to be."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import explained
from sharing import unpacked

from inspector.explain.gather import gather
from inspector.explain.rules import recomputed
from inspector.model.explain import Explanation
from inspector.readers.run import Run

STORIES = Path(__file__).parent.parent / "sample_runs" / "stories"


def told(name: str, archive: str = "run") -> Explanation:
    return explained(STORIES / name / f"{archive}.tar.xz")


@pytest.mark.parametrize(
    ("story", "rule"),
    [
        ("small_softmax", "host_bound"),
        ("ten_million", "nothing_found"),
        ("resnet_as_trained", "training_mode_inference"),
        ("old_gpu", "compile_failed"),
        ("first_call", "benchmark_artifact"),
        ("batch_sizes", "recompiles"),
        ("matmuls", "extern_dominated"),
        ("transformer_gpu", "host_bound"),
        ("fp8_matmul", "healthy"),
        ("decoder_upsample", "recomputed"),
        ("bicubic_of_mish", "recomputed"),
        ("kv_by_position", "functionalized_copies"),
        ("warp", "decomposition_slower"),
        ("relative_bias", "constant_work"),
        ("depth_of_frames", "strided_accesses"),
        ("score_rollouts", "register_spills"),
        ("peak_of_recordings", "too_few_programs"),
        ("companding", "cpu_not_vectorized"),
    ],
)
def test_the_cause_comes_first(story: str, rule: str) -> None:
    assert told(story).findings[0].rule == rule


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("decoder_upsample", 16),
        ("bicubic_of_mish", 24),
        ("kv_by_position", 20),
        ("warp", 24),
        ("diffusion_noise", 15),
        ("relative_bias", 12),
        ("peak_of_recordings", 13),
    ],
)
def test_work_that_nobody_asked_for_is_told_on_its_line(name: str, line: int) -> None:
    first = next(finding for finding in told(name).findings if finding.rule != "machine_busy")
    assert first.severity != "low"
    assert (first.evidence[0].path, first.evidence[0].line) == (f"/home/user/{name}.py", line)


@pytest.mark.parametrize(
    ("name", "instruction", "line"),
    [
        ("depth_of_frames", r"LDG\.E.* \(4 loads of 32 bits a thread: r0_1 moves its index by 4, x0 ", 12),
        ("score_rollouts", r"(?:LDL|STL)\S* .*\((?:[\d,]+) instructions for spilled registers", 20),
        ("companding", r"%xmm.* one number at a time; .*, as lowered on request", 15),
    ],
)
def test_the_instruction_behind_it_is_shown_with_its_line(name: str, instruction: str, line: int) -> None:
    evidence = told(name).findings[0].evidence
    (own,) = [each for each in evidence if each.path.endswith((".sass", ".asm"))]
    assert re.search(instruction, own.text), own.text
    assert own.line is not None and f"{name}.py:{line}" in own.text


def test_a_claim_holds_what_its_cure_brought() -> None:
    """Before and after in turns on the machine that captured it, of which the kernel is all but the host."""
    for name, before, after in (("depth_of_frames", 0.465, 0.218), ("score_rollouts", 1.354, 0.510)):
        finding = told(name).findings[0]
        low, high = (sum(claim.ms[end] for claim in finding.claims) for end in (0, 1))
        assert low < before - after < 1.1 * high, name


def test_atens_own_time_is_read_off_eagers_profile() -> None:
    findings = told("bicubic_of_mish").findings
    (item,) = [item for item in findings if item.rule == "decomposition_slower"]
    assert "ATen's own takes 341 us, in eager (upsample_bicubic2d_out_frame 341 us)" in item.title
    assert "the generated kernel 1.99 ms" in item.title and item.how == "measured"
    assert "custom_op" in item.advice and "make_fallback" not in item.advice


def test_instructions_that_a_gpu_hides_behind_its_loads_save_nothing() -> None:
    """The same kernel with a hundredth of the instructions, in the same time: it waits for something else."""
    case = gather(Run.open(STORIES / "bicubic_of_mish" / "run.tar.xz"))
    (graph,) = case.graphs
    (whole,) = recomputed.find(case)
    few = {name: work / 100 for name, work in graph.fusion.work.items()}
    thin = replace(graph, fusion=replace(graph.fusion, work=few))
    assert whole.cost_ms is not None and whole.cost_ms > 1.0
    assert all(
        (found.cost_ms or 0.0) < whole.cost_ms / 10
        for found in recomputed.find(replace(case, graphs=(thin,)))
    )


def test_random_numbers_come_first_but_for_the_busy_machine() -> None:
    busy, told_first, *_ = told("diffusion_noise").findings
    assert (busy.rule, told_first.rule) == ("machine_busy", "random_numbers")
    assert told_first.trial is not None and told_first.trial.label == "fallback_random=True"


def test_a_resnet_in_inference_is_not_told_to_leave_training() -> None:
    rules = [finding.rule for finding in told("resnet_inference").findings]
    assert "training_mode_inference" not in rules


def test_cuda_graphs_win_what_was_promised_for_them() -> None:
    """The default's prediction against the run that took the advice."""
    before = told("transformer_gpu")
    after = told("transformer_gpu", "run_reduce_overhead")
    first = before.findings[0]
    assert first.trial is not None and first.trial.mode == "reduce-overhead"
    assert [finding for finding in after.findings if finding.severity != "low"] == []
    assert before.ledger.compiled_ms is not None and after.ledger.compiled_ms is not None
    saved = before.ledger.compiled_ms - after.ledger.compiled_ms
    assert first.cost_ms == pytest.approx(saved, rel=0.3)


def test_a_training_step_has_forward_and_backward_in_one_ledger() -> None:
    result = told("training_step")
    assert "training_mode_inference" not in [finding.rule for finding in result.findings]
    ledger = result.ledger
    assert ledger.compiled_ms is not None and ledger.eager_ms is not None
    assert {"library kernels", "generated kernels"} <= {part.part for part in ledger.parts}


@pytest.mark.parametrize(
    ("story", "archive"),
    [(path.parent.name, path.name.removesuffix(".tar.xz")) for path in sorted(STORIES.glob("*/*.tar.xz"))],
)
def test_ledgers_add_up_and_explain_nine_tenths_or_say_why_not(story: str, archive: str) -> None:
    ledger = told(story, archive).ledger
    if ledger.compiled_ms is None or not ledger.parts:
        return
    assert ledger.unexplained_ms is not None
    whole = sum(part.ms for part in ledger.parts) + ledger.unexplained_ms
    assert whole == pytest.approx(ledger.compiled_ms)
    # Kernels of a CPU replayed alone find memory that is there already: both times are said then.
    assert ledger.doubts or abs(ledger.unexplained_ms) < 0.1 * ledger.compiled_ms


def test_advice_of_the_sizes_that_change_can_be_tried() -> None:
    first = told("batch_sizes").findings[0]
    assert first.trial is not None and first.trial.dynamic is True
    assert first.evidence[0].path.endswith("batch_sizes.py")


def test_what_compiling_took_is_from_the_calls_or_else_from_the_trace(tmp_path: Path) -> None:
    run = unpacked(STORIES / "training_step" / "run.tar.xz", tmp_path) / "training_step"
    case = gather(Run.open(run))
    assert case.compile_source == "calls" and case.compile_s == (case.times.cold_ms or 0.0) / 1e3
    for folder in ("record", "baseline"):
        shutil.rmtree(run / folder, ignore_errors=True)
    case = gather(Run.open(run))
    assert case.compile_source == "trace" and case.in_trace is not None
    assert case.compile_s == case.in_trace.total_ns / 1e9


@pytest.mark.parametrize("name", sorted(path.parent.name for path in STORIES.glob("*/run_after.tar.xz")))
def test_what_was_cured_is_said_no_more(name: str) -> None:
    """Nor is anything else but a note and the busy machine: the program compiled, and ran."""
    before = next(finding.rule for finding in told(name).findings if finding.rule != "machine_busy")
    after = told(name, "run_after")
    assert after.ledger.compiled_ms is not None
    rules = {finding.rule: finding.severity for finding in after.findings}
    assert before not in rules
    # The operator that the interpolation was put into is most of a call, and Python is around it.
    left = {"host_bound", "fallback_kernels"} if name == "bicubic_of_mish" else set()
    assert {rule for rule, severity in rules.items() if severity != "low"} <= {"machine_busy", *left}
