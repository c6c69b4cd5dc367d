"""The tools over the Model Context Protocol, on standard input and output, by its official SDK."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from pathlib import Path

from inspector.model.problem import InspectorError
from inspector.version import __version__

from .tools import Answer, Looking, Running

_INSTRUCTIONS = """\
Says why torch.compile made a program fast or slow. list_runs first, then explain with a run's path: its
findings are worst first, with evidence and advice. why_not_fused and kernel say more about one place, compare
about two runs. What was not measured is null. left_out counts what an answer's limit cut; next has commands
that say more.
"""


def serve(folder: Path, allow_run: bool) -> None:
    """Answer until standard input ends. Raises InspectorError where the SDK is not installed."""
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise InspectorError("inspector mcp needs mcp 2: pip install 'inductor-inspector[mcp]'") from None

    def told(tool: Callable[..., Answer]) -> Callable[..., Answer]:
        """The tool, whose user's mistakes reach the model as text."""

        @wraps(tool)
        def call(*args: object, **options: object) -> Answer:
            try:
                return tool(*args, **options)
            except InspectorError as error:
                raise ToolError(str(error)) from None

        return call

    # What the protocol tells the client needs no second line on standard error.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    server = MCPServer("inspector", instructions=_INSTRUCTIONS, version=__version__, log_level="ERROR")
    for tool in (Running if allow_run else Looking)(folder).tools:
        server.add_tool(told(tool))
    server.run("stdio")
