"""How torch was set when the program called compiled code: recorded, read, said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from capturing import captured, own_folder, script  # noqa: F401
from click.testing import CliRunner

from inspector.cli import cli
from inspector.model.calls import ProcessCalls
from inspector.model.state import ProcessState, TorchState
from inspector.readers.record import parse_record
from inspector.readers.run import Run

SET = """
    import os, warnings
    import torch
    warnings.simplefilter("error", UserWarning)
    os.environ["CUBLAS_API_KEY"] = "hidden"
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(1)
    f = torch.compile(lambda x: (x @ x).relu())
    x = torch.ones(8, 8)
    for turn in range(4):
        f(x)
    torch.set_num_threads(2)
    f(x)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        for turn in range(4):
            f(x)
    torch.compile(lambda x: x + 1, backend="eager")(x)
"""


def calls_of(path: str = "run") -> ProcessCalls:
    (record,) = Run.open(path).records
    assert record.calls is not None
    return record.calls


@pytest.mark.slow
def test_state_of_a_real_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_DISPLAY_ENV", "FALSE")
    outcome = captured(script(SET))
    assert outcome.exit_code == 0 and not Path("run/logs/recorder.log").exists()
    calls = calls_of()
    state = calls.state
    assert state is not None
    f, other = (item for item in calls.callables if item.kind == "call")
    changes = state.changes(f.states)
    assert changes["backends.cudnn.benchmark"] == (True,)
    assert changes["get_float32_matmul_precision"] == ("high",)
    assert changes["get_num_threads"] == (1, 2)
    assert changes["autocast.cpu"] == (None, "bfloat16")
    assert "backends.cuda.matmul.allow_tf32" not in changes and "is_grad_enabled" not in changes
    assert "get_num_threads" not in state.changes(other.states)
    assert state.environment["OMP_DISPLAY_ENV"] == "FALSE" and "hidden" not in state.environment.values()
    graphs = [state.states[graph.state] for graph in calls.graph_runs if graph.state is not None]
    # Dynamo guards threads, gradients and autocast: each made a graph of its own.
    assert [graph.values["get_num_threads"] for graph in graphs] == [1, 2, 2]
    # AOTAutograd runs the compiled code without autocast, and so must a replay.
    assert {graph.values["autocast.cpu"] for graph in graphs} == {None}
    said = " ".join(CliRunner().invoke(cli, ["summary", "run"]).output.split())
    assert "cudnn.benchmark=True, float32_matmul_precision=high, num_threads=1 and 2" in said
    assert "autocast.cpu=off and bfloat16" in said


def test_changes_are_named_once() -> None:
    begin = TorchState({"get_float32_matmul_precision": "highest", "backends.cuda.matmul.allow_tf32": False})
    later = TorchState({"get_float32_matmul_precision": "high", "backends.cuda.matmul.allow_tf32": True})
    state = ProcessState((begin, later))
    assert state.changes([1]) == {"get_float32_matmul_precision": ("high",)}
    assert state.changes([0, 1]) == {"get_float32_matmul_precision": ("highest", "high")}
    assert state.changes([0]) == {} == state.changes([7])


def test_a_record_of_another_recorder() -> None:
    line = {
        "kind": "calls",
        "callables": [],
        "states": [{"a": 1, "b": [1]}, {}],
        "environment": {"OMP_X": "1"},
    }
    calls = parse_record(json.dumps(line), "rank0.jsonl").calls
    assert calls is not None and calls.state == ProcessState(
        (TorchState({"a": 1}), TorchState({})), {"OMP_X": "1"}
    )
    older = parse_record('{"kind": "calls", "callables": []}', "rank0.jsonl").calls
    assert older is not None and older.state is None
