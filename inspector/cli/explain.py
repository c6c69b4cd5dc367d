"""`inspector explain`: why it is slow, with the options that measure and try."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.terminal import (
    json_option,
    open_run,
    path_argument,
    print_json,
    print_lines,
    progress,
    say,
    step,
    width,
)
from inspector.model.problem import InspectorError

if TYPE_CHECKING:
    from inspector.model.explain import Explanation
    from inspector.model.ncu import NcuKernel
    from inspector.present.two_sides import By
    from inspector.readers.run import Run


@click.command()
@path_argument
@click.option("--all", "everything", is_flag=True, help="Every finding with all its evidence.")
@click.option(
    "--measure", is_flag=True, help="Replay the run's kernels first, for times in place of estimates."
)
@click.option(
    "--try", "setting", metavar="RULE|first|modes|auto",
    help="Run the command again with what a finding advises, in each mode, or (auto) with what bears on its "
    "kernels, and compare.",
)  # fmt: skip
@click.option(
    "--profile",
    metavar="TRACE",
    type=click.Path(exists=True, dir_okay=False),
    help="A torch.profiler trace of the compiled program's steady calls, .json or .json.gz.",
)
@click.option(
    "--eager-profile", metavar="TRACE", type=click.Path(exists=True, dir_okay=False),
    help="The same of the program in eager.",
)  # fmt: skip
@click.option(
    "--ncu", metavar="FILE",
    help="A report of Nsight Compute: .ncu-rep (with the package ncu-report), or its raw page as .csv. Kept "
    "with the run.",
)  # fmt: skip
@click.option(
    "--by", type=click.Choice(["line", "module", "kernel"]),
    help="Only both sides' work, summed by source line, module path or kernel.",
)  # fmt: skip
@json_option
def explain(
    path: str,
    everything: bool,
    measure: bool,
    setting: str | None,
    profile: str | None,
    eager_profile: str | None,
    ncu: str | None,
    by: By | None,
    as_json: bool,
) -> None:
    """Why it is slow or fast: what to change, what that would win, and where the time goes.

    Reads the run and executes nothing; --measure and --try do, and only where you captured it yourself.
    """
    from inspector.contract.explain import to_json
    from inspector.explain import explain as explain_run
    from inspector.explain.profiles import load_profiles
    from inspector.hardware.host import this_host
    from inspector.present.answer import TRY_THERE, Offers
    from inspector.present.explain import lines
    from inspector.present.two_sides import lines as side_lines
    from inspector.replay.store import load_results
    from inspector.replay.trust import foreign

    run = open_run(path)
    if setting is not None:
        from inspector.trial.run import refuse_foreign

        refuse_foreign(run)
    if measure:
        _measure(run)
    profiles = load_profiles(
        run, Path(profile) if profile else None, Path(eager_profile) if eager_profile else None
    )
    results = load_results(run.root, say)
    reports = _reports(run, Path(ncu)) if ncu else ()
    with progress() as tell:
        tell("working out where the time goes, and why")
        explanation = explain_run(run, results, this_host(), profiles, reports)
    if by is not None:
        if explanation.sides is None:
            raise InspectorError(
                f"{run.shown}: no profile of either side: inspector capture --baseline, or --profile TRACE"
            )
        print_lines(side_lines(explanation.sides, width(), by))
    elif setting is not None:
        _try(run, explanation, setting, as_json)
    elif as_json:
        print_json(to_json(explanation))
    else:
        offers = Offers(
            "--try first:" if foreign(run, repeats=True) is None else TRY_THERE,
            "" if run.facts().eager_ran else "to compare: inspector capture --baseline -- COMMAND",
            ": --all has all",
        )
        print_lines(lines(explanation, width(), everything, offers))


def _reports(run: Run, path: Path) -> tuple[NcuKernel, ...]:
    """What Nsight Compute measured; nothing where the run keeps it from here on."""
    from inspector.readers.ncu import read_ncu, save_ncu
    from inspector.units import plural

    kernels, problems = read_ncu(path)
    for problem in problems:
        say(str(problem))
    code = [made for graph in run.graphs if (made := graph.code()) is not None]
    names = {kernel.function or kernel.name for each in code for kernel in each.kernels}
    own = tuple(kernel for kernel in kernels if kernel.name in names)
    if len(own) < len(kernels):
        others = plural(len(kernels) - len(own), "launch")
        say(f"{path}: {others} of {len(kernels)} of kernels that this run did not generate")
    for name in sorted({kernel.name for kernel in own}):
        launches = plural(sum(kernel.name == name for kernel in own), "launch")
        say(f"{path}: {launches} of {name}; by instruction: inspector lower {run.shown} --kernel {name}")
    return () if save_ncu(run, path, own) else own


def _try(run: Run, explanation: Explanation, setting: str, as_json: bool) -> None:
    from inspector.contract.trial import to_json
    from inspector.explain.gather import gather
    from inspector.present.trial import lines
    from inspector.trial.auto import BUDGET_S, try_auto
    from inspector.trial.candidates import candidates
    from inspector.trial.run import try_settings
    from inspector.trial.settings import choose
    from inspector.units import plural

    if setting == "auto":
        wanted = candidates(explanation, gather(run))
        say(f"{plural(len(wanted), 'candidate')}, {BUDGET_S / 60:.0f} minutes in all")
        report = try_auto(run, wanted, progress=step)
    else:
        chosen, rule = choose(explanation, setting)
        report = try_settings(run, chosen, rule, step)
    if as_json:
        print_json(to_json(report))
    else:
        print_lines(lines(report, width()))


def _measure(run: Run) -> None:
    """Replay the graphs for no longer than is announced, and keep the result with the run."""
    from inspector.explain.profiles import launch_times
    from inspector.replay.budget import announced_s
    from inspector.replay.budget import measure as measure_graphs
    from inspector.replay.store import save_result
    from inspector.replay.trust import foreign
    from inspector.text import joined
    from inspector.units import plural

    graphs = [graph for graph in run.graphs if graph.folder is not None and graph.files]
    why = foreign(run, graphs)
    if why is not None:
        raise InspectorError(
            f"{run.shown}: not known to be your capture ({why}): capture it here, then "
            f"measure; to run its code all the same: inspector replay {run.shown}"
        )
    if run.kind != "capture" or not os.access(run.root, os.W_OK):
        raise InspectorError(f"{run.shown}: its folder cannot be written to: copy or unpack it first")
    if not graphs:
        raise InspectorError(f"{run.shown}: no compiled graph to measure")
    seconds = announced_s(len(graphs))
    say(f"measuring {plural(len(graphs), 'graph')}, the most expensive first: {seconds:.0f} s at most")
    with progress() as tell:
        result, left = measure_graphs(graphs, seconds, tell, profiled=launch_times(run))
    if result.graphs:
        save_result(result, run.root)
    if left:
        say(f"no time was left for {joined(left, 4)}; one alone: inspector replay {run.shown} --graph G")
