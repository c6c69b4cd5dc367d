"""A C++ kernel whose inner loop handles one element at a time.

Looks at: loop nests of generated C++ without ``at::vec``, and the reasons that can be seen: a setting, the
dtype, an indirect index, an operator without a vector form (torch/_inductor/codegen/cpp.py).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from inspector.analysis.dataflow import operator
from inspector.analysis.divisions import DIVIDE
from inspector.analysis.evaluations import divides_integers
from inspector.analysis.program_calls import handed_name
from inspector.analysis.steady import RUN_TO_RUN
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.changes import Change, remove
from inspector.explain.claims import on_launches
from inspector.explain.cpp_loops import DIVISION, GAIN, LONG_LAST, LoopNest, counted_nests
from inspector.explain.estimate import RANDOM_NS, SCALAR_NS, memory_ms, peak
from inspector.explain.in_vain import KEPT_PADDING, PADDED
from inspector.explain.launches import code_line
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.explain import Finding, Trial
from inspector.model.source import SourceLocation, own_first
from inspector.text import joined
from inspector.units import plural

_SETTING = "cpp.simdlen"
_LEVEL = "ATEN_CPU_CAPABILITY"
_OTHER_OPERATOR = "use an operator that has one, or compute it outside the loop"
_FLOAT64 = "float64"
_FLOATS = (
    "divide numbers of float64 and take the floor, exact below 2**53: q = (x.double() / y).floor(), "
    "x - q * y; by a power of two shift (>>) and mask (&)"
)
DIVISION_NS = 3.0
"""That a division of an element, by one thread, takes longer than with floats: of 400,000 by two threads 2.6
to 5.8 times as long as a whole (benchmarks/results/awkward-calls.txt)."""
# at::vec::VectorizedN<double,2>
_VECTORS_OF_DOUBLES = re.compile(r"\bVectorizedN?<double\b")
# const int16_t* in_ptr0: none of torch/_inductor/codegen/cpp.py: VECTORIZABLE_DTYPES
_WITHOUT_VECTORS = re.compile(r"\b(uint16|int16|uint32|uint64)_t\s*\*\s*(?:__restrict__\s+)?(\w+)")
# normalized_rand_cpu(tmp0, tmp2): torch/_inductor/codegen/cpp_prefix.h
_DRAWN = re.compile(r"\b(?:normalized_rand|randn|randint64)_cpu\(")
_LOOP = re.compile(r"\bfor\s*\(\s*(?:int64_t|long)\s+(x\d+)\s*=")
_SIDE_BY_SIDE = (
    "let what the innermost loop runs over lie side by side in what it reads and writes, as [3, n] rather "
    "than [n, 3]"
)
_SKIPS = "an index that skips over elements in its innermost loop"
_COPY_ONCE = (
    "or copy it so once, x = x.t().contiguous(), have that kept in memory (in inference), "
    "x = x.as_strided(x.size(), x.stride()), and read x[0] for x[:, 0]"
)
_COPIED = Trial(kept=("aten.select",))
"""Each column that is read is copied once, and vectors read the copies: 14.7 ms became 1.56, and 2.27
by `_COPY_ONCE`, of which contiguous() alone changed nothing, as it is computed where it is read."""
_SYMBOLIC = "a stride that is a symbol, as it differs from call to call"
_MANY_STRIDED = 35
"""From so many on torch makes no vectors at all (torch/_inductor/codegen/cpp.py: TilingSelect)."""
LANES = 8
"""Elements of float32 in a vector of 256 bit."""
_OTHERWISE = re.compile(r"calc_\w+|\bdouble\b|complex|index out of bounds")
"""What has no vectors, however long its loop is."""
_CLAMPED = "an index that is clamped or mirrored, as by padding"
_OF_NO_LOOP = r"(?:[^()x;]|x(?!\d)|\((?:[^()x;]|x(?!\d)|\((?:[^()x;]|x(?!\d))*\))*\))*"
"""C++ without a loop's variable, its parentheses closed: a stride is ``std::max(1L, ks2)``."""
_REASONS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (
        # in_ptr0[static_cast<int64_t>(320L*std::min(static_cast<int64_t>(239L), static_cast<int64_t>(x0)) ...
        re.compile(
            rf"ptr\d+\[static_cast<int64_t>\([^;]*std::(?:min|max|abs)\({_OF_NO_LOOP}(?:\({_OF_NO_LOOP})*x\d"
        ),
        _CLAMPED,
        PADDED,
    ),
    (re.compile(r"\bdouble\b"), _FLOAT64, "use float32, of which a vector holds twice as many"),
    (re.compile(r"complex"), "complex numbers", "compute with real and imaginary parts apart"),
    (
        re.compile(r"index out of bounds|TORCH_CHECK.*\n?.*<"),
        "an index that depends on data",
        ("gather once, and compute on contiguous data"),
    ),
    (
        re.compile(
            r"calc_\w+|std::(?:frexp|ldexp)|bitwise_xor|<<|"
            r">>|mod_|div_floor"
        ),
        "an operator without a vector form",
        _OTHER_OPERATOR,
    ),
    (
        # in_ptr2[static_cast<int64_t>(256L*x1 + ((static_cast<int64_t>(255L + x2) % static_cast<...
        re.compile(r"ptr\d+\[(?:(?!ptr\d+\[)[^;])*\(\d+LL? \+ x\d+\) % static_cast"),
        "an index that wraps around, as by roll",
        # Of two stencils that were tried so one took half as long, one a third longer.
        "measure it from slices of a tensor that has its own ends joined on by torch.cat: vectors read these",
    ),
    (
        # auto tmp0 = x1; auto tmp1 = c10::convert<uint16_t>(tmp0);
        re.compile(r"auto (tmp\d+) = x\d+;\s*auto tmp\d+ = c10::convert<u?int\d+_t>\(\1\);"),
        "an index that is computed with, as by torch.eye or diag",
        "make the mask once, outside of the compiled function, and hand it in",
    ),
    (
        re.compile(r"static_cast<int64_t>\([^;]*%"),
        "index arithmetic with divisions",
        ("make the tensor contiguous once, outside"),
    ),
    (
        re.compile(r"\bint64_t tmp|\bbool tmp|int32_t tmp"),
        "integers",
        ("use float32 or int32 where the range allows"),
    ),
)


