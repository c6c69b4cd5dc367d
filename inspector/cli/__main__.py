"""``python -m inspector.cli``: the same as ``inspector``."""

from inspector.cli.app import main

main()
