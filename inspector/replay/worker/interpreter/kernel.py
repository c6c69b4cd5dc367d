"""Triton kernels of a GPU run on a machine without a GPU: Triton's interpreter on the CPU.

`InterpretedKernel` has the interface of what ``async_compile.triton`` returns, an object with ``run``, so
that generated wrappers and whoever watches their launches need not know. What the launch heuristics of
torch/_inductor/runtime/triton_heuristics.py decide (block sizes, grid) is decided in
`grid`. After a launch `last` tells how much of the grid ran and what it wrote.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import signal
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from inspector.replay.protocol import KernelFacts
from inspector.replay.worker.events import KernelFault, NotRunnable, describe
from inspector.replay.worker.interpreter import operators as ops
from inspector.replay.worker.interpreter.grid import (
    Grid,
    GridError,
    KernelShape,
    OlderGrid,
    choose_blocks,
    launch_grid,
    older_grid,
    program_order,
)
from inspector.replay.worker.interpreter.math import Libdevice, MissingStandIn
from inspector.replay.worker.interpreter.memory import Memory, OutOfBounds

_NOT_ARGUMENTS = frozenset(
    ("num_warps", "num_stages", "num_ctas", "maxnreg", "matrix_instr_nonkdim", "waves_per_eu")
)
"""Entries of a user's configuration that are no parameters of the kernel."""


class _OutOfTime(BaseException):
    """Not an Exception: the interpreter turns those that leave a kernel into its own."""


@dataclass(frozen=True)
class Settings:
    """`budget_s`: after so many seconds of computing, or half of `limit_s` by the clock, a kernel's remaining
    programs are left out (None: never); the first and the last always run. `limit_s`: a launch is stopped
    with an error. `seed` fixes the order of programs."""

    budget_s: float | None
    limit_s: float
    seed: int


