"""The terminal that a command talks to: its width, one line of progress, and JSON for programs."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from typing import Any

import click

JSON_HELP = "Print one JSON object on standard output and nothing else there."


def progress(text: str) -> None:
    """One line that is overwritten on a terminal; nothing in a pipe."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{text[: width() - 1]}" if text else "\r\x1b[2K")
        sys.stderr.flush()


def coloured() -> bool:
    """Whether standard output takes colours: a terminal that is not dumb, and NO_COLOR not set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width() -> int:
    """Columns to write in: the terminal's, but neither under 60 nor over 200; 100 in a pipe."""
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 200))


def print_json(data: dict[str, Any]) -> None:
    """One object on standard output; NaN and infinity, which JSON does not know, become null."""
    click.echo(json.dumps(_finite(data), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
