"""Profiles as a capture makes them: which calls, the recorder's part without torch, and a real run."""

from __future__ import annotations

import gzip
import json
import os
import sys
import types
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from capturing import captured, own_folder, script  # noqa: F401
from click.testing import CliRunner

from inspector.analysis.calls import pay_off
from inspector.capture.profiles import ProfilePlan, plan_profile
from inspector.capture.recorder.guard import Guards
from inspector.capture.recorder.journal import Entry
from inspector.capture.recorder.profiling import Profiling
from inspector.cli import cli
from inspector.explain import explain
from inspector.readers.run import Run

# -- which calls


def _recorded(run: Path, *callables: dict[str, Any]) -> None:
    folder = run / "baseline" / "compiled" / "record"
    folder.mkdir(parents=True)
    base = {"name": "f", "location": None, "mode": None, "backend": "inductor", "cold_left_out": 0,
            "first_ms": 1.0, "total_ms": 1.0, "setup_ms": 0.0, "cold_ms": [1.0], "steady_ms": []}  # fmt: skip
    lines = [
        {"kind": "process", "schema": "inspector.record/1", "pid": 1, "rank": 0, "torch": "2.13"},
        {
            "kind": "calls",
            "callables": [{**base, **item} for item in callables],
            "events": [],
            "counters": {},
        },
    ]
    (folder / "rank0.jsonl").write_text("\n".join(map(json.dumps, lines)))


def _callable(order: int, calls: int, *cold: int, kind: str = "call") -> dict[str, Any]:
    return {"order": order, "calls": calls, "cold_index": list(cold), "kind": kind}


_SEVERAL = [_callable(0, 4, 0), _callable(1, 40, 0), _callable(0, 90, 0, kind="backward")]


@pytest.mark.parametrize(
    ("callables", "plan"),
    [
        ([_callable(0, 50, 0)], ProfilePlan(0, 17, 5)),
        ([_callable(0, 20, 0)], ProfilePlan(0, 7, 5)),
        ([_callable(0, 50, 0, 7)], ProfilePlan(0, 24, 5)),
        ([_callable(0, 6, 0)], ProfilePlan(0, 1, 3)),
        ([_callable(0, 3, 0)], ProfilePlan(0, 1, 1)),
        ([_callable(0, 2, 0)], None),
        ([_callable(0, 9, 0, 2, 4, 6, 8)], None),
        # Rounds of ten calls, of eleven, of two; of 23, which are too many; and none that counts tell.
        (_SEVERAL, ProfilePlan(1, 19, 10)),
        ([_callable(0, 12, 0), _callable(1, 22, 0)], ProfilePlan(1, 5, 11)),
        ([_callable(0, 20, 0), _callable(1, 40, 0)], ProfilePlan(1, 17, 4)),
        ([_callable(0, 12, 0), _callable(1, 46, 0)], ProfilePlan(1, 17, 5)),
        ([_callable(0, 13, 0), _callable(1, 22, 0)], ProfilePlan(1, 8, 5)),
        # Two calls before each backward, of which the first begins the round.
        (
            [_callable(0, 100, 0, 1), _callable(0, 50, 0, kind="backward")],
            ProfilePlan(0, 19, 4),
        ),
        # Too few calls are left for a round.
        ([_callable(0, 12, 0), _callable(1, 22, 0, 10)], ProfilePlan(1, 13, 5)),
    ],
)
def test_steady_calls_are_chosen_after_the_last_that_compiled(
    tmp_path: Path, callables: list[dict[str, Any]], plan: ProfilePlan | None
) -> None:
    _recorded(tmp_path, *callables)
    chosen, note = plan_profile(tmp_path)
    assert (chosen and replace(chosen, warm_up=1)) == plan and bool(note) == (plan is None)
    if chosen is not None:
        # The calls that warm up and those that are kept are all steady, and there.
        main = max((item for item in callables if item["kind"] == "call"), key=lambda item: item["calls"])
        begin = chosen.first + 1 - chosen.warm_up
        assert max(main["cold_index"]) < begin and (chosen.warm_up == 6 or begin - 1 in main["cold_index"])
        assert chosen.first + chosen.calls < main["calls"]


