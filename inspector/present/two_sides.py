"""Both sides in lines: what compiled code does faster and slower than eager, largest first, and the sum."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from inspector.explain.block_words import change, kernel_text, label, module_text, short_kernel
from inspector.model.two_sides import Block, Difference, Sides
from inspector.text import cells, crop, elide, pad
from inspector.units import bars, duration

from .spans import Line, Span, Tone, line, toned, wrapped
from .words import PARTS

By = Literal["block", "line", "module", "kernel"]
BYS: tuple[By, ...] = get_args(By)
CALL, ALL = "one call", "all work"
_BRIEF = 4
"""Differences on the screen that shows everything in short."""
_SMALL = 0.002
"""Of the larger wall: below, parts are summed to one."""
_MS, _DIFFERENCE = 8, 9
_BESIDE = 2 + 2 * (_MS + 1) + 2 + _DIFFERENCE
"""Cells of a row beside the name and the bars."""
_WIDEST_NAME, _LEAST_NAME = 64, 16
_WIDEST_BAR, _LEAST_BAR = 24, 5
_LEAST_MS = 1e-6
"""A nanosecond: less is rounding."""
_KERNELS = 3
_SOURCES = {"calls": "unprofiled calls", "profile": "profiled calls"}


class _Part(NamedTuple):
    """A row to be drawn: both sides' milliseconds, and the block that it tells of, of several the largest."""

    text: str
    eager: float
    compiled: float
    block: Block | None = None
    tone: Tone = ""
    whole: bool = False
    """The sum of the others: it has no bars."""


def lines(sides: Sides, width: int, by: By = "block", brief: bool = False) -> Iterator[Line]:
    """`rows` to be printed."""
    return (item for item, _ in rows(sides, width, by, brief))


