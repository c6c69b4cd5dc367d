"""The command `inspector lower`."""

from __future__ import annotations

import click

from inspector.cli.terminal import (
    graph_option,
    json_option,
    path_argument,
    print_json,
    print_lines,
    progress,
    width,
)
from inspector.model.lowering import STAGES
from inspector.model.problem import InspectorError


@click.command()
@path_argument
@graph_option
@click.option("--kernel", metavar="K", help="Only this kernel: its name, or the number of its call.")
@click.option(
    "--stage", type=click.Choice(STAGES), help="With --kernel: print this stage beside the model's lines."
)
@json_option
def lower(path: str, graph: str | None, kernel: str | None, stage: str | None, as_json: bool) -> None:
    """What each Triton kernel was lowered to, from TTIR to PTX, and which line of the model each is from.

    Reads the stage files that a capture keeps; runs nothing.
    """
    from inspector.contract.lower import to_json
    from inspector.gather import lowered_kernels
    from inspector.present.lower import overview_lines, stage_lines
    from inspector.readers.run import Run

    if stage is not None and kernel is None:
        raise InspectorError("--stage prints a stage of one kernel: name it with --kernel")
    run = Run.open(path)
    graphs = [run.graph(graph)] if graph else [item for item in run.graphs if item.files]
    with progress() as tell:
        tell("reading stages")
        kernels = lowered_kernels(run, graphs, kernel)
    if kernel is not None and not kernels:
        raise InspectorError(f"{path}: no kernel {kernel}; see: inspector lower {path}")
    for item in kernels if stage is not None else ():
        if item.stage(stage or "") is None:
            there = " ".join(each.name for each in item.stages) or "none"
            raise InspectorError(f"{item.kernel.name} has no {stage} in {path}; stages there: {there}")
    if as_json:
        print_json(to_json(kernels, stage))
    elif kernel is None:
        print_lines(overview_lines(kernels, width()))
    else:
        for item in kernels:
            print_lines(stage_lines(item, stage, width()))