def test_without_a_record_nothing_is_planned(tmp_path: Path) -> None:
    assert plan_profile(tmp_path) == (None, "")


# -- the recorder's part


class _Torch(types.ModuleType):
    """As much of torch as the recorder's profiling touches; `said` is what happened, in order."""

    def __init__(self, fails: str = "") -> None:
        super().__init__("torch")
        self.said: list[str] = []
        torch = self

        class Section:
            def __init__(self, name: str) -> None:
                self.name = name

            def __enter__(self) -> None:
                torch.said.append(f"+{self.name}")

            def __exit__(self, *_: object) -> None:
                torch.said.append(f"-{self.name}")

        class Profile:
            def __init__(self, schedule: tuple[int, ...], on_trace_ready: Any, **_: object) -> None:
                self.active, self.steps, self.ready = schedule[2], 0, on_trace_ready

            def start(self) -> None:
                torch.said.append("start")
                if fails == "start":
                    raise RuntimeError("two profilers")

            def step(self) -> None:
                self.steps += 1
                torch.said.append("step")
                if self.steps == self.active + 1:
                    self.ready(self)

            def stop(self) -> None:
                torch.said.append("stop")
                if 0 < self.steps <= self.active:
                    self.ready(self)

            def export_chrome_trace(self, path: str) -> None:
                Path(path).write_bytes(gzip.compress(b"{}"))

        def schedule(**parts: int) -> tuple[int, ...]:
            return parts["wait"], parts["warmup"], parts["active"]

        self.profiler = types.SimpleNamespace(
            profile=Profile, schedule=schedule, ProfilerActivity=types.SimpleNamespace(CPU=0, CUDA=1)
        )
        self.autograd = types.SimpleNamespace(profiler=types.SimpleNamespace(record_function=Section))
        self.cuda = types.SimpleNamespace(is_available=bool, is_initialized=bool)


def _run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    torch: _Torch,
    calls: int,
    cold: Sequence[int] = (),
    **plan: int,
) -> tuple[Path, list[str]]:
    """The program: `calls` forward and backward passes, those of `cold` followed by a call that compiles."""
    monkeypatch.setitem(sys.modules, "torch", torch)
    file, log = tmp_path / "profile" / "compiled.json.gz", list[str]()
    profiling = Profiling(
        str(file), guards=Guards(log.append), **{"order": 0, "first": 2, "calls": 2, **plan}
    )
    forward, backward = Entry("f", None, 0), Entry("backward", None, 0, "backward")
    other = Entry("evaluate", None, 1)
    for number in range(calls):
        for entry in (forward, backward):
            profiling.before(entry)
            torch.said.append(entry.name)
            profiling.after()
            entry.add(1.0, False)
        if number in cold:
            profiling.before(other)
            torch.said.append("compiles")
            profiling.after(cold=True)
    profiling._finish()
    return file, log


def test_the_calls_after_the_warm_up_are_marked_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = _Torch()
    file, log = _run(tmp_path, monkeypatch, torch, 7)
    call = ["+inspector: call", "f", "-inspector: call"]
    marked = [*call, "+inspector: backward", "backward", "-inspector: backward"]
    quiet = ["f", "backward"] * 2
    kept = [*marked, "step"] * 2
    assert torch.said == [*quiet, "start", *marked, "step", *kept, "stop", *quiet]
    assert gzip.decompress(file.read_bytes()) == b"{}" and not log
    assert [path.name for path in file.parent.iterdir()] == ["compiled.json.gz"]


def test_several_calls_warm_up_and_the_same_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = _Torch()
    file, _ = _run(tmp_path, monkeypatch, torch, 9, first=4, warm_up=3)
    calls = " ".join(torch.said).replace("+inspector: ", "+").replace("-inspector: ", "-").split("start")
    before, profiled = calls[0].split(), calls[1].partition("stop")[0].split()
    # Of nine calls two are before, three warm up and two are kept.
    assert before == ["f", "backward"] * 2
    assert [profiled.count(said) for said in ("+call", "step")] == [5, 5]
    assert file.exists()


