"""Calls that a library does badly: which are, and what of them is claimed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inspector.explain.case import Case, Launch
from inspector.explain.filters import MOST_TERMS
from inspector.explain.gather import gather
from inspector.explain.rules import awkward_calls
from inspector.explain.rules.awkward_calls import awkward
from inspector.model.explain import Finding
from inspector.model.fx import FxGraph, FxKind, FxNode, TensorMeta
from inspector.model.source import Size
from inspector.readers.run import Run

CONSTANTS = ("True", "False", "None")


def node(
    name: str, shape: tuple[Size, ...], target: str = "", *arguments: str, dtype: str = "float32"
) -> FxNode:
    kind: FxKind = "call" if target else "placeholder"
    inputs = tuple(
        text for text in arguments if text.isidentifier() and text not in ("True", "False", "None")
    )
    meta = TensorMeta(dtype, shape)
    full = f"torch.ops.aten.{target}" if target else ""
    return FxNode(name, kind, full, arguments, inputs, (), None, meta, None, 1, "")


def said(*nodes: FxNode, gpu: bool = True) -> str:
    found = awkward(nodes[-1], {each.name: each for each in nodes}, gpu)
    return found.given if found is not None else ""


@pytest.mark.parametrize(
    ("first", "second", "sizes"),
    [
        ((512, 4, 4), (512, 4, 4), "512 matrices of 4x4 by 4x4"),
        (("s0", 3, 3), ("s0", 3, 1), "many matrices of 3x3 by 3x1"),
        ((512, 8, 8), (512, 8, 8), ""),
        ((4, 1500, 4), (4, 4, 4), ""),
        ((64, 4, 4), (64, 4, 4), ""),
        ((512, "s1", 4), (512, 4, 4), ""),
    ],
)
def test_products_of_many_small_matrices(
    first: tuple[Size, ...], second: tuple[Size, ...], sizes: str
) -> None:
    a, b = node("a", first), node("b", second)
    assert said(a, b, node("bmm", (1,), "bmm.default", "a", "b")) == sizes
    c = node("c", (1, 1, 1))
    assert said(a, b, c, node("sum", (1,), "baddbmm.default", "c", "a", "b")) == sizes


@pytest.mark.parametrize(
    ("rows", "matrix", "gpu", "sizes"),
    [
        ((52_920_000, 3), (3, 3), True, "52,920,000 rows by 3x3"),
        (("s0", 2), (2, 4), True, "many rows by 2x4"),
        ((52_920_000, 8), (8, 3), True, ""),
        ((52_920_000, 3), (3, 64), True, ""),
        ((4096, 3), (3, 3), True, ""),
        ((52_920_000, 3), (3, 3), False, ""),
    ],
)
def test_products_of_many_rows_with_a_small_matrix(
    rows: tuple[Size, ...], matrix: tuple[Size, ...], gpu: bool, sizes: str
) -> None:
    x, w, b = node("x", rows), node("w", matrix), node("b", matrix[1:])
    assert said(x, w, node("y", (1,), "mm.default", "x", "w"), gpu=gpu) == sizes
    assert said(x, w, b, node("y", (1,), "addmm.default", "b", "x", "w"), gpu=gpu) == sizes


def test_a_sum_is_the_product_as_it_is_advised() -> None:
    torch = pytest.importorskip("torch")
    y = node("y", (1,), "mm.default", "x", "w")
    found = awkward(y, {"x": node("x", (50_000, 3)), "w": node("w", (3, 4)), "y": y}, True)
    assert found is not None and found.inference
    x, w = torch.randn(50_000, 3), torch.randn(3, 4)
    way = found.advice.partition("around it: ")[2].removesuffix(" for x @ w")
    torch.testing.assert_close(eval(way, {"x": x, "w": w}), x @ w, rtol=1e-4, atol=1e-4)


def transforms_of_points(corpus: Path, *others: FxNode) -> Case:
    """A graph on a GPU that has points turned, and other nodes."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    assert own.artifacts.fx_after is not None
    nodes = (node("x", (1_000_000, 3)), node("w", (3, 3)), node("y", (1,), "mm.default", "x", "w"), *others)
    artifacts = replace(own.artifacts, fx_after=replace(own.artifacts.fx_after, nodes=nodes))
    call = replace(own.launches[0].call, kernel="extern_kernels.mm")
    launch = replace(own.launches[0], role="library", fx=("y",), ms=4.0, call=call)
    graph = replace(own, artifacts=artifacts, launches=(launch,), gpu=True)
    return replace(case, graphs=(graph,))


