"""What parent and child tell each other: every message there and back, and what no child says."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from inspector.model.code import Alias, KernelCall
from inspector.model.codec import Malformed, from_data, to_data
from inspector.model.load import LoadSample
from inspector.model.replay import (
    GraphReplay,
    KernelReplay,
    OperatorReplay,
    OutputCheck,
    ReplayResult,
    Restrided,
    Timing,
    WorstElement,
)
from inspector.model.schedule import Layout
from inspector.model.source import LineSpan
from inspector.present.kernel_result import Launch, result_document
from inspector.replay import protocol, spawn
from inspector.replay.protocol import (
    Event,
    GraphFiles,
    KernelPlan,
    PlannedCall,
    PlannedLeaf,
    ReplayOptions,
    Request,
    from_line,
    to_line,
)
from inspector.replay.spawn import _Collected, replay_graph
from inspector.replay.store import from_json, to_json

TIMING = Timing(1.5, 0.25, 30)
CHECK = OutputCheck(0, "mismatch", "far off", "float32", (2, 3), 1e-3, 0.0, elements=6)
WORST = WorstElement("o", (1, 2), "nan", 1.0, 2.0)
KERNEL = KernelReplay(
    "triton_poi",
    3,
    "mismatch",
    "far off",
    TIMING,
    outputs=(CHECK,),
    worst=(WorstElement("o", (1, 2), "nan", 1.0, 2.0),),
)
OPERATOR = OperatorReplay("interpolate_1", "interpolate", (3,), TIMING, 1.25, ("mul",))
EVENTS: list[Event] = [
    protocol.Stage("timing"),
    protocol.Machine("2.13", None, "3.11", "/bin/python", 2, None, "cpu", 0),
    protocol.Load((LoadSample(1.0, 0.5), LoadSample(2.0, 1.0, busy=3.0, cores=2))),
    protocol.DeviceKind("cpu"),
    protocol.EagerLabel("decomposed FX graph"),
    protocol.Note("ünïcode\nand lines"),
    protocol.GraphTimed("eager", TIMING),
    protocol.OutputChecked(CHECK),
    protocol.KernelStarted(3, "triton_poi"),
    protocol.KernelRan(),
    protocol.KernelChecked(KERNEL),
    protocol.KernelTimed(3, TIMING, None, 0.5, device_kernels=("gemm",)),
    protocol.KernelTimed(4, TIMING, time_float32=Timing(0.5, 0.1, 7)),
    protocol.KernelTimed(
        4, TIMING, time_eager_strides=TIMING, restrided=(Restrided((2, 3), (1, 2), (3, 1)),)
    ),
    protocol.KernelDone(3, protocol.KernelFacts("interpreter", 2, 8)),
    protocol.KernelLost("an illegal address"),
    protocol.OperatorTimed(OPERATOR),
    protocol.EditStarted(),
    protocol.Repro(3, "import torch"),
    protocol.KernelLowered(0, "ab12", 0.5, None, ("which ran was not recorded",)),
    protocol.Confined(("no network",), ("a limit on memory (not on darwin)",)),
    protocol.WholeLost("the generated code failed"),
    protocol.Failed("no device"),
    protocol.Done(),
]
CALL = PlannedCall(0, "triton_poi", "triton", 7, ("buf0",), ("arg0", "buf0"), ("op0",), ("add",), 64)
PLAN = KernelPlan(
    (CALL,),
    (PlannedLeaf("op0", "op0", ("Pointwise",), None, 1, ("arg0",), ("buf0",), {"buf1": "buf0"}),),
    {"buf0": Layout("FixedLayout", "text", "cpu", "float32", (4, "s0"), ("s0", 1))},
    (Alias("view", "buf1", "buf0", "reinterpret_tensor(buf0, (4,), (1,), 0)", LineSpan(8, 8)),),
    ("arg0",),
    ("buf0",),
    {"s0": 2},
)


def test_every_event_arrives_as_it_was_sent() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(Event))
    for event in EVENTS:
        line = to_line(event)
        assert line.count(b"\n") == 1 and from_line(line.removesuffix(b"\n")) == event


def test_the_request_arrives_as_it_was_sent(tmp_path: Path) -> None:
    files = GraphFiles("g", tmp_path / "output_code.py", fx_runnable=tmp_path / "fx.py", kernels=PLAN)
    request = Request(files, ReplayOptions(cache_dir=tmp_path), tmp_path, (0,), True, (1, 2), {3: "crashed"})
    request.write(tmp_path / "request.json")
    assert Request.read(tmp_path / "request.json") == request


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"\xff\xfe", "no JSON"),
        (b"[1]", "no event"),
        (b'{"event": "Explode"}', "no event"),
        (b'{"event": ["Stage"]}', "no event"),
        (b'{"event": "Stage"}', "Stage: text is missing"),
        (b'{"event": "Stage", "text": 1}', "Stage.text: 1 is no str"),
        (b'{"event": "Stage", "text": "a", "more": 1}', "Stage: unknown key more"),
        (b'{"event": "KernelStarted", "call": true, "kernel": "k"}', "KernelStarted.call: True is no int"),
        (
            b'{"event": "GraphTimed", "which": "eager", "timing": [1, 2]}',
            "GraphTimed.timing: [1, 2] is no object",
        ),
        (
            b'{"event": "KernelDone", "call": 1, "facts": {"grid": "many"}}',
            "KernelDone.facts.grid: 'many' is no int",
        ),
    ],
)
def test_what_no_child_says_is_one_clear_problem(line: bytes, problem: str) -> None:
    with pytest.raises(Malformed) as caught:
        from_line(line)
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_numbers_of_other_libraries_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    check = replace(CHECK, elements=numpy.int64(6), error_compiled=numpy.float32(0.5))
    data = json.loads(json.dumps(to_data(check)))
    assert from_data(OutputCheck, data) == replace(CHECK, elements=6, error_compiled=0.5)


def test_an_unknown_key_is_for_files_of_other_versions() -> None:
    data = {**to_data(KERNEL), "invented_later": 1}
    assert from_data(KernelReplay, data, ignore_unknown=True) == KERNEL
    with pytest.raises(Malformed, match="invented_later"):
        from_data(KernelReplay, data)
    with pytest.raises(TypeError, match="no place in JSON"):
        to_data(replace(CHECK, reason=object()))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_bad_line_costs_one_event_and_not_the_result(tmp_path: Path) -> None:
    """The generated code writes to the descriptor on which the child reports."""
    from test_replay import CODE, QUICK, write_graph

    saboteur = """
