"""Reading what `print_readable` writes: FX graphs in folders and in structured traces."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sharing import unpacked

from inspector.model.fx import DTYPES, FxGraph, FxKind, FxNode, TensorMeta
from inspector.model.source import SourceLocation
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.fx_replaced import with_lines

EXTRA = Path(__file__).parent / "data" / "extra" / "schedules-torch2.13.tar.xz"
ABBREVIATIONS = {name: short for short, name in DTYPES.items()}

# An assignment in the body of a top-level forward, seen with a pattern of the test's own.
ASSIGNED = re.compile(r'^ {8}(\w+)(?:: "[^"]*")? = (?!None$)', re.MULTILINE)

SNIPPET = """\
class GraphModule(torch.nn.Module):
    def forward(self, L_x_: "f32[4, 4][4, 1]cpu", L_w_ : torch.nn.Parameter, *args, flag = None):
        l_x_ = L_x_
        l_w_ = L_w_

        # File: /home/user/m.py:7 in <lambda>, code: y = x.sum(dim=1)  # File: no.py:1 in f, code: z
        sum_1: "f32[4][1]cpu" = l_x_.sum(dim = 1)
        dim: "Sym(s0 + 1)" = l_w_ + 1
        text = torch.ops.my.op.default(l_x_, 'l_w_, (b;  x = None', "dim", dim = sum_1, other = [dim, -dim])

        # No stacktrace found for following nodes
        iadd: "f32[4][1]cpu" = sum_1 + dim;  dim = None
        sum_1 += l_w_;  add_: "f32[4][1]cpu" = sum_1;  l_w_ = None
        l_x_[(0, slice(None, dim, None))] = sum_1;  setitem = l_x_;  setitem = None

         # Annotation: {'stage': 1} recompute: MUST_SAVE File: /home/user/m.py:9 in forward, code: h(x)
        weight = self.layers.weight
        unused = None
        numbered = getattr(self.layers, "0").bias
        plain = getattr(self, "0")
        called: "DTensor(bf16[8, s0][s0, 1]cuda:1, S(0))" = getattr(self.layers, "0")(l_x_)
        shape = l_x_.shape
        getitem_3 : int = shape[0];  shape = None
        multi = torch.ops.higher_order.flat(l_x_, TreeSpec(tuple, None, [*,
          *]), called);  called = None
        cond = torch.ops.higher_order.cond(iadd, true_graph_0, (add_, getitem_3))
        return {'loss': iadd, 'rest': [(cond, None), 1.5, plain]}

    class true_graph_0(torch.nn.Module):
        def forward(self, arg0_1: "f32[4]"):
            # File: /home/user/m.py:1 in t, code: x.sin()
            sin: "f32[4]" = torch.ops.aten.sin.default(arg0_1);  arg0_1 = None
            return (sin,)

 # graph id: 139654208048976
"""
"""Every form of a line in torch/fx/graph.py: emit_node."""


def graphs_of(folder: Path) -> Iterator[Path]:
    yield from (folder / f"fx_graph_{stage}.py" for stage in ("readable", "transformed"))


@pytest.fixture(scope="session")
def fx_files(corpus_graphs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    extra = unpacked(EXTRA, tmp_path_factory.mktemp("graphs"))
    return [path for folder in [*corpus_graphs, *sorted(extra.iterdir())] for path in graphs_of(folder)]


@pytest.fixture(scope="session")
def traced(corpus: Path) -> dict[str, list[str]]:
    """The printed graphs among the payloads of the corpus' structured traces, by run."""
    found: dict[str, list[str]] = {}
    for log in sorted(corpus.glob("*/*/trace/*.log")):
        for block in re.split(r"^[VIWE].*\n", log.read_text(), flags=re.MULTILINE):
            text = re.sub(r"^\t", "", block, flags=re.MULTILINE)
            if re.match(r"class .*\n +def forward\(", text):
                run = log.relative_to(corpus).parts
                found.setdefault(f"{run[0]}/{run[1]}", []).append(text)
    return found


def read(path: Path) -> FxGraph:
    return parse_fx_graph(path.read_text(), path.name)


def statement_text(node: FxNode) -> str:
    """The line that torch printed for `node`, without deletions, put together from its parts."""
    annotation = f': "{node.annotation}"' if node.annotation else ""
    values = {
        "placeholder": "",
        "call": f" = {node.target}({', '.join(node.arguments)})",
        "getitem": f" = {node.arguments[0]}[{node.arguments[-1]}]" if node.arguments else "",
        "attribute": f" = {node.target}",
        "expression": f" = {node.arguments[0]}" if node.arguments else "",
    }
    return f"{node.name}{annotation}{values[node.kind]}"


