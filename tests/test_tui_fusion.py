"""The fusion pane, driven by keys on captured runs."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from tui_support import GraphsApp, lines, press, settle, text

from inspector.model.links import Ref
from inspector.present.rows import KernelRow, MissRow, NodeRow
from inspector.tui.screens.graph import GraphScreen

NARROW = (80, 24)
WIDE = (160, 50)
SAMPLES = Path(__file__).parent.parent / "sample_runs"


@pytest.fixture
def softmax(corpus: Path) -> str:
    return str(corpus / "cpu-torch2.13" / "softmax")


@pytest.fixture
def transformer() -> str:
    """A training step with the recorder's record; its second graph is the backward."""
    return str(SAMPLES / "transformer" / "run.tar.xz")


def screen(pilot: Pilot[Any]) -> GraphScreen:
    found = pilot.app.screen
    assert isinstance(found, GraphScreen)
    return found


def cursor_key(pilot: Pilot[Any], view: str = "lanes") -> str:
    widget = screen(pilot).views[view]
    return name_of(widget.content.rows[widget.cursor].key)


def name_of(key: object) -> str:
    """The node of a row, or `miss`."""
    return key.name if isinstance(key, NodeRow) else "miss" if isinstance(key, MissRow) else str(key)


def marked(pilot: Pilot[Any], view: str = "lanes") -> set[str]:
    widget = screen(pilot).views[view]
    rows = [row for first, last in widget.marks for row in range(first, last + 1)]
    return {name_of(widget.content.rows[row].key) for row in rows}


async def put(pilot: Pilot[Any], view: str, key: Hashable) -> None:
    """The cursor of a table on the row of that key, as keys would put it."""
    widget = screen(pilot).views[view]
    screen(pilot).focus_view(widget)
    widget.cursor = -1
    widget.move_to(widget.content.by_key[key])
    await settle(pilot)


async def open_graph(pilot: Pilot[Any], *keys: str) -> None:
    await settle(pilot)
    for key in keys:
        await press(pilot, key)
    await settle(pilot)


# -- lanes


async def test_lanes_show_walls_groups_savings_and_misses(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "f")
        shown = lines(app)
        assert "5 nodes in 2 groups · 362 KB → 201 KB, at least 120 KB" in shown[1]
        rows = [line for line in shown if line[1:4] in ("op0", "op1", "op2", "op3", "op4")]
        assert [next(sign for sign in "█┐│┘" if sign in row) for row in rows[:5]] == list("█┐││┘")
        assert "extern mm" in rows[0] and "161 KB" in rows[1] and "softmax.py:4" in rows[1]
        miss = shown[shown.index(rows[0]) + 1]
        assert "✗ op1…op4 (4)  80.0 KB  extern kernel in the way" in miss
        assert max(map(len, shown)) <= 80


async def test_f_leads_from_the_run_to_a_graphs_fusion(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "f")
        assert screen(pilot).pane == "fusion"
        shown = lines(app)
        assert "▸op0" in text(app) and "extern_kernels.mm" in shown[-2], "its first node is the selection"


async def test_lanes_of_buffers_are_drawn_where_there_is_room(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=(200, 50)) as pilot:
        await open_graph(pilot, "j", "enter", "f")
        row = next(line for line in lines(app) if line[1:5] == "op11")
        assert "├╰╰●" in row, "reads three buffers, two of them for the last time, and makes one"


async def test_enter_on_a_miss_leads_to_the_partner_and_p_leads_back(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "f", "g", "j")
        assert cursor_key(pilot).startswith("miss")
        await press(pilot, "enter")
        assert cursor_key(pilot) == "op1"
        assert marked(pilot) == {"op0", "op1", "op2", "op3", "op4"}, "both groups of the pair"
        await press(pilot, "p")
        assert cursor_key(pilot) == "op0"
        await press(pilot, "p")
        assert cursor_key(pilot) == "op1"


# -- why


async def test_from_a_slow_kernel_to_the_reason_of_its_neighbour_in_three_keys(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "4")
        await put(pilot, "kernels", KernelRow("cpp_fused__softmax_0"))
        for key in ("f", "p"):
            await press(pilot, key)
            shown = text(app)
            assert "extern kernel in the way" in shown
            assert "op0 is extern_kernels.mm, which runs as it is" in shown
            assert "try: mode='max-autotune' (max_autotune_gemm), whose templates" in shown
        assert cursor_key(pilot) == "op0", "the neighbour itself, with one key more"


