"""A text on screen: its lines, which language each stretch is in, and what the lines stand for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Literal

from inspector.model.links import Ref, Related
from inspector.present.content import RefIndex, Rows, clean
from inspector.present.tables import Tone

Language = Literal["python", "cpp", "ir", "outline", "plain"]

CHUNK = 80
"""Lines that are coloured at a time: a little more than a tall terminal shows."""


@dataclass(frozen=True, slots=True)
class Region:
    """Rows `first` to `last` in one language; a lexer never looks beyond them."""

    first: int
    last: int
    language: Language


@dataclass(frozen=True)
class Document:
    """Lines with their meaning. `first_number` is the number of row 0, None for a text without numbers.

    `notes` are remarks drawn after a line; they are neither copied nor searched. `find` turns a
    selection into the rows that show it.
    """

    title: str
    lines: tuple[str, ...]
    regions: tuple[Region, ...] = ()
    refs: RefIndex = field(default_factory=RefIndex)
    find: Callable[[Related], tuple[Rows, ...]] = lambda related: ()
    notes: Mapping[int, str] = field(default_factory=dict)
    first_number: int | None = 1
    width: int = 0
    start: int = 0
    """Row that the cursor is on at first."""
    tones: Mapping[int, tuple[tuple[int, int, Tone], ...]] = field(default_factory=dict)
    """Stretches of a row (start, end) that carry a meaning of their own, such as a verdict."""

    @property
    def count(self) -> int:
        return len(self.lines)

    def text(self, row: int) -> str:
        return self.lines[row]

    def ref_at(self, row: int) -> Ref | None:
        return self.refs.at(row)

    def rows_of(self, related: Related) -> tuple[Rows, ...]:
        return self.find(related)

    def chunk_of(self, row: int) -> Region | None:
        """The stretch of one language, at most `CHUNK` lines, that is coloured together with `row`."""
        index = bisect_right(self.regions, row, key=lambda region: region.first) - 1
        if index < 0 or row > self.regions[index].last:
            return None
        region = self.regions[index]
        first = region.first + (row - region.first) // CHUNK * CHUNK
        return Region(first, min(first + CHUNK - 1, region.last), region.language)


def split_lines(text: str) -> tuple[str, ...]:
    """The lines as an editor numbers them, safe for a terminal; a last empty one is left out."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return tuple(line if line.isprintable() else clean(line) for line in lines)


def widest(lines: Iterable[str]) -> int:
    return max((len(line) for line in lines), default=0)


MESSAGE_WIDTH = 76
"""Cells to which remarks are wrapped: the smallest terminal shows them, and a wide one no worse."""


def message_document(title: str, message: str) -> Document:
    """A remark in place of a text: still loading, absent, or unreadable."""
    lines = tuple(piece for line in message.split("\n") for piece in _wrapped(clean(line)))
    return Document(title, lines, first_number=None, width=widest(lines))


def _wrapped(line: str) -> list[str]:
    indent = " " * (len(line) - len(line.lstrip()))
    return wrap(line, MESSAGE_WIDTH, subsequent_indent=indent, break_on_hyphens=False) or [""]
