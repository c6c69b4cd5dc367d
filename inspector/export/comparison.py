"""Two runs on one page: what differs, as `inspector diff` says it, and links to both sides' code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inspector.analysis.diff.verdict import verdict
from inspector.comparison import compare
from inspector.frozen import dataclass
from inspector.model.diff import LaunchId
from inspector.model.explain import Explanation
from inspector.present.diff import changes_text, lines, sign_of
from inspector.present.identity import run_name
from inspector.present.spans import Line, Span, wrapped
from inspector.readers.run import Run

from .report import link

OTHER = "A/"
"""Before the ident of the other run's graphs, which the page holds as well."""
_WIDTH = 110
MOST_PAIRS = 500

Links = tuple[tuple[str, str], ...]
"""(text, link)."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Launches of both sides that compute the same, and differ; one side may have none."""

    sign: Span
    a: Links
    b: Links
    changes: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The page's run is B. `more` pairs are left out, where above 0."""

    a: str
    b: str
    verdict: str
    lines: tuple[Line, ...]
    pairs: tuple[Pair, ...]
    more: int


def compared(a: Run, b: Run, explained: Explanation) -> Comparison:
    """Reads both runs whole; `explained` is B's explanation."""
    diff = compare(a, b, explained)
    diff = replace(diff, a=run_name(a.shown), b=run_name(b.shown))
    said = verdict(diff)
    head = sum(1 for _ in wrapped(said, _WIDTH))
    pairs = tuple(
        dict.fromkeys(
            Pair(sign_of(match.relation), _links(match.a, OTHER), _links(match.b), changes_text(match))
            for match in diff.changed
        )
    )
    rest = tuple(lines(diff, _WIDTH)[head:])
    return Comparison(diff.a, diff.b, said, rest, pairs[:MOST_PAIRS], len(pairs) - MOST_PAIRS)


def _links(side: Sequence[LaunchId], prefix: str = "") -> Links:
    """Each kernel of a side once."""
    links = {launch.kernel: link(f"{prefix}{launch.graph}", launch.kernel) for launch in side}
    return tuple(links.items())
