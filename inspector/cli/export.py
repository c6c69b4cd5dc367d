"""`inspector export` and `inspector report`: a run as one HTML file, and as a few paragraphs for an issue."""

from __future__ import annotations

from pathlib import Path

import click

from inspector.cli.terminal import open_run, path_argument, progress, say
from inspector.model.problem import InspectorError

force_option = click.option("--force", is_flag=True, help="Replace FILE where there is one.")


@click.command()
@path_argument
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Write the page there, such as report.html."
)
@click.option(
    "--against", metavar="A", type=click.Path(), help="Another run: what differs from it, and its code."
)
@force_option
def export(path: str, output: str, against: str | None, force: bool) -> None:
    """One HTML file for an issue or a colleague: the answer, findings, graphs, code, kernels.

    It needs nothing from anywhere, and any browser shows it, on a phone and in print. Executes nothing. It
    holds the run's code, shapes, names and paths: look before you share it.
    """
    from inspector.export.page import export_page

    target = new_file(output, force)
    run, other = open_run(path), open_run(against) if against is not None else None
    with progress() as tell:
        text = export_page(run, say, tell, other)
    write_file(target, text)


@click.command()
@path_argument
@click.option("-o", "--output", metavar="FILE", help="Write it there, and not on standard output.")
@force_option
def report(path: str, output: str | None, force: bool) -> None:
    """What to paste into an issue, as Markdown: versions, verdict, findings, how to reproduce it.

    Executes nothing. What of the run could be markup stands as code. It holds lines of the program, and the
    script that reproduces a graph has paths of its machine: look before you share it.
    """
    from inspector.export.markdown import markdown
    from inspector.export.report import gather_report

    target = new_file(output, force) if output is not None else None
    run = open_run(path)
    with progress() as tell:
        text = markdown(run, gather_report(run, say, tell))
    if target is None:
        click.echo(text, nl=False)
    else:
        write_file(target, text)


def new_file(output: str, force: bool) -> Path:
    """Where to write; before any work is done, as what is there already may be wanted."""
    target = Path(output)
    if target.is_dir():
        raise InspectorError(f"{output}: is a folder: name a file in it")
    if target.exists() and not force:
        raise InspectorError(f"{output}: is there already: choose another name, or --force replaces it")
    return target


def write_file(target: Path, text: str) -> None:
    from inspector.files import write_whole
    from inspector.units import size

    try:
        write_whole(target, text)
    except OSError as error:
        raise InspectorError(f"{target} cannot be written: {error.strerror}") from None
    say(f"wrote {target}, {size(target.stat().st_size)}")
