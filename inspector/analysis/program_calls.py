"""A frame's calls as Dynamo traced them, and how eager's operators are named for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from inspector.model.fx import FxGraph, FxNode
from inspector.model.links import Linkage
from inspector.model.two_sides import ProgramCall, ProgramGraph

from .dataflow import operator

# l_self_modules_blocks_modules_0_modules_dw_parameters_weight_ -> blocks_modules_0_modules_dw
_PARAMETER = re.compile(
    r"l_(?:(?!_modules_)\w)*_modules_(?P<path>\w(?:(?!_(?:parameters|buffers)_\w)\w)*)_(?:parameters|buffers)_\w+$",
    re.I,
)
# l_self_modules_conv_parameters_weight_, g_net_modules_..., but not l_obs_, L_batch_image_
_OF_MODULE = re.compile(r"[lg]_\w*_(?:parameters|buffers)_\w+$", re.I)
# l_obs_, L_batch_image_
_HANDED = re.compile(r"l_(\w+?)_?$", re.I)
# add = x + y;  x = y = None
_BINARY = re.compile(r"=\s*[\w.\-]+\s*(\*\*|//|<<|>>|<=|>=|==|!=|[-+*/@%&|^<>])\s*[\w.\-(]")
# rows[(slice(None, 48, None))] = clamp;  setitem = rows;  clamp = setitem = None
_ITEM = re.compile(r"\w+\[")
_SETITEM = re.compile(r";  setitem\w* = ")
# truediv = 1.0 / sqrt
_NUMBER_OVER = re.compile(r"=\s*-?[\d.]+(?:e[-+]?\d+)?\s*/\s*[a-zA-Z_(]")
# neg = -x
_UNARY = re.compile(r"=\s*(-|~)\s*\w")
_SIGNS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floor_divide", "**": "pow", "@": "matmul",
    "%": "remainder", "&": "and", "|": "or", "^": "xor", "<": "lt", ">": "gt", "<=": "le", ">=": "ge",
    "==": "eq", "!=": "ne", "<<": "lshift", ">>": "rshift",
}  # fmt: skip

_SYNONYMS = {
    "truediv": "div", "true_divide": "div", "divide": "div", "multiply": "mul", "subtract": "sub",
    "rsub": "sub",
    "float": "to", "half": "to", "bfloat16": "to", "double": "to", "long": "to", "int": "to", "bool": "to",
    "type": "to", "type_as": "to", "cuda": "to", "cpu": "to",
    "numpy_T": "T", "matrix_H": "H",
    "negative": "neg", "cross_entropy": "cross_entropy_loss", "binary_cross_entropy_with_logits": "bce",
    "slice": "getitem", "select": "getitem", "index": "getitem", "__getitem__": "getitem",
    "setitem": "copy", "__setitem__": "copy", "index_put": "copy", "fill": "copy", "permute_dims": "permute",
    "swapaxes": "transpose", "swapdims": "transpose", "concat": "cat", "concatenate": "cat",
    "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "bitwise_not": "invert",
    "interpolate": "upsample", "grid_sample": "grid_sampler", "square": "pow", "matrix_power": "matmul",
    "col2im": "fold", "im2col": "unfold",
    "lstm_cell": "lstm", "absolute": "abs", "eq": "eq", "FlexAttentionAutogradOp": "flex_attention",
}  # fmt: skip
_MODES = frozenset({"torch._C._set_grad_enabled"})
_OVERLOAD = re.compile(r"torch\.ops\.\w+\.\w+\.\w+$")


def program_graph(compile_id: str, fx: FxGraph) -> ProgramGraph:
    """The calls of a graph that Dynamo traced, in the program's order."""
    parameters = {name: path for node in fx.placeholders if (path := _module(node.name)) for name in
                  (node.name, node.name[:1].lower() + node.name[1:])}  # fmt: skip
    tuples = _tuples(fx)
    unpacked: dict[str, list[str]] = {}
    calls = []
    for node in fx.operations:
        # A sub-graph's name, and what sets a mode, run no operator.
        if node.kind == "attribute" or node.target in _MODES:
            continue
        if node.kind == "getitem" and node.inputs and node.inputs[0] in tuples:
            unpacked.setdefault(tuples[node.inputs[0]], []).append(node.name)
            continue
        modules = dict.fromkeys(
            path for name in _names(node) if (path := parameters.get(name) or _module(name))
        )
        function, *behind = _functions(node)
        calls.append(
            ProgramCall(
                node.name, function, node.source, tuple(modules), inputs=node.inputs, behind=tuple(behind)
            )
        )
    calls = [replace(call, unpacked=tuple(unpacked.get(call.name, ()))) for call in calls]
    return ProgramGraph(compile_id, tuple(calls))


