"""The generated module, output_code.py: loaded from a copy, with what another torch lacks replaced.

The copy goes to the child's scratch folder; nothing is written into the run.
"""

from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import importlib
import re
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from inspector.replay.worker.events import NotRunnable, describe

if TYPE_CHECKING:
    from torch._inductor.async_compile import AsyncCompile

    from inspector.replay.worker.interpreter.kernel import InterpretedKernel
    from inspector.replay.worker.interpreter.module import OnCpu

_PREFIX_INCLUDE = re.compile(r'#include "(?P<path>/[^"\n]+\.h)"')

_DEVICE = re.compile(r"device='(?P<type>[a-z]+)(?::(?P<index>\d+))?'|\bempty_strided_(?P<alloc>[a-z]+)\(")
# AOTInductor's code from its first line on; ``cpp_wrapper`` writes the same inside of a Python string.
_IN_CPP = re.compile(r"\A\s*#include\b")


class CodeError(Exception):
    """output_code.py cannot be loaded or called here; the message is one line that says why."""


def required_device(text: str) -> tuple[str, int]:
    """The device that the code computes on, as (type, highest index): the first type but cpu, else cpu.

    Looked for in ``device='cuda:0'`` (inputs) and calls of ``empty_strided_cuda`` (buffers).
    """
    devices: dict[str, int] = {}
    for match in _DEVICE.finditer(text):
        kind = match["type"] or match["alloc"]
        if kind == "cpu":
            continue
        devices[kind] = max(devices.get(kind, 0), int(match["index"] or 0))
    return next(iter(devices.items()), ("cpu", 0))


def uses_tf32(text: str) -> bool:
    """Whether a matrix-product template was generated with TF32 allowed, so that eager must allow it too.

    cuDNN's convolutions have a setting of their own, on by default; their templates do not count.
    """
    definitions = text.split("async_compile.triton(")[1:]
    return any(
        "ALLOW_TF32 : tl.constexpr = True" in definition and "convolution" not in definition.split(",", 1)[0]
        for definition in definitions
    )


class GeneratedCode:
    """output_code.py as a module. `notes` says what was replaced to load it here."""

    def __init__(self, path: Path, scratch: Path, on_cpu: OnCpu | None = None) -> None:
        """Compiles every kernel. Raises CodeError for what is no Python wrapper, else what torch raises.

        `on_cpu`: for code of a GPU on a machine without one, runs its kernels in an interpreter.
        """
        self.notes: list[str] = []
        self.on_cpu = on_cpu
        text = self._with_prefix_header(path.read_text(encoding="utf-8", errors="replace"))
        if on_cpu is not None:
            text = on_cpu.text(text)
        self.text = text
        """The module's, as it was executed: a kernel may delete the file."""
        copy = scratch / "output_code.py"
        copy.write_text(text, encoding="utf-8")
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            if _IN_CPP.search(text):
                raise CodeError("AOTInductor's code is C++ alone, which replay does not run") from None
            raise CodeError(f"{path.name} is not valid Python: line {error.lineno}: {error.msg}") from None
        tree.body = [_guarded(_kept_alive(statement)) for statement in tree.body]
        ast.fix_missing_locations(tree)
        self.module = types.ModuleType("inspector_output_code")
        self.module.__file__ = str(copy)
        self.module.__dict__["__inspector_missing__"] = self._missing
        self.module.__dict__["__inspector_broken__"] = _Broken
        self.module.__dict__["__inspector_wait__"] = _wait
        if on_cpu is not None:
            self.module.__dict__.update(on_cpu.names())
        exec(compile(tree, str(copy), "exec"), self.module.__dict__)
        if not callable(getattr(self.module, "call", None)):
            raise CodeError(f"{path.name} has no `call`: it is not a Python wrapper")

    def _with_prefix_header(self, text: str) -> str:
        """Older C++ kernels include Inductor's prefix header by its path in the capturing machine's cache."""
        paths = {match["path"] for match in _PREFIX_INCLUDE.finditer(text)}
        missing = {path for path in paths if not Path(path).exists()}
        if not missing:
            return text
        root = Path(torch.__file__).parent
        if (root / "include/torch/csrc/inductor/cpp_prefix.h").is_file():
            include = "#include <torch/csrc/inductor/cpp_prefix.h>"
        else:
            include = f'#include "{root / "_inductor/codegen/cpp_prefix.h"}"'
        self.notes.append(
            "the C++ kernels include a header of the capturing machine's cache; "
            f"torch {torch.__version__}'s own cpp_prefix.h was put in its place"
        )
        return _PREFIX_INCLUDE.sub(lambda match: include if match["path"] in missing else match[0], text)

    def _missing(self, name: str, source: str, error: Exception) -> object:
        """What stands in for a name that this torch does not have: size checks do nothing, others raise."""
        if name.startswith("assert_"):
            self.notes.append(f"checks by {name} are skipped: torch {torch.__version__} has no {source}")
            return lambda *_, **__: None
        stand_in = self.on_cpu.missing(source) if self.on_cpu is not None else None
        if stand_in is not None:
            return stand_in
        self.notes.append(f"torch {torch.__version__} has no {source} ({error})")
        return _Missing(source)

    def call(self, args: list[object]) -> list[object]:
        """The outputs of one call; `args` is emptied and inputs may be written to."""
        result = self.module.call(args)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def text_of(self, kernel: str) -> str:
        """The source of a C++ or Triton kernel of the module; empty where it has none of that name."""
        definition = self.text.partition(f"\n{kernel} = async_compile.")[2]
        return definition.partition("'''")[2].partition("'''")[0]

    def interpreted(self, function: object) -> InterpretedKernel | None:
        """The kernel that launching by `function` runs in Triton's interpreter; None for others."""
        return self.on_cpu.kernel_of(function) if self.on_cpu is not None else None

    def finish(self, function: object) -> None:
        """After a launch that nobody checks: what the interpreter left out of it runs, too."""
        kernel = self.interpreted(function)
        if kernel is not None:
            kernel.finish()

    def example_args(self) -> tuple[list[object], dict[str, Tensor], dict[object, str]]:
        """What the module's own benchmark would call it with, on the meta device.

        Returns the arguments, the constants that the benchmark sets in the module (by name), and
        the real device of each storage (by `storage_key`). From 2.11 on ``get_args`` makes the
        arguments, before that ``benchmark_compiled_module`` (codegen/wrapper.py: same name).
        Raises CodeError where the module has neither.
        """
        devices: dict[object, str] = {}
        keep: list[Tensor] = []

        def rand_strided(
            size: Sequence[int],
            stride: Sequence[int],
            dtype: torch.dtype = torch.float32,
            device: object = "cpu",
            **_: object,
        ) -> Tensor:
            tensor = torch.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
            devices[storage_key(tensor)] = str(device)
            keep.append(tensor)
            return tensor

        space = self.module.__dict__
        before = dict(space)
        with _replaced("torch._dynamo.testing", "rand_strided", rand_strided):
            if "get_args" in space:
                args = list(space["get_args"]())
            elif "benchmark_compiled_module" in space:
                args = self._capture_call()
            else:
                raise CodeError(
                    "output_code.py says nothing of its inputs (torch wrote it without a benchmark)"
                )
        constants = {
            name: value
            for name, value in space.items()
            if isinstance(value, Tensor) and value.is_meta and before.get(name) is not value
        }
        return args, constants, devices

    def _capture_call(self) -> list[object]:
        captured: list[list[object]] = []

        def once(function: Callable[[], object], *_: object, **__: object) -> float:
            function()
            return 0.0

        call = self.module.__dict__["call"]
        self.module.__dict__["call"] = lambda args: captured.append(list(args))
        try:
            with _replaced("torch._inductor.utils", "print_performance", once):
                self.module.__dict__["benchmark_compiled_module"]()
        finally:
            self.module.__dict__["call"] = call
        if not captured:
            raise CodeError("benchmark_compiled_module did not call the generated code")
        return captured[0]


