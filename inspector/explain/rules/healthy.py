"""What is said where no finding is worth anything: nothing worth changing, where that was shown, and what
bounds the program then; else what of it was not measured, or what nobody accounts for."""

from __future__ import annotations

import math
import statistics

from inspector.analysis.steady import MOST, SAME
from inspector.explain.case import Case
from inspector.explain.launches import busiest_line, fetched_bytes
from inspector.explain.least import REACHED, Machine, achieved, least_of, machine_of, start_ms
from inspector.explain.ledger import PARTS
from inspector.explain.rule import source_evidence, timed
from inspector.model.account import Account
from inspector.model.explain import Evidence, Finding, Ledger
from inspector.model.two_sides import Block
from inspector.units import duration, percent, rate

from .fallback_kernels import other_way

MOST_UNEXPLAINED = 0.1
"""Of a call: what is called healthy is known to nine tenths."""
NOTHING = "nothing found that is worth changing"
SURELY_NOTHING = "nothing found that is surely worth changing"
_NOTHING_TO_DO = "nothing; a smaller dtype or less work would make it faster"
_FAR = 10
"""Times what bytes and arithmetic need at this machine's rates, and a launch: what suits a library takes
less."""
UNREAD = "launches of kernels could not be read, see problems: inspector summary"


def healthy(case: Case, ledger: Ledger, account: Account) -> Finding | None:
    """The finding where no other one is high or medium; None where compiled is slower than eager, and where
    the quiet ones are as likely as not to save more of a call than may be left unexplained."""
    if case.times.outcome == "slower" or case.times.losing:
        return None
    if statistics.fmean(account.claimed_ms) > max(account.noise_ms, MOST_UNEXPLAINED * case.wall_ms):
        return None
    nothing = SURELY_NOTHING if account.claimed_ms[1] > account.noise_ms else NOTHING
    missing = _missing(case, ledger, account, nothing)
    operator, said = ("", "") if missing else _unbounded_operator(case)
    far = _far_library(case)
    if not missing and (slow := said or _far_from_memory(case) or far):
        may = "" if said else _by_arithmetic(case)
        missing = f"{nothing}; {slow}, and what else bounds it was not measured{may}"
    title = missing or f"nothing worth changing: {_bound(case)}"
    evidence = []
    if launches := list(case.launches()):
        graph, largest = max(launches, key=lambda each: each[1].ms)
        text = f"the longest kernel, {timed(largest, largest.ms)}: {largest.name}"
        evidence.append(graph.launch_evidence(largest, text))
        if line := busiest_line(graph, largest):
            evidence.append(source_evidence(case, line))
    return Finding(
        rule="nothing_found" if missing else "healthy",
        severity="low",
        title=title,
        graph=None,
        cost_ms=0.0,
        evidence=tuple(evidence) or (Evidence(case.facts.root, None, "the run"),),
        advice=_advice(case, operator, far) if missing else _NOTHING_TO_DO,
        how="measured" if case.times.compiled_ms is not None else "estimated",
        share=0.0,
    )


def _missing(case: Case, ledger: Ledger, account: Account, nothing: str) -> str:
    """Why nothing that was found is no verdict; empty where it is one."""
    if case.unread:
        return f"nothing found, but {UNREAD}"
    if not case.kernels_measured or case.times.compiled_ms is None:
        return f"{nothing}; what bounds it was not measured"
    if case.times.outcome == "unknown":
        return f"{nothing}; {_uncompared(case)}"
    left = ledger.unexplained_ms or 0.0
    if left > MOST_UNEXPLAINED * case.wall_ms:
        said = f"{duration(left)} of {duration(case.wall_ms)}"
        return f"{nothing}, but {said} a call are not explained"
    if -left > MOST_UNEXPLAINED * case.wall_ms:
        return f"{nothing}, but its parts take {duration(-left)} more than a call of {duration(case.wall_ms)}"
    if account.left_ms > account.noise_ms:
        return f"{nothing}, but {_more_than_needed(account)}"
    return ""


def _more_than_needed(account: Account) -> str:
    """Of all parts, and of the one that has most of it."""
    said = f"its kernels take {duration(account.left_ms)} a call more than they need"
    most = max(account.parts, key=lambda part: part.left_ms)
    need = most.least_ms[1] if most.least_ms is not None else 0.0
    how = ", as eager takes" if most.eager_ms is not None and math.isclose(need, most.eager_ms) else ""
    return f"{said}, most of it at {most.name}: {duration(most.ms)} for {duration(need)}{how}"


def _uncompared(case: Case) -> str:
    """Why it is not known how it compares with eager."""
    if case.times.eager_ms is None:
        return "it was not compared with eager"
    if case.times.again is not None:
        return "two runs disagree on how it compares with eager"
    return "too few calls tell how it compares with eager"


def _far_from_memory(case: Case) -> str:
    """What generated code moves, where it takes most of a call and that is not what bounds it."""
    machine = machine_of(case)
    moved, ms = _generated(case)
    little = case.role_ms("generated", "copy") < MOST * case.wall_ms
    if not moved or not ms or little or _near(machine, moved, ms):
        return ""
    return f"its generated code {achieved(machine, moved, ms)}"


def _far_library(case: Case) -> str:
    """What libraries' calls take, where they take most of the kernels' time and are far from what their bytes
    and arithmetic need: what they are given suits them badly."""
    machine = machine_of(case)
    calls = [
        (graph.ms(item), least_of(machine, graph, item)[0][0] * graph.runs, start_ms(graph) * graph.runs)
        for graph, item in case.launches()
        if machine.peaks is not None and item.role == "library" and item.measured and item.flops
    ]
    took, least, starts = (sum(times) for times in zip(*calls, strict=True)) if calls else (0.0, 0.0, 0.0)
    if took < MOST * case.kernels_ms or took < _FAR * (least + starts):
        return ""
    return (
        f"its library calls take {duration(took)} for what their bytes and arithmetic need {duration(least)}"
    )


