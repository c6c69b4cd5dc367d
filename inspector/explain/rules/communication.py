"""Ranks exchange tensors, and nothing hides it: no other kernel runs on the GPU meanwhile.

Looks at: NCCL's kernels of a profiled call (one rank's), by the time in which no other kernel ran. Such a
kernel begins when its own rank gets there and ends when all have: waits for the slowest are in it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from inspector.analysis.steady import SAME
from inspector.analysis.two_sides import is_communication
from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding
from inspector.model.fx import HALF
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block, KernelTime
from inspector.units import duration, percent

# ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)
_NARROW = "exchange half precision before it is made float32, half the bytes, if its sums are exact enough; "
_COLLECTIVE = re.compile(r"nccl(?:Dev)?Kernel_([A-Za-z]+)")
_EXCHANGE = re.compile(
    r"_c10d_functional\.(?:all_reduce|all_gather_into_tensor|reduce_scatter_tensor|all_to_all)"
)
_WIDENS = re.compile(r"\b(?:convert_element_type|_to_copy)\b")
_PROFILE = "profile/compiled.json.gz"


def find(case: Case) -> Iterable[Finding]:
    if case.sides is None or case.sides.joined.compiled is None or case.ranks < 2:
        return
    blocks = case.sides.joined.blocks
    ours = [kernel for block in blocks for kernel in _exchanges(block, "compiled")]
    theirs = [kernel for block in blocks for kernel in _exchanges(block, "eager")]
    shown = sum(kernel.taken_ms for kernel in ours)
    share = case.share(shown)
    if share is None or share < SAME:
        return
    by_name: dict[str, float] = defaultdict(float)
    for kernel in ours:
        by_name[_name(kernel)] += kernel.taken_ms
    largest = sorted(by_name.items(), key=lambda item: -item[1])[:3]
    kinds = ", ".join(f"{name} {duration(ms)}" for name, ms in largest)
    eager = f"; {duration(sum(kernel.taken_ms for kernel in theirs))} in eager" if theirs else ""
    widened = list(dict.fromkeys(_widened(case)))
    yield Finding(
        rule="communication",
        severity=severity_of(share, at_most="medium"),
        title=f"{duration(shown)} of a call ({percent(share)}) is communication between ranks that no other "
        f"kernel hides, waits for the slowest rank included: {kinds}{eager}",
        graph=None,
        cost_ms=None,
        evidence=(
            *(source_evidence(case, place) for place in widened[:1]),
            *(
                Evidence(_PROFILE, None, f"{kernel.name} x{kernel.calls:g}, {duration(kernel.taken_ms)}")
                for kernel in sorted(ours, key=lambda kernel: -kernel.taken_ms)[:4]
            ),
        ),
        advice=(_NARROW if widened else "") + _advice(by_name),
        how="measured",
        share=share,
    )


def _widened(case: Case) -> Iterator[SourceLocation]:
    """The user's lines that make float32 of half precision which is then exchanged."""
    for graph in case.graphs:
        nodes = graph.artifacts.fx_nodes if graph.runs else {}
        for node in nodes.values():
            given = nodes.get(node.inputs[0]) if _EXCHANGE.search(node.target) and node.inputs else None
            if given is None or given.source is None or not _WIDENS.search(given.target):
                continue
            dtypes = [each.meta.dtype for each in (nodes.get(given.inputs[0]), given) if each and each.meta]
            if dtypes[-1:] == ["float32"] and dtypes[0] in HALF:
                yield given.source


def _exchanges(block: Block, side: str) -> list[KernelTime]:
    kernels: tuple[KernelTime, ...] = getattr(block, f"{side}_kernels")
    return [kernel for kernel in kernels if is_communication(kernel.name)]


def _name(kernel: KernelTime) -> str:
    match = _COLLECTIVE.search(kernel.name)
    return match[1] if match else kernel.name


def _advice(kinds: Iterable[str]) -> str:
    more = (
        "give each exchange more work: a larger batch on each rank, gradients accumulated over several steps"
    )
    if {"AllGather", "ReduceScatter"} <= set(kinds):
        return f"{more}, or with FSDP2 larger units, kept gathered (reshard_after_forward=False)"
    return f"{more}; and see that all ranks arrive at the same time"


RULE = Rule("communication", Stage.PROGRAM, find)
