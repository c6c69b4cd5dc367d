"""Most of the work is done by operators outside of what is compiled: a loss, a penalty, an optimizer's step.
No faster kernel of a graph's can win what they take.

Looks at: with a profile the operators outside of all graphs, in a call and between one and the next, and on
a GPU the host's time for them; else, or where the profiled calls have little of it, how much of the time from
the first steady call to the last passed between them, and at which lines the recorder saw the program then
(inspector/capture/recorder/between.py). Silent where a graph breaks or a frame was given up and most
of what runs forward outside of graphs does so inside of the calls: that is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from inspector.analysis.profile_work import HOOK
from inspector.analysis.steady import LOOKS, MOST
from inspector.analysis.two_sides import is_communication
from inspector.explain.case import Case
from inspector.explain.doubts import profile_fits
from inspector.explain.failures import compile_failures
from inspector.explain.ledger import outside_share
from inspector.explain.rule import NEARLY_ALL, Rule, Stage, block_evidence, source_evidence
from inspector.model.calls import SteadySpan
from inspector.model.explain import Evidence, Finding
from inspector.model.two_sides import Block, SideTotals
from inspector.units import duration, percent, plural

_LEAST_PART = 0.05
"""Of what passes between the calls: a line with less is not what to begin with."""
_WORTH_A_WORD = 0.1
"""Of the work: a step that takes less gains less by being fused than two runs differ by."""
_SHOWN = 3
"""Operators that a sentence names."""
_BACKWARD = re.compile(r"^(\w+?)(?:Backward)+\d*$")
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_TWICE = "BackwardBackward"
"""torch/csrc/autograd: a node of the backward of a backward, which AOTAutograd has none of."""
_STEP = ".step"
"""How an optimizer's step is named (inspector.analysis.profile_work: step_of)."""
_ADVICE = (
    "compile the functions that have these operators, too, or write them with fewer operators on more data"
)
_ADVICE_BETWEEN = "compile what the program does between these calls, too, or do less of it"
_ADVICE_UNSEEN = "; a profile of the whole loop (torch.profiler, py-spy) says what it is"
_ADVICE_LINES = "; what makes data can run ahead of it (workers of a DataLoader), or where the model is"
_ADVICE_LIBRARY = (
    "most of that is library calls, which run the same where they are compiled: do fewer of them, or on less"
)
_LIBRARY = re.compile(
    r"::_?(?:matmul|b?mm|addmm|baddbmm|linear|einsum|tensordot|conv\w*|linalg_\w+|fft_\w+|lstm|gru|cdist|sort|topk|"
    r"scaled_dot_product\w*|multinomial|normal_?|randn?|cholesky\w*)$"
)
"""Operators that Inductor leaves to libraries or to ATen, as eager does."""
_ADVICE_TWICE = (
    "take the inner gradient inside of a compiled function (torch.func.grad over functional_call), or "
    "less often: torch.compile has no backward of a backward"
)
_COMPILE_STEP = "compile the optimizer's step, its numbers that change as tensors (lr=torch.tensor(1e-3))"
_UNTIMED = "; the program's own clock has none of it"
_FUSED = frozenset({"Adagrad", "Adam", "AdamW", "SGD"})
"""Optimizers of torch's that have one kernel for a step, on CPUs too (torch/optim: fused)."""
_COMPILING = "(dynamo_timed)"
"""torch/_dynamo/utils.py: dynamo_timed gives each phase of compiling to a profiler under such a name."""
_FEW, _SHORT_MS = 20, 50.0
"""Calls, and milliseconds, of which it is chance what lies between them."""


def find(case: Case) -> Iterable[Finding]:
    if not case.graphs or case.in_eager:
        return
    broken = bool(case.facts.graph_breaks or compile_failures(case) or case.some_in_eager)
    yield from list(_profiled(case, broken)) or ([] if broken else _between(case))


def _compiles(block: Block) -> bool:
    """Whether something was compiled in it, as a backward is when it first runs: that is no steady work."""
    return any(_COMPILING in kernel.name for kernel in block.compiled_kernels)


def _between(case: Case) -> Iterable[Finding]:
    """What passes between steady calls, whatever it is."""
    span = _known_span(case)
    if span is None or span.outside < MOST:
        return
    untimed = _times_calls_alone(case)
    lines = tuple(_seen_at(case, span))
    yield Finding(
        rule="outside_compiled",
        severity="low" if untimed else "medium",
        title=(
            f"{percent(span.outside)} of the time passes between steady calls: "
            f"{duration(span.span_ms - span.inside_ms)} of {duration(span.span_ms)}, in which there are "
            f"{span.calls:,} calls and backward passes" + (_UNTIMED if untimed else "")
        ),
        graph=None,
        cost_ms=None,
        evidence=lines or case.compile_lines[:1],
        advice=_ADVICE_BETWEEN + (_ADVICE_LINES if lines else _ADVICE_UNSEEN),
        how="measured",
        share=span.outside,
    )


