"""float32 matmuls without tensor cores, on a GPU that has TF32.

Looks at: torch's own warning, or float32 matmuls on an Ampere or newer GPU without a sign of the setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage, about, severity_of, timed
from inspector.model.explain import Evidence, Finding, Trial

WARNING = "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled"
"""torch/_inductor/compile_fx.py: _warn_tf32_disabled."""
SAVED = 0.6
"""TF32 has 8 times float32's peak; matmuls as models have them gain 2 to 3 times."""

_HAS_TF32 = re.compile(r"A100|A10|A30|A40|H100|H200|GH200|B200|B100|L4|L40|RTX (30|40|50)|RTX A")
_ENABLED = re.compile(r"set_float32_matmul_precision|allow_tf32\s*=\s*True|fp32_precision")


def find(case: Case) -> Iterable[Finding]:
    if not case.gpu:
        return
    warned = next((record for record in case.records if WARNING in record.message), None)
    enabled = any(_ENABLED.search(line) for program in case.programs for line in program.lines)
    known = any(_HAS_TF32.search(device) for device in case.facts.devices)
    if warned is None and (enabled or not known or not case.programs):
        return
    costly = []
    for graph, launch in case.launches():
        fx = {node.name: node for node in graph.artifacts.fx_after.nodes} if graph.artifacts.fx_after else {}
        metas = [fx[name].meta for name in launch.fx if name in fx]
        if (
            launch.role == "library"
            and launch.flops
            and any(meta and meta.dtype == "float32" for meta in metas)
        ):
            costly.append((graph.ms(launch), graph, launch))
    cost = sum(ms for ms, _, _ in costly) * SAVED
    if not costly:
        return
    costly.sort(key=lambda item: -item[0])
    share = case.share(cost)
    evidence = [Evidence(case.log_path, warned.line, WARNING)] if warned is not None else []
    evidence += [
        graph.launch_evidence(launch, f"{timed(launch, ms)} in float32: {launch.name}")
        for ms, graph, launch in costly[:3]
    ]
    yield Finding(
        rule="tf32_disabled",
        severity=severity_of(share),
        title=f"float32 matmuls run without tensor cores; TF32 would save {about(cost, 'estimated')}",
        graph=costly[0][1].name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice='torch.set_float32_matmul_precision("high"), where 10 bits of mantissa are enough',
        share=share,
        trial=Trial(environment=(("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "1"),)),
    )


RULE = Rule("tf32_disabled", Stage.CODE, find)
