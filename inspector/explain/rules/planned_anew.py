"""A library plans an operator anew in each call, on the host, while the device waits.

Looks at: what the host did in each operator itself, by the profile of the compiled side. cuDNN's attention is
planned once for each shape that it is given (aten/src/ATen/native/cudnn/MHA.cpp keeps the plans by it): in
decoding, where a sequence grows by one with each call, that is always.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from inspector.explain.case import Case
from inspector.explain.claims import on_part
from inspector.explain.host_operators import slow_operators
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import HOST
from inspector.model.explain import Evidence, Finding, Trial
from inspector.model.two_sides import HostOperator
from inspector.units import duration, plural

PLANNING_MS = 0.5
"""Each time: planning took 7 ms on an H100's host, launching takes some 20 us, and not 25 times that."""
_PLANNED = re.compile(r"aten::_cudnn_attention_(?:forward|backward)")
_CALL = re.compile(r"torch\.ops\.aten\._(?:scaled_dot_product_)?cudnn_attention")
_CHOSEN = re.compile(r"CUDNN_ATTENTION|enable_cudnn_sdp")
_NO_CACHE = (
    "once with TORCHINDUCTOR_FORCE_DISABLE_CACHES=1, as cached graphs keep the backend they were traced with"
)
_OTHERS_FIRST = ("TORCH_CUDNN_SDPA_DEPRIORITIZED", "1")
"""aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: priority_order."""


def find(case: Case) -> Iterable[Finding]:
    planned = [
        item
        for item in slow_operators(case)
        if _PLANNED.fullmatch(item.name) and item.ms > PLANNING_MS * item.calls
    ]
    # What launching it costs stays, whoever plans it.
    cost = sum(item.ms - case.costs.launch_ms * item.calls for item in planned)
    if not planned:
        return
    worst, share = planned[0], case.share(cost)
    chosen = any(_CHOSEN.search(line) for program in case.programs for line in program.lines)
    others = "" if chosen else f"torch.backends.cuda.enable_cudnn_sdp(False), {_NO_CACHE}; or "
    yield Finding(
        rule="planned_anew",
        severity=severity_of(share),
        title=f"the host is {duration(worst.ms / worst.calls)} in {worst.name} each time, "
        f"{plural(round(worst.calls), 'time')} a call, while the GPU waits{_in_eager(case, worst)}: "
        "cuDNN plans attention anew for each new shape",
        graph=None,
        cost_ms=cost,
        evidence=tuple(_evidence(case))[:3],
        advice=f"{others}keep the shapes of query, key and value the same from call to call (a cache of full "
        "length with a mask)",
        how="measured",
        share=share,
        trial=None if chosen else Trial(environment=(_OTHERS_FIRST,)),
        claims=(on_part(HOST, cost, "profiled"),),
    )


def _in_eager(case: Case, operator: HostOperator) -> str:
    side = case.sides.joined.eager if case.sides is not None else None
    same = [item for item in side.operators if item.name == operator.name] if side is not None else []
    return f" (in eager {duration(same[0].ms / same[0].calls)} each, profiled)" if same else ""


def _evidence(case: Case) -> Iterator[Evidence]:
    for graph, launch in case.launches():
        if _CALL.match(launch.name):
            yield graph.launch_evidence(launch, launch.name)
            yield from (source_evidence(case, source) for source in launch.sources[:1])


RULE = Rule("planned_anew", Stage.PROGRAM, find)
