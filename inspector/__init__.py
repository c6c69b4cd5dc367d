"""Inspector: what `torch.compile` did to a program, and why it is or isn't fast.

As a library: `inspector.open(path)` opens a run, `inspector.capture(fn, *args)` makes one of a function's
calls; docs/library.md has both. Importing this package imports nothing else until one of its names is used.
"""

from __future__ import annotations

from importlib import import_module

from inspector.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from inspector.library import Graph, Records, Run, capture, open
    from inspector.library.magic import load_ipython_extension as load_ipython_extension
    from inspector.model.problem import InspectorError

__all__ = ["Graph", "InspectorError", "Records", "Run", "__version__", "capture", "open"]

_LIBRARY = "inspector.library"
_HOMES = {
    **dict.fromkeys(("Graph", "Records", "Run", "open"), _LIBRARY),
    "InspectorError": "inspector.model.problem",
    "load_ipython_extension": "inspector.library.magic",
}


def __getattr__(name: str) -> object:
    """A name of the library, imported when it is first asked for."""
    if name == "capture":
        # The room of that name, which is called as the library's function is.
        return import_module("inspector.capture")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
