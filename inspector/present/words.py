"""Plain words for what the contract names: rules, parts of a call, and what a figure rests on."""

from __future__ import annotations

from typing import NamedTuple

from inspector.analysis import two_sides
from inspector.explain import ledger
from inspector.model.explain import Finding
from inspector.text import spaced


class Plain(NamedTuple):
    """A rule in plain words: a title, and the cause as a clause that holds whenever the rule fires."""

    title: str
    why: str


RULES: dict[str, Plain] = {
    "program_failed": Plain(
        "The program ended with an error", "the program stopped; all else is about the calls before that"
    ),
    "compile_failed": Plain("A part could not be compiled", "torch.compile gave up on a part of the program"),
    "machine_busy": Plain(
        "The machine was not free", "the machine was not free while it was timed, so times say little"
    ),
    "eager_in_disguise": Plain("Nothing was compiled", "nothing of the program was compiled"),
    "library_kernel_differs": Plain(
        "A library takes longer than in eager",
        "for the same operator a library runs another kernel than in eager, and it is slower",
    ),
    "random_numbers": Plain(
        "Random numbers take longer than in eager", "compiled code makes its random numbers another way"
    ),
    "decomposition_slower": Plain(
        "An operator is slower in pieces", "an operator that is one kernel in eager was taken apart"
    ),
    "too_few_programs": Plain(
        "A kernel leaves most of the GPU idle", "a kernel has too little parallel work to fill the GPU"
    ),
    "bool_masks": Plain(
        "Masks are converted one by one", "masks that are kept become bools in loops that have no vectors"
    ),
    "method_not_compiled": Plain(
        "A compiled module's method runs in eager",
        "torch.compile compiles what a call of the module runs, and none of its other methods",
    ),
    "awkward_calls": Plain(
        "A library does these calls badly",
        "a library is slow at what it is given here; other sizes, or another way to write it, take less time",
    ),
    "slow_dtype": Plain(
        "This dtype is slow on this machine", "the same library call is faster in float32 here"
    ),
    "slower_than_eager": Plain(
        "Slower than in eager, cause unknown", "it takes longer than in eager, and no known cause fits"
    ),
    "compile_cost_not_amortized": Plain(
        "Compiling has not paid off", "compiling took longer than the run's calls won back"
    ),
    "graph_breaks": Plain(
        "The program is compiled in pieces", "at some lines compiled code ends and Python goes on"
    ),
    "recompiles": Plain(
        "It is compiled again and again", "something that compiled code relies on changed between calls"
    ),
    "outside_compiled": Plain(
        "Work is done outside of what is compiled",
        "much of the time passes, or of the work is done, outside of what is compiled",
    ),
    "host_bound": Plain(
        "Much time goes to Python and launching",
        "checking inputs, Python and launching kernels take time beside the kernels",
    ),
    "cudagraphs_per_size": Plain(
        "CUDA graphs are recorded for each size", "CUDA graphs are recorded anew for each size of inputs"
    ),
    "cudagraphs_skipped": Plain("CUDA graphs were not used", "CUDA graphs were asked for and not used"),
    "communication": Plain(
        "Ranks wait for each other", "much of a call is communication between ranks that nothing hides"
    ),
    "extern_dominated": Plain(
        "Most time is in library kernels",
        "most time is in library kernels (matrix products, convolutions, attention), not in generated code",
    ),
    "fallback_kernels": Plain(
        "Some operators run as in eager", "some operators have no generated code and run one by one"
    ),
    "functionalized_copies": Plain(
        "Writing a part rewrites the whole", "a write into a part of a tensor writes all of it anew"
    ),
    "recomputed": Plain(
        "A value is computed again and again", "a value is computed anew wherever it is read"
    ),
    "constant_work": Plain(
        "Constants are computed in every call", "what never changes is computed in every call"
    ),
    "unchanged_inputs": Plain(
        "Work on inputs that never change",
        "what depends only on inputs that stay the same is done in every call",
    ),
    "unread_results": Plain(
        "Results that nothing reads are computed",
        "a library computes all of a result of which a part is read, or multiplies zeros",
    ),
    "unasked_gradients": Plain(
        "Gradients that nobody asks for",
        "a backward pass computes gradients of weights where only those of its input are asked for",
    ),
    "contraction_order": Plain(
        "Products in a slow order",
        "several tensors are multiplied in an order that takes many times the multiplications of another",
    ),
    "subnormal_numbers": Plain(
        "Numbers too small to compute with quickly",
        "a CPU takes far longer for numbers below the smallest that floats have a usual form for",
    ),
    "unfused_traffic": Plain(
        "Tensors go through memory between kernels", "kernels hand each other tensors through memory"
    ),
    "inputs_copied": Plain(
        "A CUDA graph's inputs are copied", "inputs are copied to where CUDA graphs read them"
    ),
    "planned_anew": Plain(
        "A library plans its work in each call", "a library plans an operator anew in each call, on the host"
    ),
    "page_faults": Plain(
        "Memory is fetched anew on each call",
        "memory goes back to the system and is fetched anew on each call",
    ),
    "layout_copies": Plain(
        "Kernels that only move data", "some kernels do nothing but put data in another order"
    ),
    "library_conversions": Plain(
        "A library changes layouts", "a library puts tensors into another order around its kernels"
    ),
    "strided_accesses": Plain(
        "A kernel uses a part of what it fetches", "a kernel fetches memory of which it uses single elements"
    ),
    "integer_division": Plain(
        "A kernel divides integers", "a kernel divides 64-bit integers, which a GPU has no instruction for"
    ),
    "no_tensor_cores": Plain(
        "A matrix product without tensor cores",
        "a Triton kernel multiplies matrices without the tensor cores",
    ),
    "bank_conflicts": Plain(
        "Lanes want the same bank of shared memory", "a kernel waits for the banks of shared memory"
    ),
    "slow_kernel": Plain(
        "A kernel is slower than its work", "a kernel takes far longer than its data and arithmetic ask for"
    ),
    "cpu_not_vectorized": Plain(
        "A loop does not use vector instructions", "a generated loop works on one number at a time"
    ),
    "cpu_serial": Plain(
        "A kernel runs on one core", "a generated kernel uses one thread where there are more"
    ),
    "parallel_in_loop": Plain(
        "Threads start once for each round", "a generated kernel starts its threads inside of a loop"
    ),
    "tf32_disabled": Plain(
        "Matrix products without tensor cores", "float32 matrix products don't use the GPU's tensor cores"
    ),
    "max_autotune_unavailable": Plain(
        "Max-autotune can't be used here", "the GPU has too few multiprocessors for max-autotune"
    ),
    "training_mode_inference": Plain(
        "Inference runs as training does", "only inference happens, and the program is set up to train"
    ),
    "host_sync": Plain(
        "Python waits for a tensor's value", "a tensor's value is read by Python inside a call"
    ),
    "device_transfer": Plain(
        "Tensors move between CPU and GPU", "tensors are copied between CPU and GPU inside a call"
    ),
    "precision_upcast": Plain(
        "Numbers are wider than they need be", "numbers become wider on the way, and stay so"
    ),
    "register_spills": Plain(
        "A kernel runs out of registers", "a kernel needs more registers than there are"
    ),
    "atomics": Plain(
        "Sums are made by atomic additions", "sums into one tensor are made by atomic additions"
    ),
    "benchmark_artifact": Plain(
        "The program's own timing misleads", "the program times something else than compiled calls"
    ),
    "healthy": Plain("Nothing worth changing", "nothing worth changing"),
    "nothing_found": Plain("Nothing to change found so far", "nothing worth changing was found"),
}

