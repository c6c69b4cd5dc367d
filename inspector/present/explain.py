"""Why it is slow, in lines: the verdict, where the time goes, findings with the lines that show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inspector.frozen import dataclass
from inspector.model.explain import Evidence, Explanation, Finding
from inspector.model.trial import TrialReport
from inspector.model.two_sides import Block
from inspector.text import cells, crop, tail
from inspector.units import plural

from .account import account_lines, group_lines, loss_lines
from .answer import (
    TONES,
    Offers,
    answer_rows,
    call_lines,
    change_line,
    comparison_span,
    gain_text,
    missing_lines,
    place_rows,
    verdict_lines,
)
from .spans import Line, Page, Span, fitted, line, toned, wrapped
from .trial import by_finding
from .trial import lines as trial_lines
from .two_sides import By
from .two_sides import rows as side_rows
from .words import title

_LEAST_TEXT = 6
"""Cells beside a place below which its text says nothing."""
_PLACE_PARTS = 2
"""Of a path's parts, how many tell the place well enough."""
_SCREEN_LINES = 23
"""Of a terminal of 24, whose last one is the prompt."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a line of the text tells of: a finding, by position, and one of its lines of evidence or None."""

    finding: int
    evidence: int | None = None


_Row = tuple[Line, Target | Block | None]


@dataclass(frozen=True)
class ExplainPage:
    """The text, and for each of its lines what it tells of."""

    page: Page
    targets: tuple[Target | Block | None, ...]

    def row_of(self, target: Target | Block) -> int | None:
        """The first row that tells of it."""
        return next((row for row, known in enumerate(self.targets) if known == target), None)

    @property
    def sides(self) -> int | None:
        """The first row that tells of a block."""
        return next((row for row, known in enumerate(self.targets) if isinstance(known, Block)), None)


# -- for the head of a screen


def short_verdict(explanation: Explanation, known: str = "") -> Span:
    """`2.61x SLOWER than eager`, else the first finding, for the head of a screen. `known` is the comparison
    by replay, for where the run itself has none."""
    if explanation.quality != "busy" and (said := comparison_span(explanation)).text:
        return said
    first = next(iter(explanation.findings), None)
    if first is None or (known and explanation.quality != "busy"):
        return Span(known)
    return Span(title(first), TONES[first.severity])


# -- the whole story


def lines(
    explanation: Explanation, width: int, everything: bool = False, offers: Offers | None = None
) -> list[Line]:
    """The answer on one screen; with `everything` also each finding in full, and the account."""
    if everything:
        text = [item for item, _ in _head(explanation, width)]
        for number, finding in enumerate(explanation.findings):
            text += [Line(), *(item for item, _ in _finding_lines(number, finding, width))]
        return [*text, Line(), *_whole_call(explanation, width)]
    text = [item for item, _ in answer_rows(explanation, width, offers or Offers())]
    text += missing_lines(explanation.ledger, width)
    if len(text) > _SCREEN_LINES:
        text[_SCREEN_LINES - 1 :] = [toned("more: --all", "dim")]
    return text


def explain_page(
    explanation: Explanation,
    width: int,
    trials: Mapping[str, TrialReport] | None = None,
    try_key: str = "t",
    by: By = "block",
) -> ExplainPage:
    """The same to be browsed. `trials` are results by rule; `try_key` is what tries a finding's setting; `by`
    what both sides are summed by."""
    rows: list[_Row] = [*_head(explanation, width, by), (Line(), None)]
    start = len(rows)
    reports = by_finding(explanation.findings, trials or {})
    for number, finding in enumerate(explanation.findings):
        lines_of = _finding_lines(number, finding, width, f"{try_key} tries it: ", reports.get(number))
        rows += [*lines_of, (Line(), None)]
    if not explanation.findings:
        rows.append((toned("no findings", "dim"), None))
    rows += ((item, None) for item in _whole_call(explanation, width))
    return _page(f"Explain · {plural(len(explanation.findings), 'finding')}", rows, start)


