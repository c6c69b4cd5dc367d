"""Groups, traffic, decisions and misses: by hand on small schedules, and what holds for every real run."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import build
import pytest
from click.testing import CliRunner
from sharing import unpacked
from words import text

from inspector.analysis.decisions import Names
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.missed import TINY_BYTES
from inspector.analysis.traffic import sizes_of, symbol_hints
from inspector.cli import cli
from inspector.model.calls import GraphRuns
from inspector.model.code import ExampleInput
from inspector.model.decision import Decision
from inspector.model.fusion import FusionReport, Missed
from inspector.model.fx import TensorMeta
from inspector.model.run import GraphArtifacts
from inspector.model.runnable import RunnableScript
from inspector.present.fusion import fold
from inspector.present.fusion import lines as words_of
from inspector.readers.run import Run
from inspector.units import size

X = ("x", build.layout(64, 100))


def dense(buffer: str, count: int = 6400) -> build.Dependency:
    return build.dep(buffer, "c0", c0=count)


def producer(**more: Any) -> build.SchedulerNode:
    return build.computed("op0", (dense("x"),), (64, 100), write=dense("buf0"), inputs=(X,), **more)


def consumer(**more: Any) -> build.SchedulerNode:
    return build.computed(
        "op1", (dense("buf0"), dense("x")), (64, 100), write=dense("buf1"), users="OUTPUT", **more
    )


def corpus_reports(corpus_runs: list[Path]) -> Iterator[tuple[Path, GraphArtifacts, FusionReport]]:
    for root in corpus_runs:
        for graph in Run.open(root).graphs:
            artifacts = graph.artifacts()
            if artifacts.post is not None:
                script = graph.runnable()
                symbols = script.symbols if script else None
                yield root, artifacts, analyse_fusion(artifacts, symbols=symbols)


@pytest.fixture(scope="module")
def analysed(corpus_runs: list[Path]) -> list[tuple[Path, GraphArtifacts, FusionReport]]:
    return list(corpus_reports(corpus_runs))


# -- traffic by hand


def test_a_chain_saves_the_buffer_between_and_the_common_read() -> None:
    one, two = producer(users="op1"), consumer()
    call = build.call(0, "cpp_fused_0", "cpp", outputs="buf1", reads="x")
    report = analyse_fusion(
        build.scheduled((one, two), (build.fused(one, two),), build.code(call, outputs=("buf1",)))
    )
    size = 25600
    assert report.bytes_unfused == 5 * size
    assert report.bytes_fused == 2 * size
    assert report.bytes_minimum == 2 * size
    (group,) = report.groups
    assert (group.kind, group.bytes_saved, group.kernel) == ("vertical", 3 * size, "cpp_fused_0")
    assert [access.buffer for access in group.gone] == ["buf0"]
    assert dict(report.counts_before) == {"pointwise": 2}
    assert dict(report.counts_after) == {"vertical": 1}


def test_a_buffer_that_a_launch_is_handed_is_not_gone() -> None:
    one, two = producer(users="op1"), consumer()
    call = build.call(0, "cpp_fused_0", "cpp", outputs="buf0 buf1", reads="x")
    report = analyse_fusion(build.scheduled((one, two), (build.fused(one, two),), build.code(call)))
    assert report.bytes_fused == 3 * 25600
    assert report.bytes_kept == 25600
    assert [access.buffer for access in report.groups[0].kept] == ["buf0"]


def test_reuse_alone_hands_nothing_over_and_a_view_does() -> None:
    one, two = producer(users="op1"), consumer()
    entry = build.fused(one, two)
    call = build.call(0, "cpp_fused_0", "cpp", outputs="buf9", reads="x")
    cases: tuple[tuple[Literal["reuse", "view"], int], ...] = (("reuse", 3), ("view", 2))
    for kind, saved in cases:
        alias = build.Alias(kind, "buf9", "buf0", "", build.SPAN)
        report = analyse_fusion(build.scheduled((one, two), (entry,), build.code(alias, call)))
        assert report.groups[0].bytes_saved == saved * 25600, kind


def test_a_buffer_with_a_reader_outside_or_a_result_is_written() -> None:
    one, two = producer(users="op1 op2"), consumer()
    reader = build.computed("op2", (dense("buf0"),), (64, 100), users="OUTPUT")
    report = analyse_fusion(build.scheduled((one, two, reader), (build.fused(one, two), reader)))
    assert {access.buffer for access in report.groups[0].writes} == {"buf0", "buf1"}
    one = producer(users="op1 OUTPUT")
    report = analyse_fusion(build.scheduled((one, two), (build.fused(one, two),)))
    assert {access.buffer for access in report.groups[0].writes} == {"buf0", "buf1"}
    assert report.bytes_minimum == 3 * 25600


def test_a_broadcast_counts_what_it_touches_and_weak_dependencies_count_nothing() -> None:
    weak = build.Dependency("weak", "x", "")
    one = build.computed(
        "op0",
        (build.dep("bias", "c1", c0=64, c1=100), weak),
        (64, 100),
        write=dense("buf0"),
        users="OUTPUT",
        inputs=(("bias", build.layout(64, 100)), X),
    )
    report = analyse_fusion(build.scheduled((one,), (one,)))
    (access,) = report.nodes[0].reads
    assert (access.buffer, access.bytes, access.basis) == ("bias", 400, "region")
    assert any("bias" in note for note in report.notes)


def test_a_buffer_named_twice_is_read_once() -> None:
    halves = (build.dep("x", "c0", c0=3200), build.dep("x", "c0 + 3200", c0=3200), dense("x"))
    one = build.computed("op0", halves, (6400,), users="OUTPUT", inputs=(X,))
    report = analyse_fusion(build.scheduled((one,), (one,)))
    assert report.nodes[0].bytes_read == 25600


def test_changing_an_input_in_place_is_written_and_part_of_the_minimum() -> None:
    one = build.computed("op0", (dense("x"),), (64, 100), write=dense("buf0"), mutates="x", inputs=(X,))
    report = analyse_fusion(build.scheduled((one,), (one,)))
    assert report.nodes[0].writes[0].memory == "x"
    assert (report.bytes_unfused, report.bytes_fused, report.bytes_minimum) == (51200, 51200, 51200)


def test_a_size_without_a_hint_makes_sums_null_and_says_so() -> None:
    symbolic = (("x", build.layout("s0", 100)),)
    one = build.computed("op0", (build.dep("x"),), (64, 100), users="OUTPUT", inputs=symbolic)
    artifacts = build.scheduled((one,), (one,))
    report = analyse_fusion(artifacts)
    assert (report.bytes_unfused, report.bytes_fused, report.bytes_minimum) == (None, None, None)
    assert any("size not known" in note for note in report.notes)
    assert analyse_fusion(artifacts, symbols={"s0": 64}).bytes_unfused == 51200


# -- kinds


@pytest.mark.parametrize(
    ("cls", "kind"),
    [
        ("OuterLoopFusedSchedulerNode", "outer_loop"),
        ("ForeachKernelSchedulerNode", "foreach"),
        ("FusedMixOrderReductions", "mix_order"),
        ("FusedNestedReductions", "nested_reduction"),
        ("FusedExternTritonKernelSchedulerNode", "user_epilogue"),
    ],
)
def test_a_class_of_its_own_says_the_kind(cls: str, kind: str) -> None:
    one, two = producer(), consumer()
    report = analyse_fusion(build.scheduled((one, two), (build.fused(one, two, cls=cls),)))
    assert report.groups[0].kind == kind


def test_flow_of_data_says_the_kind_of_a_plain_group() -> None:
    one, two = producer(), consumer()
    side = build.computed("op2", (dense("x"),), (64, 100))
    assert build_kind(one, side) == "horizontal"
    assert build_kind(one, two) == "vertical"
    assert build_kind(one, two, side) == "mixed"


def build_kind(*members: build.SchedulerNode) -> str:
    return analyse_fusion(build.scheduled(members, (build.fused(*members),))).groups[0].kind


def test_templates_tell_prologue_from_epilogue() -> None:
    def template(name: str, *reads: str) -> build.SchedulerNode:
        plain = build.computed(name, tuple(dense(read) for read in reads), (64, 100))
        return build.replace(plain, inner=("MultiTemplateBuffer",))

    before, after = producer(), build.computed("op2", (dense("buf1"),), (64, 100))
    middle = template("op1", "buf0")
    assert build_kind(before, middle) == "template_prologue"
    assert build_kind(middle, after) == "template_epilogue"
    assert build_kind(before, middle, after) == "template_both"


# -- decisions and misses by hand


def test_a_transposed_reader_is_missed_with_its_bytes_and_reason() -> None:
    one = producer(users="op1 OUTPUT")
    two = build.computed("op1", (build.dep("buf0", "c0 + 100*c1", c0=100, c1=64),), (100, 64), users="OUTPUT")
    log = build.fusion_log(("op0", "op1", "no shared data"))
    report = analyse_fusion(build.scheduled((one, two), (one, two), fusion=log))
    (missed,) = report.missed
    assert (missed.category, missed.verdict, missed.bytes) == ("index_mismatch", "rejected", 25600)
    assert "100*c1" in missed.plain
    assert missed.possible
    assert report.decisions[0].shared_bytes == 25600
    assert report.noise["no_shared_data"] == 0


def test_reductions_over_other_axes_are_no_matter_of_layouts() -> None:
    """Sinkhorn's: the rows' sums, then with these the columns' in parts; both read the whole matrix."""
    rows = build.computed("op0", (dense("x"),), (64,), reduce=(100,), inputs=(X,), users="op1")
    read = build.dep("buf0", "16*c0 + c2", c0=4, c1=100, c2=16)
    matrix = build.dep("x", "1600*c0 + c1 + 100*c2", c0=4, c1=100, c2=16)
    columns = build.computed("op1", (read, matrix), (4, 100), reduce=(16,), inputs=(X,), users="OUTPUT")
    log = build.fusion_log(("op0", "op1", "memory deps did not match"))
    (missed,) = analyse_fusion(build.scheduled((rows, columns), (rows, columns), fusion=log)).missed
    assert missed.category == "iteration_ranges" and missed.plain.startswith(
        "the two reduce over different axes"
    )
    assert "layouts" not in missed.advice
    # Of the same axis it is the addresses, of what is handed on.
    other = build.computed("op1", (build.dep("buf0", "63 - c0", c0=64), dense("x")), (64,), reduce=(100,))
    (missed,) = analyse_fusion(build.scheduled((rows, other), (rows, other), fusion=log)).missed
    assert missed.category == "index_mismatch" and "buf0" in missed.plain


