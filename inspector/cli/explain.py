"""`inspector explain`: why it is slow, with the options that measure and try."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from inspector.cli.terminal import JSON_HELP, coloured, print_json, progress, width
from inspector.model.problem import InspectorError

if TYPE_CHECKING:
    from inspector.readers.run import Run


@click.command()
@click.argument("path")
@click.option("--all", "everything", is_flag=True, help="Every finding with all its evidence.")
@click.option(
    "--measure", is_flag=True, help="Replay the run's kernels first, for times in place of estimates."
)
@click.option(
    "--try", "setting", metavar="RULE|first|modes",
    help="Run the command again with what a finding advises, or in each mode, and compare.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def explain(path: str, everything: bool, measure: bool, setting: str | None, as_json: bool) -> None:
    """Why it is slow or fast: what to change, what that would win, and where the time goes.

    Reads the run and executes nothing; --measure and --try do, and only on the machine that captured it.
    """
    from inspector.explain import explain as explain_run
    from inspector.hardware.host import this_host
    from inspector.readers.run import Run
    from inspector.replay.store import load_results
    from inspector.report import explain as report

    run = Run.open(path)
    if measure:
        _measure(run)
    result = explain_run(run, load_results(run.root), this_host())
    if setting is not None:
        from inspector.report import trial
        from inspector.trial.run import try_settings
        from inspector.trial.settings import choose

        chosen, rule = choose(result, setting)
        try:
            outcome = try_settings(run, chosen, rule, progress)
        finally:
            progress("")
        if as_json:
            print_json(trial.to_json(outcome))
        else:
            click.echo(trial.to_text(outcome, width()), nl=False)
        return
    if as_json:
        print_json(report.to_json(result))
    else:
        colour = coloured()
        click.echo(report.to_text(result, width(), colour, everything), nl=False, color=colour)


def _measure(run: Run) -> None:
    """Replay what has no kernel times yet, and keep the result with the run."""
    from inspector.replay.plan import GraphFiles, ReplayOptions
    from inspector.replay.spawn import replay_graphs
    from inspector.replay.store import save_result
    from inspector.replay.trust import foreign

    why = foreign(run)
    if why is not None:
        raise InspectorError(
            f"{run.shown}: not captured on this machine ({why}), whose times would not be its own; "
            f"to run its code all the same: inspector replay {run.shown}"
        )
    if run.kind != "capture" or not os.access(run.root, os.W_OK):
        raise InspectorError(f"{run.shown}: its folder cannot be written to: copy or unpack it first")
    files = [GraphFiles.of_graph(graph) for graph in run.graphs if graph.folder is not None and graph.files]
    if not files:
        raise InspectorError(f"{run.shown}: no compiled graph to measure")
    try:
        save_result(replay_graphs(files, ReplayOptions(), on_progress=progress), run.root)
    finally:
        progress("")
