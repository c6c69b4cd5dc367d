"""Work that nobody asked for: bytes and evaluations of real graphs against those counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import explained
from sharing import unpacked

from inspector.analysis.constants import constant_nodes
from inspector.analysis.evaluations import chain, evaluations, is_heavy
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.linkage import link_graph
from inspector.analysis.loop_values import LoopValues
from inspector.analysis.roofline import place
from inspector.analysis.traffic import Memory, moves_nothing, writes_of
from inspector.analysis.whole_operators import whole_operators
from inspector.analysis.written_in_place import writes_in_place
from inspector.explain import in_vain
from inspector.explain.case import Case
from inspector.explain.gather import gather
from inspector.explain.in_vain import not_computed_ms
from inspector.explain.launches import gathers
from inspector.explain.least import Machine, least_of
from inspector.explain.profiles import load_profiles
from inspector.explain.program import read_program
from inspector.explain.rules import (
    cpu_not_vectorized,
    decomposition_slower,
    precision_upcast,
    random_numbers,
    recomputed,
)
from inspector.explain.whole_operators import no_slower_than_aten
from inspector.gather import fusion_of, summary_of
from inspector.model.fusion import FusionReport
from inspector.model.links import Linkage
from inspector.model.peaks import Peaks
from inspector.model.replay import GraphReplay, KernelReplay, OperatorReplay, Timing
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import LoopBody, SchedulerNode
from inspector.model.source import LineSpan, SourceLocation
from inspector.model.two_sides import Block, Joined, KernelTime, Sides, SideTotals
from inspector.model.waste import OperatorInput, WholeOperator
from inspector.present.code import kernels_table
from inspector.present.fusion import lines as fusion_lines
from inspector.present.fx import fx_document, with_waste
from inspector.present.summary import lines as summary_lines
from inspector.present.tables import table_lines
from inspector.present.waste import call_texts, node_texts, waste_lines
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run
from inspector.readers.schedule import parse_post_fusion
from inspector.replay.plan import graph_files

STORIES = Path(__file__).parent.parent / "sample_runs" / "stories"
DATA = Path(__file__).parent / "data" / "extra" / "waste-torch2.13.tar.xz"
AGAIN = DATA.with_name("again-torch2.13.tar.xz")
FLOAT = 4


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of one small program each, as torch 2.13 compiled it for a CPU."""
    return unpacked(DATA, tmp_path_factory.mktemp("waste"))


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, profiled: writes that are each made of those before, and integers divided in an index."""
    return unpacked(AGAIN, tmp_path_factory.mktemp("again"))


def report(folder: Path) -> FusionReport:
    return analyse_fusion(Run.open(folder).graphs[0].artifacts())


# -- bytes


def test_no_graph_is_asked_for_more_than_it_moves(corpus_runs: list[Path], runs: Path) -> None:
    """And for as much where the program writes nothing in part."""
    rewriting = set()
    for path in [*corpus_runs, *sorted(runs.iterdir())]:
        for graph in Run.open(path).graphs:
            result = analyse_fusion(graph.artifacts())
            for group in result.groups:
                if group.bytes_moved is None:
                    assert group.bytes_asked is None
                    continue
                assert group.bytes_asked is not None and 0 <= group.bytes_asked <= group.bytes_moved
                if not result.rewritten:
                    assert group.bytes_asked == group.bytes_moved
            for item in result.rewritten:
                rewriting.add(path.name)
                assert item.asked < item.moved
                assert sum(amount for _, amount in item.groups) == item.wasted
    assert rewriting == {"kv_static", "kv_inplace_two"}


def test_rows_of_views_of_views_are_all_that_is_asked_for(runs: Path) -> None:
    """Four layers write 8 rows of 64 into keys and into values, and read 128 rows of 8 heads of both."""
    result = report(runs / "kv_static")
    (item,) = result.rewritten
    written = 4 * 2 * (8 * 64) * FLOAT
    read = 4 * 2 * (8 * 128 * 64) * FLOAT
    assert item.asked == written + read
    assert item.storage == "arg0_1" and len(item.writes) == 8
    assert [(place.path, place.line) for place in item.sources] == [
        ("/home/user/kv_static.py", 9),
        ("/home/user/kv_static.py", 10),
    ]
    # Each layer passes on the layer's keys and values and the whole of the cache.
    cache = 4 * 2 * 8 * 2048 * 64 * FLOAT
    assert item.moved > 10 * cache


def test_rows_by_index_are_all_that_is_asked_for(runs: Path) -> None:
    (item,) = report(runs / "kv_inplace_two").rewritten
    assert item.asked == 4 * 2 * (4 * 64 + 4 * 128 * 64) * FLOAT


def test_a_write_that_stays_in_place_only_orders_what_reads_it(runs: Path) -> None:
    """A row is written into a ring of 33 MB; the node depends on all of it, and moves the row."""
    result = report(runs / "ring")
    first = result.groups[0]
    assert first.bytes_moved == first.bytes_asked == 2 * 64 * 32 * FLOAT
    assert not result.rewritten


def test_a_new_tensor_that_was_asked_for_is_no_waste(runs: Path) -> None:
    assert not report(runs / "kv_slice_return").rewritten


GRAPH = """class f(torch.nn.Module):
    def forward(self, x: "f32[8, 4]", y: "f32[8]"):
        # File: /home/user/m.py:3 in f, code: x[:, 1] = y.exp()
        exp: "f32[8]" = torch.ops.aten.exp.default(y);  y = None
        select: "f32[8]" = torch.ops.aten.select.int(x, 1, 1)
        copy: "f32[8]" = torch.ops.aten.copy.default(select, exp);  select = exp = None
        part: "f32[8, 4]" = torch.ops.aten.select_scatter.default(x, copy, 1, 1);  copy = None
        sin: "f32[8, 4]" = torch.ops.aten.sin.default({read})
        copy_: "f32[8, 4]" = torch.ops.aten.copy_.default(x, part);  x = part = copy_ = None
        return (sin,)
