"""How torch was set when the program called compiled code: recorded, read, said."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from burning import CORES, Burners
from capturing import captured, own_folder, script  # noqa: F401
from click.testing import CliRunner
from sharing import once

from inspector.capture.recorder.state import ranges
from inspector.cli import cli
from inspector.model.calls import ProcessCalls
from inspector.model.state import ProcessState, TorchState
from inspector.readers.record import parse_record
from inspector.readers.run import Run
from inspector.replay.environment import DECIDING, child_environment
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import replay_graphs
from inspector.replay.worker.state import parse_ranges

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


@pytest.fixture(scope="module")
def states(shared: Path) -> Path:
    """The run of a program that sets torch in several ways."""

    def run(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("OMP_DISPLAY_ENV", "FALSE")
            assert captured(script(SET)).exit_code == 0

    return once(shared / "states", run) / "run"


@pytest.mark.slow
def test_state_of_a_real_program(states: Path) -> None:
    assert not (states / "logs" / "recorder.log").exists()
    calls = calls_of(str(states))
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
    said = " ".join(CliRunner().invoke(cli, ["summary", str(states)]).output.split())
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


def test_variables_of_the_run_and_no_others_reach_a_replay(tmp_path: Path) -> None:
    here = {"OMP_NUM_THREADS": "7", "HOME": "/root", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    there = {"MKL_NUM_THREADS": "3", "LD_PRELOAD": "evil.so", "CUDA_VISIBLE_DEVICES": "5", "HOME": "/else"}
    made = child_environment(tmp_path, ReplayOptions(), here, there)
    assert made["MKL_NUM_THREADS"] == "3" and made["HOME"] == "/root"
    assert not made.keys() & {"OMP_NUM_THREADS", "LD_PRELOAD", "CUDA_VISIBLE_DEVICES"}
    assert child_environment(tmp_path, ReplayOptions(), here)["OMP_NUM_THREADS"] == "7"
    # A run may come from anywhere: no variable may name something to load, to run or to write.
    assert not [name for name in DECIDING if any(word in name for word in ("PATH", "LIB", "LOG", "FILE"))]


RESTORE = """
import json, os, sys, torch
from inspector.model.state import TorchState
from inspector.replay.worker.state import restore
reached = lambda name: [owner := torch, [owner := getattr(owner, part) for part in name.split(".")]][1][-1]
for wanted in json.loads(sys.argv[1]):
    if os.fork():
        os.wait()
        continue
    said = list(restore(TorchState(wanted), "cpu"))
    now = {name: reached(name) for name in wanted if name != "affinity"}
    now = {name: value() if callable(value) else value for name, value in now.items()}
    print(json.dumps([said, {name: str(value) for name, value in now.items()}]), flush=True)
    break
"""


def restored(*wanted: dict[str, object]) -> list[tuple[list[str], dict[str, str]]]:
    """What was said and what then was set, for each in a process of its own that has just imported torch."""
    done = subprocess.run(
        [sys.executable, "-c", RESTORE, json.dumps(wanted)], capture_output=True, text=True, check=True
    )
    answers = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert len(answers) == len(wanted), done.stderr
    return answers


@pytest.mark.slow
def test_switches_are_restored_and_what_cannot_be_is_said() -> None:
    wanted: dict[str, object] = {
        "backends.cudnn.allow_tf32": False,
        "backends.cudnn.benchmark": True,
        "backends.cuda.matmul.allow_bf16_reduced_precision_reduction": False,
        "get_float32_matmul_precision": "high",
        "backends.cuda.flash_sdp_enabled": False,
        "backends.mkldnn.enabled": False,
        "are_deterministic_algorithms_enabled": True,
        "get_default_dtype": "float64",
        "get_num_threads": 1,
    }
    (said, now), (both, precision), (many, _), (odd, _), (other, _) = restored(
        wanted,
        {"get_float32_matmul_precision": "high", "backends.cuda.matmul.fp32_precision": "tf32"},
        {"get_num_threads": 4096, "affinity": "0-4095"},
        {"get_float32_matmul_precision": "no such precision"},
        {"backends.cudnn.allow_tf32": "odd"},
    )
    assert said == []
    assert now == {
        **{name: str(value) for name, value in wanted.items()},
        "get_default_dtype": "torch.float64",
    }
    # What set_float32_matmul_precision sets under its other names is not set back by these.
    assert both == [] and precision["backends.cuda.matmul.fp32_precision"] == "tf32"
    assert len(many) == 1 and many[0].startswith("the run used 4096 threads, and this machine has ")
    assert odd == [
        "get_float32_matmul_precision was no such precision in the run and is highest here: "
        "this torch does not take it"
    ]
    # Of a GPU's switches nothing is said where the graph is the CPU's.
    assert other == []


def test_ranges_of_cpus() -> None:
    assert parse_ranges("0-3,8") == {0, 1, 2, 3, 8} and ranges({0, 1, 2, 3, 8}) == "0-3,8"
    assert parse_ranges("") == parse_ranges("x-3,0-99999999") == set()


@pytest.mark.slow
def test_a_replay_is_run_as_the_run_was(states: Path) -> None:
    """The run had one thread, whatever torch itself would choose; busy cores are told of."""
    torch = pytest.importorskip("torch")
    graph = Run.open(str(states)).graphs[0]
    files = graph_files(graph)
    assert files.state is not None and files.state.torch.values["get_num_threads"] == 1

    def burn(said: str) -> None:
        if "making inputs" in said and not burners:
            child = max(psutil.Process().children(), key=psutil.Process.create_time)
            child.cpu_affinity(CORES)
            burners.start()

    with Burners() as burners:
        result = replay_graphs([files], ReplayOptions(rounds=100_000, max_time_s=2.0, kernels=False), burn)
    assert result.graphs[0].failure is None and result.machine["threads"] == 1
    (said,) = (note for note in result.graphs[0].notes if note.startswith("the machine was busy"))
    # Which of the two is seen depends on who had the cores between the samples.
    assert result.machine["busy"] and ("other processes used" in said or "had no core" in said)
    apart = replay_graphs([replace(files, state=None)], ReplayOptions(rounds=2, kernels=False))
    # Its own number, which is 1 where there is one core.
    assert apart.machine["threads"] == torch.get_num_threads()
