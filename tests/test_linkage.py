"""Links from kernel calls to scheduler nodes and FX nodes: rules on small models, shares on real runs."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from build import artifacts, call, code, coverage, fx_graph, fx_node, node, origins, unpack
from conftest import DATA

from inspector.analysis.crossref import CrossReference, _Covered
from inspector.analysis.linkage import _FxEvidence, link_graph
from inspector.model.code import Allocation, Kernel
from inspector.model.fx import FxNode, TensorMeta
from inspector.model.links import Linkage, Ref
from inspector.model.source import LineSpan
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run


def entries(linkage: Linkage) -> list[tuple[str, ...]]:
    return [link.entries for link in linkage.calls]


def test_a_launch_is_linked_by_the_buffer_that_it_writes() -> None:
    post = (node("op0", writes="buf0", kernel="extern_kernels.mm"), node("op1", writes="buf1"))
    output = code(
        call(0, "extern_kernels.mm", "extern", outputs="buf0"), call(1, "k", "triton", outputs="buf1")
    )
    linkage = link_graph(artifacts(post, output))
    assert entries(linkage) == [("op0",), ("op1",)]
    assert linkage.calls[0].entries_evidence == ("buffers", "extern target")
    assert linkage.calls[1].entries_evidence == ("buffers",)


def test_a_group_is_linked_through_any_member() -> None:
    group = node("op1_op2", members=(node("op1", writes="buf1"), node("op2", writes="buf2")))
    linkage = link_graph(artifacts((group,), code(call(0, "k", "triton", outputs="buf2"))))
    assert entries(linkage) == [("op1_op2",)]


def test_one_cpp_kernel_may_hold_several_entries() -> None:
    post = (node("op0", writes="buf0"), node("op1", writes="buf1"))
    linkage = link_graph(artifacts(post, code(call(0, "cpp_fused_0", "cpp", outputs="buf0 buf1"))))
    assert entries(linkage) == [("op0", "op1")]


def test_one_foreach_entry_may_need_several_launches() -> None:
    members = tuple(node(f"op{i}", writes=f"buf{i}") for i in range(2))
    group = node("op0_op1", cls="ForeachKernelSchedulerNode", members=members)
    output = code(call(0, "k0", "triton", outputs="buf0"), call(1, "k1", "triton", outputs="buf1"))
    assert entries(link_graph(artifacts((group,), output))) == [("op0_op1",), ("op0_op1",)]


def test_a_node_that_only_mutates_is_linked_by_what_it_mutates() -> None:
    post = (node("op0", writes="buf0"), node("op1", writes="buf1", mutates="arg0_1"))
    output = code(call(0, "k0", "triton", outputs="buf0"), call(1, "k1", "triton", outputs="arg0_1"))
    assert entries(link_graph(artifacts(post, output))) == [("op0",), ("op1",)]


def test_what_no_name_settles_is_settled_by_order() -> None:
    post = (node("op0", writes="buf0"), node("op1", writes="buf1"), node("op2", writes="buf2"))
    output = code(
        call(0, "k0", "triton", outputs="buf0"),
        call(1, "k1", "triton"),
        call(2, "k2", "triton", outputs="buf2"),
    )
    linkage = link_graph(artifacts(post, output))
    assert entries(linkage) == [("op0",), ("op1",), ("op2",)]
    assert linkage.calls[1].entries_evidence == ("order",)


def test_order_never_links_an_extern_call_to_a_computed_node() -> None:
    post = (node("op0", writes="buf0"),)
    linkage = link_graph(artifacts(post, code(call(0, "extern_kernels.mm", "extern"))))
    assert entries(linkage) == [()]


def test_a_subgraph_called_again_stands_for_the_same_entries() -> None:
    first = call(0, "k", "cpp", outputs="sub_buf0")
    again = replace(call(1, "k", "cpp", outputs="sub_buf0"), span=first.span)
    assert entries(link_graph(artifacts((node("sub_op0", writes="sub_buf0"),), code(first, again)))) == [
        ("sub_op0",),
        ("sub_op0",),
    ]


def test_parts_of_a_tuple_launch_nothing_and_lead_to_their_producer() -> None:
    post = (
        node("op0", writes="buf0", kernel="torch.ops.aten.x.default", inner="FallbackKernel"),
        node("op1", writes="buf1", kernel="None", inner="MultiOutput"),
        node("op2", writes="buf2"),
    )
    output = code(
        call(0, "torch.ops.aten.x.default", "fallback", outputs="buf0"),
        unpack("buf1", "buf0"),
        call(1, "k", "triton", outputs="buf2"),
    )
    linkage = link_graph(artifacts(post, output))
    assert entries(linkage) == [("op0",), ("op2",)]


def test_provenance_beats_origins_and_origins_beat_operators() -> None:
    post = (node("op0", writes="buf0"),)
    log = origins(op0="add relu")
    with_handle = code(call(0, "k", "triton", outputs="buf0", handle=3))
    linkage = link_graph(artifacts(post, with_handle, provenance={"k:3": ("mul",)}, fusion=log))
    assert (linkage.calls[0].fx, linkage.calls[0].fx_evidence) == (("mul",), ("provenance",))
    linkage = link_graph(artifacts(post, with_handle, fusion=log))
    assert (linkage.calls[0].fx, linkage.calls[0].fx_evidence) == (("add", "relu"), ("origins",))


def test_extern_calls_find_the_node_that_reads_the_same_inputs() -> None:
    fx = fx_graph(
        fx_node("p1", ""),
        fx_node("p2", ""),
        fx_node("t", "torch.ops.aten.permute.default", "p2"),
        fx_node("mm", "torch.ops.aten.mm.default", "p1"),
        fx_node("mm_1", "torch.ops.aten.mm.default", "t"),
    )
    post = (
        node("op1", writes="buf1", kernel="extern_kernels.mm"),
        node("op0", writes="buf0", kernel="extern_kernels.mm"),
    )
    output = code(
        call(0, "extern_kernels.mm", "extern", outputs="buf1", reads="p2"),
        call(1, "extern_kernels.mm", "extern", outputs="buf0", reads="p1"),
    )
    linkage = link_graph(artifacts(post, output, fx=fx))
    assert [link.fx for link in linkage.calls] == [("mm_1",), ("mm",)]
    assert linkage.calls[0].fx_evidence == ("operator",)


def test_extern_calls_in_another_order_are_told_by_the_size_of_their_result() -> None:
    """Neither reads an input of the graph: a backward's products of gradients."""

    def product(name: str, *shape: int) -> FxNode:
        return replace(
            fx_node(name, "torch.ops.aten.mm.default", "x"), meta=TensorMeta("float32", shape), inputs=("x",)
        )

    line = LineSpan(1, 1)
    output = code(
        Allocation("buf1", (4, 28), (28, 1), "float32", "cpu", line),
        replace(
            call(0, "extern_kernels.mm", "extern", outputs="buf1"), text="extern_kernels.mm(a, b, out=buf1)"
        ),
        Allocation("buf0", (22, 58), (58, 1), "float32", "cpu", line),
        replace(
            call(1, "extern_kernels.mm", "extern", outputs="buf0"), text="extern_kernels.mm(a, b, out=buf0)"
        ),
    )
    fx = fx_graph(fx_node("x", "torch.ops.aten.sin.default"), product("mm", 22, 58), product("mm_1", 4, 28))
    assert [link.fx for link in link_graph(artifacts((), output, fx=fx)).calls] == [("mm_1",), ("mm",)]


