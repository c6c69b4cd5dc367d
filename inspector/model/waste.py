"""Work that compiled code does and the program never asked for: rewritten storages, repeated evaluations."""

from __future__ import annotations

from inspector.frozen import dataclass

from .source import SourceLocation


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A tensor that the program writes in place, in parts, and that generated kernels write anew.

    `storage` is the FX node that the tensor is; `writes` are the FX nodes that stand for the program's writes
    and `sources` their lines. `moved` is what the kernels move for it, `asked` what writing the parts takes,
    both in bytes; `groups` are the post-fusion entries with the bytes that each moves for nothing.
    """

    storage: str
    writes: tuple[str, ...]
    sources: tuple[SourceLocation, ...]
    moved: int
    asked: int
    groups: tuple[tuple[str, int], ...]
    by_index: bool = False

    @property
    def wasted(self) -> int:
        return self.moved - self.asked


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An expensive operator as one group's loops evaluate it.

    `fx` are the FX nodes of that operator (several, where nothing tells them apart) and `elements` those of
    their outputs; `evaluations` is how often the loops compute it. Not `exact`: at most so often, as a
    condition on data decides. `occurrences` counts it in the loops' text, alike ones once. `part` is what the
    evaluations beyond one for each element are of all that the group computes, 0 to 1, by weights of
    operators.
    """

    operator: str
    group: str
    fx: tuple[str, ...]
    sources: tuple[SourceLocation, ...]
    elements: int
    evaluations: int
    occurrences: int
    exact: bool = True
    part: float = 0.0
    whole: float = 0.0
    """The same of all its evaluations."""
    beyond: int = 0
    """Arithmetic operations of the evaluations beyond one, with those that make the value beside it."""

    @property
    def times(self) -> float:
        """Evaluations for each element of the result."""
        return self.evaluations / self.elements if self.elements else 1.0

    @property
    def extra(self) -> int:
        """Evaluations beyond one for each element."""
        return max(0, self.evaluations - self.elements)


@dataclass(frozen=True, slots=True)
class OperatorInput:
    """A tensor that an operator of the program gets. `dtype` is torch's name; `fx` the node of the lowered
    graph that holds its value, None where none is known to."""

    name: str
    dtype: str
    size: tuple[int, ...]
    stride: tuple[int, ...]
    device: str
    fx: str | None = None


@dataclass(frozen=True, slots=True)
class WholeOperator:
    """An operator that ATen has kernels for and that generated code does in pieces.

    `name` is that of the program's call or of the graph's node, `operator` its function's own name;
    `expression` is the call as Python, of the names of `inputs`. `fx` are the lowered graph's nodes that it
    became, `calls` the wrapper's launches that do their work, `fused` with other work. `rest_bytes` is what
    that work moves more once the operator stands alone.
    """

    name: str
    operator: str
    expression: str
    inputs: tuple[OperatorInput, ...]
    fx: tuple[str, ...]
    calls: tuple[int, ...]
    source: SourceLocation | None
    fused: bool = False
    rest_bytes: int = 0
