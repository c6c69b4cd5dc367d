"""What is known of one launch: its verdict with the evidence, its time, the FX nodes that it stands for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from textwrap import wrap

from inspector.analysis.replay_history import PastKernel
from inspector.analysis.roofline import arithmetic, place, roof
from inspector.model.code import KernelCall
from inspector.model.edits import KernelEdit
from inspector.model.fx import FxNode
from inspector.model.links import Ref
from inspector.model.peaks import Peaks
from inspector.model.replay import KernelReplay, OutputCheck, Timing, WorstElement
from inspector.present.code import short_place
from inspector.present.content import RefIndex, clean
from inspector.present.documents import MESSAGE_WIDTH, Document, Region, widest
from inspector.present.fusion import bytes_text
from inspector.present.kernels import MARKS, duration, flops_per_s, percent, rate_text
from inspector.present.tables import Tone

_LABEL = 11
_DIFF = 40
"""Lines of an edit's difference; the source has all."""
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
    edits: Sequence[KernelEdit] = (),
    original: str = "",
) -> Document:
    """`history` and `edits` newest first, `result` included; `total_ms`: all kernels of the graph;
    `original`: the source that was edited."""
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
        _outputs(page, result)
        _worst(page, result.worst)
    _edits(page, edits, original)
    if len(history) > 1:
        _history(page, history)
    _fx(page, launch.fx)
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


def _outputs(page: _Page, result: KernelReplay) -> None:
    for check in result.outputs:
        what = f"{check.dtype.removeprefix('torch.')} {list(check.shape)}" if check.dtype else ""
        head = "  ".join(part for part in (check.name or f"output {check.index}", what) if part)
        own = check.verdict != result.verdict or len(result.outputs) > 1
        said = f": {check.verdict.replace('_', ' ')}" if own else ""
        page.fact("output", f"{head}{said}", "" if check.verdict == "match" else MARKS[check.verdict][1])
        page.fact("", "; ".join(part for part in (_errors(check), _tolerance(check)) if part))
        if check.outside_compiled and check.elements:
            page.fact("", f"{check.outside_compiled} of {check.elements} elements outside the tolerance")
        if check.reason and check.reason != result.reason:
            page.fact("", check.reason)


def _errors(check: OutputCheck) -> str:
    if check.error_compiled is None:
        return ""
    eager = f" (eager {check.error_eager:.2g})" if check.error_eager is not None else ""
    return f"error {check.error_compiled:.2g}{eager}"


def _tolerance(check: OutputCheck) -> str:
    if check.rtol is None or check.atol is None:
        return ""
    exact = not check.rtol and not check.atol
    return "must be exact" if exact else f"tolerance {check.rtol:.2g} relative + {check.atol:.2g}"


def _time(page: _Page, result: KernelReplay, total_ms: float | None) -> None:
    if result.method == "interpreter":
        sample = f" on {result.programs} of {result.grid} programs" if result.grid and result.programs else ""
        page.fact("method", f"Triton's interpreter on the CPU{sample}; no times")
    elif result.time is None:
        page.fact("time", "not measured", "dim")
    if result.time is not None:
        share = f", {percent((result.own_ms or 0.0) / total_ms)} of all kernels" if total_ms else ""
        if result.device_ms is not None:
            page.fact("on the device", f"{duration(result.device_ms)}, without what timing adds")
        warm = f"; {timing_text(result.time_warm)} with a warm L2 cache" if result.time_warm else ""
        page.fact("time", f"{timing_text(result.time)}, {result.time.rounds} rounds{share}{warm}")
    if result.bytes is not None:
        rate = f", {rate_text(result.gbps)} GB/s" if result.gbps else ""
        page.fact("bytes", f"{bytes_text(result.bytes)}{rate}")
    if result.flops:
        speed = flops_per_s(result)
        told = f", {prefixed(speed)}FLOP/s" if speed else ""
        page.fact("operations", f"{prefixed(result.flops)}FLOP{told}")


def timing_text(timing: Timing) -> str:
    """`12.3 us ± 0.4 us`: the median, and half the inter-quartile range."""
    return f"{duration(timing.median_ms)} ± {duration(timing.iqr_ms / 2)}"


def _roofline(page: _Page, result: KernelReplay, peaks: Peaks | None, tf32: bool) -> None:
    if peaks is None:
        return
    limit = roof(result.bytes, result.flops, arithmetic(result, peaks, tf32), peaks)
    found = place(result, peaks, tf32) if result.roofline_fraction is not None else None
    if limit is None or (found is None and result.time is not None):
        return
    what = {"memory": "memory", "cache": "a cache", "compute": "arithmetic"}[limit.bound]
    unit = "FLOP/s" if limit.bound == "compute" else "B/s"
    least = f"at least {duration(limit.least_ms)} by {what} ({prefixed(limit.rate)}{unit}, {peaks.source})"
    if found is None:
        page.fact("roofline", f"{least} on the {peaks.device}")
    else:
        page.fact("roofline", f"{percent(found.fraction)}: {least}")
        page.fact("", found.note or f"{duration(found.above_ms)} above it")


def prefixed(rate: float) -> str:
    """`3.35 T`, before a unit."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
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


def _edits(page: _Page, edits: Sequence[KernelEdit], original: str) -> None:
    """Each edit beside the original, and what the newest changed."""
    if not edits:
        return
    page.heading("Edits, each beside the original")
    for edit in edits[:_HISTORY]:
        tone: Tone = "bad" if edit.failure else MARKS[edit.edited.verdict][1] if edit.edited else ""
        page.add(f"  {edit_text(edit)}", "" if tone == "good" else tone)
        if edit.edited is not None and edit.edited.verdict != "match":
            page.add(f"     {edit.edited.reason}", "dim")
            for item in edit.edited.worst[:1]:
                where = f"{item.output}{list(item.index)}"
                page.add(
                    f"     {where} is {_number(item.compiled)}, float64 has {_number(item.reference)}", "dim"
                )
    newest = edits[0]
    page.heading(f"What edit {newest.number} changed")
    before, after = original.strip("\n").split("\n"), newest.source.strip("\n").split("\n")
    lines = [
        line for line in unified_diff(before, after, n=1, lineterm="") if not line.startswith(("---", "+++"))
    ]
    for line in lines[:_DIFF]:
        page.add(f"  {line}", {"+": "good", "-": "bad", "@": "dim"}.get(line[:1], ""))  # type: ignore[arg-type]
    if len(lines) > _DIFF:
        page.add(f"  and {len(lines) - _DIFF} more lines", "dim")
    if not lines:
        page.add("  nothing", "dim")


def edit_text(edit: KernelEdit) -> str:
    """`edit 3: 10.2 us ± 0.1 us beside 12.3 us ± 0.2 us, 0.83x of its time  ✓`"""
    if edit.failure or edit.edited is None:
        return f"edit {edit.number}: {edit.failure or 'not replayed'}"
    before, after = edit.original.time if edit.original else None, edit.edited.time
    parts = [f"edit {edit.number}: {timing_text(after) if after else 'no time'}"]
    if before is not None and edit.ratio is not None:
        parts.append(f"beside {timing_text(before)}, {edit.ratio:.2f}x of its time")
    return f"{' '.join(parts)}  {MARKS[edit.edited.verdict][0]}"


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
