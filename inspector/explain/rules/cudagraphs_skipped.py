"""CUDA graphs were asked for (mode="reduce-overhead", "max-autotune") and torch did not use them.

Looks at: torch's own lines ``skipping cudagraphs due to ...`` and the recorder's events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding
from inspector.model.source import SourceLocation

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_SKIPPING = re.compile(r"skipping cudagraphs (?:due to|for) (.*)", re.I)

# torch/_inductor/cudagraph_utils.py: check_for_mutation. A decoder's 16 caches, marked so: 6.00 -> 1.80 ms.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "mutated",
        (
            "tensors that are the same in every call, as a cache, may be changed in place as buffers of the "
            "module, or marked before the first call: torch._dynamo.mark_static_address(x); of others "
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
    events = [event.reason for event in case.events if event.kind == "cudagraph_skip"]
    records = [record for record in case.records if _SKIPPING.search(record.message)]
    texts = [*events, *(record.message for record in records)]
    if not texts:
        return
    reason = _headline(texts[0])
    lines = [_users_line(case, text) for text in texts]
    lines += [Evidence(case.log_path, record.line, _headline(record.message)) for record in records]
    evidence = tuple(dict.fromkeys(line for line in lines if line is not None))
    evidence = evidence[:4] or (Evidence(case.log_path, None, reason),)
    if not case.gpu:
        yield Finding(
            rule="cudagraphs_skipped",
            severity="low",
            title="this mode asks for CUDA graphs, which do nothing on a CPU",
            graph=None,
            cost_ms=None,
            evidence=evidence,
            advice="on a CPU the mode makes no difference; leave it out",
        )
        return
    saved = case.host_ms
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
        evidence=evidence,
        advice=advice,
        share=share,
    )


def _headline(text: str) -> str:
    """Torch's reason without what introduces and follows it."""
    line = text.strip().splitlines()[0]
    match = _SKIPPING.search(line)
    return (match[1] if match else line).partition(". Found from")[0].strip()


def _users_line(case: Case, text: str) -> Evidence | None:
    """The line that torch blames (torch/_inductor/cudagraph_utils.py: get_mutation_stack_trace)."""
    match = _PLACE.search(text)
    return source_evidence(case, SourceLocation(match[1], int(match[2]))) if match else None


RULE = Rule("cudagraphs_skipped", Stage.CODE, find)
