"""float32 matmuls without tensor cores, on a GPU that has TF32.

Looks at: the dtype that each matmul itself gives, and the setting as the recorder saw it; in runs without it
torch's own warning, or no sign of the setting in the program. Convolutions have a switch of their own, which
is on (torch.backends.cudnn.allow_tf32).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launches
from inspector.explain.estimate import GPU_KERNEL_MS, memory_ms, peak
from inspector.explain.launches import given_dtype, is_matmul
from inspector.explain.rule import Rule, Stage, about, severity_of, source_evidence, timed
from inspector.model.explain import Evidence, Finding, Trial

WARNING = "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled"
"""torch/_inductor/compile_fx.py: _warn_tf32_disabled."""
SAVED = 0.6
"""TF32 has 8 times float32's peak; matmuls as models have them gain 2 to 3 times."""

_OTHERS = re.compile(r"tf32|tensorop_s1688|gemv|gemmSN|dot_kernel", re.IGNORECASE)
"""Kernels that run in TF32 already, and those of a matrix and a vector, which have no tensor cores to use."""
_HAS_TF32 = re.compile(r"A100|A10|A30|A40|H100|H200|GH200|B200|B100|L4|L40|RTX (30|40|50)|RTX A")
_MEANT = re.compile(r"set_float32_matmul_precision\(\s*.highest|matmul\.allow_tf32\s*=\s*False")
_ENABLED = re.compile(r"set_float32_matmul_precision|allow_tf32\s*=\s*True|fp32_precision")
_DISTANCE = re.compile(r"\bcdist\(")
_ADVICE = 'torch.set_float32_matmul_precision("high"), where 10 bits of mantissa are enough'
_FOR_DISTANCES = (
    "; in torch.cdist they are not for short distances, which are differences of large numbers (ATen's "
    "_euclidean_dist): find the nearest by a product of your own, and compute its distance in float32"
)


def find(case: Case) -> Iterable[Finding]:
    if not case.gpu:
        return
    warned = next((record for record in case.records if WARNING in record.message), None)
    lines = [line for program in case.programs for line in program.lines]
    asked = any(_ENABLED.search(line) for line in lines)
    known = any(_HAS_TF32.search(device) for device in case.facts.devices)
    supposed = warned is not None or (known and bool(case.programs) and not asked)
    costly = [
        (saved, graph, launch)
        for graph, launch in case.launches()
        if _disabled(graph, supposed, known)
        and launch.flops
        and is_matmul(launch.name)
        and given_dtype(launch) == "float32"
        and not any(_OTHERS.search(name) for name in case.kernel_names(graph, launch))
        and (saved := _saved_ms(case, graph, launch)) > 0
    ]
    cost = sum(saved for saved, _, _ in costly)
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    share = case.share(cost)
    evidence = [Evidence(case.log_path, warned.line, WARNING)] if warned is not None else []
    for _, graph, launch in costly[:3]:
        text = f"{timed(launch, graph.ms(launch))} in float32: {launch.name}"
        evidence.append(graph.launch_evidence(launch, text))
        evidence += (source_evidence(case, place) for place in launch.sources[:1])
    distances = any(_DISTANCE.search(line.text or "") for line in evidence)
    yield Finding(
        rule="tf32_disabled",
        severity="low" if any(_MEANT.search(line) for line in lines) else severity_of(share),
        title=f"float32 matmuls run without tensor cores; TF32 would save {about(cost, 'estimated')}",
        graph=costly[0][1].name,
        cost_ms=cost,
        claims=on_launches(((graph, launch, ms) for ms, graph, launch in costly), "estimated", cost),
        evidence=tuple(evidence),
        advice=_ADVICE + (_FOR_DISTANCES if distances else ""),
        share=share,
        trial=Trial(environment=(("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"),)),
    )


def _saved_ms(case: Case, graph: GraphCase, launch: Launch) -> float:
    """Milliseconds a call that TF32 would save: no more than lies above moving the bytes, and above what any
    kernel takes, nor than the arithmetic takes, which a product with three columns has little of."""
    device = peak(case.facts.devices, graph.gpu, case.threads)
    moving = memory_ms(launch.bytes or 0, device, graph.gpu)
    above = launch.ms - max(launch.ms * (1 - SAVED), moving, GPU_KERNEL_MS)
    return min(above, (launch.flops or 0) / device.flops * 1e3) * graph.runs


def _disabled(graph: GraphCase, supposed: bool, known: bool) -> bool:
    """Whether the graph's float32 matmuls run without TF32 on a GPU that has it: by its own state where that
    was recorded, else as `supposed`."""
    if graph.state is None:
        return supposed
    values = graph.state.torch.values
    return (
        known
        and values.get("get_float32_matmul_precision", "highest") == "highest"
        and not values.get("backends.cuda.matmul.allow_tf32")
    )


RULE = Rule("tf32_disabled", Stage.CODE, find, other_work=True)
