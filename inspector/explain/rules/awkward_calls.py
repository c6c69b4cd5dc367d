"""Calls that a library does badly: products of matrices of a few elements, Fourier transforms of a length
with a large prime factor, depthwise convolutions over a few taps or over very many, some operators on complex
numbers, bases that are made whole and not read.

Looks at: the sizes and dtypes that each library call and each operator left to ATen is given, by its FX node.
What another size or another way to write it wins was timed: benchmarks/results/awkward-calls.txt.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from inspector.analysis.dataflow import operator, shown
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.estimate import CPU_LAUNCH_MS, GPU_KERNEL_MS
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.frozen import dataclass
from inspector.model.account import Interval
from inspector.model.explain import Finding
from inspector.model.fx import FxNode
from inspector.units import plural

SMALL_MATRIX = 6
"""Rows and columns of what generated code multiplies faster than a library: of 8 torch 2.13 makes code for a
CPU that takes 50 times as long, and of 16 a GPU's library is faster."""
MANY_MATRICES = 100
"""Of fewer, a product takes as long as its launch."""
LARGE_PRIME = 60
"""Lengths with a larger prime factor took 1.9 to 9.9 times as long as the next one without."""
LONGEST = 1 << 24
"""Of transforms that are looked at: of a length that no program has, its factors take long to find."""
FEW_TAPS = 4
"""Of a depthwise convolution: written out, more of them win less."""
MANY_TAPS = 256
"""From so many on a transform of all is faster on a CPU, 2.1 to 14 times."""
_FILTERS: Interval = (0.5, 0.93)
"""Saved of what such a call takes there."""
_PRODUCTS: dict[bool, Interval] = {True: (0.75, 0.97), False: (0.6, 0.8)}
"""Saved of what a call takes, on a GPU and not: from the least to the most that was timed."""
_TRANSFORMS: Interval = (0.45, 0.9)
"""The same on both."""
_CONVOLUTIONS: dict[tuple[bool, bool], Interval] = {
    (True, False): (0.4, 0.7),
    (True, True): (0.0, 0.5),
    (False, True): (0.4, 0.65),
}
"""The same, by whether it runs on a GPU and is a backward. A forward on a CPU is as often slower so."""
_COMPLEX: dict[str, tuple[Interval, str]] = {
    "abs": (
        (0.6, 0.85),
        "(z.real ** 2 + z.imag ** 2).sqrt(), or without the root where its square is wanted",
    ),
    "polar": ((0.6, 0.7), "torch.complex(r * torch.cos(angle), r * torch.sin(angle))"),
    "exp": ((0.6, 0.8), "torch.complex(z.imag.cos(), z.imag.sin()) * z.real.exp()"),
}
"""The same of operators on complex numbers on a CPU, where ATen's go one by one, and how to write them with
real ones. A product alone is no faster so."""
LONG = 10
"""Times one side of a matrix over the other from which its whole basis is what takes the time."""
_BASES: dict[bool, Interval] = {True: (0.0, 0.9), False: (0.5, 0.99)}
"""The same of decompositions of such matrices; on a GPU nobody timed them."""
_Shape = tuple[int | None, ...]
"""None for what is symbolic; empty for what is no tensor."""


@dataclass(frozen=True, slots=True)
class Awkward:
    """What is done (a kind's name), on what, how to do without, and what part of the time that saves."""

    kind: str
    given: str
    advice: str
    saved: Interval


def find(case: Case) -> Iterable[Finding]:
    kinds: dict[str, list[tuple[float, GraphCase, Launch, Awkward]]] = defaultdict(list)
    for graph in case.graphs:
        nodes = graph.artifacts.fx_nodes
        for launch in graph.launches if graph.runs else ():
            if launch.role in ("library", "fallback"):
                made = (nodes[shown(name, nodes)] for name in launch.fx if name in nodes)
                found = next(filter(None, (awkward(node, nodes, graph.gpu) for node in made)), None)
                if found is not None:
                    kinds[found.kind].append((graph.ms(launch), graph, launch, found))
    for kind, items in kinds.items():
        yield _finding(case, kind, sorted(items, key=lambda item: -item[0]))


def _finding(case: Case, kind: str, items: Sequence[tuple[float, GraphCase, Launch, Awkward]]) -> Finding:
    claims = []
    for _, graph, launch, found in items:
        least, most = found.saved
        above = max(launch.ms - (GPU_KERNEL_MS if graph.gpu else CPU_LAUNCH_MS), 0.0) * graph.runs
        claims.append(on_launch(graph, launch, (least * above, most * above), "estimated"))
    cost = sum(sum(claim.ms) / 2 for claim in claims)
    share = case.share(cost)
    _, graph, _, first = items[0]
    how = how_timed(item[2] for item in items)
    whole = about(sum(ms for ms, _, _, _ in items), how)
    given = list(dict.fromkeys(item[3].given for item in items))
    more = f" and {plural(len(given) - 1, 'other size')}" if len(given) > 1 else ""
    evidence = []
    for ms, owner, call, found in items[:3]:
        text = f"{timed(call, ms / owner.runs)}, {found.given}: {call.name}"
        evidence.append(owner.launch_evidence(call, text))
        evidence += [source_evidence(case, place) for place in call.sources[:1]]
    return Finding(
        rule="awkward_calls",
        severity=severity_of(share),
        title=f"{whole} a call in {kind} of {first.given}{more}, which libraries do badly",
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(claims),
        evidence=tuple(evidence),
        advice=first.advice,
        how="estimated",
        share=share,
    )


