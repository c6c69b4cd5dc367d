"""The program died: its error and its line, before anything that is said of the calls up to then.

Looks at: the command's exit code, and the traceback that it wrote to standard error.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.ending import ending
from inspector.explain.case import Case
from inspector.explain.failures import compile_failures, ended_by
from inspector.explain.rule import Rule, Stage, source_evidence
from inspector.model.explain import Evidence, Finding

_ADVICE = (
    ("OutOfMemoryError", "use a smaller batch or model: what else is said here is of the calls up to then"),
    ("SIGKILL", "often the machine's memory ran out: use less of it, and capture again"),
)
_LATER = "see to the error first: what else is said here is of the calls up to then"


def find(case: Case) -> Iterable[Finding]:
    manifest = case.facts.manifest
    if manifest is None or manifest.status != "failed" or not manifest.exit_code:
        return
    died = case.failure
    if any(ended_by(case, item) for item in compile_failures(case)):
        return
    if died is not None:
        where = f" at {died.place.short}" if died.place is not None else ""
        title = f"the program died{where}: {died.error}"
        evidence = [source_evidence(case, died.place)] if died.place is not None else []
        evidence.append(Evidence(died.path, died.line, died.error))
    else:
        title = ending(manifest)
        evidence = [Evidence("inspector.json", None, title)]
    yield Finding(
        rule="program_failed",
        severity="high",
        title=title,
        graph=None,
        cost_ms=None,
        evidence=tuple(evidence),
        advice=next((advice for word, advice in _ADVICE if word in title), _LATER),
        how="measured",
    )


RULE = Rule("program_failed", Stage.VOID, find)
