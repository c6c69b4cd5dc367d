"""What the fusion pane's views are made of: plain data in, rows and lines out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import build
import pytest

from inspector.model.decision import Decision
from inspector.model.logs import FusionLog, FusionRound
from inspector.model.run import GraphArtifacts
from inspector.present.fusion import missed_table, short_name
from inspector.present.fusion_boxes import boxes_page
from inspector.present.fusion_lanes import LANES, lanes_table
from inspector.present.fusion_why import why_page
from inspector.present.ir_diff import sides_table
from inspector.present.spans import Span, fitted, wrapped
from inspector.readers.run import Run
from inspector.views.fusion import Fusion, export_fusion, fusion_of, missed, sides

X = ("x", build.layout(64, 64))


def whole(
    *nodes: build.SchedulerNode, post: tuple[build.SchedulerNode, ...] = (), log: FusionLog | None = None
) -> Fusion:
    return fusion_of(build.scheduled(nodes, post or nodes, fusion=log))


def chain(count: int) -> tuple[build.SchedulerNode, ...]:
    first = build.computed("op0", (build.dep("x"),), (64, 64), inputs=(X,))
    rest = (build.computed(f"op{n}", (build.dep(f"buf{n - 1}"),), (64, 64)) for n in range(1, count))
    return (first, *rest)


def spread(readers: int) -> tuple[build.SchedulerNode, ...]:
    """One node whose result many others read, each of which is a result."""
    first = build.computed("op0", (build.dep("x"),), (64, 64), inputs=(X,))
    rest = (
        build.computed(f"op{n}", (build.dep("buf0"),), (64, 64), users="OUTPUT")
        for n in range(1, readers + 1)
    )
    return (first, *rest)


def log(*decisions: tuple[str, str, int, str | None]) -> FusionLog:
    lines = tuple(
        Decision(first, second, number, "fused" if reason is None else "rejected", reason, line)
        for line, (first, second, number, reason) in enumerate(decisions, 1)
    )
    rounds = tuple(FusionRound(number, None, None, None, 1) for number in {item.round for item in lines})
    return FusionLog("0/0", 0, "model__0_inference_0.0", rounds, lines, (), ())


def brackets(fusion: Fusion, step: int | None = None) -> list[str]:
    return [row.cells[1].text for row in lanes_table(fusion.lanes, step).rows if not row.wide]


# -- lanes


def test_groups_that_overlap_in_a_round_stand_side_by_side() -> None:
    nodes = chain(4)
    told = log(("op0", "op2", 1, None), ("op1", "op3", 1, None), ("op0_op2", "op1_op3", 2, None))
    fusion = whole(*nodes, post=(build.fused(*nodes),), log=told)
    assert brackets(fusion, 1) == ["┐ ", "│┐", "┘│", " ┘"]
    assert brackets(fusion) == ["┐", "│", "│", "┘"]


def test_a_column_that_a_group_left_is_used_again() -> None:
    nodes = chain(6)
    told = log(
        ("op0", "op5", 1, None),
        ("op1", "op2", 1, None),
        ("op3", "op4", 1, None),
        ("op0_op5", "op1_op2", 2, None),
        ("op0_op5_op1_op2", "op3_op4", 2, None),
    )
    fusion = whole(*nodes, post=(build.fused(*nodes),), log=told)
    assert brackets(fusion, 1) == ["┐ ", "│┐", "│┘", "│┐", "│┘", "┘ "]


def test_a_member_between_others_is_told_from_a_row_that_a_bracket_passes() -> None:
    nodes = chain(5)
    told = log(("op0", "op2", 1, None), ("op0_op2", "op4", 1, None), ("op0_op2_op4", "op1_op3", 2, None))
    fusion = whole(*nodes, post=(build.fused(*nodes),), log=told)
    assert brackets(fusion, 1) == ["┐", "│", "┤", "│", "┘"]


def test_more_lanes_than_fit_are_cut_and_marked() -> None:
    wide = spread(3)[:1] + tuple(
        build.computed(f"op{n}", (build.dep("buf0"),), (64, 64)) for n in range(1, LANES + 3)
    )
    reader = build.computed(
        "op99", tuple(build.dep(f"buf{n}") for n in range(LANES + 3)), (64, 64), users="OUTPUT"
    )
    rows = [row for row in lanes_table(whole(*wide, reader).lanes).rows if not row.wide]
    assert rows[-1].cells[7].text.endswith("…") and len(rows[-1].cells[7].text) == LANES + 1


def test_only_the_last_step_tells_savings_and_misses() -> None:
    nodes = chain(3)
    told = log(("op0", "op1", 1, None), ("op0_op1", "op2", 2, "memory deps did not match"))
    fusion = whole(*nodes, post=(build.fused(*nodes[:2]), nodes[2]), log=told)
    assert any(row.wide for row in lanes_table(fusion.lanes).rows)
    assert not any(row.wide for row in lanes_table(fusion.lanes, 1).rows)
    assert [row.cells[6].text for row in lanes_table(fusion.lanes).rows if not row.wide] == [
        "32.8 KB",
        "",
        "",
    ]


def test_a_foreach_name_of_thousands_of_characters_stays_short() -> None:
    fusion = whole(*chain(900), post=(build.fused(*chain(900)),))
    assert len(fusion.report.groups[0].name) > 4000
    assert short_name(fusion.report.groups[0]) == "op0…op899 (900)"
    assert max(len(cell.text) for row in fusion.table.rows for cell in row.cells) < 100


def test_names_cannot_command_the_terminal() -> None:
    evil = build.computed("op\x1b[2J", (build.dep("x\x07"),), (4,), inputs=(("x\x07", build.layout(4)),))
    fusion = whole(evil)
    texts = [cell.text for row in fusion.table.rows for cell in row.cells]
    for text in (why_page(fusion.partners, evil.name, 77), boxes_page(fusion.neighbours, evil.name, 77)):
        texts += [line.text for line in text.lines]
    assert not [text for text in texts if "\x1b" in text or "\x07" in text]


# -- reasons


def test_a_refusal_that_fused_later_is_told_as_such() -> None:
    nodes = chain(2)
    told = log(("op0", "op1", 1, "will create cycle"), ("op0", "op1", 2, None))
    fusion = whole(*nodes, post=(build.fused(*nodes),), log=told)
    text = "\n".join(line.text for line in why_page(fusion.partners, "op0", 90).lines)
    assert "round 2: with op1" in text
    assert "round 1  op1: something lies between" in text and "fused later" in text
    assert "nothing was missed" in text


def test_the_chosen_miss_comes_first() -> None:
    fusion = whole(*spread(3))
    found = fusion.partners.misses_of("op0")
    heads = [
        next(line.text for line in why_page(fusion.partners, "op0", 77, chosen).lines if "✗" in line.text)
        for chosen in found
    ]
    assert [head.split()[1] for head in heads] == ["op1", "op2", "op3"]


@pytest.mark.parametrize("width", [30, 61, 77])
def test_no_line_is_wider_than_asked(corpus: Path, width: int) -> None:
    for graph in Run.open(corpus / "h200-torch2.11" / "autotune").graphs:
        fusion = fusion_of(graph.artifacts())
        for node in fusion.report.nodes:
            assert why_page(fusion.partners, node.name, width).width <= max(width, 40)
            assert boxes_page(fusion.neighbours, node.name, width).width <= max(width, 60)


def test_the_longest_pieces_give_way() -> None:
    line = fitted([Span("name  "), Span("a" * 40, "dim"), Span("b" * 20)], 40)
    assert len(line.text) == 40 and line.text.startswith("name  aaa")
    assert line.spans[2].text == "b" * 20 or "…" in line.spans[2].text
    assert [part.text for part in wrapped("one two three", 20, indent="  ", hang="    ")] == [
        "  one two three"
    ]


# -- neighbours


def test_many_readers_are_cut_and_counted() -> None:
    fusion = whole(*spread(100))
    text = boxes_page(fusion.neighbours, "op0", 77)
    drawn = [line.text for line in text.lines]
    assert any("and 60 more" in line for line in drawn)
    assert sum(line.startswith("┌") for line in drawn) == 40
    assert text.lines[text.start].text.startswith("║ op0")


def test_an_edge_says_what_became_of_it() -> None:
    nodes = chain(4)
    wall = build.computed("op3", (build.dep("buf2"),), (64, 64), kernel="extern_kernels.mm", users="OUTPUT")
    fusion = whole(*nodes[:3], wall, post=(nodes[0], build.fused(nodes[1], nodes[2]), wall))
    found = fusion.neighbours.of("op2")
    assert [(edge.name, edge.kind, edge.buffers, edge.bytes) for edge in found.producers] == [
        ("op1", "fused", ("buf1",), 16384)
    ]
    assert [(edge.name, edge.kind) for edge in found.consumers] == [("op3", "refused")]
    assert found.consumers[0].missed is not None
    assert found.consumers[0].missed.category == "extern_kernel"
    assert [edge.name for edge in found.shares] == ["op0"], "its group was refused with op0, for op1's sake"
    refs = {line.ref.key for line in boxes_page(fusion.neighbours, "op2", 77).lines if line.ref is not None}
    assert refs == {"op0", "op1", "op2", "op3"}


def test_nodes_that_only_share_an_input_are_neighbours_too() -> None:
    nodes = tuple(
        build.computed(f"op{n}", (build.dep("x"),), (64, 64), users="OUTPUT", inputs=(X,)) for n in (0, 1)
    )
    found = whole(*nodes).neighbours.of("op0")
    assert (found.producers, found.consumers) == ((), ())
    assert [(edge.name, edge.buffers) for edge in found.shares] == [("op1", ("x",))]


# -- both sides, and lists


def test_both_sides_have_every_node_once(corpus: Path) -> None:
    for graph in Run.open(corpus / "h200-torch2.11" / "norms").graphs:
        artifacts = graph.artifacts()
        assert artifacts.pre is not None and artifacts.post is not None
        table = sides_table(artifacts, fusion_of(artifacts).report)
        heads = [
            row.cells[0].text.partition(":")[0] for row in table.rows if not row.cells[0].text.startswith(" ")
        ]
        assert [head for head in heads if head] == [leaf.name for leaf in artifacts.post.leaves()]
        right = [row.cells[2].text.partition(":")[0] for row in table.rows]
        assert [name for name in right if name and not name.startswith(" ")] == [
            n.name for n in artifacts.post.nodes
        ]


def missing(artifacts: GraphArtifacts, side: str) -> str:
    nothing: dict[str, Any] = {side: None}
    fusion = fusion_of(replace(artifacts, **nothing))
    return sides_table(fusion.artifacts, fusion.report).text(0)


def test_a_missing_side_is_named_and_a_lost_node_shown() -> None:
    one, two = chain(2)
    artifacts = build.scheduled((one, two), (one,))
    assert missing(artifacts, "pre").startswith("ir_pre_fusion.txt is missing")
    assert missing(artifacts, "post").startswith("ir_post_fusion.txt is missing")
    table = sides_table(artifacts, fusion_of(artifacts).report)
    assert table.text(table.count - 1) == "op1: gone after fusion"


def test_lists_without_rows_say_why() -> None:
    alone = whole(*chain(1))
    assert missed_table(alone.report).text(0) == "No two groups share memory worth a fusion."
    nothing = fusion_of(build.artifacts())
    assert "nothing can be said" in nothing.table.text(0)
    assert "nothing can be said" in missed(nothing).text(0) and sides(nothing).count


# -- export


def test_odd_names_make_plain_file_names(tmp_path: Path) -> None:
    report = replace(whole(*chain(2)).report, ident="run_1/../model é:0")
    written = export_fusion(report, tmp_path)
    assert [path.parent for path in written] == [tmp_path, tmp_path]
    assert [path.name for path in written] == [
        "run_1_.._model_é_0-fusion.svg",
        "run_1_.._model_é_0-fusion.dot",
    ]
