"""A profile without its run, in lines: where one call's time goes, by kernel and by operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from inspector.analysis.profile_summary import ProfileSummary
from inspector.explain.block_words import short_kernel
from inspector.model.two_sides import KernelTime
from inspector.text import crop, elide, pad
from inspector.units import bar, duration, percent, plural

from .spans import Line, Span, line, toned

_SHOWN = 12
_NAME, _MS, _BAR = 52, 9, 16


def lines(summary: ProfileSummary, width: int) -> Iterator[Line]:
    """What the device (or the CPU) did, what the host did meanwhile, and what would tell more."""
    whole = summary.whole
    where = ", ".join(summary.devices) or ("a device" if whole.device else "a CPU")
    yield toned(crop(f"a profile of {plural(whole.calls, 'call')} on {where}", width), "accent")
    text = f"{duration(whole.wall_ms)} per call as profiled"
    if whole.device:
        busy = whole.work_ms - whole.overlap_ms
        text += f", the device at work for {duration(busy)} ({percent(busy / (whole.wall_ms or 1.0))})"
    yield toned(crop(text, width))
    frames = ", ".join(f"{name} x{count:g}" for name, count in summary.regions)
    if frames:
        yield toned(crop(f"compiled frames: {frames}; {plural(len(summary.graphs), 'graph')}", width))
    yield Line()
    title = "kernels" if whole.device else "operators, their own time"
    yield from _table(title, summary.kernels, whole.work_ms, width)
    yield Line()
    yield from _table("outermost operators, with all below", summary.operators, whole.work_ms, width)
    if whole.host:
        yield Line()
        yield toned("the host, while the device idled" if whole.device else "beside the operators", "dim")
        for name, ms in whole.host:
            yield _row(name, "", ms, whole.wall_ms, width)
    yield Line()
    hint = "with its run, by line and against eager: inspector explain RUN --profile"
    yield toned(crop(f"{hint} {summary.path}", width), "dim")


def _table(title: str, kernels: Sequence[KernelTime], whole: float, width: int) -> Iterator[Line]:
    yield toned(title, "dim")
    for kernel in kernels[:_SHOWN]:
        yield _row(short_kernel(kernel.name), f"x{kernel.calls:g}", kernel.ms, whole, width)
    if rest := kernels[_SHOWN:]:
        yield _row(f"{len(rest)} more", "", sum(kernel.ms for kernel in rest), whole, width)


def _row(name: str, calls: str, ms: float, whole: float, width: int) -> Line:
    room = max(16, min(_NAME, width - 8 - _MS - 6 - _BAR - 4))
    share = ms / whole if whole else 0.0
    return line(
        Span(f"  {pad(elide(name, room), room)}{calls:>8}{duration(ms):>{_MS}}{percent(share):>6} "),
        Span(bar(share, _BAR), "accent"),
    )
