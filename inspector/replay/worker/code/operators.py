"""What a graph calls and torch does not have: operators that a library or the user's program registers when
it is imported, and Python functions that Inductor's passes put into a graph by their names.

What registers an operator is looked for in the files that the graph names, beside them, and in the package of
the operator's namespace. A library is imported; of a program only imports, definitions and registrations run.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import math
import os
import pkgutil
import re
import stat
import sys
import traceback
import types
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

_OPERATOR = re.compile(r"\btorch\.ops\.(\w+)\.(\w+)")

# # File: /home/user/train.py:12 in forward, code: ...
_SOURCE = re.compile(r"^\s*# File: ([^\n:]+):\d+ in ", re.MULTILINE)

# scale_add: "f32[40, 50]" = torch.ops.mylib.scale_add.default(div, arg1_1, 0.5)
_MEANING = re.compile(r'^\s*(?P<name>\w+): "(?P<dtype>\w+)\[(?P<shape>[^\]]*)\][^"]*" = ', re.MULTILINE)
# getitem: "f32[40]" = split[0]
_PART = re.compile(r'^\s*(?P<name>\w+)(?:: "[^"]*")? = (?P<owner>\w+)\[(?P<index>\d+)\]', re.MULTILINE)

_DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8,
    "b8": torch.bool, "c64": torch.complex64, "c128": torch.complex128,
    "f8e4m3fn": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2,
}  # fmt: skip
"""torch/utils/_dtype_abbrs.py."""

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders in which single files are libraries too (Lib/site.py, Debian's)."""
_MOST_FILES, _MOST_BYTES = 400, 1 << 20


def absent(text: str) -> set[tuple[str, str]]:
    """Namespace and name of each operator in a program's text that is not registered."""
    named = {(match[1], match[2]) for match in _OPERATOR.finditer(text)}
    return {pair for pair in named if not _registered(*pair)}


def _registered(namespace: str, name: str) -> bool:
    try:
        return getattr(getattr(torch.ops, namespace), name) is not None
    except (AttributeError, RuntimeError):
        return False


def register(text: str, notes: list[str]) -> None:
    """Import what registers the operators that `text` calls, and say in `notes` what that was."""
    for namespace, name in sorted(absent(text)):
        for what, load in _registrars(text, namespace, name):
            try:
                load()
            except Exception as error:
                traceback.print_exc()
                notes.append(f"{what} cannot be loaded for {namespace}::{name}: {error}")
            if _registered(namespace, name):
                notes.append(f"{namespace}::{name} is registered by {what}")
                break


def _registrars(text: str, namespace: str, name: str) -> Iterator[tuple[str, Callable[[], object]]]:
    sources = [Path(path) for path in dict.fromkeys(_SOURCE.findall(text)) if _is_safe(Path(path))]
    near = [path for folder in dict.fromkeys(path.parent for path in sources) for path in _modules_in(folder)]
    for path in dict.fromkeys([*sources, *near]):
        if _mentions(path, namespace, name):
            module = _module_of(path)
            if module is None:
                yield path.name, lambda path=path: _definitions(path)  # type: ignore[misc]
            else:
                yield module, lambda module=module: importlib.import_module(module)  # type: ignore[misc]
    package = importlib.util.find_spec(namespace) if namespace not in {"inspector", "__main__"} else None
    if package is None or package.origin is None:
        return
    yield namespace, lambda: importlib.import_module(namespace)
    for path in Path(package.origin).parent.rglob("*.py") if package.submodule_search_locations else ():
        if _mentions(path, namespace, name) and (module := _module_of(path)) is not None:
            yield module, lambda module=module: importlib.import_module(module)  # type: ignore[misc]


def _modules_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py"))[:_MOST_FILES] if _is_safe(path)]


def _is_safe(path: Path) -> bool:
    """Whether only this user could have written the file: beside a program in /tmp lies anybody's."""
    try:
        facts = path.stat()
    except OSError:
        return False
    return facts.st_uid == os.getuid() and not facts.st_mode & stat.S_IWOTH


def _mentions(path: Path, namespace: str, name: str) -> bool:
    """Whether a file may register the operator: it names both, in one word or in two."""
    try:
        text = path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, UnicodeDecodeError):
        return False
    return f"{namespace}::{name}" in text or (
        re.search(rf"Library\(\s*['\"]{namespace}['\"]", text) is not None and name in text
    )


