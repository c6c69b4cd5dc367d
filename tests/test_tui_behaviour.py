"""The TUI, driven by keys and mouse on captured runs."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from textual.color import Color
from textual.events import Key
from tui_support import GraphsApp, graph_folders, lines, press, settle, text, until
from waiting import wait_until

from inspector.model.links import Ref, RefKind
from inspector.model.problem import InspectorError
from inspector.model.replay import GraphReplay, OutputCheck, Timing
from inspector.present.documents import Document, message_document
from inspector.readers import run_files, schedule
from inspector.readers.run import Run
from inspector.readers.text import read_text
from inspector.tui import bounded
from inspector.tui.actions import ACTIONS
from inspector.tui.app import InspectorApp, run_tui
from inspector.tui.bounded import report
from inspector.tui.navigation import (
    CaptureTarget,
    DiffTarget,
    ExplainTarget,
    GraphsTarget,
    GraphTarget,
    Open,
    RunTarget,
    SourceTarget,
    Target,
    TraceTarget,
)
from inspector.tui.routes import screen_for
from inspector.tui.screens import replays as replays_module
from inspector.tui.screens.confirm import ConfirmScreen
from inspector.tui.screens.explain import ExplainScreen
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.help import HelpScreen
from inspector.tui.screens.run import RunScreen
from inspector.tui.screens.runs import RunsScreen
from inspector.tui.widgets.bars import Headline, KeyBar
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.table_view import TableView

NARROW = (80, 24)
WIDE = (160, 50)


@pytest.fixture
def softmax(corpus: Path) -> str:
    return str(corpus / "cpu-torch2.13" / "softmax")


def graph_screen(app: InspectorApp) -> GraphScreen:
    assert isinstance(app.screen, GraphScreen)
    return app.screen


def run_screen(app: InspectorApp) -> RunScreen:
    assert isinstance(app.screen, RunScreen)
    return app.screen


async def select(pilot: Any, view: str, name: str) -> None:
    """Put the cursor of `view` on the row that stands for `name`, as keys would."""
    screen = graph_screen(pilot.app)
    widget = screen.views[view]
    kinds: dict[str, RefKind] = {
        "fx-after": "fx_after",
        "fx-before": "fx_before",
        "kernels": "kernel",
        "launches": "call",
    }
    (row, _) = widget.content.refs.rows_of([Ref(kinds.get(view, "node"), name)])[0]
    screen.focus_view(widget)
    widget.cursor = -1
    widget.move_to(row)
    await settle(pilot)


# -- runs


async def test_a_folder_of_runs_is_listed_and_one_is_opened(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13"))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        shown = text(app)
        assert "softmax" in shown and "2026-11-21 05:02" in shown
        await press(pilot, "G", "enter")
        await settle(pilot)
        assert "softmax · torch 2.13.0+cpu · cpu · 1 graph" in lines(app)[0]
        await press(pilot, "escape")
        assert isinstance(app.screen, RunsScreen)


async def test_without_runs_there_is_a_start_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = GraphsApp()
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        assert "inspector capture -o RUN -- python train.py" in text(app)
        assert max(map(len, lines(app))) <= 80


def test_a_path_that_is_no_run_is_an_error_before_anything_is_drawn(tmp_path: Path) -> None:
    with pytest.raises(InspectorError, match="no such file"):
        run_tui(str(tmp_path / "nothing"))


# -- one run


async def test_rows_of_a_run_tell_graphs_breaks_and_recompiles_in_order(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "breaks"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        shown = lines(app)
        first = next(i for i, line in enumerate(shown) if "model__0_forward_1.0" in line)
        assert "⤷ graph break  workload.py:8" in shown[first + 1]
        recompile = next(i for i, line in enumerate(shown) if "⤷ recompile  workload.py:6" in line)
        assert "model__4_forward_13.4" in shown[recompile + 1]
        assert "12 graphs · 6 graph breaks · 4 recompiles" in shown[0]


async def test_kernels_are_counted_when_asked_or_when_a_graph_was_opened(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        row = next(line for line in lines(app) if "model__0_inference_0.0" in line)
        assert "5 → 2" in row and "cpp" not in row
        await press(pilot, "enter")
        await settle(pilot)
        await press(pilot, "escape")
        await settle(pilot)
        assert any("1 cpp + 1 extern" in line for line in lines(app))
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "number_sign")
        await settle(pilot)
        assert any("1 cpp + 1 extern" in line for line in lines(app))


async def test_an_event_is_told_in_full_below_and_leads_to_its_line(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "breaks"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "j")
        assert "graph break at /home/user/runs/breaks/workload.py:8" in text(app)
        await press(pilot, "enter")
        assert "← graph break: " in text(app) and "workload.py:8" in lines(app)[0]
        await press(pilot, "escape")
        screen = run_screen(app)
        detail = screen.query_one("#detail")
        await press(pilot, "tab", "j", "j")
        assert detail.has_focus and detail.scroll_offset.y == 2
        await press(pilot, "tab", "j")
        assert screen._table.cursor == 2 and detail.scroll_offset.y == 0


async def test_a_run_out_of_the_cache_says_why_it_is_empty_and_what_to_do(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "cache_hit"))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        shown = text(app)
        assert "1 graph came from the cache" in shown
        assert "Capture again with fresh caches" in shown
        await press(pilot, "enter", "r", "number_sign", "slash", "c", "enter", "n", "y")
        run_screen(app)


async def test_a_trace_alone_can_be_browsed(corpus: Path) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "softmax" / "trace"))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert "1 graph" in lines(app)[0]
        await press(pilot, "r")
        assert "nothing to replay" in text(app)
        await press(pilot, "enter")
        await settle(pilot)
        await press(pilot, "3")
        assert "cpp_fused__softmax_0" in text(app)


async def test_a_thousand_graphs_open_without_reading_code(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = graph_folders(corpus / "cpu-torch2.13" / "softmax")[0]
    inductor = tmp_path / "torch_compile_debug" / "run_2026_11_21_05_02_24_145134-pid_1" / "torchinductor"
    inductor.mkdir(parents=True)
    for number in range(1000):
        (inductor / f"model__{number}_inference_{number}.{number}").symlink_to(source)
    read: list[str] = []
    original = read_text

    def recording(path: Path, label: str) -> Any:
        read.append(str(path))
        return original(path, label)

    monkeypatch.setattr(run_files, "read_text", recording)
    app = GraphsApp(str(tmp_path))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        assert "1,000 graphs" in lines(app)[0]
        assert not [path for path in read if path.endswith("output_code.py")]
        assert len({Path(path).parent for path in read}) < 60, "only rows on screen are counted"
        await press(pilot, "G")
        await settle(pilot)
        row = next(line for line in lines(app) if "model__999_inference_999.999" in line)
        assert "5 → 2" in row, "rows that come into sight are counted"
        assert not [path for path in read if path.endswith("output_code.py")]


async def test_missing_and_cut_files_are_named_and_the_rest_is_shown(softmax: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(softmax, run)
    folder = graph_folders(run)[0]
    (folder / "output_code.py").unlink()
    whole = (folder / "ir_post_fusion.txt").read_text()
    (folder / "ir_post_fusion.txt").write_text(whole[: len(whole) // 2])
    app = GraphsApp(str(run))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert "output_code.py: compilation stopped before code was generated" in text(app)
        await press(pilot, "enter")
        await settle(pilot)
        assert "torch.ops.aten.mm.default" in text(app)
        for pane in "2345":
            await press(pilot, pane)
        assert "output_code.py is not here" in text(app)


async def test_garbage_in_a_file_does_not_end_the_program(softmax: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(softmax, run)
    for path in graph_folders(run)[0].iterdir():
        path.write_bytes(b"\x00\x1b[31m\xff\xfe(((\n\t'''\n" * 50)
    app = GraphsApp(str(run))
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "number_sign", "enter")
        await settle(pilot)
        for pane in "12o345":
            await press(pilot, pane)
        assert "\x1b" not in text(app)


async def test_a_reader_that_fails_becomes_a_line_on_the_screen(
    softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(text: str, path: str) -> Any:
        raise ValueError("unheard of")

    monkeypatch.setattr(schedule, "parse_pre_fusion", broken)
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert "it cannot be understood" in text(app) and "ValueError: unheard of" in text(app)
        await press(pilot, "enter")
        await settle(pilot)
        await press(pilot, "2")
        assert "ValueError: unheard of" in text(app)
        await press(pilot, "3")
        assert "cpp_fused__softmax_0" in text(app)


# -- one graph


async def test_a_selection_goes_through_all_panes(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        screen = graph_screen(app)
        await press(pilot, "5")
        await select(pilot, "fx-after", "amax")
        assert screen.bar.text == "softmax.py:4 → amax → op1_op2_op3_op4 → cpp_fused__softmax_0 → line 161"
        assert "by provenance and buffers" in text(app)
        assert screen.views["ir-after"].ref == Ref("node", "op1")
        assert screen.views["kernels"].ref == Ref("kernel", "cpp_fused__softmax_0")
        code = screen.views["code"]
        assert code.content.text(code.cursor).startswith("cpp_fused__softmax_0 = async_compile")
        assert screen.views["source"].content.title == "cpp_fused__softmax_0"
        await select(pilot, "kernels", "extern_kernels.mm")
        assert screen.views["fx-after"].ref == Ref("fx_after", "mm")
        assert screen.views["ir-after"].ref == Ref("node", "op0")
        assert "extern_kernels.mm(arg0_1, arg1_1, out=buf0)" in code.content.text(code.marks[-1][1])


async def test_a_code_line_leads_back_to_the_program(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        await press(pilot, "3")
        screen = graph_screen(app)
        screen.views["code"].move_to(153)
        await settle(pilot)
        assert screen.bar.text.startswith("softmax.py:3 → mm → op0")
        await press(pilot, "1")
        assert screen.views["fx-after"].ref == Ref("fx_after", "mm")
        assert screen.views["fx-before"].ref == Ref("fx_before", "mm")
        assert screen.related.calls == {0}


async def test_follow_goes_down_the_chain_and_round(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        screen = graph_screen(app)
        seen = []
        for _ in range(6):
            await press(pilot, "enter")
            assert screen.focused is not None
            seen.append(screen.focused.id)
        assert seen == ["ir-before", "ir-after", "code", "kernels", "fx-before", "fx-after"]


async def test_marks_can_be_stepped_through(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        await select(pilot, "fx-after", "amax")
        await press(pilot, "3")
        code = graph_screen(app).views["code"]
        definition = code.cursor
        await press(pilot, "right_square_bracket")
        assert "cpp_fused__softmax_0" in code.content.text(code.cursor) and code.cursor > definition + 50
        await press(pilot, "left_square_bracket")
        assert code.cursor == definition


async def test_narrow_and_wide_show_one_or_two_halves(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        screen = graph_screen(app)

        def visible() -> list[str]:
            return [name for name, view in screen.views.items() if view.display]

        assert visible() == ["fx-after"]
        await press(pilot, "tab")
        assert visible() == ["fx-before"]
        await pilot.resize_terminal(*WIDE)
        await settle(pilot)
        assert visible() == ["fx-before", "fx-after"]
        await press(pilot, "2")
        assert visible() == ["ir-before", "ir-after"]
        await pilot.resize_terminal(*NARROW)
        await settle(pilot)
        assert visible() == ["ir-after"]


async def test_outline_and_text_of_the_ir_show_the_same_node(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        await select(pilot, "fx-after", "exp")
        await press(pilot, "2")
        after = graph_screen(app).views["ir-after"]
        assert after.ref == Ref("node", "op2")
        await press(pilot, "o")
        assert after.ref == Ref("node", "op2")
        assert after.content.text(after.cursor) == "op2: SchedulerNode(ComputedBuffer)"
        assert "fused into op1_op2_op3_op4" in text(app)


async def test_colours_arrive_after_the_text(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "3")
        await settle(pilot)
        code = graph_screen(app).views["code"]
        coloured = {row for row, spans in code._spans.items() if spans}  # type: ignore[attr-defined]
        top = round(code.scroll_offset.y)
        assert coloured & set(range(top, top + code.page))
        assert len(coloured) < code.content.count, "what nobody has seen is not coloured"


# -- search, copy, help, palette, keys


async def test_search_counts_steps_and_ends(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        await press(pilot, "3", "slash", "b", "u", "f", "4")
        assert "/buf4  1/3" in text(app)
        await press(pilot, "enter", "n")
        assert "/buf4  2/3" in text(app)
        code = graph_screen(app).views["code"]
        assert "cpp_fused__softmax_0(buf0, buf1, buf3, buf4)" in code.content.text(code.cursor)
        await press(pilot, "n", "n")
        assert "/buf4  1/3" in text(app)
        await press(pilot, "N")
        assert "/buf4  3/3" in text(app)
        await press(pilot, "escape")
        assert "/buf4" not in text(app)
        graph_screen(app)
        await press(pilot, "slash", "z", "z", "z")
        assert "no match" in text(app)
        row = code.cursor
        await press(pilot, "escape")
        assert code.cursor == row and code.has_focus


async def test_a_search_typed_at_once_is_not_taken_for_other_keys(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter")
        await settle(pilot)
        type_keys(app, ["3", "slash", *"buf4", "enter"])
        await settle(pilot)
        await press(pilot, "n")
        screen = graph_screen(app)
        assert screen.pane == "code" and "/buf4  2/3" in text(app)
        assert not screen.query("SearchBox")


async def test_copy_takes_the_line_or_the_selected_lines(
    softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[str] = []
    monkeypatch.setattr("inspector.tui.clipboard.copy_with_tool", handed.append)
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "y")
        assert app.clipboard.startswith("model__0_inference_0.0")
        await press(pilot, "enter")
        await settle(pilot)
        await press(pilot, "g", "v", "j", "y")
        assert app.clipboard.splitlines()[0] == "class <lambda>(torch.nn.Module):"
        assert len(app.clipboard.splitlines()) == 2
        assert handed[-1] == app.clipboard
        assert "copied 2 lines" in text(app)
        await press(pilot, "v", "escape")
        graph_screen(app)


async def test_help_lists_what_works_here_and_nothing_else(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        shown = text(app)
        assert "Replay the graph under the cursor" in shown and "Follow the selection" not in shown
        assert "Stop the replay" not in shown
        await press(pilot, "escape", "enter")
        await settle(pilot)
        await press(pilot, "question_mark")
        shown = text(app)
        assert "Follow the selection" in shown and "Replay" not in shown


async def test_palette_finds_kernels_graphs_and_themes(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "ctrl+p", *"model__0", "enter")
        await settle(pilot)
        screen = graph_screen(app)
        await press(pilot, "ctrl+p", *"extern_kern")
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert screen.pane == "kernels"
        assert screen.views["kernels"].ref == Ref("kernel", "extern_kernels.mm")
        await press(pilot, "ctrl+p", *"theme nord")
        await press(pilot, "down", "enter")
        await settle(pilot)
        assert app.theme == "nord"


@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
async def test_every_key_does_something_sensible(softmax: str, size: tuple[int, int]) -> None:
    """No key of the registry fails on any pane, and each leaves a screen that still answers."""
    app = GraphsApp(softmax)
    leaving = {"search", "find", "whole_line", "replay_graph", "replay_all", "open", "trace", "below"}
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        type_keys(
            app,
            [
                key
                for a in ACTIONS
                if a.scope in ("run", "move", "text") and a.name not in leaving
                for key in a.keys
            ],
        )
        await press(pilot, "g", "enter")
        await settle(pilot)
        for pane in "12345":
            here = [a for a in ACTIONS if a.scope in ("graph", "move", "text") and a.name not in leaving]
            type_keys(app, [pane, *(key for action in here for key in action.keys)])
            await settle(pilot)
        await settle(pilot)
        await press(pilot, "escape")
        screen = graph_screen(app)
        await press(pilot, "1", "g")
        assert screen.pane == "fx" and "FX after" in text(app)


def type_keys(app: InspectorApp, keys: list[str]) -> None:
    """Faster than anyone types: one key does not wait for what the one before it has started."""
    for key in keys:
        app.post_message(Key(key, key if len(key) == 1 else None))


async def test_going_back_and_quitting(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        assert "esc" not in lines(app)[-1]
        await press(pilot, "enter", "backspace")
        run_screen(app)
        await press(pilot, "escape")
        run_screen(app)
        await press(pilot, "q")
    assert not app.return_code and app._exception is None


async def test_mouse_sets_the_cursor_opens_and_scrolls(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = GraphsApp(str(corpus / "cpu-torch2.13" / "mlp"))
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await pilot.click("#graphs", offset=(5, 3))
        await settle(pilot)
        assert run_screen(app)._table.cursor == 1
        monkeypatch.setattr(InspectorApp, "CLICK_CHAIN_TIME_THRESHOLD", 60.0)
        await pilot.double_click("#graphs", offset=(5, 2))
        await settle(pilot)
        screen = graph_screen(app)
        await pilot.click("#fx-after", offset=(10, 8))
        assert screen.views["fx-after"].cursor == 7
        await pilot.mouse_down("#fx-after", offset=(10, 3))
        await pilot.hover("#fx-after", offset=(10, 5))
        await pilot.mouse_up("#fx-after", offset=(10, 5))
        await pilot.click("#tabs", offset=(15, 0))
        await settle(pilot)
        assert screen.pane == "code"


async def test_no_color_means_no_colour(softmax: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await settle(pilot)
        await press(pilot, "enter", "slash", *"mm", "enter")
        strips = app.screen._compositor.render_strips(app.size)
        colourless = app._filters[-1]
        drawn = [segment for strip in strips for segment in strip.apply_filter(colourless, Color(0, 0, 0))]
        colours = [c for s in drawn if s.style for c in (s.style.color, s.style.bgcolor) if c is not None]
        assert all(colour.is_default for colour in colours)
        assert any(segment.style and segment.style.reverse for segment in drawn), "matches still stand out"


# -- screens that are gone before they are there


def targets(screen: RunScreen) -> list[Target]:
    session = screen.session
    graph = session.run.graphs[0]
    document = message_document("a program", "x = 1")
    return [
        RunTarget(session.run.located),
        GraphsTarget(session),
        GraphTarget(session, graph, "kernels"),
        ExplainTarget(session),
        TraceTarget(session.run),
        DiffTarget(session.run.located, session.run.located),
        SourceTarget(document, "a program"),
        CaptureTarget(),
    ]


async def turns(count: int) -> None:
    """So many rounds of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_screen_may_go_at_any_moment(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        below = run_screen(app)
        for target in targets(below):
            for count in (0, 1, 2, 3, 5, 8, 16):
                app.push_screen(screen_for(target))
                await turns(count)
                app.pop_screen()
                await turns(count)
                # As a replay that goes on tells all that show its run.
                below.session.changed()
                below.session.say("going on")
            await settle(pilot)
            app.push_screen(screen_for(target))
            await settle(pilot)
            for count in (1, 2, 3, 5, 8):
                below.session.changed()
                if len(app.screen_stack) > 1:
                    app.pop_screen()
                await turns(count)
            await settle(pilot)
        # As by a key that is pressed three times.
        for _ in range(3):
            app.post_message(Open(targets(below)[1], instead=True))
        await settle(pilot)
        await press(pilot, "escape")
        assert run_screen(app) is below and "model__0" in text(app)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 8])
