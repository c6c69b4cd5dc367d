"""One launch as a program that runs with torch alone: its kernel, its inputs, and the FX nodes that it stands
for, run op by op and in float64 beside it."""

from __future__ import annotations

import ast
import base64
import importlib.util
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from inspector.model.replay import KernelReplay, WorstElement
from inspector.replay import protocol
from inspector.replay.worker.code.fx import FxProgram
from inspector.replay.worker.events import describe
from inspector.replay.worker.kernels.expected import Launch
from inspector.replay.worker.kernels.facts import EXPECTED_ERRORS, Context
from inspector.replay.worker.reference.buffers import flat_memory

_MOST_BYTES = 1 << 20
"""Of a tensor that is written out; a larger one is drawn anew, like the captured one in mean and spread."""

_NAMESPACE = re.compile(r"\btorch\.ops\.(\w+)\.")

_TOOLS = '''
import base64
import sys
import zlib


def data(dtype, size, stride, text, device="cpu"):
    """A tensor from its memory, compressed."""
    flat = torch.frombuffer(bytearray(zlib.decompress(base64.b85decode(text))), dtype=dtype)
    return torch.as_strided(flat.to(device), size, stride)


def drawn(dtype, size, stride, count, mean, spread, device="cpu"):
    """A tensor that is too large to be written here: other values of the same mean and spread."""
    flat = torch.randn(count, generator=torch.Generator().manual_seed(0)) * spread + mean
    return torch.as_strided(flat.to(dtype).to(device), size, stride)


def compare(name, compiled, eager, exact, rtol, atol):
    """Prints how far both are from float64; True where the compiled result is outside the tolerance, and not
    what op by op gives."""
    ours, theirs, exact = (value.reshape(compiled.shape).double() for value in (compiled, eager, exact))
    allowed = atol + rtol * exact.abs()
    wrong = ~(((ours - exact).abs() <= allowed) | (ours == exact) | (ours.isnan() & exact.isnan()))
    wrong &= ~((ours == theirs) | (ours.isnan() & theirs.isnan()))
    print(f"{name}: {int(wrong.sum())} of {wrong.numel()} elements are off by more than {rtol:g} + {atol:g}")
    if not wrong.any():
        return False
    place = tuple(int(axis) for axis in wrong.nonzero()[0])
    numbers = f"{ours[place]:.9g} compiled, {theirs[place]:.9g} op by op, {exact[place]:.9g} exact"
    print(f"  first {list(place)}: {numbers}")
    return True
'''


class Programs:
    """Writes launches as programs, where that was asked for."""

    def __init__(self, context: Context) -> None:
        self._request = context.request
        self._reporter = context.reporter
        self._device = context.made_for

    def draft(self, launch: Launch, names: Mapping[str, object]) -> Draft | None:
        """What the launch gets; None where nothing is to be written, or nothing can be."""
        if not self._request.options.repro:
            return None
        try:
            return Draft(self._request.files.output_code, launch, names, self._device)
        except EXPECTED_ERRORS as error:
            self._reporter.note(f"{launch.call.kernel} cannot be written as a program: {describe(error)}")
            return None

    def write(self, draft: Draft | None, judged: KernelReplay | None) -> None:
        """Sends the program, where there is a draft and a verdict."""
        if draft is None or judged is None:
            return
        versions = f"torch {torch.__version__}"
        heading = f"Launch {judged.call} of {self._request.files.name}, with torch alone ({versions})."
        try:
            self._reporter.send(protocol.Repro(judged.call, draft.script(heading, judged)))
        except EXPECTED_ERRORS as error:
            self._reporter.note(f"{judged.name} cannot be written as a program: {describe(error)}")


