"""A Triton kernel that multiplies matrices without the tensor cores that its dtype has on this GPU.

Looks at: templates and users' kernels with a ``tl.dot`` whose time was measured, and the instructions that
they were lowered to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.analysis.lowering import LoweredKernel
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.launches import given_dtype
from inspector.explain.least import REACHED, Machine, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Evidence, Finding

# wgmma.mma_async.sync.aligned.m64n128k16, mma.sync.aligned.m16n8k8.row.col.f32.tf32, tcgen05.mma
_IN_PTX = re.compile(r"\b(?:wgmma\.mma|w?mma\.sync|tcgen05\.mma)")
_DTYPES = frozenset({"float32", "float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2"})


def find(case: Case) -> Iterable[Finding]:
    """One finding for each such launch."""
    if not case.gpu or case.lowered is None:
        return
    machine = machine_of(case)
    for graph, launch in case.launches():
        ms = _over(machine, graph, launch)
        item = case.lowered(graph.name, launch.call.index) if ms is not None else None
        if ms is None or item is None or not _without(item):
            continue
        stage = item.stage("sass") or item.stage("ptx")
        dtype = given_dtype(launch)
        single = dtype == "float32"
        yield Finding(
            rule="no_tensor_cores",
            severity=severity_of(case.share(ms[0])),
            title=(
                f"{launch.name} multiplies {dtype} matrices without tensor cores, "
                f"{timed(launch, graph.ms(launch))}"
            ),
            graph=graph.name,
            cost_ms=ms[1],
            claims=(on_launch(graph, launch, ms, machine.how),),
            evidence=(
                graph.launch_evidence(launch, launch.name),
                *(
                    [Evidence(stage.path, None, "no instruction of a tensor core")]
                    if stage is not None
                    else []
                ),
                *(source_evidence(case, place) for place in launch.sources[:2]),
            ),
            advice=(
                'torch.set_float32_matmul_precision("high"), where 10 bits of mantissa are enough; in a '
                'kernel of your own tl.dot(..., input_precision="tf32")'
                if single
                else "blocks of at least 16 in each dimension of tl.dot, and operands of the same dtype"
            ),
            how=how_timed([launch]),
            share=case.share(ms[1]),
        )


def _over(machine: Machine, graph: GraphCase, launch: Launch) -> Interval | None:
    """What it takes, per steady call, over the least with tensor cores, and over twice that; None where it is
    no product, or no longer than that."""
    known = machine.peaks is not None and launch.measured and launch.flops and graph.runs
    if not known or "tl.dot" not in launch.source or given_dtype(launch) not in _DTYPES:
        return None
    (least, _), _ = least_of(machine, graph, launch)
    low, high = launch.ms - least / REACHED, launch.ms - least
    return (low * graph.runs, high * graph.runs) if low > 0 else None


def _without(item: LoweredKernel) -> bool:
    """Whether its last stage that is there has none of their instructions."""
    sass, ptx = item.facts("sass"), item.stage("ptx")
    if sass is not None:
        return not sass.tensor_cores
    return ptx is not None and not any(map(_IN_PTX.search, ptx.lines))


RULE = Rule("no_tensor_cores", Stage.CODE, find)
