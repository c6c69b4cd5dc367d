"""What decides, beside a program's code, which kernels torch runs for it, as the recorder saw it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from inspector.frozen import dataclass

Value = bool | int | str | None

MODES = ("is_grad_enabled", "is_inference_mode_enabled")
"""Of a call, and not of the kernels in it: a graph is compiled for them."""

_IMPLIED = (
    ("get_float32_matmul_precision", "backends.cuda.matmul.allow_tf32"),
    ("get_float32_matmul_precision", "backends.cuda.matmul.fp32_precision"),
    ("get_float32_matmul_precision", "backends.mkldnn.matmul.fp32_precision"),
    ("backends.cuda.matmul.allow_tf32", "backends.cuda.matmul.fp32_precision"),
    ("backends.cudnn.allow_tf32", "backends.cudnn.conv.fp32_precision"),
    ("backends.cudnn.allow_tf32", "backends.cudnn.rnn.fp32_precision"),
)
"""(switch, another name of what it sets): torch 2.9 renamed the switches of precision and keeps both."""


@dataclass(frozen=True, slots=True)
class TorchState:
    """Switches by their names below ``torch`` (`backends.cudnn.benchmark`, `get_num_threads`), the dtype of
    autocast by device (`autocast.cuda`, None where it is off), and the CPUs that the process may use
    (`affinity`, as in "0-3,8"). A name that this torch does not have is absent."""

    values: Mapping[str, Value] = field(default_factory=dict)

    def changed(self, before: TorchState) -> dict[str, Value]:
        """Name -> value of each that is other than in `before`, without second names and without `MODES`."""
        names = {
            name: value
            for name, value in self.values.items()
            if name not in MODES and value != before.values.get(name)
        }
        for switch, other in _IMPLIED:
            if switch in names:
                names.pop(other, None)
        return names


@dataclass(frozen=True, slots=True)
class GraphState:
    """How torch was set when one graph first ran, and the variables of its process."""

    torch: TorchState
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The different states that a process was seen in, the first as torch began; `environment` has the
    variables that torch and its libraries read, `cpus` counts the machine's processors."""

    states: tuple[TorchState, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: int | None = None

    def changes(self, positions: Iterable[int]) -> dict[str, tuple[Value, ...]]:
        """Name -> its values in the states at `positions`, where any is not as torch began."""
        states = [self.states[position] for position in positions if 0 <= position < len(self.states)]
        if not states:
            return {}
        names = dict.fromkeys(name for state in states for name in state.changed(self.states[0]))
        return {name: tuple(dict.fromkeys(state.values.get(name) for state in states)) for name in names}