PARTS = {
    ledger.WITHIN_GRAPHS: "launching kernels (wrapper)",
    ledger.GUARDS: "checking inputs (guards), dispatch",
    ledger.PYTHON: "Python between graphs",
    ledger.WHOLE_GRAPHS: "kernels and wrapper together",
    ledger.WAITING: "GPU's later work, guards, Python",
    ledger.EAGER: "eager, past the recompile limit",
    "fallbacks": "operators left to ATen",
    "wrappers and launches": "launching kernels (wrapper)",
    "guards": "checking inputs (guards)",
    two_sides.HOST: "Python, operators and wrappers",
}
"""Parts of the ledger whose names in the contract are an insider's."""

SOURCES = {
    "calls": "measured",
    "recorder": "measured",
    "calls - recorder": "measured",
    "recorder - replay": "by difference",
    "calls - replay": "by difference",
    "replay": "replayed",
    "profile": "profiled",
    "estimate": "estimated",
}
"""What a part's milliseconds rest on."""


PART_SLOWER = Plain(
    "A part is slower than in eager, cause unknown",
    "one part of it takes longer than in eager, and no known cause fits",
)


def _plain(finding: Finding) -> Plain | None:
    """Of blocks alone, which may lose in a call that wins, the whole is not said to."""
    blocks = bool(finding.claims) and all(claim.block is not None for claim in finding.claims)
    return PART_SLOWER if blocks and finding.rule == "slower_than_eager" else RULES.get(finding.rule)


def title(finding: Finding) -> str:
    """A finding's rule as a headline."""
    plain = _plain(finding)
    return plain.title if plain is not None else spaced(finding.rule)


def why(finding: Finding) -> str:
    """Its cause in one clause."""
    plain = _plain(finding)
    return plain.why if plain is not None else finding.title