def test_a_sum_down_the_columns_of_what_another_writes_by_rows_cannot_fuse() -> None:
    """A bias's gradient, summed in parts; one along the rows might."""

    def missed(index: str) -> Missed:
        one = producer(users="op1 OUTPUT")
        read = build.dep("buf0", index, c0=4, c1=100, c2=16)
        two = build.computed("op1", (read,), (4, 100), reduce=(16,), users="OUTPUT")
        log = build.fusion_log(("op0", "op1", "memory deps did not match"))
        (pair,) = analyse_fusion(build.scheduled((one, two), (one, two), fusion=log)).missed
        return pair

    down = missed("1600*c0 + c1 + 100*c2")
    assert (down.category, down.possible) == ("index_mismatch", False)
    assert down.plain == "op1 reduces buf0 down its columns" and "layouts agree" not in down.advice
    along = missed("1600*c0 + 16*c1 + c2")
    assert along.possible and "layouts agree" in along.advice


def test_a_stencil_over_what_another_writes_cannot_fuse() -> None:
    """A gradient of a field that is written once: its neighbours are of other rounds of the loop."""
    one = producer(users="op1 OUTPUT")
    log = build.fusion_log(("op0", "op1", "memory deps did not match"))

    def missed(*reads: str) -> Missed:
        deps = tuple(build.dep("buf0", index, c0=64, c1=100) for index in reads)
        two = build.computed("op1", deps, (64, 100), users="OUTPUT")
        (pair,) = analyse_fusion(build.scheduled((one, two), (one, two), fusion=log)).missed
        return pair

    around = [f"100*c0 + (ModularIndexing(c1 + {step}, 1, 100))" for step in (1, 99)]
    pair = missed(*around)
    assert (pair.category, pair.possible) == ("index_mismatch", False)
    assert pair.plain == "op1 reads buf0 at 2 places for each of its elements"
    assert "layouts agree" not in pair.advice
    looked_up = missed("c1 + 100*tmp0")
    assert looked_up.plain == "op1 reads buf0 at places that are data" and not looked_up.possible
    rolled = missed("c1 + 100*(ModularIndexing(c0 + 3, 1, 64))")
    assert rolled.plain == "op1 reads buf0 rolled" and not rolled.possible
    assert missed("c0 + 64*c1").possible


