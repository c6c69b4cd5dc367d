"""What a launch would take, where nobody measured it. Coarse on purpose: shares matter, not digits.

GPUs are those of their datasheets, less what a real kernel does not reach; figures of a CPU are a mid-range
server core's. Every figure that comes from here is labelled as estimated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from inspector.explain.cpp_loops import has_vectors, starts_threads
from inspector.frozen import dataclass
from inspector.hardware.datasheets import datasheet_peaks
from inspector.model.account import ClaimHow
from inspector.model.peaks import Costs
from inspector.model.schedule import SchedulerNode

CPU_BYTES_PER_S = 10e9
"""Main memory, two cores of a shared server (STREAM triad on such machines: 8 to 20 GB/s)."""
CPU_CACHE_BYTES_PER_S = 40e9
"""Working sets that fit the last-level cache."""
CPU_CACHE_BYTES = 16 << 20
"""A part of a server's last-level cache, which two cores share with others."""
CPU_FLOPS_PER_THREAD = 60e9
"""float32 fused multiply-adds with 256-bit vectors at 2.5 GHz: 80e9 at most, most of it reached."""
HOST_MS = 0.030
"""Guards, AOTAutograd's wrapper and the wrapper's Python for one graph: 20 to 60 us, by the machine."""
CPU_LAUNCH_MS = 0.003
"""One call of generated C++ from the wrapper: the allocation of its result, and waking the threads."""
WRAPPER_MS = 0.005
WRAPPER_LAUNCH_MS = 0.002
"""The generated wrapper alone: checks of its inputs, and for each launch an allocation and a call."""
FACTOR = 2.0
"""What estimates are within, mostly: of an estimated cost no more than one such part is certain."""
FAR_OFF = FACTOR * FACTOR
"""Times an estimate: where both the machine and the work are within their factors, what takes longer is none
of it but something else."""
GPU_LAUNCH_MS = 0.012
"""One launch from Python with the allocation of its result: 12 to 20 us on an H200's host (24 to 28 us for a
softmax's two, 640 to 950 us for a transformer's 49: benchmarks/results/explain-h200.txt)."""
CUDA_GRAPH_MS = 0.080
"""Guards, copying inputs and launching one CUDA graph: 81 us for a softmax and for a transformer of 49
kernels (mode="reduce-overhead" on an H200's host, torch 2.11)."""
SYNC_MS = 0.05
"""Draining the queue and starting again: 20 to 100 us."""
CPU_SYNC_MS = 0.002
"""On a CPU nothing is waited for; only fusion ends there."""
TRANSFER_MS = 0.02
"""One transfer, however small, with the wait for it."""
PCIE_BYTES_PER_S = 10e9
"""Pageable memory over PCIe 4: 6 to 12 GB/s."""
GPU_KERNEL_MS = 0.004
"""No kernel is seen to take less than about 2 us; 4 us with its tail."""

VECTOR_NS = 0.08
VECTOR_HEAVY_NS = 0.8
SCALAR_NS = 0.5
SCALAR_HEAVY_NS = 8.0
RANDOM_NS = 30.0
GATHER_NS = 2.0
ATOMIC_NS = 6.0
"""Nanoseconds for one operation on one element in one thread: plain arithmetic and transcendental
functions, vectorised and not; a random number, which no vectors draw (Philox: 30 to 120 on an H200's host);
an indirect load; an atomic add."""

