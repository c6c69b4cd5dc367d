"""Single artifacts of a trace: caches, kernels, stacks, side effects, failures.

Each function takes an event and its payload and never raises: what cannot be read gives nothing.
"""

from __future__ import annotations

import json
import re
from typing import Literal

from inspector.model.compilation import CacheLookup, Failure, KernelInfo
from inspector.model.source import SourceLocation
from inspector.model.trace import TraceEvent

from .text import number

# fx_graph_cache_miss, aotautograd_cache_bypass, fx_graph_bundled_cache_hit
_CACHE = re.compile(r"(?P<cache>\w+)_cache_(?P<outcome>hit|miss|bypass)\Z")
#   File "/home/user/train.py", line 8, in forward
_FRAME = re.compile(r'^ *File "(?P<path>.*?)", line (?P<line>\d+)(?:, in (?P<function>.*))?$', re.M)
# Mutating object of type dict (source name: G['cache'])
_SIDE_EFFECT = re.compile(r"^(?=Mutating |Assigning |Deleting )", re.M)

FAILURE_NAMES = frozenset(
    {
        "dynamo_error",
        "dynamo_cache_exception",
        "dynamo_cache_bypass",
        "eager_compile_backwards_failure",
        "fx_interpreter_error",
        "make_fx_fail_partial",
        "aotautograd_cache_pickle_failure",
        "inductor_spmd_graph_mismatch",
        "min_cut_failed_edge_list",
        "missing_fake_kernel",
        "mismatched_fake_kernel",
        "guard_on_data_dependent_error",
    }
)
"""Artifacts and kinds of events that report an exception or a refusal, in torch 2.4 to 2.15."""


def is_cache_event(name: str) -> bool:
    return _CACHE.match(name) is not None


def cache_lookup(event: TraceEvent, text: str) -> CacheLookup | None:
    """``fx_graph_cache_miss`` (torch/_inductor/codecache.py) and ``aotautograd_cache_hit``."""
    match = _CACHE.match(event.name or event.kind)
    if match is None:
        return None
    outcome: Literal["hit", "miss", "bypass"] = match["outcome"]  # type: ignore[assignment]
    data = json_of(text)
    data = data if isinstance(data, dict) else {}
    saved = number(data.get("time_saved_ms"))
    if saved is None and (nanoseconds := number(data.get("time_saved_ns"))) is not None:
        saved = nanoseconds / 1e6
    reason = data.get("cache_bypass_reason") or data.get("cache_status_detailed") or ""
    return CacheLookup(match["cache"], outcome, str(data.get("key") or ""), str(reason), saved, event.line)


def kernel_infos(event: TraceEvent, text: str) -> tuple[KernelInfo, ...]:
    """``triton_kernel_info``: what compiling each Triton kernel told."""
    data = json_of(text)
    if not isinstance(data, dict):
        return ()
    found = []
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
        found.append(
            KernelInfo(
                name=name,
                cache_state=str(facts.pop("autotune_cache_state", "")),
                configs=configs if isinstance(configs, int) else None,
                config=_pairs(chosen),
                compile_us=None if compile_us is None else int(compile_us),
                line=event.line,
                other=facts,
            )
        )
    return tuple(found)


def kernel_stacks(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """``inductor_provenance_tracking_kernel_stack_traces``: kernel -> the user's stacks."""
    data = json_of(text)
    if not isinstance(data, dict):
        return ()
    return tuple(
        (name, tuple(str(stack) for stack in stacks))
        for name, stacks in data.items()
        if isinstance(stacks, list)
    )


def side_effects(text: str) -> tuple[str, ...]:
    """``dynamo_side_effects`` (torch/_dynamo/side_effects.py): what the graph's caller must change
    afterwards, each with the stacks where it happened."""
    return tuple(part.rstrip() for part in _SIDE_EFFECT.split(text) if part.strip())


def collectives(text: str) -> tuple[str, ...]:
    """``inductor_collective_schedule``: communication calls and waits in the order of the graph."""
    data = json_of(text)
    return tuple(str(item) for item in data) if isinstance(data, list) else ()


def failure(event: TraceEvent, text: str) -> Failure:
    """An exception with its traceback, or a refusal with its facts in the envelope."""
    if not text and isinstance(event.data, dict):
        facts = {key: value for key, value in event.data.items() if key not in ("name", "encoding", "stack")}
        text = ", ".join(f"{key}: {value}" for key, value in facts.items())
    frames = list(_FRAME.finditer(text))
    own = [frame for frame in frames if "/torch/" not in frame["path"].replace("\\", "/")]
    last = (own or frames)[-1] if frames else None
    location = SourceLocation(last["path"], int(last["line"]), last["function"]) if last else None
    return Failure(event.name or event.kind, text.strip(), location, event.line)


def json_of(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    """``[["XBLOCK", 2], ["num_warps", 8]]`` or an object of the same."""
    items = value.items() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return tuple(
        (str(item[0]), str(item[1])) for item in items if isinstance(item, (list, tuple)) and len(item) == 2
    )
