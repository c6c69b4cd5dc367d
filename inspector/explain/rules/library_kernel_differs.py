"""The same operator is left to a library on both sides, which runs another, slower kernel in compiled code.

Looks at: profiles of both sides, block by block; and replays, which time a library's call with eager's
strides as well (inspector/replay/worker/reference/eager_strides.py). What a library chooses follows from
sizes, strides and dtype, and of these Inductor changes strides: its layout optimisation makes convolutions
channels-last. Or it runs the same kernel, and copies into the layout that this wants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from inspector.analysis.call_nodes import CONVOLUTIONS
from inspector.analysis.dataflow import operator, shown
from inspector.analysis.steady import MOST
from inspector.analysis.two_sides import library_kernels, same_operator_other_kernel
from inspector.explain.block_words import both_times, kernel_text, label, short_kernel
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.complex_numbers import AS_REAL, on_complex
from inspector.explain.rule import Rule, Stage, lost_finding, severity_of, source_evidence, timed
from inspector.model.explain import Finding, Trial
from inspector.model.replay import Restrided
from inspector.model.source import Size, SourceLocation
from inspector.model.two_sides import Block, KernelTime
from inspector.units import duration, plural

FAST_PATHS = frozenset({"_transformer_encoder_layer_fwd", "_native_multi_head_attention"})
"""One operator for a layer, which chooses its attention by itself (torch/nn/modules/transformer.py)."""
_FAST_PATH = (
    "take the layers' own fast path away, so that Inductor compiles their parts with the usual attention: "
    "torch.backends.mha.set_fastpath_enabled(False)"
)


_WITHOUT_LAYOUTS = Trial(config=(("layout_optimization", False),))
_NO_LAYOUTS = (
    "try it without Inductor's layout optimisation, which makes convolutions channels-last: "
    "TORCHINDUCTOR_LAYOUT_OPTIMIZATION=0"
)
_COMPLEX = "other kernels, as Inductor takes operators of complex numbers apart"
_COPY = "aten::copy_"
_INDEX_ADD = "index_add"
_ADDS = (
    "Inductor makes an index_put of this index_add, which sorts its indices first: add real numbers of 32 or "
    "64 bits, torch.view_as_real(x) of complex ones, for which it writes a kernel of its own (atomic "
    "additions); or call index_add in a torch.library.custom_op"
)
_Saved = tuple[GraphCase, Launch, float]
"""A call, and the milliseconds per steady call that eager's strides save, below 0 where they cost."""


def find(case: Case) -> Iterable[Finding]:
    """What a replay says of strides, then blocks that are not explained by that."""
    calls = [
        (graph, launch, graph.ms(launch) * (1 - launch.of_eager_strides))
        for graph, launch in case.launches()
        if launch.of_eager_strides is not None and graph.runs
    ]
    optimised = [item for item in calls if _optimised(*item[:2])]
    together = sum(saved for _, _, saved in optimised) > 0
    alone = defaultdict(list)
    for item in calls:
        if item[2] > 0 and not (together and item in optimised):
            alone[operator(item[1].name)].append(item)
    if together:
        yield _by_strides(case, optimised, _NO_LAYOUTS, _WITHOUT_LAYOUTS)
    for name, items in alone.items():
        yield _by_strides(
            case,
            items,
            f"call {name} in a torch.library.custom_op (with register_fake, and register_autograd to train): "
            "it is handed the strides that eager hands it",
        )
    yield from _blocks(case, {(graph.name, launch.call.index): saved for graph, launch, saved in calls})
    yield from _copying(case)
    yield from _scattered(case)


def _optimised(graph: GraphCase, launch: Launch) -> bool:
    """Whether Inductor's layout optimisation made it channels-last."""
    changed = "convolution" in launch.name and not _layouts_off(graph)
    return changed and any(map(_innermost, launch.restrided))


def _layouts_off(graph: GraphCase) -> bool:
    return graph.config.get("torch._inductor.config.layout_optimization") == "False"


def _innermost(tensor: Restrided) -> bool:
    """Whether its channels are innermost as compiled alone."""
    return len(tensor.size) > 2 and tensor.size[1] > 1 and tensor.compiled[1] == 1 != tensor.eager[1]


