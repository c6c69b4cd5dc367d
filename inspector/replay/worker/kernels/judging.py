"""The verdict on a launch that was made: its outputs beside what they should hold, and the words for it."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from inspector.model.replay import KernelReplay, OutputCheck, ValueKind, Verdict, WorstElement
from inspector.replay import protocol
from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.code.fx import Function
from inspector.replay.worker.compare import compare, named, verdict_on
from inspector.replay.worker.events import KernelFault, NotRunnable, describe
from inspector.replay.worker.kernels.evidence import worst_element
from inspector.replay.worker.kernels.expected import Expected, Launch, cast
from inspector.replay.worker.kernels.facts import Context, GraphFacts
from inspector.replay.worker.kernels.own_kernels import SAME_KERNEL
from inspector.replay.worker.kernels.tensors import SCRATCH, LaunchTensors, show_unwritten
from inspector.replay.worker.reference.noise import may_use_tf32

if TYPE_CHECKING:
    from inspector.replay.worker.interpreter.kernel import InterpretedKernel

_RANK = ("match", "compiled_closer", "eager_closer", "unverifiable", "mismatch")

_OUT_OF_BOUNDS = "index out of bounds"
"""Of the check that Inductor generates in C++ (torch/_inductor/codegen/cpp.py: indirect_assert)."""

_ABORTED = ("device-side assert triggered", "illegal memory access")
"""What CUDA says of a kernel that the device ended."""

_MOST_WORST = 4

Pairs = Sequence[tuple[str, object, Expected]]
"""A launch's outputs: buffer, what the kernel gave, what it should hold."""


