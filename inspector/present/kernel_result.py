"""What is known of one launch: its verdict with the evidence, its time, the FX nodes that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff

from inspector.analysis.replay_history import PastKernel
from inspector.analysis.roofline import arithmetic, place, roof
from inspector.frozen import dataclass
from inspector.model.code import KernelCall
from inspector.model.edits import KernelEdit
from inspector.model.fx import FxNode
from inspector.model.links import Ref
from inspector.model.peaks import Peaks
from inspector.model.replay import KIND_WORDS, KernelReplay, OperatorReplay, OutputCheck, WorstElement
from inspector.text import file_name, pad, wrap
from inspector.units import date_text, digits, duration, percent, rate, size, with_spread

from .documents import Document, Region, written
from .kernels import flops_per_s
from .replay import (
    MARKS,
    edit_text,
    element_text,
    errors_text,
    evidence_texts,
    launch_verdict_text,
    number_text,
    picture_lines,
    tensor_text,
    timing_text,
    tone_of,
    verdict_text,
)
from .spans import MESSAGE_WIDTH, Line, Span, Tone, line, toned
from .tables import Column, Row, Table, table_lines

_LABEL = 11
_WORST_COLUMNS = (
    Column("output", shrinks=True),
    Column("element"),
    Column("compiled", right=True),
    Column("op by op", right=True),
    Column("float64", right=True),
)
_DIFF = 40
"""Lines of an edit's difference; the source has all."""
_DIFF_TONES: Mapping[str, Tone] = {"+": "good", "-": "bad", "@": "dim"}
_SIGNS = ("+", "-", " ")
"""Before a diff's lines of code."""
_HISTORY = 8
"""Earlier results listed; older ones are in the files of RUN/replay."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch and the FX nodes that it stands for. `remark` is said where it was not replayed."""

    call: KernelCall
    count: int
    fx: tuple[FxNode, ...] = ()
    remark: str = ""
    waste: tuple[str, ...] = ()
    """What it does that the program never asked for."""


def result_document(
    launch: Launch,
    result: KernelReplay | None,
    peaks: Peaks | None = None,
    history: Sequence[PastKernel] = (),
    total_ms: float | None = None,
    tf32: bool = False,
    edits: Sequence[KernelEdit] = (),
    original: str = "",
    operators: Sequence[OperatorReplay] = (),
    ncu: str = "",
) -> Document:
    """`history` and `edits` newest first, `result` included; `total_ms`: all kernels of the graph;
    `original`: the source that was edited; `operators`: those of the graph that ATen was timed on;
    `ncu`: what Nsight Compute measured."""
    call = launch.call
    head = f"{call.kernel}  launch {call.index} of {launch.count}, line {call.span.first}"
    lines = [toned(head, "accent"), *(toned(text, "warn") for text in launch.waste)]
    if result is None:
        lines.append(toned(launch.remark or "not replayed", "dim"))
    else:
        lines += _verdict(result)
        lines += _time(result, total_ms)
        for item in operators:
            if call.index in item.calls and item.sure:
                lines += _fact(
                    "ATen's own", f"{with_spread(item.own_ms, item.time.iqr_ms)} for {item.operator}"
                )
        lines += _roofline(result, peaks, tf32)
        lines += _launch(result)
        lines += _outputs(result)
        lines += _worst(result.worst)
    lines += _fact("ncu", ncu) if ncu else ()
    lines += _edits(edits, original) if edits else ()
    lines += _history(history) if len(history) > 1 else ()
    lines += _heading("FX nodes that it stands for")
    first = len(lines)
    lines += _fx(launch.fx)
    document = written(f"Result · {call.kernel}", lines, Ref("call", str(call.index)))
    return replace(document, regions=(Region(first, len(lines) - 1, "python"),)) if launch.fx else document


def _fact(label: str, text: str, tone: Tone = "") -> Iterator[Line]:
    """`label` in its own column, the text wrapped beside it; only the text has the tone."""
    for part in wrap(text, MESSAGE_WIDTH - _LABEL):
        yield line(Span(pad(label, _LABEL), "dim"), Span(part, tone))
        label = ""


def _heading(text: str) -> tuple[Line, Line]:
    return Line(), toned(text, "accent")


def _verdict(result: KernelReplay) -> Iterator[Line]:
    mark, tone = MARKS[result.verdict]
    yield from _fact("verdict", f"{mark.split()[0]} {launch_verdict_text(result)}", tone)
    if result.kinds:
        yield from _fact("", f"tried {'; '.join(KIND_WORDS[kind] for kind in result.kinds)}", "dim")
    yield from _fact("", result.reason)