def annotation_text(meta: TensorMeta) -> str:
    stride = "" if meta.stride is None else f"[{', '.join(map(str, meta.stride))}]"
    return f"{ABBREVIATIONS[meta.dtype]}[{', '.join(map(str, meta.shape))}]{stride}{meta.device or ''}"


def check(graph: FxGraph) -> None:
    """What must hold of any undamaged graph, by means that share nothing with the reader."""
    assert graph.problems == ()
    names = [node.name for node in graph.nodes]
    assert len(set(names)) == len(names)
    lines = graph.text.split("\n")
    for node in graph.nodes:
        assert node.text in lines[node.line - 1]
        assert node.users == tuple(other.name for other in graph.nodes if node.name in other.inputs)
        if node.meta is not None and node.annotation is not None:
            assert annotation_text(node.meta) in node.annotation
        else:
            assert node.annotation is None or not re.match(r"\w+\[", node.annotation)
        if node.kind == "placeholder":
            assert node.inputs == ()
            continue
        value = re.sub(r";  (\w+ = )+None$", "", node.text).partition(" = ")[2]
        if ";  " in node.text.replace(value, ""):
            continue
        mentioned = [part.id for part in ast.walk(ast.parse(value)) if isinstance(part, ast.Name)]
        assert set(node.inputs) == set(mentioned) & set(names)
        assert len(set(node.inputs)) == len(node.inputs)


def test_every_line_can_be_put_together_again(fx_files: list[Path]) -> None:
    assert len(fx_files) > 100
    for path in fx_files:
        graph = read(path)
        check(graph)
        for node in graph.nodes:
            assert statement_text(node) == re.sub(r";  (\w+ = )+None$", "", node.text), path


def test_operations_are_the_assignments_that_are_no_deletions(fx_files: list[Path]) -> None:
    counts = {}
    for path in fx_files:
        graph = read(path)
        expected = ASSIGNED.findall(graph.text.split("\n    class ")[0])
        assert [node.name for node in graph.operations] == expected, path
        parameters = re.search(r"def forward\(self, (.*)\):", graph.text)
        assert [node.name for node in graph.placeholders] == re.findall(
            r'(\w+): "', parameters[1] if parameters else ""
        )
        counts[path.parts[-6], path.parts[-2], path.name] = len(graph.operations)
    assert counts["softmax", "model__0_inference_0.0", "fx_graph_transformed.py"] in (6, 7)
    assert counts["resnet50", "model__1_forward_2.1", "fx_graph_transformed.py"] == 653


def test_places_are_those_of_the_comment_above(fx_files: list[Path]) -> None:
    seen = 0
    for path in fx_files:
        place, places = None, {}
        for number, line in enumerate(path.read_text().split("\n"), 1):
            if line.strip().startswith("#"):
                place = line.strip().removeprefix("# File: ") if "File: " in line else None
            places[number] = place
        for node in read(path).operations:
            source, comment = node.source, places[node.line]
            if source is None:
                assert comment is None, (path, node.line)
            else:
                assert f"{source} in {source.function}, code: {source.code}" == comment
                seen += 1
    assert seen > 5000


def test_returned_names(fx_files: list[Path]) -> None:
    for path in fx_files:
        graph = read(path)
        (line,) = re.findall(r"^        return (.*)$", graph.text.split("\n    class ")[0], re.MULTILINE)
        value = ast.parse(line, mode="eval").body
        assert isinstance(value, (ast.Tuple, ast.List))
        assert graph.outputs == tuple(item.id if isinstance(item, ast.Name) else None for item in value.elts)


