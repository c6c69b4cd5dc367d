"""The statements of the wrapper's functions: `call`, CUDA-graph partitions and subgraphs.

Written by torch/_inductor/codegen/wrapper.py: PythonWrapperCodegen and SubgraphPythonWrapperCodegen. A
partition's or subgraph's statements are placed where it is called, so the steps come in execution order;
both branches of a condition are there, and a loop's body once.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from inspector.model.code import (
    Alias,
    Allocation,
    Free,
    Kernel,
    KernelCall,
    KernelKind,
    OtherStep,
    SizeAssertion,
    SourceNodes,
    Step,
)
from inspector.model.problem import Problem
from inspector.model.source import LineSpan

from .brackets import open_brackets, split_commas
from .generated import arguments, parse_dtype, parse_extents, split_keywords, unquote
from .kernels import parse_source_nodes, written_parameters

# ``extern_kernels.mm(``, ``triton_poi_fused_0.run(``, ``torch.ops.aten.sort.stable(``
_CALLEE = re.compile(r"([A-Za-z_][\w.]*)\(")

# ``(buf35,) = self.partitions[0](partition0_args)``
_PARTITION_CALL = re.compile(r"self\.partitions\[(\d+)\]\(")

# ``buf3 = buf2[0]``, ``buf9 = buf0; del buf0  # reuse``, ``buf10 = buf4  # alloc``
_PLAIN_ALIAS = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]+\])*(?:;(?: del \w+)?)?(?:  # (\w+))?$")

# ``reinterpret_tensor(buf1, (4, 8), (8, 1), 0); del buf1  # reuse``
# ``aten.view.dtype(reinterpret_tensor(buf1, (4, ), (1, ), 0), torch.int32);  # reuse`` (else it is a launch)
# ``triton.tools.tensor_descriptor.TensorDescriptor.from_tensor(buf1, [64, 64])``
_VIEW = re.compile(r"(?:[a-z][\w.]*\()+([A-Za-z_]\w*)\b.*?\)(?:;(?: del \w+)?)?(?:  # (\w+))?$")
_VIEW_MAKERS = ("reinterpret_tensor(", "aten.view.dtype(", "triton.tools.")

# ``assert_size_stride(buf4, (6, 3), (3, 1)``: one whose extents hold no brackets.
_SIZE_ASSERTION = re.compile(r"assert_size_stride\((\w+), (\([^()]*\)), (\([^()]*\))")

# ``empty_strided_cuda((4, s50), (s50, 1), torch.float32)``: one whose extents hold no brackets.
_ALLOCATION = re.compile(r"empty_strided_(cpu|cuda|xpu|mtia)\((\([^()]*\)), (\([^()]*\)), torch\.(\w+)\)$")

# ``s77``, ``u0``, ``zuf0``, ``ps1``: torch/utils/_sympy/symbol.py
_SYMBOL = re.compile(r"(?:s|u|zf|zuf|ps)\d+$")

# ``# [Provenance debug handles] extern_kernels.mm:3``
_HANDLES_HEAD = "# [Provenance debug handles] "

# ``triton_poi_fused_add_0:12, extern_kernels.mm:13``: each name and its number.
_HANDLE = re.compile(r"(.+):(\d{1,9})")

# ``reinterpret_tensor(buf0, (4, 1), (1, 4), 0), 'relu'``: names, not attributes, keywords, calls or strings.
_NAME_OR_STRING = re.compile(r"""'[^']*'|"[^"]*"|(?<![\w.])([A-Za-z_]\w*)(?![\w(]|=[^=])""")

# ``buf1`` and ``buf2`` in ``(buf1, buf2[0],)``
_NAME = re.compile(r"[A-Za-z_]\w*")

# ``out=buf0``, ``out1=reinterpret_tensor(buf3, (8, ), (1, ), 0)``
_OUT_ARGUMENT = re.compile(r"out\d*=(.*)", re.DOTALL)

# ``arg0_1.item()``, ``arg0_1.size()``: what gives a number and not a tensor.
_NUMBER_OF_TENSOR = (".item()", ".size(", ".stride(", ".storage_offset(")

_ALLOCATORS = ("empty_strided", "tracked_empty_strided(", "alloc_from_pool(", "torch.empty_strided(")

# Subgraphs that call each other twice could make a small hostile file endless.
_MOST_EXPANSIONS = 10_000
_DEEPEST = 50


class Function(NamedTuple):
    """The body of one wrapper function, as lines; `first_line` is the number of the first of them."""

    name: str
    first_line: int
    lines: list[str]


