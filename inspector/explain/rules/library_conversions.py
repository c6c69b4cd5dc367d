"""A library changes the layout of what it is handed, around kernels that want another one.

Looks at: kernels in a profile whose names say that cuDNN only converts between channels first and channels
last, of the blocks that compiled graphs run. Its convolutions on tensor cores want channels last. Whether a
program is faster that hands them that is not known before it is tried: its other kernels read it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.block_words import label
from inspector.explain.case import Case
from inspector.explain.claims import on_block
from inspector.explain.in_force import LAST_ALREADY, channels_last
from inspector.explain.rule import Rule, Stage, block_evidence, severity_of
from inspector.model.explain import Finding
from inspector.model.two_sides import Block
from inspector.units import duration, plural

# cudnn::engines_precompiled::nchwToNhwcKernel<float, ...>, nhwcToFoldedNhwcKernel<...>
_CONVERTS = re.compile(r"\b(?:nchw|nhwc|foldednhwc)to\w*(?:nchw|nhwc)kernel", re.I)


def find(case: Case) -> Iterable[Finding]:
    """One finding, with the block first that converts most."""
    blocks = enumerate(case.sides.joined.blocks if case.sides is not None else ())
    found = [(*taken, number, block) for number, block in blocks if (taken := _converting(block))[0]]
    if not found or not case.gpu:
        return
    found.sort(key=lambda item: -item[0])
    cost = sum(ms for ms, *_ in found)
    kernels = round(sum(launches for _, launches, *_ in found))
    *_, worst = found[0]
    graph = next((item for item in case.graphs if item.name == worst.graph), case.graphs[0])
    share = case.share(cost)
    yield Finding(
        rule="library_conversions",
        severity=severity_of(share),
        title=(
            f"{duration(cost)} in {plural(kernels, 'kernel')} of cuDNN's go into another layout of what "
            f"others convolve, most of it at {label(worst)}"
        ),
        graph=worst.graph,
        cost_ms=cost,
        evidence=block_evidence(case, worst),
        advice=LAST_ALREADY
        if channels_last(graph)
        else "try one memory format throughout: "
        f"model.to(memory_format=torch.{_format(worst)}), and the input too",
        how="estimated",
        share=share,
        claims=tuple(on_block(number, (0.0, ms), "estimated", "least") for ms, _, number, _ in found),
    )


def _converting(block: Block) -> tuple[float, float]:
    """Milliseconds and launches of conversions in a call, of work in compiled graphs."""
    if block.place != "graph":
        return 0.0, 0.0
    kernels = [kernel for kernel in block.compiled_kernels if _CONVERTS.search(kernel.name)]
    return sum(kernel.taken_ms for kernel in kernels), sum(kernel.calls for kernel in kernels)


def _format(block: Block) -> str:
    """By how many sizes the program's convolution goes over."""
    return "channels_last_3d" if any("3d" in name for name in block.operators) else "channels_last"


RULE = Rule("library_conversions", Stage.CODE, find, other_work=True)
