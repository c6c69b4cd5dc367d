"""Useful bytes and evaluations of the stories' graphs, against a dispatch mode's of the same programs."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from as_eager import Counting
from torch.utils._pytree import tree_leaves

from inspector.analysis.dataflow import operator
from inspector.analysis.evaluations import operations
from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.traffic import symbol_hints
from inspector.model.fusion import FusionReport
from inspector.model.fx import FxNode
from inspector.readers.run import Run
from inspector.replay.plan import kernel_plan

SAMPLES = Path(__file__).parent.parent / "sample_runs"
STORIES = SAMPLES / "stories"


def counted(name: str) -> tuple[Counting, int]:
    """What the story's program does in one call, and the bytes of what it is given and returns."""
    program = runpy.run_path(str(STORIES / name / f"{name}.py"))
    with torch.no_grad(), torch.device("meta"):
        args = program["inputs"]()
        with Counting(args) as counting:
            result = program["step"](*args)
    sizes = (leaf.numel() * leaf.element_size() for leaf in tree_leaves((args, result)))
    return counting, sum(sizes)


def report(name: str) -> FusionReport:
    (graph,) = Run.open(STORIES / name / "run.tar.xz").graphs
    return analyse_fusion(graph.artifacts())


def test_parts_that_are_written_and_views_that_are_read_are_all_that_is_asked_for() -> None:
    counting, _ = counted("kv_by_position")
    (item,) = report("kv_by_position").rewritten
    assert item.asked == counting.written[0] + counting.read[0] < item.moved


def test_one_kernel_moves_what_goes_in_and_comes_out_and_a_seed() -> None:
    _, outside = counted("diffusion_noise")
    _, noise = report("diffusion_noise").groups
    assert noise.bytes_asked == noise.bytes_moved == outside + 8


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("relative_bias", {"log1p"}),
        ("diffusion_noise", {"cos", "sqrt"}),
        ("kv_by_position", {"exp"}),
    ],
)
def test_operators_have_as_many_elements_as_in_eager(name: str, operators: set[str]) -> None:
    counting, _ = counted(name)
    known = {item.operator: item for item in report(name).evaluations}
    assert operators <= known.keys()
    for name in operators:
        made = counting.elements["_softmax" if name == "exp" else name]
        assert known[name].elements in made


ROWS = 100


def test_a_softmax_asks_for_all_that_it_makes() -> None:
    """The sample of 100x100: its kernel stores the largest and the sum of each row beside the result."""
    x = torch.empty(ROWS, ROWS, device="meta")
    with Counting((x, x)) as counting:
        torch.softmax(torch.mm(x, x), 1)
    (graph,) = Run.open(SAMPLES / "softmax" / "run.tar.xz").graphs
    artifacts = graph.artifacts()
    result, (_, kernel) = analyse_fusion(artifacts), kernel_plan(artifacts).calls
    matrix, row = 4 * counting.elements["mm"][0], 4 * ROWS
    assert [(group.bytes_moved, group.bytes_asked) for group in result.groups] == [
        (3 * matrix, 3 * matrix),
        (2 * matrix + 2 * row, 2 * matrix + 2 * row),
    ]
    made = {item.operator: (item.elements, item.times) for item in result.evaluations}
    assert made == dict.fromkeys(("exp", "div"), (counting.elements["_softmax"][0], 1.0))
    # amax, sub, exp, sum, div: one operation of each for an element.
    assert (kernel.flops, kernel.flops_asked) == (5 * ROWS * ROWS, 5 * ROWS * ROWS)


def test_a_softmax_whose_division_is_inlined_makes_it_for_every_value_that_it_weighs() -> None:
    """Weights of 256 positions by 32 values each: exp is kept in memory, the division behind it is not."""
    counting, _ = counted("kv_by_position")
    weights = counting.elements["_softmax"]
    assert weights == [4 * 256] * 6
    for operator_name, times in (("exp", 1), ("div", 32)):
        own = [item for item in report("kv_by_position").evaluations if item.operator == operator_name]
        assert [item.elements for item in own] == weights
        assert [item.elements + item.extra for item in own] == [times * count for count in weights]


