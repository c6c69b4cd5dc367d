"""The view models: plain functions from hand-built or parsed models to rows and lines."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from build import node
from textual.binding import ActiveBinding, Binding

from inspector.model.code import Kernel, KernelCall, OutputCode
from inspector.model.fx import FxGraph, FxNode
from inspector.model.links import Ref, Related
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.problem import Problem
from inspector.model.replay import GraphReplay, OutputCheck, Timing
from inspector.model.run import PROVENANCE_FILE, Manifest, RunFacts
from inspector.model.schedule import Schedule
from inspector.model.source import LineSpan, SourceLocation
from inspector.model.two_sides import GraphWork
from inspector.present import code as code_views
from inspector.present import detail, highlight
from inspector.present import fx as fx_views
from inspector.present import identity as identity_views
from inspector.present import ir as ir_views
from inspector.present import run as run_views
from inspector.present.chain import Chain, fit_parts
from inspector.present.content import RefIndex, contains, merge
from inspector.present.documents import CHUNK, Document, Language, Region, message_document, split_lines
from inspector.present.replay import graph_mark
from inspector.present.rows import EventRow, GraphRow
from inspector.present.spans import Span
from inspector.present.tables import Column, Row, Table, fit, replace_rows
from inspector.readers.run import Run
from inspector.text import clean, few
from inspector.tui import actions, clipboard, layout
from inspector.tui.app import InspectorApp
from inspector.tui.help import help_columns, help_lines
from inspector.tui.screens.base import InspectorScreen
from inspector.tui.screens.below import BelowScreen
from inspector.tui.screens.capture_form import CaptureFormScreen
from inspector.tui.screens.diff import DiffScreen
from inspector.tui.screens.doctor import DoctorScreen
from inspector.tui.screens.explain import ExplainScreen
from inspector.tui.screens.find import FindScreen
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.help import HelpScreen
from inspector.tui.screens.index import IndexScreen
from inspector.tui.screens.line import LineScreen
from inspector.tui.screens.live import LiveScreen
from inspector.tui.screens.run import RunScreen
from inspector.tui.screens.runs import RunsScreen
from inspector.tui.screens.trace import TraceScreen
from inspector.tui.search import LIMIT, Searcher, Typed, find_in, typed_ahead
from inspector.tui.widgets.form import ChoiceLine, CommandInput
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.search_box import SearchBox
from inspector.views import panes


def facts(**changes: object) -> RunFacts:
    values: dict[str, object] = {
        "root": "run",
        "kind": "capture",
        "torch_version": "2.13.0+cpu",
        "devices": ("cpu",),
        "ranks": 1,
        "graph_breaks": (),
        "recompiles": (),
    }
    return RunFacts(**{**values, **changes})  # type: ignore[arg-type]


# -- rows and what they stand for


def test_the_innermost_span_answers_for_a_row() -> None:
    a, b, c = Ref("node", "a_b"), Ref("node", "a"), Ref("node", "b")
    index = RefIndex([(0, 9, a), (2, 4, b), (5, 8, c)])
    assert [index.at(row) for row in (0, 2, 4, 5, 8, 9, 10)] == [a, b, b, c, c, a, None]
    assert index.rows_of([b, c]) == ((2, 8),)
    assert RefIndex().at(0) is None


def test_rows_are_merged_and_found() -> None:
    rows = merge([(5, 6), (1, 2), (3, 3), (9, 9)])
    assert rows == ((1, 3), (5, 6), (9, 9))
    assert [row for row in range(11) if contains(rows, row)] == [1, 2, 3, 5, 6, 9]


def test_what_a_terminal_would_obey_is_replaced() -> None:
    assert clean("a\x1b[31mb\x9b2J\u202ec\td") == r"a\x1b[31mb\x9b2J\u202ec    d"
    assert split_lines("a\r\nb\x0cc\n\n") == ("a", r"b\x0cc", "")
    assert clean("größe → ⤷") == "größe → ⤷"


def test_chunks_stay_inside_their_region() -> None:
    document = Document("x", ("",) * 500, (Region(0, 9, "python"), Region(10, 300, "cpp")))
    assert document.chunk_of(3) == Region(0, 9, "python")
    assert document.chunk_of(10 + CHUNK) == Region(10 + CHUNK, 10 + 2 * CHUNK - 1, "cpp")
    assert document.chunk_of(300) == Region(10 + 290 // CHUNK * CHUNK, 300, "cpp")
    assert document.chunk_of(301) is None


def test_messages_are_wrapped_with_their_indent() -> None:
    document = message_document("title", "short\n\n    " + "word " * 40)
    assert document.lines[:2] == ("short", "")
    assert all(len(line) <= 76 for line in document.lines)
    assert all(line.startswith("    ") for line in document.lines[2:])


# -- colours


def test_each_language_has_its_colours() -> None:
    python = highlight.highlight(["def f(x):  # note", '    return "a", 12'], "python")
    assert (0, 3, "keyword") in python[0] and (4, 5, "function") in python[0]
    assert (11, 17, "comment") in python[0] and (16, 18, "number") in python[1]
    cpp = highlight.highlight(["float x = 1.0f; // note"], "cpp")
    assert (0, 5, "name") in cpp[0] and (16, 23, "comment") in cpp[0]
    ir = highlight.highlight(
        ["op1_op2: FusedSchedulerNode(SchedulerNode)", "op1.writes = [MemoryDep('buf1')]"], "ir"
    )
    assert ir[0][0] == (0, 7, "function") and (9, 27, "name") in ir[0]
    assert ir[1][0] == (0, 10, "comment") and (24, 30, "string") in ir[1]
    assert highlight.highlight(["x"], "plain") == [[]]
    stages: list[tuple[Language, str, dict[str, str]]] = [
        ("mlir", "  %a = tt.load %p : tensor<4x!tt.ptr<f32>, #blocked>",
         {"tt.load": "function", "%p": "operator"}),
        ("llvm", "  %3 = fmul float %2, 0x3FE6A09E60000000", {"fmul": "keyword", "float": "name"}),
        ("ptx", "    mov.u32     %r10, %ctaid.x;", {"mov": "keyword", ".u32": "name"}),
        ("sass", "        /*0010*/      @!P0 LDG.E R8, [R2.64+0x10] ;",
         {"/*0010*/": "comment", "@!P0": "keyword", "LDG.E": "function", "R8": "name", "0x10": "number"}),
        ("gas", "    13b4:   vsubps (%rax),%zmm6,%zmm0", {"vsubps": "function"}),
    ]  # fmt: skip
    for language, line, expected in stages:
        (found,) = highlight.highlight([line], language)
        roles = {line[begin:end].strip(): role for begin, end, role in found}
        assert expected.items() <= roles.items(), (language, roles)


def test_a_string_over_several_lines_keeps_its_places() -> None:
    spans = highlight.highlight(["x = '''a", "bc", "''' + 1"], "python")
    assert spans[1] == [(0, 2, "string")]
    assert (6, 7, "number") in spans[2]


# -- search


def test_search_finds_all_and_minds_capitals() -> None:
    document = Document("x", ("buf1 Buf2", "none", "BUF1 buf1"))
    search = Searcher(document)
    assert [(m.row, m.start) for m in search.search("buf1").places] == [(0, 0), (2, 0), (2, 5)]
    assert [(m.row, m.start) for m in search.search("Buf").places] == [(0, 5)]
    assert search.search("").places == ()
    found = search.search("buf1")
    assert [found.nearest(row) for row in (0, 1, 2, 3)] == [0, 1, 1, 0]
    assert found.label(2) == "3/3" and search.search("zzz").label(-1) == "no match"


def test_search_stops_counting_at_its_limit() -> None:
    matches = Searcher(Document("x", ("a" * 100,) * (LIMIT // 100 + 1))).search("a")
    assert len(matches.places) == LIMIT and matches.label(0).endswith("+")


def test_letters_that_grow_in_lower_case_do_not_shift_places() -> None:
    assert find_in("İİ buf", "buf") == [(3, 6)]


def test_keys_typed_before_the_box_is_there_are_understood() -> None:
    keys = [
        ("a", "a"),
        ("B", "B"),
        ("backspace", "\x7f"),
        ("left", None),
        ("space", " "),
        ("enter", "\r"),
        ("n", "n"),
    ]
    assert typed_ahead(keys) == Typed("a ", "enter")
    assert typed_ahead(keys[:3]) == Typed("a")


# -- tables


def table(*rows: tuple[str, ...], columns: tuple[Column, ...]) -> Table:
    return Table("t", columns, tuple(Row(row[0], tuple(Span(text) for text in row)) for row in rows))


def test_columns_shrink_then_leave_by_rank() -> None:
    columns = (
        Column("name", shrinks=True, least=12),
        Column("kind", rank=1),
        Column("n", right=True, rank=2),
    )
    wide = table(("a" * 40, "pointwise", "1"), columns=columns)
    assert fit(wide, 100).widths == (40, 9, 1)
    assert fit(wide, 40).widths == (26, 9, 1)
    assert fit(wide, 24).widths == (13, 9, 0)
    assert fit(wide, 12).widths == (12, 0, 0)
    line = fit(wide, 40).line([Span("a" * 30 + "_0", "accent"), Span("extern"), Span("7")])
    assert line.width == 40 and "…" in line.text and line.text.endswith("_0  extern     7")
    assert [len(span.text) for span in line.spans] == [26, 2, 9, 2, 1] and line.spans[0].tone == "accent"


def test_an_optional_column_needs_something_in_it() -> None:
    columns = (Column("name"), Column("torch", optional=True))
    assert fit(table(("a", ""), columns=columns), 80).widths == (4, 0)
    assert fit(table(("a", "2.13"), columns=columns), 80).widths == (4, 5)


def test_rows_are_replaced_by_key() -> None:
    columns = (Column("name"),)
    changed = replace_rows(
        table(("a",), ("b",), columns=columns), [Row("b", (Span("new"),)), Row("c", (Span("x"),))]
    )
    assert [row.cells[0].text for row in changed.rows] == ["a", "new"]


# -- the run


def test_identity_says_what_is_known() -> None:
    assert identity_views.run_name("runs/softmax/") == "softmax"
    assert identity_views.identity("softmax", 1, None) == "softmax · 1 graph"
    events = facts(devices=("NVIDIA H200",), ranks=2, graph_breaks=(graph_break("0/0", 1),))
    assert identity_views.identity("softmax", 3, events) == (
        "softmax · torch 2.13.0+cpu · NVIDIA H200 · 3 graphs · 2 ranks · 1 graph break"
    )


def timed(name: str, eager: float, compiled: float, *verdicts: str) -> GraphReplay:
    checks = tuple(OutputCheck(i, verdict) for i, verdict in enumerate(verdicts))  # type: ignore[arg-type]
    return GraphReplay(name, Timing(eager, 0.1, 30), Timing(compiled, 0.1, 30), checks)


def test_the_verdict_is_the_ratio_of_the_sums() -> None:
    replays = {"a": timed("a", 10.0, 5.0), "b": timed("b", 1.0, 6.0)}
    assert run_views.verdict(None, replays, 2) == Span("as fast as op by op")
    assert run_views.verdict(None, {"b": replays["b"]}, 2) == Span(
        "6.00x slower than op by op (1 of 2 graphs)", "warn"
    )
    failed = Manifest(("python", "x.py"), "failed", 1, 0.0, 1.0)
    assert run_views.verdict(facts(manifest=failed), {}, 1).text == "the command failed with exit code 1"
    assert run_views.verdict(None, {"a": GraphReplay("a", failure="crashed")}, 1).text == ""


def test_nothing_is_made_of_op_by_op_where_eager_itself_was_timed() -> None:
    replays, entries = {"b": timed("b", 1.0, 6.0)}, [run_views.GraphEntry("b", "forward", "0/0")]
    for code, said in ((0, False), (1, True)):
        ran = Manifest(
            ("python", "x.py"), "done", 0, 0.0, 1.0, baseline={"eager": {"exit_code": code, "seconds": 1.0}}
        )
        run = facts(manifest=ran)
        table = run_views.run_table(entries, {}, replays, run)
        told = " ".join(cell.text for row in table.rows for cell in row.cells)
        assert ("slower" in told) is said
        assert ("slower than op by op" in run_views.verdict(run, replays, 1).text) is said


@pytest.mark.parametrize(
    ("verdicts", "mark"),
    [
        (["match", "match"], "✓"),
        (["match", "mismatch"], "✗"),
        (["match", "unverifiable"], "?"),
        (["eager_closer", "match"], "≈ op by op closer"),
        (["compiled_closer"], "≈ compiled closer"),
        ([], "?"),
    ],
)
def test_the_worst_output_decides_the_mark(verdicts: list[str], mark: str) -> None:
    assert graph_mark(timed("a", 1, 1, *verdicts)).text == mark


def graph_break(compile_id: str | None, line: int) -> GraphBreak:
    return GraphBreak(
        SourceLocation("/home/u/workload.py", 8), "Data-dependent\nbranch", (), compile_id, False, line, ""
    )


def recompile(compile_id: str, line: int) -> Recompile:
    return Recompile("f", SourceLocation("/home/u/workload.py", 3), ("size mismatch",), compile_id, line)


def test_events_stand_where_they_happened() -> None:
    entries = [
        run_views.GraphEntry(name, "forward", compile_id)
        for name, compile_id in (("g0", "0/0"), ("g0b", "0/0"), ("g1", "1/0"), ("g2", "0/1"))
    ]
    events = facts(
        graph_breaks=(graph_break("0/0", 10), graph_break("9/9", 30)), recompiles=(recompile("0/1", 20),)
    )
    rows = [row.key for row in run_views.run_table(entries, {}, {}, events).rows]
    assert rows == [
        *(GraphRow("g0"), GraphRow("g0b"), EventRow(0), GraphRow("g1")),
        *(EventRow(1), GraphRow("g2")),
    ]
    # The second break says the same as the first, of another compilation: one row has both.
    texts = [cell.text for cell in run_views.run_table(entries, {}, {}, events).rows[2].cells]
    assert texts[-1] == "(2 times)"
    assert texts[:3] == ["  ⤷ graph break", "workload.py:8", "Data-dependent"]


def test_a_break_in_a_library_is_at_the_users_line_first() -> None:
    theirs = SourceLocation("/usr/lib/python3.11/site-packages/transformers/generic.py", 937)
    frames = (SourceLocation("/home/u/train.py", 3), theirs)
    event = GraphBreak(theirs, "why", frames, None, False, 1, "")
    assert [span.text for span in run_views.event_spans(event)] == [
        "graph break", "train.py:3", "why", "(in generic.py:937, 2 frames)",
    ]  # fmt: skip


def test_a_graph_row_says_what_was_not_read() -> None:
    entry = run_views.GraphEntry("g", "forward", "0/0")

    def texts(
        counts: run_views.Counts | None, replay: GraphReplay | None = None, work: GraphWork | None = None
    ) -> list[str]:
        return [cell.text for cell in run_views.graph_row(entry, counts, replay, work).cells][4:]

    assert texts(None) == ["…", "…", "·", "·", "·", "", "", "", "·"]
    assert texts(run_views.Counts(6, 5, 2)) == ["6", "5 → 2", "·", "·", "·", "", "", "", "·"]
    kinds = {"triton": 3, "cpp": 0, "template": 0, "extern": 2, "fallback": 0, "user": 0}
    full = texts(run_views.Counts(6, 5, None, kinds, 4), timed("g", 0.0127, 0.0172, "match"))
    assert full == ["6", "5 → ?", "3 triton + 2 extern", "4", "12.7 → 17.2 us", "1.35x slower", "", "", "✓"]
    assert texts(run_views.Counts(error="ValueError"))[2] == "unreadable"
    work, replay = GraphWork(1.49, 5.48), timed("g", 0.0127, 0.0172, "match")
    assert texts(None, None, work)[4:6] == ["eager 1.49 → 5.48 ms", ""]
    assert texts(None, None, GraphWork(None, 0.5))[4] == "eager ? → 500 us"
    # What a replay measured comes first and is not called eager.
    assert texts(None, replay, work)[4:6] == ["12.7 → 17.2 us", "1.35x slower"]
    assert texts(None, replace(replay, eager=None), work)[4] == "eager 1.49 → 5.48 ms"
    for replays, known, title in ((0, 0, "op by op"), (0, 1, "eager"), (1, 1, "op by op")):
        table = run_views.run_table(
            [entry], {}, {"g": replay} if replays else {}, None, work={"g": work} if known else None
        )
        assert f"{title} → compiled" in [column.title for column in table.columns]


def test_what_is_missing_comes_with_reason_and_remedy() -> None:
    lines = detail.graph_detail(
        "g", "capture", ("fx_graph_readable.py",), ("output_code.py", PROVENANCE_FILE), [], None
    )
    assert "output_code.py: compilation stopped" in lines[1].text and lines[1].spans[0].tone == "warn"
    assert "links rest on comments" in lines[2].text
    assert "had nothing to compute" in detail.graph_detail("g", "capture", (), (), [], None)[1].text
    assert "TORCH_TRACE log" in detail.why_missing("ir_pre_fusion.txt", (), "trace")
    many = [Problem("torch_logs.txt", line, "odd") for line in range(80)]
    assert detail.run_detail(facts(problems=tuple(many)))[-1].text.startswith("and 30 more")


def test_an_empty_run_is_told_in_sentences() -> None:
    assert detail.why_empty(facts(cache_events={"fx_graph_cache_hit": 1})) == (
        "No files of compiled graphs: 1 graph came from the cache.\n"
        "Capture again with fresh caches (inspector capture does so by default), or open the trace."
    )
    assert "Looking for the reason" in detail.why_empty(None)


# -- the graph


def test_fx_lines_stand_for_nodes_and_comments_for_source_lines() -> None:
    source = SourceLocation("/u/m.py", 4)
    text = "class G:\n  def forward(self, x):\n    # File: /u/m.py:4 in f\n    a = op(x)\n    b = op(a)\n"

    def fx_node(name: str, line: int) -> FxNode:
        return FxNode(name, "call", "op", (), (), (), None, None, source, line, "")

    graph = FxGraph("fx", (fx_node("a", 4), fx_node("b", 5)), ("b",), text)
    document = fx_views.fx_document(graph, "fx_after")
    assert document.title == "FX after post-grad passes · 2 nodes" and document.start == 3
    assert document.ref_at(2) == Ref("source", "/u/m.py:4")
    assert document.ref_at(3) == Ref("fx_after", "a") and document.ref_at(1) is None
    assert document.rows_of(Related(fx_after=frozenset({"b"}), sources=frozenset({"/u/m.py:4"}))) == ((4, 4),)
    assert document.rows_of(Related(sources=frozenset({"/u/m.py:4"}))) == ((2, 2),)


def schedules() -> tuple[Schedule, Schedule]:
    leaves = [node(name, writes=name.replace("op", "buf")) for name in ("op0", "op1", "op2")]
    group = node("op0_op2", members=(leaves[0], leaves[2]))
    new = node("op9", kernel="extern_kernels.mm")
    gone = node("op5")
    return (
        Schedule("pre", "pre", (*leaves, gone), "".join(f"{leaf.name}\n" for leaf in leaves)),
        Schedule("post", "post", (leaves[1], group, new), "x\n"),
    )


def test_both_sides_of_the_outline_are_aligned() -> None:
    before, after = ir_views.ir_outlines(*schedules())
    assert before is not None and after is not None
    assert before.count == after.count == 5
    assert [line.split()[0] if line else "" for line in before.lines] == ["1", "0", "2", "", "3"]
    assert [line[:1] for line in after.lines] == [" ", "┌", "└", " ", ""]
    assert "← 2 in one: op0_op2" in after.lines[1] and after.lines[3].endswith("new")
    assert before.lines[4].endswith("gone after fusion")
    for name, row in (("op1", 0), ("op2", 2)):
        related = Related(leaves=frozenset({name}))
        assert before.rows_of(related) == after.rows_of(related) == ((row, row),)
    assert before.rows_of(Related(entries=frozenset({"op0_op2"}))) == ((1, 2),)


def test_one_side_alone_still_has_an_outline() -> None:
    pre, post = schedules()
    assert ir_views.ir_outlines(pre, None)[1] is None and ir_views.ir_outlines(None, None) == (None, None)
    only_after = ir_views.ir_outlines(None, post)[1]
    assert only_after is not None and "new" not in "".join(only_after.lines)


def code() -> OutputCode:
    text = "\n".join(
        ["import torch", "k = async_compile.cpp('''", "#include <x>", "int a;", "''')", "k(buf0)", "mm(a)"]
    )
    kernel = Kernel(
        "k", "cpp", source="#include <x>\nint a;", span=LineSpan(2, 5), source_span=LineSpan(3, 4)
    )
    calls = (
        KernelCall(0, "k", "cpp", ("buf0",), ("buf0",), ("buf0",), LineSpan(6, 6), "k(buf0)"),
        KernelCall(1, "mm", "extern", ("a",), ("a",), (), LineSpan(7, 7), "mm(a)"),
    )
    return OutputCode("output_code.py", None, (kernel, Kernel("mm", "extern")), calls, (), (), (), text)


def test_code_is_cut_into_languages() -> None:
    document = code_views.code_document(code())
    assert [(r.first, r.last, r.language) for r in document.regions] == [
        (0, 1, "python"), (2, 3, "cpp"), (4, 4, "plain"), (5, 6, "python"),
    ]  # fmt: skip
    assert document.ref_at(5) == Ref("code_line", "6")
    assert document.rows_of(Related(code=(LineSpan(2, 5), LineSpan(6, 6)))) == ((1, 5),)


def test_a_kernel_shows_its_source_or_its_calls() -> None:
    kernel = code_views.kernel_document(code(), split_lines(code().text), "k")
    assert kernel.lines == ("#include <x>", "int a;") and kernel.first_number == 3
    assert kernel.ref_at(0) == Ref("code_line", "3")
    extern = code_views.kernel_document(code(), (), "mm")
    assert extern.lines == ("mm(a)",) and extern.first_number is None and extern.ref_at(0) is None


def test_kernels_and_launches_are_found_again() -> None:
    kernels = code_views.kernels_table(code(), None, {})
    assert [item.text for item in kernels.rows[0].cells] == ["k", "cpp", "1", "", "…", "…"]
    assert kernels.rows_of(Related(kernels=frozenset({"mm", "unknown"}))) == ((1, 1),)
    assert code_views.launches_table(code()).rows_of(Related(calls=frozenset({0, 1}))) == ((0, 1),)
    assert few(["a", "b", "c"]) == "a, b +1"


def test_the_chain_fits_its_line() -> None:
    parts = ("m.py:9", "softmax", "op1_op2_op3_op4", "triton_" + "very_" * 30 + "long_0", "line 143")
    for width in (160, 80, 60, 40, 10, 1):
        left, right = Chain(parts, "by provenance and buffers").text(width)
        assert len(left) + len(right) <= width
    assert fit_parts(parts, 80).startswith("m.py:9 → softmax → op1_op2_op3_op4 → triton_")
    assert fit_parts(parts, 80).endswith("→ line 143")
    assert Chain(("a",), "by order").text(80) == ("a", "by order")


def test_every_pane_shows_something_and_following_visits_all() -> None:
    for pane, row in panes.BY_ID.items():
        for wide in (True, False):
            assert set(layout.shown(pane, wide, row.first)) <= set(panes.VIEWS)
    pane, view = "fx", "fx-before"
    visited = []
    for _ in range(6):
        pane, view = layout.next_step(pane, view)
        visited.append(view)
        assert view in layout.shown(pane, False, view)
    assert sorted(visited) == sorted({"fx-before", "fx-after", "ir-before", "ir-after", "code", "kernels"})


# -- one registry


def test_every_action_exists_where_it_is_bound() -> None:
    owners = {
        "runs": RunsScreen,
        "first": FirstScreen,
        "run": RunScreen,
        "find": FindScreen,
        "index": IndexScreen,
        "line": LineScreen,
        "explain": ExplainScreen,
        "graph": GraphScreen,
        "fusion": GraphScreen,
        "text": InspectorScreen,
        "everywhere": InspectorScreen,
        "move": LinesView,
        "search": SearchBox,
        "form": CaptureFormScreen,
        "command": CommandInput,
        "live": LiveScreen,
        "doctor": DoctorScreen,
        "trace": TraceScreen,
        "diff": DiffScreen,
        "below": BelowScreen,
        "choice": ChoiceLine,
        "scroll": HelpScreen,
        "app": InspectorApp,
    }
    for action in (*actions.ACTIONS, *GraphScreen.own_actions, *FirstScreen.own_actions):
        method = f"action_{action.name.partition('(')[0].removeprefix('screen.')}"
        assert hasattr(owners[action.scope], method), method


def test_a_key_means_one_thing_on_every_screen() -> None:
    meaning = {name: key.id for key in actions.KEYS for name in key.keys}
    assert len(meaning) == sum(len(key.keys) for key in actions.KEYS)
    digits = [name for action in GraphScreen.own_actions for name in action.fixed]
    assert not set(digits) & set(meaning) and len(set(digits)) == len(panes.PANES)
    # Letters are text in these, and their keys are what Textual's input has.
    for action in actions.ACTIONS:
        assert action.key or action.scope in ("form", "command", "search"), action
    titles = [(action.name, action.title) for action in actions.ACTIONS]
    assert len(titles) == len(set(titles)), "the help tells actions apart by these"


def test_no_screen_binds_a_key_beside_the_registry() -> None:
    known = {action.title for action in (*actions.ACTIONS, *GraphScreen.own_actions)}
    screens = (
        RunsScreen,
        RunScreen,
        ExplainScreen,
        GraphScreen,
        TraceScreen,
        DoctorScreen,
        LiveScreen,
        DiffScreen,
    )
    for screen in (*screens, CaptureFormScreen, HelpScreen, LinesView, CommandInput, ChoiceLine):
        for binding in screen.__dict__.get("BINDINGS", ()):
            assert binding.description in known, (screen, binding)


def test_help_has_the_active_actions_only() -> None:
    active = {
        binding.key: ActiveBinding(RunsScreen([], ""), binding, binding.key != "n")
        for binding in Binding.make_bindings(actions.bindings("text", "everywhere"))
        if binding.key in ("slash", "q", "n")
    }
    sections = help_lines(actions.ACTIONS, active)
    assert [line.keys for section in sections for line in section] == ["", "/", "", "q"]
    assert sum(len(column) for column in help_columns(sections, wide=True)) == len(sections)
    assert help_columns(sections, wide=False) == [sections]


def test_the_docs_have_the_table_of_keys_and_the_rule_for_questions() -> None:
    page = (Path(__file__).parents[1] / "docs" / "screens.md").read_text()
    rows = [f"| `{actions.keys_text(key.keys)}` | `{key.id}` | {key.meaning} |" for key in actions.KEYS]
    assert "\n".join(("| keys | in the config | what they do |", "|---|---|---|", *rows)) in page
    assert actions.ASKING in " ".join(page.split())


# -- clipboard


def test_the_clipboard_tool_gets_the_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "xclip"
    tool.write_text(f'#!/bin/sh\ncat > "{tmp_path}/got"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("DISPLAY", ":0")
    assert clipboard.copy_with_tool("größe") == "xclip"
    assert (tmp_path / "got").read_text() == "größe"
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert clipboard.copy_with_tool("x") is None
    monkeypatch.delenv("DISPLAY")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert clipboard.copy_with_tool("x") is None


# -- on real runs


def test_every_graph_of_the_corpus_has_all_its_views(corpus_graphs: list[Path]) -> None:
    from inspector.views.pane import Reading
    from inspector.views.panes import load_parts

    for folder in corpus_graphs[::3]:
        graph = Run.open(folder).graphs[0]
        parts = {part.view: part.content for part in load_parts(Reading(graph))}
        assert all(content.count for content in parts.values()), folder
        before, after = parts["ir-before-outline"], parts["ir-after-outline"]
        assert before.count == after.count
        links = Reading(graph).links
        code_of = graph.code()
        assert code_of is not None and links.kernels is not None
        for call in code_of.calls:
            related = links.cross.related(Ref("call", str(call.index)))
            assert parts["launches"].rows_of(related) and parts["code"].rows_of(related)
            assert links.chains.write(related).parts


def test_the_tui_starts_without_torch_and_lexers() -> None:
    program = (
        "import sys; import inspector.tui.app, inspector.tui.screens.run, inspector.tui.screens.graph;"
        "print([name for name in ('torch', 'networkx', 'pygments.lexers.python') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == []


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        (
            "inspector.tui.screens.first",
            ("inspector.analysis.", "inspector.explain.", "inspector.readers.graph"),
        ),
        ("inspector.trial.history", ("inspector.capture.launch", "inspector.replay.", "psutil")),
        (
            "inspector.views.panes",
            ("inspector.analysis.", "inspector.present.fusion", "inspector.present.fx"),
        ),
    ],
)
def test_nothing_is_imported_before_it_is_needed(module: str, unneeded: tuple[str, ...]) -> None:
    program = f"import sys; import inspector.tui.app, {module}; print(list(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [name for name in ast.literal_eval(done.stdout) if name.startswith(unneeded)] == []
