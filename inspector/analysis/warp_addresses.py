"""The addresses that the first warp of a kernel asks for: PTX's integers worked out for its 32 lanes.

What an index is made of (``%tid.x``, shifts, masks, sums) is known before anything runs; sizes that are
arguments and numbers that were loaded are not, and what depends on them is left out. From the addresses
follow the memory sectors that one access of a warp touches, and how often shared memory must serve it because
lanes want different words of the same bank (CUDA C++ Programming Guide, Device Memory Accesses).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from inspector.model.lowering import Stage

from .stage_facts import Space

_LANES = range(32)
_FEW = 4
"""Rounds or sectors."""
SECTOR, _WORD, _BANKS = 32, 4, 32
Values = tuple[int, ...]
"""One number for each lane."""
_ZERO: Values = (0,) * 32

# 	@%p1 ld.global.v4.b32 { %r1, %r2 }, [ %rd1 + 0 ], %rd2;
_LINE = re.compile(r"\s*(?:@(!?)(%\w+)\s+)?([a-z]\w*(?:(?:\.|::)\w+)*)\s+(.*?);")
_OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
_ADDRESS = re.compile(r"\[\s*([%\w.]+)\s*(?:\+\s*(-?\d+)\s*)?\]")
_MOST_SOURCES = 4
"""Of an instruction with one integer for a result: ``lop3`` and ``shfl.sync`` take as many (PTX ISA)."""
_INTEGER = re.compile(r"-?(?:0x(?P<hexadecimal>[0-9a-fA-F]{1,16})|0(?P<octal>[0-7]{1,22})|0|[1-9]\d{0,19})")
"""Of 64 bits (PTX ISA, Integer Constants: a zero in front makes an octal one)."""
_MATRIX = re.compile(r"(?:ld|st)matrix\..*\.x(\d)")
_VECTOR = re.compile(r"\.v(\d)")
_BITS = re.compile(r"\.[a-z]+(\d+)$")


class Touched(NamedTuple):
    """One access of a warp at a line of PTX, from 1: `size` bytes at the address of each lane that takes
    part, None for others."""

    line: int
    space: Space
    writes: bool
    starts: tuple[int | None, ...]
    size: int

    @property
    def own(self) -> list[int]:
        return [start for start in self.starts if start is not None]

    @property
    def bytes(self) -> set[int]:
        return {byte for start in set(self.own) for byte in range(start, start + self.size)}

    @property
    def sectors(self) -> set[int]:
        """Of 32 bytes, that it touches in global memory."""
        return {byte // SECTOR for byte in self.bytes}

    @property
    def rounds(self) -> int:
        """In which the banks of shared memory serve it: eight lanes at a time for 16 bytes each, sixteen for
        8, and in each the most words that are wanted of one bank."""
        together = max(8, min(32, _BANKS * _WORD // max(self.size, _WORD)))
        parts = (self.starts[first : first + together] for first in range(0, len(self.starts), together))
        return sum(_most_of_a_bank(part, self.size) for part in parts)

    @property
    def least(self) -> int:
        """Rounds for its words if they lay side by side."""
        return -(-len({byte // _WORD for byte in self.bytes}) // _BANKS)


def worth(taken: int, least: int) -> bool:
    """Whether sectors or rounds are more than what a block's last sum over its warps takes everywhere."""
    return taken >= 2 * least and taken - least >= _FEW


def touched(stage: Stage) -> Iterator[Touched]:
    """Of every access in PTX whose addresses are known."""
    values: dict[str, Values | None] = {"global_smem": _ZERO, "%ctaid.x": _ZERO, "%tid.x": tuple(_LANES)}
    values |= dict.fromkeys(("%ctaid.y", "%ctaid.z", "%tid.y", "%tid.z"), _ZERO)
    for number, text in enumerate(stage.lines, 1):
        match = _LINE.match(text) if ";" in text else None
        if match is None:
            continue
        negated, guard, opcode, rest = match.groups()
        operands = [each.strip() for each in _OPERAND.findall(rest)]
        mask = _active(values.get(guard), bool(negated)) if guard else (True,) * 32
        moves = opcode.startswith(("ld.", "st.", "ldmatrix.", "stmatrix."))
        if moves and (seen := _access(number, opcode, operands, values, mask)) is not None:
            yield seen
        if opcode.startswith(("st.", "stmatrix.", "bra", "ret", "bar", "red")) or not operands:
            continue
        _assign(values, opcode, operands, mask if guard else None)


def _active(predicate: Values | None, negated: bool) -> Sequence[bool]:
    """Lanes that a guard lets through; all of them where nothing is known of it."""
    return [bool(each) != negated for each in predicate] if predicate is not None else (True,) * 32


def _assign(
    values: dict[str, Values | None], opcode: str, operands: Sequence[str], mask: Sequence[bool] | None
) -> None:
    target, *sources = operands
    names = re.findall(r"%\w+", target)
    if len(names) != 1:
        values.update(dict.fromkeys(names))
        return
    few = len(sources) <= _MOST_SOURCES
    found = _result(opcode, [_value(each, values) for each in sources]) if few else None
    if found is not None and mask is not None and not all(mask):
        before = values.get(names[0])
        found = (
            tuple(new if on else old for new, old, on in zip(found, before, mask, strict=True))
            if before is not None
            else None
        )
    values[names[0]] = found


def _value(operand: str, values: Mapping[str, Values | None]) -> Values | None:
    if (match := _INTEGER.fullmatch(operand)) is None:
        return values.get(operand)
    base = {"hexadecimal": 16, "octal": 8}.get(match.lastgroup or "", 10)
    return (int(operand, base),) * 32