def test_slices_of_other_extents_are_no_layouts() -> None:
    """Two components of a field on a staggered grid, that read the same third one: as many elements in the
    same order, and others of them. Not where only the order differs, or one of the tensors they share."""
    log = build.fusion_log(("op0", "op1", "memory deps did not match"))

    shared = tuple((name, build.layout(40, 40)) for name in "xy")

    def missed(*second: build.Dependency) -> Missed:
        first = (build.dep("x", "40*c0 + c1 + 1", c0=40, c1=39), build.dep("y", "40*c0 + c1", c0=40, c1=39))
        one = build.computed("op0", first, (40, 39), inputs=shared, users="OUTPUT")
        two = build.computed("op1", second, (39, 40), inputs=shared, users="OUTPUT")
        (pair,) = analyse_fusion(build.scheduled((one, two), (one, two), fusion=log)).missed
        return pair

    x, y = (build.dep(name, "40*c0 + c1 + 40", c0=39, c1=40) for name in "xy")
    pair = missed(x, y)
    assert (pair.category, pair.possible) == ("index_mismatch", False)
    assert pair.plain == "of x the one reads [40, 39], the other [39, 40]"
    assert "layouts agree" not in pair.advice
    assert missed(build.dep("x", "c0 + 40*c1", c0=39, c1=40), y).possible
    assert missed(x, build.dep("y", "40*c0 + c1", c0=40, c1=39)).possible


