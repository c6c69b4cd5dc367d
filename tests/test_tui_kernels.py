"""The kernels pane: results of replays, sorting, evidence, what-if edits; and what the run's screen tells."""

from __future__ import annotations

import re
import shutil
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from replays import CPU, kernel_replay, replay_of, result_of
from tui_support import GraphsApp, lines, press, settle, text, until

from inspector.hardware.peaks import Device, keep_peaks
from inspector.model.code import OutputCode
from inspector.model.edits import KernelEdit
from inspector.model.replay import GraphReplay, ReplayResult, Timing
from inspector.present.rows import CallRow, KernelRow
from inspector.readers.run import Run
from inspector.replay.edits import EditFolder, kernel_with_source
from inspector.replay.environment import host_machine
from inspector.replay.store import load_results, save_result
from inspector.tui.app import InspectorApp
from inspector.tui.screens import replays as replays_module
from inspector.tui.screens.confirm import ConfirmScreen
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.run import RunScreen

NARROW = (80, 24)
WIDE = (160, 50)
DAY = 86_400.0
STARTED = 1_795_000_000.0


def code_of(run: Path, index: int = 0) -> tuple[str, OutputCode]:
    graph = Run.open(str(run)).graphs[index]
    code = graph.code()
    assert code is not None
    return graph.ident, code


@pytest.fixture
def mlp(corpus: Path, tmp_path: Path) -> Path:
    """A copy of a run with two replays of its first graph, the second a fifth faster."""
    run = tmp_path / "mlp"
    shutil.copytree(corpus / "cpu-torch2.13" / "mlp", run)
    ident, code = code_of(run)
    save_result(result_of(STARTED, replay_of(ident, code, 1.25)), run)
    save_result(result_of(STARTED + DAY, replay_of(ident, code)), run)
    return run


@pytest.fixture
def softmax(corpus: Path, tmp_path: Path) -> Path:
    run = tmp_path / "softmax"
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", run)
    return run


def graph_screen(app: InspectorApp) -> GraphScreen:
    assert isinstance(app.screen, GraphScreen)
    return app.screen


def calls_shown(app: InspectorApp) -> list[object]:
    return [row.key for row in graph_screen(app).kernels.table.content.rows]


# -- what a replay left


@pytest.mark.parametrize("size", [NARROW, WIDE])
async def test_launches_show_time_share_roofline_and_verdict(mlp: Path, size: tuple[int, int]) -> None:
    app = GraphsApp(str(mlp))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        shown = lines(app)
        assert shown[1].startswith(" Kernels · 18 · 360 us + 36.0 us host gap · ")
        assert "time ↓" in shown[2] and "share" in shown[2] and "roofline" in shown[2] and "ok" in shown[2]
        # Launch 2: 2 * (4 + 3 * (14 % 5)) us, 120 KB of memory at 100 GB/s: 1.2 of 32 us.
        assert "32.0 us" in shown[3] and "9 %" in shown[3] and "4 %" in shown[3]
        assert "? unverified" in shown[3]
        assert any("✗ mismatch" in line for line in shown) == (size == WIDE)
        assert max(map(len, shown)) <= size[0]
        # The evidence of the first row stands below.
        assert "draws random numbers" in text(app)
        if size == WIDE:
            assert "view_11: " not in text(app) and "FX nodes that it stands for" in text(app)


async def test_sorting_by_time_above_the_roofline_and_as_launched_keeps_the_launch(mlp: Path) -> None:
    app = GraphsApp(str(mlp))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4", "j", "j")
        first = calls_shown(app)
        assert first[:4] == [CallRow(2), CallRow(7), CallRow(12), CallRow(17)]
        here = graph_screen(app).kernels.table.key
        await press(pilot, "s")
        assert "by time above the roofline" in text(app) and "above ↓" in lines(app)[2]
        assert graph_screen(app).kernels.table.key == here
        assert set(calls_shown(app)) == set(first) and calls_shown(app) != first
        await press(pilot, "s")
        assert calls_shown(app) == [CallRow(index) for index in range(18)]
        assert graph_screen(app).kernels.table.key == here
        await press(pilot, "s")
        assert calls_shown(app) == first