def test_torch_can_write_products_out_where_that_slows_no_others(corpus: Path) -> None:
    (finding,) = awkward_calls.find(transforms_of_points(corpus))
    assert "1,000,000 rows by 3x3" in finding.title and "post_grad_fusion_options" in finding.advice
    assert finding.trial is not None
    small = node("small", (3, 16)), node("few", (100, 3)), node("z", (1,), "mm.default", "few", "small")
    (finding,) = awkward_calls.find(transforms_of_points(corpus, *small))
    assert finding.trial is not None, "of a hundred rows torch leaves them"
    wide = node("wide", (3, 16)), node("z", (1,), "mm.default", "x", "wide")
    (finding,) = awkward_calls.find(transforms_of_points(corpus, *wide))
    assert finding.trial is None and "post_grad_fusion_options" not in finding.advice
    large = node("large", (3, 64)), node("z", (1,), "mm.default", "x", "large")
    (finding,) = awkward_calls.find(transforms_of_points(corpus, *large))
    assert finding.trial is not None, "of a side of 32 and more it leaves them too"


def test_transforms_of_lengths_with_a_large_prime_factor() -> None:
    x, freqs = node("x", (8, 7246)), node("freqs", (8, 4096))
    forward = node("r2c", (8, 3624), "_fft_r2c.default", "x", "[1]", "0", "True")
    assert said(x, forward) == "length 7,246 (with 3,623 as a prime factor)"
    found = awkward(forward, {"x": x, "r2c": forward}, True)
    assert found is not None and "pad to 7,290" in found.advice
    # The length of an inverse is that of what it gives.
    back = node("c2r", (8, 8191), "_fft_c2r.default", "freqs", "[1]", "2", "8191")
    assert said(freqs, back) == "length 8,191 (with 8,191 as a prime factor)"
    assert not said(freqs, node("c2r", (8, 8190), "_fft_c2r.default", "freqs", "[1]", "2", "8190"))
    assert not said(node("x", (8, "s0")), forward)
    # A length that no program has: finding its factors would take hours.
    assert not said(node("x", (8, (1 << 61) - 1)), forward)
    # Of several dimensions the worst.
    image = node("x", (509, 512))
    assert "509" in said(image, node("c2c", (509, 512), "_fft_c2c.default", "x", "[0, 1]", "0", "True"))
    assert not said(image, node("c2c", (509, 512), "_fft_c2c.default", "x", "[1]", "0", "True"))


@pytest.mark.parametrize(
    ("weight", "stride", "transposed", "gpu", "told"),
    [
        ((768, 1, 4), "[1]", "False", True, True),
        ((768, 1, 4), "[1]", "False", False, False),
        ((768, 1, 7), "[1]", "False", True, False),
        ((768, 1, 1), "[1]", "False", True, False),
        ((768, 768, 3), "[1]", "False", True, False),
        ((1536, 1, 3), "[1]", "False", True, False),
        ((768, 1, 4), "[2]", "False", True, False),
        ((768, 1, 4), "[1]", "True", True, False),
        ((768, 1, 3, 3), "[1, 1]", "False", True, False),
    ],
)
def test_depthwise_convolutions_over_few_taps(
    weight: tuple[int, ...], stride: str, transposed: str, gpu: bool, told: bool
) -> None:
    x, w, grad = node("x", (12, 768, "s27")), node("w", weight), node("grad", (12, 768, "s27"))
    rest = (stride, "[3]", "[1]", transposed, "[0]", "768")
    call = node("y", (12, 768, "s27"), "convolution.default", "x", "w", "None", *rest)
    assert (said(x, w, call, gpu=gpu) == "768 channels each by itself over 4 taps") == told
    back = node("back", (), "convolution_backward.default", "grad", "x", "w", "None", *rest)
    assert bool(said(x, w, grad, back, gpu=True)) == (told or not gpu)


