"""The wrapper with every launch handed to a hook: the same kernels, another `call`.

The functions and classes of output_code.py are compiled a second time, with each launch ``f(a, b)``
written as ``hook(LINE, locals(), f, a, b)``, so that the first, plain ones keep their speed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.code.fx import Function
from inspector.replay.worker.code.generated import CodeError, GeneratedCode
from inspector.replay.worker.events import NotRunnable

LaunchHook = Callable[..., object]
"""``hook(call index, local names, function, *args, **kwargs)``; what it returns is the launch's result."""

_HOOK = "__inspector_launch__"
_LATER = "__inspector_later__"


class HookedCode:
    """`call` of a generated module with its launches observed.

    A line that runs again (a subgraph's, a loop's) is the next of its `calls`, then the last one again.
    Raises CodeError where no launch is found.
    """

    def __init__(self, code: GeneratedCode, calls: Sequence[PlannedCall]) -> None:
        self._lines: dict[int, list[int]] = {}
        names: dict[int, str] = {}
        for call in calls:
            self._lines.setdefault(call.line, []).append(call.index)
            names[call.line] = call.kernel
        path = Path(str(code.module.__file__))
        tree = ast.parse(code.text)
        rewriter = _Rewriter(names)
        kept = []
        for statement in tree.body:
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                kept.append(rewriter.visit(statement))
            elif isinstance(statement, ast.Assign) and _is_runner(statement):
                kept.append(statement)
        if not rewriter.hooked:
            raise CodeError("no launch of the wrapper is in Python: it is C++, or was cut off")
        module = ast.Module(kept, [])
        ast.fix_missing_locations(module)
        self.space: dict[str, Any] = dict(vars(code.module))
        self.space[_HOOK] = self._launch
        self.space[_LATER] = _Later
        exec(compile(module, str(path), "exec"), self.space)
        self._hook: LaunchHook | None = None
        self._seen: dict[int, int] = {}

    def run(self, args: list[object], hook: LaunchHook) -> list[object]:
        """The outputs of one call; `args` is emptied and inputs may be written to."""
        self._hook, self._seen = hook, {}
        try:
            result = self.space["call"](args)
        finally:
            self._hook = None
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def _launch(
        self, line: int, names: dict[str, object], function: Function, /, *args: object, **kwargs: object
    ) -> object:
        assert self._hook is not None
        if isinstance(function, _Later):
            function = function.resolved()
        indices = self._lines[line]
        turn = self._seen.get(line, 0)
        self._seen[line] = turn + 1
        return self._hook(indices[min(turn, len(indices) - 1)], names, function, *args, **kwargs)


class _Later:
    """A launch's operator, which may not be there."""

    def __init__(self, look_up: Callable[[], Function], text: str) -> None:
        self._look_up = look_up
        self._text = text

    def resolved(self) -> Function:
        try:
            return self._look_up()
        except AttributeError:
            return self._refuse

    def _refuse(self, *_: object, **__: object) -> object:
        raise NotRunnable(f"{self._text} is registered by what is not here")


def _is_runner(statement: ast.Assign) -> bool:
    """``runner = Runner(partitions=[..])``, ``call = runner.call`` and the like."""
    return any(isinstance(node, ast.Name) and node.id in {"Runner", "runner"} for node in ast.walk(statement))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self.hooked = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        kernel = self._names.get(node.lineno)
        if kernel is None or ast.unparse(node.func) not in {kernel, f"{kernel}.run"}:
            self.generic_visit(node)
            return node
        self.hooked += 1
        names = ast.Call(ast.Name("locals", ast.Load()), [], [])
        function: ast.expr = node.func
        if kernel.startswith("torch.ops."):
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            words: list[ast.expr] = [ast.Lambda(nothing, node.func), ast.Constant(kernel)]
            function = ast.Call(ast.Name(_LATER, ast.Load()), words, [])
        arguments = [ast.Constant(node.lineno), names, function, *node.args]
        return ast.copy_location(ast.Call(ast.Name(_HOOK, ast.Load()), arguments, node.keywords), node)