def _by_arithmetic(case: Case) -> str:
    """What bounds generated code by an estimate, where that is near what it takes."""
    generated = [(graph, item) for graph, item in case.launches() if item.role in ("generated", "copy")]
    took = sum(graph.ms(item) for graph, item in generated)
    expected = sum(min(item.expected_ms or 0.0, item.ms) * graph.runs for graph, item in generated)
    return f": its arithmetic may, an estimated {duration(expected)}" if expected >= REACHED * took else ""


def _unbounded_operator(case: Case) -> tuple[str, str]:
    """The operator that takes longest of those that run as in eager, where these take most and memory can't
    bound it, and what it takes; else empty texts."""
    left = case.left_to_aten()
    if not left or sum(item.ms for item in left.values()) < MOST * case.kernels_ms:
        return "", ""
    name = max(left, key=lambda name: left[name].ms)
    ms, moved = left[name].ms, round(left[name].bytes)
    machine = machine_of(case)
    if moved and _near(machine, moved, ms):
        return "", ""
    rate_of = f", {achieved(machine, moved, ms)}" if moved else ""
    return name, f"{name} takes {duration(ms)} of {duration(case.wall_ms)}, runs as in eager{rate_of}"


def _generated(case: Case) -> tuple[int, float]:
    """(bytes, milliseconds) of a call's generated kernels whose bytes are known."""
    generated = [(graph, item) for graph, item in case.launches() if item.role in ("generated", "copy")]
    own = [(graph, item) for graph, item in generated if item.bytes]
    moved = round(sum(((item.bytes or 0) + fetched_bytes(item)) * graph.runs for graph, item in own))
    return moved, sum(graph.ms(item) for graph, item in own)


def _near(machine: Machine, moved: int, ms: float) -> bool:
    """Whether memory, or the cache that so much fits into, gives no more than that, by a stated factor."""
    limit = machine.roof(moved)
    return limit is not None and moved / ms * 1e3 >= REACHED * limit.rate


def _advice(case: Case, operator: str, far: str) -> str:
    if case.uncalled:
        return "time it in the program: no run called what torch.compile made, so that no call was timed"
    if case.times.compiled_ms is None or case.times.eager_ms is None:
        return "measure it: inspector capture --baseline -- COMMAND"
    if case.times.outcome == "unknown":
        more = "while nothing else runs" if case.times.again is not None else "with more calls"
        return f"measure it again, {more}: inspector capture --baseline -- COMMAND"
    if operator:
        ways = (
            other_way(operator),
            "write the same with operators that Inductor has code for, and time both",
        )
        return "; or ".join(filter(None, ways))
    if case.kernels_measured and far:
        return "give the library other sizes, or write it another way, and time both"
    return "measure its kernels: inspector explain RUN --measure, or capture --baseline again"


def _bound(case: Case) -> str:
    """What a call can't be faster than, with the figures that show it."""
    library, kernels = case.role_ms("library"), case.kernels_ms
    if library >= MOST * kernels and library:
        share = percent(library / kernels)
        return f"bounded by library kernels, {share} of the kernels' time{_library(case)}"
    fallback = case.role_ms("fallback")
    if fallback >= MOST * kernels and fallback:
        left = case.left_to_aten()
        return (
            f"bounded by operators that run as in eager, {duration(fallback)} of {duration(case.wall_ms)}, "
            f"most of it in {max(left, key=lambda name: left[name].ms)}"
        )
    if kernels >= MOST * case.wall_ms and kernels:
        return _kernels(case, machine_of(case))
    return f"bounded by the host: its kernels take {duration(kernels)} of {duration(case.wall_ms)}"


def _library(case: Case) -> str:
    """`, 31.0 Tflop/s`; and that eager's take as long, where both were profiled."""
    both = [block for block in case.library_blocks if block.eager_ms]
    compiled, eager = (sum(_library_ms(block, side) for block in both) for side in ("compiled", "eager"))
    same = both and abs(compiled - eager) <= case.times.notch_ms + SAME * eager
    counted = [(graph, item) for graph, item in case.launches() if item.flops and item.role == "library"]
    ms = sum(graph.ms(item) for graph, item in counted)
    flops = sum((item.flops or 0) * graph.runs for graph, item in counted)
    speed = f", {rate(flops / ms * 1e3, 'flop/s')} in those whose arithmetic is known" if ms else ""
    return f"{speed}{', as in eager' if same else ''}"


def _library_ms(block: Block, side: str) -> float:
    kernels = block.compiled_kernels if side == "compiled" else block.eager_kernels
    return sum(kernel.ms for kernel in kernels if not kernel.generated)


def _kernels(case: Case, machine: Machine) -> str:
    """Bounded by memory only where generated code takes most of it and comes near its rate."""
    moved, ms = _generated(case)
    said = achieved(machine, moved, ms)
    if said and ms >= MOST * case.kernels_ms and _near(machine, moved, ms):
        return f"bounded by memory: generated code {said}"
    parts = ", ".join(f"{name} {duration(took)}" for name, role in PARTS if (took := case.role_ms(role)) > 0)
    return f"its kernels take {duration(case.kernels_ms)} of {duration(case.wall_ms)}: {parts}"