def test_operators_on_complex_numbers_that_a_cpu_does_one_by_one() -> None:
    z, x = node("z", ("s0", 64), dtype="complex64"), node("x", ("s0", 64))
    for name in ("abs", "exp"):
        assert said(z, node("y", ("s0", 64), f"{name}.default", "z"), gpu=False) == "complex numbers"
        assert not said(x, node("y", ("s0", 64), f"{name}.default", "x"), gpu=False)
        assert not said(z, node("y", ("s0", 64), f"{name}.default", "z"))
    made = node("y", ("s0", 64), "polar.default", "x", "x", dtype="complex64")
    assert said(x, made, gpu=False) == "complex numbers"
    assert not said(z, node("y", ("s0", 64), "mul.Tensor", "z", "z", dtype="complex64"), gpu=False)


def test_long_filters_are_for_transforms_on_a_cpu() -> None:
    rest = ("None", "[1]", "[0]", "[1]", "False", "[0]", "1")
    x, w = node("x", (1, 1, 48000)), node("w", (1, 1, 720))
    call = node("y", (1, 1, 47281), "convolution.default", "x", "w", *rest)
    assert said(x, w, call, gpu=False) == "1 channel each by itself over 720 taps"
    assert not said(x, w, call, gpu=True)
    assert said(x, node("w", (1, 1, 63)), call, gpu=False) == "one channel over 63 taps", "as a sum"
    # Channels that are mixed: a matrix product each does as well from some hundred pairs on.
    many = node("x", (1, 6, 4000))
    assert said(many, node("w", (12, 1, 2048)), call, gpu=False) == "12 channels of 1 each over 2048 taps"
    assert said(many, node("w", (2, 6, 256)), call, gpu=False) == "2 channels of 6 each over 256 taps"
    for taps, out in ((255, 12), (256, 64)):
        assert not said(many, node("w", (out, 6, taps)), call, gpu=False)
    assert not said(node("x", (1, 64, 48000)), node("w", (64, 64, 720)), call, gpu=False)


@pytest.mark.parametrize(
    ("weight", "stride", "told"),
    [
        ((1, 1, 3, 3), "[1, 1]", "one channel over 3x3 taps"),
        ((1, 1, 1, 25), "[1, 1]", "one channel over 1x25 taps"),
        ((1, 1, 5, 1, 1), "[1, 1, 1]", "one channel over 5x1x1 taps"),
        ((1, 1, 15), "[1]", "one channel over 15 taps"),
        ((3, 1, 3, 3), "[1, 1]", "3 channels each by itself over 3x3 taps"),
        ((3, 1, 5, 5), "[1, 1]", "3 channels each by itself over 5x5 taps"),
        ((3, 1, 7, 7), "[1, 1]", ""),
        ((1, 1, 12, 12), "[1, 1]", ""),
        ((1, 1, 1, 1), "[1, 1]", ""),
        ((1, 1, 3, 3), "[2, 2]", ""),
        ((1, 1, 3, 3), "[1, 2]", ""),
        ((3, 3, 3, 3), "[1, 1]", ""),
        ((2, 1, 3, 3), "[1, 1]", ""),
        (("s0", 1, 3, 3), "[1, 1]", ""),
    ],
)
def test_filters_of_images_that_mix_no_channels(weight: tuple[Size, ...], stride: str, told: str) -> None:
    """On a CPU a sum of shifted products is faster: backward, too, of one channel, and else in inference."""
    shape = (8, 1 if weight[0] == 2 else weight[0], *[256] * (len(weight) - 2))
    x, w, grad = node("x", shape), node("w", weight), node("grad", shape)
    rest = ("None", stride, "[0]", "[1]", "False", "[0]", "1")
    call = node("y", shape, "convolution.default", "x", "w", *rest)
    assert said(x, w, call, gpu=False) == told
    back = node("back", (), "convolution_backward.default", "grad", "x", "w", *rest)
    assert said(x, w, grad, back, gpu=False) == (told if weight[0] == 1 else "")
    nodes = {each.name: each for each in (x, w, call)}
    for gpu in (False, True):
        found = awkward(call, nodes, gpu)
        assert found is None or found.inference == (gpu or weight[0] != 1)
    assert not said(x, w, grad, back, gpu=True)
    # A GPU's library is slower over more taps, too.
    assert said(x, w, call, gpu=True) == (told or "3 channels each by itself over 7x7 taps" * (7 in weight))


