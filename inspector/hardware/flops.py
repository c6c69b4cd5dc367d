"""Floating-point operations of one call of an operator, from the shapes of what it gets and gives.

A multiplication and an addition are two operations. The counts are those of torch.utils.flop_counter, but for
the gradient of a grouped convolution's weight, which torch counts as if there were no groups. A complex
product has four times the operations of a real one. What a mask leaves out of attention counts as well, but
for a causal one, which kernels skip. FFTs count 5 N log2 N for complex and half of that for real signals, by
the convention of their benchmarks (fftw.org/speed/method.html), whatever the algorithm really does.

There is no formula for what depends on data (grouped matrix products, flex_attention with its masks,
sequences of different lengths), for recurrent layers, linear algebra and quantised operators, nor for
anything pointwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from inspector.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is only known from a text; `dtype` as torch names it."""

    shape: tuple[int, ...]
    dtype: str = ""


Formula = Callable[[Sequence[object], object], int]
"""(positional arguments, result) to operations. Raises TypeError or AttributeError for what is not known."""


def flops(target: str, arguments: Sequence[object], result: object) -> int | None:
    """Operations of one call; None where there is no formula, or a shape that it needs is not known.

    `target` is the operator as an FX graph names it, with or without ``torch.ops.`` and its overload:
    ``aten.mm.default``. Tensors are anything with a `shape` of numbers, torch's own or a `Tensor`; what is
    neither tensor nor plain value is None. Keyword arguments are never needed.
    """
    name = target.removeprefix("torch.ops.")
    formula = _FORMULAS.get(name) or _FORMULAS.get(name.rpartition(".")[0])
    try:
        return formula(arguments, result) if formula is not None else None
    except (AttributeError, IndexError, TypeError, ValueError, ZeroDivisionError):
        return None


def _shape(tensor: object) -> Sequence[int]:
    shape: Sequence[int] = tensor.shape  # type: ignore[attr-defined]
    return shape


def _size(tensor: object) -> int:
    return math.prod(_shape(tensor))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not known")
    return value


def _parts(tensor: object) -> int:
    """Real operations in one of the tensor's own."""
    return 4 if "complex" in str(getattr(tensor, "dtype", "")) else 1


def _product(left: int) -> Formula:
    """A matrix product, batched or not, whose left factor is the argument `left`: 2 m n k."""

    def count(arguments: Sequence[object], result: object) -> int:
        factor = arguments[left]
        return 2 * _size(result) * _shape(factor)[-1] * _parts(factor)

    return count


def _summed_product(arguments: Sequence[object], _result: object) -> int:
    """addbmm: the products of a batch are added up, and the result has no batch."""
    return 2 * _size(arguments[1]) * _shape(arguments[2])[-1] * _parts(arguments[1])


def _dot(arguments: Sequence[object], _result: object) -> int:
    return 2 * _size(arguments[0]) * _parts(arguments[0])