"""


@pytest.mark.parametrize(("read", "storages"), [("part", {"x"}), ("x", set())])
def test_an_old_version_that_is_still_read_has_to_be_kept(read: str, storages: set[str]) -> None:
    graph = parse_fx_graph(GRAPH.format(read=read), "fx_graph_transformed.py")
    assert set(writes_in_place(graph, None).storages) == storages


def test_what_is_read_before_the_write_in_the_program_may_come_later_in_the_lowered_graph() -> None:
    """The post-grad passes sort the graph anew."""
    after = GRAPH.format(read="x").splitlines()
    (read,) = [line for line in after if "sin:" in line]
    before = [line for line in after if line != read]
    before.insert(3, read)
    graphs = (parse_fx_graph("\n".join(lines) + "\n", "fx") for lines in (after, before))
    assert set(writes_in_place(*graphs).storages) == {"x"}


def test_a_version_that_is_not_copied_back_is_a_copy_that_was_asked_for() -> None:
    text = "\n".join(line for line in GRAPH.format(read="part").splitlines() if "copy_:" not in line)
    assert not writes_in_place(parse_fx_graph(text, "fx"), None).storages


COMPLEX = """op0: ExternKernelSchedulerNode(FallbackKernel)
op0.writes = [StarDep(name='buf1', mode=None)]
op0.unmet_dependencies = []
op0.met_dependencies = [StarDep(name='x', mode=None)]
op0.outputs = [
    buf1: FallbackKernel
    buf1.layout = FixedLayout('cpu', torch.complex64, size=[8, 8], stride=[8, 1])
]
op0.node.kernel = %s
"""


@pytest.mark.parametrize(
    ("kernel", "nothing"), [("aten.slice.Tensor", True), ("aten._fft_c2c.default", False)]
)
def test_a_view_that_is_left_to_aten_moves_nothing(kernel: str, nothing: bool) -> None:
    schedule = parse_post_fusion(COMPLEX % kernel, "ir_post_fusion.txt")
    (leaf,) = schedule.leaves()
    assert moves_nothing(leaf) == nothing


PARTS = (
    COMPLEX.replace("FixedLayout('cpu', torch.complex64, size=[8, 8], stride=[8, 1])", "MultiOutputLayout")
    + """

op1: ExternKernelSchedulerNode(MultiOutput)
op1.writes = [StarDep(name='buf2', mode=None)]
op1.unmet_dependencies = [StarDep(name='buf1', mode=None)]
op1.met_dependencies = []
op1.outputs = [
    buf2: MultiOutput
    buf2.layout = FixedLayout('cpu', torch.complex64, size=[8, 8], stride=[8, 1])
]
op1.node.kernel = None
"""
)


@pytest.mark.parametrize(
    ("kernel", "written"), [("aten.view_as_complex.default", 0), ("aten._fft_c2c.default", 512)]
)
@pytest.mark.parametrize("text", [COMPLEX, PARTS])
def test_a_view_writes_nothing_where_its_tensor_is_a_node_of_its_own_too(
    kernel: str, written: int, text: str
) -> None:
    schedule = parse_post_fusion(text % kernel, "ir_post_fusion.txt")
    leaves = {leaf.name: leaf for leaf in schedule.leaves()}
    memory = Memory(GraphArtifacts("g", "g", "inference", post=schedule), leaves, Linkage((), ()))
    assert sum(access.bytes or 0 for access in writes_of(leaves.values(), memory)) == written


# -- evaluations


@pytest.mark.parametrize(
    ("name", "operator", "elements", "evaluated"),
    [
        # Windows of 3 by 3 with a step of 2 over 112 by 112: 56 rows of 3, one of which lies outside.
        ("gelu_pool", "erf", 8 * 64 * 112 * 112, 8 * 64 * (56 * 3 - 1) ** 2),
        # Twice the height and width, four neighbours for each.
        ("gelu_upsample", "erf", 4 * 64 * 64 * 64, 4 * 64 * 128 * 128 * 4),
        ("gather_table", "pow", 2000 * 64, 40000 * 64),
    ],
)
def test_evaluations_by_hand(runs: Path, name: str, operator: str, elements: int, evaluated: int) -> None:
    (item,) = [item for item in report(runs / name).evaluations if item.operator == operator]
    assert (item.elements, item.evaluations, item.exact) == (elements, evaluated, True)
    assert [place.path for place in item.sources] == [f"/home/user/{name}.py"]


def test_writes_that_are_made_of_those_before_are_doubled_by_each(again: Path) -> None:
    """Three writes into slices: the first is in the second and third, each in two places."""
    first, second = [item for item in report(again / "sweep").evaluations if item.operator == "slice_scatter"]
    assert first.elements == len(first.fx) * 400 * 400
    assert first.occurrences > 8 * len(first.fx) and first.times > 8 and not first.exact
    assert {place.line for place in (*first.sources, *second.sources)} == {6, 7, 8}
    # Of all that a loop does, and as much of its arithmetic.
    assert 1 == first.whole > first.part > second.part > 0.7
    assert first.evaluations < first.beyond < 4 * first.evaluations


def test_writes_into_parts_that_are_computed_once_are_none(runs: Path) -> None:
    for folder in runs.iterdir():
        assert not [item for item in report(folder).evaluations if item.operator == "slice_scatter"]


def test_divisions_of_integers_weigh_what_they_take_without_vectors(again: Path) -> None:
    made = report(again / "torus").evaluations
    assert {item.operator for item in made} == {"remainder", "div"}
    (item,) = [each for each in made if each.times > 1.5]
    assert (item.operator, item.times) == ("remainder", 64.0)
    # A half of all that the loop does, which is counted by the same weights.
    assert 0.5 < item.part <= item.whole < 0.95


def test_divisions_that_are_done_again_are_told_as_such(again: Path) -> None:
    """Of what vectors of floats would save, those alone that are not the same again."""
    case = gather(Run.open(again / "torus"))
    (graph,) = [graph for graph in case.graphs if graph.runs]
    (told,) = recomputed.find(case)
    assert told.trial is not None and told.trial.label == "aten.remainder kept in memory"
    few = [item.cost_ms or 0.0 for item in cpu_not_vectorized.find(case)]
    once = replace(graph, fusion=replace(graph.fusion, evaluations=()))
    many = [item.cost_ms or 0.0 for item in cpu_not_vectorized.find(replace(case, graphs=(once,)))]
    assert many and sum(few) < 0.1 * sum(many)
    # A division of floats that is done again says nothing of them.
    (again_64,) = [item for item in graph.fusion.evaluations if item.times > 1.5]
    floats = replace(again_64, operator="div", fx=("sub",), elements=1)
    assert graph.artifacts.fx_nodes["sub"].target.startswith("torch.ops.aten.sub")
    once = replace(graph, fusion=replace(graph.fusion, evaluations=(floats,)))
    assert [item.cost_ms for item in cpu_not_vectorized.find(replace(case, graphs=(once,)))] == many


def test_what_is_computed_once_for_each_element_stays_so(corpus_runs: list[Path]) -> None:
    """Healthy models repeat no operator that costs something, but for rotations that heads share."""
    repeated = {
        (path.name, item.operator)
        for path in corpus_runs
        for graph in Run.open(path).graphs
        for result in [analyse_fusion(graph.artifacts())]
        for item in result.evaluations
        if item.times > 1.5 and item.operator not in ("rsqrt", "sqrt", "reciprocal")
    }
    assert repeated <= {("llama_infer", "cos"), ("llama_infer", "sin"), ("breaks", "div")}


BODY = """class op0_loop_body:
    var_ranges = {p0: 4, p1: 10}
    index0 = p1
    index1 = 10*p0 + p1
    index2 = p0
    def body(self, ops):
        get_index = self.get_index('index1')
        load = ops.load('x', get_index)
        exp = ops.exp(load)
        get_index_1 = self.get_index('index1')
        load_1 = ops.load('x', get_index_1)
        exp_1 = ops.exp(load_1)
        get_index_2 = self.get_index('index2')
        load_2 = ops.load('w', get_index_2)
        log = ops.log(load_2)
        get_index_3 = self.get_index('index0')
        index_expr = ops.index_expr(get_index_3, torch.int64)
        constant = ops.constant(3, torch.int64)
        lt = ops.lt(index_expr, constant)
        masked_subblock1 = self.masked_subblock1(lt, 0.0)
        return masked_subblock1
    def masked_subblock1(self, ops):
        get_index = self.get_index('index1')
        load = ops.load('x', get_index)
        exp = ops.exp(load)
        tanh = ops.tanh(load)
        return tanh
