"""Reading a profiler's trace: what it holds, how its events belong together, and what damage does."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from inspector.model.problem import InspectorError
from inspector.readers import kineto
from inspector.readers.kineto import is_kineto, load_profile, read_profile

TRACES = (
    "infer-default", "infer-eager", "infer-reduce-overhead",
    "train-default", "train-eager", "train-reduce-overhead",
)  # fmt: skip


def _section(category: str, name: str, start: float, duration: float, **args: Any) -> dict[str, Any]:
    names = {key.replace("_", " "): value for key, value in args.items()}
    return {
        "ph": "X", "cat": category, "name": name, "ts": start, "dur": duration,
        "pid": 1, "tid": 1, "args": names,
    }  # fmt: skip


def _document(*events: Any, **rest: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, **rest, "traceEvents": list(events), "traceName": "x"}).encode()


@pytest.mark.parametrize("name", TRACES)
def test_device_time_equals_an_independent_count_by_kernel(convmixer: Path, name: str) -> None:
    facts = json.loads((convmixer / f"{name}.facts.json").read_text())["kernels"]
    profile, problems = load_profile(convmixer / f"{name}.trace.json")
    assert not problems and profile.devices == ("NVIDIA H200",)
    times: dict[str, list[float]] = {}
    for event in profile.device:
        times.setdefault(event.name, []).append(event.duration)
    for kernel, count in facts.items():
        if kernel in times:
            assert len(times[kernel]) == count["count"]
            assert sum(times[kernel]) == pytest.approx(count["us"], abs=0.01)
    # What key_averages counts beside kernels: regions of the host that kernels lie under, and its own work.
    host = {event.name for event in profile.host} | {"Activity Buffer Request"}
    assert facts.keys() - times.keys() <= host
    assert times.keys() <= facts.keys()


def test_what_comes_after_a_step_that_a_profilers_mark_begins_in_is_not_inside_of_it() -> None:
    """As with an update that is compiled and called in ``Optimizer.step``: a profiler steps at that call."""
    document = _document(
        _section("user_annotation", "Optimizer.step#Adan.step", 10.0, 20.0),
        _section("user_annotation", "ProfilerStep#6", 0.0, 12.0),
        _section("user_annotation", "ProfilerStep#7", 12.0, 100.0),
        _section("cpu_op", "aten::lerp_", 15.0, 2.0),
        _section("cpu_op", "aten::mm", 50.0, 2.0),
    )
    profile, problems = read_profile(io.BufferedReader(io.BytesIO(document)), "t.json")
    assert not problems
    around = {
        event.name: [profile.host[outer].name for outer in profile.around(position)]
        for position, event in enumerate(profile.host)
    }
    assert around["aten::lerp_"] == ["Optimizer.step#Adan.step"] and around["aten::mm"] == []


@pytest.mark.parametrize("name", TRACES)
def test_every_device_event_has_its_launch_and_operator(convmixer: Path, name: str) -> None:
    profile, _ = load_profile(convmixer / f"{name}.trace.json")
    assert profile.device
    for event in profile.device:
        assert profile.host[event.launch].correlation == event.correlation
        assert profile.host[event.launch].kind == "runtime"
        assert profile.host[event.operator].external == event.external
        assert profile.host[event.operator].kind == "operator"


def test_nesting(convmixer: Path) -> None:
    profile, _ = load_profile(convmixer / "train-eager.trace.json")
    for position, event in enumerate(profile.host):
        for outer in profile.around(position):
            around = profile.host[outer]
            assert around.thread == event.thread
            assert around.start <= event.start and event.start < around.end
    convolution = next(i for i, e in enumerate(profile.host) if e.name == "aten::cudnn_convolution")
    assert [profile.host[i].name for i in profile.around(convolution)] == [
        "aten::_convolution", "aten::convolution", "aten::conv2d", "aten::conv2d",
    ]  # fmt: skip


def test_children_partition_all_sections(convmixer: Path) -> None:
    profile, _ = load_profile(convmixer / "infer-eager.trace.json")
    assert sorted(i for inside in profile.children.values() for i in inside) == list(range(len(profile.host)))


def test_gzip_steps_rank_and_old_key(tmp_path: Path) -> None:
    events = (
        _section("user_annotation", "ProfilerStep#3", 10, 50),
        _section("cpu_op", "aten::mm", 11, 5, external_id=7),
        _section("cuda_runtime", "cudaLaunchKernel", 12, 1, correlation=9),
        _section("kernel", "gemm", 20, 8, **{"External id": 7}, correlation=9, stream=3),
    )
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(_document(*events, distributedInfo={"rank": 2})))
    profile, problems = load_profile(path)
    assert is_kineto(path) and not problems
    assert [mark.name for mark in profile.steps] == ["ProfilerStep#3"]
    assert profile.rank == 2
    kernel = profile.device[0]
    assert (kernel.start, kernel.duration, kernel.stream) == (10, 8, 3)
    assert profile.host[kernel.operator].name == "aten::mm"


def test_a_list_of_events_is_a_trace_too(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([_section("cpu_op", "aten::mm", 11, 5)]))
    assert is_kineto(path)
    assert [event.name for event in load_profile(path)[0].host] == ["aten::mm"]


def test_what_was_cut_off_gives_what_came_before(convmixer: Path, tmp_path: Path) -> None:
    data = (convmixer / "infer-default.trace.json").read_bytes()
    whole, _ = read_profile(io.BytesIO(data), "t")
    half, problems = read_profile(io.BytesIO(data[: len(data) // 2]), "t")
    assert 0 < len(half.host) < len(whole.host)
    assert len(problems) == 1
    packed = tmp_path / "cut.json.gz"
    packed.write_bytes(gzip.compress(data)[:-2000])
    cut, problems = load_profile(packed)
    assert cut.host and problems


@pytest.mark.parametrize(
    "event",
    [
        3, None, [], {"ph": "X", "cat": "cpu_op"}, {"ph": "X", "cat": "cpu_op", "name": 3, "ts": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": float("nan"), "dur": 1},
        {"ph": "X", "cat": "kernel", "name": "k", "ts": 1e300},
    ],
)  # fmt: skip
def test_strange_events_are_counted_and_left_out(event: Any) -> None:
    profile, problems = read_profile(io.BytesIO(_document(_section("cpu_op", "a", 1, 1), event)), "t")
    assert len(profile.host) == 1 and not profile.device
    assert problems[0].message.startswith("1 events")


@pytest.mark.parametrize("args", [None, [], {"External id": "x", "correlation": True, "stream": 1e400}])
def test_strange_arguments_do_no_harm(args: Any) -> None:
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": args, "tid": "x"}
    profile, problems = read_profile(io.BytesIO(_document(event)), "t")
    assert profile.device[0].operator == -1 and not problems


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    for text in ("", "hello", "{}", '{"traceEvents": []}', '{"traceEvents": {"a": 1}}', "[1, 2"):
        path = tmp_path / "t.json"
        path.write_text(text)
        with pytest.raises(InspectorError, match="not a profiler trace"):
            load_profile(path)
    with pytest.raises(InspectorError):
        load_profile(tmp_path / "absent.json")


def test_a_large_trace_is_read_by_chunks() -> None:
    """Items and numbers that lie across the border of two chunks come out whole."""

    class Trickle(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read1(7)

    events = [_section("cpu_op", f"aten::ä{i}", i * 10.5, 5, external_id=i) for i in range(50)]
    profile, problems = read_profile(Trickle(_document(*events, number=12345678901)), "t")
    assert not problems and [event.external for event in profile.host] == list(range(50))
    assert profile.host[3].name == "aten::ä3"


def test_a_section_that_starts_as_another_ends_stands_beside_it() -> None:
    document = _document(
        _section("cpu_op", "around", 0.0, 10.0),
        _section("cpu_op", "first", 1.0, 4.0),
        _section("cpu_op", "second", 5.0, 2.0),
    )
    profile, _ = read_profile(io.BytesIO(document), "t")
    parents = {event.name: event.parent for event in profile.host}
    names = [event.name for event in profile.host]
    assert parents == {"around": -1, "first": names.index("around"), "second": names.index("around")}


def test_a_trace_that_unpacks_without_end_is_left_where_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kineto, "_MOST_FOR_FREE", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    event = b'{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": 1},'
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b'{"traceEvents": [')
        file.write(event * 50_000)
    profile, (problem,) = load_profile(path)
    assert "times its size" in problem.message and 0 < len(profile.host) < 45_000
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(b" " * (3 << 20))
    with pytest.raises(InspectorError, match="times its size"):
        load_profile(path)
    path.unlink()
    os.mkfifo(path)
    assert not is_kineto(path)
