"""`inspector blame`: which setting, pass, fusion or version made a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from inspector.cli.terminal import json_option, open_run, print_json, print_lines, say, step, width
from inspector.model.blame import METRICS, SEVERAL
from inspector.model.problem import InspectorError

if TYPE_CHECKING:
    from inspector.model.blame import MetricName, Try


@click.command()
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path(), required=False)
@click.option(
    "--metric", type=click.Choice(METRICS), default="time", show_default=True,
    help="What differs: a steady call's time, compiling, kernel launches, buffers alive, the largest "
    "difference to eager, or the command's exit code.",
)  # fmt: skip
@click.option(
    "--below", type=float, metavar="VALUE",
    help="Without a second run: so much is good (ms, s, launches, bytes, a share). Else: eager's time, exit "
    "code 0.",
)  # fmt: skip
@click.option(
    "--over",
    multiple=True,
    type=click.Choice(list(SEVERAL)),
    help="What to take back; all in this order. May be repeated.",
)
@click.option(
    "--python", "pythons", multiple=True, metavar="EXE",
    help="Twice: run the command with either interpreter, A's and B's, and look among their packages.",
)  # fmt: skip
@click.option("--runs", type=click.IntRange(min=1), default=12, show_default=True, help="Runs at most.")
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=60.0, show_default=True,
    help="No run is begun after so long.",
)  # fmt: skip
@json_option
def blame(
    a: str,
    b: str | None,
    metric: MetricName,
    below: float | None,
    over: tuple[str, ...],
    pythons: tuple[str, ...],
    runs: int,
    minutes: float,
    as_json: bool,
) -> None:
    """Which setting, pass, fusion or package makes B worse than A, found by running the command again.

    A and B are captures of yours; of one run alone, what is good is eager or --below. What could be the cause
    is taken back in B, much at once and then half of it. The same question asked again goes on from there.
    """
    from inspector.contract.blame import to_json
    from inspector.present.blame import lines, try_text
    from inspector.trial.blame.session import Question
    from inspector.trial.blame.session import blame as find

    if len(pythons) not in (0, 2):
        raise InspectorError("--python: name both interpreters, A's and then B's: --python A --python B")
    if b is not None and (pythons or below is not None):
        raise InspectorError(
            "two runs are compared with each other: leave out --python and --below, or one run"
        )
    other, run = (open_run(a), open_run(b)) if b is not None else (None, open_run(a))
    question = Question(
        run,
        other,
        metric,
        tuple(SEVERAL[name] for name in over or SEVERAL),
        (pythons[0], pythons[1]) if pythons else None,
        below,
        runs,
        minutes,
    )

    def told(item: Try) -> None:
        say(try_text(metric, item))

    report = find(question, told, step)
    if as_json:
        print_json(to_json(report))
    else:
        print_lines(lines(report, width()))
