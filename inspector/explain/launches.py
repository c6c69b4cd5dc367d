"""From a graph's artifacts to its launches: what each one is, moves and takes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from inspector.analysis.call_nodes import core_nodes
from inspector.analysis.dataflow import draws_seeds, operator
from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.traffic import ITEM_BYTES, symbol_hints
from inspector.hardware.flops import Tensor, flops
from inspector.model.code import Kernel, KernelCall
from inspector.model.fusion import FusionReport
from inspector.model.fx import HALF, FxNode, TensorMeta
from inspector.model.links import Linkage
from inspector.model.literals import literal
from inspector.model.replay import GraphReplay, KernelReplay
from inspector.model.run import GraphArtifacts
from inspector.model.schedule import LoopBody, SchedulerNode
from inspector.model.source import SourceLocation, numel

from .case import CALLED, GraphCase, Launch, Role
from .cpp_loops import GAIN, has_vectors, loop_nests
from .estimate import GPU_KERNEL_MS, Peak, generated_ms, memory_ms, point_ns

_LIBRARY = re.compile(
    r"\b(mm|addmm|bmm|baddbmm|bias_addmm|addmv|mv|dot|_int_mm|_scaled_mm|_scaled_grouped_mm|_grouped_mm|"
    r"convolution|convolution_backward|_convolution\w*|mkldnn_\w+|_linear_pointwise|_mkl_linear|"
    r"linear_dynamic_fp16|qlinear\w*|qconv\w*|_weight_int\dpack_mm\w*|"
    r"_scaled_dot_product\w*|_flash_attention\w*|_efficient_attention\w*|_cudnn_attention\w*|"
    r"flex_attention\w*|_transformer_encoder_layer_fwd|_native_multi_head_attention|"
    r"lstm|gru|_cudnn_rnn\w*|_thnn_\w+|mkldnn_rnn_layer\w*)\b"
)
"""Operators whose kernels come from a library in eager just the same."""
_COMMUNICATION = re.compile(r"\b_?c10d\w*|all_reduce|all_gather|reduce_scatter|wait_tensor")
_TRANSFER = re.compile(r"\b(device_put|_copy_from|_pin_memory)\b")
_COPY = re.compile(
    r"\b(copy_|clone|contiguous|_reshape_alias|constant_pad_nd|cat|(?:slice|select|diagonal)_scatter)\b"
)
# add = ops.add(load, load_1)
_OPERATION = re.compile(r"ops\.(\w+)\(")
# set_indirect0 = self.set_indirect0(to_dtype)
_VALUE = re.compile(r"\s*(?P<name>\w+) = (?P<made>(?:ops|self)\.\w+)\((?P<given>.*)\)\s*$")
_NAME = re.compile(r"\b[a-z_]\w*\b")
_MOVES = frozenset(
    {"load", "store", "index_expr", "masked", "constant", "lt", "le", "ge", "gt", "and_", "where"}
)
# bias = None
_MATMUL = re.compile(r"(?:^|[._])(?:mm|addmm|bmm|baddbmm|matmul|linear)(?:$|[._])")
_KEYWORD = re.compile(r"\w+\s*=[^=]")


def library_call(name: str) -> bool:
    """Whether a call of that target runs a kernel of a library, as eager would."""
    return bool(_LIBRARY.search(name) or _COMMUNICATION.search(name))


def is_matmul(name: str) -> bool:
    """Whether a call of that target is a library's matrix product."""
    return bool(_MATMUL.search(name))


def given_dtype(launch: Launch) -> str | None:
    """The dtype of what a launch gives, by its own buffers; None where the schedule does not say, or there is
    more than one. A library's matmul gives the dtype that it takes."""
    buffers = [buffer for leaf in launch.leaves for buffer in leaf.outputs]
    dtypes = {buffer.layout.dtype for buffer in buffers if buffer.layout is not None}
    return dtypes.pop() if len(dtypes) == 1 else None


def gathers(leaf: SchedulerNode) -> bool:
    """A node that reads or writes single elements, not whole rows, at indices that are data."""
    return leaf.body is not None and indexed_by_data(leaf) and not _by_row(leaf.body)


def indexed_by_data(leaf: SchedulerNode) -> bool:
    """Whether its indices are loaded from memory, not worked out from the loops' own variables, as those of
    an interpolation."""
    # Most bodies have no such index, and their values need not be followed.
    return fetches(leaf) and any(
        made.startswith("self.set_indirect") and places for made, places in _of_data(leaf)
    )