def test_slices_may_be_of_symbolic_sizes() -> None:
    """A length that differs from batch to batch beside one that is a number."""
    log = build.fusion_log(("op0", "op1", "memory deps did not match"))
    shared = (("x", build.layout(40, 40)),)
    symbolic = build.replace(build.dep("x", "40*c0 + c1", c0=40, c1=39), ranges=(("c0", "s2"), ("c1", 39)))
    first = build.computed(
        "op0", (symbolic, build.dep("x", "40*c0 + c1", c0=40, c1=39)), (40, 39), inputs=shared
    )
    other = build.dep("x", "40*c0 + c1", c0=39, c1=40)
    second = build.computed("op1", (other,), (39, 40), inputs=shared)
    report = analyse_fusion(build.scheduled((first, second), (first, second), fusion=log))
    (pair,) = report.missed
    assert pair.plain.startswith("of x the one reads [s2, 39] and [40, 39], ")


def test_reductions_that_are_split_in_another_way_are_nothing_to_change() -> None:
    """A sum over rows, and one of what is divided by it, whose loops torch had merged: ``[s0*s1]``."""
    rows = build.computed("op0", (dense("x"),), (6400,), reduce=(9,), inputs=(X,), users="op1")
    split = build.computed("op1", (build.dep("buf0", "100*c0 + c1", c0=64, c1=100),), (64, 100), reduce=(9,))
    log = build.fusion_log(("op0", "op1", "numel/rnumel mismatch (non-reduce)"))
    rows, split = (
        build.replace(node, sizes=((sizes), ("s2",)))
        for node, sizes in ((rows, ("s0*s1",)), (split, ("s0", "s1")))
    )
    (missed,) = analyse_fusion(build.scheduled((rows, split), (rows, split), fusion=log)).missed
    assert missed.category == "iteration_ranges" and not missed.possible
    assert missed.advice.startswith("Nothing in the program")


def test_a_common_read_is_saved_once_and_a_dead_buffer_twice() -> None:
    one, two = producer(users="op1"), consumer()
    log = build.fusion_log(("op0", "op1", "Nodes are too far away. Fusing them may increase peak memory."))
    report = analyse_fusion(build.scheduled((one, two), (one, two), fusion=log))
    (missed,) = report.missed
    assert missed.bytes == 3 * 25600, "write and read of buf0, and one read of x"
    together = analyse_fusion(build.scheduled((one, two), (build.fused(one, two),)))
    assert report.bytes_fused is not None and together.bytes_fused is not None
    assert report.bytes_fused - missed.bytes == together.bytes_fused


def test_what_lies_between_is_named_and_impossible() -> None:
    one = producer(users="op1 op2")
    wall = build.computed("op1", (build.dep("buf0"),), (64, 100), kernel="extern_kernels.mm", users="op2")
    two = build.computed("op2", (dense("buf0"), dense("buf1")), (64, 100), users="OUTPUT")
    log = build.fusion_log(("op0", "op2", "intermediate nodes between node1 & node2"))
    report = analyse_fusion(build.scheduled((one, wall, two), (one, wall, two), fusion=log))
    pairs = {(missed.first, missed.second): missed for missed in report.missed}
    assert pairs["op0", "op2"].category == "cycle"
    assert pairs["op0", "op2"].between == ("op1",)
    assert not pairs["op0", "op2"].possible
    extern = pairs["op0", "op1"]
    assert (extern.verdict, extern.category, extern.possible) == ("never_tried", "extern_kernel", False)
    assert "extern_kernels.mm" in extern.plain


