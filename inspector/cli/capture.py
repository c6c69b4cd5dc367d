"""The command `inspector capture`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from inspector.cli.terminal import say
from inspector.model.problem import InspectorError


def byte_count(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A click callback: `64M` as bytes. Raises InspectorError for what is no size."""
    from inspector.units import parse_size

    size = None if value is None else parse_size(str(value))
    if value is not None and size is None:
        raise InspectorError(
            f"{parameter.opts[0]} {value}: not a size: write {parameter.opts[0]}=256M, "
            "or -- before the command to take the default"
        )
    return size


@click.command(context_settings={"allow_interspersed_args": False})
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
@click.option(
    "--save-inputs",
    is_flag=False,
    flag_value="256M",
    metavar="[SIZE]",
    callback=byte_count,
    help="Keep the arguments of each graph's first call for replay; up to SIZE for each graph [256M].",
)
@click.option(
    "--baseline",
    is_flag=True,
    help="Run COMMAND again, compiled as it is and in eager, and each once more with a few calls profiled.",
)
@click.option(
    "--profile/--no-profile",
    default=True,
    help="With --baseline: profile both sides (default), or run COMMAND twice more instead of four times.",
)
@click.option(
    "--peaks/--no-peaks",
    default=True,
    help="With --baseline: measure once what this machine can do, some 20 s (default).",
)
@click.option(
    "--asm",
    is_flag=True,
    help="Keep the assembly of C++ kernels with its lines: the same code, compiled with line tables.",
)
@click.option(
    "--exit-zero", is_flag=True, help="Exit with 0 where the run was kept, whatever COMMAND's code."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and no closing lines.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def capture(
    out: str | None,
    config: tuple[str, ...],
    env: tuple[str, ...],
    asm: bool,
    exit_zero: bool,
    **options: Any,
) -> None:
    """Run COMMAND and keep all that torch.compile writes; its exit code is COMMAND's own."""
    from inspector.capture.environment import CaptureOptions
    from inspector.capture.launch import capture as run_capture
    from inspector.present.capture import pair
    from inspector.readers.stages.files import LINE_TABLES

    settings = tuple(pair(text, "--config") for text in config)
    variables = tuple(pair(text, "--env") for text in env)
    variables += (LINE_TABLES,) if asm else ()
    asked = CaptureOptions(out=Path(out) if out else None, config=settings, env=variables, **options)
    started = time.monotonic()
    outcome = run_capture(asked)
    if asm:
        _keep_assembly(outcome.run, time.monotonic() - started)
    # The command itself has its own way to end; what was interrupted after it is ours.
    ours = 130 if outcome.interrupted and outcome.manifest.status != "interrupted" else 0
    raise SystemExit(ours or (0 if exit_zero else outcome.exit_code))


def _keep_assembly(run: Path, capture_s: float) -> None:
    """Says what was kept, and what part of all the time that took."""
    from inspector.readers.run import Run
    from inspector.replay.assembly import keep_assembly
    from inspector.units import percent, plural

    kept = keep_assembly(Run.open(run))
    share = percent(kept.seconds / (capture_s + kept.seconds))
    taken = f"{kept.seconds:.1f} s, {share} of the time in all"
    say(f"assembly of {plural(kept.kernels, 'C++ kernel')} kept: {taken}")
    if kept.without_lines:
        say(
            f"{plural(kept.without_lines, 'library')} without lines, as this torch has no line tables: "
            "inspector lower RUN --make"
        )
    if kept.problem is not None:
        say(kept.problem)