async def test_from_the_code_to_the_reason_with_one_key(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "3")
        code = screen(pilot).views["code"]
        row = next(i for i, line in enumerate(code.content.lines) if "extern_kernels.mm(" in line)
        code.move_to(row)
        await settle(pilot)
        await press(pilot, "f")
        assert cursor_key(pilot) == "op0"
        assert "Why · op0" in text(app)


async def test_why_tells_partners_rounds_bytes_and_who_said_so(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=WIDE) as pilot:
        await open_graph(pilot, "j", "enter", "f")
        await put(pilot, "lanes", NodeRow("op8"))
        why = "\n".join(line.text for line in screen(pilot).views["why"].content.lines)
        assert "✓ outer loop of 3 nodes" in why and "saved 134 KB" in why
        assert "round 1: with" in why
        assert "op9…op28 (4)  99.3 KB  loop ranges differ  refused" in why
        assert 'torch: "no shared data"' in why
        assert "gone by fusion" not in why and "only this kernel reads it" in why
        assert "decisions: as the recorder saw them" in why
        assert why.count("try: Compute both over one shape") == 1, "the same advice is not given twice"


async def test_text_is_written_again_for_another_width(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "j", "enter", "f")
        narrow = screen(pilot).views["why"].content
        assert 60 < narrow.width <= 77
        await pilot.resize_terminal(160, 50)
        await settle(pilot)
        wide = screen(pilot).views["why"].content
        assert wide.title == narrow.title and wide.width <= 63


async def test_reading_on_in_the_reasons_selects_nothing_and_enter_goes_there(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "j", "enter", "f")
        await put(pilot, "lanes", NodeRow("op2"))
        before = screen(pilot).views["why"].content
        await press(pilot, "tab", "j", "j")
        assert screen(pilot).views["why"].content is before
        await press(pilot, "enter")
        assert cursor_key(pilot) == "op0", "the partner that the line tells of"


# -- the selection


async def test_a_node_moves_the_other_panes_and_they_move_it(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "f")
        await put(pilot, "lanes", NodeRow("op3"))
        await press(pilot, "1")
        fx = screen(pilot).views["fx-after"]
        assert fx.content.ref_at(fx.cursor) == Ref("fx_after", "sum_1")
        (row, _) = fx.content.refs.rows_of([Ref("fx_after", "mm")])[0]
        fx.move_to(row)
        await settle(pilot)
        await press(pilot, "6")
        assert cursor_key(pilot) == "op0"
        await press(pilot, "enter")
        assert screen(pilot).pane == "code", "enter follows the selection"


# -- misses


async def test_missed_fusions_are_worst_first_and_enter_goes_to_both(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "j", "enter", "f", "m", "g")
        table = screen(pilot).views["missed"].content
        sizes = [row.cells[1].text for row in table.rows]
        assert sizes[:3] == ["262 KB", "131 KB", "131 KB"]
        shown = text(app)
        assert "Missed fusions · 26, worst first, 12 tiny or" in shown
        assert "Why · missed fusion 1 of 26" in shown
        await press(pilot, "j", "j", "enter")
        first, second = (table.rows[2].cells[index].text for index in (2, 3))
        assert (cursor_key(pilot), marked(pilot)) == (first, {first, second})
        why = [line.text for line in screen(pilot).views["why"].content.lines]
        assert next(line for line in why if line.startswith("✗")).startswith(f"✗ {second}  131 KB")
        for name in (second, first):
            await press(pilot, "p")
            assert cursor_key(pilot) == name, "back and forth along the chosen one, which is not the worst"


async def test_neighbours_are_those_of_the_miss_under_the_cursor(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "j", "enter", "f", "m", "G")
        name = screen(pilot).views["missed"].content.rows[-1].cells[2].text
        await press(pilot, "b")
        assert f"Around {name}" in text(app)


# -- neighbours


