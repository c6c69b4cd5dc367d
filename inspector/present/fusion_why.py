"""Why a node is where it is: what it fused with, what it did not, the reason in plain words, what to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from inspector.analysis.decisions import Names
from inspector.analysis.reasons import CATEGORIES, classify
from inspector.model.fusion import Access, Decision, FusionGroup, FusionReport, Missed, NodeTraffic
from inspector.model.links import Ref
from inspector.present.code import few
from inspector.present.fusion import bytes_text, places_text
from inspector.present.fusion_lanes import NODE_TONES, kind_text, short_name
from inspector.present.spans import Piece, TonedLine, TonedText, fitted, joined, line, wrapped
from inspector.present.tables import Tone
from inspector.present.text import elide

_MOST_PARTNERS = 12
_MOST_BUFFERS = 4
_MOST_FUSED = 8


@dataclass(frozen=True, slots=True)
class Partners:
    """Who was asked about with whom; built once for a graph.

    `asked` has the decisions by the scheduler's names of their time, `known_as` the names that each leaf
    went by, `misses` positions in the report's by final group.
    """

    report: FusionReport
    names: Names
    asked: Mapping[str, Sequence[Decision]]
    known_as: Mapping[str, Sequence[str]]
    misses: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, report: FusionReport) -> Partners:
        names = Names(report.nodes)
        asked: dict[str, list[Decision]] = {}
        for decision in report.decisions:
            asked.setdefault(decision.first, []).append(decision)
            asked.setdefault(decision.second, []).append(decision)
        known_as: dict[str, list[str]] = {}
        for name in asked:
            for leaf in names.members(name):
                known_as.setdefault(leaf, []).append(name)
        misses: dict[str, list[int]] = {}
        for position, missed in enumerate(report.missed):
            for name in (missed.first, missed.second):
                misses.setdefault(name, []).append(position)
        return cls(report, names, asked, known_as, misses)

    def misses_of(self, name: str) -> Sequence[int]:
        """Positions of the misses of a node's group, worst first."""
        group = self.report.group(name)
        return self.misses.get(group.name, ()) if group is not None else ()

    def decisions_of(self, name: str) -> Iterator[tuple[Decision, tuple[str, ...]]]:
        """Every decision about a leaf, alone or in a group, with the leaves of the other side."""
        for alias in self.known_as.get(name, ()):
            for decision in self.asked[alias]:
                other = decision.second if decision.first == alias else decision.first
                yield decision, self.names.members(other)


def why_text(partners: Partners, name: str, width: int, chosen: int | None = None) -> TonedText:
    """All about one node; the `chosen` miss of its group comes first, then the worst."""
    node, group = partners.names.nodes.get(name), partners.report.group(name)
    if node is None or group is None:
        return TonedText(name, tuple(wrapped(f"{name} is not in the schedule.", width)))
    return TonedText(
        f"Why · {name}",
        (
            *_head(node, group, width),
            *_missed_lines(partners, name, group, width, chosen),
            *_fused_lines(partners, node, group, width),
            *_traffic_lines(node, group, width),
            *_decision_lines(partners, node, width),
            *_source_lines(partners.report, width),
        ),
    )


def miss_text(partners: Partners, position: int, width: int) -> TonedText:
    """All about one pair that did not fuse."""
    report = partners.report
    missed = report.missed[position]
    sides = [group for name in (missed.first, missed.second) if (group := report.group(name)) is not None]
    lines: list[TonedLine] = []
    for group in sides:
        kernel = f"  {group.kernel}" if group.kernel else ""
        what = (
            kind_text(partners.names.nodes[group.nodes[0]], group) if group.kind == "single" else group.kind
        )
        text = f"{short_name(group)}  {what.replace('_', ' ')}{kernel}  {places_text(group.sources)}"
        lines += wrapped(text, width, "accent", hang="  ", ref=Ref("node", group.nodes[0]))
    lines += _miss_lines(report, missed, None, width)
    return TonedText(f"Why · missed fusion {position + 1} of {len(report.missed)}", tuple(lines))


