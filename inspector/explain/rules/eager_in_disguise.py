"""torch.compile was asked for, and eager code ran all the same.

Looks at: a run without any graph of Inductor's, and why. What failed is for `compile_failed` to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten

from inspector.analysis.ending import ending
from inspector.analysis.nothing import nothing_compiled
from inspector.explain.case import Case
from inspector.explain.changes import Change, remove, without_option
from inspector.explain.failures import compile_failures
from inspector.explain.library_arguments import cure
from inspector.explain.rule import Rule, Stage
from inspector.model.explain import Evidence, Finding

MOST_OF_A_REASON = 170
"""How many letters of torch's message are shown: two lines of a terminal."""
NOT_COMPILING = frozenset(
    {"eager", "eager_noexcept", "aot_eager", "aot_eager_decomp_partition", "eager_debug"}
)
"""Backends that run the graph op by op (torch/_dynamo/backends/debugging.py)."""
_NOT_THE_PROGRAMS = ("came from the cache", "before the command", "before Inductor")

_ADVICE = (
    ("turns torch.compile off", "remove the switch that turns torch.compile off"),
    ("Triton does not support", "use a GPU of CUDA capability 7.0 or newer, or leave torch.compile out"),
    ("the backend is", 'use the default backend: torch.compile(model), or backend="inductor"'),
    ("program never called", "compile the model, and call what torch.compile(model) returns"),
    ("never called", "call what torch.compile returned, in place of the original"),
)


def find(case: Case) -> Iterable[Finding]:
    why = nothing_compiled(case.facts, len(case.graphs))
    # A run that ended early or was cached says nothing of how the program runs.
    if why is None or any(word in why for word in _NOT_THE_PROGRAMS) or case.facts.kind == "trace":
        return
    if compile_failures(case) or ending(case.facts.manifest):
        return
    reason = shorten(why.partition(": ")[2] or why, MOST_OF_A_REASON, placeholder=" …")
    title = f"nothing was compiled, all of it runs in eager: {reason}"
    yield Finding(
        rule="eager_in_disguise",
        severity="high",
        title=title,
        graph=None,
        cost_ms=None,
        evidence=tuple(_source(case))[:6] or (Evidence(case.log_path or case.facts.root, None, title),),
        advice=next((advice for word, advice in _ADVICE if word in title), None)
        or next(filter(None, map(cure, case.facts.graph_breaks)), "see: inspector doctor"),
        how="measured",
        share=1.0,
        change=() if "Triton does not support" in title else _change(case),
    )


def _change(case: Case) -> Change:
    for program in case.programs:
        for call in program.compile_calls:
            if call.option("backend") in NOT_COMPILING:
                return without_option(program, call.line, "backend")
        place = program.assignment("dynamo.config.disable")
        if place is not None and place.value is True:
            return remove(program, place.line)
    return ()


def _source(case: Case) -> Iterable[Evidence]:
    """The user's lines that keep code from being compiled."""
    for program in case.programs:
        for call in program.compile_calls:
            if call.option("backend") in NOT_COMPILING or call.option("disable") is True:
                yield program.evidence(call.line)
        place = program.assignment("dynamo.config.disable")
        if place is not None and place.value is True:
            yield program.evidence(place.line)
    manifest = case.facts.manifest
    for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"):
        if manifest is not None and manifest.environment.get(name, "0") != "0":
            yield Evidence("inspector.json", None, f"{name}={manifest.environment[name]}")
        for program in case.programs:
            lines = enumerate(program.lines, 1)
            yield from (
                Evidence(program.path, number, line.strip()) for number, line in lines if name in line
            )


RULE = Rule("eager_in_disguise", Stage.VOID, find)
