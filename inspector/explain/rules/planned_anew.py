"""A library plans an operator anew for each new shape, on the host, while the device waits.

Looks at: what the host did in each operator itself, by the profile of the compiled side, and which calls had
sizes that no earlier one had. cuDNN plans attention and convolutions once for each shape that they are given
(aten/src/ATen/native/cudnn/MHA.cpp and Conv_v8.cpp keep the plans by it): in decoding, where a sequence grows
by one with each call, or for inputs of any length, that is often or always.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from inspector.explain.case import Case, GraphCase
from inspector.explain.claims import on_part, on_whole
from inspector.explain.doubts import profile_fits
from inspector.explain.host_operators import slow_operators, slow_when_profiled
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.explain.times import NewSizes
from inspector.model.account import HOST, Claim
from inspector.model.explain import Evidence, Finding, Trial
from inspector.model.two_sides import HostOperator
from inspector.units import duration, percent, plural

PLANNING_MS = 0.5
"""Each time: planning attention took 5 to 7 ms on an H100's host, launching takes some 20 us, and not 25
times that; asked where nobody knows that sizes are new."""
PLAN_MS = 5.0
"""The least of planning attention once: ten of them took 70 ms of a call with a new shape on an H200's host,
where others were preferred 5 (benchmarks/results/natural-blind-h200.txt: moth_trap_service)."""
_ATTENTION = re.compile(r"aten::_cudnn_attention_(?:forward|backward)")
_CONVOLUTION = re.compile(r"aten::cudnn_convolution(?:_transpose|_relu|_add_relu)?")
_CALL = re.compile(r"torch\.ops\.aten\._(?:scaled_dot_product_)?cudnn_attention")
_CONVOLVED = re.compile(r"extern_kernels\.convolution|torch\.ops\.aten\.convolution")
_CHOSEN = re.compile(r"CUDNN_ATTENTION|enable_cudnn_sdp")
_NO_CACHE = (
    "once with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, as cached graphs keep the backend they were traced with"
)
_OTHERS_FIRST = ("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
"""aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: priority_order."""
_SAME_SHAPES = (
    "keep the shapes of query, key and value the same from call to call (a cache of full length with a mask)"
)
_UNSEEN = HostOperator("aten::_cudnn_attention_forward", 0.0, 0.0)
_FEW_SIZES = "pad its inputs to a few sizes, whose plans are then used again"


def find(case: Case) -> Iterable[Finding]:
    new = case.times.new_sizes
    fits = profile_fits(case)
    planned = [item for item in slow_operators(case) if _is_planned(item, new is not None and new.most)]
    if planned:
        yield _each_call(case, planned)
    elif new is not None and new.slow:
        # A profile that does not fit is of these calls.
        seen = [] if fits else [item for item in slow_when_profiled(case) if _is_planned(item, True)]
        plans = max((_attentions(graph) for graph in case.graphs if graph.runs), default=0)
        if seen or plans:
            yield _first_calls(case, new, seen, plans)


def _is_planned(operator: HostOperator, anew: bool) -> bool:
    """Where sizes come again, or nobody knows, only of attention, whose own may grow unseen."""
    if anew:
        return bool(_ATTENTION.fullmatch(operator.name) or _CONVOLUTION.fullmatch(operator.name))
    return bool(_ATTENTION.fullmatch(operator.name)) and operator.ms > PLANNING_MS * operator.calls


def _each_call(case: Case, planned: list[HostOperator]) -> Finding:
    # What launching it costs stays, whoever plans it.
    cost = sum(item.ms - case.costs.launch_ms * item.calls for item in planned)
    worst = planned[0]
    title = (
        f"the host is {duration(worst.ms / worst.calls)} in {worst.name} each time, "
        f"{plural(round(worst.calls), 'time')} a call, while the GPU waits{_in_eager(case, worst)}: "
        f"cuDNN plans {_what(worst)} anew for each new shape"
    )
    claim = on_part(HOST, cost, "profiled")
    return _finding(case, worst, title, cost, case.share(cost), claim)


def _attentions(graph: GraphCase) -> int:
    """Calls of cuDNN's attention in one run."""
    return sum(bool(_CALL.match(launch.name)) for launch in graph.launches)


