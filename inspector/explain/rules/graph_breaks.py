"""Dynamo leaves the graph and goes on in Python: between the parts nothing fuses, and each part has guards.

Looks at: graph breaks, but not frames that were given up (`compile_failed`); the time of a call outside its
graphs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable

from inspector.analysis.side_totals import NAMED
from inspector.analysis.steady import MOST
from inspector.analysis.two_sides import HOST as HOST_SIDE
from inspector.explain.case import Case
from inspector.explain.changes import Change, remove
from inspector.explain.claims import on_part
from inspector.explain.failures import (
    IN_ONE_CALL,
    SCALARS,
    compile_failures,
    decides,
    hinted,
    in_loop,
    is_rnn,
)
from inspector.explain.ledger import operators_outside, outside_graphs_ms
from inspector.explain.library_arguments import cure
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import HOST, ClaimHow
from inspector.model.explain import Evidence, Finding, Severity, Trial
from inspector.model.logs import GraphBreak
from inspector.model.source import SourceLocation, is_library, users_place
from inspector.readers.failures import parse_torchs
from inspector.units import plural

_ENTERED = (1, 2)
"""Times what entering a compiled graph takes: leaving compiled code and entering it again, with the resume
function between."""

_CALLS = ("RNN", "LSTM", "disable", "skip")
"""What is left out is a function of its own, whose operators run between the graphs."""
_BRANCH = "Data-dependent"
_ASKED = ("graph_break()", "torch._dynamo.graph_break")
_ON_PURPOSE = "nothing here: torch breaks its graphs there on purpose, and compiles what follows by itself"
_ADVICE: tuple[tuple[tuple[str, ...], str], ...] = (
    (SCALARS, "keep the value a tensor, or capture it: torch._dynamo.config.capture_scalar_outputs = True"),
    (
        ("data-dependent", _BRANCH, "generic_jump", "Dynamic control flow"),
        ("replace the branch on a tensor's value by torch.where or torch.cond"),
    ),
    (
        ("print", "logging", "warnings"),
        ("take printing and logging out of the compiled function, or log outside it"),
    ),
    (_ASKED, "remove the call of torch._dynamo.graph_break()"),
    (
        ("disable", "skip_files", "skipped"),
        ("the called function is excluded from compiling: call it outside, or include it"),
    ),
    (("numpy", "np."), "do it with torch operators in place of NumPy ones"),
    (
        ("nonzero", "dynamic shape operator", "dynamic output"),
        ("the output's size depends on data: use a mask, or capture_dynamic_output_shape_ops"),
    ),
)

#   Explanation: Dynamo does not know how to trace builtin operator `print` with argument types ['str']
_EXPLAINED = re.compile(r"^\s+Explanation: (.*)$", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")

_THEIRS = "the break is in a library's own code; what calls it may stay out of the compiled function"


def find(case: Case) -> Iterable[Finding]:
    places: dict[tuple[str, int], tuple[SourceLocation, str]] = {}
    nowhere = 0
    failures = compile_failures(case)
    failed = {str(item.failure.place) for item in failures}
    # What leaves a whole loop in eager is told there, of the frames that it only breaks too.
    loops = {str(item.place) for item in failures if in_loop(case, item)}
    given_up = {(item.compile_id or "").partition("_")[0] for item in case.facts.given_up}
    # One line may lead to a frame that is given up and to others that only break.
    breaks = [
        broken
        for broken in case.facts.graph_breaks
        if (there := str(_users(broken))) not in loops
        and (there not in failed or _elsewhere(broken, given_up))
    ]
    known = failed | {str(broken.location) for broken in case.facts.graph_breaks}
    # What is met most often is told, with what to do about it.
    often: Counter[object] = Counter()
    for broken in breaks:
        often.update((broken.headline, (broken.headline, _users(broken))))

    def seldom(broken: GraphBreak) -> tuple[bool, int, int]:
        there = _users(broken)
        return _of_torch(broken), -often[broken.headline], -often[broken.headline, there]

    for broken in sorted(breaks, key=seldom):
        place = _users(broken)
        if place is None or not place.line:
            nowhere += 1
        else:
            places.setdefault((place.path, place.line), (place, broken.headline))
    for event in case.events:
        if event.kind == "graph_break" and event.location is not None and str(event.location) not in known:
            key = (event.location.path, event.location.line)
            places.setdefault(key, (event.location, event.reason.splitlines()[0] if event.reason else ""))
    number = len(places) + nowhere
    if not number:
        return
    outside = outside_graphs_ms(case)
    least, most = (number * times * case.costs.graph_ms for times in _ENTERED)
    if outside is not None:
        called = any(word in broken.reason for broken in breaks for word in _CALLS)
        least, most = _of_host(case, outside, min(least, outside) if called else outside)
    cost = (least + most) / 2
    share = case.share(cost)
    slower = case.times.ratio is not None and case.times.ratio < 1.0
    floor: Severity = "high" if slower or not case.graphs else "medium"
    theirs = bool(breaks) and all(_theirs(case, broken) for broken in breaks)
    on_purpose = theirs and all(_in_torch(broken) and cure(broken) is None for broken in breaks)
    if theirs or (case.sides is not None and case.sides.joined.compiled is not None):
        floor = "low"
    how: ClaimHow = "measured" if outside is not None else "counted"
    claims = (on_part(HOST, (least, most), how),) if most > 0 else ()
    shown = list(places.values())
    first = shown[0] if shown else (None, "no place known")
    evidence = tuple(source_evidence(case, location) for location, _ in shown[:6])
    reasons = [headline for _, headline in shown]
    told = [broken for broken in breaks if broken.headline == first[1]]
    # What a condition asks for is no use as a number of the graph.
    asked = [broken for broken in breaks if decides(case, broken.headline, _users(broken))]
    if decides(case, first[1], first[0]):
        reasons = [_BRANCH, *reasons[1:]]
    hints = _hints(told)
    where = f" at {first[0].short}" if first[0] is not None else ""
    cured = next(filter(None, map(cure, told)), None)
    # The same break counts each time, as in a summary; its place once.
    times = max(len(breaks), number)
    others = plural(number - 1, "more place") if times > number else f"{number - 1} more"
    more = f" and {others}" if number > 1 else ""
    reason = f"{len(told)} of them: {first[1]}" if 0 < len(told) < times else first[1]
    # What runs between the pieces may be most of a call.
    beside = operators_outside(case) if not theirs else None
    if beside is not None and beside[1] >= MOST:
        reason = f"{reason}; {beside[0]}"
        floor = "medium" if floor == "low" else floor
    yield Finding(
        rule="graph_breaks",
        severity="low" if on_purpose else severity_of(share, at_least=floor),
        title=f"{plural(times, 'graph break')}{where}{more}: {reason}",
        graph=None,
        cost_ms=None if on_purpose else cost or None,
        claims=() if on_purpose else claims,
        evidence=evidence or (Evidence(case.log_path, None, "graph breaks"),),
        advice=cured
        or (_ON_PURPOSE if told and all(map(_of_torch, told)) else "")
        or (_THEIRS if theirs else _advice(reasons, hints, _names(told))),
        how="measured" if outside is not None else "estimated",
        share=None if on_purpose else share,
        change=_change(case, [location for location, _ in shown]),
        trial=_trial(reasons)
        or next(filter(None, map(hinted, _hints(broken for broken in breaks if broken not in asked))), None),
    )


def _in_torch(broken: GraphBreak) -> bool:
    return broken.location is not None and "/torch/" in broken.location.path


def _of_torch(broken: GraphBreak) -> bool:
    """Whether torch asks for it on purpose (torch/optim/optimizer.py: _use_grad_for_differentiable)."""
    return _in_torch(broken) and any(word in broken.headline for word in _ASKED)


def _users(broken: GraphBreak) -> SourceLocation | None:
    return users_place(broken.location, broken.frames)


def _elsewhere(broken: GraphBreak, given_up: Collection[str]) -> bool:
    """Whether it is of another frame than those that were given up, by their compilations."""
    return bool(given_up) and (broken.compile_id or "").partition("_")[0] not in given_up


def _of_host(case: Case, outside: float, least: float) -> tuple[float, float]:
    """Milliseconds a call of what is outside of the graphs that the host takes there: the operators that run
    in between are no part of it. With profiles of both sides at least what it takes more than in eager."""
    if case.sides is None or case.sides.joined.compiled is None:
        # On a GPU they are not in it: the host only launches them.
        return (outside if case.gpu else least), outside
    operators = sum(
        block.compiled_ms or 0.0
        for block in case.sides.joined.blocks
        if block.place == "outside" and block.inside
    )
    most = max(outside - operators, 0.0)
    ledger = case.walls
    if ledger is None:
        return min(least, most), most
    more = sum(item.ms for item in ledger.differences if item.part in (HOST_SIDE, *NAMED))
    return min(max(more, 0.0), most), most


def _hints(breaks: Iterable[GraphBreak]) -> list[str]:
    return [hint for broken in breaks if (hint := parse_torchs(broken.reason, None, False).hint)]


def _theirs(case: Case, broken: GraphBreak) -> bool:
    """Whether the break is in a library's own code that none of the user's compiled lines leads to."""
    if broken.location is None or not is_library(broken.location.path):
        return False
    place = _users(broken)
    if place is None or is_library(place.path) or place.function == "<module>":
        return True
    code = source_evidence(case, place).text
    names = {name for program in case.programs for name in program.compiled_names}
    return any(re.search(rf"\b{re.escape(name)}\(", code) for name in names)


def _names(told: list[GraphBreak]) -> str:
    """What torch's explanation of a break quotes: of `print` its headline says "builtin operator"."""
    said = _EXPLAINED.search(told[0].reason) if told else None
    return " ".join(_QUOTED.findall(said[1])) if said is not None else ""