def test_noise_is_left_out_and_counted() -> None:
    tiny = ("scale", build.layout(1))
    nodes = tuple(
        build.computed(name, (build.dep("scale", "0", c0=1), dense(source)), (64, 100), users="OUTPUT",
                       inputs=(tiny, (source, build.layout(64, 100))))
        for name, source in (("op0", "x"), ("op1", "y"))
    )  # fmt: skip
    log = build.fusion_log(("op0", "op1", "score_fusion_memory_threshold"))
    report = analyse_fusion(build.scheduled(nodes, nodes, fusion=log))
    assert report.missed == ()
    assert report.noise["tiny"] == 1
    (minor,) = report.minor
    assert minor.bytes is not None and minor.bytes < TINY_BYTES
    assert "less than 1 KB" in text(words_of([report], 100))
    assert "scale" not in text(words_of([report], 100))
    assert "scale" in text(words_of([report], 100, everything=True))


def test_a_refusal_whose_members_fused_later_is_no_miss() -> None:
    one, two = producer(), consumer()
    log = build.fusion_log(("op1", "op0", "node1 must go before node2"), ("op0", "op1", None))
    report = analyse_fusion(build.scheduled((one, two), (build.fused(one, two),), fusion=log))
    assert [decision.fused_later for decision in report.decisions] == [True, False]
    assert report.missed == ()
    assert report.noise["fused_later"] == 1


def test_the_wrong_way_round_gives_way_to_the_real_reason() -> None:
    one, two = producer(), consumer()
    log = build.fusion_log(
        ("op0", "op1", "memory deps did not match"), ("op1", "op0", "node1 must go before node2")
    )
    report = analyse_fusion(build.scheduled((one, two), (one, two), fusion=log))
    assert report.missed[0].category == "index_mismatch"


def test_recorded_decisions_replace_the_log() -> None:
    one, two = producer(), consumer()
    log = build.fusion_log(("op0", "op1", "no shared data"))
    record = Decision("A", "B", 1, "rejected", "exceeds max fusion", None, False, ("op0",), ("op1",))
    whole = build.scheduled((one, two), (one, two), fusion=log)
    report = analyse_fusion(build.replace(whole, record=build.graph_record(record)))
    assert report.decision_source == "recorder"
    assert report.missed[0].category == "limit"


def test_differing_loops_and_devices_are_told_where_torch_wrote_nothing() -> None:
    one = producer()
    other = build.computed("op1", (dense("buf0", 1600),), (1600,), write=dense("buf1", 1600), users="OUTPUT")
    log = build.fusion_log()
    report = analyse_fusion(build.scheduled((one, other), (one, other), fusion=log))
    assert (report.missed[0].category, report.missed[0].verdict) == ("iteration_ranges", "never_tried")
    assert report.missed[0].inferred
    gpu = build.replace(other, device="cuda:0")
    report = analyse_fusion(build.scheduled((one, gpu), (one, gpu), fusion=log))
    assert report.missed[0].category == "device"


def test_no_shared_data_over_different_loops_is_a_matter_of_the_loops() -> None:
    total = build.computed("op0", (dense("x"),), (1024,), reduce=(8,), users="op1", inputs=(X,))
    spread = build.computed("op1", (build.dep("buf0", "c1", c0=30, c1=1024),), (30, 1024), users="OUTPUT")
    log = build.fusion_log(("op0", "op1", "no shared data"))
    report = analyse_fusion(build.scheduled((total, spread), (total, spread), fusion=log))
    (missed,) = report.missed
    assert (missed.category, missed.bytes) == ("iteration_ranges", 8192)
    assert "[1024] reduce [8]" in missed.plain and "[30, 1024]" in missed.plain


def test_a_third_reader_keeps_the_buffer_and_half_of_the_gain() -> None:
    one, two = producer(users="op1 op2"), consumer()
    third = build.computed("op2", (dense("buf0"),), (64, 100), users="OUTPUT")
    report = analyse_fusion(build.scheduled((one, two, third), (one, two, third)))
    bytes_of = {(missed.first, missed.second): missed.bytes for missed in report.missed}
    assert bytes_of["op0", "op1"] == 2 * 25600, "reads of buf0 and x; buf0 is still written"
    assert bytes_of["op1", "op2"] == 25600