def test_graphs_in_traces(traced: dict[str, list[str]]) -> None:
    """Dynamo's and AOT autograd's graphs: strides, devices, one parameter a line, joint graphs."""
    graphs = [parse_fx_graph(text, run) for run, texts in traced.items() for text in texts]
    assert len(traced) == 19 and len(graphs) > 250
    for graph in graphs:
        check(graph)
        assert graph.placeholders and graph.outputs
        for node in graph.operations:
            if not node.text.partition(";  ")[2].startswith(f"{node.name} ") and node.kind != "expression":
                assert node.text.startswith(statement_text(node)), node
    expanded = [graph for graph in graphs if "\n        return (\n" in graph.text]
    assert len(expanded) > 20
    for graph in expanded:
        returned = re.findall(r"^ {12}(\w+),  # ", graph.text.split("        return (\n")[1], re.MULTILINE)
        assert graph.outputs == tuple(None if name == "None" else name for name in returned)
    metas = [node.meta for graph in graphs for node in graph.nodes if node.meta]
    assert {meta.device for meta in metas} == {"cpu", "cuda:0"}
    assert any(meta.stride == () and meta.shape == () for meta in metas)
    joint = [graph for graph in graphs if "tree_flatten_spec" in graph.text]
    assert len(joint) > 15
    for graph in joint:
        assert [
            node.name
            for node in graph.placeholders
            if node.meta is None and "Sym" not in str(node.annotation)
        ] == []
        assert any(node.name.startswith("tangents_") for node in graph.placeholders)
    renamed = [graph for graph in graphs if "\n        l_x_ = L_x_\n" in graph.text]
    assert renamed and all("l_x_" in [node.name for node in graph.placeholders] for graph in renamed)


def test_all_forms_of_a_line() -> None:
    graph = parse_fx_graph(SNIPPET, "x")
    assert graph.problems == ()
    nodes = {node.name: node for node in graph.nodes}
    assert [node.name for node in graph.placeholders] == ["l_x_", "l_w_", "args", "flag"]
    assert nodes["l_x_"].meta == TensorMeta("float32", (4, 4), (4, 1), "cpu")
    assert nodes["l_w_"].annotation == "torch.nn.Parameter" and nodes["l_w_"].meta is None
    facts = {node.name: (node.kind, node.target, node.inputs) for node in graph.operations}
    assert facts == {
        "sum_1": ("call", "l_x_.sum", ("l_x_",)),
        "dim": ("expression", "", ("l_w_",)),
        "text": ("call", "torch.ops.my.op.default", ("l_x_", "sum_1", "dim")),
        "iadd": ("expression", "", ("sum_1", "dim")),
        "add_": ("expression", "", ("sum_1", "l_w_")),
        "setitem": ("expression", "", ("l_x_", "dim", "sum_1")),
        "weight": ("attribute", "self.layers.weight", ()),
        "numbered": ("attribute", 'getattr(self.layers, "0").bias', ()),
        "plain": ("attribute", 'getattr(self, "0")', ()),
        "called": ("call", 'getattr(self.layers, "0")', ("l_x_",)),
        "shape": ("attribute", "l_x_.shape", ("l_x_",)),
        "getitem_3": ("getitem", "getitem", ("shape",)),
        "multi": ("call", "torch.ops.higher_order.flat", ("l_x_", "called")),
        "cond": ("call", "torch.ops.higher_order.cond", ("iadd", "add_", "getitem_3")),
    }
    assert nodes["text"].arguments[1:] == (
        "'l_w_, (b;  x = None'",
        '"dim"',
        "dim = sum_1",
        "other = [dim, -dim]",
    )
    assert nodes["called"].meta == TensorMeta("bfloat16", (8, "s0"), ("s0", 1), "cuda:1")
    assert nodes["getitem_3"].annotation == "int" and nodes["dim"].annotation == "Sym(s0 + 1)"
    assert nodes["sum_1"].users == ("text", "iadd", "add_", "setitem")
    code = "y = x.sum(dim=1)  # File: no.py:1 in f, code: z"
    assert nodes["text"].source == SourceLocation("/home/user/m.py", 7, "<lambda>", code)
    assert nodes["iadd"].source is None and nodes["setitem"].source is None
    assert nodes["cond"].source == SourceLocation("/home/user/m.py", 9, "forward", "h(x)")
    assert graph.outputs == ("iadd", "cond", None, None, "plain")
    assert nodes["multi"].line == 24 and nodes["cond"].line == 26


