"""The first screen's answer: faster or slower, why, what to do, where a call's time goes, what to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.explain.block_words import calls_text
from inspector.explain.ledger import NO_GAIN
from inspector.frozen import dataclass
from inspector.model.calls import Steady
from inspector.model.explain import Explanation, Finding, Ledger, LedgerPart, Place, Severity
from inspector.model.history import PastRun
from inspector.model.trial import TrialReport
from inspector.text import cells, crop, cut, elide, pad, sentence, wrap
from inspector.units import bar, comparison, duration, duration_range, percent, plural, some_calls, untold

from .account import LEAST_MS
from .history import past_span, when
from .replay import OP_BY_OP
from .spans import Line, Span, Tone, line, toned, wrapped
from .trial import by_finding
from .trial import lines as trial_lines
from .words import PARTS, SOURCES, title, why

TONES: dict[Severity, Tone] = {"high": "bad", "medium": "warn", "low": "dim"}

_LABEL = 7
"""Cells of `Why` and `Do`, and of the indent below them."""
_TIMES_FROM = 29
"""The cell at which times stand behind the verdict, where that is short enough."""
_LEAST_TIMES = 3
_MS, _SHARE, _SURE = 9, 6, 10
_NAMES = (34, 46)
"""Cells of a part's name, narrow and wide."""
_WIDE = 100
_WIDEST_BAR = 40
_LEAST_BAR = 6
_DO_LINES = _WHY_LINES = 2
_SENTENCE_LINES = 3
_NO_CHANGE = ("healthy", "nothing_found")
"""Rules that say what is left when there is nothing to change: below a finding they would gainsay it."""
_PARTS_SHOWN = 7
"""Rows of the ledger where there is little room: what to change has to stand on the same screen."""
_REMARK_LINES = 2
"""Of what makes times doubtful, where that is one thing; in full it stands where findings do."""
_FAR_LONGER = 2.0
"""Times a call: profiled calls that are longer are of another kind. Both sides in full have their times."""
_PLACES, _PAST = 8, 8
"""Rows of places and of past runs; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Offers:
    """What a reader can do next, in the words of whoever shows it: a key, or a command. `tries` stands behind
    a finding whose advice is a setting, `measures` where nothing compares with eager; empty for nothing."""

    tries: str = ""
    measures: str = ""
    rest: str = ""
    """How to see more places, where there are more."""


TRY_THERE = "where its program is, try"
"""In `tries`, of a run that is not known to be the user's own: nothing of it is run from here."""

Target = Finding | Place | PastRun
Rows = Iterator[tuple[Line, Target | None]]


def answer_rows(
    explanation: Explanation,
    width: int,
    offers: Offers,
    past: Sequence[PastRun] | None = None,
    trials: Mapping[str, TrialReport] | None = None,
    roomy: bool = False,
) -> Rows:
    """All of it, each line with what it tells of. `past` None leaves history out; `trials` are results by the
    finding's rule. What findings say has one line each, several where the screen is `roomy`."""
    for item in verdict_lines(
        explanation, width, offers, _REMARK_LINES if len(explanation.remarks) < 2 else 1
    ):
        yield item, None
    first = next(iter(explanation.findings), None)
    for item in _why_and_do(first, width, offers):
        yield item, first
    yield from ((item, None) for item in call_lines(explanation, width, None if roomy else _PARTS_SHOWN))
    yield from _change_rows(explanation.findings, width, trials or {}, _SENTENCE_LINES if roomy else 1)
    yield from place_rows(explanation, width, offers.rest, _PLACES)
    if past:
        yield from _past_rows(past, width)


# -- the verdict


def comparison_span(explanation: Explanation) -> Span:
    """`2.61x SLOWER than eager`; empty where nobody compared."""
    if explanation.faster is None:
        return Span("")
    if explanation.outcome == "same":
        return Span("as fast as eager")
    text = comparison(explanation.faster, "eager")
    if explanation.outcome == "unknown":
        return Span(text + untold(explanation.outcome, explanation.again), "warn")
    tone: Tone = "bad" if explanation.outcome == "slower" else "good"
    text = text.replace("slower", "SLOWER").replace("faster", "FASTER")
    return Span(text, "warn" if explanation.quality == "busy" else tone)


