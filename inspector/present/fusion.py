"""`inspector fusions`: as text, and as the contract's `inspector.fusions/1`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from inspector.analysis.decisions import by_category
from inspector.analysis.reasons import CATEGORIES
from inspector.model.fusion import Access, Decision, FusionGroup, FusionReport, Missed
from inspector.model.source import SourceLocation
from inspector.present.text import Column, elide, render_table

SCHEMA = "inspector.fusions/1"

_MOST_MISSES = 10
_MOST_GROUPS = 12
_MOST_PLACES = 3
_LEAST_NAME = 12


def to_json(reports: Sequence[FusionReport], everything: bool = False) -> dict[str, Any]:
    """The contract's object, with more keys for each graph. `everything` adds the pairs that are left
    out as noise, as `minor`."""
    sources = {report.decision_source for report in reports}
    found = next((source for source in ("recorder", "log") if source in sources), "none")
    return {
        "schema": SCHEMA,
        "decision_source": found,
        "graphs": [_graph_json(report, everything) for report in reports],
    }


def _graph_json(report: FusionReport, everything: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": report.name,
        "id": report.ident,
        "groups": [_group_json(group) for group in report.groups],
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "group": node.group,
                "bytes_read": node.bytes_read,
                "bytes_written": node.bytes_written,
                "sources": _places(node.sources),
            }
            for node in report.nodes
        ],
        "decisions": [
            *(_decision_json(decision) for decision in report.decisions),
            *(
                _untried_json(pair)
                for pair in (*report.missed, *report.minor)
                if pair.verdict == "never_tried" and not pair.reason
            ),
        ],
        "bytes_unfused": report.bytes_unfused,
        "bytes_fused": report.bytes_fused,
        "bytes_minimum": report.bytes_minimum,
        "bytes_kept": report.bytes_kept,
        "fused_ratio": report.fused_ratio,
        "excess_ratio": report.excess_ratio,
        "counts": {"before": dict(report.counts_before), "after": dict(report.counts_after)},
        "missed": [_missed_json(missed) for missed in report.missed],
        "noise": dict(report.noise),
        "decision_source": report.decision_source,
        "notes": list(report.notes),
    }
    if everything:
        data["minor"] = [_missed_json(missed) for missed in report.minor]
    return data


def _group_json(group: FusionGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "kind": group.kind,
        "nodes": list(group.nodes),
        "kernel": group.kernel,
        "calls": list(group.calls),
        "bytes_saved": group.bytes_saved,
        "bytes_unfused": group.bytes_unfused,
        "reads": [_access_json(access) for access in group.reads],
        "writes": [_access_json(access) for access in group.writes],
        "gone": [_access_json(access) for access in group.gone],
        "kept": [_access_json(access) for access in group.kept],
        "sources": _places(group.sources),
    }


def _access_json(access: Access) -> dict[str, Any]:
    return {"buffer": access.buffer, "bytes": access.bytes, "counted": access.basis}


def _places(places: Sequence[SourceLocation]) -> list[str]:
    return [str(place) for place in places]


def _decision_json(decision: Decision) -> dict[str, Any]:
    return {
        "first": decision.first,
        "second": decision.second,
        "round": decision.round,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "category": decision.category,
        "shared_bytes": decision.shared_bytes,
        "shared": list(decision.shared),
        "fused_later": decision.fused_later,
        "reason_by": ("torch" if decision.by_torch else "recorder") if decision.reason else None,
        "line": decision.line,
    }


def _untried_json(pair: Missed) -> dict[str, Any]:
    """A pair of final groups that no decision mentions: the contract lists it with the decisions."""
    return {
        "first": pair.first,
        "second": pair.second,
        "round": None,
        "verdict": "never_tried",
        "reason": pair.plain,
        "category": pair.category,
        "shared_bytes": _sum(pair.buffers),
        "shared": [access.memory for access in pair.buffers],
        "fused_later": False,
        "reason_by": None,
        "line": None,
    }


def _sum(accesses: Sequence[Access]) -> int | None:
    known = [access.bytes for access in accesses if access.bytes is not None]
    return sum(known) if len(known) == len(accesses) else None


def _missed_json(missed: Missed) -> dict[str, Any]:
    return {
        "first": missed.first,
        "second": missed.second,
        "bytes": missed.bytes,
        "buffers": [_access_json(access) for access in missed.buffers],
        "verdict": missed.verdict,
        "category": missed.category,
        "reason": missed.reason,
        "reason_by": ("torch" if missed.by_torch else "recorder") if missed.reason else None,
        "plain": missed.plain,
        "possible": missed.possible,
        "inferred": missed.inferred,
        "advice": missed.advice,
        "line": missed.line,
        "between": list(missed.between),
        "first_sources": _places(missed.first_sources),
        "second_sources": _places(missed.second_sources),
    }


# -- text


def to_text(reports: Sequence[FusionReport], width: int = 100, everything: bool = False) -> str:
    """For a terminal or a pipe: counts, traffic, groups, decisions and the worst misses of each graph."""
    lines: list[str] = []
    for report in reports:
        if lines:
            lines.append("")
        lines += _graph_lines(report, width, everything)
    return "\n".join(lines or ["no compiled graph"]) + "\n"


def _graph_lines(report: FusionReport, width: int, everything: bool) -> list[str]:
    lines = [f"{report.ident}: {_count(len(report.nodes), 'node')} in {_count(len(report.groups), 'group')}"]
    if report.nodes:
        lines += [
            *_labelled(f"before  {counts_text(report.counts_before)}", width),
            *_labelled(f"after   {counts_text(report.counts_after)}", width),
            *_traffic_lines(report, width),
        ]
        lines += _group_lines(report, width, everything)
        lines += _decision_lines(report, width)
        lines += _missed_lines(report, width, everything)
    lines += _wrapped([f"note: {note}" for note in report.notes], width)
    return lines


def _traffic_lines(report: FusionReport, width: int) -> list[str]:
    fused, excess = report.fused_ratio, report.excess_ratio
    text = f"bytes   {bytes_text(report.bytes_unfused)} unfused, {bytes_text(report.bytes_fused)} as fused"
    text += f" ({100 * fused:.0f} %)" if fused is not None else ""
    text += f", {bytes_text(report.bytes_minimum)} at least"
    text += f" (fused moves {excess:.2f}x that)" if excess is not None else ""
    lines = _labelled(text, width)
    if report.bytes_kept:
        kept = bytes_text(report.bytes_kept)
        lines.append(f"          {kept} of these are writes that only the same kernel reads")
    return lines


def _labelled(text: str, width: int) -> list[str]:
    """`text` begins with a label of eight columns, under which nothing is written."""
    return wrap(text, max(width, 40), initial_indent="  ", subsequent_indent=" " * 10)


def _group_lines(report: FusionReport, width: int, everything: bool) -> list[str]:
    groups = [group for group in report.groups if group.kind != "single"]
    if not groups:
        return ["", "  nothing was fused"]
    groups.sort(key=lambda group: -(group.bytes_saved or 0))
    shown = groups if everything else groups[:_MOST_GROUPS]
    columns = [
        Column("  group"),
        Column("kind"),
        Column("nodes", right=True),
        Column("saved", right=True),
        Column("kernel"),
        Column("from"),
    ]
    limit = max(_LEAST_NAME, (width - 56) // 2)
    rows = [
        (
            f"  {elide(group.name, limit)}",
            group.kind.replace("_", " "),
            str(len(group.nodes)),
            bytes_text(group.bytes_saved),
            elide(group.kernel or "-", limit),
            places_text(group.sources),
        )
        for group in shown
    ]
    lines = ["", *render_table(columns, rows, width)]
    if len(groups) > len(shown):
        lines.append(f"  ... and {len(groups) - len(shown)} more (--all shows them)")
    return lines


def _decision_lines(report: FusionReport, width: int) -> list[str]:
    if not report.decisions:
        return []
    told = []
    for verdict, title in (("fused", "fused"), ("rejected", "rejected"), ("never_tried", "never tried")):
        own = [decision for decision in report.decisions if decision.verdict == verdict]
        parts = [
            f"{len(found)} {CATEGORIES[name].title if name in CATEGORIES else name}"
            for name, found in by_category(own).items()
        ]
        if own:
            told.append(f"{len(own)} {title}" + (f" ({', '.join(parts)})" if verdict != "fused" else ""))
    head = f"{_count(len(report.decisions), 'decision')} ({report.decision_source})"
    return ["", *_wrapped([f"{head}: {'; '.join(told)}"], width)]


def _missed_lines(report: FusionReport, width: int, everything: bool) -> list[str]:
    folded = fold(report.missed)
    shown = folded if everything else folded[:_MOST_MISSES]
    if not report.missed:
        lines = ["", "  no missed fusion worth naming"]
    else:
        lines = ["", f"  missed fusions, worst first ({_count(len(report.missed), 'pair')})"]
    advised: dict[str, int] = {}
    for number, (missed, times) in enumerate(shown, 1):
        lines += _missed_block(number, missed, times, width, advised)
    if len(folded) > len(shown):
        lines.append(f"  ... and {len(folded) - len(shown)} more (--all shows them)")
    if everything and report.minor:
        lines.append(f"  left out by default ({_count(len(report.minor), 'pair')})")
        for number, (missed, times) in enumerate(fold(report.minor), len(shown) + 1):
            lines += _missed_block(number, missed, times, width, advised)
    left_out = [
        f"{_count(count, noun)} {text}"
        for key, noun, text in (
            ("no_shared_data", "refusal", "without shared data"),
            ("tiny", "pair", "that would save less than 1 KB"),
            ("library_calls", "pair", "of library calls"),
            ("fused_later", "refusal", "before the two fused after all"),
        )
        if (count := report.noise.get(key, 0))
    ]
    if left_out:
        lines += _wrapped([f"left out: {', '.join(left_out)}"], width)
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


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


def _missed_block(number: int, missed: Missed, times: int, width: int, advised: dict[str, int]) -> list[str]:
    again = f"  ({times} more like it)" if times else ""
    limit = max(_LEAST_NAME, (width - 20 - len(again)) // 2)
    names = f"{elide(missed.first, limit)} + {elide(missed.second, limit)}"
    head = f"  {number:>3}. {bytes_text(missed.bytes):>8}  {names}{again}"
    title = CATEGORIES[missed.category].title
    told = missed.plain if missed.plain != CATEGORIES[missed.category].meaning else ""
    body = [f"{title}{': ' + told if told else ''}"]
    if missed.reason:
        body.append(f'{"torch" if missed.by_torch else "recorder"}: "{missed.reason}"')
    if not missed.possible:
        body.append("cannot fuse as it stands")
    buffers = ", ".join(f"{access.buffer} ({bytes_text(access.bytes)})" for access in missed.buffers[:3])
    if len(missed.buffers) > 3:
        buffers += f" and {len(missed.buffers) - 3} more"
    body.append(
        f"shares {buffers}; {places_text(missed.first_sources)} | {places_text(missed.second_sources)}"
    )
    # The same advice under each row would bury the rows.
    earlier = advised.setdefault(missed.advice, number)
    body.append(f"try: {missed.advice}" if earlier == number else f"try: as for {earlier}.")
    return [elide(head, width), *_wrapped(body, width, 17)]


def _wrapped(texts: Sequence[str], width: int, indent: int = 2) -> list[str]:
    pad = " " * indent
    return [
        line
        for text in texts
        for line in wrap(text, max(width, 40), initial_indent=pad, subsequent_indent=pad + "  ")
    ]


def counts_text(counts: Mapping[str, int]) -> str:
    """`3 pointwise, 2 outer loop`, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in ordered)


def places_text(places: Sequence[SourceLocation]) -> str:
    """`model.py:9, model.py:10 and 2 more`."""
    names = list(dict.fromkeys(place.short for place in places))
    if not names:
        return "source unknown"
    more = f" and {len(names) - _MOST_PLACES} more" if len(names) > _MOST_PLACES else ""
    return ", ".join(names[:_MOST_PLACES]) + more


def bytes_text(count: int | None) -> str:
    """`40.0 KB`: decimal units; `?` for what is not known."""
    if count is None:
        return "?"
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 1000 or unit == "GB":
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable: GB takes every size")
