"""Constants in the stages of a kernel, and the instructions that compute with them: a witness of the map from
instructions to lines of the model that does not come from the map. `lower.py` counts with it."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from inspector.analysis.lowering import LoweredKernel
from inspector.model.lowering import Stage
from inspector.readers.stages.files import own_file

Key = tuple[str, int]
"""``("float", bits of a float32)`` without its sign, or ``("int", value)``."""
_MOST_HOPS = 4
# %cst_3 = arith.constant dense<1.328125> : tensor<1x2048xf32, #blocked>; arith.constant 7 : i32
_MLIR = re.compile(r"(%\w+) = arith\.constant (?:dense<)?([-+.\w]+)>? : (\S+)")
# float 1.328125e+00, float f0x3F317218, float 0x3FF5400000000000, i64 12345
_LLVM = re.compile(r"\b(?:float (f0x[0-9A-F]{8}|0x[0-9A-F]{16}|-?\d+\.\d+(?:e[+-]\d+)?)|i\d+ (-?\d+))")
# 0f3FAA0000; 1103515245
_PTX = re.compile(r"\b0f([0-9A-F]{8})\b|(?<![\w.%$])(-?\d+)(?![\w.])")
# FMUL R5, R9, 2.53125; MOV R15, 0x3d39bf78; HFMA2.MMA R3, -RZ, RZ, 1.916015625, 0
_SASS = re.compile(r"(?<![\w.])-?(?:(\d+\.\d+(?:e[+-]?\d+)?)|0x([0-9a-f]+))(?![\w.\]])")
_HALVES = re.compile(r"HFMA2\S* (R\d+), -RZ, RZ, ([-.\de+]+), ([-.\de+]+)")
# vmulps 0x1b2c(%rip),%zmm0,%zmm1        # 4100 <_fini+0x4>       mov $0x41c64e6d,%eax
_RIP, _IMMEDIATE = re.compile(r"# ([0-9a-f]+)\b"), re.compile(r"\$(-?0x[0-9a-f]+)")
_SECTION = re.compile(r"^ ([0-9a-f]+) ((?:[0-9a-f]{2,8} ){1,4})", re.M)
_OWN = re.compile(r"\s*(?:/\*[0-9a-f]{4,}\*/|[0-9a-f]+:\t)?\s*(?:@!?U?%?\w+\s+)?(\S+)\s+([^;#]*)")
_MOVES = {
    "ptx": re.compile(r"mov\.|cvt\.s64|cvt\.u64"),
    "sass": re.compile(r"U?MOV|IMAD\.MOV|IMAD\.U32|HFMA2|R2UR"),
    "asm": re.compile(r"v?mov|vp?broadcast|vpinsr|kmov"),
}
_NO_RESULT = re.compile(r"st\.|ST|BRA|BAR|RED|v?u?comis|cmp|test|j\w+|call|push")
_FAMILY = re.compile(r"%[xyz]mm(\d+)")
_FUSED = re.compile(r"\bfma|\bU?[FHD]FMA|fmadd|fmsub|LOP3|vpternlog", re.I)


def float_key(value: float) -> Key:
    return "float", struct.unpack(">I", struct.pack(">f", abs(value)))[0]


def literals(stage: str, text: str, data: Callable[[int], bytes]) -> Iterator[Key]:
    """What an instruction's text has as numbers; `data`: bytes of the library at an address."""
    if stage == "llir":
        for number, whole in _LLVM.findall(text):
            if whole:
                yield "int", int(whole)
            elif number.startswith("f0x"):
                yield "float", int(number[3:], 16) & 0x7FFFFFFF
            elif number.startswith("0x"):
                yield float_key(struct.unpack(">d", bytes.fromhex(number[2:]))[0])
            else:
                yield float_key(float(number))
    elif stage == "ptx":
        for bits, whole in _PTX.findall(text):
            yield ("float", int(bits, 16) & 0x7FFFFFFF) if bits else ("int", int(whole))
    elif stage == "sass":
        if (pair := _HALVES.search(text)) is not None:
            yield (
                "float",
                int.from_bytes(struct.pack(">ee", *map(float, pair.groups()[1:])), "big") & 0x7FFFFFFF,
            )
            return
        for number, bits in _SASS.findall(text):
            if number:
                yield float_key(float(number))
            else:
                yield from (("int", int(bits, 16)), ("float", int(bits, 16) & 0x7FFFFFFF))
    elif stage == "asm":
        for bits in _IMMEDIATE.findall(text):
            yield from (("int", int(bits, 16)), ("float", int(bits, 16) & 0x7FFFFFFF))
        for place in _RIP.findall(text) if "(%rip)" in text else ():
            found = data(int(place, 16))
            if len(found) >= 4:
                yield "float", int.from_bytes(found[:4], "little") & 0x7FFFFFFF
                yield "int", int.from_bytes(found[:8], "little")
                yield "int", int.from_bytes(found[:4], "little")


