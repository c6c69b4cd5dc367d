"""From a case to its explanation: every rule asked, findings ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inspector.model.explain import Explanation, Finding, Host
from inspector.model.replay import ReplayResult

from .case import Case
from .gather import gather
from .ledger import make_ledger
from .rule import rank
from .rules import RULES
from .rules.healthy import healthy
from .verdict import verdict

if TYPE_CHECKING:
    from inspector.readers.run import Run


def explain(run: Run, results: Sequence[ReplayResult] = (), host: Host | None = None) -> Explanation:
    """Why the run's compiled code is as slow or fast as it is. Reads, and executes nothing; see `gather`."""
    return explain_case(gather(run, results, host))


def explain_case(case: Case) -> Explanation:
    """The same for evidence that is at hand."""
    ranked: list[tuple[tuple[int, int, float], Finding]] = []
    for rule in RULES:
        ranked += [(rank(finding, rule.stage), finding) for finding in rule.find(case)]
    ranked.sort(key=lambda item: item[0])
    findings = [finding for _, finding in ranked]
    worth = [finding for finding in findings if finding.severity != "low"]
    if case.graphs and all(finding.rule == "extern_dominated" for finding in worth):
        # What libraries do bounds a program, and is nothing to change: both are said then.
        findings.insert(len(worth), healthy(case))
    return Explanation(verdict(case, findings), make_ledger(case), tuple(findings))