def _advice(reasons: list[str], hints: list[str], names: str = "") -> str:
    """For the break that is named first, in our words or torch's."""
    for text in (*reasons[:1], names):
        for words, advice in _ADVICE:
            if any(word in text for word in words):
                return advice
    if hints:
        return f"torch's hint: {hints[0]}" + (f"; {IN_ONE_CALL}" if any(map(is_rnn, reasons[:1])) else "")
    return (
        "rewrite the line so that Dynamo can follow it, or call it outside the compiled "
        "function; fullgraph=True names each"
    )


def _trial(reasons: list[str]) -> Trial | None:
    if reasons and all(any(word in reason for word in SCALARS) for reason in reasons[:1]):
        return Trial(config=(("dynamo.capture_scalar_outputs", True),))
    return None


def _change(case: Case, places: list[SourceLocation]) -> Change:
    """A line that only prints, or breaks the graph on purpose, can go."""
    for place in places:
        for program in case.programs:
            text = program.line(place.line)
            named = program.path.rsplit("/", 1)[-1] == place.path.rsplit("/", 1)[-1]
            if named and text.startswith(("print(", "torch._dynamo.graph_break(", "logging.", "logger.")):
                return remove(program, place.line)
    return ()


RULE = Rule("graph_breaks", Stage.PROGRAM, find, fact=True)
