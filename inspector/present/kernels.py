"""The launches of a graph with what a replay measured: time, share, bandwidth, roofline, verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inspector.analysis.roofline import Order, RankedKernel, ranked
from inspector.model.code import Kernel, KernelCall, OutputCode
from inspector.model.links import Linkage, Ref
from inspector.model.replay import GraphReplay, KernelReplay, Verdict
from inspector.present.code import KERNEL_TONES, few, short_place
from inspector.present.content import merge
from inspector.present.tables import Cell, Column, Row, Table, Tone, cell

ORDERS: tuple[Order, ...] = ("time", "above", "order")
ORDER_NAMES: Mapping[Order, str] = {
    "time": "by time",
    "above": "by time above the roofline",
    "order": "as launched",
}

MARKS: Mapping[Verdict, tuple[str, Tone]] = {
    "match": ("✓", "good"),
    "compiled_closer": ("✓ closer", "good"),
    "eager_closer": ("≈ eager closer", "warn"),
    "mismatch": ("✗ mismatch", "bad"),
    "unverifiable": ("? unverified", "warn"),
}

_BAR = 8
_EIGHTHS = " ▏▎▍▌▋▊▉"

_WORTH_A_LOOK = 0.1
"""Share of all kernels' time that one spends above the roofline, from which its bar is coloured."""


def call_key(call: int) -> str:
    """Key of a launch's row; a kernel's name never looks like this."""
    return f"call {call}"


def call_of(key: str | None) -> int | None:
    """The launch behind a row's key; None for a row that stands for a kernel."""
    return int(key.removeprefix("call ")) if key is not None and key.startswith("call ") else None


def replayed_table(
    code: OutputCode,
    replay: GraphReplay,
    order: Order,
    linkage: Linkage | None = None,
    places: Mapping[str, str] | None = None,
) -> Table:
    """One row for each launch. `places`: FX node to ``path:line``; `linkage` None until it was made."""
    results = ranked([kernel for kernel in replay.kernels if 0 <= kernel.call < len(code.calls)], order)
    by_call = {row.kernel.call: row for row in results}
    if order == "order":
        calls = list(code.calls)
    else:
        measured = [code.calls[row.kernel.call] for row in results]
        calls = measured + [call for call in code.calls if call.index not in by_call]
    kernels = {kernel.name: kernel for kernel in code.kernels}
    fx_of = {link.call: link.fx for link in linkage.calls} if linkage else {}
    total = sum(row.kernel.own_ms or 0.0 for row in results)
    fastest = max((flops_per_s(row.kernel) or 0.0 for row in results), default=0.0)
    unit, scale = ("T", 1e12) if fastest >= 1e12 else ("G", 1e9)
    rows = tuple(
        _row(
            call,
            kernels.get(call.kernel),
            by_call.get(call.index),
            total,
            scale,
            list(fx_of.get(call.index, ())),
            places or {},
        )
        for call in calls
    )
    position = {row.key: index for index, row in enumerate(rows)}
    return Table(
        _title(replay, len(code.calls)),
        _columns(order, unit),
        rows,
        find=lambda related: merge(
            (position[call_key(call)], position[call_key(call)])
            for call in related.calls
            if call_key(call) in position
        ),
    )


def _columns(order: Order, unit: str) -> tuple[Column, ...]:
    def title(name: str, own: Order) -> str:
        return f"{name} ↓" if own == order else name

    return (
        Column("↓" if order == "order" else "#", right=True, rank=2),
        Column("kernel", shrinks=True, least=20),
        Column("kind", rank=8),
        Column(title("time", "time"), right=True),
        Column("share", right=True),
        Column("GB/s", right=True, rank=3),
        Column(f"{unit}FLOP/s", right=True, rank=7, optional=True),
        Column("roofline", rank=1),
        Column(title("above", "above"), right=True, rank=0 if order == "above" else 4),
        Column("ok"),
        Column("regs", right=True, rank=6, optional=True),
        Column("spills", right=True, rank=5, optional=True),
        Column("fx nodes", shrinks=True, least=8, rank=10),
        Column("source lines", shrinks=True, least=12, rank=9),
    )


