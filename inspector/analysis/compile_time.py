"""From timed sections to a tree, and to the parts of compilation whose times add up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from inspector.model.compile_time import PARTS, CompileTime, CompileTimes, Part, TimeNode, TimeSpan

if TYPE_CHECKING:
    from inspector.model.compilation import Compilation

_PARTS_BY_NAME: dict[str, Part] = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "bytecode_tracing": "dynamo",
    "fullgraph_capture": "dynamo",
    "insert_deferred_runtime_asserts": "dynamo",
    "build_guards": "guards",
    "precompile_build_guards": "guards",
    "precompile_load_guards": "guards",
    "guard_collective": "guards",
    "backend_compile": "aot",
    "create_aot_dispatcher_function": "aot",
    "aot_collect_metadata": "aot",
    "aot_trace_joint_graph": "aot",
    "min_cut_rematerialization_partition": "aot",
    "compile_fx.<locals>.fw_compiler_base": "aot",
    "compile_fx.<locals>.bw_compiler": "aot",
    "entire_backward_compile": "aot",
    "_recursive_pre_grad_passes": "passes",
    "_recursive_joint_graph_passes": "passes",
    "_recursive_post_grad_passes": "passes",
    "inductor_compile": "lowering",
    "fx_codegen_and_compile": "lowering",
    "additional_fake_tensor_prop": "lowering",
    "GraphLowering.run": "lowering",
    "GraphLowering.compile_to_fn": "codegen",
    "code_gen": "codegen",
    "GraphLowering.compile_to_module": "codegen",
    "GraphLowering.codegen": "codegen",
    "GraphLowering.codegen_subgraph": "codegen",
    "Scheduler.codegen": "codegen",
    "PyCodeCache.load_by_key_path": "codegen",
    "generate_kernel_code_from_nodes": "codegen",
    "compile_file": "kernels",
    "async_compile.wait": "kernels",
    "async_compile.precompile": "kernels",
    "reload_kernel_in_parent": "kernels",
    "AotCodeCompiler.compile": "kernels",
    "benchmark_fused_nodes": "autotuning",
    "benchmark_codegened_module": "autotuning",
    "collective_compute_do_bench": "autotuning",
    "inductor_codecache_torch_key": "cache",
    "CacheBase.get_system.triton_key": "cache",
    "AOTAutogradCache.inductor_load": "cache",
    "GraphPickler.loads": "cache",
    "gc": "other",
}

# The rest by how the name looks; the first that matches counts.
_PARTS_BY_PATTERN: tuple[tuple[re.Pattern[str], Part], ...] = (
    (re.compile(r"compile_attempt_\d+|bytecode_hooks_\d+|pgo\.|invoke_subgraph"), "dynamo"),
    (re.compile(r"pass\.|fx\.bucketing"), "passes"),
    (
        re.compile(r"CachingAutotuner\.\w*precompile|\w+_template_precompiling|aoti_compile|StaticAut"),
        "kernels",
    ),
    (re.compile(r"CachingAutotuner\.|\w+_template_autotuning"), "autotuning"),
    (re.compile(r"Scheduler\."), "scheduling"),
    (re.compile(r"\w+Wrapper\w+\.generate"), "codegen"),
    (re.compile(r"TritonBundler\.|\w*remote\w*cache|CompiledArtifact\."), "cache"),
    (re.compile(r"CUDAGraph|cudagraph"), "cudagraphs"),
)
_LONGEST = 300
"""Letters of a name that are looked at."""

_PHASES = {
    "aot_trace_joint_graph": "joint",
    "compile_fx.<locals>.fw_compiler_base": "forward",
    "compile_fx.<locals>.bw_compiler": "backward",
    "entire_backward_compile": "backward",
}
_NO_PHASE = {"joint": 0, "forward": 0, "backward": 0}

_AROUND_FRAME = frozenset({"dynamo", "entire_frame_compile"})
_FIRST_RUN = re.compile(r"CachingAutotuner\.|CUDAGraphNode\.|cudagraphify")


def part_of(name: str, parent: Part = "other") -> Part:
    """The part that a section's own time belongs to; a name unknown here belongs where it is called."""
    known = _PARTS_BY_NAME.get(name)
    if known is not None:
        return known
    for pattern, part in _PARTS_BY_PATTERN:
        if pattern.match(name, 0, _LONGEST):
            return part
    return parent


