"""A run's kernels with the stages that it holds of them. Executes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path

from inspector.analysis.inlined import with_callers
from inspector.analysis.linkage import link_graph
from inspector.analysis.lowering import LoweredKernel, lowered_kernel
from inspector.analysis.ncu import measured
from inspector.model.links import Linkage
from inspector.model.lowering import STAGES, LoweredFolder
from inspector.model.ncu import NcuKernel
from inspector.model.run import GraphArtifacts
from inspector.readers.graph import CompiledGraph
from inspector.readers.ncu import load_ncu
from inspector.readers.run import Run
from inspector.readers.stages.files import folders_of, lowered_folders, read_stage


class Lowered:
    """`target`: as lowered for that one; `made`: where else stages are than in the run; `reports`: of Nsight
    Compute, beside those that the run keeps; `stages`: which are read."""

    def __init__(
        self,
        run: Run,
        target: str | None = None,
        made: Path | None = None,
        reports: Sequence[NcuKernel] = (),
        stages: Sequence[str] = STAGES,
    ) -> None:
        self._run, self._target, self._made, self._reports = run, target, made, reports
        self._read = stages
        self._launches: dict[tuple[str, int], LoweredKernel | None] = {}
        self._linkages: dict[str, Callable[[], Linkage]] = {}

    @cached_property
    def reports(self) -> tuple[NcuKernel, ...]:
        """All launches that Nsight Compute measured."""
        return (*self._reports, *load_ncu(self._run)[0])

    @cached_property
    def _folders(self) -> tuple[LoweredFolder, ...]:
        return lowered_folders(self._run, self._made)

    def launch(self, graph: str, call: int) -> LoweredKernel | None:
        """Of one launch of a graph, by their names in the run; None for what is no generated kernel."""
        if (graph, call) not in self._launches:
            items = self.kernels(self._run.graph(graph), str(call))
            self._launches[graph, call] = next(items, None)
        return self._launches[graph, call]

    def known(self, graph: str, call: int) -> LoweredKernel | None:
        """The same; None where no stage and no report is there that could say anything of a kernel."""
        return self.launch(graph, call) if self._folders or self.reports else None

    def _linkage(self, artifacts: GraphArtifacts) -> Callable[[], Linkage]:
        """Of a graph, when it is first asked for and once."""
        if artifacts.ident not in self._linkages:
            self._linkages[artifacts.ident] = cache(partial(link_graph, artifacts))
        return self._linkages[artifacts.ident]

    def kernels(self, graph: CompiledGraph, name: str | None = None) -> Iterator[LoweredKernel]:
        """The graph's generated kernels. `name`: that one alone, or the number of a launch."""
        artifacts, run = graph.artifacts(), self._run
        if artifacts.code is None:
            return
        version = run.manifest.triton_version if run.manifest is not None else None
        recorded = {
            item.name: item for record in run.records for item in record.kernels if item.graph == graph.name
        }
        call = next((call for call in artifacts.code.calls if str(call.index) == name), None)
        linkage = self._linkage(artifacts)
        for kernel in artifacts.code.kernels:
            if kernel.kind in ("extern", "fallback"):
                continue
            if name is not None and kernel.name != (call.kernel if call is not None else name):
                continue
            own = folders_of(kernel, self._folders, self._target)
            if kernel.kind == "cpp" and own:
                # One assembly: its capture's, and reasons that were asked for afterwards.
                said = next((each.unvectorised for each in own if each.unvectorised is not None), None)
                own = (replace(own[0], unvectorised=said),)
            files = own[0].files if own else {}
            stages = tuple(read_stage(own[0], stage, run) for stage in self._read if stage in files)
            stages = with_callers(stages, own[0].source.file if own and own[0].source is not None else None)
            index = call.index if call is not None else None
            seen = recorded.get(kernel.name)
            item = lowered_kernel(artifacts, linkage, kernel, own, stages, seen, index, version)
            yield replace(item, ncu=measured(self.reports, item, call))


def lowered_kernels(
    run: Run,
    graphs: Sequence[CompiledGraph],
    name: str | None = None,
    target: str | None = None,
    made: Path | None = None,
) -> tuple[LoweredKernel, ...]:
    """The same of several graphs."""
    lowered = Lowered(run, target, made)
    return tuple(kernel for graph in graphs for kernel in lowered.kernels(graph, name))
