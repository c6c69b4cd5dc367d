"""output_code.py: the wrapper and each kernel's source in its own language; its launches; its kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from inspector.model.code import Kernel, OutputCode
from inspector.model.links import Linkage, Ref
from inspector.model.source import LineSpan
from inspector.text import few, file_name
from inspector.units import plural

from .content import RefIndex, Rows, merge, rows_at
from .documents import Document, Language, Region, message_document, split_lines, whole
from .rows import KernelRow
from .spans import Span, Tone
from .tables import Column, Row, Table

KERNEL_TONES: dict[str, Tone] = {
    "triton": "accent",
    "cpp": "accent",
    "template": "accent",
    "user": "warn",
    "fallback": "warn",
}


class LineRefs(RefIndex):
    """Every line of a code file stands for itself; `first` is the number of row 0."""

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        self._first = first

    def at(self, row: int) -> Ref | None:
        return Ref("code_line", str(row + self._first))


def code_document(code: OutputCode) -> Document:
    lines = split_lines(code.text)
    return Document(
        title=f"output_code.py · {plural(len(code.kernels), 'kernel')}, {plural(len(code.calls), 'launch')}",
        lines=lines,
        regions=tuple(_regions(code, len(lines))),
        refs=LineRefs(),
        find=lambda related: _rows(related.code, 1, len(lines)),
    )


def _rows(spans: tuple[LineSpan, ...], first: int, count: int) -> tuple[Rows, ...]:
    inside = [(max(span.first - first, 0), min(span.last - first, count - 1)) for span in spans]
    return merge(rows for rows in inside if rows[0] <= rows[1])


def _regions(code: OutputCode, count: int) -> Iterator[Region]:
    """Kernel sources in their language, Python between them.

    The line that ends a source starts with the closing quotes, which would open a string there, so
    it is a stretch of its own.
    """
    row = 0
    sources = [(kernel, kernel.source_span) for kernel in code.kernels if kernel.source_span is not None]
    for kernel, span in sorted(sources, key=lambda item: item[1].first):
        first, last = max(span.first - 1, row), min(span.last - 1, count - 1)
        if first > last:
            continue
        if first > row:
            yield Region(row, first - 1, "python")
        yield Region(first, last, language_of(kernel))
        row = last + 1
        if row < count:
            yield Region(row, row, "plain")
            row += 1
    if row < count:
        yield Region(row, count - 1, "python")


def language_of(kernel: Kernel) -> Language:
    return "cpp" if kernel.kind == "cpp" or "#include" in kernel.source[:2000] else "python"


def launches_table(code: OutputCode) -> Table:
    """The launches in the order in which the wrapper makes them."""
    rows = tuple(
        Row(
            str(call.index),
            (
                Span(call.index, "dim"),
                Span(call.kernel),
                Span(call.kind, KERNEL_TONES.get(call.kind, "")),
                Span(call.span.first, "dim"),
            ),
            Ref("call", str(call.index)),
        )
        for call in code.calls
    )
    columns = (
        Column("", right=True),
        Column("kernel", shrinks=True, least=26),
        Column("kind", rank=1),
        Column("line", right=True, rank=2),
    )
    return Table(
        f"Launches · {len(rows)}",
        columns,
        rows,
        find=lambda related: merge((call, call) for call in related.calls),
    )


def kernels_table(
    code: OutputCode,
    linkage: Linkage | None,
    places: Mapping[str, str],
    waste: Mapping[int, Sequence[str]] | None = None,
) -> Table:
    """Each kernel once. `places`: FX node to ``path:line``. `linkage` is None until it was made; `waste`:
    what launches do that the program never asked for, in brief."""
    calls: dict[str, list[int]] = {}
    for call in code.calls:
        calls.setdefault(call.kernel, []).append(call.index)
    fx_of = {link.call: link.fx for link in linkage.calls} if linkage else {}
    rows = []
    for kernel in code.kernels:
        own = calls.get(kernel.name, [])
        fx = list(dict.fromkeys(name for call in own for name in fx_of.get(call, ())))
        lines = list(dict.fromkeys(file_name(places[name]) for name in fx if name in places))
        rows.append(
            Row(
                KernelRow(kernel.name),
                (
                    Span(kernel.name),
                    Span(kernel.heuristic or kernel.kind, KERNEL_TONES.get(kernel.kind, "")),
                    Span(len(own)),
                    Span(few(_distinct(waste or {}, own), 1), "warn"),
                    Span(few(fx) if linkage else "…", "" if fx else "dim"),
                    Span(few(lines, 1) if linkage else "…", "dim"),
                ),
                Ref("kernel", kernel.name),
            )
        )
    columns = (
        Column("kernel", shrinks=True, least=26),
        Column("kind", rank=1),
        Column("calls", right=True),
        Column("in vain", shrinks=True, least=21, rank=1, optional=True),
        Column("fx nodes", shrinks=True, least=8, rank=3),
        Column("source lines", shrinks=True, least=12, rank=2),
    )
    index = {row.key: position for position, row in enumerate(rows)}
    return Table(
        f"Kernels · {len(rows)}",
        columns,
        tuple(rows),
        find=lambda related: rows_at(index, map(KernelRow, related.kernels)),
    )


def _distinct(waste: Mapping[int, Sequence[str]], calls: Sequence[int]) -> list[str]:
    """What any of the launches does in vain, said once."""
    return list(dict.fromkeys(text for call in calls for text in waste.get(call, ())))


def kernel_document(code: OutputCode, lines_of_file: Sequence[str], name: str) -> Document:
    """A kernel's source with its numbers in output_code.py; for an extern kernel, the lines that call it."""
    kernel = code.kernel(name)
    if kernel is None:
        return message_document(name, "This kernel is not defined in output_code.py.")
    if kernel.source_span is not None and kernel.source:
        lines = tuple(lines_of_file[kernel.source_span.first - 1 : kernel.source_span.last])
        first, language = kernel.source_span.first, language_of(kernel)
    elif calls := [call for call in code.calls if call.kernel == name]:
        lines = split_lines("\n".join(call.text for call in calls))
        first, language = None, "python"
    else:
        return message_document(name, "No source: a library's kernel, and nothing here calls it.")
    return Document(
        title=name,
        lines=lines,
        regions=whole(lines, language),
        refs=LineRefs(first) if first is not None else RefIndex(),
        first_number=first,
    )