def uses(stage: Stage, data: Callable[[int], bytes] = lambda _: b"") -> Iterator[tuple[Key, int]]:
    """(number, line from 0) of every instruction that computes with one: where it stands, or where the
    register that it was moved to is read."""
    if stage.name in ("ttir", "ttgir"):
        named: dict[str, Key] = {}
        for line, place in zip(stage.lines, stage.places, strict=True):
            match = _MLIR.search(line) if place is not None else None
            if match is not None and match[2] not in ("true", "false"):
                real = re.search(r"(?:^|x)b?f\d+", match[3]) is not None and "0x" not in match[2]
                named[match[1]] = float_key(float(match[2])) if real else ("int", int(match[2], 0))
        for row, line in enumerate(stage.lines):
            if stage.places[row] is not None and "arith.constant" not in line:
                yield from ((named[name], row) for name in re.findall(r"%\w+", line) if name in named)
        return
    for row, (line, place) in enumerate(zip(stage.lines, stage.places, strict=True)):
        for key in literals(stage.name, line, data) if place is not None else ():
            yield from ((key, use) for use in _readers(stage, row, _MOST_HOPS))


def _readers(stage: Stage, row: int, hops: int) -> Iterator[int]:
    moves = _MOVES.get(stage.name)
    opcode, operands = _split(stage.lines[row])
    if moves is None or not moves.match(opcode) or not hops or not operands:
        yield row
        return
    target = operands[-1] if stage.name == "asm" else operands[0]
    for later in range(row + 1, len(stage.lines)):
        if stage.places[later] is None:
            if stage.lines[later].endswith(">:"):
                return
            continue
        other, words = _split(stage.lines[later])
        if not words:
            continue
        own = words[-1] if stage.name == "asm" else words[0]
        rest = words[:-1] if stage.name == "asm" else words[1:]
        if _NO_RESULT.match(other) or (stage.name == "asm" and len(words) == 1):
            own, rest = "", words
        if any(
            target == word or (target[0] in "R%U" and word.startswith((target + ".", target + "]")))
            for word in rest
        ):
            yield from _readers(stage, later, hops - 1)
        if own == target:
            return


def _split(line: str) -> tuple[str, list[str]]:
    """The opcode and the operands, vector registers by their numbers alone."""
    match = _OWN.match(line)
    if match is None:
        return "", []
    text = _FAMILY.sub(r"%mm\1", match[2]).replace("|", " ")
    words = [word.strip().lstrip("-!~").removesuffix(".reuse") for word in re.split(r",(?![^(]*\))", text)]
    return match[1], [
        re.sub(r"^%[er](\w\w)$", r"%r\1", re.sub(r"\{[^}]*\}", "", word).strip()) for word in words if word
    ]


def library_data(library: Path, dump: str) -> Callable[[int], bytes]:
    """`dump`: what ``objdump -s -j .rodata`` prints of the library."""
    held: dict[int, bytes] = {}
    for address, words in _SECTION.findall(dump):
        for index, byte in enumerate(bytes.fromhex(words.replace(" ", ""))):
            held[int(address, 16) + index] = bytes((byte,))
    return lambda place: b"".join(held.get(place + index, b"") for index in range(8))


def judged(
    item: LoweredKernel,
    stage: Stage,
    truth: Mapping[Key, frozenset[int]],
    owners: Mapping[Key, frozenset[str]],
    nodes: Mapping[str, str],
    data: Callable[[int], bytes] = lambda _: b"",
) -> Iterator[tuple[Key, str, int]]:
    """(number, word, line from 0): ``alone`` where the map says the one right line of the model, ``among``
    with others, ``fused`` at the sum that takes the number's product, ``open`` where it says none, ``wrong``.
    `truth`: number -> its lines; `owners`: the FX nodes that have it; `nodes`: FX node -> its text."""
    for key, row in uses(stage, data):
        right = truth.get(key)
        origin = item.origin(stage.places[row]) if right is not None else None
        if right is None or origin is None:
            continue
        lines = {place.line for place in origin.sources}
        takes = any(owner in nodes.get(name, "") for name in origin.nodes for owner in owners.get(key, ()))
        word = (
            "open" if not lines
            else "alone" if lines <= right
            else "among" if lines & right
            else "fused" if takes and _FUSED.search(stage.lines[row])
            else "wrong"
        )  # fmt: skip
        yield key, word, row