class _Missing:
    """A name that this torch does not have; using it says so."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __call__(self, *_: object, **__: object) -> object:
        raise CodeError(
            f"the generated code needs {self._source}, which torch {torch.__version__} does not have"
        )

    def __getattr__(self, name: str) -> object:
        return _Missing(f"{self._source}.{name}")


class _Broken:
    """A kernel that does not compile here; launching it says why."""

    def __init__(self, error: Exception) -> None:
        traceback.print_exception(error)
        self._reason = describe(error)

    def __call__(self, *_: object, **__: object) -> object:
        raise NotRunnable(self._reason)

    run = __call__


def _wait(compiler: AsyncCompile, space: dict[str, object]) -> None:
    """What ``async_compile.wait`` does (torch/_inductor/async_compile.py), but that a kernel which does not
    compile costs itself alone."""
    for name, value in list(space.items()):
        if isinstance(value, concurrent.futures.Future) or type(value).__name__.endswith("Future"):
            try:
                space[name] = value.result()  # type: ignore[attr-defined]
            except Exception as error:
                space[name] = _Broken(error)
    compiler.wait(space)


def _kept_alive(statement: ast.stmt) -> ast.stmt:
    """``k = async_compile.cpp(...)`` in a try, and ``async_compile.wait(globals())`` as `_wait`."""
    call = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return statement
    if not isinstance(call.func.value, ast.Name) or call.func.value.id != "async_compile":
        return statement
    if isinstance(statement, ast.Expr) and call.func.attr == "wait":
        call.args.insert(0, call.func.value)
        call.func = ast.Name("__inspector_wait__", ast.Load())
    elif isinstance(statement, ast.Assign):
        name = ast.unparse(statement.targets[0])
        text = f"try:\n    pass\nexcept Exception as error:\n    {name} = __inspector_broken__(error)"
        template = ast.parse(text).body[0]
        assert isinstance(template, ast.Try)
        template.body = [statement]
        for node in ast.walk(template):
            ast.copy_location(node, statement)
        return template
    return statement


@contextlib.contextmanager
def _replaced(module: str, name: str, value: object) -> Iterator[None]:
    """Puts `value` in a module's attribute for the length of a ``with``."""
    owner = importlib.import_module(module)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def storage_key(tensor: Tensor) -> object:
    """The same for tensors that share memory, the meta device included, while they live."""
    return tensor.untyped_storage()._cdata


def _guarded(statement: ast.stmt) -> ast.stmt:
    """``X = torch.a.b`` and ``from m import X`` at module level, in a try that reports what is missing."""
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Attribute):
        names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        sources = [ast.unparse(statement.value)] * len(names)
        if not sources or not sources[0].startswith("torch."):
            return statement
    elif isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] in {
        "torch",
        "triton",
    }:
        if any(alias.name == "*" for alias in statement.names):
            return statement
        names = [alias.asname or alias.name for alias in statement.names]
        sources = [f"{statement.module}.{alias.name}" for alias in statement.names]
    else:
        return statement
    body = "\n".join(
        f"    {name} = __inspector_missing__({name!r}, {source!r}, error)"
        for name, source in zip(names, sources, strict=True)
    )
    template = ast.parse(f"try:\n    pass\nexcept (AttributeError, ImportError) as error:\n{body}").body[0]
    assert isinstance(template, ast.Try)
    template.body = [statement]
    for node in ast.walk(template):
        ast.copy_location(node, statement)
    return template
