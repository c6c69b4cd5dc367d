"""The values in inductor's IR files: dependencies, layouts, users, sizes.

Each function turns one printed value into a model object and is memoised by the text, since
the same values are printed again and again: at a leaf node, at each group that holds it, before
and after fusion. None of them raises; a text in a form that is not known gives None, or an object
that keeps the text.
"""

from __future__ import annotations

import re
from functools import lru_cache

from inspector.model.schedule import BufferUser, Dependency, Layout
from inspector.model.source import Size, parse_size

from .brackets import split_commas

Sizes = tuple[Size, ...]
Ranges = tuple[tuple[str, Size], ...]

_CACHE = 1 << 14

# MemoryDep('buf0', 64*c0 + c1, {c0: 128, c1: s50}, atomic_add)
_MEMORY_DEP = re.compile(r"MemoryDep\('([^']*)', ([^{}]*), \{([^{}]*)\}(?:, (\w+))?\)")

# StarDep(name='buf0', mode='atomic_add')
_STAR_DEP = re.compile(r"StarDep\(name='([^']*)',\s+mode=(?:None|'([^']*)')\)")

# WeakDep(name='buf3', mutating_buf='buf7', is_fake=True)      (torch 2.4 and 2.6 write no is_fake)
_WEAK_DEP = re.compile(r"WeakDep\(name='([^']*)',\s+mutating_buf='([^']*)'(?:,\s+is_fake=\w+)?\)")

# NewDep('buf0', ...     or     NewDep(name='buf0', ...
_ANY_DEP = re.compile(r"\w+\((?:name=)?'([^']*)'")

# The comma and blanks in:  MemoryDep('a', c0, {c0: 2}), StarDep(name='b', mode=None)
_NEXT_DEP = re.compile(r",\s+(?=\w+\((?:name=)?')")

# NodeUser(node=SchedulerNode(name='op3'), can_inplace=False, is_weak=False)
# NodeUser(node=FusedSchedulerNode(nodes=op1_op2), can_inplace=...)     NodeUser(node=OUTPUT, ...)
_USER = re.compile(
    r"NodeUser\(node=(?:\w+\((?:name='([^']*)'|nodes=([^()]*))\)|(\w+)), "
    r"can_inplace=(True|False), is_weak=(True|False)\)"
)

# The comma and blanks in:  NodeUser(...), NodeUser(...)
_NEXT_USER = re.compile(r",\s+(?=NodeUser\()")

_LONGEST_LAYOUT = 4_000
"""Letters of a layout that is read: brackets within brackets take more than quadratic time."""
# FixedLayout('cuda:0', torch.float32, size=[4, s77*64], stride=[s77*64, 1], offset=8, is_pinned=True)
_TENSOR_LAYOUT = re.compile(
    r"(\w+)\('([^']*)', torch\.(\w+), size=[\[(](.*)[\])], stride=[\[(](.*)[\])]"
    r"(?:, offset=(.*?))?(?:, is_pinned=\w+)?\)"
)

# NoneLayout(device=device(type='cuda', index=0), size=[0], stride=[0])    MultiOutputLayout(device=None)
_BARE_LAYOUT = re.compile(
    r"(\w+)\(device=(?:device\(type='(\w+)'(?:,\s+index=(\d+))?\)|None)"
    r"(?:,\s+size=\[([^\]]*)\],\s+stride=\[([^\]]*)\])?\)"
)

# <torch._inductor.ir.NoneLayout object at 0x7f5c>      (a class without a repr of its own)
_PLAIN_OBJECT = re.compile(r"<(?:[\w.]+\.)?(\w+) object at 0x[0-9a-f]+>")

# ([128, 64], [])      ((128, 64), ())      ((128,), (s50,))
_SIZE_PAIR = re.compile(r"\((\[.*\]|\(.*\)), (\[.*\]|\(.*\))\)")

# 'buf7'
_QUOTED = re.compile(r"'([^']*)'")


def parse_sizes(text: str) -> Sizes:
    """``64, s77*64`` as sizes; empty text gives ()."""
    return tuple(map(parse_size, split_commas(text)))


@lru_cache(_CACHE)
def parse_ranges(text: str) -> Ranges:
    """``c0: 128, c1: s50`` (what stands between the braces) as (variable, extent) pairs."""
    pairs = (item.partition(": ") for item in split_commas(text))
    return tuple((name, parse_size(extent)) for name, _, extent in pairs)


