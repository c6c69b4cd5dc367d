"""A failed guard in plain words, where torch's own tell what changed (torch/csrc/dynamo/guards.cpp)."""

from __future__ import annotations

import re

# 0/0: tensor 'x' size mismatch at index 0. expected 3, actual 8
_ID = re.compile(r"^!?(?P<id>\d+(?:/\d+)*): ")
_AT_INDEX = re.compile(
    r"^tensor '(?P<name>.+?)' (?P<what>size|stride) mismatch at index (?P<index>\d+)\. "
    r"expected (?P<old>\S+), actual (?P<new>\S+)$"
)
_LONGEST = 4_000
"""Letters of a reason that is reworded; longer ones take more than linear time and stay as they are."""
# tensor 'x' rank mismatch. expected 2, actual 3
_OF_WHOLE = re.compile(
    r"^tensor '(?P<name>.+?)' (?P<what>rank|dtype|device|requires_grad|dispatch key set) mismatch\. "
    r"expected (?P<old>.+?), actual (?P<new>.+)$"
)
# DispatchKeySet(CPU, BackendSelect, ADInplaceOrView)
_KEY = re.compile(r"\w+(?=[,)])")
_NORMAL = "ADInplaceOrView"
_LOCAL = re.compile(r"^L\['(\w+)'\]")
# L['n'] == 3, self.count == 3
_IS_NUMBER = re.compile(r"^(?P<name>[\w.\[\]']{1,400}) == (?P<value>-?\d+)$")
_NTH = ("first", "second", "third", "fourth", "fifth", "sixth")
# tensor 'y' rank mismatch. expected 2, actual 1. Guard failed on a parameter, consider using torch...
_PARAMETER = re.compile(r"\. Guard failed on a parameter, consider .*$")
_CODE = " # "
"""torch/_guards.py: between a guard and the line that it comes from."""
_WHAT = {"rank": "number of dimensions", "dispatch key set": "kind of tensor"}


def made_elsewhere(reason: str) -> str:
    """Of a guard on sets of dispatch keys that differ in whether a tensor is of inference mode, how: these
    have no ``ADInplaceOrView`` (c10/core/InferenceMode.h). Empty for any other guard."""
    text = bare_guard(reason)
    match = _OF_WHOLE.match(text) if len(text) <= _LONGEST else None
    if match is None or match["what"] != "dispatch key set":
        return ""
    before, now = (set(_KEY.findall(match[side])) for side in ("old", "new"))
    if before ^ now != {_NORMAL}:
        return ""
    inside = "outside of torch.inference_mode() before, and inside of it now"
    return inside if _NORMAL in before else "inside of torch.inference_mode() before, and outside of it now"


def fixed_size(reason: str) -> tuple[str, int, str] | None:
    """(tensor, index, the size that the graph had as a number) of a guard on a size."""
    match = _AT_INDEX.match(bare_guard(reason))
    if match is None or match["what"] != "size":
        return None
    return match["name"], int(match["index"]), match["old"]


def guard_source(source: str) -> str:
    """``L['x'].size()[0]`` -> ``x.size()[0]``: what a guard or a symbol is of, with a local's own name."""
    return _LOCAL.sub(r"\1", source)


def pinned_by(reason: str) -> tuple[str, str] | None:
    """(what, the number that it was in the graph) of a guard on a size or on a number of the caller's."""
    if (size := fixed_size(reason)) is not None:
        return f"{guard_source(size[0])}.size()[{size[1]}]", size[2]
    match = _IS_NUMBER.match(bare_guard(reason))
    return None if match is None else (guard_source(match["name"]), match["value"])


def bare_guard(reason: str) -> str:
    """The first guard of a reason, without the compile id before it, and a hint and the line of code behind
    it."""
    guard = _ID.sub("", reason.strip().partition("\n")[0]).partition(_CODE)[0].strip()
    return _PARAMETER.sub("", guard)


def of_parameter(reason: str) -> bool:
    """Whether torch says that it fixes the sizes of what the first guard is of, as that is a parameter
    (torch/_dynamo/utils.py: tensor_always_has_static_shape)."""
    return _PARAMETER.search(reason.strip().partition("\n")[0]) is not None


def of_compilation(reason: str) -> str:
    """`0/1`: the graph whose guard failed, where a reason has it."""
    match = _ID.match(reason.strip())
    return match["id"] if match is not None else ""


def guard_text(reason: str) -> str:
    """`x's first size changed from 3 to 8`; any other guard as torch writes it."""
    text = bare_guard(reason)
    if (match := _AT_INDEX.match(text)) is not None:
        index = int(match["index"])
        nth = _NTH[index] if index < len(_NTH) else f"{index + 1}th"
        what = f"{nth} {match['what']}"
    elif len(text) <= _LONGEST and (match := _OF_WHOLE.match(text)) is not None:
        what = _WHAT.get(match["what"], match["what"])
    else:
        return text
    name = guard_source(match["name"])
    if where := made_elsewhere(reason):
        return f"{name} was made {where}"
    return f"{name}'s {what} changed from {match['old']} to {match['new']}"
