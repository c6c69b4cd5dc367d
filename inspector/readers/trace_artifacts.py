"""Single artifacts of a trace: caches, kernels, stacks, side effects, failures.

Each function takes an event where it stands and never raises: what cannot be read gives nothing.
"""

from __future__ import annotations

import re
from typing import Literal

from inspector.model.compilation import CacheLookup, Failure, KernelInfo

from .dynamo_messages import parse_frames
from .guards import outside_torch
from .text import from_json, number
from .trace import Occurrence

# fx_graph_cache_miss, aotautograd_cache_bypass, fx_graph_bundled_cache_hit
CACHE = re.compile(r"(?P<cache>\w+)_cache_(?P<outcome>hit|miss|bypass)\Z")
# Mutating object of type dict (source name: G['cache'])
_SIDE_EFFECT = re.compile(r"^(?=Mutating |Assigning |Deleting )", re.M)


def cache_lookups(seen: Occurrence) -> tuple[CacheLookup, ...]:
    """``fx_graph_cache_miss`` (torch/_inductor/codecache.py) and ``aotautograd_cache_hit``."""
    match = CACHE.match(seen.event.label)
    if match is None:
        return ()
    outcome: Literal["hit", "miss", "bypass"] = match["outcome"]  # type: ignore[assignment]
    data = json_of(seen.text)
    data = data if isinstance(data, dict) else {}
    saved = number(data.get("time_saved_ms"))
    if saved is None and (nanoseconds := number(data.get("time_saved_ns"))) is not None:
        saved = nanoseconds / 1e6
    reason = data.get("cache_bypass_reason") or data.get("cache_status_detailed") or ""
    key = str(data.get("key") or "")
    return (CacheLookup(match["cache"], outcome, key, str(reason), saved, seen.event.line),)


def kernel_infos(seen: Occurrence) -> tuple[KernelInfo, ...]:
    """``triton_kernel_info``: what compiling each Triton kernel told."""
    data = json_of(seen.text)
    if not isinstance(data, dict):
        return ()
    kernels = []
    for name, facts in data.items():
        facts = dict(facts) if isinstance(facts, dict) else {"value": facts}
        chosen = next(
            (
                facts.pop(key)
                for key in ("only_config", "best_config", "autotune_best_config")
                if key in facts
            ),
            (),
        )
        configs, compile_us = facts.pop("num_configs", None), number(facts.pop("compile_time_us", None))
        kernels.append(
            KernelInfo(
                name=name,
                cache_state=str(facts.pop("autotune_cache_state", "")),
                configs=configs if isinstance(configs, int) else None,
                config=_pairs(chosen),
                compile_us=None if compile_us is None else int(compile_us),
                line=seen.event.line,
                other=facts,
            )
        )
    return tuple(kernels)


def kernel_stacks(seen: Occurrence) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """``inductor_provenance_tracking_kernel_stack_traces``: kernel -> the user's stacks."""
    data = json_of(seen.text)
    if not isinstance(data, dict):
        return ()
    return tuple(
        (name, tuple(str(stack) for stack in stacks))
        for name, stacks in data.items()
        if isinstance(stacks, list)
    )


def side_effects(seen: Occurrence) -> tuple[str, ...]:
    """``dynamo_side_effects`` (torch/_dynamo/side_effects.py): what the graph's caller must change
    afterwards, each with the stacks where it happened."""
    return tuple(part.rstrip() for part in _SIDE_EFFECT.split(seen.text) if part.strip())


def collectives(seen: Occurrence) -> tuple[str, ...]:
    """``inductor_collective_schedule``: communication calls and waits in the order of the graph."""
    data = json_of(seen.text)
    return tuple(str(item) for item in data) if isinstance(data, list) else ()


def failures(seen: Occurrence) -> tuple[Failure, ...]:
    """An exception with its traceback, or a refusal with its facts in the envelope."""
    text, data = seen.text, seen.event.data
    if not text and isinstance(data, dict):
        facts = {key: value for key, value in data.items() if key not in ("name", "encoding", "stack")}
        text = ", ".join(f"{key}: {value}" for key, value in facts.items())
    return (Failure(seen.event.label, text.strip(), outside_torch(parse_frames(text)), seen.event.line),)


def json_of(text: str) -> object:
    try:
        return from_json(text)
    except ValueError:
        return None


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    """``[["XBLOCK", 2], ["num_warps", 8]]`` or an object of the same."""
    items = value.items() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return tuple(
        (str(item[0]), str(item[1])) for item in items if isinstance(item, (list, tuple)) and len(item) == 2
    )
