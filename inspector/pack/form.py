"""A pattern that most texts are past without it being tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


class Form:
    """A pattern, and what a text has one of if any part of it fits: plain words are found far faster.

    `needs` has them between spaces, or between `between`."""

    def __init__(self, pattern: str, needs: str, between: str | None = None) -> None:
        self.needs = needs.split(between)
        self._pattern = re.compile(pattern)

    def finditer(self, text: str) -> Iterable[re.Match[str]]:
        return self._pattern.finditer(text) if self._may_fit(text) else ()

    def sub(self, instead: Callable[[re.Match[str]], str], text: str) -> str:
        return self._pattern.sub(instead, text) if self._may_fit(text) else text

    def _may_fit(self, text: str) -> bool:
        return any(need in text for need in self.needs)
