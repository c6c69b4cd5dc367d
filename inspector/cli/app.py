"""The command line: parse arguments, call one function, print what it returns.

A command that looks at a run is one function here: it opens the run, asks `inspector.gather` or an analysis,
and prints the `lines` of its module in `inspector.present`, or the `to_json` of that in `inspector.contract`.
Heavy modules are imported inside the commands, so that `--help` and `summary` start fast.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.agents import mcp
from inspector.cli.blame import blame
from inspector.cli.capture import capture
from inspector.cli.check import check
from inspector.cli.diff import diff
from inspector.cli.examples import add_examples
from inspector.cli.explain import explain
from inspector.cli.export import export, report
from inspector.cli.fleet import catalogue_at, index, query
from inspector.cli.lower import lower
from inspector.cli.pack import pack
from inspector.cli.replay import replay
from inspector.cli.repro import repro
from inspector.cli.terminal import (
    graph_option,
    json_option,
    open_run,
    opening,
    path_argument,
    print_json,
    print_lines,
    progress,
    say,
    width,
)
from inspector.cli.web import web
from inspector.model.problem import InspectorError, told
from inspector.temporary import remove_on_signals
from inspector.text import plain_signs
from inspector.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inspector.model.doctor import Finding
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.run import Run


class _Group(click.Group):
    """Lists commands in the order of their definition: the order in which people use them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """A path in a command's place opens it."""
        if args and args[0] not in self.commands and (os.sep in args[0] or os.path.exists(args[0])):
            args = ["open", *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
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

    Without a command: browse the runs below this folder; with a PATH alone: browse that.

    \b
    PATH may be: a capture's folder, torch_compile_debug, one run_* or model__*
    folder, a TORCH_TRACE log or a folder of them, or an archive of any of these.
    """
    if ctx.invoked_subcommand is None:
        _browse(None)


@cli.command("open")
@path_argument
def open_command(path: str) -> None:
    """Browse PATH: graphs, IR, code, kernels; of an index its runs. A profiler's trace is summed up."""
    if not _summarise_profile(path, as_json=False):
        _browse(path)


def _browse(path: str | None) -> None:
    # textual-serve's children draw on a pipe, and say so.
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and "TEXTUAL_DRIVER" not in os.environ:
        hint = f"inspector summary {path}" if path else "inspector --help"
        raise InspectorError(f"browsing needs a terminal; for a pipe or a script use: {hint}")
    from inspector.tui.app import run_tui

    catalogue = catalogue_at(path) if path is not None else None
    raise SystemExit(run_tui(path, opening=opening(path or "."), catalogue=catalogue))


cli.add_command(capture)


def _summarise_profile(path: str, as_json: bool) -> bool:
    """Whether `path` is a profiler's trace, whose summary is then printed."""
    file = Path(path)
    if not file.is_file():
        return False
    from inspector.readers.kineto import is_kineto, load_profile

    if not is_kineto(file):
        return False
    from inspector.analysis.profile_summary import summarise_profile
    from inspector.contract.profile import to_json
    from inspector.present.profile import lines

    profile, problems = load_profile(file)
    for problem in problems:
        say(str(problem))
    if as_json:
        print_json(to_json(summarise_profile(profile)))
    else:
        print_lines(lines(summarise_profile(profile), width()))
    return True


@cli.command()
@path_argument
@json_option
def summary(path: str, as_json: bool) -> None:
    """What was compiled, into how many kernels, what is missing; of a profiler's trace, where time goes."""
    if _summarise_profile(path, as_json):
        return
    from inspector.gather import summary_of

    result = summary_of(open_run(path))
    if as_json:
        from inspector.contract.summary import to_json

        print_json(to_json(result))
    else:
        from inspector.present.summary import lines

        print_lines(lines(result, width()))


@cli.command()
@path_argument
@click.option("--compile-id", "ident", metavar="ID", help="Everything about one compilation, such as 0/1.")
@click.option("--rank", type=int, metavar="N", help="Only this rank of a run of several.")
@click.option("--show", "stage", metavar="STAGE", help="Print the text of a stage, such as aot_joint_graph.")
@click.option("--kinds", is_flag=True, help="Every kind of event in the trace, those without a view first.")
@json_option
def trace(
    path: str, ident: str | None, rank: int | None, stage: str | None, kinds: bool, as_json: bool
) -> None:
    """What a TORCH_TRACE log tells: where compile time went, the graph at each stage, guards, ranks."""
    from inspector.contract.trace import to_json
    from inspector.gather import trace_report
    from inspector.present.spans import Line, apart, toned
    from inspector.present.trace import kinds_lines, lines
    from inspector.present.trace_detail import detail_lines, stages_lines

    if stage is not None and (as_json or kinds):
        raise InspectorError("--show prints a text; it cannot be combined with --json or --kinds")
    report = trace_report(open_run(path), rank)
    chosen = report.compilations(ident) if ident is not None else []
    if stage is not None:
        print_lines(stages_lines(report.stages(stage, ident)))
    elif as_json:
        print_json(to_json(report, ident))
    elif kinds:
        for number, process in enumerate(report.traces):
            print_lines([*([Line()] if number else []), *kinds_lines(process.content.kinds, width())])
    elif ident is not None:
        for number, (process, item) in enumerate(chosen):
            print_lines([*([Line()] if number else []), *detail_lines(process, item, width())])
    else:
        more = toned("more: --compile-id ID, and with it --show STAGE; --kinds; --json", "dim")
        some = any(process.content.compilations for process in report.traces)
        print_lines([*lines(report, width()), *apart([more] if some else [])])


@cli.command()
@path_argument
@graph_option
@click.option("--all", "everything", is_flag=True, help="Show every group and every pair, noise included.")
@click.option("--dot", metavar="FILE", help="Write the fused graph in Graphviz's language; needs --graph.")
@click.option("--svg", metavar="FILE", help="Write the fused graph as a picture; needs --graph.")
@json_option
def fusions(
    path: str, graph: str | None, everything: bool, dot: str | None, svg: str | None, as_json: bool
) -> None:
    """What fused with what, the bytes it saved, and why the rest did not fuse."""
    from inspector.contract.fusions import to_json
    from inspector.gather import fusion_of
    from inspector.present.drawing import to_dot, to_svg
    from inspector.present.fusion import lines
    from inspector.views.loading import graph_titles

    run = open_run(path)
    if (dot or svg) and graph is None and len(run.graphs) != 1:
        raise InspectorError("--dot and --svg draw one graph: name it with --graph")
    reports = []
    with progress() as tell:
        for item in _graphs(run, graph):
            tell(f"reading {item.ident}")
            reports.append(fusion_of(item))
    for target, draw in ((dot, to_dot), (svg, to_svg)):
        if target is not None:
            _write(target, draw(reports[0]))
    if as_json:
        print_json(to_json(reports, everything))
    else:
        print_lines(lines(reports, width(), everything, graph_titles(run)))


@cli.command("ir-diff")
@path_argument
@graph_option
def ir_diff(path: str, graph: str | None) -> None:
    """IR before fusion beside IR after it, with what merged seen as merging."""
    from inspector.present.ir_diff import lines
    from inspector.views.loading import graph_titles

    run = open_run(path)
    graphs = _graphs(run, graph)
    if not graphs:
        raise InspectorError(f"{path}: no compiled graph to compare; see: inspector summary {path}")
    titles = graph_titles(run)
    for item in graphs:
        print_lines(lines(item.artifacts(), titles[item.ident], width()))


def _graphs(run: Run, name: str | None) -> list[CompiledGraph]:
    """The graph of that name, or all that hold any computation."""
    return [run.graph(name)] if name else [item for item in run.graphs if item.files]


def _write(target: str, text: str) -> None:
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InspectorError(f"{target} cannot be written: {error.strerror}") from None
    say(f"wrote {target}")


cli.add_command(replay)
cli.add_command(repro)
cli.add_command(explain)
cli.add_command(lower)
cli.add_command(diff)
cli.add_command(blame)
cli.add_command(export)
cli.add_command(report)
cli.add_command(pack)
cli.add_command(check)
cli.add_command(web)
cli.add_command(mcp)
cli.add_command(index)
cli.add_command(query)


@cli.command()
@click.option("--python", metavar="EXE", help="Interpreter to examine (another environment's torch).")
@json_option
def doctor(python: str | None, as_json: bool) -> None:
    """Can this machine compile, and would you see what it compiled?

    Looks at torch, Triton, GPU, C++ compiler, caches and environment, and compiles a small function.
    """
    from inspector.contract.doctor import to_json
    from inspector.doctor.run import examine
    from inspector.present.doctor import finding_lines, lines, verdict_lines
    from inspector.present.spans import apart

    told: list[Finding] = []

    def show(findings: Sequence[Finding]) -> None:
        print_lines(finding_lines(findings[len(told) :], width()))
        told[:] = findings

    # Somebody who waits sees each answer as it comes; what is read by a program begins with the verdict.
    live = not as_json and sys.stdout.isatty()
    with progress() as tell:
        diagnosis = examine(python, on_progress=tell, on_findings=show if live else lambda _findings: None)
    if as_json:
        print_json(to_json(diagnosis))
    elif live:
        show(diagnosis.findings)
        print_lines(apart(verdict_lines(diagnosis, width())))
    else:
        print_lines(lines(diagnosis, width()))
    raise SystemExit(1 if diagnosis.bad else 0)


add_examples(cli)


def main() -> None:
    """Entry point: a user's mistake becomes one line and exit code 2, never a traceback."""
    # A terminal or pipe with a narrow encoding gets `->` in place of an arrow, not a crash.
    codecs.register_error("signs", plain_signs)
    if sys.stdout is None:
        # The caller closed it: what is said goes nowhere.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="signs")
    # Of what Python thinks of a run's sources nothing belongs on the terminal.
    warnings.simplefilter("ignore", SyntaxWarning)
    remove_on_signals()
    try:
        code = _run()
        # There is none where the caller closed it.
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader of our output went away (| head): not an error, and nothing is left to say.
        code = 0
    except OSError as error:
        say(f"inspector: {error.strerror or error}")
        code = 2
    _leave(code)


def _run() -> int:
    """Run the command; the exit code that its outcome stands for."""
    try:
        cli.main(standalone_mode=False)
    except InspectorError as error:
        say(f"inspector: {error}")
        return error.exit_code
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        hint = "; see: inspector --help" if isinstance(error, click.UsageError) else ""
        say(f"inspector: {error.format_message().rstrip('.')}{hint}")
        return 2
    except (click.Abort, KeyboardInterrupt):
        say("inspector: interrupted")
        return 130
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001
        # Whatever it is, what was shown so far stays, and nobody has to read a traceback.
        say(f"inspector: a defect of inspector: {told(error)}; please report it, with the run if you can")
        return 1
    return 0


def _leave(code: int) -> None:
    """End at once: freeing a large run's objects one by one would take a fifth of the time again."""
    archive = sys.modules.get("inspector.readers.archive")
    if archive is not None:
        archive.remove_unpacked()
    with contextlib.suppress(OSError, AttributeError):
        sys.stderr.flush()
    os._exit(code)
