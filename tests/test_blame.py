"""The search for a cause: groups halved, sides told apart, what was measured kept; no program is run."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_contract import problems
from words import text

from inspector.capture.environment import CaptureOptions
from inspector.capture.recorder.guard import Guards
from inspector.capture.recorder.vary import Vary
from inspector.cli import cli
from inspector.contract.blame import to_json
from inspector.model.blame import SAME, Blame, Factor, Try
from inspector.model.explain import Trial
from inspector.model.problem import InspectorError
from inspector.present.blame import lines
from inspector.trial.blame import session
from inspector.trial.blame.factors import merged, passes
from inspector.trial.blame.measure import (
    Measured,
    _error,
    _raised,
    with_kernels,
    with_python,
    without_listing,
)
from inspector.trial.blame.scale import Scale, differ
from inspector.trial.blame.search import smallest


class Counted:
    """A test that is true where all `causes` are chosen; `broken` ones keep it from saying anything."""

    def __init__(self, causes: set[int], broken: frozenset[int] = frozenset()) -> None:
        self.causes = causes
        self.broken = broken
        self.asked: set[frozenset[int]] = set()

    def __call__(self, chosen: frozenset[int]) -> bool | None:
        self.asked.add(chosen)
        if chosen & self.broken:
            return None
        return self.causes <= chosen


@pytest.mark.parametrize("number", [1, 2, 7, 60])
def test_one_of_many_takes_as_many_tests_as_it_can_be_halved(number: int) -> None:
    for cause in {0, number // 2, number - 1}:
        test = Counted({cause})
        assert smallest(range(number), test) == (cause,)
        assert len(test.asked) <= 2 + (number - 1).bit_length()


def test_causes_that_are_needed_together_come_together() -> None:
    rng = random.Random(0)
    for _ in range(50):
        causes = set(rng.sample(range(20), 3))
        assert set(smallest(range(20), Counted(causes))) == causes


def test_what_breaks_the_program_hides_no_cause_beside_it() -> None:
    assert smallest(range(16), Counted({3}, frozenset({9}))) == (3,)
    assert smallest(range(16), Counted({14}, frozenset({9}))) == (14,)


def test_nothing_makes_no_difference() -> None:
    test = Counted({99})
    assert smallest(range(16), test) == ()
    assert len(test.asked) == 1


def test_sides_are_told_apart_by_more_than_noise() -> None:
    assert differ("kernels", [3], [4]) and not differ("kernels", [3], [3])
    assert differ("time", [1.0], [4.0])
    assert differ("time", [1.0], [2.0]) is None
    assert differ("time", [1.0, 1.1], [2.0, 2.1])
    assert differ("time", [1.0, 1.1, 1.0], [1.05, 1.3, 1.2]) is False
    assert differ("time", [1.0, 1.0, 1.0], [1.05, 1.05, 1.05]) is False


def test_a_value_in_the_middle_is_nobody_s() -> None:
    scale = Scale("time", 1.0, 4.0)
    assert [scale.near(value) for value in (1.2, 2.0, 3.5, None)] == ["a", None, "b", None]
    assert Scale("kernels", 3, 9).near(4) == "a" and Scale("kernels", 3, 9).near(8) == "b"
    exits = Scale("exit", None, 1.0, 0.0)
    assert [exits.near(code) for code in (0.0, 1.0, 139.0)] == ["a", "b", None]
    assert Scale("error", None, 0.3, 1e-3).near(1e-5) == "a"


def test_the_error_is_that_of_the_worst_output() -> None:
    def result(*made: list[float | None], given: float = 1.0) -> list[dict[str, Any]]:
        return [{"name": "f", "given": [[given]], "made": list(made)}]

    assert _error(result([1.0, 2.0]), result([1.0, 4.0])) == (0.5, "")
    assert _error(result([None]), result([None])) == (0.0, "")
    assert _error(result([1.0]), result([None]))[0] == float("inf")
    assert "seed it" in _error(result([1.0]), result([1.0], given=2.0))[1]
    assert "other tensors" in _error(result([1.0]), result([1.0, 2.0]))[1]


def test_another_interpreter_takes_the_place_of_the_command_s() -> None:
    assert with_python(["python3.11", "a.py"], "/b/python") == ("/b/python", "a.py")
    assert with_python(["a.py", "x"], "/b/python") == ("/b/python", "a.py", "x")
    with pytest.raises(InspectorError, match="begins with torchrun"):
        with_python(["torchrun", "a.py"], "/b/python")


def test_a_reproduction_asks_for_no_list() -> None:
    asked = json.dumps({"mode": None, "whole": [], "without": {"passes": ["a:b"], "apart": []}})
    (kept,) = without_listing([("INSPECTOR_OVERRIDE", asked)], True)
    assert json.loads(kept[1]) == {"without": {"passes": ["a:b"]}}
    nothing = json.dumps({"mode": None, "without": {"passes": []}})
    assert without_listing([("INSPECTOR_OVERRIDE", nothing), ("X", "1")], False) == (("X", "1"),)


def test_of_what_runs_share_only_compiled_kernels_stay(tmp_path: Path) -> None:
    for name in ("ab/kernel.so", "ab/kernel.best_config", "fxgraph/key/graph", "aotautograd/key/graph"):
        path = tmp_path / "inductor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    options = with_kernels(CaptureOptions(("python",), env=(("A", "1"),)), tmp_path)
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"kernel.so"}
    assert dict(options.env)["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")


def test_kernels_that_a_capture_compiled_are_not_compiled_again(tmp_path: Path) -> None:
    for side, name in (("a", "ab/one.so"), ("b", "ab/two.so"), ("b", "fxgraph/key/graph")):
        path = tmp_path / side / "cache" / "inductor" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    shared = tmp_path / "shared"
    for _ in range(2):
        with_kernels(CaptureOptions(("python",)), shared, [tmp_path / "a", tmp_path / "b", tmp_path / "none"])
        assert {path.name for path in shared.rglob("*") if path.is_file()} == {"one.so", "two.so"}
        assert (tmp_path / "b" / "cache" / "inductor" / "fxgraph" / "key" / "graph").exists()


class FakeRun:
    """A run of a command that nobody runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shown = str(root)
        self.manifest = None
        self.records = ()


