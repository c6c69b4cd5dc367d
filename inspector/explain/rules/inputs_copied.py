"""A CUDA graph's inputs are copied to where it reads them before each replay.

Looks at: the copies that the profile has beside the kernels of graphs that run as CUDA graphs. Parameters and
buffers stay where they are; what a program hands over may lie elsewhere in each call, so that torch copies
it, however little of it is read (torch/_inductor/cudagraph_trees.py: _copy_inputs_and_remove_from_src).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inspector.analysis.program_calls import handed_name, of_module
from inspector.analysis.traffic import meta_bytes
from inspector.explain.case import Case
from inspector.explain.claims import on_block
from inspector.explain.estimate import FACTOR
from inspector.explain.rule import Rule, Stage, severity_of
from inspector.model.explain import Evidence, Finding
from inspector.model.two_sides import Block
from inspector.units import duration, percent, size

_COPIES = "aten::_foreach_copy_"
_MOST_NAMED = 2
"""Of the arguments, the largest: more make no line longer than a terminal is wide."""


def find(case: Case) -> Iterable[Finding]:
    recorded = {graph.name for graph in case.graphs if graph.cuda_graphs}
    blocks = case.sides.joined.blocks if case.sides is not None else ()
    copied = [
        (number, block)
        for number, block in enumerate(blocks)
        if block.operators == (_COPIES,) and block.graph in recorded and not block.eager_ms
    ]
    ms = sum(block.compiled_ms or 0.0 for _, block in copied)
    if ms < case.noise_ms or not copied:
        return
    share = case.share(ms)
    large = sorted(_handed(case, [block for _, block in copied]), reverse=True)[:_MOST_NAMED]
    names = " and ".join(f"{name} ({size(count)})" for count, name in large)
    named = f", most of it for {names}" if names else ""
    yield Finding(
        rule="inputs_copied",
        severity=severity_of(share),
        title=f"copying inputs to where CUDA graphs read them takes {duration(ms)} of "
        f"{duration(case.wall_ms)} a call ({percent(ms / case.wall_ms)}){named}",
        graph=copied[0][1].graph,
        cost_ms=ms,
        evidence=_evidence(case),
        advice="hand over only what a call reads of them (index before the compiled function), or say that "
        "they stay where they are: torch._dynamo.mark_static_address(x), where x is only changed in place",
        how="measured",
        share=share,
        # What the host does meanwhile it has to do then as well.
        claims=tuple(
            on_block(at, ((block.compiled_ms or 0.0) / FACTOR, block.compiled_ms or 0.0), "profiled")
            for at, block in copied
        ),
    )


def _handed(case: Case, blocks: list[Block]) -> Iterator[tuple[int, str]]:
    """Bytes and names of the arguments of the graphs that the program hands over."""
    names = {block.graph for block in blocks}
    # A forward and a backward graph are of one.
    for compile_id in {graph.artifacts.compile_id for graph in case.graphs if graph.name in names}:
        whole = case.frame(compile_id)
        for node in whole.nodes if whole is not None else ():
            name = handed_name(node.name) if not node.target and node.meta is not None else ""
            if name and not of_module(node.name):
                yield meta_bytes(node), name


def _evidence(case: Case) -> tuple[Evidence, ...]:
    return case.compile_lines[:2] or (Evidence(case.facts.root, None, "the profile's copies"),)


RULE = Rule("inputs_copied", Stage.LOST, find)
