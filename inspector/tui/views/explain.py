"""Why it is slow, as lines: the verdict, where the time goes, findings with the lines that show them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inspector.explain.rule import amount, percent
from inspector.model.explain import Evidence, Explanation, Finding, Ledger, LedgerPart, Severity
from inspector.model.trial import TrialReport
from inspector.report.explain import ledger_head
from inspector.report.table import elide
from inspector.report.trial import to_text

from .content import clean
from .run import FINDING_KEY, plural
from .story import DetailLine
from .table import Cell, Row, Tone, cell
from .toned import TonedLine, TonedText, fitted, line, wrapped

SHOWN = 3
"""Findings with a row of their own among a run's graphs."""

_TONES: dict[Severity, Tone] = {"high": "bad", "medium": "warn", "low": "dim"}
_NAMES, _MS, _SHARE = (38, 46), 9, 6
"""Cells of a part's name, narrow and wide, of its time and of its share."""
_WIDE = 100
_WIDEST_BAR = 40
_LEAST_TEXT = 6
"""Cells beside a place below which its text says nothing."""
_EIGHTHS = " ▏▎▍▌▋▊▉"
_PLACE_PARTS = 2
"""Of a path's parts, how many tell the place well enough on screen."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a line of the text tells of: a finding, by position, and one of its lines of evidence or None."""

    finding: int
    evidence: int | None = None


@dataclass(frozen=True)
class ExplainText:
    """The text, and for each of its lines what it tells of."""

    text: TonedText
    targets: tuple[Target | None, ...]

    def row_of(self, target: Target) -> int | None:
        """The first row that tells of it."""
        return next((row for row, found in enumerate(self.targets) if found == target), None)


# -- among the run's graphs


def short_verdict(explanation: Explanation, known: str = "") -> Cell:
    """`0.59x of eager: host bound`, for the head of the screen. `known` is the comparison by replay, for
    where the run itself has none."""
    if not explanation.findings:
        return Cell(clean(known))
    first = explanation.findings[0]
    start, found, _ = explanation.verdict.partition(f": {first.title}")
    start = start if found else known
    words = first.rule.replace("_", " ")
    return Cell(clean(f"{start}: {words}" if start else words), _tone(first))


def finding_rows(explanation: Explanation) -> list[Row]:
    """The worst findings, one row each, and one for the rest."""
    findings = explanation.findings
    shown = findings if len(findings) <= SHOWN + 1 else findings[:SHOWN]
    rows = [_finding_row(number, finding) for number, finding in enumerate(shown)]
    rest = findings[len(shown) :]
    if rest:
        names = ", ".join(finding.rule for finding in rest)
        cells = (cell(f"  {plural(len(rest), 'more finding')}", "dim"), cell(names, "dim"))
        rows.append(Row(f"{FINDING_KEY}{len(shown)}", cells, wide=True))
    return rows


def _finding_row(number: int, finding: Finding) -> Row:
    cost = f"{amount(finding.cost_ms)}/call" if finding.cost_ms else ""
    cells = (
        cell(f"  {number + 1} {finding.rule}", _tone(finding)),
        cell(finding.severity, _tone(finding)),
        cell(cost),
        cell(f"→ {finding.advice}", "accent"),
    )
    return Row(f"{FINDING_KEY}{number}", cells, wide=True)


def finding_detail(finding: Finding) -> list[DetailLine]:
    """What stands below the table when the cursor is on a finding."""
    lines = [DetailLine(clean(finding.title), _tone(finding)), DetailLine(clean(f"→ {finding.advice}"))]
    lines += [DetailLine(clean(f"  {change}"), _change_tone(change)) for change in finding.change]
    lines += [DetailLine(clean(f"  {place_text(item)}  {item.text}"), "dim") for item in finding.evidence]
    return lines


# -- the whole story


def explain_text(
    explanation: Explanation, width: int, trials: Mapping[str, TrialReport] | None = None
) -> ExplainText:
    """Verdict, ledger, findings, at most `width` cells wide. `trials` are results by rule."""
    lines: list[tuple[TonedLine, Target | None]] = [
        (item, None) for item in wrapped(explanation.verdict, width, "accent")
    ]
    lines += [(item, None) for item in (TonedLine(), *ledger_lines(explanation.ledger, width), TonedLine())]
    start = len(lines)
    for number, finding in enumerate(explanation.findings):
        tried = trials.get(finding.rule) if trials else None
        lines += _finding_lines(number, finding, width, "t tries it: ", tried)
    if not explanation.findings:
        lines.append((line(("no findings", "dim")), None))
    return _text(f"Explain · {plural(len(explanation.findings), 'finding')}", lines, start)


def graph_text(explanation: Explanation, ident: str, folder: str, width: int) -> ExplainText:
    """The findings about one graph, and those of the whole run with a line in the graph's folder."""
    lines: list[tuple[TonedLine, Target | None]] = []
    count = 0
    for number, finding in enumerate(explanation.findings):
        inside = any(item.path.startswith(f"{folder}/") for item in finding.evidence)
        if finding.graph == ident or (finding.graph is None and inside):
            count += 1
            lines += _finding_lines(number, finding, width)
    if not count:
        lines.append((line(("No finding is about this graph.", "dim")), None))
        lines.append((TonedLine(), None))
    lines += [(item, None) for item in wrapped(f"the run: {explanation.verdict}", width, "dim")]
    return _text(f"Explain · {count} of {plural(len(explanation.findings), 'finding')}", lines, 0)