@pytest.mark.parametrize(
    ("first", "second", "power", "inference"),
    [
        ((3072, 24, 75), (3072, 24, 75), "2.0", False),
        ((2048, 3), (100, 3), "2.0", True),
        ((2048, 33), (100, 33), "2.0", None),
        ((24, 33), (26, 33), "2.0", None),
        ((24, 33), (25, 33), "2.0", False),
        ((24, 33), (25, 33), "1.0", None),
        (("s0", 3), (100, 3), "2.0", None),
    ],
)
def test_distances_of_few_points_or_of_few_coordinates(
    first: tuple[Size, ...], second: tuple[Size, ...], power: str, inference: bool | None
) -> None:
    x, y, grad = node("x", first), node("y", second), node("grad", (1,))
    for call in (
        node("d", (1,), "_cdist_forward.default", "x", "y", power, "None"),
        node("back", (1,), "_cdist_backward.default", "grad", "x", "y", power, "d"),
    ):
        nodes = {each.name: each for each in (x, y, grad, call)}
        found = awkward(call, nodes, True)
        assert (found.inference if found is not None else None) == inference
        assert awkward(call, nodes, False) is None, "on a CPU as often slower"


@pytest.mark.parametrize(
    ("shape", "count", "gpu", "told"),
    [
        ((768, 482), "1", False, "one of each row in tensors of 768x482"),
        ((32000,), "1", False, "one of each row in tensors of 32000"),
        ((768, 482), "2", False, ""),
        ((768, 482), "1", True, "one of each row in tensors of 768x482"),
        ((10, 482), "1", True, "one of each row in tensors of 10x482"),
        (("s0", 482), "1", True, "one of each row in tensors of nx482"),
        ((768, 482), "2", True, ""),
        ((10, 482), "1", False, ""),
        (("s0", 482), "1", False, ""),
    ],
)
def test_picks_of_one_of_each_row(shape: tuple[Size, ...], count: str, gpu: bool, told: str) -> None:
    call = node("y", (1,), "multinomial.default", "p", count)
    assert said(node("p", shape), call, gpu=gpu) == told


def test_picks_win_less_on_a_gpu_than_on_a_cpu() -> None:
    call = node("y", (1,), "multinomial.default", "p", "1")
    nodes = {"p": node("p", (768, 482)), "y": call}
    by_gpu = [found.saved[0] for gpu in (False, True) if (found := awkward(call, nodes, gpu)) is not None]
    assert by_gpu == sorted(by_gpu, reverse=True) and len(set(by_gpu)) == 2


def test_running_sums_pick_by_weight_as_it_is_advised() -> None:
    torch = pytest.importorskip("torch")
    call = node("y", (1,), "multinomial.default", "p", "1")
    found = awkward(call, {"p": node("p", (40_000, 4)), "y": call}, False)
    assert found is not None
    first, _, last = found.advice.partition("s = ")[2].partition(", then ")
    p = torch.tensor([0.0, 1.0, 3.0, 0.0]).expand(40_000, 4)
    picked = eval(last, {"torch": torch, "p": p, "s": eval(first, {"p": p})})
    assert picked.shape == torch.multinomial(p, 1).shape
    shares = torch.bincount(picked.flatten(), minlength=4) / 40_000
    torch.testing.assert_close(shares, torch.tensor([0.0, 0.25, 0.75, 0.0]), rtol=0, atol=0.02)


@pytest.mark.parametrize(
    ("shape", "dtype", "told"),
    [
        ((192, 4, 1, 32), "float32", "one query in tensors of 192x4x1x32"),
        (("s0", 4, 1, 32), "float32", "one query in tensors of nx4x1x32"),
        ((192, 4, 2, 32), "float32", ""),
        ((192, 4, 1, 32), "bfloat16", ""),
    ],
)
def test_attention_of_one_query(shape: tuple[Size, ...], dtype: str, told: str) -> None:
    q, k = node("q", shape, dtype=dtype), node("k", (192, 4, 100, 32), dtype=dtype)
    call = node("y", (1,), "_scaled_dot_product_flash_attention_for_cpu.default", "q", "k", "k")
    assert said(q, k, call, gpu=False) == told


