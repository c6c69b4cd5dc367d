"""The command `inspector lower`."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.replay import confirm
from inspector.cli.terminal import (
    graph_option,
    json_option,
    kernel_option,
    open_run,
    path_argument,
    print_json,
    print_lines,
    progress,
    say,
    trust_option,
    width,
)
from inspector.model.lowering import STAGES
from inspector.model.problem import InspectorError
from inspector.temporary import temporary_folder

if TYPE_CHECKING:
    from inspector.analysis.lowering import LoweredKernel
    from inspector.readers.run import Run


_LAST = ("sass", "amdgcn", "asm")
_TARGET = re.compile(r"sm_\d{2,3}|gfx\w{3,5}")


@click.command()
@path_argument
@graph_option
@kernel_option
@click.option(
    "--stage", type=click.Choice(STAGES), help="With --kernel: print this stage beside the model's lines."
)
@click.option("--make", is_flag=True, help="Lower here what has no stages, or disassemble its binary.")
@click.option(
    "--target", metavar="T", help="Lower for this one, such as sm_80, sm_90, sm_100 or gfx942; with --make."
)
@click.option("--python", metavar="EXE", help="Interpreter to lower with (another environment's Triton).")
@trust_option
@json_option
def lower(
    path: str,
    graph: str | None,
    kernel: str | None,
    stage: str | None,
    make: bool,
    target: str | None,
    python: str | None,
    trust: bool,
    as_json: bool,
) -> None:
    """What each Triton kernel was lowered to, TTIR to SASS, and the line of the model each line is from.

    Reads the stage files that a capture keeps, and runs nothing. With --make, kernels without them are
    lowered here with their recorded configuration, GPU or not, in a child process with a time limit.
    """
    from inspector.contract.lower import to_json
    from inspector.lowered import lowered_kernels
    from inspector.present.lower import overview_lines, stage_lines

    if stage is not None and kernel is None:
        raise InspectorError("--stage prints a stage of one kernel: name it with --kernel")
    if target is not None and not _TARGET.fullmatch(target):
        raise InspectorError(f"--target {target}: no GPU is called so; such as sm_90 or gfx942")
    run = open_run(path)
    graphs = [run.graph(graph)] if graph else [item for item in run.graphs if item.files]
    with progress() as tell, temporary_folder("inspector-lowered-") as scratch:
        tell("reading stages")
        kernels = lowered_kernels(run, graphs, kernel, target)
        if kernel is not None and not kernels:
            raise InspectorError(f"{path}: no kernel {kernel}; see: inspector lower {path}")
        if make:
            confirm(run, graphs, python, trust)
            made = _make(run, kernels, scratch, target, python, tell)
            kernels = lowered_kernels(run, graphs, kernel, target, made)
    for item in kernels if stage is not None else ():
        if item.stage(stage or "") is None:
            there = " ".join(each.name for each in item.stages) or "none"
            hint = "" if make else "; --make lowers it here"
            raise InspectorError(f"{item.kernel.name} has no {stage} in {path}; stages there: {there}{hint}")
    if as_json:
        print_json(to_json(kernels, stage))
    elif kernel is None:
        print_lines(overview_lines(kernels, width()))
    else:
        for item in kernels:
            print_lines(stage_lines(item, stage, width()))


def _make(
    run: Run,
    kernels: tuple[LoweredKernel, ...],
    scratch: Path,
    target: str | None,
    python: str | None,
    tell: Callable[[str], object],
) -> Path:
    """Lowers what is missing; the folder with what there is then."""
    from inspector.replay.lowering import keep, lower_job, lower_kernels, made_folder
    from inspector.replay.protocol import ReplayOptions

    missing = [item for item in kernels if not any(map(item.stage, _LAST)) or item.unasked]
    jobs = [job for item in missing if (job := lower_job(item, target)) is not None]
    folder = made_folder(run)
    if jobs:
        result = lower_kernels(jobs, scratch, ReplayOptions(python=python), on_progress=tell)
        if result.failure is not None:
            say(f"not all was lowered: {result.failure}")
        for index, problem in sorted(result.problems.items()):
            say(f"{jobs[index].name} was not lowered: {problem}")
        try:
            if folder is not None:
                keep(scratch, folder, result.keys.values())
        except OSError as error:
            say(f"{folder}: the stages cannot be kept: {error.strerror or error}")
            return scratch
    return folder or scratch