class Headline(NamedTuple):
    """How compiled compares with eager, or why nobody knows; both times; what they are of."""

    said: Span
    times: str
    how: str


def headline(explanation: Explanation) -> Headline:
    """The answer in one look."""
    said, times = comparison_span(explanation), _times(explanation)
    if not said.text:
        said = Span("not compared with eager" if times else "nothing was timed", "warn")
    return Headline(said, times, _how(explanation))


def verdict_lines(
    explanation: Explanation, width: int, offers: Offers, most: int | None = None
) -> Iterator[Line]:
    """What makes the rest doubtful, in at most so many lines each, how compiled compares with eager, both
    times and what they are of."""
    for remark in explanation.remarks:
        lines = wrap(remark, width)
        yield from (toned(text, "warn") for text in cut(lines, most or len(lines)))
    span, times, how = headline(explanation)
    if explanation.faster is None:
        yield from _beside(span, times or how, width)
        if times:
            yield from _beside(Span(""), how, width)
        if offers.measures and explanation.ledger.eager_ms is None:
            yield from wrapped(offers.measures, width, "accent", " " * _LABEL)
        return
    yield from _beside(span, times, width)
    yield from _beside(Span(""), how, width)
    for text in losing(explanation):
        yield toned(crop(text, width), "bad")


def _beside(left: Span, right: str, width: int) -> Iterator[Line]:
    """`right` behind `left`, on a line of its own where both have no room."""
    room = max(_TIMES_FROM, cells(left.text) + 3)
    tone: Tone = "" if left.text else "dim"
    if room + cells(right) <= width:
        yield line(Span(pad(left.text, room), left.tone), Span(right, tone))
    else:
        yield from [Line((left,))] if left.text else []
        yield from wrapped(right, width, tone, "  ")


def _times(explanation: Explanation) -> str:
    """`1.29 ms compiled · 1.04 ms in eager`, of one call."""
    ledger = explanation.ledger
    if ledger.compiled_ms is None:
        return ""
    ours = f"{duration(ledger.compiled_ms)} compiled"
    theirs = f" · {duration(ledger.eager_ms)} in eager" if ledger.eager_ms is not None else " a call"
    return ours + theirs


def _how(explanation: Explanation) -> str:
    """`measured: medians of 348 calls, ± 2 %`."""
    sides = [side for side in (explanation.compiled, explanation.eager) if side is not None]
    if explanation.compiled is None or not sides:
        if explanation.ledger.compiled_ms is None:
            return "what follows is estimated from sizes" if explanation.ledger.parts else ""
        return "estimated: its graphs replayed alone" if explanation.ledger.how == "estimated" else "profiled"
    busy = ", while the machine was not free" if explanation.quality == "busy" else ""
    count = min(side.count for side in sides)
    alone = f" of {', '.join(explanation.only)} (others come before or after)" if explanation.only else ""
    if explanation.phase is not None:
        return (
            f"measured: {plural(count, 'call')}{alone} {explanation.phase}, which most time passes in{busy}"
        )
    if alone:
        return f"measured: {plural(count, 'call')}{alone}{_spread(sides)}{busy}"
    if explanation.groups:
        return f"measured: means over calls of several sizes{busy}"
    said = f"measured: {'medians' if len(sides) > 1 else 'median'} of {plural(count, 'call')}"
    return f"{said}{_spread(sides)}{busy}"


def _spread(sides: Sequence[Steady]) -> str:
    """Half the range of the middle half of calls, of the side that varies more."""
    known = [
        side.iqr_ms / 2 / side.median_ms for side in sides if side.count >= _LEAST_TIMES and side.median_ms
    ]
    return f", ± {percent(max(known))}" if known else ""


def losing(explanation: Explanation) -> list[str]:
    """`but 20 calls with ...`: calls of sizes that are slower where the mean is not."""
    slower = [group for group in explanation.groups if group.outcome == "slower"]
    if len(slower) == len(explanation.groups):
        return []
    return [f"but {calls_text(group)}" for group in sorted(slower, key=lambda group: -group.lost_ms)[:1]]