def calls_by_node(program: ProgramGraph, linkage: Linkage) -> dict[str, tuple[ProgramCall, ...]]:
    """Post-grad FX node -> the program's calls that torch's provenance names for it."""
    own = {name: call for call in program.calls for name in (call.name, *call.unpacked)}
    return {
        name: calls
        for name, before in linkage.pre_fx
        if (calls := tuple(own[each] for each in before if each in own))
    }


def _tuples(fx: FxGraph) -> dict[str, str]:
    """Each value that is no tensor but a tuple, one inside another included -> the call that returned it:
    print_readable (torch/fx/graph.py) annotates tensors and numbers only."""
    if not any(node.annotation for node in fx.nodes):
        return {}
    made: dict[str, str] = {}
    for node in fx.operations:
        if node.annotation is None and node.kind == "call":
            made[node.name] = node.name
        elif node.annotation is None and node.kind == "getitem" and node.inputs and node.inputs[0] in made:
            made[node.name] = made[node.inputs[0]]
    return made


def token(operator: str) -> str:
    """The name under which a call of the program and an operator of eager are the same: without ``aten::``,
    the underscore of in-place operators, and with the other names of one thing replaced by the first."""
    name = operator.rpartition("::")[2]
    if not name.startswith("__"):
        name = name.rstrip("_")
    else:
        name = _SYNONYMS.get(name, name.strip("_"))
    name = _SYNONYMS.get(name, name)
    return "upsample" if name.startswith("upsample_") else name


def _names(node: FxNode) -> Iterable[str]:
    # `l_..._num_batches_tracked_.add_(1)`: the receiver of a method is part of the target.
    return (*node.inputs, node.target.rpartition(".")[0])


def _functions(node: FxNode) -> tuple[str, ...]:
    """Its function, and what eager runs behind that: a number over a tensor is its reciprocal, times the
    number (torch/_tensor.py: Tensor.__rtruediv__)."""
    over = node.kind != "getitem" and not node.target and _NUMBER_OVER.search(node.text)
    return ("reciprocal", "mul") if over else (_function(node),)


def _function(node: FxNode) -> str:
    """``torch._C._nn.gelu`` -> ``gelu``, ``torch.ops.my.f.default`` -> ``f``; an expression by its sign."""
    if node.kind == "getitem":
        return "getitem"
    if _OVERLOAD.match(node.target):
        return operator(node.target)
    if node.target:
        return node.target.rpartition(".")[2]
    if _ITEM.match(node.text) and _SETITEM.search(node.text.partition("] = ")[2]):
        return "setitem"
    text = node.text.split('" ', 1)[-1]
    sign = _BINARY.search(text)
    if sign is not None:
        return _SIGNS[sign[1]]
    sign = _UNARY.search(text)
    return {"-": "neg", "~": "invert"}[sign[1]] if sign is not None else ""


def of_module(name: str) -> bool:
    """Whether an argument of a frame's graph is a parameter or a buffer of a module."""
    return _OF_MODULE.match(name) is not None


def handed_name(name: str) -> str:
    """`obs` of ``l_obs_``: what the caller calls an argument of a frame's graph; empty for another name."""
    match = _HANDED.match(name)
    return match[1] if match is not None else ""


def _module(name: str) -> str | None:
    match = _PARAMETER.match(name)
    return match["path"].replace("_modules_", ".") if match else None
