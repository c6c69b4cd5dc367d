"""The command `inspector capture`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from inspector.cli.options import pairs, save_inputs


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
@save_inputs
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
@click.option("-q", "--quiet", is_flag=True, help="No progress and no closing lines.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND...")
def capture(out: str | None, config: tuple[str, ...], env: tuple[str, ...], **options: Any) -> None:
    """Run COMMAND and keep all that torch.compile writes.

    \b
    inspector capture -- python train.py --epochs 1
    inspector capture -o run1 -- torchrun --nproc-per-node 2 train.py
    inspector capture -- -m mypackage.train
    """
    from inspector.capture.environment import CaptureOptions
    from inspector.capture.launch import capture as run_capture

    settings, variables = pairs(config, "--config"), pairs(env, "--env")
    asked = CaptureOptions(out=Path(out) if out else None, config=settings, env=variables, **options)
    outcome = run_capture(asked)
    if outcome.interrupted:
        raise SystemExit(130)
    raise SystemExit(1 if outcome.exit_code else 0)
