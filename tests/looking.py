"""Everything that looks at a run, without a terminal: what commands print, and what the TUI's views are built of.

Each `see_*` takes a run that was just opened. Nothing but an `InspectorError` may come of any of them.
"""

# ruff: noqa: E501
from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from inspector.model.problem import InspectorError
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run

TIGHT = Path(__file__).parent / "data" / "tight.toml"
WIDTHS = (60, 100, 200)
"""Of what is printed: the least, that of a pipe, and the most."""


class _Sink(io.TextIOBase):
    """Standard output that is kept nowhere; with an encoding, as a terminal's has one."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        return len(text)


def _text(lines: Iterable[Any]) -> None:
    for line in lines:
        _ = line.text


def _json(data: Any) -> None:
    from inspector.contract.bounds import finite

    json.dumps(finite(data), ensure_ascii=False, allow_nan=False)


def see_summary(run: Run, width: int = 100) -> None:
    from inspector.contract.summary import to_json
    from inspector.gather import summary_of
    from inspector.present.summary import lines

    result = summary_of(run)
    _text(lines(result, width))
    _json(to_json(result))


def see_fusions(run: Run, width: int = 100) -> None:
    from inspector.contract.fusions import to_json
    from inspector.gather import fusion_of
    from inspector.present.drawing import to_dot, to_svg
    from inspector.present.fusion import lines

    reports = [fusion_of(item) for item in run.graphs if item.files]
    _text(lines(reports, width, True))
    _text(lines(reports, width, False))
    _json(to_json(reports, True))
    for report in reports[:1]:
        to_dot(report), to_svg(report)


def see_explain(run: Run, width: int = 100) -> None:
    from inspector.contract.explain import to_json
    from inspector.explain import explain
    from inspector.explain.profiles import load_profiles
    from inspector.hardware.host import this_host
    from inspector.present.answer import Offers, answer_rows
    from inspector.present.explain import explain_page, graph_page, lines, short_verdict
    from inspector.present.run import events_of
    from inspector.present.two_sides import BYS
    from inspector.present.two_sides import lines as side_lines
    from inspector.replay.store import load_results
    from inspector.trial.history import past_runs
    from inspector.tui.destinations import find_destination, places_of

    explanation = explain(run, load_results(run.root), this_host(), load_profiles(run, None, None))
    _text(lines(explanation, width, True))
    _json(to_json(explanation))
    short_verdict(explanation)
    _text(line for line, _ in answer_rows(explanation, width, Offers("t", "A", "e"), past_runs(run)))
    for by in BYS:
        explain_page(explanation, width, {}, "t", by)
        if explanation.sides is not None and by != "block":
            _text(side_lines(explanation.sides, width, by))
    for graph in run.graphs[:2]:
        graph_page(explanation, graph.ident, run.label(graph.folder or run.root), width)
    # Where the lines lie that findings name.
    events = events_of(run.facts())
    items = [item for finding in explanation.findings for item in finding.evidence[:2]]
    for block in explanation.sides.joined.blocks[:2] if explanation.sides is not None else ():
        items += places_of(block)
    for item in items[:4]:
        find_destination(run, item, events)


def see_trace(run: Run, width: int = 100) -> None:
    from inspector.contract.trace import to_json
    from inspector.gather import trace_report
    from inspector.present.trace import kinds_lines, lines, trace_table
    from inspector.present.trace_detail import detail_lines, overview_document, spot_document, stages_lines

    report = trace_report(run, None)
    _text(lines(report, width))
    _json(to_json(report, None))
    for process in report.traces:
        _text(kinds_lines(process.content.kinds, width))
        for item in process.content.compilations[:5]:
            _text(detail_lines(process, item, width))
            _json(to_json(report, item.ident))
    for label in ("dynamo_output_graph", "dynamo_guards"):
        with suppress(InspectorError):
            _text(stages_lines(report.stages(label, None)))
    overview_document(report, width)
    _, spots = trace_table(report, [f"{n} {m}" for n in range(2) for m in range(3)])
    for spot in list(spots.values())[:12]:
        text = report.traces[spot.trace].file.payload(spot.stage.event) if spot.stage is not None else ""
        spot_document(report, spot, text, width)


def see_ir(run: Run, width: int = 100) -> None:
    from inspector.present.ir_diff import lines

    for item in run.graphs:
        if item.files:
            _text(lines(item.artifacts(), item.ident, width))


def see_plan(run: Run, _width: int = 100) -> None:
    from inspector.replay.plan import graph_files
    from inspector.replay.trust import foreign

    foreign(run)
    for item in run.graphs:
        if item.folder is not None and item.files:
            graph_files(item)


def see_run_screen(run: Run, width: int = 100) -> None:
    """What the TUI's first screen is made of."""
    from inspector.analysis.replay_history import latest
    from inspector.present.about import about_rows, about_run
    from inspector.present.detail import event_detail, graph_detail, run_detail, why_empty
    from inspector.present.identity import identity
    from inspector.present.run import GraphEntry, events_of, run_table, verdict
    from inspector.present.tables import table_lines
    from inspector.replay.store import load_results
    from inspector.tui.sources import event_source
    from inspector.views.loading import count_graph, load_story, rank_labels, sketch_run

    sketch_run(run.located)
    facts = run.facts()
    replays = latest(load_results(run.root)) if run.root.is_dir() else {}
    abouts = about_run(load_story(run), facts)
    ranks = rank_labels(run)
    entries = [
        GraphEntry(graph.ident, graph.phase, compile_id=graph.compile_id, rank=ranks.get(graph.ident, ""))
        for graph in run.graphs
    ]
    counts = {graph.ident: count_graph(graph, True, keep=True) for graph in run.graphs}
    table_lines(run_table(entries, counts, replays, facts, about_rows(abouts)), width)
    verdict(facts, replays, len(entries)), identity("run", len(entries), facts)
    _text([*run_detail(facts), *(line for about in abouts for line in about.detail)])
    why_empty(facts)
    events = events_of(facts)
    for event in events[:4]:
        _text(event_detail(event))
        event_source(event, run, events)
    for graph in run.graphs[:3]:
        kept = counts[graph.ident]
        _text(
            graph_detail(
                graph.ident,
                run.kind,
                graph.files,
                graph.missing,
                dict.fromkeys(kept.problems),
                replays.get(graph.ident),
            )
        )


