"""Convolutions that a library does badly: of one channel, of channels each by itself over a few taps, and of
a few over many.

What another way to write them wins was timed: benchmarks/results/awkward-calls.txt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.explain.rows import Awkward, Shape, in_words, product
from inspector.model.account import Interval
from inspector.model.fx import FxNode
from inspector.units import plural

FEW_TAPS = 4
"""Of a depthwise convolution: written out, more of them win less."""
_FILTERS: tuple[tuple[int, Interval], ...] = ((128, (0.5, 0.93)), (64, (0.1, 0.75)))
"""Taps from which on a transform of all is faster on a CPU, and what it saved of what such a call takes.
Of 33 it was slower."""
MANY_TAPS, FEW_PAIRS = 256, 256
"""Of channels in and out that are mixed: of 16 by 16 transforms were 6 times as fast, of 32 by 32 slower."""
_ALL_FILTERS: Interval = (0.7, 0.95)
"""Saved so where they are mixed: 3.6 to 18 times as fast."""
_CONVOLUTIONS: dict[tuple[bool, bool], Interval] = {
    (True, False): (0.4, 0.7),
    (True, True): (0.0, 0.5),
    (False, True): (0.4, 0.65),
}
"""Saved by a sum of shifted products along one dimension, by whether it runs on a GPU and is a backward. A
forward on a CPU is as often slower so."""
ONE_CHANNEL = 128
"""Taps of a filter of one channel, to which such a sum is faster: of 121 2.6 and, on a GPU, 4.1 times."""
_ONE_CHANNEL: Interval = (0.4, 0.9)
"""Saved so, forward and backward: 1.8 to 11 times as fast, the least where it is padded first."""
_AS_SUM = "write it as a sum of shifted products, which Inductor makes one kernel of: sum({})"
_SUMS = {
    1: "w[:, 0, i, None] * padded[..., i:i + length] for i in range(taps)",
    2: "w[:, 0, i, j, None, None] * padded[..., i:i + height, j:j + width] for i in range(rows) for j in "
    "range(columns)",
    3: "w[:, 0, i, j, k, None, None, None] * padded[..., i:i + depth, j:j + height, k:k + width] for i in "
    "range(planes) for j in range(rows) for k in range(columns)",
}
"""By dimensions; `padded` is padded as the convolution pads."""
MOST_TERMS = 256
"""Of sums in one graph: 260 took 14 s to compile, 600 of a program over images of many sizes minutes."""
_BY_THEMSELVES: tuple[tuple[int, Interval], ...] = ((9, (0.0, 0.72)), (25, (0.0, 0.65)))
"""Taps of images' channels each by itself, and what such a sum saves of a call on a CPU: of 121 nothing, nor
of what is padded by its edges; and where they are trained more is lost backward."""
_ON_GPU: dict[bool, Interval] = {True: (0.2, 0.95), False: (0.3, 0.82)}
"""The same on a GPU, of one channel and of more, up to 121 taps, in inference: 1.2 to 20 times as fast, and
1.5 to 5.6. What is trained was as often slower."""


def filtered(node: FxNode, shapes: Sequence[Shape], gpu: bool) -> Awkward | None:
    """What a library does badly of ``aten.convolution`` or its backward (x, weight, bias, stride, padding,
    dilation, transposed, ...), whose gradient stands before; its arguments' shapes."""
    back = "backward" in node.target
    stride, transposed = (*node.arguments[3 + back : 7 + back : 3], "", "")[:2]
    given, weight = (*shapes[back:], (), ())[:2]
    if transposed != "False" or set(re.findall(r"\d+", stride)) != {"1"} or len(given) != len(weight):
        return None
    sizes = [size for size in weight if size is not None]
    if len(sizes) != len(weight) or len(sizes) < 3:
        return None
    channels, each, *window = sizes
    alone = each == 1 and channels == given[1]
    if len(window) == 1 and (found := _along_one(channels, each, window[0], alone, gpu, back)) is not None:
        return found
    return _stencil(channels, window, gpu, back) if alone else None


def _along_one(channels: int, each: int, taps: int, alone: bool, gpu: bool, back: bool) -> Awkward | None:
    """Of a dimension: long filters, and few taps."""
    saved = next((part for least, part in _FILTERS if taps >= least), None) if alone else None
    if not alone and taps >= MANY_TAPS and channels * each <= FEW_PAIRS:
        saved = _ALL_FILTERS
    if saved is not None and not gpu and not back:
        own = plural(channels, "channel")
        what = f"{own} each by itself" if alone else f"{own} of {each} each"
        return Awkward(
            "convolutions",
            f"{what} over {taps} taps",
            "multiply transforms, with n of small factors and no less than length + taps: torch.fft.irfft("
            "torch.fft.rfft(x, n) * torch.fft.rfft(w.flip(-1), n), n)[..., taps - 1 : length]",
            saved,
        )
    saved = _CONVOLUTIONS.get((gpu, back))
    if saved is None or not alone or channels == 1 or not 1 < taps <= FEW_TAPS:
        return None
    given = f"{channels:,} channels each by itself over {taps} taps"
    return Awkward("convolutions", given, _AS_SUM.format(_SUMS[1]), saved)


def _stencil(channels: int, window: Sequence[int], gpu: bool, back: bool) -> Awkward | None:
    """A filter of images (or of signals or volumes) that mixes no channels."""
    taps = product(tuple(window)) or 0
    if gpu:
        known = not back and 1 < taps <= ONE_CHANNEL and (channels == 1 or len(window) == 2)
        saved = _ON_GPU[channels == 1] if known else None
    elif channels == 1:
        saved = _ONE_CHANNEL if 1 < taps <= ONE_CHANNEL else None
    elif back or len(window) == 1:
        saved = None
    else:
        saved = next((part for most, part in _BY_THEMSELVES if 1 < taps <= most), None)
    if saved is None:
        return None
    one = channels == 1
    return Awkward(
        "convolutions",
        f"{'one channel' if one else f'{channels:,} channels each by itself'} over {in_words(window)} taps",
        _AS_SUM.format(_SUMS[len(window)]),
        saved,
        inference=gpu or not one,
        terms=taps,
    )