class Judge:
    """Says of each launch whether it is right. `wrong`: the first launch whose wrong results run on."""

    def __init__(self, context: Context, facts: GraphFacts, tensors: LaunchTensors) -> None:
        self._context = context
        self._reporter = context.reporter
        self._code = context.code
        self._facts = facts
        self._tensors = tensors
        self.wrong = ""

    def check(
        self,
        launch: Launch,
        names: Mapping[str, object],
        result: object,
        function: Function,
        outside: str = "",
    ) -> KernelReplay | None:
        """The verdict on the launch that was made, reported; None where there is none. `outside`: where it
        wrote outside of its buffers."""
        call = launch.call
        kernel = self._code.interpreted(function)
        pairs: list[tuple[str, object, Expected]] = []
        try:
            if isinstance(result, (tuple, list)):
                parts = tree_leaves(list(result))
                expected = launch.expected_parts(parts)
                pairs = [(each.node, part, each) for part, each in zip(parts, expected, strict=False)]
            else:
                for name in call.outputs:
                    tensor = names.get(name, result)
                    if name not in names and result is None:
                        continue
                    compiled = self._tensors.in_layout(name, tensor) if isinstance(tensor, Tensor) else tensor
                    pairs.append((name, compiled, launch.expected(name, getattr(compiled, "shape", None))))
            part = fill_unwritten(kernel, pairs) if kernel is not None else ""
            checks, results, worst = self.compare(call, pairs, self._tensors.scratch(launch))
        except Exception as error:
            traceback.print_exc()
            self.report(self.result(call, "unverifiable", f"the check failed: {describe(error)}"))
            return None
        behind = self.wrong
        self._put_right(call, pairs, checks)
        verdict, reason = overall(checks, results)
        if not checks and _only_raises(function):
            verdict, reason = "match", "it gives nothing; it raises where something is wrong, and did not"
        library = self._code.on_cpu is not None and call.kind in ("extern", "fallback")
        if library and (verdict != "mismatch" or behind):
            verdict = "unverifiable"
            reason = "a GPU library's kernel, which only a GPU runs; the CPU's stood in for it"
        if call.kind == "user" and verdict == "match":
            reason = SAME_KERNEL
        if outside:
            verdict, reason = "mismatch", outside if verdict != "mismatch" else f"{outside}; {reason}"
        reason = "; ".join(text for text in (reason, part) if text)
        return self.report(self.result(call, verdict, reason, checks, worst, ("given",)))

    def failed(self, call: PlannedCall, error: Exception, made_up: str = "") -> None:
        """Reports the verdict on a launch that raised on the values that the graph gives it, on which op by
        op ran through. `made_up`: why they are not the graph's."""
        reason = str(error) if isinstance(error, (KernelFault, NotRunnable)) else describe(error)
        if any(sign in reason for sign in _ABORTED):
            reason = f"the device ended it where op by op runs through: {reason}"
        # What a C++ kernel throws is its own check, but for a lack of memory; a compiler raises other types.
        thrown = call.kind == "cpp" and type(error) is RuntimeError and "bad_alloc" not in str(error)
        verdict: Verdict = "mismatch" if is_fault(error) or thrown else "unverifiable"
        if verdict == "mismatch" and (self.wrong or made_up):
            why = f"{self.wrong}, which ran before it, is wrong" if self.wrong else made_up
            verdict, reason = "unverifiable", f"{reason}; {why}"
        elif verdict == "unverifiable" and not isinstance(error, NotRunnable):
            reason = f"it failed: {reason}"
        self.report(self.result(call, verdict, reason))

    def _put_right(
        self,
        call: PlannedCall,
        pairs: Pairs,
        checks: Sequence[OutputCheck],
    ) -> None:
        """In place of wrong results those of eager: what runs behind them would read outside of its arguments
        or crash. In the interpreter only integers and what is changed in place, as the graph's outputs are of
        the same run."""
        changed = set(self._facts.layouts.targets.values())
        for each in checks:
            buffer, compiled, expected = pairs[each.index]
            eager = expected.eager
            if each.verdict != "mismatch" or not isinstance(compiled, Tensor):
                continue
            floating = compiled.dtype.is_floating_point or compiled.dtype.is_complex
            if floating and self._code.on_cpu is not None and buffer not in changed:
                self.wrong = self.wrong or f"{call.kernel} (call {call.index})"
            elif isinstance(eager, Tensor) and eager.numel() == compiled.numel():
                compiled.copy_(eager.reshape(compiled.shape))

    def compare(
        self, call: PlannedCall, pairs: Pairs, scratch: Set[str]
    ) -> tuple[list[OutputCheck], list[OutputCheck], list[WorstElement]]:
        """The verdicts on all outputs, those of them that are results, and the farthest elements."""
        # A pointwise kernel that is named after a convolution multiplies nothing in TF32.
        products = call.kind in {"extern", "fallback"} or "ALLOW_TF32 : tl.constexpr = True" in (
            self._code.text_of(call.kernel) if call.kind == "template" else ""
        )
        tf32 = products and may_use_tf32(call.kernel, [compiled for _, compiled, _ in pairs])
        checks: list[OutputCheck] = []
        results: list[OutputCheck] = []
        worst: list[WorstElement] = []
        for index, (buffer, compiled, expected) in enumerate(pairs):
            if compiled is None:
                continue
            show_unwritten(compiled, expected.reference)
            comparison, eager = compare_output(compiled, expected, tf32)
            if buffer in scratch and comparison.verdict not in {"match", "compiled_closer"}:
                comparison, expected.state = verdict_on("unverifiable", SCRATCH), True
            name = expected.node if expected.node == buffer else f"{buffer} ({expected.node})"
            checks.append(named(comparison, index, name, compiled))
            if not expected.state:
                results.append(checks[-1])
            if comparison.verdict not in {"match", "unverifiable"} and len(worst) < _MOST_WORST:
                element = worst_element(
                    name, compiled, eager, expected.reference, comparison, expected.certain
                )
                if element is not None:
                    worst.append(element)
        return checks, results, worst

    def report(self, kernel: KernelReplay) -> KernelReplay:
        self._reporter.send(protocol.KernelChecked(kernel))
        return kernel

    def result(
        self,
        call: PlannedCall,
        verdict: Verdict,
        reason: str,
        checks: Sequence[OutputCheck] = (),
        worst: Sequence[WorstElement] = (),
        kinds: tuple[ValueKind, ...] = (),
    ) -> KernelReplay:
        # The figures of the outputs that have the launch's verdict: those of others would contradict it.
        decisive = [check for check in checks if check.verdict == verdict] or checks
        compiled = [check.error_compiled for check in decisive if check.error_compiled is not None]
        eager = [check.error_eager for check in decisive if check.error_eager is not None]
        return KernelReplay(
            call.kernel,
            call.index,
            verdict,
            reason,
            bytes=call.bytes,
            bytes_asked=call.bytes_asked,
            flops=self._facts.flops_of(call) if call.flops is None else call.flops,
            flops_asked=call.flops_asked,
            error_compiled=max(compiled, default=None),
            error_eager=max(eager, default=None),
            outputs=tuple(checks),
            worst=tuple(worst),
            kinds=kinds,
        )