class Draft:
    """What a launch is about to get. Made before it runs, as it may change its inputs."""

    def __init__(self, code: Path, launch: Launch, names: Mapping[str, object], device: str) -> None:
        self._text = code.read_text(encoding="utf-8", errors="replace")
        self._tree = ast.parse(self._text)
        self._launch = launch
        self._statement = self._launching(launch.call.line)
        used = {node.id for node in ast.walk(self._statement) if isinstance(node, ast.Name)}
        self._values = {name: names[name] for name in sorted(used) if name in names}
        self._flat = {
            name: flat_memory(value).clone()
            for name, value in self._values.items()
            if isinstance(value, Tensor)
        }
        self._names = names
        self._device = device
        self._given = launch.given()

    def script(self, title: str, judged: KernelReplay) -> str:
        """The whole program."""
        module, checked = [*self._module()], [*self._checked(judged)]
        parts = [
            f'"""{title}\n\n{judged.name}: {judged.verdict}. {judged.reason}\n"""'.replace("\\", "/"),
            *module,
            "\n".join(f"import {name}" for name in registrars("\n".join((*module, *checked)))),
            _TOOLS.strip(),
            *self._inputs(),
            *checked,
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _launching(self, line: int) -> ast.stmt:
        """The innermost statement on the line."""
        held = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, (ast.Expr, ast.Assign)) and node.lineno <= line <= (node.end_lineno or 0)
        ]
        return min(held, key=lambda node: (node.end_lineno or 0) - node.lineno)

    def _module(self) -> Iterator[str]:
        """The module's imports and aliases, and the definition of this kernel alone."""
        kernel = self._launch.call.kernel
        own = next((item for item in self._tree.body if _bound(item) == [kernel]), None)
        parts = [self._statement] if own is None else [self._statement, own]
        used = {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}
        # What an import in the graph's text or a library's name may need.
        used |= {"torch", "inf", "nan", "device"} | ({"AsyncCompile", "async_compile"} if own else set())
        for statement in self._tree.body:
            text = ast.get_source_segment(self._text, statement) or ""
            if used.intersection(_bound(statement)) or (own and text.startswith("async_compile.wait")):
                yield text

    def _inputs(self) -> Iterator[str]:
        for name, value in self._values.items():
            if isinstance(value, Tensor):
                yield f"{name} = {self._tensor(value, self._flat[name])}"
            elif re.fullmatch(r"(raw_)?stream\d+", name):
                yield f"{name} = torch.cuda.current_stream().cuda_stream"
            elif isinstance(value, (int, float, bool)):
                yield f"{name} = {value!r}"
        # The graph's inputs often have the same names, which are its own inside of the references.
        yield f"given = {{{', '.join(f'{name!r}: {name}' for name in self._flat)}}}"

    def _tensor(self, tensor: Tensor, flat: Tensor) -> str:
        shape = f"{tensor.dtype}, {tuple(tensor.shape)}, {tuple(tensor.stride())}"
        device = "" if tensor.device.type == "cpu" and self._device == "cpu" else ', device="cuda"'
        if flat.numel() * flat.element_size() > _MOST_BYTES and tensor.dtype.is_floating_point:
            known = flat.double()[torch.isfinite(flat.double())]
            if known.numel():
                mean, spread = float(known.mean()), float(known.std(correction=0))
                return f"drawn({shape}, {flat.numel()}, {mean:.6g}, {spread:.6g}{device})"
        raw = (
            flat.cpu().contiguous().view(torch.uint8) if flat.numel() else flat.new_zeros(1).view(torch.uint8)
        )
        text = base64.b85encode(zlib.compress(bytes(raw.tolist()), 9)).decode()
        return f'data({shape}, r"""{text}"""{device})'

    def _checked(self, judged: KernelReplay) -> Iterator[str]:
        """The reference of each output that the FX graph gives, the launch, and the comparisons."""
        before, after = [], []
        for number, name in enumerate(self._launch.call.outputs):
            checks = [each for each in judged.outputs if each.name.split(" ")[0] == name]
            checks = checks or list(judged.outputs[:1] if len(self._launch.call.outputs) == 1 else ())
            lines = self._reference(name, number) or self._written_out(name, number) if checks else None
            if lines is None:
                continue
            yield "\n".join(lines)
            # Before the launch, which may write to what it reads.
            before.append(
                f"eager_{number}, exact_{number} = reference_{number}(False), reference_{number}(True)"
            )
            rtol, atol = checks[0].rtol or 0.0, checks[0].atol or 0.0
            values = f"{self._compiled(name)}, eager_{number}, exact_{number}, {rtol}, {atol}"
            after.append(f'wrong += compare("{checks[0].name}", {values})')
        yield "\n".join(before)
        yield ast.unparse(self._statement)
        yield "\n".join(["wrong = 0", *after, *map(self._element, judged.worst[:1]), "sys.exit(bool(wrong))"])

    def _element(self, worst: WorstElement) -> str:
        values = f"{worst.compiled} compiled, {worst.eager} op by op, {worst.reference} exact"
        return f'print("when it was written, {worst.output}{list(worst.index)}: {values}")'

    def _compiled(self, name: str) -> str:
        """The output in the layout that the schedule has for it."""
        layout, value = self._launch.facts.layouts.of(name), self._names.get(name)
        if layout is None or not isinstance(value, Tensor) or tuple(value.shape) == layout[0]:
            return name
        return f"torch.as_strided({name}, {tuple(layout[0])}, {tuple(layout[1])})"

    def _reference(self, name: str, number: int) -> list[str] | None:
        """A function that computes the output from what the launch reads; None where the graph has none."""
        program: FxProgram = self._launch.facts.subgraph.program
        _, _, size, target = self._launch.sought(name, None)
        if target is None or size is None:
            return None
        try:
            nodes = self._launch.facts.subgraph.cone(target.node, self._given)
        except EXPECTED_ERRORS:
            return None
        texts = [program.text_of(node.name) for node in nodes]
        inner = {node.name for node in nodes}
        needed = [item for node in nodes for item in node.inputs if item not in inner]
        needed += [target.node] if not nodes else []
        if any("self." in text for text in texts) or any(item not in self._given for item in needed):
            return None
        lines = [f"def reference_{number}(exact):", f'    """{target.node}, op by op or in float64."""']
        for item in dict.fromkeys(needed):
            value = self._given[item]
            shown = self._tensor(value, flat_memory(value)) if isinstance(value, Tensor) else repr(value)
            widened = isinstance(value, Tensor) and value.dtype.is_floating_point
            lines.append(f"    {item} = {self._same(value) or shown}")
            lines += [f"    {item} = {item}.double() if exact else {item}"] if widened else []
        lines += [f"    {text}" for text in texts]
        order = ", ".join(map(str, target.order))
        shape = [size[axis] for axis in target.order]
        back = sorted(range(len(target.order)), key=target.order.__getitem__)
        shown = f"{target.node}.reshape({shape}).permute({back})" if order else target.node
        return [*lines, f"    return {shown}"]

    def _written_out(self, name: str, number: int) -> list[str] | None:
        """The same where the graph's nodes don't give it, with the numbers as they are known here."""
        launch, value = self._launch, self._names.get(name)
        shape = value.shape if isinstance(value, Tensor) else None
        expected = (launch.agreed if launch.drawn else launch.expected)(name, shape)
        lines = [
            f"def reference_{number}(exact):",
            f'    """{expected.node}, as the loops or the program give it."""',
        ]
        for kind, side in (("exact", expected.reference), ("op by op", expected.eager)):
            if not isinstance(side, Tensor) or side.numel() * side.element_size() > _MOST_BYTES:
                return None
            text = self._tensor(side.contiguous(), flat_memory(side.contiguous()))
            lines.append(f"    if exact:\n        return {text}" if kind == "exact" else f"    return {text}")
        return lines

    def _same(self, value: object) -> str | None:
        """The launch's own tensor that holds the value, as an expression."""
        if not isinstance(value, Tensor):
            return None
        for name, tensor in self._values.items():
            flat = self._flat.get(name)
            if flat is None or not isinstance(tensor, Tensor) or flat.dtype != value.dtype:
                continue
            if value.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() or _holds(
                flat, value
            ):
                layout = f"{tuple(value.shape)}, {tuple(value.stride())}"
                return f"torch.as_strided(given[{name!r}], {layout}).clone()"
        return None


def registrars(text: str) -> list[str]:
    """The modules that register what a program calls beyond ATen: Inductor's own operators are known once
    torch/_inductor/inductor_prims.py was imported, a library's once the library of that name was."""
    namespaces = sorted({*_NAMESPACE.findall(text)} - {"aten"})
    modules = ["torch._inductor.inductor_prims" if name == "prims" else name for name in namespaces]
    return [name for name in modules if importlib.util.find_spec(name) is not None]


def _bound(statement: ast.stmt) -> list[str]:
    """The names that an import or an assignment gives."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _holds(flat: Tensor, value: Tensor) -> bool:
    """Whether the memory, read in the value's own layout, is the value."""
    memory = flat_memory(value)
    if memory.numel() > flat.numel():
        return False
    return bool((flat[: memory.numel()].nan_to_num() == memory.nan_to_num()).all())
