"""Fusion in words: the whole of each graph for the command line, and misses as every view tells them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.decisions import by_category
from inspector.analysis.reasons import CATEGORIES
from inspector.model.decision import Decision
from inspector.model.fusion import FusionGroup, FusionReport, Missed, NodeTraffic
from inspector.model.links import Ref, Related
from inspector.text import elide, joined, spaced
from inspector.units import digits, duration, percent, plural, ratio, size

from .content import Rows, merge
from .rows import MessageRow, MissRow
from .spans import Line, Span, Tone, apart, fitted, line, more, toned, wrapped
from .tables import Column, Row, Table, table_lines
from .waste import places_text, waste_lines

_MOST_MISSES = 10
_MOST_GROUPS = 12
_MOST_BUFFERS = 4
_LONG_NAME = 24
_ALL = " (--all shows them)"

_GROUP_COLUMNS = (
    Column("  group", shrinks=True, least=14),
    Column("kind"),
    Column("nodes", right=True),
    Column("saved", right=True),
    Column("kernel", shrinks=True, least=12),
    Column("from", shrinks=True, least=12),
)
_MISSED_COLUMNS = (
    Column("", right=True),
    Column("bytes", right=True),
    Column("first", shrinks=True, least=12),
    Column("second", shrinks=True, least=12),
    Column("why apart", shrinks=True, least=24),
    Column("shares", shrinks=True, least=6, rank=3),
    Column("1st line", shrinks=True, least=10, rank=2),
    Column("2nd line", shrinks=True, least=10, rank=1),
)
_EVIDENCE = {"score": "torch's score:", "times_ms": "torch measured", "reasons": "all reasons:"}
_LEFT_OUT = (
    ("no_shared_data", "refusal", "without shared data"),
    ("tiny", "pair", "that would save less than 1 KB"),
    ("library_calls", "pair", "of library calls"),
    ("fused_later", "refusal", "before the two fused after all"),
)


# -- what every view says alike


def kind_text(node: NodeTraffic, group: FusionGroup) -> str:
    """`pointwise`, or `extern mm`: a library call by its name."""
    if not group.is_wall or not group.kernel:
        return node.kind
    parts = [part for part in group.kernel.split(".") if part not in ("default", "out")]
    return f"{node.kind} {parts[-1]}" if parts else node.kind


def short_name(group: FusionGroup) -> str:
    """`op1…op4 (4)`: a group's name joins all of its members' and may be thousands of characters long."""
    if len(group.nodes) == 1:
        return elide(group.nodes[0], _LONG_NAME)
    first, last = elide(group.nodes[0], _LONG_NAME), elide(group.nodes[-1], _LONG_NAME)
    return f"{first}…{last} ({len(group.nodes)})"


def miss_head(missed: Missed, who: Sequence[Span]) -> list[Span]:
    """Who, the bytes that fusing would have saved, what kept them apart, and whether torch ever tried."""
    title = CATEGORIES[missed.category].title
    verb = "never tried" if missed.verdict == "never_tried" else "refused"
    tone: Tone = "bad" if missed.possible else "warn"
    asked = f"  {verb}" if title != verb else ""
    return [
        Span("✗ ", "bad"),
        *who,
        Span(f"{size(missed.bytes)}  ", "warn"),
        Span(title, tone),
        Span(asked, "dim"),
    ]


def evidence_text(report: FusionReport, item: Decision | Missed) -> str:
    """`torch's score: memory 512, proximity -1; torch measured 12.1 us and 11.0 us apart, 31.2 us as one`:
    what was noted beside the outcome."""
    parts = []
    for name, value in item.evidence._asdict().items():
        if value is None:
            continue
        if name == "times_ms":
            text = _times_text(report, value)
        elif isinstance(value, Mapping):
            text = ", ".join(
                f"{spaced(key.removesuffix('_score'))} {_figure(part)}" for key, part in value.items()
            )
        else:
            text = "; ".join(map(_figure, value)) if isinstance(value, tuple) else _figure(value)
        parts.append(f"{_EVIDENCE.get(name, spaced(name))} {text}")
    return "; ".join(parts)


def _times_text(report: FusionReport, times: Sequence[float]) -> str:
    """Which time is which is certain only where no template is about, whose choices are timed too."""
    texts = [duration(time) for time in times]
    if len(texts) != 3 or any(node.kind == "template" for node in report.nodes):
        return ", ".join(texts)
    return f"{texts[0]} and {texts[1]} apart, {texts[2]} as one"


def _figure(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        digits(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )


def miss_lines(
    report: FusionReport,
    missed: Missed,
    width: int,
    advised: str = "",
    indent: str = "  ",
    ref: Ref | None = None,
) -> Iterator[Line]:
    """The reason in plain words and in torch's, the memory, what to try. `advised`: for whom the same advice
    was given already."""
    hang = f"{indent}  "
    yield from wrapped(_plain_reason(missed, report), width, "", indent, ref=ref)
    if missed.reason:
        speaker = "torch" if missed.by_torch else "the recorder"
        yield from wrapped(f'{speaker}: "{missed.reason}"', width, "dim", indent, hang, ref)
    yield from evidence_lines(report, missed, width, indent, hang, ref)
    shared = joined([f"{item.buffer} {size(item.bytes)}" for item in missed.buffers], _MOST_BUFFERS)
    never = "" if missed.possible else "; cannot fuse as it stands"
    yield from wrapped(f"shares {shared}{never}", width, "dim", indent, hang, ref)
    advice = f"as for {advised}" if advised else missed.advice
    yield from wrapped(f"try: {advice}", width, "accent", indent, hang, ref)


def evidence_lines(
    report: FusionReport, item: Decision | Missed, width: int, indent: str, hang: str, ref: Ref | None = None
) -> Iterator[Line]:
    """What was noted beside the outcome; nothing where nobody noted anything."""
    if text := evidence_text(report, item):
        yield from wrapped(text, width, "dim", indent, hang, ref)


def _plain_reason(missed: Missed, report: FusionReport) -> str:
    """The reason with what lies between; a group's name there may be thousands of characters long."""
    text = missed.plain or CATEGORIES[missed.category].meaning
    if missed.between and not any(name in text for name in missed.between):
        text += f" (between them: {', '.join(missed.between)})"
    for name in sorted(missed.between, key=len, reverse=True):
        group = report.group(name)
        if group is not None:
            text = text.replace(name, short_name(group))
    return text