def compile_line(explanation: Explanation) -> str:
    """`compiling took 15.8 s, won back after 5,300 calls; there were 400`; empty where nobody knows."""
    ledger = explanation.ledger
    if ledger.compile_s is None:
        return ""
    took = f"compiling took {duration(ledger.compile_s * 1e3)}"
    if ledger.compile_source == "trace":
        return f"{took}, by torch's trace"
    if ledger.break_even_calls is not None:
        calls = explanation.account.calls if explanation.account is not None else 0
        made = f"; the run made {calls:,}" if calls else ""
        return f"{took}, won back after {some_calls(ledger.break_even_calls)}{made}"
    if explanation.outcome in NO_GAIN:
        return f"{took}, never won back: {NO_GAIN[explanation.outcome]}"
    return took


# -- why, and what to do


def _why_and_do(finding: Finding | None, width: int, offers: Offers) -> Iterator[Line]:
    if finding is None:
        return
    yield from _labelled("Why", sentence(why(finding)), width, _WHY_LINES, TONES[finding.severity])
    if finding.rule == "healthy":
        return
    yield from _labelled("Do", finding.advice, width, _DO_LINES, "accent")
    gain = gain_text(finding)
    tries = f"{offers.tries} {finding.trial.label}" if offers.tries and finding.trial is not None else ""
    said: tuple[tuple[str, Tone], ...] = ((gain, ""), (tries, "accent"))
    beside = gain and tries and _LABEL + cells(gain) + 3 + cells(tries) <= width
    if beside:
        yield line(" " * _LABEL + gain, "   ", Span(tries, "accent"))
    else:
        yield from (toned(crop(" " * _LABEL + text, width), tone) for text, tone in said if text)


def _labelled(label: str, text: str, width: int, most: int, tone: Tone) -> Iterator[Line]:
    """An ellipsis ends what has no room; the whole stands where the finding is told in full."""
    for number, part in enumerate(cut(wrap(text, max(width - _LABEL, 20)), most)):
        yield line(Span(pad(label if not number else "", _LABEL), "dim"), Span(part, tone))


def gain_text(finding: Finding) -> str:
    """`may save 21.3 to 32.2 us a call (31 to 47 %), measured`; empty where nothing is known or lost."""
    if finding.saves is None or not finding.cost_ms:
        return ""
    saves = duration_range(finding.saves)
    if finding.account == "run":
        return f"may save {saves} once, {finding.how}"
    share = ""
    if finding.share is not None:
        each = [percent(finding.share * ms / finding.cost_ms) for ms in finding.saves]
        share = f" ({each[0].removesuffix(' %')} to {each[1]})" if each[0] != each[1] else f" ({each[0]})"
    return f"may save {saves} a call{share}, {finding.how}"


def told_in_full(finding: Finding) -> tuple[tuple[str, str], ...]:
    """A finding's sentences with what each is, none of them cut."""
    parts = (("", title(finding)), ("why", why(finding)), ("seen", finding.title), ("do", finding.advice))
    return (*parts, *(("", change) for change in finding.change), ("gain", gain_text(finding) or "not known"))


def saves_text(finding: Finding) -> str:
    """In a table's cell: `1.05–3.17 ms`, `≤ 3.17 ms`, of what the run pays once `9.10 s once`; empty where
    nothing is known or lost."""
    if finding.saves is None:
        return ""
    return f"{duration_range(finding.saves, '–', '≤ ')}{' once' if finding.account == 'run' else ''}"


# -- sections


def section(name: str, width: int, columns: Sequence[tuple[str, int]] = ()) -> Line:
    """`── Where ───── time ──`: the columns' titles stand over their right edges."""
    text = f"── {name} "
    right = ""
    for column, size in columns:
        right += f" {column}".rjust(size - 1, "─").rjust(size, " " if right else "─")
    rule = "─" * max(width - cells(text) - cells(right), 0)
    return line(
        Span("── ", "dim"), Span(f"{name} ", "accent"), Span(crop(rule + right, width - cells(text)), "dim")
    )


