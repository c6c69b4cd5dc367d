"""Work that nobody asked for: bytes and evaluations of real graphs against those counted by hand."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import explained

from inspector.analysis.evaluations import evaluations
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.linkage import link_graph
from inspector.analysis.loop_values import LoopValues
from inspector.analysis.written_in_place import writes_in_place
from inspector.model.fusion import FusionReport
from inspector.model.schedule import LoopBody
from inspector.present.code import kernels_table
from inspector.present.fusion import lines as fusion_lines
from inspector.present.waste import call_texts
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run

DATA = Path(__file__).parent / "data" / "extra" / "waste-torch2.13.tar.xz"
FLOAT = 4


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of one small program each, as torch 2.13 compiled it for a CPU."""
    root = tmp_path_factory.mktemp("waste")
    with tarfile.open(DATA) as tar:
        tar.extractall(root, filter="data")
    return root


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


def test_a_version_that_is_not_copied_back_is_a_copy_that_was_asked_for() -> None:
    text = "\n".join(line for line in GRAPH.format(read="part").splitlines() if "copy_:" not in line)
    assert not writes_in_place(parse_fx_graph(text, "fx"), None).storages


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
    read = LoopValues(body, IndexReader(), {})
    counted: dict[str, list[int]] = {}
    for value in read.computed(frozenset({"exp", "tanh", "log"}), hoisted):
        counted.setdefault(value.call, []).append(value.points)
    return counted


def test_alike_values_count_once_masked_ones_where_the_mask_holds() -> None:
    assert values(hoisted=True) == {"exp": [40], "log": [4], "tanh": [4 * 3]}
    assert values(hoisted=False)["log"] == [40]


def test_an_operator_is_found_for_no_other_node(runs: Path) -> None:
    """Without FX nodes nothing is said, rather than something about another operator."""
    artifacts = Run.open(runs / "gelu_pool").graphs[0].artifacts()
    entries = artifacts.post.nodes if artifacts.post else ()
    nodes = {node.name: replace(node, fx=()) for node in analyse_fusion(artifacts).nodes}
    assert not evaluations({e.name: tuple(e.leaves()) for e in entries}, nodes, {}, IndexReader())


# -- what is said of it


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
    texts = call_texts(result)
    table = kernels_table(code, link_graph(graph.artifacts()), {}, texts)
    cells = [cell.text for row in table.rows for cell in row.cells]
    assert "403 MB moved, 2.23 MB asked for; div: 64 times per element" in cells
    assert not call_texts(report(runs / "ring"))
