"""The launches of a graph with what a replay measured: time, share, bandwidth, roofline, verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inspector.analysis.roofline import Order, RankedKernel, ranked
from inspector.model.code import Kernel, KernelCall, OutputCode
from inspector.model.links import Linkage, Ref
from inspector.model.replay import GraphReplay, KernelReplay
from inspector.text import few, file_name
from inspector.units import bar, digits, duration, percent

from .code import KERNEL_TONES
from .content import rows_at
from .replay import MARKS, launch_time_text, launch_times
from .rows import CallRow
from .spans import Span
from .tables import Column, Row, Table

ORDERS: tuple[Order, ...] = ("time", "above", "order")
ORDER_NAMES: Mapping[Order, str] = {
    "time": "by time",
    "above": "by time above the roofline",
    "order": "as launched",
}

_BAR = 8

_WORTH_A_LOOK = 0.1
"""Share of all kernels' time that one spends above the roofline, from which its bar is coloured."""


def replayed_table(
    code: OutputCode,
    replay: GraphReplay,
    order: Order,
    linkage: Linkage | None = None,
    places: Mapping[str, str] | None = None,
    waste: Mapping[int, Sequence[str]] | None = None,
) -> Table:
    """One row for each launch. `places`: FX node to ``path:line``; `linkage` None until it was made; `waste`:
    what launches do that the program never asked for."""
    results = ranked([kernel for kernel in replay.kernels if 0 <= kernel.call < len(code.calls)], order)
    by_call = {row.kernel.call: row for row in results}
    if order == "order":
        calls = list(code.calls)
    else:
        measured = [code.calls[row.kernel.call] for row in results]
        calls = measured + [call for call in code.calls if call.index not in by_call]
    kernels = {kernel.name: kernel for kernel in code.kernels}
    fx_of = {link.call: link.fx for link in linkage.calls} if linkage else {}
    total = sum(row.kernel.known_ms or 0.0 for row in results)
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
            (waste or {}).get(call.index, ()),
        )
        for call in calls
    )
    position = {row.key: index for index, row in enumerate(rows)}
    return Table(
        _title(replay, len(code.calls)),
        _columns(order, unit),
        rows,
        find=lambda related: rows_at(position, map(CallRow, related.calls)),
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
        Column("in vain", shrinks=True, least=21, rank=1, optional=True),
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
    waste: Sequence[str],
) -> Row:
    result = ranked_kernel.kernel if ranked_kernel else None
    share = ranked_kernel.share if ranked_kernel else None
    above = ranked_kernel.above_ms if ranked_kernel else None
    speed = flops_per_s(result)
    lines = list(dict.fromkeys(file_name(places[name]) for name in fx if name in places))
    kind = (kernel.heuristic if kernel else None) or call.kind
    cells = (
        Span(call.index, "dim"),
        Span(call.kernel),
        Span(kind, KERNEL_TONES.get(call.kind, "")),
        _time_cell(result),
        Span("·" if share is None else percent(share), "" if share else "dim"),
        Span(digits(result.gbps)) if result and result.gbps else Span("·", "dim"),
        Span(digits(speed / flops_scale) if speed else ""),
        _bar_cell(result, above, total),
        Span(duration(above) if above else "·", "" if above else "dim"),
        Span(*MARKS[result.verdict]) if result else Span("·", "dim"),
        Span(result.registers if result and result.registers is not None else ""),
        Span(
            result.spills if result and result.spills is not None else "",
            "warn" if result and result.spills else "",
        ),
        Span(few(waste, 1), "warn"),
        Span(few(fx), "" if fx else "dim"),
        Span(few(lines, 1), "dim"),
    )
    return Row(CallRow(call.index), cells, Ref("call", str(call.index)))


def _title(replay: GraphReplay, calls: int) -> str:
    """`Kernels · 12 of 14 · 45.1 us + 14.2 us host gap · 20.3 us above the roofline`"""
    done = len(replay.kernels)
    return " · ".join(
        ["Kernels", str(calls) if done == calls else f"{done} of {calls}", *launch_times(replay)]
    )


# -- cells


def _time_cell(result: KernelReplay | None) -> Span:
    if result is None:
        return Span("·", "dim")
    return Span(launch_time_text([result]) or "no time", "" if result.own_ms is not None else "dim")


def _bar_cell(result: KernelReplay | None, above: float | None, total: float) -> Span:
    if result is None or result.roofline_fraction is None:
        return Span("·", "dim")
    worth = above is not None and total > 0 and above / total >= _WORTH_A_LOOK
    return Span(roofline_text(result.roofline_fraction), "warn" if worth else "dim")


def roofline_text(fraction: float) -> str:
    """`█████▌    68 %`; more than all of it ends in an arrow."""
    filled = "█" * (_BAR - 1) + "▶" if fraction > 1 else bar(fraction, _BAR)
    return f"{filled} {percent(fraction):>5}"


def flops_per_s(result: KernelReplay | None) -> float | None:
    """Operations a second; None where either is unknown."""
    if result is None or not result.flops or not result.own_ms:
        return None
    return result.flops / result.own_ms * 1e3
