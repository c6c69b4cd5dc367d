"""What is known of one launch: its verdict with the evidence, its time, the FX nodes that it stands for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from inspector.analysis.replay_history import PastKernel
from inspector.analysis.roofline import place
from inspector.model.code import KernelCall
from inspector.model.fx import FxNode
from inspector.model.links import Ref
from inspector.model.peaks import Peaks
from inspector.model.replay import KernelReplay, OutputCheck, Timing, WorstElement
from inspector.report.fusions import bytes_text

from .code import short_place
from .content import RefIndex, clean
from .document import MESSAGE_WIDTH, Document, Region, widest
from .kernels import MARKS, duration, percent, rate_text, tflops
from .table import Tone

_LABEL = 11
_HISTORY = 8
"""Earlier results listed; older ones are in the files of RUN/replay."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch and the FX nodes that it stands for. `remark` is said where it was not replayed."""

    call: KernelCall
    count: int
    fx: tuple[FxNode, ...] = ()
    remark: str = ""


def result_document(
    launch: Launch,
    result: KernelReplay | None,
    peaks: Peaks | None = None,
    history: Sequence[PastKernel] = (),
    total_ms: float | None = None,
    tf32: bool = False,
) -> Document:
    """`history` newest first, `result` included; `total_ms`: all kernels of the graph."""
    page = _Page(Ref("call", str(launch.call.index)))
    page.add(
        f"{launch.call.kernel}  launch {launch.call.index} of {launch.count}, line {launch.call.span.first}",
        "accent",
    )
    if result is None:
        page.add(launch.remark or "not replayed", "dim")
    else:
        _verdict(page, result)
        _time(page, result, total_ms)
        _roofline(page, result, peaks, tf32)
        _launch(page, result)
        _worst(page, result.worst)
    _fx(page, launch.fx)
    if len(history) > 1:
        _history(page, history)
    return page.document(f"Result · {launch.call.kernel}")


@dataclass
class _Page:
    """Lines as they are added; `document` makes them one."""

    own: Ref
    lines: list[str] = field(default_factory=list)
    tones: dict[int, tuple[tuple[int, int, Tone], ...]] = field(default_factory=dict)
    spans: list[tuple[int, int, Ref]] = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)

    def add(self, text: str = "", tone: Tone = "", ref: Ref | None = None) -> None:
        text = clean(text)
        if tone:
            self.tones[len(self.lines)] = ((0, len(text), tone),)
        self.spans.append((len(self.lines), len(self.lines), ref or self.own))
        self.lines.append(text)

    def fact(self, label: str, text: str, tone: Tone = "") -> None:
        """`label` in its own column, the text wrapped beside it; only the text has the tone."""
        for line in wrap(clean(text), MESSAGE_WIDTH - _LABEL, break_on_hyphens=False):
            row = len(self.lines)
            self.add(f"{label:<{_LABEL}}{line}")
            stretches: list[tuple[int, int, Tone]] = [(0, len(label), "dim")]
            if tone:
                stretches.append((_LABEL, len(self.lines[row]), tone))
            self.tones[row] = tuple(stretches)
            label = ""

    def heading(self, text: str) -> None:
        self.add()
        self.add(text, "accent")

    def document(self, title: str) -> Document:
        return Document(
            title=title,
            lines=tuple(self.lines),
            regions=tuple(self.regions),
            refs=RefIndex(self.spans),
            first_number=None,
            width=widest(self.lines),
            tones=self.tones,
        )


def _verdict(page: _Page, result: KernelReplay) -> None:
    mark, tone = MARKS[result.verdict]
    name = result.verdict.replace("_", " ")
    page.fact("verdict", mark if name in mark else f"{mark.split()[0]} {name}", tone)
    page.fact("", result.reason)
    for check in result.outputs:
        what = f"{check.dtype.removeprefix('torch.')} {list(check.shape)}" if check.dtype else ""
        head = "  ".join(part for part in (check.name or f"output {check.index}", what) if part)
        own = check.verdict != result.verdict or len(result.outputs) > 1
        said = f": {check.verdict.replace('_', ' ')}" if own else ""
        page.fact("output", f"{head}{said}", "" if check.verdict == "match" else MARKS[check.verdict][1])
        if check.error_compiled is not None:
            eager = f", eager {check.error_eager:.2g}" if check.error_eager is not None else ""
            page.fact("error", f"{check.error_compiled:.2g} compiled{eager}, against float64")
        page.fact("tolerance", _tolerance(check))
        if check.reason and check.reason != result.reason:
            page.fact("", check.reason)


def _tolerance(check: OutputCheck) -> str:
    if check.rtol is None or check.atol is None:
        return ""
    exact = not check.rtol and not check.atol
    text = "exact" if exact else f"{check.rtol:.2g} of the value + {check.atol:.2g}"
    if check.outside_compiled and check.elements:
        text += f": {check.outside_compiled} of {check.elements} elements are outside"
    return text


