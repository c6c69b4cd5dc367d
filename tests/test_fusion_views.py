"""Lanes, the two drawings and the side-by-side schedule: what they show, on small graphs and real ones."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import build
import pytest
from click.testing import CliRunner
from waiting import PATIENCE_S
from words import texts

from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.lanes import LaneSpan, kinds_by_row, lay_out
from inspector.cli import cli
from inspector.model.fusion import FusionReport
from inspector.present.drawing import to_dot, to_svg
from inspector.present.ir_diff import SIDE_BY_SIDE
from inspector.present.ir_diff import lines as words_of
from inspector.readers.run import Run

ROOT = Path(__file__).parent.parent


def chain() -> FusionReport:
    """op0 -> mm -> op2 -> op3, the last two fused; op3 reads op0's buffer too."""
    x = (("x", build.layout(64, 64)),)
    one = build.computed("op0", (build.dep("x"),), (64, 64), inputs=x)
    wall = build.computed("op1", (build.dep("buf0"), build.dep("x")), (64, 64), kernel="extern_kernels.mm")
    two = build.computed("op2", (build.dep("buf1"),), (64, 64))
    three = build.computed("op3", (build.dep("buf2"), build.dep("buf0")), (64, 64), users="OUTPUT")
    return analyse_fusion(build.scheduled((one, wall, two, three), (one, wall, build.fused(two, three))))


def softmax(corpus: Path) -> FusionReport:
    (graph,) = Run.open(corpus / "cpu-torch2.13" / "softmax").graphs
    return analyse_fusion(graph.artifacts())


# -- lanes


def test_lanes_follow_buffers_from_their_maker_to_their_last_reader() -> None:
    lanes = lay_out(chain())
    assert [[span.buffer for span in lane] for lane in lanes] == [["buf0"], ["buf1", "buf3"], ["buf2"]]
    (buf0,), (buf1, _), _ = lanes
    assert (buf0.first, buf0.last, buf0.reads, buf1.last) == (0, 3, (1, 3), 2)
    assert kinds_by_row(lanes, 4, 3) == [
        ["made", None, None],
        ["read", "made", None],
        ["passes", "last_read", "made"],
        ["last_read", "made", "last_read"],
    ]


def _kind(span: LaneSpan, row: int) -> str:
    if row == span.first:
        return "made"
    if row == span.last:
        return "last_read"
    return "read" if row in span.reads else "passes"


def test_spans_of_one_lane_never_overlap(corpus: Path) -> None:
    for graph in Run.open(corpus / "h200-torch2.11" / "resnet50").graphs:
        report = analyse_fusion(graph.artifacts())
        lanes, rows = lay_out(report), len(report.nodes)
        assert sum(map(len, lanes)) == sum(len(node.writes) for node in report.nodes)
        for lane in lanes:
            for before, after in pairwise(lane):
                assert before.last < after.first
        kinds = kinds_by_row(lanes, rows, len(lanes))
        for row, shown in enumerate(kinds):
            for lane, kind in zip(lanes, shown, strict=True):
                living = next((span for span in lane if span.first <= row <= span.last), None)
                assert kind == (_kind(living, row) if living else None)
        assert kinds_by_row(lanes, rows, 3) == [shown[:3] for shown in kinds]
        alive = max(sum(s.first <= row <= s.last for lane in lanes for s in lane) for row in range(rows))
        assert len(lanes) == alive, "no more lanes than buffers that live at once"


# -- drawings


def test_svg_is_well_formed_and_draws_every_group(corpus: Path) -> None:
    for name in ("softmax", "mlp"):
        for graph in Run.open(corpus / "cpu-torch2.13" / name).graphs:
            report = analyse_fusion(graph.artifacts())
            root = ElementTree.fromstring(to_svg(report))
            space = "{http://www.w3.org/2000/svg}"
            titles = [group.findtext(f"{space}title") for group in root.findall(f"{space}g")]
            assert titles == [group.name for group in report.groups]
            width, height = float(root.attrib["width"]), float(root.attrib["height"])
            boxes = [group.find(f"{space}rect") for group in root.findall(f"{space}g")]
            corners = [(float(box.attrib["x"]), float(box.attrib["y"]), box) for box in boxes]  # type: ignore[union-attr]
            for x, y, box in corners:
                assert 0 <= x <= width - float(box.attrib["width"])  # type: ignore[union-attr]
                assert 0 <= y <= height - float(box.attrib["height"])  # type: ignore[union-attr]
            assert len({(x, y) for x, y, _ in corners}) == len(corners), "no two boxes on one spot"


def test_dot_has_each_node_once_clusters_and_misses(corpus: Path) -> None:
    report = softmax(corpus)
    text = to_dot(report)
    assert text.count("{") == text.count("}")
    for node in report.nodes:
        assert len(re.findall(rf'^ *"{node.name}" \[', text, re.M)) == 1
    assert text.count("subgraph cluster_") == 1
    assert '"op0" -> "op1" [label="buf0 40.0 KB"]' in text
    assert "style=dashed" in text and "missed 80.0 KB" in text


