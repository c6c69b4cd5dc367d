"""`inspector summary`: what was compiled, whether it paid, and what is missing."""

from __future__ import annotations

import click

from inspector.cli.terminal import JSON_HELP, print_json, width


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def summary(path: str, as_json: bool) -> None:
    """What was compiled, into how many kernels, and what is missing."""
    from inspector.analysis.summary import summarise
    from inspector.present import summary as report
    from inspector.present.gather import compile_time, differences
    from inspector.readers.run import Run

    run = Run.open(path)
    graphs = [graph.artifacts() for graph in run.graphs]
    result = summarise(run.facts(), graphs, compile_time(run), differences(run), run.records, run.variants)
    if as_json:
        print_json(report.to_json(result))
    else:
        click.echo(report.to_text(result, width()), nl=False)
