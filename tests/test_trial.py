"""Advice tried: which setting, how it wins over the program's own, and a real capture with it."""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from words import text

from inspector.capture.bootstrap.sitecustomize import (
    OVERRIDE,
    Bootstrap,
    keep_values,
    make_loop_vectors,
    override_compile,
)
from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import capture
from inspector.cli import cli
from inspector.contract.trial import to_json
from inspector.model.account import Account
from inspector.model.explain import Explanation, Finding, Ledger, Trial
from inspector.model.problem import InspectorError
from inspector.model.trial import Outcome, TrialReport
from inspector.present.trial import as_code, prediction
from inspector.present.trial import lines as words_of
from inspector.readers.run import Run
from inspector.trial.run import _environment
from inspector.trial.settings import MODES, Prediction, Setting, choose

EMPTY = Ledger(None, None, (), None)


def finding(rule: Any, trial: Trial | None, cost: float | None = None) -> Finding:
    return Finding(rule, "high", "title", None, cost, (), "do this", trial=trial)


def test_the_first_setting_is_tried() -> None:
    serial = finding("cpu_serial", Trial(config=(("cpp.threads", -1),)), 2.5)
    result = Explanation("", EMPTY, (finding("graph_breaks", None), serial))
    chosen, rule = choose(result, "first")
    assert rule == "cpu_serial"
    assert chosen == [Setting("cpp.threads=-1", Trial(config=(("cpp.threads", -1),)), Prediction(2.5))]


def test_what_compiling_costs_is_predicted_of_a_call_with_its_share() -> None:
    again = replace(finding("recompiles", Trial(dynamic=True), 1500.0), share=0.25, account="run")
    account = Account(None, None, 0.0, calls=10)
    (setting,), _ = choose(Explanation("", EMPTY, (again,), account=account), "recompiles")
    assert setting.prediction == Prediction(150.0, 600.0, compiling=True)
    assert setting.prediction.at(800.0) == 200.0


def test_all_modes() -> None:
    chosen, _ = choose(Explanation("", EMPTY), "modes")
    assert [setting.trial for setting in chosen] == [Trial(mode=mode) for mode in MODES]


def test_a_prediction_is_brought_to_the_call_it_is_held_against() -> None:
    assert Prediction(5.0, 10.0).at(20.0) == 10.0
    assert Prediction(5.0, 10.0, rest_fixed=True).at(20.0) == 15.0
    assert Prediction(5.0).at(20.0) == Prediction(5.0, 10.0).at(None) == 5.0


def test_what_compiling_costs_is_held_against_compiling() -> None:
    base = replace(outcome(10.0), calls=100)
    tried = replace(base, cold_s=1.0, predicted_ms=40.0, compiling=True)
    assert tried.saved_ms(base) == pytest.approx(40.0)
    assert "a call with its share of compiling, saved 40.0 ms: as predicted" in prediction(tried, base)
    assert replace(tried, calls=0).saved_ms(base) is None


def test_advice_that_is_code_says_so() -> None:
    result = Explanation("", EMPTY, (finding("graph_breaks", None),))
    with pytest.raises(InspectorError, match="change of code: do this"):
        choose(result, "graph_breaks")
    with pytest.raises(InspectorError, match="--try modes"):
        choose(result, "first")
    with pytest.raises(InspectorError, match="no such finding"):
        choose(result, "atomics")


def test_labels_name_every_setting() -> None:
    trial = Trial("max-autotune", (("cpp.simdlen", None),), (("A", "1"),), True)
    assert trial.label == 'mode="max-autotune", dynamic=True, cpp.simdlen=None, A=1'


def outcome(ms: float | None, predicted: float | None = None, failure: str = "") -> Outcome:
    return Outcome("x", None, ms, 5.0, 3, 1e6, (("match", 2),), "run", predicted, failure)


@pytest.mark.parametrize(
    ("after", "predicted", "words"),
    [
        (6.0, 4.0, "as predicted"),
        (7.0, 4.0, "as predicted"),
        (9.9, 4.0, "beyond the spread"),
        (8.0, 4.0, "less than predicted"),
        (2.0, 4.0, "more than predicted"),
        (None, 4.0, "nothing measured"),
    ],
)
def test_predictions_are_held_against_measurements(after: float | None, predicted: float, words: str) -> None:
    assert words in prediction(outcome(after, predicted), outcome(10.0))


