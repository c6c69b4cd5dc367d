"""How much memory the buffers of one run of a graph take at once, as its wrapper makes and frees them."""

from __future__ import annotations

from inspector.analysis.linkage import link_graph
from inspector.analysis.traffic import Memory
from inspector.model.code import Alias, Allocation, Free, KernelCall
from inspector.model.run import GraphArtifacts


def peak_bytes(artifacts: GraphArtifacts) -> int | None:
    """The most that is alive at once of what the wrapper allocates and its library calls return, inputs left
    out; what kernels take for themselves is in no file. None where the size of a buffer is not known."""
    code = artifacts.code
    if code is None:
        return None
    schedule = artifacts.post or artifacts.pre
    leaves = {leaf.name: leaf for leaf in schedule.leaves()} if schedule is not None else {}
    memory = Memory(artifacts, leaves, link_graph(artifacts))
    storage: dict[str, str] = {}
    names: dict[str, set[str]] = {}
    sizes: dict[str, int] = {}
    alive = peak = 0

    def drop(name: str) -> int:
        root = storage.pop(name, None)
        if root is None:
            return 0
        names[root].discard(name)
        return 0 if names[root] else sizes[root]

    for step in code.steps:
        made: tuple[str, ...] = ()
        if isinstance(step, Allocation):
            made = (step.name,)
        elif isinstance(step, KernelCall) and step.text.lstrip().startswith(tuple(step.outputs)):
            made = tuple(name for name in step.outputs if name not in storage and name not in code.inputs)
        elif isinstance(step, Alias) and step.source in storage:
            root = storage[step.source]
            if step.kind == "reuse":
                storage.pop(step.source)
                names[root].discard(step.source)
            storage[step.name] = root
            names[root].add(step.name)
        elif isinstance(step, Alias) and step.kind == "unpack":
            made = (step.name,)
        elif isinstance(step, Free):
            alive -= sum(map(drop, step.names))
        for name in made:
            size = memory.whole(name)
            if size is None:
                if name in {other.source for other in code.steps if isinstance(other, Alias)}:
                    # A tuple: its parts are counted as they are taken.
                    continue
                return None
            storage[name], names[name], sizes[name] = name, {name}, size
            alive += size
        peak = max(peak, alive)
    return peak
