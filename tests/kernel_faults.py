"""Faults for tests to plant in the generated code of captured CPU runs, each found at its first place."""

from __future__ import annotations

from planting import Fault, Planting

MLP, BREAKS, SOFTMAX = "cpu-torch2.13/mlp", "cpu-torch2.13/breaks", "cpu-torch2.13/softmax"

BACKWARD = Planting(
    MLP,
    "model__0_backward",
    (
        Fault("stride", "_0", "x0 + 10L*x1", "x0 + 9L*x1"),
        Fault("sign", "_1", "tmp11 + tmp20", "tmp11 - tmp20"),
        Fault("swapped operands", "_2", "tmp7 - tmp9", "tmp9 - tmp7"),
        Fault("transposed", "_3", "32L*x1 + 32L*x1_inner + 128L*x0", "32L*x0 + 128L*x1 + 128L*x1_inner"),
        Fault("wrong branch", "_4", "static_cast<int32_t>(2)", "static_cast<int32_t>(1)"),
        Fault("dropped residual", "_5", "= tmp0 + tmp17", "= tmp17"),
        Fault("missing division", "_6", "tmp1 / tmp2", "tmp1"),
        Fault("swapped outputs", "_8", "tmp_acc0_vec.store(out_ptr0", "tmp_acc1_vec.store(out_ptr0"),
        Fault("loop bound", "_9", "x1<static_cast<int64_t>(128L)", "x1<static_cast<int64_t>(127L)"),
        Fault("missing store", "_10", "tmp_acc0_vec.store(out_ptr0 + static_cast<int64_t>(x0));", ""),
        Fault(
            "view of an argument", "4", "(64, 128), (1, 64), 0), view_18", "(64, 128), (128, 1), 0), view_18"
        ),
    ),
)

FUNCTIONS = Planting(
    MLP,
    "model__0_backward",
    (
        Fault(
            "dropped accumulation",
            "_0",
            "sum_masked_reduce(tmp_acc0_vec_local, ",
            "sum_masked_reduce(at::vec::Vectorized<float>(0), ",
        ),
        Fault("wrong function", "_1", "tmp4.erf()", "tmp4.tanh()"),
        Fault("index of a broadcast", "_2", "in_ptr4[static_cast<int64_t>(x0)]", "in_ptr4[0]"),
        Fault("repeated rows", "_10", "x0 + 192L*x1)", "x0 + 192L*(x1 & 126))"),
    ),
)

FORWARD = Planting(
    MLP,
    "model__0_forward",
    (
        Fault("epsilon", "_0", "(1e-05)", "(1e-03)"),
        Fault("mean over too many", "_1", "(64.0)", "(65.0)"),
        Fault("constant", "_2", "(0.7071067811865476)", "(0.7171067811865476)"),
        Fault("argument of a library call", "1", "alpha=1, beta=1, out=buf5", "alpha=1, beta=0, out=buf5"),
    ),
)

TAIL = "100L*x0), static_cast<int64_t>(%sL));\n                        }"


def softmax(kind: str, old: str, new: str) -> Planting:
    return Planting(SOFTMAX, "model__0_inference", (Fault(kind, "_0", old, new),))


PLANTINGS = {
    "backward": BACKWARD,
    "functions": FUNCTIONS,
    "forward": FORWARD,
    "tail": softmax("missing tail element", TAIL % "4", TAIL % "3"),
    "maximum": softmax("missing maximum", "tmp0 - tmp2", "tmp0"),
    "mask": softmax(
        "wrong mask",
        "sum_masked_reduce(tmp_acc0_vec, tmp4, static_cast<int64_t>(4L))",
        "sum_masked_reduce(tmp_acc0_vec, tmp4, static_cast<int64_t>(2L))",
    ),
    "symbolic sizes": Planting(
        BREAKS,
        "model__4_forward",
        (Fault("missing function", "_0", "at::vec::clamp_min(tmp0, decltype(tmp0)(0))", "tmp0"),),
    ),
    "booleans": Planting(
        BREAKS, "model__0_forward", (Fault("comparison", "_0", "tmp0 > tmp1", "tmp0 < tmp1"),)
    ),
    "masks": Planting(
        BREAKS,
        "model__4_backward",
        (Fault("inverted mask", "_0", "blendv(tmp1, tmp3,", "blendv(tmp3, tmp1,"),),
    ),
    "integers": Planting(
        BREAKS,
        "model__7_backward",
        (
            Fault(
                "off by one", "_0", "static_cast<int64_t>(tmp_acc0);", "static_cast<int64_t>(tmp_acc0) + 1;"
            ),
        ),
    ),
}