def _head(node: NodeTraffic, group: FusionGroup, width: int) -> Iterator[TonedLine]:
    pieces: list[Piece] = [
        (f"{elide(node.name, 24)}  ", ""),
        (kind_text(node, group), NODE_TONES.get(node.kind, "")),
        (f"  {node.ranges}" if node.ranges else "", ""),
        (f"  {few(list(node.fx), 3)}" if node.fx else "", ""),
    ]
    used = sum(len(text) for text, _ in pieces)
    place = f"  {places_text(node.sources)}"
    if used + len(place) <= width:
        pieces.append((place, "dim"))
    yield fitted(pieces, width)
    if used + len(place) > width:
        yield from wrapped(place.strip(), width, "dim", indent="  ")


def _missed_lines(
    partners: Partners, name: str, group: FusionGroup, width: int, chosen: int | None
) -> Iterator[TonedLine]:
    report = partners.report
    found = sorted(partners.misses_of(name), key=lambda position: (position != chosen, position))
    if not found:
        yield from wrapped("nothing was missed: no other group shares memory worth a fusion", width, "good")
    advised: dict[str, str] = {}
    for position in found[:_MOST_PARTNERS]:
        missed = report.missed[position]
        other = report.group(missed.second if missed.first == group.name else missed.first)
        assert other is not None
        earlier = advised.setdefault(missed.advice, short_name(other))
        yield from _miss_lines(report, missed, other, width, earlier if earlier != short_name(other) else "")
    if len(found) > _MOST_PARTNERS:
        yield line((f"and {len(found) - _MOST_PARTNERS} more partners: m lists all", "dim"))


def _miss_lines(
    report: FusionReport, missed: Missed, other: FusionGroup | None, width: int, advised: str = ""
) -> Iterator[TonedLine]:
    """The pair's head (with `other`, the partner, if that is not told elsewhere), reason, memory, advice.

    `advised`: for whom the same advice was given already.
    """
    info = CATEGORIES[missed.category]
    ref = Ref("node", other.nodes[0]) if other is not None else None
    tone: Tone = "bad" if missed.possible else "warn"
    with_whom = f"{short_name(other)}  " if other is not None else ""
    verb = "never tried" if missed.verdict == "never_tried" else "refused"
    head: list[Piece] = [
        ("✗ ", "bad"),
        (with_whom, ""),
        (f"{bytes_text(missed.bytes)}  ", "warn"),
        (info.title, tone),
        (f"  {verb}" if info.title != verb else "", "dim"),
    ]
    fits = sum(len(text) for text, _ in head) <= width
    yield fitted(head if fits else head[:-1], width, ref)
    yield from wrapped(_plain(missed, report), width, indent="  ", ref=ref)
    if missed.reason:
        speaker = "torch" if missed.by_torch else "the recorder"
        yield from wrapped(f'{speaker}: "{missed.reason}"', width, "dim", "  ", "    ", ref=ref)
    shared = joined([f"{item.buffer} {bytes_text(item.bytes)}" for item in missed.buffers], _MOST_BUFFERS)
    never = "" if missed.possible else "; cannot fuse as it stands"
    yield from wrapped(f"shares {shared}{never}", width, "dim", "  ", "    ", ref=ref)
    advice = f"as for {advised}" if advised else missed.advice
    yield from wrapped(f"try: {advice}", width, "accent", "  ", "    ", ref=ref)


def _plain(missed: Missed, report: FusionReport) -> str:
    """The reason with what lies between; a group's name there may be thousands of characters long."""
    text = missed.plain or CATEGORIES[missed.category].meaning
    if missed.between and not any(name in text for name in missed.between):
        text += f" (between them: {', '.join(missed.between)})"
    for name in sorted(missed.between, key=len, reverse=True):
        group = report.group(name)
        if group is not None:
            text = text.replace(name, short_name(group))
    return text


