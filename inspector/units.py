"""Figures as text: three significant digits at most, in the unit that suits the size."""

from __future__ import annotations

import math
import re
import time

_TIMES = (("ns", 1e-6), ("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("min", 6e4), ("h", 3.6e6))
_SIZES = (("B", 1.0), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12), ("PB", 1e15))
_PREFIXES = (("", 1.0), ("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15))
_EIGHTHS = ("", *"▏▎▍▌▋▊▉")
_BINARY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def digits(value: float) -> str:
    """`1.23`, `12.3`, `123`, `1,230`: three significant digits, never an exponent."""
    if not value or not math.isfinite(value):
        return f"{value:.0f}"
    rounded = f"{value:.2e}"
    decimals = 2 - int(rounded.partition("e")[2])
    return f"{float(rounded):,.{max(0, decimals)}f}"


def _scaled(value: float, steps: tuple[tuple[str, float], ...]) -> tuple[str, str]:
    """Digits and the first unit in which they need no fourth: 999.96 us are 1.00 ms."""
    # Whole numbers may be longer than a float: sizes of damaged shapes.
    value = float(value) if abs(value) < 1e300 else math.inf if value > 0 else -math.inf
    unit, size = next((step for step in steps if abs(float(f"{value / step[1]:.2e}")) < 1000), steps[-1])
    return digits(value / size), unit


def duration(ms: float) -> str:
    """Milliseconds: `340 ns`, `12.3 us`, `1.00 ms`, `27.4 s`, `27.3 min`."""
    return " ".join(_scaled(ms, _TIMES))


def from_to(before: float | None, after: float | None) -> str:
    """`12.7 → 17.2 us`, the unit once where it is the same; `?` for what is not known."""
    first, last = ("?" if ms is None else duration(ms) for ms in (before, after))
    number, _, unit = first.partition(" ")
    return f"{number if last.endswith(f' {unit}') else first} → {last}"


def duration_range(ms: tuple[float, float], between: str = " to ", below: str = "up to ") -> str:
    """`0.70 to 1.41 ms`, in the unit of the second where the first is not 100 times shorter; `1.41 ms` where
    both read alike, and `up to 1.41 ms` where nothing is sure."""
    first, last = map(duration, ms)
    if first == last:
        return first
    if ms[0] <= 0:
        return below + last
    if ms[0] * 100 >= ms[1]:
        first = _as_in(ms[0], *_scaled(ms[1], _TIMES))
    return f"{first}{between}{last}"


def with_spread(ms: float, iqr_ms: float) -> str:
    """`17.2 ± 0.4 us`: a median with half the interquartile range, in the median's unit and places."""
    number, unit = _scaled(ms, _TIMES)
    return f"{number} ± {_as_in(iqr_ms / 2, number, unit)} {unit}"


def _as_in(ms: float, number: str, unit: str) -> str:
    """Milliseconds in another figure's unit and places, without the unit."""
    return f"{ms / dict(_TIMES)[unit]:,.{len(number.partition('.')[2])}f}"


def size(count: float | None) -> str:
    """Bytes: `512 B`, `40.0 KB`, `1.00 MB`; a kilobyte is 1,000 bytes, and `?` what is not known."""
    if count is None:
        return "?"
    number, unit = _scaled(count, _SIZES)
    return f"{count:.0f} B" if unit == "B" else f"{number} {unit}"


def parse_size(text: str) -> int | None:
    """`64M` as bytes; here 1 K are 1,024, as in the tools that take such sizes. None for what is no size."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    return int(float(match[1]) * _BINARY[match[2].upper()]) if match is not None else None


def rate(value: float, unit: str) -> str:
    """`3.35 TB/s` for 3.35e12 and the unit `B/s`; works for counts of operations too."""
    number, prefix = _scaled(value, _PREFIXES)
    return f"{number} {prefix}{unit}"


def parse_figure(text: str) -> float | None:
    """The size of what `duration`, `size`, `rate`, `percent` or `count` wrote, or of what begins with it, in
    one unit for each of these; None for what is no figure."""
    match = re.match(r"[~<≈+]?(-?\d[\d,]*(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    if match is None:
        return None
    units = {**dict(_TIMES), **dict(_SIZES), **{prefix: factor for prefix, factor in _PREFIXES if prefix}}
    return float(match[1].replace(",", "")) * units.get(match[2], 1.0)


def percent(fraction: float) -> str:
    """`68 %`; under one per cent with a digit behind the point, while that is not zero."""
    value = fraction * 100
    if abs(value) >= 100:
        return f"{digits(value)} %"
    if abs(value) < 0.05:
        return "0 %"
    return f"{value:.0f} %" if abs(value) >= 0.995 else f"{value:.1f} %"


def asked_text(moved: float, asked: float) -> str:
    """`403 MB moved, 2.11 MB asked for`."""
    return f"{size(moved)} moved, {size(asked)} asked for"


def times_each(value: float) -> str:
    """`16 times per element`, `2.2 times per element`."""
    return f"{value:,.0f} times per element" if value >= 9.95 else f"{value:.2g} times per element"


def times_over(value: float) -> str:
    """The same in a table's cell: `16x`, `2.2x`."""
    return f"{times_each(value).partition(' ')[0]}x"


def ratio(value: float) -> str:
    """`1.29x`, `12.9x`, `0.74x`."""
    return f"{value:.2f}x" if 0.1 <= value < 9.995 else f"{digits(value)}x"


def comparison(speedup: float, other: str = "") -> str:
    """`1.40x faster` for 1.4, `1.25x slower than eager` for 0.8 and the other called eager; for 0, of a
    time too short for the clock, only `slower`."""
    if ratio(speedup) == "1.00x":
        return f"as fast as {other}" if other else "as fast"
    than = f" than {other}" if other else ""
    if speedup <= 0:
        return f"slower{than}"
    return f"{ratio(max(speedup, 1 / speedup))} {'faster' if speedup > 1 else 'slower'}{than}"


def untold(outcome: str, again: float | None) -> str:
    """Why a comparison's outcome is unknown, behind the comparison; empty where it is known. `again` is the
    speedup when the same was run again, where it says something else."""
    if outcome != "unknown":
        return ""
    return f", but {comparison(again)} when run again" if again else ", in too few calls to tell"


def count(number: int | None) -> str:
    """`1,203`; `?` for what is not known."""
    return "?" if number is None else f"{number:,}"


def plural(number: int, noun: str) -> str:
    """`1 graph`, `1,000 graphs`, `2 launches`."""
    ending = "" if number == 1 else "es" if noun.endswith(("ch", "x", "ss")) else "s"
    return f"{number:,} {noun}{ending}"


def some_calls(number: int) -> str:
    """`1 call`, `5,300 calls`: as many as were worked out from times, which have three digits."""
    return plural(round(number, 3 - len(str(number))), "call")


def bar(share: float, width: int) -> str:
    """`share` of `width` cells, to an eighth of a cell."""
    full, part = divmod(round(max(0.0, min(1.0, share)) * width * 8), 8)
    return f"{'█' * full}{_EIGHTHS[part]}".ljust(width)


def bars(left: float, right: float, width: int) -> tuple[str, str]:
    """Shares of `width` cells on either side of an axis, to half a cell."""
    halves = (round(max(0.0, min(1.0, share)) * width * 2) for share in (left, right))
    (a, half_a), (b, half_b) = (divmod(count, 2) for count in halves)
    return f"{'▐' * half_a}{'█' * a}".rjust(width), f"{'█' * b}{'▌' * half_b}".ljust(width)


def date_text(seconds: float) -> str:
    """Seconds since the epoch as local date and time, to the minute; empty for what no clock shows."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return ""