def _of_data(leaf: SchedulerNode) -> Iterator[tuple[str, tuple[int, ...]]]:
    """What each line of a body calls, with the places of its arguments that come out of memory."""
    loaded: set[str] = set()
    for line in leaf.body_lines:
        value = _VALUE.match(line)
        if value is None:
            continue
        places = tuple(n for n, name in enumerate(_NAME.findall(value["given"])) if name in loaded)
        yield value["made"], places
        if places or value["made"] == "ops.load":
            loaded.add(value["name"])


def fetched_bytes(launch: Launch) -> int:
    """What a launch fetches from places that are data, which its bytes leave out: an element each time."""
    item = ITEM_BYTES.get(given_dtype(launch) or "float32", 4)
    sizes = [leaf.sizes for leaf in launch.leaves if leaf.sizes is not None and indexed_by_data(leaf)]
    return sum((numel(loops) or 0) * (numel(reduced) or 0) for loops, reduced in sizes) * item


def _by_row(body: LoopBody) -> bool:
    """Whether what is fetched by index lies in a row: ``index1 = 16*indirect0 + p1`` over the last loop."""
    last = body.ranges[-1][0] if body.ranges else ""
    own = re.compile(rf"(?:^|[+] ){re.escape(last)}(?: [+-]|$)")
    return bool(last) and all(own.search(text) for _, text in body.indexing if "indirect" in text)


def fetches(leaf: SchedulerNode) -> bool:
    """Whether it reads or writes at places that it works out or loads."""
    return any("set_indirect" in line for line in leaf.body_lines)


def is_copy(leaf: SchedulerNode) -> bool:
    """A node that only moves elements: permuted, padded, concatenated, but not changed, gathered, or
    added up."""
    if leaf.body is None:
        return False
    if fetches(leaf) or any("self.scan" in line for line in leaf.body.lines):
        return False
    operations = {match for line in leaf.body.lines for match in _OPERATION.findall(line)}
    if not {"load", "store"} <= operations <= _MOVES:
        return False
    # Which element goes where is a matter of places: a relu's gradient is chosen by values.
    return not any(made in ("ops.where", "ops.masked") and 0 in places for made, places in _of_data(leaf))


def shares_of(graph: GraphCase, launch: Launch) -> dict[str, float]:
    """Of all that a launch computes the part of each of its post-fusion entries, by name: 0 to 1. Moving an
    element takes as long as an addition; a C++ loop without vectors takes `GAIN` times as long as with."""
    groups = graph.groups_of(launch)
    slower = [GAIN if nest.scalar else 1.0 for nest in loop_nests(launch.source)]
    if len(slower) != len(groups):
        slower = [1.0] * len(groups)
    weights = {
        group.name: times * max((group.bytes_moved or 0) / 4, graph.fusion.work.get(group.name, 0.0))
        for group, times in zip(groups, slower, strict=True)
    }
    whole = sum(weights.values()) or 1.0
    return {name: own / whole for name, own in weights.items()}


def launches_of(
    artifacts: GraphArtifacts,
    fusion: FusionReport,
    linkage: Linkage,
    symbols: Mapping[str, int],
    device: Peak,
    gpu: bool,
    threads: int,
    replay: GraphReplay | None,
) -> tuple[Launch, ...]:
    """One Launch for each call of the wrapper, in order; empty without output_code.py."""
    code = artifacts.code
    if code is None:
        return ()
    hints = {**symbol_hints(code, artifacts.fx_after), **symbols}
    reader = IndexReader(hints)
    schedule = artifacts.post or artifacts.pre
    entries = {node.name: node for node in schedule.nodes} if schedule is not None else {}
    fx_nodes = artifacts.fx_nodes
    links = {link.call: link for link in linkage.calls}
    timed = {kernel.call: kernel for kernel in replay.kernels} if replay is not None else {}
    moved = fusion.by_call(lambda group: group.bytes_moved)
    asked = fusion.by_call(lambda group: group.bytes_asked)
    kernels = {kernel.name: kernel for kernel in code.kernels}
    made = []
    for call in code.calls:
        link = links.get(call.index)
        leaves = tuple(
            leaf
            for name in (link.entries if link else ())
            if name in entries
            for leaf in entries[name].leaves()
        )
        nodes = [fx_nodes[name] for name in (link.fx if link else ()) if name in fx_nodes]
        made.append(
            _launch(
                call,
                kernels.get(call.kernel),
                leaves,
                nodes,
                fx_nodes,
                moved.get(call.index),
                asked.get(call.index),
                reader,
                device,
                gpu,
                threads,
                timed.get(call.index),
            )
        )
    return tuple(made)


