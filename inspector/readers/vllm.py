"""vLLM's compile cache: the pieces that it cut the traced graph into, and the index of what they became.

A model's folder has one for each rank and device, and that one for each part that is compiled by itself
(vllm/compilation/backends.py: VllmBackend). What became of a piece is pickled, and stays unread.
"""

from __future__ import annotations

import re
import textwrap
from itertools import islice, pairwise
from pathlib import Path

from inspector.frozen import dataclass
from inspector.model.literals import NO_LITERAL, literal
from inspector.model.problem import Problem, Read
from inspector.model.run import Content

from .locate import VLLM_GRAPH, VLLM_INDEX
from .text import decode, read_bytes, read_text

_MOST_INDEX = 4 << 20
_MOST_PIECES = 2000
_BELOW = ("", "*/", "*/*/")
"""Of what was opened: a part's folder itself, a rank's, a model's."""
# class submod_0(torch.nn.Module):   in the graph that calls the pieces, one step in
_PIECE = re.compile(r"^    class (\w+)\(torch\.nn\.Module\):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Piece:
    """One part of a traced graph. `ident` is unique among the pieces of a cache; `rank` None where there is
    one rank."""

    name: str
    ident: str
    rank: int | None
    file: Path
    text: str

    def read(self) -> Read[str]:
        """Its lines, as a graph's file has them."""
        return textwrap.dedent(self.text), ()


def pieces(root: Path) -> Read[tuple[Piece, ...]]:
    """In the order in which a call runs them; the operators that split the graph are pieces, too. Of more
    than any model has the first, and a problem."""
    files = _files(root, VLLM_GRAPH)
    ranks = {_rank(path) for path in files}
    found, problems = list[Piece](), list[Problem]()
    for path in files:
        label = str(path.relative_to(root))
        text, unreadable = read_text(path, label)
        problems += unreadable
        starts = [(match.start(), match[1]) for match in _PIECE.finditer(text)]
        if len(starts) > _MOST_PIECES:
            what = f"{len(starts):,} pieces, of which {_MOST_PIECES:,} are read"
            problems.append(Problem(label, None, what))
        folder = path.parent.relative_to(root).as_posix()
        for (first, name), (last, _) in islice(pairwise([*starts, (len(text), "")]), _MOST_PIECES):
            ident = name if len(files) == 1 else f"{folder}/{name}"
            rank = _rank(path) if len(ranks) > 1 else None
            found.append(Piece(name, ident, rank, path, text[first:last]))
    return tuple(found), tuple(problems)


def index(root: Path) -> Read[tuple[Content, ...]]:
    """How many graphs vllm_compile_cache.py lists: a Python literal that maps (shape or range, number of the
    graph, compiler) to a handle (vllm/compilation/backends.py: CompilerManager.save_to_file)."""
    total, problems = 0, list[Problem]()
    found = _files(root, VLLM_INDEX)
    for path in found:
        label = str(path.relative_to(root))
        data, more = read_bytes(path, label, _MOST_INDEX)
        text, undecodable = decode(data, label)
        value = literal(text)
        problems += [*more, *undecodable]
        if isinstance(value, dict):
            total += len(value)
        elif value is NO_LITERAL:
            problems.append(Problem(label, None, "no Python literal, or cut short: it is not read"))
        else:
            problems.append(Problem(label, None, f"a {type(value).__name__}, where vLLM writes a dictionary"))
    return ((Content("graphs in vLLM's index", total, 0),) if found else ()), tuple(problems)


def _files(root: Path, name: str) -> list[Path]:
    return sorted(path for below in _BELOW for path in root.glob(f"{below}{name}") if path.is_file())


def _rank(path: Path) -> int:
    """``rank_1_0/backbone/computation_graph.py``: of rank 1, device 0."""
    match = re.fullmatch(r"rank_(\d{1,6})(?:_\d+)?", path.parent.parent.name)
    return int(match[1]) if match else 0
