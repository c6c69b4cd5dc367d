"""``python -m inspector``: the same as ``inspector``."""

from inspector.cli.app import main

if __name__ == "__main__":
    main()
