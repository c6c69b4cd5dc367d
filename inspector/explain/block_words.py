"""What a block, and a kernel, is called on one line, and calls of some sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from inspector.analysis.steady import MOST, RUN_TO_RUN
from inspector.analysis.two_sides import library_kernels, same_kernel
from inspector.model.calls import CallGroup
from inspector.model.source import short_places
from inspector.model.two_sides import Block, KernelTime, ProgramCall
from inspector.units import comparison, duration, plural

_MOST_OPERATORS = 3
_MOST_LINES = 2
_LONGEST = 60
"""How much of a name is shown, so that a row fits a terminal: operators, lines, letters."""
# CUDAFunctor_add<...>, GeluFunctor, cutlass_tensorop_bf16_..., bfloat16_copy_kernel_cuda(...)
_TELLING = re.compile(
    r"Functor_(\w+)|\b(\w+)Functor\b|(cutlass_(?!_)\w+|\b\w+_?[kK]ernel_?(?:cuda|CUDA|Impl)\w*)"
)
_ARGUMENTS = re.compile(r"<[^<>]*>")
_DEEPEST = 30
"""Templates within templates that are taken off: an end for names that are cut off."""
SAME_KERNEL = "the same library kernel"
_ANONYMOUS = "(anonymous namespace)::"


def label(block: Block) -> str:
    """`models.py:16 blocks.*.dw conv2d x4`, `models.py:17 gelu, batch_norm backward`."""
    kernels = [short_kernel(kernel.name) for kernel in (*block.compiled_kernels, *block.eager_kernels)]
    # What only one side runs, as a copy that Inductor asks for, is known by its kernels alone.
    unplaced = block.place == "unplaced"
    operators = [short_kernel(name) for name in block.operators] if unplaced else block.operators
    what = _listed(operators, _MOST_OPERATORS) or _listed(list(dict.fromkeys(kernels)), 1)
    module = _pattern(block.modules) if block.lines else _module(block.modules)
    words = [_listed(short_places(block.lines), _MOST_LINES), module, what]
    words.append("backward" if block.phase == "backward" and block.place == "graph" else "")
    words.append("outside the graphs" if block.place == "outside" else "")
    words.append((f"in {block.graph}" if block.graph else "of no known graph") if unplaced else "")
    words.append(f"x{block.times}" if block.times > 1 else "")
    return " ".join(word for word in words if word)


def call_label(calls: Iterable[ProgramCall]) -> str:
    """The same of calls of the program without lines: `module blocks.*.dw: conv2d`; empty of none."""
    calls = list(calls)
    modules = dict.fromkeys(path for call in calls for path in call.modules)
    operators = dict.fromkeys(call.operator for call in calls if call.operator)
    words = (_module(tuple(modules)), _listed(list(operators), _MOST_OPERATORS))
    return " ".join(filter(None, words))


def both_times(block: Block) -> str:
    """`1.09 ms in eager, 5.23 ms compiled`; `519 us compiled, nothing in eager`."""
    if not block.eager_ms:
        return f"{duration(block.compiled_ms or 0)} compiled, nothing in eager"
    return f"{duration(block.eager_ms)} in eager, {duration(block.compiled_ms or 0)} compiled"


def calls_text(group: CallGroup) -> str:
    """`4.50x slower in its 20 calls with 8x512: 2.00 ms in eager, 9.00 ms compiled`."""
    ours, theirs = group.compiled.median_ms, group.eager.median_ms if group.eager is not None else 0.0
    which = f"its {sized_calls(group)}"
    return f"{comparison(theirs / ours)} in {which}: {duration(theirs)} in eager, {duration(ours)} compiled"


def sized_calls(group: CallGroup) -> str:
    """`20 calls with 8x512`, `1 call without gradients, eval`."""
    said = ", ".join(group.sizes)
    return f"{plural(group.compiled.count, 'call')} {'' if said.startswith('with') else 'with '}{said}"


def module_text(block: Block) -> str:
    """`blocks.*.dw`; for a block that reads no parameters, that."""
    return _pattern(block.modules) or "no parameters"


def change(block: Block) -> str:
    """What became of the block's work, in words; empty where the kernels say nothing more."""
    eager, compiled = block.eager_kernels, block.compiled_kernels
    if not eager or not compiled:
        # Of one thing both sides may have names that nothing joins.
        return "" if not (eager or compiled) else f"found only {'in eager' if eager else 'compiled'}"
    before, after = (max(round(sum(k.calls for k in kernels)), 1) for kernels in (eager, compiled))
    library, before_library = library_kernels(compiled), library_kernels(eager)
    alike = library and before_library and same_kernel(before_library, library)
    # Of a block whose time is a generated kernel's, a view that both sides make says nothing.
    if alike and sum(kernel.ms for kernel in library) >= MOST * (block.compiled_ms or 0.0):
        names = {kernel.name for kernel in before_library}
        more = sum(kernel.ms for kernel in library if kernel.name not in names)
        if more <= 0 or more < MOST * block.difference_ms:
            return SAME_KERNEL
        return f"{SAME_KERNEL}, and {duration(more)} in others that eager does not run"
    if library and library[0].ms >= 0.5 * (block.compiled_ms or 0.0):
        return "another library kernel"
    return f"{before} -> {after} kernels" if before != after else ""