"""


def values(hoisted: bool) -> dict[str, list[int]]:
    body = LoopBody(
        "op0_loop_body",
        (("p0", 4), ("p1", 10)),
        (("index0", "p1"), ("index1", "10*p0 + p1"), ("index2", "p0")),
        tuple(BODY.splitlines()),
    )
    read = LoopValues(body, IndexReader(), {}, {}, apart=False)
    counted: dict[str, list[int]] = {}
    for value in read.computed(frozenset({"exp", "tanh", "log"}), hoisted):
        counted.setdefault(value.call, []).append(value.points)
    return counted


CHAIN = """\
class <lambda>(torch.nn.Module):
    def forward(self, x: "f32[8, 64]"):
        log10: "f32[8, 64]" = torch.ops.aten.log10.default(x)
        pow_1: "f32[8, 64]" = torch.ops.aten.pow.Tensor_Scalar(log10, 0.66);  log10 = None
        abs_1: "f32[8, 64]" = torch.ops.aten.abs.default(pow_1);  pow_1 = None
        unsqueeze: "f32[8, 1, 64]" = torch.ops.aten.unsqueeze.default(abs_1, 1);  abs_1 = None
        exp: "f32[8, 1, 64]" = torch.ops.aten.exp.default(unsqueeze);  unsqueeze = None
        return (exp,)
