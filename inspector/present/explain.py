"""Why it is slow, in lines: the verdict, where the time goes, findings with the lines that show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inspector.model.explain import Evidence, Explanation, Finding, Ledger, LedgerPart, Severity
from inspector.model.trial import AUTO, TrialReport
from inspector.model.two_sides import Block
from inspector.text import cells, crop, cut, elide, pad, spaced, tail, wrap
from inspector.units import bar, duration, percent, plural

from .account import LEAST_MS, account_lines, group_lines, loss_lines
from .rows import FindingRow
from .spans import Line, Page, Span, Tone, fitted, line, toned, wrapped
from .tables import Row
from .trial import lines as trial_lines
from .two_sides import By
from .two_sides import rows as side_rows

SHOWN = 3
"""Findings with a row of their own among a run's graphs."""

_TONES: dict[Severity, Tone] = {"high": "bad", "medium": "warn", "low": "dim"}
_NAMES, _MS, _SHARE = (38, 46), 9, 6
"""Cells of a part's name, narrow and wide, of its time and of its share."""
_WIDE = 100
_WIDEST_BAR = 40
_LEAST_TEXT = 6
"""Cells beside a place below which its text says nothing."""
_PLACE_PARTS = 2
"""Of a path's parts, how many tell the place well enough."""
_SCREEN_LINES = 23
"""Of a terminal of 24, whose last one is the prompt."""
_VERDICT_LINES = 4
_MOST_EVIDENCE = 2


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


# -- among the run's graphs


def short_verdict(explanation: Explanation, known: str = "") -> Span:
    """`as fast as eager: host bound`, for the head of the screen. `known` is the comparison by replay, for
    where the run itself has none."""
    if not explanation.findings:
        return Span(known)
    first = explanation.findings[0]
    start, title, _ = explanation.verdict.partition(f": {first.title}")
    start = start if title else known if explanation.quality != "busy" else ""
    return Span(f"{start}: {spaced(first.rule)}" if start else spaced(first.rule), _tone(first))


def finding_rows(explanation: Explanation) -> list[Row]:
    """The worst findings, one row each, and one for the rest."""
    findings = explanation.findings
    shown = findings if len(findings) <= SHOWN + 1 else findings[:SHOWN]
    rows = []
    for number, finding in enumerate(shown):
        row = (
            Span(f"  {number + 1} {finding.rule}", _tone(finding)),
            Span(finding.severity, _tone(finding)),
            Span(_cost(finding)),
            Span(f"→ {finding.advice}", "accent"),
        )
        rows.append(Row(FindingRow(number), row, wide=True))
    if rest := findings[len(shown) :]:
        names = ", ".join(finding.rule for finding in rest)
        more = (Span(f"  {plural(len(rest), 'more finding')}", "dim"), Span(names, "dim"))
        rows.append(Row(FindingRow(len(shown)), more, wide=True))
    return rows


def finding_detail(finding: Finding) -> list[Line]:
    """What stands below the table when the cursor is on a finding."""
    lines = [toned(finding.title, _tone(finding)), line(f"→ {finding.advice}")]
    lines += (toned(f"  {change}", _change_tone(change)) for change in finding.change)
    return lines + [toned(f"  {place_text(item)}  {item.text}", "dim") for item in finding.evidence]


# -- the whole story


def lines(explanation: Explanation, width: int, everything: bool = False) -> list[Line]:
    """Verdict, ledger and findings with their best evidence on one screen; all of it with `everything`."""
    findings = explanation.findings
    if everything:
        text = [*(item for item, _ in _head(explanation, width)), Line()]
        for number, finding in enumerate(findings):
            text += [*(item for item, _ in _finding_lines(number, finding, width)), Line()]
        return [*text, *account_lines(explanation.account, width)]
    text = [item for item, _ in _head(explanation, width, most=_VERDICT_LINES)]
    for number, finding in enumerate(findings):
        added = _brief(number, finding, width)
        more = len(findings) > number + 1
        if number and len(text) + len(added) + more > _SCREEN_LINES:
            return [*text, toned(f"{len(findings) - number} more: --all", "dim")]
        text += added
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
    trials = trials or {}
    without = next((n for n, finding in enumerate(explanation.findings) if finding.trial is None), None)
    for number, finding in enumerate(explanation.findings):
        tried = trials.get(AUTO if number == without else finding.rule)
        rows += [*_finding_lines(number, finding, width, f"{try_key} tries it: ", tried), (Line(), None)]
    if not explanation.findings:
        rows.append((toned("no findings", "dim"), None))
    rows += ((item, None) for item in account_lines(explanation.account, width))
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


def _head(explanation: Explanation, width: int, by: By = "block", most: int | None = None) -> Iterator[_Row]:
    """Verdict, a warning where compiled is slower or nothing is sure, and ledger; with `most` lines for the
    verdict, and one for each of what is missing."""
    slower = " slower than " in explanation.verdict.partition(":")[0]
    tone: Tone = "warn" if slower or explanation.quality == "busy" else "accent"
    verdict = wrap(explanation.verdict, width) or [""]
    remarks = (text for remark in explanation.remarks for text in wrap(remark, width))
    text = [
        *(toned(text, "warn") for text in remarks),
        *(toned(text, tone) for text in (verdict if most is None else cut(verdict, most))),
        *group_lines(explanation.groups, width),
        Line(),
        *ledger_lines(explanation.ledger, width, brief=most is not None),
        *loss_lines(explanation.account, width),
    ]
    yield from ((item, None) for item in text)
    if explanation.sides is not None:
        yield from side_rows(explanation.sides, width, by, brief=most is not None)


