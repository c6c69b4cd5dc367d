"""The kernels part of `inspector replay` as text: where the time goes, and what is not a match."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from inspector.analysis.roofline import above_ms
from inspector.model.replay import GraphReplay, KernelReplay
from inspector.present.text import Column, elide, render_table

_MOST_ROWS = 12
_MOST_PROBLEMS = 8


def kernel_lines(graph: GraphReplay, width: int) -> list[str]:
    """One graph's kernels, those that take longest first; empty where none was run by itself."""
    if not graph.kernels:
        return []
    total = sum(kernel.own_ms or 0.0 for kernel in graph.kernels)
    rows = sorted(_rows(graph.kernels), key=lambda row: -row[0])
    columns = [
        Column("kernel"),
        Column("calls", right=True),
        Column("time", right=True),
        Column("share", right=True),
        Column("GB/s", right=True),
        Column("GFLOP/s", right=True),
        Column("roofline", right=True),
        Column("verdict"),
    ]
    lines = ["", f"{graph.name}: {_summary(graph)}"]
    lines += render_table(columns, [_cells(ms, group, total) for ms, group in rows[:_MOST_ROWS]], width)
    if len(rows) > _MOST_ROWS:
        rest = sum(ms for ms, _ in rows[_MOST_ROWS:])
        lines.append(f"{len(rows) - _MOST_ROWS} more kernels take {_share(rest, total)} (--json has all)")
    return lines + _problems(graph, width) + _edits(graph, width)


def _rows(kernels: Sequence[KernelReplay]) -> list[tuple[float, list[KernelReplay]]]:
    groups: dict[str, list[KernelReplay]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.name].append(kernel)
    return [(sum(kernel.own_ms or 0.0 for kernel in group), group) for group in groups.values()]


def _cells(ms: float, group: Sequence[KernelReplay], total: float) -> list[str]:
    timed = [kernel for kernel in group if kernel.time]
    moved = [kernel.bytes for kernel in timed if kernel.bytes is not None]
    flops = [kernel.flops for kernel in timed if kernel.flops is not None]
    fractions = [kernel.roofline_fraction for kernel in timed if kernel.roofline_fraction is not None]
    return [
        group[0].name,
        str(len(group)),
        short_time(ms) if timed else "-",
        _share(ms, total) if timed else "-",
        _rate(sum(moved), ms) if moved and len(moved) == len(timed) else "-",
        _rate(sum(flops), ms) if flops and len(flops) == len(timed) else "-",
        f"{100 * sum(fractions) / len(fractions):.0f} %" if fractions else "-",
        verdicts_text(group),
    ]


def verdicts_text(kernels: Sequence[KernelReplay]) -> str:
    """`3 match, 1 mismatch`; for a single kernel the verdict alone."""
    counts = Counter(kernel.verdict.replace("_", " ") for kernel in kernels)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def _summary(graph: GraphReplay) -> str:
    parts = [f"{len(graph.kernels)} kernel calls", verdicts_text(graph.kernels)]
    if any(kernel.method == "interpreter" for kernel in graph.kernels):
        parts.append("Triton's interpreter on the CPU; no times")
    if graph.kernels_ms is not None:
        parts.append(f"{short_time(graph.kernels_ms)} in kernels")
    if graph.host_gap_ms is not None and graph.host_gap_ms > 0:
        # Times are medians of separate measurements; a noisy machine makes the sum exceed the whole.
        parts.append(f"{short_time(graph.host_gap_ms)} between them")
    above = [ms for kernel in graph.kernels if (ms := above_ms(kernel)) is not None]
    if above:
        parts.append(f"{short_time(sum(above))} above the roofline")
    if graph.cudagraph is not None:
        parts.append(f"{short_time(graph.cudagraph.median_ms)} as one CUDA graph")
    return "; ".join(parts)


def _problems(graph: GraphReplay, width: int) -> list[str]:
    unusual = [kernel for kernel in graph.kernels if kernel.verdict != "match"]
    unusual.sort(key=lambda kernel: kernel.verdict != "mismatch")
    alike: dict[tuple[str, str], list[KernelReplay]] = defaultdict(list)
    for kernel in unusual:
        alike[kernel.verdict, kernel.reason].append(kernel)
    lines = []
    for group in list(alike.values())[:_MOST_PROBLEMS]:
        kernel = group[0]
        lines.append(elide(problem_text(kernel, len(group) - 1), max(width, 160)))
        if kernel.worst:
            worst = kernel.worst[0]
            place = ", ".join(map(str, worst.index))
            lines.append(
                f"  worst at {worst.output}[{place}]: {_number(worst.compiled)} compiled, "
                f"{_number(worst.eager)} eager, {_number(worst.reference)} reference"
            )
    rest = sum(len(group) for group in list(alike.values())[_MOST_PROBLEMS:])
    if rest:
        lines.append(f"{rest} more (--json has all)")
    return ["", *lines] if lines else []


def problem_text(kernel: KernelReplay, more: int = 0) -> str:
    """One line: the call, its verdict and why. `more`: other calls of which the same is to be said."""
    others = f" and {more} more" if more else ""
    text = f"call {kernel.call} {kernel.name}{others}: {kernel.verdict.replace('_', ' ')}"
    return f"{text}; {kernel.reason}" if kernel.reason else text


def _edits(graph: GraphReplay, width: int) -> list[str]:
    lines = []
    for edit in graph.edits:
        own = next((kernel for kernel in graph.kernels if kernel.call == edit.call), None)
        lines += ["", f"call {edit.call} {edit.name}, its own source and the edited one:"]
        for label, kernel in (("own", own), ("edited", edit)):
            if kernel is not None:
                timing = short_time(kernel.own_ms) if kernel.own_ms is not None else "-"
                reason = f"; {kernel.reason}" if kernel.reason else ""
                lines.append(
                    elide(
                        f"  {label:<7} {timing:>9}  {kernel.verdict.replace('_', ' ')}{reason}",
                        max(width, 160),
                    )
                )
        if own is not None and own.time and edit.time and edit.time.median_ms:
            lines.append(f"  the edit is {own.time.median_ms / edit.time.median_ms:.2f}x as fast")
    return lines


def short_time(ms: float) -> str:
    """`17.2 us`: three digits in the unit that suits the size."""
    for unit, scale in (("us", 1e3), ("ms", 1.0)):
        value = ms * scale
        if abs(value) < 1000:
            return f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f} {unit}"
    return f"{ms / 1e3:.2f} s"


def _share(ms: float, total: float) -> str:
    return f"{100 * ms / total:.0f} %" if total else "-"


def _rate(count: int, ms: float) -> str:
    return f"{count / ms / 1e6:.3g}" if ms else "-"


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
