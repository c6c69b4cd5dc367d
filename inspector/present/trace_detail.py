"""`inspector trace --compile-id`, `--kinds` and `--show` as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap

from inspector.analysis.compile_time import walk
from inspector.model.compilation import (
    CacheLookup,
    Compilation,
    EventKind,
    Guard,
    KernelInfo,
    Stage,
    Symbol,
)
from inspector.model.compile_time import CompileTime
from inspector.present.compile_time import more_line, parts_lines, seconds_text
from inspector.present.text import Column, elide, render_table
from inspector.present.trace_words import (
    TraceView,
    event_lines,
    function_text,
    headline,
    status_text,
)

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


def detail(view: TraceView, item: Compilation, width: int = 100, most: int | None = _MAX_LINES) -> str:
    """Everything about one compilation; lists have at most `most` rows, all for None; JSON has all."""
    time = view.times.ids.get(item.ident)
    rank = f" · rank {item.rank}" if item.rank is not None else ""
    lines = [f"{item.ident} · {function_text(item)} · {status_text(item)}{rank}"]
    lines += [f"  called from {frame} in {frame.function}" for frame in item.stack[:-1][-3:]]
    lines += [f"  {elide(text, width - 2)}" for text in event_lines(item)]
    lines += [f"  {text}" for text in _facts(item)]
    if time is not None:
        lines += parts_lines(time)
        lines += ["", "sections (with what is inside, own time)", *tree_lines(time, width)]
    sections: list[tuple[str, list[str]]] = [
        ("cache lookups", [_cache_text(lookup) for lookup in item.caches]),
        ("sizes that may change", [_symbol_text(symbol) for symbol in item.symbols]),
        ("guards", [guard_text(guard) for guard in _telling(item.guards)]),
        ("kernels compiled", [_kernel_text(kernel) for kernel in item.kernels]),
        ("communication", list(item.collectives)),
        ("side effects", [headline(effect) for effect in item.side_effects]),
    ]
    for title, rows in sections:
        if rows:
            lines += ["", f"{title}: {len(item.guards) if title == 'guards' else len(rows)}"]
            shown = rows[:most]
            lines += [f"  {elide(row, width - 2) if most is not None else row}" for row in shown]
            lines += more_line(len(item.guards) if title == "guards" else len(rows), len(shown))
    if item.kernel_stacks:
        lines += ["", f"kernels with the stacks that led to them: {len(item.kernel_stacks)}"]
        names = ", ".join(name for name, _ in item.kernel_stacks)
        lines += [f"  {row}" for row in wrap(names, width - 2)[:3]]
    lines += ["", "stages (--show NAME)", *_stage_lines(item.stages)]
    return "\n".join(lines) + "\n"


def tree_lines(time: CompileTime, width: int) -> list[str]:
    """The sections of at least one per cent of the whole, nested."""
    least = time.total_ns * _TREE_SHARE
    lines = []
    for depth, node in walk(time.roots):
        if node.span.duration_ns < least:
            continue
        name = elide(f"{'  ' * min(depth, 20)}{node.span.name}", width - 28)
        mark = "" if node.span.closed else " (no end)"
        own = seconds_text(node.self_ns)
        lines.append(f"  {name:<{width - 28}}{seconds_text(node.span.duration_ns):>10}  {own:>10}{mark}")
    return lines


def _facts(item: Compilation) -> list[str]:
    metrics = item.metrics
    lines = []
    if metrics is not None:
        counts = (
            ("operations", metrics.graph_ops), ("graph nodes", metrics.graph_nodes),
            ("inputs", metrics.graph_inputs), ("guards made", metrics.guard_count),
            ("compiled before", metrics.cache_size),
        )  # fmt: skip
        told = [f"{value} {name}" for name, value in counts if value is not None]
        if metrics.guard_latency_us is not None:
            told.append(f"guards checked in {metrics.guard_latency_us:.0f} us")
        if told:
            lines.append(", ".join(told))
        lines += [f"restarted: {headline(reason)}" for reason in metrics.restart_reasons]
    for entry in item.runtime_metrics:
        parts = [
            f"{name} {seconds:.2f} s"
            for name, seconds in (
                ("autotuning", entry.autotune_seconds),
                ("CUDA graphs", entry.cudagraph_seconds),
            )
            if seconds
        ]
        if parts:
            lines.append(
                f"first run of the {'backward' if entry.backward else 'forward'}: {', '.join(parts)}"
            )
    return lines


def _cache_text(lookup: CacheLookup) -> str:
    saved = f", saved {lookup.saved_ms / 1000:.2f} s" if lookup.saved_ms else ""
    reason = f" ({lookup.reason})" if lookup.reason and lookup.reason != lookup.outcome else ""
    return f"{lookup.cache} {lookup.outcome}{reason}{saved}  {lookup.key}"


def _symbol_text(symbol: Symbol) -> str:
    place = f"  {symbol.location.short}" if symbol.location else ""
    hint = f" = {symbol.hint}" if symbol.hint else ""
    return f"{symbol.name}{hint} in {symbol.range or '?'}  from {symbol.source or 'data'}{place}"


def _telling(guards: Sequence[Guard]) -> list[Guard]:
    """Guards in the order in which they are likely to fail: on sizes and values, then the rest."""
    return sorted(guards, key=lambda guard: (guard.kind in _COMMON_GUARDS, guard.kind != "SHAPE"))


def guard_text(guard: Guard) -> str:
    place = f"  # {guard.location}" if guard.location else ""
    return f"{guard.kind}  {headline(guard.text)}{place}"


def _kernel_text(kernel: KernelInfo) -> str:
    facts = [f"{kernel.compile_us / 1000:.0f} ms"] if kernel.compile_us is not None else []
    if kernel.configs is not None:
        facts.append(f"{kernel.configs} configs")
    if kernel.config:
        facts.append(" ".join(f"{name}={value}" for name, value in kernel.config))
    facts += [f"{name} {value}" for name, value in kernel.other.items()]
    return f"{kernel.name}  {', '.join(facts)}"


def _stage_lines(stages: Sequence[Stage]) -> list[str]:
    if not stages:
        return ["  none"]
    rows = []
    for stage in stages:
        notes = [stage.phase] if stage.phase else []
        notes += [f"attempt {stage.attempt + 1}"] if stage.attempt else []
        kind = "graph" if stage.is_graph else "text"
        rows.append(f"  {stage.label:<56}{kind:<6}{stage.size:>9} bytes  {', '.join(notes)}".rstrip())
    return rows


def kinds_text(kinds: Sequence[EventKind], width: int = 100) -> str:
    """Every kind of event of a trace, those without a view first."""
    columns = [
        Column("kind"),
        Column("events", right=True),
        Column("view"),
        Column("line", right=True),
        Column("example"),
    ]
    rows = [
        (
            kind.name,
            str(kind.count),
            "yes" if kind.known else "no",
            str(kind.line),
            " ".join(kind.example.split()),
        )
        for kind in kinds
    ]
    return "\n".join(render_table(columns, rows, width)) + "\n"


def stages_text(stages: Sequence[tuple[str, Stage]], read: Callable[[Stage], str]) -> str:
    """The texts themselves; several are told apart by a line above each. `stages` pairs a name
    of its compilation with each stage."""
    if len(stages) == 1:
        return _ended(read(stages[0][1]))
    parts = []
    for owner, stage in stages:
        phase = f" {stage.phase}" if stage.phase else ""
        parts.append(f"# ---- {owner} {stage.label}{phase}\n{_ended(read(stage))}")
    return "\n".join(parts)


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
