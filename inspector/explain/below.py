"""The instruction behind a finding, and the line of the model behind that, in the stages of its kernel."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from inspector.analysis.lowering import LoweredKernel, Origin
from inspector.analysis.ncu import ncu_text
from inspector.model.explain import Evidence, Finding
from inspector.model.lowering import Stage
from inspector.units import plural

from .case import Case
from .rule import source_evidence

_MOST_LAUNCHES = 8
"""How many are looked through: each may read a whole disassembly."""
_FEW_WARPS = 0.5
"""Of those that fit at most: fewer are worth a line beside a kernel that is slow."""
_Picked = tuple[Stage, Sequence[int], str]
"""Lines of a stage, from 1, and what they are."""
_Pick = Callable[[LoweredKernel], _Picked | None]

# DADD R4, R2, R6 ; F2F.F64.F32; vcvtps2pd %ymm0,%zmm1; vaddsd; cvt.f32.bf16 %r1, %rs1
_DOUBLES = re.compile(
    r"\bD(?:ADD|MUL|FMA)\b|F2F\.F64\.F32|\bv?(?:cvt[ps]s2[ps]d|(?:add|mul|sub|div|fmadd\d+)[ps]d)\b"
)
_WIDENED = re.compile(r"\bcvt\.(?:ftz\.)?f32\.b?f16\b|\bvcvtph2ps\b|\bvpmovzxwd\b")


def below(case: Case, finding: Finding) -> tuple[Evidence, ...]:
    """Of the launch for which a finding claims most what is known below its kernel: the instruction behind
    it, and what Nsight Compute measured."""
    if case.lowered is None:
        return ()
    items = [case.lowered(graph, call) for graph, call in _launches(case, finding)[:_MOST_LAUNCHES]]
    known = [item for item in items if item is not None]
    seen = next((item.ncu for item in known if item.ncu), ())
    told = (Evidence(seen[0].source, None, f"{seen[0].name}: {ncu_text(seen)}"),) if seen else ()
    return (*_instruction(case, finding, known), *_few_warps(finding, known), *told)


def _few_warps(finding: Finding, items: Iterable[LoweredKernel]) -> Iterator[Evidence]:
    """Of a kernel that is slow how many warps fit, where they are few. No cause by itself: a kernel may keep
    memory or arithmetic busy with a few."""
    for item in items if finding.rule == "slow_kernel" else ():
        fits, stage = item.occupancy, item.stage("sass") or item.stage("ptx")
        if fits is not None and stage is not None and fits.share < _FEW_WARPS:
            yield Evidence(stage.path, None, f"{item.kernel.name}: {fits.told}")
            return


def _instruction(case: Case, finding: Finding, items: Iterable[LoweredKernel]) -> tuple[Evidence, ...]:
    """Where its stages lie in the run: the first of the instructions, with how many there are, and the line
    of the model that most of them are from."""
    pick = _PICKS.get(finding.rule)
    for item in items if pick is not None else ():
        assert pick is not None
        picked = pick(item) if item.stages else None
        if picked is None:
            continue
        stage, lines, what = picked
        origins: dict[Origin, list[int]] = defaultdict(list)
        for line in lines:
            origin = item.origin(stage.places[line - 1])
            if origin is not None:
                origins[origin].append(line)
        if not origins:
            continue
        origin = max(origins, key=lambda each: (bool(each.sources), len(origins[each])))
        place = f", of {origin.sources[0].short}" if origin.sources else ""
        many = f"{what}{place}" if len(origins) == 1 else f"{what}; {len(origins[origin])} here{place}"
        made = ", as lowered on request" if item.folder is not None and item.folder.made else ""
        first = min(origins[origin])
        told = Evidence(stage.path, first, f"{' '.join(stage.lines[first - 1].split())}  ({many}{made})")
        known = {(each.path, each.line) for each in finding.evidence}
        model = (source_evidence(case, source) for source in origin.sources[:1])
        return (told, *(each for each in model if (each.path, each.line) not in known))
    return ()


def _launches(case: Case, finding: Finding) -> list[tuple[str, int]]:
    """Those that it claims of, most first. What widens inputs of a library's call is in other launches."""
    own: dict[tuple[str, int], float] = {}
    blocks = case.sides.joined.blocks if case.sides is not None else ()
    for claim in finding.claims:
        if claim.graph is not None and claim.call is not None:
            own[claim.graph, claim.call] = claim.ms[1]
        elif claim.block is not None and claim.block < len(blocks):
            own.update(dict.fromkeys(blocks[claim.block].launches, claim.ms[1]))
    if finding.rule not in _ELSEWHERE:
        return sorted(own, key=lambda place: -own[place])
    lines = {(each.path.rsplit("/", 1)[-1], each.line) for each in finding.evidence}
    for graph, launch in case.launches():
        if any((each.path.rsplit("/", 1)[-1], each.line) in lines for each in launch.sources):
            own.setdefault((graph.name, launch.call.index), 0.0)
    return sorted(own, key=lambda place: -own[place])