"""


def test_of_a_chain_the_end_is_kept_and_not_its_dearest_operator() -> None:
    """Keeping the logarithm alone leaves the power to be computed again and again."""
    nodes = {node.name: node for node in parse_fx_graph(CHAIN, "").nodes}
    assert chain("log10", nodes) == ("log10", "pow_1", "abs_1")
    assert [is_heavy(nodes[name]) for name in chain("log10", nodes)] == [True, True, False]
    twice = {**nodes, "pow_1": replace(nodes["pow_1"], users=("abs_1", "exp"))}
    assert chain("log10", twice) == ("log10", "pow_1")
    assert chain("log10", {**nodes, "abs_1": replace(nodes["abs_1"], users=("log10",))})[0] == "log10"


@pytest.mark.parametrize(
    ("exponent", "heavy"),
    [("0.66", True), ("arg1_1", True), ("40", True), ("0.5", False), ("2", False), ("-3.0", False)],
)
def test_a_power_that_is_multiplied_out_is_no_power(exponent: str, heavy: bool) -> None:
    power = {node.name: node for node in parse_fx_graph(CHAIN, "").nodes}["pow_1"]
    assert is_heavy(replace(power, arguments=(power.arguments[0], exponent))) is heavy


def test_what_is_the_same_in_all_rows_of_a_reduction_is_computed_once_for_a_tile_of_them() -> None:
    """A value of p1 alone, in a kernel whose rows are p0; on a CPU and in a kernel without rows each time."""
    lines = (
        "class op0_loop_body:",
        "    def body(self, ops):",
        "        get_index = self.get_index('index0')",
        "        load = ops.load('x', get_index)",
        "        log = ops.log(load)",
    )

    def points(index: str, rows: int) -> list[int]:
        body = LoopBody("b", (("p0", 4), ("p1", 10)), (("index0", index),), lines)
        read = LoopValues(body, IndexReader(), {}, {}, apart=False, rows=rows)
        return [value.points for value in read.computed(frozenset({"log"}), hoisted=True)]

    assert points("p1", 1) == [10] and points("p1", 0) == [40]
    assert points("10*p0 + p1", 1) == [40] and points("p0", 1) == [4]


def test_alike_values_count_once_masked_ones_where_the_mask_holds() -> None:
    assert values(hoisted=True) == {"exp": [40], "log": [4], "tanh": [4 * 3]}
    assert values(hoisted=False)["log"] == [40]


def loop(*lines: str) -> LoopValues:
    indexing = (("index0", "p0"),)
    return LoopValues(LoopBody("b", (("p0", 8),), indexing, lines), IndexReader(), {}, {}, apart=False)


def test_a_chain_of_thousands_of_values() -> None:
    chain = [f"        exp_{n + 1} = ops.exp(exp_{n})" for n in range(5000)]
    ands = [f"        and_{n + 1} = ops.and_(and_{n}, and_{n})" for n in range(3000)]
    read = loop(
        "    def body(self, ops):",
        "        get_index = self.get_index('index0')",
        "        exp_0 = ops.load('x', get_index)",
        *chain,
        "        and_0 = ops.lt(exp_0, exp_1)",
        *ands,
        "        masked_subblock1 = self.masked_subblock1(and_3000, 0.0)",
        "    def masked_subblock1(self, ops):",
        "        get_index = self.get_index('index0')",
        "        load = ops.load('y', get_index)",
        "        tanh = ops.tanh(load)",
        "        return tanh",
    )
    computed = [item.points for item in read.computed(frozenset({"exp"}), hoisted=True)]
    assert computed == [8] * 5000
    assert [item.exact for item in read.computed(frozenset({"tanh"}), hoisted=True)] == [False]


def test_a_mask_that_cannot_be_counted_holds_everywhere() -> None:
    """An index that damage made a power: 9 to the 9th is none of a loop."""
    lines = (
        "    def body(self, ops):",
        "        get_index = self.get_index('index0')",
        "        index_expr = ops.index_expr(get_index, torch.int64)",
        "        get_index_1 = self.get_index('index1')",
        "        index_expr_1 = ops.index_expr(get_index_1, torch.int64)",
        "        lt = ops.lt(index_expr, index_expr_1)",
        "        masked_subblock1 = self.masked_subblock1(lt, 0.0)",
        "    def masked_subblock1(self, ops):",
        "        get_index = self.get_index('index0')",
        "        load = ops.load('y', get_index)",
        "        tanh = ops.tanh(load)",
        "        return tanh",
    )

    def read(second: str) -> list[tuple[int, bool]]:
        body = LoopBody("b", (("p0", 10),), (("index0", "p0"), ("index1", second)), lines)
        values = LoopValues(body, IndexReader(), {}, {}, apart=False)
        return [(item.points, item.exact) for item in values.computed(frozenset({"tanh"}), hoisted=True)]

    assert read("4") == [(4, True)]
    assert read("p0**p0") == [(10, False)]


@pytest.mark.parametrize("inner", [["1", "2"], ["1"]])
def test_masked_parts_that_hold_each_other_have_no_end(inner: list[str]) -> None:
    lines = ["    def body(self, ops):", "        load = ops.load('x', 0)"]
    lines += [f"        m_{n} = self.masked_subblock{n}(load, 0.0)" for n in inner]
    for part in ("1", "2"):
        lines += [f"    def masked_subblock{part}(self, ops):", f"        load = ops.load('y{part}', 0)"]
        lines += [f"        m_{n} = self.masked_subblock{n}(load, 0.0)" for n in inner]
    with pytest.raises(ValueError, match="no end"):
        loop(*lines)


def test_what_is_computed_under_a_mask_is_a_function_of_its_own_in_cpp() -> None:
    """Two bodies that do the same: outside of masks alike values are one, in C++ not inside."""
    lines = tuple(BODY.splitlines())
    body = LoopBody(
        "op0_loop_body",
        (("p0", 4), ("p1", 10)),
        (("index0", "p1"), ("index1", "10*p0 + (p1//3)"), ("index2", "p0")),
        lines,
    )
    weights = {"masked": 4.0, "division": 3.0, "tanh": 6.0}
    for apart, same in ((True, {"exp", "log"}), (False, {"exp", "log", "tanh"})):
        table: dict[object, int] = {}
        keys = []
        for _ in range(2):
            read = LoopValues(body, IndexReader(), table, weights, apart)
            keys.append(
                {
                    value.call: value
                    for value in read.computed(frozenset({"exp", "log", "tanh"}), hoisted=True)
                }
            )
        assert {call for call, value in keys[0].items() if keys[1][call].key == value.key} == same
    assert keys[0]["tanh"].beside == 0.0 and read.work(hoisted=True) > 4.0 * 40


def test_a_loop_variable_that_is_no_name_is_no_pattern_either() -> None:
    lines = ("    load = ops.load('x', 0)", "    set_indirect0 = self.set_indirect0(load)")
    body = LoopBody("b", (("p0(", 8),), (("index0", "16*indirect0 + p0("),), lines)
    leaf = SchedulerNode("op0", "SchedulerNode", (), LineSpan(1, 1), body=body)
    assert not gathers(leaf)
    assert gathers(replace(leaf, body=replace(body, indexing=(("index0", "16*indirect0"),))))


DRAWS = """    def body(self, ops):
        get_index = self.get_index('index0')
        load_seed = ops.load_seed('buf0', 0)
        rand = ops.rand(load_seed, get_index)
        store = ops.store('buf1', get_index, rand, None)
