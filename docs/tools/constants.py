"""Writes docs/constants.md, the numbers of inspector/explain: ``python docs/tools/constants.py``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXPLAIN = ROOT / "inspector" / "explain"
PAGE = Path(__file__).parents[1] / "constants.md"
HEAD = """# The numbers in `inspector explain`

What is said, how loud and in which order follows from claims beside the noise. These are the numbers that are
written down in `inspector/explain/` beside that, each with the reason that stands at its place; this page is
made from there.

| number | value | module | why |
|---|---|---|---|
"""


@dataclass(frozen=True)
class Constant:
    """`reason` is the string below it, or below the last of those that stand together; empty without one."""

    name: str
    value: str
    module: str
    reason: str


def constants(folder: Path = EXPLAIN) -> list[Constant]:
    """Every name that a module gives a number, or a tuple of numbers."""
    return [
        item
        for path in sorted(folder.rglob("*.py"))
        for item in of_module(path.read_text(encoding="utf-8"), path.relative_to(folder).as_posix())
    ]


def of_module(text: str, name: str) -> Iterator[Constant]:
    found: list[tuple[str, str]] = []
    for statement in [*ast.parse(text).body, ast.Pass()]:
        if (pair := _number(statement, text)) is not None:
            found.append(pair)
            continue
        reason = ""
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            reason = " ".join(str(statement.value.value).split())
        yield from (Constant(*pair, name, reason) for pair in found)
        found = []


def _number(statement: ast.stmt, text: str) -> tuple[str, str] | None:
    if isinstance(statement, ast.AnnAssign):
        target: ast.expr = statement.target
    elif isinstance(statement, ast.Assign):
        target = statement.targets[0]
    else:
        return None
    value = statement.value
    if value is None or not _is_number(value):
        return None
    return ast.unparse(target).strip("()"), ast.get_source_segment(text, value) or ast.unparse(value)


def _is_number(value: ast.expr) -> bool:
    """Numbers, arithmetic with at least one, and tuples of such."""
    nodes = list(ast.walk(value))
    allowed = (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Name, ast.operator, ast.unaryop, ast.Load)
    numbers = [node for node in nodes if isinstance(node, ast.Constant)]
    plain = all(isinstance(node.value, (int, float)) and not isinstance(node.value, bool) for node in numbers)
    computed = isinstance(value, ast.BinOp)
    return all(isinstance(node, allowed) for node in nodes) and plain and bool(numbers or computed)


def page() -> str:
    rows = (
        f"| `{item.name}` | `{item.value}` | `{item.module}` | {item.reason.replace('|', '/')} |\n"
        for item in constants()
    )
    return HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
