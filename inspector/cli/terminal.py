"""The terminal that a command talks to: the one place through which text and JSON of a run go out.

Everything is cleaned here once more, whoever wrote it: neither a name in a run nor an error message can make
the terminal do anything. rich is imported where it prints: JSON, and `--help`, start without it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click

from inspector.contract.bounds import LIMIT, bounded, finite
from inspector.contract.next import next_commands
from inspector.model.problem import InspectorError
from inspector.text import clean, crop, escaped, is_printable, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from inspector.present.spans import Line, Tone
    from inspector.readers.run import Run

_Command = TypeVar("_Command", bound=Callable[..., Any])
_LIMIT = "inspector.limit"
"""Where a command's context keeps it."""


def _keep_limit(context: click.Context, _parameter: click.Parameter, value: int | None) -> None:
    if value is not None:
        if not context.params.get("as_json"):
            raise InspectorError("--limit bounds the lists of --json: give both")
        context.meta[_LIMIT] = value


def json_option(command: _Command) -> _Command:
    """`--json`, and `--limit` beside it, which `print_json` minds."""
    limit = click.option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="N",
        expose_value=False,
        callback=_keep_limit,
        help=f"With --json: at most N entries of each list [{LIMIT:,}], 0 for all; what is left out is said.",
    )
    as_json = click.option(
        "--json",
        "as_json",
        is_flag=True,
        is_eager=True,
        help="Print one JSON object on standard output and nothing else there.",
    )
    return as_json(limit(command))


kernel_option = click.option(
    "--kernel", metavar="K", help="Only this kernel: its name, or the number of its call."
)
trust_option = click.option("--trust", is_flag=True, help="Run its code without asking, whoever captured it.")
path_argument = click.argument("path", type=click.Path())
"""What to open; shells complete it as a path."""

graph_option = click.option(
    "--graph", "graph", metavar="G", help="Only this compiled graph (name, or an unambiguous beginning)."
)

STYLES: dict[Tone, str] = {
    "": "",
    "dim": "dim",
    "good": "green",
    "bad": "red",
    "warn": "yellow",
    "accent": "bold",
}
"""What each tone looks like; the browser's are `tone--*` in its style sheet."""

_BATCH = 200
"""Lines that are printed at once: a pager shows the first ones while others are made."""


def _console(stderr: bool = False) -> Console:
    """Colours on a terminal that is not dumb, unless NO_COLOR is set; plain text in a pipe."""
    from rich.console import Console

    class Writer(Console):
        def on_broken_pipe(self) -> None:
            """A reader that went away is no error of ours; `main` knows what to do."""
            raise BrokenPipeError

    on_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    colours = None if os.environ.get("NO_COLOR") else "auto"
    return Writer(stderr=stderr, force_terminal=on_terminal, color_system=colours, width=width())  # type: ignore[arg-type]


def width() -> int:
    """Columns to write in: the terminal's, but neither under 60 nor over 200; 100 in a pipe."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 200))


def print_lines(lines: Iterable[Line]) -> None:
    """On standard output, as they are made; no line is wrapped, and no markup understood."""
    from rich.segment import Segment, Segments
    from rich.style import Style

    styles = {tone: Style.parse(style) for tone, style in STYLES.items()}
    console, rest = _console(), iter(lines)
    while batch := list(islice(rest, _BATCH)):
        segments = []
        for line in batch:
            segments += [Segment(clean(text), styles[tone]) for text, tone in _inert(_stripped(line))]
            segments.append(Segment.line())
        console.print(Segments(segments), soft_wrap=True, end="")


def _stripped(line: Line) -> list[tuple[str, Tone]]:
    """The line's spans without blanks at its end."""
    spans = [(span.text, span.tone) for span in line.spans]
    while spans and spans[-1][0].endswith(" "):
        text, tone = spans.pop()
        spans += [(text.rstrip(), tone)] if text.strip() else []
    return spans


def _inert(spans: list[tuple[str, Tone]]) -> list[tuple[str, Tone]]:
    """In a job of GitHub's, whose runner obeys lines that begin with ``::`` or have ``##[`` in them (actions/
    runner: ActionCommand.cs), these with a blank in between."""
    if "GITHUB_ACTIONS" not in os.environ:
        return spans
    spans = [(text.replace("##[", "## ["), tone) for text, tone in spans]
    if "".join(text for text, _ in spans).lstrip().startswith("::"):
        return [(text.replace("::", ": :"), tone) for text, tone in spans]
    return spans


def say(text: str) -> None:
    """One line of our own on standard error, whatever the text is made of."""
    ((text, _),) = _inert([(one_line(text), "")])
    click.echo(text, err=True)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """A function that shows what is being done: beside a spinner on a terminal, not at all in a pipe."""
    from rich.text import Text

    console = _console(stderr=True)
    if not console.is_terminal:
        yield lambda _text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(Text(crop(text, width() - 4)))


_SLOW_BYTES = 1 << 20
"""Of a packed file: below, it is unpacked before a spinner would be seen."""


class _Unpacking:
    """How far it is, asked anew whenever the spinner is drawn."""

    def __init__(self, path: str) -> None:
        self.name = clean(os.path.basename(path))

    def __rich__(self) -> Text:
        from rich.text import Text

        from inspector.present.identity import unpacking_text
        from inspector.readers.archive import part_unpacked

        return Text(crop(unpacking_text(self.name, part_unpacked()), width() - 4))


@contextmanager
def opening(path: str) -> Iterator[None]:
    """Says how far an archive is unpacked, for as long as that takes."""
    slow = os.path.isfile(path) and os.path.getsize(path) > _SLOW_BYTES
    console = _console(stderr=True) if slow else None
    if console is not None and console.is_terminal:
        with console.status(_Unpacking(path)):
            yield
    else:
        yield


def open_run(path: str) -> Run:
    """The run at a command's PATH; raises InspectorError where there is none."""
    from inspector.readers.run import Run

    with opening(path):
        return Run.open(path)


def step(text: str) -> None:
    """The same for work during which other programs write on the terminal: a line of its own."""
    if text and sys.stderr.isatty():
        say(text)


def print_json(data: dict[str, Any]) -> None:
    """One object on standard output, as long as `--limit` allows, with what to run next."""
    context = click.get_current_context(silent=True)
    meta, given = (context.meta, context.params) if context is not None else ({}, {})
    paths = [given[name] for name in ("path", "a", "b") if given.get(name)]
    answer = {**bounded(data, meta.get(_LIMIT, LIMIT)), "next": next_commands(data, paths)}
    text = json.dumps(finite(answer), indent=2, ensure_ascii=False, allow_nan=False)
    # What a terminal would obey or hide, as JSON's own escapes; such characters stand in strings only.
    click.echo(
        "\n".join(
            line if is_printable(line) else escaped(line, lambda char: json.dumps(char)[1:-1])
            for line in text.split("\n")
        )
    )
