"""torch.compile was asked for, and eager code ran all the same.

Looks at: a run without any graph of Inductor's, and why; compile errors that were suppressed beside graphs
that did compile; a GPU that Triton does not support.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten

from inspector.analysis.nothing import nothing_compiled
from inspector.explain.case import Case
from inspector.explain.changes import Change, remove, without_option
from inspector.explain.rule import Rule, Stage, source_evidence
from inspector.model.explain import Evidence, Finding, Trial
from inspector.units import plural

MOST_OF_A_REASON = 170
NOT_COMPILING = frozenset(
    {"eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "eager_debug"}
)
"""Backends that run the graph op by op (torch/_dynamo/backends/debugging.py)."""
OLD_GPU = "too old to be supported by the triton GPU compiler"
"""torch/_inductor/exc.py: GPUTooOldForTriton; torch/_inductor/scheduler.py in 2.4."""

_NOT_THE_PROGRAMS = ("came from the cache", "before the command", "before Inductor")

_ADVICE = (
    ("turns torch.compile off", "remove the switch that turns torch.compile off"),
    ("Triton does not support", "use a GPU of CUDA capability 7.0 or newer, or leave torch.compile out"),
    ("too old", "use a GPU of CUDA capability 7.0 or newer, or leave torch.compile out"),
    ("exit code", "see to the error that is named; the program ended with it"),
    ("the backend is", 'use the default backend: torch.compile(model), or backend="inductor"'),
    (
        "suppressed",
        "let the error show (torch._dynamo.config.suppress_errors = False), and change what it names",
    ),
    ("gave", "take the unsupported statement out of the function, or compile the functions inside it"),
    ("program never called", "compile the model, and call what torch.compile(model) returns"),
    ("never called", "call what torch.compile returned, in place of the original"),
)


def find(case: Case) -> Iterable[Finding]:
    errors = [event for event in case.events if event.kind == "compile_error" and not event.raised]
    why = nothing_compiled(case.facts, len(case.graphs))
    if not case.graphs:
        # A run that ended early or was cached says nothing of how the program runs.
        if why is None or any(word in why for word in _NOT_THE_PROGRAMS) or case.facts.kind == "trace":
            return
        reason = shorten(why.partition(": ")[2] or why, MOST_OF_A_REASON, placeholder=" …")
        title = f"nothing was compiled, all of it runs in eager: {reason}"
    elif errors:
        reason = "errors are suppressed: " + _line(errors[0].reason)
        run = "runs" if len(errors) == 1 else "run"
        title = f"{plural(len(errors), 'function')} {run} in eager, as compiling failed and {reason}"
    else:
        return
    evidence = [*_source(case), *_events(case)]
    yield Finding(
        rule="eager_in_disguise",
        severity="high",
        title=title,
        graph=None,
        cost_ms=None,
        evidence=tuple(evidence[:6]) or (Evidence(case.log_path or case.facts.root, None, title),),
        advice=next((advice for word, advice in _ADVICE if word in title), "see: inspector doctor"),
        how="measured",
        share=1.0 if not case.graphs else None,
        change=() if "Triton does not support" in title else _change(case),
        trial=Trial(config=(("dynamo.suppress_errors", False),)) if errors else None,
    )


def _change(case: Case) -> Change:
    for program in case.programs:
        for call in program.compile_calls:
            if call.option("backend") in NOT_COMPILING:
                return without_option(program, call.line, "backend")
        for ending in ("dynamo.config.disable", "suppress_errors"):
            place = program.assignment(ending)
            if place is not None and place.value is True:
                return remove(program, place.line)
    return ()


def _source(case: Case) -> Iterable[Evidence]:
    """The user's lines that keep code from being compiled."""
    for program in case.programs:
        for call in program.compile_calls:
            if call.option("backend") in NOT_COMPILING or call.option("disable") is True:
                yield Evidence(program.path, call.line, program.line(call.line))
        for ending in ("dynamo.config.disable", "suppress_errors"):
            place = program.assignment(ending)
            if place is not None and place.value is True:
                yield Evidence(program.path, place.line, program.line(place.line))
    manifest = case.facts.manifest
    for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"):
        if manifest is not None and manifest.environment.get(name, "0") != "0":
            yield Evidence("inspector.json", None, f"{name}={manifest.environment[name]}")
        for program in case.programs:
            lines = enumerate(program.lines, 1)
            yield from (
                Evidence(program.path, number, line.strip()) for number, line in lines if name in line
            )


def _events(case: Case) -> Iterable[Evidence]:
    for event in case.events:
        if event.kind in ("compile_error", "skipped_frame") and event.location is not None:
            yield source_evidence(case, event.location, _line(event.reason))
    for record in case.records:
        if OLD_GPU in record.message:
            yield Evidence(case.log_path, record.line, _line(record.message))


def _line(text: str) -> str:
    """The first line that says anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:160] if lines else "no reason given"


RULE = Rule("eager_in_disguise", Stage.VOID, find)