def _convolved(small: object, weight: object, channels: int | None = None) -> int:
    """Each element of `small` takes part in a product with all of the weight that belongs to its channel, the
    weight's first axis: that covers groups, strides and dilations. `small` is the output of a convolution, or
    the input of a transposed one."""
    return 2 * _size(small) * (_size(weight) // (channels or _shape(weight)[0])) * _parts(weight)


def _convolution(weight: int = 1, transposed: int | None = None) -> Formula:
    """`weight` and the flag `transposed` are positions of arguments; without a flag it is not transposed."""

    def count(arguments: Sequence[object], result: object) -> int:
        inverse = transposed is not None and _flag(arguments[transposed])
        return _convolved(arguments[0] if inverse else result, arguments[weight])

    return count


def _transposed(arguments: Sequence[object], _result: object) -> int:
    """mkldnn packs the weight, so that the input tells the channels."""
    return _convolved(arguments[0], arguments[1], _shape(arguments[0])[1])


def _convolution_backward(arguments: Sequence[object], _result: object) -> int:
    """(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
    output_mask): the gradients of input and weight each take what the convolution took."""
    mask = arguments[10]
    if not isinstance(mask, Sequence):
        raise TypeError("not known")
    small = arguments[1] if _flag(arguments[7]) else arguments[0]
    return sum(map(_flag, mask[:2])) * _convolved(small, arguments[2])


def _attention(
    first: int = 0,
    backward: bool = False,
    tokens: int = -2,
    lengths: int | None = None,
    causal: int | None = None,
) -> Formula:
    """Query, key and value are the arguments from `first` on, their tokens in the axis `tokens`, their width
    in the last. `lengths`: an argument that is None where all sequences are of one length; `causal`: one that
    is True where a token is weighed with none behind it.

    Forward: scores, and what they weigh. Backward: the scores again, their gradient, and those of all three.
    """

    def count(arguments: Sequence[object], _result: object) -> int:
        if lengths is not None and arguments[lengths] is not None:
            raise TypeError("not known")
        query, key, value = map(_shape, arguments[first : first + 3])
        pairs = math.prod(query[:-1]) * key[tokens]
        if causal is not None and len(arguments) > causal and _flag(arguments[causal]):
            own, others = query[tokens], key[tokens]
            fewer = min(own, others)
            pairs = pairs // (own * others) * (fewer * (fewer + 1) // 2 + (own - fewer) * others)
        return 2 * pairs * (3 * query[-1] + 2 * value[-1] if backward else query[-1] + value[-1])

    return count


def _fft(each: float) -> Formula:
    """(input, dimensions, ...): `each` times N log2 N. A real transform's complex side keeps half of its last
    dimension, so that N is the other side's."""

    def count(arguments: Sequence[object], result: object) -> int:
        dimensions = arguments[1]
        if not isinstance(dimensions, Sequence):
            raise TypeError("not known")
        whole = max(_shape(arguments[0]), _shape(result), key=math.prod)
        return round(each * math.prod(whole) * math.log2(math.prod(whole[axis] for axis in dimensions)))

    return count


_CAUSAL = {
    "flash_attention": (4, 11),
    "flash_attention_for_cpu": (4, 7),
    "efficient_attention": (6, 11),
    "cudnn_attention": (6, 14),
    "fused_attention_overrideable": (5, 13),
}
"""Kind of scaled_dot_product_attention -> the place of `is_causal`, and in the backward's arguments."""
_SDPA = tuple(
    (f"aten._scaled_dot_product_{kind}{suffix}", _attention(int(backward), backward, causal=places[backward]))
    for kind, places in _CAUSAL.items()
    for suffix, backward in (("", False), ("_backward", True))
)
_TABLE: tuple[tuple[str, Formula], ...] = (
    ("aten.mm aten.bmm aten.mv aten._int_mm aten._scaled_mm aten._weight_int8pack_mm", _product(0)),
    ("mkldnn._linear_pointwise mkl._mkl_linear", _product(0)),
    ("aten.addmm aten.baddbmm aten.addmv", _product(1)),
    ("aten.addbmm", _summed_product),
    ("aten.dot aten.vdot", _dot),
    ("aten.convolution aten._convolution aten.convolution_overrideable", _convolution(transposed=6)),
    ("aten.cudnn_convolution aten.miopen_convolution aten.mkldnn_convolution", _convolution()),
    ("aten.conv1d aten.conv2d aten.conv3d mkldnn._convolution_pointwise", _convolution()),
    ("mkldnn._convolution_pointwise.binary mkldnn._convolution_pointwise_.binary", _convolution(weight=2)),
    ("aten.cudnn_convolution_transpose mkldnn._convolution_transpose_pointwise", _transposed),
    ("aten.convolution_backward", _convolution_backward),
    ("aten.scaled_dot_product_attention", _attention(causal=5)),
    *_SDPA,
    ("aten._flash_attention_forward", _attention(tokens=-3, lengths=3, causal=8)),
    ("aten._efficient_attention_forward", _attention(tokens=-3, lengths=4)),
    ("aten._flash_attention_backward", _attention(1, True, tokens=-3, lengths=6, causal=11)),
    ("aten._efficient_attention_backward", _attention(1, True, tokens=-3, lengths=6)),
    ("aten._fft_c2c", _fft(5.0)),
    ("aten._fft_r2c aten._fft_c2r", _fft(2.5)),
)
"""Names without overload, or with it where that changes what the arguments are."""
_FORMULAS = {name: formula for names, formula in _TABLE for name in names.split()}
