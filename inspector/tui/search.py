"""Searching a text or a table: every match with its place, case ignored unless the query has capitals."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.frozen import dataclass

if TYPE_CHECKING:
    from inspector.present.content import Content

LIMIT = 10_000
"""Matches counted; a query with more is too short to be looked through one by one."""


@dataclass(frozen=True, slots=True)
class Match:
    row: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Matches:
    """All matches of `query` in order; `complete` is False where the limit was reached."""

    query: str
    places: tuple[Match, ...]
    complete: bool = True

    def nearest(self, row: int) -> int:
        """The first match at or after `row`, else the first of all; -1 where there is none."""
        if not self.places:
            return -1
        index = bisect_left(self.places, row, key=lambda match: match.row)
        return index if index < len(self.places) else 0

    def label(self, current: int) -> str:
        """`3/17`; a plus sign says that there are more than were counted."""
        if not self.places:
            return "no match"
        return f"{current + 1}/{len(self.places)}{'' if self.complete else '+'}"


@dataclass(frozen=True, slots=True)
class Typed:
    """A search that was typed before there was a box for it, and the key that ended it, if one did."""

    text: str
    ended_by: str = ""


def typed_ahead(keys: Sequence[tuple[str, str | None]]) -> Typed:
    """`keys` are (name, character), as a terminal sends them; what follows the end is dropped."""
    text = ""
    for key, character in keys:
        if key in ("enter", "escape"):
            return Typed(text, key)
        if key == "backspace":
            text = text[:-1]
        elif character is not None and character.isprintable():
            text += character
    return Typed(text)


def has_capitals(query: str) -> bool:
    return query != query.lower()


def find_in(text: str, query: str) -> list[tuple[int, int]]:
    """Places of `query` in one displayed row."""
    if not query:
        return []
    if not has_capitals(query):
        text = _lower(text)
    places = []
    start = text.find(query)
    while start >= 0:
        places.append((start, start + len(query)))
        start = text.find(query, start + len(query))
    return places


class Searcher:
    """Searches one content again and again; its text is joined once, when first asked."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._joined: str | None = None
        self._lowered = ""
        self._starts: list[int] = []

    def search(self, query: str) -> Matches:
        if not query:
            return Matches(query, ())
        if self._joined is None:
            self._join()
        assert self._joined is not None
        text = self._joined if has_capitals(query) else self._lowered
        matches: list[Match] = []
        place = text.find(query)
        while place >= 0:
            if len(matches) == LIMIT:
                return Matches(query, tuple(matches), complete=False)
            row = bisect_right(self._starts, place) - 1
            start = place - self._starts[row]
            matches.append(Match(row, start, start + len(query)))
            place = text.find(query, place + len(query))
        return Matches(query, tuple(matches))

    def _join(self) -> None:
        rows = [self._content.text(row) for row in range(self._content.count)]
        start = 0
        for row in rows:
            self._starts.append(start)
            start += len(row) + 1
        self._joined = "\n".join(rows)
        self._lowered = _lower(self._joined)


def _lower(text: str) -> str:
    """Lower case of the same length: a few letters outside ASCII would change it and shift all places."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(low if len(low := char.lower()) == 1 else char for char in text)