NAMES = [f"post:{letter}" for letter in "abcdefgh"]


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Answers a question where B's exit code is 0 without the pass that `cause` names."""

    def search(cause: str, runs: int = 12, flaky: bool = False) -> Blame:
        ran: list[Trial] = []

        def run(self: Any, what: str, subject: Any, chosen: Any, out: Path) -> Measured:
            trial = merged(chosen)
            ran.append(trial)
            good = cause in trial.passes or (flaky and len(ran) > 3)
            return Measured(0.0 if good else 1.0, "", str(out), tuple(NAMES))

        monkeypatch.setattr(session, "refuse_foreign", lambda _: None)
        monkeypatch.setattr(session, "_commands", lambda *_: ("with", "without"))
        monkeypatch.setattr(session.Search, "_run", run)
        question = session.Question(FakeRun(tmp_path), None, "exit", ("pass",), runs=runs)  # type: ignore[arg-type]
        report = session.blame(question)
        search.ran = len(ran)  # type: ignore[attr-defined]
        return report

    return search


def test_a_pass_is_found_and_confirmed(searching: Any) -> None:
    report = searching("post:f")
    assert [factor.trial.passes for factor in report.causes] == [("post:f",)]
    assert len(report.tries) <= 9
    # The sides are run once more at the end.
    assert [item.what for item in report.tries[-2:]] == ["B as it is", "B with the pass f (post) left out"]
    assert problems("blame", to_json(report)) == []


def test_an_interrupted_search_goes_on(searching: Any, tmp_path: Path) -> None:
    first = searching("post:f", runs=4)
    assert not first.causes and "budget is spent" in first.verdict
    second = searching("post:f", runs=12)
    assert second.causes and searching.ran == len(second.tries) - 4
    assert not list(tmp_path.rglob(".state*"))


def test_what_does_not_repeat_is_not_blamed(searching: Any) -> None:
    report = searching("nothing", flaky=True)
    assert not report.causes and report.verdict == "no difference that repeats"