"""


def test_random_numbers_are_most_of_the_work_of_their_loops() -> None:
    body = LoopBody("op0_loop_body", (("p0", 8),), (("index0", "p0"),), tuple(DRAWS.splitlines()))
    leaf = SchedulerNode("op0", "SchedulerNode", (), LineSpan(1, 1), body=body)
    evaluated, work = evaluations({"op0": (leaf,)}, {}, {}, IndexReader())
    assert not evaluated and work["op0"] == pytest.approx(8 * 30, rel=0.1)


def test_an_operator_is_found_for_no_other_node(runs: Path) -> None:
    """Without FX nodes nothing is said, rather than something about another operator."""
    artifacts = Run.open(runs / "gelu_pool").graphs[0].artifacts()
    entries = artifacts.post.nodes if artifacts.post else ()
    nodes = {node.name: replace(node, fx=()) for node in analyse_fusion(artifacts).nodes}
    assert not evaluations({e.name: tuple(e.leaves()) for e in entries}, nodes, {}, IndexReader())[0]


# -- what is said of it


@pytest.mark.parametrize(("part", "least"), [(0.4, 0.2), (0.5, 0.25), (0.8, 0.6), (0.95, 0.9)])
def test_what_is_left_of_nearly_all_is_as_uncertain_as_what_is_saved_of_little(
    again: Path, part: float, least: float
) -> None:
    case = gather(Run.open(again / "sweep"))
    (graph,) = [graph for graph in case.graphs if graph.runs]
    launch = replace(graph.launches[0], ms=1000.0, profiled_ms=1000.0)
    saved = not_computed_ms(case, graph, launch, part, 0.0)
    assert saved == pytest.approx((1000 * least * graph.runs, 1000 * part * graph.runs))


def test_writes_in_several_kernels_are_one_finding(again: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = gather(Run.open(again / "sweep"))
    (graph,) = [graph for graph in case.graphs if graph.runs]
    ((launch, (first, second, *_)),) = in_vain.repeated(graph)
    assert first.sources != second.sources
    monkeypatch.setattr(recomputed, "repeated", lambda _: [(launch, [first]), (launch, [second])])
    (told,) = recomputed.find(case)
    assert len(told.claims) == 2 and " and 1 more" in told.title


def test_each_result_that_is_kept_is_written_and_read(again: Path) -> None:
    case = gather(Run.open(again / "sweep"))
    (graph,) = [graph for graph in case.graphs if graph.runs]
    ((_, (item, *_)),) = in_vain.repeated(graph)
    unknown = Machine(None, "estimated")
    four, one = (
        recomputed._keeping_ms(case, unknown, graph, replace(item, fx=item.fx[:count])) for count in (4, 1)
    )
    assert four == pytest.approx(one) and four > 0


@pytest.mark.parametrize(
    ("name", "rule", "title", "line"),
    [
        (
            "kv_static",
            "functionalized_copies",
            "8 writes into parts of a tensor rewrite all of it: 403 MB moved, 2.11 MB asked for",
            9,
        ),
        ("gelu_upsample", "recomputed", "erf is computed 16 times per element in cpp_fused_", 4),
        ("gather_table", "recomputed", "pow is computed 20 times per element in cpp_fused_", 4),
    ],
)
def test_the_cause_and_the_line_come_first(runs: Path, name: str, rule: str, title: str, line: int) -> None:
    findings = [item for item in explained(runs / name).findings if item.rule != "machine_busy"]
    first = findings[0]
    assert first.rule == rule and first.title.startswith(title)
    assert (first.evidence[0].path, first.evidence[0].line) == (f"/home/user/{name}.py", line)
    assert any(item.path.endswith("output_code.py") for item in first.evidence)
    assert first.claims and first.cost_ms is not None


def test_why_writes_lose_comes_first(again: Path) -> None:
    first = explained(again / "sweep").findings[0]
    assert first.rule == "recomputed"
    assert first.title.startswith(
        "4 writes into parts of a tensor, each made of those before, are computed 10 times"
    )
    assert first.evidence[0].line in (6, 7, 8) and first.trial is not None
    assert first.trial.label == "realize_reads_threshold=1"
    # With that 0.56 of 0.85 ms were saved, where it was captured.
    (claim,) = first.claims
    assert 0.2 < claim.ms[0] < 0.56 < claim.ms[1] < 0.7


@pytest.mark.parametrize("name", ["ring", "kv_slice_return"])
def test_programs_without_waste_get_no_such_finding(runs: Path, name: str) -> None:
    rules = {item.rule for item in explained(runs / name).findings}
    assert not rules & {"functionalized_copies", "recomputed"}


def test_healthy_models_get_no_such_finding(corpus_runs: list[Path]) -> None:
    for path in corpus_runs:
        loud = [item for item in explained(path).findings if item.severity != "low"]
        assert not [item for item in loud if item.rule in ("functionalized_copies", "recomputed")], path


def test_fusions_says_what_was_never_asked_for(runs: Path) -> None:
    shown = {
        name: "\n".join(item.text for item in fusion_lines([report(runs / name)], 110))
        for name in ("kv_static", "gelu_upsample", "ring")
    }
    assert "403 MB moved, 2.11 MB asked for: arg0_1 is rewritten for its parts" in shown["kv_static"]
    assert "erf: 16 times per element, 16,777,216 for 1,048,576: gelu_upsample.py:4" in shown["gelu_upsample"]
    assert "never asked for" not in shown["ring"]


def test_launches_say_what_they_do_in_vain(runs: Path) -> None:
    graph = Run.open(runs / "kv_static").graphs[0]
    result, code = report(runs / "kv_static"), graph.code()
    assert code is not None
    (told,) = call_texts(result).values()
    assert told == ["403 MB moved, 2.23 MB asked for", "div: 64 times per element"]
    brief = call_texts(result, brief=True)
    assert list(brief.values()) == [["403 MB for 2.23 MB", "div 64x"]]
    table = kernels_table(code, link_graph(graph.artifacts()), {"a": "/home/user/model.py:14"}, brief)
    shown = [item.text for item in table_lines(table, 78)]
    # On the smallest screen it is whole, and says that there is more.
    assert any("403 MB for 2.23 MB +1" in row for row in shown), shown
    assert not call_texts(report(runs / "ring"))


def test_the_fx_pane_marks_what_is_computed_again_and_again(runs: Path) -> None:
    graph = Run.open(runs / "gelu_upsample").graphs[0]
    fx = graph.fx("transformed")
    assert fx is not None
    plain = fx_document(fx, "fx_after")
    marked = with_waste(plain, "fx_after", node_texts(report(runs / "gelu_upsample")))
    (row,) = marked.notes
    assert "ops.aten.erf.default(" in marked.text(row)
    assert marked.notes[row] == "← computed 16 times per element"
    cache = report(runs / "kv_static")
    (item,) = cache.rewritten
    texts = node_texts(cache)
    assert {texts[name] for name in item.writes} == {"all of arg0_1 is rewritten for this part"}
    assert not node_texts(report(runs / "ring"))


def test_the_summary_says_what_was_never_asked_for(runs: Path) -> None:
    shown = {
        name: "\n".join(item.text for item in summary_lines(summary_of(Run.open(runs / name)), 110))
        for name in ("kv_static", "gelu_upsample", "ring")
    }
    assert "never asked for: 403 MB moved, 2.2" in shown["kv_static"]
    assert "never asked for: erf 16 times per element (more: inspector fusions)" in shown["gelu_upsample"]
    assert "never asked for" not in shown["ring"]


def test_what_is_done_in_vain_brings_a_kernel_no_nearer_to_the_roof(runs: Path) -> None:
    calls = graph_files(Run.open(runs / "kv_static").graphs[0]).kernels
    assert calls is not None
    call = next(call for call in calls.calls if call.bytes_asked is not None)
    assert call.bytes and call.bytes_asked and call.bytes_asked < 0.1 * call.bytes
    ring = graph_files(Run.open(runs / "ring").graphs[0]).kernels
    assert ring is not None and all(call.bytes_asked is None for call in ring.calls)
    peaks = Peaks("cpu", bytes_per_s=1e9, flops_per_s={}, source="measured")
    kernel = KernelReplay("k", 0, "match", time=Timing(10.0, 0.1, 9), bytes=8_000_000)
    whole, asked = place(kernel, peaks), place(replace(kernel, bytes_asked=1_000_000), peaks)
    assert whole is not None and asked is not None
    assert (whole.fraction, asked.fraction) == (0.8, 0.1)
    computing = replace(peaks, flops_per_s={"float32": 1e9})
    loops = replace(kernel, bytes=8, flops=8_000_000, flops_asked=2_000_000)
    bound = place(loops, computing)
    assert bound is not None and (bound.fraction, bound.roof.bound) == (0.2, "compute")


def test_the_least_of_a_launch_is_that_of_its_useful_work(runs: Path) -> None:
    case = gather(Run.open(runs / "kv_static"))
    (graph,) = case.graphs
    launch = max(graph.launches, key=lambda item: item.bytes or 0)
    all_of_it = replace(launch, bytes_asked=None)
    (low, _), (whole, _) = (
        least_of(Machine(None, "estimated"), graph, item)[0] for item in (launch, all_of_it)
    )
    assert low < 0.1 * whole
    (graph,) = gather(Run.open(runs / "gelu_upsample")).graphs
    assert 0 < graph.launches[0].useful < 0.8


def test_a_gpu_that_waits_for_memory_computes_again_for_nothing() -> None:
    story = Path(__file__).parent.parent / "sample_runs" / "stories" / "decoder_upsample" / "run.tar.xz"
    case = gather(Run.open(story))
    (graph,) = case.graphs
    (launch,) = graph.launches
    loud = [cost for cost in (item.cost_ms for item in recomputed.find(case)) if cost]
    # Its instructions take less than a millisecond, while 9 of 10 go to what it moves.
    waits = replace(launch, ms=10.0, bytes=int(9e-3 * 0.75 * 4.8e12))
    computes = replace(waits, bytes=launch.bytes)
    costs = [
        [item.cost_ms for item in recomputed.find(replace(case, graphs=(replace(graph, launches=(one,)),)))]
        for one in (waits, computes)
    ]
    assert len(loud) == 1 and not costs[0] and costs[1]


# -- what is the same in every call


CONSTANT = """class f(torch.nn.Module):
    def forward(self, x: "f32[8]"):
        iota: "i64[8]" = torch.ops.prims.iota.default(8, start = 0, step = 1)
        sin: "f32[8]" = torch.ops.aten.sin.default(iota);  iota = None
        noise: "f32[8]" = torch.ops.aten.rand.default([8])
        add: "f32[8]" = torch.ops.aten.add.Tensor(sin, noise);  noise = None
        mul: "f32[8]" = torch.ops.aten.mul.Tensor(x, sin);  x = sin = None
        return (add, mul)
