"""Writes docs/commands.md from each command's own ``--help``: ``python docs/tools/commands.py``."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from inspector.cli import cli

PAGE = Path(__file__).parents[1] / "commands.md"


def page() -> str:
    """The page as it should be: the group's help, then every command's, 80 columns wide."""
    parts = ["# The commands\n\nThis page is what `inspector --help` and `inspector COMMAND --help` print.\n"]
    for words in ([], *([name] for name in cli.commands)):
        shown = CliRunner().invoke(cli, [*words, "--help"], prog_name="inspector", terminal_width=80)
        parts.append(f"## {' '.join(words) or 'inspector'}\n\n```text\n{shown.output}```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
