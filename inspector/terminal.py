"""The terminal that a command talks to: its width, one line of progress, and JSON for programs."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import click


def progress(text: str) -> None:
    """One line that is overwritten on a terminal; nothing in a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text[: width() - 1]}" if text else "\r\x1b[2K")
        sys.stderr.flush()


def width() -> int:
    """Columns to write in: the terminal's, but neither under 60 nor over 200; 100 in a pipe."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 200))


def print_json(data: dict[str, Any]) -> None:
    """One object on standard output. Raises ValueError for NaN and infinity, which are no JSON."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))
