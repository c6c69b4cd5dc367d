"""Compile time and differences between ranks, as `trace` and `summary` both show them."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from inspector.model.compile_time import PARTS, CompileTime, Part

if TYPE_CHECKING:
    from inspector.model.ranks import Divergence

LETTERS: dict[Part, str] = {
    "dynamo": "d", "guards": "g", "aot": "a", "passes": "i", "lowering": "i", "scheduling": "i",
    "codegen": "i", "kernels": "k", "autotuning": "t", "cache": "c", "cudagraphs": "u", "other": "·",
}  # fmt: skip
LEGEND = (
    ("d", "Dynamo"), ("g", "guards"), ("a", "AOTAutograd"), ("i", "Inductor"), ("k", "kernels"),
    ("t", "autotuning"), ("c", "caches"), ("u", "CUDA graphs"), ("·", "rest"),
)  # fmt: skip

BAR = 20
"""Cells of a bar."""

_MAX_LINES = 12
_TOP = 4


def time_text(time: CompileTime) -> str:
    """One line: the whole, and the largest parts."""
    largest = sorted(time.parts.items(), key=lambda item: -item[1])[:_TOP]
    parts = ", ".join(f"{PARTS[part]} {value / time.total_ns:.0%}" for part, value in largest if value)
    return f"compile time: {seconds_text(time.total_ns)}: {parts}"


def seconds_text(nanoseconds: int) -> str:
    """`8.31 s`, or `12.4 ms` below a tenth of a second."""
    return f"{nanoseconds / 1e6:.1f} ms" if nanoseconds < 1e8 else f"{nanoseconds / 1e9:.2f} s"


def bar(time: CompileTime | None, size: int = BAR) -> str:
    """The parts as letters in proportion, the largest remainders rounded up; always `size` long."""
    if time is None or time.total_ns <= 0:
        return ""
    shares: dict[str, float] = {}
    for part, value in time.parts.items():
        shares[LETTERS[part]] = shares.get(LETTERS[part], 0.0) + value * size / time.total_ns
    cells = {letter: int(share) for letter, share in shares.items()}
    by_remainder = sorted(shares, key=lambda letter: cells[letter] - shares[letter])
    for letter in by_remainder[: size - sum(cells.values())]:
        cells[letter] += 1
    return "".join(letter * cells.get(letter, 0) for letter, _ in LEGEND)


def parts_lines(time: CompileTime) -> list[str]:
    """Where the time went, part by part, with what is special about it."""
    if not time.total_ns:
        return []
    lines = ["", "compile time".ljust(27) + seconds_text(time.total_ns).rjust(9)]
    for part, name in PARTS.items():
        value = time.parts.get(part, 0)
        if value:
            lines.append(
                f"  {LETTERS[part]} {name:<22}{seconds_text(value):>9}  {value / time.total_ns:4.0%}"
            )
    notes = [f"{phase} graph {seconds_text(value)}" for phase, value in time.phases.items() if value]
    if notes:
        lines.append(f"  of it, everything included: {', '.join(notes)}")
    if time.first_run_ns:
        lines.append(f"  of it, after compiling, in the first runs: {seconds_text(time.first_run_ns)}")
    if time.parallel_ns:
        lines.append(f"  beside it, in other threads: {seconds_text(time.parallel_ns)}")
    if time.source == "metrics":
        lines.append("  from compilation_metrics alone; codegen includes compiling kernels")
    if not time.complete:
        lines.append("  incomplete: the log ends within a compilation")
    return lines


def divergence_lines(differences: Sequence[Divergence], width: int) -> list[str]:
    """A difference takes up to three lines: what differs stands at the end of its sentence."""
    lines = []
    for item in differences[:_MAX_LINES]:
        text = f"{item.kind}  {item.text}"
        lines += wrap(text, width, initial_indent="  ", subsequent_indent="      ", max_lines=3)
    return lines + more_line(len(differences))


def more_line(total: int, shown: int = _MAX_LINES) -> list[str]:
    return [f"  ... and {total - shown} more (--json has all)"] if total > shown else []


def time_json(time: CompileTime) -> dict[str, Any]:
    """`parts` adds up to `seconds`."""
    return {
        "seconds": in_seconds(time.total_ns),
        "parts": {part: in_seconds(value) for part, value in time.parts.items()},
        "phases": {phase: in_seconds(value) for phase, value in time.phases.items()},
        "first_run_seconds": in_seconds(time.first_run_ns),
        "parallel_seconds": in_seconds(time.parallel_ns),
        "source": time.source,
        "complete": time.complete,
    }


def divergence_json(differences: Sequence[Divergence]) -> list[dict[str, Any]]:
    return [
        {
            "kind": item.kind,
            "subject": item.subject,
            "text": item.text,
            "groups": [{"ranks": list(labels), "value": value} for labels, value in item.groups],
        }
        for item in differences
    ]


def in_seconds(nanoseconds: int) -> float:
    return nanoseconds / 1e9
