"""Every kernel call of a graph by itself: as the graph runs, each launch is checked and timed on the inputs
that it really gets, before the next one runs."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from inspector.model.replay import KernelReplay, Verdict
from inspector.replay import protocol
from inspector.replay.protocol import KernelPlan, PlannedCall, Request
from inspector.replay.worker.code.edit import edited_kernel
from inspector.replay.worker.code.fx import Function, FxProgram
from inspector.replay.worker.code.generated import CodeError, GeneratedCode
from inspector.replay.worker.code.launches import HookedCode
from inspector.replay.worker.code.operators import Absent
from inspector.replay.worker.events import Failure, NotRunnable, Reporter, describe
from inspector.replay.worker.inputs.arguments import Inputs, is_whole
from inspector.replay.worker.kernels.expected import Launch
from inspector.replay.worker.kernels.facts import EXPECTED_ERRORS, Context
from inspector.replay.worker.kernels.guarded import guarded
from inspector.replay.worker.kernels.judging import Judge, is_fault
from inspector.replay.worker.kernels.own_kernels import own_kernel
from inspector.replay.worker.kernels.repro import Programs
from inspector.replay.worker.kernels.tensors import LaunchTensors
from inspector.replay.worker.kernels.varied import OtherValues
from inspector.replay.worker.kernels.whole_operators import time_operators
from inspector.replay.worker.reference.buffers import flat_memory
from inspector.replay.worker.reference.eager_strides import Restriding, as_in_eager
from inspector.replay.worker.reference.operator import draws_numbers, generator_states
from inspector.replay.worker.timing.kernels import KernelClock, launch_facts, repeatable
from inspector.replay.worker.timing.rounds import synchronise
from inspector.replay.worker.timing.wider import in_float32

_GUARDED = frozenset({"cpp", "triton"})
"""Kinds of launches all of whose memory is among their arguments. The interpreter checks each access."""

_MANY_CALLS = 8
_FIRST_SHARE = 0.8
"""Of the time of all calls: those that take so much are done in the first run of a graph with so many."""


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
        self._context = Context(request, plan, reporter, code, program, inputs, device)
        self._request = request
        self._reporter = reporter
        self._code = code
        self._device = device
        self._calls = {call.index: call for call in plan.calls}
        self._checked = set(request.done)
        if request.wanted is not None:
            self._checked |= self._calls.keys() - set(request.wanted)
        self._left = None if request.wanted is None else set(request.wanted)
        self._late = self._cheap()
        self._again = False
        """The graph runs a second time, for what is `_late`."""
        self._judged: dict[int, tuple[KernelReplay | None, float]] = {}
        """Verdicts of the first run, and the seconds that each took."""
        self._faulty: set[int] = set()
        self._edited: Function | None = None
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
        context = self._context
        if not self._calls:
            return []
        self._reporter.stage("working out what each kernel's buffers stand for")
        try:
            hooked = HookedCode(self._code, context.plan.calls)
        except CodeError as error:
            raise Failure(f"kernels cannot be run one by one: {error}") from None
        self._facts = context.work_out()
        self._tensors = LaunchTensors(context.plan, self._facts, self._code.module, context.inputs)
        self._judge = Judge(context, self._facts, self._tensors)
        self._programs = Programs(context)
        self._others = OtherValues(context, self._tensors, self._judge, self._programs)
        self._reporter.stage("running kernels one by one")
        outputs = self._go_through(hooked, args)
        if self._late:
            self._again = True
            self._left = set(self._late)
            self._go_through(hooked, None)
        return outputs

    def _go_through(self, hooked: HookedCode, args: list[object] | None) -> list[object]:
        try:
            return hooked.run(list(args) if args is not None else self._context.inputs.fresh(), self._launch)
        except _Enough:
            return []

    def _cheap(self) -> set[int]:
        """Of many launches those that make up the rest of the time, by the run's profile or else by what they
        move: what takes long, other values and times, comes to them last, in a second run of the graph. An
        interpreted graph is too slow to run twice."""
        wanted = [call for index, call in self._calls.items() if index not in self._checked]
        if self._request.wanted is not None or self._code.on_cpu is not None or len(wanted) < _MANY_CALLS:
            return set()
        profiled = any(call.profiled_ms for call in wanted)
        costs = {call.index: (call.profiled_ms if profiled else call.bytes) or 0 for call in wanted}
        cheap = set(costs)
        spent = 0.0
        for index in sorted(costs, key=lambda index: -costs[index]):
            if spent >= _FIRST_SHARE * sum(costs.values()):
                break
            cheap.discard(index)
            spent += costs[index]
        return cheap if len(cheap) < len(costs) else set()

    def time_operators(self) -> None:
        """What the kernels do in pieces, as ATen does it, where all launches are timed."""
        if self._clock is not None and self._request.wanted is None:
            time_operators(self._context, self._clock)

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
        replaced = index in self._request.skip or (
            self._again and index in self._faulty and index not in self._late
        )
        done = index in self._checked or (self._again and index not in self._late)
        if done and not replaced:
            try:
                # Also one that writes outside of its buffers, which an earlier child has said.
                result, _ = self._guarded(call, function, args, kwargs)
                self._code.finish(function)
            except NotRunnable as error:
                # The interpreter has no time for a whole grid that is only run for those behind it.
                self._reporter.note(f"{call.kernel} (call {index}) is stood in for: {error}")
                return self._stand_in(self._tensors.prepare(call, names), names)
            return result
        # Sizes that only the run tells (u0 = buf1.item()).
        self._facts.layouts.symbols.update(
            {name: value for name, value in names.items() if isinstance(value, int)}
        )
        launch = self._tensors.prepare(call, names)
        if call.kernel.endswith("randint.low_out"):
            # What may be the generated code's seeds, as the graph draws them again for its outputs.
            torch.manual_seed(self._request.options.seed)
        if call.kind in {"extern", "fallback"}:
            launch.operator = (function, args, kwargs)
            launch.generators = generator_states() if draws_numbers(function) else ()
        elif call.kind == "user":
            launch.own_kernel = own_kernel((args, kwargs), {name: names.get(name) for name in call.outputs})
        source = self._request.options.source if index not in self._request.edited else None
        if replaced:
            result = self._stand_in(launch, names)
            if source is not None and index in (self._request.wanted or ()):
                self._try_edit(launch, source, names, function, args, kwargs)
            return result
        draft = self._programs.draft(launch, names)
        self._reporter.send(protocol.KernelStarted(index, call.kernel))
        try:
            result, outside = self._guarded(call, function, args, kwargs)
            synchronise(self._device)
            self._reporter.send(protocol.KernelRan())
        except Exception as error:
            traceback.print_exc()
            self._judge.failed(call, error, self.made_up)
            self._context.give_up(call, error)
            self._faulty.add(index)
            self._late.discard(index)
            self._reporter.send(protocol.KernelDone(index, launch_facts(function)))
            result = self._stand_in(launch, names)
            if source is not None:
                self._try_edit(launch, source, names, function, args, kwargs)
            return result
        if not self._again:
            started = time.monotonic()
            judged = self._judge.check(launch, names, result, function, outside)
            self._programs.write(draft, judged)
            self._judged[index] = judged, time.monotonic() - started
            if judged is not None and judged.verdict == "mismatch":
                self._faulty.add(index)
            if outside:
                self._late.discard(index)
            if index in self._late:
                self._reporter.send(protocol.KernelDone(index, launch_facts(function), final=False))
                return result
        judged, took_s = self._judged.get(index, (None, 0.0))
        # What writes outside of its buffers would harm this process where it runs on them themselves.
        if judged is not None and result is None and not outside:
            try:
                self._others.try_on(launch, names, function, args, kwargs, judged, took_s)
            except EXPECTED_ERRORS as error:
                traceback.print_exc()
                self._reporter.note(f"{call.kernel} is not tried on other values: {describe(error)}")
        if self._clock is not None and "c10d" not in call.kernel and not outside:
            wide = in_float32(function, args, kwargs) if launch.operator is not None else None
            self._time(launch, names, repeatable(function, args, kwargs), wide, self._as_in_eager(launch))
        self._reporter.send(protocol.KernelDone(index, launch_facts(function)))
        if self._again and index in self._faulty:
            # What is wrong is not to reach the launches behind it.
            return self._stand_in(launch, names)
        if source is not None:
            self._try_edit(launch, source, names, function, args, kwargs)
        return result

    def _guarded(
        self, call: PlannedCall, function: Function, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> tuple[object, str]:
        """The launch, and where a generated kernel wrote outside of its buffers."""
        if call.kind not in _GUARDED or self._code.on_cpu is not None:
            return function(*args, **kwargs), ""
        return guarded(function, args, kwargs)

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
                # The limit is a launch's, and a compiler that is killed leaves half of a library behind.
                self._reporter.stage("compiling the edited source")
                self._edited = edited_kernel(self._code, call.kernel, source)
                self._reporter.send(protocol.KernelStarted(call.index, call.kernel))
            run = self._edited
            for name, memory in outputs.items():
                memory.copy_(launch.before[self._facts.layouts.root(name)])
            self._tensors.poison(launch, names)
            _, outside = self._guarded(call, run, args, kwargs)
            synchronise(self._device)
            self._reporter.send(protocol.KernelRan())
            started = time.monotonic()
            judged = self._judge.check(launch, names, None, run, outside)
            if judged is not None and not outside:
                took_s = time.monotonic() - started
                self._others.try_on(launch, names, run, args, kwargs, judged, took_s, source)
            if self._clock is not None and not outside:
                self._time(launch, names, repeatable(run, args, kwargs))
        except Failure:
            raise
        except Exception as error:
            traceback.print_exc()
            reason = f"the edited source: {describe(error)}"
            verdict: Verdict = "mismatch" if is_fault(error) else "unverifiable"
            self._judge.report(self._judge.result(call, verdict, reason))
            self._context.give_up(call, error)
        for name, memory in outputs.items():
            memory.copy_(after[name])
        self._reporter.send(protocol.KernelDone(call.index, launch_facts(run)))

    def _time(
        self,
        launch: Launch,
        names: Mapping[str, object],
        action: Callable[[], object],
        wide: Callable[[], object] | None = None,
        restrided: Restriding | None = None,
    ) -> None:
        """Runs the launch again and again, and puts its outputs back afterwards. `wide`: it in float32;
        `restrided`: it with eager's strides, and what has others as compiled."""
        assert self._clock is not None
        call = launch.call
        outputs = [flat_memory(names[name]) for name in call.outputs if isinstance(names.get(name), Tensor)]
        after = [memory.clone() for memory in outputs]
        try:
            times = self._clock.measure(call.index, action, self._renewing(launch, names))
            if wide is not None:
                times = self._clock.beside_float32(times, action, wide)
            if restrided is not None:
                times = self._clock.beside_eager_strides(times, action, *restrided)
            if call.kind in ("extern", "fallback"):
                times = replace(times, device_kernels=self._clock.device_kernels(action))
        except Exception as error:
            traceback.print_exc()
            self._context.give_up(call, error)
            self._reporter.note(f"{call.kernel} cannot be timed: {describe(error)}")
            return
        for memory, value in zip(outputs, after, strict=True):
            memory.copy_(value)
        self._reporter.send(times)

    def _renewing(self, launch: Launch, names: Mapping[str, object]) -> Callable[[], None] | None:
        """What puts back whole numbers that the launch reads and writes: counted up from launch to launch, a
        place in a cache would soon be beyond its end."""
        read = {*launch.reads, *launch.memories}
        counters = []
        for name in launch.call.outputs:
            tensor, root = names.get(name), self._facts.layouts.root(name)
            if isinstance(tensor, Tensor) and is_whole(tensor.dtype) and not read.isdisjoint({name, root}):
                counters.append((flat_memory(tensor), launch.before[root]))

        def renew() -> None:
            for memory, value in counters:
                memory.copy_(value)

        return renew if counters else None

    def _as_in_eager(self, launch: Launch) -> Restriding | None:
        """A library's call with eager's strides; None where it has them, or they are not known."""
        layouts = self._facts.in_eager.get(self._facts.nodes.get(launch.call.index) or "")
        if launch.operator is None or layouts is None:
            return None
        try:
            return as_in_eager(*launch.operator, layouts)
        except RuntimeError:
            traceback.print_exc()
            return None

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
