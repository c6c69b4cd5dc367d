"""What a CI job allows a compiled program: a TOML file, or the arguments of a test's mark, read as one."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from inspector.files import read_plain
from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.units import parse_size

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_MOST_BYTES = 1 << 20
_HEAD = """\
# What `inspector check RUN --budget THIS` asserts of a run. These are relations, no times, so that they hold
# on other GPUs and versions, too; take out what you don't care for.
"""


@dataclass(frozen=True, slots=True)
class Share:
    """Operators of which at least `kernels` generated kernels compute all. An operator is named as the
    program calls it (``softmax``), as the graph has it (``aten.exp``), or by its line (``model.py:12``)."""

    operators: tuple[str, ...]
    kernels: int = 1


@dataclass(frozen=True, slots=True)
class Budget:
    """What is None is not asked about. `packages`: for a package or file of the program its own limits on
    breaks and recompiles. `no_fallback` may be ``("*",)``: no operator at all may be left to ATen."""

    graph_breaks: int | None = None
    """Places at which graphs break, and frames that are left to eager."""
    recompiles: int | None = None
    share_kernel: tuple[Share, ...] = ()
    no_fallback: tuple[str, ...] = ()
    traffic: float | None = None
    """Bytes that the kernels move, over the least possible: inputs once and outputs once."""
    peak_memory: int | None = None
    """Bytes that a graph holds at most at once in buffers of its own."""
    error: str | None = None
    """``"eager"``: where a replay is, no result is farther from a float64 reference than eager's."""
    faster: bool | None = None
    """Not slower than eager, beyond noise."""
    packages: Mapping[str, Budget] | None = None

    @property
    def empty(self) -> bool:
        return self == Budget()


_PACKAGE = ("graph_breaks", "recompiles")


def from_data(data: Mapping[str, Any], where: str) -> Budget:
    """A budget of plain data; raises InspectorError, which begins with `where`, for what it can't be."""
    names = {field.name for field in fields(Budget)}
    values: dict[str, Any] = {}
    for key, value in data.items():
        if key not in names:
            raise InspectorError(f"{where}: {key}: no such relation; there are {', '.join(sorted(names))}")
        if value is not None:
            values[key] = _READERS[key](key, value, where)
    return Budget(**values)


def read_budget(path: Path) -> Budget:
    """Raises InspectorError for what cannot be read, is no TOML, or asks for nothing."""
    try:
        data = tomllib.loads(read_plain(path, _MOST_BYTES).decode("utf-8"))
    except OSError as error:
        hint = "; make it of a good run: inspector check RUN --budget FILE --write"
        raise InspectorError(f"{path}: cannot be read: {error.strerror}{hint}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise InspectorError(f"{path}: not TOML: {error}") from None
    budget = from_data(data, str(path))
    if budget.empty:
        raise InspectorError(f"{path}: asks for nothing")
    return budget


def _quoted(value: object) -> str:
    """As JSON, which TOML is read as: but characters as themselves, where JSON has halves of them, and DEL as
    TOML wants it. Halves alone, which no file can hold, become question marks."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return text.encode("utf-8", "replace").decode("utf-8")


def to_toml(budget: Budget) -> str:
    """As `read_budget` reads it."""
    lines = [_HEAD]
    for name in ("graph_breaks", "recompiles", "traffic", "peak_memory", "error", "faster"):
        value = getattr(budget, name)
        if value is not None:
            lines.append(f"{name} = {_quoted(value)}")
    if budget.no_fallback:
        lines.append(f"no_fallback = {_quoted(budget.no_fallback)}")
    if budget.share_kernel:
        lines.append("share_kernel = [")
        for share in budget.share_kernel:
            lines.append(f"  {{ operators = {_quoted(share.operators)}, kernels = {share.kernels} }},")
        lines.append("]")
    for package, own in (budget.packages or {}).items():
        lines.append(f"\n[packages.{_quoted(package)}]")
        lines += [f"{name} = {value}" for name in _PACKAGE if (value := getattr(own, name)) is not None]
    return "\n".join(lines) + "\n"


def merged(first: Budget, second: Budget) -> Budget:
    """Both, the second's limits before the first's."""
    own = {field.name: getattr(second, field.name) for field in fields(Budget)}
    return replace(first, **{name: value for name, value in own.items() if value not in (None, ())})


def _whole(key: str, value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InspectorError(f"{where}: {key} has to be a whole number, such as {key} = 0")
    return value


def _texts(key: str, value: object, where: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(item, str) and item for item in value):
        raise InspectorError(f'{where}: {key} has to be a list of names, such as ["softmax", "add"]')
    return tuple(value)


def _shares(key: str, value: object, where: str) -> tuple[Share, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InspectorError(f'{where}: {key} has to be a list of lists, such as [["softmax", "add"]]')
    # One group may stand alone.
    groups = [value] if value and all(isinstance(item, str) for item in value) else value
    shares = []
    for group in groups:
        if isinstance(group, Mapping):
            unknown = set(group) - {"operators", "kernels"}
            if unknown or "operators" not in group:
                raise InspectorError(f"{where}: {key}: a group has operators and kernels, and nothing else")
            operators = _texts(key, group["operators"], where)
            share = Share(operators, _whole("kernels", group.get("kernels", 1), where))
        else:
            share = Share(_texts(key, group, where))
        if len(share.operators) < 2:
            raise InspectorError(f"{where}: {key}: two operators at least share a kernel")
        shares.append(share)
    return tuple(shares)


def _ratio(key: str, value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < float("inf"):
        raise InspectorError(f"{where}: {key} has to be a number of at least 1, such as {key} = 1.2")
    return float(value)


def _bytes(key: str, value: object, where: str) -> int:
    count = parse_size(value) if isinstance(value, str) else value
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InspectorError(f'{where}: {key} has to be a size, such as "12MB"')
    return count


def _eager(key: str, value: object, where: str) -> str:
    if value != "eager":
        raise InspectorError(f'{where}: {key} can be "eager" alone')
    return "eager"


def _flag(key: str, value: object, where: str) -> bool | None:
    if not isinstance(value, bool):
        raise InspectorError(f"{where}: {key} has to be true or false")
    return value or None


def _packages(key: str, value: object, where: str) -> Mapping[str, Budget]:
    if not isinstance(value, Mapping):
        raise InspectorError(f"{where}: {key} has to be a table, such as [{key}.mymodel]")
    budgets = {}
    for name, limits in value.items():
        own = from_data(limits if isinstance(limits, Mapping) else {"": limits}, f"{where}: {key}.{name}")
        if own != Budget(own.graph_breaks, own.recompiles) or own.empty:
            raise InspectorError(f"{where}: {key}.{name}: a package has {' and '.join(_PACKAGE)} alone")
        budgets[str(name)] = own
    return budgets


_READERS: Mapping[str, Any] = {
    "graph_breaks": _whole, "recompiles": _whole, "share_kernel": _shares, "no_fallback": _texts,
    "traffic": _ratio, "peak_memory": _bytes, "error": _eager, "faster": _flag, "packages": _packages,
}  # fmt: skip
