"""Commands that were captured before, for the next time: one small file in the user's state folder."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from inspector.files import read_plain, state_folder
from inspector.frozen import dataclass

SCHEMA = "inspector.commands/1"
KEPT = 50


@dataclass(frozen=True, slots=True)
class PastCommand:
    """A command line as it was typed, and the folder in which it ran. Neither options nor variables are kept:
    only what the command line itself holds."""

    command: str
    folder: str


def history_path() -> Path:
    return state_folder() / "commands.json"


def past_commands(folder: str | None = None) -> tuple[PastCommand, ...]:
    """Newest first; those of `folder` before the others. A file that can't be read is an empty one."""
    try:
        data = json.loads(read_plain(history_path()))
        commands = [
            PastCommand(item["command"], item["folder"])
            for item in data["commands"]
            if isinstance(item["command"], str) and isinstance(item["folder"], str)
        ]
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return ()
    return tuple(sorted(commands, key=lambda past: past.folder != folder))


def remember(command: str, folder: str) -> None:
    """Put a command in front. Raises OSError where the state folder can't be written."""
    new = PastCommand(command, folder)
    kept = [new, *(past for past in past_commands() if past != new)][:KEPT]
    _write(history_path(), kept)


def _write(path: Path, commands: Iterable[PastCommand]) -> None:
    """For the user's eyes only, and never half a file."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    data = {
        "schema": SCHEMA,
        "commands": [{"command": past.command, "folder": past.folder} for past in commands],
    }
    # mkstemp makes files that only their owner can read.
    descriptor, name = tempfile.mkstemp(prefix="commands-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            # In ASCII, as a folder's name need not be text that UTF-8 has.
            json.dump(data, file, indent=1)
        os.replace(name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(name)
        raise
