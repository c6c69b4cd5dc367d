"""`inspector mcp`: the answers for coding agents."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@click.option(
    "--allow-run", is_flag=True, help="Also capture and try: the agent may then execute any command."
)
def mcp(folder: str, allow_run: bool) -> None:
    """Answer a coding agent over MCP, on standard input and output, about the runs below FOLDER.

    Its tools list runs, explain one, show a kernel, say why two did not fuse, and compare two runs. They read
    below FOLDER alone and execute nothing, unless --allow-run lets them. Needs the extra "mcp".
    """
    from inspector.agents.server import serve
    from inspector.model.problem import InspectorError

    if not Path(folder).is_dir():
        raise InspectorError(f"{folder}: no folder; name one that holds runs")
    serve(Path(folder), allow_run)