def test_parameters_that_are_unpacked() -> None:
    joint = """\
class inner_f(torch.nn.Module):
    def forward(self, primals, tangents):
        primals_1: "f32[8, 64]"; tangents_1: "Sym(s0)"; \n
        primals_1, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        mul: "f32[8, 64]" = torch.ops.aten.mul.Tensor(primals_1, tangents_1);  primals_1 = tangents_1 = None
        return pytree.tree_unflatten([mul, None], self._out_spec)
"""
    graph = parse_fx_graph(joint, "x")
    assert graph.problems == () and graph.outputs == ("mul", None)
    assert [(node.name, node.annotation, node.line) for node in graph.placeholders] == [
        ("primals_1", "f32[8, 64]", 3),
        ("tangents_1", "Sym(s0)", 3),
    ]
    boxed = """\
class GraphModule(torch.nn.Module):
    def forward(self, args_list):
        args_iter = iter(args_list)
        arg0_1 = next(args_iter)
        args_list.clear()
        neg = -arg0_1;  arg0_1 = None
        return neg
"""
    graph = parse_fx_graph(boxed, "x")
    assert graph.problems == () and graph.outputs == ("neg",)
    assert [(node.name, node.kind, node.users) for node in graph.nodes] == [
        ("arg0_1", "placeholder", ("neg",)),
        ("neg", "expression", ()),
    ]


def small_graphs(corpus: Path, traced: dict[str, list[str]]) -> list[str]:
    path = next((corpus / "cpu-torch2.4.1" / "softmax").rglob("fx_graph_transformed.py"))
    expanded = [text for text in traced["cpu-torch2.13/breaks"] if "    def forward(\n" in text]
    return [path.read_text(), min(expanded, key=len), SNIPPET]


def test_cut_anywhere(corpus: Path, traced: dict[str, list[str]]) -> None:
    for text in small_graphs(corpus, traced):
        whole = parse_fx_graph(text, "x")
        returned = text.index("return")
        end = text.index("\n", text.rindex("\n        )") + 1 if "return (\n" in text else returned)
        for cut in range(len(text)):
            graph = parse_fx_graph(text[:cut], "x")
            intact = [node for node in whole.operations if node.line < text.count("\n", 0, cut)]
            found = [(node.name, node.text, node.inputs) for node in graph.operations]
            assert found[: len(intact)] == [(node.name, node.text, node.inputs) for node in intact], cut
            assert cut >= end - 1 or graph.problems, cut


@pytest.mark.parametrize(
    "junk", ["%% foreign %%", "        %% foreign %%", "W1121 07:00] [0/0] x = y", "x = y"]
)
def test_a_foreign_line_anywhere(corpus: Path, traced: dict[str, list[str]], junk: str) -> None:
    for text in small_graphs(corpus, traced)[:2]:
        lines = text.split("\n")
        whole = [(node.name, node.inputs) for node in parse_fx_graph(text, "x").operations]
        start = next(
            n
            for n, line in enumerate(lines)
            if line.startswith("    ):") or (line.endswith("):") and "def" in line)
        )
        end = next(n for n, line in enumerate(lines) if "return" in line)
        for number in range(start + 1, end + 1):
            graph = parse_fx_graph("\n".join([*lines[:number], junk, *lines[number:]]), "x")
            assert [(node.name, node.inputs) for node in graph.operations] == whole, number
            assert [problem.line for problem in graph.problems] == [number + 1]


DAMAGED = """\
class <lambda>(torch.nn.Module):
    def forward(
        self,
        arg0_1: "f32[8]",  # PlainAOTInput(idx=0)
        arg1_1: "f32[
        arg2_1: "f32[8]",
    ):
        mul: "f32[8]" = torch.ops.aten.mul.Tensor(arg0_1, (arg2_1
        add: "f32[8]" = torch.ops.aten.add.Tensor(mul, arg2_1);  mul = arg2_1 = None
        return (add
"""


def test_every_damage_is_named_with_its_line() -> None:
    graph = parse_fx_graph(DAMAGED, "x", first_line=101)
    assert [node.name for node in graph.placeholders] == ["arg0_1", "arg2_1"]
    assert [(node.name, node.kind, node.inputs) for node in graph.operations] == [
        ("mul", "call", ("arg0_1", "arg2_1")),
        ("add", "call", ("mul", "arg2_1")),
    ]
    assert [problem.line for problem in graph.problems] == [105, 108, 110] and graph.outputs == ("add",)
    unclosed = parse_fx_graph(DAMAGED.replace("    ):\n", ""), "x")
    assert [node.name for node in unclosed.operations] == ["mul", "add"]
    single = parse_fx_graph('class A(torch.nn.Module):\n    def forward(self, a: "f32[2]", b: "f32[', "x")
    assert [node.name for node in single.placeholders] == ["a"]
    assert "parameter" in single.problems[0].message


