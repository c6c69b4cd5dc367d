"""What the doctor found, in lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.model.doctor import Diagnosis, Finding
from inspector.text import wrap

from .spans import Line, Span, Tone, apart, toned
from .tables import Column, Row, Table, table_lines

_TONES: dict[str, Tone] = {"ok": "good", "warn": "warn", "bad": "bad"}
_STATUS = 6
_NAME = 14
_NARROWEST = 30


def lines(diagnosis: Diagnosis, width: int) -> list[Line]:
    """The verdict, then a paragraph for each finding."""
    return [*verdict_lines(diagnosis, width), *apart(finding_lines(diagnosis.findings, width))]


def verdict_lines(diagnosis: Diagnosis, width: int) -> list[Line]:
    return [toned(text, "accent") for text in wrap(diagnosis.verdict, width)]


def finding_lines(findings: Sequence[Finding], width: int) -> list[Line]:
    return table_lines(Table("", (), doctor_table(findings, width).rows), width)


def doctor_table(findings: Sequence[Finding], width: int) -> Table:
    """A paragraph for each finding: what is, what it does to the user, what to do; at most `width` cells."""
    rows: list[Row] = []
    for finding in findings:
        rows += _paragraph(finding, len(rows), max(_NARROWEST, width - _STATUS - _NAME - 4))
    columns = (Column("status".ljust(_STATUS)), Column("about".ljust(_NAME)), Column("finding"))
    return Table(f"Doctor · {len(findings)}", columns, tuple(rows))


def doctor_verdict(diagnosis: Diagnosis) -> Span:
    """The worst status, in words, for the head of the screen."""
    statuses = [finding.status for finding in diagnosis.findings]
    if "bad" in statuses:
        return Span("cannot compile everything", "bad")
    warned = statuses.count("warn")
    return Span(f"compiles; {warned} to look at", "warn") if warned else Span("compiles", "good")


def _paragraph(finding: Finding, first: int, width: int) -> Iterator[Row]:
    texts = [Span(text) for text in _wrapped(finding.text, width)]
    texts += (Span(text, "dim") for text in _wrapped(finding.effect, width))
    if finding.remedy:
        texts += (Span(text, "accent") for text in _wrapped(f"→ {finding.remedy}", width))
    status, name = finding.status.ljust(_STATUS), finding.name.ljust(_NAME)
    for number, text in enumerate(texts):
        cells = (Span(status, _TONES[finding.status]), Span(name, "dim"), text)
        yield Row(f"{first + number}", cells, wide=True)
        status, name = " " * _STATUS, " " * _NAME


def _wrapped(text: str, width: int) -> list[str]:
    """Paths and commands stay in one piece, so that they can be copied."""
    return wrap(" ".join(text.split()), width, break_words=False)