"""


def test_what_depends_on_no_input_is_constant_but_random_numbers() -> None:
    assert constant_nodes(parse_fx_graph(CONSTANT, "fx")) == {"iota", "sin"}


WIDE = """class f(torch.nn.Module):
    def forward(self, x: "f32[8]"):
        iota: "i64[8]" = torch.ops.prims.iota.default(8, start = 0, step = 1)
        wide: "f64[8]" = torch.ops.prims.convert_element_type.default({what}, torch.float64);  iota = None
        mul: "f64[8]" = torch.ops.aten.mul.Tensor(wide, 1);  wide = None
        thin: "f32[8]" = torch.ops.prims.convert_element_type.default(mul, torch.float32);  mul = None
        add: "f32[8]" = torch.ops.aten.add.Tensor(x, thin);  x = thin = None
        return (add,)
"""


@pytest.mark.parametrize(("what", "told"), [("iota", False), ("x", True)])
def test_a_range_of_numbers_is_no_float64_that_crept_in(runs: Path, what: str, told: bool) -> None:
    case = gather(Run.open(runs / "gelu_pool"))
    (graph,) = case.graphs
    artifacts = replace(graph.artifacts, fx_after=parse_fx_graph(WIDE.format(what=what), "fx"))
    findings = list(precision_upcast.find(replace(case, graphs=(replace(graph, artifacts=artifacts),))))
    assert bool(findings) == told


def test_float64_is_told_of_all_graphs_together(runs: Path) -> None:
    """Of each launch a quarter at least: half of its time, as half the bytes move, within a factor of two."""
    case = gather(Run.open(runs / "gelu_pool"))
    (graph,) = case.graphs
    launch = replace(graph.launches[0], fx=("mul",), ms=4.0)
    artifacts = replace(graph.artifacts, fx_after=parse_fx_graph(WIDE.format(what="x"), "fx"))
    own = replace(graph, artifacts=artifacts, launches=(launch, replace(launch, fx=("add",))), runs=1.0)
    (finding,) = precision_upcast.find(replace(case, graphs=(own, own)))
    assert finding.title == "float32 becomes float64 and stays so through 4 operations"
    assert finding.cost_ms == pytest.approx(4.0) and len(finding.claims) == 2
    least, most = finding.claims[0].ms
    assert least == pytest.approx(1.0) and 2.0 <= most <= 4.0


def test_a_table_made_in_every_call_is_a_finding_on_its_line(runs: Path) -> None:
    (told,) = [item for item in explained(runs / "lru").findings if item.rule == "constant_work"]
    assert told.title.startswith("exp, sin, cos of what never changes: 1,048,832 evaluations in every call")
    assert (told.evidence[0].path, told.evidence[0].line) == ("/home/user/lru.py", 8)
    assert not [item for item in explained(runs / "kv_static").findings if item.rule == "constant_work"]


def test_a_cached_function_is_known_by_the_line_in_it() -> None:
    text = "@lru_cache(None)\n@other\ndef table(n):\n    a = n\n    return a\n\ndef step(x):\n    return x\n"
    program = read_program(text, "p.py")
    assert [program.cached_function(line) for line in (4, 5, 8)] == ["table", "table", ""]


# -- ATen's own kernels


@pytest.fixture(scope="module")
def lost(convmixer: Path) -> Callable[..., Case]:
    """The ConvMixer's case, whose first block took 2 ms in eager, in one kernel, and 9 ms compiled."""
    run = Run.open(convmixer / "infer-default.run")
    compiled, eager = (convmixer / f"infer-{side}.trace.json" for side in ("default", "eager"))
    case = gather(run, (), None, load_profiles(run, compiled, eager))

    def make(operator: str, kernel: str, generated: bool = True) -> Case:
        assert case.sides is not None
        first, *others = case.sides.joined.blocks
        block = replace(
            first,
            operators=(operator, "clamp"),
            eager_ms=2.0,
            compiled_ms=9.0,
            eager_kernels=(KernelTime(kernel, 1.0, 1.8),),
            compiled_kernels=(KernelTime("cpp_fused_0", 1.0, 9.0, generated),),
        )
        joined = replace(case.sides.joined, blocks=(block, *others))
        return replace(case, sides=replace(case.sides, joined=joined))

    return make