def test_calls_among_which_something_compiles_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the first evaluation, between two steps of a training."""
    torch = _Torch()
    file, log = _run(tmp_path, monkeypatch, torch, 12, cold=(3,))
    first, again = " ".join(torch.said).split("start ")[1:]
    assert first.endswith("compiles -inspector: call stop ") and "compiles" not in again
    assert again.count("step") == 3 and file.exists() and not log
    # One that comes in the warm-up is in nothing that is kept, and one that goes on compiling is profiled so.
    for cold, starts in (((2,), 1), (range(40), 4)):
        torch = _Torch()
        file, _ = _run(tmp_path / str(starts), monkeypatch, torch, 40, cold=cold)
        assert torch.said.count("start") == starts and file.exists()


def test_a_program_that_ends_early_keeps_what_there_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = _Torch()
    file, _ = _run(tmp_path, monkeypatch, torch, 4)
    assert torch.said[-1] == "stop" and file.exists()


def test_another_rank_and_a_second_process_profile_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    torch = _Torch()
    file, _ = _run(tmp_path, monkeypatch, torch, 7)
    assert "start" not in torch.said and not file.exists()
    monkeypatch.setenv("RANK", "0")
    _run(tmp_path, monkeypatch, _Torch(), 7)
    again = _Torch()
    _run(tmp_path, monkeypatch, again, 7)
    assert "start" not in again.said


def test_the_programs_own_profiler_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = _Torch()
    torch.autograd.profiler._is_profiler_enabled = True
    file, log = _run(tmp_path, monkeypatch, torch, 7)
    assert "start" not in torch.said and not file.exists() and "own profiler" in log[0]


def test_a_profiler_that_fails_does_not_reach_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = _Torch(fails="start")
    file, log = _run(tmp_path, monkeypatch, torch, 7)
    assert torch.said.count("f") == 7 and not file.exists()
    assert "two profilers" in log[0] and torch.said.count("start") == 1


# -- a real run

TRAINING = """
    import torch
    import torch.nn.functional as F
    torch.set_num_threads(1)
    a, b = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64)
    @torch.compile
    def model(x):
        return torch.tanh(b(F.gelu(a(x)))) * 2 + x
    x = torch.randn(256, 64)
    for _ in range(8):
        model(x).square().mean().backward()
"""


@pytest.mark.slow
def test_both_sides_of_a_program_on_a_cpu_are_profiled_and_joined() -> None:
    pytest.importorskip("torch")
    outcome = captured(script(TRAINING), baseline=True)
    assert outcome.exit_code == 0
    for variant in ("compiled", "eager"):
        entry = outcome.manifest.baseline[variant]["profile"]
        assert entry["exit_code"] == 0 and entry["bytes"] == os.path.getsize(f"run/profile/{variant}.json.gz")
    explanation = explain(Run.open("run"))
    sides = explanation.sides
    # Profiled calls of so few microseconds may take longer than the others: the ledger is then theirs alone.
    assert sides is not None and sides.ledger is not None
    for side in (sides.joined.eager, sides.joined.compiled):
        assert side is not None and side.marked and side.calls == 5
        assert side.attributed >= 0.95
    assert all("no breakdown of that call" in note for note in sides.notes)
    names = {name for block in sides.joined.blocks for name in block.operators if block.place == "graph"}
    assert names >= {"linear", "gelu", "tanh"}
    generated = [k.name for block in sides.joined.blocks for k in block.compiled_kernels if k.generated]
    assert any(name.startswith("cpp_fused") for name in generated)
    total = sides.ledger.eager_ms + sum(part.ms for part in sides.ledger.differences)
    assert total + sides.ledger.unexplained_ms == pytest.approx(sides.ledger.compiled_ms, abs=1e-9)
    # The runs without a profiler are what compiled and eager are weighed by.
    item = pay_off(Run.open("run").variants).callables[0]
    assert (item.name, item.calls, item.measured_in) == ("model", 8, "compiled")
    assert item.ratio is not None and item.cost_ms is not None and item.cost_ms > 0
    assert item.outcome in ("faster", "slower", "same")
    assert (item.break_even is not None) == (item.outcome == "faster")
    shown = CliRunner().invoke(cli, ["summary", "run"]).output
    # The forward and the backward pass are two that are timed.
    assert " per step, one call each of 2 functions; compiling" in " ".join(shown.split())