def _text(title: str, lines: Sequence[tuple[TonedLine, Target | None]], start: int) -> ExplainText:
    return ExplainText(
        TonedText(title, tuple(item for item, _ in lines), start), tuple(target for _, target in lines)
    )


def ledger_lines(ledger: Ledger, width: int) -> Iterator[TonedLine]:
    """One steady call's time as bars, with what is unexplained; then what is missing and how to get it."""
    head = ledger_head(ledger)
    if head:
        yield fitted([(head, "")], width)
    parts = list(ledger.parts)
    if ledger.unexplained_ms is not None and parts:
        parts.append(LedgerPart("unexplained", ledger.unexplained_ms))
    whole = ledger.compiled_ms or sum(part.ms for part in ledger.parts) or 1.0
    sources = max((len(part.source) for part in parts), default=0)
    name = min(_NAMES[width >= _WIDE], max((len(part.part) for part in parts), default=0))
    bar = max(6, min(_WIDEST_BAR, width - name - _MS - _SHARE - sources - 6))
    for part in parts:
        shown = amount(part.ms) if part.ms >= 0 else f"-{amount(-part.ms)}"
        yield line(
            (f"  {elide(part.part, name):<{name}}", ""),
            (f"{shown:>{_MS}}", ""),
            (f"{percent(part.ms / whole):>{_SHARE}} ", "dim"),
            (_bar(part.ms / whole, bar), "warn" if part.part == "unexplained" else "accent"),
            (f" {part.source}"[: max(0, width - name - _MS - _SHARE - bar - 3)], "dim"),
        )
    for text in ledger.missing:
        yield from wrapped(f"missing: {text}", width, "dim", "  ", "    ")


def _bar(share: float, width: int) -> str:
    """`share` of `width` cells, to an eighth of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, part = divmod(eighths, 8)
    return f"{'█' * full}{_EIGHTHS[part] if part else ''}".ljust(width)


def _finding_lines(
    number: int, finding: Finding, width: int, setting: str = "setting: ", tried: TrialReport | None = None
) -> Iterator[tuple[TonedLine, Target | None]]:
    target = Target(number)
    cost = cost_text(finding)
    head = [(f"{number + 1} {finding.rule}", _tone(finding)), (f"  {finding.severity}", _tone(finding))]
    head += [(f"  {cost}", "")] if cost else []
    head += [(f"  {finding.graph}", "dim")] if finding.graph else []
    yield fitted(head, width), target
    rest = [*wrapped(finding.title, width, "", "  ")]
    rest += wrapped(f"→ {finding.advice}", width, "accent", "  ", "    ")
    rest += [line((f"    {change}", _change_tone(change))) for change in finding.change]
    if finding.trial is not None:
        rest.append(fitted([(f"  {setting}", "dim"), (finding.trial.label, "")], width))
    yield from ((item, target) for item in rest)
    if tried is not None:
        for text in to_text(tried, max(40, width - 4)).splitlines():
            # A row of the table fits as it is; a sentence may not.
            parts = (
                [line((f"    {text}", ""))] if len(text) + 4 <= width else wrapped(text, width, "", "    ")
            )
            yield from ((part, target) for part in parts)
    for position, item in enumerate(finding.evidence):
        yield _evidence_line(item, width), Target(number, position)
    yield TonedLine(), None


def _evidence_line(item: Evidence, width: int) -> TonedLine:
    """The place in full, as far as it can be, and its text with what is left."""
    place = place_text(item)
    if len(place) > width - 4:
        place = f"…{place[5 - width :]}"
    text, room = clean(f"  {item.text}"), width - 4 - len(place)
    if len(text) > room:
        text = f"{text[: max(0, room - 1)]}…" if room > _LEAST_TEXT else ""
    return line(("  ↳ ", "dim"), (place, "accent"), (text, ""))


def place_text(item: Evidence) -> str:
    """`model__0_forward_1.0/output_code.py:154`: the end of the path, which tells it well enough."""
    parts = [part for part in item.path.replace("\\", "/").split("/") if part]
    name = "/".join(parts[-_PLACE_PARTS:])
    return f"{name}:{item.line}" if item.line is not None else name


def cost_text(finding: Finding) -> str:
    """`26.8 us/call measured, 41 %`; empty where nothing is known or lost."""
    if not finding.cost_ms:
        return ""
    share = f", {percent(finding.share)}" if finding.share is not None else ""
    return f"{amount(finding.cost_ms)}/call {'measured' if finding.measured else 'estimated'}{share}"


def _tone(finding: Finding) -> Tone:
    return "good" if finding.rule == "healthy" else _TONES[finding.severity]


def _change_tone(change: str) -> Tone:
    return "bad" if change.startswith("-") else "good" if change.startswith("+") else "dim"
