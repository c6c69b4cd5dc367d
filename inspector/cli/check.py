"""The command `inspector check`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.export import force_option, new_file, write_file
from inspector.cli.terminal import (
    open_run,
    path_argument,
    print_json,
    print_lines,
    progress,
    say,
)

if TYPE_CHECKING:
    from inspector.gates.judge import Report

_FORMATS = ("text", "json", "github", "junit", "sarif")


@click.command()
@path_argument
@click.option(
    "--budget", metavar="FILE", required=True, help="What the run has to keep, such as budget.toml."
)
@click.option("--write", is_flag=True, help="Make FILE of this run, which is a good one.")
@click.option(
    "--format", "form", type=click.Choice(_FORMATS), default="text", show_default=True, help="How to say it."
)
@force_option
def check(path: str, budget: str, write: bool, form: str, force: bool) -> None:
    """Whether a run keeps its budget: breaks, recompiles, shared kernels, fallbacks, bytes, results.

    Exits with 1 where it does not, and says each breach in a line, with the line of the program and torch's
    reason. With --format github also into the job's summary. Executes nothing.
    """
    from inspector.contract.check import to_json
    from inspector.gates.budget import read_budget, to_toml
    from inspector.gates.judge import judge
    from inspector.gates.write import budget_of
    from inspector.present import gates
    from inspector.replay.store import load_results

    file = new_file(budget, force) if write else Path(budget)
    wanted = None if write else read_budget(file)
    run = open_run(path)
    results = load_results(run.root, say) if run.root.is_dir() else ()
    with progress() as tell:
        tell("looking at the run")
        if wanted is None:
            wanted = budget_of(run, results)
            write_file(file, to_toml(wanted))
        report = judge(run, wanted, results)
    root = os.environ.get("GITHUB_WORKSPACE") or os.getcwd()
    if form == "github" and (page := os.environ.get("GITHUB_STEP_SUMMARY")):
        try:
            with open(page, "a", encoding="utf-8") as summary:
                summary.write(gates.step_summary(report, root))
        except OSError as error:
            say(f"{page} cannot be written: {error.strerror}")
    if form == "json":
        print_json(to_json(report))
    elif form == "text":
        print_lines(gates.lines(report, root))
    else:
        forms: dict[str, Callable[[Report, str], str]] = {
            "github": gates.workflow_commands,
            "junit": gates.junit,
            "sarif": gates.sarif,
        }
        click.echo(forms[form](report, root), nl=False)
    raise SystemExit(1 if report.breaches else 0)