# -- misses as a list


def missed_table(report: FusionReport) -> Table:
    """One row per pair; its key is the position in `report.missed`."""
    rows = []
    of_group: dict[str, list[int]] = {}
    for position, missed in enumerate(report.missed):
        one, two = report.group(missed.first), report.group(missed.second)
        assert one is not None and two is not None
        for group in (one, two):
            of_group.setdefault(group.name, []).append(position)
        rows.append(
            Row(
                MissRow(position),
                (
                    Span(position + 1, "dim"),
                    Span(size(missed.bytes), "warn"),
                    Span(short_name(one)),
                    Span(short_name(two)),
                    Span(CATEGORIES[missed.category].title, "bad" if missed.possible else "dim"),
                    Span(", ".join(access.buffer for access in missed.buffers), "dim"),
                    Span(places_text(missed.first_sources), "dim"),
                    Span(places_text(missed.second_sources), "dim"),
                ),
                Ref("node", one.nodes[0]),
            )
        )

    def find(related: Related) -> tuple[Rows, ...]:
        return merge((position, position) for name in related.entries for position in of_group.get(name, ()))

    if not rows:
        return Table("Missed fusions · none", (), (_nothing(report),))
    left_out = len(report.minor)
    more = f", {left_out} tiny or between library calls left out" if left_out else ""
    return Table(f"Missed fusions · {len(rows)}, worst first{more}", _MISSED_COLUMNS, tuple(rows), find=find)


def _nothing(report: FusionReport) -> Row:
    text = "No two groups share memory worth a fusion."
    if not report.nodes:
        text = "Without a schedule nothing can be said."
    return Row(MessageRow(0), (Span(text, "good" if report.nodes else "dim"),), wide=True)


# -- whole graphs


def lines(
    reports: Sequence[FusionReport], width: int, everything: bool = False, titles: Mapping[str, str] = {}
) -> list[Line]:
    """Counts, traffic, groups, decisions and the worst misses of each graph; with `everything` all of it.
    `titles`: how graphs are called, by their idents."""
    text: list[Line] = []
    for report in reports:
        text += [Line(), *_graph_lines(report, titles.get(report.ident, report.ident), width, everything)]
    return text[1:] or [line("no compiled graph")]


def _graph_lines(report: FusionReport, title: str, width: int, everything: bool) -> Iterator[Line]:
    count = f"{plural(len(report.nodes), 'node')} in {plural(len(report.groups), 'group')}"
    yield line(Span(f"{title}: ", "accent"), count)
    if report.nodes:
        for label, counts in (("before", report.counts_before), ("after", report.counts_after)):
            yield from wrapped(f"{label:<8}{_counts_text(counts)}", width, "", "  ", " " * 10)
        yield from wrapped(_traffic_text(report), width, "", "  ", " " * 10)
        if report.bytes_kept:
            kept = f"{size(report.bytes_kept)} of these are writes that only the same kernel reads"
            yield toned(f"{' ' * 10}{kept}", "dim")
        yield from waste_lines(report, width)
        yield from apart(_group_lines(report, width, everything))
        yield from apart(_decision_lines(report, width, everything))
        yield from apart(_missed_lines(report, width, everything))
    for note in report.notes:
        yield from wrapped(f"note: {note}", width, "dim", "  ", "    ")


