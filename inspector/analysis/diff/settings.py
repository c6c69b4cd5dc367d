"""Every setting that differs between two runs, and which part of the key made the cache miss."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from inspector.model.diff import CacheKey, CacheMiss, Change, Setting

# inductor_config[triton.cudagraphs]
_CONFIG = re.compile(r"^inductor_config\[(.+)\]$")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_OF_GRAPH = re.compile(r"^(?:gm|example_inputs\[|fx_kwargs\[|inputs_to_check|user_defined_triton)")
_AREAS = {
    "dynamo": "torch._dynamo.config",
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
}
_METADATA = "TensorMetadata("
# shape=torch.Size([80, 64]), stride=(64, 1), device=device(type='cpu'), dtype=torch.float32
_FIELD = re.compile(r"\b(\w+)=((?:[\w.]*\([^()]*\))|[^,()]+)")
_OWN = ("trace.", "_cache_config_ignore_prefix", "_save_config_ignore")
"""What is put on to look at a compilation, and lists of settings that count for nothing."""
_MOST = 160

Values = Mapping[tuple[str, str], str]
"""(area, name) -> value as text."""


def key_settings(keys: Sequence[CacheKey]) -> dict[tuple[str, str], str]:
    """The settings in the keys, those of graphs compiled otherwise behind each other."""
    values: dict[tuple[str, str], dict[str, None]] = {}
    for key in keys:
        for name, (digest, value) in key.parts.items():
            if _OF_GRAPH.match(name):
                continue
            config = _CONFIG.match(name)
            place = ("inductor", config[1]) if config is not None else ("cache key", name)
            readable = value.isprintable() and value != "<bytes>"
            values.setdefault(place, {})[_ADDRESS.sub("", value) if readable else digest[:12]] = None
    return {place: ", ".join(texts) for place, texts in values.items()}


def script_settings(lines: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Of repro scripts' lines `torch._inductor.config.triton.cudagraphs = True`."""
    settings: dict[tuple[str, str], str] = {}
    for name, value in lines:
        for area, prefix in _AREAS.items():
            if name.startswith(f"{prefix}."):
                settings[area, name[len(prefix) + 1 :]] = value
    return settings


def differing(a: Mapping[str, Values], b: Mapping[str, Values]) -> tuple[Setting, ...]:
    """Settings whose values differ, by where they stand: those that both sides have first, then by area and
    name. A place that tells nothing on one side is not compared; a setting is told of once."""
    settings: dict[tuple[str, str], Setting] = {}
    for source, ours in a.items():
        theirs = b[source]
        if not ours or not theirs:
            continue
        for place in sorted({*ours, *theirs}):
            if place[0] == "torch" and not (place in ours and place in theirs):
                continue
            if ours.get(place) != theirs.get(place) and not place[1].startswith(_OWN):
                item = Setting(*place, _short(ours.get(place)), _short(theirs.get(place)))
                settings.setdefault(place, item)
    return tuple(
        sorted(
            settings.values(), key=lambda item: (item.a is None or item.b is None, _ORDER.index(item.area))
        )
    )


_ORDER = ("torch", "environment", "inductor", "dynamo", "functorch", "state", "cache key")


def cache_misses(
    a: Sequence[CacheKey], b: Sequence[CacheKey], partners: Mapping[str, str]
) -> tuple[CacheMiss, ...]:
    """For each graph that B had to compile, what its key has that A's key of the same graph has not.
    `partners` maps graphs of B to those of A."""
    by_graph = {key.graph: key for key in a if key.graph is not None}
    misses = []
    for position, key in enumerate(b):
        if key.outcome != "miss" or not key.parts:
            continue
        other = by_graph.get(partners.get(key.graph or "", ""))
        if other is None:
            same = [one for one in a if one.compile_id == key.compile_id]
            place = sum(one.compile_id == key.compile_id for one in b[:position])
            other = same[place] if place < len(same) else None
        if other is None or not other.parts:
            continue
        if causes := tuple(_causes(other, key)):
            misses.append(CacheMiss(key.graph or f"compile {key.compile_id}", causes))
    return tuple(misses)


def _causes(a: CacheKey, b: CacheKey) -> Iterable[Change]:
    for name in dict.fromkeys((*a.parts, *b.parts)):
        ours, theirs = a.parts.get(name), b.parts.get(name)
        if ours is not None and theirs is not None and ours[0] == theirs[0]:
            continue
        one = _ADDRESS.sub("", ours[1]) if ours is not None else None
        two = _ADDRESS.sub("", theirs[1]) if theirs is not None else None
        if one is not None and two is not None:
            one, two = _differing_fields(one, two) or _first_difference(one, two)
        # torch's own version is a digest as bytes, which the trace writes as text: nobody can read it.
        unreadable = "\ufffd" in f"{one}{two}"
        if (one == two or unreadable) and ours is not None and theirs is not None:
            one, two = f"digest {ours[0][:12]}", f"digest {theirs[0][:12]}"
        yield Change(name, _short(one), _short(two))


def _differing_fields(a: str, b: str) -> tuple[str, str] | None:
    """Of two tensors' metadata what differs; None for anything else."""
    if not (a.startswith(_METADATA) and b.startswith(_METADATA)):
        return None
    ours, theirs = dict(_FIELD.findall(a)), dict(_FIELD.findall(b))
    names = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    one, two = (", ".join(f"{name}={side[name]}" for name in names) for side in (ours, theirs))
    return (one, two) if names else None


def _first_difference(a: str, b: str) -> tuple[str, str]:
    """Of long texts the first line that differs."""
    if "\n" not in a and "\n" not in b:
        return a, b
    ours, theirs = a.split("\n"), b.split("\n")
    for one, two in zip(ours, theirs, strict=False):
        if one != two:
            return one.strip(), two.strip()
    longer = ours[len(theirs) :], theirs[len(ours) :]
    return (longer[0] or ["(ends)"])[0].strip(), (longer[1] or ["(ends)"])[0].strip()


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= _MOST:
        return text
    return text[: _MOST - 3] + "..."
