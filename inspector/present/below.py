"""A kernel's source and its stages as documents: a row stands for the line of the source it is from."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from inspector.analysis.lowering import LoweredKernel, Origin
from inspector.model.links import Ref, Related
from inspector.model.lowering import Stage
from inspector.model.source import LineSpan
from inspector.text import clean
from inspector.units import percent, plural

from .code import language_of
from .content import RefIndex, Rows, merge
from .documents import Document, Language, message_document, split_lines, whole, written
from .folds import repeats, shape
from .lower import code_of, is_place, place_text, stage_lines

SOURCE, FACTS = "source", "facts"
_LANGUAGES: dict[str, Language] = {
    "ttir": "mlir",
    "ttgir": "mlir",
    "llir": "llvm",
    "ptx": "ptx",
    "sass": "sass",
    "amdgcn": "gas",
    "asm": "gas",
}
_MOST_NODES = 3
_MOST_REFS = 100_000
"""Lines of a source that lead anywhere: a damaged one may have millions."""
#         /*0010*/              LDG.E R8, [R2.64] ;
_ADDRESS = re.compile(r"\s*/\*([0-9a-f]{4,})\*/")
_WIDTH = 100


@dataclass(frozen=True)
class StageDocument(Document):
    """A stage whose repeated blocks are folded, but for those of `opened`. Blocks are known by the row that
    they begin at in the whole text; `blocks` has the block of a row that is of one, `whole_rows` each row's
    place in that text."""

    blocks: Mapping[int, int] = field(default_factory=dict)
    opened: frozenset[int] = frozenset()
    whole_rows: tuple[int, ...] = ()


def toggled(item: LoweredKernel, name: str, shown: StageDocument, row: int) -> tuple[StageDocument, int]:
    """With the block of a row opened, or folded again, and the row that the cursor is then on."""
    stage, block = item.stage(name), shown.blocks[row]
    assert stage is not None
    made = _stage(item, stage, shown.opened ^ {block})
    own = made.whole_rows.index(block)
    return made, own if block in shown.opened else row


def documents(item: LoweredKernel) -> dict[str, Document]:
    """By name, in the order of lowering: the facts, the source, each stage that is there."""
    result = {FACTS: written("Facts", stage_lines(item, None, _WIDTH)), SOURCE: _source(item)}
    for stage in item.stages:
        result[stage.name] = _stage(item, stage)
    if not item.stages:
        result["stages"] = message_document(
            "Stages",
            "No stages of this kernel in the run: a capture keeps Triton's in its cache/triton.\n"
            "They can be made here, GPU or not: inspector lower RUN --make",
        )
    return result


def selected(line: int) -> Related:
    """What a line of output_code.py stands for in these documents: itself."""
    return Related(code=(LineSpan(line, line),))


def origin_text(item: LoweredKernel, line: int) -> str:
    """`models.py:16 · mul_3 · output_code.py:414 · tmp3 = tmp1 * tmp2`."""
    span = item.kernel.source_span
    if span is None:
        return ""
    nodes = item.lines.at(line - span.first + 1)
    sources = {item.places[name]: None for name in sorted(nodes) if name in item.places}
    origin = Origin(line, nodes, tuple(sorted(sources, key=lambda place: (place.path, place.line))))
    rows = _rows(item.kernel.source)
    text = rows[line - span.first].strip() if 0 <= line - span.first < len(rows) else ""
    return " · ".join(filter(None, (place_text(origin), _names(nodes), f"output_code.py:{line}", text)))


@lru_cache(1)
def _rows(source: str) -> list[str]:
    """Its lines; of one kernel many are asked for, one after the other."""
    return source.split("\n")


def _names(nodes: frozenset[str]) -> str:
    """Of few nodes their names, of many how many."""
    return ", ".join(sorted(nodes)) if len(nodes) <= _MOST_NODES else plural(len(nodes), "FX node")


def _source(item: LoweredKernel) -> Document:
    span = item.kernel.source_span
    lines = split_lines(item.kernel.source.rstrip("\n"))
    first = span.first if span is not None else 1
    rows = [(row, first + row) for row in range(min(len(lines), _MOST_REFS))]
    return _document(item, "Source", lines, rows, language_of(item.kernel), first)


def _stage(item: LoweredKernel, stage: Stage, opened: frozenset[int] = frozenset()) -> StageDocument:
    """Without the lines that only say a place, which is what a row's remark says; of what repeats, in its
    text and in the lines that it is of, the first round."""
    every: list[tuple[str, int | None]] = []
    for text, place in zip(stage.lines, stage.places, strict=True):
        origin = item.origin(place)
        if origin is not None or not is_place(text):
            every.append((clean(code_of(text)), origin.line if origin is not None else None))
    taken = _samples(item, [text for text, _ in every]) if stage.name == "sass" else {}
    keys = [(row in taken or shape(text), line) for row, (text, line) in enumerate(every)]
    hidden: dict[int, str] = {}
    blocks: dict[int, int] = {}
    for block in repeats(keys):
        blocks.update((row, block.first) for row in range(block.first, block.hidden.stop))
        if block.first not in opened:
            what = "this line" if block.size == 1 else f"these {block.size} lines"
            more = (
                f"    ┄ {what} {block.times - 1} times more, with other registers and offsets ┄ Enter opens"
            )
            hidden.update(dict.fromkeys(block.hidden, ""))
            hidden[block.hidden.start] = more
    lines: list[str] = []
    rows: list[tuple[int, int]] = []
    whole_rows: list[int] = []
    for row, (text, line) in enumerate(every):
        if (shown := hidden.get(row, text)) or row not in hidden:
            if line is not None:
                rows.append((len(lines), line))
            lines.append(shown)
            whole_rows.append(row)
    made = _document(item, stage.name.upper(), lines, rows, _LANGUAGES.get(stage.name, "plain"), None)
    seen = {
        row: f"{made.notes.get(row, '←')} {taken[place]}"
        for row, place in enumerate(whole_rows)
        if place in taken
    }
    return StageDocument(
        made.title,
        made.lines,
        made.regions,
        made.refs,
        made.find,
        {**made.notes, **seen},
        made.first_number,
        blocks={row: blocks[place] for row, place in enumerate(whole_rows) if place in blocks},
        opened=opened,
        whole_rows=tuple(whole_rows),
    )


def _samples(item: LoweredKernel, lines: Sequence[str]) -> dict[int, str]:
    """By row of the disassembly how often Nsight Compute saw warps stand there."""
    taken = Counter[int]()
    for launch in item.ncu:
        taken.update(dict(launch.samples))
    whole = taken.total()
    places = {row: int(match[1], 16) for row, text in enumerate(lines) if (match := _ADDRESS.match(text))}
    return {
        row: f"{percent(taken[place] / whole)} of the samples"
        for row, place in places.items()
        if taken.get(place)
    }


def _document(
    item: LoweredKernel,
    title: str,
    lines: Sequence[str],
    rows: Sequence[tuple[int, int]],
    language: Language,
    first: int | None,
) -> Document:
    """`rows`: (row, line of output_code.py) of those that have one."""

    by_line = sorted((line, row) for row, line in rows)

    def find(related: Related) -> tuple[Rows, ...]:
        spans = (
            (bisect_left(by_line, (span.first,)), bisect_left(by_line, (span.last + 1,)))
            for span in related.code
        )
        return merge((row, row) for begin, end in spans for _, row in by_line[begin:end])

    refs = RefIndex((row, row, Ref("code_line", str(line))) for row, line in rows)
    notes = dict(_notes(item, rows))
    return Document(title, tuple(lines), whole(lines, language), refs, find, notes, first)


def _notes(item: LoweredKernel, rows: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """The model's place behind a row, where it changes."""
    span, before = item.kernel.source_span, ""
    for row, line in rows:
        nodes = item.lines.nodes.get(line - span.first + 1, frozenset()) if span is not None else frozenset()
        places = {item.places[name] for name in nodes if name in item.places}
        text = f"← {next(iter(places)).short}" if len(places) == 1 else ""
        if text and text != before:
            yield row, text
        before = text or before