def kernel_text(kernel: KernelTime) -> str:
    """`conv2d_grouped_direct_kernel x4, 1.31 ms each`, and what that took where several ran at once."""
    calls = round(kernel.calls, 2)
    each = kernel.ms / kernel.calls if kernel.calls else 0.0
    many = f" x{calls:g}, {duration(each)} each" if calls != 1 else f" {duration(kernel.ms)}"
    at_once = kernel.taken_ms < (1 - RUN_TO_RUN) * kernel.ms
    return f"{short_kernel(kernel.name)}{many}" + (
        f", {duration(kernel.taken_ms)} as others ran at once" if at_once else ""
    )


def short_kernel(name: str) -> str:
    """A kernel's own name without its return type, namespaces, template arguments and parameters.

    For a template whose argument tells more (`cutlass::Kernel2<...>`, `elementwise_kernel<..., add>`) that of
    the first functor follows.
    """
    text = name.replace(_ANONYMOUS, "")
    plain = text
    # Template arguments, the innermost first: a return type may have some, as in std::enable_if<...>::type.
    for _ in range(_DEEPEST):
        plain, removed = _ARGUMENTS.subn("", plain)
        if not removed:
            break
    head = re.split(r"[<(]", plain, maxsplit=1)[0].strip().removeprefix("void ")
    if "::" in head:
        *spaces, head = head.rpartition(" ")[2].split("::")
        head = f"{spaces[-1]}::{head}" if head == "kernel" and spaces else head
    head = head or text
    inner = _TELLING.search(text)
    if inner is not None and head in _GENERIC:
        head += f"<{inner[1] or inner[2] or inner[3]}>"
    return head if len(head) <= _LONGEST else f"{head[: _LONGEST - 1]}…"


_GENERIC = frozenset({
    "elementwise_kernel", "vectorized_elementwise_kernel", "unrolled_elementwise_kernel", "reduce_kernel",
    "Kernel", "Kernel2", "multi_tensor_apply_kernel",
})  # fmt: skip


def _listed(names: Sequence[str], most: int) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" +{rest}" if rest > 0 else "")


def _module(modules: tuple[str, ...]) -> str:
    """Of an ``nn.Sequential`` a module's name is a number, which says nothing alone."""
    return f"module {_pattern(modules)}:" if modules else ""


def _pattern(modules: tuple[str, ...]) -> str:
    """`blocks.0.dw`, `blocks.1.dw` -> `blocks.*.dw`; of modules that are not alike the first, and a count."""
    if not modules:
        return ""
    parts = [path.split(".") for path in modules]
    if len({len(path) for path in parts}) == 1:
        same = [set(level) for level in zip(*parts, strict=True)]
        if sum(len(level) > 1 for level in same) <= 1:
            return ".".join("*" if len(level) > 1 else next(iter(level)) for level in same)
    return f"{modules[0]} +{len(modules) - 1}"
