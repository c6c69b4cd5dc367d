"""fx_graph_runnable.py: a script that runs one graph again, and what it tells of its machine.

Written by torch/_dynamo/repro/after_aot.py: save_graph_repro; its inputs by
torch/_dynamo/debug_utils.py: InputWriter. Nothing here is ever executed by a reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Union

from .problem import Problem
from .source import LineSpan, Size

InputKind = Literal["tensor", "symint", "const", "generator", "opaque", "unsupported"]


@dataclass(frozen=True, slots=True)
class RunnableInput:
    """One argument of the graph, in the order of its placeholders.

    `kind`: `tensor`; `symint`, a number (`value`) that may stand for `expression` (``s77``);
    `const`, filtered out by the compiler; `generator`; `opaque`, a script object; `unsupported`.
    For tensors: `dtype` without ``torch.``, `stride` and `offset` in elements, `storage` the script's
    name for its memory (two inputs with the same one share memory), `storage_bytes` that memory's
    size, `storage_hash` the file in ``storages/`` with its contents, None where they were not saved.
    """

    name: str
    kind: InputKind
    line: int
    text: str
    shape: tuple[Size, ...] | None = None
    stride: tuple[Size, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    offset: Size = 0
    requires_grad: bool = False
    storage: str | None = None
    storage_hash: str | None = None
    storage_bytes: Size | None = None
    value: Union[int, float, None] = None
    expression: str | None = None


@dataclass(frozen=True, slots=True)
class RunnableScript:
    """A whole script.

    `devices` are (GPU name, how many); `has_gpu` is False where the script says that there was
    none, None where it says nothing. `toolkit` are the lines of ``nvcc --version``. `environment`
    holds torch's variables only; quotes in values were changed by torch (' to "). `config` are the
    settings away from their defaults, as (dotted name, text of the value). `symbols` are the
    hints of symbolic sizes. `graph_text` is the source of ``class Repro``, which starts at
    `graph_span`'s first line, "" and None where the script has none.
    """

    path: str
    text: str
    torch_version: str | None = None
    cuda_version: str | None = None
    git_version: str | None = None
    devices: tuple[tuple[str, int], ...] = ()
    has_gpu: bool | None = None
    toolkit: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    config: tuple[tuple[str, str], ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    tracing_mode: str | None = None
    save_dir: str | None = None
    graph_text: str = ""
    graph_span: LineSpan | None = None
    inputs: tuple[RunnableInput, ...] = ()
    problems: tuple[Problem, ...] = ()

    def input(self, name: str) -> RunnableInput | None:
        """The argument for the placeholder of that name."""
        return next((item for item in self.inputs if item.name == name), None)