class _Launchable(NamedTuple):
    """What a callee is: its kernel's name and kind, and which argument positions it writes."""

    kernel: str
    kind: KernelKind
    written: tuple[int, ...]
    in_place: bool


class Walker:
    """Turns wrapper functions into steps, in execution order.

    `kernels` are the definitions by name; extern and fallback targets are added in order of first call.
    `op_namespaces` are the names that stand for ``torch.ops.X``; `constants` the tensors that are module
    globals; `partitions` the partition functions' names in the order of ``Runner(partitions=[...])``.
    """

    def __init__(
        self,
        path: str,
        functions: dict[str, Function],
        kernels: dict[str, Kernel],
        op_namespaces: frozenset[str],
        constants: frozenset[str],
        partitions: tuple[str, ...],
    ) -> None:
        self.steps: list[Step] = []
        self.problems: list[Problem] = []
        self.inputs: tuple[str, ...] = ()
        self.outputs: tuple[str, ...] = ()
        self.reached: set[str] = set()
        self.returned = False
        self._path = path
        self._functions = functions
        self._kernels = kernels
        self._op_namespaces = op_namespaces
        self._tensors = set(constants)
        self._partitions = partitions
        self._launchables: dict[str, _Launchable | None] = {}
        self._devices: dict[str, str] = {}
        self._calls = 0
        self._expansions = 0
        self._active: list[str] = []
        self._partition: int | None = None
        self._origin: SourceNodes | None = None
        self._handles: str = ""

    def walk(self, name: str) -> None:
        """Appends the steps of a function and of all that it calls."""
        function = self._functions[name]
        self._expansions += 1
        if name in self._active or len(self._active) == _DEEPEST or self._expansions > _MOST_EXPANSIONS:
            self._problem(function.first_line, f"{name} is called too often to be followed")
            return
        self.reached.add(name)
        self._active.append(name)
        line_number, lines = function.first_line, function.lines
        position, count, cut = 0, len(lines), False
        while position < count:
            line = lines[position]
            first = line_number + position
            position += 1
            statement = line.strip()
            if not statement:
                continue
            if not cut and (line.count("(") != line.count(")") or line.count("[") != line.count("]")):
                joined = _join(lines, position - 1)
                if joined is None:
                    cut = True
                    self._problem(first, "unfinished statement")
                    self.steps.append(OtherStep(statement, LineSpan(first, first)))
                    continue
                statement, position = joined
            self._statement(statement, LineSpan(first, line_number + position - 1))
        self._active.pop()

    def _problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(self._path, line, message))

    def _statement(self, text: str, span: LineSpan) -> None:
        if text[0] == "#":
            self._comment(text, span)
        elif text.startswith("del "):
            self.steps.append(Free(tuple(part.strip() for part in text[4:].split(",")), span))
        elif text.startswith("assert_size_stride"):
            self._size_assertion(text, span)
        elif text.startswith("return "):
            self._return(text, span)
        else:
            target, equals, value = text.partition(" = ")
            if not equals:
                self._launch_or_other("", text, text, span)
            elif target.isidentifier():
                self._assignment(target, value, text, span)
            elif value == "args":
                self._arguments(target, text, span)
            else:
                self._launch_or_other(target, value, text, span)

    def _comment(self, text: str, span: LineSpan) -> None:
        """Comments stand above their launch, with the set-up of its sizes and stream between."""
        if text.startswith(_HANDLES_HEAD):
            self._handles = text[len(_HANDLES_HEAD) :]
        elif "Source Nodes:" in text:
            self._origin = parse_source_nodes(text, span.first)
            self._handles = ""
        self.steps.append(OtherStep(text, span))

    def _arguments(self, target: str, text: str, span: LineSpan) -> None:
        """``arg0_1, arg1_1 = args``"""
        names = tuple(part for part in map(str.strip, target.split(",")) if part)
        self._tensors.update(name for name in names if _SYMBOL.match(name) is None)
        if self._active == ["call"]:
            self.inputs = names
        self.steps.append(OtherStep(text, span))

    def _return(self, text: str, span: LineSpan) -> None:
        """``return (buf4, reinterpret_tensor(buf1, (8, ), (1, ), 0), )``"""
        if self._active == ["call"]:
            self.returned = True
            value = text[6:].strip()
            if value.startswith("("):
                self.outputs = arguments(value, 1)[0]
            else:
                self.outputs = split_commas(value)
        self.steps.append(OtherStep(text, span))

    def _size_assertion(self, text: str, span: LineSpan) -> None:
        """``assert_size_stride(x, size, stride, 'op')`` or ``..._grouped((x, y), sizes, strides)`` (2.15)."""
        if (simple := _SIZE_ASSERTION.match(text)) is not None:
            name, size, stride = simple.groups()
            self.steps.append(SizeAssertion(name, parse_extents(size), parse_extents(stride), span))
            return
        parts = arguments(text, text.find("(") + 1)[0]
        if len(parts) < 3:
            self.steps.append(OtherStep(text, span))
        elif text.startswith("assert_size_stride("):
            self.steps.append(SizeAssertion(parts[0], parse_extents(parts[1]), parse_extents(parts[2]), span))
        else:
            names, sizes, strides = (split_commas(part[1:-1]) for part in parts[:3])
            for name, size, stride in zip(names, sizes, strides, strict=False):
                self.steps.append(SizeAssertion(name, parse_extents(size), parse_extents(stride), span))

    def _assignment(self, target: str, value: str, text: str, span: LineSpan) -> None:
        if value == "args":
            self._arguments(target, text, span)
        elif (
            value.startswith(_ALLOCATORS)
            and (allocation := self._allocation(target, value, span)) is not None
        ):
            self._tensors.add(target)
            self._devices[target] = allocation.device
            self.steps.append(allocation)
        elif (alias := self._alias(target, value, text, span)) is not None:
            if alias.kind == "symbol":
                self._tensors.discard(alias.source)
            else:
                self._tensors.add(target)
            self.steps.append(alias)
        else:
            self._launch_or_other(target, value, text, span)

    def _allocation(self, name: str, value: str, span: LineSpan) -> Allocation | None:
        """``empty_strided_cuda(size, stride, torch.float32)`` and relatives; a padded buffer is the
        ``.as_strided(size, stride)`` of a larger one, a pooled one is cut out by ``alloc_from_pool``."""
        if (simple := _ALLOCATION.match(value)) is not None:
            device, size, stride, dtype = simple.groups()
            return Allocation(name, parse_extents(size), parse_extents(stride), dtype, device, span)
        allocator, _, rest = value.partition("(")
        parts, close = arguments(rest, 0)
        positional, named = split_keywords(parts)
        if allocator == "alloc_from_pool":
            if len(positional) < 5:
                return None
            pool, _, dtype, size, stride = positional[:5]
            device = self._devices.get(pool, "")
        else:
            if len(positional) < 2:
                return None
            size, stride = positional[:2]
            dtype = named.get("dtype") or (positional[2] if len(positional) > 2 else "")
            suffix = allocator.partition("empty_strided_")[2].removesuffix("_pinned")
            device = unquote(named["device"]) if "device" in named else suffix.replace("p2p", "cuda")
        if rest.startswith(").as_strided(", close):
            size, stride = (*arguments(rest, close + len(").as_strided("))[0], size, stride)[:2]
        return Allocation(name, parse_extents(size), parse_extents(stride), parse_dtype(dtype), device, span)

    def _alias(self, target: str, value: str, text: str, span: LineSpan) -> Alias | None:
        """A second name for something that exists; None where the statement is something else."""
        if (plain := _PLAIN_ALIAS.match(value)) is not None:
            source, comment = plain.groups()
            if source in ("None", "True", "False"):
                return None
            if _SYMBOL.match(target):
                return Alias("symbol", target, source, text, span)
            reused = comment in ("reuse", "alloc")
            return Alias(
                "reuse" if reused else "view" if comment == "alias" else "unpack", target, source, text, span
            )
        if value.startswith(_VIEW_MAKERS) and not any(mark in value for mark in _NUMBER_OF_TENSOR):
            view = _VIEW.match(value)
            if view is not None and (view[2] is not None or not value.startswith("aten")):
                return Alias("reuse" if view[2] == "reuse" else "view", target, view[1], text, span)
        return None

    def _launch_or_other(self, target: str, value: str, text: str, span: LineSpan) -> None:
        """A launch, a call of another wrapper function, or a statement that only prepares something."""
        if (partition := _PARTITION_CALL.match(value)) is not None:
            number = int(partition[1])
            name = self._partitions[number] if number < len(self._partitions) else f"partition_{number}"
            self._call_function(name, target, text, span, number)
            return
        callee = _CALLEE.match(value)
        if callee is not None:
            name = callee[1]
            if name in self._functions:
                self._call_function(name, target, text, span, self._partition)
                return
            if name not in self._launchables:
                self._launchables[name] = self._launchable(name)
            launchable = self._launchables[name]
            if launchable is not None:
                self._launch(launchable, target, value, callee.end(), text, span)
                return
        if (
            target.isidentifier()
            and not any(mark in value for mark in _NUMBER_OF_TENSOR)
            and self._names_in(value)
        ):
            self._tensors.add(target)
        self.steps.append(OtherStep(text, span))

    def _call_function(
        self, name: str, target: str, text: str, span: LineSpan, partition: int | None
    ) -> None:
        """``(buf35,) = self.partitions[0](partition0_args)``, ``buf0 = true_graph_0(true_graph_0_args)``"""
        self.steps.append(OtherStep(text, span))
        if name in self._functions:
            outer, self._partition = self._partition, partition
            self.walk(name)
            self._partition = outer
        else:
            self._problem(span.first, f"{name} is called but not defined")
        self._tensors.update(_identifiers(target))

    def _launchable(self, callee: str) -> _Launchable | None:
        """What `callee` launches, None for nothing. A new extern or fallback target becomes a kernel."""
        root, _, rest = callee.partition(".")
        kernel = self._kernels.get(root)
        if kernel is not None:
            return _Launchable(root, kernel.kind, written_parameters(kernel), False)
        kind: KernelKind
        if root == "extern_kernels":
            kind, operator = "extern", rest
        elif callee.startswith("torch.ops."):
            kind, operator = "fallback", rest.split(".", 2)[-1]
        elif root in self._op_namespaces:
            kind, operator = "fallback", rest
        elif rest == "run":
            return _Launchable(root, "triton", (), False)
        else:
            return None
        self._kernels[callee] = Kernel(callee, kind)
        packet = operator.partition(".")[0]
        return _Launchable(callee, kind, (), packet.endswith("_") and not packet.endswith("__"))

    def _launch(
        self, launchable: _Launchable, target: str, value: str, start: int, text: str, span: LineSpan
    ) -> None:
        parts, _ = arguments(value, start)
        outputs = _identifiers(target)
        self._tensors.update(outputs)
        for part in parts:
            if part.startswith("out") and (given := _OUT_ARGUMENT.match(part)) is not None:
                outputs += self._names_in(given[1])
        if launchable.in_place and parts:
            outputs += self._names_in(parts[0])
        for position in launchable.written:
            if position < len(parts):
                outputs += self._names_in(parts[position])
        self._add_call(launchable.kernel, launchable.kind, parts, value[start:], outputs, text, span)

    def _add_call(
        self,
        kernel: str,
        kind: KernelKind,
        parts: tuple[str, ...],
        named: str,
        outputs: list[str],
        text: str,
        span: LineSpan,
    ) -> None:
        """`named` is the text whose tensors the launch is handed."""
        self.steps.append(
            KernelCall(
                index=self._calls,
                kernel=kernel,
                kind=kind,
                arguments=parts,
                buffers=tuple(dict.fromkeys(self._names_in(named))),
                outputs=tuple(dict.fromkeys(outputs)),
                span=span,
                text=text,
                handle=_handle(self._handles, kernel),
                partition=self._partition,
                origin=self._origin,
            )
        )
        self._calls += 1
        self._origin, self._handles = None, ""

    def _names_in(self, text: str) -> list[str]:
        """The tensors that a text names, in order."""
        tensors = self._tensors
        if text in tensors:
            return [text]
        return [name for name in _NAME_OR_STRING.findall(text) if name in tensors]


def _identifiers(target: str) -> list[str]:
    """The names that ``(buf1, buf2[0],)`` binds."""
    return [target] if target.isidentifier() else _NAME.findall(target)


def _handle(handles: str, kernel: str) -> int | None:
    """The number that a handle comment gives to `kernel`; where it names only others, the first one."""
    if not handles:
        return None
    numbered = [match for part in re.split(r"[\s,]+", handles) if (match := _HANDLE.fullmatch(part))]
    return next(
        (int(match[2]) for match in numbered if match[1] == kernel),
        int(numbered[0][2]) if numbered else None,
    )


def _join(lines: list[str], position: int) -> tuple[str, int] | None:
    """The statement that begins at a line with open brackets, and the position behind it.

    None where no line closes them, in which case only the first line is to be taken.
    """
    parts: list[str] = []
    depth = 0
    for line in lines[position:]:
        parts.append(line.strip())
        depth += open_brackets(line)
        if depth <= 0:
            return "\n".join(parts), position + len(parts)
    return None