def test_attention_written_out_is_the_attention_that_it_is_advised_for() -> None:
    torch = pytest.importorskip("torch")
    call = node("y", (1,), "_scaled_dot_product_flash_attention_for_cpu.default", "q", "k", "v")
    found = awkward(call, {"q": node("q", (3, 4, 1, 8)), "y": call}, False)
    assert found is not None and found.inference
    first, _, last = found.advice.partition("w = ")[2].partition(", then ")
    q, k, v = torch.randn(3, 4, 1, 8), torch.randn(3, 4, 20, 8), torch.randn(3, 4, 20, 8)
    w = eval(first.partition(" (a mask")[0], {"q": q, "k": k})
    own = eval(last, {"w": w, "v": v})
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=1e-5)


def test_what_reads_a_calls_result_is_not_that_call(corpus: Path) -> None:
    """A fallback has the operator that made what it reads among its nodes, too."""
    p, y = node("p", (768, 482)), node("y", (768, 1), "multinomial.default", "p", "1")
    z = node("z", (768, 482), "scatter_add.default", "p", "1", "y", "p")
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    assert own.artifacts.fx_after is not None
    artifacts = replace(own.artifacts, fx_after=replace(own.artifacts.fx_after, nodes=(p, y, z)))
    picks, adds = (
        replace(
            own.launches[0],
            role="fallback",
            fx=fx,
            ms=4.0,
            call=replace(own.launches[0].call, index=index, kernel=f"torch.ops.aten.{name}"),
        )
        for index, (name, fx) in enumerate(
            (("multinomial.default", ("y",)), ("scatter_reduce_.two", ("y", "z")))
        )
    )
    graph = replace(own, artifacts=artifacts, launches=(picks, adds))
    (finding,) = awkward_calls.find(replace(case, graphs=(graph,)))
    assert len(finding.claims) == 1 and "4.00 ms a call in picks" in finding.title


def test_distances_written_out_are_those_that_they_are_advised_for() -> None:
    """The line that is shown, run as it stands."""
    torch = pytest.importorskip("torch")
    x, y = torch.randn(4, 5, 3), torch.randn(4, 6, 3)
    shapes = node("x", tuple(x.shape)), node("y", tuple(y.shape))
    call = node("d", (4, 5, 6), "_cdist_forward.default", "x", "y", "2.0", "None")
    found = awkward(call, {each.name: each for each in (*shapes, call)}, True)
    assert found is not None
    made = eval(found.advice.partition("around them: ")[2].partition(", where")[0], {"x": x, "y": y})
    torch.testing.assert_close(made, torch.cdist(x, y))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_sum_of_shifted_products_is_the_convolution_as_it_is_advised(dims: int) -> None:
    """The line that is shown, run as it stands."""
    torch = pytest.importorskip("torch")
    channels, sizes, window = 1 if dims == 1 else 3, (9, 8, 7)[:dims], (3, 2, 3)[:dims]
    x, w = torch.randn(2, channels, *sizes), torch.randn(channels, 1, *window)
    shapes = node("x", tuple(x.shape)), node("w", tuple(w.shape))
    call = node("y", (), "convolution.default", "x", "w", "None", f"{[1] * dims}", "[0]", "[1]", "False")
    found = awkward(call, {each.name: each for each in (*shapes, call)}, False)
    assert found is not None
    kept = [size - taps + 1 for size, taps in zip(sizes, window, strict=True)]
    names = {"w": w, "padded": x, "taps": window[0], "length": kept[0]}
    if dims > 1:
        names |= dict(zip(("depth", "height", "width")[-dims:], kept, strict=True))
        names |= dict(zip(("planes", "rows", "columns")[-dims:], window, strict=True))
    made = eval(found.advice.partition("kernel of: ")[2], names)
    convolve = getattr(torch.nn.functional, f"conv{dims}d")
    torch.testing.assert_close(made, convolve(x, w, groups=channels))


