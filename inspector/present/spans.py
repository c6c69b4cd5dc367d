"""Text made of pieces in different tones: what is written for a person, not read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from inspector.model.links import Ref, Related
from inspector.present.content import Rows, clean
from inspector.present.tables import Tone
from inspector.present.text import elide

Piece = tuple[str, Tone]

_LEAST = 8
"""Cells that a piece keeps however narrow the view is."""


@dataclass(frozen=True, slots=True)
class TonedLine:
    """One line; `ref` is the thing that it tells of."""

    pieces: tuple[Piece, ...] = ()
    ref: Ref | None = None

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True)
class TonedText:
    """A `Content` of such lines, already as wide as they shall be."""

    title: str
    lines: tuple[TonedLine, ...] = ()
    start: int = 0

    @property
    def count(self) -> int:
        return len(self.lines)

    @property
    def width(self) -> int:
        return max((len(line.text) for line in self.lines), default=0)

    def text(self, row: int) -> str:
        return self.lines[row].text

    def ref_at(self, row: int) -> Ref | None:
        return self.lines[row].ref

    def rows_of(self, related: Related) -> tuple[Rows, ...]:
        return ()


def line(*pieces: Piece, ref: Ref | None = None) -> TonedLine:
    return TonedLine(tuple((clean(text), tone) for text, tone in pieces if text), ref)


def fitted(pieces: Sequence[Piece], width: int, ref: Ref | None = None) -> TonedLine:
    """One line of at most `width` cells: the longest pieces give way."""
    parts = [(clean(text), tone) for text, tone in pieces if text]
    excess = sum(len(text) for text, _ in parts) - width
    while excess > 0:
        index = max(range(len(parts)), key=lambda index: len(parts[index][0]))
        text, tone = parts[index]
        if len(text) <= _LEAST:
            break
        parts[index] = (elide(text, max(_LEAST, len(text) - excess)), tone)
        excess -= len(text) - len(parts[index][0])
    return TonedLine(tuple(parts), ref)


def wrapped(
    text: str, width: int, tone: Tone = "", indent: str = "", hang: str | None = None, ref: Ref | None = None
) -> Iterable[TonedLine]:
    """`text` in lines of at most `width` cells; further lines begin with `hang`, by default `indent`."""
    rest = indent if hang is None else hang
    for part in wrap(
        clean(text), max(width, 20), initial_indent=indent, subsequent_indent=rest, break_on_hyphens=False
    ):
        yield TonedLine(((part, tone),), ref)


def message_text(title: str, message: str, width: int = 76) -> TonedText:
    """A remark in place of the text."""
    return TonedText(title, tuple(part for text in message.split("\n") for part in wrapped(text, width)))


def joined(parts: Sequence[str], limit: int) -> str:
    """`a, b and 3 more`"""
    more = f" and {len(parts) - limit} more" if len(parts) > limit else ""
    return ", ".join(parts[:limit]) + more
