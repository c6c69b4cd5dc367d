"""Calls that a library does badly: products and inverses of matrices of a few elements, sorting rows of a
few or where nobody reads the places, picking one of each row, products of many rows with a small matrix,
Fourier transforms of a length with a large prime factor, convolutions of one channel, of channels each by
itself over a few taps or over many, distances of points, attention of one query, means over large windows,
some operators on complex numbers, bases that are made whole and not read.

Looks at: the sizes and dtypes that each library call and each operator left to ATen is given, by its FX node.
What another size or another way to write it wins was timed: benchmarks/results/awkward-calls.txt.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from inspector.analysis.dataflow import operator, shown
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.complex_numbers import AS_REAL, has_complex, is_complex, on_complex, saved_by_fusing
from inspector.explain.estimate import GPU_KERNEL_MS
from inspector.explain.filters import MOST_TERMS, filtered
from inspector.explain.least import REACHED, machine_of
from inspector.explain.rows import (
    MANY,
    Awkward,
    Shape,
    attended,
    in_words,
    means,
    picks,
    product,
    read_of,
    rows,
)
from inspector.explain.rule import Rule, Stage, about, how_timed, severity_of, source_evidence, timed
from inspector.model.account import Interval
from inspector.model.explain import Finding, Trial
from inspector.model.fx import FxNode
from inspector.model.source import SourceLocation
from inspector.units import plural

_FUSED = "which Inductor fuses with what is around"
SMALL_MATRIX = 6
"""Rows and columns of what generated code multiplies faster than a library: of 8 torch 2.13 makes code for a
CPU that takes 50 times as long, and of 16 a GPU's library is faster."""
LARGE_PRIME = 60
"""Lengths with a larger prime factor took 1.9 to 9.9 times as long as the next one without."""
LONGEST = 1 << 24
"""Of transforms that are looked at: of a length that no program has, its factors take long to find."""
_PRODUCTS: dict[bool, Interval] = {True: (0.75, 0.97), False: (0.6, 0.8)}
"""Saved of what a call takes, on a GPU and not: from the least to the most that was timed."""
_COMPLEX_PRODUCTS: Interval = (0.2, 0.4)
"""The same on a CPU of complex numbers, with real ones; as sums of complex ones they took two to four times
as long."""
_TRANSFORMS: Interval = (0.45, 0.9)
"""The same on both."""
_COMPLEX: dict[str, tuple[Interval, str]] = {
    "abs": (
        (0.6, 0.85),
        "(z.real ** 2 + z.imag ** 2).sqrt(), or without the root where its square is wanted",
    ),
    "polar": ((0.6, 0.7), "torch.complex(r * torch.cos(angle), r * torch.sin(angle))"),
    "exp": ((0.6, 0.8), "torch.complex(z.imag.cos(), z.imag.sin()) * z.real.exp()"),
    "sin": (
        (0.7, 0.85),
        "torch.complex(z.real.sin() * (e + 1 / e) / 2, z.real.cos() * (e - 1 / e) / 2), e = z.imag.exp()",
    ),
    "cos": (
        (0.75, 0.85),
        "torch.complex(z.real.cos() * (e + 1 / e) / 2, z.real.sin() * (1 / e - e) / 2), e = z.imag.exp()",
    ),
    "sqrt": ((0.6, 0.8), "((abs(z) + abs(z.real)) / 2).sqrt() and z.imag over twice that, in turn by sign"),
    "log": ((0.5, 0.65), "torch.complex((z.real ** 2 + z.imag ** 2).log() / 2, torch.atan2(z.imag, z.real))"),
}
"""The same of operators on complex numbers on a CPU, where ATen's go one by one, and how to write them with
real ones. A product alone is no faster so."""
SMALL_SYSTEM = 3
"""Rows and columns of what is inverted or taken apart by a formula that one writes down."""
_SYSTEMS: dict[str, tuple[str, str]] = {
    "_linalg_det": ("det", "products of the elements (torch.linalg.cross of two rows, times the third)"),
    "linalg_inv_ex": ("inv", "the adjugate over the determinant (torch.linalg.cross of its rows)"),
    "_linalg_solve_ex": ("solve", "the adjugate over the determinant, times the right side"),
    "linalg_cholesky_ex": ("cholesky", "its rows one by one, as products, quotients and roots of elements"),
    "_linalg_svd": (
        "svd",
        "the nearest rotation of 3x3 (Kabsch) has as its quaternion the largest eigenvector of a 4x4 matrix, "
        "which squaring that a dozen times brings out; singular values alone are the roots of a polynomial",
    ),
}
"""ATen's operator -> what the program calls it, and how it is written out."""
_FORMULAS: Interval = (0.4, 0.9)
"""Saved of what such a call takes on a CPU, where LAPACK has each matrix by itself."""
_ROTATIONS: Interval = (0.0, 0.9)
"""The same of singular values, for what one can do without: rotations were 2.5 to 8 times as fast."""
_SCANS: Interval = (0.5, 0.75)
"""Saved of what a `logcumsumexp` takes on a CPU, one element after the other with two exponentials each."""
_AS_DOUBLES = (
    "(x - m).double().exp().cumsum(dim).log() + m, with m = x.amax(dim, keepdim=True): as exact where no "
    "value is more than 700 below the largest of its row"
)
_PARTS = (
    "keep real and imaginary parts in tensors of their own, and write the products as sums of real ones, "
    "which Inductor has code for: (a[..., :, :, None] * b[..., None, :, :]).sum(-2) for each of the four"
)
FEW_OPERATORS = 8
"""On complex numbers: of fewer, real ones have little to fuse."""
_COPIES = frozenset({"cat", "clone", "copy"})
"""Operators that only move complex numbers: between kernels of real ones there may be none."""
LONG = 10
"""Times one side of a matrix over the other from which its whole basis is what takes the time."""
_BASES: dict[bool, Interval] = {True: (0.0, 0.9), False: (0.5, 0.99)}
"""The same of decompositions of such matrices; on a GPU nobody timed them."""
THIN_PRODUCTS = "matrix products"
THIN = 4
"""Rows and columns of such a matrix: of 8 a sum took two to three times as long as the library."""
MANY_ROWS = 10240
"""From which torch has a pass that writes them out (torch/_inductor/fx_passes/decompose_mem_bound_mm.py:
MIN_FIRST_DIMENSION_DECOMPOSITION), which nobody gets who does not ask."""
WRITTEN_OUT = 32
"""Below which the sides of a matrix make that pass write it out: MAX_OTHER_DIMENSION_DECOMPOSITION."""
_THIN: Interval = (0.75, 0.9)
"""Saved of what such a product takes on a GPU in inference: sums were 4.3 to 11 times as fast."""
_AS_A_SUM = f"write it as a sum, {_FUSED} it: (x[..., :, None] * w).sum(-2) for x @ w"
_BY_TORCH = "or have torch do so: torch._inductor.config.post_grad_fusion_options = {'decompose_mm_pass': {}}"
_PASS = Trial(config=(("post_grad_fusion_options", '{"decompose_mm_pass": {}}'),))
FEW_POINTS = 25
"""Of two sets whose distances ATen takes one by one (aten/src/ATen/native/Distance.cpp: cdist_impl): of more
it multiplies matrices."""
_DISTANCES: Interval = (0.45, 0.92)
"""Saved of what they take on a GPU as a sum of squares, forward and backward: 4.1 and 12.6 times as fast, and
1.8 and 5 times where they are trained."""
FEW_COORDINATES = 32
"""Of points, up to which such a sum is faster than products of matrices: of 64 it took twice as long."""
_FAR_DISTANCES: Interval = (0.3, 0.7)
"""Saved so in inference: 1.5 to 3.3 times as fast. What is trained was as often slower."""