def test_nothing_to_read_gives_no_links_and_no_error() -> None:
    assert link_graph(artifacts()) == Linkage(calls=())
    assert entries(link_graph(artifacts(output=code(call(0, "k", "cpp"))))) == [()]


def test_values_between_known_buffers_are_what_a_kernel_computes() -> None:
    fx = fx_graph(
        fx_node("x", ""),
        fx_node("w", ""),
        fx_node("mm", "torch.ops.aten.mm.default", "x w"),
        fx_node("exp", "torch.ops.aten.exp.default", "mm"),
        fx_node("relu", "torch.ops.aten.relu.default", "exp"),
        fx_node("view", "torch.ops.aten.view.default", "relu"),
        fx_node("mm_1", "torch.ops.aten.mm.default", "view"),
        fx_node("neg", "torch.ops.aten.neg.default", "mm_1"),
    )
    output = code(
        call(0, "extern_kernels.mm", "extern", outputs="buf0", reads="x w"),
        call(1, "cpp_fused_0", "cpp", outputs="buf1", reads="buf0"),
        call(2, "extern_kernels.mm", "extern", outputs="buf2", reads="buf1"),
        call(3, "cpp_fused_1", "cpp", outputs="buf3", reads="buf2"),
        inputs=("x", "w"),
        outputs=("buf3",),
    )
    linkage = link_graph(artifacts(output=output, fx=fx_graph(*fx.nodes, outputs=("neg",))))
    assert [link.fx for link in linkage.calls] == [("mm",), ("exp", "relu"), ("mm_1",), ("neg",)]
    assert linkage.calls[1].fx_evidence == ("dataflow",)


