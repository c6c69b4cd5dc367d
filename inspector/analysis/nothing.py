"""Why a run has no compiled graph although it was captured to see one: the first thing to say of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from inspector.frozen import dataclass
from inspector.model.calls import CompiledCallable, Event, ProcessCalls
from inspector.model.run import RunFacts

SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
"""Either turns torch.compile off (torch/_dynamo/config.py: disable; torch/_dynamo/eval_frame.py)."""

_TOO_OLD = re.compile(r"too old to be supported by the triton|GPUTooOldForTriton", re.IGNORECASE)
"""torch/_inductor/exc.py: GPUTooOldForTriton; in 2.4 the same words in a RuntimeError (scheduler.py)."""

_OLD_GPU = re.compile(
    r"\b(?:Tesla [KMP]\d+\w*|Quadro [KMP]\d+|GTX (?:[6-9]\d\d|10\d\d)|GT 10\d\d|TITAN Xp?|P100|P40|P4)\b"
)
"""Names of GPUs before compute capability 7.0 (Kepler, Maxwell, Pascal), which Triton does not support."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a run without graphs.

    `frames`, `made` and `cached` count frames that Dynamo began, FX graphs that it made, and graphs that came
    from a cache. `switch` is the variable that turned torch.compile off. `watched` says that the recorder was
    in a process that imported torch; without it an absent call means nothing. `exit_code` is None where it is
    not known, `fresh` false where the user's own caches were used, None where that is not known.
    """

    frames: int = 0
    made: int = 0
    cached: int = 0
    switch: str | None = None
    exit_code: int | None = None
    interrupted: bool = False
    fresh: bool | None = True
    watched: bool = False
    calls: tuple[ProcessCalls, ...] = ()
    devices: tuple[str, ...] = ()


def nothing_compiled(facts: RunFacts, graphs: int) -> str | None:
    """The reason why `facts` has no graph, as one line; None where there is one, or while it runs."""
    manifest = facts.manifest
    if graphs or facts.kind == "graph folder" or (manifest is not None and manifest.status == "running"):
        return None
    if facts.kind == "trace" and not facts.event_kinds.get("dynamo_start"):
        return "nothing was compiled while this trace was written"
    if facts.contents:
        return "no generated code lies here as text: what there is, is listed and not loaded"
    environment = {} if manifest is None else manifest.environment
    evidence = Evidence(
        frames=facts.event_kinds.get("dynamo_start", 0),
        made=facts.event_kinds.get("dynamo_output_graph", 0),
        cached=cached_graphs(facts.cache_events),
        switch=next((name for name in SWITCHES if environment.get(name) == "1"), None),
        exit_code=None if manifest is None else manifest.exit_code,
        interrupted=manifest is not None and manifest.status == "interrupted",
        fresh=None if manifest is None else manifest.options.get("fresh"),
        watched=facts.watched,
        calls=facts.calls,
        devices=facts.devices,
    )
    return why_nothing(evidence, known=manifest is not None)


def cached_graphs(events: Mapping[str, int]) -> int:
    """Graphs that came from a cache. A hit of AOT autograd's is followed by one of Inductor's for each of its
    graphs."""
    return max(events.get(f"{name}_cache_hit", 0) for name in ("fx_graph", "aotautograd"))


def why_nothing(evidence: Evidence, *, known: bool = True) -> str:
    """One line: what happened instead of compiling and, where that helps, what to do.

    `known` is False for a bare folder, of whose program nothing else is known.
    """
    callables = [item for process in evidence.calls for item in process.callables if item.kind == "call"]
    events = [event for process in evidence.calls for event in process.events]
    made = max(evidence.made, _counted(evidence.calls, "stats.unique_graphs"))
    switch = evidence.switch or next((item.disabled for item in evidence.calls if item.disabled), None)
    if switch is not None:
        return f"nothing was compiled: {switch}=1 is set and turns torch.compile off; unset it"
    if evidence.cached:
        came = "1 graph" if evidence.cached == 1 else f"{evidence.cached:,} graphs"
        return f"no files of compiled graphs: {came} came from the cache; {cache_remedy(evidence.fresh)}"
    if evidence.interrupted:
        return "nothing was compiled before the command was interrupted"
    errors = [event for event in events if event.kind == "compile_error"]
    fatal = [event for event in errors if not event.raised or evidence.exit_code]
    return (
        _failed(fatal, evidence.exit_code)
        or _stopped(evidence.exit_code, made)
        or _other_backend(callables)
        or _not_called(callables)
        or _failed(errors, evidence.exit_code)
        or _given_up(events)
        or _nothing_asked(evidence, made, known)
    )


def cache_remedy(fresh: bool | None) -> str:
    """How to get the files of cached graphs; `fresh` as in `Evidence`."""
    if fresh is None:
        return "capture again with fresh caches (inspector capture does so by default), or open the trace"
    if not fresh:
        return "capture without --no-fresh to have them compiled"
    return "capture with --env TORCHINDUCTOR_FX_GRAPH_CACHE=0 to have every one compiled"


def _failed(errors: Sequence[Event], exit_code: int | None) -> str | None:
    if not errors:
        return None
    error = errors[0]
    place = f" in {error.frame} ({error.location.short})" if error.frame and error.location else ""
    line = _first_line(error.reason)
    if _TOO_OLD.search(error.reason):
        return (
            f"nothing was compiled: Triton does not support this GPU (compute capability below 7.0): {line}"
        )
    if not error.raised:
        return (
            f"nothing was compiled: compiling failed{place} and the code ran in eager, as errors are "
            f"suppressed (TORCHDYNAMO_SUPPRESS_ERRORS or dynamo.config.suppress_errors): {line}"
        )
    ended = (
        f", and the command failed with exit code {exit_code}" if exit_code else " and the program went on"
    )
    return f"nothing was compiled: compiling failed{place}{ended}: {line}"


def _stopped(exit_code: int | None, made: int) -> str | None:
    if not exit_code:
        return None
    if not made:
        return f"nothing was compiled before the command failed with exit code {exit_code}"
    graphs = "1 graph" if made == 1 else f"{made:,} graphs"
    return (
        f"Dynamo made {graphs}, but the command failed (exit code {exit_code}) before Inductor compiled one"
    )


def _other_backend(callables: Iterable[CompiledCallable]) -> str | None:
    backends = {item.backend or "inductor": item for item in callables}
    if not backends or "inductor" in backends:
        return None
    name, item = next(iter(backends.items()))
    place = f" ({item.location.short})" if item.location else ""
    what = "runs the graph as it is" if name in ("eager", "aot_eager") else "is not Inductor"
    return f'nothing was compiled by Inductor: the backend is "{name}"{place}, which {what}'


def _not_called(callables: Iterable[CompiledCallable]) -> str | None:
    compiled = list(callables)
    if not compiled or any(item.calls for item in compiled):
        return None
    places = ", ".join(
        dict.fromkeys(f"{c.name} ({c.location.short})" if c.location else c.name for c in compiled)
    )
    return (
        f"nothing was compiled: what torch.compile returned was never called to its end: {places}; call it "
        "instead of the original (methods of it other than forward are the original's)"
    )


def _given_up(events: Iterable[Event]) -> str | None:
    skipped = [event for event in events if event.kind in ("skipped_frame", "cache_limit")]
    if not skipped:
        return None
    event = skipped[0]
    place = f" ({event.location.short})" if event.location else ""
    more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    return f"nothing was compiled: Dynamo gave up {event.frame}{place}{more}: {_first_line(event.reason)}"


def _nothing_asked(evidence: Evidence, made: int, known: bool) -> str:
    if made:
        graphs = "1 graph" if made == 1 else f"{made:,} graphs"
        return (
            f"Dynamo made {graphs}, but Inductor compiled none: "
            'is another backend in use, as in torch.compile(backend="eager")?'
        )
    if evidence.frames:
        begun = "1 function" if evidence.frames == 1 else f"{evidence.frames:,} functions"
        return f"Dynamo looked at {begun} but found no tensor computation to compile"
    if evidence.calls:
        return "nothing was compiled: what torch.compile returned ran no tensor computation that Dynamo saw"
    old = next((name for name in evidence.devices if _OLD_GPU.search(name)), None)
    if old is not None:
        return (
            f"nothing was compiled: no function made by torch.compile was called; Triton does not support "
            f"{old} (compute capability below 7.0): does the program fall back to eager for it?"
        )
    if evidence.watched:
        return "nothing was compiled: the program never called torch.compile"
    if not known:
        return (
            "nothing was compiled: torch.compile was not reached, failed, or every graph came from the "
            "cache; capture again with fresh caches: inspector capture -o RUN -- python train.py"
        )
    return (
        "nothing was compiled: no function made by torch.compile was called, "
        "or the command ran in an interpreter that this environment does not reach"
    )


def _counted(calls: Iterable[ProcessCalls], name: str) -> int:
    return sum(process.counter(name) or 0 for process in calls)


def _first_line(text: str) -> str:
    """With the next one where it only announces that: "backend='inductor' raised:"."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    count = 2 if lines and lines[0].endswith(":") else 1
    return " ".join(lines[:count])[:300]


def all_in_eager(facts: RunFacts, graphs: int) -> bool:
    """Whether Dynamo began and handed no graph on: all of the program ran in eager."""
    kinds = facts.event_kinds
    began = bool(kinds.get("dynamo_start")) and not kinds.get("dynamo_output_graph")
    return began and not graphs and not cached_graphs(facts.cache_events)
