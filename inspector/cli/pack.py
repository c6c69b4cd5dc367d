"""The command `inspector pack`."""

from __future__ import annotations

import click

from inspector.cli.export import force_option, new_file
from inspector.cli.terminal import open_run, path_argument, print_lines, progress, width
from inspector.model.problem import InspectorError


@click.command()
@path_argument
@click.option(
    "-o", "--output", metavar="FILE", required=True, help="Write it there: run.tar.gz, .tar.xz or .tar."
)
@click.option("--inputs", is_flag=True, help="Saved inputs of graphs go along: they are your data.")
@click.option(
    "--no-source", is_flag=True, help="Leave out the program's files, and lines of it that are quoted."
)
@force_option
def pack(path: str, output: str, inputs: bool, no_source: bool, force: bool) -> None:
    """An archive to share: names of users, hosts, folders, and tokens replaced, no caches and binaries.

    It opens as the run does and says the same. What was replaced, and what stays that may be private, is
    printed. Executes nothing.
    """
    from inspector.pack.run import Packer
    from inspector.present.pack import lines
    from inspector.replay.trust import foreign

    target = new_file(output, force)
    run = open_run(path)
    with progress() as tell:
        tell("reading what is private")
        packer = Packer(run, inputs=inputs, source=not no_source, own=foreign(run) is None)
        try:
            packed = packer.write(target, tell=tell)
        except OSError as error:
            raise InspectorError(f"{output} cannot be written: {error.strerror}") from None
    print_lines(lines(packed, width()))