def test_odd_names_do_not_break_the_drawings() -> None:
    x = (("x", build.layout(4)),)
    one = build.computed('op"0<&>', (build.dep("x"),), (4,), inputs=x)
    report = analyse_fusion(build.scheduled((one,), (one,)))
    ElementTree.fromstring(to_svg(report))
    assert '"op\\"0<&>"' in to_dot(report)


def test_the_command_writes_both_files(corpus: Path, tmp_path: Path) -> None:
    root = str(corpus / "cpu-torch2.13" / "softmax")
    dot, svg = tmp_path / "g.dot", tmp_path / "g.svg"
    result = CliRunner().invoke(cli, ["fusions", root, "--dot", str(dot), "--svg", str(svg)])
    assert result.exit_code == 0
    assert dot.read_text().startswith("digraph") and svg.read_text().startswith("<svg")
    many = str(corpus / "cpu-torch2.13" / "mlp")
    refused = CliRunner().invoke(cli, ["fusions", many, "--dot", str(dot)])
    assert "--graph" in str(refused.exception)


# -- ir-diff


def diff(corpus: Path, width: int, run: str = "cpu-torch2.13/softmax") -> list[str]:
    graph = Run.open(corpus / run).graphs[0]
    return texts(words_of(graph.artifacts(), graph.name, width))


def test_wide_output_stands_side_by_side(corpus: Path) -> None:
    lines = diff(corpus, SIDE_BY_SIDE)
    assert all(len(line) <= SIDE_BY_SIDE for line in lines)
    joined = next(line for line in lines if line.startswith("op1:"))
    assert "op1_op2_op3_op4: OuterLoopFusedSchedulerNode" in joined
    order = [line.split(":")[0] for line in lines if re.match(r"op\d+:", line)]
    assert order == ["op0", "op1", "op2", "op3", "op4"]
    assert any("gone   buf2 40.0 KB" in line for line in lines)
    assert sum("=" in line for line in lines) == 1, "only the library call is as it was"


def test_narrow_output_is_stacked(corpus: Path) -> None:
    lines = diff(corpus, 80)
    assert all(len(line) <= 80 for line in lines)
    removed = [line for line in lines if re.match(r"- op\d+:", line)]
    added = [line for line in lines if line.startswith("+ op")]
    assert (len(removed), len(added)) == (4, 1)
    assert lines.index(removed[-1]) < lines.index(added[0])


def test_every_leaf_of_every_graph_is_shown(corpus: Path) -> None:
    for run in ("h200-torch2.11/resnet50", "cpu-torch2.4.1/mlp"):
        for graph in Run.open(corpus / run).graphs:
            artifacts = graph.artifacts()
            assert artifacts.pre is not None and artifacts.post is not None
            lines = texts(words_of(artifacts, artifacts.ident, 200))
            heads = {match[0] for line in lines if (match := re.match(r"\w+(?=:)", line))}
            assert heads >= {leaf.name for leaf in artifacts.pre.leaves()}
            assert not any("gone after fusion" in line for line in lines)


def test_a_pipe_gets_no_colours(corpus: Path) -> None:
    result = CliRunner().invoke(cli, ["ir-diff", str(corpus / "cpu-torch2.13" / "softmax")])
    assert result.exit_code == 0
    assert "\x1b" not in result.output


@pytest.mark.parametrize(("setting", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_gets_colours_unless_told_not_to(
    corpus: Path, setting: dict[str, str], coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    run = str(corpus / "cpu-torch2.13" / "softmax")
    child = subprocess.Popen(
        [sys.executable, "-m", "inspector.cli", "ir-diff", run],
        stdout=theirs,
        cwd=ROOT,
        env={**environment, **setting},
    )
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65536):
            output += piece
    os.close(ours)
    assert child.wait(PATIENCE_S) == 0
    assert b"op1_op2_op3_op4" in output
    assert (b"\x1b[31m" in output) is coloured


def test_a_missing_schedule_is_named(corpus: Path) -> None:
    (graph,) = Run.open(corpus / "cpu-torch2.13" / "softmax" / "trace").graphs
    assert "ir_pre_fusion.txt is missing" in texts(words_of(graph.artifacts(), graph.name, 100))[1]


@pytest.mark.parametrize("command", ["ir-diff", "fusions"])
def test_a_reader_that_goes_away_is_no_error(corpus: Path, command: str) -> None:
    run = str(corpus / "h200-torch2.11" / "resnet50")
    child = subprocess.Popen(
        [sys.executable, "-m", "inspector.cli", command, run],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert child.stdout is not None and child.stderr is not None
    assert child.stdout.readline()
    child.stdout.close()
    errors = child.stderr.read()
    assert (child.wait(PATIENCE_S), errors) == (0, b"")


def test_ctrl_c_ends_without_a_traceback(corpus: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "inspector.cli", "ir-diff", str(corpus / "h200-torch2.11" / "resnet50")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert child.stdout is not None and child.stderr is not None
    child.stdout.readline()
    # The pipe fills up and blocks the child in the middle of its output.
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    child.stdout.read()
    errors = child.stderr.read().decode()
    assert child.wait(PATIENCE_S) == 130
    assert "Traceback" not in errors