def test_a_report_as_text_and_json() -> None:
    report = TrialReport(
        outcome(10.0), (outcome(5.0, 4.0), outcome(None, failure="exit code 1")), "cpu_serial"
    )
    shown = text(words_of(report, 80))
    assert "2.00x" in shown and "2 match" in shown and "exit code 1" in shown
    assert all(len(line) <= 80 for line in shown.splitlines()[:4])
    data = to_json(report)
    assert data["tried"][0]["saved_ms"] == 5.0
    json.dumps(data, allow_nan=False)


def override(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **values: Any) -> Any:
    """A `torch` whose compile returns the keywords that it was given."""
    monkeypatch.setenv("INSPECTOR_OVERRIDE", json.dumps(values))
    request = {"log": str(tmp_path / "log"), "config": [["settings_of_test", "a.b", 5]]}
    set_to: list[object] = []
    torch = SimpleNamespace(
        compile=lambda model=None, **given: given,
        set_flush_denormal=set_to.append,
        set_num_threads=set_to.append,
        set_to=set_to,
    )
    override_compile(torch, Bootstrap(json.dumps(request)))
    return torch


def test_a_setting_that_is_a_dictionary_is_shown_as_one() -> None:
    trial = Trial(config=(("passes", '{"one": {"on": true}}'), ("name", "text")))
    shown = as_code(replace(outcome(1.0), trial=trial))
    assert "torch._inductor.config.passes = {'one': {'on': True}}" in shown
    assert "torch._inductor.config.name = 'text'" in shown


def test_what_threads_take_over_is_set_before_any_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    states = {"set_flush_denormal": "True", "get_num_threads": "2"}
    torch = override(monkeypatch, tmp_path, state=states)
    assert torch.set_to == [True], "and the rest at the first torch.compile"
    torch.compile(1)
    assert torch.set_to == [True, 2]
    trial = Trial(state=tuple(states.items()))
    assert "torch.set_flush_denormal(True) first of all" in as_code(replace(outcome(1.0), trial=trial))


def test_a_trial_wins_over_the_programs_mode_and_dynamic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    torch = override(monkeypatch, tmp_path, mode="max-autotune", dynamic=True)
    assert torch.compile(1, mode="default", dynamic=False) == {"mode": "max-autotune", "dynamic": True}
    assert torch.compile(1, options={"a": 1}) == {"mode": "max-autotune", "dynamic": True}
    assert torch.compile(1, backend="eager", mode=None) == {"backend": "eager", "mode": None}


def test_what_is_not_tried_stays_the_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = override(monkeypatch, tmp_path, mode=None, dynamic=None)
    assert torch.compile(1, mode="default") == {"mode": "default"}


def test_settings_are_set_again_at_each_compile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = override(monkeypatch, tmp_path, mode=None, dynamic=None)
    module = SimpleNamespace(a=SimpleNamespace(b=1))
    monkeypatch.setitem(sys.modules, "settings_of_test", module)
    torch.compile(1)
    assert module.a.b == 5


PROGRAM = """
import torch, torch._inductor.config
torch._inductor.config.cpp.simdlen = 1

@torch.compile
def f(x):
    return torch.tanh(x) * 2

x = torch.randn(4000, 400)
for _ in range(12):
    f(x)
print("said by the program")
"""


