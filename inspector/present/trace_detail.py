"""One compilation of a trace in full, and its texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from inspector.analysis.compile_time import walk
from inspector.gather import ProcessTrace, TraceReport
from inspector.model.compilation import (
    CacheLookup,
    Compilation,
    Guard,
    KernelInfo,
    Specialization,
    Stage,
    Symbol,
)
from inspector.model.compile_time import CompileTime
from inspector.text import cut, elide, headline, pad, wrap
from inspector.units import duration

from .compile_time import ns_text, parts_lines
from .documents import Document, Language, split_lines, whole, written
from .spans import Line, Span, apart, fitted, line, more, plain, toned
from .trace import Spot, event_lines, function_text, kinds_lines, lines, stage_notes, status_text

_MAX_LINES = 12
_TREE_SHARE = 0.01

_COMMON_GUARDS = frozenset(
    {
        "ID_MATCH",
        "TYPE_MATCH",
        "DICT_CONTAINS",
        "NO_HASATTR",
        "DIMENSION_DYNAMIC_MARKING_GUARD",
        "GLOBAL_STATE",
    }
)
"""Guards on identity and form, of which there are hundreds and which seldom fail."""


def detail_lines(
    trace: ProcessTrace, item: Compilation, width: int, most: int | None = _MAX_LINES
) -> Iterator[Line]:
    """Everything about one compilation; lists have at most `most` rows, all for None; JSON has all."""
    time = trace.times.ids.get(item.ident)
    rank = f" · rank {item.rank}" if item.rank is not None else ""
    yield line(Span(item.ident, "accent"), f" · {function_text(item)} · {status_text(item)}{rank}")
    yield from plain(f"  called from {frame} in {frame.function}" for frame in item.stack[:-1][-3:])
    for event in event_lines(item):
        yield fitted([Span("  "), *event.spans], width)
    yield from plain(f"  {text}" for text in _facts(item))
    if time is not None:
        yield from apart(parts_lines(time))
        yield from apart([line("sections (with what is inside, own time)"), *tree_lines(time, width)])
    sections: list[tuple[str, list[str]]] = [
        ("cache lookups", [_cache_text(lookup) for lookup in item.caches]),
        ("sizes that may change", [_symbol_text(symbol) for symbol in item.symbols]),
        ("made numbers by tracing", [_fixed_text(each) for each in item.specializations]),
        ("guards", [guard_text(guard) for guard in _likely_first(item.guards)]),
        ("kernels compiled", [_kernel_text(kernel) for kernel in item.kernels]),
        *((title, [headline(text) for text in texts]) for title, texts in item.facts.items()),
    ]
    for title, rows in sections:
        if rows:
            yield from apart([line(f"{title}: {len(rows)}")])
            yield from plain(f"  {row if most is None else elide(row, width - 2)}" for row in rows[:most])
            yield from more(len(rows) - len(rows[:most]))
    if item.kernel_stacks:
        yield from apart([line(f"kernels with the stacks that led to them: {len(item.kernel_stacks)}")])
        yield from plain(cut(wrap(", ".join(name for name, _ in item.kernel_stacks), width, "  "), 3))
    yield from apart([line("stages (--show NAME)"), *_stage_lines(item.stages)])


def tree_lines(time: CompileTime, width: int) -> Iterator[Line]:
    """The sections of at least one per cent of the whole, nested."""
    least = time.total_ns * _TREE_SHARE
    for depth, node in walk(time.roots):
        if node.span.duration_ns >= least:
            name = elide(f"{'  ' * min(depth, 20)}{node.span.name}", width - 28)
            both = f"{ns_text(node.span.duration_ns):>10}  {ns_text(node.self_ns):>10}"
            yield line(f"  {pad(name, width - 28)}{both}{'' if node.span.closed else ' (no end)'}")


def _facts(item: Compilation) -> Iterator[str]:
    metrics = item.metrics
    if metrics is not None:
        counts = (
            ("operations", metrics.graph_ops), ("graph nodes", metrics.graph_nodes),
            ("inputs", metrics.graph_inputs), ("guards made", metrics.guard_count),
            ("compiled before", metrics.cache_size),
        )  # fmt: skip
        facts = [f"{value} {name}" for name, value in counts if value is not None]
        if metrics.guard_latency_us is not None:
            facts.append(f"guards checked in {duration(metrics.guard_latency_us / 1e3)}")
        if facts:
            yield ", ".join(facts)
        yield from (f"restarted: {headline(reason)}" for reason in metrics.restart_reasons)
    for entry in item.runtime_metrics:
        times = (("autotuning", entry.autotune_seconds), ("CUDA graphs", entry.cudagraph_seconds))
        parts = [f"{name} {duration(seconds * 1e3)}" for name, seconds in times if seconds]
        if parts:
            yield f"first run of the {'backward' if entry.backward else 'forward'}: {', '.join(parts)}"


def _cache_text(lookup: CacheLookup) -> str:
    saved = f", saved {duration(lookup.saved_ms)}" if lookup.saved_ms else ""
    reason = f" ({lookup.reason})" if lookup.reason and lookup.reason != lookup.outcome else ""
    return f"{lookup.cache} {lookup.outcome}{reason}{saved}  {lookup.key}"


def _symbol_text(symbol: Symbol) -> str:
    place = f"  {symbol.location.short}" if symbol.location else ""
    hint = f" = {symbol.hint}" if symbol.hint else ""
    return f"{symbol.name}{hint} in {symbol.range or '?'}  from {symbol.source or 'data'}{place}"


def _fixed_text(item: Specialization) -> str:
    place = f"  {item.location.short}" if item.location else ""
    code = f"  {item.location.code}" if item.location and item.location.code else ""
    return f"{item.source} = {item.value}{place}{code}"


def _likely_first(guards: Sequence[Guard]) -> list[Guard]:
    """Guards in the order in which they are likely to fail: on sizes and values, then the rest."""
    return sorted(guards, key=lambda guard: (guard.kind in _COMMON_GUARDS, guard.kind != "SHAPE"))


def guard_text(guard: Guard) -> str:
    place = f"  # {guard.location}" if guard.location else ""
    return f"{guard.kind}  {headline(guard.text)}{place}"


def _kernel_text(kernel: KernelInfo) -> str:
    facts = [duration(kernel.compile_us / 1e3)] if kernel.compile_us is not None else []
    facts += [f"{kernel.configs} configs"] if kernel.configs is not None else []
    facts += [" ".join(f"{name}={value}" for name, value in kernel.config)] if kernel.config else []
    facts += [f"{name} {value}" for name, value in kernel.other.items()]
    return f"{kernel.name}  {', '.join(facts)}"


def _stage_lines(stages: Sequence[Stage]) -> Iterator[Line]:
    if not stages:
        yield line("  none")
    for stage in stages:
        kind = "graph" if stage.is_graph else "text"
        yield line(f"  {pad(stage.label, 56)}{kind:<6}{stage.size:>9,} bytes  {stage_notes(stage)}")


def stages_lines(stages: Sequence[tuple[str, str]]) -> Iterator[Line]:
    """(whose, text) of stages: the texts themselves; several are told apart by a line above each."""
    for number, (owner, text) in enumerate(stages):
        if len(stages) > 1:
            yield from plain([""] if number else [])
            yield toned(f"# ---- {owner}", "dim")
        yield from plain(split_lines(text))


# -- beside the list


def overview_document(report: TraceReport, width: int) -> Document:
    """What `inspector trace` prints."""
    return written("The whole trace", lines(report, width))


def spot_document(report: TraceReport, spot: Spot, text: str, width: int) -> Document:
    """Everything about a compilation, all guards included; the kinds of events; or a stage's `text`."""
    trace = report.traces[spot.trace]
    if spot.stage is not None:
        texts = split_lines(_indented(text))
        return Document(spot.stage.label, texts, whole(texts, _language(spot.stage)))
    if spot.compilation is not None:
        item = spot.compilation
        title = f"{item.ident} · {function_text(item)}"
        return written(title, detail_lines(trace, item, width, most=None))
    return written("Kinds of events", kinds_lines(trace.content.kinds, width))


def _language(stage: Stage) -> Language:
    return "python" if stage.is_graph or "code" in stage.name or "repro" in stage.name else "plain"


def _indented(text: str) -> str:
    """JSON in lines that can be read; anything else as it is."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