def _by_strides(case: Case, items: list[_Saved], advice: str, trial: Trial | None = None) -> Finding:
    """Calls that one way out would change together: they claim what all of them would save together."""
    items = sorted(items, key=lambda item: -item[2])
    cost = sum(saved for _, _, saved in items)
    whole = sum(graph.ms(launch) for graph, launch, _ in items)
    graph, launch, _ = items[0]
    evidence = []
    for owner, call, saved in items[:2]:
        evidence += [source_evidence(case, place) for place in call.sources[:1]]
        took = owner.ms(call)
        text = f"{duration(took)}, with eager's strides {duration(took - saved)}: {call.restrided[0].told}"
        evidence.append(owner.launch_evidence(call, text))
    where = f" at {launch.sources[0].short}" if launch.sources else ""
    others = f" and {len(items) - 1} more" if len(items) > 1 else ""
    share = case.share(cost)
    return Finding(
        rule="library_kernel_differs",
        severity=severity_of(share),
        title=(
            f"{operator(launch.name)}{where}{others}: {duration(whole)} with the strides that compiled "
            f"code gives, {duration(whole - cost)} with eager's, replayed alone"
        ),
        graph=graph.name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice=advice,
        how="replayed",
        share=share,
        trial=trial,
        claims=on_launches(items, "replayed", cost),
    )


def _blocks(case: Case, saved: Mapping[tuple[str, int], float]) -> Iterable[Finding]:
    """Blocks that run another library kernel; not those whose loss is mostly `saved` with eager's strides."""
    alike: dict[object, list[tuple[int, Block]]] = defaultdict(list)
    for number, block in case.slower:
        by_strides = sum(max(saved.get(place, 0.0), 0.0) for place in block.launches)
        if same_operator_other_kernel(block) and by_strides < MOST * case.least_lost_ms(block):
            names = tuple(kernel.name for kernel in _longest(block))
            # Of complex numbers it is one cause, whichever operators it is.
            key = AS_REAL if _of_complex(case, block) else (block.operators, block.phase, names)
            alike[key].append((number, block))
    for blocks in alike.values():
        blocks.sort(key=lambda item: -item[1].difference_ms)
        block = blocks[0][1]
        eager, compiled = _longest(block)
        more = sum(item.difference_ms for _, item in blocks[1:])
        others = f"; and {duration(more)} more in {plural(len(blocks) - 1, 'block')} like it" if more else ""
        advice, trial = _way_out(case, block, compiled)
        yield lost_finding(
            case,
            blocks,
            rule="library_kernel_differs",
            title=(
                f"{label(block)}: {both_times(block)}, by "
                + (_COMPLEX if _of_complex(case, block) else "another library kernel")
                + f": {kernel_text(eager)}; {kernel_text(compiled)}{others}"
            ),
            advice=advice,
            trial=trial,
        )


def _way_out(case: Case, block: Block, compiled: KernelTime) -> tuple[str, Trial | None]:
    """What to do about another library kernel, and the setting that tries it."""
    layouts = _WITHOUT_LAYOUTS if case.gpu and set(block.operators) <= CONVOLUTIONS else None
    if FAST_PATHS.intersection(block.operators):
        return _FAST_PATH, layouts
    if layouts is not None:
        return _NO_LAYOUTS, layouts
    if _of_complex(case, block):
        return AS_REAL, None
    if _adds_by_index(case, block):
        return _ADDS, Trial(whole=(f"aten.{_INDEX_ADD}",))
    given = f"compare what {short_kernel(compiled.name)} is given in output_code.py with eager's call"
    return f"{given}: strides, sizes, dtype", None


def _of_complex(case: Case, block: Block) -> bool:
    """Whether an operator on complex numbers is done in several of ATen's calls."""
    numbers = any(on_complex(graph, launch) for graph, launch in case.launches_of(block))
    return numbers and not _adds_by_index(case, block)


def _adds_by_index(case: Case, block: Block) -> bool:
    """Whether the program's index_add is ATen's index_put in compiled code: what torch's decomposition makes
    of it (torch/_refs: index_add) and Inductor has no kernel for, as of complex numbers."""
    called = {
        operator(launch.name).rstrip("_") for _, launch in case.launches_of(block) if launch.role in CALLED
    }
    return set(block.operators) == {_INDEX_ADD} and called == {"index_put"} and block.phase == "forward"


def _copying(case: Case) -> Iterable[Finding]:
    """Convolutions of a CPU that run the same kernel as in eager, behind copies into the layout that this
    wants: a backward's, whose forward one Inductor made channels-last."""
    blocks = [
        item
        for item in _behind_copies(case)
        if CONVOLUTIONS.issuperset(item[1].operators)
        and not any(graph.name == item[1].graph and _layouts_off(graph) for graph in case.graphs)
    ]
    if blocks:
        what = "what it is handed into another layout"
        yield _of_copies(case, blocks, what, _NO_LAYOUTS, _WITHOUT_LAYOUTS)


