"""Work on an unknown torch's files, whose failure is shown in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def attempt(work: Callable[[], T]) -> T | Exception:
    """What `work` gives, or what it raised, to be shown in its place."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - nobody foresees what an unknown torch's files make a reader do
        return error