def _module_of(path: Path) -> str | None:
    """The name by which a library's file is imported; None for a program, whose folder may be on the path
    as well (PYTHONPATH, the folder that Python was started in)."""
    for entry in sys.path:
        if entry and path.is_relative_to(entry):
            parts = path.relative_to(entry).with_suffix("").parts
            inside = path.parents[: len(parts) - 1]
            if Path(entry).name in _INSTALLED or (
                inside and all((folder / "__init__.py").is_file() for folder in inside)
            ):
                return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return None


def _definitions(path: Path) -> None:
    """Runs a program's imports, definitions and registrations, and nothing else of it."""
    module = types.ModuleType(f"inspector_definitions_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    sys.path.append(str(path.parent))
    try:
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if _defines(statement):
                code = compile(ast.Module([statement], []), str(path), "exec")
                try:
                    exec(code, module.__dict__)
                except Exception:
                    traceback.print_exc()
    finally:
        sys.path.remove(str(path.parent))


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
        return True
    if isinstance(statement, ast.Assign):
        return isinstance(statement.value, ast.Constant) or "Library(" in ast.unparse(statement)
    text = ast.unparse(statement) if isinstance(statement, ast.Expr) else ""
    return re.search(r"\.(define|impl|impl_abstract|register_\w+)\(", text) is not None


def function_named(name: str) -> Callable[..., object] | None:
    """``torch__inductor_fx_passes_quantization_f`` is f of torch._inductor.fx_passes.quantization: a graph is
    printed with dots as underscores (torch/fx/graph.py: _Namespace.create_name)."""
    if not name.startswith("torch_"):
        return None
    for candidate in (name, re.sub(r"_\d+$", "", name)):
        value = _inside(torch, candidate.removeprefix("torch_"))
        if callable(value):
            return value
    return None


def _inside(module: types.ModuleType, rest: str) -> object:
    if hasattr(module, rest):
        return getattr(module, rest)
    folders = getattr(module, "__path__", None) or ()
    parts = [item.name for item in pkgutil.iter_modules(folders) if rest.startswith(f"{item.name}_")]
    for part in sorted(parts, key=len, reverse=True):
        try:
            inner = importlib.import_module(f"{module.__name__}.{part}")
        except Exception:
            continue
        value = _inside(inner, rest[len(part) + 1 :])
        if value is not None:
            return value
    return None


class Absent:
    """Stands for a node's function that is not here, or that only lowering can call: gives made-up numbers of
    the shape that the graph is annotated with. `reason` is empty until it had to."""

    def __init__(self, name: str, target: str, texts: Iterable[str], function: Callable[..., object] | None):
        self._name = name
        self._target = target
        self._function = function
        self._shapes, self._parted = _shapes(name, texts)
        self.reason = ""

    def __call__(self, *args: object, **kwargs: object) -> object:
        if self._function is not None and not self.reason:
            try:
                result = self._function(*args, **kwargs)
                if all(
                    leaf is None or isinstance(leaf, (Tensor, int, float)) for leaf in tree_leaves(result)
                ):
                    return result
            except Exception:
                traceback.print_exc()
        what = "can only be lowered, not called" if self._function else "is registered by what is not here"
        self.reason = f"{self._target} {what}"
        return self.made_up(next((leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)), None))

    def made_up(self, like: Tensor | None = None) -> object:
        """The same numbers each time. Raises LookupError where the graph does not tell their shape."""
        if not self._shapes:
            raise LookupError(
                f"{self.reason or self._target}, and the graph does not tell its result's shape"
            )
        generator = torch.Generator().manual_seed(zlib.crc32(self._name.encode()))
        device = like.device if like is not None else "cpu"
        values = []
        for dtype, shape in self._shapes:
            drawn = torch.rand(math.prod(shape), generator=generator, dtype=torch.float32).reshape(shape)
            known = drawn + 0.5 if dtype.is_floating_point else torch.zeros(shape)
            values.append(known.to(dtype).to(device))
        return tuple(values) if self._parted else values[0]


def _shapes(name: str, texts: Iterable[str]) -> tuple[list[tuple[torch.dtype, tuple[int, ...]]], bool]:
    """Dtypes and shapes of a node's result, and whether it has several parts; none where not printed."""
    for text in texts:
        known = {match["name"]: match for match in _MEANING.finditer(text)}
        names = [name]
        if name not in known:
            parts = {
                int(part["index"]): part["name"] for part in _PART.finditer(text) if part["owner"] == name
            }
            names = [parts.get(index, "") for index in range(max(parts, default=-1) + 1)]
        matches = [known[each] for each in names if each in known]
        if matches and len(matches) == len(names):
            try:
                return [
                    (_DTYPES[each["dtype"]], tuple(int(n) for n in each["shape"].split(",") if n.strip()))
                    for each in matches
                ], name not in known
            except (KeyError, ValueError):
                continue
    return [], False