def _scattered(case: Case) -> Iterable[Finding]:
    """Products of a CPU that run the same kernel as in eager, behind copies of each matrix of a factor whose
    rows and columns lie apart: Inductor wrote it in the order of what it is made of, the batch innermost."""
    found = [
        (item, graph, launch, factor)
        for item in _behind_copies(case)
        for graph, launch in case.launches_of(item[1])
        if (factor := _apart(graph, launch)) is not None
    ]
    if not found:
        return
    _, graph, launch, factor = found[0]
    blocks = list(dict.fromkeys(item for item, *_ in found))
    at = f" in line {factor.line.line}" if factor.line is not None else ""
    what = (
        f"each matrix of {factor.name} first, as neither rows nor columns lie together in strides "
        f"{factor.strides}"
    )
    advice = (
        f"write this factor row by row behind what makes it{at}: .contiguous(), or where it lies so in eager "
        "and Inductor leaves that out, y = y.as_strided(y.size(), y.stride())"
    )
    finding = _of_copies(case, blocks, what, advice)
    text = f"{timed(launch, graph.ms(launch))}: {launch.name}"
    made = () if factor.line is None else (source_evidence(case, factor.line),)
    evidence = (*finding.evidence[:1], *made, graph.launch_evidence(launch, text), *finding.evidence[1:])
    yield replace(finding, evidence=evidence)


def _behind_copies(case: Case) -> list[tuple[int, Block]]:
    """Blocks of a CPU, with their places, whose copies are most of what they lost, the longest first."""
    blocks = [
        item
        for item in ([] if case.gpu else case.slower)
        if _copied_ms(item[1]) > MOST * item[1].difference_ms
    ]
    return sorted(blocks, key=lambda item: -_copied_ms(item[1]))


def _of_copies(
    case: Case, blocks: Sequence[tuple[int, Block]], what: str, advice: str, trial: Trial | None = None
) -> Finding:
    block = blocks[0][1]
    copied = duration(sum(_copied_ms(item) for _, item in blocks))
    others = f", with {plural(len(blocks) - 1, 'block')} like it" if len(blocks) > 1 else ""
    return lost_finding(
        case,
        blocks,
        rule="library_kernel_differs",
        title=f"{label(block)}: {both_times(block)}, the same library kernel, which copies {what}: "
        f"{copied}{others}",
        advice=advice,
        trial=trial,
    )


class _Factor(NamedTuple):
    """A buffer that a product reads, its strides in elements, and the line of what it holds."""

    name: str
    strides: tuple[Size, ...]
    line: SourceLocation | None


def _apart(graph: GraphCase, launch: Launch) -> _Factor | None:
    """A factor of a batched product with strides that no BLAS takes, so that ATen copies each matrix of it
    (aten/src/ATen/native/LinearAlgebra.cpp: bmm_out_or_baddbmm_, batch_items_contiguous_or_transposed)."""
    if operator(launch.name) not in ("bmm", "baddbmm"):
        return None
    for leaf in (leaf for other in graph.launches for leaf in other.leaves):
        for buffer in leaf.outputs:
            size, stride = (buffer.layout.size, buffer.layout.stride) if buffer.layout else (None, None)
            # As it stands in the call, in no other view.
            if buffer.name in launch.call.arguments and size and stride and len(size) == 3:
                inner = zip(size[1:], stride[1:], strict=True)
                if all(extent != 1 and step != 1 for extent, step in inner):
                    place = launch.call.arguments.index(buffer.name)
                    return _Factor(buffer.name, stride, _written_at(graph, launch, place))
    return None


def _written_at(graph: GraphCase, launch: Launch, place: int) -> SourceLocation | None:
    """The line of what a product has at that place among its arguments, behind all views."""
    nodes = graph.artifacts.fx_nodes
    for node in (nodes[name] for name in launch.fx if name in nodes):
        if operator(node.target) == operator(launch.name) and place < len(node.arguments):
            made = nodes.get(shown(node.arguments[place], nodes))
            return made.source if made is not None else None
    return None


def _copied_ms(block: Block) -> float:
    """What is copied more than in eager."""
    compiled, eager = (
        sum(kernel.taken_ms for kernel in kernels if kernel.name == _COPY)
        for kernels in (block.compiled_kernels, block.eager_kernels)
    )
    return compiled - eager


def _longest(block: Block) -> tuple[KernelTime, KernelTime]:
    """The library's kernel that takes longest, of either side."""
    return library_kernels(block.eager_kernels)[0], library_kernels(block.compiled_kernels)[0]


RULE = Rule("library_kernel_differs", Stage.LOST, find)