async def test_a_mismatch_shows_errors_tolerance_worst_elements_and_fx_nodes(mlp: Path) -> None:
    app = GraphsApp(str(mlp))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        screen = graph_screen(app)
        screen.kernels.table.move_to(screen.kernels.table.content.by_key[CallRow(5)])
        await settle(pilot)
        content = screen.views["result"].content
        shown = " ".join(" ".join(content.lines).split())
        assert "✗ mismatch" in shown and "48 of 10000 elements are outside" in shown
        assert "error 0.25 (op by op 1.3e-07); tolerance 1.3e-06 relative + 1e-05" in shown
        assert "48 of 10000 elements outside the tolerance" in shown
        assert "2.00 MFLOP, 250 GFLOP/s" in shown
        assert "[3, 17]" in shown and "0.123456" in shown and "0.37345601" in shown
        assert "torch.ops.aten.addmm.default" in shown
        assert "125 %: at least 10.0 us by arithmetic (200 GFLOP/s, measured)" in shown
        assert "faster than the matrix product that was measured for the peak" in shown
        assert "now -20 %" in shown, "the earlier replay took a quarter longer"
        # An FX node in the result leads to its line in the FX pane.
        row = next(
            i
            for i, line in enumerate(screen.views["result"].content.lines)
            if "addmm" in line and "aten" in line
        )
        screen.focus_view(screen.views["result"])
        screen.views["result"].move_to(row)
        await settle(pilot)
        assert screen.kernels.table.key == CallRow(5)
        await press(pilot, "1")
        assert any(line.startswith("▎") and "aten.addmm" in line for line in lines(app))


async def test_narrow_panes_have_result_or_source_below(mlp: Path) -> None:
    app = GraphsApp(str(mlp))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        screen = graph_screen(app)
        assert screen.views["result"].display and not screen.views["source"].display
        await press(pilot, "tab", "tab")
        assert screen.views["source"].display and screen.views["source"].has_focus
        await press(pilot, "tab")
        assert screen.views["kernels"].has_focus and screen.views["source"].display
        assert screen.views["kernels"].size.height >= 6


async def test_before_a_replay_each_kernel_is_shown_once_with_its_fx_nodes(softmax: Path) -> None:
    app = GraphsApp(str(softmax))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        shown = text(app)
        assert "not replayed: r replays this launch, R all of the graph" in shown
        assert "torch.ops.aten.amax.default" in shown or "torch.ops.aten.mm.default" in shown
        assert "s sort" not in lines(app)[-1] and "r replay" in lines(app)[-1]


async def test_the_palette_finds_a_kernel_among_replayed_launches(mlp: Path) -> None:
    app = GraphsApp(str(mlp))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        screen = graph_screen(app)
        screen.go_to_kernel("cpp_fused_native_layer_norm_0")
        await settle(pilot)
        assert screen.pane == "kernels" and screen.kernels.table.key == CallRow(0)
        assert screen.kernels.kernel == "cpp_fused_native_layer_norm_0"