_Item = tuple[float, GraphCase, Launch, Awkward]
"""With milliseconds of a steady call."""


def find(case: Case) -> Iterable[Finding]:
    kinds: dict[str, list[_Item]] = defaultdict(list)
    peaks = machine_of(case).peaks
    threads = case.threads or (peaks.threads if peaks is not None else None) or 0
    for graph in case.graphs:
        nodes = _sized(graph)
        saved = saved_by_fusing(graph) if graph.gpu and has_complex(nodes) else {}
        called_by = _called_by(graph, nodes)
        told_here: list[_Item] = []
        for launch in graph.launches if graph.runs else ():
            numbers = on_complex(graph, launch)
            found = None
            if launch.role in CALLED or numbers:
                own = [shown(name, nodes) for name in launch.fx if name in nodes]
                made = (nodes[name] for name in own if called_by.get(name, launch) is launch)
                told = (awkward(node, nodes, graph.gpu, threads) for node in made)
                found = next(filter(None, told), None)
            if found is not None and found.inference and graph.artifacts.phase != "inference":
                found = None
            if found is not None and found.opaque and graph.artifacts.phase == "forward":
                # What is kept for a backward is divided anew around what Inductor can't look into.
                found = replace(found, saved=(0.0, found.saved[1]))
            if found is None and not graph.gpu and numbers:
                found = _ON_COMPLEX
            if found is None and launch.call.index in saved:
                part = saved[launch.call.index]
                # The members of a chain are as fast as copies; what becomes of them is no slower than others.
                found = replace(_ON_COMPLEX, saved=(max(1 - (1 - part) / REACHED, 0.0), part))
            if found is None and saved and numbers and _copies(launch, nodes):
                found = replace(_ON_COMPLEX, saved=(0.0, 1.0))
            if found is not None:
                told_here.append((graph.ms(launch), graph, launch, found))
        terms = sum(item[3].terms for item in told_here)
        for item in told_here:
            if not item[3].terms or terms <= MOST_TERMS:
                kinds[item[3].kind].append(item)
    for kind, items in _joined(kinds).items():
        yield _finding(case, kind, sorted(items, key=lambda item: -item[0]))


