"""What a stage of a kernel does, counted: instructions by what they are, widths of loads and stores, loops,
tensor cores, spills; and of TTGIR the layouts and the conversions between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.lowering import Stage

Space = Literal["global", "shared", "local"]


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction that loads or stores: `bits` for each thread, `line` counts from 1."""

    line: int
    space: Space
    writes: bool
    bits: int


@dataclass(frozen=True, slots=True)
class Loop:
    """Lines `first` to `last` of a stage that a branch goes back over."""

    first: int
    last: int
    instructions: int
    bits: int | None = None
    """On a CPU, of the widest vectors that it computes with; 0 for numbers one by one, -1 for neither."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A ``ttg.convert_layout`` of TTGIR; `bytes` of the tensor that goes from layout to layout."""

    line: int
    source: str
    target: str
    bytes: int | None


@dataclass(frozen=True, slots=True)
class StageFacts:
    """`mix`: instructions by kind. `tensor_cores`: the opcodes that use them."""

    instructions: int = 0
    mix: Mapping[str, int] = field(default_factory=dict)
    accesses: tuple[Access, ...] = ()
    loops: tuple[Loop, ...] = ()
    tensor_cores: Mapping[str, int] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    conversions: tuple[Conversion, ...] = ()

    def widths(self, space: Space, writes: bool) -> Mapping[int, int]:
        """Bits of a thread -> how many instructions, of one kind of access."""
        own = (access.bits for access in self.accesses if (access.space, access.writes) == (space, writes))
        return dict(sorted(Counter(own).items(), reverse=True))

    @property
    def innermost(self) -> tuple[Loop, ...]:
        """Loops that hold no other."""
        return tuple(
            loop
            for loop in self.loops
            if not any(
                loop.first <= other.first and other.last <= loop.last
                for other in self.loops
                if other is not loop
            )
        )

    def in_loop(self, line: int) -> bool:
        return any(loop.first <= line <= loop.last for loop in self.loops)


def facts_of(stage: Stage) -> StageFacts:
    """Of TTGIR, PTX, SASS and assembly; of another stage only the number of its instructions."""
    count = sum(place is not None for place in stage.places)
    if stage.name == "ttgir":
        return StageFacts(count, layouts=dict(_layouts(stage)), conversions=tuple(_conversions(stage)))
    if stage.name == "ptx":
        return StageFacts(count, accesses=tuple(_ptx_accesses(stage)), loops=tuple(_ptx_loops(stage)))
    if stage.name == "asm":
        return _assembly_facts(stage, count)
    if stage.name == "sass":
        return _sass_facts(stage, count)
    return StageFacts(count)


# -- TTGIR

# #blocked = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [1, 32], ...}>
_LAYOUT = re.compile(r"#(\w+) = (#ttg\.\w+<.*>)$")
#     %x = ttg.convert_layout %y : tensor<4x128xf32, #blocked> -> tensor<4x128xf32, #blocked1> loc(#loc12)
_CONVERT = re.compile(
    r"ttg\.convert_layout [^:]{0,200}: tensor<([^,]{1,200}), (#[^}>]{1,300}[}>]{0,8})>"
    r" -> tensor<[^,]{1,200}, (#[^}>]{1,300}[}>]{0,8})>(?: loc\(|$)"
)
_SLICED = re.compile(r"parent = #(\w+)")
_BITS = re.compile(r"(?:f|bf|i|fp)(\d+)|!tt\.ptr")


def _layouts(stage: Stage) -> Iterator[tuple[str, str]]:
    for line in stage.lines:
        if (match := _LAYOUT.match(line)) is not None:
            yield match[1], match[2]


def _conversions(stage: Stage) -> Iterator[Conversion]:
    for number, line in enumerate(stage.lines, 1):
        if (match := _CONVERT.search(line)) is not None:
            yield Conversion(number, _layout_name(match[2]), _layout_name(match[3]), _tensor_bytes(match[1]))


def _layout_name(text: str) -> str:
    """`blocked1`; `slice of blocked` for a dimension less."""
    sliced = _SLICED.search(text)
    return f"slice of {sliced[1]}" if sliced is not None else text.lstrip("#").partition(" ")[0]


