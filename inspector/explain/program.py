"""What the user's own source says, read as text and as a syntax tree; it is never executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field, replace
from functools import lru_cache

from inspector.frozen import dataclass

from .feeding import feeding

CLOCKS = frozenset(
    {
        "perf_counter",
        "perf_counter_ns",
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "process_time",
        "default_timer",
    }
)
DATA_MAKERS = frozenset(
    {"randn", "rand", "randint", "randperm", "normal", "zeros", "ones", "full", "arange", "from_numpy",
     "randn_like", "rand_like", "uniform", "standard_normal", "random_sample", "linspace"}
)  # fmt: skip
TRANSFERS = frozenset({"cuda", "cpu", "to", "pin_memory"})
SYNCS = frozenset({"item", "tolist", "numpy"})
WAITS = SYNCS | {"synchronize", "cpu", "elapsed_time", "print"}
_ROBUST = ("median(", "min(", "quantile(", "percentile(", "quantiles(")


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
class TimedRegion:
    """Code between reading a clock and taking the difference.

    `includes_first_call`: nothing called the compiled function before it. `waits`: something in it waits for
    the device. `data_lines` are lines inside it that make tensors, `transfer_lines` those that move some
    between devices, `compile_lines` those that call ``torch.compile``. `robust`: only a median, a minimum or
    the like of its times is used. `each_round`: it is one round of a loop, whose time is not kept, as a
    training loop logs it.
    """

    first: int
    last: int
    calls_compiled: bool
    includes_first_call: bool
    waits: bool
    data_lines: tuple[int, ...]
    transfer_lines: tuple[int, ...]
    compile_lines: tuple[int, ...]
    robust: bool
    each_round: bool = False


@dataclass(frozen=True, slots=True)
class Assignment:
    """``torch._dynamo.config.suppress_errors = True`` and the like: dotted target, constant value."""

    target: str
    value: object
    line: int


# def positions(length, width):
_DEF = re.compile(r"\s*def (\w+)\(")
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
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    compiled = _compiled(tree)
    names = frozenset(name for name, _ in compiled if name)
    reaching = _reaching(tree, names)
    waiting = _reaching(tree, WAITS - {"print"}, _tail)
    return Program(
        path=path,
        lines=lines,
        compile_calls=tuple(
            CompileCall(call.lineno, _options(call), name)
            for name, call in sorted(compiled, key=lambda item: item[1].lineno)
        ),
        assignments=tuple(_assignments(tree)),
        regions=tuple(_regions(tree, reaching, waiting, text)),
        backward_line=_first(
            calls, lambda name: name in ("backward", "grad") or name.endswith((".backward", "autograd.grad"))
        ),
        threads=_threads(calls),
        variables=tuple(_variables(tree)),
        compiled_names=names,
    )


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of a name or attribute; the tail only where the front is an expression."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        names.append(node.id)
    return ".".join(reversed(names))


def _tail(call: ast.Call) -> str:
    return dotted(call.func).rsplit(".", 1)[-1]


def _is_compile(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) in ("torch.compile", "compile", "torch.optimize")


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
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            value = node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for call in ast.walk(value) if value is not None else ():
                if isinstance(call, ast.Call) and _is_compile(call):
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
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_compile(node) and id(node) not in named
    ]
    return calls


def _decorator_call(node: ast.expr) -> ast.Call | None:
    """The call in ``@torch.compile``, ``@torch.compile(...)`` or ``@partial(torch.compile, ...)``."""
    if dotted(node) == "torch.compile":
        bare = ast.Call(node, [], [])
        return ast.copy_location(bare, node)
    if isinstance(node, ast.Call):
        if _is_compile(node):
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
        for node in _functions(tree)
    }
    known = set(names)
    grew = True
    while grew:
        new = {name for name, called in bodies.items() if name not in known and called & known}
        known |= new
        grew = bool(new)
    return frozenset(known)


def _assignments(tree: ast.Module) -> Iterator[Assignment]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    yield Assignment(dotted(target), node.value.value, node.lineno)


def _variables(tree: ast.Module) -> Iterator[Assignment]:
    for node in ast.walk(tree):
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


# -- timed regions


def _regions(
    tree: ast.Module, reaching: frozenset[str], waiting: frozenset[str], text: str
) -> Iterator[TimedRegion]:
    robust = any(word in text for word in _ROBUST)
    for owner in ast.walk(tree):
        for body in (getattr(owner, "body", None), getattr(owner, "orelse", None)):
            if isinstance(body, list):
                looping = isinstance(owner, ast.For | ast.While | ast.AsyncFor) and body is owner.body
                for region, end in _regions_of_body(tree, body, reaching, waiting, robust):
                    yield replace(region, each_round=looping and not _kept(end))


def _regions_of_body(
    tree: ast.Module,
    body: list[ast.stmt],
    reaching: frozenset[str],
    waiting: frozenset[str],
    robust: bool,
) -> Iterator[tuple[TimedRegion, ast.stmt]]:
    """Each with the statement that takes the difference."""
    for index, statement in enumerate(body):
        clock = _clock_target(statement)
        if clock is None:
            continue
        for end in range(index + 1, len(body)):
            if _takes_difference(body[end], clock):
                inside = body[index + 1 : end + 1]
                yield _region(tree, statement.lineno, inside, reaching, waiting, robust), body[end]
                break


def _region(
    tree: ast.Module,
    first: int,
    inside: list[ast.stmt],
    reaching: frozenset[str],
    waiting: frozenset[str],
    robust: bool,
) -> TimedRegion:
    last = max(statement.end_lineno or statement.lineno for statement in inside)
    calls = [call for statement in inside for call in ast.walk(statement) if isinstance(call, ast.Call)]
    function = _enclosing(tree, first)
    callees = _callees(tree, function, reaching)
    direct = [call for call in calls if dotted(call.func) in callees]
    warm = _called_before(tree, function, first, callees, reaching)
    data = [
        call.lineno
        for call in feeding(inside, direct)
        if _tail(call) in DATA_MAKERS and dotted(call.func).split(".")[0] not in callees
    ]
    moves = [call.lineno for call in calls if _is_transfer(call)]
    compiles = [call.lineno for call in calls if _is_compile(call)]
    return TimedRegion(
        first=first,
        last=last,
        calls_compiled=bool(direct),
        includes_first_call=bool(direct) and (not warm or bool(compiles)),
        waits=_waits(inside, waiting),
        data_lines=tuple(sorted(set(data))),
        transfer_lines=tuple(sorted(set(moves))),
        compile_lines=tuple(sorted(set(compiles))),
        robust=robust,
    )


def _kept(statement: ast.stmt) -> bool:
    """``times.append(...)``, ``total += ...``: the times of all rounds are put together."""
    appended = any(isinstance(node, ast.Call) and _tail(node) == "append" for node in ast.walk(statement))
    return appended or isinstance(statement, ast.AugAssign)


# sync(), device_sync(), accelerator.synchronize(), but not async_call()
_SYNC = re.compile(r"(?<![aA])sync")


def _waits(inside: list[ast.stmt], waiting: frozenset[str]) -> bool:
    """Whether something needs a result before the clock is read again: what `waiting` names, a function of
    another file by its name. The last statement reads the clock: what that prints is the time."""
    return any(
        _tail(call) in (waiting if statement is inside[-1] else waiting | {"print"})
        or _SYNC.search(_tail(call)) is not None
        for statement in inside
        for call in ast.walk(statement)
        if isinstance(call, ast.Call)
    )


def _clock_target(statement: ast.stmt) -> str | None:
    """`t0` of ``t0 = time.perf_counter()``."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    name = dotted(call.func)
    if name.rsplit(".", 1)[-1] not in CLOCKS or call.args:
        return None
    return dotted(statement.targets[0]) or None