# -- arithmetic


PIXELS, UPSAMPLED = 8 * 128 * 96 * 96, 8 * 128 * 192 * 192
IMAGES, ENLARGED = 4 * 64 * 96 * 96, 4 * 64 * 384 * 384


@pytest.mark.parametrize(
    ("name", "made", "asked"),
    [
        # A scale and GELU's mul, mul, erf, add, mul; three times sub, mul, add for each pixel, the skip.
        ("decoder_upsample", 16 * 6 * PIXELS + 10 * UPSAMPLED, 6 * PIXELS + 10 * UPSAMPLED),
        # exp, log1p, tanh, mul; five sums of four products.
        ("bicubic_of_mish", 256 * 4 * IMAGES + 35 * ENLARGED, 4 * IMAGES + 35 * ENLARGED),
    ],
)
def test_arithmetic_by_hand(name: str, made: int, asked: int) -> None:
    (graph,) = Run.open(STORIES / name / "run.tar.xz").graphs
    (call,) = kernel_plan(graph.artifacts()).calls
    assert (call.flops, call.flops_asked) == (made, asked)


ONE = frozenset({
    "add", "sub", "mul", "div", "exp", "log", "log1p", "expm1", "tanh", "sigmoid", "erf", "sin", "cos",
    "sqrt", "rsqrt", "relu", "maximum", "minimum", "clamp_min", "clamp_max", "reciprocal", "square",
})  # fmt: skip
"""Operators that ask for one operation for each element of their result."""
STEP = frozenset({"sum", "amax", "amin"})
"""For one of each element of their input."""
NONE = frozenset({
    "neg", "abs", "where", "gt", "lt", "ge", "le", "eq", "ne", "convert_element_type", "full", "view",
    "expand", "permute", "unsqueeze", "squeeze", "select", "slice", "clone", "cat", "floor", "logical_not",
})  # fmt: skip


def test_loops_are_asked_for_what_their_fx_nodes_are(corpus_runs: list[Path]) -> None:
    """Groups of nodes that are told above, none of them shared with another group: all of the corpus."""
    equal = 0
    for path in corpus_runs:
        for graph in Run.open(path).graphs:
            artifacts = graph.artifacts()
            if artifacts.post is None or artifacts.fx_after is None:
                continue
            result, fx = analyse_fusion(artifacts), {node.name: node for node in artifacts.fx_after.nodes}
            reader = IndexReader(symbol_hints(artifacts.code, artifacts.fx_after) if artifacts.code else {})
            counted = operations({e.name: tuple(e.leaves()) for e in artifacts.post.nodes}, result, reader)
            leaves = {leaf.name: leaf for leaf in result.nodes}
            names = {
                group.name: {name for leaf in group.nodes for name in leaves[leaf].fx}
                for group in result.groups
            }
            working = {name for name, node in fx.items() if operator(node.target) in ONE | STEP}
            shared = Counter(name for own in names.values() for name in own & working)
            for group, (made, asked) in counted.items():
                assert 0 <= asked <= made
                own = [fx[name] for name in names[group] if name in fx]
                told = all(operator(node.target) in ONE | STEP | NONE for node in own)
                if told and all(shared[node.name] <= 1 for node in own):
                    assert asked == sum(_asked(node, fx, reader) for node in own), (path, group)
                    equal += asked > 0
    assert equal > 50


def _asked(node: FxNode, fx: Mapping[str, FxNode], reader: IndexReader) -> int:
    kind = operator(node.target)
    meta = fx[node.inputs[0]].meta if kind in STEP else node.meta
    return reader.numel(meta.shape) or 0 if kind not in NONE and meta is not None else 0
