"""What Dynamo and Inductor do besides compiling: graph breaks, frames given up, recompiles, errors.

torch counts some of this (``torch._dynamo.utils.counters``) and logs most of it; with a break in a loop the
counter of graph breaks stays at zero and the whole frame runs in eager.
"""

from __future__ import annotations

import inspect
import re
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .calls import CAPTURE
from .guard import Guards
from .journal import Journal, journal_of
from .sink import Sink

_SOFT = frozenset({"Unsupported", "UserError", "SkipFrame"})
"""Exceptions by which Dynamo says that it can't, not that something failed (convert_frame.py: soft_fail)."""

_LIMITS = ("recompile limit", "recompile_limit", "cache_size_limit", "cache size limit")
_EMPTY = ("No ops traced", "because no content in function call")
"""A frame without any tensor operation (symbolic_convert.py): nothing is lost by leaving it alone."""
_SUMMARY = re.compile(r"<FrameSummary file (.+?), line (\d+) in ")
"""The user's line in the reasons of torch 2.4 (symbolic_convert.py)."""
WRAPPERS_LIMIT = 500
_RECOMPILED = ("get_and_maybe_log_recompilation_reasons", "get_and_maybe_log_recompilation_reason")


def watch_convert_frame(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into torch/_dynamo/convert_frame.py: every frame that Dynamo works on, and how that ended."""
    journal = journal_of(guards, sink)
    watch = FrameWatch(journal, getattr(module, "_compile", None))
    journal.also["wrappers"] = watch.wrappers.copy
    guards.around(module, "_compile", before=watch.begin, after=watch.end, name="convert_frame._compile")
    # Where a version only says that a frame is skipped, the reason is in the exception that passes here.
    guards.around(
        module, "transform_code_object", after=watch.transformed, name="convert_frame.transform_code_object"
    )
    here = [name for name in _RECOMPILED if hasattr(module, name)]
    guards.around(
        module,
        here[0] if here else _RECOMPILED[0],
        before=watch.frame,
        after=watch.recompile,
        name=f"convert_frame.{_RECOMPILED[0]}",
    )


def watch_output_graph(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into torch/_dynamo/output_graph.py: a GraphCompileReason is made for each graph break."""
    journal = journal_of(guards, sink)

    def broken(reason: Any) -> None:
        if reason.graph_break:
            stack = _users(reason.user_stack)
            innermost = stack[-1] if stack else None
            frame = None if innermost is None else str(innermost.name)
            journal.event("graph_break", str(reason.reason), frame, _place(innermost))

    owner: Any = getattr(module, "GraphCompileReason", None)
    guards.around(owner, "__post_init__", before=broken, name="GraphCompileReason.__post_init__")


def watch_inductor(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into torch/_inductor/compile_fx.py: Inductor may work outside a frame, on a backward graph."""
    journal = journal_of(guards, sink)

    def worked(*args: Any, **kwargs: Any) -> None:
        journal.worked += 1

    names = ("_compile_fx_inner", "fx_codegen_and_compile")
    here = [name for name in names if hasattr(module, name)]
    guards.around(module, here[0] if here else names[0], before=worked, name=f"compile_fx.{names[0]}")


def watch_cudagraphs(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into torch/_inductor/cudagraph_utils.py before the other modules import the name from it."""
    journal = journal_of(guards, sink)

    def skipped(message: Any, *args: Any, **kwargs: Any) -> None:
        journal.event("cudagraph_skip", str(message), None, None)

    guards.around(
        module,
        "log_cudagraph_skip_and_bump_counter",
        before=skipped,
        name="cudagraph_utils.log_cudagraph_skip_and_bump_counter",
    )


class FrameWatch:
    """How Dynamo's work on each frame ends. It works under a lock: frames nest but never mix."""

    def __init__(self, journal: Journal, function: Any) -> None:
        self._journal = journal
        self._skipped = ""
        names = list(inspect.signature(function).parameters) if callable(function) else []
        self._one_graph = names.index("one_graph") if "one_graph" in names else len(names)
        self._closure = names.index("closure") if "closure" in names else len(names)
        self.wrappers: dict[str, str] = {}
        """Place of a decorator's function, as PATH:LINE -> the function that it wraps."""

    def begin(self, code: CodeType, *args: Any, **kwargs: Any) -> tuple[CodeType, bool]:
        """Before `_compile`; with `one_graph` (fullgraph=True) what can't be compiled is raised."""
        self._journal.worked += 1
        self._skipped = ""
        given = (code, *args)
        if len(given) > self._closure and len(self.wrappers) < WRAPPERS_LIMIT:
            wrapped = _wrapped(code, given[self._closure])
            if wrapped is not None:
                self.wrappers[_of_code(code)] = wrapped
        one_graph = given[self._one_graph] if len(given) > self._one_graph else kwargs.get("one_graph")
        return code, bool(one_graph)

    def transformed(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `transform_code_object`."""
        if error is not None and type(error).__name__ == "SkipFrame":
            self._skipped = str(error)

    def end(self, token: tuple[CodeType, bool] | None, result: Any, error: BaseException | None) -> None:
        """After `_compile`."""
        if token is None or (error is not None and not isinstance(error, Exception)):
            return
        code, one_graph = token
        reason, self._skipped = getattr(result, "skip_reason", None) or self._skipped, ""
        if error is not None:
            soft = _SOFT & {kind.__name__ for kind in type(error).__mro__}
            limit = any(text in str(error) for text in _LIMITS)
            raised = one_graph if soft else not _suppressed()
            kind = "cache_limit" if limit else "compile_error" if raised or not soft else "skipped_frame"
            text = str(error) if soft else f"{type(error).__name__}: {error}"
            self._journal.event(kind, text, code.co_name, _raised_at(error) or _of_code(code), raised=raised)
        elif reason and not any(text in reason for text in _EMPTY):
            match = _SUMMARY.search(reason)
            place = f"{match[1]}:{match[2]}" if match else _of_code(code)
            self._journal.event("skipped_frame", str(reason), code.co_name, place)

    def frame(self, *args: Any, **kwargs: Any) -> CodeType | None:
        """Before torch works out which guards failed."""
        for value in (*args, *kwargs.values()):
            code = getattr(value, "f_code", None)
            if isinstance(code, CodeType):
                return code
        return None

    def recompile(self, code: CodeType | None, result: Any, error: BaseException | None) -> None:
        """After it: a reason for each entry of the frame's cache, newest version first."""
        if code is None or result is None:
            return
        reasons = [" ".join(str(text).split()) for text in ([result] if isinstance(result, str) else result)]
        self._journal.event("recompile", "\n".join(reasons), code.co_name, _of_code(code))


def _wrapped(code: CodeType, closure: Any) -> str | None:
    """What a decorator's function wraps, by name: it takes whatever comes, and closes over one function."""
    if not code.co_freevars or not (
        code.co_flags & inspect.CO_VARARGS and code.co_flags & inspect.CO_VARKEYWORDS
    ):
        return None
    values = []
    for cell in closure or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:
            continue
    functions = [value for value in values if isinstance(value, FunctionType)]
    return functions[0].__qualname__.rpartition("<locals>.")[2] if len(functions) == 1 else None


def _suppressed() -> bool:
    """Whether the frame now runs in eager instead of raising (torch/_dynamo/config.py: suppress_errors)."""
    config: Any = sys.modules.get("torch._dynamo.config")
    return bool(getattr(config, "suppress_errors", False))


def _raised_at(error: BaseException) -> str | None:
    """The user's line that Dynamo was at (torch/_dynamo/exc.py: Unsupported.real_stack)."""
    stack = _users(getattr(error, "real_stack", None))
    return _place(stack[-1]) if stack else None


def _users(stack: Any) -> list[Any]:
    """Frames without our own, which Dynamo may look through."""
    return [summary for summary in stack or () if not str(summary.filename).startswith(CAPTURE)]


def _place(summary: Any) -> str | None:
    return None if summary is None else f"{summary.filename}:{summary.lineno}"


def _of_code(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}"
