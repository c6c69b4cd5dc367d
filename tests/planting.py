"""Faults that tests plant in the generated code of captured runs, each found at its first place."""

from __future__ import annotations

import re
from dataclasses import dataclass

_END = re.compile(r"'''(?:\)|, device_str)")


@dataclass(frozen=True)
class Fault:
    """`old` becomes `new` at its first place in the kernel whose name ends in `kernel` (``_3``; of a Triton
    kernel behind ``@triton.jit``), or, where that is a number, in the wrapper: `kernel` is then the call that
    it changes."""

    kind: str
    kernel: str
    old: str
    new: str

    def plant(self, text: str) -> str:
        """output_code.py with the fault; an AssertionError where there is no place for it."""
        start, end = self._extent(text)
        place = text.index(self.old, start)
        assert place < end, self
        return text[:place] + self.new + text[place + len(self.old) :]

    def _extent(self, text: str) -> tuple[int, int]:
        if self.kernel.isdigit():
            return text.index("def call("), len(text)
        start = text.index(f"\n{self.name(text)} = ")
        last = _END.search(text, start)
        assert last is not None, self
        return max(start, text.find("@triton.jit", start, last.start())), last.start()

    def name(self, text: str) -> str:
        """The kernel's whole name."""
        found = re.search(rf"^((?:cpp|triton)_\w*{self.kernel}) = async_compile", text, re.MULTILINE)
        assert found is not None, self
        return found[1]


@dataclass(frozen=True)
class Planting:
    """Faults in different kernels of one graph, planted together. `run` is a path inside of the corpus."""

    run: str
    graph: str
    faults: tuple[Fault, ...]
