"""Pictures as geometry: where bars and points lie. The page's templates make SVG of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from inspector.frozen import dataclass
from inspector.model.explain import Explanation
from inspector.model.replay import GraphReplay
from inspector.present.answer import NamedPart, named_parts
from inspector.units import duration, percent

_MOST_POINTS = 400
_SIDE = 1_000.0
"""Units of a bar from end to end."""


@dataclass(frozen=True, slots=True)
class Bar:
    """From `start`, `length` long, of a whole of 1,000; `style` is a class of the page's style sheet."""

    start: float
    length: float
    style: str
    label: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """One call: its parts in the table's order, compiled's bar of them, and eager's on the same scale."""

    parts: tuple[tuple[str, NamedPart], ...]
    """(style, part)."""
    compiled: tuple[Bar, ...]
    compiled_text: str
    eager: tuple[Bar, ...] = ()
    eager_text: str = ""


def ledger(explanation: Explanation) -> Ledger | None:
    """None where nothing is known of a call."""
    parts = named_parts(explanation.ledger)
    if not parts:
        return None
    own, eager = explanation.ledger.compiled_ms, explanation.ledger.eager_ms
    whole = own or sum(part.ms for part in parts)
    scale = _SIDE / (max(whole, eager or 0.0) or 1.0)
    bars, place = [], 0.0
    styled = []
    for number, part in enumerate(parts):
        style = "part-rest" if part.tone == "warn" else f"part-{number % 6}"
        styled.append((style, part))
        # Parts that were measured apart may be more than the whole: then what is left over is less than none.
        length = max(0.0, min(part.ms, whole - place / scale) * scale)
        bars.append(Bar(place, length, style, f"{part.name}: {duration(part.ms)}, {percent(part.share)}"))
        place += length
    text = duration(own) if own is not None else ""
    if eager is None:
        return Ledger(tuple(styled), tuple(bars), text)
    other = Bar(0.0, eager * scale, "part-eager", f"eager: {duration(eager)}")
    return Ledger(tuple(styled), tuple(bars), text, (other,), duration(eager))


@dataclass(frozen=True, slots=True)
class Point:
    """A launch: where it lies, how large, of what tone, what it is, and the link to it (graph, kernel)."""

    x: float
    y: float
    tone: str
    label: str
    graph: str
    kernel: str


@dataclass(frozen=True, slots=True)
class Roofline:
    """Launches by the least time that their bytes and operations allow on the machine (to the right) and the
    time they took (upwards), both in powers of ten: what lies on the diagonal is as fast as the machine."""

    points: tuple[Point, ...]
    ticks: tuple[tuple[float, str], ...]
    """(place on both axes, its time)."""
    size: float
    left_out: int
    devices: tuple[str, ...]


_FAR, _NEAR = 0.3, 0.7
"""Shares of the roofline below which a launch is far from it, from which on it is near."""


def roofline(
    replays: Mapping[str, GraphReplay], devices: Sequence[str], size: float = 420.0
) -> Roofline | None:
    """None where no replay placed a launch."""
    placed = [
        (ident, item, item.own_ms * item.roofline_fraction, item.own_ms)
        for ident, replay in replays.items()
        for item in replay.kernels
        if item.own_ms and item.roofline_fraction
    ]
    placed = [each for each in placed if each[2] > 0 and math.isfinite(each[2]) and math.isfinite(each[3])]
    if not placed:
        return None
    placed.sort(key=lambda each: -each[3])
    values = [math.log10(value) for _, _, least, took in placed for value in (least, took)]
    low, high = math.floor(min(values)), math.ceil(max(values))
    high = max(high, low + 1)

    def at(value: float) -> float:
        return size * (value - low) / (high - low)

    points = []
    for ident, item, least, took in placed[:_MOST_POINTS]:
        share = item.roofline_fraction or 0.0
        tone = "good" if share >= _NEAR else "warn" if share >= _FAR else "bad"
        label = f"{item.name}: {duration(took)}, {percent(share)} of the roofline"
        points.append(
            Point(at(math.log10(least)), size - at(math.log10(took)), tone, label, ident, item.name)
        )
    step = max(1, round((high - low) / 6))
    ticks = tuple((at(power), duration(10.0**power)) for power in range(low, high + 1, step))
    return Roofline(tuple(points), ticks, size, len(placed) - len(points), tuple(devices))
