"""Names and calls in a syntax tree of the user's source, and which calls make what others take."""

from __future__ import annotations

import ast
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache

Function = ast.FunctionDef | ast.AsyncFunctionDef


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or attribute; the tail only where the front is an expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        names.append(node.id)
    return ".".join(reversed(names))


def tail(call: ast.Call) -> str:
    """The function's own name."""
    return dotted(call.func).rsplit(".", 1)[-1]


def is_compile(node: ast.AST) -> bool:
    """Whether it is a call of ``torch.compile``."""
    return isinstance(node, ast.Call) and dotted(node.func) in ("torch.compile", "compile", "torch.optimize")


def feeding(inside: Sequence[ast.stmt], direct: Sequence[ast.Call]) -> list[ast.Call]:
    """The calls whose results reach one of the `direct` ones: in its arguments, or by way of names."""
    wanted: list[ast.expr] = [
        part for call in direct for part in (*call.args, *(k.value for k in call.keywords))
    ]
    values: dict[str, list[ast.expr]] = {}
    for statement in (node for each in inside for node in ast.walk(each)):
        for targets, value in _given(statement):
            for name in (
                node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
            ):
                values.setdefault(name, []).append(value)
    reached: list[ast.Call] = []
    while wanted:
        for node in ast.walk(wanted.pop()):
            if isinstance(node, ast.Call):
                reached.append(node)
            elif isinstance(node, ast.Name):
                wanted += values.pop(node.id, ())
    return reached


def collects(loop: ast.AST, direct: Sequence[ast.Call]) -> bool:
    """Whether a loop adds up, or puts into a list, what comes of one of the `direct` calls in it."""
    statements = [node for node in ast.walk(loop) if isinstance(node, ast.stmt)]
    of_them = _coming_of(statements, direct)
    added = (node.value for node in statements if isinstance(node, ast.AugAssign))
    called = (node.value for node in statements if isinstance(node, ast.Expr))
    put = (
        argument
        for call in called
        if isinstance(call, ast.Call) and tail(call) in ("append", "extend")
        for argument in call.args
    )
    return any(map(of_them, (*added, *put)))


def lists(statement: ast.AST, direct: Sequence[ast.Call]) -> bool:
    """Whether a list is made of what some of the `direct` calls give: ``runs = [f(x) for x in xs]``."""
    calls = set(map(id, direct))
    return any(
        id(node) in calls
        for assigned in ast.walk(statement)
        if isinstance(assigned, ast.Assign)
        for made in ast.walk(assigned.value)
        if isinstance(made, ast.ListComp | ast.DictComp)
        for node in ast.walk(made)
    )


def works_on(loop: ast.AST, direct: Sequence[ast.Call], waits: Callable[[ast.Call], bool]) -> bool:
    """Whether a loop gives one of the `direct` calls something else in each round, or an optimizer makes its
    steps there, and does more with what comes of them than wait for it: one that measures hands over the
    same, or drops what it gets."""
    walked = list(ast.walk(loop))
    statements = [node for node in walked if isinstance(node, ast.stmt)]
    of_them = _coming_of(statements, direct)
    pairs = [(target, value) for each in statements for targets, value in _given(each) for target in targets]
    given = {node.id for target, _ in pairs for node in ast.walk(target) if isinstance(node, ast.Name)}
    calls = set(map(id, direct))
    handed = [
        node
        for call in walked
        if isinstance(call, ast.Call) and id(call) in calls
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        for node in ast.walk(argument)
        if isinstance(node, ast.Name)
    ]
    called = (node.func for node in walked if isinstance(node, ast.Call))
    steps = any(isinstance(function, ast.Attribute) and function.attr == "step" for function in called)
    if not steps and not any(node.id in given for node in handed):
        return False

    def used(node: ast.AST) -> bool:
        if isinstance(node, ast.Call) and waits(node):
            return False
        return (isinstance(node, ast.Name) and of_them(node)) or any(map(used, ast.iter_child_nodes(node)))

    if collects(loop, direct):
        return True
    # rows[:, at] = model(x)
    placed = (value for target, value in pairs if isinstance(target, ast.Subscript))
    decides = (node.test for node in walked if isinstance(node, ast.If | ast.While))
    done = (node.value for node in statements if isinstance(node, ast.Expr))
    return any(map(of_them, (*handed, *placed, *decides))) or any(map(used, done))


def _coming_of(statements: Sequence[ast.stmt], direct: Sequence[ast.Call]) -> Callable[[ast.AST], bool]:
    """Whether an expression has in it what comes of one of the `direct` calls in a loop of `statements`."""
    calls = set(map(id, direct))
    made: set[str] = set()

    def of_them(value: ast.AST) -> bool:
        return any(
            id(node) in calls or (isinstance(node, ast.Name) and node.id in made) for node in ast.walk(value)
        )

    # What is made further up in the text, as a loop goes on with it, takes another round.
    for statement in (*statements, *statements):
        for targets, value in _given(statement):
            if isinstance(statement, ast.Assign) and of_them(value):
                made |= {node.id for each in targets for node in ast.walk(each) if isinstance(node, ast.Name)}
    return of_them


def _given(statement: ast.AST) -> Iterator[tuple[list[ast.expr], ast.expr]]:
    """What a statement gives to which names: ``x = f()``, ``for x in f()``, ``x.copy_(f())``."""
    if isinstance(statement, ast.Assign):
        yield statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and statement.value is not None:
        yield [statement.target], statement.value
    elif isinstance(statement, ast.For | ast.AsyncFor | ast.comprehension):
        yield [statement.target], statement.iter
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr.endswith("_"):
            yield from (([func.value], argument) for argument in statement.value.args)


@lru_cache(maxsize=1)
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All of it: a program is asked many things."""
    return tuple(ast.walk(tree))


@lru_cache(maxsize=1)
def functions(tree: ast.Module) -> tuple[Function, ...]:
    """By their first line, inner ones behind those around them."""
    walked = (node for node in nodes(tree) if isinstance(node, Function))
    return tuple(sorted(walked, key=lambda node: node.lineno))


@lru_cache(maxsize=1)
def calls_by_name(tree: ast.Module) -> Mapping[str, Sequence[ast.Call]]:
    """By the dotted name of what is called."""
    calls: dict[str, list[ast.Call]] = {}
    for node in nodes(tree):
        if isinstance(node, ast.Call):
            calls.setdefault(dotted(node.func), []).append(node)
    return calls


def enclosing(tree: ast.Module, line: int) -> Function | None:
    """The innermost function around a line."""
    starts, around = _around(tree)
    place = bisect_right(starts, line) - 1
    return around[place] if place >= 0 else None


@lru_cache(maxsize=1)
def _around(tree: ast.Module) -> tuple[list[int], list[Function | None]]:
    """Lines from which on another function is the innermost one, and that function."""
    starts: list[int] = []
    around: list[Function | None] = []
    within: list[Function] = []

    def leave(line: float) -> None:
        while within and _last_line(within[-1]) < line:
            starts.append(_last_line(within.pop()) + 1)
            around.append(within[-1] if within else None)

    for function in functions(tree):
        leave(function.lineno)
        within.append(function)
        starts.append(function.lineno)
        around.append(function)
    leave(math.inf)
    return starts, around


def _last_line(function: Function) -> int:
    return function.end_lineno or function.lineno
