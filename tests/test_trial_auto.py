"""`--try auto`: which settings bear on a run, and in which order what was tried comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from words import text

from inspector.capture.environment import CaptureOptions
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.left_to_aten import as_eager
from inspector.model.account import Claim
from inspector.model.explain import Trial
from inspector.model.trial import Outcome
from inspector.model.two_sides import Block, KernelTime
from inspector.present.trial import lines
from inspector.readers.run import Run
from inspector.trial import auto
from inspector.trial.auto import try_auto
from inspector.trial.candidates import candidates
from inspector.trial.run import AS_IT_IS
from inspector.trial.settings import Setting


@pytest.mark.parametrize(
    ("path", "bears", "missing"),
    [
        ("convmixer/infer-default.run", "layout_optimization=False", "freezing=True"),
        ("h200-torch2.11/softmax", 'mode="reduce-overhead"', "layout_optimization=False"),
        ("cpu-torch2.13/softmax", "freezing=True", 'mode="reduce-overhead"'),
    ],
)
def test_only_what_bears_on_the_runs_kernels_is_tried(
    path: str, bears: str, missing: str, corpus: Path, convmixer: Path
) -> None:
    case = gather(Run.open((convmixer.parent if path.startswith("convmixer") else corpus) / path))
    labels = [setting.label for setting in candidates(explain_case(case), case)]
    assert bears in labels and missing not in labels
    assert len(labels) == len(set(labels)) and labels[-1] == "TORCH_COMPILE_DISABLE=1"


SECONDS = 10.0
"""Of any run."""
TAKES = {AS_IT_IS: 10.0, "same": 9.9, "good": 5.0, "best": 2.0, "worse": 12.0, "late": 1.0, "slow": 1.0}


@pytest.fixture
def timings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Captures that take no time and calls that take what TAKES says; what was checked."""
    checked: list[str] = []
    clock = [0.0]

    @contextmanager
    def into_trials(_run: object) -> Iterator[Path]:
        yield tmp_path

    def options_of(_run: object, folder: Path, label: str, _trial: Trial | None) -> CaptureOptions:
        return CaptureOptions(command=(label,), out=folder / label)

    def capture_with(run: object, folder: Path, label: str, trial: Trial | None) -> object:
        assert label != "worse", "captured although no better"
        clock[0] += 1e4 if label == "slow" else SECONDS
        outcome = Outcome(label, trial, 0.0, 1.0, 1, 1e6, (), "run")
        return options_of(run, folder, label, trial), outcome

    def time_in_turns(runs: Sequence[CaptureOptions], *_: object, **__: object) -> tuple[float | None, ...]:
        clock[0] += SECONDS * len(runs)
        return tuple(TAKES.get(options.command[0]) for options in runs)

    def check(outcome: Outcome, _progress: Callable[[str], None]) -> Outcome:
        checked.append(outcome.label)
        return replace(outcome, checks=(("match", 1),))

    for name, stub in (
        ("into_trials", into_trials), ("capture_with", capture_with), ("time_in_turns", time_in_turns),
        ("checked", check), ("options_of", options_of),
    ):  # fmt: skip
        monkeypatch.setattr(auto, name, stub)
    monkeypatch.setattr("inspector.trial.auto.time.monotonic", lambda: clock[0])
    return checked


def test_what_wins_is_timed_again_and_stands_first(timings: list[str], corpus: Path) -> None:
    settings = [Setting(label, Trial(mode=label)) for label in ("worse", "good", "broken", "same", "best")]
    report = try_auto(Run.open(corpus / "cpu-torch2.13/softmax"), settings)
    assert [outcome.label for outcome in report.tried[:2]] == ["best", "good"]
    assert {outcome.label for outcome in report.tried[2:]} == {"same", "worse", "broken"}
    assert timings == [AS_IT_IS, "best", "good"]
    assert [outcome.rounds for outcome in report.tried[:3]] == [3, 3, 1]
    said = text(lines(report, 100))
    assert "5.00x faster" in said and "was not captured" in said and "broken: it failed" in said


def test_what_there_is_no_time_for_is_named(timings: list[str], corpus: Path) -> None:
    report = try_auto(
        Run.open(corpus / "cpu-torch2.13/softmax"), [Setting("late", Trial(mode="late"))], budget_s=1.0
    )
    assert report.tried == () and report.left == ("late",) and timings == []
    assert "no time was left for late" in text(lines(report, 100))


def test_checking_results_does_not_take_the_time_of_what_won(timings: list[str], corpus: Path) -> None:
    report = try_auto(Run.open(corpus / "cpu-torch2.13/softmax"), [Setting("slow", Trial(mode="slow"))])
    assert [outcome.label for outcome in report.tried] == ["slow"] and timings == []
    assert report.tried[0].ms == 1.0 and report.tried[0].unchecked == auto.NO_TIME
    assert "to keep it: torch.compile(..., mode='slow')" in text(lines(report, 100))


def test_what_the_slow_kernel_does_comes_before_what_others_do(profiled_convmixer: Path) -> None:
    case = gather(Run.open(profiled_convmixer))
    explanation = explain_case(case)
    labels = [setting.label for setting in candidates(explanation, case)]
    assert labels[0] == "layout_optimization=False"
    graph, launch = next(item for item in case.launches() if "_gelu_" in item[1].name)
    claim = Claim(None, "least", (1.0, 1.0), "profiled", graph.name, launch.call.index)
    first = replace(explanation.findings[0], trial=None, claims=(claim,))
    labels = [setting.label for setting in candidates(replace(explanation, findings=(first,)), case)]
    assert labels[0] == "aten.gelu left to ATen"
    graph, launch = next(item for item in case.launches() if item[1].name.startswith("triton_per"))
    claim = replace(claim, call=launch.call.index)
    first = replace(first, claims=(claim,))
    labels = [setting.label for setting in candidates(replace(explanation, findings=(first,)), case)]
    assert labels.index("triton.persistent_reductions=False") < labels.index("layout_optimization=False")


def test_what_eager_runs_whole_and_compiled_code_does_not_can_be_left_to_aten(corpus: Path) -> None:
    """A product with a vector, taken apart before the lowered graph; views, copies, draws and what both run
    are no candidates, nor is what takes nothing."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    names = {"bmm": 4.0, "mul": 3.0, "copy_": 2.0, "normal_": 2.0, "tanh_": 1.0, "addmm": 5.0, "erf": 0.1}
    eager = tuple(KernelTime(f"aten::{name}", 1.0, ms) for name, ms in names.items())
    compiled = (KernelTime("cpp_fused_bmm_0", 1.0, 9.0, True), KernelTime("aten::addmm", 1.0, 5.0))
    block = Block((), (), ("matmul",), "forward", "graph", 17.1, 14.0, eager, compiled)
    assert as_eager(case, block) == ("aten.bmm",)
    assert as_eager(case, replace(block, eager_ms=10.0)) == ("aten.bmm", "aten.tanh")
    assert as_eager(replace(case, graphs=tuple(replace(g, gpu=True) for g in case.graphs)), block) == ()
