"""torch.compile was asked for, and eager code ran all the same.

Looks at: no graph compiled by Inductor while compiled callables were called; a backend that compiles
nothing; compile errors that were suppressed; Dynamo switched off; a GPU that Triton does not support.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, source_evidence
from inspector.model.explain import Evidence, Finding, Trial

NOT_COMPILING = frozenset(
    {"eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "eager_debug"}
)
"""Backends that run the graph op by op (torch/_dynamo/backends/debugging.py)."""
OFF_VARIABLES = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
OLD_GPU = "too old to be supported by the triton GPU compiler"
"""torch/_inductor/scheduler.py and exc.py: GPUTooOldForTriton."""


def find(case: Case) -> Iterable[Finding]:
    why = list(_reasons(case))
    if case.graphs and not any(error for error, _, _ in why):
        return
    if not case.graphs and not why:
        if not (case.times.callables or case.facts.manifest is not None) or case.facts.cache_events:
            return
        why = [(False, "Inductor compiled no graph", _whole(case))]
    if case.graphs and case.times.calls:
        share = len([item for item in why if item[0]]) / (len(why) + len(case.graphs))
    else:
        share = 1.0
    reason = why[0][1]
    yield Finding(
        rule="eager_in_disguise",
        severity="high",
        title=f"{'part of ' if case.graphs else ''}the program runs in eager mode: {reason}",
        graph=None,
        cost_ms=case.times.compiled_ms if not case.graphs else None,
        evidence=tuple(evidence for _, _, evidence in why[:4]),
        advice=_advice(reason),
        measured=case.times.compiled_ms is not None,
        share=share,
        trial=Trial(config=(("dynamo.suppress_errors", False),)) if "suppress" in reason else None,
    )


def _reasons(case: Case) -> Iterable[tuple[bool, str, Evidence]]:
    """(whether part of it may have compiled, why, where)."""
    manifest = case.facts.manifest
    for name in OFF_VARIABLES:
        value = (manifest.environment if manifest else {}).get(name)
        if value and value != "0":
            yield (
                False,
                f"{name}={value} switches torch.compile off",
                Evidence("inspector.json", None, f"{name}={value}"),
            )
    for program in case.programs:
        for call in program.compile_calls:
            backend = call.option("backend")
            if backend in NOT_COMPILING and not case.graphs:
                place = Evidence(program.path, call.line, program.line(call.line))
                yield False, f'backend="{backend}" compiles nothing', place
            if call.option("disable") is True:
                yield (
                    False,
                    "disable=True switches it off",
                    Evidence(program.path, call.line, program.line(call.line)),
                )
        off = program.assignment("dynamo.config.disable")
        if off is not None and off.value is True:
            yield (
                False,
                "torch._dynamo.config.disable is set",
                Evidence(program.path, off.line, program.line(off.line)),
            )
    for backend in case.times.backends:
        if backend in NOT_COMPILING and not case.graphs and not any(p.compile_calls for p in case.programs):
            yield False, f'backend="{backend}" compiles nothing', _whole(case)
    for record in case.records:
        if OLD_GPU in record.message:
            yield (
                True,
                "the GPU is too old for Triton",
                Evidence(case.log_path, record.line, _line(record.message, OLD_GPU)),
            )
            break
    for event in case.events:
        if event.kind == "compile_error":
            place = (
                _whole(case)
                if event.location is None
                else source_evidence(case, event.location, _line(event.reason))
            )
            what = (
                "the GPU is too old for Triton"
                if OLD_GPU in event.reason
                else f"a compile error was suppressed: {_line(event.reason)}"
            )
            yield True, what, place
    for record in case.records:
        if "WON'T CONVERT" in record.message and not any(
            event.kind == "compile_error" for event in case.events
        ):
            text = _line(record.message, "Error") or _line(record.message)
            yield True, f"a compile error was suppressed: {text}", Evidence(case.log_path, record.line, text)
    if not case.graphs:
        for event in case.events:
            if event.kind == "skipped_frame" and event.location is not None:
                yield (
                    False,
                    f"Dynamo gave {event.frame or 'the function'} up: {_line(event.reason)}",
                    source_evidence(case, event.location),
                )


def _whole(case: Case) -> Evidence:
    return Evidence(case.log_path or case.facts.root, None, "no compiled graph in this run")


def _line(text: str, word: str = "") -> str:
    """The line that holds `word`, else the first that says anything."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if word in line), lines[0] if lines else "no reason given")[:160]


def _advice(reason: str) -> str:
    if "switches" in reason or "config.disable" in reason:
        return "remove the switch that turns torch.compile off, then capture again"
    if reason.startswith("backend="):
        return 'use the default backend: torch.compile(model), or backend="inductor"'
    if "GPU is too old" in reason:
        return "Triton needs CUDA capability 7.0 or newer: run on a newer GPU, or without torch.compile"
    if "suppressed" in reason:
        return "let the error show: torch._dynamo.config.suppress_errors = False, and change what it names"
    if "gave" in reason:
        return "take the unsupported statement out of the function, or compile the function inside it"
    return (
        "see that the compiled function is what the program calls, and that Inductor can "
        "run here: inspector doctor"
    )


RULE = Rule("eager_in_disguise", Stage.VOID, find)
