"""A replay in words: graphs beside their FX graphs run op by op, what is no match, which launches take long.

What runs op by op is not called eager: that is the user's own model.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from inspector.analysis.roofline import above_ms, ranked
from inspector.model.replay import (
    GraphReplay,
    KernelReplay,
    OutputCheck,
    ReplayResult,
    Steps,
    Timing,
    Verdict,
    WorstElement,
)
from inspector.text import elide, spaced
from inspector.units import comparison, digits, duration, from_to, percent, plural, with_spread

from .spans import Line, Span, Tone, apart, compared, line, plain, toned, wrapped
from .tables import Column, Row, Table, table_lines

MARKS: Mapping[Verdict, tuple[str, Tone]] = {
    "mismatch": ("✗ mismatch", "bad"),
    "unverifiable": ("? unverified", "warn"),
    "eager_closer": ("≈ op by op closer", "warn"),
    "compiled_closer": ("≈ compiled closer", ""),
    "match": ("✓", "good"),
}
"""Signs of verdicts, the worst first."""
OP_BY_OP = "op by op"
"""What a replay compares with: the decomposed FX graph, one operator after another."""

_MOST_OUTPUTS = 8
_MOST_KERNELS = 12
_MOST_PROBLEMS = 8
_LONG_LINE = 160
_NUMBER = re.compile(r"\d[\d.,]*")
"""Cells to which reasons are cut: longer than a screen, as a pipe has no edge."""


# -- figures


def timing_text(timing: Timing | None) -> str:
    """`17.2 ± 0.4 us`: the median, and half the inter-quartile range."""
    return "-" if timing is None else with_spread(timing.median_ms, timing.iqr_ms)


def times_text(replay: GraphReplay | None) -> str:
    """`12.7 → 17.2 us`: op by op, and compiled."""
    if replay is None or replay.eager is None or replay.compiled is None:
        return "·"
    return from_to(replay.eager.median_ms, replay.compiled.median_ms)


def gap_text(replay: GraphReplay | None) -> str:
    """`14.2 us`: what the compiled call takes beyond its kernels; empty where they were not all timed.

    Kernels timed alone may take longer than together, in warm caches; there is then no gap to be seen.
    """
    gap = replay.host_gap_ms if replay is not None else None
    return "" if gap is None else duration(gap) if gap > 0 else "none"


def launch_times(replay: GraphReplay) -> list[str]:
    """`45.1 us + 14.2 us host gap`, `20.3 us above the roofline`; empty without any time."""
    times = [kernel.own_ms for kernel in replay.kernels if kernel.own_ms is not None]
    if not times:
        interpreted = any(kernel.method == "interpreter" for kernel in replay.kernels)
        return ["by Triton's interpreter, no times"] if interpreted else []
    gap = replay.host_gap_ms or 0.0
    parts = [duration(sum(times)) + (f" + {duration(gap)} host gap" if gap > 0 else "")]
    above = [ms for kernel in replay.kernels if (ms := above_ms(kernel)) is not None]
    return [*parts, f"{duration(sum(above))} above the roofline"] if above else parts


def launch_time_text(kernels: Sequence[KernelReplay]) -> str:
    """`45.1 us` of launches that a replay timed, else `45.1 us profile` of those in the run's profile; empty
    without either."""
    ms = _launch_ms(kernels)
    if ms is None:
        return ""
    return duration(ms) + ("" if any(kernel.own_ms is not None for kernel in kernels) else " profile")


def _launch_ms(kernels: Sequence[KernelReplay]) -> float | None:
    own = [kernel.own_ms for kernel in kernels if kernel.own_ms is not None]
    profiled = [kernel.profiled_ms for kernel in kernels if kernel.profiled_ms is not None]
    return sum(own) if own else sum(profiled) if profiled else None


def element_text(worst: WorstElement) -> str:
    """`buf0[3, 17]: 0.5 compiled, 0.25 op by op, 0.25 in float64`."""
    compiled, eager, reference = map(number_text, (worst.compiled, worst.eager, worst.reference))
    return f"{worst.output}{list(worst.index)}: {compiled} compiled, {eager} op by op, {reference} in float64"


def evidence_texts(worst: WorstElement) -> Iterator[str]:
    """`off by 2.1e+03 ulps, 0.5 of the value`, and where wrong elements lie: `wrong from [0, 3] on; columns 3
    to 99 of 100, one in 4`."""
    sizes = [f"{worst.ulps:.2g} ulps"] if worst.ulps is not None else []
    sizes += [f"{worst.relative:.2g} of the value"] if worst.relative is not None else []
    if sizes:
        yield f"off by {', '.join(sizes)}"
    if worst.first:
        places = [_steps_text("row", worst.rows), _steps_text("column", worst.columns)]
        yield "; ".join([f"wrong from {list(worst.first)} on", *(text for text in places if text)])


def picture_lines(worst: WorstElement) -> Iterator[Line]:
    """The output as a matrix, the share of wrong elements in each part of it as a shade."""
    for row in worst.picture:
        yield line("    ", Span(row.translate(_SHADES), "bad"))


_SHADES = str.maketrans("012345678", "·░░▒▒▓▓██")
"""Shares of wrong elements, from none to all."""


def _steps_text(what: str, steps: Steps | None) -> str:
    """`columns 3 to 99 of 100, each 4th`; empty where all are hit or none can be named."""
    if steps is None or (steps.first, steps.last, steps.step) == (0, steps.of - 1, 1):
        return ""
    if steps.first == steps.last:
        return f"{what} {steps.first} of {steps.of}"
    each = f", one in {steps.step}" if steps.step > 1 else ""
    return f"{what}s {steps.first} to {steps.last} of {steps.of}{each}"


def number_text(value: float | str) -> str:
    """A value of a tensor: as many digits as tell two floats apart."""
    return value if isinstance(value, str) else f"{value:.9g}"


def errors_text(check: OutputCheck) -> str:
    """`error 1.2e-07 (op by op 1.3e-07)`: the largest differences from float64; empty where unknown."""
    eager = f"op by op {check.error_eager:.2g}" if check.error_eager is not None else ""
    if check.error_compiled is None:
        return eager
    return f"error {check.error_compiled:.2g}" + (f" ({eager})" if eager else "")


def tensor_text(check: OutputCheck) -> str:
    """`float32 [100, 100]`."""
    return f"{check.dtype.removeprefix('torch.')} {list(check.shape)}" if check.dtype else ""


# -- verdicts


def verdict_text(verdict: str) -> str:
    """`match`, `op by op closer`: a verdict of the JSON contract in the words of the screen."""
    return "op by op closer" if verdict == "eager_closer" else spaced(verdict)


def launch_verdict_text(kernel: KernelReplay) -> str:
    """`match where looked: 10 of 128 programs, 4 kinds of values`: a verdict, and on what it rests."""
    text = verdict_text(kernel.verdict)
    if not kernel.looked or kernel.verdict == "mismatch":
        return text
    return f"{text} where looked: {kernel.looked}"


def looked_text(kernels: Sequence[KernelReplay]) -> str:
    """On what the verdicts of several launches rest: `4 kinds of values (2 launches: fewer)`."""
    tried = [kernel for kernel in kernels if kernel.kinds]
    if not tried:
        return ""
    most = max(len(kernel.kinds) for kernel in tried)
    fewer = sum(len(kernel.kinds) < most for kernel in tried)
    parts = [plural(most, "kind") + " of values" + (f" (fewer for {fewer})" if fewer else "")]
    part = sum(1 for kernel in tried if kernel.programs and kernel.grid and kernel.programs < kernel.grid)
    return ", ".join([*parts, *([f"{part} on a part of the grid"] if part else [])])


def verdicts_text(verdicts: Iterable[Verdict]) -> str:
    """`3 match, 1 mismatch`, most frequent first."""
    return ", ".join(f"{count} {verdict_text(verdict)}" for verdict, count in Counter(verdicts).most_common())


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict | None:
    known = set(verdicts)
    return next((verdict for verdict in MARKS if verdict in known), None)


def graph_mark(replay: GraphReplay | None) -> Span:
    """One sign for all outputs: the worst verdict among them."""
    if replay is None:
        return Span("·", "dim")
    if replay.failure:
        return Span("failed", "bad")
    worst = worst_verdict(check.verdict for check in replay.outputs)
    if worst not in ("mismatch", "unverifiable") and any(k.verdict == "mismatch" for k in replay.kernels):
        # What a kernel gets wrong may cancel out, or go where no output shows it.
        return Span("✗ kernel", "bad")
    text, tone = MARKS[worst or "unverifiable"]
    return Span(text if worst in ("eager_closer", "compiled_closer") else text[0], tone)


def tone_of(verdict: Verdict | None) -> Tone:
    """For a line about it: what matched needs no colour."""
    return "" if verdict in ("match", "compiled_closer", None) else MARKS[verdict][1]


def check_line(check: OutputCheck) -> Line:
    """`output 0 softmax: match  float32 [100, 100]  error 1.2e-07 (op by op 1.3e-07)`"""
    what = "output" if check.kind == "output" else "changed input"
    head = f"{what} {check.index} {check.name}".rstrip()
    parts = (f"{head}: {verdict_text(check.verdict)}", tensor_text(check), errors_text(check), check.reason)
    return toned("  ".join(part for part in parts if part), tone_of(check.verdict))


# -- launches


def worst_launch(kernels: Sequence[KernelReplay]) -> KernelReplay | None:
    """The launch that a reader should look at first: a wrong one, else the one that loses most above
    the roofline, else the longest."""
    wrong = next((kernel for kernel in kernels if kernel.verdict == "mismatch"), None)
    if wrong is not None:
        return wrong
    rows = [row for row in ranked(kernels, "above") if row.above_ms]
    if not rows:
        rows = [row for row in ranked(kernels, "time") if row.share]
    return rows[0].kernel if rows else None


def worst_launch_text(replay: GraphReplay | None) -> str:
    """`triton_poi_fused_add_0 5.1 us above`: the launch to look at first."""
    worst = worst_launch(replay.kernels) if replay is not None else None
    if worst is None:
        return ""
    if worst.verdict == "mismatch":
        return f"{worst.name} mismatch"
    if above := above_ms(worst):
        return f"{worst.name} {duration(above)} above"
    return f"{worst.name} {duration(worst.own_ms)}" if worst.own_ms is not None else worst.name


def launches_line(replay: GraphReplay) -> Line:
    """`18 launches: 17 match, 1 mismatch; 360 us + 36.0 us host gap`, and so on."""
    verdicts = [kernel.verdict for kernel in replay.kernels]
    looked = looked_text(replay.kernels)
    parts = [verdicts_text(verdicts) + (f" where looked: {looked}" if looked else ""), *launch_times(replay)]
    if replay.cudagraph is not None:
        parts.append(f"{duration(replay.cudagraph.median_ms)} as one CUDA graph")
    text = f"{plural(len(replay.kernels), 'launch')}: {'; '.join(parts)}"
    return line(Span(text, tone_of(worst_verdict(verdicts))))


def problem_text(kernel: KernelReplay, more: int = 0) -> str:
    """One line: the call, its verdict and why. `more`: other calls of which the same is to be said."""
    others = f" and {more} more" if more else ""
    text = f"call {kernel.call} {kernel.name}{others}: {launch_verdict_text(kernel)}"
    return f"{text}; {kernel.reason}" if kernel.reason else text


def edit_text(original: KernelReplay | None, edited: KernelReplay) -> str:
    """`10.2 ± 0.1 us beside 12.3 ± 0.2 us, 1.21x faster  ✓`"""
    before, after = original.time if original else None, edited.time
    text = timing_text(after) if after else "no time"
    if before and after and before.median_ms > 0 and after.median_ms > 0:
        gain = comparison(before.median_ms / after.median_ms)
        text += f" beside {timing_text(before)}, {gain}"
    text = f"{text}  {MARKS[edited.verdict][0]}"
    return f"{text} where looked: {edited.looked}" if edited.looked else text


# -- the panel below a run's graphs


def graph_lines(replay: GraphReplay) -> Iterator[Line]:
    """All that is known of one graph, in a few lines."""
    if replay.failure:
        yield toned(f"replay failed: {replay.failure}", "bad")
    if replay.eager is not None and replay.compiled is not None:
        eager, compiled = timing_text(replay.eager), timing_text(replay.compiled)
        rounds = plural(replay.compiled.rounds, "round")
        yield line(f"op by op ({replay.eager_label}) {eager}; compiled {compiled}; {rounds}")
    if replay.kernels:
        yield launches_line(replay)
        if worst := worst_launch_text(replay):
            yield line(f"look first at {worst}{' the roofline' if worst.endswith('above') else ''}")
    yield from map(check_line, replay.outputs)
    yield from plain((f"note  {note}" for note in replay.notes), "dim")


# -- the whole result


def lines(result: ReplayResult, width: int, against: bool = True) -> list[Line]:
    """A table of graphs, then what is not a plain match, then each graph's kernels, then notes. `against`
    compares with the graphs run op by op: not where the run knows what eager itself takes."""
    # With a single kernel there is nothing to say of the graphs.
    whole = any(graph.compiled or graph.outputs or graph.failure for graph in result.graphs)
    text = table_lines(_graphs_table(result, against), width) if whole or not result.graphs else []
    for graph in result.graphs:
        text += _unusual(graph)
    for graph in result.graphs:
        text += _kernel_lines(graph, width) if graph.kernels else ()
    if labels := sorted({graph.eager_label for graph in result.graphs if graph.eager is not None}):
        faster = (
            "Your own model in eager mode may be faster: inspector capture --baseline times it."
            if against
            else "What eager takes is the baseline's: inspector explain."
        )
        remark = (
            f"op by op: {', '.join(labels)}, one operator after another. {faster} "
            "Times: medians ± half the inter-quartile range."
        )
        text += [Line(), *wrapped(remark, width, "dim")]
    return text + plain(elide(f"note: {note}", max(width, _LONG_LINE)) for note in _notes(result))


def _notes(result: ReplayResult) -> Iterator[str]:
    """Each once; those of several graphs that differ in their numbers alone as that of the first."""
    alike: dict[str, list[str]] = {}
    for graph in result.graphs:
        for note in dict.fromkeys(graph.notes):
            alike.setdefault(_NUMBER.sub("", note), []).append(note)
    for first, *others in alike.values():
        differ = any(note != first for note in others)
        yield f"{first}; alike for {plural(len(others), 'more graph')}" if differ else first


def _graphs_table(result: ReplayResult, against: bool) -> Table:
    rows = [
        Row(
            graph.name,
            (
                Span(graph.name, "accent"),
                Span(graph.device or ""),
                Span(timing_text(graph.eager)),
                Span(timing_text(graph.compiled)),
                compared(graph.speedup) if against else Span(""),
                Span(_outputs_text(graph), tone_of(worst_verdict(check.verdict for check in graph.outputs))),
            ),
        )
        for graph in result.graphs
    ]
    columns = (
        Column("graph", shrinks=True, least=12),
        Column("device"),
        Column("op by op", right=True),
        Column("compiled", right=True),
        Column("compiled is", right=True, optional=True),
        Column("outputs", shrinks=True, least=12),
    )
    return Table("Graphs", columns, tuple(rows))


def _outputs_text(graph: GraphReplay) -> str:
    parts = ["failed"] if graph.failure else []
    parts += [verdicts_text(check.verdict for check in graph.outputs)] if graph.outputs else []
    return ", ".join(parts) or "no outputs"


def _unusual(graph: GraphReplay) -> list[Line]:
    failure = [toned(f"{graph.name}: {graph.failure}", "bad")] if graph.failure else []
    unusual = [check for check in graph.outputs if check.verdict != "match"]
    checks = [line(f"{graph.name} ", *check_line(check).spans) for check in unusual[:_MOST_OUTPUTS]]
    if len(unusual) > _MOST_OUTPUTS:
        checks.append(line(f"{graph.name}: {len(unusual) - _MOST_OUTPUTS} more (--json has all)"))
    return [*apart(failure), *apart(checks)]


def _kernel_lines(graph: GraphReplay, width: int) -> list[Line]:
    """The kernels of one graph, those that take longest first."""
    groups: dict[str, list[KernelReplay]] = defaultdict(list)
    for kernel in graph.kernels:
        groups[kernel.name].append(kernel)
    ordered = sorted(groups.values(), key=lambda group: _launch_ms(group) or 0.0, reverse=True)
    total = sum(_launch_ms(group) or 0.0 for group in ordered)
    columns = (
        Column("kernel", shrinks=True, least=12),
        Column("calls", right=True),
        Column("time", right=True),
        Column("share", right=True),
        Column("GB/s", right=True),
        Column("GFLOP/s", right=True),
        Column("roofline", right=True),
        Column("verdict"),
    )
    rows = [_kernel_row(group, total) for group in ordered[:_MOST_KERNELS]]
    text = [Line(), line(f"{graph.name}: ", *launches_line(graph).spans)]
    text += table_lines(Table("Kernels", columns, tuple(rows)), width)
    if rest := ordered[_MOST_KERNELS:]:
        share = f", {percent(sum(_launch_ms(group) or 0.0 for group in rest) / total)}" if total else ""
        text.append(line(f"{plural(len(rest), 'more kernel')}{share} (--json has all)"))
    edits = (item for edit in graph.edits for item in _edit_lines(graph, edit))
    text += plain(_operator_texts(graph))
    return [*text, *apart(_problem_lines(graph, max(width, _LONG_LINE))), *apart(edits)]


def _operator_texts(graph: GraphReplay) -> Iterator[str]:
    """`interpolate: ATen's own 3.10 ± 0.02 ms, the generated kernels that do it 9.20 ms`."""
    for item in (item for item in graph.operators if item.sure):
        own_ms = sum(kernel.own_ms or 0.0 for kernel in graph.kernels if kernel.call in item.calls)
        values = " on made-up values" if item.made_up else ""
        aten = f"{item.name}: ATen's own {with_spread(item.own_ms, item.time.iqr_ms)}{values}"
        yield f"{aten}, the generated kernels that do it {duration(own_ms)}"


def _kernel_row(group: Sequence[KernelReplay], total: float) -> Row:
    timed = [kernel for kernel in group if kernel.time]
    ms = _launch_ms(group)

    def rate(counts: Sequence[int | None]) -> str:
        known = [count for count in counts if count is not None]
        return digits(sum(known) / ms / 1e6) if known and len(known) == len(timed) and ms else "-"

    fractions = [kernel.roofline_fraction for kernel in timed if kernel.roofline_fraction is not None]
    verdicts = [kernel.verdict for kernel in group]
    verdict = verdict_text(verdicts[0]) if len(set(verdicts)) == 1 else verdicts_text(verdicts)
    return Row(
        group[0].name,
        (
            Span(group[0].name),
            Span(len(group)),
            Span(launch_time_text(group) or "-"),
            Span(percent(ms / total) if ms is not None and total else "-"),
            Span(rate([kernel.bytes for kernel in timed])),
            Span(rate([kernel.flops for kernel in timed])),
            Span(percent(sum(fractions) / len(fractions)) if fractions else "-"),
            Span(verdict, tone_of(worst_verdict(verdicts))),
        ),
    )


def _problem_lines(graph: GraphReplay, width: int) -> Iterator[Line]:
    """Verdicts beside a match, wrong ones first, those alike in one line."""
    alike: dict[tuple[str, str], list[KernelReplay]] = defaultdict(list)
    for kernel in sorted(graph.kernels, key=lambda kernel: kernel.verdict != "mismatch"):
        if kernel.verdict != "match":
            alike[kernel.verdict, kernel.reason].append(kernel)
    groups = list(alike.values())
    for group in groups[:_MOST_PROBLEMS]:
        yield line(Span(elide(problem_text(group[0], len(group) - 1), width), tone_of(group[0].verdict)))
        for worst in group[0].worst[:1]:
            texts = f"worst at {element_text(worst)}", *evidence_texts(worst)
            yield from plain(f"  {text}" for text in texts)
            yield from picture_lines(worst) if group[0].verdict == "mismatch" else ()
    if rest := sum(map(len, groups[_MOST_PROBLEMS:])):
        yield line(f"{rest} more (--json has all)")


def _edit_lines(graph: GraphReplay, edit: KernelReplay) -> Iterator[Line]:
    original = next((kernel for kernel in graph.kernels if kernel.call == edit.call), None)
    yield line(f"call {edit.call} {edit.name} edited: {edit_text(original, edit)}")
    if edit.reason:
        yield line(f"  {edit.reason}")
