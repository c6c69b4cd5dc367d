"""The command line: one module for each large command, `app` with the group and the small ones."""

from inspector.cli.app import cli, main

__all__ = ["cli", "main"]