def test_dataflow_agrees_with_what_torch_itself_says(corpus: Path) -> None:
    """Torch 2.13 writes the mapping, so the inference made for older versions can be checked on it."""
    checked = 0
    for name in ("mlp", "softmax", "norms"):
        for graph in Run.open(corpus / "cpu-torch2.13" / name).graphs:
            whole = graph.artifacts()
            if (
                graph.phase == "backward"
                or whole.provenance is None
                or whole.fx_after is None
                or whole.code is None
            ):
                continue
            inferred = link_graph(replace(whole, provenance=None, fusion=None))
            for call_, told, guess in zip(
                whole.code.calls, link_graph(whole).calls, inferred.calls, strict=True
            ):
                if call_.kind == "cpp":
                    checked += 1
                    shared = len(set(told.fx) & set(guess.fx)) / len(set(told.fx) | set(guess.fx))
                    assert shared >= 0.75, (name, call_.kernel)
                elif call_.kind == "extern":
                    assert guess.fx[0] in told.fx
    assert checked >= 10


def test_foreach_kernels_of_a_real_gpu_run_are_linked(tmp_path: Path) -> None:
    """benchmarks/workloads/adamw.py on an H200: one foreach group of 20 updates, in place."""
    graph = Run.open(DATA / "extra" / "adamw-h200-torch2.11.tar.xz").graphs[0].artifacts()
    assert graph.post is not None
    assert graph.code is not None
    linkage = link_graph(graph)
    foreach = [entry for entry in graph.post.nodes if entry.cls.startswith("Foreach")]
    assert foreach
    linked = {name for link in linkage.calls for name in link.entries}
    assert {entry.name for entry in graph.post.nodes} == linked
    assert all(link.fx for link in linkage.calls)


# -- one selection, all panes


@pytest.fixture
def small() -> CrossReference:
    fx = fx_graph(
        fx_node("x", ""),
        fx_node("exp", "torch.ops.aten.exp.default", "x", 3),
        fx_node("sum_1", "torch.ops.aten.sum.default", "exp", 4),
        fx_node("mm", "torch.ops.aten.mm.default", "sum_1", 5),
    )
    group = node("op0_op1", members=(node("op0", writes="buf0"), node("op1", writes="buf1")))
    post = (group, node("op2", writes="buf2", kernel="extern_kernels.mm"))
    kernel = Kernel("cpp_fused_0", "cpp", span=LineSpan(10, 40))
    output = code(
        call(0, "cpp_fused_0", "cpp", outputs="buf1", handle=1),
        call(1, "extern_kernels.mm", "extern", outputs="buf2", handle=2),
        kernels=(kernel, Kernel("extern_kernels.mm", "extern")),
    )
    provenance = {"cpp_fused_0:1": ("exp", "sum_1"), "extern_kernels.mm:2": ("mm",)}
    whole = artifacts(
        post, output, fx, before=fx, provenance=provenance, fusion=origins(op0="exp", op1="sum_1")
    )
    return CrossReference(whole, link_graph(whole))


def test_an_fx_node_leads_to_its_own_scheduler_node_and_to_the_kernel(small: CrossReference) -> None:
    found = small.related(Ref("fx_after", "exp"))
    assert found.leaves == {"op0"}
    assert found.entries == {"op0_op1"}
    assert found.kernels == {"cpp_fused_0"}
    assert found.sources == {"model.py:3"}
    assert found.code == (LineSpan(10, 40), LineSpan(100, 100))


@pytest.mark.parametrize(
    "ref",
    [
        Ref("source", "model.py:5"),
        Ref("fx_before", "mm"),
        Ref("fx_after", "mm"),
        Ref("node", "op2"),
        Ref("kernel", "extern_kernels.mm"),
        Ref("call", "1"),
        Ref("code_line", "101"),
    ],
)
def test_every_way_in_gives_the_same_answer(small: CrossReference, ref: Ref) -> None:
    found = small.related(ref)
    assert (found.fx_after, found.fx_before) == ({"mm"}, {"mm"})
    assert (found.leaves, found.calls, found.kernels) == ({"op2"}, {1}, {"extern_kernels.mm"})
    assert found.sources == {"model.py:5"}