def call_lines(explanation: Explanation, width: int, most: int | None = None) -> Iterator[Line]:
    """The ledger, in no more than `most` rows, and what compiling took beside it."""
    if explanation.ledger.parts or explanation.ledger.compile_s is not None:
        yield section("Where one call goes", width)
        yield from ledger_lines(explanation.ledger, width, most)
    if said := compile_line(explanation):
        yield toned(crop(f"  {said}", width), "dim")


class NamedPart(NamedTuple):
    """A part of a call in plain words; `share` is of the whole call, `source` what the figure rests on."""

    name: str
    ms: float
    share: float
    source: str
    tone: Tone


def named_parts(ledger: Ledger) -> list[NamedPart]:
    """One steady call's time with what is unexplained."""
    parts = list(ledger.parts)
    if parts and abs(ledger.unexplained_ms or 0.0) >= LEAST_MS:
        parts.append(LedgerPart("unexplained", ledger.unexplained_ms or 0.0))
    whole = ledger.compiled_ms or sum(part.ms for part in parts) or 1.0
    named = []
    for part in parts:
        ms = part.ms if abs(part.ms) >= LEAST_MS else 0.0
        tone: Tone = "warn" if part.part == "unexplained" else "accent"
        name, source = PARTS.get(part.part, part.part), SOURCES.get(part.source, part.source)
        named.append(NamedPart(name, ms, ms / whole, source, tone))
    return named


def _folded(parts: list[NamedPart], most: int | None) -> list[NamedPart]:
    """Of more than `most` parts the smallest known ones together; what is unexplained keeps its size."""
    if most is None or len(parts) <= most:
        return parts
    known = [part for part in parts if part.tone != "warn"]
    small = sorted(known, key=lambda part: abs(part.ms))[: len(parts) - most + 1]
    source = small[0].source if len({part.source for part in small}) == 1 else ""
    ms, share = sum(part.ms for part in small), sum(part.share for part in small)
    rest = NamedPart(f"{len(small)} smaller parts", ms, share, source, "dim")
    return [*(part for part in parts if part not in small), rest]


def ledger_lines(ledger: Ledger, width: int, most: int | None = None) -> Iterator[Line]:
    """One steady call's time as bars, with what is unexplained and what each figure rests on. Of more than
    `most` parts the smallest known ones are one."""
    parts = _folded(named_parts(ledger), most)
    sources = max((cells(part.source) for part in parts), default=0)
    shares = max((cells(percent(part.share)) + 1 for part in parts), default=0)
    share = max(_SHARE, shares)
    name = min(_NAMES[width >= _WIDE], max((cells(part.name) for part in parts), default=0))
    room = min(_WIDEST_BAR, width - name - _MS - share - sources - 5)
    # Where there is no room for both, what a figure rests on is worth more than its bar.
    room = room if room >= _LEAST_BAR else 0
    for part in parts:
        yield line(
            f"  {pad(elide(part.name, name), name)}{duration(part.ms):>{_MS}}",
            Span(f"{percent(part.share):>{share}} ", "dim"),
            Span(bar(part.share, room) if room else "", part.tone),
            Span(crop(f" {part.source}", width - name - _MS - share - room - 3), "dim"),
        )


def missing_lines(ledger: Ledger, width: int) -> Iterator[Line]:
    """Where two times of one thing disagree, and what was not measured and how to get it."""
    for text in ledger.doubts:
        yield from wrapped(text, width, "warn", "  ", "    ")
    for text in ledger.missing:
        yield from wrapped(f"not known: {text}", width, "dim", "  ", "    ")


def _change_rows(
    findings: Sequence[Finding], width: int, trials: Mapping[str, TrialReport], most: int
) -> Rows:
    if not findings:
        return
    reports = by_finding(findings, trials)
    yield section("What to change", width, (("may save", _MS + 5), ("sure", _SURE))), None
    for number, finding in enumerate(findings):
        if number and finding.rule in _NO_CHANGE:
            continue
        yield _finding_row(number, finding, width), finding
        if finding.severity != "low":
            yield from ((item, finding) for item in _sentence(finding.title, width, most, "dim"))
        for text in finding.change:
            yield change_line(text, width, "     "), finding
        if not finding.change and number and finding.severity != "low":
            yield from ((item, finding) for item in _sentence(f"→ {finding.advice}", width, most, "accent"))
        if number in reports:
            for item in trial_lines(reports[number], max(40, width - 5)):
                yield line("     ", *item.spans), finding


