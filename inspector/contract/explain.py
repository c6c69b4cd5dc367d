"""`inspector explain`: as text that fits a screen, and as the contract's `inspector.explain/1`."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from inspector.explain.rule import amount, percent
from inspector.model.explain import Evidence, Explanation, Finding, Ledger, Severity

SCHEMA = "inspector.explain/1"

SCREEN_LINES = 23
"""Of a terminal of 24, whose last one is the prompt."""
LEAST_MS = 1e-6
"""A nanosecond: less is rounding."""
_MOST_EVIDENCE = 2
_COLOURS: dict[Severity, str] = {"high": "31;1", "medium": "33", "low": "2"}


def to_json(explanation: Explanation) -> dict[str, Any]:
    """The contract's object, with a few keys more."""
    ledger = explanation.ledger
    return {
        "schema": SCHEMA,
        "verdict": explanation.verdict,
        "ledger": [{"part": part.part, "ms": part.ms, "source": part.source} for part in ledger.parts],
        "unexplained_ms": ledger.unexplained_ms,
        "eager_ms": ledger.eager_ms,
        "compiled_ms": ledger.compiled_ms,
        "compile_s": ledger.compile_s,
        "break_even_calls": ledger.break_even_calls,
        "missing": list(ledger.missing),
        "findings": [_finding_json(finding) for finding in explanation.findings],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    data = asdict(finding)
    data["evidence"] = [asdict(item) for item in finding.evidence]
    if finding.trial is not None:
        data["trial"] = {
            "mode": finding.trial.mode,
            "dynamic": finding.trial.dynamic,
            "config": dict(finding.trial.config),
            "environment": dict(finding.trial.environment),
        }
    return data


def to_text(
    explanation: Explanation, width: int = 100, colour: bool = False, everything: bool = False
) -> str:
    """Verdict, ledger and findings with their best evidence on one screen; all of it with `everything`."""
    head = _cut(
        textwrap.wrap(explanation.verdict, width) or [""], len(explanation.verdict) if everything else 4
    )
    if colour:
        head = [f"\x1b[1m{line}\x1b[0m" for line in head]
    lines = [*head, "", *ledger_lines(explanation.ledger, width)]
    shown = 0
    for number, finding in enumerate(explanation.findings, 1):
        added = _finding_lines(number, finding, width, colour, everything)
        left = len(explanation.findings) > number
        if not everything and number > 1 and len(lines) + len(added) + left > SCREEN_LINES:
            break
        lines += added
        shown = number
    if shown < len(explanation.findings):
        lines.append(f"{len(explanation.findings) - shown} more: --all")
    return "\n".join(line.rstrip() for line in lines) + "\n"


def ledger_head(ledger: Ledger) -> str:
    """`eager 38.5 us  compiled 65.3 us per call  compiling 121 s, never pays`; empty if nothing is known."""
    head = []
    if ledger.eager_ms is not None:
        head.append(f"eager {amount(ledger.eager_ms)}")
    if ledger.compiled_ms is not None:
        head.append(f"compiled {amount(ledger.compiled_ms)} per call")
    if ledger.compile_s is not None:
        text = f"compiling {ledger.compile_s:.1f} s"
        if ledger.break_even_calls is not None:
            text += f", pays after {ledger.break_even_calls:,} calls"
        elif ledger.eager_ms is not None and ledger.compiled_ms is not None:
            text += ", never pays"
        head.append(text)
    return "  ".join(head)


def ledger_lines(ledger: Ledger, width: int) -> list[str]:
    """One line a part with its share, the remainder, and what is apart."""
    head = ledger_head(ledger)
    lines = [head] if head else []
    whole = ledger.compiled_ms or sum(part.ms for part in ledger.parts) or 1.0
    rows = [(part.part, part.ms, part.source) for part in ledger.parts]
    if ledger.unexplained_ms is not None and rows:
        rows.append(("unexplained", ledger.unexplained_ms, ""))
    for name, ms, source in rows:
        bar = "█" * max(0, min(12, round(ms / whole * 12)))
        ms = 0.0 if abs(ms) < LEAST_MS else ms
        shown = amount(ms) if ms >= 0 else f"-{amount(-ms)}"
        lines.append(f"  {name:<46}{shown:>9} {percent(ms / whole):>6} {bar:<12} {source}"[:width])
    lines += [f"  missing: {text}"[:width] for text in ledger.missing]
    return lines


def _finding_lines(number: int, finding: Finding, width: int, colour: bool, everything: bool) -> list[str]:
    cost = ""
    if finding.cost_ms:
        cost = f", {amount(finding.cost_ms)}/call {'measured' if finding.measured else 'estimated'}"
    mark = finding.severity
    if colour:
        mark = f"\x1b[{_COLOURS[finding.severity]}m{mark}\x1b[0m"  # type: ignore[assignment]
    lines = [f"{number} {finding.rule}  {mark}{cost}"]
    titles = textwrap.wrap(finding.title, width - 2)
    advice = textwrap.wrap(f"→ {finding.advice}", width - 2, subsequent_indent="  ")
    if number == 1 and not everything:
        # The verdict has just said it.
        titles, advice = [], []
    elif not everything:
        titles, advice = _cut(titles, 1), _cut(advice, 1)
    lines += [f"  {line}" for line in (*titles, *advice)]
    changes = finding.change if everything or number == 1 else ()
    lines += [f"    {line}"[:width] for line in changes]
    shown = finding.evidence if everything else finding.evidence[: _MOST_EVIDENCE if number == 1 else 1]
    lines += [f"  {_place(item)[: width - 2]}" for item in shown]
    return lines


def _cut(lines: list[str], most: int) -> list[str]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"{lines[most - 1][:-1]}…"]


def _place(item: Evidence) -> str:
    path = item.path
    if len(path) > 44:
        path = f"…{path[-43:]}"
    return f"{path}{f':{item.line}' if item.line is not None else ''}  {item.text}"