def _known_span(case: Case) -> SteadySpan | None:
    """What passed from the first steady call to the last, where that is no chance."""
    span = case.times.span
    return span if span is not None and span.calls >= _FEW and span.span_ms >= _SHORT_MS else None


def _seen_at(case: Case, span: SteadySpan) -> Iterator[Evidence]:
    """The lines that take most of what passes between the calls, with how much of it."""
    for place, looks in span.lines[:_SHOWN] if span.looks >= LOOKS else ():
        if looks >= _LEAST_PART * span.looks:
            line = source_evidence(case, place)
            yield replace(line, text=f"{percent(looks / span.looks)} of it: {line.text}".removesuffix(": "))


def _profiled(case: Case, broken: bool) -> Iterable[Finding]:
    """Loud where it is nearly all, so that nothing of compiled code matters, and where an optimizer's step
    takes most of it all and is not fused: fewer passes are known to win."""
    if case.sides is None:
        return
    totals = case.sides.joined.compiled
    blocks = [
        block
        for block in case.sides.joined.blocks
        if block.compiled_ms and not _of_ranks(block) and not _compiles(block)
    ]
    if totals is None or not totals.wall_ms:
        return
    blocks = _as_usual(case, totals, blocks)
    outside = [block for block in blocks if block.place == "outside" and block.operators]
    if not outside:
        return
    inside = [block for block in outside if block.inside]
    # A backward pass is part of a call, whatever it is of.
    forward = [block for block in outside if _BACKWARD.match(block.operators[0]) is None]
    if broken and _sum(block for block in forward if block.inside) > MOST * _sum(forward):
        return
    of_call = outside_share(totals, inside) if profile_fits(case) and not broken else 0.0
    of_work = _sum(outside) / _sum(blocks)
    share = max(of_call, of_work)
    if share < MOST:
        yield from _unfused_step(case, outside, _sum(blocks))
        return
    if of_call >= of_work:
        # Short kernels: how many there are is what takes the host's time.
        largest = sorted(inside, key=_launches, reverse=True)
        named = [f"{block.operators[0]} {plural(round(_launches(block)), 'kernel')}" for block in largest]
        launched = plural(round(sum(map(_launches, inside))), "kernel")
        title = f"{percent(of_call)} of a call runs outside of what is compiled: {launched}, as of "
    else:
        largest = sorted(outside, key=_took, reverse=True)
        named = [f"{block.operators[0]} {duration(_took(block))}" for block in largest]
        whose = "the GPU's work" if totals.device else "the work"
        title = f"{percent(of_work)} of {whose} from one call to the next runs outside of what is compiled: "
        title += f"{duration(_sum(outside))} of {duration(_sum(blocks))}, most of it in "
    untimed = of_work > of_call and _times_calls_alone(case)
    loud = of_work >= NEARLY_ALL
    first = largest[0]
    most = _took(first) > MOST * _sum(blocks)
    step = most and first.operators[0].endswith(_STEP) and not _asks_fused(case)
    library = _is_library(largest)
    yield Finding(
        rule="outside_compiled",
        severity="high" if (step or loud) and not untimed else "low" if untimed or library else "medium",
        title=title + ", ".join(named[:_SHOWN]) + (_UNTIMED if untimed else ""),
        graph=None,
        cost_ms=None,
        evidence=tuple(_evidence(case, largest))[:_SHOWN],
        advice=_advice(case, largest[:_SHOWN]),
        how="measured",
        share=min(share, 1.0),
    )


def _unfused_step(case: Case, outside: Sequence[Block], work_ms: float) -> Iterator[Finding]:
    """An optimizer's step that has one kernel for what it does in many, where it is a part worth a word."""
    steps = (block for block in outside if _could_be_fused(case, block.operators[0]))
    block = max(steps, key=_took, default=None)
    if block is None or _took(block) < _WORTH_A_WORD * work_ms:
        return
    part = _took(block) / work_ms
    yield Finding(
        rule="outside_compiled",
        severity="low",
        title=(
            f"{percent(part)} of the work from one call to the next is {block.operators[0]}: "
            f"{duration(_took(block))} of {duration(work_ms)}, one operator after the other"
        ),
        graph=None,
        cost_ms=None,
        evidence=tuple(_evidence(case, [block]))[:_SHOWN],
        advice=_advice(case, [block]),
        how="measured",
        share=part,
    )


