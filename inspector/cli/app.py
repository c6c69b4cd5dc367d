"""The command line: parse arguments, call one function, render what it returns.

Heavy modules are imported inside the commands, so that `--help` and `summary` start fast.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inspector import __version__
from inspector.cli.explain import explain
from inspector.cli.options import pairs, save_inputs
from inspector.cli.replay import replay
from inspector.cli.summary import summary
from inspector.cli.terminal import JSON_HELP, coloured, print_json, progress, width
from inspector.model.problem import InspectorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inspector.model.compilation import Compilation, Stage
    from inspector.readers.trace_file import TraceFile

GRAPH_HELP = "Only this compiled graph (name, or an unambiguous beginning)."
graph_option = click.option("--graph", "graph", metavar="G", help=GRAPH_HELP)


class _Group(click.Group):
    """Lists commands in the order of their definition: the order in which people use them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """As ever, but a reader that went away (| head) is no error; click itself would exit with 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is still buffered goes nowhere, so that nothing complains at shutdown.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="inspector")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """See what torch.compile did to a program, and why it is or isn't fast.

    Without a command: browse the runs below this folder.

    \b
    PATH may be: a capture's folder, torch_compile_debug, one run_* or model__*
    folder, a TORCH_TRACE log or a folder of them, or an archive of any of these.
    """
    if ctx.invoked_subcommand is None:
        _browse(None)


@cli.command("open")
@click.argument("path")
def open_command(path: str) -> None:
    """Browse PATH: graphs, IR, generated code, kernels."""
    _browse(path)


def _browse(path: str | None) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = f"inspector summary {path}" if path else "inspector --help"
        raise InspectorError(f"browsing needs a terminal; for a pipe or a script use: {hint}")
    from inspector.tui.app import run_tui

    raise SystemExit(run_tui(path))


@cli.command(context_settings={"allow_interspersed_args": False})
@click.option("-o", "--output", "out", metavar="RUN", help="Folder for the run; must be new or empty.")
@click.option(
    "--fresh/--no-fresh",
    default=True,
    help="Use empty caches inside the run (default), or the user's own: cached graphs then leave no files.",
)
@click.option(
    "--mode", metavar="MODE", help="Mode for torch.compile calls that name none (reduce-overhead, ...)."
)
@click.option(
    "--config", "config", multiple=True, metavar="KEY=VALUE",
    help="Set torch._inductor.config.KEY; 'dynamo.KEY' for torch._dynamo.config. May be repeated.",
)  # fmt: skip
@click.option(
    "--env", multiple=True, metavar="NAME=VALUE", help="Set a variable for the command. May be repeated."
)
@click.option("--logs", metavar="NAMES", help="More TORCH_LOGS artifacts, separated by commas.")
@click.option(
    "--record/--no-record",
    default=True,
    help="Watch the compiler from inside for fusion decisions and where buffers come from (default).",
)
@save_inputs
@click.option("--baseline", is_flag=True, help="Run COMMAND twice more: compiled as it is, and in eager.")
@click.option("-q", "--quiet", is_flag=True, help="No progress and no closing lines.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def capture(
    out: str | None,
    fresh: bool,
    mode: str | None,
    config: tuple[str, ...],
    env: tuple[str, ...],
    logs: str | None,
    record: bool,
    save_inputs: int | None,
    baseline: bool,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND and keep all that torch.compile writes.

    \b
    inspector capture -- python train.py --epochs 1
    inspector capture -o run1 -- torchrun --nproc-per-node 2 train.py
    inspector capture -- -m mypackage.train
    """
    from inspector.capture.launch import CaptureOptions
    from inspector.capture.launch import capture as run_capture

    outcome = run_capture(
        CaptureOptions(
            command=command,
            out=Path(out) if out else None,
            fresh=fresh,
            mode=mode,
            config=pairs(config, "--config"),
            env=pairs(env, "--env"),
            logs=logs,
            record=record,
            save_inputs=save_inputs,
            baseline=baseline,
            quiet=quiet,
        )
    )
    if outcome.interrupted:
        raise SystemExit(130)
    raise SystemExit(1 if outcome.exit_code else 0)


