"""The recorder in words: what it hooked and saw, results of kernels, saved inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.model.record import ProcessRecord, RecordedKernel
from inspector.text import joined
from inspector.units import plural, size

from .spans import Line, Span, line, plain, toned

_MAX_NAMED = 4


# -- beside a run's graphs


def recorder_spans(records: Sequence[ProcessRecord]) -> tuple[Span, ...]:
    """`recorder`, how much it recorded, what is missing, how many problems it met."""
    graphs = sum(len(record.graphs) for record in records)
    spans = [
        Span("  recorder", "dim"),
        Span(f"saw {plural(graphs, 'graph')} being compiled"),
    ]
    if missing := _missing(records):
        spans.append(Span(f"could not watch {', '.join(missing)}", "warn"))
    if problems := sum(len(record.problems) for record in records) + _unfinished(records):
        spans.append(Span(plural(problems, "problem"), "warn"))
    return tuple(spans)


def recorder_lines(records: Sequence[ProcessRecord]) -> Iterator[Line]:
    """One line for each process, then what is missing or went wrong, then the hooks."""
    for record in records:
        schedules = plural(len(record.graphs), "schedule")
        yield line(f"record of {_process(record)}: {schedules}, {record.path}")
    if missing := _missing(records):
        text = f"hooks that torch {records[0].torch} has no place for: {', '.join(missing)}"
        yield toned(text, "warn")
    if unfinished := _unfinished(records):
        yield toned(f"{plural(unfinished, 'schedule')} on which torch failed", "warn")
    yield from plain((f"problem  {problem}" for record in records for problem in record.problems), "warn")
    yield toned(f"hooks in place: {', '.join(_hooks(records)) or 'none'}", "dim")


def _hooks(records: Sequence[ProcessRecord]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record.hooks))


def _missing(records: Sequence[ProcessRecord]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record.missing))


def _unfinished(records: Sequence[ProcessRecord]) -> int:
    return sum(not graph.finished for record in records for graph in record.graphs)


def _process(record: ProcessRecord) -> str:
    name = f"rank {record.rank}" if record.rank is not None else "the process"
    return f"{name} (pid {record.pid})" if record.pid is not None else name


# -- in the summary


def result_lines(records: Sequence[ProcessRecord]) -> Iterator[Line]:
    """A line for the kernels and one for the inputs; none for what was not recorded."""
    kernels = [kernel for record in records for kernel in record.kernels]
    choices = sum(len(record.choices) for record in records)
    parts = []
    if kernels:
        parts.append(f"{plural(len(kernels), 'kernel')} with registers and configuration")
        if tuned := sum(len(kernel.tried) > 1 for kernel in kernels):
            parts.append(f"{tuned} tuned")
        parts.append(_spills([kernel for kernel in kernels if kernel.spills]))
    if choices:
        parts.append(f"max-autotune's choices for {plural(choices, 'operation')}")
    if parts:
        yield line(f"recorded: {', '.join(parts)}")
    yield from _input_lines(records)


def _spills(spilling: Sequence[RecordedKernel]) -> str:
    if not spilling:
        return "none spills"
    worst = sorted(spilling, key=lambda kernel: -(kernel.spills or 0))
    names = [f"{kernel.name} {kernel.spills}" for kernel in worst]
    return f"registers spilled by {joined(names, _MAX_NAMED)}"


def _input_lines(records: Sequence[ProcessRecord]) -> Iterator[Line]:
    saved = [item for record in records for item in record.inputs]
    kept = [item for item in saved if item.file is not None]
    if kept:
        text = f"saved inputs: {size(sum(item.bytes for item in kept))} of {plural(len(kept), 'graph')}"
        if short := sum(len(item.left_out) for item in kept):
            left = f"{plural(short, 'argument')} ({size(sum(item.left_out_bytes for item in kept))})"
            text += f"; {left} left out, over --save-inputs's size"
        yield line(text)
    for item in saved:
        if item.file is None:
            yield toned(f"saved inputs: none of {item.graph}: {item.problem}", "warn")