TRACED = """class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 64, 64, 64][262144, 4096, 64, 1]cpu"):
        l_x_ = L_x_
        gelu: "f32[4, 64, 64, 64][262144, 4096, 64, 1]cpu" = torch._C._nn.gelu(l_x_);  l_x_ = None
        interpolate: "f32[4, 64, 128, 128][1048576, 16384, 128, 1]cpu" = torch.nn.functional.interpolate(gelu, scale_factor = 2, mode = 'bilinear');  gelu = None
        return (interpolate,)
"""  # noqa: E501


@pytest.fixture(scope="module")
def upsample(runs: Path) -> tuple[GraphArtifacts, WholeOperator]:
    artifacts = Run.open(runs / "gelu_upsample").graphs[0].artifacts()
    traced = parse_fx_graph(TRACED, "dynamo_output_graph")
    (item,) = whole_operators(artifacts, link_graph(artifacts), traced, {})
    return artifacts, item


def test_an_operator_is_followed_to_its_nodes_and_kernels(
    upsample: tuple[GraphArtifacts, WholeOperator],
) -> None:
    artifacts, item = upsample
    assert item.expression == "torch.nn.functional.interpolate(gelu, scale_factor = 2, mode = 'bilinear')"
    # What gelu gives is the last that came of it.
    assert item.inputs == (
        OperatorInput("gelu", "float32", (4, 64, 64, 64), (262144, 4096, 64, 1), "cpu", "mul_2"),
    )
    assert item.calls == (0,) and "_unsafe_index_3" in item.fx and "erf" not in item.fx
    # It alone: gelu writes its result once more, and that is read again.
    assert item.rest_bytes == 2 * 4 * 64 * 64 * 64 * FLOAT
    without = replace(artifacts, provenance=None)
    traced = parse_fx_graph(TRACED, "dynamo_output_graph")
    assert not whole_operators(without, link_graph(without), traced, {})
    # What became no random numbers is no operator that draws any.
    called = "interpolate(gelu, scale_factor = 2, mode = 'bilinear')"
    still = parse_fx_graph(TRACED.replace(called, "dropout(gelu, 0.1, False, False)"), "dynamo_output_graph")
    assert [node.target for node in still.operations][1:] == ["torch.nn.functional.dropout"]
    assert not whole_operators(artifacts, link_graph(artifacts), still, {})


@pytest.mark.parametrize(
    ("kernel_ms", "aten_ms", "told"), [(30.0, 3.0, True), (3.5, 3.0, False), (30.0, None, False)]
)
def test_an_operator_that_aten_does_faster(
    runs: Path,
    upsample: tuple[GraphArtifacts, WholeOperator],
    kernel_ms: float,
    aten_ms: float | None,
    told: bool,
) -> None:
    case = gather(Run.open(runs / "gelu_upsample"))
    (graph,) = case.graphs
    launches = tuple(replace(launch, ms=kernel_ms, measured=True) for launch in graph.launches)
    alone = OperatorReplay("interpolate", "interpolate", (0,), Timing(aten_ms or 0.0, 0.1, 9))
    replay = GraphReplay(graph.name, operators=(alone,) if aten_ms else ())
    graph = replace(graph, launches=launches, operators=(upsample[1],), replay=replay, runs=1.0)
    case = replace(case, graphs=(graph,))
    findings = list(decomposition_slower.find(case))
    assert bool(findings) == told
    assert not no_slower_than_aten(case)
    quick = tuple(replace(launch, ms=2.9) for launch in launches)
    faster = replace(case, graphs=(replace(graph, launches=quick),))
    assert no_slower_than_aten(faster) == ({(graph.name, 0)} if aten_ms else set())
    for finding in findings:
        assert "ATen's own takes 3.00 ms, replayed alone, the generated kernel 30.0 ms" in finding.title
        (low, high) = finding.claims[0].ms
        # What gelu takes anew, and what it computes again and again, is not saved by it.
        assert 0 < low < high < 27.0
        assert "custom_op" in finding.advice and "make_fallback" not in finding.advice


