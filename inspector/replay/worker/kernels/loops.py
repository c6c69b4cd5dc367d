"""A launch's loop bodies, run one after the other on memory of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.inputs.arguments import promote
from inspector.replay.worker.kernels.facts import GraphFacts
from inspector.replay.worker.reference.body import UnknownIr
from inspector.replay.worker.reference.buffers import Leaf, extent, flat_memory
from inspector.replay.worker.reference.loops import Evaluation, Watched
from inspector.replay.worker.reference.noise import Noise


class Launch(Protocol):
    """What is to be known of a launch (`expected.Launch`)."""

    call: PlannedCall
    facts: GraphFacts
    memories: dict[str, object]
    before: dict[str, Tensor]
    drawn: bool

    def given(self) -> dict[str, object]: ...

    def memory_of(self, name: str) -> str: ...


class Loops:
    """Memory for one evaluation of a launch's loop bodies. `values`: flat memory in place of the launch's
    own, by root name. `watched`, `most` as `Evaluation` has them."""

    def __init__(
        self,
        launch: Launch,
        wide: bool,
        noise: Noise | None = None,
        values: Mapping[str, Tensor] | None = None,
        watched: Watched | None = None,
        most: int | None = None,
    ) -> None:
        self._launch = launch
        self._most = most
        self._wide = wide
        self._noise = noise
        self._watched = watched
        self._flat: dict[str, Tensor] = dict(values or {})
        self._own: set[str] = set()

    def run(self, leaf: Leaf) -> None:
        facts = self._launch.facts
        if leaf.body is None:
            self._place(leaf)
            return
        evaluation = Evaluation(
            leaf.body,
            self.memory,
            facts.layouts,
            facts.layouts.device(*leaf.buffers[:1]),
            wide=self._wide,
            scan_kinds=facts.scan_kinds.get(leaf.entry, ("cumsum",)),
            noise=self._noise,
            drawn=self._launch.drawn,
            double=self._is_double(leaf),
            drawing=facts.drawing(self._launch.call),
            watched=self._watched,
            most=self._most,
        )
        evaluation.run()

    def _is_double(self, leaf: Leaf) -> bool:
        """Whether all floating values of a leaf are float64, so that nothing is rounded to less."""
        layouts = map(self._launch.facts.layouts.of, (*leaf.reads, *leaf.buffers))
        dtypes = {layout[2] for layout in layouts if layout is not None and layout[2] is not None}
        floats = {dtype for dtype in dtypes if dtype.is_floating_point}
        return floats == {torch.float64} and leaf.body is not None and not leaf.body.narrow

    def _place(self, leaf: Leaf) -> None:
        """A template's result inside its kernel: the FX node's value."""
        facts = self._launch.facts
        node = facts.nodes.get(self._launch.call.index)
        if node is None or leaf.unknown is not None:
            raise UnknownIr(leaf.unknown or f"no FX node is known for {leaf.name}")
        value = facts.subgraph.evaluate(node, self._launch.given(), wide=self._wide, noise=self._noise)
        assert isinstance(value, Tensor)
        for name in leaf.buffers:
            layout = facts.layouts.of(name)
            if layout is not None:
                torch.as_strided(self.memory(name, True), layout[0], layout[1]).copy_(
                    value.reshape(layout[0])
                )

    def memory(self, name: str, for_writing: bool) -> Tensor:
        launch = self._launch
        root = launch.facts.layouts.root(name)
        owner = launch.memory_of(name)
        if owner != root:
            parent, offset = launch.facts.layouts.views[root]
            return self.memory(parent, for_writing)[offset:]
        if root in self._flat:
            if for_writing and root not in self._own:
                self._flat[root] = self._flat[root].clone()
                self._own.add(root)
            return self._flat[root]
        source = launch.memories.get(root)
        if isinstance(source, Tensor):
            flat = flat_memory(source)
        elif for_writing and root in launch.before:
            flat = launch.before[root]
        elif for_writing:
            layout = launch.facts.layouts.of(root) or launch.facts.layouts.of(name)
            if layout is None or layout[2] is None:
                raise UnknownIr(f"the layout of {root} is not known")
            device = launch.facts.layouts.device(root, name)
            flat = torch.zeros(extent(layout[0], layout[1]), dtype=layout[2], device=device)
        else:
            raise UnknownIr(f"{name}, which the loop reads, is not among the kernel's inputs")
        if self._wide:
            flat = promote(flat)
        elif flat.dtype.itemsize == 1 and flat.dtype.is_floating_point:
            # An 8-bit float cannot be indexed everywhere; its values are exact in float32.
            flat = flat.to(torch.float32)
        if for_writing:
            flat = flat.clone()
            self._own.add(root)
        self._flat[root] = flat
        return flat
