"""output_code.py: the kernels and the wrapper that calls them.

Written by torch/_inductor/codegen/wrapper.py: PythonWrapperCodegen, with kernels from
codegen/triton.py, codegen/cpp.py and friends. Nothing here is ever executed by a reader.
"""

from __future__ import annotations

from typing import Literal, Union

from inspector.frozen import dataclass

from .problem import Problem
from .source import LineSpan, Size

KernelKind = Literal["triton", "cpp", "template", "user", "extern", "fallback"]


@dataclass(frozen=True, slots=True)
class SourceNodes:
    """A ``# Source Nodes: [..], Original ATen: [..]`` comment (2.4: without "Topologically Sorted").

    `operators` are those before decomposition, as ``aten.upsample_bilinear2d``."""

    source_nodes: tuple[str, ...]
    line: int
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FragmentNode:
    """One line of a ``# Graph fragment:`` comment: an FX node that the kernel computes, or a
    placeholder that it reads (`target` is then the placeholder's name)."""

    name: str
    kind: Literal["placeholder", "call", "other"]
    target: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class GraphFragment:
    """The FX subgraph in a Triton kernel's comment. `returns` are the names it stores."""

    nodes: tuple[FragmentNode, ...]
    returns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelParameter:
    """One argument of a kernel: `type` is Triton's (``*fp32``, ``i32``, ``constexpr``) or C++'s
    (``const float*``); `name` is empty where the definition does not tell."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel as defined (Triton, C++) or as called by name (extern, fallback).

    `name` is what the wrapper calls (triton_poi_fused_add_0, extern_kernels.mm,
    torch.ops.aten.X.default); `function` the name inside the source, which differs for users'
    kernels. `heuristic` is the decorator (pointwise, reduction, persistent_reduction, foreach,
    template, user_autotune, ...), None for others. `source` is the text between the quotes,
    empty for extern and fallback; `source_span` its lines in output_code.py. `metadata` holds the
    decorator's keyword arguments and those of ``async_compile.triton`` as (name, text).
    """

    name: str
    kind: KernelKind
    function: str = ""
    heuristic: str | None = None
    source: str = ""
    span: LineSpan | None = None
    source_span: LineSpan | None = None
    parameters: tuple[KernelParameter, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    origin: SourceNodes | None = None
    fragment: GraphFragment | None = None


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One launch in the wrapper.

    `index` counts launches from 0 in the order in which `call` makes them (with partitions in
    place). `arguments` are the texts in order; `buffers` the names of buffers, inputs and views
    among them, each once; `outputs` the names that this call writes: the target of an
    assignment, `out=`, or those that the kernel's parameters say (out_ptr, in_out_ptr).
    `partition` is the number of the CUDA-graph partition, None outside one. `handle` is the
    provenance debug handle (2.11 and later).
    """

    index: int
    kernel: str
    kind: KernelKind
    arguments: tuple[str, ...]
    buffers: tuple[str, ...]
    outputs: tuple[str, ...]
    span: LineSpan
    text: str
    handle: int | None = None
    partition: int | None = None
    origin: SourceNodes | None = None


@dataclass(frozen=True, slots=True)
class Allocation:
    """``buf0 = empty_strided_cuda(size, stride, dtype)``: device, dtype ("float32") and extents."""

    name: str
    size: tuple[Size, ...]
    stride: tuple[Size, ...]
    dtype: str
    device: str
    span: LineSpan


@dataclass(frozen=True, slots=True)
class Alias:
    """One storage under a second name: `reuse` (``buf9 = buf0; del buf0  # reuse``), `view`
    (reinterpret_tensor), `unpack` (``buf3 = buf2[0]``) or `symbol` (``s77 = primals_3``)."""

    kind: Literal["reuse", "view", "unpack", "symbol"]
    name: str
    source: str
    text: str
    span: LineSpan


@dataclass(frozen=True, slots=True)
class Free:
    """``del buf0``."""

    names: tuple[str, ...]
    span: LineSpan


@dataclass(frozen=True, slots=True)
class SizeAssertion:
    """``assert_size_stride(name, size, stride)`` and its relatives; one object for each tensor."""

    name: str
    size: tuple[Size, ...]
    stride: tuple[Size, ...]
    span: LineSpan


@dataclass(frozen=True, slots=True)
class OtherStep:
    """A line of the wrapper that is none of the above: guards, streams, numel assignments."""

    text: str
    span: LineSpan


Step = Union[KernelCall, Allocation, Alias, Free, SizeAssertion, OtherStep]


@dataclass(frozen=True, slots=True)
class ExampleInput:
    """One argument of `call` as ``get_args`` (before 2.11 ``benchmark_compiled_module``) makes it.

    A tensor has size, stride, dtype ("float32") and device; a symbolic integer or scalar has
    `value`. `storage` names the ``_shared_storage_N`` that inputs share, `offset` in elements.
    """

    name: str
    size: tuple[Size, ...] | None
    stride: tuple[Size, ...] | None
    dtype: str | None
    device: str | None
    value: int | float | None
    line: int
    storage: str | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class OutputCode:
    """The whole file. `kernels` has definitions in file order, then extern and fallback targets in
    order of first call, each once. `steps` is the wrapper's `call` in execution order, partitions
    in place. `inputs` are the argument names, `outputs` the returned expressions as text."""

    path: str
    aot_id: str | None
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    example_inputs: tuple[ExampleInput, ...]
    text: str
    partitions: int = 0
    problems: tuple[Problem, ...] = ()

    @property
    def calls(self) -> tuple[KernelCall, ...]:
        return tuple(step for step in self.steps if isinstance(step, KernelCall))

    def kernel(self, name: str) -> Kernel | None:
        return next((kernel for kernel in self.kernels if kernel.name == name), None)
