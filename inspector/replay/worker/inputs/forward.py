"""A backward graph's saved activations, computed by running its forward graph.

Made up one by one they contradict each other (a softmax whose rows do not add up to one, a root that
is not that of its variance), gradients explode, and rounding errors with them. The partitioner gives
a saved value the same name in both graphs (torch/_functorch/partitioners.py:
_extract_fwd_bwd_modules), so names tell which of the forward's outputs is which input.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from inspector.replay.worker.code.fx import FxProgram, GraphError
from inspector.replay.worker.inputs.arguments import Inputs, RecordedReader, TensorSpec
from inspector.replay.worker.inputs.roles import choose_values


def run_forward(path: Path, seed: int) -> dict[str, object]:
    """The forward graph's outputs by node name, on inputs made up as for any graph.

    `path` is its fx_graph_runnable.py, whose ``load_args`` says what the inputs are. Raises
    GraphError where it does not, and what torch raises where the graph cannot be run here.
    """
    program = FxProgram(path, "forward")
    reader = program.recorded_inputs(RecordedReader)
    if reader is None or len(reader.entries) != len(program.placeholders):
        raise GraphError(f"{path.name} of the forward graph does not say what its inputs are")
    if any(entry is None for entry in reader.entries):
        raise GraphError("the forward graph has inputs that are neither tensors nor integers")
    inputs = Inputs(reader.entries, seed)
    choose_values(program, inputs)
    outputs = program.run(inputs.fresh())
    return {name: value for name, value in zip(program.outputs, outputs, strict=True) if name is not None}


def match_saved(program: FxProgram, specs: Sequence[object], outputs: dict[str, object]) -> dict[int, Tensor]:
    """Positions of `program`'s inputs that are among `outputs`, with the same shape and dtype."""
    matched: dict[int, Tensor] = {}
    for position, (name, spec) in enumerate(zip(program.placeholders, specs, strict=True)):
        value = outputs.get(name)
        if not (isinstance(spec, TensorSpec) and isinstance(value, Tensor)):
            continue
        if (tuple(value.shape), value.dtype) == (spec.size, spec.dtype):
            matched[position] = value
    return matched
