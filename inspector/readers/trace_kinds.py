"""What is read of each kind of event in a structured trace: one table, a row for each kind.

To read another kind, write its handler and add its row: what it yields is then with its compilation, in
`inspector trace --compile-id`, on the screen and in the JSON, and the kind no longer counts as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from inspector.frozen import dataclass
from inspector.model.compilation import GRAPH_STAGES, Guard

from . import trace_artifacts as artifacts
from .compile_metrics import metrics
from .guards import frames, guards, shape_guards, specializations, symbols
from .trace import Occurrence

Handler = Callable[[Occurrence], Sequence[Any]]
Merge = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def together(before: Sequence[Any], new: Sequence[Any]) -> Sequence[Any]:
    return [*before, *new]


def newest(before: Sequence[Any], new: Sequence[Any]) -> Sequence[Any]:
    """What says nothing takes nothing away."""
    return new or before


def tree_anew(before: Sequence[Guard], new: Sequence[Guard]) -> Sequence[Guard]:
    """A restart or a later tree replaces the tree that came before; guards on sizes are none of it."""
    return [*(guard for guard in before if guard.kind == "SHAPE"), *new]


def anew_by(key: str) -> Merge:
    """Each attempt tells of the same things anew, which have the same `key`: the last one counts."""
    key_of = attrgetter(key)

    def merge(before: Sequence[Any], new: Sequence[Any]) -> Sequence[Any]:
        told = set(map(key_of, new))
        return [*(item for item in before if key_of(item) not in told), *new]

    return merge


@dataclass(frozen=True, slots=True)
class TraceKind:
    """One row.

    `name` is the artifact's, or the event's where it is no artifact; a regular expression that has to fit the
    whole. `yields` is where what the handler makes ends up: a field of Compilation, or else a title in its
    `facts`, which are texts. Without a handler it says what else shows the kind. `merge` joins it to what
    earlier events gave.
    """

    name: str
    yields: str
    handler: Handler | None = None
    merge: Merge = together


KINDS: tuple[TraceKind, ...] = (
    # 2.4 leaves the frame that is compiled out of its stack; the metrics name it.
    TraceKind("dynamo_start", "stack", frames, newest),
    TraceKind("dynamo_cpp_guards_str", "guards", guards, tree_anew),
    TraceKind("guard_added(_fast)?", "guards", shape_guards),
    TraceKind("create_symbol|create_unbacked_symbol", "symbols", symbols, anew_by("name")),
    TraceKind("symbolic_shape_specialization", "specializations", specializations, anew_by("source")),
    TraceKind("triton_kernel_info", "kernels", artifacts.kernel_infos),
    TraceKind("inductor_provenance_tracking_kernel_stack_traces", "kernel_stacks", artifacts.kernel_stacks),
    TraceKind("inductor_collective_schedule", "communication", artifacts.collectives),
    TraceKind("dynamo_side_effects", "side effects", artifacts.side_effects),
    TraceKind("(bwd_)?compilation_metrics(_runtime)?", "metrics", metrics),
    # Exceptions and refusals, in torch 2.4 to 2.15.
    TraceKind("dynamo_(error|cache_exception|cache_bypass)", "failures", artifacts.failures),
    TraceKind(
        "eager_compile_backwards_failure|aotautograd_cache_pickle_failure", "failures", artifacts.failures
    ),
    TraceKind("fx_interpreter_error|make_fx_fail_partial", "failures", artifacts.failures),
    TraceKind("inductor_spmd_graph_mismatch|min_cut_failed_edge_list", "failures", artifacts.failures),
    TraceKind("missing_fake_kernel|mismatched_fake_kernel", "failures", artifacts.failures),
    TraceKind("guard_on_data_dependent_error", "failures", artifacts.failures),
    TraceKind(r"\w+_cache_(hit|miss|bypass)", "caches", artifacts.cache_lookups),
    # Read elsewhere.
    TraceKind("str", "the table of strings"),
    TraceKind("chromium_event", "the timed sections"),
    TraceKind("dynamo_graph_break_reason", "breaks"),
    TraceKind("recompile_reasons", "recompiles"),
    TraceKind("torch_version", "the run's version"),
    TraceKind("inductor_provenance_tracking_node_mappings|fx_graph_runnable", "the graph's files"),
    # Facts of each input tensor, before tracing; the graphs show the same of those that matter.
    TraceKind("describe_(storage|tensor|source)", "the graphs"),
    # Texts without a reader of their own.
    TraceKind("|".join(GRAPH_STAGES), "stages"),
    TraceKind(r".*(_BYTECODE|_pre_grad|_post_grad)", "stages"),
    TraceKind(r"aot_forward_graph_fw_metadata|torch\._functorch\.config|dynamo_guards", "stages"),
    TraceKind("runtime_wrapper_orchestration|aot_autograd_runtime_wrappers|compiled_fn_wrapper", "stages"),
    TraceKind("backward_prologue|backward_epilogue|compiled_function_(forward|backward)", "stages"),
)
"""The first row that fits counts."""


@cache
def kind_of(name: str) -> TraceKind | None:
    """The row of an event's or artifact's name; None where nothing more than its name and text is shown."""
    return next((kind for kind in KINDS if re.fullmatch(kind.name, name)), None)
