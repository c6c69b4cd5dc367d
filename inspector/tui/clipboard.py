"""Copying that works: through the terminal (OSC 52, done by Textual) and through a clipboard tool too.

OSC 52 crosses ssh but some terminals ignore it; a tool works where there is a desktop. Both are tried.
"""

from __future__ import annotations

import os
import shutil
import tempfile

from inspector.process import Child, Limits

_TOOLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
)
"""(environment variable without which the tool cannot work, command)."""

_PATIENCE_S = 3.0


def clipboard_tool() -> tuple[str, ...] | None:
    """The first tool that is installed and has a display to talk to."""
    for variable, command in _TOOLS:
        if (not variable or os.environ.get(variable)) and shutil.which(command[0]):
            return command
    return None


def copy_with_tool(text: str) -> str | None:
    """Hand `text` to the clipboard tool; its name, or None where there is none or it failed.

    xclip and wl-copy stay in the background to serve the text, so their output is not waited for.
    """
    command = clipboard_tool()
    if command is None:
        return None
    try:
        with tempfile.TemporaryFile() as file:
            file.write(text.encode())
            file.seek(0)
            child = Child(command, stdin=file, stdout="drop", stderr="drop", sweep=False)
        ending = child.follow(Limits(_PATIENCE_S))
    except OSError:
        return None
    return command[0] if ending.code == 0 else None