cli.add_command(summary)


@cli.command()
@click.argument("path")
@click.option("--compile-id", "ident", metavar="ID", help="Everything about one compilation, such as 0/1.")
@click.option("--rank", type=int, metavar="N", help="Only this rank of a run of several.")
@click.option("--show", "stage", metavar="STAGE", help="Print the text of a stage, such as aot_joint_graph.")
@click.option("--kinds", is_flag=True, help="Every kind of event in the trace, those without a view first.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def trace(
    path: str, ident: str | None, rank: int | None, stage: str | None, kinds: bool, as_json: bool
) -> None:
    """What a TORCH_TRACE log tells: where compile time went, the graph at each stage, guards, ranks."""
    from inspector.analysis.compile_time import compile_times, merge
    from inspector.contract.trace import to_json
    from inspector.present import trace_words as report
    from inspector.present.gather import differences
    from inspector.present.trace_detail import detail, kinds_text
    from inspector.readers.run import Run

    run = Run.open(path)
    files = [file for file in run.traces if rank is None or file.content.rank == rank]
    if not files:
        known = sorted({file.content.rank for file in run.traces if file.content.rank is not None})
        if known:
            raise InspectorError(f"{path}: no rank {rank}; there are: {', '.join(map(str, known))}")
        raise InspectorError(
            f"{path}: no structured trace here; write one with TORCH_TRACE=DIR, or with inspector capture"
        )
    if stage is not None:
        if as_json or kinds:
            raise InspectorError("--show prints a text; it cannot be combined with --json or --kinds")
        click.echo(_stage_text(files, ident, stage), nl=False)
        return
    views = [
        report.TraceView(file.content, compile_times(file.timeline.spans, file.content.compilations))
        for file in files
    ]
    chosen = _compilations(files, ident) if ident is not None else None
    problems = [problem for file in files for problem in (*file.problems, *file.timeline.problems)]
    if as_json:
        total = merge([view.times for view in views])
        idents = None if chosen is None else frozenset(item.ident for item in chosen)
        print_json(to_json(run.shown, views, total, differences(run), problems, idents))
    elif kinds:
        click.echo("\n".join(kinds_text(view.content.kinds, width()) for view in views), nl=False)
    elif chosen is not None:
        shown = [(view, item) for view in views for item in view.content.compilations if item in chosen]
        click.echo("\n".join(detail(view, item, width()) for view, item in shown), nl=False)
    else:
        click.echo(report.overview(run.shown, views, differences(run), problems, width()), nl=False)


def _compilations(files: Sequence[TraceFile], ident: str) -> list[Compilation]:
    """The compilations of that id, one for each rank; InspectorError names the choices."""
    found = [item for file in files for item in file.content.compilations if item.ident == ident]
    if not found:
        idents = dict.fromkeys(item.ident for file in files for item in file.content.compilations)
        choices = ", ".join(list(idents)[:12]) or "none: nothing was compiled"
        raise InspectorError(f"no compilation {ident}; there are: {choices}")
    return found


def _stage_text(files: Sequence[TraceFile], ident: str | None, label: str) -> str:
    from inspector.present.trace_detail import stages_text

    owners: dict[int, TraceFile] = {}
    found: list[tuple[str, Stage]] = []
    labels: dict[str, None] = {}
    wanted = None if ident is None else {id(item) for item in _compilations(files, ident)}
    for file in files:
        rank = f"rank {file.content.rank} " if file.content.rank is not None else ""
        groups = [
            (f"{rank}{item.ident}", item.stages, item.stage(label))
            for item in file.content.compilations
            if wanted is None or id(item) in wanted
        ]
        if wanted is None:
            same = tuple(stage for stage in file.content.general if label in (stage.name, stage.label))
            groups.append((f"{rank}general", file.content.general, same))
        for owner, stages, matching in groups:
            labels.update(dict.fromkeys(stage.label for stage in stages))
            for stage in matching:
                owners[id(stage)] = file
                found.append((owner, stage))
    if not found:
        raise InspectorError(f"no stage {label}; there are: {', '.join(labels) or 'none'}")
    return stages_text(found, lambda stage: owners[id(stage)].payload(stage.event))


