"""The rules: one is a module here, a row of the table, and a section of docs/rules.md."""

from __future__ import annotations

from importlib import import_module

from inspector.explain.rule import Rule

_MODULES = (
    "program_failed",
    "compile_failed",
    "machine_busy",
    "eager_in_disguise",
    "method_not_compiled",
    "library_kernel_differs",
    "random_numbers",
    "planned_anew",
    "page_faults",
    "decomposition_slower",
    "too_few_programs",
    "slow_dtype",
    "cudagraphs_per_size",
    "unasked_gradients",
    "slower_than_eager",
    "compile_cost",
    "graph_breaks",
    "recompiles",
    "outside_compiled",
    "host_bound",
    "cudagraphs_skipped",
    "inputs_copied",
    "communication",
    "extern_dominated",
    "fallback_kernels",
    "functionalized_copies",
    "recomputed",
    "constant_work",
    "unchanged_inputs",
    "unread_results",
    "contraction_order",
    "subnormal_numbers",
    "unfused_traffic",
    "layout_copies",
    "library_conversions",
    "awkward_calls",
    "strided_accesses",
    "integer_division",
    "no_tensor_cores",
    "bank_conflicts",
    "bool_masks",
    "slow_kernel",
    "cpu_not_vectorized",
    "cpu_serial",
    "parallel_in_loop",
    "tf32_disabled",
    "max_autotune",
    "training_mode",
    "host_sync",
    "device_transfer",
    "precision_upcast",
    "register_spills",
    "atomics",
    "benchmark_artifact",
)

RULES: tuple[Rule, ...] = tuple(import_module(f".{name}", __name__).RULE for name in _MODULES)
"""All but `healthy`, which is what remains where none of them finds anything that matters."""