def _tensor_bytes(text: str) -> int | None:
    """`4x128xf32` is 2048; a pointer has 8 bytes."""
    *sizes, element = text.split("x")
    match = _BITS.match(element)
    if match is None or not all(size.isdigit() for size in sizes):
        return None
    total = 64 if match[1] is None else int(match[1])
    for size in sizes:
        total *= int(size)
    return -(-total // 8)


# -- PTX

# 	@%p1 ld.global.L1::evict_first.L2::cache_hint.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ], %rd2;
_PTX_ACCESS = re.compile(
    r"\s*(?:@!?%\w+\s+)?(ld|st)\.(?:\w+\.)*?(global|shared|local)((?:[.:]+\w+)*)\.(?:[a-z]+)(\d+)\s"
)
_VECTOR = re.compile(r"\.v(\d)")
_LONGEST = 200
"""Letters of a line among which its operator ends: modifiers without end take more than linear time."""


def _ptx_accesses(stage: Stage) -> Iterator[Access]:
    for number, (line, place) in enumerate(zip(stage.lines, stage.places, strict=True), 1):
        if place is None or (match := _PTX_ACCESS.match(line, 0, _LONGEST)) is None:
            continue
        lanes = _VECTOR.search(match[3])
        space: Space = match[2]  # type: ignore[assignment]
        yield Access(number, space, match[1] == "st", int(match[4]) * (int(lanes[1]) if lanes else 1))


# $L__BB0_3:                              // =>This Inner Loop Header: Depth=1
_PTX_LABEL = re.compile(r"(\$\w+):")
# 	@%p15 bra 	$L__BB0_3;
_PTX_JUMP = re.compile(r"\s*(?:@!?%\w+\s+)?bra(?:\.uni)?\s+(\$\w+);")


def _ptx_loops(stage: Stage) -> Iterator[Loop]:
    """By branches back, as in SASS."""
    at: dict[str, int] = {}
    for number, line in enumerate(stage.lines, 1):
        if (label := _PTX_LABEL.match(line)) is not None:
            at[label[1]] = number
        elif (jump := _PTX_JUMP.match(line)) is not None and jump[1] in at:
            places = stage.places[at[jump[1]] - 1 : number]
            yield Loop(at[jump[1]], number, sum(place is not None for place in places))


# -- SASS

#         /*0010*/              @!P0 LDG.E.128 R8, desc[UR4][R2.64] ;
_SASS = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*)")
_LABEL = re.compile(r"(\.L_\w+):")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("tensor cores", re.compile(r"(?:[HIDBQO]G?MMA|UTC\w*MMA)")),
    ("global memory", re.compile(r"(?:LDG|STG|ATOMG?|RED|LDGSTS|UTMA|UBLKCP|LD$|ST$)")),
    ("shared memory", re.compile(r"(?:LDS|STS|ATOMS|UBLKRED|SYNCS)")),
    ("spills", re.compile(r"(?:LDL|STL)")),
    ("constants", re.compile(r"U?LDC")),
    ("shuffles", re.compile(r"(?:SHFL|VOTE|REDUX|MATCH)")),
    ("control", re.compile(r"(?:BR|EXIT|BS|BAR|CALL|RET|WARP|NOP|DEPBAR|ELECT|YIELD)")),
    ("exp, sqrt and such", re.compile(r"MUFU")),
    ("conversions", re.compile(r"(?:F2|I2|FRND)")),
    ("double precision", re.compile(r"D(?:ADD|MUL|FMA|SETP|MNMX)")),
    ("half precision", re.compile(r"H(?:ADD|MUL|FMA|SET|MNMX)")),
    ("floating point", re.compile(r"F(?:ADD|MUL|FMA|SET|SEL|MNMX|CHK|SWZADD)")),
    ("moves", re.compile(r"(?:U?MOV|S2U?R|CS2R|U?SEL|PRMT|R2UR|R2P|P2R|UR2UR)")),
    ("integers", re.compile(r"[IUVLPSB]\w*")),
)  # fmt: skip
_MEMORY: dict[str, tuple[Space, bool]] = {
    "LDG": ("global", False), "STG": ("global", True), "LDS": ("shared", False), "STS": ("shared", True),
    "LDL": ("local", False), "STL": ("local", True),
}  # fmt: skip
_WIDTHS = {"128": 128, "64": 64, "U16": 16, "S16": 16, "U8": 8, "S8": 8, "256": 256}