def find(case: Case) -> Iterable[Finding]:
    costly: list[tuple[float, GraphCase, Launch, LoopNest]] = []
    device = peak((), False, case.threads)
    for graph, launch in case.launches():
        if graph.gpu or launch.role != "generated" or launch.call.kind != "cpp":
            continue
        nests = counted_nests(launch.source, launch.points)
        weights = [_weight(nest) for nest in nests]
        whole = sum(weights) + sum(_drawing(nest) for nest in nests)
        for nest, weight in zip(nests, weights, strict=True):
            if not (_scalar(nest) and whole) or nest.atomic:
                continue
            if nest.lanes or not _widened(case, graph, launch, nest):
                # Vectors win no more than what lies above moving the bytes.
                least = max(launch.ms / GAIN, memory_ms(launch.bytes or 0, device, gpu=False))
                saved = (launch.ms - least) * graph.runs * weight / whole
                if nest.lanes == DIVISION:
                    saved = min(saved, _dividing_ms(case, nest) * graph.runs) * _by_itself(graph, launch)
                costly += [(saved, graph, launch, nest)] if saved > 0 else []
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    # What no two runs would differ by beside the largest is not worth a line.
    costly = [item for item in costly if item[0] >= RUN_TO_RUN * costly[0][0]]
    cost = case.within_call(sum(ms for ms, _, _, _ in costly))
    share = case.share(cost)
    _, graph, launch, nest = costly[0]
    setting = _setting(case, graph)
    reason, advice, trial = setting or (*_reason(nest, launch.source), None)
    if reason == _CLAMPED and any(name.startswith("_unsafe_index") for name in launch.fx):
        trial = KEPT_PADDING
    if (
        reason == _SKIPS
        and any(name.startswith("select") for name in launch.fx)
        and not _strided(nest, "out")
    ):
        advice, trial = f"{advice}; {_COPY_ONCE}", _COPIED
    if reason == _SYMBOLIC:
        advice = f"make {_of_symbolic_stride(case, graph)} contiguous before the call: x.contiguous()"
    evidence = []
    if setting is not None and case.programs:
        for program in case.programs:
            place = program.assignment(_SETTING) or program.variable(_LEVEL)
            if place is not None:
                evidence.append(program.evidence(place.line))
    for ms, owner, scalar, loop in costly[:3]:
        line = code_line(scalar.kernel, loop.line)
        points = f"{loop.points:,}" if loop.points is not None else "a symbolic number of"
        how = f"with {loop.lanes} lane by lane" if loop.lanes else "without at::vec"
        evidence.append(
            owner.place("output_code.py", line, f"a loop over {points} points {how}, {timed(scalar, ms)}")
        )
        evidence += [source_evidence(case, place) for place in _most_of(owner, scalar, loop)]
    yield Finding(
        rule="cpu_not_vectorized",
        severity=severity_of(share),
        title=(
            f"{plural(len(costly), 'loop')} of C++ {'runs' if len(costly) == 1 else 'run'} one element at a "
            f"time ({reason}); vectors would save {about(cost, 'estimated')}"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=on_launches(((owner, scalar, ms) for ms, owner, scalar, _ in costly), "estimated", cost),
        evidence=tuple(evidence),
        advice=advice,
        share=share,
        change=_change(case) if setting is not None else (),
        trial=trial,
    )


def _most_of(graph: GraphCase, launch: Launch, nest: LoopNest) -> tuple[SourceLocation, ...]:
    """The line that most of a kernel's operators are on, or of those that it is slow by, as its divisions; of
    the program's own where it has some."""
    nodes = graph.artifacts.fx_nodes
    own = [nodes[name] for name in launch.fx if name in nodes]
    slow = [node for node in own if _goes_by_lanes(nest, operator(node.target))]
    chosen = slow or own
    places = Counter(node.source for node in chosen if node.source is not None)
    ordered = [place for place, _ in places.most_common()] or list(launch.sources)
    return tuple(own_first(ordered)[:1])


def _goes_by_lanes(nest: LoopNest, name: str) -> bool:
    """Whether a nest is slow by that operator: `special_bessel_j1` by ``bessel_j1_forward``."""
    own = name.removeprefix("special_")
    return name in DIVIDE if nest.lanes == DIVISION else bool(own) and own in nest.lanes


def _change(case: Case) -> Change:
    for program in case.programs:
        place = program.assignment(_SETTING) or program.variable(_LEVEL)
        if place is not None:
            return remove(program, place.line)
    return ()


def _scalar(nest: LoopNest) -> bool:
    return nest.scalar and bool(nest.points)


def _widened(case: Case, graph: GraphCase, launch: Launch, nest: LoopNest) -> bool:
    """Whether the run's compiler made vectors of it, as clang does (g++ is told not to), by the assembly that
    the run keeps. What is left over behind them is a loop of its own."""
    item = case.lowered(graph.name, launch.call.index) if case.lowered is not None else None
    stage, facts = (item.stage("asm"), item.facts("asm")) if item is not None else (None, None)
    first = code_line(launch.kernel, nest.line)
    if item is None or item.folder is None or item.folder.made or stage is None or facts is None or not first:
        return False
    last = first + nest.text.count("\n")
    spans = (item.span(stage, loop) for loop in facts.innermost if loop.bits is not None and loop.bits > 0)
    return any(span is not None and first <= span.first <= last for span in spans)


def _weight(nest: LoopNest) -> float:
    """Relative time of one nest among those of a kernel."""
    each = nest.statements + 10 * nest.heavy
    return float(nest.points or 1) * max(each, 1) / (1.0 if nest.scalar else GAIN)


def _drawing(nest: LoopNest) -> float:
    """The same of the random numbers that it draws: these come one by one with vectors too."""
    return float(nest.points or 1) * len(_DRAWN.findall(nest.text)) * RANDOM_NS / SCALAR_NS


def _dividing_ms(case: Case, nest: LoopNest) -> float:
    """Of one run: what a nest's divisions take over those of floats."""
    return (nest.points or 0) * nest.divisions * DIVISION_NS / 1e6 / max(case.threads or 1, 1)


def _by_itself(graph: GraphCase, launch: Launch) -> float:
    """The part of a launch's divisions that is none of the same again, which `recomputed` tells."""
    groups = {group.name for group in graph.groups_of(launch)}
    nodes = graph.artifacts.fx_nodes
    made = [
        item
        for item in graph.fusion.evaluations
        if item.group in groups and any(divides_integers(nodes[name]) for name in item.fx)
    ]
    whole = sum(item.evaluations for item in made)
    return sum(item.elements for item in made) / whole if whole else 1.0


def _setting(case: Case, graph: GraphCase) -> tuple[str, str, Trial | None] | None:
    """Where vectors are switched off altogether."""
    value = graph.config.get(_SETTING) or graph.config.get(f"torch._inductor.config.{_SETTING}")
    level = ""
    for program in case.programs:
        place = program.assignment(_SETTING)
        if place is not None:
            value = str(place.value)
        variable = program.variable(_LEVEL)
        level = str(variable.value) if variable is not None else level
    trial = Trial(config=((_SETTING, None),))
    if value is not None and value not in ("None", "none"):
        return (
            f"config.cpp.simdlen = {value}",
            "remove the setting cpp.simdlen, which switches vectors off",
            trial,
        )
    manifest = case.facts.manifest
    level = level or (manifest.environment if manifest else {}).get(_LEVEL, "")
    if level == "default":
        # Elsewhere torch has no such level (aten/src/ATen/native/DispatchStub.cpp: compute_cpu_capability).
        x86 = manifest is not None and re.search("x86_64|AMD64", manifest.platform or "") is not None
        env = Trial(environment=((_LEVEL, "avx2"),)) if x86 else None
        return f"{_LEVEL}=default", f"remove {_LEVEL}=default, which switches vectors off", env
    return None


def _strided(nest: LoopNest, of: str = "") -> int:
    """How many addresses skip over elements as the innermost loop goes on: ``in_ptr1[static_cast<int64_t>(1L
    + 3L*x1)]``, of pointers whose names begin with `of`. Torch has no vector load or store for that
    (torch/_inductor/codegen/cpp.py: CppVecKernel)."""
    loops = _LOOP.findall(nest.text)
    if not loops:
        return 0
    return len(re.findall(rf"\b{of}\w*ptr\d+\[[^;\]]*\b\d+LL?\s*\*\s*{loops[-1]}\b", nest.text))


def _symbolic_stride(nest: LoopNest) -> bool:
    """Whether an address goes on by a symbol in the innermost loop: ``in_ptr3[...(ks0*x0)]``."""
    loops = _LOOP.findall(nest.text)
    along = rf"ptr\d+\[[^;\]]*\bks\d+\)*\s*\*\s*{loops[-1]}\b" if loops else "(?!)"
    return re.search(along, nest.text) is not None


def _of_symbolic_stride(case: Case, graph: GraphCase) -> str:
    """Names of the inputs that the traced graph has with such a stride along their last dimension."""
    frame = case.frame(graph.artifacts.compile_id)
    names = [
        handed_name(node.name) or node.name
        for node in (frame.placeholders if frame is not None else ())
        if node.meta is not None and node.meta.stride and not isinstance(node.meta.stride[-1], int)
    ]
    return joined(names, 3) if names else "its inputs"


def _reason(nest: LoopNest, source: str) -> tuple[str, str]:
    if nest.lanes == DIVISION:
        return f"{nest.lanes} goes lane by lane", _FLOATS
    if nest.lanes:
        return f"the vector form of {nest.lanes} goes lane by lane", _OTHER_OPERATOR
    if nest.filled is not None and not nest.vectorised:
        held, lanes = nest.filled
        return f"its innermost loop has {held} elements, fewer than the {lanes} of a vector", LONG_LAST
    if nest.innermost is not None and nest.innermost < LANES and not _OTHERWISE.search(nest.text):
        return f"its innermost loop has {plural(nest.innermost, 'element')}, fewer than a vector", LONG_LAST
    strided = _strided(nest)
    if strided >= _MANY_STRIDED:
        return f"{strided} addresses skip over elements in its innermost loop", _SIDE_BY_SIDE
    for dtype, pointer in _WITHOUT_VECTORS.findall(source):
        if re.search(rf"\b{pointer}\[", nest.text):
            return (
                f"{dtype} has no vectors, and a loop that touches it gets none at all",
                "convert it to float32 or int32 where the data is loaded, not in the compiled function",
            )
    for pattern, reason, advice in _REASONS:
        # Newer versions of torch have vectors of them: then something else is in the way.
        if pattern.search(nest.text) and not (reason == _FLOAT64 and _VECTORS_OF_DOUBLES.search(source)):
            return reason, advice
    if strided:
        return _SKIPS, _SIDE_BY_SIDE
    if _symbolic_stride(nest):
        return _SYMBOLIC, ""
    return (
        "no vector form for its index or dtype",
        "make its inputs contiguous along the last dimension, and float32",
    )


RULE = Rule("cpu_not_vectorized", Stage.CODE, find)