_HEAVY = re.compile(
    r"ops\.(exp2?|expm1|log\w*|tanh|sigmoid|erf\w*|sin|cos|tan|asin|acos|atan2?|sinh|cosh|pow|lgamma|"
    r"digamma|i0e?|i1e?|bessel_\w+|div|truediv|sqrt|rsqrt|floordiv|mod|fmod|remainder)\("
)
_LONG_IN_VECTORS: dict[str, tuple[float, float]] = {
    "expm1": (0.3, 0.9), "log": (0.6, 1.3), "log1p": (0.7, 1.8), "log2": (0.6, 1.3), "log10": (0.6, 1.3),
    "tanh": (1.5, 3.4), "sigmoid": (0.4, 1.1), "sin": (0.3, 1.2), "cos": (0.2, 1.3), "tan": (1.1, 1.8),
    "erf": (0.5, 2.5), "erfc": (3.0, 7.9), "sqrt": (0.2, 0.9), "rsqrt": (0.4, 1.5), "asin": (0.8, 1.8),
    "acos": (0.9, 2.0), "atan": (1.0, 2.3), "atan2": (1.3, 3.0), "sinh": (1.4, 2.8), "cosh": (1.4, 2.8),
    "pow": (2.5, 5.0), "fmod": (0.7, 1.2), "remainder": (1.5, 2.9), "lgamma": (5.7, 15.5),
    "digamma": (15.8, 15.6), "erfinv": (40.7, 40.0),
}  # fmt: skip
"""Nanoseconds in float32 and float64 of functions in compiled loops of torch 2.13, in one thread with AVX-512
(benchmarks/results/vector-functions.txt); `VECTOR_HEAVY_NS` where that is more, as for all others. The last
two have no vectors."""
_RANDOM = re.compile(r"ops\.(?:randn?|randint64)\(")
_ANY = re.compile(r"ops\.(?!load|store|get_index|index_expr|constant|reduction|store_reduction)\w+\(")


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes and float operations a second that real kernels reach."""

    bytes_per_s: float
    flops: float
    half_flops: float
    double_flops: float


GPU_OF_BYTES, GPU_OF_FLOPS = 0.75, 0.5
"""Of a datasheet's rates, what real kernels reach."""
_OF_DOUBLES = 0.5
"""Of a datasheet's rate, which is of tensor cores where those have float64."""
_WITHOUT_DOUBLES = 1 / 32
"""Of float32's rate, on a GPU whose datasheet has none: 1/32 (Turing) to 1/64 (Ada)."""
_OTHER_GPU = Peak(0.6e12, 10e12, 60e12, 0.3e12)
GPU_PLAIN_FLOPS, GPU_HEAVY_FLOPS = 4, 32
"""Float operations whose time one operation of generated code takes on an element, with addresses and the
loop around it. On an H200 (torch 2.11, loops without memory traffic): 0.6 ps for a product and a sum, more
for exp 0.2, sin 0.8, log 0.8, erf 0.9, pow 2.6, in float64 0.7, 1.1, 2.0, 3.0, 9.4; 32 are 1 ps there."""


def peak(devices: Iterable[str], gpu: bool, threads: int | None) -> Peak:
    """What the run's device reaches."""
    if not gpu:
        flops = CPU_FLOPS_PER_THREAD * (threads or 2)
        return Peak(CPU_BYTES_PER_S, flops, flops, flops / 2)
    sheet = next(filter(None, map(datasheet_peaks, devices)), None)
    if sheet is None:
        return _OTHER_GPU
    single, half = (sheet.flops_per_s[dtype] * GPU_OF_FLOPS for dtype in ("float32", "float16"))
    sheets = sheet.flops_per_s.get("float64")
    double = single * _WITHOUT_DOUBLES if sheets is None else sheets * GPU_OF_FLOPS * _OF_DOUBLES
    return Peak(sheet.bytes_per_s * GPU_OF_BYTES, single, half, double)


@dataclass(frozen=True, slots=True)
class HostCosts:
    """Milliseconds of the host for one of each, as in `inspector.model.peaks.Costs`: the table's but for what
    was `measured` on the run's machine. In a program, where other things happen between them, they take up to
    `FACTOR` times what they do in a row."""

    graph_ms: float = HOST_MS
    launch_ms: float = CPU_LAUNCH_MS
    cuda_graph_ms: float = CUDA_GRAPH_MS
    sync_ms: float = CPU_SYNC_MS
    transfer_ms: float = TRANSFER_MS
    bytes_per_s: float = PCIE_BYTES_PER_S
    subnormal_times: float | None = None
    """A factor, as there."""
    measured: frozenset[str] = frozenset()

    def how(self, name: str) -> ClaimHow:
        """Of so many of one of them."""
        return "counted" if name in self.measured else "estimated"

    def host_ms(self, launches: int) -> float:
        """One run of a graph with so many launches."""
        return self.graph_ms + launches * self.launch_ms


