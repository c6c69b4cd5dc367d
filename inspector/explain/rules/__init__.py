"""The rules: one is a module here, a row of the table, and a section of docs/rules.md."""

from __future__ import annotations

from inspector.explain.rule import Rule

from . import (
    atomics,
    benchmark_artifact,
    compile_cost,
    cpu_not_vectorized,
    cpu_serial,
    cudagraphs_skipped,
    device_transfer,
    eager_in_disguise,
    extern_dominated,
    fallback_kernels,
    graph_breaks,
    host_bound,
    host_sync,
    layout_copies,
    machine_busy,
    max_autotune,
    precision_upcast,
    recompiles,
    register_spills,
    slow_kernel,
    tf32_disabled,
    training_mode,
    unfused_traffic,
)

RULES: tuple[Rule, ...] = (
    machine_busy.RULE,
    eager_in_disguise.RULE,
    compile_cost.RULE,
    graph_breaks.RULE,
    recompiles.RULE,
    host_bound.RULE,
    cudagraphs_skipped.RULE,
    extern_dominated.RULE,
    fallback_kernels.RULE,
    unfused_traffic.RULE,
    layout_copies.RULE,
    slow_kernel.RULE,
    cpu_not_vectorized.RULE,
    cpu_serial.RULE,
    tf32_disabled.RULE,
    max_autotune.RULE,
    training_mode.RULE,
    host_sync.RULE,
    device_transfer.RULE,
    precision_upcast.RULE,
    register_spills.RULE,
    atomics.RULE,
    benchmark_artifact.RULE,
)
"""All but `healthy`, which is what remains where none of them finds anything that matters."""
