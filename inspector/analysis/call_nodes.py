"""Which calls of the program each launch of a compiled graph does the work of.

By torch's provenance where it says so; else by the names in the wrapper's comments; else, as in a backward
graph, by the line that each FX node came from and the kind of its operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.frozen import dataclass
from inspector.model.code import KernelCall
from inspector.model.fx import FxGraph, FxNode
from inspector.model.links import Linkage
from inspector.model.run import GraphArtifacts
from inspector.model.two_sides import ProgramCall, ProgramGraph

from .dataflow import VIEWS, draws_seeds, operator
from .program_calls import token

MATMULS = frozenset({
    "linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "einsum", "addbmm", "mv", "dot", "_scaled_mm",
    "multi_head_attention_forward", "scaled_dot_product_attention",
})  # fmt: skip
CONVOLUTIONS = frozenset({
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "convolution",
})  # fmt: skip
ATTENTION = frozenset({"scaled_dot_product_attention"})
_ATTENTIONS = ATTENTION | {"multi_head_attention_forward"}
_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_KINDS: tuple[tuple[tuple[str, ...], frozenset[str]], ...] = (
    (("conv", "mkldnn_convolution", "cudnn_conv"), CONVOLUTIONS),
    (("_scaled_dot_product", "_flash", "_efficient_attention"), ATTENTION),
    (
        ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "_int_mm", "linear", "mkldnn_linear", "_linear"),
        MATMULS,
    ),
    (("embedding",), frozenset({"embedding"})),
    (("scatter",), frozenset({"scatter", "scatter_add", "scatter_reduce"})),
    (("_cudnn_rnn", "lstm", "gru", "mkldnn_rnn"), _RECURRENT),
)
"""Beginnings of what a library call is named, and the program's calls that such a one does the work of."""
_LIBRARY = ("extern", "fallback", "template")


@dataclass(frozen=True, slots=True)
class CallNodes:
    """One launch: numbers of the program's calls that it does work of. A library call `owns` its calls: what
    else touches them is an epilogue or a cast, and belongs to its own other calls."""

    calls: tuple[int, ...]
    owns: bool


def nodes_of_calls(
    artifacts: GraphArtifacts, linkage: Linkage, program: ProgramGraph, part: range | None = None
) -> dict[int, CallNodes]:
    """Number of each launch in the wrapper -> the calls; empty where nothing tells. `part` are the calls of
    the program that the graph does, where others do the rest."""
    if part is not None:
        nodes = nodes_of_calls(artifacts, linkage, part_of_program(program, part))
        shifted = (
            (index, tuple(number + part.start for number in own.calls), own.owns)
            for index, own in nodes.items()
        )
        return {index: CallNodes(calls, owns) for index, calls, owns in shifted}
    if artifacts.code is None:
        return {}
    numbers = {
        name: number for number, call in enumerate(program.calls) for name in (call.name, *call.unpacked)
    }
    before = dict(linkage.pre_fx)
    lines = _Lines(artifacts.fx_after, program, reverse=artifacts.phase == "backward")
    fx = artifacts.fx_nodes
    links = {link.call: link for link in linkage.calls}
    touched: dict[int, CallNodes] = {}
    for call in artifacts.code.calls:
        library = call.kind in _LIBRARY
        names = links[call.index].fx if call.index in links and not draws_seeds(call) else ()
        if library:
            names = core_nodes(call, [fx[name] for name in names if name in fx]) or names
        # What only shows a buffer in another way does no work of a call's.
        library = library and operator(call.kernel) not in VIEWS
        calls = _by_name(names, before, numbers)
        if not calls and artifacts.phase != "backward" and call.origin is not None and not library:
            calls = [numbers[name] for name in call.origin.source_nodes if name in numbers]
        by_line = False
        if not calls:
            by_line = True
            calls = sorted({number for name in names for number in lines.calls_of(name)})
        if library:
            calls = _of_kind(call, calls, program.calls) if by_line or len(calls) > 1 else calls
        touched[call.index] = CallNodes(tuple(dict.fromkeys(calls)), library and bool(calls))
    touched = _with_fed(touched, artifacts.code.calls, program.calls, numbers)
    return _separated(touched, _in_pieces(touched, artifacts.code.calls, program.calls))


def split_program(program: ProgramGraph, needed: Sequence[Iterable[str]]) -> list[range] | None:
    """Which of the program's calls each of several graphs of one frame does, as DDP splits a frame by its
    buckets (torch/_dynamo/backends/distributed.py: DDPOptimizer). `needed` are names of the calls that each
    one's nodes came from, in the frame's order, nothing for the last where it has no files. None where they
    don't fit."""
    ranges: list[range] = []
    first = 0
    for place, names in enumerate(needed):
        open_ = Counter(_base(name) for name in set(names))
        after = first
        while open_.total() and after < len(program.calls):
            open_ -= Counter((_base(program.calls[after].name),))
            after += 1
        if open_.total() or (after == first and place + 1 < len(needed)):
            return None
        ranges.append(range(first, after))
        first = after
    return [*ranges[:-1], range(ranges[-1].start, len(program.calls))] if ranges else None


def part_of_program(program: ProgramGraph, part: range) -> ProgramGraph:
    """Those calls under the names that they have in a graph of their own, which count from the beginning."""
    seen: Counter[str] = Counter()
    named: dict[str, str] = {}
    calls = []
    for call in program.calls[part.start : part.stop]:
        base = _base(call.name)
        named[call.name] = f"{base}_{seen[base]}" if seen[base] else base
        inputs = tuple(named[name] for name in call.inputs if name in named)
        calls.append(replace(call, name=named[call.name], inputs=inputs))
        seen[base] += 1
    return replace(program, calls=tuple(calls))