def test_misses_come_worst_first_and_the_unknown_last() -> None:
    def pair(number: int, *size: int | str) -> tuple[build.SchedulerNode, build.SchedulerNode]:
        source = f"in{number}"
        known = ((source, build.layout(*size)),)
        return tuple(  # type: ignore[return-value]
            build.computed(name, (build.dep(source),), (4,), users="OUTPUT", inputs=known)
            for name in (f"op{number}", f"op{number + 1}")
        )

    nodes = (*pair(0, "s0", 9), *pair(2, 1000), *pair(4, 9000), *pair(6, 5000))
    report = analyse_fusion(build.scheduled(nodes, nodes))
    assert [missed.bytes for missed in report.missed] == [36000, 20000, 4000, None]


def test_alike_misses_are_folded_and_ten_rows_are_shown() -> None:
    nodes = []
    for number in range(0, 40, 2):
        known = ((f"in{number}", build.layout(1000 + number)),)
        for name in (f"op{number}", f"op{number + 1}"):
            nodes.append(
                build.computed(name, (build.dep(f"in{number}"),), (4,), users="OUTPUT", inputs=known)
            )
    report = analyse_fusion(build.scheduled(tuple(nodes), tuple(nodes)))
    assert len(report.missed) == 20
    shown = text(words_of([report], 100))
    assert len(re.findall(r"^ +\d+\. ", shown, re.M)) == 10
    assert "... and 10 more (--all shows them)" in shown
    assert len(re.findall(r"^ +\d+\. ", text(words_of([report], 100, everything=True)), re.M)) == 20
    place = (build.SourceLocation("model.py", 3),)
    layers = [build.replace(missed, bytes=5, first_sources=place) for missed in report.missed]
    ((first, times),) = fold(layers)
    assert (first, times) == (layers[0], 19)


def test_hints_of_symbols_come_from_the_wrapper_and_from_shapes() -> None:
    def example(name: str, size: tuple[int, ...] | None, value: int | None) -> ExampleInput:
        return ExampleInput(name, size, None, "float32" if size else None, None, value, 1)

    alias = build.Alias("symbol", "s77", "primals_3", "", build.SPAN)
    inputs = (example("primals_3", None, 16), example("primals_1", (5, 64), None), example("n", None, 9))
    wrapper = build.replace(build.code(alias), example_inputs=inputs)
    meta = TensorMeta("float32", ("s33", 64))
    shaped = build.replace(build.fx_node("primals_1", ""), meta=meta, annotation="f32[s33, 64]")
    graph = build.fx_graph(shaped, build.replace(build.fx_node("n", ""), annotation="Sym(s5)"))
    assert symbol_hints(wrapper, None) == {"s77": 16}
    assert symbol_hints(wrapper, graph) == {"s77": 16, "s33": 5, "s5": 9}


def test_sizes_are_those_of_the_mean_run_where_the_recorder_saw_runs() -> None:
    """Compiled for the last batch of an epoch, a quarter of a full one, and then called with full ones."""
    alias = build.Alias("symbol", "s77", "primals_3", "", build.SPAN)
    inputs = [build.fx_node(name, "") for name in ("primals_1", "primals_3", "primals_4")]
    inputs[2] = build.replace(inputs[2], annotation="Sym(s5)")
    same = build.Alias("symbol", "s4", "s77", "", build.SPAN)
    artifacts = build.artifacts(output=build.code(alias, same), fx=build.fx_graph(*inputs))
    script = RunnableScript(symbols={"s77": 902, "s9": 3})
    runs = GraphRuns("g", "p", 40, (), given=3, sizes=((1, 3711.6), (2, 96.0)))
    assert sizes_of(artifacts, script, runs) == {"s77": 3712, "s4": 3712, "s9": 3, "s5": 96}
    assert sizes_of(artifacts, script, build.replace(runs, given=2)) == {"s77": 902, "s9": 3}
    assert sizes_of(artifacts, script, None) == {"s77": 902, "s9": 3}
    assert sizes_of(artifacts, None, None) == {}


def test_names_of_subgraph_nodes_are_taken_apart() -> None:
    names = ("true_graph_0_op0", "true_graph_0_op1")
    one, two = (build.computed(name, (dense("x"),), (64, 100), inputs=(X,)) for name in names)
    report = analyse_fusion(build.scheduled((one, two), (one, two)))
    names_of = Names(report.nodes)
    assert names_of.members("_".join(names)) == names
    assert names_of.members("true_graph_0_op0_elsewhere_1") == names[:1]


