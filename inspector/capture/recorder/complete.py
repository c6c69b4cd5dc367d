"""With caches of its own a capture lets no graph come out of what an earlier call put there: each leaves its
files. Lookups find nothing, a miss to torch, which compiles, and logs the key all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from .guard import Guards
from .sink import Sink


def compile_all(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Replace what lists a key's entries (torch/_inductor/codecache.py: GuardedCache.iterate_over_candidates;
    FxGraphCache has it in 2.6, and nothing that can be replaced before)."""
    for name in ("GuardedCache", "FxGraphCache"):
        owner: Any = getattr(module, name, None)
        if owner is not None and "iterate_over_candidates" in vars(owner):
            owner.iterate_over_candidates = classmethod(_nothing)
            guards.installed.append(f"{name}.iterate_over_candidates")


def _nothing(cls: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
    return iter(())