def _outputs(result: KernelReplay) -> Iterator[Line]:
    for check in result.outputs:
        head = "  ".join(part for part in (check.name or f"output {check.index}", tensor_text(check)) if part)
        own = check.verdict != result.verdict or len(result.outputs) > 1
        yield from _fact(
            "output", head + (f": {verdict_text(check.verdict)}" if own else ""), tone_of(check.verdict)
        )
        yield from _fact("", "; ".join(part for part in (errors_text(check), _tolerance(check)) if part))
        if check.outside_compiled and check.elements:
            yield from _fact(
                "", f"{check.outside_compiled} of {check.elements} elements outside the tolerance"
            )
        if check.reason and check.reason != result.reason:
            yield from _fact("", check.reason)


def _tolerance(check: OutputCheck) -> str:
    if check.rtol is None or check.atol is None:
        return ""
    exact = not check.rtol and not check.atol
    return "must be exact" if exact else f"tolerance {check.rtol:.2g} relative + {check.atol:.2g}"


def _time(result: KernelReplay, total_ms: float | None) -> Iterator[Line]:
    if result.method == "interpreter":
        sample = f" on {result.programs} of {result.grid} programs" if result.grid and result.programs else ""
        yield from _fact("method", f"Triton's interpreter on the CPU{sample}; no times")
    elif result.time is None:
        yield from _fact("time", "not measured", "dim")
    if result.profiled_ms is not None and result.time is None:
        yield from _fact("in the profile", f"{duration(result.profiled_ms)}, as the program ran")
    if result.time is not None:
        share = f", {percent((result.own_ms or 0.0) / total_ms)} of all kernels" if total_ms else ""
        if result.device_ms is not None:
            yield from _fact("on device", f"{duration(result.device_ms)}, without what timing adds")
        warm = f"; {timing_text(result.time_warm)} with a warm L2 cache" if result.time_warm else ""
        yield from _fact("time", f"{timing_text(result.time)}, {result.time.rounds} rounds{share}{warm}")
    if result.time_float32 is not None:
        yield from _fact("in float32", f"{timing_text(result.time_float32)}, the same call")
    if result.time_eager_strides is not None:
        yield from _fact(
            "as in eager", f"{timing_text(result.time_eager_strides)}, the same call with eager's strides"
        )
        for each in result.restrided:
            yield from _fact("", each.told)
    if result.bytes is not None:
        speed = f", {digits(result.gbps)} GB/s" if result.gbps else ""
        asked = "" if result.bytes_asked is None else f", {size(result.bytes_asked)} of them asked for"
        yield from _fact("bytes", f"{size(result.bytes)}{speed}{asked}")
    if result.flops:
        per_s = flops_per_s(result)
        speed = f", {rate(per_s, 'FLOP/s')}" if per_s else ""
        vain = result.flops_asked is not None and result.flops_asked < result.flops
        asked = f", {rate(result.flops_asked or 0, 'FLOP')} of them asked for" if vain else ""
        yield from _fact("operations", f"{rate(result.flops, 'FLOP')}{speed}{asked}")


def _roofline(result: KernelReplay, peaks: Peaks | None, tf32: bool) -> Iterator[Line]:
    if peaks is None:
        return
    limit = roof(result.useful_bytes, result.useful_flops, arithmetic(result, peaks, tf32), peaks)
    measured = place(result, peaks, tf32) if result.roofline_fraction is not None else None
    if limit is None or (measured is None and result.time is not None):
        return
    what = {"memory": "memory", "cache": "a cache", "compute": "arithmetic"}[limit.bound]
    unit = "FLOP/s" if limit.bound == "compute" else "B/s"
    least = f"at least {duration(limit.least_ms)} by {what} ({rate(limit.rate, unit)}, {peaks.source})"
    if measured is None:
        yield from _fact("roofline", f"{least} on the {peaks.device}")
    else:
        yield from _fact("roofline", f"{percent(measured.fraction)}: {least}")
        yield from _fact("", measured.note or f"{duration(measured.above_ms)} above it")


def _launch(result: KernelReplay) -> Iterator[Line]:
    parts = []
    if result.registers is not None:
        parts.append(f"{result.registers} registers")
    if result.spills is not None:
        parts.append(f"{result.spills} spills")
    if result.shared_bytes is not None:
        parts.append(f"{size(result.shared_bytes)} shared memory")
    if result.occupancy is not None:
        parts.append(f"occupancy {percent(result.occupancy)}")
    yield from _fact("launch", ", ".join(parts), "warn" if result.spills else "")


