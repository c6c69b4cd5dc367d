"""What Inductor's cache keys are made of, from a trace's ``fx_graph_cache_miss``, ``_hit`` and ``_bypass``.

torch/_inductor/codecache.py: FxGraphHashDetails and FxGraphCachePickler.debug_lines write each part as
``[DIGEST] NAME: VALUE``. Values are kept as text; nothing is evaluated or unpickled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from inspector.model.diff import CacheKey

from .text import from_json
from .trace_artifacts import CACHE
from .trace_events import aot_id_of

if TYPE_CHECKING:
    from .run import Run

# [esstihe2nyydk4mhzpvox3qkajyu5y5t23hk3fi2me7jn75xi3o] inductor_config[debug]: False
_PART = re.compile(r"^\[(?P<digest>\w+)\] (?P<name>[^:]+?): (?P<value>.*)$", re.S)


def cache_keys(run: Run) -> tuple[CacheKey, ...]:
    """Every look into the cache of FX graphs, in order; empty without a trace."""
    idents: dict[tuple[str, str], str] = {}
    for graph in run.graphs:
        parts = graph.name.removeprefix("model__").split("_")
        if len(parts) >= 2:
            idents.setdefault((f"{parts[0]}_{parts[1]}", graph.process.rpartition("pid_")[2]), graph.ident)
    keys: list[CacheKey] = []
    for trace in run.traces:
        last: dict[str | None, str | None] = {}
        for event in trace.trace.events:
            if event.label == "inductor_output_code":
                aot = aot_id_of(trace.data, event) or ""
                last[event.compile_id] = idents.get((aot, event.process), idents.get((aot, "")))
                continue
            match = CACHE.match(event.label)
            if match is None or match["cache"] != "fx_graph":
                continue
            data = from_json(trace.payload(event))
            data = data if isinstance(data, dict) else {}
            outcome: Literal["hit", "miss", "bypass"] = match["outcome"]  # type: ignore[assignment]
            ident = last.pop(event.compile_id, None)
            lines = data.get("components")
            keys.append(
                CacheKey(
                    ident, event.compile_id, outcome, str(data.get("key") or ""),
                    _parts(lines if isinstance(lines, list) else []),
                )
            )  # fmt: skip
    return tuple(keys)


def _parts(lines: list[object]) -> dict[str, tuple[str, str]]:
    matches = (_PART.match(line) for line in lines if isinstance(line, str))
    return {match["name"]: (match["digest"], match["value"]) for match in matches if match is not None}
