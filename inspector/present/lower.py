"""Below the kernels, in lines: which stages each has, and a stage with the model's lines at its side."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import PurePath

from inspector.analysis.lowering import LoweredKernel, Narrow, Origin
from inspector.analysis.ncu import ncu_text
from inspector.model.lowering import NO_LOOPS, LoweredFolder, Stage, Throughput
from inspector.text import crop, pad
from inspector.units import percent, plural, size

from .spans import Line, Span, Tone, apart, line, more, toned, wrapped
from .tables import Column, Row, Table, table_lines

_PLACE, _NUMBER = 20, 5
_LONGEST_TABLE = 8
"""Lines in a row that are no instructions and are shown; more are tables of places and the like."""
_MOST_PROBLEMS = 8
_MOST_NAMED = 4
"""Narrow accesses and loops."""
_CPU_WIDTHS = {
    512: "zmm, 16 floats at a time",
    256: "ymm, 8 floats at a time",
    128: "xmm, 4 floats at a time",
    0: "scalar, one number at a time",
}
# .loc 1 40 34    //## File "kernel.py", line 40    inlined by k.cpp:31 (f)    /a/k.cpp:31    kernel():
_PLACE_LINE = re.compile(
    r"\s*(?:\.loc\s|//## File |inlined by |/.*:(?:\d+|\?)(?: \(d[^()]*\))?$|[\w.$]+\(\):$)"
)
#  loc(#loc12)      , !dbg !12      behind an instruction: what the columns at its side say
_OWN_PLACE = re.compile(r" loc\(#?\w*\)$|, !dbg !\d+$")


def overview_lines(kernels: Sequence[LoweredKernel], width: int) -> Iterator[Line]:
    """Every kernel and what is known of its lowering."""
    with_stages = sum(bool(kernel.stages) for kernel in kernels)
    made = sum(kernel.folder is not None and kernel.folder.made for kernel in kernels)
    text = f"{plural(len(kernels), 'kernel')}, {with_stages} with the stages that they were lowered to"
    yield toned(text + (f", {made} of them lowered on request" if made else ""), "accent")
    columns = (
        Column("kernel", shrinks=True, least=24),
        Column("target"),
        Column("stages", rank=3),
        Column("warps", right=True, rank=2),
        Column("shared", right=True, rank=1),
        Column("registers", right=True, optional=True),
        Column("spills", right=True, optional=True),
        Column("tried", right=True, rank=4),
    )
    for graph, own in groupby(kernels, key=lambda kernel: kernel.graph):
        rows = tuple(Row(index, _cells(kernel)) for index, kernel in enumerate(own))
        yield from apart([toned(graph), *table_lines(Table("", columns, rows), width)])
    if with_stages:
        yield from apart([toned("one of them, line by line: --kernel NAME --stage ttgir", "dim")])
    if with_stages < len(kernels):
        yield toned("to lower the others here, for their GPU or another one (--target sm_80): --make", "dim")
    if not with_stages:
        why = (
            "a capture keeps them in cache/triton of its run; a run that was copied without it has lost them"
        )
        yield from apart(wrapped(f"no stages here: {why}", width, "dim"))


def _cells(kernel: LoweredKernel) -> tuple[Span, ...]:
    folder, seen = kernel.folder, kernel.recorded
    return (
        Span(kernel.kernel.name),
        Span(
            folder.target if folder is not None and folder.target is not None else "-",
            "" if folder else "dim",
        ),
        Span(" ".join(stage.name for stage in kernel.stages) or kernel.kernel.kind, "" if folder else "dim"),
        Span(_said(folder.warps if folder is not None else None)),
        Span(size(folder.shared_bytes) if folder is not None and folder.shared_bytes is not None else "-"),
        Span(_said(seen.registers if seen is not None else folder.registers if folder is not None else None)),
        Span(
            _said(seen.spills if seen is not None else None, ""),
            "warn" if seen is not None and seen.spills else "",
        ),
        Span(1 + len(kernel.others) if folder is not None else "-", "dim"),
    )


def _said(value: int | None, absent: str = "-") -> str:
    return absent if value is None else str(value)


def stage_lines(kernel: LoweredKernel, name: str | None, width: int) -> Iterator[Line]:
    """What is known of a kernel's lowering, and with `name` that stage beside the model's lines."""
    yield toned(kernel.kernel.name, "accent")
    yield from wrapped(_configuration(kernel), width)
    for stage in kernel.stages:
        yield toned(f"  {stage.name:<7}{_reach(kernel, stage)}")
    if kernel.stages:
        yield toned(f"  in {PurePath(kernel.stages[0].path).parent}", "dim")
    for note in kernel.folder.notes if kernel.folder is not None else ():
        yield from wrapped(note, width, "warn", "  ")
    problems = [toned(f"  {problem}", "warn") for problem in kernel.problems]
    yield from [*problems[:_MOST_PROBLEMS], *more(len(problems) - _MOST_PROBLEMS)]
    yield from _fact_lines(kernel, width)
    asked = kernel.stage(name) if name is not None else None
    if asked is not None:
        yield from apart(_side_by_side(kernel, asked))


def _configuration(kernel: LoweredKernel) -> str:
    folder, seen = kernel.folder, kernel.recorded
    if folder is None:
        return "no stages of it in the run"
    parts = [str(folder.target or "unknown target")]
    if folder.triton_version is not None:
        other = kernel.run_triton not in (None, folder.triton_version)
        parts.append(
            f"Triton {folder.triton_version}" + (f" (the run's: {kernel.run_triton})" if other else "")
        )
    parts += [folder.config["compiler"]] if "compiler" in folder.config else []
    parts += _counts(folder)
    if folder.made:
        parts.insert(0, "lowered on request")
    if folder.registers is not None:
        parts.append(plural(folder.registers, "register"))
        parts.append(f"{size(folder.spill_bytes)} spilled" if folder.spill_bytes else "none spilled")
    if seen is not None and seen.registers is not None and (folder.made or folder.registers is None):
        spilled = f"{seen.spills} spilled" if seen.spills else "none spilled"
        parts.append(f"when it ran: {plural(seen.registers, 'register')}, {spilled}")
    if kernel.others:
        parts.append(
            f"chosen of {1 + len(kernel.others)} configurations" if folder.chosen else "not the chosen one"
        )
    return " · ".join(parts)


def _fact_lines(kernel: LoweredKernel, width: int) -> Iterator[Line]:
    """What the stages say of the kernel's cost, in plain words."""
    if kernel.stage("asm") is not None:
        yield from _cpu_lines(kernel, width)
        return
    fits, sass, ptx, layouts = (
        kernel.occupancy,
        kernel.facts("sass"),
        kernel.facts("ptx"),
        kernel.facts("ttgir"),
    )
    if kernel.ncu:
        yield from _fact("ncu", ncu_text(kernel.ncu), width)
    if fits is not None:
        yield from _fact("occupancy", fits.told, width)
    if sass is not None and sass.mix:
        shares = (f"{kind} {percent(count / sass.instructions)}" for kind, count in sass.mix.items())
        yield from _fact("instructions", f"{sass.instructions}: {', '.join(shares)}", width)
        if "tl.dot" in kernel.kernel.source or sass.tensor_cores:
            used = ", ".join(f"{count} {name}" for name, count in sass.tensor_cores.items())
            yield from _fact("tensor cores", used or "not used, though it has a tl.dot", width)
        loops = [
            f"{loop.instructions} instructions (lines {loop.first} to {loop.last})" for loop in sass.loops
        ]
        rest = [f"{len(loops) - _MOST_NAMED} more"] if len(loops) > _MOST_NAMED else []
        yield from _fact("loops", ", ".join([*loops[:_MOST_NAMED], *rest]) or "none", width)
    access = sass or ptx
    if access is not None:
        kinds = (("loads", access.widths("global", False)), ("stores", access.widths("global", True)))
        texts = [
            f"{noun} of {', '.join(f'{bits} bits ({count}x)' for bits, count in widths.items())}"
            for noun, widths in kinds
            if widths
        ]
        yield from _fact("memory", "; ".join(texts) or "no loads and stores of its own", width)
    for narrow in kernel.narrow()[:_MOST_NAMED]:
        yield from _fact("  narrow", _narrow_text(narrow), width)
    spread = kernel.spread()
    for space in ("global", "shared"):
        for each in [each for each in spread if each.space == space and each.worth][:_MOST_NAMED]:
            text = f"{place_text(each.origin)} {each.told}: {each.text}"
            yield from _fact("  sectors" if space == "global" else "  banks", text, width)
    if (conflicts := kernel.conflicts) is not None and conflicts.lost:
        where = "in a turn of its loop " if ptx is not None and ptx.loops else ""
        text = f"{where}{conflicts.told}: up to {percent(conflicts.lost)} of the time"
        yield from _fact("  conflicts", text, width)
    if layouts is not None and layouts.conversions:
        moved = sum(each.bytes or 0 for each in layouts.conversions)
        count = plural(len(layouts.conversions), "conversion")
        text = (
            f"{count} between {plural(len(layouts.layouts), 'layout')}, {size(moved)} of tensors of a block"
        )
        yield from _fact("layouts", text, width)