def see_graph_screen(run: Run, width: int = 100) -> None:
    """What the panes of a graph are made of, for the first graph that has files."""
    for graph in [graph for graph in run.graphs if graph.files][:2]:
        _see_panes(graph, width)


def _see_panes(graph: CompiledGraph, width: int) -> None:
    from inspector.present.code import kernel_document
    from inspector.present.documents import Document
    from inspector.present.fusion_boxes import boxes_page
    from inspector.present.fusion_lanes import lanes_table
    from inspector.present.fusion_why import miss_page, why_page
    from inspector.present.fx import with_waste
    from inspector.present.highlight import highlight
    from inspector.present.tables import Table, table_lines
    from inspector.present.waste import call_texts, node_texts
    from inspector.views.pane import Reading
    from inspector.views.panes import PANES, absent

    reading = Reading(graph)
    contents: dict[str, Any] = {}
    for pane in PANES:
        for view, build in pane.contents(reading):
            contents[view] = build()
        for name in pane.files:
            absent(graph, name)
    links, fusion = reading.links, reading.fusion
    report = fusion.report
    for content in contents.values():
        if isinstance(content, Table):
            table_lines(content, width)
        elif isinstance(content, Document):
            for region in content.regions[:1]:
                highlight(content.lines[region.first : region.first + 40], region.language)
        if content is not None:
            for row in range(0, content.count, max(1, content.count // 3)):
                if (ref := content.ref_at(row)) is not None:
                    related = links.cross.related(ref)
                    links.chains.write(related)
                    for other in contents.values():
                        if other is not None:
                            other.rows_of(related)
    if isinstance(fx := contents.get("fx-after"), Document):
        with_waste(fx, "fx_after", node_texts(report))
    table_lines(fusion.table, width)
    for step in range(min(2, len(fusion.lanes.history.steps))):
        lanes_table(fusion.lanes, step)
    for node in report.nodes[:2]:
        why_page(fusion.partners, node.name, width)
        boxes_page(fusion.neighbours, node.name, width)
    for position in range(min(2, len(report.missed))):
        miss_page(fusion.partners, position, width)
    code, text = graph.code(), contents.get("code")
    for kernel in code.kernels[:2] if code is not None else ():
        kernel_document(code, text.lines, kernel.name)  # type: ignore[union-attr,arg-type]
    _see_results(graph, call_texts(report), width)


def _see_results(graph: CompiledGraph, waste: Any, width: int) -> None:
    from inspector.analysis.replay_history import kernel_history, latest, peaks_used
    from inspector.present.kernel_result import Launch, result_document
    from inspector.present.kernels import ORDERS, replayed_table
    from inspector.present.tables import table_lines
    from inspector.replay.edits import EditFolder
    from inspector.replay.store import load_results

    code = graph.code()
    results = load_results(graph.run.root)
    replay = latest(results).get(graph.ident)
    if code is None:
        return
    if replay is not None:
        for order in ORDERS:
            table_lines(replayed_table(code, replay, order, None, {}, waste), width)
    for call in code.calls[:3]:
        kernel = code.kernel(call.kernel)
        edits = (
            EditFolder(graph.run, graph.ident, kernel).load() if kernel is not None and kernel.source else ()
        )
        result = next((item for item in replay.kernels if item.call == call.index), None) if replay else None
        result_document(
            Launch(call, len(code.calls)),
            result,
            peaks_used(results, replay.device) if replay else None,
            kernel_history(results, graph.ident, call.index),
            None,
            edits=edits,
            original=kernel.source if kernel is not None and edits else "",
            operators=replay.operators if replay else (),
        )


def see_lower(run: Run, width: int = 100) -> None:
    """What `lower` prints, and the screen below a kernel."""
    from inspector.contract.lower import to_json
    from inspector.lowered import lowered_kernels
    from inspector.model.lowering import STAGES
    from inspector.present.below import documents, origin_text, selected
    from inspector.present.lower import overview_lines, stage_lines

    kernels = lowered_kernels(run, [graph for graph in run.graphs if graph.files])
    _text(overview_lines(kernels, width))
    for item in kernels[:3]:
        for stage in STAGES:
            _text(stage_lines(item, stage, width))
            _json(to_json([item], stage))
        shown = documents(item).values()
        for line in range(1, 400, 29):
            origin_text(item, line)
            for document in shown:
                document.rows_of(selected(line))


def see_diff(run: Run, width: int = 100, other: Run | None = None) -> None:
    """What `diff` prints, and its screen; beside another run, else beside itself."""
    from inspector.comparison import Side, compare_sides
    from inspector.contract.diff import to_json
    from inspector.present.diff import lines, markdown
    from inspector.present.diff_sides import Compared, changes_table, detail_page, passes_lines
    from inspector.present.tables import table_lines

    a, b = Side(other or run), Side(run)
    diff = compare_sides(a, b)
    _text(lines(diff, width, True))
    _json(to_json(diff))
    markdown(diff)
    table = changes_table(diff, True)
    table_lines(table, width)
    for number, row in enumerate(table.rows[:: max(1, table.count // 4)]):
        detail_page(Compared(a, b, diff), row.key, number % 4, width)  # type: ignore[arg-type]
    for graph in run.graphs[:2]:
        if graph.files:
            _text(passes_lines(graph.artifacts(), width))


def see_export(run: Run, _width: int = 100, other: Run | None = None) -> None:
    """The page, with and without another run, and what `report` prints."""
    from inspector.export.markdown import markdown
    from inspector.export.page import export_page
    from inspector.export.report import gather_report

    heard: list[str] = []
    export_page(run, heard.append, heard.append, other)
    markdown(run, gather_report(run, heard.append, heard.append))


def see_rows(run: Run, _width: int = 100) -> None:
    """What the library, its frames and an index have of a run."""
    from inspector.library.records import Records
    from inspector.library.rows import RunRow
    from inspector.library.run import Run as Opened

    opened = Opened(run)
    _json(asdict(opened.row))
    Records([opened], lambda one: one.row, RunRow)._repr_html_()
    for name in (
        "graphs",
        "kernels",
        "fusions",
        "missed",
        "findings",
        "blocks",
        "breaks",
        "recompiles",
        "differences",
    ):
        records = getattr(opened, name)
        _json(records.to_dicts())
        records._repr_html_()


def see_check(run: Run, _width: int = 100) -> None:
    """A budget made of the run, the run judged by it and by one that nothing keeps, in every format."""
    from inspector.contract.check import to_json
    from inspector.gates.budget import from_data, read_budget, to_toml
    from inspector.gates.judge import judge
    from inspector.gates.write import budget_of
    from inspector.present import gates
    from inspector.replay.store import load_results

    results = load_results(run.root) if run.root.is_dir() else ()
    own = budget_of(run, results)
    made = to_toml(own)
    made.encode()
    assert own.empty or from_data(tomllib.loads(made), "made") == own
    for budget in (own, read_budget(TIGHT)):
        report = judge(run, budget, results)
        _text(gates.lines(report, "/"))
        _json(to_json(report))
        for form in (gates.step_summary, gates.workflow_commands, gates.junit, gates.sarif):
            form(report, "/").encode()


def see_answers(run: Run, _width: int = 100) -> None:
    """What an agent is told over MCP of a run: each answer opens it anew, as one that is asked alone."""
    from inspector.agents.tools import Looking

    tools = Looking(run.root.parent)
    for answer in (tools.summary, tools.explain):
        _json(answer(run.root.name))


def see_nearer_answers(run: Run, _width: int = 100) -> None:
    """What it is told of a place in a run."""
    from inspector.agents.tools import Looking

    tools = Looking(run.root.parent)
    _json(tools.why_not_fused(run.root.name))
    code = next((graph.code() for graph in run.graphs), None)
    for kernel in code.kernels[:1] if code is not None else ():
        with suppress(InspectorError):
            _json(tools.kernel(run.root.name, kernel.name))


COMMANDS = (
    ("summary",), ("summary", "--json"), ("fusions", "--all"), ("fusions", "--json"), ("fusions", "--graph", "model__0"),
    ("explain", "--all"), ("explain", "--json"), ("explain", "--by", "line"), ("trace",), ("trace", "--json"),
    ("trace", "--kinds"), ("trace", "--compile-id", "0/0"), ("trace", "--show", "dynamo_guards"), ("ir-diff",),
    ("repro",), ("lower",), ("lower", "--json"), ("lower", "--kernel", "0", "--stage", "ptx"), ("diff",), ("report",),
    ("diff", "OTHER", "--json"), ("diff", "OTHER", "--markdown"), ("diff", "OTHER", "--all"),
    ("export", "-o", "WRITTEN", "--force"), ("export", "-o", "WRITTEN", "--force", "--against", "OTHER"),
    ("pack", "-o", "WRITTEN.tar", "--force"), ("pack", "-o", "WRITTEN.tar", "--force", "--no-source"),
    ("check", "--budget", "WRITTEN", "--force", "--write"), ("check", "--budget", "TIGHT", "--format", "sarif"),
)  # fmt: skip


def run_command(path: Path, command: tuple[str, ...], other: Path, written: Path) -> int:
    """A command that executes nothing, in this process, as far as its exit code; what it prints goes nowhere.
    `other` and `written` stand for OTHER and WRITTEN in it, a budget that few runs keep for TIGHT."""
    from inspector.cli import app

    def tell(error: BaseException) -> str:
        # What the boundary around all commands would say in a line is a failure here.
        raise error

    name, *options = command
    places = {
        "OTHER": str(other),
        "WRITTEN": str(written),
        "WRITTEN.tar": f"{written}.tar",
        "TIGHT": str(TIGHT),
    }
    with (
        patch.object(app, "told", tell),
        patch.object(
            sys, "argv", ["inspector", name, str(path), *(places.get(option, option) for option in options)]
        ),
        redirect_stdout(_Sink()),
        redirect_stderr(_Sink()),
    ):
        return app._run()


VIEWS: tuple[Callable[..., None], ...] = (
    see_summary, see_fusions, see_explain, see_trace, see_ir, see_plan, see_run_screen, see_graph_screen,
    see_lower, see_diff, see_export, see_rows, see_check, see_answers, see_nearer_answers,
)  # fmt: skip
OF_TWO = see_diff, see_export
"""Of the views, those that take another run as their third argument."""
