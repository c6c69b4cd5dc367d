"""`inspector export`: a run as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inspector.cli.terminal import path_argument, progress, say
from inspector.model.problem import InspectorError


@click.command()
@path_argument
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Write the page there, such as report.html."
)
@click.option("--force", is_flag=True, help="Replace FILE where there is one.")
def export(path: str, output: str, force: bool) -> None:
    """One HTML file for an issue or a colleague: the answer, findings, graphs, code, kernels.

    It needs nothing from anywhere, and any browser shows it, on a phone and in print. Executes nothing. It
    holds the run's code, shapes, names and paths: look before you share it.
    """
    from inspector.export.page import export_page
    from inspector.files import write_whole
    from inspector.readers.run import Run
    from inspector.units import size

    target = Path(output)
    if target.is_dir():
        raise InspectorError(
            f"{output} is a folder: name a file in it, such as {output.rstrip('/')}/report.html"
        )
    if target.exists() and not force:
        raise InspectorError(f"{output}: is there already: choose another name, or --force replaces it")
    run = Run.open(path)
    with progress() as tell:
        text = export_page(run, say, tell)
    try:
        write_whole(target, text)
    except OSError as error:
        raise InspectorError(f"{output} cannot be written: {error.strerror}") from None
    hint = "" if sys.stderr is None or not sys.stderr.isatty() else "; open it in a browser"
    say(f"wrote {output}, {size(target.stat().st_size)}{hint}")
