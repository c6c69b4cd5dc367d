"""Finding out what no rule knows: candidates tried one by one, the best of them again in turns.

A first round of each, beside the command as it is, leaves out what is plainly no better; only what is left is
checked and timed as a single trial would be. Executes the user's command.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from inspector.analysis.steady import RUN_TO_RUN
from inspector.capture.environment import CaptureOptions
from inspector.model.problem import InspectorError
from inspector.model.trial import AUTO, ROUNDS, Outcome, TrialReport
from inspector.readers.run import Run
from inspector.units import plural

from .run import AS_IT_IS, capture_with, checked, into_trials
from .settings import Setting
from .turns import time_in_turns

BUDGET_S = 900.0
"""A capture and a few runs of each candidate; whoever waits longer says so."""
FINALISTS = 3


@dataclass(frozen=True, slots=True)
class _Tried:
    options: CaptureOptions
    outcome: Outcome


def try_auto(
    run: Run,
    settings: Sequence[Setting],
    budget_s: float = BUDGET_S,
    progress: Callable[[str], None] = lambda _: None,
) -> TrialReport:
    """The settings that made a steady call shorter first, the others behind them. No candidate is begun after
    `budget_s`, and the report names those. Raises InspectorError as `try_settings` does."""
    end = time.monotonic() + budget_s
    with into_trials(run) as folder:
        base = _Tried(*capture_with(run, folder, AS_IT_IS, None))
        if base.outcome.failure:
            raise InspectorError(f"the command as it is: {base.outcome.failure}", exit_code=1)
        tried: list[_Tried] = []
        for number, setting in enumerate(settings):
            if time.monotonic() > end:
                break
            progress(f"{setting.label}: {number + 1} of {plural(len(settings), 'candidate')}")
            one = _Tried(*capture_with(run, folder, setting.label, setting.trial))
            tried.append(one if one.outcome.failure else _once(base, one, progress))
        best = [one for one in _in_order(tried) if _better(one.outcome)][:FINALISTS]
        again = _in_turns([base, *best], progress)
    rest = [one.outcome for one in _in_order(tried) if one not in best]
    return TrialReport(
        again[0],
        (*sorted(again[1:], key=_time), *rest),
        AUTO,
        tuple(setting.label for setting in settings[len(tried) :]),
    )


def _once(base: _Tried, one: _Tried, progress: Callable[[str], None]) -> _Tried:
    """One run of each side: what the candidate took, and what the command as it is took beside it."""
    before, after = time_in_turns([base.options, one.options], progress, rounds=1)
    return replace(one, outcome=replace(one.outcome, ms=after, beside_ms=before, rounds=1))


def _in_turns(runs: Sequence[_Tried], progress: Callable[[str], None]) -> list[Outcome]:
    """Results checked, and all timed in turns."""
    outcomes = [checked(one.outcome, progress) for one in runs]
    times = time_in_turns([one.options for one in runs], progress)
    return [
        replace(outcome, ms=ms or outcome.ms, beside_ms=None, rounds=ROUNDS)
        for outcome, ms in zip(outcomes, times, strict=True)
    ]


def _better(outcome: Outcome) -> bool:
    """Whether one round leaves it possible that the setting wins more than two runs differ by."""
    if outcome.ms is None or not outcome.beside_ms:
        return False
    return outcome.ms < (1 - RUN_TO_RUN) * outcome.beside_ms


def _in_order(tried: Sequence[_Tried]) -> list[_Tried]:
    return sorted(tried, key=lambda one: (one.outcome.ms or 1.0) / (one.outcome.beside_ms or 1e-9))


def _time(outcome: Outcome) -> float:
    return outcome.ms if outcome.ms is not None else float("inf")
