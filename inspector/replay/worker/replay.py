"""One graph's replay in the child: stages in order, each reporting what it found."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import torch
from torch import Tensor

from inspector.capture.recorder.load import sample as load_sample
from inspector.model.load import LoadSample
from inspector.replay import protocol
from inspector.replay.protocol import INTERPRETER, TF32_NOTE, Request
from inspector.replay.worker.code.fx import FxProgram, GraphError, load_program
from inspector.replay.worker.code.generated import (
    CodeError,
    GeneratedCode,
    required_device,
    storage_key,
    uses_tf32,
)
from inspector.replay.worker.code.vectors import build_for
from inspector.replay.worker.compare import compare, named, without_reference
from inspector.replay.worker.events import Failure, Reporter, describe
from inspector.replay.worker.inputs.arguments import Fill, Inputs, RecordedReader, TensorSpec, make_specs
from inspector.replay.worker.inputs.forward import match_saved, run_forward
from inspector.replay.worker.inputs.roles import choose_values, on_the_host
from inspector.replay.worker.inputs.stored import StoredError, is_complete, load_stored
from inspector.replay.worker.kernels.launches import KernelPass
from inspector.replay.worker.reference.evaluate import (
    Recording,
    Reference,
    evaluate,
    float_free,
    record,
    undefined_reason,
)
from inspector.replay.worker.reference.noise import Noise
from inspector.replay.worker.reference.philox import RANDOM, repeated
from inspector.replay.worker.timing.kernels import time_as_graph
from inspector.replay.worker.timing.rounds import Candidate, measure, synchronise, timing_of

if TYPE_CHECKING:
    from inspector.replay.worker.interpreter.module import OnCpu

T = TypeVar("T")

_DISTURBED_S = 10.0

_Noisy = Callable[[int], object]


class Replay:
    """Loads, runs, times and compares one graph.

    Order: a slow reference must not cost the timings, and a crash in either not the rest. So the
    generated code runs once for its outputs, then both are timed, then the reference is computed.
    """

    def __init__(self, request: Request, reporter: Reporter, interpret: bool = False) -> None:
        """`interpret`: Triton kernels run in Triton's interpreter on the CPU, without times."""
        self._request = request
        self._options = request.options
        self._reporter = reporter
        self._started = time.monotonic()
        self._unknown_constants: list[str] = []
        self._spreads: dict[str, float] = {}
        self._versions = ""
        self._on_cpu: OnCpu | None = None
        self._interpret = interpret
        self._made_up = ""

    def run(self) -> None:
        """Raises Failure, or any error of torch or the generated code, where a stage cannot go on."""
        path = self._request.files.output_code
        text = path.read_text(encoding="utf-8", errors="replace")
        self._captured_by()
        device = self._prepare_interpreter() if self._interpret else self._device(text)
        if self._request.files.state is None and uses_tf32(text):
            torch.set_float32_matmul_precision("high")
            self._reporter.note(TF32_NOTE)
        if device == "cpu" and self._on_cpu is None and (why := build_for(text)):
            raise Failure(why)
        code = self._load_code(path)
        saved = self._run_forward()
        program = self._load_program()
        inputs = self._make_inputs(code, program, saved)
        if self._on_cpu is not None:
            self._interpreted(code, program, inputs)
            return
        before = load_sample()
        if not self._request.only_kernels:
            try:
                self._whole_graph(code, program, inputs, device)
            except Exception as error:
                if not isinstance(error, Failure):
                    traceback.print_exc()
                why = str(error) if isinstance(error, Failure) else describe(error)
                self._reporter.send(protocol.WholeLost(why))
                if device != "cpu":
                    # The device's context may be lost: the next child runs the kernels one by one.
                    raise Failure(why) from error
        if self._request.plan is not None:
            kernels = KernelPass(
                self._request, self._request.plan, self._reporter, code, program, inputs, device
            )
            kernels.run()
            kernels.time_operators()
        self._reporter.send(protocol.Load((LoadSample(**before), LoadSample(**load_sample()))))

    def _whole_graph(self, code: GeneratedCode, program: FxProgram, inputs: Inputs, device: str) -> None:
        plan = self._request.plan
        self._reporter.stage("running the generated code", len(plan.calls) if plan is not None else 1)
        compiled_args = inputs.fresh()
        torch.manual_seed(self._options.seed)
        compiled = self._attempt(lambda: code.call(list(compiled_args)), "the generated code")
        synchronise(device)
        changed = inputs.changed(compiled_args)
        self._reporter.stage("running the FX graph op by op")
        eager, eager_args, recording = self._recorded(program, inputs)
        synchronise(device)
        self._time(code, program, inputs, device, changed)
        self._reporter.stage("computing the float64 reference")
        self._check(program, inputs, recording, (compiled, compiled_args), (eager, eager_args))
        program.replaced = {}

    def _prepare_interpreter(self) -> str:
        self._reporter.send(protocol.DeviceKind(INTERPRETER))
        try:
            from inspector.replay.worker.interpreter.module import OnCpu
        except ImportError as error:
            raise Failure(
                "needs a CUDA device; this machine has none that torch can use, and Triton, whose "
                f"interpreter could check the kernels on the CPU, cannot be imported: {error}"
            ) from None
        options = self._options
        self._on_cpu = OnCpu(
            # Nothing fills in what is left out where kernels are not checked one by one.
            options.interpreter_s if self._request.plan is not None else None,
            # Less than the parent's limit, which would cost the whole child.
            0.9 * options.kernel_timeout_s,
            options.seed,
        )
        self._request = self._on_cpu.request(self._request)
        self._reporter.note("Triton kernels run in Triton's interpreter on the CPU; there are no times")
        return "cpu"

    def _interpreted(self, code: GeneratedCode, program: FxProgram, inputs: Inputs) -> None:
        """Kernels one by one and the graph's outputs, from a single run."""
        args = inputs.fresh()
        plan = self._request.plan
        if plan is not None and plan.calls:
            kernels = KernelPass(self._request, plan, self._reporter, code, program, inputs, "cpu")
            outputs = kernels.run(args)
            self._made_up = kernels.made_up
        else:
            self._reporter.stage("running the generated code")
            outputs = self._attempt(lambda: code.call(list(args)), "the generated code")
        if self._request.wanted is not None or (self._request.only_kernels and not self._request.done):
            return
        self._reporter.stage("computing the float64 reference")
        eager, eager_args, recording = self._recorded(program, inputs)
        self._check(program, inputs, recording, (outputs, args), (eager, eager_args))

    def _recorded(self, program: FxProgram, inputs: Inputs) -> tuple[list[object], list[object], Recording]:
        """One run op by op. Where its random numbers all come from seeds that generated code draws first, and
        by a known function of them, the graph draws the same from here on (`program.replaced`)."""

        def run() -> tuple[list[object], list[object], Recording]:
            return self._attempt(lambda: record(program, inputs), "the FX graph op by op")

        result = run()
        reasons = result[2].undefined
        random = {node.op for node in program.nodes if RANDOM in reasons.get(node.name, "")}
        text = self._request.files.output_code.read_text(encoding="utf-8", errors="replace")
        program.replaced = repeated(random, text, self._options.seed)
        return run() if program.replaced else result

    def _attempt(self, action: Callable[[], T], what: str) -> T:
        try:
            return action()
        except (Failure, CodeError, GraphError) as error:
            raise Failure(str(error)) from None
        except Exception as error:
            traceback.print_exc()
            raise Failure(f"{what} failed: {describe(error)}") from error

    def _device(self, text: str) -> str:
        """The device to synchronise with and to name. Raises Failure where this machine lacks it."""
        kind, index = required_device(text)
        self._reporter.send(protocol.DeviceKind(kind))
        asked = self._options.device
        if asked and asked.split(":")[0] != kind:
            raise Failure(f"the graph was compiled for {kind} and cannot be replayed on {asked}")
        if kind == "cpu":
            return kind
        if kind != "cuda":
            raise Failure(f"needs a device of type {kind}; replay knows cpu and cuda")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise Failure("needs a CUDA device; this machine has none that torch can use")
        if index >= count:
            raise Failure(f"needs cuda:{index}; this machine has {count} CUDA device(s)")
        torch.cuda.set_device(index)
        return f"cuda:{index}"

    def _captured_by(self) -> None:
        """Notes another torch than this one, which the FX script's header names."""
        path = self._request.files.fx_runnable
        if path is None:
            return
        text = path.read_text(encoding="utf-8", errors="replace")
        header = re.search(r"^# torch version: (\S+)", text, re.MULTILINE)
        if header and header[1].split("+")[0] != torch.__version__.split("+")[0]:
            self._versions = f"captured with torch {header[1]}, replayed with torch {torch.__version__}"
            self._reporter.note(self._versions)

    def _load_code(self, path: Path) -> GeneratedCode:
        self._reporter.stage("building the kernels")
        started = time.monotonic()
        try:
            code = self._attempt(
                lambda: GeneratedCode(path, self._request.scratch, self._on_cpu),
                "loading output_code.py",
            )
        except Failure as failure:
            raise Failure(f"{failure} ({self._versions})" if self._versions else str(failure)) from None
        for note in code.notes:
            self._reporter.note(note)
        took = time.monotonic() - started
        if not self._request.only_kernels:
            self._reporter.note(
                f"building and loading the kernels took {took:.1f} s, which no time here includes"
            )
        return code

    def _run_forward(self) -> dict[str, object]:
        """What the forward graph saved for this backward graph; empty for other graphs.

        Before `_load_program`, because both scripts fill torch's table of user-defined kernels.
        """
        path, kept = self._request.files.forward, self._request.files.saved_inputs
        if path is None or (kept is not None and is_complete(kept)):
            return {}
        self._reporter.stage("running the forward graph for its activations")
        try:
            return run_forward(path, self._options.seed)
        except Exception as error:
            self._reporter.note(
                f"saved activations are made up: the forward graph cannot be run: {describe(error)}"
            )
            return {}

    def _load_program(self) -> FxProgram:
        self._reporter.stage("loading the FX graph")
        files = self._request.files
        program = self._attempt(
            lambda: load_program(files.fx_runnable, files.fx_transformed), "loading the FX graph"
        )
        self._reporter.send(protocol.EagerLabel(program.label))
        return program

    def _make_inputs(self, code: GeneratedCode, program: FxProgram, saved: dict[str, object]) -> Inputs:
        self._reporter.stage("making inputs")
        args, constants, devices = self._attempt(code.example_args, "reading the inputs' sizes")
        if len(args) != len(program.placeholders):
            raise Failure(
                f"the generated code takes {len(args)} arguments, the FX graph {len(program.placeholders)}: "
                "they are not of the same graph"
            )
        specs, shared = make_specs(args, devices, program.recorded_inputs(RecordedReader))
        if shared:
            self._reporter.note("inputs that share memory in the captured program share it here")
        for problem in program.problems:
            self._reporter.note(problem)
        specs = on_the_host(program, specs)
        self._set_constants(code, program, constants, devices)
        inputs = self._stored_inputs(specs)
        if inputs is not None and len(inputs.known) == sum(isinstance(x, TensorSpec) for x in inputs.specs):
            inputs.fill([Fill()] * len(specs))
            return inputs
        inputs = inputs or Inputs(specs, self._options.seed)
        kept = inputs.known
        forward = match_saved(program, inputs.specs, saved)
        inputs.given = {position: value for position, value in forward.items() if position not in kept}
        if inputs.given:
            self._reporter.note(
                f"{len(inputs.given)} of {len(specs)} inputs are what the forward graph saved"
            )
        for note in self._attempt(lambda: choose_values(program, inputs), "the FX graph op by op"):
            self._reporter.note(note)
        return inputs

    def _stored_inputs(self, specs: list[object]) -> Inputs | None:
        """The arguments kept at capture, as far as they were; None where there are none to use."""
        path = self._request.files.saved_inputs
        if path is None:
            self._reporter.note("inputs: made up")
            return None
        try:
            stored = load_stored(path, specs)
        except StoredError as error:
            self._reporter.note(f"inputs: made up; those saved at capture cannot be used: {error}")
            return None
        known, total = len(stored.positions), len(stored.specs)
        count = "all" if stored.complete else f"{known} of {total}, the others made up"
        self._reporter.note(f"inputs: saved at capture, {count}")
        inputs = Inputs(stored.specs, self._options.seed)
        inputs.stored = stored.storages
        return inputs

    def _set_constants(
        self,
        code: GeneratedCode,
        program: FxProgram,
        constants: dict[str, Tensor],
        devices: dict[object, str],
    ) -> None:
        """Gives the generated module the values that the FX graph's module has.

        torch writes constants of up to a few elements in full and random numbers for others
        (torch/_dynamo/debug_utils.py: NNModuleToString.convert), the same for both sides here.
        """
        known = dict([*program.module.named_buffers(), *program.module.named_parameters()])
        for name, meta in constants.items():
            value = known.get(name)
            if value is None or value.shape != meta.shape or value.dtype != meta.dtype:
                self._unknown_constants.append(name)
                value = torch.zeros_like(meta, device="cpu")
            placed = torch.empty_strided(
                meta.shape, meta.stride(), dtype=meta.dtype, device=devices.get(storage_key(meta), "cpu")
            )
            placed.copy_(value)
            setattr(code.module, name, placed)

    def _time(
        self, code: GeneratedCode, program: FxProgram, inputs: Inputs, device: str, changed: list[int]
    ) -> None:
        self._reporter.stage("timing")
        written = program.written_placeholders()
        scratch = [position for position in changed if program.placeholders[position] not in written]
        if scratch:
            names = ", ".join(program.placeholders[position] for position in scratch[:6])
            self._reporter.note(
                f"the generated code overwrites its inputs {names}; they are restored between rounds"
            )
        eager_args, compiled_args = inputs.fresh(), inputs.fresh()
        positions = sorted({*changed, *(program.placeholders.index(name) for name in written)})
        counters = [position for position in positions if inputs.counts(position)]

        def candidate(name: str, function: Callable[[list[object]], object], args: list[object]) -> Candidate:
            renew = partial(inputs.restore, args, counters) if counters else None
            restore = partial(inputs.restore, args, positions)
            return Candidate(name, lambda: function(list(args)), restore, renew)

        options = self._options
        spent = time.monotonic() - self._started
        made = measure(
            [candidate("eager", program.run, eager_args), candidate("compiled", code.call, compiled_args)],
            device,
            rounds=options.rounds,
            warmup=options.warmup,
            min_block_ms=options.min_block_ms,
            budget_s=min(options.max_time_s, 0.4 * max(0.0, options.timeout_s - spent)),
            report=self._report_timing,
        )
        if made < options.rounds:
            self._reporter.note(
                f"{made} timing rounds, not {options.rounds}: the graph is slow for the time allowed"
            )

        if options.cudagraphs:
            renew = partial(inputs.restore, compiled_args, counters)
            self._time_as_one_graph(lambda: code.call(list(compiled_args)), renew, device)
        noisy = [name for name, spread in self._spreads.items() if spread > 0.5]
        if noisy:
            self._reporter.note(
                f"noisy timing ({', '.join(noisy)}): the quartiles lie over half a median apart"
            )

    def _time_as_one_graph(self, call: Callable[[], object], renew: Callable[[], None], device: str) -> None:
        if device == "cpu":
            self._reporter.note("CUDA graphs need a GPU")
            return
        samples = time_as_graph(call, renew)
        if samples is None:
            self._reporter.note("the compiled call cannot be captured as one CUDA graph")
        else:
            self._report_timing("cudagraph", samples)

    def _report_timing(self, which: str, rounds: list[float]) -> None:
        timing = timing_of(rounds)
        self._spreads[which] = timing.iqr_ms / timing.median_ms if timing.median_ms else 0.0
        self._reporter.send(protocol.GraphTimed(which, timing))

    def _check(
        self,
        program: FxProgram,
        inputs: Inputs,
        recording: Recording,
        compiled: tuple[list[object], list[object]],
        eager: tuple[list[object], list[object]],
    ) -> None:
        started = time.monotonic()
        reference, no_reference = self._reference(program, inputs, recording)
        disturbed = _Disturbed(program, inputs, recording, time.monotonic() - started)
        if len(compiled[0]) != len(eager[0]):
            self._reporter.note(
                f"the generated code returns {len(compiled[0])} values, the FX graph {len(eager[0])}"
            )
        floats = {
            name
            for name, spec in zip(program.placeholders, inputs.specs, strict=True)
            if isinstance(spec, TensorSpec) and (spec.dtype.is_floating_point or spec.dtype.is_complex)
        }
        count = min(len(compiled[0]), len(eager[0]))
        rows: list[
            tuple[Literal["output", "mutated_input"], str | None, str | None, object, object, object, _Noisy]
        ] = []
        for index in range(count):
            name = program.outputs[index] if index < len(program.outputs) else None
            truth = reference.outputs[index] if reference else None
            rows.append(
                ("output", name, name, compiled[0][index], eager[0][index], truth, disturbed.output(index))
            )
        for name, writer in program.written_placeholders().items():
            position = program.placeholders.index(name)
            truth = reference.arguments[position] if reference else None
            rows.append(
                (
                    "mutated_input",
                    name,
                    writer,
                    compiled[1][position],
                    eager[1][position],
                    truth,
                    disturbed.argument(position),
                )
            )
        for index, (kind, name, source, ours, theirs, truth, noisy) in enumerate(rows):
            if ours is None and theirs is None:
                continue
            why = no_reference or self._made_up or undefined_reason(program, recording, source)
            if why is None and self._unknown_constants:
                why = f"the value of the constant {self._unknown_constants[0]} is not in the run"
            result = (
                without_reference(ours, theirs, why)
                if why
                else compare(
                    ours, theirs, truth, exact=float_free(program, recording, source, floats), noisy=noisy
                )
            )
            check = named(result, index, name or "", theirs, kind)
            self._reporter.send(protocol.OutputChecked(check))

    def _reference(
        self, program: FxProgram, inputs: Inputs, recording: Recording
    ) -> tuple[Reference | None, str | None]:
        try:
            reference = evaluate(program, inputs, recording)
        except Exception as error:
            traceback.print_exc()
            return None, f"the float64 reference cannot be computed: {describe(error)}"
        own = reference.own_dtype
        if own:
            ops = sorted(
                {(node.op or node.target) for name in own if (node := program.node(name)) is not None}
            )
            part = f"{len(own)} of {len(program.nodes)} nodes"
            self._reporter.note(f"evaluated in its own dtype in the reference: {', '.join(ops)} ({part})")
        return reference, None


class _Disturbed:
    """The graph's reference with its rounding disturbed: as often as `_DISTURBED_S` allows, but once."""

    def __init__(self, program: FxProgram, inputs: Inputs, recording: Recording, took_s: float) -> None:
        self._parts = program, inputs, recording
        self._most = max(1, int(_DISTURBED_S / max(took_s, 1e-3)))
        self._made: dict[int, Reference] = {}

    def output(self, index: int) -> _Noisy:
        return lambda seed: self._of(seed).outputs[index]

    def argument(self, position: int) -> _Noisy:
        return lambda seed: self._of(seed).arguments[position]

    def _of(self, seed: int) -> Reference:
        """Raises RuntimeError where it would be one too many."""
        if seed not in self._made:
            if seed > self._most:
                raise RuntimeError("no time for another disturbed reference")
            self._made[seed] = evaluate(*self._parts, Noise(seed))
        return self._made[seed]