@pytest.mark.parametrize(("rest_ms", "sure"), [(1.0, True), (8.0, False)])
def test_of_an_operator_among_longer_work_nothing_is_sure(
    runs: Path, upsample: tuple[GraphArtifacts, WholeOperator], rest_ms: float, sure: bool
) -> None:
    """Eager takes 3 ms for it and the rest for what is in the same kernel of 30 ms: which of both generated
    code is slow at nobody has seen."""
    case = gather(Run.open(runs / "gelu_upsample"))
    (graph,) = case.graphs
    launches = tuple(replace(item, profiled_ms=30.0, useful=1.0) for item in graph.launches)
    graph = replace(graph, launches=launches, operators=(upsample[1],), runs=1.0)
    eager = (KernelTime("upsample_bilinear2d", 1.0, 3.0), KernelTime("gelu", 1.0, rest_ms))
    ours = (KernelTime(launches[0].name, 1.0, 30.0, True),)
    place = ((graph.name, launches[0].call.index),)
    block = Block((), (), ("interpolate",), "forward", graph.name, 3.0 + rest_ms, 30.0, eager, ours)
    totals = SideTotals(5, False, 31.0, 30.0, 30.0)
    joined = Joined((replace(block, launches=place),), totals, totals)
    (finding,) = decomposition_slower.find(replace(case, graphs=(graph,), sides=Sides(joined, None)))
    low, high = finding.claims[0].ms
    assert (low == pytest.approx(26.0)) if sure else (low == 0.0) and high > 15.0


@pytest.mark.parametrize(
    ("eager_ms", "useful", "told"), [(40.0, 1.0, True), (80.0, 1.0, False), (40.0, 0.5, False)]
)
def test_an_operator_takes_no_longer_than_all_of_eager(
    runs: Path, upsample: tuple[GraphArtifacts, WholeOperator], eager_ms: float, useful: float, told: bool
) -> None:
    """Without a profile of eager, or a replay: a kernel that takes longer than eager's whole call, which has
    the operator in it, unless it is known to do something else that is slow."""
    case = gather(Run.open(runs / "gelu_upsample"))
    (graph,) = case.graphs
    launches = tuple(replace(launch, ms=60.0, useful=useful) for launch in graph.launches)
    graph = replace(graph, launches=launches, operators=(upsample[1],), runs=1.0, in_process_ms=62.0)
    times = replace(case.times, compiled_ms=62.0, eager_ms=eager_ms)
    findings = list(decomposition_slower.find(replace(case, graphs=(graph,), times=times)))
    assert bool(findings) == told
    for finding in findings:
        assert "less than 40.0 ms, all of eager's call" in finding.title
        # That much is surely lost; what the operator alone takes nobody knows.
        assert finding.claims[0].ms == pytest.approx((20.0, 20.0)) and finding.how == "estimated"
    assert not no_slower_than_aten(replace(case, graphs=(graph,), times=replace(times, eager_ms=80.0)))


def test_random_numbers_are_those_of_the_block_that_draws_them(lost: Callable[..., Case]) -> None:
    case = lost("dropout", "bernoulli_")
    assert not list(random_numbers.find(case))
    assert case.sides is not None
    places = case.sides.joined.blocks[0].launches
    body = LoopBody("op0_loop_body", (), (), ("        rand = ops.rand(load_seed, index_expr)",))
    graph = next(graph for graph in case.graphs if graph.name == places[0][0])

    def drawing(places: Sequence[tuple[str, int]]) -> Case:
        leaves = (SchedulerNode("op0", "SchedulerNode", (), LineSpan(1, 1), body=body),)
        launches = tuple(
            replace(launch, leaves=leaves) if (graph.name, launch.call.index) in places else launch
            for launch in graph.launches
        )
        return replace(case, graphs=(replace(graph, launches=launches),))

    # What takes 1 us of a block that lost 5.8 ms drew nothing of that.
    assert not list(random_numbers.find(drawing(places[:1])))
    (told,) = random_numbers.find(drawing(places))
    assert told.trial is not None and told.trial.label == "fallback_random=True"


def test_all_that_loops_do_is_counted(runs: Path) -> None:
    """Of groups without an expensive operator, too: what is computed again is weighed against them."""
    plain = 0
    for folder in sorted(runs.iterdir()):
        for graph in Run.open(folder).graphs:
            fusion = fusion_of(graph)
            own = {item.group for item in fusion.evaluations}
            plain += len(fusion.work.keys() - own)
            assert own <= fusion.work.keys() and all(work > 0 for work in fusion.work.values())
    assert plain > 0


@pytest.mark.parametrize(
    ("name", "rule", "setting"),
    [
        ("gelu_upsample", "recomputed", "aten.erf kept in memory"),
        ("gather_table", "recomputed", "aten.pow kept in memory"),
        ("kv_static", "functionalized_copies", "writes kept in place"),
    ],
)
def test_advice_that_can_be_tried(runs: Path, name: str, rule: str, setting: str) -> None:
    """Torch can be told to keep what is read often."""
    (told,) = [item for item in explained(runs / name).findings if item.rule == rule]
    assert told.trial is not None and told.trial.label == setting


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("interpolate(x, None, 2, 'bicubic', None)", "upsample_bicubic2d"),
        ("interpolate(x, size = 9)", "upsample_nearest2d"),
        ("grid_sample(x, y, align_corners = False)", "grid_sampler_2d"),
        ("max_pool1d(x, 3)", "max_pool2d_with_indices"),
        ("cumsum(x, 1)", "cumsum"),
    ],
)
def test_operators_are_left_to_aten_by_its_names(call: str, name: str) -> None:
    given = OperatorInput("x", "float32", (4, 64, 64, 64), (262144, 4096, 64, 1), "cpu")
    operator = call.partition("(")[0]
    item = WholeOperator(operator, operator, f"torch.nn.functional.{call}", (given,), (), (0,), None)
    assert decomposition_slower.in_aten(item) == name


def test_a_place_with_any_letters_is_told() -> None:
    """`%` in a path is no place for a figure."""
    graph = Run.open(STORIES / "bicubic_of_mish" / "run.tar.xz").graphs[0]
    report = fusion_of(graph)
    place = SourceLocation("50%d of %s.py", 3)
    changed = tuple(replace(item, sources=(place,)) for item in report.evaluations)
    shown = [row.text for row in waste_lines(replace(report, evaluations=changed), 120)]
    assert any("50%d of %s.py:3" in row for row in shown)
