"""The command `inspector replay`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
from inspector.model.problem import InspectorError

if TYPE_CHECKING:
    from inspector.model.edits import KernelEdit
    from inspector.model.replay import ReplayResult
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run

_BAD = ("mismatch",)


@click.command()
@path_argument
@graph_option
@kernel_option
@click.option(
    "--source",
    metavar="FILE",
    help="With --kernel: also run the kernel with FILE as its source, beside the original.",
)
@click.option("--no-kernels", is_flag=True, help="Graphs as a whole only, no kernel by itself.")
@click.option("--warm", "time_warm", is_flag=True, help="On a GPU, also time kernels with a warm L2 cache.")
@click.option("--cudagraphs", is_flag=True, help="On a GPU, also time the compiled call as one CUDA graph.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1),
    default=300.0,
    show_default=True,
    help="Seconds per graph, six times as many in Triton's interpreter.",
)
@click.option(
    "--kernel-timeout",
    "kernel_timeout_s",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="Seconds for one launch of a kernel.",
)
@click.option(
    "--interpreter",
    is_flag=True,
    help="Run a GPU's Triton kernels in Triton's interpreter on the CPU, as happens without a GPU.",
)
@click.option(
    "--interpreter-time",
    "interpreter_s",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="There: seconds of computing after which the rest of a kernel's grid is left out.",
)
@click.option(
    "--rounds", type=click.IntRange(min=3), default=30, show_default=True, help="Interleaved timing rounds."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the inputs that are made up.")
@click.option("--python", metavar="EXE", help="Interpreter to replay with (another environment's torch).")
@trust_option
@json_option
def replay(path: str, graph: str | None, as_json: bool, trust: bool, **options: Any) -> None:
    """Re-run compiled graphs and kernels beside the FX graph run op by op: time, correctness.

    This executes the run's generated code on this machine, in a child process with a time limit.
    """
    from inspector.contract.replay import to_json
    from inspector.present.kernel_result import stage_figure_lines
    from inspector.present.replay import lines
    from inspector.replay.edits import keep_edits, with_stages
    from inspector.replay.protocol import ReplayOptions
    from inspector.replay.store import save_result

    run = open_run(path)
    graphs = [run.graph(graph)] if graph else [item for item in run.graphs if item.files]
    if not graphs:
        raise InspectorError(f"{path}: no compiled graph to replay; see: inspector summary {path}")
    confirm(run, graphs, options["python"], trust)
    result = _replay(run, path, graphs, options)
    if run.root.is_dir() and os.access(run.root, os.W_OK) and run.kind == "capture":
        try:
            save_result(result, run.root)
        except InspectorError as error:
            # It took minutes: it is shown where it cannot be kept.
            say(str(error))
    edits: tuple[KernelEdit, ...] = ()
    if result.options.get("source") is not None:
        lower = partial(with_stages, run=run, options=ReplayOptions(python=options["python"]))
        edits = keep_edits(run, graphs, result, str(result.options["source"]), lower)
    if as_json:
        print_json(to_json(result))
    else:
        print_lines(lines(result, width(), against=not run.facts().eager_ran))
        print_lines(text for edit in edits for text in stage_figure_lines(edit))
    bad = any(
        graph.failure
        or any(output.verdict in _BAD for output in graph.outputs)
        or any(kernel.verdict in _BAD for kernel in graph.kernels)
        for graph in result.graphs
    )
    raise SystemExit(1 if bad else 0)


def _replay(run: Run, path: str, graphs: list[CompiledGraph], options: dict[str, Any]) -> ReplayResult:
    from inspector.explain.profiles import launch_times
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions
    from inspector.replay.spawn import replay_graphs

    no_kernels, interpreter = options.pop("no_kernels"), options.pop("interpreter")
    kernel, source = options["kernel"], options.pop("source")
    if source is not None and kernel is None:
        raise InspectorError("--source replaces one kernel's source: name it with --kernel")
    if kernel is not None and no_kernels:
        raise InspectorError("--kernel and --no-kernels contradict each other")
    profiled = launch_times(run)
    files = [graph_files(item, profiled.get(item.ident)) for item in graphs]
    if kernel is not None:
        files = [item for item in files if item.calls_of(kernel)]
        if not files:
            raise InspectorError(f"{path}: no kernel call {kernel}; see: inspector summary {path} --json")
    if source is not None and len({call.kernel for item in files for call in item.calls_of(kernel)}) > 1:
        raise InspectorError(f"--source: {kernel} is a call of several kernels; name the graph with --graph")
    settings = ReplayOptions(
        device="cpu" if interpreter else None,
        whole=kernel is None,
        kernels=not no_kernels,
        source=_read(source) if source is not None else None,
        **options,
    )
    with progress() as tell:
        return replay_graphs(files, settings, on_progress=tell)


def _read(source: str) -> str:
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InspectorError(f"{source} cannot be read: {getattr(error, 'strerror', error)}") from None


def confirm(run: Run, graphs: Sequence[CompiledGraph], python: str | None, trust: bool) -> None:
    """Asks on a terminal before code runs that is not known to be the user's own, unless that is trusted;
    refuses elsewhere, and where there is no torch to run it."""
    from inspector.replay.trust import foreign, what_runs

    if python is None and find_spec("torch") is None:
        raise InspectorError("this needs torch, which is not installed here; --python names one that has it")
    why = None if trust else foreign(run, graphs)
    if why is None:
        return
    unknown = f"{run.shown} is not known to be your capture ({why})"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InspectorError(f"{unknown} and replay runs its code; if you trust it, add --trust")
    say(f"{unknown}. {what_runs(graphs, python)}")
    if not click.confirm("Go on?", err=True):
        raise InspectorError("not replayed", exit_code=1)
