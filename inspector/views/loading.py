"""What is done in threads: reading, parsing, linking. Plain functions that return plain data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from inspector.analysis.crossref import CrossReference
from inspector.analysis.linkage import link_graph
from inspector.analysis.summary import summarise_graph
from inspector.frozen import dataclass
from inspector.present.about import Story
from inspector.present.chain import ChainWriter
from inspector.present.code import kernels_table
from inspector.present.run import Counts, GraphEntry
from inspector.present.runs import RunSketch, time_of_folder
from inspector.readers.artifacts import CODE, FX_AFTER, FX_BEFORE, POST_FUSION, PRE_FUSION
from inspector.readers.run import Run
from inspector.views.attempt import attempt

if TYPE_CHECKING:
    from inspector.model.fx import FxNode
    from inspector.model.links import Linkage
    from inspector.present.tables import Table
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.locate import Located


def sketch_run(located: Located) -> RunSketch:
    """What the runs screen says of a run: the manifest and the names of folders, or one trace's events."""
    sketch = attempt(partial(_sketch, located))
    return sketch if isinstance(sketch, RunSketch) else RunSketch(error=f"unreadable: {sketch}")


def _sketch(located: Located) -> RunSketch:
    from inspector.trial.history import this_run

    run = Run(located.opened())
    manifest = run.manifest
    folders = (time_of_folder(path.name) for path in run.process_folders)
    started = manifest.started if manifest is not None else next((then for then in folders if then), 0.0)
    version = manifest.torch_version if manifest is not None else None
    return RunSketch(version, len(run.graphs), started or _modified(located), calls=this_run(run))


def _modified(located: Located) -> float:
    """A run whose names hold no date: that of its newest file, else of its folder."""
    try:
        inside = (
            [entry.stat().st_mtime for entry in os.scandir(located.path)] if located.path.is_dir() else []
        )
        return max(inside, default=located.path.stat().st_mtime)
    except OSError:
        return 0.0


def count_graph(graph: CompiledGraph, with_code: bool, keep: bool) -> Counts:
    """Nodes of the FX graph and the schedules; kernels and launches only `with_code`.

    What was parsed is dropped again unless it is to be kept: a thousand graphs would fill the memory.
    """
    if graph.folder is not None and not keep:
        graph = graph.unread()
    counts = attempt(partial(_count, graph, with_code))
    return counts if isinstance(counts, Counts) else Counts(error=f"{type(counts).__name__}: {counts}")


def _count(graph: CompiledGraph, with_code: bool) -> Counts:
    fx = FX_AFTER if FX_AFTER.file in graph.files else FX_BEFORE
    artifacts = graph.own_artifacts(fx, PRE_FUSION, POST_FUSION, *([CODE] if with_code else []))
    return Counts.of(summarise_graph(artifacts), artifacts.problems)


def rank_labels(run: Run) -> dict[str, str]:
    """What tells the processes of a run apart, by a graph's ident: its rank, else `pid N`; empty for one."""
    labels = {}
    for graph in run.graphs:
        pid = graph.process.rpartition("pid_")[2]
        labels[graph.ident] = str(graph.rank) if graph.rank is not None else f"pid {pid}" if pid else ""
    return labels if len(set(labels.values())) > 1 else {}


def graph_titles(run: Run) -> dict[str, str]:
    """How graphs are called in what is read by people, by their idents."""
    ranks = rank_labels(run)
    return {
        graph.ident: GraphEntry(graph.ident, graph.phase, rank=ranks.get(graph.ident, "")).title
        for graph in run.graphs
    }


COMPARED = 200
"""Graphs up to which processes are compared unasked: it takes reading all of them, and keeping them."""


def load_story(run: Run) -> Story:
    """Reads traces; for a run of several processes all graphs too, to compare them, unless there are many."""
    from inspector.gather import compile_time, differences

    manifest = run.manifest
    recorded = manifest.options.get("record") if manifest is not None else None
    few = len(run.graphs) <= COMPARED
    return Story(
        differences(run) if few else (),
        compile_time(run),
        run.records,
        recorded if isinstance(recorded, bool) else None,
        uncompared=0 if few or len(rank_labels(run)) < 2 else len(run.graphs),
    )


@dataclass(frozen=True, slots=True)
class Links:
    """All that a selection needs: who belongs to whom, how to say it, and the kernels with their FX nodes.

    `places`: FX node to ``path:line``; `nodes`: the FX nodes after the post-grad passes by name.
    """

    cross: CrossReference
    chains: ChainWriter
    kernels: Table | None
    linkage: Linkage
    places: Mapping[str, str]
    nodes: Mapping[str, FxNode]


def load_links(graph: CompiledGraph) -> Links:
    """Reads whatever of the graph was not read yet."""
    artifacts = graph.artifacts()
    linkage = link_graph(artifacts)
    after = artifacts.fx_after
    places = {node.name: str(node.source) for node in after.nodes if node.source} if after else {}
    kernels = kernels_table(artifacts.code, linkage, places) if artifacts.code else None
    nodes = {node.name: node for node in after.nodes} if after else {}
    return Links(CrossReference(artifacts, linkage), ChainWriter(artifacts), kernels, linkage, places, nodes)