def test_what_helps_in_inference_alone_is_not_told_of_what_is_trained(corpus: Path) -> None:
    x, w = node("x", (8, 3, 256, 256)), node("w", (3, 1, 3, 3))
    rest = ("None", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "3")
    call = node("y", (8, 3, 254, 254), "convolution.default", "x", "w", *rest)
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (own,) = case.graphs
    assert own.artifacts.fx_after is not None
    launch = replace(own.launches[0], role="library", fx=("y",), ms=4.0)
    for phase in ("inference", "forward"):
        fx = replace(own.artifacts.fx_after, nodes=(x, w, call))
        artifacts = replace(own.artifacts, fx_after=fx, phase=phase)
        graph = replace(own, artifacts=artifacts, launches=(launch,))
        assert bool(list(awkward_calls.find(replace(case, graphs=(graph,))))) == (phase == "inference")
        # Sums of hundreds of terms take minutes to compile.
        many = replace(graph, launches=(launch,) * (MOST_TERMS // 9 + 1))
        assert not list(awkward_calls.find(replace(case, graphs=(many,))))


@pytest.mark.parametrize(
    ("shape", "full", "read", "told"),
    [
        ((3000, 9), "True", "2", True),
        ((3000, 9), "True", "0", False),
        ((3000, 9), "False", "2", False),
        ((8, 9, 3000), "True", "0", True),
        ((8, 9, 3000), "True", "2", False),
        ((1024, 8, 9), "True", "2", False),
        ((3000, "s0"), "True", "2", False),
    ],
)
def test_bases_that_are_made_whole_and_not_read(
    shape: tuple[Size, ...], full: str, read: str, told: bool
) -> None:
    x = node("x", shape)
    svd = replace(node("svd", (), "_linalg_svd.default", "x", full), users=("part",))
    part = replace(node("part", (9, 9), "", "svd", read), kind="getitem")
    assert bool(said(x, part, svd, gpu=False)) == told
    assert not said(x, part, replace(svd, users=("part", "returned")))


@pytest.mark.parametrize("gpu", [True, False])
def test_singular_values_of_many_small_matrices_may_cost_all_that_they_take(gpu: bool) -> None:
    for shape, told in (((24576, 3, 3), True), (("s0", 2, 2), True), ((24576, 8, 8), False)):
        x = node("x", shape)
        svd = replace(node("svd", (), "_linalg_svd.default", "x", "True"), users=("u", "v"))
        found = awkward(svd, {"x": x, "svd": svd}, gpu)
        assert (found is not None) == told
        if found is not None:
            assert found.kind == "svd" and found.saved[0] == 0.0 and "quaternion" in found.advice


@pytest.mark.parametrize(
    ("target", "shape", "given"),
    [
        ("linalg_inv_ex.default", (5000, 3, 3), "5,000 matrices of 3x3"),
        ("_linalg_solve_ex.default", (8, 500, 2, 2), "4,000 matrices of 2x2"),
        ("linalg_cholesky_ex.default", ("s0", 3, 3), "many matrices of 3x3"),
        ("_linalg_det.default", (5000, 4, 4), ""),
        ("_linalg_det.default", (50, 3, 3), ""),
        ("linalg_inv_ex.default", (3, 3), ""),
        ("linalg_qr.default", (5000, 3, 3), ""),
    ],
)
def test_small_matrices_are_taken_apart_by_formulas(target: str, shape: tuple[Size, ...], given: str) -> None:
    a = node("a", shape)
    assert said(a, node("made", shape, target, "a"), gpu=False) == given
    assert not said(a, node("made", shape, target, "a")), "on a GPU nobody timed them"


@pytest.mark.parametrize(
    ("target", "shape", "arguments", "given"),
    [
        ("topk.default", (48, 600, 6), ("2", "-1", "False"), "28,800 rows of 6"),
        ("topk.default", (48, 600, 6), ("1",), "28,800 rows of 6"),
        ("topk.default", (48, 600, 6), ("3",), ""),
        ("topk.default", (48, 6, 600), ("2", "1"), ""),
        ("topk.default", (4800, 512), ("2",), ""),
        ("sort.default", (4800, 9), (), "4,800 rows of 9"),
        ("sort.stable", (4800, 9), ("stable=False", "dim=0"), ""),
        ("sort.default", (4800, 31), (), "4,800 rows of 31"),
        ("sort.default", (4800, 1025), (), ""),
        ("median.dim", ("s0", 9), ("-1",), "many rows of 9"),
        ("median.dim", (20, 9), ("-1",), ""),
    ],
)
def test_short_rows_are_put_in_order_by_minimum_and_maximum(
    target: str, shape: tuple[Size, ...], arguments: tuple[str, ...], given: str
) -> None:
    x = node("x", shape)
    made = replace(node("made", shape, target, "x", *arguments), users=("part",))
    part = replace(node("part", shape, "", "made", "0"), kind="getitem")
    assert said(x, part, made, gpu=False) == given and not said(x, part, made)
    if not target.startswith("topk"):
        places = replace(part, arguments=("made", "1"))
        assert not said(x, places, made, gpu=False), "where they lay is asked for"


@pytest.mark.parametrize(
    ("threads", "dtype", "read", "saved"),
    [
        (2, "float32", "0", (0.82, 0.94)),
        (8, "float32", "0", (0.28, 0.76)),
        (64, "float32", "0", None),
        (0, "float32", "0", None),
        (2, "float64", "0", (0.78, 0.88)),
        (2, "int64", "0", (0.74, 0.85)),
        (2, "bfloat16", "0", None),
        (2, "float32", "1", None),
    ],
)
def test_values_without_their_places_are_sorted_faster_by_one_thread_of_numpy(
    threads: int, dtype: str, read: str, saved: tuple[float, float] | None
) -> None:
    x = node("x", (8192, 256), dtype=dtype)
    made = replace(node("made", (8192, 256), "sort.stable", "x", "dim=-1"), users=("part",))
    part = replace(node("part", (8192, 256), "", "made", read), kind="getitem")
    nodes = {each.name: each for each in (x, part, made)}
    found = awkward(made, nodes, False, threads)
    assert (found.saved if found is not None else None) == (saved and pytest.approx(saved))
    assert awkward(made, nodes, True, threads) is None


def test_means_over_large_windows_are_differences_of_running_sums() -> None:
    """A guided filter: 53 of 66 ms in means over 41 rows, and 41 columns. Not of windows that lie side by
    side, nor of small ones, which Inductor has code for."""

    def windows(window: str, step: str = "[1, 1]", *, gpu: bool = False) -> str:
        x = node("x", (1, 4, 360, "s0"))
        return said(
            x, node("m", (1, 4, 360, "s0"), "avg_pool2d.default", "x", window, step, "[20, 0]"), gpu=gpu
        )

    assert windows("[41, 1]") == "windows of 41x1 in tensors of 1x4x360xn"
    assert windows("[15, 15]") and windows("[9]", "[1]") == "windows of 9x9 in tensors of 1x4x360xn"
    assert not windows("[5, 5]") and not windows("[41, 1]", "[41, 1]") and not windows("[41, 1]", "[]")
    assert not windows("[41, 1]", "[2, 1]") and not windows("[41, 1]", gpu=True)


def test_running_sums_of_exponentials_are_slow_on_a_cpu() -> None:
    x = node("x", (16, "s0", 128))
    made = node("made", (16, "s0", 128), "logcumsumexp.default", "x", "1")
    assert said(x, made, gpu=False) == "tensors of 16xnx128" and not said(x, made)


def test_what_is_claimed_is_a_part_of_what_such_calls_take(corpus: Path) -> None:
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = case.graphs
    library = next(item for item in graph.launches if item.role == "library")
    a, b = node("a", (512, 4, 4)), node("b", (512, 4, 4))
    small = node("bmm", (512, 4, 4), "bmm.default", "a", "b")
    seen = node("expand", (512, 4, 4), "expand.default", "bmm", "[512, 4, 4]")

    def told(*nodes: FxNode, ms: float = 1.0) -> list[tuple[float, float]]:
        fx = FxGraph("fx_graph_transformed.py", nodes, (), "")
        launch = replace(library, fx=(nodes[-1].name,), ms=ms)
        artifacts = replace(graph.artifacts, fx_after=fx)
        now: Case = replace(case, graphs=(replace(graph, artifacts=artifacts, launches=(launch,), runs=2.0),))
        found = list(awkward_calls.find(now))
        assert all("in products of 512 matrices of 4x4 by 4x4, which" in finding.title for finding in found)
        return [claim.ms for finding in found for claim in finding.claims]

    assert (
        told(a, b, small)
        == told(a, b, small, seen)
        == [(pytest.approx(1.2, abs=0.01), pytest.approx(1.6, abs=0.01))]
    )
    # What a launch takes anyway is not saved.
    assert told(a, b, small, ms=0.003) == [(0.0, 0.0)]
    assert not told(a, b, node("mm", (4, 4), "mm.default", "a", "b"))


@pytest.mark.parametrize(("count", "dtype"), [(8, "complex64"), (7, "complex64"), (8, "float32")])
def test_operators_on_complex_numbers_save_their_launches_at_least(
    corpus: Path, count: int, dtype: str
) -> None:
    """A few have little to fuse; those on large tensors take as long with real ones."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = case.graphs
    library = next(item for item in graph.launches if item.role == "library")
    z = node("z", (5184,), dtype=dtype)
    product = node("mul", (5184,), "mul.Tensor", "z", "z", dtype=dtype)
    called = replace(library.call, kind="fallback")
    launch = replace(library, role="fallback", call=called, fx=("mul",), ms=0.02)
    artifacts = replace(graph.artifacts, fx_after=FxGraph("fx_graph_transformed.py", (z, product), (), ""))
    own = replace(graph, artifacts=artifacts, launches=(launch,) * count, runs=1.0)
    found = list(awkward_calls.find(replace(case, graphs=(own,))))
    assert bool(found) == (count == 8 and dtype == "complex64")
    for finding in found:
        assert "in operators of complex numbers, which Inductor has no code for" in finding.title
        assert finding.advice.endswith("one operator at a time")
        start = case.costs.launch_ms
        assert finding.claims[0].ms == (pytest.approx(start), pytest.approx(0.7 * (0.02 - start)))


def test_small_products_of_complex_numbers_are_sums_of_real_ones() -> None:
    """As sums of complex ones they take two to four times as long."""
    a, b = node("a", (5184, 2, 2), dtype="complex64"), node("b", (5184, 2, 2), dtype="complex64")
    call = node("made", (5184, 2, 2), "bmm.default", "a", "b", dtype="complex64")
    found = awkward(call, {each.name: each for each in (a, b, call)}, gpu=False)
    assert found is not None and found.saved == (0.2, 0.4) and "real and imaginary parts" in found.advice
    assert not said(a, b, call), "on a GPU nobody timed them"


def test_slow_operators_on_complex_numbers_are_told_with_the_others(corpus: Path) -> None:
    """Of many, what is done with them is one finding, and how the slowest is written stands in it."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = case.graphs
    library = next(item for item in graph.launches if item.role == "library")
    z = node("z", (5184,), dtype="complex64")
    made = [node(name, (5184,), f"{name}.default", "z", dtype="complex64") for name in ("cos", "mul")]
    artifacts = replace(graph.artifacts, fx_after=FxGraph("fx_graph_transformed.py", (z, *made), (), ""))
    called = replace(library.call, kind="fallback")
    cos, mul = (
        replace(library, role="fallback", call=called, fx=(name,), ms=ms)
        for name, ms in (("cos", 0.9), ("mul", 0.02))
    )

    def told(*launches: Launch) -> list[Finding]:
        own = replace(graph, artifacts=artifacts, launches=launches, runs=1.0)
        return list(awkward_calls.find(replace(case, graphs=(own,))))

    (few,) = told(cos, cos, mul)
    assert "1.80 ms a call in cos of complex numbers" in few.title.removeprefix("an estimated ")
    assert few.advice.startswith("write it with real ones: torch.complex(z.real.cos()")
    (many,) = told(*(cos,) * 4, *(mul,) * 4)
    assert "in operators of complex numbers, which Inductor has no code for" in many.title
    assert "one operator at a time; cos as torch.complex(z.real.cos()" in many.advice
    assert len(many.claims) == 8


@pytest.mark.parametrize("phase", ["inference", "forward"])
def test_what_inductor_cant_look_into_may_save_nothing_beside_a_backward(corpus: Path, phase: str) -> None:
    """numpy's sort took 0.036 instead of 0.862 ms, and a step of training with it 3.7 ms more: what is kept
    for the backward was divided anew."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    (graph,) = case.graphs
    library = next(item for item in graph.launches if item.role == "library")
    x = node("x", (256, 125))
    made = replace(node("made", (256, 125), "sort.stable", "x", "dim=-1"), users=("part",))
    part = replace(node("part", (256, 125), "", "made", "0"), kind="getitem")
    launch = replace(library, fx=("made",), ms=1.0)
    artifacts = replace(
        graph.artifacts, phase=phase, fx_after=FxGraph("fx_graph_transformed.py", (x, made, part), (), "")
    )
    own = replace(graph, artifacts=artifacts, launches=(launch,), runs=1.0)
    (finding,) = awkward_calls.find(replace(case, graphs=(own,), threads=2))
    (claim,) = finding.claims
    assert claim.ms[1] > 0.5 and (claim.ms[0] > 0.4) == (phase == "inference")
