"""What the program does already, so that no advice repeats it: dtypes, memory format, modes, settings."""

from __future__ import annotations

from inspector.model.code import ExampleInput
from inspector.model.source import Size

from .case import Case, GraphCase

DESCENT = "coordinate_descent_tuning"
LAST_ALREADY = "channels-last comes in already: see which operator asks for another layout on the way"
"""What is advised where `channels_last` is true."""


def autocast(case: Case) -> bool:
    """Whether compiled callables were called under autocast; False too where nobody looked."""
    return any(
        value is not None
        for process in case.facts.calls
        if process.state is not None
        for item in process.callables
        for name, values in process.state.changes(item.states).items()
        if name.startswith("autocast.")
        for value in values
    )


def cudnn_benchmark(case: Case) -> bool:
    """Whether cuDNN measures its algorithms in any graph."""
    return any(
        bool(graph.state.torch.values.get("backends.cudnn.benchmark"))
        for graph in case.graphs
        if graph.state is not None
    )


def modes(case: Case) -> frozenset[str]:
    """The modes that ``torch.compile`` was given."""
    calls = (item for process in case.facts.calls for item in process.callables)
    named = {item.mode for item in calls if item.mode}
    for program in case.programs:
        named |= {str(call.option("mode")) for call in program.compile_calls if call.option("mode")}
    return frozenset(named)


def max_autotune(case: Case, graph: GraphCase) -> bool:
    """Whether templates are tuned already, by a mode or by the setting."""
    name = "max_autotune"
    return any(name.replace("_", "-") in mode for mode in modes(case)) or any(
        key.rsplit(".", 1)[-1].startswith(name) and value == "True" for key, value in graph.config.items()
    )


def is_set(graph: GraphCase, name: str) -> bool:
    """Whether Inductor's setting of that name was on when the graph was compiled."""
    return graph.config.get(f"torch._inductor.config.{name}", graph.config.get(name)) == "True"


def channels_last(graph: GraphCase) -> bool:
    """Whether an image or a weight of a convolution comes in with its channels innermost."""
    code = graph.artifacts.code
    return any(_innermost_channels(example) for example in (code.example_inputs if code is not None else ()))


def _innermost_channels(example: ExampleInput) -> bool:
    size, stride = example.size, example.stride
    if size is None or stride is None or not 4 <= len(size) <= 5 or len(stride) != len(size):
        return False
    return stride[1] == 1 and not _one(size[1]) and any(not _one(extent) for extent in size[2:])


def _one(extent: Size) -> bool:
    return extent == 1
