"""Operators that Inductor has no code for: they run as in eager, and nothing fuses through them.

Looks at: launches of ``torch.ops.*`` that are not a library's matmul, convolution or attention; with profiles
of both sides, the blocks in which they do more than eager; where a call is no slower than eager's, nothing is
lost by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from inspector.analysis.dataflow import operator
from inspector.analysis.steady import MOST, RUN_TO_RUN, SAME
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_block, on_launches
from inspector.explain.complex_numbers import AS_REAL, has_complex
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.explain import Finding
from inspector.model.two_sides import Block
from inspector.units import duration

_COPIES = re.compile(r"aten\.(?:slice_scatter|select_scatter|copy|index_put)\b")
_OTHER_WAYS = {
    "linalg_inv_ex": "solve with the matrix (torch.linalg.solve) in place of multiplying by its inverse",
}
"""What does the same with less, of operators that are a program's own choice: on two threads of a CPU solving
took 0.22 to 0.68 of inverting and multiplying. Cholesky's was no faster than any other."""
_TORCHS = ("aten.", "aoti_torch_", "prims.", "_c10d", "quantized.", "mkldnn.")
_COPIES_ADVICE = (
    "writing into a part of a complex tensor copies all of it in compiled code: write into its real view "
    "(torch.view_as_real), put it together with torch.cat or F.pad, or leave these lines out"
)


def find(case: Case) -> Iterable[Finding]:
    costly = sorted(
        ((graph.ms(launch), graph, launch) for graph, launch in case.launches() if launch.role == "fallback"),
        key=lambda item: -item[0],
    )
    if not costly:
        return
    lost = _lost(case, costly) if case.sides is not None and case.sides.ledger is not None else None
    # Where both sides were profiled, what is as slow in eager is nothing that compiling lost.
    telling = [item for _, _, own in lost for item in own] if lost else costly
    if lost is None and case.times.outcome in ("faster", "same"):
        # Eager runs them too, and a call is no slower for them.
        lost = []
    if lost is None:
        cost = case.within_call(sum(ms for ms, _, _ in costly))
    else:
        cost = sum(more for more, _, _ in lost)
    share = case.share(cost) if cost else None
    names = list(dict.fromkeys(launch.name.removeprefix("torch.ops.") for _, _, launch in telling))
    evidence = []
    seen = RUN_TO_RUN * max(ms for ms, _, _ in telling)
    for ms, graph, launch in [item for item in telling if item[0] >= seen][:4]:
        evidence.append(graph.launch_evidence(launch, f"{timed(launch, ms)} {launch.name}"))
        if launch.sources:
            evidence.append(source_evidence(case, launch.sources[0]))
    how = how_timed(launch for _, _, launch in telling)
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    work = f"{', '.join(names[:2])}{more}"
    severity = severity_of(share)
    if lost:
        title = f"{duration(cost)} more than in eager in {work}: no code of Inductor's, and more work"
        claims = tuple(on_block(number, ms, "profiled") for ms, number, _ in lost)
    else:
        whole = case.within_call(sum(ms for ms, _, _ in costly))
        if lost is not None and severity_of(case.share(whole)) == "low":
            return
        libraries = min(case.role_ms("library"), whole)
        if lost is not None and how != "estimated" and whole + libraries >= MOST * case.wall_ms:
            # With no more in libraries they are most of the call: what is done to compiled code wins less.
            severity = "medium"
            work = f"{work}, of {duration(case.wall_ms)} a call"
        title = f"{about(whole, how)} in {work}: no code of Inductor's, run as in eager"
        claims = () if lost is not None else on_launches([(g, item, ms) for ms, g, item in costly], how, cost)
    yield Finding(
        rule="fallback_kernels",
        severity=severity,
        title=title,
        graph=telling[0][1].name,
        cost_ms=cost or None,
        claims=claims,
        evidence=tuple(evidence),
        advice=_COPIES_ADVICE if lost and _COPIES.search(names[0]) else _advice(names, costly[0][1]),
        how=how,
        share=share,
    )


def _lost(
    case: Case, costly: Sequence[tuple[float, GraphCase, Launch]]
) -> list[tuple[float, int, list[tuple[float, GraphCase, Launch]]]]:
    """(milliseconds more than in eager, place of the block, launches of it): blocks that are these operators
    for the most part, run more kernels than eager, and lost more than two profiles of the same differ by."""
    assert case.sides is not None
    own = {(graph.name, launch.call.index): (ms, graph, launch) for ms, graph, launch in costly if ms > 0}
    lost = []
    for number, block in enumerate(case.sides.joined.blocks):
        inside = [own[place] for place in block.launches if place in own]
        compiled = block.compiled_ms or 0.0
        mostly = sum(ms for ms, _, _ in inside) >= MOST * compiled
        surely = case.least_lost_ms(block)
        if inside and mostly and surely > SAME * compiled and not _as_in_eager(block):
            lost.append((surely, number, sorted(inside, key=lambda item: -item[0])))
    return sorted(lost, key=lambda item: -item[0])


def _as_in_eager(block: Block) -> bool:
    """Whether eager runs the same kernels, no more and no less often: that they took longer is not their
    work."""
    eager, compiled = (
        {kernel.name for kernel in kernels} for kernels in (block.eager_kernels, block.compiled_kernels)
    )
    return compiled <= eager


def _advice(names: list[str], graph: GraphCase) -> str:
    own = [name for name in names if not name.startswith(_TORCHS)]
    if own:
        return (
            f"{own[0]} is opaque to the compiler: write it with torch operators"
            f"{' or as a Triton kernel' if graph.gpu else ''}, or register a decomposition"
        )
    if way := other_way(names[0]):
        return way
    if any("complex" in name or "fft" in name for name in names):
        return "complex numbers and FFTs are not fused; keep them to few large calls"
    if has_complex(graph.artifacts.fx_nodes):
        return AS_REAL
    return (
        "use an operator that Inductor has code for, or call it once on more data; what "
        "is around it can't fuse with it"
    )


def other_way(name: str) -> str:
    """How to do what an operator does with less; empty where nobody knows."""
    return _OTHER_WAYS.get(operator(name), "")


RULE = Rule("fallback_kernels", Stage.CODE, find, place_only=True)
