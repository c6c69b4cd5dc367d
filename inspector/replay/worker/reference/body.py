"""A loop body as Inductor prints it, compiled as the Python that it is (torch/_inductor/loop_body.py:
LoopBody.debug_str)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import CodeType

import torch

from inspector.replay.worker.reference.layouts import Value

Function = Callable[..., Value]

# p0: 100, p1: Max(1, s50)
RANGE = re.compile(r"(?P<name>\w+): (?P<extent>.*?)(?=, \w+: |$)", re.DOTALL)
"""Loop variables and how far they run, as they are printed."""

# get_index_1 = self.get_index('index1')
_INDEX = re.compile(r"(\w+) = self\.get_index\('(\w+)'\)")
# ops.load('arg1_1', get_index_1)
_ACCESS = re.compile(r"ops\.(?:load|store|store_reduction)\('(\w+)', (\w+)")


class UnknownIr(Exception):
    """The loop body uses what this evaluator does not know; the message says what."""


class LoopBody:
    """One leaf's printed body, compiled. `outer` counts the loop variables that are not reduced over;
    `narrow`: it names a floating dtype below float64."""

    def __init__(self, text: str, outer: int) -> None:
        """Raises UnknownIr where the text is not the Python that torch prints."""
        self._indices: dict[str, CodeType] = {}
        self.outer = outer
        self.results: list[torch.dtype | None] = []
        """What dtypes the operators gave when the body last ran in its own, one after the other."""
        head, _, methods = text.partition("    def ")
        self.narrow = bool(re.search(r"torch\.(?:b?float16|float32|float8)", methods))
        ranges = re.search(r"var_ranges = \{(.*?)\}", head, re.DOTALL)
        if ranges is None:
            raise UnknownIr("the loop body has no var_ranges")
        try:
            self.ranges = {
                pair["name"]: compile(pair["extent"], "<range>", "eval") for pair in RANGE.finditer(ranges[1])
            }
            for line in head[ranges.end() :].splitlines():
                name, equals, expression = line.strip().partition(" = ")
                if equals:
                    self._indices[name] = compile(expression, f"<{name}>", "eval")
            self.buffers = _indexed_buffers(methods)
            # Names with a dot (aten.add) and annotations do not occur: the printer writes plain calls.
            code = compile("class Body:\n    def " + methods, "<loop body>", "exec")
        except (SyntaxError, ValueError) as error:
            raise UnknownIr(f"the loop body cannot be read: {error}") from None
        space: dict[str, object] = {"torch": torch, "inf": math.inf, "nan": math.nan, "device": torch.device}
        exec(code, space)
        self.methods: dict[str, Function] = {
            name: value for name, value in vars(space["Body"]).items() if callable(value)
        }

    def index(self, name: str) -> CodeType:
        return self._indices[name]


def _indexed_buffers(methods: str) -> dict[str, list[str]]:
    """Index -> the buffers that are loaded or stored at it."""
    variables = dict(_INDEX.findall(methods))
    buffers: dict[str, list[str]] = {}
    for buffer, variable in _ACCESS.findall(methods):
        if variable in variables:
            buffers.setdefault(variables[variable], []).append(buffer)
    return buffers