def compare_output(compiled: object, expected: Expected, tf32: bool = False) -> tuple[OutputCheck, object]:
    """The verdict on one output, and eager's value as it was compared; `tf32` as in `compare`."""
    if expected.eager is None or expected.reference is None:
        return verdict_on("unverifiable", expected.reason or "no reference"), None
    eager, reference = expected.eager, expected.reference
    if not isinstance(compiled, Tensor) or not isinstance(eager, Tensor):
        return compare(compiled, eager, reference), eager
    assert isinstance(reference, Tensor)
    if compiled.shape != eager.shape and compiled.numel() == eager.numel():
        eager, reference = eager.reshape(compiled.shape), reference.reshape(compiled.shape)
    if eager.dtype != compiled.dtype:
        eager = cast(eager, compiled.dtype)
    if not compiled.dtype.is_floating_point and reference.dtype.is_floating_point:
        reference = reference.to(compiled.dtype)
    if expected.reason:
        return verdict_on("unverifiable", expected.reason), eager
    noisy = expected.noisy
    options = {"exact": expected.exact, "tf32": tf32, "noisy": noisy, "certain": expected.certain}
    return compare(compiled, eager, reference, **options), eager  # type: ignore[arg-type]


def _only_raises(function: Function) -> bool:
    """Whether an operator gives nothing and changes nothing, as `_linalg_check_errors`."""
    schema = getattr(function, "_schema", None)
    return schema is not None and not schema.returns and not schema.is_mutable


def is_fault(error: Exception) -> bool:
    """Whether a launch raised what no right kernel raises on inputs on which eager runs."""
    return isinstance(error, KernelFault) or any(sign in str(error) for sign in (_OUT_OF_BOUNDS, *_ABORTED))


def fill_unwritten(kernel: InterpretedKernel, pairs: Pairs) -> str:
    """After a launch of some of the grid's programs: puts the reference where none of them wrote.

    So only what they wrote counts, and what runs next gets right values. Where there is no reference
    the other programs run as well. Returns what to say of it.
    """
    launch = kernel.last
    if launch is None or launch.complete:
        return ""
    tensors = [(value, each) for _, value, each in pairs if isinstance(value, Tensor)]
    if any(expected.reference is None for _, expected in tensors):
        kernel.finish()
        return ""
    for value, expected in tensors:
        assert isinstance(expected.reference, Tensor)
        truth = expected.reference.reshape(value.shape)
        truth = cast(truth, value.dtype) if truth.dtype != value.dtype else truth
        written = launch.written(value)
        if value.dtype.itemsize == 1:
            # torch.where knows no 8-bit floats.
            value, truth = value.view(torch.uint8), truth.view(torch.uint8)
        value.copy_(truth if written is None else torch.where(written, value, truth))
    return f"checked where {launch.programs:,} of {launch.total:,} programs wrote"


def overall(checks: Sequence[OutputCheck], results: Sequence[OutputCheck]) -> tuple[Verdict, str]:
    """The worst verdict of those `checks` that are `results`; the others explain themselves."""
    if not results:
        return "unverifiable", checks[0].reason if checks else "it writes no buffer that the run names"
    worst = max(results, key=lambda check: _RANK.index(check.verdict))
    named = len(results) > 1 and worst.reason
    return worst.verdict, f"{worst.name}: {worst.reason}" if named else worst.reason
