"""`inspector replay` as text; the JSON is `inspector.replay.store.to_json`."""

from __future__ import annotations

from collections import Counter

from inspector.model.replay import GraphReplay, OutputCheck, ReplayResult, Timing
from inspector.present.replay_kernels import kernel_lines
from inspector.present.text import Column, elide, render_table

_MAX_OUTPUTS = 8


def to_text(result: ReplayResult, width: int = 100) -> str:
    """For a terminal or a pipe: a table of graphs, then what is not a plain match, then notes."""
    columns = [
        Column("graph"),
        Column("device"),
        Column("eager", right=True),
        Column("compiled", right=True),
        Column("speedup", right=True),
        Column("outputs"),
    ]
    rows = [
        (
            graph.name,
            graph.device or "",
            time_text(graph.eager),
            time_text(graph.compiled),
            "-" if graph.speedup is None else f"{graph.speedup:.2f}x",
            verdict_text(graph),
        )
        for graph in result.graphs
    ]
    # With a single kernel there is nothing to say of the graphs.
    whole = any(graph.compiled or graph.outputs or graph.failure for graph in result.graphs)
    lines = render_table(columns, rows, width) if whole or not rows else []
    for graph in result.graphs:
        lines += _details(graph, width)
    for graph in result.graphs:
        lines += kernel_lines(graph, width)
    labels = sorted({graph.eager_label for graph in result.graphs if graph.eager is not None})
    if labels:
        lines += [
            "",
            f"eager: {', '.join(labels)}, run op by op: slower than your own model in eager mode,",
            "so the speedup is an upper bound. Times are medians ± half the inter-quartile range.",
        ]
    notes = list(dict.fromkeys(note for graph in result.graphs for note in graph.notes))
    lines += [elide(f"note: {note}", max(width, 160)) for note in notes]
    return "\n".join(lines) + "\n"


def time_text(timing: Timing | None) -> str:
    """`17.2 ± 0.4 us`: three digits, in the unit that suits the size."""
    if timing is None:
        return "-"
    for unit, scale in (("us", 1e3), ("ms", 1.0), ("s", 1e-3)):
        if timing.median_ms * scale < 1000 or unit == "s":
            median, half = timing.median_ms * scale, timing.iqr_ms * scale / 2
            digits = max(0, 3 - len(str(int(median)))) if median >= 1 else 3
            return f"{median:.{digits}f} ± {half:.{digits}f} {unit}"
    raise AssertionError("unreachable: seconds take every size")


def verdict_text(graph: GraphReplay) -> str:
    """`3 match, 1 mismatch`, or that it failed."""
    counts = Counter(check.verdict for check in graph.outputs)
    parts = [f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.most_common()]
    if graph.failure:
        parts.insert(0, "failed")
    return ", ".join(parts) or "no outputs"


def _details(graph: GraphReplay, width: int) -> list[str]:
    lines = []
    if graph.failure:
        lines += ["", f"{graph.name}: {graph.failure}"]
    unusual = [check for check in graph.outputs if check.verdict != "match"]
    if unusual:
        lines.append("")
    for check in unusual[:_MAX_OUTPUTS]:
        lines.append(elide(f"{graph.name} {_check_text(check)}", max(width, 160)))
    if len(unusual) > _MAX_OUTPUTS:
        lines.append(f"{graph.name}: {len(unusual) - _MAX_OUTPUTS} more (--json has all)")
    return lines


def _check_text(check: OutputCheck) -> str:
    what = "output" if check.kind == "output" else "changed input"
    text = f"{what} {check.index} {check.name}: {check.verdict.replace('_', ' ')}"
    if check.error_compiled is not None and check.error_eager is not None:
        text += f", error {check.error_compiled:.2g} compiled, {check.error_eager:.2g} eager"
    return f"{text}; {check.reason}" if check.reason else text