def _sass_facts(stage: Stage, count: int) -> StageFacts:
    mix: Counter[str] = Counter()
    tensor: Counter[str] = Counter()
    accesses: list[Access] = []
    labels: dict[str, int] = {}
    branches: list[tuple[int, str]] = []
    kinds: dict[str, str] = {}
    for number, (line, place) in enumerate(zip(stage.lines, stage.places, strict=True), 1):
        if (label := _LABEL.match(line.strip())) is not None:
            labels[label[1]] = number
        match = _SASS.match(line) if place is not None else None
        if match is None:
            continue
        opcode, *modifiers = match[1].split(".")
        if opcode not in kinds:
            kinds[opcode] = next((name for name, pattern in _KINDS if pattern.match(opcode)), "others")
        kind = kinds[opcode]
        mix[kind] += 1
        if kind == "tensor cores":
            tensor[".".join([opcode, *modifiers[:1]])] += 1
        if opcode in _MEMORY:
            bits = next((_WIDTHS[each] for each in modifiers if each in _WIDTHS), 32)
            accesses.append(Access(number, *_MEMORY[opcode], bits))
        if opcode == "BRA" and (target := _TARGET.search(match[2])) is not None:
            branches.append((number, target[1]))
    loops = []
    for number, name in branches:
        first = labels.get(name, number)
        if first < number:
            inside = sum(place is not None for place in stage.places[first - 1 : number])
            loops.append(Loop(first, number, inside))
    return StageFacts(count, dict(mix.most_common()), tuple(accesses), tuple(loops), dict(tensor))


# -- assembly of a C++ kernel

#    b9:	vmulps -0x180(%rbx),%zmm2,%zmm0
_ASSEMBLY = re.compile(r"\s+([0-9a-f]+):\t(?:lock |rep |notrack )*(\w+)\s*(.*)")
# jl     531 <kernel._omp_fn.0+0x531>
_JUMP = re.compile(r"([0-9a-f]+) <")
_REGISTER_BITS = (("zmm", 512), ("ymm", 256), ("xmm", 128))
# vaddss, vmovsd, cvtsi2ss: one number in a vector register
# and what is done to the bits of one number where there is no such instruction: vandps for its absolute value
_SCALAR = re.compile(
    r"v?(?:\w*?)(?:ss|sd|si2s[sd]\w*|s[sd]2u?si|sh)$|v?mov(?:[dq]|ap[sd])$|v?pxor$|v?(?:and|andn|or|xor|blendv)p[sd]$"
)


def _assembly_facts(stage: Stage, count: int) -> StageFacts:
    """Of x86's instructions, whose registers objdump writes with a ``%``; of others the number alone."""
    mix: Counter[str] = Counter()
    at: dict[str, int] = {}
    jumps: list[tuple[int, int]] = []
    bits: dict[int, int] = {}
    x86 = False
    for number, (line, place) in enumerate(zip(stage.lines, stage.places, strict=True), 1):
        if line.endswith(">:"):
            at.clear()
        match = _ASSEMBLY.match(line) if place is not None else None
        if match is None:
            continue
        address, opcode, operands = match.groups()
        x86 = x86 or "%" in operands
        at[address] = number
        bits[number] = _vector_bits(opcode, operands)
        mix[_WIDTH_NAMES[bits[number]]] += 1
        if opcode.startswith("j") and (target := _JUMP.match(operands)) is not None and target[1] in at:
            jumps.append((at[target[1]], number))
    if not x86:
        return StageFacts(count)
    return StageFacts(count, dict(mix.most_common()), loops=tuple(_cpu_loop(bits, *jump) for jump in jumps))


def _cpu_loop(bits: Mapping[int, int], first: int, last: int) -> Loop:
    inside = [size for line, size in bits.items() if first <= line <= last]
    return Loop(first, last, len(inside), max(inside, default=-1))


_WIDTH_NAMES = {512: "zmm", 256: "ymm", 128: "xmm", 0: "scalar floating point", -1: "others"}


def _vector_bits(opcode: str, operands: str) -> int:
    """Of the widest vector that an instruction computes with, 0 for one number in a vector register, -1 for
    what is none of either."""
    widest = next((size for name, size in _REGISTER_BITS if f"%{name}" in operands), -1)
    return 0 if widest == 128 and _SCALAR.match(opcode) else widest