import os
for number in map(int, os.listdir("/proc/self/fd")):
    try:
        if number > 2 and "pipe" in os.readlink(f"/proc/self/fd/{number}"):
            os.write(number, b'{"event": "Note"}\\n')
    except OSError:
        pass
"""
    replay = replay_graph(write_graph(tmp_path / "graph", saboteur + CODE), QUICK)
    assert replay.failure is None and {check.verdict for check in replay.outputs} == {"match"}
    assert replay.compiled is not None
    assert [note for note in replay.notes if "not understood" in note] == [
        "a message of the child was not understood and left out: Note: text is missing"
    ]


def test_the_time_in_float32_is_stored_with_its_kernel() -> None:
    kernel = replace(KERNEL, time_float32=Timing(0.5, 0.1, 7))
    result = ReplayResult({}, (GraphReplay("g", kernels=(kernel,)),))
    (graph,) = from_json(json.loads(json.dumps(to_json(result)))).graphs
    assert graph.kernels[0].time_float32 == Timing(0.5, 0.1, 7)


def test_what_aten_takes_for_an_operator_is_stored_with_the_graph() -> None:
    result = ReplayResult({}, (GraphReplay("g", operators=(OPERATOR,)),))
    assert from_json(json.loads(json.dumps(to_json(result)))).graphs[0].operators == (OPERATOR,)


def test_results_stored_before_the_types_were_still_open() -> None:
    archives = sorted((Path(__file__).parent.parent / "sample_runs" / "stories").glob("*/run.tar.xz"))
    # Those of that time have no word of the kinds of values.
    stored = [
        data for archive in archives for data in _results_in(archive) if '"kinds"' not in json.dumps(data)
    ]
    assert len(stored) >= 8
    for data in stored:
        assert _measured(json.loads(json.dumps(to_json(from_json(data))))) == _measured(data)


def _measured(data: dict[str, list[dict[str, object]]]) -> dict[str, list[dict[str, object]]]:
    """Without sums, whose last digit depends on Python's version, and keys that came later."""
    for graph in data["graphs"]:
        del graph["kernels_ms"], graph["host_gap_ms"]
        assert not graph.pop("operators", None)
        kernels: list[dict[str, object]] = [*graph["kernels"], *graph["edits"]]  # type: ignore[misc]
        for kernel in kernels:
            for key in (
                "float32_ms",
                "float32_ms_iqr",
                "float32_ms_rounds",
                "eager_strides_ms",
                "eager_strides_ms_iqr",
                "eager_strides_ms_rounds",
                "restrided",
                "kinds",
                "looked",
                "device_kernels",
                "profiled_ms",
                "bytes_asked",
                "flops_asked",
            ):
                assert not kernel.pop(key, None)
            for worst in kernel["worst"]:  # type: ignore[attr-defined]
                for key in ("first", "ulps", "relative", "picture", "rows", "columns"):
                    assert not worst.pop(key, None)
    return data