def _base(name: str) -> str:
    """`linear_1` -> `linear`."""
    front, _, number = name.rpartition("_")
    return front if front and number.isdigit() else name


def core_nodes(call: KernelCall, nodes: Sequence[FxNode]) -> tuple[str, ...]:
    """The FX nodes that are the library call itself, without what fed it or was fused to it."""
    name = operator(call.kernel).rstrip("_")
    exact = tuple(node.name for node in nodes if operator(node.target) == name)
    if exact:
        return exact
    kinds = calls_of_library(name)
    return tuple(
        node.name for node in nodes if kinds is not None and calls_of_library(operator(node.target)) is kinds
    )


def calls_of_library(name: str) -> frozenset[str] | None:
    """The program's calls that a library call of that name does the work of: of `convolution` `conv2d`."""
    name = name.removeprefix("triton_tem_fused_").removeprefix("bias_")
    return next((kinds for starts, kinds in _KINDS if name.startswith(starts)), None)


def _by_name(
    names: Iterable[str], before: Mapping[str, tuple[str, ...]], numbers: Mapping[str, int]
) -> list[int]:
    own = (pre for name in names for pre in before.get(name, ()))
    return sorted({numbers[name] for name in own if name in numbers})


def _of_kind(call: KernelCall, calls: Sequence[int], program: Sequence[ProgramCall]) -> list[int]:
    kinds = calls_of_library(operator(call.kernel))
    same = [number for number in calls if kinds is not None and token(program[number].operator) in kinds]
    return same or list(calls)


def _with_fed(
    touched: dict[int, CallNodes],
    launches: Iterable[KernelCall],
    program: Sequence[ProgramCall],
    numbers: Mapping[str, int],
) -> dict[int, CallNodes]:
    """Library calls of a kind that none of their calls is, with those of that kind that feed them: of a
    product and a sum made one ``addmm`` torch names the sum alone (_inductor/fx_passes/post_grad.py)."""
    owned = {number for nodes in touched.values() if nodes.owns for number in nodes.calls}
    result = dict(touched)
    for launch in launches:
        nodes = touched[launch.index]
        kinds = calls_of_library(operator(launch.kernel)) if nodes.owns else None
        if kinds is None or any(token(program[number].operator) in kinds for number in nodes.calls):
            continue
        feeding = [numbers[name] for own in nodes.calls for name in program[own].inputs if name in numbers]
        fed = [
            number for number in feeding if number not in owned and token(program[number].operator) in kinds
        ]
        result[launch.index] = CallNodes(tuple(dict.fromkeys((*fed, *nodes.calls))), True)
    return result


def _in_pieces(
    touched: Mapping[int, CallNodes], launches: Iterable[KernelCall], program: Sequence[ProgramCall]
) -> frozenset[int]:
    """Attentions of which a library does the products alone: the softmax between them, which a generated
    kernel does, is as much of the call."""
    whole, parts = set[int](), set[int]()
    for launch in launches:
        nodes = touched[launch.index]
        if nodes.owns:
            attends = calls_of_library(operator(launch.kernel)) is ATTENTION
            (whole if attends else parts).update(nodes.calls)
    return frozenset(number for number in parts - whole if token(program[number].operator) in _ATTENTIONS)


def _separated(touched: dict[int, CallNodes], shared: frozenset[int]) -> dict[int, CallNodes]:
    """Generated kernels without the calls that a library call owns, but for those that both do a part of,
    unless these are all they have: then the first of them, whose result the kernel works on."""
    owned = {number for nodes in touched.values() if nodes.owns for number in nodes.calls} - shared
    result = {}
    for index, nodes in touched.items():
        calls = nodes.calls
        if not nodes.owns:
            calls = tuple(number for number in calls if number not in owned) or calls[:1]
        result[index] = CallNodes(calls, nodes.owns)
    return result


class _Lines:
    """FX nodes and the program's calls by line, one run through a line by one where both have as many.

    AOT autograd gives a backward node its forward's line (torch/_functorch/_aot_autograd), so runs of nodes
    of one line come in the program's order, in a backward graph from the end.
    """

    def __init__(self, fx: FxGraph | None, program: ProgramGraph, reverse: bool) -> None:
        self._calls: dict[str, tuple[int, ...]] = {}
        ours = _runs([(str(call.source) if call.source else None) for call in program.calls])
        nodes = list(fx.operations) if fx is not None else []
        theirs = _runs([(str(node.source) if node.source else None) for node in nodes])
        for line, runs in theirs.items():
            segments = ours.get(line, [])
            if reverse:
                runs = runs[::-1]
            if len(segments) == len(runs):
                pairs = [(run, tuple(segment)) for run, segment in zip(runs, segments, strict=True)]
            else:
                whole = tuple(number for segment in segments for number in segment)
                pairs = [(run, whole) for run in runs]
            for run, calls in pairs:
                for number in run:
                    self._calls[nodes[number].name] = calls

    def calls_of(self, name: str) -> tuple[int, ...]:
        return self._calls.get(name, ())


def _runs(lines: Sequence[str | None]) -> dict[str, list[list[int]]]:
    """Line -> its runs of numbers that follow each other; what has no line interrupts none."""
    runs: dict[str, list[list[int]]] = {}
    last: str | None = None
    for number, line in enumerate(lines):
        if line is None:
            continue
        if line != last:
            runs.setdefault(line, []).append([])
            last = line
        runs[line][-1].append(number)
    return runs