def _called_by(graph: GraphCase, nodes: Mapping[str, FxNode]) -> Mapping[str, Launch]:
    """The launch that calls a node's operator by its name: others, which read what it makes, have it among
    their nodes, too."""
    return {
        name: launch
        for launch in graph.launches
        if launch.role == "fallback"
        for name in launch.fx
        if name in nodes and operator(nodes[name].target) == operator(launch.name)
    }


def _copies(launch: Launch, nodes: Mapping[str, FxNode]) -> bool:
    return all(operator(nodes[name].target) in _COPIES for name in launch.fx if name in nodes)


def _joined(kinds: Mapping[str, list[_Item]]) -> dict[str, list[_Item]]:
    """What is done with complex numbers in one, where it is much: with real ones all of it fuses. A few
    operators stay what they are, and a few plain ones are not worth a word."""
    joined = {kind: items for kind, items in kinds.items() if kind not in (*_COMPLEX, _ON_COMPLEX.kind)}
    numbers = {kind: kinds[kind] for kind in (*_COMPLEX, _ON_COMPLEX.kind) if kind in kinds}
    every = [item for items in numbers.values() for item in items]
    if any(graph.gpu for _, graph, _, _ in every) or sum(item[1].runs for item in every) >= FEW_OPERATORS:
        joined[_ON_COMPLEX.kind] = [(*item[:3], _of_many(item[3])) for item in every]
        return joined
    numbers.pop(_ON_COMPLEX.kind, None)
    return joined | numbers


def _of_many(found: Awkward) -> Awkward:
    """An operator on complex numbers as one of many: with how to write it, where that is known."""
    written = f"; {found.kind} as {_COMPLEX[found.kind][1]}" if found.kind in _COMPLEX else ""
    return replace(_ON_COMPLEX, saved=found.saved, advice=AS_REAL + written)


def _sized(graph: GraphCase) -> Mapping[str, FxNode]:
    """The nodes of a graph, with the numbers that symbols of sizes stood for."""
    nodes = graph.artifacts.fx_nodes
    if not graph.hints:
        return nodes
    return {
        name: replace(
            node, meta=replace(node.meta, shape=tuple(graph.hints.get(str(s), s) for s in node.meta.shape))
        )
        if node.meta is not None
        else node
        for name, node in nodes.items()
    }


def _by_line(items: Sequence[_Item]) -> list[_Item]:
    """The first item of each line of the program, that of the line that takes most first; without what is
    generated between a library's calls."""
    lines: dict[tuple[SourceLocation, ...], list[_Item]] = defaultdict(list)
    for item in items:
        if item[2].role != "generated":
            lines[item[2].sources[:1]].append(item)
    return [own[0] for own in sorted(lines.values(), key=lambda own: -sum(item[0] for item in own))]


