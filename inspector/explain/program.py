"""What the user's own source says, read as text and as a syntax tree; it is never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from itertools import islice

from inspector.frozen import dataclass
from inspector.model.explain import Evidence

from .syntax import dotted, functions, is_compile, nodes
from .timed_regions import WAITS, TimedRegion, timed_regions, waiting_name


@dataclass(frozen=True, slots=True)
class CompileCall:
    """One ``torch.compile`` in the source, with the options that are written out as constants."""

    line: int
    options: tuple[tuple[str, object], ...]
    name: str | None
    """What its result is bound to, None where that is not a plain name."""

    def option(self, name: str) -> object:
        return dict(self.options).get(name)


@dataclass(frozen=True, slots=True)
class Assignment:
    """``torch._dynamo.config.suppress_errors = True`` and the like: dotted target, constant value."""

    target: str
    value: object
    line: int


# def positions(length, width):
_DEF = re.compile(r"\s*def (\w+)\(")
_NAME = re.compile(r"\w+")
_CONDITIONS = ("if ", "elif ", "while ")
# left = int(mask.sum())
_MAKES = re.compile(r"(\w+)\s*=[^=]")
_MOST_REGIONS = 100
"""Of a program: more times nobody writes."""
# @lru_cache(None), @functools.cache
_CACHE = re.compile(r"@\s*(?:functools\.)?(?:lru_cache|cache)\b")


@dataclass(frozen=True, slots=True)
class Program:
    """One source file of the user's. `path` is as the run names it. Lines count from 1."""

    path: str
    lines: tuple[str, ...]
    compile_calls: tuple[CompileCall, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    regions: tuple[TimedRegion, ...] = ()
    backward_line: int | None = None
    threads: tuple[int, int] | None = None
    """(n, line) of ``torch.set_num_threads(n)``."""
    variables: tuple[Assignment, ...] = ()
    """``os.environ["OMP_NUM_THREADS"] = "1"``, by the variable's name."""
    compiled_names: frozenset[str] = field(default_factory=frozenset)

    def line(self, number: int) -> str:
        """The text of a line, stripped; empty where there is none."""
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def evidence(self, number: int) -> Evidence:
        """A line with its text."""
        return Evidence(self.path, number, self.line(number))

    def cached_function(self, number: int) -> str:
        """The name of the function around a line where it keeps its results (``functools.lru_cache``,
        ``cache``); otherwise empty."""
        around = next((i for i in range(number - 1, -1, -1) if _DEF.match(self._at(i))), None)
        if around is None:
            return ""
        above = around - 1
        while self._at(above).lstrip().startswith("@"):
            if _CACHE.search(self._at(above)):
                match = _DEF.match(self._at(around))
                return match[1] if match is not None else ""
            above -= 1
        return ""

    def _at(self, index: int) -> str:
        return self.lines[index] if 0 <= index < len(self.lines) else ""

    def in_loop(self, number: int) -> bool:
        """Whether a loop is around a line, up to the function that it is in."""
        width = _indentation(self.lines[number - 1]) if 0 < number <= len(self.lines) else 0
        for text in reversed(self.lines[: number - 1]):
            if not text.strip() or _indentation(text) >= width:
                continue
            width = _indentation(text)
            if text.lstrip().startswith(("for ", "while ", "async for ")):
                return True
            if text.lstrip().startswith(("def ", "async def ")):
                return False
        return False

    def decides(self, number: int) -> bool:
        """Whether a line is a condition, or makes a number that one further on in its function has."""
        text = self.line(number)
        if text.startswith(_CONDITIONS):
            return True
        made = _MAKES.match(text)
        if made is None:
            return False
        name = re.compile(rf"\b{made[1]}\b")
        for later in self.lines[number:]:
            text = later.lstrip()
            if text.startswith(("def ", "async def ", "class ")):
                return False
            if text.startswith(_CONDITIONS) and name.search(text):
                return True
        return False

    def hands_on(self) -> int | None:
        """The first line in which a compiled function is given what it returned, ``f = step(f, walls)``."""
        for number, text in enumerate(self.lines, 1):
            target, _, value = text.partition("=")
            name, _, given = value.strip().partition("(")
            if name in self.compiled_names and self.in_loop(number):
                made, taken = (set(_NAME.findall(each)) for each in (target, given))
                if made & taken:
                    return number
        return None

    def variable(self, name: str) -> Assignment | None:
        """Where the source sets that environment variable."""
        return next((item for item in self.variables if item.target == name), None)

    def assignment(self, ending: str) -> Assignment | None:
        """The last assignment to a target that ends so."""
        matching = [item for item in self.assignments if item.target.endswith(ending)]
        return matching[-1] if matching else None


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def read_program(text: str, path: str) -> Program:
    """Everything above; a file that is no Python gives its lines only."""
    lines = tuple(text.splitlines())
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Program(path, lines)
    calls = [node for node in nodes(tree) if isinstance(node, ast.Call)]
    compiled = _compiled(tree)
    names = frozenset(name for name, _ in compiled if name)
    reaching = _reaching(tree, names)
    waiting = _reaching(tree, WAITS - {"print"}, waiting_name)
    return Program(
        path=path,
        lines=lines,
        compile_calls=tuple(
            CompileCall(call.lineno, _options(call), name)
            for name, call in sorted(compiled, key=lambda item: item[1].lineno)
        ),
        assignments=tuple(_assignments(tree)),
        regions=tuple(islice(timed_regions(tree, names, reaching, waiting, text), _MOST_REGIONS)),
        backward_line=_first(
            calls, lambda name: name in ("backward", "grad") or name.endswith((".backward", "autograd.grad"))
        ),
        threads=_threads(calls),
        variables=tuple(_variables(tree)),
        compiled_names=names,
    )


def _options(call: ast.Call) -> tuple[tuple[str, object], ...]:
    return tuple(
        (keyword.arg, keyword.value.value)
        for keyword in call.keywords
        if keyword.arg and isinstance(keyword.value, ast.Constant)
    )


def _compiled(tree: ast.Module) -> list[tuple[str | None, ast.Call]]:
    """(name, call) of everything compiled: assigned, decorated, in place by ``model.compile()``."""
    calls: list[tuple[str | None, ast.Call]] = []
    seen: set[int] = set()
    for node in nodes(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            value = node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for call in ast.walk(value) if value is not None else ():
                if isinstance(call, ast.Call) and is_compile(call):
                    seen.add(id(call))
                    calls.append((dotted(targets[0]) or None, call))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                decorating = _decorator_call(decorator)
                if decorating is not None:
                    seen.add(id(decorator))
                    calls.append((node.name, decorating))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "compile"
        ):
            owner = dotted(node.func.value)
            if owner and owner not in ("torch", "re"):
                calls.append((owner, node))
    named = {id(call) for _, call in calls} | seen
    calls += [
        (None, node)
        for node in nodes(tree)
        if isinstance(node, ast.Call) and is_compile(node) and id(node) not in named
    ]
    return calls


def _decorator_call(node: ast.expr) -> ast.Call | None:
    """The call in ``@torch.compile``, ``@torch.compile(...)`` or ``@partial(torch.compile, ...)``."""
    if dotted(node) == "torch.compile":
        bare = ast.Call(node, [], [])
        return ast.copy_location(bare, node)
    if isinstance(node, ast.Call):
        if is_compile(node):
            return node
        if any(dotted(argument) == "torch.compile" for argument in node.args):
            return node
    return None


def _reaching(
    tree: ast.Module,
    names: frozenset[str],
    name_of: Callable[[ast.Call], str] = lambda call: dotted(call.func),
) -> frozenset[str]:
    """`names` and every function of the file that calls one of them, directly or not."""
    bodies = {
        node.name: {name_of(call) for call in ast.walk(node) if isinstance(call, ast.Call)}
        for node in functions(tree)
    }
    known = set(names)
    grew = True
    while grew:
        new = {name for name, called in bodies.items() if name not in known and called & known}
        known |= new
        grew = bool(new)
    return frozenset(known)


def _assignments(tree: ast.Module) -> Iterator[Assignment]:
    for node in nodes(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    yield Assignment(dotted(target), node.value.value, node.lineno)


def _variables(tree: ast.Module) -> Iterator[Assignment]:
    for node in nodes(tree):
        pair: tuple[ast.expr, ast.expr] | None = None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            if dotted(node.targets[0].value).endswith("environ"):
                pair = (node.targets[0].slice, node.value)
        elif isinstance(node, ast.Call) and dotted(node.func).endswith("environ.setdefault"):
            pair = (node.args[0], node.args[1]) if len(node.args) == 2 else None
        if pair is not None and isinstance(pair[0], ast.Constant) and isinstance(pair[1], ast.Constant):
            yield Assignment(str(pair[0].value), pair[1].value, pair[1].lineno)


def _first(calls: Iterable[ast.Call], wanted: Callable[[str], bool]) -> int | None:
    lines = [call.lineno for call in calls if wanted(dotted(call.func))]
    return min(lines) if lines else None


def _threads(calls: Iterable[ast.Call]) -> tuple[int, int] | None:
    for call in calls:
        if dotted(call.func).endswith("set_num_threads") and call.args:
            value = call.args[0]
            if isinstance(value, ast.Constant) and isinstance(value.value, int):
                return value.value, call.lineno
    return None
