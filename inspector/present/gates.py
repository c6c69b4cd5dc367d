"""`inspector check`: what is kept and what is not, as text, for GitHub, as JUnit and as SARIF."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from inspector.gates.judge import Breach, Report
from inspector.model.source import SourceLocation
from inspector.text import clean, one_line
from inspector.units import plural
from inspector.version import __version__

from .spans import Line, toned

_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def sentence_of(breach: Breach, root: str = "") -> str:
    """``model.py:12: graph break in forward: Data-dependent branching [graph_breaks]``."""
    where = f"{_where(breach.place, root)}: " if breach.place is not None else ""
    reason = f": {breach.reason}" if breach.reason else ""
    graph = f" ({breach.graph})" if breach.graph else ""
    return one_line(f"{where}{breach.message}{reason}{graph} [{breach.relation}]")


def verdict(report: Report) -> str:
    """How many relations are kept."""
    broken = sum(1 for item in report.judged if item.breaches)
    notes = sum(1 for item in report.judged if item.note)
    kept = len(report.judged) - broken - notes
    parts = [
        f"{plural(kept, 'relation')} kept",
        f"{broken} broken" * bool(broken),
        f"{notes} not judged" * bool(notes),
    ]
    return ", ".join(filter(None, parts))


def lines(report: Report, root: str = "") -> Iterator[Line]:
    """A line for each breach; then what was not judged, and how many are kept."""
    for breach in report.breaches:
        yield toned(sentence_of(breach, root), "bad")
    for item in report.judged:
        if item.note:
            yield toned(f"not judged: {item.relation}: {item.note}", "warn")
    yield toned(verdict(report), "bad" if report.breaches else "good")


def workflow_commands(report: Report, root: str) -> str:
    """Workflow commands, which GitHub shows at the lines of a pull request; files below `root` by their
    paths from there (docs.github.com, "Workflow commands for GitHub Actions")."""
    said = []
    for breach in report.breaches:
        place = breach.place
        at = f"file={_property(_where(place, root, False))},line={place.line}," if place is not None else ""
        text = sentence_of(breach, root).replace("%", "%25")
        said.append(f"::error {at}title={_property(f'inspector {breach.relation}')}::{text}")
    notes = [
        f"::notice title=inspector::{one_line(f'{item.relation}: {item.note}').replace('%', '%25')}"
        for item in report.judged
        if item.note
    ]
    return "".join(f"{line}\n" for line in (*said, *notes, verdict(report)))


def step_summary(report: Report, root: str) -> str:
    """Markdown for a job's page. Nothing of the run becomes markup: it stands in code."""
    rows = []
    for item in report.judged:
        mark = "❌" if item.breaches else "➖" if item.note else "✅"
        cells = (item.relation, item.allowed, item.there or item.note)
        rows.append(f"| {mark} | {' | '.join(map(_code, cells))} |")
    breaches = [f"- {_code(sentence_of(breach, root))}" for breach in report.breaches]
    head = [
        "### inspector check",
        "",
        f"{_code(report.run)}: {verdict(report)}",
        "",
        "| | relation | allowed | there |",
    ]
    return "\n".join([*head, "|---|---|---|---|", *rows, "", *breaches]).rstrip("\n") + "\n"


def junit(report: Report, root: str) -> str:
    """A test case for each relation."""
    cases = []
    for item in report.judged:
        name = f'  <testcase classname="inspector.check" name={quoteattr(_plain(item.relation))}'
        if item.breaches:
            texts = [sentence_of(breach, root) for breach in item.breaches]
            body = escape(_plain("\n".join(texts)))
            cases.append(
                f"{name}>\n    <failure message={quoteattr(_plain(texts[0]))}>{body}</failure>\n  </testcase>"
            )
        elif item.note:
            cases.append(f"{name}>\n    <skipped message={quoteattr(_plain(item.note))}/>\n  </testcase>")
        else:
            cases.append(f"{name}/>")
    broken = sum(1 for item in report.judged if item.breaches)
    skipped = sum(1 for item in report.judged if item.note)
    counts = f'tests="{len(report.judged)}" failures="{broken}" errors="0" skipped="{skipped}"'
    suite = f'<testsuite name="inspector check" {counts}>'
    return '<?xml version="1.0" encoding="utf-8"?>\n' + "\n".join([suite, *cases, "</testsuite>"]) + "\n"


def sarif(report: Report, root: str) -> str:
    """SARIF 2.1.0, which code scanning reads: a result for each breach."""
    results = [
        {
            "ruleId": breach.relation,
            "level": "error",
            "message": {"text": _unlinked(sentence_of(breach, root))},
            "locations": []
            if breach.place is None
            else [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _where(breach.place, root, False)},
                        "region": {"startLine": max(1, breach.place.line)},
                    }
                }
            ],
        }
        for breach in report.breaches
    ]
    rules = [
        {"id": item.relation, "shortDescription": {"text": _unlinked(item.allowed)}} for item in report.judged
    ]
    driver = {"name": "inspector", "version": __version__, "rules": rules}
    log = {"$schema": _SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=2) + "\n"


def _unlinked(text: str) -> str:
    """Brackets of a SARIF message make links, where no backslash stands before them (SARIF 2.1.0, 3.11.6)."""
    return re.sub(r"([\\\[\]])", r"\\\1", text)


def _where(place: SourceLocation, root: str, line: bool = True) -> str:
    """A place, by its path from `root` where it lies below."""
    path = place.path
    if root and os.path.isabs(path) and not (near := os.path.relpath(path, root)).startswith(".."):
        path = near
    return f"{path}:{place.line}" if line else path.replace(os.sep, "/")


def _property(text: str) -> str:
    for char, code in (("%", "%25"), (":", "%3A"), (",", "%2C")):
        text = text.replace(char, code)
    return one_line(text)


def _code(text: str) -> str:
    # Two backticks would begin code that the next ones end.
    return "`" + (one_line(text).replace("`", "'").replace("|", "\\|") or " ") + "`"


def _plain(text: str) -> str:
    """Characters that XML 1.0 has."""
    return "\n".join(map(clean, text.split("\n")))