def _time(page: _Page, result: KernelReplay, total_ms: float | None) -> None:
    if result.method == "interpreter":
        sample = f" on {result.programs} of {result.grid} programs" if result.grid and result.programs else ""
        page.fact("method", f"Triton's interpreter on the CPU{sample}; no times")
    elif result.time is None:
        page.fact("time", "not measured", "dim")
    if result.time is not None:
        share = f", {percent(result.time.median_ms / total_ms)} of all kernels" if total_ms else ""
        warm = f"; {timing_text(result.time_warm)} with a warm L2 cache" if result.time_warm else ""
        page.fact("time", f"{timing_text(result.time)}, {result.time.rounds} rounds{share}{warm}")
    if result.bytes is not None:
        rate = f", {rate_text(result.gbps)} GB/s" if result.gbps else ""
        page.fact("bytes", f"{bytes_text(result.bytes)}{rate}")
    if result.flops:
        speed = tflops(result)
        page.fact("operations", f"{result.flops:.3g}" + (f", {speed:.3g} TFLOP/s" if speed else ""))


def timing_text(timing: Timing) -> str:
    """`12.3 us ± 0.4 us`: the median, and half the inter-quartile range."""
    return f"{duration(timing.median_ms)} ± {duration(timing.iqr_ms / 2)}"


def _roofline(page: _Page, result: KernelReplay, peaks: Peaks | None, tf32: bool) -> None:
    if peaks is None or result.roofline_fraction is None:
        return
    found = place(result, peaks, tf32)
    if found is None:
        return
    what = {"memory": "memory", "cache": "a cache", "compute": "arithmetic"}[found.roof.bound]
    unit = "FLOP/s" if found.roof.bound == "compute" else "B/s"
    basis = "measured" if peaks.source == "measured" else "datasheet"
    page.fact(
        "roofline",
        f"{percent(found.fraction)}: at least {duration(found.roof.least_ms)} "
        f"by {what} ({prefixed(found.roof.rate)}{unit}, {basis})",
    )
    page.fact("", found.note or f"{duration(found.above_ms)} above it")


def prefixed(rate: float) -> str:
    """`3.35 T`, before a unit."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if rate >= scale:
            return f"{rate / scale:.3g} {prefix}"
    return f"{rate:.3g} "


def _launch(page: _Page, result: KernelReplay) -> None:
    parts = []
    if result.registers is not None:
        parts.append(f"{result.registers} registers")
    if result.spills is not None:
        parts.append(f"{result.spills} spills")
    if result.shared_bytes is not None:
        parts.append(f"{bytes_text(result.shared_bytes)} shared memory")
    if result.occupancy is not None:
        parts.append(f"occupancy {percent(result.occupancy)}")
    page.fact("launch", ", ".join(parts), "warn" if result.spills else "")


def _worst(page: _Page, worst: Sequence[WorstElement]) -> None:
    if not worst:
        return
    rows = [("output", "element", "compiled", "eager", "float64")]
    rows += [
        (
            item.output,
            str(list(item.index)),
            _number(item.compiled),
            _number(item.eager),
            _number(item.reference),
        )
        for item in worst
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    page.heading("Worst elements")
    for number, row in enumerate(rows):
        left = f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}"
        numbers = "  ".join(f"{text:>{width}}" for text, width in zip(row[2:], widths[2:], strict=True))
        page.add(f"  {left}  {numbers}", "dim" if number == 0 else "")


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.9g}"


def _fx(page: _Page, nodes: Sequence[FxNode]) -> None:
    page.heading("FX nodes that it stands for")
    if not nodes:
        page.add("  none is known", "dim")
        return
    first = len(page.lines)
    for node in nodes:
        where = f"   # {short_place(str(node.source))}" if node.source else ""
        page.add(f"  {node.text.strip().split(';')[0]}{where}", ref=Ref("fx_after", node.name))
    page.regions.append(Region(first, len(page.lines) - 1, "python"))


def _history(page: _Page, history: Sequence[PastKernel]) -> None:
    page.heading("Earlier replays, and now beside them")
    now = history[0]
    for past in history[1 : _HISTORY + 1]:
        date = time.strftime("%Y-%m-%d %H:%M", time.localtime(past.started))
        kernel = past.kernel
        measured = timing_text(kernel.time) if kernel.time else "no time"
        mark, tone = MARKS[kernel.verdict]
        device = f"  {past.device}" if past.device != now.device else ""
        page.add(
            f"  {date}  {measured}  {change_text(kernel, now.kernel)}  {mark}{device}",
            tone if tone != "good" else "",
        )
    if len(history) > _HISTORY + 1:
        page.add(f"  and {len(history) - _HISTORY - 1} older in the run's replay folder", "dim")


def change_text(before: KernelReplay, after: KernelReplay) -> str:
    """`now -3 %`, or that the difference is within the spread of both."""
    if before.time is None or after.time is None or not before.time.median_ms:
        return "·"
    change = after.time.median_ms / before.time.median_ms - 1
    spread = before.time.iqr_ms + after.time.iqr_ms
    if abs(after.time.median_ms - before.time.median_ms) <= spread:
        return f"now {change * 100:+.0f} %, within the spread"
    return f"now {change * 100:+.0f} %"


def nodes_of(names: Sequence[str], nodes: Mapping[str, FxNode]) -> tuple[FxNode, ...]:
    """The named FX nodes in the graph's order."""
    wanted = set(names)
    return tuple(node for name, node in nodes.items() if name in wanted)