@pytest.mark.parametrize(
    "text", ["", "garbage", "\x00" * 99, "class A(", "    def forward(self", "def forward(x):\n" + "(" * 5000]
)
def test_garbage_never_raises(text: str) -> None:
    graph = parse_fx_graph(text, "x")
    assert graph.problems and graph.text == text and graph.operations == ()


def test_windows_line_ends(corpus: Path, traced: dict[str, list[str]]) -> None:
    for text in small_graphs(corpus, traced):
        assert parse_fx_graph(text.replace("\n", "\r\n"), "x") == parse_fx_graph(text, "x")


BEFORE = """class GraphModule(torch.nn.Module):
    def forward(self, grad: "f32[8, 4]", held: "f32[8, 4]", weight: "f32[4, 4]"):
        # File: /home/user/grasp.py:19 in forward, code: x = x + self.second(x)
        mul: "f32[8, 4]" = torch.ops.aten.mul.Tensor(grad, held);  held = None
        mm_2: "f32[8, 4]" = torch.ops.aten.mm.default(mul, weight);  mul = weight = None

        # File: /home/user/grasp.py:21 in forward, code: x = x + y
        add: "f32[8, 4]" = torch.ops.aten.add.Tensor(grad, mm_2);  grad = mm_2 = None
        neg: "f32[8, 4]" = torch.ops.aten.neg.default(add);  add = None
        return (neg,)
"""
AFTER = """class GraphModule(torch.nn.Module):
    def forward(self, grad: "f32[8, 4]", held: "f32[8, 4]", weight: "f32[4, 4]"):
        # File: /home/user/grasp.py:19 in forward, code: x = x + self.second(x)
        mul: "f32[8, 4]" = torch.ops.aten.mul.Tensor(grad, held);  held = None

        # No stacktrace found for following nodes
        addmm_default: "f32[8, 4]" = torch.ops.aten.addmm.default(grad, mul, weight);  grad = mul = None
        full_default: "f32[8, 4]" = torch.ops.aten.full.default([8, 4], 1)

        # File: /home/user/grasp.py:21 in forward, code: x = x + y
        neg: "f32[8, 4]" = torch.ops.aten.neg.default(addmm_default);  addmm_default = None
        return (neg,)
"""


def test_what_a_pass_put_in_has_the_line_of_what_it_replaced() -> None:
    """Of a product and a sum that became one operator the product's; what replaced nothing stays without."""
    before, after = parse_fx_graph(BEFORE, "before.py"), parse_fx_graph(AFTER, "after.py")
    made = with_lines(after, before, {})
    assert made is not None
    lines = {node.name: node.source.line if node.source else None for node in made.operations}
    assert lines == {"mul": 19, "addmm_default": 19, "full_default": None, "neg": 21}
    # Damage took a part of an operator's name.
    hurt = with_lines(
        parse_fx_graph(AFTER.replace("ops.aten.addmm.default", "ops.addmm"), "after.py"), before, {}
    )
    assert hurt is not None and hurt.operations[1].source == made.operations[1].source is not None
    assert with_lines(before, before, {}) is before and with_lines(None, before, {}) is None


def test_what_a_pass_made_is_of_the_line_that_it_was_made_for() -> None:
    """torch/_inductor/fx_passes/joint_graph.py: mul_softmax_pattern, and reinplace.py's scatters."""

    def node(name: str, line: int | None, *inputs: str, kind: FxKind = "call") -> FxNode:
        source = SourceLocation("m.py", line) if line is not None else None
        return FxNode(name, kind, "", inputs, inputs, (), None, None, source, 1, name)

    nodes = (
        node("x", None, kind="placeholder"), node("total", 3, "x"), node("scaled", None, "total"),
        node("most", None, "scaled"), node("less", None, "scaled", "most"), node("exp", 5, "less"),
        node("split", None, "x"), node("one", 6, "split"), node("other", 7, "split"),
        node("unused", None, "x"),
    )  # fmt: skip
    earlier = {"less": ("softmax",), "exp": ("softmax",), "split": ("chunk",)}
    made = with_lines(FxGraph("", nodes, (), ""), None, earlier)
    assert made is not None
    lines = {node.name: node.source.line for node in made.nodes if node.source is not None}
    # Of what two lines use, and nothing, nobody knows; an input is of no line.
    assert lines == {"total": 3, "scaled": 5, "most": 5, "less": 5, "exp": 5, "one": 6, "other": 7}
