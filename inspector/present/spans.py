"""Lines of text in tones: what is written for a person, to be printed or drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from inspector.frozen import dataclass
from inspector.text import cells, clean, elide, wrap
from inspector.units import comparison

if TYPE_CHECKING:
    from inspector.model.links import Ref, Related

    from .content import Rows

Tone = Literal["", "dim", "good", "bad", "warn", "accent"]
"""What a text means. Each writer has one table of what a tone looks like."""

MESSAGE_WIDTH = 76
"""Cells to which remarks are wrapped: the smallest terminal shows them, and a wide one no worse."""

_LEAST = 8
"""Cells that a span keeps however narrow the view is."""


class _Span(NamedTuple):
    text: str
    tone: Tone = ""


class Span(_Span):
    """A stretch of one tone. Its text is clean, wherever it comes from: this is the one way into a line."""

    __slots__ = ()

    def __new__(cls, text: object, tone: Tone = "") -> Span:
        return super().__new__(cls, clean(str(text)), tone)


@dataclass(frozen=True, slots=True)
class Line:
    """`ref` is the thing that the line tells of."""

    spans: tuple[Span, ...] = ()
    ref: Ref | None = None

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)

    @property
    def width(self) -> int:
        return cells(self.text)


@dataclass(frozen=True)
class Page:
    """A `Content` of lines, as wide as they are to be."""

    title: str
    lines: tuple[Line, ...] = ()
    start: int = 0

    @property
    def count(self) -> int:
        return len(self.lines)

    @property
    def width(self) -> int:
        return max((line.width for line in self.lines), default=0)

    def text(self, row: int) -> str:
        return self.lines[row].text

    def ref_at(self, row: int) -> Ref | None:
        return self.lines[row].ref

    def rows_of(self, _related: Related) -> tuple[Rows, ...]:
        return ()


def line(*parts: str | Span, ref: Ref | None = None) -> Line:
    """A line of spans; a plain text has no tone, and an empty one leaves nothing."""
    spans = (part if isinstance(part, Span) else Span(part) for part in parts)
    return Line(tuple(span for span in spans if span.text), ref)


def compared(speedup: float | None, other: str = "", scope: str = "") -> Span:
    """`1.40x faster than eager`, good news; `1.25x slower`, a warning; `-` where it is unknown."""
    if speedup is None:
        return Span("-")
    text = comparison(speedup, other)
    return Span(text + scope, "warn" if "slower" in text else "good" if "faster" in text else "")


def toned(text: str, tone: Tone = "", ref: Ref | None = None) -> Line:
    """A line of one tone."""
    return Line((Span(text, tone),), ref)


def plain(texts: Iterable[str], tone: Tone = "") -> list[Line]:
    """Each text as a line of its own."""
    return [toned(text, tone) for text in texts]


def more(left: int, where: str = " (--json has all)", tone: Tone = "dim") -> list[Line]:
    """`  ... and 3 more (--json has all)`; nothing where none is left."""
    return [toned(f"  ... and {left} more{where}", tone)] if left > 0 else []


def apart(lines: Iterable[Line]) -> list[Line]:
    """The lines below an empty one; nothing where there are none."""
    lines = list(lines)
    return [Line(), *lines] if lines else lines


def fitted(spans: Sequence[Span], width: int, ref: Ref | None = None) -> Line:
    """One line of at most `width` cells: the longest spans give way."""
    parts = [span for span in spans if span.text]
    excess = sum(cells(span.text) for span in parts) - width
    while excess > 0:
        index = max(range(len(parts)), key=lambda index: cells(parts[index].text))
        before = cells(parts[index].text)
        if before <= _LEAST:
            break
        parts[index] = Span(elide(parts[index].text, max(_LEAST, before - excess)), parts[index].tone)
        excess -= before - cells(parts[index].text)
    return Line(tuple(parts), ref)


def wrapped(
    text: str, width: int, tone: Tone = "", indent: str = "", hang: str | None = None, ref: Ref | None = None
) -> Iterator[Line]:
    """`text` in lines of at most `width` cells; further lines begin with `hang`, by default `indent`."""
    for part in wrap(text, max(width, 20), indent, hang):
        yield toned(part, tone, ref)


def message_page(title: str, message: str) -> Page:
    """A remark in place of a page: still loading, absent, or unreadable."""
    return Page(title, tuple(part for text in message.split("\n") for part in wrapped(text, MESSAGE_WIDTH)))
