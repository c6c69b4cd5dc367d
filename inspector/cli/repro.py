"""The command `inspector repro`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from inspector.cli.replay import confirm
from inspector.cli.terminal import graph_option, open_run, path_argument, progress, say, trust_option
from inspector.model.problem import InspectorError
from inspector.text import clean


@click.command()
@path_argument
@graph_option
@click.option("--kernel", metavar="K", help="The kernel: its name, or its call's number. Else a wrong one.")
@click.option("-o", "--output", metavar="FILE", help="Write the program there.")
@click.option("--python", metavar="EXE", help="Interpreter to replay with (another environment's torch).")
@trust_option
def repro(
    path: str, graph: str | None, kernel: str | None, output: str | None, python: str | None, trust: bool
) -> None:
    """One launch as a small program that runs with torch alone: kernel, inputs, and what is expected.

    This replays the launch on this machine, in a child process with a time limit. The program exits with 1
    where the kernel is wrong.
    """
    from inspector.analysis.replay_history import latest
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions
    from inspector.replay.spawn import replay_graphs
    from inspector.replay.store import load_results

    run = open_run(path)
    graphs = [run.graph(graph)] if graph else [item for item in run.graphs if item.files]
    if kernel is None:
        known = latest(load_results(run.root, say))
        wrong = [
            (item, each)
            for item in graphs
            for each in (known[item.ident].kernels if item.ident in known else ())
            if each.verdict == "mismatch"
        ]
        if not wrong:
            raise InspectorError(f"{path}: no replay of it has found a wrong kernel: name one with --kernel")
        graphs, kernel = [wrong[0][0]], str(wrong[0][1].call)
    files = [item for item in map(graph_files, graphs) if item.calls_of(kernel)]
    if not files:
        raise InspectorError(f"{path}: no kernel call {kernel}; see: inspector summary {path} --json")
    confirm(run, [item for item in graphs if item.ident == files[0].name], python, trust)
    call = files[0].calls_of(kernel)[0].index
    options = ReplayOptions(kernel=str(call), whole=False, time_kernels=False, repro=True, python=python)
    with progress() as tell:
        (result,) = replay_graphs(files[:1], options, on_progress=tell).graphs
    text = result.repros.get(call)
    if text is None:
        why = next((each.reason for each in result.kernels if each.call == call), result.failure)
        raise InspectorError(
            f"launch {call} cannot be written as a program: {'; '.join([str(why), *result.notes])}"
        )
    if output is None:
        # The program as it is, but for a terminal, which would obey it.
        click.echo("\n".join(map(clean, text.split("\n"))) if sys.stdout.isatty() else text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InspectorError(f"{output} cannot be written: {error.strerror}") from None
    say(f"written; next: python {output}")
