"""The difference of two runs in one sentence."""

from __future__ import annotations

from collections import Counter

from inspector.model.diff import RunDiff, Setting
from inspector.units import comparison, from_to, plural

from .guards import WHAT as GUARD
from .moved import WHAT as MOVED

STEADY = "steady call"
"""The total that the ledger adds up to."""
_LEADING = ("version", "devices", "triton")


def verdict(diff: RunDiff) -> str:
    """What differs most, worded of B; of runs of different programs that they are."""
    launches: Counter[str] = Counter(match.relation for match in diff.kernels)
    sides = [name for name, here in (("A", any(match.a for match in diff.graphs)),
                                     ("B", any(match.b for match in diff.graphs))) if not here]  # fmt: skip
    if sides:
        return f"Nothing to compare: {' and '.join(sides)} without a compiled graph."
    shared = sum(launches[relation] for relation in ("same", "changed", "split", "merged"))
    if not shared and not any(match.a and match.b for match in diff.graphs):
        return "These are different programs: no kernel of A computes what one of B does."
    kernels = _kernels(diff, launches)
    parts = [part for part in (_time(diff), kernels, _events(diff), _settings(diff)) if part]
    if not parts:
        return "No difference: the same graphs, kernels and settings."
    if not kernels and shared:
        parts.insert(1 if _time(diff) else 0, f"the same {plural(launches['same'], 'launch')}")
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _time(diff: RunDiff) -> str:
    for total in diff.totals:
        if total.name == STEADY and total.a and total.b:
            times = f"{from_to(total.a, total.b)} a call"
            if diff.outcome == "same":
                return f"B is as fast as A beyond noise ({times})"
            if diff.outcome == "unknown":
                return ""
            return f"B is {comparison(total.a / total.b, 'A')} ({times})"
    return ""


def _kernels(diff: RunDiff, launches: Counter[str]) -> str:
    words = (
        ("changed", "changed"), ("split", "split"), ("merged", "merged"),
        ("only_a", "only in A"), ("only_b", "only in B"),
    )  # fmt: skip
    told = [f"{launches[relation]} {word}" for relation, word in words if launches[relation]]
    if not told:
        return ""
    a, b = sum(len(match.a) for match in diff.kernels), sum(len(match.b) for match in diff.kernels)
    of = plural(a, "kernel launch") if a == b else f"{plural(a, 'kernel launch')} in A and {b:,} in B"
    return f"of {of} {', '.join(told)}"


def _events(diff: RunDiff) -> str:
    told = []
    for what in ("graph break", "recompile"):
        new = sum(event.what == what and event.a is None for event in diff.events)
        gone = sum(event.what == what and event.b is None for event in diff.events)
        told += [f"{plural(new, f'new {what}')}"] if new else []
        told += [f"{plural(gone, what)} gone"] if gone else []
    for what, words in ((GUARD, "other guard"), (MOVED, "moved launch")):
        number = sum(event.what == what for event in diff.events)
        told += [plural(number, words)] if number else []
    return ", ".join(told)


def _settings(diff: RunDiff) -> str:
    if not diff.settings:
        return ""
    leading = [item for item in diff.settings if item.area == "torch" and item.name in _LEADING]
    rest = [item for item in diff.settings if item not in leading and item.area != "cache key"]
    told = [f"{_name(item)} {item.a or 'none'} → {item.b or 'none'}" for item in leading]
    if len(rest) == 1:
        told.append(f"{_name(rest[0])} {_value(rest[0].a)} → {_value(rest[0].b)}")
    elif rest:
        told.append(f"{len(rest):,} settings differ")
    return ", ".join(told)


def _name(setting: Setting) -> str:
    if setting.area == "torch":
        return {"version": "torch"}.get(setting.name, setting.name)
    return setting.name


def _value(text: str | None) -> str:
    return "unset" if text is None else text
