"""By how many elements the index of a load or store in a Triton kernel moves, variable by variable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

_OFFSET = ""
"""Stands for the constant among the variables."""


class Address(NamedTuple):
    """What a ``tl.load`` or ``tl.store`` addresses: of `pointer` the element `offset`, and so many further on
    with each variable; None for no constant number."""

    pointer: str
    steps: dict[str, int | None]
    offset: int | None


def addresses(statement: str) -> Iterator[Address]:
    """Of a line of a kernel's source; none for what is no such line."""
    try:
        tree = ast.parse(statement.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("load", "store")
            and node.args
            and isinstance(node.args[0], ast.BinOp)
            and isinstance(node.args[0].left, ast.Name)
        ):
            steps: dict[str, int | None] = {_OFFSET: 0}
            _add(node.args[0].right, 1, steps)
            yield Address(node.args[0].left.id, steps, steps.pop(_OFFSET))


def index_steps(statement: str) -> dict[str, int | None]:
    """Of the first ``tl.load`` or ``tl.store`` in a line: variable -> elements, None for no constant number.

    ``tl.load(in_ptr0 + (x0 + 128*r0_2))`` gives ``{"x0": 1, "r0_2": 128}``; empty for what is no such line.
    """
    first = next(addresses(statement), None)
    return first.steps if first is not None else {}


def _number(node: ast.expr) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _number(node.operand)
        return -number if number is not None else None
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


def _add(node: ast.expr, factor: int | None, steps: dict[str, int | None]) -> None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        sign = -1 if isinstance(node.op, ast.Sub) else 1
        _add(node.left, factor, steps)
        _add(node.right, factor * sign if factor is not None else None, steps)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            if (number := _number(one)) is not None:
                _add(other, factor * number if factor is not None else None, steps)
                return
        _add(node.left, None, steps)
        _add(node.right, None, steps)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _add(node.operand, -factor if factor is not None else None, steps)
    elif (number := _number(node)) is not None:
        known = steps[_OFFSET]
        steps[_OFFSET] = known + factor * number if known is not None and factor is not None else None
    elif isinstance(node, ast.Name):
        known = steps.get(node.id, 0)
        steps[node.id] = known + factor if known is not None and factor is not None else None
    elif not isinstance(node, ast.Constant):
        # A quotient or a condition of variables: they move it, nobody can say by how much.
        for name in ast.walk(node):
            if isinstance(name, ast.Name):
                steps[name.id] = None