def awkward(node: FxNode, nodes: Mapping[str, FxNode], gpu: bool) -> Awkward | None:
    """What of a node its library does badly; None where nothing is, or its sizes are symbolic."""
    name = operator(node.target)
    given = [nodes.get(text) for text in node.arguments]
    shapes = [_shape(each) for each in given]
    if name in ("bmm", "baddbmm"):
        return _products(*shapes[name == "baddbmm" :][:2], gpu=gpu)
    if name in ("_fft_r2c", "_fft_c2r", "_fft_c2c") and len(node.arguments) > 1:
        return _transforms(_shape(node) if name == "_fft_c2r" else shapes[0], node.arguments[1])
    if name in ("convolution", "convolution_backward"):
        # (x, weight, bias, stride, padding, dilation, transposed, ...); a backward's gradient stands before.
        back = name == "convolution_backward"
        plain = node.arguments[3 + back : 7 + back : 3] == ("[1]", "False")
        return _convolutions(*shapes[back:][:2], gpu=gpu, back=back) if plain else None
    if name == "_linalg_svd" and node.arguments[1:2] == ("True",):
        return _bases(node, nodes, shapes[0], gpu)
    if name in _COMPLEX and not gpu and (name == "polar" or any(map(_is_complex, given))):
        saved, advice = _COMPLEX[name]
        return Awkward(name, "complex numbers", f"write it with real ones: {advice}", saved)
    return None


def _bases(node: FxNode, nodes: Mapping[str, FxNode], shape: _Shape, gpu: bool) -> Awkward | None:
    """Of a matrix of many rows or columns whose longer basis, ``U`` or ``Vh``, nobody reads: the other one is
    the same without `full_matrices`."""
    rows, columns = shape[-2:] if len(shape) > 1 else (None, None)
    read = {
        nodes[user].arguments[1] for user in node.users if user in nodes and nodes[user].kind == "getitem"
    }
    if rows is None or columns is None or len(read) < len(node.users):
        return None
    if not (rows >= LONG * columns and "0" not in read) and not (columns >= LONG * rows and "2" not in read):
        return None
    side = max(rows, columns)
    return Awkward(
        "svd",
        f"{rows:,}x{columns:,}, whose basis of {side:,}x{side:,} nobody reads",
        "torch.linalg.svd(..., full_matrices=False) gives the same other one; of few columns eigh(A.mT @ A) "
        "is faster still, where half of the digits are enough",
        _BASES[gpu],
    )


def _is_complex(node: FxNode | None) -> bool:
    return node is not None and node.meta is not None and node.meta.is_complex


def _shape(node: FxNode | None) -> _Shape:
    sizes = node.meta.shape if node is not None and node.meta is not None else ()
    return tuple(size if isinstance(size, int) else None for size in sizes)


def _products(first: _Shape = (), second: _Shape = (), *, gpu: bool) -> Awkward | None:
    sides = [size for size in (*first[1:], *second[1:]) if size is not None and size <= SMALL_MATRIX]
    many = first[0] if first else None
    if len(first) != 3 or len(sides) != 4 or (many is not None and many < MANY_MATRICES):
        return None
    count = "many" if many is None else f"{many:,}"
    return Awkward(
        "products",
        "{} matrices of {}x{} by {}x{}".format(count, *sides),
        "write them as sums, which Inductor fuses with what is around them: "
        "(a[..., :, :, None] * b[..., None, :, :]).sum(-2) for a @ b",
        _PRODUCTS[gpu],
    )


def _transforms(shape: _Shape, dims: str) -> Awkward | None:
    lengths = [shape[int(dim)] or 1 for dim in re.findall(r"\d+", dims) if int(dim) < len(shape)]
    length = max((size for size in lengths if size <= LONGEST), key=_largest_prime, default=1)
    if (prime := _largest_prime(length)) <= LARGE_PRIME:
        return None
    return Awkward(
        "transforms",
        f"length {length:,} (with {prime:,} as a prime factor)",
        f"pad to {next_smooth(length):,}, the next length of small factors, where it is free (the n of "
        "torch.fft's functions, as for a convolution), or cut to one",
        _TRANSFORMS,
    )


def _convolutions(given: _Shape = (), weight: _Shape = (), *, gpu: bool, back: bool) -> Awkward | None:
    if len(given) != 3 or len(weight) != 3 or weight[1] != 1 or weight[0] != given[1]:
        return None
    channels, _, taps = weight
    saved = _CONVOLUTIONS.get((gpu, back))
    if channels is None or taps is None:
        return None
    if taps >= MANY_TAPS and not gpu and not back:
        return Awkward(
            "convolutions",
            f"{plural(channels, 'channel')} each by itself over {taps} taps",
            "multiply transforms, with n of small factors and no less than length + taps: torch.fft.irfft("
            "torch.fft.rfft(x, n) * torch.fft.rfft(w.flip(-1), n), n)[..., taps - 1 : length]",
            _FILTERS,
        )
    if saved is None or channels == 1 or not 1 < taps <= FEW_TAPS:
        return None
    return Awkward(
        "convolutions",
        f"{channels:,} channels each by itself over {taps} taps",
        "write it as a sum of shifted products, which Inductor makes one kernel of: "
        "sum(w[:, 0, i, None] * padded[..., i:i + length] for i in range(taps))",
        saved,
    )


def _largest_prime(number: int) -> int:
    """Its largest prime factor; 1 of 1."""
    largest, divisor = 1, 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            largest, number = divisor, number // divisor
        divisor += 1
    return max(largest, number)


def next_smooth(length: int) -> int:
    """The next length that is a product of 2, 3, 5 and 7 (as cuFFT and MKL have kernels for)."""
    while True:
        rest = length
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return length
        length += 1


RULE = Rule("awkward_calls", Stage.PROGRAM, find, other_work=True)
