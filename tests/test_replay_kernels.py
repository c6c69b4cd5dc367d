"""Every kernel by itself: planted faults found and named, nothing else blamed, crashes survived."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace

import pytest
from kernel_faults import MLP, PLANTINGS, SOFTMAX
from planting import Fault
from words import text

from inspector.explain.profiles import launch_times
from inspector.model.replay import (
    GraphReplay,
    KernelReplay,
    OperatorReplay,
    OutputCheck,
    ReplayResult,
    Timing,
    WorstElement,
)
from inspector.present.replay import launch_time_text
from inspector.present.replay import lines as words_of
from inspector.readers.run import Run
from inspector.replay.plan import graph_files
from inspector.replay.protocol import GraphFiles, PlannedCall, ReplayOptions
from inspector.replay.spawn import replay_graph
from inspector.replay.store import from_json, to_json
from inspector.replay.worker.kernels.launches import KernelPass

QUICK = ReplayOptions(whole=False, time_kernels=False, timeout_s=280)


def copied(
    run: Path, graph: str, target: Path, change: Callable[[str], str] = lambda text: text
) -> GraphFiles:
    """A graph of a copy of `run`, its output_code.py changed."""
    copytree(run, target)
    found = Run.open(target).graph(graph)
    assert found.folder is not None
    code = found.folder / "output_code.py"
    code.write_text(change(code.read_text()))
    return graph_files(found)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> ReplayOptions:
    """Options whose kernel cache the tests share: a precompiled C++ header takes seconds to make."""
    return replace(QUICK, cache_dir=tmp_path_factory.mktemp("kernel-cache"))


def described(kernels: list[KernelReplay]) -> str:
    return "\n".join(f"{kernel.call} {kernel.name}: {kernel.verdict} {kernel.reason}" for kernel in kernels)


def verdict_of(result: GraphReplay, call: int) -> str:
    return next(kernel.verdict for kernel in result.kernels if kernel.call == call)


@pytest.mark.avx512
@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTINGS)
def test_planted_faults_are_found_and_no_other_kernel_is_blamed(
    name: str, corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    planting = PLANTINGS[name]
    files = copied(corpus / planting.run, planting.graph, tmp_path / "run")
    text = files.output_code.read_text()
    names = {fault.kernel: fault.name(text) for fault in planting.faults if not fault.kernel.isdigit()}
    for fault in planting.faults:
        text = fault.plant(text)
    files = replace(files, texts={**files.texts, files.output_code.absolute(): text})
    result = replay_graph(files, warm)
    assert result.failure is None, (result.failure, result.log)
    guilty: dict[int, str] = {}
    for fault in planting.faults:
        for kernel in result.kernels:
            if names.get(fault.kernel) == kernel.name or fault.kernel == str(kernel.call):
                guilty[kernel.call] = fault.kind
    assert len(set(guilty.values())) == len(planting.faults)
    found = {kind: verdict_of(result, call) for call, kind in guilty.items()}
    assert set(found.values()) == {"mismatch"}, found
    blamed = [
        kernel
        for kernel in result.kernels
        if kernel.call not in guilty and kernel.verdict not in {"match", "compiled_closer"}
    ]
    assert not blamed, described(blamed)


def test_over_twenty_kinds_of_fault_are_planted() -> None:
    kinds = {fault.kind for planting in PLANTINGS.values() for fault in planting.faults}
    assert len(kinds) >= 20


# -- nothing is wrong

UNTOUCHED = [
    ("cpu-torch2.13/mlp", "model__1_inference"),
    ("cpu-torch2.13/softmax", "model__0_inference"),
    ("cpu-torch2.13/breaks", "model__7_backward"),
    ("cpu-torch2.15.0/softmax", "model__0_inference"),
]


@pytest.mark.avx512
@pytest.mark.slow
@pytest.mark.parametrize(("run", "graph"), UNTOUCHED)
def test_nothing_is_blamed_where_nothing_is_wrong(
    run: str, graph: str, corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    files = copied(corpus / run, graph, tmp_path / "run")
    assert files.kernels is not None
    result = replay_graph(files, warm)
    assert result.failure is None
    assert [kernel.call for kernel in result.kernels] == [call.index for call in files.kernels.calls]
    assert {kernel.verdict for kernel in result.kernels} == {"match"}, described(list(result.kernels))
    assert all(kernel.outputs for kernel in result.kernels)


@pytest.mark.avx512
@pytest.mark.slow
def test_one_kernel_is_timed_with_its_bytes_and_its_operations(
    corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    files = copied(corpus / SOFTMAX, "model__0_inference", tmp_path / "run")
    result = replay_graph(files, replace(warm, time_kernels=True, kernel="extern_kernels.mm"))
    (kernel,) = result.kernels
    assert (kernel.verdict, kernel.bytes, kernel.flops) == ("match", 120_000, 2 * 100**3)
    assert kernel.time is not None and kernel.time.median_ms > 0 and kernel.time.rounds >= 1
    assert kernel.gbps == pytest.approx(120_000 / kernel.time.median_ms / 1e6)
    assert result.host_gap_ms is None, "the other kernel was not run"


# -- crashes

_START = "int tid = omp_get_thread_num();"
_REGION = "    #pragma omp parallel"
BROKEN = (
    # The end of a kernel's name, where, what is put there, and what is said of it.
    ("_0", _START, _START + "*(volatile int*)nullptr = 1;", "SIGSEGV"),
    ("_3", _START, _START + 'int raise_it(int) __asm__("raise"); raise_it(9);', "SIGKILL (out of memory?)"),
    ("_4", _START, _START + "for (volatile int i = 0;; i = i + 1) {}", "did not end within 3 s"),
    # Out of a parallel region no exception finds its way.
    ("_5", _REGION, f"    throw std::bad_alloc();\n{_REGION}", "bad_alloc"),
)


@pytest.mark.avx512
@pytest.mark.slow
def test_a_kernel_that_ends_its_child_costs_its_own_verdict_only(
    corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    """Crashed, out of memory, without an end, and with an exception: each is told of its own kernel."""
    reasons: dict[str, str] = {}

    def broken(text: str) -> str:
        for kernel, old, new, reason in BROKEN:
            fault = Fault(reason, kernel, old, new)
            reasons[fault.name(text)] = reason
            text = fault.plant(text)
        return text

    files = copied(corpus / MLP, "model__1_inference", tmp_path / "run", broken)
    assert files.kernels is not None
    result = replay_graph(files, replace(warm, kernel_timeout_s=3.0))
    assert result.failure is None
    assert [kernel.call for kernel in result.kernels] == [call.index for call in files.kernels.calls]
    lost = [kernel for kernel in result.kernels if kernel.name in reasons]
    assert {kernel.name for kernel in lost} == set(reasons)
    for kernel in lost:
        assert kernel.verdict == "unverifiable" and reasons[kernel.name] in kernel.reason, kernel.reason
    others = [kernel for kernel in result.kernels if kernel.name not in reasons]
    assert len(others) >= 9 and {kernel.verdict for kernel in others} == {"match"}, described(others)


# -- what-if

EDIT = ("tmp0 / tmp2", "tmp0 * tmp2")


@pytest.mark.avx512
@pytest.mark.slow
def test_an_edited_source_runs_beside_the_kernels_own(
    corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    files = copied(corpus / SOFTMAX, "model__0_inference", tmp_path / "run")
    assert files.kernels is not None
    text = files.output_code.read_text()
    source = text[text.index("r'''", text.index("cpp_fused__softmax_0 = ")) + 4 :].split("''')")[0]
    assert EDIT[0] in source
    options = replace(warm, kernel="cpp_fused__softmax_0", time_kernels=True, kernel_time_s=0.02)
    wrong = replay_graph(files, replace(options, source=source.replace(*EDIT)))
    assert [kernel.verdict for kernel in wrong.kernels] == ["match"]
    assert [kernel.verdict for kernel in wrong.edits] == ["mismatch"]
    assert wrong.edits[0].time is not None and wrong.edits[0].worst[0].output == "buf4 (div)"
    broken = replay_graph(files, replace(options, source="int main( {"))
    assert [kernel.verdict for kernel in broken.kernels] == ["match"]
    assert broken.edits[0].verdict == "unverifiable" and "does not compile" in broken.edits[0].reason
    crash = source.replace("tmp0 / tmp2;", "tmp0 / tmp2; *(volatile int*)nullptr = 1;")
    # Compiling it takes longer than a launch may.
    crashed = replay_graph(files, replace(options, source=crash, kernel_timeout_s=3.0))
    assert [kernel.verdict for kernel in crashed.kernels] == ["match"]
    assert "SIGSEGV" in crashed.edits[0].reason


@pytest.mark.avx512
@pytest.mark.slow
def test_a_wrong_kernel_becomes_a_program_that_runs_with_torch_alone(
    corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    fault = ("tmp0 / tmp2;", "tmp0 / (tmp2 + decltype(tmp2)(0.001f));")
    files = copied(
        corpus / SOFTMAX, "model__0_inference", tmp_path / "run", lambda text: text.replace(*fault)
    )
    result = replay_graph(files, replace(warm, kernel="cpp_fused__softmax_0", repro=True))
    assert verdict_of(result, 1) == "mismatch"
    program = tmp_path / "repro.py"

    def answer(text: str) -> tuple[int, str]:
        program.write_text(text)
        done = subprocess.run([sys.executable, "-I", str(program)], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    code, said = answer(result.repros[1])
    assert code == 1 and "buf4 (div): 10000 of 10000 elements" in said and "first [0, 0]: 0.00256" in said, (
        said
    )
    code, said = answer(result.repros[1].replace(fault[1], fault[0]))
    assert code == 0 and "buf4 (div): 0 of 10000 elements" in said, said


# -- without a child


def test_a_launch_is_planned_with_what_it_reads_and_writes(corpus: Path) -> None:
    """mm reads two matrices of 100 by 100 floats and writes one; the softmax reads that one and writes
    another, with the maximum and the sum of each row."""
    plan = graph_files(Run.open(corpus / SOFTMAX).graphs[0]).kernels
    assert plan is not None
    matrix, column = 100 * 100 * 4, 100 * 4
    assert [call.bytes for call in plan.calls] == [3 * matrix, 2 * matrix + 2 * column]


def test_kernels_survive_the_json_contract() -> None:
    kernel = KernelReplay(
        "k",
        3,
        "mismatch",
        "why",
        time=Timing(1.5, 0.1, 9),
        time_warm=Timing(1.0, 0.2, 8),
        bytes=3_000_000,
        gbps=2.0,
        outputs=(OutputCheck(0, "mismatch", shape=(2, 3), name="buf0 (add)"),),
        worst=(WorstElement("buf0 (add)", (1, 2), "nan", 1.0, 1.5),),
        registers=32,
    )
    result = ReplayResult(
        {}, (GraphReplay("g", compiled=Timing(2.0, 0.1, 3), kernels=(kernel,), edits=(kernel,)),)
    )
    data = json.loads(json.dumps(to_json(result), allow_nan=False))
    entry = data["graphs"][0]["kernels"][0]
    keys = {"name", "call", "ms", "ms_iqr", "gbps", "roofline_fraction", "verdict", "reason"}
    assert keys | {"error_compiled", "error_eager"} <= entry.keys()
    assert (entry["ms"], entry["ms_iqr"], entry["warm_ms"]) == (1.5, 0.1, 1.0)
    assert data["graphs"][0]["host_gap_ms"] == 0.5
    assert from_json(data) == result


def test_the_report_ranks_kernels_and_tells_where_one_is_wrong() -> None:
    slow = KernelReplay("slow", 1, "match", time=Timing(3.0, 0.1, 9), bytes=6_000_000_000)
    worst = WorstElement("buf0 (add)", (1, 2), "nan", 1.0, 1.5, picture=("084",))
    wrong = KernelReplay("wrong", 0, "mismatch", "off at 3", time=Timing(1.0, 0.1, 9), worst=(worst,))
    nothing = OperatorReplay("drop", "dropout", (1,), Timing(1e-5, 2e-5, 9), device_ms=0.0)
    graph = GraphReplay("g", compiled=Timing(5.0, 0.1, 3), kernels=(wrong, slow), operators=(nothing,))
    shown = text(words_of(ReplayResult({}, (graph,)), 100))
    assert shown.index("slow ") < shown.index("wrong ")
    assert "2 launches: 1 mismatch, 1 match; 4.00 ms + 1.00 ms host gap" in shown
    assert "75 %" in shown and "2,000" in shown
    assert "call 0 wrong: mismatch; off at 3" in shown
    assert "worst at buf0 (add)[1, 2]: nan compiled, 1 op by op, 1.5 in float64" in shown
    assert "·█▒" in shown and "ATen's own" not in shown


def test_a_graph_that_cannot_be_replayed_has_its_launches_times_from_the_profile(
    profiled_convmixer: Path,
) -> None:
    run = Run.open(profiled_convmixer)
    (graph,) = run.graphs
    times = launch_times(run)[graph.ident]
    files = graph_files(graph, times)
    replay = replay_graph(replace(files, output_code=profiled_convmixer / "gone"))
    assert "there is no gone" in (replay.failure or "")
    assert files.kernels is not None
    assert [item.known_ms for item in replay.kernels] == [times[call.index] for call in files.kernels.calls]
    assert {kernel.verdict for kernel in replay.kernels} == {"unverifiable"}
    shown = text(words_of(ReplayResult({}, (replay,)), 100))
    longest = max(replay.kernels, key=lambda kernel: kernel.known_ms or 0.0)
    assert re.search(rf"{longest.name[:18]}.* [um]s profile +\d+ %", shown)
    measured = replace(longest, time=Timing(1.0, 0.1, 9))
    assert launch_time_text([measured]) == "1.00 ms" and measured.known_ms == 1.0


@pytest.mark.parametrize("profiled", [True, False])
def test_the_launches_that_take_most_are_tried_and_timed_first(profiled: bool) -> None:
    """By the profile, and by bytes only where there is none."""
    costs = [1, 1, 50, 1, 1, 40, 1, 1, 1, 3]
    calls = {
        index: PlannedCall(
            index,
            "k",
            "cpp",
            1,
            (),
            (),
            (),
            (),
            -cost if profiled else cost,
            float(cost) if profiled else None,
        )
        for index, cost in enumerate(costs)
    }
    given = SimpleNamespace(
        _calls=calls, _checked={0}, _request=SimpleNamespace(wanted=None), _code=SimpleNamespace(on_cpu=None)
    )
    assert KernelPass._cheap(given) == {1, 3, 4, 6, 7, 8, 9}  # type: ignore[arg-type]
    given._code.on_cpu = object()
    assert not KernelPass._cheap(given)  # type: ignore[arg-type]
