"""Both sides in lines: what compiled code does faster and slower than eager, largest first, and the sum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from inspector.explain.block_words import change, kernel_text, label, module_text, short_kernel
from inspector.model.two_sides import Block, Difference, Sides
from inspector.text import cells, crop, elide, pad
from inspector.units import bar, duration

from .spans import Line, Span, Tone, fitted, line, toned, wrapped

By = Literal["line", "module", "kernel"]
CALL, ALL = "one call", "all work"
_BRIEF = 4
"""Differences on the screen that shows everything in short."""
_SMALL = 0.002
"""Of the larger wall: below, parts are summed to one."""
_MS = 9
_WIDEST_NAME, _LEAST_NAME = 64, 16
_WIDEST_BAR = 8
_LEAST_MS = 1e-6
"""A nanosecond: less is rounding."""
_KERNELS = 3
_SOURCES = {"calls": "unprofiled calls", "profile": "profiled calls"}


def lines(sides: Sides, width: int, brief: bool = False) -> Iterator[Line]:
    """The ledger from eager's wall to compiled's, or the blocks alone where there is one side."""
    ledger = sides.ledger
    if ledger is None:
        yield from _one_side(sides, width, brief)
        return
    whole = max(ledger.eager_ms, ledger.compiled_ms) or 1.0
    large = [item for item in ledger.differences if abs(item.ms) >= _SMALL * whole]
    shown = large[: _BRIEF if brief else len(large)]
    rest = [item for item in ledger.differences if item not in shown]
    name = _name_room(width)
    most = max((abs(item.ms) for item in large), default=1.0) or 1.0
    head = f"  {pad('', name)}{'eager':>{_MS}} {'compiled':>{_MS}}   {_SOURCES[ledger.source]}"
    yield toned(crop(head, width), "dim")
    yield _row(CALL, ledger.eager_ms, ledger.compiled_ms, name, most, "accent")
    for item in shown:
        block = sides.joined.blocks[item.block] if item.block is not None else None
        yield _row(_name(item, block, name), item.eager_ms, item.compiled_ms, name, most)
        if block is not None and not brief:
            yield from _kernels(block, width)
    if rest:
        eager, compiled = (sum(getattr(item, side) for item in rest) for side in ("eager_ms", "compiled_ms"))
        yield _row(f"{len(rest)} smaller differences", eager, compiled, name, most, "dim")
    yield _row("unexplained", ledger.unexplained_eager_ms, ledger.unexplained_compiled_ms, name, most, "warn")
    if not brief:
        for note in sides.notes:
            yield from wrapped(note, width, "dim", "  ", "    ")


def table(sides: Sides, by: By, width: int) -> Iterator[Line]:
    """Both sides summed by line, by module path or by kernel, largest difference first."""
    spent: dict[str, list[float]] = {}
    for block in sides.joined.blocks:
        for name, eager, compiled in _shares(block, by):
            sums = spent.setdefault(name, [0.0, 0.0])
            sums[0] += eager
            sums[1] += compiled
    rows = sorted(spent.items(), key=lambda item: -abs(item[1][1] - item[1][0]))
    most = max((abs(compiled - eager) for _, (eager, compiled) in rows), default=1.0) or 1.0
    name_room = _name_room(width)
    yield toned(crop(f"  {pad(f'by {by}', name_room)}{'eager':>{_MS}} {'compiled':>{_MS}}", width), "dim")
    for name, (eager, compiled) in rows:
        yield _row(name, eager, compiled, name_room, most)
    if rows:
        eager, compiled = (sum(sums[side] for _, sums in rows) for side in (0, 1))
        yield _row(ALL, eager, compiled, name_room, most, "accent")


def _shares(block: Block, by: By) -> Iterator[tuple[str, float, float]]:
    if by == "kernel":
        yield from ((short_kernel(kernel.name), kernel.ms, 0.0) for kernel in block.eager_kernels)
        yield from ((short_kernel(kernel.name), 0.0, kernel.ms) for kernel in block.compiled_kernels)
        return
    placed = block.place == "graph" and block.operators
    named = ", ".join(place.short for place in block.lines) if by == "line" else module_text(block)
    yield (named if placed and named else label(block)), block.eager_ms or 0.0, block.compiled_ms or 0.0


def _name_room(width: int) -> int:
    return max(_LEAST_NAME, min(_WIDEST_NAME, width - 3 * (_MS + 1) - _WIDEST_BAR - 4))


def _name(item: Difference, block: Block | None, room: int) -> str:
    """With what became of the block, where both have room."""
    if block is None:
        return item.part
    both = ", ".join(filter(None, (label(block), change(block))))
    return both if cells(both) <= room else label(block)


def _row(text: str, eager: float, compiled: float, name: int, most: float, tone: Tone = "") -> Line:
    eager, compiled = (ms if abs(ms) >= _LEAST_MS else 0.0 for ms in (eager, compiled))
    difference = compiled - eager
    sign = "+" if difference > 0 else "-"
    size = abs(difference)
    share = min(size / most, 1.0)
    return line(
        Span(f"  {pad(elide(text, name), name)}{duration(eager):>{_MS}} {duration(compiled):>{_MS}} ", tone),
        Span(f"{f'{sign}{duration(size)}' if size >= _LEAST_MS else '':>{_MS}} "),
        Span(bar(share, _WIDEST_BAR) if text not in (CALL, ALL) else "", "bad" if difference > 0 else "good"),
    )


def _kernels(block: Block, width: int) -> Iterator[Line]:
    for side, kernels in (("eager   ", block.eager_kernels), ("compiled", block.compiled_kernels)):
        for kernel in kernels[:_KERNELS]:
            yield toned(crop(f"      {side}  {kernel_text(kernel)}", width), "dim")
        if len(kernels) > _KERNELS:
            more = sum(kernel.ms for kernel in kernels[_KERNELS:])
            text = f"      {side}  {len(kernels) - _KERNELS} more, {duration(more)}"
            yield toned(crop(text, width), "dim")


def _one_side(sides: Sides, width: int, brief: bool) -> Iterator[Line]:
    side = "eager" if sides.joined.compiled is None else "compiled"
    yield toned(f"  {side}, as profiled: the other side was not", "dim")
    blocks = sides.joined.blocks[: _BRIEF if brief else len(sides.joined.blocks)]
    for block in blocks:
        ms = block.eager_ms if side == "eager" else block.compiled_ms
        yield fitted([Span(f"  {duration(ms or 0.0):>{_MS}}  {label(block)}")], width)
