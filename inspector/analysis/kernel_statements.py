"""The statements of a Triton kernel's source that compute values, parsed and never run.

torch/_inductor/codegen/triton.py: TritonKernel writes one assignment for each operation of a loop body; index
arithmetic and masks stand beside them and belong to no operation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from inspector.frozen import dataclass

_VALUE = re.compile(r"_?tmp\d")
_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "remainder",
    ast.FloorDiv: "floor_divide", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift", ast.Pow: "pow",
}  # fmt: skip
_COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_PASSED_ON = frozenset({
    "load", "store", "to", "full", "broadcast_to", "reshape", "view", "trans", "expand_dims", "zeros",
    "arange", "int1", "make_block_ptr", "advance", "promote_to_tensor", "constexpr", "static_assert", "split",
    "join",
})  # fmt: skip
"""Calls that hand a value on as it is, or make a constant."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment or store. `first` and `last` are lines of the source, from 1.

    `names` are the values that it reads; `kinds` the operations that it does, by the names that Triton and
    torch share (``add``, ``exp``, ``maximum``), empty where it only hands a value on; `constants` the numbers
    in it. `pointer` is the kernel's argument that it loads from or stores to.
    """

    first: int
    last: int
    targets: tuple[str, ...]
    names: tuple[str, ...]
    kinds: frozenset[str]
    constants: tuple[float, ...] = ()
    pointer: str | None = None
    stores: bool = False


@dataclass(slots=True)
class _Parts:
    names: dict[str, None] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    constants: list[float] = field(default_factory=list)
    pointer: str | None = None
    stores: bool = False


def parsed(source: str) -> ast.Module:
    """An empty module where the source is cut off."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def triton_statements(source: str, function: str) -> tuple[Statement, ...]:
    """In order; empty where the source is cut off or has no such function."""
    tree = parsed(source)
    body = next(
        (node.body for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function), []
    )
    values: set[str] = set()
    pointers = _parameters(tree, function)
    return tuple(_statements(body, values, pointers))


def _parameters(tree: ast.Module, function: str) -> frozenset[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return frozenset(argument.arg for argument in node.args.args)
    return frozenset()


def _statements(body: list[ast.stmt], values: set[str], pointers: frozenset[str]) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.For | ast.While | ast.If | ast.With):
            yield from _statements(node.body, values, pointers)
            yield from _statements(getattr(node, "orelse", []), values, pointers)
            continue
        targets: tuple[str, ...] = ()
        value: ast.expr | None = None
        if isinstance(node, ast.Assign):
            targets = tuple(
                name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )
            value = node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and isinstance(node.target, ast.Name):
            targets, value = (node.target.id,), node.value
        elif isinstance(node, ast.Expr):
            value = node.value
        if value is None:
            continue
        parts = _Parts()
        if isinstance(node, ast.AugAssign):
            parts.names[targets[0]] = None
            parts.kinds.add(_BINARY.get(type(node.op), "other"))
        _collect(value, parts, values, pointers)
        computes = (
            parts.stores
            or parts.pointer is not None
            or any(name in values for name in parts.names)
            or any(_VALUE.match(target) for target in targets)
        )
        if computes:
            values.update(targets)
            yield Statement(
                node.lineno, node.end_lineno or node.lineno, targets,
                tuple(name for name in parts.names if name in values), frozenset(parts.kinds),
                tuple(parts.constants), parts.pointer, parts.stores,
            )  # fmt: skip


def _collect(node: ast.expr, parts: _Parts, values: set[str], pointers: frozenset[str]) -> None:
    """What one expression reads and does; addresses and masks of loads and stores are left out."""
    # A sum of a thousand terms nests a thousand deep.
    left = [node]
    while left:
        left += reversed(_operands(left.pop(), parts, values, pointers))


def _operands(
    node: ast.expr, parts: _Parts, values: set[str], pointers: frozenset[str]
) -> Sequence[ast.expr]:
    """What is left to look at of an expression, its own part being in `parts`."""
    if isinstance(node, ast.Call):
        return _call_operands(node, parts, values, pointers)
    if isinstance(node, ast.BinOp):
        parts.kinds.add(_BINARY.get(type(node.op), "other"))
        return node.left, node.right
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            _constant(node.operand, parts, -1)
            return ()
        parts.kinds.add({ast.USub: "neg", ast.Invert: "not", ast.Not: "not"}.get(type(node.op), "other"))
        return (node.operand,)
    if isinstance(node, ast.Compare):
        parts.kinds.update(_COMPARED.get(type(op), "other") for op in node.ops)
        return node.left, *node.comparators
    if isinstance(node, ast.Subscript | ast.Attribute | ast.Starred):
        return (node.value,)
    if isinstance(node, ast.Tuple | ast.List):
        return node.elts
    if isinstance(node, ast.Name):
        parts.names[node.id] = None
    elif isinstance(node, ast.Constant):
        _constant(node, parts, 1)
    return ()


def _call_operands(
    node: ast.Call, parts: _Parts, values: set[str], pointers: frozenset[str]
) -> Sequence[ast.expr]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in ("load", "store") or name.startswith("atomic_"):
        parts.stores |= name != "load"
        parts.pointer = _pointer(node.args[0], pointers) if node.args else None
        if name != "load":
            return node.args[1:2]
        if node.args:
            # An index that was itself loaded: an embedding's.
            parts.names.update(dict.fromkeys(_value_names(node.args[0], values)))
        return ()
    if name == "where" and node.args and not _value_names(node.args[0], values):
        # A mask of the grid: what lies outside is never stored.
        return [*node.args[1:2], *(other for other in node.args[2:] if _value_names(other, values))]
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if name == "full":
        arguments = node.args[1:2]
    elif name in _PASSED_ON or name in ("sum", "max2", "min2"):
        arguments = node.args[:1]
    if name not in _PASSED_ON:
        parts.kinds.add(name)
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
        return [node.func.value, *arguments]
    return arguments


def _constant(node: ast.Constant, parts: _Parts, sign: int) -> None:
    if isinstance(node.value, int | float) and not isinstance(node.value, bool):
        parts.constants.append(float(node.value) * sign)


def _is_module(node: ast.expr) -> bool:
    """``tl``, ``libdevice``, ``tl_math``, ``triton_helpers``, ``tl.extra.cuda``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and not _VALUE.match(node.id)


def _value_names(node: ast.expr, values: set[str]) -> list[str]:
    return [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and name.id in values]


def _pointer(node: ast.expr, pointers: frozenset[str]) -> str | None:
    names = (name.id for name in ast.walk(node) if isinstance(name, ast.Name))
    return next((name for name in names if name in pointers), None)
