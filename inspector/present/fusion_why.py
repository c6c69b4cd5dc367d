"""Why a node is where it is: what it fused with, what it did not, the reason in plain words, what to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from inspector.analysis.decisions import Names
from inspector.analysis.reasons import CATEGORIES, classify
from inspector.frozen import dataclass
from inspector.model.decision import Decision
from inspector.model.fusion import Access, FusionGroup, FusionReport, NodeTraffic
from inspector.model.links import Ref
from inspector.text import cells, elide, few, joined, spaced
from inspector.units import plural, size

from .fusion import evidence_lines, kind_text, miss_head, miss_lines, short_name
from .fusion_lanes import NODE_TONES
from .spans import Line, Page, Span, fitted, toned, wrapped
from .waste import group_texts, places_text

_MOST_PARTNERS = 12
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


def why_page(partners: Partners, name: str, width: int, chosen: int | None = None) -> Page:
    """All about one node; the `chosen` miss of its group comes first, then the worst."""
    node, group = partners.names.nodes.get(name), partners.report.group(name)
    if node is None or group is None:
        return Page(name, tuple(wrapped(f"{name} is not in the schedule.", width)))
    return Page(
        f"Why · {name}",
        (
            *_head(node, group, width),
            *_missed_lines(partners, name, group, width, chosen),
            *_fused_lines(partners, node, group, width),
            *_traffic_lines(node, group, width),
            *(toned(f"! {text}", "warn") for text in group_texts(partners.report).get(group.name, ())),
            *_decision_lines(partners, node, width),
            *_source_lines(partners.report, width),
        ),
    )


def miss_page(partners: Partners, position: int, width: int) -> Page:
    """All about one pair that did not fuse; the reason first, as names of kernels may fill a small screen."""
    report = partners.report
    missed = report.missed[position]
    sides = [group for name in (missed.first, missed.second) if (group := report.group(name)) is not None]
    lines = [_fitting(miss_head(missed, ()), width)]
    for group in sides:
        kernel = f"  {group.kernel}" if group.kernel else ""
        first = partners.names.nodes[group.nodes[0]]
        what = kind_text(first, group) if group.kind == "single" else spaced(group.kind)
        text = f"{short_name(group)}  {what}{kernel}  {places_text(group.sources)}"
        lines += wrapped(text, width, "accent", hang="  ", ref=Ref("node", group.nodes[0]))
    lines += miss_lines(report, missed, width)
    return Page(f"Why · missed fusion {position + 1} of {len(report.missed)}", tuple(lines))


def _head(node: NodeTraffic, group: FusionGroup, width: int) -> Iterator[Line]:
    spans = [
        Span(f"{elide(node.name, 24)}  "),
        Span(kind_text(node, group), NODE_TONES.get(node.kind, "")),
        Span(f"  {node.ranges}" if node.ranges else ""),
        Span(f"  {few(node.fx, 3)}" if node.fx else ""),
    ]
    place = places_text(node.sources)
    beside = sum(cells(span.text) for span in spans) + 2 + cells(place) <= width
    yield fitted([*spans, Span(f"  {place}", "dim")] if beside else spans, width)
    if not beside:
        yield from wrapped(place, width, "dim", indent="  ")


def _missed_lines(
    partners: Partners, name: str, group: FusionGroup, width: int, chosen: int | None
) -> Iterator[Line]:
    report = partners.report
    misses = sorted(partners.misses_of(name), key=lambda position: (position != chosen, position))
    if not misses:
        yield from wrapped("nothing was missed: no other group shares memory worth a fusion", width, "good")
    advised: dict[str, str] = {}
    for position in misses[:_MOST_PARTNERS]:
        missed = report.missed[position]
        other = report.group(missed.second if missed.first == group.name else missed.first)
        assert other is not None
        ref, who = Ref("node", other.nodes[0]), short_name(other)
        earlier = advised.setdefault(missed.advice, who)
        yield _fitting(miss_head(missed, [Span(f"{who}  ")]), width, ref)
        yield from miss_lines(report, missed, width, earlier if earlier != who else "", ref=ref)
    if len(misses) > _MOST_PARTNERS:
        yield toned(f"and {len(misses) - _MOST_PARTNERS} more partners: m lists all", "dim")


def _fitting(head: Sequence[Span], width: int, ref: Ref | None = None) -> Line:
    """The head of a miss; whether torch ever tried is the first to be left out."""
    fits = sum(cells(span.text) for span in head) <= width
    return fitted(head if fits else head[:-1], width, ref)


def _fused_lines(partners: Partners, node: NodeTraffic, group: FusionGroup, width: int) -> Iterator[Line]:
    if len(group.nodes) == 1:
        yield toned("✓ fused with nothing", "dim")
        return
    kernel = f" in {group.kernel}" if group.kernel else ""
    head = f"✓ {spaced(group.kind)} of {plural(len(group.nodes), 'node')}{kernel}"
    yield from wrapped(f"{head}, saved {size(group.bytes_saved)}", width, "good", hang="  ")
    named: set[str] = {node.name}
    rounds: dict[int, list[str]] = {}
    reasons: dict[int, list[Decision]] = {}
    for decision, other in partners.decisions_of(node.name):
        if decision.verdict == "fused":
            new = [name for name in other if name not in named]
            named.update(new)
            if new:
                rounds.setdefault(decision.round, []).extend(new)
                reasons.setdefault(decision.round, []).append(decision)
    for number, names in sorted(rounds.items()):
        text = f"round {number}: with {joined(names, _MOST_FUSED)}"
        yield from wrapped(text, width, "", "  ", "    ", Ref("node", names[0]))
        for decision in reasons[number]:
            yield from evidence_lines(
                partners.report, decision, width, "    ", "      ", Ref("node", names[0])
            )
    rest = [name for name in group.nodes if name not in named]
    if rest:
        yield from wrapped(f"also with {joined(rest, _MOST_FUSED)}", width, "", "  ", "    ")


def _traffic_lines(node: NodeTraffic, group: FusionGroup, width: int) -> Iterator[Line]:
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
    ending = fate if access.buffer in gone or access.buffer in kept else ""
    return f"{access.buffer}{basis} {size(access.bytes)}{ending}"


def _decision_lines(partners: Partners, node: NodeTraffic, width: int) -> Iterator[Line]:
    """Refusals about the node itself, each partner once: the last answer."""
    last: dict[tuple[str, ...], Decision] = {}
    answers = sorted(partners.decisions_of(node.name), key=lambda answer: answer[0].round)
    for decision, other in answers:
        # A group without members is one of a damaged schedule.
        if other and decision.verdict != "fused" and decision.category not in ("order", "no_shared_data"):
            last.pop(other, None)
            last[other] = decision
    if not last:
        return
    yield toned(f"asked about {node.name}, last answers", "dim")
    for other, decision in list(last.items())[-_MOST_PARTNERS:]:
        assert decision.category is not None
        info = CATEGORIES[decision.category]
        plain = classify(decision.reason).plain if decision.reason else ""
        later = ", fused later" if decision.fused_later else ""
        partner = other[0] if len(other) == 1 else f"{other[0]}…{other[-1]} ({len(other)})"
        text = f"round {decision.round}  {partner}: {info.title}{f', {plain}' if plain else ''}{later}"
        ref = Ref("node", other[0])
        yield from wrapped(text, width, "dim" if decision.fused_later else "", "  ", "    ", ref)
        yield from evidence_lines(partners.report, decision, width, "    ", "      ", ref)


def _source_lines(report: FusionReport, width: int) -> Iterator[Line]:
    text = {
        "recorder": "decisions: as the recorder saw them",
        "log": "decisions: from torch's fusion log",
        "none": "no decisions were recorded: reasons are what the schedule suggests",
    }[report.decision_source]
    yield from wrapped(text, width, "dim")
    for note in report.notes:
        yield from wrapped(f"note: {note}", width, "dim", hang="  ")
