"""Plain-text tables and lines that fit a width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False


def elide(text: str, width: int) -> str:
    """`text` in at most `width` cells, cut in the middle, where names differ least."""
    if len(text) <= width or width < 5:
        return text[: max(width, 0)] if len(text) > width else text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Aligned lines, title first; the widest column gives way where the table is too wide."""
    widths = [
        max([len(column.title), *(len(row[index]) for row in rows)]) for index, column in enumerate(columns)
    ]
    excess = sum(widths) + 2 * (len(columns) - 1) - width
    if excess > 0:
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] - excess, 12)

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, column, size in zip(cells, columns, widths, strict=True):
            cell = elide(cell, size)
            parts.append(cell.rjust(size) if column.right else cell.ljust(size))
        return "  ".join(parts).rstrip()

    return [line([column.title for column in columns]), *(line(row) for row in rows)]