async def test_boxes_show_neighbours_and_enter_goes_to_one(transformer: str) -> None:
    app = GraphsApp(transformer)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "j", "enter", "f")
        await put(pilot, "lanes", NodeRow("op8"))
        await press(pilot, "b")
        content = screen(pilot).views["boxes"].content
        drawn = [line.text for line in content.lines]
        own = next(i for i, line in enumerate(drawn) if line.startswith("║ op8"))
        assert any("op4" in line and "╌╌ buf4 32.8 KB ✗" in line for line in drawn[:own])
        assert any("op11" in line and "◀━━ buf8 512 B fused" in line for line in drawn[own:])
        assert max(map(len, drawn)) <= 77
        screen(pilot).views["boxes"].move_to(next(i for i, line in enumerate(drawn) if "│ op11" in line))
        await press(pilot, "enter")
        assert cursor_key(pilot) == "op11"
        assert screen(pilot).views["boxes"].content.title.startswith("Around op11")
        await press(pilot, "b")
        assert screen(pilot).views["lanes"].display, "the same key leads back"


# -- before | after


async def test_what_merged_is_seen_as_merging(softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await open_graph(pilot, "enter", "f", "a")
        shown = lines(app)
        first = next(i for i, line in enumerate(shown) if " op1: SchedulerNode" in line)
        assert "─┬─  op1_op2_op3_op4: OuterLoopFusedSchedulerNode" in shown[first]
        assert any(line.rstrip().endswith("─┘") or "─┘ " in line for line in shown[first:])
        assert any("gone   buf2 40.0 KB" in line for line in shown)
        assert "5 entries become 2" in shown[1]


# -- rounds


async def test_rounds_show_fusion_as_it_happened(transformer: str, softmax: str) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "f")
        await put(pilot, "lanes", NodeRow("op4"))
        titles, brackets = [], []
        for _ in range(5):
            view = screen(pilot).views["lanes"].content
            titles.append(view.title)
            brackets.append("".join(row.cells[1].text for row in view.rows if not row.wide))
            await press(pilot, "less_than_sign")
        assert brackets == ["█┐││┘", "█┐││┘", "█┐││┘", "█·┐┘·", "█····"]
        assert titles[3].startswith("Fusion · after round 1 of 4 · 4 entries · 1 pair fused")
        assert titles[4].startswith("Fusion · before round 1 of 4 · 5 entries")
        assert "this is where it began" in lines(app)[-2]
        assert cursor_key(pilot) == "op4"
        await press(pilot, "greater_than_sign")
        assert "round 1 fused op2 + op3" in lines(app)[-2]


async def test_where_nothing_tells_of_rounds_the_pane_says_so(softmax: str) -> None:
    bare = next(Path(softmax).glob("torch_compile_debug/run_*/torchinductor/model__*"))
    app = GraphsApp(str(bare))
    async with app.run_test(size=(120, 24)) as pilot:
        await open_graph(pilot, "enter", "f", "less_than_sign")
        assert "there is no record and no fusion log of this graph" in lines(app)[-2]
        assert "no decisions were recorded" in "\n".join(
            line.text for line in screen(pilot).views["why"].content.lines
        )


async def test_without_a_schedule_the_pane_says_what_is_missing(softmax: str) -> None:
    app = GraphsApp(str(Path(softmax) / "trace"))
    async with app.run_test(size=NARROW) as pilot:
        await open_graph(pilot, "enter", "f")
        assert "neither ir_pre_fusion.txt nor ir_post_fusion.txt is here" in text(app)
        for key in ("m", "b", "p", "less_than_sign", "w", "enter"):
            await press(pilot, key)
        assert isinstance(app.screen, GraphScreen)


# -- export


async def test_w_writes_both_drawings_and_never_over_a_file(
    softmax: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await open_graph(pilot, "enter", "f")
        monkeypatch.chdir(tmp_path)
        await press(pilot, "w")
        assert "wrote model__0_inference_0.0-fusion.svg and model__0_inference_0.0-fusion.dot" in text(app)
        await press(pilot, "w")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model__0_inference_0.0-fusion-2.dot",
        "model__0_inference_0.0-fusion-2.svg",
        "model__0_inference_0.0-fusion.dot",
        "model__0_inference_0.0-fusion.svg",
    ]
    assert (tmp_path / "model__0_inference_0.0-fusion.svg").read_text().startswith("<svg")
    assert (tmp_path / "model__0_inference_0.0-fusion.dot").read_text().startswith("digraph")


async def test_a_folder_that_takes_no_file_is_one_line(
    softmax: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await open_graph(pilot, "enter", "f")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(os, "replace", refuse)
        await press(pilot, "w")
        assert "cannot be written: Permission denied" in text(app)
    assert list(tmp_path.iterdir()) == []
