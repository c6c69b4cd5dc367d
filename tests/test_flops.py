"""Operations counted by hand, and against torch's own counter wherever that has a formula."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any

import pytest

from inspector.hardware.flops import Tensor, flops

CONVOLUTION = "torch.ops.aten.convolution.default"


def t(*shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(shape, dtype)


@pytest.mark.parametrize(
    ("target", "arguments", "result", "expected"),
    [
        # (3 x 5) (5 x 7): 21 results of 5 multiplications and 5 additions each.
        ("aten.mm.default", [t(3, 5), t(5, 7)], t(3, 7), 210),
        ("torch.ops.aten.mm", [t(3, 5), t(5, 7)], t(3, 7), 210),
        ("aten.addmm.default", [t(7), t(3, 5), t(5, 7)], t(3, 7), 210),
        ("aten.addmm.default", [t(3, 7), t(3, 5), t(5, 7)], t(3, 7), 210),
        ("aten.bmm.default", [t(2, 3, 5), t(2, 5, 7)], t(2, 3, 7), 420),
        ("aten.baddbmm.default", [t(2, 3, 7), t(2, 3, 5), t(2, 5, 7)], t(2, 3, 7), 420),
        ("aten.addbmm.default", [t(3, 7), t(2, 3, 5), t(2, 5, 7)], t(3, 7), 420),
        ("aten._int_mm.default", [t(3, 5), t(5, 7)], t(3, 7), 210),
        ("aten._scaled_mm.default", [t(3, 5), t(5, 7), t(), t(), None, None], t(3, 7), 210),
        ("aten.mv.default", [t(3, 5), t(5)], t(3), 30),
        ("aten.dot.default", [t(5), t(5)], t(), 10),
        ("mkldnn._linear_pointwise.default", [t(2, 3, 5), t(7, 5), None], t(2, 3, 7), 420),
        ("mkl._mkl_linear.default", [t(3, 5), t(99, 1), t(7, 5), None, 3], t(3, 7), 210),
        # Four times: (a + bi)(c + di) has four multiplications and, with its sum, four additions.
        ("aten.mm.default", [t(3, 5, dtype="complex64"), t(5, 7)], t(3, 7, dtype="complex64"), 840),
        ("aten.mm.default", [t(0, 5), t(5, 7)], t(0, 7), 0),
    ],
)
def test_products(target: str, arguments: Sequence[object], result: object, expected: int) -> None:
    assert flops(target, arguments, result) == expected


def convolution(weight: Tensor, given: Tensor, result: Tensor, transposed: bool, groups: int) -> int | None:
    rest = [None, [1, 1], [0, 0], [1, 1], transposed, [0, 0], groups]
    return flops(CONVOLUTION, [given, weight, *rest], result)


def test_convolutions_with_groups_and_transposed() -> None:
    # Each of 2 * 8 * 6 * 6 results sums over 4 channels of 3 x 3.
    assert convolution(t(8, 4, 3, 3), t(2, 4, 8, 8), t(2, 8, 6, 6), False, 1) == 2 * (2 * 8 * 36) * (4 * 9)
    # Over one channel each where every channel is a group.
    assert convolution(t(4, 1, 3, 3), t(2, 4, 8, 8), t(2, 4, 6, 6), False, 4) == 2 * (2 * 4 * 36) * 9
    # Each of 2 * 4 * 8 * 8 inputs is spread over 8 channels of 3 x 3.
    assert convolution(t(4, 8, 3, 3), t(2, 4, 8, 8), t(2, 8, 10, 10), True, 1) == 2 * (2 * 4 * 64) * (8 * 9)
    assert convolution(t(4, 2, 3, 3), t(2, 4, 8, 8), t(2, 8, 10, 10), True, 4) == 2 * (2 * 4 * 64) * (2 * 9)


def test_mkldnns_convolutions() -> None:
    given, weight, result = t(2, 4, 8, 8), t(8, 4, 3, 3), t(2, 8, 6, 6)
    expected = 2 * (2 * 8 * 36) * (4 * 9)
    name = "mkldnn._convolution_pointwise"
    assert flops(f"{name}.default", [given, weight, None, [0, 0]], result) == expected
    assert flops(f"{name}.binary", [given, result, weight, None], result) == expected
    assert flops(f"{name}_.binary", [result, given, weight, None], result) == expected
    packed = flops("mkldnn._convolution_transpose_pointwise.default", [given, t(8, 4, 3, 3), None], None)
    assert packed == 2 * (2 * 4 * 64) * (8 * 9)


@pytest.mark.parametrize(("mask", "times"), [([True, True, False], 2), ([False, True, True], 1)])
def test_the_backward_of_a_convolution_counts_what_is_asked_for(mask: list[bool], times: int) -> None:
    arguments = [t(2, 4, 6, 6), t(2, 4, 8, 8), t(4, 1, 3, 3), [0], [1, 1], [0, 0], [1, 1], False, [0, 0], 4]
    name = "torch.ops.aten.convolution_backward.default"
    assert flops(name, [*arguments, mask], None) == times * 2 * (2 * 4 * 36) * 9
    assert flops(name, arguments, None) is None
    assert flops(name, [*arguments, None], None) is None


def test_attention_with_fewer_heads_of_keys_and_other_widths() -> None:
    query, key, value = t(2, 8, 16, 64), t(2, 2, 32, 64), t(2, 2, 32, 48)
    pairs = 2 * 8 * 16 * 32
    name = "torch.ops.aten._scaled_dot_product_flash_attention"
    assert flops(f"{name}.default", [query, key, value], None) == 2 * pairs * (64 + 48)
    gradient = t(2, 8, 16, 48)
    backward = [gradient, query, key, value]
    # Scores, gradients of query and key: three of width 64; the others have the value's.
    assert flops(f"{name}_backward.default", backward, None) == 2 * pairs * (3 * 64 + 2 * 48)
    assert flops(f"{name}_for_cpu_backward.default", backward, None) == 2 * pairs * (3 * 64 + 2 * 48)


def test_a_causal_mask_asks_for_the_pairs_that_it_leaves() -> None:
    tensors = [t(2, 8, 5, 64), t(2, 8, 3, 64), t(2, 8, 3, 64)]
    name = "aten._scaled_dot_product_flash_attention_for_cpu"
    # Of 5 tokens the first is weighed with one of 3, the second with two, the others with all.
    pairs = 2 * 8 * (1 + 2 + 3 + 3 + 3)
    assert flops(f"{name}.default", [*tensors, 0.0, True], None) == 2 * pairs * 128
    assert flops(f"{name}.default", [*tensors, 0.0, False], None) == 2 * (2 * 8 * 5 * 3) * 128
    backward = [t(2, 8, 5, 64), *tensors, t(2, 8, 5, 64), t(2, 8, 5), 0.0, True]
    assert flops(f"{name}_backward.default", backward, None) == 2 * pairs * 5 * 64


def test_attention_with_tokens_before_heads_and_sequences_of_one_length_only() -> None:
    name = "aten._flash_attention_forward.default"
    arguments = [t(2, 16, 8, 64), t(2, 32, 8, 64), t(2, 32, 8, 64)]
    assert flops(name, [*arguments, None, None], None) == 2 * (2 * 16 * 8 * 32) * 128
    assert flops(name, [*arguments, t(3), t(3)], None) is None
    backward = [t(2, 16, 8, 64), *arguments, t(2, 16, 8, 64), t(2, 8, 16), None, None]
    assert flops("aten._flash_attention_backward.default", backward, None) == 2 * (2 * 16 * 8 * 32) * 320


def test_ffts() -> None:
    # 3 signals of 16 * 8 numbers, over both dimensions: 5 N log2(128) each.
    signal = t(3, 16, 8, dtype="complex64")
    assert flops("aten._fft_c2c.default", [signal, [1, 2], 0, True], signal) == 5 * 3 * 128 * 7
    assert flops("aten._fft_c2c.default", [signal, [-1], 0, True], signal) == 5 * 384 * 3
    real, half = t(3, 16), t(3, 9, dtype="complex64")
    assert flops("aten._fft_r2c.default", [real, [1], 0, True], half) == 2.5 * 48 * log2(16)
    assert flops("aten._fft_c2r.default", [half, [1], 2, 16], real) == 2.5 * 48 * log2(16)


@pytest.mark.parametrize(
    "target",
    [
        "aten.add.Tensor",
        "aten._grouped_mm.default",
        "flex_attention",
        "aten.linalg_qr.default",
        "",
        "getitem",
    ],
)
def test_what_has_no_formula_has_no_count(target: str) -> None:
    assert flops(target, [t(3, 3), t(3, 3)], t(3, 3)) is None


@pytest.mark.parametrize("arguments", [[], [None, t(5, 7)], ["x"], [t(), t()]])
def test_what_is_not_known_has_no_count(arguments: list[object]) -> None:
    assert flops("aten.mm.default", arguments, t(3, 7)) is None
    assert flops("aten.mm.default", [t(3, 5), t(5, 7)], None) is None
    assert flops(CONVOLUTION, arguments, t(3, 7)) is None


def test_torchs_own_counter_counts_the_same() -> None:
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode

    counted: list[tuple[str, int | None, int]] = []

    class Mode(TorchDispatchMode):
        """Each operator's count beside torch's own."""

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            with FlopCounterMode(display=False) as counter:
                result = function(*args, **(kwargs or {}))
            if counter.get_total_flops():
                counted.append((str(function), flops(str(function), args, result), counter.get_total_flops()))
            return result

    def tensor(*shape: int) -> Any:
        return torch.randn(*shape, requires_grad=True)

    with Mode():
        functional = torch.nn.functional
        (tensor(3, 5) @ tensor(5, 7)).sum().backward()
        torch.baddbmm(tensor(2, 3, 7), tensor(2, 3, 5), tensor(2, 5, 7)).sum().backward()
        functional.linear(tensor(4, 3, 5), tensor(7, 5), tensor(7)).sum().backward()
        functional.conv2d(tensor(2, 4, 9, 9), tensor(6, 4, 3, 3), stride=2, padding=1).sum().backward()
        functional.conv2d(torch.randn(2, 4, 9, 9), tensor(6, 4, 3, 3)).sum().backward()
        functional.conv1d(tensor(2, 4, 9), tensor(4, 2, 3), groups=2).detach()
        functional.conv_transpose2d(tensor(2, 4, 9, 9), tensor(4, 6, 3, 3), stride=2).sum().backward()
        heads = (torch.randn(2, 8, length, 32, device="meta") for length in (16, 24, 24))
        torch.ops.aten._scaled_dot_product_efficient_attention(*heads, None, False)
    names = {name.removeprefix("aten.").partition(".")[0] for name, _, _ in counted}
    assert {"mm", "baddbmm", "bmm", "addmm", "convolution", "convolution_backward"} <= names
    assert "_scaled_dot_product_efficient_attention" in names
    assert [(name, own) for name, own, _ in counted] == [(name, theirs) for name, _, theirs in counted]
