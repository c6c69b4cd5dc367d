"""The FX graph of fx_graph_runnable.py: run as it is for eager, and with every node observed.

Nothing of the script runs but its imports, its functions and classes, plain assignments and the
registration of user-defined Triton kernels: its environment, configuration and ``__main__`` part are
the capturing machine's (torch/_dynamo/repro/after_aot.py: generate_compiler_repro_string).
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from inspector.replay.worker.code import operators
from inspector.replay.worker.events import first_line

T = TypeVar("T")

Function = Callable[..., object]
"""An operator, or whatever else a node or a launch calls."""

Hook = Callable[..., object]
"""``hook(node name, function, *args, **kwargs)`` in place of each call in ``forward``."""

_HOOK_NAME = "__inspector_call__"

_PREAMBLE = """
import math
import torch
from torch import Tensor
from math import inf, nan
from torch import device, tensor
import torch._inductor.inductor_prims
"""


# torch.ops.prims.convert_element_type.default(add_1, torch.float16)
_CONVERSION = re.compile(r"torch\.ops\.prims\.convert_element_type\.default\((\w+), (torch\.\w+)\)")

_PLAIN_CONVERSION = r"torch.ops.aten._to_copy.default(\1, dtype = \2)"
"""What the conversion computes, without the Python that prims go through (torch/_prims): 47 against
7 us a call on a CPU, which no user's eager model pays."""

# _foreach_add = torch.ops.aten._foreach_add_.Scalar([arg8_1, arg5_1], 1)
_PRINTED = ("fx_graph_readable.py", "fx_graph_transformed.py")
"""Beside fx_graph_runnable.py: the graph as printed before and after Inductor's passes."""

_FOREACH = re.compile(r"^(\s*(\w+) = torch\.ops\.aten\._foreach_\w+)_\.", re.MULTILINE)


def _functional(text: str, match: re.Match[str]) -> str:
    """Inductor's passes make foreach operators write in place and go on using their result, which they
    then do not have (torch/_inductor/fx_passes/reinplace.py)."""
    return f"{match[1]}." if f" = {match[2]}[" in text else match[0]


class GraphError(Exception):
    """The FX graph cannot be run here; the message is one line that says why."""


@dataclass(frozen=True)
class Node:
    """One assignment of ``forward``. `target` is the called function's text, "" for subscripts,
    attributes and arithmetic; `call` its syntax; `index` the constant of ``x = y[0]``."""

    name: str
    target: str
    inputs: tuple[str, ...]
    call: ast.Call | None
    index: int | None

    @property
    def op(self) -> str:
        """``aten.mm`` of ``torch.ops.aten.mm.default``; "" where nothing of torch.ops is called."""
        parts = self.target.split(".")
        return ".".join(parts[2:4]) if parts[:2] == ["torch", "ops"] else ""