def graph_page(explanation: Explanation, ident: str, folder: str, width: int) -> ExplainPage:
    """The findings about one graph, and those of the whole run with a line in the graph's folder."""
    rows: list[_Row] = []
    count = 0
    for number, finding in enumerate(explanation.findings):
        inside = any(item.path.startswith(f"{folder}/") for item in finding.evidence)
        if finding.graph == ident or (finding.graph is None and inside):
            count += 1
            rows += [*_finding_lines(number, finding, width), (Line(), None)]
    if not count:
        rows += [(toned("No finding is about this graph.", "dim"), None), (Line(), None)]
    rows += ((item, None) for item in wrapped(f"the run: {explanation.verdict}", width, "dim"))
    return _page(f"Explain · {count} of {plural(len(explanation.findings), 'finding')}", rows, 0)


def _page(title: str, rows: Sequence[_Row], start: int) -> ExplainPage:
    page = Page(title, tuple(item for item, _ in rows), start)
    return ExplainPage(page, tuple(target for _, target in rows))


def _head(explanation: Explanation, width: int, by: By = "block") -> Iterator[_Row]:
    """The verdict and the ledger as on the first screen, then both sides."""
    text = [
        *verdict_lines(explanation, width, Offers()),
        *group_lines(explanation.groups, width),
        *call_lines(explanation, width),
        *missing_lines(explanation.ledger, width),
        *loss_lines(explanation.account, width),
    ]
    yield from ((item, None) for item in text)
    if explanation.sides is not None:
        yield from side_rows(explanation.sides, width, by)


def _whole_call(explanation: Explanation, width: int) -> Iterator[Line]:
    """Below the findings: every place, where both sides do not have them above, and the account of a call."""
    if explanation.sides is None:
        yield from (item for item, _ in place_rows(explanation, width))
        yield Line()
    yield from account_lines(explanation.account, width)


# -- findings


def _finding_lines(
    number: int, finding: Finding, width: int, setting: str = "setting: ", tried: TrialReport | None = None
) -> Iterator[tuple[Line, Target | None]]:
    target = Target(number)
    head, gain = _finding_head(number, finding, width), gain_text(finding)
    rest = [] if not gain or gain in head.text else [line(f"  {gain}")]
    rest += wrapped(finding.title, width, "", "  ")
    rest += wrapped(f"→ {finding.advice}", width, "accent", "  ", "    ")
    rest += (change_line(change, width, "    ") for change in finding.change)
    if finding.trial is not None:
        rest.append(fitted([Span(f"  {setting}", "dim"), Span(finding.trial.label)], width))
    if tried is not None:
        rest += (line("    ", *item.spans) for item in trial_lines(tried, max(40, width - 4)))
    yield from ((item, target) for item in (head, *rest))
    for position, item in enumerate(finding.evidence):
        yield _evidence_line(item, width), Target(number, position)


def _finding_head(number: int, finding: Finding, width: int) -> Line:
    """Its plain title, what it may save, and what an insider calls it, as far as there is room."""
    gain = gain_text(finding)
    head = [
        Span(f"{number + 1} {title(finding)}", TONES[finding.severity]),
        Span(f"  {gain}" if gain else ""),
        Span(f"  {finding.severity}", TONES[finding.severity]),
        Span(f"  {finding.rule}", "dim"),
        Span(f"  {finding.graph}" if finding.graph else "", "dim"),
    ]
    while cells("".join(span.text for span in head)) > width and len(head) > 1:
        head.pop()
    return line(*head)


def _evidence_line(item: Evidence, width: int) -> Line:
    """The place in full, as far as it can be, and its text with what is left."""
    place = place_text(item)
    if cells(place) > width - 4:
        place = f"…{tail(place, width - 5)}"
    text, room = f"  {item.text}", width - 4 - cells(place)
    text = crop(text, room) if cells(text) <= room or room > _LEAST_TEXT else ""
    return line(Span("  ↳ ", "dim"), Span(place, "accent"), text)


def place_text(item: Evidence) -> str:
    """`model__0_forward_1.0/output_code.py:154`: the end of the path, which tells it well enough."""
    parts = [part for part in item.path.replace("\\", "/").split("/") if part]
    name = "/".join(parts[-_PLACE_PARTS:])
    return f"{name}:{item.line}" if item.line is not None else name
