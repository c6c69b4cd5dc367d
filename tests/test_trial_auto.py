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
from inspector.model.explain import Trial
from inspector.model.trial import Outcome
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


TAKES = {AS_IT_IS: 10.0, "same": 9.9, "good": 5.0, "best": 2.0, "worse": 12.0, "late": 1.0}


@pytest.fixture
def timings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Captures that take no time and calls that take what TAKES says; what was checked."""
    checked: list[str] = []

    @contextmanager
    def into_trials(_run: object) -> Iterator[Path]:
        yield tmp_path

    def capture_with(_run: object, folder: Path, label: str, trial: Trial | None) -> object:
        failure = "exit code 1" if label == "broken" else ""
        options = CaptureOptions(command=(label,), out=folder / label)
        return options, Outcome(label, trial, 0.0, 1.0, 1, 1e6, (), "run", failure=failure)

    def time_in_turns(runs: Sequence[CaptureOptions], *_: object, **__: object) -> tuple[float, ...]:
        return tuple(TAKES[options.command[0]] for options in runs)

    def check(outcome: Outcome, _progress: Callable[[str], None]) -> Outcome:
        checked.append(outcome.label)
        return replace(outcome, checks=(("match", 1),))

    for name, stub in (
        ("into_trials", into_trials), ("capture_with", capture_with), ("time_in_turns", time_in_turns),
        ("checked", check),
    ):  # fmt: skip
        monkeypatch.setattr(auto, name, stub)
    return checked


def test_what_wins_is_timed_again_and_stands_first(timings: list[str], corpus: Path) -> None:
    settings = [Setting(label, Trial(mode=label)) for label in ("worse", "good", "broken", "same", "best")]
    report = try_auto(Run.open(corpus / "cpu-torch2.13/softmax"), settings)
    assert [outcome.label for outcome in report.tried[:2]] == ["best", "good"]
    assert {outcome.label for outcome in report.tried[2:]} == {"same", "worse", "broken"}
    assert timings == [AS_IT_IS, "best", "good"]
    assert [outcome.rounds for outcome in report.tried[:3]] == [3, 3, 1]
    said = text(lines(report, 100))
    assert "5.00x faster" in said and "timed and checked no more" in said and "exit code 1" in said


def test_what_there_is_no_time_for_is_named(timings: list[str], corpus: Path) -> None:
    report = try_auto(
        Run.open(corpus / "cpu-torch2.13/softmax"), [Setting("late", Trial(mode="late"))], budget_s=-1.0
    )
    assert report.tried == () and report.left == ("late",) and timings == [AS_IT_IS]
    assert "no time was left for late" in text(lines(report, 100))