def _matching(item: LoweredKernel, pattern: re.Pattern[str], what: str, *names: str) -> _Picked | None:
    """Instructions of the last of these stages that there is."""
    stage = next(filter(None, map(item.stage, names)), None)
    if stage is None:
        return None
    pairs = zip(stage.lines, stage.places, strict=True)
    lines = [row for row, (text, place) in enumerate(pairs, 1) if place is not None and pattern.search(text)]
    return (stage, lines, f"{plural(len(lines), 'instruction')} {what}") if lines else None


def _spills(item: LoweredKernel) -> _Picked | None:
    stage, facts = item.stage("sass"), item.facts("sass")
    if stage is None or facts is None:
        return None
    lines = [access.line for access in facts.accesses if access.space == "local"]
    return (stage, lines, f"{plural(len(lines), 'instruction')} for spilled registers") if lines else None


def _scalar_loop(item: LoweredKernel) -> _Picked | None:
    stage, facts = item.stage("asm"), item.facts("asm")
    loops = [loop for loop in facts.innermost if loop.bits == 0] if facts is not None else []
    if stage is None or not loops:
        return None
    loop = max(loops, key=lambda each: each.instructions)
    lines = [line for line in range(loop.first, loop.last + 1) if stage.places[line - 1] is not None]
    return stage, lines, f"a loop of {plural(loop.instructions, 'instruction')}, one number at a time"


def _accesses(item: LoweredKernel) -> _Picked | None:
    """Narrow accesses of global memory that no variable moves by one element."""
    stage = item.stage("sass") or item.stage("ptx")
    narrow = next((each for each in item.narrow() if not each.unit), None)
    if stage is None or narrow is None:
        return None
    facts = item.facts(stage.name)
    rows = [
        access.line
        for access in (facts.accesses if facts is not None else ())
        if access.space == "global"
        and access.writes == narrow.writes
        and (origin := item.origin(stage.places[access.line - 1])) is not None
        and origin.line == narrow.origin.line
    ]
    verb = "stores" if narrow.writes else "loads"
    steps = ", ".join(f"{name} moves its index by {step}" for name, step in narrow.steps.items())
    return stage, rows, f"{len(rows)} {verb} of {narrow.bits} bits a thread: {steps}"


def _spread(item: LoweredKernel) -> _Picked | None:
    """Accesses of global memory whose lanes lie far apart."""
    stage = item.stage("ptx")
    spread = next((each for each in item.spread() if each.space == "global" and each.worth), None)
    return (stage, (spread.line,), spread.told) if stage is not None and spread is not None else None


def _banks(item: LoweredKernel) -> _Picked | None:
    """The accesses of shared memory that lose rounds in the loop that loses most."""
    stage, seen = item.stage("ptx"), item.conflicts
    if stage is None or seen is None:
        return None
    return (
        stage,
        seen.worst,
        f"{plural(len(seen.worst), 'access')} of shared memory with conflicts of its banks",
    )


def _loops(item: LoweredKernel) -> _Picked | None:
    """What its loops consist of, or all of it where it has none."""
    stage = item.stage("sass") or item.stage("asm") or item.stage("ptx")
    facts = item.facts(stage.name) if stage is not None else None
    if stage is None or facts is None:
        return None
    rows = [row for row, place in enumerate(stage.places, 1) if place]
    inside = [row for row in rows if facts.in_loop(row)]
    what = "in its loops" if inside else "in all"
    return stage, inside or rows, f"{plural(len(inside or rows), 'instruction')} {what}"


def _upcast(item: LoweredKernel) -> _Picked | None:
    wide = _matching(item, _DOUBLES, "of float64", "sass", "asm")
    return wide or _matching(item, _WIDENED, "that widen half precision", "ptx", "asm")


_ELSEWHERE = ("precision_upcast",)
_PICKS: Mapping[str, _Pick] = {
    "slow_kernel": lambda item: _accesses(item) or _spread(item) or _loops(item),
    "strided_accesses": _accesses,
    "bank_conflicts": _banks,
    "register_spills": _spills,
    "cpu_not_vectorized": _scalar_loop,
    "precision_upcast": _upcast,
}