# -- the ledger


def ledger_lines(ledger: Ledger, width: int, brief: bool = False) -> Iterator[Line]:
    """One steady call's time as bars, with what is unexplained; then what is missing and how to get it."""
    if head := _ledger_head(ledger):
        yield fitted([Span(head)], width)
    parts = list(ledger.parts)
    if ledger.unexplained_ms is not None and parts:
        parts.append(LedgerPart("unexplained", ledger.unexplained_ms))
    whole = ledger.compiled_ms or sum(part.ms for part in ledger.parts) or 1.0
    sources = max((cells(part.source) for part in parts), default=0)
    name = min(_NAMES[width >= _WIDE], max((cells(part.part) for part in parts), default=0))
    room = max(6, min(_WIDEST_BAR, width - name - _MS - _SHARE - sources - 6))
    for part in parts:
        ms = part.ms if abs(part.ms) >= LEAST_MS else 0.0
        yield line(
            f"  {pad(elide(part.part, name), name)}{duration(ms):>{_MS}}",
            Span(f"{percent(ms / whole):>{_SHARE}} ", "dim"),
            Span(bar(ms / whole, room), "warn" if part.part == "unexplained" else "accent"),
            Span(crop(f" {part.source}", width - name - _MS - _SHARE - room - 3), "dim"),
        )
    for text in ledger.doubts:
        yield from wrapped(text, width, "warn", "  ", "    ")
    for text in ledger.missing:
        if brief:
            yield toned(crop(f"  missing: {text}", width), "dim")
        else:
            yield from wrapped(f"missing: {text}", width, "dim", "  ", "    ")


def _ledger_head(ledger: Ledger) -> str:
    """`eager 38.5 us  compiled 65.3 us per call  compiling 121 s, never pays`; empty if nothing is known."""
    head = []
    if ledger.eager_ms is not None:
        head.append(f"eager {duration(ledger.eager_ms)}")
    if ledger.compiled_ms is not None:
        head.append(f"compiled {duration(ledger.compiled_ms)} per call")
    if ledger.compile_s is not None:
        name = "compiling" if ledger.compile_source == "calls" else "compile time in the trace"
        text = f"{name} {duration(ledger.compile_s * 1e3)}"
        if ledger.break_even_calls is not None:
            text += f", pays after {ledger.break_even_calls:,} calls"
        elif ledger.eager_ms is not None and ledger.compiled_ms is not None:
            text += ", never pays"
        head.append(text)
    return "  ".join(head)


# -- findings


def _finding_lines(
    number: int, finding: Finding, width: int, setting: str = "setting: ", tried: TrialReport | None = None
) -> Iterator[tuple[Line, Target | None]]:
    target = Target(number)
    rest = [*wrapped(finding.title, width, "", "  ")]
    rest += wrapped(f"→ {finding.advice}", width, "accent", "  ", "    ")
    rest += _change_lines(finding, width)
    if finding.trial is not None:
        rest.append(fitted([Span(f"  {setting}", "dim"), Span(finding.trial.label)], width))
    if tried is not None:
        rest += (line("    ", *item.spans) for item in trial_lines(tried, max(40, width - 4)))
    yield from ((item, target) for item in (_finding_head(number, finding, width), *rest))
    for position, item in enumerate(finding.evidence):
        yield _evidence_line(item, width), Target(number, position)


def _brief(number: int, finding: Finding, width: int) -> list[Line]:
    """A finding in a few lines; of the first one, title and advice have just been said by the verdict."""
    text = [_finding_head(number, finding, width)]
    if number:
        text.append(toned(crop(f"  {finding.title}", width)))
        text.append(toned(crop(f"  → {finding.advice}", width), "accent"))
    else:
        text += _change_lines(finding, width)
    shown = finding.evidence[: 1 if number else _MOST_EVIDENCE]
    return text + [_evidence_line(item, width) for item in shown]


def _finding_head(number: int, finding: Finding, width: int) -> Line:
    cost = cost_text(finding)
    head = [
        Span(f"{number + 1} {finding.rule}", _tone(finding)),
        Span(f"  {finding.severity}", _tone(finding)),
        Span(f"  {cost}" if cost else ""),
        Span(f"  {finding.graph}" if finding.graph else "", "dim"),
    ]
    return fitted(head, width)


def _change_lines(finding: Finding, width: int) -> Iterator[Line]:
    return (toned(crop(f"    {change}", width), _change_tone(change)) for change in finding.change)


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


def cost_text(finding: Finding) -> str:
    """`26.8 us/call measured, 41 %`, of the run `9.1 s once measured, 80 %`; empty where nothing is known or
    lost."""
    if not finding.cost_ms:
        return ""
    share = f", {percent(finding.share)}" if finding.share is not None else ""
    return f"{_cost(finding)} {finding.how}{share}"


def _cost(finding: Finding) -> str:
    if not finding.cost_ms:
        return ""
    return f"{duration(finding.cost_ms)}{' once' if finding.account == 'run' else '/call'}"


def _tone(finding: Finding) -> Tone:
    return "good" if finding.rule == "healthy" else _TONES[finding.severity]


def _change_tone(change: str) -> Tone:
    return "bad" if change.startswith("-") else "good" if change.startswith("+") else "dim"