def test_a_kernel_line_leads_to_the_kernel(small: CrossReference) -> None:
    assert small.related(Ref("code_line", "12")).leaves == {"op0", "op1"}
    assert small.related(Ref("code_line", "7")).kernels == frozenset()


def test_a_line_in_several_spans_is_the_first_ones() -> None:
    rng = random.Random(5)
    for _ in range(200):
        begins = [rng.randrange(30) for _ in range(rng.randrange(6))]
        spans = [(number, LineSpan(first, first + rng.randrange(9))) for number, first in enumerate(begins)]
        covered = _Covered(spans)
        for line in range(-1, 45):
            assert covered.at(line) == next((key for key, span in spans if line in span), None)


def test_unknown_keys_are_no_error(small: CrossReference) -> None:
    for kind in ("source", "fx_before", "fx_after", "node", "kernel"):
        assert small.related(Ref(kind, "nowhere")).calls == frozenset()
    assert small.related(Ref("call", "99")).calls == frozenset()


# -- real runs


def shares(corpus: Path, version: str) -> tuple[int, int, int]:
    links = []
    for path in sorted((corpus / version).iterdir()):
        links += [link_graph(graph.artifacts()) for graph in Run.open(path).graphs]
    return coverage(links)


@pytest.mark.parametrize(
    ("version", "fx_share"),
    [
        ("cpu-torch2.4.1", 0.95),
        ("cpu-torch2.6.0", 0.95),
        ("h200-torch2.11", 0.95),
        ("cpu-torch2.13", 0.95),
        ("cpu-torch2.15.0", 0.95),
    ],
)
def test_shares_over_real_runs(corpus: Path, version: str, fx_share: float) -> None:
    calls, nodes, fx = shares(corpus, version)
    assert calls > 0
    assert nodes >= 0.99 * calls
    assert fx >= fx_share * nodes


def test_every_launching_entry_of_a_real_run_is_linked_and_in_order(corpus_graphs: list[Path]) -> None:
    """Launches follow the schedule, so the entries of successive calls never go backwards."""
    for folder in corpus_graphs:
        graph = Run.open(folder).graphs[0].artifacts()
        assert graph.post is not None
        position = {entry.name: index for index, entry in enumerate(graph.post.nodes)}
        linkage = link_graph(graph)
        firsts = [min(position[name] for name in link.entries) for link in linkage.calls if link.entries]
        assert firsts == sorted(firsts), folder
        linked = {name for link in linkage.calls for name in link.entries}
        silent = [entry for entry in graph.post.nodes if entry.name not in linked]
        assert all(entry.inner == ("MultiOutput",) for entry in silent), folder


COND = """class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "b8[]", arg1_1: "f32[8, 16]"):
        true_graph_0 = self.true_graph_0
        false_graph_0 = self.false_graph_0
        cond = torch.ops.higher_order.cond(arg0_1, true_graph_0, false_graph_0, (arg1_1,))
        getitem: "f32[8, 16]" = cond[0];  cond = None
        relu: "f32[8, 16]" = torch.ops.aten.relu.default(getitem);  getitem = None
        return (relu,)

    class true_graph_0(torch.nn.Module):
        def forward(self, arg0_1: "f32[8, 16]"):
            relu: "f32[8, 16]" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None
            return (relu,)
"""


def test_a_launch_inside_of_a_subgraph_stands_for_the_node_that_runs_it() -> None:
    """The subgraph's own relu is not the graph's, of whatever name the provenance tells."""
    provenance = SimpleNamespace(kernel_to_post={"cpp_fused_relu_0:1": ("relu",)})
    code = SimpleNamespace(calls=(), kernels=())
    graph = SimpleNamespace(fx_after=parse_fx_graph(COND, "fx"), code=code, provenance=provenance)
    evidence: Any = _FxEvidence(graph)  # type: ignore[arg-type]
    call = SimpleNamespace(
        kernel="cpp_fused_relu_0", handle=1, buffers=("true_graph_0_arg0_1", "true_graph_0_buf0")
    )
    assert evidence.of(call, ()) == (("cond",), ("subgraph",))
    call.buffers = ("buf1", "buf2")
    assert evidence.of(call, ()) == (("relu",), ("provenance",))