def _worst(worst: Sequence[WorstElement]) -> Iterator[Line]:
    if not worst:
        return
    numbers = [(item.compiled, item.eager, item.reference) for item in worst]
    rows = [
        Row(
            str(at), (Span(item.output), Span(list(item.index)), *(Span(number_text(n)) for n in numbers[at]))
        )
        for at, item in enumerate(worst)
    ]
    yield from _heading("Worst elements")
    for item in table_lines(Table("", _WORST_COLUMNS, tuple(rows)), MESSAGE_WIDTH):
        yield line("  ", *item.spans)
    for element in worst:
        for text in evidence_texts(element):
            yield toned(f"  {element.output}: {text}", "dim")
        yield from picture_lines(element)


def _fx(nodes: Sequence[FxNode]) -> Iterator[Line]:
    if not nodes:
        yield toned("  none is known", "dim")
    for node in nodes:
        where = f"   # {file_name(str(node.source))}" if node.source else ""
        yield toned(f"  {node.text.strip().split(';')[0]}{where}", ref=Ref("fx_after", node.name))


def _history(history: Sequence[PastKernel]) -> Iterator[Line]:
    yield from _heading("Earlier replays, and now beside them")
    now = history[0]
    for past in history[1 : _HISTORY + 1]:
        date = date_text(past.started)
        kernel = past.kernel
        measured = timing_text(kernel.time) if kernel.time else "no time"
        device = f"  {past.device}" if past.device != now.device else ""
        yield toned(
            f"  {date}  {measured}  {change_text(kernel, now.kernel)}  {MARKS[kernel.verdict][0]}{device}",
            tone_of(kernel.verdict),
        )
    if len(history) > _HISTORY + 1:
        yield toned(f"  and {len(history) - _HISTORY - 1} older in the run's replay folder", "dim")


def _edits(edits: Sequence[KernelEdit], original: str) -> Iterator[Line]:
    """Each edit beside the original, and what the newest changed."""
    yield from _heading("Edits, each beside the original")
    for edit in edits[:_HISTORY]:
        tone = "bad" if edit.failure or edit.edited is None else tone_of(edit.edited.verdict)
        yield toned(f"  {numbered_edit(edit)}", tone)
        if edit.edited is not None and edit.edited.verdict != "match":
            yield toned(f"     {edit.edited.reason}", "dim")
            for worst in edit.edited.worst[:1]:
                yield toned(f"     worst at {element_text(worst)}", "dim")
    newest = edits[0]
    yield from _heading(f"What edit {newest.number} changed")
    before, after = original.strip("\n").split("\n"), newest.source.strip("\n").split("\n")
    lines = _dedented(
        text for text in unified_diff(before, after, n=1, lineterm="") if not text.startswith(("---", "+++"))
    )
    for text in lines[:_DIFF]:
        yield toned(f"  {text}", _DIFF_TONES.get(text[:1], ""))
    if len(lines) > _DIFF:
        yield toned(f"  and {len(lines) - _DIFF} more lines", "dim")
    if not lines:
        yield toned("  nothing", "dim")
    yield from stage_figure_lines(newest)


def stage_figure_lines(edit: KernelEdit) -> Iterator[Line]:
    """What an edit changed of what the kernel is lowered to; nothing where that is not known."""
    changed = [figure for figure in edit.stages if figure.before != figure.after]
    width = max((len(figure.name) for figure in changed), default=0)
    for figure in changed:
        texts = ("none" if value is None else f"{value:,}" for value in (figure.before, figure.after))
        yield toned(f"  {figure.name:<{width}}  {' → '.join(texts)}")
    if edit.stages and not changed:
        yield toned("  lowered to as many registers and instructions of each kind", "dim")


def _dedented(lines: Iterable[str]) -> list[str]:
    """A diff's lines without the blanks that all of its code begins with."""
    kept = list(lines)
    code = [text[1:] for text in kept if text[:1] in _SIGNS and text[1:].strip()]
    indent = min((len(text) - len(text.lstrip(" ")) for text in code), default=0)
    return [text[0] + text[1 + indent :] if text[:1] in _SIGNS else text for text in kept]


def numbered_edit(edit: KernelEdit) -> str:
    """`edit 3: 10.2 ± 0.1 us beside 12.3 ± 0.2 us, 1.21x faster  ✓`"""
    if edit.failure or edit.edited is None:
        return f"edit {edit.number}: {edit.failure or 'not replayed'}"
    return f"edit {edit.number}: {edit_text(edit.original, edit.edited)}"


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
