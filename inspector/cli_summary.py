"""`inspector summary`: what was compiled, whether it paid, and what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inspector.terminal import JSON_HELP, print_json, width

if TYPE_CHECKING:
    from inspector.model.compile_time import CompileTime
    from inspector.model.ranks import Divergence
    from inspector.readers.run import Run


@click.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def summary(path: str, as_json: bool) -> None:
    """What was compiled, into how many kernels, and what is missing."""
    from inspector.analysis.summary import summarise
    from inspector.readers.run import Run
    from inspector.report import summary as report

    run = Run.open(path)
    graphs = [graph.artifacts() for graph in run.graphs]
    result = summarise(run.facts(), graphs, _compile_time(run), divergence_of(run), run.variants)
    if as_json:
        print_json(report.to_json(result))
    else:
        click.echo(report.to_text(result, width()), nl=False)


def _compile_time(run: Run) -> CompileTime | None:
    from inspector.analysis.compile_time import compile_times, merge

    if not run.traces:
        return None
    times = []
    for file in run.traces:
        spans = file.timeline.spans
        # Only without timed sections are the metrics needed, which takes reading all events.
        times.append(compile_times(spans, () if spans else file.content.compilations))
    return merge(times)


def divergence_of(run: Run) -> tuple[Divergence, ...]:
    """Where the ranks of a run differ; empty for a single one."""
    if len(run.traces) < 2 and len({graph.process for graph in run.graphs}) < 2:
        return ()
    from inspector.analysis.ranks import divergence
    from inspector.readers.ranks import rank_facts

    return divergence(rank_facts(run, [file.content for file in run.traces]))
