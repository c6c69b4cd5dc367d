"""Programs with one planted cause of a difference each, and some with none: run by blame.py as

    python blame_programs.py CASE

in a folder where a file `worse` makes it the worse side. Nothing here knows how the cause is looked for.
"""

from __future__ import annotations

import importlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LINK = re.compile(r"for\(int64_t x0=")
ON_GPU = frozenset(
    f"gpu_{name}"
    for name in ("fusion_size", "cudagraphs", "precision", "split", "persistent", "null_time", "null_kernels")
)


@dataclass(frozen=True)
class Case:
    """`cause` is a pattern that the label of a cause must have; None where there is nothing to blame.
    `sides` are 1 where the run is judged alone. `environment` is B's, and `packages` asks for two
    environments."""

    name: str
    metric: str
    cause: str | None
    sides: int = 2
    below: float | None = None
    environment: tuple[str, ...] = ()
    a_environment: tuple[str, ...] = ()
    packages: bool = False


CASES = (
    Case("scalar", "exit", r"capture_scalar_outputs"),
    Case("pattern_matcher", "kernels", r"pattern_matcher"),
    Case("dynamic", "kernels", r"automatic_dynamic_shapes"),
    Case("random", "exit", r"fallback_random"),
    Case("deterministic", "kernels", r"deterministic"),
    Case("command", "kernels", r"the command"),
    Case("together", "exit", r"realize_reads_threshold|max_fusion_size"),
    Case("simd", "time", r"simdlen"),
    Case("variable", "exit", r"OMP_NUM_THREADS|get_num_threads", environment=("OMP_NUM_THREADS=1",),
         a_environment=("OMP_NUM_THREADS=2",)),
    Case("post_pass", "error", r"post_grad_custom_post_pass", 1, 1e-3),
    Case("joint_pass", "error", r"joint_custom_pre_pass", 1, 1e-3),
    Case("addmm", "exit", r"pattern addmm", 1),
    Case("own_pattern", "error", r"pattern wrong_square", 1, 1e-3),
    Case("convert", "error", r"pattern pointless_convert", 1, 1e-3),
    Case("fused_loops", "exit", r"sin.*not fused", 1),
    Case("rounding", "error", r"sin.*not fused|emulate_precision_casts", 1, 1e-4),
    Case("dropout", "exit", r"fallback_random|random|rand", 1),
    Case("vectors", "exit", r"simdlen", 1),
    Case("lowering_erf", "error", r"aten\.erf\.default left to ATen", 1, 1e-3),
    Case("lowering_atan2", "error", r"aten\.atan2\.default left to ATen", 1, 1e-3),
    Case("package", "exit", r"fastops", 1, packages=True),
    Case("package_pass", "exit", r"graphtools", 1, packages=True),
    Case("gpu_fusion_size", "kernels", r"max_fusion_size"),
    Case("gpu_cudagraphs", "time", r"triton\.cudagraphs"),
    Case("gpu_precision", "time", r"float32_matmul_precision|allow_tf32|fp32_precision"),
    Case("gpu_split", "time", r"split_reductions"),
    Case("gpu_persistent", "exit", r"persistent_reductions", 1),
    Case("gpu_rounding", "error", r"sin.*not fused|emulate_precision_casts", 1, 1e-4),
    Case("gpu_addmm", "exit", r"pattern addmm", 1),
    Case("gpu_post_pass", "error", r"post_grad_custom_post_pass", 1, 1e-3),
    Case("gpu_joint_pass", "error", r"joint_custom_pre_pass", 1, 1e-3),
    Case("gpu_own_pattern", "error", r"pattern wrong_square", 1, 1e-3),
    Case("gpu_lowering_erf", "error", r"aten\.erf\.default left to ATen", 1, 1e-3),
    Case("gpu_lowering_atan2", "error", r"aten\.atan2\.default left to ATen", 1, 1e-3),
    Case("gpu_dropout", "exit", r"fallback_random|random|rand", 1),
    Case("gpu_slow_pass", "compile", r"post_grad_custom_post_pass", 1, 30.0),
    Case("gpu_null_error", "error", None, 1, 1e-3),
    Case("gpu_null_exit", "exit", None, 1),
    Case("gpu_null_memory", "memory", None),
    Case("gpu_null_time", "time", None),
    Case("gpu_null_kernels", "kernels", None),
    Case("null_same", "kernels", None),
    Case("null_settings", "kernels", None),
    Case("null_time", "time", None),
    Case("null_exit", "exit", None, 1),
    Case("null_error", "error", None, 1, 1e-3),
)  # fmt: skip


