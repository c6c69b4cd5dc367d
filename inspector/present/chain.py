"""One selection in words: from the user's line to the launch, and the evidence that this rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from inspector.frozen import dataclass
from inspector.text import cells, clean, crop, elide, few, file_name

if TYPE_CHECKING:
    from inspector.model.links import Related
    from inspector.model.run import GraphArtifacts

_ARROW = " → "
_LEAST = 8


@dataclass(frozen=True, slots=True)
class Chain:
    """`parts` from source to launch, what is unknown left out; `evidence` may be empty."""

    parts: tuple[str, ...]
    evidence: str = ""

    def text(self, width: int) -> tuple[str, str]:
        """Chain and evidence for one line of `width` cells; evidence that does not fit is left out."""
        evidence = self.evidence if cells(self.evidence) + 2 <= width // 3 else ""
        room = width - (cells(evidence) + 2 if evidence else 0)
        return fit_parts(self.parts, room), evidence


def fit_parts(parts: tuple[str, ...], width: int) -> str:
    """The parts with arrows between; the longest give way until the line fits."""
    sizes = [cells(part) for part in parts]
    excess = sum(sizes) + len(_ARROW) * max(len(parts) - 1, 0) - width
    while excess > 0 and sizes and max(sizes) > _LEAST:
        index = sizes.index(max(sizes))
        sizes[index] -= 1
        excess -= 1
    return crop(_ARROW.join(elide(part, size) for part, size in zip(parts, sizes, strict=True)), width)


class ChainWriter:
    """Knows the order of a graph's things, so that a set of names reads in the order of the files."""

    def __init__(self, artifacts: GraphArtifacts) -> None:
        self._fx_after = (
            _positions(node.name for node in artifacts.fx_after.nodes) if artifacts.fx_after else {}
        )
        self._fx_before = (
            _positions(node.name for node in artifacts.fx_before.nodes) if artifacts.fx_before else {}
        )
        nodes = artifacts.post.nodes if artifacts.post else ()
        self._entries = _positions(node.name for node in nodes)
        self._kernels = _positions(kernel.name for kernel in artifacts.code.kernels) if artifacts.code else {}
        self._lines = {call.index: call.span.first for call in artifacts.code.calls} if artifacts.code else {}

    def write(self, related: Related) -> Chain:
        sources = sorted(related.sources, key=_place_key)
        parts = [
            few([file_name(place) for place in sources], 1),
            few(_sorted(related.fx_after, self._fx_after) or _sorted(related.fx_before, self._fx_before), 1),
            few(_sorted(related.entries, self._entries), 1),
            few(_sorted(related.kernels, self._kernels), 1),
            _lines_text(sorted(self._lines[call] for call in related.calls if call in self._lines)),
        ]
        evidence = f"by {_and(related.evidence)}" if related.evidence else ""
        if not related.calls and (related.fx_after or related.fx_before or related.sources):
            evidence = "no launch of its own is known"
        return Chain(tuple(clean(part) for part in parts if part), evidence)


def _positions(names: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


def _sorted(names: Iterable[str], order: Mapping[str, int]) -> list[str]:
    return sorted(names, key=lambda name: (order.get(name, 1 << 60), name))


def _place_key(place: str) -> tuple[str, int]:
    path, _, line = place.rpartition(":")
    return path, int(line) if line.isdigit() else 0


def _lines_text(lines: list[int]) -> str:
    return "" if not lines else f"line {few([str(line) for line in lines], 1)}"


def _and(names: Iterable[str]) -> str:
    names = list(names)
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