class FxProgram:
    """A parsed ``forward``: its nodes, and one module that runs it plainly or observed.

    `placeholders` are the parameters' names, `outputs` the returned names (None for None or a
    constant). `storages` says, where load_args could be read, what each placeholder is.
    """

    def __init__(self, path: Path, label: str) -> None:
        """Raises GraphError where the file holds no graph or the graph cannot be built."""
        self.path = path
        self.label = label
        self.problems: list[str] = []
        text = _prepared(path)
        printed = [
            _prepared(file) for file in map(path.with_name, _PRINTED) if file != path and file.is_file()
        ]
        operators.register("\n".join([text, *printed]), self.problems)
        try:
            tree = ast.parse(text)
        except SyntaxError as error:
            raise GraphError(f"{path.name} is not valid Python: line {error.lineno}: {error.msg}") from None
        owner, forward = _find_forward(tree, path)
        self.placeholders = tuple(arg.arg for arg in forward.args.args[1:])
        self.nodes = tuple(_nodes(forward))
        self._forward = forward
        self.outputs = _outputs(forward)
        self._by_name = {node.name: node for node in self.nodes}
        self._text = text
        self._namespace: dict[str, Any] = {"__name__": "inspector_fx_graph", "__file__": str(path)}
        exec(_PREAMBLE, self._namespace)
        self._run_statements(tree, owner)
        self.absent = self._stand_ins(forward, [text, *printed])
        self.module = self._build(owner, printed)
        self._observed = self._build_observed(forward)
        self._hook: Hook | None = None
        self.replaced: Mapping[str, Function] = {}
        """By `Node.op` what an observed run calls in its place."""

    def _run_statements(self, tree: ast.Module, owner: ast.ClassDef) -> None:
        # triton.jit reads its function's source through linecache, by file name and line.
        linecache.cache[str(self.path)] = (
            len(self._text),
            None,
            self._text.splitlines(keepends=True),
            str(self.path),
        )
        for statement in tree.body:
            if statement is owner or not _is_wanted(statement):
                continue
            code = compile(ast.Module([statement], []), str(self.path), "exec")
            try:
                exec(code, self._namespace)
            except Exception as error:
                self.problems.append(
                    f"{self.path.name}:{statement.lineno} was left out: "
                    f"{type(error).__name__}: {first_line(error)}"
                )

    def _stand_ins(self, forward: ast.FunctionDef, texts: Sequence[str]) -> dict[str, operators.Absent]:
        """By node what stands for a function that is not here; its calls are changed to be of that."""
        absent = {f"torch.ops.{namespace}.{name}" for namespace, name in operators.absent(texts[0])}
        stand_ins = {}
        for statement in forward.body:
            pair = _assignment(statement)
            if pair is None or not isinstance(pair[1], ast.Call):
                continue
            name, call = pair[0], pair[1]
            target = ast.unparse(call.func)
            printed = isinstance(call.func, ast.Name) and target not in {**vars(builtins), **self._namespace}
            if not printed and ".".join(target.split(".")[:4]) not in absent:
                continue
            function = operators.function_named(target) if printed else None
            stand_ins[name] = operators.Absent(name, target, texts, function)
            self._namespace[f"__absent_{name}"] = stand_ins[name]
            call.func = ast.copy_location(ast.Name(f"__absent_{name}", ast.Load()), call.func)
        return stand_ins

    def _build(self, owner: ast.ClassDef, printed: Sequence[str]) -> torch.nn.Module:
        """The graph's module, with the graphs that it calls: those of fx_graph_runnable.py are in the printed
        graph alone, as classes inside of its own (torch/fx/graph_module.py: _print_readable)."""
        exec(compile(ast.Module([owner], []), str(self.path), "exec"), self._namespace)
        try:
            module = _with_inner(self._namespace[owner.name])
        except Exception as error:
            raise GraphError(f"{self.path.name}: its module cannot be built: {error}") from error
        wanted = set(re.findall(r"^ +\w+ = self\.(\w+)$", self._text, re.MULTILINE))
        for text in printed if any(not hasattr(module, name) for name in wanted) else ():
            space = dict(self._namespace)
            try:
                other, _ = _find_forward(ast.parse(text), self.path)
                exec(compile(ast.Module([other], []), str(self.path), "exec"), space)
                inner = _with_inner(space[other.name])
            except Exception:
                continue
            for name, graph in inner.named_children():
                if name in wanted and not hasattr(module, name):
                    setattr(module, name, graph)
        return module

    def _build_observed(self, forward: ast.FunctionDef) -> Callable[..., object]:
        rewritten = ast.parse(ast.unparse(forward)).body[0]
        assert isinstance(rewritten, ast.FunctionDef)
        for statement in rewritten.body:
            _wrap_call(statement)
        ast.fix_missing_locations(rewritten)
        namespace = dict(self._namespace)
        namespace[_HOOK_NAME] = self._dispatch
        exec(compile(ast.Module([rewritten], []), f"<observed {self.path.name}>", "exec"), namespace)
        function: Callable[..., object] = namespace["forward"]
        return function

    def expressions(self, hook: Hook) -> dict[str, Callable[[dict[str, object]], object]]:
        """Each node by itself: its value from a dict of other names' values, calls made by `hook`."""
        space = {**self._namespace, _HOOK_NAME: hook}
        body = ast.parse(ast.unparse(self._forward)).body[0]
        assert isinstance(body, ast.FunctionDef)
        values_of: dict[str, Callable[[dict[str, object]], object]] = {}
        for statement in body.body:
            pair = _assignment(statement)
            if pair is None:
                continue
            _wrap_call(statement)
            expression = ast.fix_missing_locations(ast.Expression(pair[1]))
            code = compile(expression, f"<{pair[0]} of {self.path.name}>", "eval")
            values_of[pair[0]] = lambda values, code=code: eval(code, space, values)  # type: ignore[misc]
        return values_of

    def _dispatch(self, name: str, function: Function, /, *args: object, **kwargs: object) -> object:
        assert self._hook is not None
        node = self._by_name.get(name)
        return self._hook(name, self.replaced.get(node.op if node else "", function), *args, **kwargs)

    def run(self, args: list[object]) -> list[object]:
        """The outputs of one plain run. Inputs that the graph writes to are changed."""
        return _as_list(self.module.forward(*args))

    def observe(self, args: list[object], hook: Hook, module: torch.nn.Module = None) -> list[object]:
        """One run in which `hook` stands in for every call. `module`: in place of the graph's own."""
        self._hook = hook
        try:
            return _as_list(self._observed(module if module is not None else self.module, *args))
        finally:
            self._hook = None

    def text_of(self, name: str) -> str:
        """The statement that gives the node its value, without its annotation; "" where there is none."""
        pairs = filter(None, map(_assignment, self._forward.body))
        return next((f"{name} = {ast.unparse(value)}" for own, value in pairs if own == name), "")

    def node(self, name: str) -> Node | None:
        return self._by_name.get(name)

    def ancestors(self, names: Iterable[str], stop: Callable[[Node], bool] | None = None) -> set[str]:
        """Every name that `names` depend on, themselves included; not beyond nodes where `stop` holds."""
        seen: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            node = self._by_name.get(name)
            if node is not None and not (stop is not None and stop(node)):
                pending.extend(node.inputs)
        return seen

    def written_placeholders(self) -> dict[str, str]:
        """Inputs that the graph ends in writing to (``copy_``), each with the node that does so."""
        written = {}
        for node in self.nodes:
            if node.op == "aten.copy_" and node.inputs and node.inputs[0] in self.placeholders:
                written[node.inputs[0]] = node.name
        return written

    def recorded_inputs(self, make: Callable[[], T]) -> T | None:
        """The reader that `make` gives, after the script's ``load_args`` filled it; None without one.

        A ``load_args`` that fails is one of the `problems`.
        """
        load = self._namespace.get("load_args")
        if load is None:
            return None
        reader = make()
        try:
            load(reader)
        except Exception as error:
            self.problems.append(f"load_args of {self.path.name} was not used: {error}")
            return None
        return reader