def _finding(case: Case, kind: str, items: Sequence[_Item]) -> Finding:
    claims = []
    for _, graph, launch, found in items:
        least, most = found.saved
        start = GPU_KERNEL_MS if graph.gpu else min(case.costs.launch_ms, launch.ms)
        above = max(launch.ms - start, 0.0)
        least_ms = least * above
        if found.kind == _ON_COMPLEX.kind:
            # What is fused with others is not launched, either.
            least_ms, above = (least * launch.ms, launch.ms) if graph.gpu else (least_ms + start, above)
        saved = least_ms * graph.runs, max(most * above, least_ms) * graph.runs
        claims.append(on_launch(graph, launch, saved, "estimated"))
    cost = sum(sum(claim.ms) / 2 for claim in claims)
    share = case.share(cost)
    _, graph, _, first = items[0]
    how = how_timed(item[2] for item in items)
    whole = about(case.within_call(sum(ms for ms, _, _, _ in items)), how)
    given = list(dict.fromkeys(item[3].given for item in items))
    more = f" and {plural(len(given) - 1, 'other size')}" if len(given) > 1 else ""
    evidence = []
    for ms, owner, call, found in _by_line(items)[:3]:
        text = f"{timed(call, ms / owner.runs)}, {found.given}: {call.name}"
        evidence.append(owner.launch_evidence(call, text))
        evidence += [source_evidence(case, place) for place in call.sources[:1]]
    by_torch = kind == THIN_PRODUCTS and not any(_written_out_too(case))
    return Finding(
        rule="awkward_calls",
        severity=severity_of(share),
        title=f"{whole} a call in {kind} of {first.given}{more}, {first.why}",
        graph=graph.name,
        cost_ms=cost,
        claims=tuple(claims),
        evidence=tuple(evidence),
        advice=first.advice + (f"; {_BY_TORCH}" if by_torch else ""),
        how="estimated",
        share=share,
        trial=_PASS if by_torch else None,
    )


def _written_out_too(case: Case) -> Iterable[bool]:
    """Whether torch's pass would write out a product, too, that is faster as it is; of each of them."""
    for graph in case.graphs:
        nodes = _sized(graph)
        for node in nodes.values():
            name = operator(node.target)
            if name not in ("mm", "addmm") or len(node.arguments) < 2 + (name == "addmm"):
                continue
            rows, matrix = (_shape(nodes.get(text)) for text in node.arguments[name == "addmm" :][:2])
            known = [size or 0 for size in matrix]
            many = (rows[:1] or (0,))[0]
            yield (
                (many is None or many >= MANY_ROWS)
                and max(known, default=WRITTEN_OUT) < WRITTEN_OUT
                and (max(known) > THIN)
            )


_ON_COMPLEX = Awkward("operators", "complex numbers", AS_REAL, (0.0, 0.7), "which Inductor has no code for")
"""A program of a thousand small ones a call took 0.54 of its time so, one of large ones all of it."""


def awkward(node: FxNode, nodes: Mapping[str, FxNode], gpu: bool, threads: int = 0) -> Awkward | None:
    """What of a node its library does badly with as many threads of a CPU, 0 where that is not known; None
    where nothing is, or its sizes are symbolic."""
    name = operator(node.target)
    given = [nodes.get(text) for text in node.arguments]
    shapes = [_shape(each) for each in given]
    if name in ("bmm", "baddbmm"):
        return _products(*shapes[name == "baddbmm" :][:2], gpu=gpu, numbers=any(map(is_complex, given)))
    if name in ("mm", "addmm") and gpu:
        return _thin(*shapes[name == "addmm" :][:2])
    if name in ("_fft_r2c", "_fft_c2r", "_fft_c2c") and len(node.arguments) > 1:
        return _transforms(_shape(node) if name == "_fft_c2r" else shapes[0], node.arguments[1])
    if name in ("convolution", "convolution_backward"):
        return filtered(node, shapes, gpu)
    if name == "_linalg_svd":
        whole = node.arguments[1:2] == ("True",)
        return (_bases(node, nodes, shapes[0], gpu) if whole else None) or _systems(name, shapes[0])
    if name in _SYSTEMS and not gpu:
        return _systems(name, shapes[0])
    if name in ("topk", "sort", "median") and not gpu:
        return rows(name, node, nodes, shapes[0], threads)
    if name == "avg_pool2d" and not gpu:
        return means(node, shapes[0])
    if name == "multinomial":
        return picks(node, shapes[0], gpu)
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return attended(node, nodes, shapes[0])
    if name == "logcumsumexp" and not gpu:
        return Awkward(name, f"tensors of {in_words(shapes[0])}", _AS_DOUBLES, _SCANS)
    if name in ("_cdist_forward", "_cdist_backward") and gpu:
        back = name == "_cdist_backward"  # of which the gradient stands before
        return _distances(*shapes[back:][:2]) if node.arguments[2 + back : 3 + back] == ("2.0",) else None
    if name in _COMPLEX and not gpu and (name == "polar" or any(map(is_complex, given))):
        saved, advice = _COMPLEX[name]
        return Awkward(name, "complex numbers", f"write it with real ones: {advice}", saved)
    return None


