"""FX graphs as `print_readable` writes them (torch/fx/graph_module.py: _print_readable)."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

from .problem import Problem
from .source import Size, SourceLocation

DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz", "f8e5m2fnuz": "float8_e5m2fnuz", "f8e8m0fnu": "float8_e8m0fnu",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8",
    "b8": "bool", "c32": "complex32", "c64": "complex64", "c128": "complex128",
}  # fmt: skip
"""torch's dtype abbreviations (torch/utils/_dtype_abbrs.py: dtype_abbrs) to `torch.X` names."""

FxKind = Literal["placeholder", "call", "getitem", "expression", "attribute"]
HALF = frozenset({"float16", "bfloat16"})


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """A value's dtype (torch's name, e.g. "float32"), shape, and strides and device where written."""

    dtype: str
    shape: tuple[Size, ...]
    stride: tuple[Size, ...] | None = None
    device: str | None = None

    @property
    def is_complex(self) -> bool:
        return self.dtype.startswith("complex")


@dataclass(frozen=True, slots=True)
class FxNode:
    """One line of `forward`, or one of its parameters.

    `kind`: `placeholder`; `call` (an operator); `getitem` (``x = y[0]``); `expression` (symbolic
    arithmetic, ``add_4 = arg0_1 + 1``); `attribute` (``self.weight``). `target` is the operator
    as written (``torch.ops.aten.mm.default``), empty for placeholders and expressions.
    `arguments` are the texts of the positional and keyword arguments in order; `inputs` the names
    of the nodes they mention, each once; `users` the names of the nodes that mention this one.
    `annotation` is the text between the quotes (``f32[10, 64]``, ``Sym(s77)``).
    """

    name: str
    kind: FxKind
    target: str
    arguments: tuple[str, ...]
    inputs: tuple[str, ...]
    users: tuple[str, ...]
    annotation: str | None
    meta: TensorMeta | None
    source: SourceLocation | None
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class FxGraph:
    """A whole graph. `nodes` are in file order, placeholders first; `outputs` the names that are
    returned, None where the graph returns None or a constant."""

    path: str
    nodes: tuple[FxNode, ...]
    outputs: tuple[str | None, ...]
    text: str
    problems: tuple[Problem, ...] = ()

    @property
    def placeholders(self) -> tuple[FxNode, ...]:
        return tuple(node for node in self.nodes if node.kind == "placeholder")

    @property
    def operations(self) -> tuple[FxNode, ...]:
        """What the contract counts as `fx_nodes`: everything but placeholders and the output."""
        return tuple(node for node in self.nodes if node.kind != "placeholder")
