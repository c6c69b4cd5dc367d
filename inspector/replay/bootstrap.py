"""The child's first file: run by path, it makes `inspector` importable without touching sys.path.

Another environment's interpreter may run it. Were Inspector's own site-packages put on its path,
that environment could pick up Inspector's torch in place of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path


def _register_package() -> None:
    package = Path(__file__).resolve().parent.parent
    spec = importlib.util.spec_from_file_location(
        "inspector", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no package at {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["inspector"] = module
    spec.loader.exec_module(module)


def main() -> int:
    """Runs ``worker.main(REQUEST, FD)``; arguments are those two."""
    # Python put this file's folder first: its modules must not answer to top-level names.
    own = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != own]
    _register_package()
    worker = importlib.import_module("inspector.replay.worker.main")
    return int(worker.main(sys.argv[1], int(sys.argv[2])))


if __name__ == "__main__":
    sys.exit(main())
