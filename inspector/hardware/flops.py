"""Floating-point operations of one call of an operator, from the shapes of what it gets and gives.

A multiplication and an addition are two operations. The counts are those of torch.utils.flop_counter, but for
the gradient of a grouped convolution's weight, which torch counts as if there were no groups. A complex
product has four times the operations of a real one. What a mask leaves out of attention counts as well. FFTs
count 5 N log2 N for complex and half of that for real signals, by the convention of their benchmarks
(fftw.org/speed/method.html), whatever the algorithm really does.

There is no formula for what depends on data (grouped matrix products, flex_attention with its masks,
sequences of different lengths), for recurrent layers, linear algebra and quantised operators, nor for
anything pointwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard


class HasShape(Protocol):
    """A tensor, as far as it is needed here: torch's own or a `Tensor`."""

    @property
    def shape(self) -> Sequence[int]: ...


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is only known from a text; `dtype` as torch names it."""

    shape: tuple[int, ...]
    dtype: str = ""


Formula = Callable[[Sequence[object], object], int]
"""(positional arguments, result) to operations; what is no tensor is a plain value, None where unknown."""


def flops(target: str, arguments: Sequence[object], result: object) -> int | None:
    """Operations of one call; None where there is no formula, or a shape that it needs is not known.

    `target` is the operator as an FX graph names it, with or without ``torch.ops.`` and its overload:
    ``aten.mm.default``. Tensors are anything with a `shape` of numbers; keyword arguments are never needed.
    """
    name = target.removeprefix("torch.ops.")
    formula = _FORMULAS.get(name) or _FORMULAS.get(name.rpartition(".")[0])
    if formula is None:
        return None
    try:
        return formula(arguments, result)
    except (_Unknown, IndexError, ValueError, ZeroDivisionError):
        return None


class _Unknown(Exception):
    """A shape or a value that the formula needs."""


def _is_tensor(value: object) -> TypeGuard[HasShape]:
    return hasattr(value, "shape")


def _tensor(arguments: Sequence[object], position: int) -> HasShape:
    value = arguments[position]
    if not _is_tensor(value):
        raise _Unknown
    return value


def _size(value: object) -> int:
    if not _is_tensor(value):
        raise _Unknown
    return math.prod(value.shape)


def _parts(tensor: HasShape) -> int:
    """Real operations in one of the tensor's own."""
    return 4 if "complex" in str(getattr(tensor, "dtype", "")) else 1


def _product(left: int) -> Formula:
    """A matrix product, batched or not, whose left factor is the argument `left`: 2 m n k."""

    def count(arguments: Sequence[object], result: object) -> int:
        factor = _tensor(arguments, left)
        return 2 * _size(result) * factor.shape[-1] * _parts(factor)

    return count


def _summed_product(arguments: Sequence[object], _result: object) -> int:
    """addbmm: the products of a batch are added up, and the result has no batch."""
    left, right = _tensor(arguments, 1), _tensor(arguments, 2)
    return 2 * _size(left) * right.shape[-1] * _parts(left)


def _dot(arguments: Sequence[object], _result: object) -> int:
    vector = _tensor(arguments, 0)
    return 2 * _size(vector) * _parts(vector)


