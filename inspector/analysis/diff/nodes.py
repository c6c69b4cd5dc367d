"""FX nodes in a form that other versions of torch, other devices and other modes have as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from inspector.analysis.dataflow import VIEW_OPERATORS, operator
from inspector.model.fx import FxGraph, FxNode, TensorMeta
from inspector.model.source import is_library, own_name

_FAMILIES = {
    **dict.fromkeys(("mm", "addmm", "linear", "_linear_pointwise", "_mkl_linear", "mkldnn_linear"), "matmul"),
    **dict.fromkeys(("bmm", "baddbmm"), "bmm"),
    **dict.fromkeys(
        ("_convolution_pointwise", "_convolution_pointwise_", "cudnn_convolution"), "convolution"
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ),
        "attention",
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_backward",
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "_scaled_dot_product_efficient_attention_backward",
            "_scaled_dot_product_cudnn_attention_backward",
        ),
        "attention backward",
    ),
    **dict.fromkeys(("_to_copy", "convert_element_type", "to"), "cast"),
    **dict.fromkeys(("full", "full_like", "zeros", "zeros_like", "ones", "scalar_tensor", "empty"), "fill"),
    **dict.fromkeys(("_low_memory_max_pool2d_with_offsets", "_low_memory_max_pool_with_offsets",
                     "max_pool2d_with_indices"), "max_pool"),
    **dict.fromkeys(("where", "masked_fill"), "where"),
    **dict.fromkeys(("_softmax", "softmax"), "softmax"),
    **dict.fromkeys(("iota", "arange"), "iota"),
}  # fmt: skip
"""Names of one operator in several versions of torch, on several devices, before and after decompositions."""

LIBRARY = frozenset(
    {"matmul", "bmm", "convolution", "convolution_backward", "attention", "attention backward"}
)
"""Families that a library or a template computes as a whole."""

COMMUTES = frozenset({"add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or"})
"""Operators whose inputs have no order."""

_PASSED = VIEW_OPERATORS - {"clone"}
_WRAPPING = re.compile(r"[/\\]torch[/\\]_(?:dynamo|functorch|inductor)[/\\]")
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def family(target: str) -> str:
    """`torch.ops.aten.addmm.default`, `extern_kernels.bias_addmm`, `mkldnn._linear_pointwise` -> `matmul`."""
    name = operator(target)
    return _FAMILIES.get(name, name)


@dataclass(slots=True)
class Node:
    """An operation, or an input, by what it computes. `shape` has `?` for symbolic extents. `text` is the
    source line without blanks, empty where torch wrote none; `library` says that it is no line of the user's.
    `inputs` are positions of the nodes whose values it reads, views passed over; `taps` are the items of them
    that it reads, where that is one of several (`[2]` of an unbind); `minor` marks what moves or converts
    values only. `constants` are the numbers among its arguments, `operands` the shapes of what a library call
    reads.
    `given` says which values of the forward graph a backward node reads, in words that both sides share."""

    name: str
    op: str
    dtype: str
    shape: tuple[str, ...]
    text: str
    function: str
    place: str
    library: bool
    minor: bool
    inputs: tuple[int, ...]
    constants: tuple[str, ...]
    operands: tuple[tuple[str, ...], ...] = ()
    module: str = ""
    taps: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    @property
    def is_input(self) -> bool:
        return self.op == ""


class Graph:
    """The nodes of one FX graph in order. Views, items of tuples and symbolic arithmetic are passed over:
    `views` maps them to the position of the node whose values they show, `taps` to the item of it that they
    are."""

    def __init__(
        self, ident: str, phase: str, fx: FxGraph | None, modules: Mapping[str, str] | None = None
    ) -> None:
        self.ident = ident
        self.phase = phase
        self.nodes: list[Node] = []
        self.views: dict[str, int] = {}
        self.taps: dict[str, str] = {}
        self.position: dict[str, int] = {}
        modules = modules or {}
        metas = {
            node.inputs[0]: node.meta
            for node in reversed(fx.nodes if fx else ())
            if node.kind == "getitem" and node.inputs and node.meta is not None
        }
        for item in fx.nodes if fx is not None else ():
            source = self._source(item)
            if item.kind == "expression":
                continue
            if item.kind == "getitem" or (item.kind == "call" and operator(item.target) in _PASSED):
                if source is not None:
                    self.views[item.name] = source
                    self.taps[item.name] = self.taps.get(item.inputs[0], "") + _tap(item)
                continue
            self.position[item.name] = len(self.nodes)
            node = _node(item, item.meta or metas.get(item.name), self._inputs(item), modules)
            node.taps = tuple(sorted(tap for name in item.inputs if (tap := self.taps.get(name))))
            if node.op in LIBRARY:
                node.operands = tuple(self.nodes[position].shape for position in node.inputs)
            self.nodes.append(node)
        self.users: list[list[int]] = [[] for _ in self.nodes]
        for position, node in enumerate(self.nodes):
            for source in node.inputs:
                self.users[source].append(position)

    def _source(self, item: FxNode) -> int | None:
        return next(iter(self._inputs(item)), None)

    def _inputs(self, item: FxNode) -> tuple[int, ...]:
        positions = (self.position.get(name, self.views.get(name)) for name in item.inputs)
        return tuple(position for position in positions if position is not None)

    @property
    def operations(self) -> list[int]:
        return [position for position, node in enumerate(self.nodes) if not node.is_input]


def _tap(item: FxNode) -> str:
    """Which item a view takes: `y[0]`, `aten.select.int(y, 0, 2)`. A slice's begin; its end is a size."""
    if item.kind == "getitem" or operator(item.target) == "select":
        return f"[{item.arguments[-1]}]" if item.arguments else ""
    if operator(item.target) == "slice":
        return f"[{item.arguments[2]}:]" if len(item.arguments) > 2 else "[0:]"
    return ""


def _node(item: FxNode, meta: TensorMeta | None, inputs: tuple[int, ...], modules: Mapping[str, str]) -> Node:
    op = "" if item.kind == "placeholder" else family(item.target) or item.kind
    shape = tuple(str(size) if isinstance(size, int) else "?" for size in meta.shape) if meta else ()
    # torch/_dynamo/external_utils.py:38 in inner, code: return fn(*args, **kwargs)  (2.4)
    source = item.source if item.source is None or not _WRAPPING.search(item.source.path) else None
    constants = tuple(
        number for text in item.arguments if text not in item.inputs for number in _NUMBER.findall(text)
    )
    return Node(
        name=item.name,
        op=op,
        dtype=meta.dtype if meta else "",
        shape=shape,
        text="".join((source.code or "").split()) if source else "",
        function=own_name(source.function or "") if source else "",
        place=source.short if source else "",
        library=source is not None and is_library(source.path),
        minor=op in ("cast", "clone", "fill", "iota", "copy_", "attribute"),
        inputs=inputs,
        constants=constants if op not in LIBRARY else (),
        module=modules.get(item.name, ""),
    )