def _cpu_lines(kernel: LoweredKernel, width: int) -> Iterator[Line]:
    """Of a C++ kernel: what its loops compute with."""
    facts, stage = kernel.facts("asm"), kernel.stage("asm")
    assert facts is not None and stage is not None
    shares = (f"{kind} {percent(count / facts.instructions)}" for kind, count in facts.mix.items())
    yield from _fact("instructions", f"{facts.instructions}: {', '.join(shares)}", width)
    loops = [
        (kernel.span(stage, loop), loop)
        for loop in facts.innermost
        if loop.bits is not None and loop.bits >= 0
    ]
    for span, loop in loops:
        where = (
            f"lines {span.first} to {span.last} of output_code.py"
            if span is not None
            else "no line of the kernel"
        )
        text = f"{where}: {_CPU_WIDTHS[loop.bits or 0]}, {plural(loop.instructions, 'instruction')}"
        expected = kernel.throughput(loop)
        text += f"; {_round_text(expected, kernel.folder)}" if expected is not None else ""
        yield from _fact("loop", text, width, "" if loop.bits else "warn")
    if not loops:
        yield from _fact("loops", "none that computes with floating point or vectors", width)
    if kernel.folder is not None and NO_LOOPS in kernel.folder.config.get("flags", ""):
        text = f"none of its own loops: Inductor says {NO_LOOPS}, and vectors are where it wrote them itself"
        yield from _fact("g++ widened", text, width)

    for (number, compiler), own in groupby(
        kernel.unvectorised(), key=lambda each: (each.line, each.compiler)
    ):
        reasons = "; ".join(each.reason for each in own)
        which = f"the loop at line {number} of output_code.py"
        text = f"asked to vectorise {which} itself, says: {reasons}"
        if compiler.startswith("clang"):
            text = f"did not vectorise {which} itself: {reasons}"
        yield from _fact(compiler, text, width)