def host_costs(costs: Costs | None, gpu: bool) -> HostCosts:
    """Of a machine with a GPU, or of a CPU alone."""
    table = HostCosts(launch_ms=GPU_LAUNCH_MS, sync_ms=SYNC_MS) if gpu else HostCosts()
    if costs is None:
        return table
    known = {
        "graph_ms": costs.graph_s,
        "launch_ms": costs.launch_s,
        "cuda_graph_ms": costs.cuda_graph_s,
        "sync_ms": costs.sync_s,
        "transfer_ms": costs.copy_s,
    }
    table = replace(table, subnormal_times=costs.subnormal_times)
    own = {name: seconds * 1e3 for name, seconds in known.items() if seconds is not None}
    rate = costs.copy_bytes_per_s or table.bytes_per_s
    return replace(table, **own, bytes_per_s=rate, measured=frozenset(own))


def wrapper_ms(launches: int) -> float:
    """The generated wrapper of a graph with so many launches, on a CPU."""
    return WRAPPER_MS + WRAPPER_LAUNCH_MS * launches


def memory_ms(count: int, device: Peak, gpu: bool) -> float:
    """Time to move so many bytes."""
    if gpu:
        return count / device.bytes_per_s * 1e3
    rate = CPU_CACHE_BYTES_PER_S if count <= CPU_CACHE_BYTES else device.bytes_per_s
    return count / rate * 1e3


def generated_ms(
    leaves: Iterable[SchedulerNode],
    points: Iterable[int | None],
    moved: int | None,
    source: str,
    device: Peak,
    gpu: bool,
    threads: int,
    in_vectors: bool = False,
) -> float:
    """A generated kernel: the larger of moving its bytes and doing its arithmetic, on a CPU as its `source`
    does that or `in_vectors` whatever that does."""
    memory = memory_ms(moved, device, gpu) if moved is not None else 0.0
    if gpu:
        return max(memory, _gpu_arithmetic_ms(leaves, points, device), GPU_KERNEL_MS)
    vectorised = in_vectors or has_vectors(source)
    active = threads if starts_threads(source) else 1
    nanoseconds = sum(
        point_ns(leaf, vectorised) * (count or 0) for leaf, count in zip(leaves, points, strict=True)
    )
    return max(memory, nanoseconds / active * 1e-6)


def point_ns(leaf: SchedulerNode, vectorised: bool) -> float:
    """One point of a scheduler node's loops in one thread of a CPU."""
    text, plain, heavy = _operations(leaf)
    each = _in_vectors_ns(leaf, text) if vectorised else heavy * SCALAR_HEAVY_NS
    each += plain * (VECTOR_NS if vectorised else SCALAR_NS)
    each += len(_RANDOM.findall(text)) * RANDOM_NS
    if "ops.indirect_indexing" in text or "set_indirect" in text:
        each += GATHER_NS
    return each + ATOMIC_NS if "atomic_add" in text else each


def _in_vectors_ns(leaf: SchedulerNode, text: str) -> float:
    """What the functions of a body take in vectors."""
    wide = _makes_doubles(leaf)
    long = (_LONG_IN_VECTORS.get(name, (0.0, 0.0))[wide] for name in _HEAVY.findall(text))
    return sum(max(VECTOR_HEAVY_NS, each) for each in long)


def _makes_doubles(leaf: SchedulerNode) -> bool:
    return any(item.layout is not None and item.layout.dtype == "float64" for item in leaf.outputs)


def _operations(leaf: SchedulerNode) -> tuple[str, int, int]:
    """(its body's text, plain operations, heavy ones) for each point of its loops."""
    text = "\n".join(leaf.body_lines)
    heavy = len(_HEAVY.findall(text))
    return text, max(len(_ANY.findall(text)) - heavy, 1), heavy


def _gpu_arithmetic_ms(leaves: Iterable[SchedulerNode], points: Iterable[int | None], device: Peak) -> float:
    seconds = 0.0
    for leaf, count in zip(leaves, points, strict=True):
        _, plain, heavy = _operations(leaf)
        each = plain * GPU_PLAIN_FLOPS + heavy * GPU_HEAVY_FLOPS
        seconds += each * (count or 0) / (device.double_flops if _makes_doubles(leaf) else device.flops)
    return seconds * 1e3