_DBG = re.compile(r"!dbg !(\d+)")
_LOCATION = re.compile(r"!(\d+) = (?:distinct )?!DILocation\(line: (\d+).*?(?:inlinedAt: !(\d+))?\)")
_MARKS = {"ptx": ".loc", "sass": "//## File", "asm": ".cpp:"}
_NOWHERE = re.compile(r"\.loc\s+\d+ 0 ")
_ASSIGNED = re.compile(r"\s*(?:auto )?(\w+) = ")
# auto tmp13 = at::vec::Vectorized<float>(tmp12);
_CAST = re.compile(r"\s*auto (\w+) = [\w:]+<[\w:, ]+>\((\w+)\);")


def compilers_own(item: LoweredKernel, stage: Stage, row: int, key: Key) -> bool:
    """Whether it is the compiler that files an instruction under a line of the kernel's source that neither
    has the number nor a name that was given it: by the stage's text, read once more, and the source's."""
    texts = ["", "", *item.kernel.source.split("\n")]
    has = [key in set(_numbers(text)) for text in texts]
    names = {
        match[1] for text, own in zip(texts, has, strict=True) if own and (match := _ASSIGNED.match(text))
    }
    for _ in range(_MOST_HOPS):
        casts = (match.groups() for text in texts if (match := _CAST.match(text)) is not None)
        names |= {target for target, name in casts if name in names}
    line = _raw_line(stage, row, own_file(item.kernel))
    if line is None or line >= len(texts):
        return False
    return not line or (not has[line] and not names & set(re.findall(r"\w+", texts[line])))


def _raw_line(stage: Stage, row: int, file: str) -> int | None:
    """Of the kernel's file, as the stage's text has it; 0 where it says that there is none."""
    if stage.name == "llir":
        found = (match for each in stage.lines if (match := _LOCATION.match(each)) is not None)
        table = {match[1]: (int(match[2]), match[3]) for match in found}
        number = match[1] if (match := _DBG.search(stage.lines[row])) is not None else None
        line = None
        while number in table:
            line, number = table[number]
        return line
    mark = _MARKS.get(stage.name)
    above = (text for text in reversed(stage.lines[:row]) if mark is not None and mark in text)
    text = next(above, "")
    if stage.name == "ptx" and _NOWHERE.search(text):
        return 0
    lines = re.findall(rf'{re.escape(file)}(?:", line |:)(\d+)', text)
    return int(lines[-1]) if lines else None


def _numbers(text: str) -> Iterator[Key]:
    for number in re.findall(r"(?<![\w.%])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=L?(?![\w.]))", text):
        yield float_key(float(number))
        yield "int", int(float(number))


class Witness:
    """Counts by stage."""

    def __init__(self) -> None:
        self.words: dict[str, Counter[str]] = {}
        self.theirs: Counter[str] = Counter()
        self.seen: dict[str, set[Key]] = {}
        self.placed: dict[str, set[Key]] = {}

    def add(self, stage: str, key: Key, word: str, theirs: bool = False) -> None:
        """`theirs`: the compiler says so itself."""
        self.theirs[stage] += theirs
        self.words.setdefault(stage, Counter())[word] += 1
        self.seen.setdefault(stage, set()).add(key)
        if word in ("alone", "among", "fused"):
            self.placed.setdefault(stage, set()).add(key)

    def __str__(self) -> str:
        rows = []
        for stage, words in self.words.items():
            said = ", ".join(f"{words[word]} {word}" for word in ("alone", "among", "fused", "open", "wrong"))
            good = sum(words[word] for word in ("alone", "among", "fused")) / words.total()
            both = f"{len(self.placed.get(stage, ()))} of {len(self.seen[stage])} constants"
            rows.append(f"  {stage:6} {words.total():4} instructions: {said}: {good:.1%}; {both}")
            if missed := words["open"] + words["wrong"]:
                rows.append(
                    f"         {self.theirs[stage]} of {missed} open and wrong: filed so by the compiler"
                )
        return "\n".join(rows)