@dataclass
class Launch:
    """One launch: `programs` of the `grid`'s ran so far."""

    programs: int
    grid: Grid
    memory: Memory

    @property
    def total(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def complete(self) -> bool:
        return self.programs == self.total

    def written(self, tensor: Tensor) -> Tensor | None:
        """Which elements of an argument, or of a view of one, the programs that ran wrote: a bool
        tensor of its shape; None where nothing was written to its storage."""
        return self.memory.written(tensor)


class _Lenient:
    """Stands for hints to a compiler that is not there: any attribute and any call give another."""

    def __call__(self, *_: object, **__: object) -> _Lenient:
        return self

    def __getattr__(self, name: str) -> _Lenient:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


class _Heuristics:
    """Takes the place of the module ``triton_heuristics`` in a kernel's source: its decorators keep
    their arguments with the function. `decorated` is (keyword arguments, function)."""

    def __init__(self) -> None:
        self.decorated: tuple[dict[str, object], object] | None = None

    def __getattr__(self, kind: str) -> Callable[..., object]:
        if kind.startswith("__"):
            raise AttributeError(kind)

        def decorator(*_: object, **kwargs: object) -> Callable[[object], object]:
            def keep(function: object) -> object:
                self.decorated = (kwargs, function)
                return function

            return keep

        return decorator


class InterpretedKernel:
    """One ``async_compile.triton(name, source)``. Raises NotRunnable where the source cannot be
    loaded; `run` raises it where a launch cannot be made or fails."""

    def __init__(self, name: str, source: str, settings: Settings) -> None:
        ops.install()
        self.name = name
        self.source = source
        self.settings = settings
        self.last: Launch | None = None
        self._rest: tuple[Launch, Iterator[Grid], Callable[[Grid], None]] | None = None
        keywords, self._function = _load(name, source)
        self._triton_meta = _plain(keywords.get("triton_meta"))
        meta = _plain(keywords.get("inductor_meta"))
        configs = keywords.get("configs")
        self._config = _first_config(configs if isinstance(configs, (tuple, list)) else ())
        self._constexprs = {
            parameter.name
            for parameter in inspect.signature(self._function.fn).parameters.values()
            if "constexpr" in str(parameter.annotation)
        }
        self.shape = KernelShape(tuple(self._function.arg_names), source, meta)

    def run(self, *args: object, grid: OlderGrid | Sequence[int] | None = None, **kwargs: object) -> None:
        """A launch as the wrapper writes it; up to torch 2.6 with `grid`, later it is worked out."""
        self.last = None
        values = self._bind(args, {name: value for name, value in kwargs.items() if name != "stream"})
        try:
            blocks = {name: values[name] for name in self.shape.blocks if name in values}
            blocks = {**choose_blocks(self.shape, values), **self._config, **blocks}
            if grid is not None:
                programs = older_grid(grid, {**self.shape.fixed, **values, **blocks})
            else:
                programs = launch_grid(self.shape, blocks, values)
        except (GridError, KeyError, NameError, TypeError) as error:
            raise NotRunnable(f"its launch cannot be worked out: {describe(error)}") from error
        values.update(blocks)
        missing = [name for name in self.shape.parameters if name not in values]
        if missing:
            raise NotRunnable(f"its launch gives no value for {', '.join(missing)}")
        self.last = self._launch({name: values[name] for name in self.shape.parameters}, programs)

    def _bind(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        """The launch's arguments by name, what the decorator fixes included.

        Which parameters the launcher takes depends on the version: those that the configuration
        fills are never passed, constants sometimes (triton_heuristics.py: _get_arg_lists).
        """
        constants = {
            name: value
            for name, value in _plain(self._triton_meta.get("constants")).items()
            if isinstance(name, str)
        }
        signature = _plain(self._triton_meta.get("signature"))
        parameters = self.shape.parameters
        filled = {*self.shape.blocks, *self._config} - set(kwargs)
        extra = tuple(self.shape.meta.get("extra_launcher_args") or ())
        none = {name for name, value in constants.items() if value is None and name not in signature}
        baked = self._constexprs & set(constants)
        for left_out in (filled | none | baked, filled | none, filled | set(constants), none):
            names = [name for name in (*parameters, *extra) if name not in left_out and name not in kwargs]
            if len(names) == len(args):
                return {**constants, **dict(zip(names, args, strict=True)), **kwargs}
        raise NotRunnable(
            f"it is launched with {len(args)} arguments, its source takes {len(parameters)}: "
            + ", ".join(parameters)
        )

    def _launch(self, values: Mapping[str, object], grid: Grid) -> Launch:
        tensors = {name: value for name, value in values.items() if isinstance(value, Tensor)}
        elsewhere = next((name for name, tensor in tensors.items() if tensor.device.type != "cpu"), None)
        if elsewhere:
            raise NotRunnable(f"{elsewhere} is on {tensors[elsewhere].device}, not on the CPU")
        arguments = {
            name: value if name in self._constexprs else ops.as_argument(_scalar(value))
            for name, value in values.items()
        }
        function = self._function.rewrite()
        launch = Launch(0, grid, Memory(tensors))
        order = program_order(grid, self.settings.seed, in_turn=self.needs_all_programs)
        self._rest = (launch, order, lambda program: self._call(function, arguments, program))
        self._run_programs(None if self.needs_all_programs else self.settings.budget_s)
        return launch

    def finish(self) -> None:
        """Runs the programs that the last launch left out."""
        self._run_programs(None)

    def _run_programs(self, budget_s: float | None) -> None:
        assert self._rest is not None
        launch, order, call = self._rest
        limit_s = self.settings.limit_s
        started, worked = time.monotonic(), time.thread_time()
        with _time_limit(limit_s), _in_memory(launch.memory):
            for program in order:
                ops.set_position(launch.grid, program)
                call(program)
                launch.programs += 1
                if budget_s is None or launch.programs < 2:
                    continue
                if time.thread_time() - worked > budget_s or time.monotonic() - started > limit_s / 2:
                    break

    @property
    def facts(self) -> KernelFacts:
        """How the last launch ran."""
        ran = (self.last.programs, self.last.total) if self.last else (None, None)
        return KernelFacts("interpreter", *ran)

    @property
    def needs_all_programs(self) -> bool:
        """Whether programs build on what others wrote: atomics add up, a split scan looks back."""
        return "tl.atomic_" in self.source or "decoupled_lookback" in self.source

    def _call(self, function: Callable[..., object], arguments: Mapping[str, object], program: Grid) -> None:
        where = f"program {program} of the kernel"
        try:
            function(**arguments)
        except _OutOfTime:
            raise NotRunnable(
                f"Triton's interpreter was stopped after {self.settings.limit_s:g} s in {where}"
            ) from None
        except Exception as error:
            cause = _root(error)
            if isinstance(cause, OutOfBounds):
                raise KernelFault(f"{where} {cause}") from error
            if isinstance(cause, MissingStandIn):
                raise NotRunnable(str(cause)) from error
            line = _source_line(cause, self.source)
            raise NotRunnable(
                f"Triton's interpreter (Triton {triton.__version__}) cannot run it: {describe(cause)}{line}"
            ) from error


def _root(error: BaseException) -> BaseException:
    """The first cause: the interpreter wraps what happens in a helper once for every call."""
    while (cause := error.__cause__) is not None:
        error = cause
    return error


def _source_line(error: BaseException, source: str) -> str:
    """`` at line N: CODE`` of the kernel's own source, where the error passed through it."""
    lines = source.splitlines()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<triton ") and frame.lineno and frame.lineno <= len(lines):
            return f", at `{lines[frame.lineno - 1].strip()[:80]}`"
    return ""


def _scalar(value: object) -> object:
    # The interpreter knows tensors, integers and booleans; a number passed by value is float32.
    if isinstance(value, float):
        handle = TensorHandle(np.array([value], dtype=np.float32), tl.float32)
        return tl.tensor(handle, tl.float32)
    return value


def _plain(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first_config(configs: Sequence[object]) -> dict[str, object]:
    """The parameters that the first of a user's configurations fills; any of them computes the same."""
    for config in configs:
        data = dict(config) if isinstance(config, dict) else {**getattr(config, "kwargs", {})}
        data.update(_plain(data.pop("kwargs", None)))
        return {name: value for name, value in data.items() if name not in _NOT_ARGUMENTS}
    return {}


@contextmanager
def _in_memory(memory: Memory) -> Iterator[None]:
    ops.memory = memory
    try:
        yield
    finally:
        ops.memory = None


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises _OutOfTime in the body after `seconds`; no limit outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _load(name: str, source: str) -> tuple[dict[str, object], interpreter.InterpretedFunction]:
    """Runs a kernel's source: its decorator's keyword arguments, and the ``jit`` function."""
    # triton.jit reads its function's source through linecache, by file name and line, when it first runs: an
    # edited kernel of the same name is another file.
    path = f"<triton {name} {zlib.crc32(source.encode()):x}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    heuristics = _Heuristics()
    namespace: dict[str, object] = {"__name__": "inspector_kernel", "__file__": path}
    overrides = {
        "triton_heuristics": heuristics,
        "libdevice": Libdevice("libdevice"),
        "tl_math": Libdevice("tl_math", tl.math),
    }
    try:
        for statement in ast.parse(source, path).body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                _import(statement, namespace, overrides)
            else:
                exec(compile(ast.Module([statement], []), path, "exec"), namespace)
    except Exception as error:
        raise NotRunnable(f"its source cannot be loaded: {describe(error)}") from error
    keywords, function = heuristics.decorated or ({}, namespace.get(name))
    if not isinstance(function, interpreter.InterpretedFunction):
        raise NotRunnable("its source holds no function that triton.jit decorates")
    return keywords, function


def _import(
    statement: ast.Import | ast.ImportFrom, namespace: dict[str, object], overrides: Mapping[str, object]
) -> None:
    """One import, name by name: hints to the compiler are replaced, so are names that are not there."""
    source = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
    for alias in statement.names:
        name = alias.asname or alias.name.split(".")[0]
        if name in overrides:
            namespace[name] = overrides[name]
        elif source.endswith(("runtime.hints", "triton.compiler.compiler", "inductor.ir", "runtime_utils")):
            namespace[name] = _Lenient()
        else:
            single: ast.stmt = (
                ast.Import([alias])
                if isinstance(statement, ast.Import)
                else ast.ImportFrom(statement.module, [alias], statement.level)
            )
            ast.copy_location(single, statement)
            module = ast.fix_missing_locations(ast.Module([single], []))
            try:
                exec(compile(module, "<import>", "exec"), namespace)
            except ImportError:
                namespace[name] = _Lenient()
