"""Faults for tests to plant in the Triton kernels of captured H200 runs."""

from __future__ import annotations

from planting import Fault, Planting


def softmax(kind: str, old: str, new: str) -> Planting:
    return Planting("softmax", "model__0_inference", (Fault(kind, "_0", old, new),))


def norms(kind: str, old: str, new: str) -> Planting:
    """Six launches of one kernel: a mean, a layer norm, tanh."""
    return Planting("cudagraphs", "model__0_inference", (Fault(kind, "_0", old, new),))


def loop(kind: str, old: str, new: str) -> Planting:
    """A looped reduction over a symbolic size."""
    return Planting("breaks", "model__4_forward", (Fault(kind, "_0", old, new),))


PLANTINGS = {
    "maximum": softmax("missing maximum", "tmp7 = tmp1 - tmp6", "tmp7 = tmp1"),
    "mask": softmax("reduction without its mask", "tl.where(r0_mask & xmask, tmp9, 0)", "tmp9"),
    "index": softmax(
        "stride", "tl.load(in_out_ptr0 + (r0_1 + 100*x0)", "tl.load(in_out_ptr0 + (r0_1 + 99*x0)"
    ),
    "bounds": softmax("store without its mask", "tmp15, r0_mask & xmask)", "tmp15, None)"),
    "epsilon": norms("epsilon", "1e-05", "1e-03"),
    "mean": norms("divisor", "128.0", "127.0"),
    "function": norms("wrong function", "libdevice.tanh(tmp0)", "libdevice.sin(tmp0)"),
    "reduction": norms("wrong reduction", "tl.sum(tmp23, 1)", "tl.max(tmp23, 1)"),
    "cast": norms("cast to a narrower type", "tmp25 * tmp29", "(tmp25 * tmp29).to(tl.bfloat16)"),
    "accumulator": Planting(
        "breaks",
        "model__7_backward",
        (Fault("dropped accumulation", "_2", "tmp3 = _tmp2 + tmp1", "tmp3 = tmp1"),),
    ),
    "bound": loop("loop bound", "(0, r0_numel, R0_BLOCK)", "(0, r0_numel - R0_BLOCK, R0_BLOCK)"),
    "broadcast": loop("index of a broadcast", "(r0_index % 64)", "(r0_index % 32)"),
    "backward": Planting(
        "breaks",
        "model__7_backward",
        (
            Fault("sign", "_1", "tmp22 = -tmp16", "tmp22 = tmp16"),
            Fault("transposed", "_2", "(x0 + 64*r0_1)", "(r0_1 + 16*x0)"),
        ),
    ),
    "forward": Planting(
        "breaks",
        "model__2_forward",
        (
            Fault("swapped outputs", "_0", "out_ptr0 + (x0), tmp6", "out_ptr0 + (x0), tmp12"),
            Fault("comparison", "_1", "tmp4 = tmp0 == tmp3", "tmp4 = tmp0 <= tmp3"),
        ),
    ),
}
