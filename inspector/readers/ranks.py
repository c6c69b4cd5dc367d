"""The ranks of a run, from its traces and its ``run_*-pid_P`` folders.

A trace file is one process; its name and its envelopes tell the rank, and its process id the
folder. Folders without a trace are told apart by their process id alone.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from inspector.model.compilation import TraceContent
from inspector.model.fx import FxGraph
from inspector.model.logs import GraphBreak
from inspector.model.ranks import RankFacts, RankGraph

from .artifacts import DEBUG_LOGS
from .graph import CompiledGraph
from .run import Run

# The number of a device or stream, in annotations, arguments and kernels' metadata.
_DEVICE = re.compile(r"(?<=cuda:)\d+|(?<=xpu:)\d+|(?<=index=)\d+|(?<=stream)\d+|(?<=device=)\d+")
# Python comments, folders of the capturing machine (2.4 and 2.6 include headers by path), addresses.
_INCIDENTAL = re.compile(
    r"^[^\S\n]*# .*$|(?<![\w./-])/[^\s\"'#]{0,1000}/(?=\w+\.(?:py|h)\b)|0x[0-9a-f]{6,}", re.M
)
# run_2026_11_21_05_02_24_145134-pid_12661
_PROCESS = re.compile(r"pid_(\d+)$")

_COLLECTIVE = "_c10d_functional."
_WAIT = ".wait_tensor"


def rank_facts(run: Run, contents: Sequence[TraceContent]) -> tuple[RankFacts, ...]:
    """One entry for each rank, in order; a single entry for an ordinary run. `contents` are the
    run's traces, read."""
    groups: dict[str, list[CompiledGraph]] = {}
    ranks: dict[str, int | None] = {}
    for content in contents:
        label = _label(content.rank, content.process)
        groups.setdefault(label, [])
        ranks[label] = content.rank
    for graph in run.graphs:
        label = _label(graph.rank, _process_id(graph.process))
        if label not in groups and len(groups) == 1 and graph.rank is None and contents:
            label = next(iter(groups))
        groups.setdefault(label, []).append(graph)
        ranks.setdefault(label, graph.rank)
    facts = []
    for label, graphs in groups.items():
        own = [content for content in contents if _label(content.rank, content.process) == label]
        facts.append(_facts(run, label, ranks[label], graphs, own))
    return tuple(sorted(facts, key=lambda item: (item.rank is None, item.rank or 0, item.label)))


def _label(rank: int | None, process: str) -> str:
    return f"rank {rank}" if rank is not None else f"process {process}" if process else "the process"


def _process_id(folder: str) -> str:
    match = _PROCESS.search(folder)
    return match[1] if match else folder


def _facts(
    run: Run, label: str, rank: int | None, graphs: Sequence[CompiledGraph], contents: Sequence[TraceContent]
) -> RankFacts:
    seconds: dict[str, float] = {}
    caches: dict[str, str] = {}
    breaks: list[str] = []
    recompiles: list[str] = []
    for content in contents:
        for compilation in content.compilations:
            own = [item.seconds or 0.0 for item in compilation.all_metrics if not item.is_runtime]
            seconds[compilation.ident] = sum(own)
            numbers: Counter[str] = Counter()
            for lookup in compilation.caches:
                numbers[lookup.cache] += 1
                number = f" {numbers[lookup.cache]}" if numbers[lookup.cache] > 1 else ""
                caches[f"{compilation.ident} {lookup.cache}{number}"] = lookup.outcome
            breaks.extend(_break_text(event) for event in compilation.breaks)
            recompiles.extend(f"{event.function}: {event.headline}" for event in compilation.recompiles)
    if not contents:
        breaks = [_break_text(event) for event in _breaks_of_folders(run, graphs)]
    return RankFacts(
        label=label,
        rank=rank,
        graphs=tuple(_graphs(graphs)),
        breaks=tuple(breaks),
        recompiles=tuple(recompiles),
        seconds=seconds,
        caches=caches,
    )


def _break_text(event: GraphBreak) -> str:
    return f"{event.location.short if event.location else 'unknown place'}: {event.headline}"


def _breaks_of_folders(run: Run, graphs: Sequence[CompiledGraph]) -> Iterable[GraphBreak]:
    names = {graph.process for graph in graphs}
    for log in run.read(DEBUG_LOGS)[0]:
        if names & set(Path(log.path).parts):
            yield from log.graph_breaks


def _graphs(graphs: Sequence[CompiledGraph]) -> Iterable[RankGraph]:
    numbers: Counter[str] = Counter()
    for graph in graphs:
        # Without a compile id the order is all that there is to match by.
        base = (
            f"{graph.compile_id} {graph.phase}" if graph.compile_id else f"graph {graph.name} {graph.phase}"
        )
        numbers[base] += 1
        fx = graph.fx("readable") or graph.fx("transformed")
        code = graph.code()
        kernels = code.kernels if code is not None else ()
        calls = code.calls if code is not None else ()
        yield RankGraph(
            key=base if numbers[base] == 1 else f"{base} {numbers[base]}",
            fx=_operations(fx) if fx is not None else (),
            kernels={kernel.name: _digest(kernel.source) for kernel in kernels},
            collectives=tuple(
                call.kernel for call in calls if _COLLECTIVE in call.kernel and _WAIT not in call.kernel
            ),
        )


def _operations(graph: FxGraph) -> tuple[str, ...]:
    """The nodes in order, as ``aten.mm.default(arg0_1, arg1_1) f32[8, 8]``."""
    operations = []
    for node in graph.nodes:
        target = node.target.removeprefix("torch.ops.") or node.kind
        text = f"{target}({', '.join(node.arguments)}) {node.annotation or ''}"
        operations.append(_DEVICE.sub("", text).strip())
    return tuple(operations)


def _digest(source: str) -> str:
    text = _DEVICE.sub("", _INCIDENTAL.sub("", source))
    return hashlib.sha1(text.encode("utf-8", errors="replace"), usedforsecurity=False).hexdigest()[:12]
