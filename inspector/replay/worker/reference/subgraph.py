"""Parts of the FX graph: a node's value from values further up, in float64 or in the node's own dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from inspector.replay.worker.code.fx import Function, FxProgram, Node
from inspector.replay.worker.inputs.arguments import promote
from inspector.replay.worker.reference.evaluate import Recording, WideEvaluator, default_dtype, mutable_schema
from inspector.replay.worker.reference.noise import Noise
from inspector.replay.worker.reference.philox import seeded


class NotComputable(Exception):
    """The value does not follow from those given; the message names what is missing."""


class Subgraph:
    """Evaluates nodes of `program`. `module` is the owner of the graph's constants."""

    def __init__(self, program: FxProgram, module: torch.nn.Module, recording: Recording) -> None:
        self.program = program
        self.recording = recording
        self._module = module
        self._wide = WideEvaluator(program, recording)
        self._order = {node.name: position for position, node in enumerate(program.nodes)}
        self._plain = program.expressions(self._call_plainly)
        self._promoted = program.expressions(self._call_promoted)

    def _call_plainly(self, _name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        return function(*_unshared(function, args), **kwargs)

    def _call_promoted(self, name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        node = self.program.node(name)
        if node is not None and node.op in {"prims.inductor_random", "prims.inductor_randint"}:
            return stand_in(node.op, args, kwargs)
        return self._wide(name, function, *_unshared(function, args), **kwargs)

    def cone(self, target: str, given: Mapping[str, object]) -> list[Node]:
        """The nodes between `given` and `target`, in order. Raises NotComputable where an input of the
        graph that is not given is needed, or a value that no run can repeat."""
        needed: set[str] = set()
        pending = [target]
        while pending:
            name = pending.pop()
            if name in needed or name in given or name == "self":
                continue
            node = self.program.node(name)
            if node is None:
                raise NotComputable(f"it needs {name}, which the kernel does not read")
            if name in self.recording.undefined:
                raise NotComputable(self.recording.undefined[name])
            needed.add(name)
            pending.extend(node.inputs)
        return [self.program.nodes[position] for position in sorted(self._order[name] for name in needed)]

    def evaluate(
        self, target: str, given: Mapping[str, object], *, wide: bool, noise: Noise | None = None
    ) -> object:
        """The value of `target`; `given` are values in the nodes' own dtypes. `noise` disturbs a wide one."""
        nodes = self.cone(target, given)
        self._wide.noise = noise
        values: dict[str, object] = dict(tree_map(promote, dict(given))) if wide else dict(given)
        values["self"] = self._module
        functions = self._promoted if wide else self._plain
        with default_dtype(torch.float64 if wide else torch.get_default_dtype()):
            try:
                for node in nodes:
                    value = functions[node.name](values)
                    values[node.name] = tree_map(promote, value) if wide else value
            finally:
                self._wide.noise = None
        return values[target]

    def walk(
        self, arguments: Mapping[str, object], keep: set[str], see: Callable[[str, object], None]
    ) -> None:
        """Runs the whole graph in float64 and shows each value; only those in `keep` live on in `see`."""
        last: dict[str, int] = {}
        for position, node in enumerate(self.program.nodes):
            last.update(dict.fromkeys(node.inputs, position))
        values: dict[str, object] = dict(arguments)
        values["self"] = self._module
        for name, value in arguments.items():
            see(name, value)
        with default_dtype(torch.float64):
            for position, node in enumerate(self.program.nodes):
                value = tree_map(promote, self._promoted[node.name](values))
                see(node.name, value)
                values[node.name] = value
                for name in node.inputs:
                    if last[name] == position and name not in keep and name != "self":
                        values.pop(name, None)


def stand_in(op: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tensor:
    """Numbers for a random node, the same as the IR's evaluation draws (_inductor/inductor_prims.py)."""
    if op == "prims.inductor_randint":
        low, high, size, seed = args[:4]
        offset = kwargs.get("offset", 0)
    else:
        size, seed = args[:2]
        offset = kwargs.get("offset", 0)
        low, high = 0, 0
    count = 1
    for extent in size:
        count *= int(extent)
    drawn = seeded(seed, torch.arange(count, device=seed.device).reshape([int(n) for n in size]) + offset)
    return torch.floor(low + drawn * (high - low)).to(torch.int64) if high else drawn


def _unshared(function: object, args: tuple[object, ...]) -> tuple[object, ...]:
    """The arguments, those that `function` writes to cloned: each node has a value of its own."""
    schema = mutable_schema(function)
    if schema is None:
        return args
    result = list(args)
    for position, parameter in enumerate(schema.arguments[: len(args)]):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            result[position] = tree_map(
                lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, args[position]
            )
    return tuple(result)
