"""The program's own Triton kernels: what a launch gives beside what the kernel gives as the FX graph has it,
on the same memory. Nothing says what such a kernel should compute: a launch is right where Inductor launches
the same kernel with the same arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.code.fx import Node
from inspector.replay.worker.reference.subgraph import NotComputable, Subgraph

SAME_KERNEL = "as the program's own kernel gives; nothing else says what that should compute"

_WRAPPER = "higher_order.triton_kernel_wrapper_"


@dataclass
class OwnKernel:
    """A launch's arguments and outputs in memory of their own, as they are before it."""

    arguments: list[Tensor]
    outputs: dict[str, Tensor]
    ran: bool = False

    def expected(
        self, name: str, call: PlannedCall, subgraph: Subgraph, sizes: Mapping[str, object]
    ) -> Tensor:
        """What the output should hold. Raises NotComputable where the graph does not tell, and whatever the
        kernel raises. `sizes`: the graph's symbolic ones."""
        if name not in self.outputs:
            raise NotComputable(f"{name} is no argument of the launch")
        if not self.ran:
            self._run(call, subgraph, sizes)
            self.ran = True
        return self.outputs[name]

    def _run(self, call: PlannedCall, subgraph: Subgraph, sizes: Mapping[str, object]) -> None:
        from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

        nodes = [node for name in call.fx if (node := subgraph.program.node(name)) is not None]
        node = next((node for node in nodes if node.op.startswith(_WRAPPER)), None)
        if node is None:
            raise NotComputable("no FX node of it is known")
        number, names = _passed(node)
        order = kernel_side_table.get_kernel(number).arg_names
        results = subgraph.recording.results
        tensors = [
            (word, names[word])
            for word in order
            if word in names and names[word] not in sizes and results.get(names[word]) != [None]
        ]
        if len(tensors) != len(self.arguments):
            raise NotComputable(f"{node.name} takes {len(tensors)} tensors, the launch {len(self.arguments)}")
        given = {**sizes, **{name: value for (_, name), value in zip(tensors, self.arguments, strict=True)}}
        changed = subgraph.evaluate(node.name, given, wide=False)
        if isinstance(changed, dict):
            for (word, _), value in zip(tensors, self.arguments, strict=True):
                if isinstance(changed.get(word), Tensor):
                    value.copy_(changed[word])


def own_kernel(args: object, outputs: Mapping[str, object]) -> OwnKernel:
    """Copies of the launch's tensors, which share memory as they do."""
    storages: dict[int, torch.UntypedStorage] = {}

    def copied(leaf: object) -> object:
        if not isinstance(leaf, Tensor):
            return leaf
        storage = leaf.untyped_storage()
        own = storages.get(storage.data_ptr())
        if own is None:
            own = storages[storage.data_ptr()] = storage.clone()
        empty = torch.empty(0, dtype=leaf.dtype, device=leaf.device)
        return empty.set_(own, leaf.storage_offset(), leaf.size(), leaf.stride())

    leaves = [leaf for leaf in tree_leaves(tree_map(copied, args)) if isinstance(leaf, Tensor)]
    made = {name: copied(value) for name, value in outputs.items() if isinstance(value, Tensor)}
    return OwnKernel(leaves, made)


def _passed(node: Node) -> tuple[int, dict[str, str]]:
    """The number of the node's kernel in torch's table, and the names that it passes by parameter."""
    keywords = {item.arg: item.value for item in node.call.keywords} if node.call is not None else {}
    kwargs = keywords.get("kwargs")
    index = keywords.get("kernel_idx")
    number = index.value if isinstance(index, ast.Constant) else None
    if not isinstance(kwargs, ast.Dict) or not isinstance(number, int):
        raise NotComputable(f"{node.name} does not name its kernel")
    names = {
        str(key.value): value.id
        for key, value in zip(kwargs.keys, kwargs.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Name)
    }
    return number, names