def _counts_text(counts: Mapping[str, int]) -> str:
    """`3 pointwise, 2 outer loop`, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {spaced(kind)}" for kind, count in ordered)


def _traffic_text(report: FusionReport) -> str:
    fused, excess = report.fused_ratio, report.excess_ratio
    text = f"bytes   {size(report.bytes_unfused)} unfused, {size(report.bytes_fused)} as fused"
    text += f" ({percent(fused)})" if fused is not None else ""
    if report.bytes_asked is not None and report.bytes_asked != report.bytes_fused:
        text += f", {size(report.bytes_asked)} asked for"
    text += f", {size(report.bytes_minimum)} at least"
    return text + (f" (fused moves {ratio(excess)} that)" if excess is not None else "")


def _group_lines(report: FusionReport, width: int, everything: bool) -> list[Line]:
    groups = [group for group in report.groups if group.kind != "single"]
    if not groups:
        return [line("  nothing was fused")]
    groups.sort(key=lambda group: -(group.bytes_saved or 0))
    shown = groups if everything else groups[:_MOST_GROUPS]
    rows = [
        Row(
            group.name,
            (
                Span(f"  {group.name}", "accent"),
                Span(spaced(group.kind)),
                Span(len(group.nodes)),
                Span(size(group.bytes_saved), "good"),
                Span(group.kernel or "-"),
                Span(places_text(group.sources), "dim"),
            ),
        )
        for group in shown
    ]
    text = table_lines(Table("Groups", _GROUP_COLUMNS, tuple(rows)), width)
    return text + more(len(groups) - len(shown), _ALL)


def _decision_lines(report: FusionReport, width: int, everything: bool) -> Iterator[Line]:
    if not report.decisions:
        return
    parts = []
    for verdict in ("fused", "rejected", "never_tried"):
        own = [decision for decision in report.decisions if decision.verdict == verdict]
        reasons = [
            f"{len(alike)} {CATEGORIES[name].title if name in CATEGORIES else name}"
            for name, alike in by_category(own).items()
        ]
        if own:
            why = f" ({', '.join(reasons)})" if verdict != "fused" else ""
            parts.append(f"{len(own)} {spaced(verdict)}{why}")
    head = f"{plural(len(report.decisions), 'decision')} ({report.decision_source})"
    yield from wrapped(f"{head}: {'; '.join(parts)}", width, "", "  ", "    ")
    for decision in report.decisions if everything else ():
        if text := evidence_text(report, decision):
            pair = " + ".join(elide(name, _LONG_NAME) for name in (decision.first, decision.second))
            text = f"round {decision.round}, {pair}, {spaced(decision.verdict)}: {text}"
            yield from wrapped(text, width, "dim", "    ", "      ")


def _missed_lines(report: FusionReport, width: int, everything: bool) -> Iterator[Line]:
    folded = fold(report.missed)
    shown = folded if everything else folded[:_MOST_MISSES]
    if report.missed:
        yield line(f"  missed fusions, worst first ({plural(len(report.missed), 'pair')})")
    else:
        yield toned("  no missed fusion worth naming", "good")
    advised: dict[str, int] = {}
    for number, (missed, times) in enumerate(shown, 1):
        yield from _missed_block(report, number, missed, times, width, advised)
    yield from more(len(folded) - len(shown), _ALL)
    if everything and report.minor:
        yield line(f"  left out by default ({plural(len(report.minor), 'pair')})")
        for number, (missed, times) in enumerate(fold(report.minor), len(shown) + 1):
            yield from _missed_block(report, number, missed, times, width, advised)
    left_out = [
        f"{plural(report.noise[key], noun)} {text}" for key, noun, text in _LEFT_OUT if report.noise.get(key)
    ]
    if left_out:
        yield from wrapped(f"left out: {', '.join(left_out)}", width, "dim", "  ", "    ")


def fold(missed: Sequence[Missed]) -> list[tuple[Missed, int]]:
    """Misses with the number of further ones like them: same reason, lines of source and bytes, as the
    layers of a model have them."""
    counts: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], Missed] = {}
    for pair in missed:
        # Without source lines there is nothing to call two pairs alike by.
        places = (pair.first_sources, pair.second_sources)
        key = (pair.category, pair.bytes, *(places if any(places) else (pair.first, pair.second)))
        counts[key] += 1
        first.setdefault(key, pair)
    return [(pair, counts[key] - 1) for key, pair in first.items()]


def _missed_block(
    report: FusionReport, number: int, missed: Missed, times: int, width: int, advised: dict[str, int]
) -> Iterator[Line]:
    sides = [report.group(name) for name in (missed.first, missed.second)]
    names = " + ".join(short_name(group) if group is not None else "?" for group in sides)
    again = Span(f"  ({times} more like it)" if times else "", "dim")
    yield fitted([Span(f"  {number:>3}. "), *miss_head(missed, [Span(f"{names}  ")]), again], width)
    places = f"{places_text(missed.first_sources)} | {places_text(missed.second_sources)}"
    yield from wrapped(places, width, "dim", " " * 9)
    # The same advice under each row would bury the rows.
    earlier = advised.setdefault(missed.advice, number)
    yield from miss_lines(report, missed, width, f"{earlier}." if earlier != number else "", " " * 9)
