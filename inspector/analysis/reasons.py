"""What torch's reasons for not fusing mean: a closed list of categories, and which text belongs to which.

The texts are those of ``WhyNoFuse`` in torch/_inductor/scheduler.py, choices.py, codegen/simd.py and
codegen/cutlass/scheduling.py, torch 2.4 to 2.15, and the recorder's own where torch gives none
(capture/recorder). Settings are named as in torch/_inductor/config.py.
"""

from __future__ import annotations

import re
from functools import lru_cache

from inspector.frozen import dataclass
from inspector.model.decision import Category

from .call_nodes import ATTENTION, CONVOLUTIONS, MATMULS, calls_of_library
from .dataflow import operator


@dataclass(frozen=True, slots=True)
class CategoryInfo:
    """A category in words. `possible` False: the pair as it stands cannot fuse, whatever is set."""

    title: str
    meaning: str
    advice: str
    possible: bool


CATEGORIES: dict[Category, CategoryInfo] = {
    "no_shared_data": CategoryInfo(
        "no shared data",
        "The two touch no common buffer, so one kernel for both would load and store just as much as two.",
        "Nothing to gain in bytes. For many tiny kernels try mode='reduce-overhead' (CUDA graphs), or "
        "combo_kernels=True on a GPU.",
        False,
    ),
    "cycle": CategoryInfo(
        "something lies between",
        "A node between the two needs the first and feeds the second; a kernel that holds both would have "
        "to run before and after it.",
        "Only what lies between can change: if it can fuse with one of the two, or be moved in the model "
        "so that it is not between them, the pair becomes possible.",
        False,
    ),
    "iteration_ranges": CategoryInfo(
        "loop ranges differ",
        "One kernel has one loop nest, and the two run over different numbers of elements, or reduce over "
        "different axes.",
        "Compute both over one shape: reduce over the same axes, and apply pointwise steps before a "
        "broadcast, slice or concatenation rather than after. On a GPU, two reductions over different axes "
        "may still share a kernel (triton.mix_order_reduction).",
        True,
    ),
    "index_mismatch": CategoryInfo(
        "index mismatch",
        "Both touch the same buffer, but at different addresses in the same step of the loop, as when one "
        "writes rows and the other reads columns: the value is not at hand when it is needed.",
        "Make the layouts agree: drop or move the transpose or permute, keep both sides in one memory "
        "format, call .contiguous() only where it is needed. loop_ordering_after_fusion and "
        "loop_index_inversion_in_fusion let torch reorder loops by itself.",
        True,
    ),
    "too_far": CategoryInfo(
        "too far apart in memory",
        "Fusing would keep buffers alive for longer, and torch expects the peak of memory to rise.",
        "Use the shared value closer to where it is made. Nodes more than 64 places apart never fuse side "
        "by side; no setting changes that (Scheduler.are_long_distant_nodes).",
        True,
    ),
    "extern_kernel": CategoryInfo(
        "extern kernel in the way",
        "One side is a library call (matrix product, convolution, custom operator) that runs as it is; "
        "generated code cannot be put inside.",
        "one operator that does both; where the call is a custom operator, the step inside of it. Else "
        "nothing: it runs as it is.",
        False,
    ),
    "template_rule": CategoryInfo(
        "rule of the template",
        "Template, foreach and scan kernels take in only certain neighbours: pointwise ones of the right "
        "shape that change nothing in place and have no other reader.",
        "Make the neighbour a plain pointwise step of the template's shape; epilogue_fusion, "
        "prologue_fusion and benchmark_epilogue_fusion decide what is tried.",
        True,
    ),
    "device": CategoryInfo(
        "devices differ",
        "The two run on different devices.",
        "Move the data once, before both steps; a scalar that lives on the CPU can be made on the GPU.",
        False,
    ),
    "order": CategoryInfo(
        "asked the wrong way round",
        "torch may ask about a pair in both orders; here the second has to run before the first.",
        "Nothing to do.",
        False,
    ),
    "measured_slower": CategoryInfo(
        "measured slower",
        "torch timed the fused kernel, and it was slower than the two or ran out of registers.",
        "Compare with benchmark_fusion=False or benchmark_epilogue_fusion=False; smaller fused kernels "
        "need fewer registers.",
        True,
    ),
    "below_threshold": CategoryInfo(
        "too little shared data",
        "What the two share is below score_fusion_memory_threshold (10 bytes by default).",
        "Nothing to gain in bytes; score_fusion_memory_threshold sets the limit.",
        True,
    ),
    "limit": CategoryInfo(
        "over a limit",
        "The fused kernel would have more nodes or buffers than torch allows.",
        "Raise max_fusion_size (64), max_fusion_unique_io_buffers, or on the CPU "
        "cpp.max_horizontal_fusion_size (16), and measure.",
        True,
    ),
    "disabled": CategoryInfo(
        "switched off",
        "A setting, or a mark on the buffer or the node, forbids this fusion.",
        "See epilogue_fusion, prologue_fusion and cutlass.cutlass_epilogue_fusion_enabled.",
        True,
    ),
    "never_tried": CategoryInfo(
        "never tried",
        "torch wrote nothing about this pair. It asks about pairs that name a common buffer, and about the "
        "64 next readers of each buffer; some refusals leave no line.",
        "Raise max_fusion_buffer_group_pairwise_attempts (64) if one buffer has very many readers.",
        True,
    ),
    "other": CategoryInfo(
        "another reason",
        "A reason that this version of Inspector does not know.",
        "Read torch's text.",
        True,
    ),
}


