"""`inspector diff`: two runs side by side."""

from __future__ import annotations

import sys

import click

from inspector.cli.terminal import json_option, print_json, print_lines, progress, width
from inspector.model.problem import InspectorError


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@click.option("--all", "everything", is_flag=True, help="What is the same too, and nothing left out.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print tables for a pull request's comment.")
@click.option("--text", is_flag=True, help="Print it on a terminal too, where both runs are else browsed.")
@json_option
def diff(a: str, b: str | None, everything: bool, as_markdown: bool, text: bool, as_json: bool) -> None:
    """What differs between two runs: graphs, kernels, settings, and why a cache missed.

    Kernels are matched by what they compute, so other versions of torch, other devices and modes can be
    compared. A and B are anything that opens. Of A alone: each graph's FX
    before and after the passes. Executes nothing.
    """
    from inspector.comparison import compare
    from inspector.contract.diff import to_json
    from inspector.present.diff import lines, markdown
    from inspector.present.spans import plain
    from inspector.readers.run import Run

    if as_json and as_markdown:
        raise InspectorError("--json and --markdown are two forms of the same; choose one")
    if b is None:
        _passes(a, as_json or as_markdown)
        return
    printed = as_json or as_markdown or text or everything
    if not printed and sys.stdin.isatty() and sys.stdout.isatty():
        from inspector.tui.app import run_tui

        raise SystemExit(run_tui(a, against=b))
    with progress() as tell:
        tell("reading both runs")
        result = compare(Run.open(a), Run.open(b))
    if as_json:
        print_json(to_json(result))
    elif as_markdown:
        print_lines(plain(markdown(result)))
    else:
        print_lines(lines(result, width(), everything))


def _passes(path: str, other_form: bool) -> None:
    """Each graph beside itself, before and after the post-grad passes."""
    from inspector.present.diff_sides import passes_lines
    from inspector.readers.run import Run

    if other_form:
        raise InspectorError("a run alone is shown as text; name a second one for --json and --markdown")
    for graph in Run.open(path).graphs:
        if graph.files:
            print_lines(passes_lines(graph.artifacts(), width()))