@pytest.mark.slow
def test_vectors_switched_off_are_found_and_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    isa = pytest.importorskip("torch._inductor.cpu_vec_isa")
    if not isa.valid_vec_isa_list():
        pytest.skip("torch has no vector instructions for this processor")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    runner = CliRunner()
    # Where other tests have the cores, a call waits for longer than the loop without vectors takes.
    for attempt in range(3):
        run = tmp_path / f"run{attempt}"
        captured = runner.invoke(cli, ["capture", "-q", "-o", str(run), "--", sys.executable, str(program)])
        assert captured.exit_code == 0
        explained = json.loads(runner.invoke(cli, ["explain", str(run), "--json"]).stdout)
        names = [item["rule"] for item in explained["findings"]]
        if "cpu_not_vectorized" in names:
            break
    assert "cpu_not_vectorized" in names
    parts = sum(part["ms"] for part in explained["ledger"]) + explained["unexplained_ms"]
    assert parts == pytest.approx(explained["compiled_ms"])
    found = explained["findings"][names.index("cpu_not_vectorized")]
    assert any(item["path"].endswith("program.py") and item["line"] == 3 for item in found["evidence"])
    # Rounds are counted below, and a few microseconds are not judged: one takes less time than three.
    monkeypatch.setattr("inspector.trial.turns.ROUNDS", 1)
    capfd.readouterr()
    tried = runner.invoke(cli, ["explain", str(run), "--try", "cpu_not_vectorized", "--json"])
    assert tried.exit_code == 0, tried.output
    data = json.loads(tried.stdout)
    # What the program prints on its standard output goes to the standard error of the command.
    out, err = capfd.readouterr()
    assert "said by the program" in err and "said by the program" not in out
    assert len(list(run.glob("trials/1/*/timed/*/record/*.jsonl"))) == 2 * 1
    assert not list(run.glob("trials/1/*/cache"))
    assert not data["base"]["unchecked"] and not data["tried"][0]["unchecked"]
    assert data["base"]["checks"] == data["tried"][0]["checks"] == {"match": 1}
    share = found["cost_ms"] / explained["compiled_ms"]
    assert data["tried"][0]["predicted_ms"] == pytest.approx(share * data["base"]["ms"])

    def code(outcome: dict[str, Any]) -> str:
        return "".join(path.read_text() for path in Path(outcome["run"]).rglob("output_code.py"))

    assert "at::vec" not in code(data["base"])
    assert "at::vec" in code(data["tried"][0])


SIZES = """
    import torch, torch._inductor.compile_fx as compile_fx
    compile_fx.compile_fx = lambda graph, inputs, **_: graph
    f = torch.compile(lambda x: x.sin(), dynamic=False)
    for size in (4, 5, 6):
        f(torch.ones(size))
    from torch._inductor import decomposition, lowering
    whole = torch.ops.aten.upsample_bilinear2d
    assert whole.default in lowering.fallbacks and whole.default not in decomposition.decompositions
    assert torch._C.DispatchKey.CompositeImplicitAutograd not in whole.vec.py_kernels
    from torch._inductor.fx_passes import reinplace
    assert reinplace.should_reinplace_scatter.__globals__["is_node_realized"](None)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Inductor asks g++ on Linux alone for it")
def test_gcc_makes_vectors_of_plain_loops_where_that_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the flags that Inductor compiles its kernels with."""
    from torch._inductor import cpp_builder

    flag, original = "fno-tree-loop-vectorize", cpp_builder._get_optimization_cflags
    monkeypatch.setattr(cpp_builder, "_get_optimization_cflags", original)
    assert flag in original("g++", False)[0]
    make_loop_vectors()
    assert flag not in cpp_builder._get_optimization_cflags("g++", False)[0]
    assert "O3" in cpp_builder._get_optimization_cflags("g++", False)[0]
    (override,) = (value for name, value in _environment(Trial(loop_vectors=True)) if name == OVERRIDE)
    assert json.loads(override)["loop_vectors"] is True


def test_what_an_operator_gives_is_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from torch._inductor import ir, lowering

    aten, kept = torch.ops.aten, []
    value = SimpleNamespace(realize=lambda: kept.append(True))
    view = SimpleNamespace(data=object.__new__(ir.BaseView))
    table = {
        aten.acos.default: lambda x: value,
        aten.acosh.default: lambda x: value,
        aten.select.int: lambda x: view,
    }
    monkeypatch.setattr(lowering, "lowerings", table)
    # Of a view that is a copy, as a view has no memory of its own.
    monkeypatch.setattr(ir.ExternKernel, "copy_input", staticmethod(lambda made: ("a copy of", made)))
    keep_values("aten.select")
    assert table[aten.select.int](1) == ("a copy of", view)
    keep_values("aten.acos")
    assert table[aten.acosh.default](1) is value and not kept
    assert table[aten.acos.default](1) is value and kept == [True]


@pytest.mark.slow
def test_dynamic_shapes_and_whole_operators_win_over_the_programs_own(tmp_path: Path) -> None:
    """One graph for all sizes in place of one for each and no code generated for it; and none of
    Inductor's own for an operator that is left to ATen."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SIZES))
    asked = Trial(dynamic=True, whole=("aten.upsample_bilinear2d",), kept=("aten.acos",), in_place=True)
    env = _environment(asked)
    options = CaptureOptions((str(program),), out=tmp_path / "run", quiet=True, env=env)
    assert capture(options).exit_code == 0
    (process,) = Run.open(str(tmp_path / "run")).variants[0].processes
    assert process.counter("stats.unique_graphs") == 1
