"""What generated kernels do in pieces, run whole by ATen, on inputs of the same sizes and strides.

An input whose value the graph knows has that value; another is made up, floating values within -1 and 1 as
positions of a sample are.
"""

from __future__ import annotations

import traceback

import torch
from torch import Tensor

from inspector.model.replay import OperatorReplay
from inspector.model.waste import OperatorInput
from inspector.replay import protocol
from inspector.replay.worker.code.fx import Function, FxProgram
from inspector.replay.worker.events import describe
from inspector.replay.worker.inputs.arguments import Inputs
from inspector.replay.worker.kernels.facts import Context
from inspector.replay.worker.timing.kernels import KernelClock


def time_operators(context: Context, clock: KernelClock) -> None:
    """Reports a time for each operator of the plan that ATen can run."""
    operators, reporter, device = context.plan.operators, context.reporter, context.device
    if not operators:
        return
    reporter.stage("running operators whole, as ATen has them")
    wanted = {each.fx for item in operators for each in item.inputs if each.fx is not None}
    try:
        known = _values(context.linked_program(), context.inputs, wanted)
    except Exception:
        traceback.print_exc()
        known = {}
    for item in operators:
        try:
            given = {each.name: _like(each, known.get(each.fx or ""), device) for each in item.inputs}
            call = compile(item.expression, f"<{item.name}>", "eval")
            space = {"torch": torch, "device": torch.device, "inf": float("inf"), **given}

            def action(call: object = call, space: dict[str, object] = space) -> object:
                return eval(call, space)  # type: ignore[arg-type]

            action()
            timed = clock.measure(-1, action)
        except Exception as error:
            traceback.print_exc()
            reporter.note(f"{item.operator} ({item.name}) cannot be run whole: {describe(error)}")
            continue
        made_up = tuple(each.name for each in item.inputs if known.get(each.fx or "") is None)
        reporter.send(
            protocol.OperatorTimed(
                OperatorReplay(item.name, item.operator, item.calls, timed.time, timed.device_ms, made_up)
            )
        )


def _values(program: FxProgram, inputs: Inputs, wanted: set[str]) -> dict[str, Tensor]:
    """Copies of the tensors that the wanted nodes have in one run of the graph, op by op."""
    known: dict[str, Tensor] = {}
    arguments = inputs.fresh()
    for name, value in zip(program.placeholders, arguments, strict=False):
        if name in wanted and isinstance(value, Tensor):
            known[name] = value.clone()

    def hook(name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        result = function(*args, **kwargs)
        if name in wanted and isinstance(result, Tensor):
            known[name] = result.clone()
        return result

    program.observe(list(arguments), hook)
    return known


def _like(wanted: OperatorInput, value: Tensor | None, device: str) -> Tensor:
    """A tensor of that dtype, size and strides, with `value` where there is one of that size."""
    dtype = getattr(torch, wanted.dtype)
    place = "cpu" if wanted.device == "cpu" else device
    made = torch.empty_strided(wanted.size, wanted.stride, dtype=dtype, device=place)
    if value is not None and tuple(value.shape) == wanted.size:
        return made.copy_(value)
    if dtype.is_floating_point:
        return made.copy_(torch.rand(wanted.size, device=place) * 2 - 1)
    return made.zero_()