def _fused_lines(
    partners: Partners, node: NodeTraffic, group: FusionGroup, width: int
) -> Iterator[TonedLine]:
    if len(group.nodes) == 1:
        yield line(("✓ ", "dim"), ("fused with nothing", "dim"))
        return
    kernel = f" in {group.kernel}" if group.kernel else ""
    head = f"✓ {group.kind.replace('_', ' ')} of {len(group.nodes)} nodes{kernel}, "
    yield from wrapped(f"{head}saved {bytes_text(group.bytes_saved)}", width, "good", hang="  ")
    told: set[str] = {node.name}
    rounds: dict[int, list[str]] = {}
    for decision, other in partners.decisions_of(node.name):
        if decision.verdict == "fused":
            new = [name for name in other if name not in told]
            told.update(new)
            if new:
                rounds.setdefault(decision.round, []).extend(new)
    for number, names in sorted(rounds.items()):
        yield from wrapped(
            f"round {number}: with {joined(names, _MOST_FUSED)}",
            width,
            "",
            "  ",
            "    ",
            ref=Ref("node", names[0]),
        )
    rest = [name for name in group.nodes if name not in told]
    if rest:
        yield from wrapped(f"also with {joined(rest, _MOST_FUSED)}", width, "", "  ", "    ")


def _traffic_lines(node: NodeTraffic, group: FusionGroup, width: int) -> Iterator[TonedLine]:
    gone = {access.buffer for access in group.gone}
    kept = {access.buffer for access in group.kept}
    for title, accesses in (("reads ", node.reads), ("writes", node.writes)):
        texts = [_access(access, gone, kept) for access in accesses]
        yield from wrapped(
            f"{title} {joined(texts, 8) if texts else 'nothing'}", width, "dim", hang="       "
        )


def _access(access: Access, gone: Iterable[str], kept: Iterable[str]) -> str:
    basis = {"bound": " at most", "region": " (a part of it)"}.get(access.basis, "")
    fate = " gone by fusion" if access.buffer in gone else " written, though only this kernel reads it"
    told = fate if access.buffer in gone or access.buffer in kept else ""
    return f"{access.buffer}{basis} {bytes_text(access.bytes)}{told}"


def _decision_lines(partners: Partners, node: NodeTraffic, width: int) -> Iterator[TonedLine]:
    """Refusals about the node itself, each partner once: the last answer."""
    last: dict[tuple[str, ...], Decision] = {}
    answers = sorted(partners.decisions_of(node.name), key=lambda answer: answer[0].round)
    for decision, other in answers:
        if decision.verdict != "fused" and decision.category not in ("order", "no_shared_data"):
            last.pop(other, None)
            last[other] = decision
    if not last:
        return
    yield line((f"asked about {node.name}, last answers", "dim"))
    for other, decision in list(last.items())[-_MOST_PARTNERS:]:
        assert decision.category is not None
        info = CATEGORIES[decision.category]
        plain = classify(decision.reason).plain if decision.reason else ""
        later = ", fused later" if decision.fused_later else ""
        partner = other[0] if len(other) == 1 else f"{other[0]}…{other[-1]} ({len(other)})"
        yield from wrapped(
            f"round {decision.round}  {partner}: {info.title}{f', {plain}' if plain else ''}{later}",
            width,
            "dim" if decision.fused_later else "",
            "  ",
            "    ",
            ref=Ref("node", other[0]) if other else None,
        )


def _source_lines(report: FusionReport, width: int) -> Iterator[TonedLine]:
    told = {
        "recorder": "decisions: as the recorder saw them",
        "log": "decisions: from torch's fusion log",
        "none": "no decisions were recorded: reasons are what the schedule suggests",
    }[report.decision_source]
    yield from wrapped(told, width, "dim")
    for note in report.notes:
        yield from wrapped(f"note: {note}", width, "dim", hang="  ")
