"""Divisions of 64-bit integers in a Triton kernel's source: a GPU has no instruction for one.

By a number that stands in the source the compiler multiplies instead
(llvm/lib/CodeGen/SelectionDAG/TargetLowering.cpp: BuildSDIV); by what was loaded it makes many instructions,
and fewer where both numbers turn out to fit into 32 bits (llvm/lib/Transforms/Utils/BypassSlowDivision.cpp).
"""

from __future__ import annotations

import ast
import re

from inspector.model.code import Kernel

from .kernel_statements import Statement, parsed, triton_statements

DIVIDE = frozenset({"remainder", "floor_divide", "div", "fmod"})
"""ATen's operators that do, of integers or not."""
_KINDS = frozenset({"remainder", "floor_divide", "div_floor_integer", "remainder_integer"})
"""torch/_inductor/codegen/triton.py: TritonOverrides, and torch/_inductor/runtime/triton_helpers.py."""
_COMPARED = frozenset({"lt", "le", "gt", "ge", "eq", "ne"})
_WIDE = "i64"
_POINTED = re.compile(r"\*k?([a-z]+\d+)")
_CONVERTED = re.compile(r"\.to\(tl\.([a-z]+\d+)")
_NAMES = {"int64": _WIDE, "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
_RANK = ("fp64", "fp32", "bf16", "fp16", _WIDE)
"""What a value of several is made in: floats before integers (torch/_prims_common: elementwise_dtypes)."""


def size_divisions(kernel: Kernel) -> tuple[tuple[int, bool], ...]:
    """(line of the source from 1, whether it is one for each element of a reduction) of index arithmetic that
    divides by sizes which the kernel is handed as 64-bit numbers: what one quotient or remainder needs the
    other one has, and what is the same for all elements is done once. Those of a static shape are constants
    (torch/_inductor/codegen/triton_utils.py: signature_of)."""
    handed = {parameter.name for parameter in kernel.parameters}
    sizes = {parameter.name for parameter in kernel.parameters if parameter.type == _WIDE}
    if not sizes:
        return ()
    seen: dict[tuple[str, str], tuple[int, bool]] = {}
    for node in ast.walk(parsed(kernel.source)):
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.FloorDiv, ast.Mod))):
            continue
        by, of = (
            {name.id for name in ast.walk(side) if isinstance(name, ast.Name)}
            for side in (node.right, node.left)
        )
        if by and by <= sizes and of - handed:
            pair = ast.unparse(node.left), ast.unparse(node.right)
            seen.setdefault(pair, (node.lineno, any(name.startswith("r") for name in of)))
    return tuple(sorted(seen.values()))


def wide_divisions(kernel: Kernel) -> tuple[int, ...]:
    """Lines of the source, from 1, that divide 64-bit integers by such as are no constants."""
    types = {
        parameter.name: match[1]
        for parameter in kernel.parameters
        if (match := _POINTED.match(parameter.type)) is not None
    }
    lines = kernel.source.split("\n")
    constants: set[str] = set()
    own: dict[str, str] = {}
    found = []
    for statement in triton_statements(kernel.source, kernel.function):
        if not statement.names and statement.pointer is None:
            constants.update(statement.targets)
        made = _type(statement, lines[statement.first - 1], types, own)
        own.update(dict.fromkeys(statement.targets, made))
        by = [name for name in statement.names if name not in constants]
        if statement.kinds & _KINDS and made == _WIDE and len(by) > 1:
            found.append(statement.first)
    return tuple(found)


def _type(statement: Statement, line: str, types: dict[str, str], own: dict[str, str]) -> str:
    """Triton's name of what a statement makes, as far as it matters here; empty for others."""
    converted = _CONVERTED.search(line)
    if converted is not None:
        return _NAMES.get(converted[1], "")
    if statement.pointer is not None:
        return types.get(statement.pointer, "")
    if statement.kinds & _COMPARED:
        return ""
    read = {own.get(name, "") for name in statement.names}
    return next((name for name in _RANK if name in read), "")
