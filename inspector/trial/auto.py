"""Finding out what no rule knows: candidates tried one by one, the best of them again in turns.

A first run of each without debug output, the command as it is beside them, leaves out what is plainly no
better; only what is left is captured, timed in turns and checked, as a single trial is. The time for that is
kept back from the budget. Executes the user's command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from inspector.analysis.steady import RUN_TO_RUN
from inspector.capture.environment import CaptureOptions
from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.model.trial import AUTO, ROUNDS, Outcome, TrialReport
from inspector.readers.run import Run
from inspector.units import plural

from .run import AS_IT_IS, capture_with, checked, into_trials, options_of
from .settings import Setting
from .turns import time_in_turns

BUDGET_S = 900.0
"""A run of each candidate and all of what the best ones take; whoever waits longer says so."""
FINALISTS = 3
BESIDE = 3
"""Candidates between two runs of the command as it is: a machine's speed hardly changes in that time."""
NO_TIME = "no time was left for that"


@dataclass(frozen=True, slots=True)
class _Tried:
    setting: Setting
    options: CaptureOptions
    outcome: Outcome


def try_auto(
    run: Run,
    settings: Sequence[Setting],
    budget_s: float = BUDGET_S,
    progress: Callable[[str], None] = lambda _: None,
) -> TrialReport:
    """The settings that made a steady call shorter first, the others behind them. No candidate is begun when
    what is left of `budget_s` is needed for the best ones, and the report names those. Raises InspectorError
    as `try_settings` does."""
    start = time.monotonic()
    with into_trials(run) as folder:
        as_is = _screened(run, folder, Setting(AS_IT_IS, None), progress)
        if as_is.outcome.ms is None:
            raise InspectorError(f"the command as it is: {as_is.outcome.failure}", exit_code=1)
        longest = time.monotonic() - start
        tried: list[_Tried] = []
        beside = as_is.outcome.ms
        for number, setting in enumerate(settings):
            began = time.monotonic()
            if began - start + _finals_s(longest, tried) > budget_s:
                break
            progress(f"{setting.label}: {number + 1} of {plural(len(settings), 'candidate')}")
            if number % BESIDE == 0:
                beside = time_in_turns([as_is.options], progress, rounds=1)[0] or beside
            one = _screened(run, folder, setting, progress)
            tried.append(replace(one, outcome=replace(one.outcome, beside_ms=beside)))
            longest = max(longest, time.monotonic() - began)
        best = [one for one in _in_order(tried) if _better(one.outcome)][:FINALISTS]
        base, *finals = _in_turns(run, folder, [as_is, *best], start + budget_s, progress)
    rest = [one.outcome for one in _in_order(tried) if one not in best]
    left = tuple(setting.label for setting in settings[len(tried) :])
    return TrialReport(base, (*sorted(finals, key=_time), *rest), AUTO, left)


def _screened(run: Run, folder: Path, setting: Setting, progress: Callable[[str], None]) -> _Tried:
    """One run that compiles anew, without debug output: what a steady call took."""
    options = options_of(run, folder / "screened", setting.label, setting.trial)
    assert options.out is not None
    (ms,) = time_in_turns([options], progress, rounds=1)
    failure = "" if ms is not None else f"it failed, or called nothing compiled: see {options.out}"
    outcome = Outcome(setting.label, setting.trial, ms, None, None, None, (), "", failure=failure, rounds=1)
    return _Tried(setting, options, outcome)


def _finals_s(longest_s: float, tried: Sequence[_Tried]) -> float:
    """Seconds that are kept for the best ones of what was tried so far, and one more: a capture of each, and
    of the command as it is, and the rounds, which compile nothing and take half as long or less."""
    number = min(sum(_better(one.outcome) for one in tried) + 1, FINALISTS) + 1
    return number * longest_s * (1 + ROUNDS / 2)


def _in_turns(
    run: Run, folder: Path, runs: Sequence[_Tried], end: float, progress: Callable[[str], None]
) -> list[Outcome]:
    """All captured, timed in turns, and then, as long as there is time, their results checked."""
    outcomes = []
    for one in runs:
        progress(f"{one.outcome.label}: capturing it")
        outcomes.append(capture_with(run, folder, one.outcome.label, one.setting.trial)[1])
    times = time_in_turns([one.options for one in runs], progress)
    timed = [
        replace(outcome, ms=ms or one.outcome.ms, rounds=ROUNDS)
        for outcome, one, ms in zip(outcomes, runs, times, strict=True)
    ]
    return [
        outcome
        if outcome.failure
        else checked(outcome, progress)
        if time.monotonic() < end
        else replace(outcome, unchecked=NO_TIME)
        for outcome in timed
    ]


def _better(outcome: Outcome) -> bool:
    """Whether one round leaves it possible that the setting wins more than two runs differ by."""
    if outcome.ms is None or not outcome.beside_ms:
        return False
    return outcome.ms < (1 - RUN_TO_RUN) * outcome.beside_ms


def _in_order(tried: Sequence[_Tried]) -> list[_Tried]:
    return sorted(tried, key=lambda one: (one.outcome.ms or float("inf")) / (one.outcome.beside_ms or 1.0))


def _time(outcome: Outcome) -> float:
    return outcome.ms if outcome.ms is not None else float("inf")