def _systems(name: str, shape: Shape) -> Awkward | None:
    rows, columns = shape[-2:] if len(shape) > 2 else (None, None)
    if rows is None or rows != columns or not 1 < rows <= SMALL_SYSTEM:
        return None
    many = product(shape[:-2])
    if many is not None and many < MANY:
        return None
    called, formula = _SYSTEMS[name]
    count = "many" if many is None else f"{many:,}"
    advice = f"write it out, {_FUSED} it: {formula}"
    saved = _ROTATIONS if called == "svd" else _FORMULAS
    return Awkward(called, f"{count} matrices of {rows}x{rows}", advice, saved)


def _bases(node: FxNode, nodes: Mapping[str, FxNode], shape: Shape, gpu: bool) -> Awkward | None:
    """Of a matrix of many rows or columns whose longer basis, ``U`` or ``Vh``, nobody reads: the other one is
    the same without `full_matrices`."""
    rows, columns = shape[-2:] if len(shape) > 1 else (None, None)
    read = read_of(node, nodes)
    if rows is None or columns is None or read is None:
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


def _shape(node: FxNode | None) -> Shape:
    sizes = node.meta.shape if node is not None and node.meta is not None else ()
    return tuple(size if isinstance(size, int) else None for size in sizes)


def _products(first: Shape = (), second: Shape = (), *, gpu: bool, numbers: bool = False) -> Awkward | None:
    sides = [size for size in (*first[1:], *second[1:]) if size is not None and size <= SMALL_MATRIX]
    many = first[0] if first else None
    if len(first) != 3 or len(sides) != 4 or (many is not None and many < MANY) or (numbers and gpu):
        return None
    count = "many" if many is None else f"{many:,}"
    what = "{} matrices of {}x{} by {}x{}".format(count, *sides)
    if numbers:
        return Awkward("products of complex numbers", what, _PARTS, _COMPLEX_PRODUCTS)
    return Awkward(
        "products",
        what,
        f"write them as sums, {_FUSED} them: (a[..., :, :, None] * b[..., None, :, :]).sum(-2) for a @ b",
        _PRODUCTS[gpu],
    )


def _thin(rows: Shape = (), matrix: Shape = ()) -> Awkward | None:
    """Of many rows with a matrix of few elements, which a library is slower at than memory."""
    sides = [size for size in matrix if size is not None and size <= THIN]
    many = rows[0] if len(rows) == len(matrix) == 2 else 0
    if len(sides) != 2 or (many is not None and many < MANY_ROWS):
        return None
    count = "many" if many is None else f"{many:,}"
    what = "{} rows by {}x{}".format(count, *sides)
    return Awkward(THIN_PRODUCTS, what, _AS_A_SUM, _THIN, inference=True)


def _distances(first: Shape, second: Shape) -> Awkward | None:
    """Of two sets of points each, on a GPU."""
    *_, rows, coordinates = (None, None, *first)
    columns = second[-2] if len(second) > 1 else None
    if rows is None or columns is None or coordinates is None:
        return None
    few = max(rows, columns) <= FEW_POINTS
    if not few and coordinates > FEW_COORDINATES:
        return None
    return Awkward(
        "distances",
        f"{rows:,} points and {columns:,} of {plural(coordinates, 'coordinate')}",
        f"write them out, {_FUSED} them: "
        "(x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1).sqrt(), where they are trained with a little "
        "added under the root, which has no gradient at 0",
        _DISTANCES if few else _FAR_DISTANCES,
        inference=not few,
    )


def _transforms(shape: Shape, dims: str) -> Awkward | None:
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
