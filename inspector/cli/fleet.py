"""`inspector index` and `inspector query`: many runs as tables, and what is asked of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inspector.cli.terminal import json_option, print_json, print_lines, progress, say, width

if TYPE_CHECKING:
    from inspector.present.query import Catalogue

DEFAULT = "inspector_index"


def catalogue_at(path: str) -> Catalogue | None:
    """The index at `path` as a screen needs it; None where there is none."""
    folder = Path(path).expanduser()
    if not (folder / "lock").is_file():
        return None
    from inspector.index.build import parts_of
    from inspector.index.query import ask
    from inspector.present.query import Catalogue

    return Catalogue(path, _abouts(), partial(ask, folder)) if parts_of(folder) else None


def _abouts() -> dict[str, str]:
    from inspector.index.questions import QUESTIONS

    return {name: item.about for name, item in QUESTIONS.items()}


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option("-o", "--output", metavar="INDEX", default=DEFAULT, help=f"Folder of the index [{DEFAULT}].")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes that read [one per CPU].")
@click.option("--dask", metavar="ADDRESS", help="Read on the workers of this Dask scheduler (tcp://...).")
def index(folders: tuple[str, ...], output: str, jobs: int | None, dask: str | None) -> None:
    """Read the runs below each FOLDER into tables: runs, graphs, kernels, blocks, findings, breaks.

    Reads what is new or has changed since, and goes on where it was killed. Archives are read too, and
    object storage (s3://...) through fsspec. A run that cannot be read is a row that says why. Executes
    nothing. Needs the extra "index"; workers need inspector and see the same paths.
    """
    from inspector.hardware.host import usable_cpus
    from inspector.index.build import build
    from inspector.units import duration, plural

    with progress() as tell:
        built = build(folders, Path(output), jobs or usable_cpus() or 1, dask, tell)
    bad = f", {built.bad:,} of them bad: inspector query bad-runs -i {output}" if built.bad else ""
    took = duration(built.seconds * 1e3)
    say(f"{plural(built.read, 'source')} read in {took}{bad}; {built.known:,} were known; index in {output}")


@click.command()
@click.argument("question", required=False, metavar="[SQL|NAME]")
@click.option("-i", "--index", "folder", metavar="INDEX", default=DEFAULT, help=f"The index [{DEFAULT}].")
@json_option
def query(question: str | None, folder: str, as_json: bool) -> None:
    """Ask an index in SQL, or a ready question by its name; without one: the questions and the tables.

    DuckDB reads the index and nothing else: no other file, no network, and nothing can be changed.
    """
    from inspector.contract.query import to_json
    from inspector.index.query import ask
    from inspector.present.query import lines, offered

    if question is None:
        from inspector.index.query import shown_tables

        if as_json:
            print_json(to_json("", ("name", "about"), list(_abouts().items())))
        else:
            print_lines(offered(_abouts(), shown_tables(), width()))
        return
    result = ask(Path(folder), question)
    if as_json:
        print_json(to_json(result.sql, result.columns, result.rows))
    else:
        print_lines(lines(result.columns, result.rows, width()))