@cli.command()
@click.argument("path")
@graph_option
@click.option("--all", "everything", is_flag=True, help="Show every group and every pair, noise included.")
@click.option("--dot", metavar="FILE", help="Write the fused graph in Graphviz's language; needs --graph.")
@click.option("--svg", metavar="FILE", help="Write the fused graph as a picture; needs --graph.")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def fusions(
    path: str, graph: str | None, everything: bool, dot: str | None, svg: str | None, as_json: bool
) -> None:
    """What fused with what, the bytes it saved, and why the rest did not fuse."""
    from inspector.analysis.fusion import analyse_fusion
    from inspector.present import fusion as report
    from inspector.present.drawing import to_dot, to_svg
    from inspector.readers.run import Run

    run = Run.open(path)
    if (dot or svg) and graph is None and len(run.graphs) != 1:
        raise InspectorError("--dot and --svg draw one graph: name it with --graph")
    graphs = [run.graph(graph)] if graph else [item for item in run.graphs if item.files]
    reports = []
    for item in graphs:
        script = item.runnable()
        reports.append(analyse_fusion(item.artifacts(), symbols=script.symbols if script else None))
    for target, draw in ((dot, to_dot), (svg, to_svg)):
        if target is not None:
            _write(target, draw(reports[0]))
    if as_json:
        print_json(report.to_json(reports, everything))
    else:
        click.echo(report.to_text(reports, width(), everything), nl=False)


@cli.command("ir-diff")
@click.argument("path")
@graph_option
def ir_diff(path: str, graph: str | None) -> None:
    """IR before fusion beside IR after it, with what merged seen as merging."""
    from inspector.present.ir_diff import to_text
    from inspector.readers.run import Run

    run = Run.open(path)
    graphs = [run.graph(graph)] if graph else [item for item in run.graphs if item.files]
    if not graphs:
        raise InspectorError(f"{path}: no compiled graph to compare; see: inspector summary {path}")
    colour = coloured()
    for item in graphs:
        for line in to_text(item.artifacts(), width(), colour):
            click.echo(line, color=colour)


def _write(target: str, text: str) -> None:
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InspectorError(f"{target} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {target}", err=True)


cli.add_command(replay)


cli.add_command(explain)


@cli.command()
@click.option("--python", metavar="EXE", help="Interpreter to examine (another environment's torch).")
@click.option("--json", "as_json", is_flag=True, help=JSON_HELP)
def doctor(python: str | None, as_json: bool) -> None:
    """Can this machine compile, and would you see what it compiled?

    Looks at torch, Triton, GPU, C++ compiler, caches and environment, and compiles a small function.
    """
    from inspector.contract import doctor as report
    from inspector.doctor.run import examine

    try:
        diagnosis = examine(python, on_progress=progress)
    finally:
        progress("")
    if as_json:
        print_json(report.to_json(diagnosis))
    else:
        colour = coloured()
        click.echo(report.to_text(diagnosis, width(), colour), nl=False)
    raise SystemExit(1 if diagnosis.bad else 0)


def main() -> None:
    """Entry point: a user's mistake becomes one line and exit code 2, never a traceback."""
    # A terminal or pipe with a narrow encoding gets a question mark in place of an arrow, not a crash.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        code = _run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output went away (| head): not an error, and nothing is left to say.
        code = 0
    except OSError as error:
        click.echo(f"inspector: {error.strerror or error}", err=True)
        code = 2
    _leave(code)


def _run() -> int:
    """Run the command; the exit code that its outcome stands for."""
    try:
        cli.main(standalone_mode=False)
    except InspectorError as error:
        click.echo(f"inspector: {error}", err=True)
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        hint = "; see: inspector --help" if isinstance(error, click.UsageError) else ""
        click.echo(f"inspector: {error.format_message().rstrip('.')}{hint}", err=True)
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("inspector: interrupted", err=True)
        return 130
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


def _leave(code: int) -> None:
    """End at once: freeing a large run's objects one by one would take a fifth of the time again."""
    archive = sys.modules.get("inspector.readers.archive")
    if archive is not None:
        archive.remove_unpacked()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)