def _convolved(small: object, weight: HasShape) -> int:
    """Each element of `small` takes part in a product with all of the weight that belongs to its channel, the
    weight's first axis: that covers groups, strides and dilations. `small` is the output of a convolution, or
    the input of a transposed one."""
    return 2 * _size(small) * (math.prod(weight.shape) // weight.shape[0]) * _parts(weight)


def _convolution(weight: int = 1, transposed: bool | int = False) -> Formula:
    """`weight` is the position of that argument; `transposed` the position of a flag, or its value."""

    def count(arguments: Sequence[object], result: object) -> int:
        flag = transposed if isinstance(transposed, bool) else _flag(arguments[transposed])
        return _convolved(arguments[0] if flag else result, _tensor(arguments, weight))

    return count


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _Unknown
    return value


def _packed_transposed(arguments: Sequence[object], _result: object) -> int:
    """mkldnn's transposed convolution: its weight is packed, so that the input tells the channels."""
    given, weight = _tensor(arguments, 0), _tensor(arguments, 1)
    return 2 * _size(given) * (_size(weight) // given.shape[1])


def _convolution_backward(arguments: Sequence[object], _result: object) -> int:
    """(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
    output_mask): the gradients of input and weight each take what the convolution took."""
    mask = arguments[10]
    if not isinstance(mask, Sequence):
        raise _Unknown
    small = arguments[1] if _flag(arguments[7]) else arguments[0]
    return sum(map(_flag, mask[:2])) * _convolved(small, _tensor(arguments, 2))


def _attention(
    first: int = 0, backward: bool = False, tokens: int = -2, lengths: int | None = None
) -> Formula:
    """Query, key and value are the arguments from `first` on, their tokens in the axis `tokens`, their width
    in the last. `lengths`: an argument that is None where all sequences are of one length.

    Forward: scores, and what they weigh. Backward: the scores again, their gradient, and those of all three.
    """

    def count(arguments: Sequence[object], _result: object) -> int:
        if lengths is not None and arguments[lengths] is not None:
            raise _Unknown
        query, key, value = (_tensor(arguments, first + place).shape for place in range(3))
        pairs = math.prod(query[:-1]) * key[tokens]
        return 2 * pairs * (3 * query[-1] + 2 * value[-1] if backward else query[-1] + value[-1])

    return count


def _fft(real: bool) -> Formula:
    """(input, dimensions, ...): N is the number of elements of the side that is not halved."""

    def count(arguments: Sequence[object], result: object) -> int:
        given, dimensions = _tensor(arguments, 0), arguments[1]
        if not isinstance(dimensions, Sequence) or not _is_tensor(result):
            raise _Unknown
        # The complex side of a real transform keeps half of its last dimension.
        whole = max(given.shape, result.shape, key=math.prod)
        length = math.prod(whole[dimension] for dimension in dimensions)
        return round((2.5 if real else 5.0) * math.prod(whole) * math.log2(length))

    return count


_FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("aten.mm", "aten.bmm", "aten.mv", "aten._int_mm", "aten._scaled_mm"), _product(0)),
    **dict.fromkeys(("aten.addmm", "aten.baddbmm", "aten.addmv"), _product(1)),
    **dict.fromkeys(("mkldnn._linear_pointwise", "mkl._mkl_linear"), _product(0)),
    "aten._weight_int8pack_mm": _product(0),
    "aten.addbmm": _summed_product,
    **dict.fromkeys(("aten.dot", "aten.vdot"), _dot),
    **dict.fromkeys(
        ("aten.convolution", "aten._convolution", "aten.convolution_overrideable"), _convolution(transposed=6)
    ),
    **dict.fromkeys(
        ("aten.cudnn_convolution", "aten.miopen_convolution", "aten.mkldnn_convolution"), _convolution()
    ),
    **dict.fromkeys(
        ("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten._slow_conv2d_forward"), _convolution()
    ),
    "mkldnn._convolution_pointwise": _convolution(),
    **dict.fromkeys(
        ("mkldnn._convolution_pointwise.binary", "mkldnn._convolution_pointwise_.binary"),
        _convolution(weight=2),
    ),
    "aten.cudnn_convolution_transpose": _convolution(transposed=True),
    "mkldnn._convolution_transpose_pointwise": _packed_transposed,
    "aten.convolution_backward": _convolution_backward,
    **dict.fromkeys(
        (
            "aten.scaled_dot_product_attention",
            "aten._scaled_dot_product_flash_attention",
            "aten._scaled_dot_product_flash_attention_for_cpu",
            "aten._scaled_dot_product_efficient_attention",
            "aten._scaled_dot_product_cudnn_attention",
            "aten._scaled_dot_product_fused_attention_overrideable",
        ),
        _attention(),
    ),
    **dict.fromkeys(
        (
            "aten._scaled_dot_product_flash_attention_backward",
            "aten._scaled_dot_product_flash_attention_for_cpu_backward",
            "aten._scaled_dot_product_efficient_attention_backward",
            "aten._scaled_dot_product_cudnn_attention_backward",
            "aten._scaled_dot_product_fused_attention_overrideable_backward",
        ),
        _attention(1, backward=True),
    ),
    "aten._flash_attention_forward": _attention(tokens=-3, lengths=3),
    "aten._efficient_attention_forward": _attention(tokens=-3, lengths=4),
    **dict.fromkeys(
        ("aten._flash_attention_backward", "aten._efficient_attention_backward"),
        _attention(1, backward=True, tokens=-3, lengths=6),
    ),
    "aten._fft_c2c": _fft(real=False),
    **dict.fromkeys(("aten._fft_r2c", "aten._fft_c2r"), _fft(real=True)),
}
"""By name without overload, or with it where that changes what the arguments are."""