def decoys(config: object) -> None:
    """Settings that B has otherwise and that change nothing here."""
    for name, value in (
        ("realize_opcount_threshold", 29), ("score_fusion_memory_threshold", 11), ("max_fusion_size", 63),
        ("max_pointwise_cat_inputs", 7), ("unroll_reductions_threshold", 9),
        ("max_epilogue_benchmarked_choices", 2),
        ("benchmark_kernel", True), ("debug_fusion", False),
    ):  # fmt: skip
        if hasattr(config, name):
            setattr(config, name, value)


def main(case: str, worse: bool) -> int:
    """Run one; its exit code."""
    import torch
    import torch._dynamo.config as dynamo
    import torch._inductor.config as config
    from torch._inductor.utils import run_and_get_code

    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    if worse and case not in ("null_same", "null_time", "gpu_null_time"):
        decoys(config)
    aten = torch.ops.aten
    device = "cuda" if case.startswith("gpu_") else "cpu"
    # The same cause on either device, where the case has no program of its own.
    case = case if case in ON_GPU else case.removeprefix("gpu_")
    x, w = (torch.randn(64, 64, device=device) for _ in range(2))
    v = torch.randn(64, device=device)
    call = torch.compile

    def code_of(function: Callable[..., object], *given: object) -> str:
        return "\n".join(run_and_get_code(call(function), *given)[1])

    def plain(x: torch.Tensor) -> torch.Tensor:
        return (torch.relu(x) + 1).softmax(-1) * 2

    def several(x: torch.Tensor) -> Sequence[torch.Tensor]:
        return x.sin().sum(0), x[:17].cos().sum(1), x[:, :9].exp() + 1, (x @ w).tanh(), x.relu().amax(1)

    if case == "scalar":
        dynamo.capture_scalar_outputs = not worse
        call(lambda x: x.relu() * x.sum().item() + 1)(x)
        return int(bool(torch._dynamo.utils.counters["graph_break"]))
    elif case == "pattern_matcher":
        config.pattern_matcher = not worse
        call(lambda x: torch.mm(x.relu(), w) + v)(x)
    elif case == "dynamic":
        dynamo.automatic_dynamic_shapes = not worse
        compiled = call(plain)
        for rows in range(3, 8):
            compiled(x[:rows])
    elif case in ("random", "dropout"):
        config.fallback_random = case == "random" and not worse
        torch.manual_seed(1)
        ours = call(lambda x: torch.rand_like(x) * 2)(x)
        torch.manual_seed(1)
        return int(not torch.equal(ours, torch.rand_like(x) * 2))
    elif case == "deterministic":
        torch.use_deterministic_algorithms(worse)
        index = torch.arange(64) % 7
        call(lambda x: x.relu().index_add(0, index, x.sin()).cos())(x)
    elif case == "command":
        call(several if sys.argv[2:] else plain)(x)
    elif case == "together":
        if worse:
            config.realize_reads_threshold, config.max_fusion_size = 3, 21
        call(plain)(x)
        return int(config.realize_reads_threshold == 3 or config.max_fusion_size == 21)
    elif case in ("simd", "null_time"):
        if worse and case == "simd":
            config.cpp.simdlen = 1
        big = torch.randn(1 << 20)
        compiled = call(lambda x: (x.sigmoid() * x.tanh()).exp().sin() + x.erf())
        for _ in range(12):
            compiled(big)
    elif case == "variable":
        call(plain)(x)
        return int(torch.get_num_threads() == 1)
    elif case in ("post_pass", "joint_pass", "package_pass", "slow_pass"):

        def wrong(graph: torch.fx.Graph) -> None:
            time.sleep(40 if case == "slow_pass" else 0)
            for node in graph.nodes:
                if node.op == "call_function" and node.target is aten.relu.default:
                    node.target = aten.abs.default

        if case == "package_pass":
            wrong = importlib.import_module("graphtools").optimise
        name = "joint_custom_pre_pass" if case == "joint_pass" else "post_grad_custom_post_pass"
        setattr(config, name, wrong)
        ours = call(lambda x: ((x.relu() + 1) @ w + v).softmax(-1) + (x + 0.0))(x)
        if case == "package_pass":
            return int(not torch.allclose(ours, ((x.relu() + 1) @ w + v).softmax(-1) + x, atol=1e-4))
    elif case == "addmm":
        return int(
            "extern_kernels.addmm"
            in code_of(lambda x: (torch.mm(x.relu(), w) + v).softmax(-1) + (x + 0.0), x)
        )
    elif case == "own_pattern":
        from torch._inductor.fx_passes import post_grad
        from torch._inductor.pattern_matcher import Arg, CallFunction, register_graph_pattern

        @register_graph_pattern(  # type: ignore[untyped-decorator]
            CallFunction(aten.mul.Tensor, Arg(), Arg()), pass_dict=post_grad.pass_patterns[1]
        )
        def wrong_square(match: object, one: torch.fx.Node, other: torch.fx.Node) -> None:
            node = match.output_node()  # type: ignore[attr-defined]
            node.target = aten.add.Tensor

        call(lambda x: torch.mm(x.sin() * x.cos(), w) + v + (x + 0.0))(x)
    elif case == "convert":
        call(lambda x: (x * 1e4).half().bfloat16().float().clamp(-1e5, 1e5) + torch.mm(x, w) + v)(x * 8)
    elif case == "fused_loops":

        def loops(x: torch.Tensor) -> Sequence[torch.Tensor]:
            y = x.sin()
            s = x[:32].exp()
            return (y * 1.7).tanh(), y @ w, s @ w, s.cos(), x.erf().sum(-1), x.atan().amax(0)

        nests = LINK.split(code_of(loops, x))
        return int(any(".sin()" in nest and ".tanh()" in nest for nest in nests))
    elif case == "rounding":

        def rounded(x: torch.Tensor, w: torch.Tensor) -> Sequence[torch.Tensor]:
            y, s = x.sin(), x[:32].relu()
            return y * 1.7, y @ w, s @ w, s.neg(), x.abs().amax(-1), x.neg().amax(0)

        call(rounded)(x.bfloat16(), w.bfloat16())
    elif case == "gpu_fusion_size":
        config.max_fusion_size = 1 if worse else 64
        call(lambda x: [(x.relu().softmax(-1) @ w).softmax(-1), x.sin().sum(0)])(x)
    elif case == "gpu_cudagraphs":
        config.triton.cudagraphs = not worse

        def short(x: torch.Tensor) -> torch.Tensor:
            for _ in range(30):
                x = (x @ w).tanh()
            return x

        compiled = call(short)
        for _ in range(60):
            compiled(x)
    elif case == "gpu_precision":
        torch.set_float32_matmul_precision("highest" if worse else "high")
        big = torch.randn(8192, 8192, device=device)
        compiled = call(lambda x: (x @ x).relu())
        for _ in range(20):
            compiled(big)
    elif case in ("gpu_split", "gpu_null_time"):
        config.split_reductions = not (worse and case == "gpu_split")
        big = torch.randn(1 << 26, device=device)
        compiled = call(lambda x: (x.sin() * 2).sum())
        for _ in range(20):
            compiled(big)
    elif case == "gpu_persistent":
        return int("triton_per" in code_of(plain, x))
    elif case == "vectors":
        return int("at::vec" in code_of(plain, x))
    elif case in ("lowering_erf", "lowering_atan2"):
        from torch._inductor import lowering

        target = aten.erf.default if case == "lowering_erf" else aten.atan2.default
        before = lowering.lowerings[target]
        lowering.lowerings[target] = lambda *given: lowering.lowerings[aten.neg.default](before(*given))
        call(lambda x: (x.erf() + torch.atan2(x, x.cos() + 2)).tanh().exp().sum(-1) * x.amax(0))(x)
    elif case == "package":
        importlib.import_module("fastops").setup(config)
        call(plain)(x)
        return int(config.max_fusion_size == 13)
    else:
        call(plain)(x)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path("worse").exists()))