def _sentence(text: str, width: int, most: int, tone: Tone) -> Iterator[Line]:
    """Below a finding."""
    for part in cut(wrap(text, width - 5), most):
        yield toned(f"     {part}", tone)


def _finding_row(number: int, finding: Finding, width: int) -> Line:
    saves = saves_text(finding)
    room = width - _MS - 5 - _SURE
    tone = TONES[finding.severity]
    return line(
        Span(pad(elide(f"{number + 1} {title(finding)}", room - 1), room), tone),
        Span(f"{saves:>{_MS + 5}}"),
        Span(f"{finding.how if saves else '':>{_SURE}}", "dim"),
    )


def change_line(text: str, width: int, indent: str) -> Line:
    """A line of a change, removed or added, or an advice in short."""
    tone: Tone = {"-": "bad", "+": "good", "→": "accent"}.get(text[:1], "dim")  # type: ignore[assignment]
    return toned(crop(f"{indent}{text}", width), tone)


def _of_calls(explanation: Explanation) -> str:
    """What calls the times of places are of, where a profiler made them longer than the verdict's."""
    ledger = explanation.sides.ledger if explanation.sides is not None else None
    slowed = ledger is not None and ledger.source == "profile" and explanation.ledger.compiled_ms is not None
    profiled = any(place.how == "profiled" for place in explanation.places)
    return ", in slower profiled calls" if slowed and profiled else ""


def place_rows(explanation: Explanation, width: int, rest: str = "", most: int | None = None) -> Rows:
    """Where in the program a call's time goes, at most so many rows; `rest` says how to see the others."""
    places, whole = explanation.places, explanation.ledger.compiled_ms
    # Times of calls that a profiler or others made far longer are no answer to where this call's time goes.
    far = whole is not None and sum(place.ms for place in places) > _FAR_LONGER * whole
    if not places or (far and _of_calls(explanation)):
        return
    eager = any(place.eager_ms is not None for place in places)
    columns = [("time", _MS + 1), *([("eager", _MS)] if eager else []), ("operators → kernels", 21)]
    yield section(f"Where{_of_calls(explanation)}", width, columns), None
    room = width - sum(size for _, size in columns)
    for place in places[:most]:
        became = f"{place.operators:,} → {place.kernels:,}" if place.operators else f"{place.kernels:,}"
        theirs = "none" if not place.eager_ms else duration(place.eager_ms)
        theirs = theirs if place.eager_ms is not None else ""
        yield (
            line(
                pad(elide(f"  {place.name}", room - 1), room),
                f"{duration(place.ms):>{_MS + 1}}",
                Span(f"{theirs:>{_MS}}" if eager else "", "dim"),
                Span(f"{became:>21}", "dim"),
            ),
            place,
        )
    if others := places[most:] if most is not None else ():
        left = duration(sum(place.ms for place in others))
        yield toned(f"  {len(others)} more, {left}{rest}", "dim"), None


# -- history


def _past_rows(past: Sequence[PastRun], width: int) -> Rows:
    yield section("History", width), None
    for item in past[:_PAST]:
        said = {"capture": "captured", "trial": "tried", "replay": "graphs replayed alone"}[item.kind]
        label = f"{said} {item.label}" if item.label else said
        other = OP_BY_OP if item.kind == "replay" else "eager"
        how = past_span(item, other)
        times = duration(item.compiled_ms) if item.compiled_ms is not None else "not timed"
        room = width - 19 - _MS - 1 - cells(how.text) - 3
        label = pad(elide(label, max(room, 8)), max(room, 8))
        yield (
            line(Span(f"  {when(item.started):<17}", "dim"), f"{label} {times:>{_MS}}  ", how),
            (item if item.path else None),
        )
    if len(past) > _PAST:
        yield toned(f"  {len(past) - _PAST} older", "dim"), None
