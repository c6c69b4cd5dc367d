"""A Triton kernel that multiplies matrices without the tensor cores that its dtype has on this GPU.

Looks at: templates and users' kernels with a ``tl.dot`` whose time was measured, and the instructions that
they were lowered to. Of a product whose operations are counted the least with tensor cores is known; of
another (a user's kernel, attention with a mask) how many of its instructions multiply for ``tl.dot``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.analysis.lowering import LoweredKernel
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.launches import given_dtype
from inspector.explain.least import REACHED, Machine, arithmetic, least_of, machine_of
from inspector.explain.rule import Rule, Stage, how_timed, severity_of, source_evidence, timed
from inspector.model.account import ClaimHow, Interval
from inspector.model.explain import Evidence, Finding
from inspector.units import percent

_DOT = "tl.dot("
# wgmma.mma_async.sync.aligned.m64n128k16, mma.sync.aligned.m16n8k8.row.col.f32.tf32, tcgen05.mma
_IN_PTX = re.compile(r"\b(?:wgmma\.mma|w?mma\.sync|tcgen05\.mma)")
# fma.rn.f32 %r1, %r2, %r3, %r4; mad.lo.s32; FFMA R1, R2, R3, R4; HFMA2; IMAD
_MULTIPLIES = re.compile(r"\b(?:fma\.rn|mad\.lo|dp4a|[FHD]FMA2?|IMAD|IDP)\b")
_DTYPES = {
    "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "i8": "int8", "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
}  # fmt: skip
"""By Triton's names of them."""


def find(case: Case) -> Iterable[Finding]:
    """One finding for each such launch."""
    if not case.gpu or case.lowered is None:
        return
    machine = machine_of(case)
    for graph, launch in case.launches():
        dtype = _dtype(launch)
        asked = launch.measured and graph.runs and _DOT in launch.source and dtype in _DTYPES.values()
        item = case.lowered(graph.name, launch.call.index) if asked else None
        if item is None or dtype is None or not _without(item):
            continue
        part = _multiplying(item)
        claimed = _claimed(machine, graph, launch, dtype, part)
        if claimed is None:
            continue
        ms, how = claimed
        stage = item.stage("sass") or item.stage("ptx")
        single = dtype == "float32"
        of_all = f"; {percent(part)} of its instructions multiply for tl.dot" if part else ""
        yield Finding(
            rule="no_tensor_cores",
            severity=severity_of(case.share(ms[0])),
            title=(
                f"{launch.name} multiplies {dtype} matrices without tensor cores, "
                f"{timed(launch, graph.ms(launch))}"
            ),
            graph=graph.name,
            cost_ms=ms[1],
            claims=(on_launch(graph, launch, ms, how),),
            evidence=(
                graph.launch_evidence(launch, launch.name),
                *(
                    [Evidence(stage.path, None, f"no instruction of a tensor core{of_all}")]
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


def _dtype(launch: Launch) -> str | None:
    """Of the matrices: what the launch gives, else that of all pointers of a user's kernel."""
    pointers = (
        {each.type[1:] for each in launch.kernel.parameters if each.type[:1] == "*"}
        if launch.kernel
        else set()
    )
    return given_dtype(launch) or (_DTYPES.get(*pointers) if len(pointers) == 1 else None)


def _claimed(
    machine: Machine, graph: GraphCase, launch: Launch, dtype: str, part: float
) -> tuple[Interval, ClaimHow] | None:
    """What it takes, per steady call, over twice the least with tensor cores and over that. Where nobody
    knows its operations, at most that part of its time which tensor cores would do, as far as they are
    faster, and not what moving its bytes takes; at least nothing, as what its blocks wait for may stay."""
    (least, _), _ = least_of(machine, graph, launch)
    if machine.peaks is None:
        return None
    if launch.flops:
        low, high = launch.ms - least / REACHED, launch.ms - least
        return ((low * graph.runs, high * graph.runs), machine.how) if low > 0 else None
    rates = machine.peaks.flops_per_s
    plain, fast = rates.get("float32"), rates.get(arithmetic(dtype, machine.peaks))
    if not plain or not fast or fast <= plain:
        return None
    high = min(launch.ms * part * (1 - plain / fast), launch.ms - least)
    return ((0.0, high * graph.runs), "estimated") if high > 0 else None


def _multiplying(item: LoweredKernel) -> float:
    """The part of its instructions that multiply and add at a line with a ``tl.dot``, of those in loops where
    it has some."""
    stage, span = item.stage("sass") or item.stage("ptx"), item.kernel.source_span
    facts = item.facts(stage.name) if stage is not None else None
    if stage is None or facts is None or span is None:
        return 0.0
    source = item.kernel.source.split("\n")
    rows = [row for row, place in enumerate(stage.places, 1) if place is not None]
    inside = [row for row in rows if facts.in_loop(row)] or rows
    count = 0
    for row in inside:
        origin = item.origin(stage.places[row - 1]) if _MULTIPLIES.search(stage.lines[row - 1]) else None
        if origin is not None and origin.line is not None:
            count += _DOT in source[origin.line - span.first]
    return count / len(inside) if inside else 0.0


def _without(item: LoweredKernel) -> bool:
    """Whether its last stage that is there has none of their instructions."""
    sass, ptx = item.facts("sass"), item.stage("ptx")
    if sass is not None:
        return not sass.tensor_cores
    return ptx is not None and not any(map(_IN_PTX.search, ptx.lines))


RULE = Rule("no_tensor_cores", Stage.CODE, find)
