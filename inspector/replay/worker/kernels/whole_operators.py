"""What generated kernels do in pieces, run whole by ATen, on inputs of the same sizes and strides.

An input whose value the graph knows has that value; another is made up, floating values within -1 and 1 as
positions of a sample are.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Mapping
from functools import reduce

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

_MODULES = frozenset({"torch", "torch.nn.functional", "torch._C._nn"})


def time_operators(context: Context, clock: KernelClock) -> None:
    """Reports a time for each operator of the plan that ATen can run."""
    operators, reporter, device = context.plan.operators, context.reporter, context.device
    if not operators:
        return
    reporter.stage("running operators whole, as ATen has them")
    wanted = {each.fx for item in operators for each in item.inputs if each.fx is not None}
    try:
        known = _values(context.linked_program, context.inputs, wanted)
    except Exception:
        traceback.print_exc()
        known = {}
    for item in operators:
        try:
            given = {each.name: _like(each, known.get(each.fx or ""), device) for each in item.inputs}
            action = _action(item.expression, given)
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


def _action(text: str, given: Mapping[str, object]) -> Callable[[], object]:
    """The call that `text` writes of the `given` names. ValueError for what is no call of an operator of
    torch with plain arguments: a trace is no code to be run."""
    call = ast.parse(text.strip(), mode="eval").body
    if not isinstance(call, ast.Call):
        raise ValueError(f"{text} is no call")
    owner, _, name = ast.unparse(call.func).rpartition(".")
    if owner in given:
        function = getattr(given[owner], name)
    else:
        parts = owner.split(".")
        if owner not in _MODULES and parts[:3] != ["torch", "ops", "aten"]:
            raise ValueError(f"{owner}.{name} is no operator of torch")
        function = getattr(reduce(getattr, parts[1:], torch), name)
    args = [_argument(item, given) for item in call.args]
    kwargs = {item.arg: _argument(item.value, given) for item in call.keywords if item.arg is not None}
    return lambda: function(*args, **kwargs)


def _argument(node: ast.expr, given: Mapping[str, object]) -> object:
    if isinstance(node, ast.Name):
        return given[node.id] if node.id != "inf" else float("inf")
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_argument(item, given) for item in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    text = ast.unparse(node)
    if isinstance(node, ast.Attribute) and text.startswith("torch.") and text.count(".") == 1:
        value = getattr(torch, node.attr)
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return value
        raise ValueError(f"{text} is no plain argument")
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("device", "torch.device"):
        parts = [ast.literal_eval(item) for item in node.args]
        return torch.device(*parts, **{str(item.arg): ast.literal_eval(item.value) for item in node.keywords})
    return ast.literal_eval(node)


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