def _round_text(expected: Throughput, folder: LoweredFolder | None) -> str:
    """A round of a loop by llvm-mca, and what it is that takes it."""
    model = folder.modelled if folder is not None else None
    by = f"llvm-mca for {model}, all data in the first cache" if model else "llvm-mca"
    text = f"a round is estimated at {expected.cycles:.1f} cycles ({by})"
    if expected.waits:
        return f"{text}, {expected.busiest:.1f} if no instruction waited for another"
    return text


def _fact(name: str, text: str, width: int, tone: Tone = "") -> Iterator[Line]:
    yield from wrapped(f"{name:<13} {text}", width, tone, indent="  ", hang=" " * 16)


def _narrow_text(narrow: Narrow) -> str:
    place = place_text(narrow.origin)
    verb = "stores" if narrow.writes else "loads"
    text = f"{place} {verb} {narrow.bits} bits at a time ({narrow.count}x): {narrow.text}"
    if narrow.unit:
        return text
    steps = ", ".join(f"{name} moves it by {step}" for name, step in narrow.steps.items())
    return f"{text}; no variable moves the index by one element: {steps}"


def _counts(folder: LoweredFolder) -> Iterator[str]:
    for value, noun in ((folder.warps, "warp"), (folder.stages, "stage"), (folder.ctas, "CTA")):
        if value is not None and (noun != "CTA" or value > 1):
            yield plural(value, noun)
    if folder.shared_bytes is not None:
        yield f"{size(folder.shared_bytes)} of shared memory"


def _reach(kernel: LoweredKernel, stage: Stage) -> str:
    """How many of a stage's instructions lead to lines of the model."""
    origins = [origin for place in stage.places if (origin := kernel.origin(place)) is not None]
    reached = sum(bool(origin.sources) for origin in origins)
    alone = sum(origin.source is not None for origin in origins)
    if not origins:
        return "no instructions"
    shares = (percent(count / len(origins)) for count in (reached, alone))
    return "{}, {} from lines of the model, {} from one alone".format(
        plural(len(origins), "instruction"), *shares
    )


def _side_by_side(kernel: LoweredKernel, stage: Stage) -> Iterator[Line]:
    """Model's line, line of output_code.py, text; a place is written where it changes."""
    title = f"{pad('model', _PLACE)} {'code':>{_NUMBER}} │ {stage.name}"
    yield toned(title, "dim")
    shown: Origin | None = None
    rows = [(kernel.origin(place), text) for place, text in zip(stage.places, stage.lines, strict=True)]
    for skipped, group in groupby(rows, key=lambda row: row[0] is None):
        block = list(group)
        if skipped and len(block) > _LONGEST_TABLE:
            yield toned(
                f"{'':{_PLACE + _NUMBER + 1}} ┊ {plural(len(block), 'line')} without instructions", "dim"
            )
            continue
        for origin, text in block:
            if origin is None and is_place(text):
                continue
            same = origin is not None and shown is not None and origin.line == shown.line
            place = "" if same or origin is None else place_text(origin)
            number = "" if same or origin is None or origin.line is None else str(origin.line)
            tone: Tone = "dim" if origin is None or not origin.sources else ""
            yield line(
                Span(pad(crop(place, _PLACE), _PLACE)),
                Span(f" {number:>{_NUMBER}} │ ", "dim"),
                Span(code_of(text), tone),
            )
            shown = origin if origin is not None else shown


def is_place(text: str) -> bool:
    """Whether a stage's line says nothing but the place of what follows."""
    return _PLACE_LINE.match(text) is not None


def code_of(text: str) -> str:
    """A stage's line without the place that it ends with."""
    return _OWN_PLACE.sub("", text).expandtabs(4)


def place_text(origin: Origin) -> str:
    """`model.py:16`, `model.py:16,17` where a line serves several of the model's, `-` where it has none."""
    if not origin.sources:
        return "-"
    first = origin.sources[0]
    rest = [str(place.line) for place in origin.sources[1:] if place.path == first.path]
    beyond = len(origin.sources) - 1 - len(rest)
    text = ",".join([f"{PurePath(first.path).name}:{first.line}", *rest])
    return f"{text} +{beyond}" if beyond else text