_AROUND = {
    "attention": "flex_attention takes in what changes its scores (score_mod, block_mask); what stands "
    "before or behind the call stays a kernel of its own.",
    "product": "mode='max-autotune' (max_autotune_gemm), whose templates take in pointwise neighbours "
    "(epilogue_fusion, prologue_fusion), or a library call that includes the step, such as a bias or an "
    "activation.",
}


def around_library(kernel: str, device: str) -> str:
    """What can be done for a step beside a library's call with that name; empty where the category says it.
    Convolutions have templates on a GPU alone (torch/_inductor/kernel/conv.py)."""
    kind = calls_of_library(operator(kernel))
    if kind is ATTENTION:
        return _AROUND["attention"]
    templated = (MATMULS,) if device == "cpu" else (MATMULS, CONVOLUTIONS)
    return _AROUND["product"] if kind in templated else ""


@dataclass(frozen=True, slots=True)
class Reason:
    """What one text means. `plain` and `advice` are empty where the category says it all."""

    category: Category
    plain: str = ""
    advice: str = ""


def _rule(
    pattern: str, category: Category, plain: str = "", advice: str = ""
) -> tuple[re.Pattern[str], Reason]:
    return re.compile(pattern, re.I | re.S), Reason(category, plain, advice)


_RULES = (
    _rule(
        r"unfusable node: (?:(?!unfusable node: ).)* is a no-op",
        "extern_kernel",
        "one side computes nothing: no kernel to join",
    ),
    _rule(r"unfusable node: ", "extern_kernel"),
    _rule(r"pairs per buffer: ", "limit", "too many nodes use the buffer, and torch pairs only near ones"),
    _rule(
        r" was fused with (?:(?! was fused with ).)* first\Z",
        "never_tried",
        "one of the two was taken by another partner first",
    ),
    _rule(
        r"lower priority: ", "never_tried", "torch tried fusions of another kind first and did not come back"
    ),
    _rule(r"did not take it up in this round", "never_tried", "torch could have fused the two and did not"),
    _rule(r"not known\Z", "never_tried", "torch never asked about the two, and nothing shows why"),
    _rule(r"other stream\Z", "device", "the two run in different streams"),
    _rule(r"slower fused than apart|refused before it was measured", "measured_slower"),
    _rule(r"no shared data due to indexing mismatch", "index_mismatch"),
    _rule(r"no shared data", "no_shared_data"),
    _rule(r"intermediate nodes between", "cycle"),
    _rule(r"will create cycle", "cycle", "groups made in the same round would wait for each other"),
    _rule(
        r"memory deps did not match",
        "index_mismatch",
        "the second reads what the first writes, at other addresses",
    ),
    _rule(
        r"invalid loop order and tiling for native matmul",
        "index_mismatch",
        "the loops run in another order than those of the matrix product",
    ),
    _rule(
        r"tiling mismatch",
        "index_mismatch",
        "the two are tiled differently, and a common tiling would suit neither",
        "Make the layouts agree, or try triton.tiling_prevents_pointwise_fusion=False and measure.",
    ),
    _rule(
        r"invalid tiling for reduction",
        "index_mismatch",
        "the pointwise side's tiling does not suit the reduction",
        "Make the layouts agree, or try triton.tiling_prevents_reduction_fusion=False and measure.",
    ),
    _rule(
        r"numel/rnumel mismatch prologue",
        "template_rule",
        "the input's shape differs from that of the steps already in front of the template",
    ),
    _rule(r"numel/rnumel mismatch \(reduce\)", "iteration_ranges", "the two reduce over different shapes"),
    _rule(r"numel/rnumel mismatch", "iteration_ranges", "the two run over different numbers of elements"),
    _rule(
        r"nodes numel(/rnumel)? incompatib",
        "iteration_ranges",
        "the pointwise side's shape does not fit the reduction's loops",
    ),
    _rule(
        r"uses different buf layouts",
        "index_mismatch",
        "the user's kernel writes another layout than the next step reads",
    ),
    _rule(r"too far away", "too_far", "more than 64 nodes lie between the two"),
    _rule(
        r"increase peak memory|memory-timeline fusion rejected",
        "too_far",
        "torch expects the peak of memory to rise",
    ),
    _rule(
        r"triton kernel doesn't support epilogue|node1 is extern but node2|epilogue reads from buffers other",
        "template_rule",
        "a user's Triton kernel takes in only a pointwise step that reads nothing but its result",
        "epilogue_fusion_user_defined_triton_kernel=True lets torch try; the step has to be pointwise and "
        "to read only the kernel's output.",
    ),
    _rule(r"node\d? is (an )?extern|is extern or nop|is nop\b", "extern_kernel"),
    _rule(
        r"foreach do not have same length", "iteration_ranges", "the two lists of tensors differ in length"
    ),
    _rule(r"foreach ops cannot be fused with", "template_rule", "foreach kernels take in no reduction"),
    _rule(r"is not dep of any foreach|has no dep in any foreach", "no_shared_data"),
    _rule(r"split scan", "template_rule", "a scan that is split over blocks takes in no reduction"),
    _rule(r"prologue fusion turned off", "disabled", "", "Set prologue_fusion=True."),
    _rule(
        r"cutlass epilogue fusion is not enabled",
        "disabled",
        "",
        "Set cutlass.cutlass_epilogue_fusion_enabled=True.",
    ),
    _rule(r"explicit(ly)? disabled|grouped node must not|fusion (is )?disabled", "disabled"),
    _rule(
        r"must be upcast to fp32",
        "template_rule",
        "the step computes in float32 and the template's inputs are of low precision",
        "Right in most cases: the step would be repeated for every tile that loads the input. Only a step "
        "that stays in the low precision can go in.",
    ),
    _rule(
        r"prologue fusion will not increase amount of bytes read",
        "template_rule",
        "the template would read more bytes than it does now",
        "Right as it is: the step shrinks its input.",
    ),
    _rule(
        r"increase attempt to fuse in padding",
        "template_rule",
        "padding inside the template would make its loads unaligned",
        "Choose sizes in the model that need no padding (multiples of 8 or 16).",
    ),
    _rule(
        r"nodes with a single use",
        "template_rule",
        "the template's input has other readers, so it has to be written anyway",
    ),
    _rule(
        r"prologue|template|epilogue|not a ComputedBuffer|not a Pointwise op|computed buffer name"
        r"|aliasing or mutation|supported by EVT|size: .* differs from",
        "template_rule",
    ),
    _rule(r"register spilling", "measured_slower", "the kernel runs out of registers"),
    _rule(r"slowdown|slower|benchmark", "measured_slower"),
    _rule(r"score_fusion_memory_threshold", "below_threshold"),
    _rule(r"exceeds max fusion", "limit", "more than max_fusion_size nodes"),
    _rule(r"too_many_reads_and_writes", "limit", "more buffers than max_fusion_unique_io_buffers"),
    _rule(r"device mismatch", "device"),
    _rule(r"must go before", "order"),
)


@lru_cache(4096)
def classify(text: str) -> Reason:
    """The category of torch's text, with what it says in words where that is more than the category."""
    for pattern, reason in _RULES:
        if pattern.search(text):
            return reason
    return Reason("other")
