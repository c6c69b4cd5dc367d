"""`inspector pack`: what was replaced, what was left out, and what stays that may be private."""

from __future__ import annotations

from collections.abc import Iterator

from inspector.pack.private import Kind
from inspector.pack.run import Packed
from inspector.text import joined
from inspector.units import plural, size

from .spans import Line, toned, wrapped

_KINDS: dict[Kind, str] = {
    "user": "user name", "host": "host name", "folder": "folder", "secret": "token or password",
    "address": "network address", "e-mail": "e-mail address or remote", "value": "environment value",
    "device": "device's identity",
}  # fmt: skip


def lines(packed: Packed, width: int) -> Iterator[Line]:
    """The file first, then a line for each of the three."""
    yield toned(
        f"{packed.target}: {plural(packed.files, 'file')}, {size(packed.target.stat().st_size)}", "accent"
    )
    replaced = [f"{_KINDS[kind]} {count}x" for kind, count in packed.replaced.most_common()]
    yield from wrapped("replaced: " + (", ".join(replaced) or "nothing"), width)
    if packed.lines is not None:
        yield from wrapped(f"left out: {plural(packed.lines, 'quoted line')} of the program", width)
    if packed.left_out:
        left = [f"{what} {count}" for what, count in packed.left_out.most_common()]
        yield from wrapped("left out: " + ", ".join(left), width)
    stays = ["generated code with shapes, names of functions, modules and weights, names of files"]
    if packed.lines is None:
        quoted = f", and {plural(packed.programs, 'file')} of it" if packed.programs else ""
        stays.append(f"quoted lines of the program{quoted} (--no-source leaves them out)")
    else:
        stays.append("kernels that the program wrote itself")
    if packed.inputs:
        stays.append(f"saved inputs of {plural(packed.inputs, 'graph')}")
    if packed.in_code:
        stays.append(f"{joined(packed.in_code, 4)} where it is a word of the code")
    yield from wrapped(f"stays, and may be private: {'; '.join(stays)}", width, "warn")
