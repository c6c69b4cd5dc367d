"""Max-autotune was asked for, and the GPU has too few multiprocessors for it.

Looks at: torch's line ``Not enough SMs to use max_autotune_gemm mode`` (_inductor/utils.py: is_big_gpu).
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.rule import Rule, Stage
from inspector.model.explain import Evidence, Finding

WARNING = "Not enough SMs to use max_autotune_gemm"


def find(case: Case) -> Iterable[Finding]:
    warned = next((record for record in case.records if WARNING in record.message), None)
    if warned is None:
        return
    yield Finding(
        rule="max_autotune_unavailable",
        severity="medium",
        title="max-autotune has no matmul templates to choose from: the GPU has too few multiprocessors",
        graph=None,
        cost_ms=None,
        evidence=(Evidence(case.log_path, warned.line, warned.message.splitlines()[0]),),
        advice=(
            "use the default mode here, which compiles faster to the same matmuls; or a "
            "GPU with 68 SMs or more"
        ),
    )


RULE = Rule("max_autotune_unavailable", Stage.CODE, find)
