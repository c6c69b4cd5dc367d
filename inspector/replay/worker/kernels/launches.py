"""Every kernel call of a graph by itself: the graph runs once, and each launch is checked and timed on the
inputs that it really gets, before the next one runs."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from inspector.replay.worker.code.edit import edited_kernel
from inspector.replay.worker.code.fx import FxProgram, GraphError
from inspector.replay.worker.code.generated import CodeError, GeneratedCode
from inspector.replay.worker.code.launches import HookedCode
from inspector.replay.worker.compare import Comparison
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
    overall,
    worst_element,
)
from inspector.replay.worker.kernels.tensors import SCRATCH, LaunchTensors
from inspector.replay.worker.reference.buffers import (
    Chain,
    Layouts,
    Leaf,
    Meanings,
    call_node,
    flat_memory,
    link_externs,
    read_leaves,
)
from inspector.replay.worker.reference.evaluate import record
from inspector.replay.worker.reference.subgraph import Subgraph
from inspector.replay.worker.timing.kernels import KernelClock, repeatable, triton_facts

_SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")

_MOST_WORST = 4

_WHOLE_OPERATORS = frozenset({"extern", "fallback", "template"})
"""Kinds of launches that do all of an FX node's arithmetic."""


class KernelPass:
    """Checks and times the kernel calls of one graph. `wanted`: their indices, None for all."""

    def __init__(
        self,
        request: Mapping[str, Any],
        reporter: Reporter,
        code: GeneratedCode,
        program: FxProgram,
        inputs: Inputs,
        device: str,
    ) -> None:
        self._request = request
        self._plan = request["kernels"]
        self._reporter = reporter
        self._code = code
        self._program = program
        self._inputs = inputs
        self._device = device
        self._calls = {int(call["index"]): call for call in self._plan["calls"]}
        self._skip: Mapping[str, str] = request.get("skip", {})
        self._done = set(request.get("done", ()))
        self._wanted = request.get("wanted")
        self._edited: Any = None
        self._options = options = request["options"]
        self._clock = (
            KernelClock(device, float(options["kernel_time_s"]), bool(options["time_warm"]))
            if options["time_kernels"] and code.on_cpu is None
            else None
        )

    def run(self, args: list[Any] | None = None) -> list[Any]:
        """Reports a ``kernel`` event for each call, and returns the graph's outputs. Raises Failure where the
        wrapper cannot be run so. `args`: the graph's inputs, None for fresh ones; some are written to."""
        if not self._calls:
            return []
        self._stage("working out what each kernel's buffers stand for")
        try:
            hooked = HookedCode(self._code, self._plan["calls"])
        except CodeError as error:
            raise Failure(f"kernels cannot be run one by one: {error}") from None
        self._facts = self._work_out()
        self._tensors = LaunchTensors(self._plan, self._facts, self._code.module, self._inputs)
        self._stage("running kernels one by one")
        return hooked.run(list(args) if args is not None else self._inputs.fresh(), self._launch)

    def _stage(self, text: str) -> None:
        self._reporter.send("stage", text=text)

    # -- before any kernel runs

    def _work_out(self) -> GraphFacts:
        program = self._linked_program()
        module = self._program.module
        _, _, recording = record(program, self._inputs, module)
        subgraph = Subgraph(program, module, recording)
        leaves = read_leaves(self._plan)
        arguments = dict(zip(program.placeholders, self._inputs.promoted(), strict=True))
        symbols = {**self._plan["symbols"]}
        for name, value in zip(self._plan["inputs"], self._inputs.specs, strict=False):
            if not isinstance(value, TensorSpec):
                symbols[name] = value
        layouts = Layouts(self._plan["layouts"], symbols)
        nodes = {index: call_node(call, subgraph) for index, call in self._calls.items()}
        linked, keep = link_externs(self._plan, leaves, subgraph)
        meanings = Meanings()
        values: dict[str, Any] = {}

        def see(name: str, value: Any) -> None:
            meanings.see_node(name, value)
            if name in keep:
                values[name] = value

        scan_kinds = self._scan_kinds()
        try:
            subgraph.walk(arguments, keep, see)
            for name, value in zip(self._plan["inputs"], self._inputs.promoted(), strict=False):
                if isinstance(value, torch.Tensor) and value.numel():
                    meanings.see_buffer(name, value)
            for name, value in vars(self._code.module).items():
                if isinstance(value, torch.Tensor) and value.numel():
                    meanings.see_buffer(name, promote(value))
            externs = {
                name: values[node]
                for name, node in linked.items()
                if isinstance(values.get(node), torch.Tensor)
            }
            self._chain(leaves, layouts, arguments, scan_kinds).run(externs, meanings)
        except EXPECTED_ERRORS as error:
            traceback.print_exc()
            self._reporter.send("note", text=f"buffers are not matched with FX nodes: {describe(error)}")
        targets = {name: target for leaf in leaves for name, target in leaf.mutations.items()}
        return GraphFacts(subgraph, leaves, layouts, meanings.of, targets, scan_kinds, nodes)

    def _linked_program(self) -> FxProgram:
        """The graph whose node names the linkage speaks of: after the passes. Else the one at hand."""
        path = self._request["fx_transformed"]
        if path is not None and Path(path) != self._program.path:
            try:
                program = FxProgram(Path(path), "decomposed FX graph after Inductor's passes")
            except (GraphError, OSError):
                return self._program
            if len(program.placeholders) == len(self._program.placeholders):
                return program
        return self._program

    def _chain(
        self, leaves: Sequence[Leaf], layouts: Layouts, arguments: Mapping[str, Any], scans: Mapping[str, str]
    ) -> Chain:
        memories: dict[str, Any] = {}
        for name, value in zip(self._plan["inputs"], arguments.values(), strict=False):
            if isinstance(value, torch.Tensor):
                memories[name] = flat_memory(value).clone()
        for name, value in vars(self._code.module).items():
            if isinstance(value, torch.Tensor):
                memories[name] = promote(flat_memory(value)).clone()
        views = {}
        for item in self._plan["aliases"]:
            found = re.search(r"reinterpret_tensor\((\w+), .*, (\d+)\)", item["text"])
            if item["kind"] == "view" and found and item["name"] in self._plan["layouts"]:
                views[item["name"]] = (found[1], int(found[2]))
        return Chain(leaves, layouts, memories, views, scans)

    def _scan_kinds(self) -> dict[str, str]:
        kinds = {}
        for call in self._plan["calls"]:
            names = " ".join([*call["fx"], str(call["kernel"])])
            kind = next((scan for scan in _SCANS if scan in names), None)
            for entry in call["entries"] if kind else ():
                kinds[entry] = str(kind)
        return kinds

    # -- at each launch

    def _launch(self, index: int, names: dict[str, Any], function: Any, /, *args: Any, **kwargs: Any) -> Any:
        call = self._calls[index]
        done = index in self._done or (self._wanted is not None and index not in self._wanted)
        if done and str(index) not in self._skip:
            result = function(*args, **kwargs)
            self._code.finish(function)
            return result
        # Sizes that only the run tells (u0 = buf1.item()).
        self._facts.layouts.symbols.update(
            {name: value for name, value in names.items() if isinstance(value, int)}
        )
        launch = self._tensors.prepare(call, names)
        if call["kind"] in {"extern", "fallback"}:
            launch.operator = (function, args, kwargs)
        if str(index) in self._skip:
            return self._stand_in(launch, names)
        self._reporter.send("kernel_start", call=index, kernel=call["kernel"])
        try:
            result = function(*args, **kwargs)
            self._synchronise()
            self._reporter.send("kernel_ran")
        except Exception as error:
            traceback.print_exc()
            self._give_up(call, error)
            self._report(call, *failed_launch(error), [], [])
            self._reporter.send("kernel_done", call=index, facts=triton_facts(function))
            return self._stand_in(launch, names)
        self._check(launch, names, result, function)
        if self._clock is not None and "c10d" not in str(call["kernel"]):
            self._time(launch, names, repeatable(function, args, kwargs))
        self._reporter.send("kernel_done", call=index, facts=triton_facts(function))
        if self._options["source"] is not None:
            self._try_edit(launch, names, function, args, kwargs)
        return result

    def _try_edit(
        self, launch: Launch, names: Mapping[str, Any], function: Any, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """The same launch with the user's source, checked and timed; the original's outputs are put back."""
        call = launch.call
        self._reporter.send("edit_start")
        self._reporter.send("kernel_start", call=call["index"], kernel=call["kernel"])
        outputs = [names[name] for name in call["outputs"] if isinstance(names.get(name), torch.Tensor)]
        after = [flat_memory(tensor).clone() for tensor in outputs]
        run = function
        try:
            if self._edited is None:
                self._edited = edited_kernel(self._code, str(call["kernel"]), self._options["source"])
            run = self._edited.run if hasattr(self._edited, "run") else self._edited
            for name in call["outputs"]:
                if isinstance(names.get(name), torch.Tensor):
                    flat_memory(names[name]).copy_(launch.before[self._facts.root(name)])
            self._tensors.poison(launch, names)
            run(*args, **kwargs)
            self._synchronise()
            self._reporter.send("kernel_ran")
            self._check(launch, names, None, run)
            if self._clock is not None:
                self._time(launch, names, repeatable(run, args, kwargs))
        except Exception as error:
            traceback.print_exc()
            self._report(call, "unverifiable", f"the edited source: {describe(error)}", [], [])
        finally:
            for tensor, value in zip(outputs, after, strict=True):
                flat_memory(tensor).copy_(value)
        self._reporter.send("kernel_done", call=call["index"], facts=triton_facts(run))

    def _time(self, launch: Launch, names: Mapping[str, Any], action: Callable[[], Any]) -> None:
        """Runs the launch again and again, and puts its outputs back afterwards."""
        assert self._clock is not None
        call = launch.call
        outputs = [names[name] for name in call["outputs"] if isinstance(names.get(name), torch.Tensor)]
        after = [flat_memory(tensor).clone() for tensor in outputs]
        try:
            times = self._clock.measure(action)
        except Exception as error:
            traceback.print_exc()
            self._give_up(call, error)
            self._reporter.send("note", text=f"{call['kernel']} cannot be timed: {describe(error)}")
            return
        for tensor, value in zip(outputs, after, strict=True):
            flat_memory(tensor).copy_(value)
        self._reporter.send("kernel_time", call=call["index"], times=times)

    def _give_up(self, call: Mapping[str, Any], error: Exception) -> None:
        """Raises Failure where the device's context is lost: the parent then starts another child, which
        goes on behind this call."""
        if (
            self._device == "cpu"
            or isinstance(error, torch.cuda.OutOfMemoryError)
            or "CUDA" not in str(error)
        ):
            return
        self._reporter.send("kernel_lost", call=call["index"], reason=describe(error))
        raise Failure(f"{call['kernel']} (call {call['index']}) failed: {describe(error)}") from error

    def _synchronise(self) -> None:
        if self._device != "cpu":
            torch.cuda.synchronize()

    def _in_layout(self, name: str, tensor: Any) -> Any:
        return self._tensors.in_layout(name, tensor)

    def _check(self, launch: Launch, names: Mapping[str, Any], result: Any, function: Any) -> None:
        call = launch.call
        kernel = self._code.interpreted(function)
        pairs: list[tuple[str, Any, Expected]] = []
        try:
            if isinstance(result, (tuple, list)):
                parts = tree_leaves(list(result))
                expected = launch.expected_parts(parts)
                pairs = [(each.node, part, each) for part, each in zip(parts, expected, strict=False)]
            else:
                for name in call["outputs"]:
                    tensor = names.get(name, result)
                    if name not in names and result is None:
                        continue
                    compiled = self._in_layout(name, tensor) if isinstance(tensor, torch.Tensor) else tensor
                    pairs.append((name, compiled, launch.expected(name, getattr(compiled, "shape", None))))
            part = fill_unwritten(kernel, pairs) if kernel is not None else ""
            tf32 = self._may_use_tf32(str(call["kernel"]))
            checks, worst = self._compare(pairs, tf32, self._tensors.scratch(launch))
        except Exception as error:
            traceback.print_exc()
            self._report(call, "unverifiable", f"the check failed: {describe(error)}", [], [])
            return
        verdict, reason = overall(checks)
        if self._code.on_cpu is not None and call["kind"] in ("extern", "fallback") and verdict != "mismatch":
            verdict = "unverifiable"
            reason = "a GPU library's kernel, which only a GPU runs; the CPU's stood in for it"
        reason = "; ".join(text for text in (reason, part) if text)
        self._report(call, verdict, reason, checks, worst)

    def _may_use_tf32(self, kernel: str) -> bool:
        """Whether a library may compute this in TF32: cuDNN unless it is forbidden, cuBLAS if allowed."""
        if self._device == "cpu" or torch.cuda.get_device_capability()[0] < 8:
            return False
        if "convolution" in kernel:
            return bool(torch.backends.cudnn.allow_tf32)
        return "mm" in kernel and torch.get_float32_matmul_precision() != "highest"

    def _compare(
        self, pairs: Sequence[tuple[str, Any, Expected]], tf32: bool, scratch: Set[str]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        checks: list[dict[str, Any]] = []
        worst: list[dict[str, Any]] = []
        for index, (buffer, compiled, expected) in enumerate(pairs):
            if compiled is None:
                continue
            comparison, eager = check(compiled, expected, tf32)
            if buffer in scratch and comparison.verdict not in {"match", "compiled_closer"}:
                comparison, expected.state = Comparison("unverifiable", SCRATCH), True
            tensor = isinstance(compiled, torch.Tensor)
            name = expected.node if expected.node == buffer else f"{buffer} ({expected.node})"
            checks.append(
                {
                    **asdict(comparison),
                    "index": index,
                    "name": name,
                    "dtype": str(compiled.dtype).removeprefix("torch.")
                    if tensor
                    else type(compiled).__name__,
                    "shape": list(compiled.shape) if tensor else [],
                    "state": expected.state,
                }
            )
            if comparison.verdict not in {"match", "unverifiable"} and len(worst) < _MOST_WORST and tensor:
                reference = expected.reference.reshape(compiled.shape)
                element = worst_element(name, compiled, eager, reference)
                if element is not None:
                    worst.append(element)
        return checks, worst

    def _stand_in(self, launch: Launch, names: Mapping[str, Any]) -> Any:
        """What the launch should have given, put in place of a kernel that cannot run."""
        call = launch.call
        values = {name: launch.expected(name) for name in call["outputs"]}
        result = None
        for name, expected in values.items():
            tensor = names.get(name)
            if expected.eager is None:
                raise Failure(
                    f"the kernels after call {call['index']} were not run: what {call['kernel']} "
                    f"should give is not known ({expected.reason})"
                )
            if isinstance(tensor, torch.Tensor):
                self._in_layout(name, tensor).copy_(expected.eager)
            else:
                result = expected.eager
        return result

    def _flops(self, call: Mapping[str, Any]) -> int | None:
        """Of the launch's own operators: a kernel beside a matrix product may have it among its origins."""
        known = self._facts.subgraph.recording.flops
        if call["kind"] in {"triton", "cpp", "user"}:
            others = (item for item in self._calls.values() if item["kind"] in _WHOLE_OPERATORS)
            done = {name for item in others for name in item["fx"]}
            known = {name: flops for name, flops in known.items() if name not in done}
        node = self._facts.nodes.get(call["index"])
        names = {name for name in call["fx"] if name in known} or ({node} & known.keys() if node else set())
        return sum(known[name] for name in names) or None

    def _report(
        self,
        call: Mapping[str, Any],
        verdict: str,
        reason: str,
        checks: list[dict[str, Any]],
        worst: list[dict[str, Any]],
    ) -> None:
        errors = {
            key: max((check[key] for check in checks if check[key] is not None), default=None)
            for key in ("error_compiled", "error_eager")
        }
        self._reporter.send(
            "kernel",
            kernel={
                "name": call["kernel"],
                "call": call["index"],
                "verdict": verdict,
                "reason": reason,
                "bytes": call["bytes"],
                "flops": self._flops(call),
                "outputs": checks,
                "worst": worst,
                **errors,
            },
        )
