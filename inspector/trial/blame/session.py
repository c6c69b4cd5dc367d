"""A search for a cause: sides first, then what can be taken back, group by group, within a budget.

All that was measured is in FOLDER/state.json, written whole after each run; the same question asked again
goes on where it ended. Executes the user's command.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import count
from pathlib import Path

from inspector.explain.times import measured_times
from inspector.files import write_whole
from inspector.frozen import dataclass
from inspector.model.blame import EAGER, SAME, SEVERAL, A, B, Blame, Factor, Kind, MetricName, Try
from inspector.model.codec import Malformed, from_data, to_data
from inspector.model.problem import InspectorError
from inspector.readers.run import Run
from inspector.readers.text import from_json
from inspector.units import plural

from ..run import folder_of, refuse_foreign, repeating
from . import factors as known
from .measure import (
    Measured,
    Subject,
    measure,
    options_with,
    reproduction,
    run_plain,
    with_kernels,
    without_listing,
)
from .packages import differing_packages
from .scale import NOISY, Scale, differ
from .search import smallest

FOLDER = "blame"
KERNELS = "kernels"
RUNS = 12
MINUTES = 60.0
_MOST_AGAIN = 3
"""Runs of one thing whose value lies in the middle."""
SPENT = "the budget is spent: the same command with more --runs or --minutes goes on from here"


@dataclass(frozen=True, slots=True)
class Question:
    """`over` are the kinds of factors to look at, in order. `limit`: at most so much is good, where there is
    no other side."""

    run: Run
    other: Run | None
    metric: MetricName
    over: tuple[Kind, ...]
    pythons: tuple[str, str] | None = None
    limit: float | None = None
    runs: int = RUNS
    minutes: float = MINUTES

    def data(self) -> dict[str, object]:
        """What makes it the same question; the budget doesn't."""
        return {
            "run": str(self.run.root.absolute()),
            "other": str(self.other.root.absolute()) if self.other is not None else None,
            "metric": self.metric,
            "over": list(self.over),
            "pythons": list(self.pythons or ()),
            "limit": self.limit,
        }


class Spent(Exception):
    """No run is left in the budget."""