def _prepared(path: Path) -> str:
    """The file's text, changed where torch prints what cannot be run, or not as eager runs it."""
    text = path.read_text(encoding="utf-8", errors="replace")
    # Inference graphs are printed as `class <lambda>(torch.nn.Module):`, and graphs that they call likewise.
    text = re.sub(r"^class <lambda>\(", "class Repro(", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^( +)self\.\w+ = <lambda>\(\)$", r"\1pass", text, flags=re.MULTILINE)
    text = _CONVERSION.sub(_PLAIN_CONVERSION, text)
    # Inductor may choose other strides than eager, so what is a view there may need a copy here.
    text = text.replace("torch.ops.aten.view.default(", "torch.ops.aten.reshape.default(")
    return _FOREACH.sub(partial(_functional, text), text)


def _with_inner(kind: type[torch.nn.Module]) -> torch.nn.Module:
    """An instance, whose classes inside of its class have become instances as well."""
    inner = {
        name: value
        for name, value in vars(kind).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    }
    for name in inner:
        # A class would hide the module of that name.
        delattr(kind, name)
    module = kind()
    for name, value in inner.items():
        setattr(module, name, _with_inner(value))
    return module


def _find_forward(tree: ast.Module, path: Path) -> tuple[ast.ClassDef, ast.FunctionDef]:
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            for member in statement.body:
                if isinstance(member, ast.FunctionDef) and member.name == "forward":
                    return statement, member
    raise GraphError(f"{path.name} holds no class with a forward")


def _is_wanted(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
        return True
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id != "mod"
    return isinstance(statement, (ast.Expr, ast.Assign)) and "kernel_side_table" in ast.unparse(statement)


def _names(nodes: Iterable[ast.AST]) -> tuple[str, ...]:
    """What the nodes read, each once."""
    items = (item for node in nodes for item in ast.walk(node) if isinstance(item, ast.Name))
    names = dict.fromkeys(item.id for item in items if isinstance(item.ctx, ast.Load))
    return tuple(name for name in names if name not in {"torch", "self", "device", "inf", "nan"})


def _assignment(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """(name, value) of ``x = value`` and ``x: "f32[2]" = value``; deletions (``x = None``) are none."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
        value: ast.expr | None = statement.value
    elif isinstance(statement, ast.AnnAssign):
        target, value = statement.target, statement.value
    else:
        return None
    if value is None or not isinstance(target, ast.Name):
        return None
    if isinstance(value, ast.Constant) and value.value is None:
        return None
    return target.id, value


def _nodes(forward: ast.FunctionDef) -> Iterable[Node]:
    for statement in forward.body:
        pair = _assignment(statement)
        if pair is None:
            continue
        name, value = pair
        call = value if isinstance(value, ast.Call) else None
        index = None
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant):
            index = value.slice.value if isinstance(value.slice.value, int) else None
        target = ast.unparse(call.func) if call else ""
        parts = [*call.args, *(keyword.value for keyword in call.keywords)] if call else [value]
        yield Node(name, target, _names(parts), call, index)


def _outputs(forward: ast.FunctionDef) -> tuple[str | None, ...]:
    last = forward.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return ()
    items = last.value.elts if isinstance(last.value, (ast.Tuple, ast.List)) else [last.value]
    return tuple(item.id if isinstance(item, ast.Name) else None for item in items)


def _wrap_call(statement: ast.stmt) -> None:
    pair = _assignment(statement)
    if pair is None or not isinstance(pair[1], ast.Call):
        return
    call = pair[1]
    call.args = [ast.Constant(pair[0]), call.func, *call.args]
    call.func = ast.Name(_HOOK_NAME, ast.Load())


def _as_list(result: object) -> list[object]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def load_program(runnable: Path | None, transformed: Path | None) -> FxProgram:
    """The first of the two files that can be run. Raises GraphError, with both reasons."""
    reasons = []
    for path, label in (
        (runnable, "decomposed FX graph"),
        (transformed, "decomposed FX graph after Inductor's passes"),
    ):
        if path is None:
            continue
        try:
            program = FxProgram(path, label)
        except (GraphError, OSError) as error:
            reasons.append(str(error))
            continue
        program.problems[:0] = reasons
        return program
    raise GraphError("; ".join(reasons) or "the graph's folder holds no fx_graph_runnable.py")


def tensors_of(value: object) -> list[Tensor]:
    """The tensors in nested lists, tuples and dicts, in order."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def aten(names: str) -> frozenset[str]:
    """`Node.op`s of the named operators: ``aten("mm bmm")`` has "aten.mm" and "aten.bmm"."""
    return frozenset(f"aten.{name}" for name in names.split())