@dataclass(slots=True)
class _Section:
    span: TimeSpan
    part: Part
    children: list[_Section] = field(default_factory=list)


def time_tree(spans: Iterable[TimeSpan]) -> tuple[tuple[TimeNode, ...], tuple[TimeSpan, ...]]:
    """Sections nested by time, and those that run beside them.

    torch writes no thread ids. A section without a compile id that begins inside another is a
    thread's (C++ compilers in the background), and one that ends after the section in which it
    began can be nothing else. Their time is already in the section that waits for them.
    """
    order = sorted(enumerate(spans), key=lambda item: (item[1].start_ns, -item[1].end_ns, item[0]))
    sections: list[_Section] = []
    roots: list[_Section] = []
    beside: list[TimeSpan] = []
    stack: list[_Section] = []
    for _, span in order:
        while stack and stack[-1].span.end_ns <= span.start_ns:
            stack.pop()
        if stack and (span.end_ns > stack[-1].span.end_ns or span.compile_id is None):
            beside.append(span)
            continue
        section = _Section(span, part_of(span.name, stack[-1].part if stack else "other"))
        (stack[-1].children if stack else roots).append(section)
        stack.append(section)
        sections.append(section)
    # Children come after their parents in `sections`; a damaged log may nest deeper than calls can.
    nodes: dict[int, TimeNode] = {}
    for section in reversed(sections):
        children = tuple(nodes.pop(id(child)) for child in section.children)
        own = section.span.duration_ns - sum(child.span.duration_ns for child in children)
        nodes[id(section)] = TimeNode(section.span, section.part, own, children)
    return tuple(nodes[id(root)] for root in roots), tuple(beside)


def walk(nodes: Iterable[TimeNode]) -> Iterator[tuple[int, TimeNode]]:
    """The nodes and all below them with their depth, parents first."""
    stack = [(0, node) for node in reversed(list(nodes))]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack.extend((depth + 1, child) for child in reversed(node.children))


def compile_times(spans: Sequence[TimeSpan], compilations: Sequence[Compilation] = ()) -> CompileTimes:
    """The breakdown of each compilation (by `ident`) and of all. Without spans, of the times that the
    compilations' metrics tell."""
    source: Literal["events", "metrics"] = "events" if spans else "metrics"
    roots, beside = time_tree(_identified(spans, compilations) or _spans_of(compilations))
    by_id: dict[str, _Sum] = {}
    total = _Sum()
    for root in roots:
        own = by_id.setdefault(root.span.compile_id or "none", _Sum())
        for sums in (own, total):
            sums.roots.append(root)
            if _FIRST_RUN.match(root.span.name):
                sums.first_run += root.span.duration_ns
    for root in roots:
        _add(root, by_id, total)
    for span in beside:
        total.beside.append(span)
        by_id.setdefault(_owner(span, roots), _Sum()).beside.append(span)
    ids = {compile_id: sums.result(compile_id, source) for compile_id, sums in by_id.items()}
    return CompileTimes(ids, total.result(None, source))


def _add(root: TimeNode, by_id: dict[str, _Sum], total: _Sum) -> None:
    """Add self times to their compile ids: what is compiled inside another keeps its own time.
    A phase counts once, however deep sections of phases nest."""
    stack = [(root, "none", False)]
    while stack:
        node, owner, counted = stack.pop()
        owner = node.span.compile_id or owner
        phase = None if counted else _PHASES.get(node.span.name)
        for sums in (by_id.setdefault(owner, _Sum()), total):
            sums.parts[node.part] = sums.parts.get(node.part, 0) + node.self_ns
            if phase is not None:
                sums.phases[phase] += node.span.duration_ns
            sums.complete = sums.complete and node.span.closed
        stack.extend((child, owner, counted or phase is not None) for child in node.children)


