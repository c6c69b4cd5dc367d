"""`inspector blame`: the cause, what it rests on, what was tried, and how to see it again."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.model.blame import EAGER, SAME, Blame, MetricName, Try
from inspector.units import duration, size

from .spans import Line, Span, line, toned, wrapped
from .tables import Column, Row, Table, table_lines

WORDS: dict[MetricName, str] = {
    "time": "a steady call",
    "compile": "compiling",
    "kernels": "kernel launches",
    "memory": "most buffers alive in a graph",
    "error": "difference to eager",
    "exit": "exit code",
}
_COLUMNS = (
    Column("run", right=True),
    Column("what ran", shrinks=True, least=20),
    Column("value", right=True),
    Column("like"),
)


def value_text(metric: MetricName, value: float | None) -> str:
    """The metric's value with its unit."""
    if value is None:
        return "-"
    if metric in ("time", "compile"):
        return duration(value if metric == "time" else value * 1e3)
    if metric == "memory":
        return size(value)
    return f"{value:.0f}" if metric in ("kernels", "exit") else f"{value:.2g}"


def try_text(metric: MetricName, item: Try) -> str:
    """One run, as it ends."""
    said = item.problem if item.value is None else value_text(metric, item.value)
    return f"{item.number}: {item.what}: {said}"


def lines(report: Blame, width: int) -> Iterator[Line]:
    """The answer first, the log of runs last."""
    yield from wrapped(headline(report), width, "accent")
    for factor in report.causes:
        was = f" (B has {factor.was})" if factor.was else ""
        yield from wrapped(f"{factor.kind}: {factor.label}{was}", width, "", "  ", "    ")
    yield from wrapped(sides(report), width, "dim")
    if report.commands:
        yield toned("To see both again", "accent")
        for name, command in zip(("B      ", "without"), report.commands, strict=True):
            yield line(Span(f"  {name}  ", "dim"), Span(command))
    rows = tuple(
        Row(
            str(item.number),
            (
                Span(str(item.number)),
                Span(item.what),
                Span("" if item.what == EAGER else value_text(report.metric, item.value)),
                Span(
                    " ".join(((item.near or "").upper(), item.problem)).strip(),
                    "warn" if item.problem else "",
                ),
            ),
        )
        for item in report.tries
    )
    yield from table_lines(Table("What was tried", _COLUMNS, rows), width)
    for text in report.left:
        yield from wrapped(f"differs too, and can't be taken back from outside: {text}", width, "dim")
    yield from wrapped(f"the runs are in {report.folder}; the same command goes on from there", width, "dim")


def headline(report: Blame) -> str:
    """One sentence."""
    if report.causes:
        good = "as good as A" if report.limit is None else "good"
        return f"Found in {len(report.tries)} runs: B is {good} with {report.verdict}."
    if report.verdict == SAME:
        return "No difference: nothing to blame."
    return f"{report.verdict[0].upper()}{report.verdict[1:]}."


def sides(report: Blame) -> str:
    """The metric of both sides."""
    good = report.a if report.limit is None else report.limit
    a = f"{'' if report.limit is None else 'at most '}{value_text(report.metric, good)}"
    return f"{WORDS[report.metric]}: A {a}, B {value_text(report.metric, report.b)}"