def _launch(
    call: KernelCall,
    kernel: Kernel | None,
    leaves: tuple[SchedulerNode, ...],
    nodes: Sequence[FxNode],
    graph: Mapping[str, FxNode],
    moved: int | None,
    asked: int | None,
    reader: IndexReader,
    device: Peak,
    gpu: bool,
    threads: int,
    timed: KernelReplay | None,
) -> Launch:
    role = _role(call, leaves)
    points = [loop_points(leaf, reader) for leaf in leaves]
    operations = timed.useful_flops if timed is not None else None
    if operations is None and role == "library":
        operations = sum(_flops(node, graph, reader) for node in nodes) or None
    if moved is None and role in (*CALLED, "transfer"):
        moved = _bytes_of(nodes, graph, reader)
    expected = in_vectors = None
    if role in ("generated", "copy"):
        source = kernel.source if kernel is not None else ""
        expected = generated_ms(leaves, points, moved, source, device, gpu, threads)
        in_vectors = expected
        if not gpu and not has_vectors(source):
            in_vectors = generated_ms(leaves, points, moved, source, device, gpu, threads, in_vectors=True)
    measured = timed is not None and timed.own_ms is not None and timed.method == "device"
    if measured:
        assert timed is not None and timed.own_ms is not None
        ms = timed.own_ms
    elif expected is not None:
        ms = expected
    elif role == "library":
        ms = _library_ms(nodes, operations, moved, device, gpu)
    else:
        ms = _fallback_ms(call.kernel, nodes, graph, reader, moved, device, gpu, threads)
    sources: dict[str, SourceLocation] = {}
    # A library's call is at its operator's line, before those of what was made for it.
    own = frozenset(core_nodes(call, nodes)) if role in CALLED else frozenset()
    for node in sorted(nodes, key=lambda node: node.name not in own):
        if node.source is not None:
            sources.setdefault(str(node.source), node.source)
    known = [count for count in points if count is not None]
    return Launch(
        call=call,
        kernel=kernel,
        role=role,
        ms=ms,
        measured=measured,
        bytes=timed.bytes if timed is not None and timed.bytes is not None else moved,
        flops=operations,
        points=sum(known) if known else None,
        leaves=leaves,
        fx=tuple(node.name for node in nodes),
        sources=tuple(sources.values()),
        spills=timed.spills if timed is not None else None,
        of_float32=timed.time_float32.median_ms / timed.time.median_ms
        if timed is not None and timed.time is not None and timed.time_float32 is not None
        else None,
        of_eager_strides=timed.of_eager_strides if timed is not None else None,
        restrided=timed.restrided if timed is not None else (),
        roofline_fraction=timed.roofline_fraction if timed is not None else None,
        expected_ms=expected,
        in_vectors_ms=in_vectors,
        bytes_asked=asked if asked is not None and moved is not None and asked < moved else None,
    )


def _role(call: KernelCall, leaves: Sequence[SchedulerNode]) -> Role:
    if call.kind == "template" or call.kind == "extern":
        return "copy" if _COPY.search(call.kernel) and not library_call(call.kernel) else "library"
    if call.kind == "fallback":
        if library_call(call.kernel):
            return "library"
        if _TRANSFER.search(call.kernel):
            return "transfer"
        if draws_seeds(call):
            return "generated"
        return "copy" if _COPY.search(call.kernel) else "fallback"
    if leaves and all(is_copy(leaf) for leaf in leaves):
        return "copy"
    return "generated"


def busiest_line(graph: GraphCase, launch: Launch) -> SourceLocation | None:
    """The user's line of a call of a library's or of ATen's; of a generated kernel that of the random numbers
    which most of its arithmetic is for. None elsewhere: a kernel is of more lines than one."""
    if launch.role in CALLED:
        wanted, names = operator(launch.name).rstrip("_"), launch.fx
    else:
        wanted, names = "inductor_random", _of_busiest(graph, launch)
    nodes = graph.artifacts.fx_nodes
    found = (nodes[name] for name in names if name in nodes and operator(nodes[name].target) == wanted)
    return next((node.source for node in found if node.source is not None), None)


def _of_busiest(graph: GraphCase, launch: Launch) -> tuple[str, ...]:
    """The FX nodes of those loops of a generated kernel that have most arithmetic by the estimate."""
    reader, vectorised = IndexReader(graph.hints), has_vectors(launch.source)
    work = {
        leaf.name: (loop_points(leaf, reader) or 0) * point_ns(leaf, vectorised) for leaf in launch.leaves
    }
    most = max(work, key=work.__getitem__, default="")
    return next((node.fx for node in graph.fusion.nodes if node.name == most), ())