@dataclass
class Search:
    """One question being answered. `told` hears each run as it ends, `begins` what it is as it begins."""

    question: Question
    folder: Path
    told: Callable[[Try], None]
    tries: list[Try] = field(default_factory=list)
    begins: Callable[[str], None] = lambda _: None
    met: dict[str, list[str]] = field(default_factory=dict)
    """What B could do without: the names by kind."""
    left: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._answers: dict[str, bool | None] = {}
        self._kept = list(self.tries)
        self._began = time.monotonic()
        self._ran = 0
        both = self.question.pythons
        run, other = self.question.run, self.question.other
        self.b = Subject(run, both[1] if both else None)
        self.a = Subject(run, both[0]) if both else Subject(other) if other is not None else None
        self.scale: Scale | None = None

    # -- one run

    def value(self, what: str, subject: Subject, chosen: Sequence[Factor] = ()) -> float | None:
        """The next value of this, from the log where it is in it. Raises Spent."""
        position = self._asked[what]
        self._asked[what] += 1
        logged = [item for item in self._kept if item.what == what]
        if position < len(logged):
            return logged[position].value
        spent = (time.monotonic() - self._began) / 60
        if self._ran >= self.question.runs or spent >= self.question.minutes:
            raise Spent
        number = len(self.tries) + 1
        out = self.folder / f"run{number}"
        # What was interrupted there is begun again.
        shutil.rmtree(out, ignore_errors=True)
        began = time.monotonic()
        self.begins(f"run {self._ran + 1} of {self.question.runs} at most, {spent:.0f} min so far: {what}")
        measured = self._run(what, subject, chosen, out)
        self._ran += 1
        seconds = round(time.monotonic() - began, 2)
        item = Try(number, what, measured.value, None, seconds, out.name, measured.problem)
        self.tries.append(item)
        if what == B and not self.met:
            self.met = {"pass": list(measured.passes), "lowering": list(measured.lowerings)}
        self._save()
        self.told(item)
        return measured.value

    def _run(self, what: str, subject: Subject, chosen: Sequence[Factor], out: Path) -> Measured:
        options = replace(options_with(subject, self.a, chosen, self.folder), out=out)
        if self.question.metric != "compile":
            captures = [side.run.root for side in (self.b, self.a) if side is not None]
            options = with_kernels(options, self.folder / KERNELS, captures)
        reference = self.folder / "eager"
        with repeating(subject.run, out):
            if what != EAGER:
                return measure(self.question.metric, options, reference)
            code = run_plain(replace(options, out=reference), "eager", results=True)
            return Measured(None if code else 0.0, f"exit code {code}" if code else "", str(reference))

    def _save(self) -> None:
        state = {
            "question": self.question.data(),
            "tries": [to_data(item) for item in self.tries],
            "met": self.met,
        }
        write_whole(self.folder / "state.json", json.dumps(state, indent=1))

    # -- the sides

    def sides(self) -> bool | None:
        """Whether they differ; None where a side says nothing. Sets the scale."""
        metric = self.question.metric
        ours: list[float] = []
        theirs: list[float] = []
        if metric == "error" and self.value(EAGER, self.b) is None:
            return None
        while True:
            # B A A B: a drift of the machine hits both.
            for side in ("b", "a") if len(theirs) % 2 == 0 else ("a", "b"):
                subject = self.b if side == "b" else self.a
                if subject is None:
                    continue
                value = self.value(B if side == "b" else A, subject)
                if value is None:
                    return None
                (theirs if side == "b" else ours).append(value)
            if self.a is None:
                limit = self._limit()
                self.scale = Scale(metric, None, theirs[0], limit)
                near = self.scale.near(_middle(theirs))
                if near is not None or len(theirs) == _MOST_AGAIN:
                    return near == "b"
                continue
            answer = differ(metric, ours, theirs)
            if answer is not None:
                if answer:
                    self.scale = Scale(metric, _middle(ours), _middle(theirs))
                return answer

    def _limit(self) -> float:
        if self.question.limit is not None:
            return self.question.limit
        return 0.0

    # -- the search

    def good(self, factors: Sequence[Factor], chosen: frozenset[int]) -> bool | None:
        """Whether B without these is as good as A."""
        assert self.scale is not None
        picked = [factors[number] for number in sorted(chosen)]
        what = described(factors, picked)
        if what not in self._answers:
            self._answers[what] = self._good(what, picked)
        return self._answers[what]

    def _good(self, what: str, picked: Sequence[Factor]) -> bool | None:
        assert self.scale is not None
        values: list[float] = []
        for _ in range(_MOST_AGAIN if self.question.metric in NOISY else 1):
            value = self.value(what, self.b, picked)
            if value is None or self._fails_otherwise(what):
                return None
            values.append(value)
            near = self.scale.near(_middle(values))
            if near is not None:
                return near == "a"
        return None

    def _fails_otherwise(self, what: str) -> bool:
        """Whether an exit code is that of another failure than B's: what was taken back broke the program."""
        if self.question.metric != "exit":
            return False
        newest = {item.what: item for item in self.tries}
        return bool(newest[what].value) and newest[what].problem != newest[B].problem

    def repeats(self, causes: Sequence[Factor]) -> bool:
        """Whether both sides are what they were once more, of what need not repeat."""
        assert self.scale is not None
        metric = self.question.metric
        if metric not in NOISY and metric != "exit":
            return True
        as_it_is, without = self.value(B, self.b), self.value(described((), causes), self.b, causes)
        return self.scale.near(as_it_is) != "a" and self.scale.near(without) != "b"

    def groups(self) -> list[tuple[Kind, list[Factor]]]:
        """What to take back, by kind, in the order of the question."""
        question = self.question
        made: dict[Kind, Callable[[], list[Factor]]] = {
            "setting": self._settings,
            "package": self._packages,
            "pass": lambda: known.passes(self.met.get("pass", ())),
            "fusion": lambda: known.fusions(question.run, question.other),
            "switch": lambda: known.switches(question.run),
            "lowering": lambda: known.lowerings(self.met.get("lowering", ())),
        }
        groups = [(kind, made[kind]()) for kind in question.over if kind in made]
        return [(kind, factors) for kind, factors in groups if factors]

    def _settings(self) -> list[Factor]:
        if self.question.other is None:
            return []
        factors, fixed = known.settings(self.question.other, self.question.run)
        self.left += fixed
        return factors

    def _packages(self) -> list[Factor]:
        if self.question.pythons is None:
            return []
        factors, fixed = differing_packages(*self.question.pythons)
        self.left += fixed
        return factors

    def causes(self) -> tuple[list[Factor], str]:
        """(the causes, the verdict)."""
        different = self.sides()
        if different is None:
            last = self.tries[-1]
            return [], f"{last.what} says nothing: {last.problem}"
        if not different:
            return [], SAME
        groups = self.groups()
        if not groups:
            return [], "the sides differ, and there is nothing to take back"
        refused: list[tuple[list[Factor], list[int]]] = []
        try:
            for _, factors in groups:
                every = list(range(len(factors)))
                picked = smallest(every, partial(self.good, factors))
                if picked:
                    return self._confirmed([factors[number] for number in picked])
                refused.append((factors, every))
            # What makes up for a cause may be in the same group: halves of what made no difference.
            while refused:
                factors, group = refused.pop(0)
                for half in (group[: len(group) // 2], group[len(group) // 2 :]) if len(group) > 1 else ():
                    picked = smallest(half, partial(self.good, factors))
                    if picked:
                        return self._confirmed([factors[number] for number in picked])
                    refused.append((factors, half))
        except Spent:
            return [], f"no cause in {plural(self._ran, 'run')}: {SPENT}"
        looked = ", ".join(_counted(len(factors), kind) for kind, factors in groups)
        return [], f"the sides differ, and none of what was taken back makes it: {looked}"

    def _confirmed(self, causes: list[Factor]) -> tuple[list[Factor], str]:
        if not self.repeats(causes):
            return [], "no difference that repeats"
        words = " and ".join(factor.label for factor in causes)
        return causes, words


def blame(
    question: Question,
    told: Callable[[Try], None] = lambda _: None,
    begins: Callable[[str], None] = lambda _: None,
) -> Blame:
    """Look for the cause. Raises InspectorError where a run has no command to repeat or is not known to be
    the user's own capture, and where it is interrupted."""
    for run in (question.run, question.other):
        if run is not None:
            refuse_foreign(run)
    question = _with_limit(question)
    folder, tries, met = _state(question)
    search = Search(question, folder, told, tries, begins, met)
    try:
        causes, verdict = search.causes()
    except Spent:
        causes, verdict = [], f"no answer in {plural(len(search.tries), 'run')}: {SPENT}"
    finally:
        shutil.rmtree(folder / KERNELS, ignore_errors=True)
    scale = search.scale
    commands = _commands(search, causes) if causes else ()
    report = Blame(
        question.metric,
        scale.a if scale is not None else None,
        scale.b if scale is not None else None,
        question.limit if search.a is None else None,
        tuple(causes),
        verdict,
        tuple(_judged(item, scale) for item in search.tries),
        commands,
        tuple(search.left),
        str(folder),
    )
    write_whole(folder / "blame.json", json.dumps(to_data(report), indent=1))
    return report


def _judged(item: Try, scale: Scale | None) -> Try:
    """With whose side its value is on, which of the first runs was not known when they ended."""
    if scale is None or item.what == EAGER:
        return item
    return replace(item, near=scale.near(item.value))


def _with_limit(question: Question) -> Question:
    """The question with what is good, where the run itself says that: eager's time."""
    if question.other is not None or question.pythons is not None or question.limit is not None:
        return question
    if question.metric == "exit":
        return replace(question, limit=0.0)
    if question.metric == "time" and (eager := measured_times(question.run).eager_ms) is not None:
        return replace(question, limit=eager)
    raise InspectorError(
        f"{question.run.shown}: nothing to compare with: name another run, two interpreters (--python A "
        "--python B), or what is good (--below VALUE)"
    )


def _state(question: Question) -> tuple[Path, list[Try], dict[str, list[str]]]:
    """The folder of this question, with what is known: that of before, where it was asked."""
    parent = question.run.root.absolute() / FOLDER
    for number in count(1):
        folder = parent / str(number)
        if not folder.exists():
            folder.mkdir(parents=True)
            return folder, [], {}
        try:
            state = from_json((folder / "state.json").read_bytes())
            if state["question"] == question.data():
                tries = [from_data(Try, item, ignore_unknown=True) for item in state["tries"]]
                return folder, tries, {kind: list(map(str, names)) for kind, names in state["met"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, Malformed):
            continue
    raise AssertionError


def _commands(search: Search, causes: Sequence[Factor]) -> tuple[str, ...]:
    lines = []
    for name, chosen in (("with", ()), ("without", causes)):
        options = options_with(search.b, search.a, chosen, search.folder)
        options = replace(options, env=without_listing(options.env, bool(chosen)))
        lines.append(reproduction(options, folder_of(search.question.run).resolve(), f"blame-{name}"))
    return tuple(lines)


def described(factors: Sequence[Factor], picked: Sequence[Factor]) -> str:
    """`B without X`: what a run took back, in words that name it."""
    if len(picked) > 1 and len(picked) == len(factors):
        return f"B with all {_counted(len(picked), factors[0].kind)} taken back"
    return f"B with {'; '.join(factor.label for factor in picked)}"


def _counted(number: int, kind: Kind) -> str:
    several = next(words for words, one in SEVERAL.items() if one == kind)
    return f"{number} {kind if number == 1 else several}"


def _middle(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