_SIMPLE: Mapping[str, Callable[..., int]] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "not": lambda a: ~a,
    "neg": lambda a: -a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "shl": lambda a, b: a << b if b < 64 else 0,
    "shr": lambda a, b: a >> min(b, 63),
    "mul": lambda a, b: a * b,
    "mad": lambda a, b, c: a * b + c,
    "min": min,
    "max": max,
    "mov": lambda a: a,
    "cvt": lambda a: a,
    "cvta": lambda a: a,
    "selp": lambda a, b, p: a if p else b,
    "div": lambda a, b: int(a / b) if b else 0,
    "rem": lambda a, b: a - b * int(a / b) if b else 0,
}
_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def _result(opcode: str, given: Sequence[Values | None]) -> Values | None:
    """None for what is not known, and for what is no integer."""
    kind, *modifiers = opcode.split(".")
    if kind == "ld" and modifiers[:1] == ["param"]:
        # A pointer begins at a multiple of 256 as far as anybody knows; a size is not known.
        return _ZERO if modifiers[-1].endswith("64") else None
    last = modifiers[-1] if modifiers else ""
    if any(each is None for each in given) or last.startswith(("f", "bf")):
        return None
    known = [each for each in given if each is not None]
    signed = last.startswith("s")
    bits = int(match[1]) if (match := re.search(r"(?<!\d)(\d+)$", last)) is not None else 1
    if kind == "cvt" and (len(modifiers) < 2 or modifiers[-2].startswith(("f", "bf", "r"))):
        return None
    if kind == "setp":
        compare = _COMPARED.get(
            modifiers[0].removesuffix("u") if modifiers[0] in ("ltu", "gtu") else modifiers[0]
        )
        return _each(lambda a, b: int(compare(a, b)), known, bits, signed) if compare else None
    if kind in ("bfe", "shf", "shfl", "lop3"):
        return _special(kind, modifiers, known, signed)
    function = _SIMPLE.get(kind)
    if function is None or "hi" in modifiers or "cc" in modifiers:
        return None
    if kind == "selp":
        return tuple(a if p else b for a, b, p in zip(*known, strict=True)) if len(known) == 3 else None
    result = _each(function, known, bits, signed)
    wide = (
        64 if "wide" in modifiers else int(re.sub(r"\D", "", modifiers[-2]) or 64) if kind == "cvt" else bits
    )
    return tuple(each & ((1 << wide) - 1) for each in result) if result is not None else None


def _each(function: Callable[..., int], known: Sequence[Values], bits: int, signed: bool) -> Values | None:
    """A function of the operands as numbers of that many bits; of a third (mad.wide) all of it."""
    rows = [
        tuple(_read(each, bits, signed) for each in row) if place < 2 else row
        for place, row in enumerate(known)
    ]
    try:
        return tuple(function(*each) for each in zip(*rows, strict=True))
    except (TypeError, ValueError, OverflowError):
        return None


def _read(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _special(kind: str, modifiers: Sequence[str], known: Sequence[Values], signed: bool) -> Values | None:
    if kind == "shfl":
        # The number of a warp, from its first lane for all.
        first = known[0][0] if len(known) > 1 and "idx" in modifiers and not any(known[1]) else None
        return (first,) * 32 if first is not None else None
    if kind == "lop3" and len(known) == 4:
        return tuple(_lop3(*each) for each in zip(*known, strict=True))
    if kind == "bfe" and len(known) == 3:
        rows = zip(*known, strict=True)
        return tuple(
            _read((a & 0xFFFFFFFF) >> start, length or 1, signed) & 0xFFFFFFFF for a, start, length in rows
        )
    if kind == "shf" and modifiers[:2] == ["l", "wrap"] and len(known) == 3:
        both = ((high & 0xFFFFFFFF) << 32 | low & 0xFFFFFFFF for low, high in zip(*known[:2], strict=True))
        return tuple((pair << (by & 31)) >> 32 & 0xFFFFFFFF for pair, by in zip(both, known[2], strict=True))
    return None


def _lop3(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for row in range(8):
        if table >> row & 1:
            terms = ((a, row & 4), (b, row & 2), (c, row & 1))
            part = 0xFFFFFFFF
            for value, on in terms:
                part &= value if on else ~value
            result |= part
    return result & 0xFFFFFFFF


def _access(
    number: int,
    opcode: str,
    operands: Sequence[str],
    values: Mapping[str, Values | None],
    mask: Sequence[bool],
) -> Touched | None:
    place = next((match for each in operands if (match := _ADDRESS.match(each)) is not None), None)
    words = re.split(r"\.|::", opcode)
    writes = opcode.startswith("st")
    matrix = _MATRIX.match(opcode)
    space: Space | None = "shared" if matrix or "shared" in words else "global" if "global" in words else None
    base = values.get(place[1]) if place is not None else None
    if place is None or base is None or space is None or "param" in words:
        return None
    bits = 128 if matrix else int(match[1]) if (match := _BITS.search(opcode)) is not None else 0
    lanes = _VECTOR.search(opcode)
    size = bits // 8 * (int(lanes[1]) if lanes is not None else 1)
    offset = int(place[2] or 0)
    # Of a matrix each row of 16 bytes has its address in one lane, eight lanes for each matrix.
    own = range(8 * int(matrix[1])) if matrix is not None else _LANES
    starts = tuple(base[lane] + offset if mask[lane] else None for lane in own)
    return Touched(number, space, writes, starts, size) if size and any(mask[lane] for lane in own) else None


def _most_of_a_bank(starts: Sequence[int | None], size: int) -> int:
    banks: defaultdict[int, set[int]] = defaultdict(set)
    for start in starts:
        for word in range(start // _WORD, (start + size - 1) // _WORD + 1) if start is not None else ():
            banks[word % _BANKS].add(word)
    return max(map(len, banks.values()), default=0)