def loop_points(leaf: SchedulerNode, reader: IndexReader) -> int | None:
    """How often a scheduler node's innermost loop runs; None where a size is not known."""
    if leaf.sizes is None:
        return None
    loops, reduced = leaf.sizes
    first, second = reader.numel(loops), reader.numel(reduced)
    return None if first is None or second is None else first * second


def _numel(meta: TensorMeta | None, reader: IndexReader) -> int:
    return (reader.numel(meta.shape) or 0) if meta is not None else 0


def _longest(meta: TensorMeta | None, reader: IndexReader) -> int:
    """Its longest dimension."""
    return max([reader.size(size) or 0 for size in meta.shape], default=0) if meta is not None else 0


def _flops(node: FxNode, graph: Mapping[str, FxNode], reader: IndexReader) -> int:
    """Operations by the text of the node; 0 where there is no formula."""
    arguments = [_argument(text, graph, reader) for text in node.arguments if not _KEYWORD.match(text)]
    return flops(node.target, arguments, _tensor(node.meta, reader)) or 0


def _argument(text: str, graph: Mapping[str, FxNode], reader: IndexReader) -> object:
    """A node's tensor, or a plain value; None for what is neither."""
    if text in graph:
        return _tensor(graph[text].meta, reader)
    return literal(text)


def _tensor(meta: TensorMeta | None, reader: IndexReader) -> Tensor | None:
    sizes = [reader.size(size) for size in meta.shape] if meta is not None else [None]
    known = tuple(size for size in sizes if size is not None)
    return Tensor(known, meta.dtype) if meta is not None and len(known) == len(sizes) else None


def _bytes_of(nodes: Sequence[FxNode], graph: Mapping[str, FxNode], reader: IndexReader) -> int | None:
    amount = 0
    for node in nodes:
        for meta in (node.meta, *(graph[name].meta for name in node.inputs if name in graph)):
            amount += _numel(meta, reader) * 4
    return amount or None


def _library_ms(
    nodes: Sequence[FxNode], operations: int | None, moved: int | None, device: Peak, gpu: bool
) -> float:
    half = any(node.meta is not None and node.meta.dtype in HALF for node in nodes)
    rate = device.half_flops if half else device.flops
    compute = (operations or 0) / rate * 1e3
    memory = memory_ms(moved or 0, device, gpu)
    return max(compute, memory, GPU_KERNEL_MS if gpu else 0.001)


_SLOW_OPERATORS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"sort|topk|unique|median|kthvalue|mode|argsort"), 60.0),
    (re.compile(r"svd|eig|qr|cholesky|inverse|inv_ex|solve|lstsq|det|matrix_exp|pinv"), 200.0),
    (
        re.compile(
            r"multinomial|histc|bincount|bucketize|searchsorted|cdist|grid_sampler|interpolate|upsample"
        ),
        20.0,
    ),
)
_OTHER_OPERATOR_NS = 3.0
"""Nanoseconds an element in one thread: sorting a million floats takes 60 to 80 ms."""
_FFT_FLOPS = 12e9
"""A library's FFT in one thread, of 5 n log2 n operations: 6 to 22 GFLOP/s, by length, as measured."""


def _fallback_ms(
    name: str,
    nodes: Sequence[FxNode],
    graph: Mapping[str, FxNode],
    reader: IndexReader,
    moved: int | None,
    device: Peak,
    gpu: bool,
    threads: int,
) -> float:
    elements = max(
        [_numel(graph[item].meta, reader) for node in nodes for item in node.inputs if item in graph]
        + [_numel(node.meta, reader) for node in nodes]
        + [(moved or 0) // 8]
    )
    if "fft" in name and not gpu:
        length = max(
            [_longest(graph[i].meta, reader) for node in nodes for i in node.inputs if i in graph] + [2]
        )
        return max(elements * 5 * math.log2(length) / _FFT_FLOPS / max(threads, 1) * 1e3, 0.005)
    each = next((cost for pattern, cost in _SLOW_OPERATORS if pattern.search(name)), _OTHER_OPERATOR_NS)
    if gpu:
        return max(memory_ms((moved or 0) * 3, device, gpu), 2 * GPU_KERNEL_MS)
    return max(elements * each * 1e-6, 0.005)


def code_line(kernel: Kernel | None, line: int) -> int | None:
    """The line of output_code.py for a line (from 1) of the kernel's source."""
    if kernel is None or kernel.source_span is None:
        return kernel.span.first if kernel is not None and kernel.span is not None else None
    return kernel.source_span.first + line - 1
