"""`%%inspect` for IPython: the cell captured as a program, and its answer in the cell's place."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Protocol

from .captured import run_program
from .run import Run


class _Shell(Protocol):
    """Of IPython's shell what is used here."""

    user_ns: dict[str, object]

    def push(self, variables: dict[str, object]) -> None:
        """Into the notebook's names."""

    def register_magic_function(self, func: Callable[[str, str], object], kind: str, name: str) -> None:
        """As ``%name`` or ``%%name``."""


def load_ipython_extension(shell: _Shell) -> None:
    """What ``%load_ext inspector`` calls."""

    def inspect(line: str, cell: str) -> Run:
        """Run the cell, which calls torch.compile itself, in a process of its own. `%%inspect NAME` keeps
        the run as that variable."""
        run = run_cell(cell, shell.user_ns)
        if name := line.strip():
            shell.push({name: run})
        return run

    shell.register_magic_function(inspect, "cell", "inspect")


def run_cell(cell: str, namespace: Mapping[str, object]) -> Run:
    """Capture the cell with those names of the notebook that it uses. Raises SyntaxError for one that is no
    Python."""
    wanted = _names(compile(cell, "<cell>", "exec"))
    names = {name: namespace[name] for name in wanted if name in namespace and not hasattr(builtins, name)}
    return run_program(names, name="cell", out=None, baseline=True, cell=cell)


def _names(code: CodeType) -> set[str]:
    """All that the code and the functions in it refer to by name."""
    inner = [_names(const) for const in code.co_consts if isinstance(const, CodeType)]
    return {*code.co_names}.union(*inner)