async def test_triton_launches_show_registers_and_spills(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "norms"
    shutil.copytree(corpus / "h200-torch2.11" / "llama_infer", run)
    ident, code = code_of(run)
    save_result(result_of(STARTED, replay_of(ident, code, gpu=True)), run)
    app = GraphsApp(str(run))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        assert "regs" in lines(app)[2] and "spills" in lines(app)[2]
        assert "34 registers, 0 spills, 1.02 KB shared memory" in text(app)
        assert "TB/s, datasheet)" in text(app)


async def test_results_by_the_interpreter_say_so_and_have_no_times(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "softmax"
    shutil.copytree(corpus / "h200-torch2.11" / "softmax", run)
    ident, code = code_of(run)
    kernels = tuple(
        replace(
            kernel_replay(call),
            time=None,
            gbps=None,
            method="interpreter",
            programs=6,
            grid=4096,
            roofline_fraction=None,
        )
        for call in code.calls
    )
    save_result(result_of(STARTED, GraphReplay(ident, kernels=kernels, device="cuda")), run)
    app = GraphsApp(str(run))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        assert "Kernels · 2 · by Triton's interpreter, no times" in lines(app)[1]
        assert "Triton's interpreter on the CPU on 6 of 4096 programs; no times" in text(app)
        # 40 KB at 4.8 TB/s; the matrix product of 2 MFLOP at 67 TFLOP/s takes longer.
        assert "at least 29.9 ns by arithmetic (67.0 TFLOP/s, datasheet) on the" in text(app)
        assert "NVIDIA H200" in text(app)


async def test_the_run_tells_host_gap_and_the_kernel_to_look_at_first(mlp: Path) -> None:
    app = GraphsApp(str(mlp))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        shown = lines(app)
        row = next(line for line in shown if "model__0_forward_1.0" in line)
        assert (
            "504 → 396 us" in row
            and "1.27x faster" in row
            and "36.0 us" in row
            and "extern_kernels.addmm mismatch" in row
        )
        assert "18 launches: 15 match, 1 unverifiable, 1 mismatch, 1 op by op closer" in text(app)
        assert "360 us + 36.0 us host gap; 261 us above the roofline" in text(app)
        other = next(line for line in shown if "model__0_backward_3.1" in line)
        assert "mismatch" not in other
    app = GraphsApp(str(mlp))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        row = next(line for line in lines(app)[1:] if "1.27x faster" in line)
        assert row.endswith("✗ kernel"), "the outputs match, a kernel does not"


# -- replaying from the pane


def fake_replay(seen: list[Any], go_on: threading.Event) -> Callable[..., ReplayResult | None]:
    """Stands in for the one that runs torch: all launches, or the one asked for at half the time."""

    def replay(
        run: Run,
        graphs: list[Any],
        tell: Callable[..., Any],
        should_stop: Callable[[], bool],
        call: int | None = None,
    ) -> ReplayResult | None:
        seen.append(call)
        tell("replay: building the kernels", None)
        while not go_on.wait(0.01):
            if should_stop():
                return None
        code = graphs[0].code()
        whole = replay_of(graphs[0].ident, code, 0.5)
        if call is not None:
            kept = tuple(kernel for kernel in whole.kernels if kernel.call == call)
            whole = GraphReplay(whole.name, device="cpu", kernels=kept)
        tell("", whole)
        return result_of(STARTED + 2 * DAY, whole)

    return replay


async def test_one_launch_is_replayed_and_the_others_keep_their_results(
    mlp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    go_on = threading.Event()
    monkeypatch.setattr(replays_module, "replay", fake_replay(seen, go_on))
    app = GraphsApp(str(mlp))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        assert graph_screen(app).kernels.table.key == CallRow(2)
        await press(pilot, "r")
        assert isinstance(app.screen, ConfirmScreen), "the run comes from another machine"
        await pilot.press("y")
        await until(pilot, lambda: "building the kernels" in text(app))
        assert seen == [2]
        assert "x stop" in lines(app)[-1]
        go_on.set()
        await settle(pilot)
        row = graph_screen(app).kernels.table.content.rows
        found = {item.key: item.cells[3].text for item in row}
        assert found[CallRow(2)] == "16.0 us" and found[CallRow(7)] == "32.0 us"
        assert "now -50 %" in text(app), "both earlier replays are told"
        await press(pilot, "escape")
        assert isinstance(app.screen, RunScreen)
        assert any("1.27x faster" in line for line in lines(app)), "the graph's own times stay"


async def test_all_launches_are_replayed_and_a_replay_can_be_stopped(
    softmax: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    go_on = threading.Event()
    monkeypatch.setattr(replays_module, "replay", fake_replay(seen, go_on))
    app = GraphsApp(str(softmax))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4", "R")
        await pilot.press("y")
        await until(pilot, lambda: seen)
        await pilot.press("r")
        assert "a replay is running; x stops it" in text(app)
        await pilot.press("x")
        await settle(pilot)
        assert "replay stopped" in text(app) and seen == [None]
        go_on.set()
        await press(pilot, "R")
        await settle(pilot)
        assert "Kernels · 2 · " in lines(app)[1] and "replayed" in text(app)
        await press(pilot, "escape")
        assert any("→" in line and "1.27x" in line for line in lines(app)), "the run's screen knows as well"


async def test_leaving_the_graph_stops_its_replay(softmax: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(replays_module, "replay", fake_replay(seen, threading.Event()))
    app = GraphsApp(str(softmax))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4", "R")
        await pilot.press("y")
        await until(pilot, lambda: seen)
        stop = graph_screen(app).session.stop
        await pilot.press("escape")
        assert stop.is_set() and isinstance(app.screen, RunScreen)
        await settle(pilot)
        assert "x stop" not in lines(app)[-1]


# -- what-if


def an_editor(folder: Path, before: str, after: str) -> str:
    """A program that changes the file as a user would."""
    script = folder / "editor.sh"
    script.write_text(f"#!/bin/sh\nsed -i 's/{before}/{after}/' \"$1\"\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    return str(script)


class Suspended:
    """`App.suspend` where there is no terminal to lend."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, app: InspectorApp) -> Suspended:
        return self

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def suspended(monkeypatch: pytest.MonkeyPatch) -> Suspended:
    stand_in = Suspended()
    monkeypatch.setattr(InspectorApp, "suspend", lambda app: stand_in)
    return stand_in


def fake_edit(job: Any, tell: Any, should_stop: Any) -> KernelEdit:
    """Stands in for the one that runs torch: the edit takes half the time, and is wrong."""
    code = job.graph.code()
    original = kernel_replay(code.calls[job.call])
    assert original.time is not None
    time_ms = Timing(original.time.median_ms / 2, 0.0, 30)
    reason = "100 of 100 elements are outside"
    edited = replace(original, time=time_ms, verdict="mismatch", reason=reason)
    source = job.path.read_text(encoding="utf-8")
    number = int(job.path.stem)
    edit = KernelEdit(
        job.graph.ident, job.kernel.name, job.call, number, source, time.time(), original, edited
    )
    EditFolder(job.graph.run, job.graph.ident, job.kernel).save(edit)
    return edit


async def test_a_kernel_is_edited_and_replayed_beside_the_original(
    softmax: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suspended: Suspended
) -> None:
    monkeypatch.setattr(replays_module, "replay_changed", fake_edit)
    monkeypatch.setenv("VISUAL", an_editor(tmp_path, "tmp0 - tmp2", "tmp0 + tmp2"))
    original = next(softmax.rglob("output_code.py")).read_bytes()
    app = GraphsApp(str(softmax))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        screen = graph_screen(app)
        screen.kernels.table.move_to(screen.kernels.table.content.by_key[KernelRow("cpp_fused__softmax_0")])
        await press(pilot, "i")
        assert suspended.count == 1 and isinstance(app.screen, ConfirmScreen)
        await press(pilot, "y")
        await settle(pilot)
        shown = text(app)
        assert "edit 1: 10.0 ± 0.0 us beside 20.0 ± 0.4 us, 2.00x faster" in shown
        assert "✗ mismatch" in shown and "100 of 100 elements are outside" in shown
        assert "What edit 1 changed" in shown
        assert any(line.lstrip().startswith("+") and "tmp0 + tmp2" in line for line in shown.split("\n"))
        # The next one begins with the last, the one after that with the original.
        await press(pilot, "i")
        assert "not changed: nothing replayed" in text(app), "sed finds nothing left to change"
        await press(pilot, "I")
        await settle(pilot)
        assert "edit 2:" in text(app)
    folder = softmax / "replay" / "edits" / "model__0_inference_0.0" / "cpp_fused__softmax_0"
    assert sorted(path.name for path in folder.iterdir()) == ["1.cpp", "1.json", "2.cpp", "2.json"]
    assert next(softmax.rglob("output_code.py")).read_bytes() == original
    assert load_results(softmax) == (), "an edit is no replay of the run"


@pytest.mark.parametrize(
    ("editor", "remark"),
    [
        ("", "no editor: set $EDITOR (or $VISUAL)"),
        ("true", "not changed: nothing replayed"),
        ("false", "false ended with exit code 1"),
        ("/nonexistent/editor --wait", "cannot start /nonexistent/editor"),
    ],
)
async def test_without_a_change_nothing_is_kept_and_the_reason_is_said(
    softmax: Path, monkeypatch: pytest.MonkeyPatch, suspended: Suspended, editor: str, remark: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    app = GraphsApp(str(softmax))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        screen = graph_screen(app)
        screen.kernels.table.move_to(screen.kernels.table.content.by_key[KernelRow("cpp_fused__softmax_0")])
        await press(pilot, "i")
        assert remark in text(app)
    assert not list(softmax.rglob("*.cpp"))


async def test_a_librarys_kernel_and_a_terminal_that_cannot_be_lent_say_so(
    softmax: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "true")
    app = GraphsApp(str(softmax))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        screen = graph_screen(app)
        screen.kernels.table.move_to(screen.kernels.table.content.by_key[KernelRow("extern_kernels.mm")])
        await press(pilot, "i")
        assert "a library's kernel has no source here" in text(app)
        screen.kernels.table.move_to(screen.kernels.table.content.by_key[KernelRow("cpp_fused__softmax_0")])
        await press(pilot, "i")
        assert "this terminal cannot be lent to an editor" in text(app)


# -- for real


@pytest.mark.avx512
@pytest.mark.slow
async def test_a_launch_is_replayed_and_edited_for_real(
    softmax: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suspended: Suspended
) -> None:
    """Compiles and runs the captured kernel, then the same with a sign turned: found, and nowhere else."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    device = Device("cpu", str(host_machine()["cpu"]), torch.__version__, torch.get_num_threads())
    keep_peaks(CPU, device.path)
    monkeypatch.setenv("EDITOR", an_editor(tmp_path, "tmp0 - tmp2", "tmp0 + tmp2"))
    app = GraphsApp(str(softmax))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "4")
        screen = graph_screen(app)
        screen.kernels.table.move_to(screen.kernels.table.content.by_key[KernelRow("cpp_fused__softmax_0")])
        await press(pilot, "r")
        await pilot.press("y")
        await settle(pilot)
        assert screen.kernels.table.key == CallRow(1)
        shown = text(app)
        assert "Kernels · 1 of 2 · " in shown and "✓ match" in shown
        assert "(sum_1)" in shown and "roofline" in shown
        await press(pilot, "i")
        await settle(pilot)
        shown = text(app)
        assert "edit 1: " in shown and "✗ mismatch" in shown
        assert "✓ match" in shown, "the original stays what it was"
        assert re.search(r"edit 1: .+ beside .+, (as fast|[\d.,]+x (faster|slower))  ✗", shown)
    (stored,) = load_results(softmax)
    (replayed,) = stored.graphs[0].kernels
    assert replayed.verdict == "match" and replayed.time is not None
    assert replayed.roofline_fraction is not None and "cpu" in cast(dict[str, Any], stored.machine["peaks"])
    graph = Run.open(str(softmax)).graphs[0]
    code = graph.code()
    assert code is not None
    (edit,) = EditFolder(graph.run, graph.ident, kernel_with_source(code, "cpp_fused__softmax_0")).load()
    assert edit.original is not None and edit.original.verdict == "match"
    assert edit.edited is not None and edit.edited.verdict == "mismatch"
    assert "instructions" in [figure.name for figure in edit.stages], "both are lowered"
