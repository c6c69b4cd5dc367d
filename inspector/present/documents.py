"""A text from a file: its lines, which language each stretch is in, and what the lines stand for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from inspector.frozen import dataclass
from inspector.text import cells, clean, is_printable, wrap

from .content import RefIndex, Rows
from .spans import MESSAGE_WIDTH, Line, Tone

if TYPE_CHECKING:
    from inspector.model.links import Ref, Related

Language = Literal["python", "cpp", "ir", "outline", "mlir", "llvm", "ptx", "sass", "gas", "plain"]

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
    find: Callable[[Related], tuple[Rows, ...]] = lambda _related: ()
    notes: Mapping[int, str] = field(default_factory=dict)
    first_number: int | None = 1
    start: int = 0
    """Row that the cursor is on at first."""
    tones: Mapping[int, tuple[tuple[int, int, Tone], ...]] = field(default_factory=dict)
    """Stretches of a row (start, end) that carry a meaning of their own, such as a verdict."""
    width: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", max(map(cells, set(self.lines)), default=0))

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


def whole(lines: Sequence[str], language: Language) -> tuple[Region, ...]:
    """All lines in one language."""
    return (Region(0, len(lines) - 1, language),) if lines else ()


def split_lines(text: str) -> tuple[str, ...]:
    """The lines as an editor numbers them, safe for a terminal; a last empty one is left out."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if is_printable("".join(lines)):
        # Asked once of all: a text may have millions of lines, most of them empty.
        return tuple(lines)
    return tuple(clean(line) if line else line for line in lines)


def written(title: str, lines: Iterable[Line], own: Ref | None = None) -> Document:
    """What was composed, as a document without line numbers; `own` is what lines without a thing of their
    own stand for."""
    texts: list[str] = []
    tones: dict[int, tuple[tuple[int, int, Tone], ...]] = {}
    refs: list[tuple[int, int, Ref]] = []
    for row, line in enumerate(lines):
        place = 0
        stretches: list[tuple[int, int, Tone]] = []
        for span in line.spans:
            if span.tone:
                stretches.append((place, place + len(span.text), span.tone))
            place += len(span.text)
        texts.append(line.text)
        if stretches:
            tones[row] = tuple(stretches)
        if (ref := line.ref or own) is not None:
            refs.append((row, row, ref))
    return Document(title, tuple(texts), refs=RefIndex(refs), first_number=None, tones=tones)


def message_document(title: str, message: str) -> Document:
    """A remark in place of a text: still loading, absent, or unreadable."""
    lines: list[str] = []
    for text in message.split("\n"):
        indent = " " * (len(text) - len(text.lstrip(" ")))
        lines += wrap(text, MESSAGE_WIDTH, indent) or [""]
    return Document(title, tuple(lines), first_number=None)