def _results_in(archive: Path) -> Iterator[dict[str, list[dict[str, object]]]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            file = tar.extractfile(member) if "/replay/" in member.name else None
            if file is not None and member.name.endswith(".json"):
                yield json.load(file)


def test_all_children_of_a_graph_share_its_time() -> None:
    """A launch that is under way at the end of the time costs no second child as long as the first."""
    graph = GraphFiles("g", Path("output_code.py"))
    collected = _Collected(graph, ReplayOptions(timeout_s=30.0), None)
    collected.limits.started -= 29.0
    collected.begin()
    assert not collected.out_of_time and collected.limits.exceeded(0) is None
    collected.limits.started -= 2.0
    collected.begin()
    assert collected.out_of_time and collected.limits.exceeded(0) == "overall"
    # Triton's interpreter takes longer, and has more time in all.
    collected.take(to_line(protocol.DeviceKind(protocol.INTERPRETER)))
    assert not collected.out_of_time and collected.limits.exceeded(0) is None


def test_odd_lines_without_end_cost_a_few_notes() -> None:
    collected = _Collected(GraphFiles("g", Path("output_code.py")), ReplayOptions(), None)
    for number in range(1000):
        collected.take(b'{"event": "Note", "key%d": 1}' % number)
    assert 2 < len(collected.notes) < 30 and "more messages" in collected.notes[-1]


def test_the_launch_that_does_an_operator_in_pieces_shows_atens_own_time() -> None:
    call = KernelCall(3, "triton_poi", "triton", (), (), (), LineSpan(1, 1), "")
    shown = {
        operator.made_up: result_document(Launch(call, 4), KERNEL, operators=(operator,)).lines
        for operator in (OPERATOR, replace(OPERATOR, device_ms=0.1, made_up=()))
    }
    text = {key: "\n".join(lines) for key, lines in shown.items()}
    assert "1.25 ± 0.12 ms for interpolate" in text["mul",]
    assert "interpolate" not in text[()]


@pytest.mark.parametrize(("looked", "skipped"), [((), True), (("given",), False)])
def test_what_the_device_ended_is_stood_in_for_and_keeps_its_verdict(looked: Any, skipped: bool) -> None:
    """A launch that was right on the graph's values ran once, and runs once more for those behind it."""
    collected = _Collected(GraphFiles("g", Path("output_code.py")), ReplayOptions(), None)
    row = KernelReplay("triton_poi", 3, "mismatch", "the device ended it", kinds=looked)
    for event in (
        protocol.KernelStarted(3, "triton_poi"),
        protocol.KernelChecked(row),
        protocol.KernelLost("an assert"),
    ):
        collected.take(to_line(event))
    assert collected.kernels[3] == row and (3 in collected.skip) == skipped and 3 in collected.finished


def test_a_graph_that_loses_the_device_has_its_kernels_run_one_by_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the first child says ends with the whole; the second one runs the kernels."""
    asked = []

    def one_child(request: Any, cache: Path, collected: _Collected, should_stop: Any) -> tuple[Any, str]:
        asked.append(request.only_kernels)
        events: list[Any] = [protocol.WholeLost("an assert"), protocol.Failed("an assert")]
        if request.only_kernels:
            row = KernelReplay("triton_poi", 0, "match", "", kinds=("given",))
            events = [protocol.KernelStarted(0, "triton_poi"), protocol.KernelChecked(row), protocol.Done()]
        for event in events:
            collected.take(to_line(event))
        return collected.failure, ""

    monkeypatch.setattr(spawn, "_one_child", one_child)
    call = PlannedCall(0, "triton_poi", "triton", 1, (), (), (), (), None)
    graph = GraphFiles("g", tmp_path / "output_code.py", kernels=KernelPlan(calls=(call,)))
    collected = _Collected(graph, ReplayOptions(), None)
    result = spawn._run_children(tmp_path, tmp_path, collected, None)
    assert asked == [False, True] and [row.verdict for row in result.kernels] == ["match"]
    assert result.failure == "an assert"