def _row(
    call: KernelCall,
    kernel: Kernel | None,
    ranked_kernel: RankedKernel | None,
    total: float,
    flops_scale: float,
    fx: list[str],
    places: Mapping[str, str],
) -> Row:
    result = ranked_kernel.kernel if ranked_kernel else None
    share = ranked_kernel.share if ranked_kernel else None
    above = ranked_kernel.above_ms if ranked_kernel else None
    speed = flops_per_s(result)
    lines = list(dict.fromkeys(short_place(places[name]) for name in fx if name in places))
    kind = (kernel.heuristic if kernel else None) or call.kind
    cells = (
        cell(call.index, "dim"),
        cell(call.kernel),
        cell(kind, KERNEL_TONES.get(call.kind, "")),
        time_cell(result),
        cell(share_text(share), "" if share else "dim"),
        cell(
            rate_text(result.gbps) if result and result.gbps else "·", "" if result and result.gbps else "dim"
        ),
        cell(rate_text(speed / flops_scale) if speed else ""),
        _bar_cell(result, above, total),
        cell(duration(above) if above else "·", "" if above else "dim"),
        verdict_cell(result),
        cell(result.registers if result and result.registers is not None else ""),
        cell(
            result.spills if result and result.spills is not None else "",
            "warn" if result and result.spills else "",
        ),
        cell(few(fx), "" if fx else "dim"),
        cell(few(lines, 1), "dim"),
    )
    return Row(call_key(call.index), cells, Ref("call", str(call.index)))


def _title(replay: GraphReplay, calls: int) -> str:
    """`Kernels · 12 of 14 · 45.1 us + 14.2 us host gap · 20.3 us above roofline`"""
    done = len(replay.kernels)
    parts = [f"Kernels · {calls if done == calls else f'{done} of {calls}'}"]
    timed = [kernel.own_ms for kernel in replay.kernels if kernel.own_ms is not None]
    if timed:
        gap = replay.host_gap_ms if done == calls else None
        parts.append(duration(sum(timed)) + (f" + {duration(gap)} host gap" if gap and gap > 0 else ""))
        above = [row.above_ms for row in ranked(replay.kernels) if row.above_ms is not None]
        if above:
            parts.append(f"{duration(sum(above))} above roofline")
    elif any(kernel.method == "interpreter" for kernel in replay.kernels):
        parts.append("by Triton's interpreter, no times")
    return " · ".join(parts)


# -- cells


def time_cell(result: KernelReplay | None) -> Cell:
    if result is None:
        return Cell("·", "dim")
    if result.own_ms is None:
        return Cell("no time", "dim")
    return Cell(duration(result.own_ms))


def verdict_cell(result: KernelReplay | None) -> Cell:
    return Cell(*MARKS[result.verdict]) if result is not None else Cell("·", "dim")


def _bar_cell(result: KernelReplay | None, above: float | None, total: float) -> Cell:
    if result is None or result.roofline_fraction is None:
        return Cell("·", "dim")
    worth = above is not None and total > 0 and above / total >= _WORTH_A_LOOK
    return Cell(roofline_text(result.roofline_fraction), "warn" if worth else "dim")


def roofline_text(fraction: float, width: int = _BAR) -> str:
    """`█████▌    68 %`; more than all of it ends in an arrow."""
    eighths = round(min(fraction, 1.0) * width * 8)
    filled = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8].strip())
    if fraction > 1:
        filled = "█" * (width - 1) + "▶"
    return f"{filled:<{width}} {percent(fraction):>5}"


def share_text(share: float | None) -> str:
    return "·" if share is None else percent(share)


def percent(fraction: float) -> str:
    """`68 %`; under one per cent with a digit behind the point."""
    value = fraction * 100
    return f"{value:.0f} %" if value >= 0.995 else f"{value:.1f} %"


def flops_per_s(result: KernelReplay | None) -> float | None:
    """Operations a second; None where either is unknown."""
    if result is None or not result.flops or not result.own_ms:
        return None
    return result.flops / result.own_ms * 1e3


def duration(ms: float) -> str:
    """`12.3 us`: three digits in the unit that suits the size."""
    for unit, scale in (("us", 1e3), ("ms", 1.0)):
        if ms * scale < 999.5:
            return f"{_digits(ms * scale)} {unit}"
    return f"{_digits(ms / 1e3)} s"


def _digits(value: float) -> str:
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def rate_text(value: float) -> str:
    """Three digits at most; what is next to nothing is not worth them."""
    if value < 0.1:
        return "<0.1"
    return f"{value:.0f}" if value >= 99.5 else f"{value:.3g}"


def worst_kernel(kernels: Sequence[KernelReplay]) -> KernelReplay | None:
    """The launch that a reader should look at first: a wrong one, else the one that loses most above
    the roofline, else the longest."""
    wrong = next((kernel for kernel in kernels if kernel.verdict == "mismatch"), None)
    if wrong is not None:
        return wrong
    rows = [row for row in ranked(kernels, "above") if row.above_ms]
    if not rows:
        rows = [row for row in ranked(kernels, "time") if row.share]
    return rows[0].kernel if rows else None
