"""The tensors of one launch, found by the names that the schedule has for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from inspector.replay.protocol import KernelPlan, PlannedCall
from inspector.replay.worker.inputs.arguments import Inputs, TensorSpec
from inspector.replay.worker.kernels.expected import Launch
from inspector.replay.worker.kernels.facts import GraphFacts
from inspector.replay.worker.reference.buffers import Leaf, flat_memory

SCRATCH = "only the kernel itself uses it, in memory that was used before, and need not store it at last"


_UNWRITTEN = {torch.int16: 0x7FDA, torch.int32: 0x7FDA5A5A, torch.int64: 0x7FFA5A5A5A5A5A5A}
"""Bits of a NaN of every floating dtype of that width that no arithmetic gives."""


class LaunchTensors:
    """Finds what a launch reads and writes among the wrapper's local names. `module`: the generated one."""

    def __init__(self, plan: KernelPlan, facts: GraphFacts, module: object, inputs: Inputs) -> None:
        self._plan = plan
        self.facts = facts
        self._module = module
        self._inputs = inputs

    def prepare(self, call: PlannedCall, names: Mapping[str, object]) -> Launch:
        """The launch with all that it reads, as it is now, and its outputs' memory made unlike any result."""
        leaves, made, wanted = self._concerned(call)
        wholes = {self.facts.layouts.owner(name) for name in made} - {
            self.facts.layouts.root(name) for name in made
        }
        reads: dict[str, object] = {}
        memories: dict[str, object] = {}
        for name in sorted(wanted):
            tensor = self._resolve(name, names)
            if tensor is not None:
                memories[self.facts.layouts.root(name)] = tensor
                if name not in wholes:
                    reads[name] = tensor
        for name in {
            self.facts.layouts.root(name) for name in made if name in self.facts.layouts.targets
        } - set(memories):
            tensor = self._resolve(name, names)
            if tensor is not None:
                memories[name] = tensor
        for name, spec in zip(self.facts.subgraph.program.placeholders, self._inputs.specs, strict=True):
            # Symbolic sizes are no buffers, but nodes need them.
            if not isinstance(spec, TensorSpec):
                reads[name] = spec
        before: dict[str, Tensor] = {}
        written = {}
        for name in call.outputs:
            tensor = names.get(name)
            if isinstance(tensor, Tensor):
                before[self.facts.layouts.root(name)] = flat_memory(tensor).clone()
                written[tensor.untyped_storage().data_ptr()] = True
        for tensors in (reads, memories):
            for name, tensor in tensors.items():
                if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() in written:
                    copy = flat_memory(tensor).clone()
                    tensors[name] = torch.as_strided(copy, tensor.shape, tensor.stride())
        launch = Launch(call, self.facts, leaves, reads, memories, before)
        self.poison(launch, names)
        return launch

    def _concerned(self, call: PlannedCall) -> tuple[list[Leaf], set[str], set[str]]:
        """The call's leaves, the buffers that they make, and those that they read from outside."""
        entries = set(call.entries)
        leaves = [leaf for leaf in self.facts.leaves if leaf.entry in entries]
        made = {name for leaf in leaves for name in leaf.buffers}
        wanted = {name for leaf in leaves for name in leaf.reads} - made
        return leaves, made, wanted if leaves else set(call.buffers) - set(call.outputs)

    def inputs(self, call: PlannedCall, names: Mapping[str, object]) -> dict[str, Tensor]:
        """The tensors themselves that the call reads, by the name of their memory, each memory once."""
        tensors: dict[str, Tensor] = {}
        seen: set[int] = set()
        for name in sorted(self._concerned(call)[2]):
            tensor = self._resolve(name, names)
            if isinstance(tensor, Tensor) and tensor.numel() and tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                tensors[name] = tensor
        return tensors

    def poison(self, launch: Launch, names: Mapping[str, object]) -> None:
        """Fills what the launch is about to write with what it will hardly write: memory that an earlier run
        left there would make a kernel that writes nothing look right."""
        changed = {target for leaf in launch.leaves for target in leaf.mutations.values()}
        made = {name for leaf in launch.leaves for name in leaf.buffers}
        read = {*launch.reads, *launch.memories}
        shared = {self._pointer(name, names) for name in read if name in names}
        shared |= {self._pointer(heir, names) for name in read for heir in self._heirs(name)}
        for name in launch.call.outputs:
            tensor = names.get(name)
            if not isinstance(tensor, Tensor) or name not in made or name in changed:
                continue
            if self._pointer(name, names) in shared or name in self.facts.layouts.targets:
                continue
            try:
                if tensor.dtype == torch.bool:
                    # Either may be right: what is not written differs from half of what should be.
                    tensor.random_(2)
                elif (bits := _bits(tensor)) is not None:
                    bits.fill_(_UNWRITTEN[bits.dtype])
                elif tensor.dtype.is_floating_point or tensor.dtype.is_complex:
                    tensor.fill_(math.nan)
                else:
                    tensor.fill_(torch.iinfo(tensor.dtype).max // 2)
            except (RuntimeError, NotImplementedError):
                continue

    def scratch(self, launch: Launch) -> set[str]:
        """Outputs that only the launch itself uses, in memory that held another buffer before: their last
        value need not be stored (torch/_inductor/codegen/common.py: removed_buffers)."""
        reused = (
            {alias.name for alias in self._plan.aliases if alias.kind == "reuse"} if launch.leaves else ()
        )
        others = {
            name for call in self._plan.calls if call.index != launch.call.index for name in call.buffers
        }
        # Memory that passes on under another name is read under the schedule's name.
        others.update(
            name for leaf in self._plan.leaves if leaf.entry not in launch.call.entries for name in leaf.reads
        )
        others.update(alias.source for alias in self._plan.aliases if alias.kind == "view")
        others.update(name for text in self._plan.outputs for name in re.findall(r"\w+", text))
        return {name for name in launch.call.outputs if name in reused and name not in others}

    def _heirs(self, name: str) -> Iterator[str]:
        """Names that a buffer's memory passes to, one by one (``buf9 = buf0; del buf0  # reuse``)."""
        pending = [name]
        while pending:
            source = pending.pop()
            for alias in self._plan.aliases:
                if alias.source == source and alias.kind == "reuse":
                    pending.append(alias.name)
                    yield alias.name

    @staticmethod
    def _pointer(name: str, names: Mapping[str, object]) -> int:
        tensor = names.get(name)
        return int(tensor.untyped_storage().data_ptr()) if isinstance(tensor, Tensor) else -1

    def _resolve(self, name: str, names: Mapping[str, object]) -> object:
        """The tensor under a buffer's name, in the buffer's own layout, also where the memory has passed
        to another name (``buf9 = buf0; del buf0  # reuse``)."""
        value = names.get(name)
        if value is None and name in self.facts.layouts.targets:
            return self._resolve(self.facts.layouts.targets[name], names)
        if value is None:
            value = getattr(self._module, name, None)
        if isinstance(value, (int, float)):
            return value
        if value is None:
            value = next((names[heir] for heir in self._heirs(name) if names.get(heir) is not None), None)
        if not isinstance(value, Tensor):
            return None
        return self.in_layout(name, value)

    def in_layout(self, name: str, tensor: Tensor) -> Tensor:
        """The buffer's memory in the layout that the schedule has for it."""
        layout = self.facts.layouts.of(name)
        if layout is None or (tuple(tensor.shape), tuple(tensor.stride())) == layout[:2]:
            return tensor
        if layout[2] is not None and layout[2] != tensor.dtype:
            return tensor
        try:
            return torch.as_strided(tensor, layout[0], layout[1], tensor.storage_offset())
        except RuntimeError:
            return tensor


def _bits(tensor: Tensor) -> Tensor | None:
    """A real floating tensor's memory as integers; None for an 8-bit float, which has one NaN."""
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(tensor.dtype.itemsize)
    return tensor.view(kind) if kind is not None and tensor.dtype.is_floating_point else None


def show_unwritten(value: object, reference: object) -> None:
    """Puts a number where a launch wrote nothing and NaN is right: what is there would pass for that."""
    if (
        not isinstance(value, Tensor)
        or not isinstance(reference, Tensor)
        or value.numel() != reference.numel()
    ):
        return
    bits = _bits(value)
    if bits is not None and bool((nowhere := reference.isnan().reshape(value.shape)).any()):
        value.masked_fill_(nowhere & (bits == _UNWRITTEN[bits.dtype]), 0.0)