def test_what_is_good_as_it_is_has_no_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(session, "refuse_foreign", lambda _: None)
    monkeypatch.setattr(session.Search, "_run", lambda *_: Measured(0.0, "", ""))
    question = session.Question(FakeRun(tmp_path), None, "exit", ("pass",))  # type: ignore[arg-type]
    assert session.blame(question).verdict == SAME
    with pytest.raises(InspectorError, match="nothing to compare with"):
        session.blame(replace(question, metric="kernels"))


def test_the_answer_stands_first_and_the_log_last() -> None:
    cause = Factor("setting", "inductor.max_fusion_size=64", Trial(config=(("max_fusion_size", 64),)), "1")
    tries = (
        Try(1, "B as it is", 9.0, "b", 1.0, "run1"),
        Try(2, "A as it is", None, None, 1.0, "run2", "died"),
    )
    report = Blame("kernels", 3.0, 9.0, None, (cause,), cause.label, tries, ("one", "two"), (), "RUN/blame/1")
    shown = text(lines(report, 100))
    assert shown.startswith("Found in 2 runs: B is as good as A with inductor.max_fusion_size=64.")
    assert "(B has 1)" in shown and "A 3, B 9" in shown and "died" in shown
    assert problems("blame", to_json(report)) == []


def test_somebody_else_s_command_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "inspector.json").write_text(
        json.dumps({"schema": "inspector.run/1", "command": ["python", "x.py"], "status": "done"})
    )
    result = CliRunner().invoke(cli, ["blame", str(tmp_path), "--metric", "exit"])
    assert isinstance(result.exception, InspectorError)
    assert "not known to be your capture" in str(result.exception) or "no command" in str(result.exception)
    assert not (tmp_path / "blame").exists()


def test_another_failure_than_b_s_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "stderr.txt").write_text("Traceback (most recent call last):\n  File\nmy.Error: x = 1\n")
    assert _raised(tmp_path) == "my.Error"
    (tmp_path / "stderr.txt").write_text("Warning: nothing\n")
    assert _raised(tmp_path) == ""
    question = session.Question(FakeRun(tmp_path), None, "exit", ("pass",))  # type: ignore[arg-type]
    tries = [Try(1, "B as it is", 1.0, None, 1.0, ""), Try(2, "x", 1.0, None, 1.0, "", "my.Error")]
    search = session.Search(question, tmp_path, lambda _: None, tries)
    assert search._fails_otherwise("x") and not search._fails_otherwise("B as it is")


class Sink:
    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, line: dict[str, Any]) -> None:
        self.lines.append(line)


def test_passes_are_told_where_they_change_something_and_can_be_left_out() -> None:
    class Node:
        op, target, all_input_nodes = "call_function", "add", ()

        def __init__(self, name: str) -> None:
            self.name = name

    class Graph:
        def __init__(self) -> None:
            self.nodes = [Node("a"), Node("b")]

    class Observer:
        def __init__(self, gm: Graph, passname: str) -> None:
            self.gm, self.passname, self.subsystem = gm, passname, "post"

        def _check_disable_pass(self) -> bool:
            return False

        def apply_graph_pass(self, function: Any) -> Any:
            return None if self._check_disable_pass() else function(self.gm)

    sink, graph = Sink(), Graph()
    vary = Vary({"passes": ["post:refused"]}, Guards(lambda _: None), sink)  # type: ignore[arg-type]
    module: Any = type("module", (), {"GraphTransformObserver": Observer})
    vary._watch_passes(module)
    Observer(graph, "idle").apply_graph_pass(lambda g: None)
    Observer(graph, "stable_sort").apply_graph_pass(lambda g: g.nodes.reverse())
    Observer(graph, "refused").apply_graph_pass(lambda g: g.nodes.clear())
    Observer(graph, "removes").apply_graph_pass(lambda g: g.nodes.pop())
    assert sink.lines == [{"kind": "pass", "name": "post:removes"}]
    assert len(graph.nodes) == 1
    assert passes(["post:removes"])[0].label == "the pass removes (post) left out"
