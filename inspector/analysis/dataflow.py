"""Which FX nodes a kernel computes, read off the flow of values, for runs without written evidence.

Torch before 2.6 writes nothing over C++ kernels that names FX nodes. But inputs and outputs of the
graph stand in the same order in the FX graph and in the wrapper, and an extern call has the same
arguments as its FX node. That says which FX value some buffers hold; what a kernel computes then is
what lies between the values that it reads and those that it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from inspector.model.code import Alias, KernelCall, OutputCode
from inspector.model.fx import FxGraph, FxNode

VIEW_OPERATORS = frozenset({
    "view", "reshape", "permute", "t", "transpose", "expand", "unsqueeze", "squeeze", "slice", "select",
    "alias", "detach", "as_strided", "_unsafe_view", "_reshape_alias", "clone",
})  # fmt: skip
"""ATen operators that Inductor turns into another way of reading the same buffer."""

VIEWS = VIEW_OPERATORS - {"clone", "reshape"} | {
    "diagonal", "unfold", "view_as_real", "view_as_complex", "_conj", "_neg_view",
}  # fmt: skip
"""Those that are views in eager as well, and move nothing."""

# buf16, primals_3, reinterpret_tensor(buf4, (128, 64), (64, 1), 0): the first name that is no function
_NAME = re.compile(r"\b([A-Za-z_]\w*)\b(?!\()")


# ``aoti_torch_cpu_addmm_out``: what a C++ wrapper calls (torch/csrc/inductor/aoti_torch/generated).
_SHIM = re.compile(r"aoti_torch_(?:cpu|cuda|xpu|mps|mtia)_(\w+?)(?:_out)?$")


@lru_cache(maxsize=4096)
def operator(target: str) -> str:
    """`torch.ops.aten.addmm.default`, `aten.addmm.default`, `extern_kernels.bias_addmm`,
    `aoti_torch_cpu_addmm_out` -> `addmm`."""
    if (shim := _SHIM.match(target)) is not None:
        return shim[1]
    parts = target.split(".")
    if parts[0] == "extern_kernels" and len(parts) > 1:
        return parts[1].removeprefix("bias_")
    return parts[-2] if len(parts) > 2 else parts[-1]


def draws_seeds(call: KernelCall) -> bool:
    """Whether a launch draws the seeds of a graph's own random numbers, of all at once: no call of the
    program's does that (torch/_inductor/fx_passes/replace_random.py)."""
    return "randint.low_out" in call.kernel or "inductor_seeds" in call.kernel


def shown(name: str, nodes: Mapping[str, FxNode]) -> str:
    """The node whose values a chain of views shows; `nodes` by name."""
    while name in nodes and nodes[name].inputs and operator(nodes[name].target) in VIEW_OPERATORS:
        name = nodes[name].inputs[0]
    return name


class Dataflow:
    """The FX values that buffers are known to hold. `externs` maps extern calls to their FX nodes."""

    def __init__(self, code: OutputCode, fx: FxGraph, externs: Mapping[int, str]) -> None:
        self._nodes = {node.name: node for node in fx.nodes}
        self._calls = {call.index: call for call in code.calls}
        self._extern_nodes = set(externs.values())
        self._value: dict[str, str] = {}
        placeholders = [node.name for node in fx.placeholders]
        self._learn(zip(code.inputs, placeholders, strict=False))
        self._learn(
            (_first_name(text), node) for text, node in zip(code.outputs, fx.outputs, strict=False) if node
        )
        for index, name in externs.items():
            call, node = self._calls[index], self._nodes[name]
            positional = [text for text in call.arguments if "=" not in text.split("(")[0]]
            self._learn(
                (_first_name(text), argument)
                for text, argument in zip(positional, node.arguments, strict=False)
            )
            self._learn((output, name) for output in call.outputs)
        self._learn_parts(code, fx)

    def _learn(self, pairs: Iterable[tuple[str | None, str]]) -> None:
        for buffer, name in pairs:
            if buffer is not None and name in self._nodes:
                self._value.setdefault(buffer, shown(name, self._nodes))

    def _learn_parts(self, code: OutputCode, fx: FxGraph) -> None:
        """`buf7 = buf6[0]` holds the getitem 0 of what buf6 holds."""
        parts = {
            (node.inputs[0], node.text.rsplit("[", 1)[-1].split("]")[0]): node.name
            for node in fx.nodes
            if node.kind == "getitem" and node.inputs
        }
        for step in code.steps:
            if isinstance(step, Alias) and step.kind == "unpack":
                index = step.text.rsplit("[", 1)[-1].split("]")[0]
                part = parts.get((self._value.get(step.source, ""), index))
                if part is not None:
                    self._value.setdefault(step.name, part)

    def computed_by(self, call: KernelCall) -> tuple[str, ...]:
        """FX nodes between what the call reads and what it writes, in the graph's order; empty where
        no output's value is known. Each call stops elsewhere: a walk over some nodes, for which networkx
        would need a graph without the stops, and longer to be imported than all walks take."""
        stop = {
            self._value[name] for name in call.buffers if name not in call.outputs and name in self._value
        }
        stack = [self._value[name] for name in call.outputs if name in self._value]
        computed: set[str] = set()
        while stack:
            name = stack.pop()
            node = self._nodes[name]
            if name in stop or name in computed or name in self._extern_nodes or node.kind == "placeholder":
                continue
            computed.add(name)
            stack.extend(input_name for input_name in node.inputs if input_name in self._nodes)
        return tuple(name for name in self._nodes if name in computed)


def _first_name(text: str) -> str | None:
    match = _NAME.search(text)
    return match[1] if match else None