async def test_the_program_may_be_left_while_a_screen_opens(softmax: str, count: int) -> None:
    for number in range(3):
        app = GraphsApp(softmax)
        async with app.run_test(size=WIDE) as pilot:
            await settle(pilot)
            app.push_screen(screen_for(targets(run_screen(app))[number]))
            await turns(count)
            app.exit()
        assert not app.return_code and app._exception is None


# -- replay


def fake_replay(started: threading.Event, ended: threading.Event) -> Callable[..., None]:
    """Stands in for the real one, which runs torch: one graph that matches, then waits to be stopped."""

    def replay(
        run: Any, graphs: Any, tell: Callable[..., Any], should_stop: Callable[[], bool], call: Any = None
    ) -> None:
        tell("compiling", None)
        checks = (
            OutputCheck(0, "match", dtype="float32", shape=(100, 100), error_compiled=1e-7, error_eager=2e-7),
        )
        timing = Timing(0.0127, 0.0002, 30)
        result = GraphReplay(graphs[0].ident, timing, replace(timing, median_ms=0.0172), checks)
        tell("", result)
        started.set()
        wait_until(should_stop)
        ended.set()

    return replay


async def test_replay_asks_once_shows_its_result_and_can_be_stopped(
    softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(replays_module, "replay", fake_replay(started, ended))
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await press(pilot, "r")
        assert isinstance(app.screen, ConfirmScreen)
        assert "Replay runs this folder's code on this machine" in text(app)
        await press(pilot, "n")
        assert not started.is_set() and "not replayed" in text(app)
        await pilot.press("r", "y")
        await until(pilot, lambda: started.is_set() and "1.35x slower than op by op" in lines(app)[0])
        row = next(line for line in lines(app) if "12.7 → 17.2 us" in line and "1.35x slower" in line)
        assert "✓" in row
        assert lines(app)[0].endswith("1.35x slower than op by op")
        assert "x stop" in lines(app)[-1]
        assert "output 0: match  float32 [100, 100]" in text(app)
        await pilot.press("x")
        await settle(pilot)
        assert ended.is_set() and "replay stopped" in text(app)
        assert "x stop" not in lines(app)[-1]
        await pilot.press("r")
        assert isinstance(app.screen, RunScreen), "asked once for each run"
        await pilot.press("x")
        await settle(pilot)


# -- start


def test_the_first_paint_is_timed_and_can_end_the_program(softmax: str) -> None:
    assert run_tui(softmax, exit_after_paint=True, headless=True) == 0


# -- failures


def _fail(*_args: object, **_named: object) -> None:
    raise ZeroDivisionError("a widget broke")


async def test_a_failure_while_drawing_or_in_a_timer_is_said_once_and_the_rest_stays(
    softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = InspectorApp(softmax)
    heard: list[str] = []

    def heard_too(app: Any, error: Exception) -> None:
        heard.append(str(error))
        report(app, error)

    monkeypatch.setattr("inspector.tui.bounded.report", heard_too)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for cls, name in ((Headline, "render"), (KeyBar, "render"), (TableView, "draw_row")):
            monkeypatch.setattr(cls, name, _fail)
        app.screen.refresh(layout=True)
        for widget in app.screen.walk_children():
            widget.refresh()
        await settle(pilot)
        assert heard == ["a widget broke"], "once, however often it is drawn"
        assert "this cannot be drawn" in app.screen._compositor.render_strips(app.size)[0].text
        assert any("cannot be shown: ZeroDivisionError" in str(item.message) for item in app._notifications)

        app.failures.clear()
        timer = app.screen.set_interval(0.01, _fail)
        await until(pilot, lambda: len(heard) == 2)
        timer.stop()
        app.failures.clear()
        app.screen.call_after_refresh(_fail)
        await settle(pilot)
        assert len(heard) == 3

        await press(pilot, "question_mark")
        assert type(app.screen).__name__ == "HelpScreen", "keys still work"
    assert not app.return_code and app._exception is None


async def test_long_lines_go_on_below_and_keys_go_by_whole_lines(softmax: str) -> None:
    long = "".join(f"{number:04d} " for number in range(60))
    lines = ("first", long, "", "漢字" * 60, *(f"line {number}" for number in range(5, 40)))
    app = GraphsApp(softmax)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        app.push_screen(screen_for(SourceTarget(Document("a text", lines, first_number=1), "a program")))
        await settle(pilot)
        view = app.screen.query_one(CodeView)

        def shown() -> list[str]:
            return [view.render_line(y).text.rstrip() for y in range(1, view.page + 1)]

        view.move_to(0)
        assert shown()[1].endswith("…") and "0059" not in "".join(shown())
        await pilot.press("W")
        await settle(pilot)
        rows = shown()
        words = "".join(row[view.gutter_width :] for row in rows[1 : view.line_of(2)])
        assert words.replace(" ", "") == long.replace(" ", "")
        assert max(map(cell_len, rows)) <= view.inner_width
        numbers = [row[1 : view.gutter_width].strip() for row in rows]
        assert [number for number in numbers if number] == ["1", "2", "3", "4", *numbers[view.line_of(4) :]]
        assert "".join(rows[line] for line in range(view.line_of(3), view.line_of(4))).count("漢") == 60
        assert numbers[view.line_of(4)] == "5", "the numbers are those of the file"
        await pilot.press("j", "j", "j", "j")
        assert view.cursor == 4, "a step is a line of the file, however many it takes on screen"
        await pilot.click(CodeView, offset=(20, 1 + view.line_of(1) + 2))
        assert view.cursor == 1
        await pilot.press("slash", *"0058", "enter")
        await settle(pilot)
        assert view.cursor == 1 and view.scroll_offset.x == 0
        await pilot.press("G")
        assert view.row_on(round(view.scroll_offset.y) + view.page - 1)[0] == len(lines) - 1
        await pilot.press("escape", "W")
        await settle(pilot)
        assert view.line_of(10) == 10 and any(row.endswith("line 39") for row in shown())


async def test_the_palette_in_a_terminal_of_a_few_cells_and_closed_at_once(
    softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No width to wrap its options to, no row to turn pages of, no list any more when it has gathered."""
    failed: list[Exception] = []
    monkeypatch.setattr(bounded, "report", lambda _app, error: failed.append(error))
    async with InspectorApp(softmax).run_test(size=(6, 26)) as pilot:
        await settle(pilot)
        for width, height in ((6, 26), (55, 4), (1, 1), (90, 30)):
            await pilot.resize_terminal(width, height)
            for key in ("ctrl+t", "ctrl+p"):
                await press(pilot, key, "pagedown", "pageup", "escape")
                await pilot.press(key)
                await pilot.press("e")
                await press(pilot, "escape")
    assert failed == []


async def test_what_was_left_is_freed(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Screens of a run that is open, and with its last screen the run: all of it was told to stay (`keep`),
    and Textual holds what listens to it. One may still be held by the message that is handled last."""
    monkeypatch.setattr(bounded, "_LEFT_S", 0.01)
    monkeypatch.setattr(bounded, "_MOST_LEFT", 1)
    for name in ("one", "two"):
        shutil.copytree(corpus / "cpu-torch2.13" / "softmax", tmp_path / name)
    # What other tests of this process keep is theirs.
    kinds = (Run, FirstScreen, ExplainScreen, GraphScreen)
    before = {kind: _alive(kind) for kind in kinds}
    async with InspectorApp(str(tmp_path)).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for _ in range(4):
            await press(
                pilot, "enter", "e", "escape", "e", "escape", "tab", "enter", "escape", "escape", "escape"
            )
        assert isinstance(pilot.app.screen, RunsScreen)
        await until(pilot, lambda: all(_alive(kind) <= before[kind] + 1 for kind in kinds))


def _alive(kind: type) -> int:
    """Objects of that type, those too that the collector was told to leave alone."""
    gc.unfreeze()
    return sum(type(item) is kind for item in gc.get_objects())