def _owner(span: TimeSpan, roots: Sequence[TimeNode]) -> str:
    """The compile id of a section that runs beside: its own, or of the root in which it began."""
    if span.compile_id is not None:
        return span.compile_id
    within = [root for root in roots if root.span.start_ns <= span.start_ns <= root.span.end_ns]
    return (within[-1].span.compile_id if within else None) or "none"


@dataclass(slots=True)
class _Sum:
    parts: dict[Part, int] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=lambda: dict(_NO_PHASE))
    roots: list[TimeNode] = field(default_factory=list)
    beside: list[TimeSpan] = field(default_factory=list)
    first_run: int = 0
    complete: bool = True

    def result(self, compile_id: str | None, source: Literal["events", "metrics"]) -> CompileTime:
        return CompileTime(
            compile_id=compile_id,
            total_ns=sum(self.parts.values()),
            parts={part: self.parts[part] for part in PARTS if part in self.parts},
            phases=self.phases,
            first_run_ns=self.first_run,
            parallel_ns=covered_ns(self.beside),
            roots=tuple(self.roots),
            source=source,
            complete=self.complete and all(span.closed for span in self.beside),
        )


def covered_ns(spans: Iterable[TimeSpan]) -> int:
    """Time during which at least one of the spans runs."""
    covered, end = 0, 0
    for span in sorted(spans, key=lambda span: span.start_ns):
        start = max(span.start_ns, end)
        if span.end_ns > start:
            covered += span.end_ns - start
            end = span.end_ns
    return covered


def _identified(spans: Sequence[TimeSpan], compilations: Sequence[Compilation]) -> Sequence[TimeSpan]:
    """The spans under the idents of their compilations, where one compile id occurs several times.

    The sections around a frame begin just before the event that starts its compilation; all others
    come after it.
    """
    starts: dict[str, list[tuple[int, str]]] = {}
    for item in compilations:
        if item.started is not None:
            starts.setdefault(item.compile_id, []).append((item.started, item.ident))
    if all(len(same_id) == 1 for same_id in starts.values()):
        return spans
    named = []
    for span in spans:
        same_id = starts.get(span.compile_id or "", [])
        if len(same_id) > 1:
            if span.name in _AROUND_FRAME:
                ident = next((ident for line, ident in same_id if line > span.line), same_id[-1][1])
            else:
                ident = next((ident for line, ident in reversed(same_id) if line <= span.line), same_id[0][1])
            span = replace(span, compile_id=ident)
        named.append(span)
    return named


def _spans_of(compilations: Sequence[Compilation]) -> list[TimeSpan]:
    """The nested durations of the metrics, one compilation after the other."""
    spans: list[TimeSpan] = []
    end = 0
    for item in compilations:
        for entry in item.all_metrics:
            if entry.is_runtime:
                continue
            start, stop = end, None
            for name, seconds in (
                ("entire_backward_compile" if entry.backward else "entire_frame_compile", entry.seconds),
                ("backend_compile", entry.backend_seconds),
                ("inductor_compile", entry.inductor_seconds),
                ("code_gen", entry.codegen_seconds),
            ):
                if seconds is not None:
                    # Rounding can make an inner duration the longer one.
                    inner = start + round(seconds * 1e9)
                    stop = inner if stop is None else min(inner, stop)
                    spans.append(TimeSpan(name, item.ident, start, stop, entry.line))
            end = max((span.end_ns for span in spans), default=end)
    return spans


def merge(times: Sequence[CompileTimes]) -> CompileTime:
    """The sum over several traces, as of several ranks; without trees, which have no common clock."""
    merged = _Sum()
    for item in times:
        total = item.total
        for part, value in total.parts.items():
            merged.parts[part] = merged.parts.get(part, 0) + value
        for phase, value in total.phases.items():
            merged.phases[phase] = merged.phases.get(phase, 0) + value
        merged.first_run += total.first_run_ns
        merged.complete = merged.complete and total.complete
    known = [item.total.source for item in times if item.total.total_ns]
    source: Literal["events", "metrics"] = "metrics" if known and set(known) == {"metrics"} else "events"
    result = merged.result(None, source)
    return replace(result, parallel_ns=sum(item.total.parallel_ns for item in times))
