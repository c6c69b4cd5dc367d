"""What the doctor found, as lines that fit the screen."""

from __future__ import annotations

from textwrap import wrap

from inspector.model.doctor import Diagnosis, Finding
from inspector.present.content import clean
from inspector.present.tables import Cell, Column, Row, Table, Tone

_TONES: dict[str, Tone] = {"ok": "good", "warn": "warn", "bad": "bad"}
_STATUS = 6
_NAME = 14
_NARROWEST = 30


def doctor_table(diagnosis: Diagnosis, width: int) -> Table:
    """A paragraph for each finding: what is, what it does to the user, what to do; at most `width` cells."""
    rows: list[Row] = []
    for finding in diagnosis.findings:
        rows += _paragraph(finding, len(rows), max(_NARROWEST, width - _STATUS - _NAME - 4))
    columns = (Column("status".ljust(_STATUS)), Column("about".ljust(_NAME)), Column("finding"))
    return Table(f"Doctor · {len(diagnosis.findings)}", columns, tuple(rows))


def doctor_verdict(diagnosis: Diagnosis) -> Cell:
    """The worst status, in words, for the head of the screen."""
    bad = sum(finding.status == "bad" for finding in diagnosis.findings)
    warn = sum(finding.status == "warn" for finding in diagnosis.findings)
    if bad:
        return Cell("cannot compile everything", "bad")
    return Cell(f"compiles; {warn} to look at", "warn") if warn else Cell("compiles", "good")


def _paragraph(finding: Finding, first: int, width: int) -> list[Row]:
    texts: list[tuple[str, Tone]] = []
    texts += [(line, "") for line in _wrapped(finding.text, width)]
    texts += [(line, "dim") for line in _wrapped(finding.effect, width)]
    if finding.remedy:
        texts += [(line, "accent") for line in _wrapped(f"→ {finding.remedy}", width)]
    rows = []
    for number, (text, tone) in enumerate(texts):
        status = finding.status if number == 0 else ""
        name = finding.name if number == 0 else ""
        cells = (
            Cell(status.ljust(_STATUS), _TONES[finding.status]),
            Cell(clean(name).ljust(_NAME), "dim"),
            Cell(text, tone),
        )
        rows.append(Row(f"{first + number}", cells, wide=True))
    return rows


def _wrapped(text: str, width: int) -> list[str]:
    """Paths and commands stay in one piece, so that they can be copied."""
    return wrap(clean(" ".join(text.split())), width, break_long_words=False, break_on_hyphens=False)
