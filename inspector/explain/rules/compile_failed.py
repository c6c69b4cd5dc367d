"""A compilation died, or Dynamo gave a whole frame up: it runs in eager, or not at all.

Looks at: the recorder's events, torch's log, and with a profile the operators that run outside of all graphs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from inspector.explain.case import Case
from inspector.explain.failures import (
    IN_ONE_CALL,
    FrameFailure,
    compile_failures,
    decides,
    ended_by,
    hinted,
    in_loop,
    is_rnn,
)
from inspector.explain.ledger import operators_outside, outside_graphs_ms
from inspector.explain.library_arguments import cure
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding, Severity, Trial
from inspector.model.source import function_name, is_library, users_place

MOST = 3
"""How many are shown: the first often is the cause of the others."""
_SWITCH = "suppress_errors"
_TOO_OLD = re.compile(r"too old to be supported by the triton|GPUTooOldForTriton", re.IGNORECASE)
"""torch/_inductor/exc.py: GPUTooOldForTriton; in 2.4 the same words in a RuntimeError (scheduler.py)."""
_BODY = (
    "a break inside of a loop leaves the whole function in eager: put what the loop does, but for that line, "
    "into compiled functions"
)
_SIZE_CHANGED = "size mismatch at index"
"""torch/csrc/dynamo/guards.cpp: TensorCheck::check_verbose."""
_FIXED = (
    "for fixed sizes it was compiled: pad what it gets to a few sizes and compile with dynamic=False, or "
    "leave that function out: @torch.compiler.disable"
)
_EACH_SIZE = Trial(dynamic=False)


def find(case: Case) -> Iterable[Finding]:
    told = False
    for item in compile_failures(case)[:MOST]:
        yield _finding(case, item, told)
        told = told or not item.raised


def _finding(case: Case, item: FrameFailure, told: bool) -> Finding:
    """Of one frame; what all of them run outside of graphs was said where another one `told` it."""
    if decides(case, item.failure.error, item.place):
        item = replace(item, failure=replace(item.failure, hint=""))
    failure, place = item.failure, item.failure.place
    frame = function_name(item.frame) if item.frame else "a function"
    where = f" ({place.short})" if place is not None else ""
    if place is not None and item.users is not None and item.users.short != place.short:
        where = f" ({item.users.short}, in {place.short})"
    outside = outside_graphs_ms(case) if case.graphs else case.times.compiled_ms
    operators = operators_outside(case)
    # A frame of a library's own is given up on purpose, as an optimizer's step.
    theirs = not item.failed and place is not None and is_library(place.path)
    share = None if item.raised else operators[1] if operators else case.share(outside)
    if item.raised:
        after = "and the program ended" if ended_by(case, item) else "which the program caught"
        title = f"compiling {frame} failed{where}, {after}: {failure.error}"
    else:
        title = f"{frame} runs in eager{where}"
        title += ", as compiling it failed and errors are suppressed" if item.failed else ""
        title += f": {failure.error}"
        if operators is not None and not told:
            title += f"; {operators[0]}"
    sized = _for_fixed_sizes(case, item)
    floor: Severity = "low" if operators and not item.failed else "medium"
    severity = severity_of(share, at_least=floor if case.graphs and share is not None else "high")
    return Finding(
        rule="compile_failed",
        severity="low" if theirs and case.graphs else severity,
        title=title,
        graph=None,
        cost_ms=None,
        evidence=_evidence(case, item),
        advice=_cured(case, item) or (_of_loop(item) if in_loop(case, item) else _advice(item, sized)),
        how="measured",
        share=share,
        trial=_EACH_SIZE if sized else hinted(failure.hint),
    )


def _cured(case: Case, item: FrameFailure) -> str | None:
    """The argument of a library in whose code the frame's break is."""
    facts, place = case.facts, str(item.failure.place)
    for broken in (*facts.given_up, *facts.graph_breaks):
        places = (str(broken.location), str(users_place(broken.location, broken.frames)))
        if place in places and (known := cure(broken)):
            return known
    return None


def _of_loop(item: FrameFailure) -> str:
    told = is_rnn(item.failure.error) or hinted(item.failure.hint)
    return f"{_advice(item)}; {_BODY}" if told else _BODY


def _for_fixed_sizes(case: Case, item: FrameFailure) -> bool:
    """Whether it failed when it was compiled again as a size had changed, so with a symbol for it."""
    return item.failed and any(
        event.kind == "recompile" and event.frame == item.frame and _SIZE_CHANGED in event.reason
        for event in case.events
    )


def _advice(item: FrameFailure, sized: bool = False) -> str:
    """`sized`: for fixed sizes it was compiled."""
    hint = f"torch's hint: {item.failure.hint}" if item.failure.hint else ""
    if is_rnn(item.failure.error):
        return f"{hint or 'compile what is around it only'}; {IN_ONE_CALL}"
    if hint:
        return hint
    if _TOO_OLD.search(item.failure.error):
        return "use a GPU of CUDA capability 7.0 or newer, or leave torch.compile out"
    if "fake impl" in item.failure.error:
        return "give the operator a fake implementation: @OP.register_fake, which returns an empty result"
    if sized:
        return _FIXED
    if item.failed:
        return "change what the error names, or leave that function out: @torch.compiler.disable"
    return "take the statement out of the function, or compile the functions inside it"


def _evidence(case: Case, item: FrameFailure) -> tuple[Evidence, ...]:
    evidence = []
    if item.failure.place is not None:
        evidence.append(source_evidence(case, item.failure.place))
    for program in case.programs:
        place = program.assignment(_SWITCH)
        if item.failed and not item.raised and place is not None and place.value is True:
            evidence.append(program.evidence(place.line))
    return tuple(evidence) or (Evidence(case.log_path or case.facts.root, None, item.failure.error),)


RULE = Rule("compile_failed", Stage.VOID, find)
