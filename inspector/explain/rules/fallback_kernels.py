"""Operators that Inductor has no code for: they run as in eager, and nothing fuses through them.

Looks at: launches of ``torch.ops.*`` that are not a library's matmul, convolution or attention.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inspector.explain.case import SAME, Case, Launch
from inspector.explain.claims import on_launches
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.explain import Finding


def find(case: Case) -> Iterable[Finding]:
    costly = sorted(
        ((graph.ms(launch), graph, launch) for graph, launch in case.launches() if launch.role == "fallback"),
        key=lambda item: -item[0],
    )
    cost = case.within_call(sum(ms for ms, _, _ in costly))
    if not costly:
        return
    share = case.share(cost)
    names = list(dict.fromkeys(launch.name.removeprefix("torch.ops.") for _, _, launch in costly))
    evidence = []
    for ms, graph, launch in costly[:4]:
        evidence.append(graph.launch_evidence(launch, f"{timed(launch, ms)} {launch.name}"))
        if launch.sources:
            evidence.append(source_evidence(case, launch.sources[0]))
    same = _as_in_eager(case, [launch for _, _, launch in costly])
    how = how_timed(launch for _, _, launch in costly)
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    yield Finding(
        rule="fallback_kernels",
        severity="low" if same else severity_of(share),
        title=f"{about(cost, how)} in {', '.join(names[:2])}{more}: no code of Inductor's, run as in eager",
        graph=costly[0][1].name,
        cost_ms=None if same else cost,
        claims=() if same else on_launches(((graph, launch, ms) for ms, graph, launch in costly), how, cost),
        evidence=tuple(evidence),
        advice=_advice(names, costly[0][1].gpu),
        how=how,
        share=None if same else share,
    )


def _as_in_eager(case: Case, launches: Sequence[Launch]) -> bool:
    """Whether both sides were profiled, and the blocks of the launches' lines take no longer than in eager:
    what is slow in both is nothing that compiling lost."""
    lines = {source.short for launch in launches for source in launch.sources}
    blocks = [
        block for block in case.library_blocks if lines.intersection(line.short for line in block.lines)
    ]
    compiled = sum(block.compiled_ms or 0.0 for block in blocks)
    return bool(blocks) and compiled - sum(block.eager_ms or 0.0 for block in blocks) <= SAME * compiled


def _advice(names: list[str], gpu: bool) -> str:
    own = [
        name for name in names if not name.startswith(("aten.", "prims.", "_c10d", "quantized.", "mkldnn."))
    ]
    if own:
        return (
            f"{own[0]} is opaque to the compiler: write it with torch operators"
            f"{' or as a Triton kernel' if gpu else ''}, or register a decomposition"
        )
    if any("complex" in name or "fft" in name for name in names):
        return "complex numbers and FFTs are not fused; keep them to few large calls"
    return (
        "use an operator that Inductor has code for, or call it once on more data; what "
        "is around it can't fuse with it"
    )


RULE = Rule("fallback_kernels", Stage.CODE, find)