def _takes_difference(statement: ast.stmt, clock: str) -> bool:
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and dotted(node.right) == clock
        for node in ast.walk(statement)
    )


@lru_cache(maxsize=1)
def _functions(tree: ast.Module) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    """By their first line, inner ones behind those around them."""
    walked = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return tuple(sorted(walked, key=lambda node: node.lineno))


def _enclosing(tree: ast.Module, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The innermost function around a line."""
    around = (node for node in reversed(_functions(tree)) if node.lineno <= line <= (node.end_lineno or line))
    return next(around, None)


def _callees(
    tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef | None, reaching: frozenset[str]
) -> frozenset[str]:
    """Names that stand for compiled code inside `function`: with its parameters, where a compiled
    function is handed to it."""
    if function is None:
        return reaching
    names = [argument.arg for argument in function.args.args]
    handed = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and dotted(call.func) == function.name:
            for name, value in zip(names, call.args, strict=False):
                if _mentions(value, reaching):
                    handed.add(name)
            handed |= {
                keyword.arg for keyword in call.keywords if keyword.arg and _mentions(keyword.value, reaching)
            }
    return reaching | frozenset(handed)


def _mentions(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether an expression is compiled code: one of `names`, or a ``torch.compile`` on the spot."""
    return any(
        _is_compile(part) or (isinstance(part, ast.Name | ast.Attribute) and dotted(part) in names)
        for part in ast.walk(node)
    )


def _called_before(
    tree: ast.Module,
    function: ast.FunctionDef | ast.AsyncFunctionDef | None,
    first: int,
    callees: frozenset[str],
    reaching: frozenset[str],
) -> bool:
    """Whether compiled code was called before line `first`: above it in the same function, or above the
    calls of that function at module level."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or dotted(call.func) not in callees:
            continue
        if call.lineno < first and _enclosing(tree, call.lineno) is function:
            return True
    if function is None:
        return False
    sites = [
        call.lineno
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and dotted(call.func) == function.name
        and _enclosing(tree, call.lineno) is not function
    ]
    site = min(sites, default=0)
    around_site = _enclosing(tree, site) if site else None
    return any(
        isinstance(call, ast.Call)
        and dotted(call.func) in reaching
        and dotted(call.func) != function.name
        and call.lineno < site
        and _enclosing(tree, call.lineno) is around_site
        for call in ast.walk(tree)
    )


def _is_transfer(call: ast.Call) -> bool:
    name = _tail(call)
    if name not in TRANSFERS or not isinstance(call.func, ast.Attribute):
        return False
    if name != "to":
        return True
    words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    named = [dotted(argument) for argument in call.args] + [keyword.arg or "" for keyword in call.keywords]
    return any(isinstance(word, str) for word in words) or any("dev" in name.lower() for name in named)
