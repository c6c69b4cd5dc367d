"""Every kernel call of a graph by itself: the graph runs once, and each launch is checked and timed on the
inputs that it really gets, before the next one runs."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from inspector.model.replay import (
    KIND_WORDS,
    KernelReplay,
    OutputCheck,
    ValueKind,
    Verdict,
    WorstElement,
)
from inspector.replay import protocol
from inspector.replay.protocol import KernelPlan, PlannedCall, Request
from inspector.replay.worker.code.edit import edited_kernel
from inspector.replay.worker.code.fx import Function, FxProgram, GraphError, tensors_of
from inspector.replay.worker.code.generated import CodeError, GeneratedCode
from inspector.replay.worker.code.launches import HookedCode
from inspector.replay.worker.code.operators import Absent
from inspector.replay.worker.compare import named, verdict_on
from inspector.replay.worker.events import Failure, Reporter, describe
from inspector.replay.worker.inputs.arguments import Inputs, TensorSpec, promote
from inspector.replay.worker.kernels.check import (
    EXPECTED_ERRORS,
    Expected,
    GraphFacts,
    Launch,
    check,
    failed_launch,
    fill_unwritten,
    is_fault,
    overall,
)
from inspector.replay.worker.kernels.draws import Draws
from inspector.replay.worker.kernels.evidence import worst_element
from inspector.replay.worker.kernels.repro import Draft
from inspector.replay.worker.kernels.tensors import SCRATCH, LaunchTensors
from inspector.replay.worker.reference.buffers import (
    Chain,
    Leaf,
    Meanings,
    call_node,
    flat_memory,
    link_externs,
    read_leaf,
)
from inspector.replay.worker.reference.evaluate import record
from inspector.replay.worker.reference.layouts import Layouts
from inspector.replay.worker.reference.subgraph import Subgraph
from inspector.replay.worker.timing.kernels import KernelClock, launch_facts, repeatable
from inspector.replay.worker.timing.rounds import synchronise
from inspector.replay.worker.timing.wider import in_float32, surely_faster

_SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")

_MOST_WORST = 4

_VARIED = frozenset({"match", "compiled_closer", "eager_closer"})
"""Verdicts on the values that a launch really gets after which it is tried on others."""

_VARY_S = 4.0
"""Seconds that trying one launch on other kinds of values may take, by what the kinds before took."""

_LEAST_CERTAIN = 0.1
"""Part of an output on which a kind of values must have a certain answer to count as looked at."""

_WHOLE_OPERATORS = frozenset({"extern", "fallback", "template"})
"""Kinds of launches that do all of an FX node's arithmetic."""


class _Enough(Exception):
    """All launches that are wanted are done."""


