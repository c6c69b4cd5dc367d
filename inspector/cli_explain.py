"""`inspector explain`: why it is slow, with the options that measure and try."""

from __future__ import annotations

import click

from inspector.terminal import coloured, print_json, width


@click.command()
@click.argument("path")
@click.option("--all", "everything", is_flag=True, help="Every finding with all its evidence.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on standard output and nothing else there."
)
def explain(path: str, everything: bool, as_json: bool) -> None:
    """Why it is slow or fast: what to change, what that would win, and where the time goes."""
    from inspector.explain import explain as explain_run
    from inspector.readers.run import Run
    from inspector.report import explain as report

    run = Run.open(path)
    result = explain_run(run)
    if as_json:
        print_json(report.to_json(result))
    else:
        colour = coloured()
        click.echo(report.to_text(result, width(), colour, everything), nl=False, color=colour)