@lru_cache(_CACHE)
def parse_size_pair(text: str) -> tuple[Sizes, Sizes] | None:
    """``([128, 64], [])`` as (loop sizes, reduction sizes); None in any other form."""
    match = _SIZE_PAIR.fullmatch(text) if len(text) <= _LONGEST_LAYOUT else None
    if match is None or len(split_commas(text[1:-1])) != 2:
        return None
    return parse_sizes(match[1][1:-1]), parse_sizes(match[2][1:-1])


@lru_cache(_CACHE)
def parse_dependency(text: str) -> Dependency:
    """One ``MemoryDep(..)``, ``StarDep(..)`` or ``WeakDep(..)`` of torch/_inductor/dependencies.py.

    A class or a form that is not known gives kind ``other`` with the buffer's name where one can
    be seen, else "".
    """
    if match := _MEMORY_DEP.fullmatch(text):
        name, index, ranges, mode = match.groups()
        return Dependency("memory", name, text, index, parse_ranges(ranges), None if mode == "None" else mode)
    if match := _STAR_DEP.fullmatch(text):
        return Dependency("star", match[1], text, mode=match[2])
    if match := _WEAK_DEP.fullmatch(text):
        return Dependency("weak", match[1], text)
    match = _ANY_DEP.match(text)
    return Dependency("other", match[1] if match else "", text)


def is_whole(dependency: Dependency) -> bool:
    """Whether the dependency's text was read to its end: false where it is cut or garbled."""
    return dependency.kind != "other" or (dependency.buffer != "" and dependency.text.endswith(")"))


def list_items(value: str) -> str | None:
    """What stands between the square brackets of a printed list, None where they are missing."""
    return value[1:-1].strip() if value.startswith("[") and value.endswith("]") else None


def parse_dependencies(value: str) -> tuple[tuple[Dependency, ...], bool]:
    """A printed list of dependencies, and whether all of it was understood.

    A list that was cut keeps the dependencies that are whole.
    """
    items = list_items(value)
    if items == "":
        return (), True
    texts = _NEXT_DEP.split(value.lstrip("[ ") if items is None else items)
    dependencies = tuple(map(parse_dependency, texts))
    if items is not None and all(map(is_whole, dependencies)):
        return dependencies, True
    return tuple(filter(is_whole, dependencies)), False


@lru_cache(_CACHE)
def parse_user(text: str) -> BufferUser | None:
    """One ``NodeUser(..)`` of torch/_inductor/scheduler.py; None in any other form."""
    match = _USER.fullmatch(text)
    if match is None:
        return None
    node = match[1] or match[2] or match[3]
    return BufferUser(node, match[4] == "True", match[5] == "True")


def parse_users(value: str) -> tuple[tuple[BufferUser, ...], bool]:
    """A printed list of users, and whether all of it was understood; whole ones are kept."""
    items = list_items(value)
    if items == "":
        return (), True
    texts = _NEXT_USER.split((value.lstrip("[") if items is None else items).strip(" \n,"))
    users = tuple(map(parse_user, texts))
    known = tuple(user for user in users if user is not None)
    return known, items is not None and len(known) == len(users)


@lru_cache(_CACHE)
def parse_layout(text: str) -> Layout | None:
    """A layout as torch/_inductor/ir.py prints it; dtype without ``torch.``, offset in elements.

    Classes without sizes give `size` None. None where the text is no whole layout.
    """
    if len(text) <= _LONGEST_LAYOUT and (match := _TENSOR_LAYOUT.fullmatch(text)):
        kind, device, dtype, size, stride, offset = match.groups()
        start = parse_size(offset) if offset else 0
        return Layout(kind, text, device, dtype, parse_sizes(size), parse_sizes(stride), start)
    if match := _BARE_LAYOUT.fullmatch(text):
        kind, device, index, size, stride = match.groups()
        place = f"{device}:{index}" if index else device
        if size is None:
            return Layout(kind, text, place)
        return Layout(kind, text, place, None, parse_sizes(size), parse_sizes(stride))
    if match := _PLAIN_OBJECT.fullmatch(text):
        return Layout(match[1], text)
    kind, bracket, _ = text.partition("(")
    if bracket and kind.isidentifier() and text.endswith(")"):
        return Layout(kind, text)
    return None


@lru_cache(_CACHE)
def parse_names(text: str) -> tuple[str, ...] | None:
    """``['buf7', 'buf8']`` (or a tuple, or a set) as names; None where the text is not whole."""
    whole = text[:1] in "[({O" and text[-1:] in "])}"
    return tuple(_QUOTED.findall(text)) if whole else None