class KernelPass:
    """Checks and times the kernel calls of one graph."""

    def __init__(
        self,
        request: Request,
        plan: KernelPlan,
        reporter: Reporter,
        code: GeneratedCode,
        program: FxProgram,
        inputs: Inputs,
        device: str,
    ) -> None:
        self._request = request
        self._plan = plan
        self._reporter = reporter
        self._code = code
        self._program = program
        self._inputs = inputs
        self._device = device
        self._calls = {call.index: call for call in plan.calls}
        self._checked = set(request.done)
        if request.wanted is not None:
            self._checked |= self._calls.keys() - set(request.wanted)
        self._left = None if request.wanted is None else set(request.wanted)
        self._edited: Function | None = None
        self._wrong: str = ""
        self.made_up = ""
        """The launch whose results are not known, so that made-up numbers stand for them."""
        options = request.options
        self._clock = (
            KernelClock(device, options.kernel_time_s, options.time_warm)
            if options.time_kernels and code.on_cpu is None
            else None
        )

    def run(self, args: list[object] | None = None) -> list[object]:
        """Reports a verdict for each call, and returns the graph's outputs; none where only some calls are
        wanted, as nothing runs behind the last of them. Raises Failure where the wrapper cannot be run so.
        `args`: the graph's inputs, None for fresh ones; some are written to."""
        if not self._calls:
            return []
        self._reporter.stage("working out what each kernel's buffers stand for")
        try:
            hooked = HookedCode(self._code, self._plan.calls)
        except CodeError as error:
            raise Failure(f"kernels cannot be run one by one: {error}") from None
        self._facts = self._work_out()
        self._tensors = LaunchTensors(self._plan, self._facts, self._code.module, self._inputs)
        self._reporter.stage("running kernels one by one")
        try:
            return hooked.run(list(args) if args is not None else self._inputs.fresh(), self._launch)
        except _Enough:
            return []

    # -- before any kernel runs

    def _work_out(self) -> GraphFacts:
        program = self._linked_program()
        module = self._program.module
        _, _, recording = record(program, self._inputs, module)
        subgraph = Subgraph(program, module, recording)
        leaves = [read_leaf(item) for item in self._plan.leaves]
        arguments = dict(zip(program.placeholders, self._inputs.promoted(), strict=True))
        symbols: dict[str, object] = {**self._plan.symbols}
        for name, value in zip(self._plan.inputs, self._inputs.specs, strict=False):
            if not isinstance(value, TensorSpec):
                symbols[name] = value
        targets = {name: target for leaf in leaves for name, target in leaf.mutations.items()}
        layouts = Layouts(self._plan.layouts, symbols, targets, self._views())
        nodes = {index: call_node(call, subgraph) for index, call in self._calls.items()}
        linked, keep = link_externs(self._plan, leaves, subgraph)
        meanings = Meanings()
        values: dict[str, object] = {}

        def see(name: str, value: object) -> None:
            meanings.see_node(name, value)
            if name in keep:
                values[name] = value

        scan_kinds = self._scan_kinds()
        try:
            subgraph.walk(arguments, keep, see)
            for name, value in zip(self._plan.inputs, self._inputs.promoted(), strict=False):
                if isinstance(value, Tensor) and value.numel():
                    meanings.see_buffer(name, value)
            for name, value in vars(self._code.module).items():
                if isinstance(value, Tensor) and value.numel():
                    meanings.see_buffer(name, promote(value))
            externs = {
                name: values[node] for name, node in linked.items() if isinstance(values.get(node), Tensor)
            }
            self._chain(leaves, layouts, arguments, scan_kinds).run(externs, meanings)
        except EXPECTED_ERRORS as error:
            traceback.print_exc()
            self._reporter.note(f"buffers are not matched with FX nodes: {describe(error)}")
        return GraphFacts(subgraph, leaves, layouts, meanings.of, scan_kinds, nodes)

    def _linked_program(self) -> FxProgram:
        """The graph whose node names the linkage speaks of: after the passes. Else the one at hand."""
        path = self._request.files.fx_transformed
        if path is not None and path != self._program.path:
            try:
                program = FxProgram(path, "decomposed FX graph after Inductor's passes")
            except (GraphError, OSError):
                return self._program
            if len(program.placeholders) == len(self._program.placeholders):
                return program
        return self._program

    def _chain(
        self,
        leaves: Sequence[Leaf],
        layouts: Layouts,
        arguments: Mapping[str, object],
        scans: Mapping[str, str],
    ) -> Chain:
        memories: dict[str, Tensor] = {}
        for name, value in zip(self._plan.inputs, arguments.values(), strict=False):
            if isinstance(value, Tensor):
                memories[name] = flat_memory(value).clone()
        for name, value in vars(self._code.module).items():
            if isinstance(value, Tensor):
                memories[name] = promote(flat_memory(value)).clone()
        return Chain(leaves, layouts, memories, scans)

    def _views(self) -> dict[str, tuple[str, int]]:
        """Buffers that are a part of another, with its name and the offset in elements."""
        views = {}
        for alias in self._plan.aliases:
            view = re.search(r"reinterpret_tensor\((\w+), .*, (\d+)\)", alias.text)
            if alias.kind == "view" and view and alias.name in self._plan.layouts:
                views[alias.name] = (view[1], int(view[2]))
        return views

    def _scan_kinds(self) -> dict[str, str]:
        kinds = {}
        for call in self._plan.calls:
            names = " ".join([*call.fx, call.kernel])
            kind = next((scan for scan in _SCANS if scan in names), None)
            if kind is not None:
                kinds.update(dict.fromkeys(call.entries, kind))
        return kinds

    # -- at each launch

    def _launch(
        self, index: int, names: dict[str, object], function: Function, /, *args: object, **kwargs: object
    ) -> object:
        result = self._one(index, names, function, args, kwargs)
        if self._left is not None:
            self._left.discard(index)
            if not self._left:
                raise _Enough
        return result

    def _one(
        self,
        index: int,
        names: dict[str, object],
        function: Function,
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        call = self._calls[index]
        if index in self._checked and index not in self._request.skip:
            result = function(*args, **kwargs)
            self._code.finish(function)
            return result
        # Sizes that only the run tells (u0 = buf1.item()).
        self._facts.layouts.symbols.update(
            {name: value for name, value in names.items() if isinstance(value, int)}
        )
        launch = self._tensors.prepare(call, names)
        if call.kind in {"extern", "fallback"}:
            launch.operator = (function, args, kwargs)
        source = self._request.options.source if index not in self._request.edited else None
        if index in self._request.skip:
            result = self._stand_in(launch, names)
            if source is not None and index in (self._request.wanted or ()):
                self._try_edit(launch, source, names, function, args, kwargs)
            return result
        draft = self._draft(launch, names)
        self._reporter.send(protocol.KernelStarted(index, call.kernel))
        try:
            result = function(*args, **kwargs)
            synchronise(self._device)
            self._reporter.send(protocol.KernelRan())
        except Exception as error:
            traceback.print_exc()
            self._give_up(call, error)
            verdict, reason = failed_launch(error)
            if self._wrong and verdict == "mismatch":
                verdict, reason = "unverifiable", f"{reason}; {self._wrong}, which ran before it, is wrong"
            self._report(call, verdict, reason)
            self._reporter.send(protocol.KernelDone(index, launch_facts(function)))
            result = self._stand_in(launch, names)
            if source is not None:
                self._try_edit(launch, source, names, function, args, kwargs)
            return result
        started = time.monotonic()
        judged = self._check(launch, names, result, function)
        self._write_repro(draft, judged)
        if judged is not None and result is None:
            self._vary(launch, names, function, args, kwargs, judged, time.monotonic() - started)
        if self._clock is not None and "c10d" not in call.kernel:
            wide = in_float32(function, args, kwargs) if launch.operator is not None else None
            self._time(launch, names, repeatable(function, args, kwargs), wide)
        self._reporter.send(protocol.KernelDone(index, launch_facts(function)))
        if source is not None:
            self._try_edit(launch, source, names, function, args, kwargs)
        return result

    def _draft(self, launch: Launch, names: Mapping[str, object]) -> Draft | None:
        """What the launch gets, where it is to be written as a program of its own."""
        if not self._request.options.repro:
            return None
        try:
            device = self._device if self._code.on_cpu is None else "cuda"
            return Draft(self._request.files.output_code, launch, names, device)
        except EXPECTED_ERRORS as error:
            self._reporter.note(f"{launch.call.kernel} cannot be written as a program: {describe(error)}")
            return None

    def _write_repro(self, draft: Draft | None, judged: KernelReplay | None) -> None:
        if draft is None or judged is None:
            return
        versions = f"torch {torch.__version__}"
        heading = f"Launch {judged.call} of {self._request.files.name}, with torch alone ({versions})."
        try:
            self._reporter.send(protocol.Repro(judged.call, draft.script(heading, judged)))
        except EXPECTED_ERRORS as error:
            self._reporter.note(f"{judged.name} cannot be written as a program: {describe(error)}")

    def _try_edit(
        self,
        launch: Launch,
        source: str,
        names: Mapping[str, object],
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
    ) -> None:
        """The same launch with the user's source, checked and timed; the original's outputs are put back."""
        call = launch.call
        self._reporter.send(protocol.EditStarted())
        self._reporter.send(protocol.KernelStarted(call.index, call.kernel))
        outputs = {
            name: flat_memory(names[name]) for name in call.outputs if isinstance(names.get(name), Tensor)
        }
        after = {name: memory.clone() for name, memory in outputs.items()}
        run = function
        try:
            if self._edited is None:
                self._edited = edited_kernel(self._code, call.kernel, source)
            run = self._edited
            for name, memory in outputs.items():
                memory.copy_(launch.before[self._facts.layouts.root(name)])
            self._tensors.poison(launch, names)
            run(*args, **kwargs)
            synchronise(self._device)
            self._reporter.send(protocol.KernelRan())
            started = time.monotonic()
            judged = self._check(launch, names, None, run)
            if judged is not None:
                self._vary(launch, names, run, args, kwargs, judged, time.monotonic() - started)
            if self._clock is not None:
                self._time(launch, names, repeatable(run, args, kwargs))
        except Exception as error:
            traceback.print_exc()
            self._report(call, "unverifiable", f"the edited source: {describe(error)}")
        finally:
            for name, memory in outputs.items():
                memory.copy_(after[name])
        self._reporter.send(protocol.KernelDone(call.index, launch_facts(run)))

    def _time(
        self,
        launch: Launch,
        names: Mapping[str, object],
        action: Callable[[], object],
        wide: Callable[[], object] | None = None,
    ) -> None:
        """Runs the launch again and again, and puts its outputs back afterwards. `wide`: it in float32."""
        assert self._clock is not None
        call = launch.call
        outputs = [flat_memory(names[name]) for name in call.outputs if isinstance(names.get(name), Tensor)]
        after = [memory.clone() for memory in outputs]
        try:
            times = self._clock.measure(call.index, action)
            if wide is not None:
                times = self._beside_float32(times, action, wide)
            if call.kind in ("extern", "fallback"):
                times = replace(times, device_kernels=self._clock.device_kernels(action))
        except Exception as error:
            traceback.print_exc()
            self._give_up(call, error)
            self._reporter.note(f"{call.kernel} cannot be timed: {describe(error)}")
            return
        for memory, value in zip(outputs, after, strict=True):
            memory.copy_(value)
        self._reporter.send(times)

    def _beside_float32(
        self, times: protocol.KernelTimed, action: Callable[[], object], wide: Callable[[], object]
    ) -> protocol.KernelTimed:
        """`times` with that of the call in float32, where it is surely faster so."""
        assert self._clock is not None
        try:
            other = self._clock.measure(times.call, wide).time
        except Exception:
            # The operator knows no float32, or memory is short.
            traceback.print_exc()
            return times
        if other.median_ms >= times.time.median_ms:
            return times
        again = self._clock.measure(times.call, action).time
        return replace(times, time_float32=other) if surely_faster(times.time, other, again) else times

    def _give_up(self, call: PlannedCall, error: Exception) -> None:
        """Raises Failure where the device's context is lost: the parent then starts another child, which
        goes on behind this call."""
        if (
            self._device == "cpu"
            or isinstance(error, torch.cuda.OutOfMemoryError)
            or "CUDA" not in str(error)
        ):
            return
        self._reporter.send(protocol.KernelLost(describe(error)))
        raise Failure(f"{call.kernel} (call {call.index}) failed: {describe(error)}") from error

    def _vary(
        self,
        launch: Launch,
        names: Mapping[str, object],
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
        judged: KernelReplay,
        took_s: float,
    ) -> None:
        """The same launch on other kinds of values; reports it again with what was looked at. Afterwards
        inputs and outputs are as they were. `took_s`: its check on the graph's own values."""
        call = launch.call
        bodies = [leaf.body for leaf in self._plan.leaves if leaf.entry in call.entries and leaf.body]
        if call.kind == "user" or not bodies or judged.verdict not in _VARIED:
            return
        draws = Draws(
            bodies, self._device if self._code.on_cpu is None else "cuda", self._request.options.seed
        )
        # What a wrapper passes as a number (`scale.item()`) stays.
        passed = {leaf.untyped_storage().data_ptr() for leaf in tensors_of((args, kwargs))}
        inputs = {
            name: tensor
            for name, tensor in self._tensors.inputs(call, names).items()
            if tensor.untyped_storage().data_ptr() in passed
        }
        outputs = [names[name] for name in call.outputs if isinstance(names.get(name), Tensor)]
        # What the launch changed in place is drawn after what it was given.
        given = {name: launch.reads.get(name, tensor) for name, tensor in inputs.items()}
        flat = {name: flat_memory(tensor).clone() for name, tensor in given.items()}
        memories = [flat_memory(tensor) for tensor in (*inputs.values(), *outputs)]
        before = [memory.clone() for memory in memories]
        kinds = list(judged.kinds)
        spent, least = 0.0, 2 * took_s
        kernel = self._code.interpreted(function)
        settings = kernel.settings if kernel is not None else None
        try:
            for number, kind in enumerate(draws.kinds()):
                # The first kind may take longer, lest a slow launch be tried on none.
                if spent + least > (_VARY_S if number else 3 * _VARY_S):
                    break
                started = time.monotonic()
                if kernel is not None and settings is not None:
                    budget = None if settings.budget_s is None else settings.budget_s / 4
                    kernel.settings = replace(settings, budget_s=budget, seed=settings.seed + number + 1)
                for position, (name, tensor) in enumerate(inputs.items()):
                    values = draws.values(kind, flat[name], position)
                    if values is not None:
                        flat_memory(tensor).copy_(values)
                wrong = self._judge_kind(kind, call, names, function, args, kwargs)
                least = time.monotonic() - started
                spent += least
                if wrong is None:
                    continue
                kinds.append(kind)
                judged = wrong if isinstance(wrong, KernelReplay) else judged
                if judged.verdict == "mismatch":
                    break
        finally:
            if kernel is not None and settings is not None:
                kernel.settings = settings
            for memory, value in zip(memories, before, strict=True):
                memory.copy_(value)
        self._reporter.send(protocol.KernelChecked(replace(judged, kinds=tuple(kinds))))

    def _judge_kind(
        self,
        kind: ValueKind,
        call: PlannedCall,
        names: Mapping[str, object],
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
    ) -> KernelReplay | bool | None:
        """The mismatch that these values show; True where they show none, None where nothing can be said."""
        launch = self._tensors.prepare(call, names)
        scratch = self._tensors.scratch(launch)
        pairs: list[tuple[str, object, Expected]] = []
        try:
            for name in call.outputs:
                tensor = names.get(name)
                if isinstance(tensor, Tensor) and name not in scratch:
                    compiled = self._tensors.in_layout(name, tensor)
                    pairs.append((name, compiled, launch.agreed(name, compiled.shape)))
        except EXPECTED_ERRORS:
            return None
        sure = [
            float(expected.certain.double().mean())
            for _, _, expected in pairs
            if expected.certain is not None
        ]
        if not sure or max(sure) < _LEAST_CERTAIN:
            return None
        draft = self._draft(launch, names)
        self._reporter.send(protocol.KernelStarted(call.index, call.kernel))
        try:
            function(*args, **kwargs)
            synchronise(self._device)
        except Exception as error:
            self._give_up(call, error)
            if is_fault(error):
                return self._result(call, "mismatch", f"{KIND_WORDS[kind]}: {describe(error)}")
            return None
        finally:
            self._reporter.send(protocol.KernelRan())
        kernel = self._code.interpreted(function)
        if kernel is not None:
            fill_unwritten(kernel, pairs)
        checks, results, worst = self._compare(pairs, self._may_use_tf32(call.kernel), scratch)
        verdict, reason = overall(checks, results)
        if verdict != "mismatch":
            return True
        judged = self._result(call, verdict, f"{KIND_WORDS[kind]}: {reason}", checks, worst)
        self._write_repro(draft, judged)
        return judged

    def _check(
        self, launch: Launch, names: Mapping[str, object], result: object, function: Function
    ) -> KernelReplay | None:
        """The verdict on the launch that was made, reported; None where there is none."""
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
            tf32 = self._may_use_tf32(call.kernel)
            checks, results, worst = self._compare(pairs, tf32, self._tensors.scratch(launch))
        except Exception as error:
            traceback.print_exc()
            self._report(call, "unverifiable", f"the check failed: {describe(error)}")
            return None
        self._put_right(call, pairs, checks)
        verdict, reason = overall(checks, results)
        if self._code.on_cpu is not None and call.kind in ("extern", "fallback") and verdict != "mismatch":
            verdict = "unverifiable"
            reason = "a GPU library's kernel, which only a GPU runs; the CPU's stood in for it"
        reason = "; ".join(text for text in (reason, part) if text)
        return self._report(call, verdict, reason, checks, worst, ("given",))

    def _put_right(
        self,
        call: PlannedCall,
        pairs: Sequence[tuple[str, object, Expected]],
        checks: Sequence[OutputCheck],
    ) -> None:
        """In place of wrong results those of eager: what runs behind them would read outside of its arguments
        or crash. In the interpreter only integers, as the graph's outputs are of the same run."""
        for each in checks:
            _, compiled, expected = pairs[each.index]
            eager = expected.eager
            if each.verdict != "mismatch" or not isinstance(compiled, Tensor):
                continue
            floating = compiled.dtype.is_floating_point or compiled.dtype.is_complex
            if floating and self._code.on_cpu is not None:
                self._wrong = self._wrong or f"{call.kernel} (call {call.index})"
            elif isinstance(eager, Tensor) and eager.numel() == compiled.numel():
                compiled.copy_(eager.reshape(compiled.shape))

    def _may_use_tf32(self, kernel: str) -> bool:
        """Whether a library may compute this in TF32: cuDNN unless it is forbidden, cuBLAS if allowed."""
        if self._device == "cpu" or torch.cuda.get_device_capability()[0] < 8:
            return False
        if "convolution" in kernel:
            return bool(torch.backends.cudnn.allow_tf32)
        return "mm" in kernel and torch.get_float32_matmul_precision() != "highest"

    def _compare(
        self, pairs: Sequence[tuple[str, object, Expected]], tf32: bool, scratch: Set[str]
    ) -> tuple[list[OutputCheck], list[OutputCheck], list[WorstElement]]:
        """The verdicts on all outputs, those of them that are results, and the farthest elements."""
        checks: list[OutputCheck] = []
        results: list[OutputCheck] = []
        worst: list[WorstElement] = []
        for index, (buffer, compiled, expected) in enumerate(pairs):
            if compiled is None:
                continue
            comparison, eager = check(compiled, expected, tf32)
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

    def _stand_in(self, launch: Launch, names: Mapping[str, object]) -> object:
        """What the launch should have given, put in place of a kernel that cannot run; made up where that is
        not known: what runs behind it is still checked on the inputs that it gets."""
        call = launch.call
        values = {name: launch.expected(name) for name in call.outputs}
        result = None
        for name, expected in values.items():
            tensor = names.get(name)
            if isinstance(tensor, Tensor):
                tensor = self._tensors.in_layout(name, tensor)
                if isinstance(expected.eager, Tensor):
                    tensor.copy_(expected.eager.reshape(tensor.shape))
                else:
                    self._make_up(call, tensor)
            elif expected.eager is not None:
                result = expected.eager
            elif (absent := self._absent_at(call)) is not None:
                result = absent.made_up()
            else:
                layout = self._facts.layouts.of(name)
                if layout is None or layout[2] is None or len(values) > 1:
                    raise Failure(
                        f"the kernels after call {call.index} were not run: what {call.kernel} "
                        f"should give is not known ({expected.reason})"
                    )
                result = torch.empty_strided(layout[0], layout[1], dtype=layout[2], device=self._device)
                self._make_up(call, result)
        return result

    def _absent_at(self, call: PlannedCall) -> Absent | None:
        """What stands for the launch's node in the graph, where its function is not here."""
        return self._facts.subgraph.program.absent.get(self._facts.nodes.get(call.index) or "")

    def _make_up(self, call: PlannedCall, tensor: Tensor) -> None:
        tensor.fill_(0.5 if tensor.dtype.is_floating_point else 0)
        self.made_up = f"what {call.kernel} (call {call.index}) should give is not known"
        self._reporter.note(f"{self.made_up}: the kernels behind it are checked on made-up numbers")

    def _flops(self, call: PlannedCall) -> int | None:
        """Of the launch's own operators: a kernel beside a matrix product may have it among its origins."""
        known = self._facts.subgraph.recording.flops
        if call.kind in {"triton", "cpp", "user"}:
            others = (item for item in self._calls.values() if item.kind in _WHOLE_OPERATORS)
            done = {name for item in others for name in item.fx}
            known = {name: flops for name, flops in known.items() if name not in done}
        node = self._facts.nodes.get(call.index)
        names = {name for name in call.fx if name in known} or ({node} & known.keys() if node else set())
        return sum(known[name] for name in names) or None

    def _report(
        self,
        call: PlannedCall,
        verdict: Verdict,
        reason: str,
        checks: Sequence[OutputCheck] = (),
        worst: Sequence[WorstElement] = (),
        kinds: tuple[ValueKind, ...] = (),
    ) -> KernelReplay:
        kernel = self._result(call, verdict, reason, checks, worst, kinds)
        self._reporter.send(protocol.KernelChecked(kernel))
        return kernel

    def _result(
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
            flops=self._flops(call),
            error_compiled=max(compiled, default=None),
            error_eager=max(eager, default=None),
            outputs=tuple(checks),
            worst=tuple(worst),
            kinds=kinds,
        )