def test_a_graph_with_subgraphs_takes_the_decisions_about_the_schedule_that_is_kept(tmp_path: Path) -> None:
    unpacked(Path(__file__).parent / "data" / "extra" / "torch-logs-2.13-cpu.tar.xz", tmp_path)
    root = tmp_path / "cond"
    process = root / "torch_compile_debug" / "run_2026_11_21_07_15_08_152466-pid_9809"
    (process / "torchinductor" / "model__0_inference_0.0").mkdir(parents=True)
    (graph,) = Run.open(root).graphs
    log = graph.fusion()
    assert log is not None
    assert log.part == 4
    assert log.candidates[0].name == "while_loop_body_graph_0_op0"


# -- real runs


def test_every_leaf_is_in_exactly_one_group(
    analysed: list[tuple[Path, GraphArtifacts, FusionReport]],
) -> None:
    assert len(analysed) > 40
    for root, artifacts, report in analysed:
        assert artifacts.post is not None
        assert artifacts.pre is not None
        counts = Counter(name for group in report.groups for name in group.nodes)
        assert set(counts) == {leaf.name for leaf in artifacts.pre.leaves()}, root
        assert set(counts.values()) == {1}, root
        assert [group.name for group in report.groups] == [node.name for node in artifacts.post.nodes]


def test_bytes_add_up_and_stay_in_order(analysed: list[tuple[Path, GraphArtifacts, FusionReport]]) -> None:
    for root, _, report in analysed:
        unfused, fused, least = report.bytes_unfused, report.bytes_fused, report.bytes_minimum
        assert unfused is not None and fused is not None and least is not None, root
        assert least <= fused <= unfused, root
        saved = [group.bytes_saved for group in report.groups]
        assert all(value is not None and value >= 0 for value in saved), root
        assert unfused - fused == sum(value for value in saved if value is not None)
        assert sum(group.bytes_fused or 0 for group in report.groups) == fused
        for group in report.groups:
            assert group.bytes_saved == 0 or len(group.nodes) > 1


def test_two_versions_of_torch_move_the_same_bytes(corpus: Path) -> None:
    """The same program under 2.4.1, which prints no layout of library calls, and under 2.13."""
    totals = []
    for version in ("cpu-torch2.4.1", "cpu-torch2.13"):
        graphs = Run.open(corpus / version / "mlp").graphs
        totals.append([analyse_fusion(graph.artifacts()).bytes_fused for graph in graphs])
    assert totals[0] == totals[1]


def test_every_line_of_the_log_is_a_decision(
    analysed: list[tuple[Path, GraphArtifacts, FusionReport]],
) -> None:
    seen = 0
    for root, artifacts, report in analysed:
        assert artifacts.fusion is not None, root
        lines = {(item.line, item.verdict) for item in artifacts.fusion.decisions}
        timed = {item.line for item in artifacts.fusion.benchmarks if item.verdict == "rejected"}
        assert {(d.line, d.verdict) for d in report.decisions} == lines | {(n, "rejected") for n in timed}
        names = {node.name for node in report.nodes}
        names_of = Names(report.nodes)
        for decision in report.decisions:
            seen += 1
            assert set(names_of.members(decision.first)) <= names
            assert names_of.members(decision.first) and names_of.members(decision.second), decision
    assert seen > 3000


def test_fused_lines_end_in_one_group(analysed: list[tuple[Path, GraphArtifacts, FusionReport]]) -> None:
    for root, _, report in analysed:
        for decision in report.decisions:
            if decision.verdict == "fused":
                names = f"{decision.first}_{decision.second}".split("_")
                assert len({report.group(name) for name in names if report.group(name)}) == 1, root


def test_other_reasons_are_below_two_percent(
    analysed: list[tuple[Path, GraphArtifacts, FusionReport]],
) -> None:
    found = Counter(d.category for _, _, report in analysed for d in report.decisions if d.category)
    assert sum(found.values()) > 3000
    assert found["other"] < 0.02 * sum(found.values()), found


def test_benchmark_lines_with_colours_are_decisions(corpus: Path) -> None:
    (graph,) = Run.open(corpus / "h200-torch2.11" / "autotune").graphs
    report = analyse_fusion(graph.artifacts())
    slower = [decision for decision in report.decisions if decision.category == "measured_slower"]
    assert [(decision.first, decision.second) for decision in slower] == [("op0", "op1")]
    assert report.missed[0].category == "measured_slower"
    assert [group.kind for group in report.groups if len(group.nodes) > 1] == ["template_epilogue"]


