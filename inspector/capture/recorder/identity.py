"""Which compiled graph is being worked on in this thread."""

from __future__ import annotations

import os
import sys
from typing import Any


def current_graph(virtualized: Any = None) -> dict[str, Any]:
    """The graph's folder (torch/_inductor/debug.py: DebugContext._path), its process's, and the compile id.

    Each is None where nothing is being compiled or torch writes no folder. `virtualized` is the `V` of
    torch/_inductor/virtualized.py, where it is at hand.
    """
    if virtualized is None:
        virtualized = getattr(sys.modules.get("torch._inductor.virtualized"), "V", None)
    path = getattr(getattr(virtualized, "debug", None), "_path", None)
    folder = os.path.normpath(str(path)) if path else ""
    guards: Any = sys.modules.get("torch._guards")
    current = getattr(getattr(guards, "CompileContext", None), "current_compile_id", None)
    compile_id = current() if current is not None else None
    return {
        "graph": os.path.basename(folder) or None,
        "process": os.path.basename(os.path.dirname(os.path.dirname(folder))) or None,
        "compile_id": str(compile_id) if compile_id is not None else None,
    }