def _first_calls(case: Case, new: NewSizes, planned: list[HostOperator], plans: int) -> Finding:
    """Where a plan is used again later: the run pays once for each size, and a steady call nothing. Without a
    profile of those calls, what so many plans surely take is cuDNN's attention's, and the rest may be."""
    compiled = case.sides.joined.compiled if case.sides is not None else None
    worst, within = _UNSEEN, 1.0
    why = "that was not profiled; cuDNN, to which their attention is left, makes a plan for each new shape"
    if planned and compiled is not None:
        worst, within = planned[0], min(sum(item.ms for item in planned) / compiled.wall_ms, 1.0)
        seen = f"{percent(within)} of a profiled one in {worst.name} itself"
        why = f"cuDNN plans {_what(worst)} for each new shape, {seen}"
    cost = new.beyond_ms * within
    title = (
        f"{plural(new.calls, 'call')} of {new.of:,} have sizes that no earlier one had, and take "
        f"{duration(new.ms)} where later ones with the same take {duration(new.again_ms)}: {why}"
    )
    each = new.ms - new.again_ms
    told = 1.0 if planned else min(1.0, PLAN_MS * plans / each) if each > 0 else 0.0
    claim = on_whole((told * cost, cost), "profiled" if planned else "bounded")
    called = new.beyond_ms + new.of * new.again_ms
    share = cost / (called + (case.times.cold_ms or 0.0))
    finding = _finding(case, worst, title, cost, share, claim)
    # As loud as what it is of the calls: who serves other sizes pays it again, and compiling once.
    loud = severity_of(told * cost / called)
    return replace(finding, severity=loud, account="run", how="measured" if planned else "estimated")


def _finding(
    case: Case, worst: HostOperator, title: str, cost: float, share: float | None, claim: Claim
) -> Finding:
    return Finding(
        rule="planned_anew",
        severity=severity_of(share),
        title=title,
        graph=None,
        cost_ms=cost,
        evidence=tuple(_evidence(case, worst))[:3],
        advice=_advice(case, worst),
        how="measured",
        share=share,
        trial=_trial(case, worst),
        claims=(claim,),
    )


def _what(operator: HostOperator) -> str:
    return "attention" if _ATTENTION.fullmatch(operator.name) else "convolutions"


def _advice(case: Case, operator: HostOperator) -> str:
    if not _ATTENTION.fullmatch(operator.name):
        return _FEW_SIZES
    others = "" if _chosen(case) else f"torch.backends.cuda.enable_cudnn_sdp(False), {_NO_CACHE}; or "
    return others + _SAME_SHAPES


def _trial(case: Case, operator: HostOperator) -> Trial | None:
    attention = _ATTENTION.fullmatch(operator.name) and not _chosen(case)
    return Trial(environment=(_OTHERS_FIRST,)) if attention else None


def _chosen(case: Case) -> bool:
    """Whether the program itself names the backend."""
    return any(_CHOSEN.search(line) for program in case.programs for line in program.lines)


def _in_eager(case: Case, operator: HostOperator) -> str:
    side = case.sides.joined.eager if case.sides is not None else None
    same = [item for item in side.operators if item.name == operator.name] if side is not None else []
    return f" (in eager {duration(same[0].ms / same[0].calls)} each, profiled)" if same else ""


def _evidence(case: Case, operator: HostOperator) -> Iterator[Evidence]:
    pattern = _CALL if _ATTENTION.fullmatch(operator.name) else _CONVOLVED
    for graph, launch in case.launches():
        if pattern.match(launch.name):
            yield graph.launch_evidence(launch, launch.name)
            yield from (source_evidence(case, source) for source in launch.sources[:1])


RULE = Rule("planned_anew", Stage.PROGRAM, find)
