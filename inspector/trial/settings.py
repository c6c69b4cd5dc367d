"""What to try: a finding's setting, or every mode, with what it should win."""

from __future__ import annotations

from collections.abc import Sequence

from inspector.frozen import dataclass
from inspector.model.explain import Explanation, Finding, Trial
from inspector.model.problem import InspectorError

MODES = ("default", "reduce-overhead", "max-autotune")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a finding says that a call saves: `saves_ms` of `of_ms`, the call that was explained.

    `compiling`: of a call with its share of all compiling. `rest_fixed`: what remains does not depend on how
    fast the host is, so that a slower host only loses more.
    """

    saves_ms: float
    of_ms: float | None = None
    compiling: bool = False
    rest_fixed: bool = False

    def at(self, base_ms: float | None) -> float:
        """The same for a call that takes `base_ms` now: two captures of one command are never the same."""
        if not self.of_ms or base_ms is None:
            return self.saves_ms
        if self.rest_fixed:
            return base_ms - (self.of_ms - self.saves_ms)
        return self.saves_ms * base_ms / self.of_ms


@dataclass(frozen=True, slots=True)
class Setting:
    """What to try, as it is shown, and what it should win where a finding says so."""

    label: str
    trial: Trial | None
    """None for the command as it is."""
    prediction: Prediction | None = None


def choose(explanation: Explanation, what: str) -> tuple[list[Setting], str]:
    """(what to try, the finding's rule) for a rule's name, ``modes`` or the first finding with a setting
    (``first``). Raises InspectorError where there is nothing to try."""
    if what == "modes":
        return [Setting(f'mode="{mode}"', Trial(mode=mode)) for mode in MODES], ""
    own = offered(explanation)
    if what == "first":
        if not own:
            raise InspectorError(_nothing(explanation.findings))
        return [own[0][0]], own[0][1]
    named = [finding for finding in explanation.findings if finding.rule == what]
    if not named:
        known = ", ".join(dict.fromkeys(rule for _, rule in own)) or "none"
        raise InspectorError(
            f"--try {what}: no such finding here; with a setting to try: {known}; or: modes, auto"
        )
    if named[0].trial is None:
        raise InspectorError(f"--try {what}: its advice is a change of code: {named[0].advice}", exit_code=1)
    return [_of(named[0], named[0].trial, explanation)], what


def offered(explanation: Explanation) -> list[tuple[Setting, str]]:
    """The settings that findings advise, with their rules, worst first."""
    return [
        (_of(finding, finding.trial, explanation), finding.rule)
        for finding in explanation.findings
        if finding.trial is not None
    ]


def _of(finding: Finding, trial: Trial, explanation: Explanation) -> Setting:
    prediction = None
    compiling = finding.account == "run"
    if finding.cost_ms is not None:
        # What the run paid once is compared as each call's share of it.
        calls = explanation.account.calls if compiling and explanation.account is not None else 1
        whole = finding.cost_ms / finding.share / calls if finding.share else None
        prediction = Prediction(
            finding.cost_ms / calls,
            whole if compiling else explanation.ledger.compiled_ms,
            compiling=compiling,
            rest_fixed=finding.rule == "host_bound",
        )
    return Setting(trial.label, trial, prediction)


def _nothing(findings: Sequence[Finding]) -> str:
    if not findings:
        return "nothing was found, so there is nothing to try; what bears on its kernels: --try auto"
    return (
        f"no finding's advice is a setting; the first one's: {findings[0].advice}; "
        "what bears on its kernels: --try auto; all modes: --try modes"
    )
