"""CUDA graphs were asked for (mode="reduce-overhead", "max-autotune") and torch did not use them.

Looks at: torch's own lines ``skipping cudagraphs due to ...`` and the recorder's events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding

_SKIPPING = re.compile(r"skipping cudagraphs (?:due to|for) (.*)", re.I)

_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "mutated",
        (
            "do not change inputs in place inside the compiled function; copy them first, or "
            "return the new value"
        ),
    ),
    ("cpu device", "a tensor on the CPU takes part: move it to the GPU once, before the call"),
    ("non-cuda", "a tensor on the CPU takes part: move it to the GPU once, before the call"),
    ("multiple devices", "keep all tensors of the call on one GPU"),
    ("dynamic", "make the sizes constant: pad, or drop dynamic=True"),
    ("incompatible op", "an operator can't be part of a CUDA graph: call it outside the compiled function"),
)


def find(case: Case) -> Iterable[Finding]:
    found: list[tuple[str, Evidence]] = []
    for event in case.events:
        if event.kind == "cudagraph_skip":
            place = Evidence(case.log_path, None, event.reason)
            if event.location is not None:
                place = source_evidence(case, event.location, event.reason.splitlines()[0])
            found.append((event.reason, place))
    for record in case.records:
        match = _SKIPPING.search(record.message)
        if match:
            found.append((match[1], Evidence(case.log_path, record.line, match[0])))
    if not found:
        return
    reason = found[0][0].splitlines()[0].strip()
    if not case.gpu:
        yield Finding(
            rule="cudagraphs_skipped",
            severity="low",
            title="this mode asks for CUDA graphs, which do nothing on a CPU",
            graph=None,
            cost_ms=None,
            evidence=(found[0][1],),
            advice="on a CPU the mode makes no difference; leave it out",
        )
        return
    saved = case.host_ms * 0.8
    advice = next(
        (text for word, text in _ADVICE if word in reason), "remove what torch names, then capture again"
    )
    share = case.share(saved)
    yield Finding(
        rule="cudagraphs_skipped",
        severity=severity_of(share, at_least="medium"),
        title=f"CUDA graphs were asked for and skipped: {reason}",
        graph=None,
        cost_ms=saved,
        evidence=tuple(place for _, place in found[:4]),
        advice=advice,
        share=share,
    )


RULE = Rule("cudagraphs_skipped", Stage.CODE, find)