def test_kept_buffers_of_cpu_and_gpu_are_those_of_the_generated_code(corpus: Path) -> None:
    expected = {
        ("cpu-torch2.13", "softmax"): ["buf1", "buf3"],
        ("cpu-torch2.4.1", "softmax"): ["buf1", "buf2", "buf3"],
        ("h200-torch2.11", "norms"): ["buf3"],
        ("h200-torch2.11", "softmax"): [],
    }
    for (version, name), buffers in expected.items():
        (graph,) = Run.open(corpus / version / name).graphs
        report = analyse_fusion(graph.artifacts())
        assert [access.buffer for group in report.groups for access in group.kept] == buffers, (version, name)


def test_softmax_by_hand(corpus: Path) -> None:
    """mm reads 2 and writes 1 matrix of 40 KB; the chain reads the product and writes the result."""
    (graph,) = Run.open(corpus / "cpu-torch2.13" / "softmax").graphs
    report = analyse_fusion(graph.artifacts())
    matrix, row = 40_000, 400
    chain = (matrix + row) + (matrix + row + matrix) + (matrix + row) + (matrix + row + matrix)
    assert report.bytes_unfused == 3 * matrix + chain
    assert report.bytes_fused == 3 * matrix + 2 * matrix + 2 * row
    assert report.bytes_minimum == 3 * matrix


# -- the command


def test_json_keeps_the_contract(corpus: Path) -> None:
    root = corpus / "h200-torch2.11" / "breaks"
    result = CliRunner().invoke(cli, ["fusions", str(root), "--json"], catch_exceptions=False)
    data = json.loads(result.output)
    assert data["schema"] == "inspector.fusions/1"
    assert data["decision_source"] == "log"
    assert len(data["graphs"]) == 12
    for graph in data["graphs"]:
        assert set(graph) >= {"name", "groups", "decisions", "bytes_unfused", "bytes_fused", "bytes_minimum"}
        for group in graph["groups"]:
            assert set(group) >= {"name", "kind", "nodes", "kernel", "bytes_saved"}
            assert group["kernel"], "every group of this run is launched"
        for decision in graph["decisions"]:
            keys = {"first", "second", "round", "verdict", "reason", "category", "shared_bytes"}
            assert set(decision) >= keys
            assert decision["verdict"] in ("fused", "rejected", "never_tried")


def test_text_names_counts_bytes_and_misses_within_the_width(corpus: Path) -> None:
    (graph,) = Run.open(corpus / "cpu-torch2.13" / "softmax").graphs
    shown = text(words_of([analyse_fusion(graph.artifacts())], 80))
    assert all(len(line) <= 80 for line in shown.splitlines())
    for part in ("1 outer loop", "362 KB unfused", "201 KB as fused", "120 KB at least", "op0 + op1"):
        assert part in shown, part
    assert [size(value) for value in (None, 0, 999, 40_000, 33_554_432)] == [
        "?", "0 B", "999 B", "40.0 KB", "33.6 MB",
    ]  # fmt: skip


def test_no_line_of_a_long_report_is_wider_than_asked(corpus: Path) -> None:
    for graph in Run.open(corpus / "h200-torch2.11" / "resnet50").graphs:
        report = analyse_fusion(graph.artifacts())
        for width in (80, 120):
            shown = text(words_of([report], width, everything=True))
            assert max(map(len, shown.splitlines())) <= width
            numbers = [int(found) for found in re.findall(r"^ +(\d+)\. ", shown, re.M)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert {int(found) for found in re.findall(r"as for (\d+)\.", shown)} <= set(numbers)


def test_runs_without_log_or_schedule_say_so(corpus: Path) -> None:
    root = corpus / "cpu-torch2.13" / "softmax"
    bare = next(root.glob("torch_compile_debug/run_*/torchinductor/model__*"))
    (graph,) = Run.open(bare).graphs
    report = analyse_fusion(graph.artifacts())
    assert report.decision_source == "none"
    assert any("TORCH_LOGS=fusion" in note for note in report.notes)
    assert report.missed[0].verdict == "never_tried"
    (traced,) = Run.open(root / "trace").graphs
    empty = analyse_fusion(traced.artifacts())
    assert (empty.bytes_unfused, empty.bytes_fused, empty.bytes_minimum) == (None, None, None)
    assert any("nothing can be said" in note for note in empty.notes)