def rows(
    sides: Sides, width: int, by: By = "block", brief: bool = False
) -> Iterator[tuple[Line, Block | None]]:
    """Eager's share to the left of an axis and compiled's to the right, largest difference first, each line
    with the block that it tells of. By block, the ledger from eager's wall to compiled's, or the blocks of
    the one side that was profiled; else all work, summed by line, by module path or by kernel."""
    room = max(_LEAST_NAME, min(_WIDEST_NAME, width - _BESIDE - 2 * _LEAST_BAR))
    if by != "block":
        head, parts = f"by {by}", list(_sums(sides, by))
    elif sides.ledger is not None:
        head, parts = f"by block, {_SOURCES[sides.ledger.source]}", list(_ledger(sides, room, brief))
    else:
        head = f"{'eager' if sides.joined.compiled is None else 'compiled'} only, as profiled"
        blocks = sides.joined.blocks[: _BRIEF if brief else None]
        parts = [_Part(label(item), item.eager_ms or 0.0, item.compiled_ms or 0.0, item) for item in blocks]
    name = min(room, max(cells(text) for text in (head, *(part.text for part in parts))))
    bar = max(_LEAST_BAR, min(_WIDEST_BAR, (width - _BESIDE - name) // 2))
    head = f"  {pad(elide(head, name), name)} {'eager':>{_MS}}{'':{2 * bar + 3}}{'compiled':>{_MS}}"
    yield toned(crop(head, width), "dim"), None
    most = max((abs(ms) for part in parts if not part.whole for ms in part[1:3]), default=0.0) or 1.0
    for part in parts:
        yield _row(part, sides, name, bar, most), part.block
        if part.block is not None and by == "block" and not brief:
            yield from ((item, part.block) for item in _kernels(part.block, width))
    for note in () if brief or by != "block" else sides.notes:
        yield from ((item, None) for item in wrapped(note, width, "dim", "  ", "    "))


def _ledger(sides: Sides, room: int, brief: bool) -> Iterator[_Part]:
    ledger = sides.ledger
    assert ledger is not None
    least = _SMALL * max(ledger.eager_ms, ledger.compiled_ms)
    shown = [item for item in ledger.differences if abs(item.ms) >= least][: _BRIEF if brief else None]
    rest = [item for item in ledger.differences if item not in shown]
    yield _Part(CALL, ledger.eager_ms, ledger.compiled_ms, tone="accent", whole=True)
    for item in shown:
        block = sides.joined.blocks[item.block] if item.block is not None else None
        yield _Part(_name(item, block, room), item.eager_ms, item.compiled_ms, block)
    if rest:
        eager, compiled = sum(item.eager_ms for item in rest), sum(item.compiled_ms for item in rest)
        yield _Part(f"{len(rest)} smaller differences", eager, compiled, tone="dim")
    left = ledger.unexplained_eager_ms, ledger.unexplained_compiled_ms
    if max(map(abs, left)) >= _LEAST_MS:
        yield _Part("unexplained", *left, tone="warn")


def _sums(sides: Sides, by: By) -> Iterator[_Part]:
    shares: dict[str, list[tuple[float, float, Block]]] = defaultdict(list)
    for block in sides.joined.blocks:
        for name, eager, compiled in _shares(block, by):
            shares[name].append((eager, compiled, block))
    parts = [
        _Part(
            name,
            sum(eager for eager, _, _ in items),
            sum(compiled for _, compiled, _ in items),
            max(items, key=lambda item: item[0] + item[1])[2],
        )
        for name, items in shares.items()
    ]
    yield from sorted(parts, key=lambda part: -abs(part.compiled - part.eager))
    if parts:
        eager, compiled = sum(part.eager for part in parts), sum(part.compiled for part in parts)
        yield _Part(ALL, eager, compiled, tone="accent", whole=True)


def _shares(block: Block, by: By) -> Iterator[tuple[str, float, float]]:
    if by == "kernel":
        yield from ((short_kernel(kernel.name), kernel.taken_ms, 0.0) for kernel in block.eager_kernels)
        yield from ((short_kernel(kernel.name), 0.0, kernel.taken_ms) for kernel in block.compiled_kernels)
        return
    placed = block.place == "graph" and block.operators
    named = ", ".join(place.short for place in block.lines) if by == "line" else module_text(block)
    yield (named if placed and named else label(block)), block.eager_ms or 0.0, block.compiled_ms or 0.0


def _name(item: Difference, block: Block | None, room: int) -> str:
    """With what became of the block, where both have room."""
    if block is None:
        return PARTS.get(item.part, item.part)
    both = ", ".join(filter(None, (label(block), change(block))))
    return both if cells(both) <= room else label(block)


def _row(part: _Part, sides: Sides, name: int, bar: int, most: float) -> Line:
    """A side that was not profiled has no number."""
    eager, compiled = (ms if abs(ms) >= _LEAST_MS else 0.0 for ms in part[1:3])
    left, right = (
        duration(ms) if side is not None else ""
        for ms, side in ((eager, sides.joined.eager), (compiled, sides.joined.compiled))
    )
    difference = compiled - eager if left and right else 0.0
    size = duration(abs(difference)) if abs(difference) >= _LEAST_MS else ""
    sign = ("+" if difference > 0 else "-") if size else ""
    to_left, to_right = (" " * bar,) * 2 if part.whole else bars(eager / most, compiled / most, bar)
    return line(
        Span(f"  {pad(elide(part.text, name), name)} {left:>{_MS}} ", part.tone),
        Span(to_left, "accent"),
        Span(" " if part.whole else "│", "dim"),
        Span(to_right, "bad" if difference > 0 else "good"),
        Span(f" {right:>{_MS}}", part.tone),
        Span(f"{sign + size:>{_DIFFERENCE}}"),
    )


def _kernels(block: Block, width: int) -> Iterator[Line]:
    for side, kernels in (("eager   ", block.eager_kernels), ("compiled", block.compiled_kernels)):
        for kernel in kernels[:_KERNELS]:
            yield toned(crop(f"      {side}  {kernel_text(kernel)}", width), "dim")
        if len(kernels) > _KERNELS:
            more = sum(kernel.ms for kernel in kernels[_KERNELS:])
            text = f"      {side}  {len(kernels) - _KERNELS} more, {duration(more)}"
            yield toned(crop(text, width), "dim")
