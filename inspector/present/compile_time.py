"""Compile time and differences between ranks, as `trace` and `summary` both show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.model.compile_time import PARTS, CompileTime, Part
from inspector.model.ranks import Divergence
from inspector.text import cut, joined, wrap
from inspector.units import duration, percent

from .spans import Line, Span, line, more, plain, toned

LETTERS: dict[Part, str] = {
    "dynamo": "d", "guards": "g", "aot": "a", "passes": "i", "lowering": "i", "scheduling": "i",
    "codegen": "i", "kernels": "k", "autotuning": "t", "cache": "c", "cudagraphs": "u", "other": "·",
}  # fmt: skip
LEGEND = (
    ("d", "Dynamo"), ("g", "guards"), ("a", "AOTAutograd"), ("i", "Inductor"), ("k", "kernels"),
    ("t", "autotuning"), ("c", "caches"), ("u", "CUDA graphs"), ("·", "rest"),
)  # fmt: skip

_BAR = 20
"""Cells of a bar."""
_NAME, _TIME, _SHARE = 23, 9, 6
"""Cells of a part's name, of its time and of its share."""

_MAX_LINES = 12
_TOP = 4


def ns_text(nanoseconds: int) -> str:
    """`8.31 s`."""
    return duration(nanoseconds / 1e6)


def time_spans(time: CompileTime) -> tuple[Span, Span]:
    """The whole, and its largest parts: `8.31 s`, `Dynamo tracing 45 %, compiling kernels 30 %`."""
    largest = sorted(time.parts.items(), key=lambda item: -item[1])[:_TOP]
    parts = [f"{PARTS[part]} {percent(value / time.total_ns)}" for part, value in largest if value]
    return Span(ns_text(time.total_ns), "accent"), Span(joined(parts, _TOP))


def time_line(time: CompileTime) -> Line:
    """`compile time in the trace: 8.31 s: Dynamo tracing 45 %, compiling kernels 30 %`"""
    total, parts = time_spans(time)
    return line("compile time in the trace: ", total, ": ", parts)


def bar(time: CompileTime | None) -> str:
    """The parts as letters in proportion, the largest remainders rounded up; always of one length."""
    if time is None or time.total_ns <= 0:
        return ""
    shares: dict[str, float] = {}
    for part, value in time.parts.items():
        shares[LETTERS[part]] = shares.get(LETTERS[part], 0.0) + value * _BAR / time.total_ns
    cells = {letter: int(share) for letter, share in shares.items()}
    by_remainder = sorted(shares, key=lambda letter: cells[letter] - shares[letter])
    for letter in by_remainder[: _BAR - sum(cells.values())]:
        cells[letter] += 1
    return "".join(letter * cells.get(letter, 0) for letter, _ in LEGEND)


def parts_lines(time: CompileTime) -> Iterator[Line]:
    """Where the time went, part by part, with what is special about it."""
    if not time.total_ns:
        return
    yield line(f"{'compile time':<{_NAME + 4}}{ns_text(time.total_ns):>{_TIME}}")
    for part, name in PARTS.items():
        if value := time.parts.get(part, 0):
            share = percent(value / time.total_ns)
            yield line(f"  {LETTERS[part]} {name:<{_NAME}}{ns_text(value):>{_TIME}}  {share:>{_SHARE}}")
    if phases := [f"{phase} graph {ns_text(value)}" for phase, value in time.phases.items() if value]:
        yield line(f"  of it, everything included: {', '.join(phases)}")
    if time.first_run_ns:
        yield line(f"  of it, after compiling, in the first runs: {ns_text(time.first_run_ns)}")
    if time.parallel_ns:
        yield line(f"  beside it, in other threads: {ns_text(time.parallel_ns)}")
    if time.source == "metrics":
        yield line("  from compilation_metrics alone; codegen includes compiling kernels")
    if not time.complete:
        yield toned("  incomplete: the log ends within a compilation", "warn")


def divergence_lines(differences: Sequence[Divergence], width: int) -> list[Line]:
    """A difference takes up to three lines: what differs stands at the end of its sentence."""
    lines = []
    for item in differences[:_MAX_LINES]:
        lines += cut(wrap(f"{item.kind}  {item.text}", width, "  ", "      "), 3)
    return plain(lines) + more(len(differences) - _MAX_LINES)
