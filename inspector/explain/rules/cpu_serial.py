"""Generated C++ that runs in one thread although there are more.

Looks at: kernels that start no threads, ``torch.set_num_threads(1)``, OMP_NUM_THREADS, ``cpp.threads``.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.changes import Change, remove
from inspector.explain.claims import on_launches
from inspector.explain.cpp_loops import counted_nests, starts_threads
from inspector.explain.rule import Rule, Stage, severity_of, timed
from inspector.model.explain import Evidence, Finding, Trial

LEAST_POINTS = 16384
"""torch/_inductor/config.py: cpp.min_chunk_size is 512 points a thread, 4096 in older versions."""
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def find(case: Case) -> Iterable[Finding]:
    serial: list[tuple[float, GraphCase, Launch]] = []
    parallel = False
    for graph, launch in case.launches():
        if graph.gpu or launch.call.kind != "cpp":
            continue
        if starts_threads(launch.source):
            parallel = True
            continue
        points = max([nest.points or 0 for nest in counted_nests(launch.source, launch.points)], default=0)
        if points >= LEAST_POINTS:
            serial.append((graph.ms(launch), graph, launch))
    if not serial:
        return
    setting, evidence, trial = _setting(case)
    available = _available(case)
    if available is not None and available < 2:
        return
    if setting is None and not parallel and available is None:
        # A single-core machine looks just like this.
        return
    threads = available or 2
    every = setting is not None and not parallel
    slow = [(g.ms(item), g, item) for g, item in case.launches()] if every else serial
    cost = sum(ms for ms, _, _ in slow) * (1 - 1 / threads)
    if case.times.compiled_ms is not None:
        ceiling = case.times.compiled_ms * (1 - 1 / threads)
        cost = min(cost, ceiling)
    share = case.share(cost)
    serial.sort(key=lambda item: -item[0])
    _, graph, launch = serial[0]
    places = [*evidence]
    for ms, owner, kernel in serial[:3]:
        places.append(owner.launch_evidence(kernel, f"{timed(kernel, ms)}, starts no threads: {kernel.name}"))
    why = setting or "its outer loops are too short to share"
    yield Finding(
        rule="cpu_serial",
        severity=severity_of(share),
        title=f"generated code runs in one thread of {threads} ({why})",
        graph=graph.name,
        cost_ms=cost,
        claims=on_launches(((owner, kernel, ms) for ms, owner, kernel in slow), "estimated", cost),
        evidence=tuple(places),
        advice=_advice(setting),
        share=share,
        change=_change(case),
        trial=trial,
    )


def _change(case: Case) -> Change:
    for program in case.programs:
        places = [program.variable(name) for name in _VARIABLES] + [program.assignment("cpp.threads")]
        lines = [place.line for place in places if place is not None and str(place.value) == "1"]
        if program.threads is not None and program.threads[0] == 1:
            lines.append(program.threads[1])
        if lines:
            return remove(program, lines[0])
    return ()


def _setting(case: Case) -> tuple[str | None, list[Evidence], Trial | None]:
    """(what keeps it at one thread, where that is, how to undo it)."""
    for program in case.programs:
        if program.threads is not None and program.threads[0] == 1:
            line = program.threads[1]
            return "torch.set_num_threads(1)", [program.evidence(line)], None
        place = program.assignment("cpp.threads")
        if place is not None and place.value == 1:
            trial = Trial(config=(("cpp.threads", -1),))
            return (
                "config.cpp.threads = 1",
                [program.evidence(place.line)],
                trial,
            )
        for name in _VARIABLES:
            variable = program.variable(name)
            if variable is not None and str(variable.value) == "1":
                return f"{name}=1", [program.evidence(variable.line)], None
    for graph in case.graphs:
        if graph.config.get("cpp.threads") == "1":
            trial = Trial(config=(("cpp.threads", -1),))
            return (
                "config.cpp.threads = 1",
                [graph.place("fx_graph_runnable.py", None, "cpp.threads = 1")],
                trial,
            )
    manifest = case.facts.manifest
    given = dict(manifest.environment) if manifest is not None else {}
    if case.host is not None:
        given = {**case.host.environment, **given}
    for name in _VARIABLES:
        if given.get(name) == "1":
            trial = Trial(environment=((name, str(_available(case) or 2)),))
            return f"{name}=1", [Evidence("inspector.json", None, f"{name}=1")], trial
    return None, [], None


def _available(case: Case) -> int | None:
    """CPUs of the machine that captured, where that is known."""
    if case.host is not None:
        return case.host.cpus
    count = case.machine.get("cpu_count")
    return count if isinstance(count, int) else None


def _advice(setting: str | None) -> str:
    if setting is None:
        return "give the outer dimension more rows (a larger batch), so that threads can share it"
    if setting.startswith("torch.set_num_threads"):
        return "remove torch.set_num_threads(1), or set it to the number of cores"
    return f"remove {setting.split('=')[0].strip()}, or set it to the number of cores"


RULE = Rule("cpu_serial", Stage.CODE, find)
