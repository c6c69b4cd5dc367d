"""`inspector diff`: the verdict, what differs, and what was matched; as lines and as Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from inspector.analysis.diff.verdict import verdict
from inspector.model.diff import (
    CacheMiss,
    Change,
    FusionChange,
    GraphMatch,
    KernelMatch,
    LaunchId,
    Relation,
    RunDiff,
    Setting,
    Total,
)
from inspector.text import clean, crop, elide, few, pad
from inspector.units import digits, duration, from_to, plural, size

from .markdown import table
from .spans import Line, Span, Tone, apart, fitted, line, more, toned, wrapped

MOST = 30
_LITTLE = 0.05
_MOST_IN_CELL = 300
_MOST_CAUSES = 6
_SIGNS: dict[str, tuple[str, Tone]] = {
    "same": ("=", "dim"),
    "changed": ("~", "accent"),
    "split": ("<", "warn"),
    "merged": (">", "good"),
    "only_a": ("-", "bad"),
    "only_b": ("+", "good"),
}
RELATIONS = {
    "same": "same",
    "changed": "changed",
    "split": "split in B",
    "merged": "merged in B",
    "only_a": "only in A",
    "only_b": "only in B",
}


def lines(diff: RunDiff, width: int, everything: bool = False) -> list[Line]:
    """What differs; with `everything` also what is the same, and nothing left out."""
    most = len(diff.kernels) + len(diff.settings) + 1 if everything else MOST
    return [
        *wrapped(verdict(diff), width, "accent"),
        line(Span("A "), Span(diff.a, "dim")),
        line(Span("B "), Span(diff.b, "dim")),
        *apart(line for note in diff.notes for line in wrapped(note, width, "warn")),
        *apart(total_lines(diff.totals, everything)),
        *apart(_ledger(diff)),
        *apart(_graphs(diff, width, everything, most)),
        *apart(_kernels(diff, width, everything, most)),
        *apart(_fusions(diff.fusions, width, most)),
        *apart(_events(diff.events, width)),
        *apart(_settings(diff.settings, width, most)),
        *apart(_misses(diff.cache_misses, width, most)),
        *apart(_problems(diff)),
    ]


def kernel_lines(match: KernelMatch, width: int, often: int = 1) -> Iterator[Line]:
    """`~ triton_poi_fused_add_0 → triton_poi_fused_add_mul_0  model.py:9  source, registers 16 → 24`; what
    changed on a line of its own where it does not fit. `often`: so many launches are alike."""
    sign, tone = _SIGNS[match.relation]
    names = " → ".join(dict.fromkeys(_launches(side) for side in (match.a, match.b) if side))
    where = few(list(dict.fromkeys(place for item in (match.a or match.b) for place in item.lines)))
    changes = changes_text(match)
    head = [
        Span(f"{sign} ", tone), Span(names), Span(f"  {often} launches" if often > 1 else "", "dim"),
        Span(f"  {where}" if where else "", "dim"),
    ]  # fmt: skip
    whole = Line(tuple(span for span in (*head, Span(f"  {changes}" if changes else "")) if span.text))
    if whole.width <= width or not changes:
        yield fitted(whole.spans, width)
        return
    yield fitted(head, width)
    yield from wrapped(changes, width, "", "      ", "      ")


def changes_text(match: KernelMatch) -> str:
    """`source, registers 16 → 24`; the relation where it is more than a change."""
    texts = [RELATIONS[match.relation]] if match.relation not in ("same", "changed") else []
    texts += [change_text(change) for change in match.changes]
    if match.a_ms and match.b_ms and abs(match.a_ms - match.b_ms) > _LITTLE * max(match.a_ms, match.b_ms):
        texts.append(from_to(match.a_ms, match.b_ms))
    return ", ".join(texts)


def change_text(change: Change) -> str:
    """`bytes 40.0 KB → 80.0 KB`; a changed source in one word."""
    if change.what == "source":
        return "source"
    if change.what == "operators":
        signed = [f"{sign} {text}" for sign, text in (("without", change.a), ("with", change.b)) if text]
        return f"operators {' and '.join(signed)}"
    a, b = (_figure(change.what, text) for text in (change.a, change.b))
    return f"{change.what} {a} → {b}"


def _figure(what: str, text: str | None) -> str:
    if text is None:
        return "none"
    return size(float(text)) if what == "bytes" else text


def _launches(side: Sequence[LaunchId]) -> str:
    if len(side) == 1:
        return side[0].kernel
    return f"{side[0].kernel} +{len(side) - 1}"


def total_lines(totals: Iterable[Total], everything: bool = False) -> Iterator[Line]:
    """Figures that differ, or all."""
    totals = list(totals)
    whole = max((total.a or 0.0 for total in totals if total.name == "compile time"), default=0.0)
    for total in totals:
        part = total.unit == "s" and abs((total.a or 0.0) - (total.b or 0.0)) < _LITTLE * whole
        if not everything and (part or not _worth(total)):
            continue
        a, b = (_amount(total, value) for value in (total.a, total.b))
        yield line(Span(f"  {total.name:<28}"), Span(f"{a:>12} → {b:<12}"), Span(_percent(total), "dim"))


def _percent(total: Total) -> str:
    """How much more B is; nothing where a side has none, or more than a double holds."""
    if not total.a or not total.b or max(total.a, total.b) > sys.float_info.max:
        return ""
    change = f"{(total.b / total.a - 1) * 100:+.0f} %"
    return "" if change in ("-0 %", "+0 %") else change


def _worth(total: Total) -> bool:
    """Whether a figure is told where only differences are: times differ a little always."""
    if total.a is None or total.b is None or total.unit not in ("s", "ms"):
        return total.a != total.b
    return abs(total.a - total.b) > _LITTLE * max(total.a, total.b)


def _amount(total: Total, value: float | None) -> str:
    if value is None:
        return "?"
    if total.unit == "B":
        return size(value)
    if total.unit:
        return duration(value * (1e3 if total.unit == "s" else 1))
    return digits(value) if value != int(value) else f"{int(value):,}"


def _ledger(diff: RunDiff) -> Iterator[Line]:
    if diff.ledger:
        yield toned("Where the difference is, per steady call", "accent")
    for row in diff.ledger:
        a, b = ("-" if ms is None else duration(ms) for ms in (row.a_ms, row.b_ms))
        sign = "+" if row.delta_ms >= 0 else "-"
        tone: Tone = "bad" if row.delta_ms > 0 else "good"
        part = pad(elide(row.part, 44), 44)
        yield line(Span(f"  {part} {a:>10} → {b:<10} "), Span(f"{sign}{duration(abs(row.delta_ms))}", tone))


def _graphs(diff: RunDiff, width: int, everything: bool, most: int) -> Iterator[Line]:
    chosen = [match for match in diff.graphs if everything or match.relation != "same"]
    yield line(Span("Graphs  ", "accent"), Span(_counted([match.relation for match in diff.graphs])))
    for match in chosen[:most]:
        yield _graph_line(match, width)
    yield from more(len(chosen) - most)


def _graph_line(match: GraphMatch, width: int) -> Line:
    sign, tone = _SIGNS[match.relation]
    names = dict.fromkeys(" + ".join(side) for side in (match.a, match.b) if side)
    told = [RELATIONS[match.relation]] if match.relation not in ("same", "changed") else []
    told += [change_text(change) for change in match.changes]
    if match.relation == "changed" and not told:
        told = ["the same operations in other kernels"]
    return fitted(
        [Span(f"  {sign} ", tone), Span(" → ".join(names)), Span(f"  {', '.join(told)}", "dim")], width
    )


def _kernels(diff: RunDiff, width: int, everything: bool, most: int) -> Iterator[Line]:
    yield line(Span("Kernels  ", "accent"), Span(_counted([match.relation for match in diff.kernels])))
    alike: dict[object, list[KernelMatch]] = {}
    for match in diff.kernels if everything else diff.changed:
        names = tuple(tuple(item.kernel for item in side) for side in (match.a, match.b))
        alike.setdefault((match.relation, names, match.changes), []).append(match)
    for same in list(alike.values())[:most]:
        for shown in kernel_lines(same[0], width - 2, len(same)):
            yield Line((Span("  "), *shown.spans))
    yield from more(len(alike) - most, " (--all, --json)")


def _fusions(changes: Sequence[FusionChange], width: int, most: int) -> Iterator[Line]:
    if changes:
        yield toned("Fused on one side only", "accent")
    for change in changes[:most]:
        yield from wrapped(f"{fusion_text(change)}", width, "", "  ", "      ")
    yield from more(len(changes) - most, " (--all, --json)")


def fusion_text(change: FusionChange) -> str:
    """`triton_red_fused_add_sum_0 of A is triton_poi_fused_add_0 and ... in B: torch's reason`."""
    other = "B" if change.fused_in == "a" else "A"
    names = few(list(dict.fromkeys(item.kernel for item in change.apart)))
    reason = change.plain or change.reason or "no reason was noted down"
    torch = f' ("{change.reason}")' if change.plain and change.by_torch and change.reason else ""
    return f"{change.whole.kernel} of {change.fused_in.upper()} is {names} in {other}: {reason}{torch}"


def sign_of(relation: Relation) -> Span:
    """`~`, `<` or `+`, in its tone."""
    return Span(*_SIGNS[relation])


def _counted(relations: Sequence[str]) -> str:
    """`42 same, 27 changed, 1 only in B`."""
    counts = [f"{relations.count(name):,} {RELATIONS[name]}" for name in RELATIONS if name in relations]
    return ", ".join(counts) or "none"


def _events(events: Sequence[Change], width: int) -> Iterator[Line]:
    if events:
        yield toned("Graph breaks, recompiles, guards and what moved", "accent")
    for event in events[:MOST]:
        for side, text, tone in (("-", event.a, "bad"), ("+", event.b, "good")):
            if text is not None:
                yield fitted([Span(f"  {side} ", tone), Span(f"{event.what}: {text}")], width)  # type: ignore[arg-type]
    yield from more(len(events) - MOST)


def _settings(settings: Sequence[Setting], width: int, most: int) -> Iterator[Line]:
    if not settings:
        return
    yield line(Span("Settings  ", "accent"), Span(f"{plural(len(settings), 'difference')}"))
    for item in settings[:most]:
        a, b = ("unset" if text is None else text for text in (item.a, item.b))
        yield fitted([Span(f"  {item.area}.{item.name}  "), Span(a, "dim"), Span(" → "), Span(b)], width)
    if len(settings) > most:
        one = sum(item.a is None or item.b is None for item in settings[most:])
        yield toned(
            f"  ... and {len(settings) - most} more, {one} of them unknown to one side (--all, --json)", "dim"
        )


def _misses(misses: Sequence[CacheMiss], width: int, most: int) -> Iterator[Line]:
    if misses:
        yield toned("Why B's cache could not use what A compiled", "accent")
    for miss in misses[:most]:
        yield line(Span(f"  {miss.graph}"))
        for cause in miss.causes[:_MOST_CAUSES]:
            a, b = ("absent" if text is None else text for text in (cause.a, cause.b))
            yield fitted([Span(f"    {cause.what}  "), Span(a, "dim"), Span(" → "), Span(b)], width)
        yield from more(len(miss.causes) - _MOST_CAUSES, " (--json)")
    yield from more(len(misses) - most, " (--all, --json)")


def _problems(diff: RunDiff) -> Iterator[Line]:
    if diff.problems:
        yield toned(f"problems: {len(diff.problems)}", "warn")
        for problem in diff.problems[:MOST]:
            yield toned(f"  {problem}")


# -- for a pull request


def markdown(diff: RunDiff) -> list[str]:
    """The same for a comment on a pull request: a sentence, tables of what differs, no more than a page."""
    text = [f"**{_escaped(verdict(diff))}**", ""]
    figures = [total for total in diff.totals if _worth(total)]
    if figures:
        text += _table(
            ("", "A", "B"),
            [(total.name, _amount(total, total.a), _amount(total, total.b)) for total in figures],
        )
    if diff.ledger:
        text += _table(
            ("per steady call", "A", "B", "difference"),
            [
                (
                    row.part,
                    "" if row.a_ms is None else duration(row.a_ms),
                    "" if row.b_ms is None else duration(row.b_ms),
                    f"{'+' if row.delta_ms >= 0 else '-'}{duration(abs(row.delta_ms))}",
                )
                for row in diff.ledger
            ],
        )
    if diff.changed:
        rows = [
            (
                RELATIONS[match.relation],
                _code(match.a),
                _code(match.b),
                ", ".join(change_text(change) for change in match.changes),
            )
            for match in diff.changed[:MOST]
        ]
        text += _table(("kernels", "A", "B", "what changed"), rows)
        text += _rest(len(diff.changed))
    if diff.events:
        text += _table(
            ("", "A", "B"), [(event.what, event.a or "", event.b or "") for event in diff.events[:MOST]]
        )
    if diff.settings:
        text += _table(
            ("setting", "A", "B"),
            [
                (f"{item.area}.{item.name}", item.a or "unset", item.b or "unset")
                for item in diff.settings[:MOST]
            ],
        )
        text += _rest(len(diff.settings))
    if diff.cache_misses:
        text += _table(
            ("cache miss", "part of the key", "A", "B"),
            [
                (miss.graph, cause.what, cause.a or "absent", cause.b or "absent")
                for miss in diff.cache_misses[:MOST]
                for cause in miss.causes[:_MOST_CAUSES]
            ],
        )
    return text


def _rest(count: int) -> list[str]:
    return [f"... and {count - MOST} more", ""] if count > MOST else []


def _code(side: Sequence[LaunchId]) -> str:
    return ", ".join(f"`{item.kernel}`" for item in side[:3]) + (
        f" +{len(side) - 3}" if len(side) > 3 else ""
    )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [*table(heads, ([_escaped(cell) for cell in row] for row in rows)), ""]


def _escaped(text: str) -> str:
    """One cell: what Markdown or HTML would understand stands as it is."""
    text = crop(clean(" ".join(text.split())), _MOST_IN_CELL)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "&#91;")
    return text.replace("@", "@\u200b")