def _as_usual(case: Case, totals: SideTotals, blocks: Sequence[Block]) -> list[Block]:
    """The blocks, those between calls no longer than the time that passes there in the whole run: of a few
    profiled calls one may have what the program does once for many. On a GPU that time is not known, as a
    call waits for what was launched before it."""
    span = _known_span(case)
    between = _sum(block for block in blocks if block.place == "outside" and not block.inside)
    if span is None or case.gpu or span.outside >= 1 or not between:
        return [*blocks]
    part = min(totals.wall_ms * span.outside / (1 - span.outside) / between, 1.0)
    return [
        replace(block, compiled_ms=_took(block) * part)
        if block.place == "outside" and not block.inside
        else block
        for block in blocks
    ]


def _times_calls_alone(case: Case) -> bool:
    """Whether the program times its compiled calls and nothing beside them: what is around is how it comes by
    its data."""
    regions = [region for program in case.programs for region in program.regions if region.calls_compiled]
    return bool(regions) and all(region.nothing_else for region in regions)


def _of_ranks(block: Block) -> bool:
    """Exchanges between ranks and what FSDP2's hooks do around them, which nobody would compile."""
    hook = block.operators[:1] and block.operators[0].startswith(HOOK)
    return bool(hook) or any(is_communication(kernel.name) for kernel in block.compiled_kernels)


def _took(block: Block) -> float:
    return block.compiled_ms or 0.0


def _sum(blocks: Iterable[Block]) -> float:
    return sum(map(_took, blocks))


def _launches(block: Block) -> float:
    return sum(kernel.calls for kernel in block.compiled_kernels)


def _advice(case: Case, largest: Sequence[Block]) -> str:
    names = [block.operators[0] for block in largest]
    if any(_TWICE in name for name in names):
        return _ADVICE_TWICE
    if not names[0].endswith(_STEP):
        return _ADVICE_LIBRARY if _is_library(largest) else _ADVICE
    fused = _could_be_fused(case, names[0])
    return f"give the optimizer fused=True, or {_COMPILE_STEP}" if fused else _COMPILE_STEP


def _is_library(largest: Sequence[Block]) -> bool:
    """Whether most of the largest runs the same where it is compiled: less could be gained than it takes."""
    shown = largest[:_SHOWN]
    called = (
        block
        for block in shown
        if _LIBRARY.search(f"::{_function(block.operators[0])}") and _TWICE not in block.operators[0]
    )
    return _sum(called) > MOST * _sum(shown)


def _could_be_fused(case: Case, operator: str) -> bool:
    """Whether it is the step of an optimizer that has one kernel for it, for which nobody asks."""
    return operator.endswith(_STEP) and operator.removesuffix(_STEP) in _FUSED and not _asks_fused(case)


def _asks_fused(case: Case) -> bool:
    return any("fused" in line for program in case.programs for line in program.lines)


def _evidence(case: Case, largest: Sequence[Block]) -> Iterator[Evidence]:
    """Lines of the program that call the largest ones by their name, or at which it was seen between the
    calls; else what the profile has of them."""
    found = False
    span = case.times.span
    seen = {(place.path, place.line) for place, _ in span.lines} if span is not None else set()
    for block in largest[: 2 * _SHOWN]:
        if _took(block) < _LEAST_PART * _sum(largest):
            continue
        called = re.compile(rf"(?<!def )\b{re.escape(_function(block.operators[0]))}\(")
        for program in case.programs:
            lines = [number for number, text in enumerate(program.lines, 1) if called.search(text)]
            if len(lines) > 1:
                lines = [number for number in lines if (program.path, number) in seen]
            if len(lines) == 1:
                found = True
                yield program.evidence(lines[0])
    if not found:
        # What has no name of its own in the program, as a product: where it was seen between the calls. Where
        # a GPU works, the host was seen at what it waited at, which need not be what the GPU did.
        at = tuple(_seen_at(case, span)) if span is not None and not case.gpu else ()
        yield from at or (each for block in largest[:1] for each in block_evidence(case, block))


def _function(operator: str) -> str:
    """`logaddexp` of ``aten::logaddexp`` and of ``LogaddexpBackward0``; an optimizer's class of its step."""
    if operator.endswith(_STEP):
        return operator.removesuffix(_STEP)
    match = _BACKWARD.match(operator)
    return _WORDS.sub("_", match[1]).lower() if match else operator.rpartition("::")[2]


RULE = Rule("outside_compiled", Stage.PROGRAM, find, aside=True)
