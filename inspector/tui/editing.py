"""A file in the user's editor, while the program waits."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from inspector.process import Child


def editor() -> list[str]:
    """``$VISUAL``, else ``$EDITOR``, as a command; empty where neither is set or readable."""
    text = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def edit(app: App[Any], path: Path) -> str:
    """Lets the user change `path`; why nothing came of it, in a sentence, and empty where it was changed.

    A file that was left as it was is removed.
    """
    command = editor()
    before = path.read_bytes()
    problem = ""
    if not command:
        problem = "no editor: set $EDITOR (or $VISUAL) to the command that starts yours"
    else:
        try:
            with app.suspend():
                child = Child(
                    [*command, str(path)],
                    stdin="inherit",
                    stdout="inherit",
                    stderr="inherit",
                    own_session=False,
                )
                code = child.follow().code
            if code:
                problem = f"{command[0]} ended with exit code {code}: nothing replayed"
        except SuspendNotSupported:
            problem = "this terminal cannot be lent to an editor; see inspector replay --source"
        except OSError as error:
            problem = f"cannot start {command[0]}: {error.strerror or error}"
    try:
        changed = path.read_bytes() != before
    except OSError as error:
        return f"{path.name} cannot be read again: {error.strerror or error}"
    if not changed:
        path.unlink()
    return problem or ("" if changed else "not changed: nothing replayed")
