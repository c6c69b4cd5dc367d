"""Where a program times itself: what lies between reading a clock and taking the difference."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from inspector.frozen import dataclass

from .syntax import (
    Function,
    calls_by_name,
    collects,
    dotted,
    enclosing,
    feeding,
    is_compile,
    lists,
    nodes,
    tail,
    works_on,
)

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
WAITS = frozenset(
    {"item", "tolist", "numpy", "synchronize", "cpu", "elapsed_time", "print", "nonzero", "argwhere",
     "masked_select", "unique", "unique_consecutive", "equal", "allclose"}
)  # fmt: skip
_READS = frozenset({"float", "int", "bool"})
"""Of a tensor, each waits for its value as `item` does."""
_NUMBERS = re.compile(r"[A-Z0-9_]+|sys\.argv|os\.environ|len|round|math\.\w+|args\.\w+")
"""Names that stand for no tensor."""
# statistics.median(times), min(times), np.min(times), but not x.clamp_min(0); sorted(times)[n // 2], or
# times.sort(), or times = sorted(times), with times[n // 2] behind it
_ROBUST = re.compile(
    r"\b(?:median|quantiles?|percentile)\(|(?:(?<![\w.])|\bnp\.|\bnumpy\.)min\("
    r"|\bsorted\(\w+\)\[[^\]:]+\]|\b(\w+)(?:\.sort\(\)| = sorted\()(?s:.)*?\b\1\[[^\]:]+\]"
)
_OF_A_FIRST = re.compile(
    r"\bwarm|\bcompil(?:ing|ation)\b|\bcompile[ -]time|\bcold\b|\bfirst (?:call|step|run|iteration|batch)",
    re.I,
)

_Loop = ast.For | ast.While | ast.AsyncFor


@dataclass(frozen=True, slots=True)
class TimedRegion:
    """Code between reading a clock and taking the difference.

    `includes_first_call`: nothing called the compiled function before it. `waits`: something in it waits for
    the device. `data_lines` are lines inside it that make tensors, `transfer_lines` those that move some
    between devices, `compile_lines` those that call ``torch.compile``. `robust`: only a median, a minimum or
    the like of its times is used. `logged`: its time is not kept, and it is one round of a loop, or some of
    them until the loop sets the clock again, or a training as a whole, or what has passed since the loop
    began: what such a program says of it is no measurement of one call. `nothing_else`: all that
    is called in it are compiled functions. `named`: the program calls its time that of a warm-up, of a first
    call, or of compiling. `job`: a loop in it adds up or collects what compiled code gives, so that its time
    is that of the program's work, whatever is part of that.
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
    logged: bool = False
    nothing_else: bool = False
    named: bool = False
    job: bool = False


def timed_regions(
    tree: ast.Module,
    compiled: frozenset[str],
    reaching: frozenset[str],
    waiting: frozenset[str],
    text: str,
) -> Iterator[TimedRegion]:
    """Regions of a program, in which functions are `compiled`, reach these, or wait for a device."""
    robust = _ROBUST.search(text) is not None
    for owner in nodes(tree):
        for body in (getattr(owner, "body", None), getattr(owner, "orelse", None)):
            if isinstance(body, list):
                looping = isinstance(owner, _Loop) and body is owner.body
                around = owner if looping else None
                for region, end, clock in _regions_of_body(tree, body, around, reaching, waiting, robust):
                    carried = _carrying(owner, region) if looping else frozenset()
                    taken = _difference_statements(end, clock)
                    rounds = (
                        looping
                        or _told(_unwrapped(end, clock), clock, taken)
                        or _training(body, region, clock)
                    )
                    yield replace(
                        region,
                        logged=rounds and not any(_kept(tree, item) for item in taken),
                        robust=robust or (looping and _first_left_out(owner, end, text)),
                        data_lines=tuple(line for line in region.data_lines if line not in carried),
                        nothing_else=looping and _calls_only(compiled, body, region),
                        named=_named(tree, end, taken),
                    )


def _regions_of_body(
    tree: ast.Module,
    body: list[ast.stmt],
    around: ast.AST | None,
    reaching: frozenset[str],
    waiting: frozenset[str],
    robust: bool,
) -> Iterator[tuple[TimedRegion, ast.stmt, str]]:
    """Each with the statement that takes the difference, and the clock's name."""
    clocks = {index: clock for index, one in enumerate(body) if (clock := _clock_target(one)) is not None}
    ends = _differences(body) if clocks else {}
    for index, clock in clocks.items():
        later = ends.get(clock, [])
        if (place := bisect_right(later, index)) < len(later):
            end = later[place]
            inside = body[index + 1 : end + 1]
            region = _region(tree, body[index].lineno, inside, around, reaching, waiting, robust)
            yield region, body[end], clock


def _region(
    tree: ast.Module,
    first: int,
    inside: list[ast.stmt],
    around: ast.AST | None,
    reaching: frozenset[str],
    waiting: frozenset[str],
    robust: bool,
) -> TimedRegion:
    last = max(statement.end_lineno or statement.lineno for statement in inside)
    calls = [call for statement in inside for call in ast.walk(statement) if isinstance(call, ast.Call)]
    function = enclosing(tree, first)
    callees = _callees(tree, function, reaching)
    direct = [call for call in calls if dotted(call.func) in callees]
    # minimize(fun, start): what others call is called there.
    handed = [
        call
        for call in calls
        if any(isinstance(each, ast.Name | ast.Attribute) and dotted(each) in callees for each in call.args)
    ]
    working = [*direct, *handed]
    warm = _called_before(tree, function, first, callees, reaching)
    fed = feeding(inside, direct)
    data = [
        call.lineno
        for call in fed
        if tail(call) in DATA_MAKERS and dotted(call.func).split(".")[0] not in callees
    ]
    # What is moved afterwards is the result.
    moves = [call.lineno for call in fed if _is_transfer(call)]
    compiles = [call.lineno for call in calls if is_compile(call)]
    loops: list[ast.AST] = [node for each in inside for node in ast.walk(each) if isinstance(node, _Loop)]
    rounds = loops if around is None else [*loops, around]
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
        job=any(collects(loop, working) for loop in loops)
        or any(lists(statement, working) for statement in inside)
        or any(works_on(loop, working, _only_waits) for loop in rounds),
    )


def _only_waits(call: ast.Call) -> bool:
    """Whether a call does nothing with a tensor but to wait for it, or to tell its value."""
    return tail(call) in WAITS | _READS


def _calls_only(compiled: frozenset[str], body: Sequence[ast.stmt], region: TimedRegion) -> bool:
    """Whether only `compiled` functions are called behind a clock, up to where its difference is taken."""
    inside = [item for item in body if region.first < item.lineno and (item.end_lineno or 0) <= region.last]
    calls = [call for item in inside[:-1] for call in ast.walk(item) if isinstance(call, ast.Call)]
    names = {dotted(call.func) for call in calls if tail(call) not in WAITS | _READS}
    return bool(names) and names <= compiled


def _named(tree: ast.Module, end: ast.stmt, taken: Sequence[ast.stmt]) -> bool:
    """Whether what takes the difference, or says what it was, calls it that of a first call."""
    said: list[ast.AST] = [] if isinstance(end, _Loop) else [end]
    names = {dotted(target) for item in taken if isinstance(item, ast.Assign) for target in item.targets} - {
        ""
    }
    function = enclosing(tree, end.lineno)
    said += [
        call
        for call in (nodes(tree) if function is None else ast.walk(function))
        if isinstance(call, ast.Call) and names and _mentions(call, frozenset(names))
    ]
    texts = [
        node.value
        for item in said
        for node in ast.walk(item)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return any(_OF_A_FIRST.search(text.replace("_", " ")) for text in (*texts, *names))


def _carrying(loop: ast.AST, region: TimedRegion) -> frozenset[int]:
    """Lines of a region that go on with what an earlier round made, as a proposal does that a walk may take:
    they read a name that the loop gives a value to further on."""
    assigned = [node for node in ast.walk(loop) if isinstance(node, ast.Assign)]
    # Name -> the last line that gives it a value.
    given: dict[str, int] = {}
    for node in assigned:
        for name in (name for target in node.targets for name in ast.walk(target)):
            if isinstance(name, ast.Name):
                given[name.id] = max(given.get(name.id, 0), node.lineno)
    lines: set[int] = set()
    for node in assigned:
        last = node.end_lineno or node.lineno
        if region.first < node.lineno and last <= region.last:
            read = (name.id for name in ast.walk(node.value) if isinstance(name, ast.Name))
            if any(given.get(name, 0) > last for name in read):
                lines.update(range(node.lineno, last + 1))
    return frozenset(lines)


def _first_left_out(loop: ast.AST, end: ast.stmt, text: str) -> bool:
    """Whether of a loop's times only later ones are used: ``times[len(times) // 2:]``, or taken: ``if step >=
    warmup:``, ``total += (now - before) * (step >= warmup)``."""
    if isinstance(loop, ast.For):
        factors = [
            side
            for node in ast.walk(end)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
            for side in (node.left, node.right)
            if isinstance(side, ast.Compare)
        ]
        tests = [end.test, *factors] if isinstance(end, ast.If) else factors
        if any(_later(loop, test) for test in tests):
            return True
    for call in ast.walk(end):
        if isinstance(call, ast.Call) and tail(call) == "append" and isinstance(call.func, ast.Attribute):
            name = re.escape(dotted(call.func.value))
            whole = re.search(rf"\b(?!len\b)\w+\(\s*{name}\s*\)", text)
            return whole is None and re.search(rf"\b{name}\[\s*[^\]:\s][^\]:]*:\s*\]", text) is not None
    return False


def _later(loop: ast.For, test: ast.expr) -> bool:
    """Whether a condition on how far a loop has come leaves its first round out."""
    counted = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        behind, ahead = isinstance(test.ops[0], ast.Gt | ast.GtE), isinstance(test.ops[0], ast.Lt | ast.LtE)
        counter = left if behind else right if ahead else None
    else:
        counter = test
    return isinstance(counter, ast.Name) and counter.id in counted


def _unwrapped(statement: ast.stmt, clock: str) -> ast.stmt:
    """What takes the difference to a clock inside of ``with torch.no_grad():`` and the like."""
    while isinstance(statement, ast.With | ast.AsyncWith | ast.Try):
        inside = [item for item in statement.body if _difference_statements(item, clock)]
        if not inside:
            break
        statement = inside[0]
    return statement


def _told(end: ast.stmt, clock: str, taken: Sequence[ast.stmt]) -> bool:
    """Whether a loop tells now and then the difference that it has `taken` of a clock: of one that it sets
    again, as a training loop does that logs a step's time every so often, so that only the first of its times
    has the first call; or as it is, how long the program has been at it."""
    if not isinstance(end, _Loop):
        return False
    inside = [node for node in ast.walk(end) if isinstance(node, ast.Assign)]
    again = any(clock in map(dotted, node.targets) for node in inside)
    return (again and bool(taken)) or not _divided(end, clock, taken)


def _training(body: Sequence[ast.stmt], region: TimedRegion, clock: str) -> bool:
    """Whether the clock is around a loop that trains, and its difference is told as it is: not by step."""
    inside = [item for item in body if region.first < item.lineno and (item.end_lineno or 0) <= region.last]
    trains = any(
        isinstance(node, ast.Call) and tail(node) == "backward"
        for item in inside
        if isinstance(item, ast.For | ast.While)
        for node in ast.walk(item)
    )
    return trains and not any(_divided(item, clock, _difference_statements(item, clock)) for item in inside)


def _divided(statement: ast.stmt, clock: str, taken: Sequence[ast.stmt]) -> bool:
    """Whether the difference `taken` of a clock, or a name that it is given, is divided or divides: a time of
    each step, or a rate."""
    assigned = (node for node in taken if isinstance(node, ast.Assign))
    names = frozenset({clock}).union(*(map(dotted, node.targets) for node in assigned))
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _mentions(node, names)
        for node in ast.walk(statement)
    )


def _difference_statements(statement: ast.stmt, clock: str) -> list[ast.stmt]:
    """Those inside of it that take the difference to a clock."""
    inside = [
        node for node in ast.walk(statement) if isinstance(node, ast.stmt) and not hasattr(node, "body")
    ]
    return [node for node in inside if clock in _differences([node])]


def _kept(tree: ast.Module, statement: ast.stmt) -> bool:
    """``times.append(...)``, ``total += ...``: the times of all rounds are put together, but for a list of
    which the program never has more than ``times[-1]``."""
    lists = {
        dotted(node.func.value)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and tail(node) == "append" and isinstance(node.func, ast.Attribute)
    }
    return isinstance(statement, ast.AugAssign) or any(_read_whole(tree, name) for name in lists)


def _read_whole(tree: ast.Module, name: str) -> bool:
    """Whether a list is read otherwise than for its last element, or to append to it."""
    lasts = [
        node for node in nodes(tree) if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "-1"
    ]
    appends = [node for node in nodes(tree) if isinstance(node, ast.Attribute) and node.attr == "append"]
    told, added = (sum(dotted(node.value) == name for node in each) for each in (lasts, appends))
    reads = sum(
        isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == name
        for node in nodes(tree)
    )
    return not told or reads > told + added


# sync(), device_sync(), accelerator.synchronize(), but not async_call()
_SYNC = re.compile(r"(?<![aA])sync")


def _waits(inside: list[ast.stmt], waiting: frozenset[str]) -> bool:
    """Whether something may need a result before the clock is read again: what `waiting` names, a function of
    another file by its name, a number or a choice that is made of what may be a tensor. The last statement
    reads the clock: what that prints is the time."""
    return any(
        waiting_name(node) in (waiting if statement is inside[-1] else waiting | {"print"})
        or _SYNC.search(tail(node)) is not None
        if isinstance(node, ast.Call)
        else isinstance(node, ast.If | ast.While | ast.Assert | ast.IfExp) and _reduced(node.test)
        for statement in inside
        for node in ast.walk(statement)
    )


def waiting_name(call: ast.Call) -> str:
    """The last part of a call's name; `item` for ``float(loss)``, empty for ``float(len(x))`` and for what is
    made of a difference, as times are."""
    name = tail(call)
    if name not in _READS or not isinstance(call.func, ast.Name):
        return name
    parts = list(_parts(call.args))
    times = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) for node in parts)
    return "item" if not times and any(isinstance(node, ast.Name | ast.Attribute) for node in parts) else ""


def _parts(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Expressions and what is in them, but for what stands for no tensor."""
    left = list(nodes)
    while left:
        node = left.pop()
        name = dotted(node.func if isinstance(node, ast.Call) else node)
        if not name or _NUMBERS.fullmatch(name) is None:
            yield node
            if not isinstance(node, ast.Attribute | ast.JoinedStr):
                left += ast.iter_child_nodes(node)


def _reduced(test: ast.expr) -> bool:
    """Whether a choice is made by ``(x > 0).any()`` or the like, as Python's own take an argument."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and tail(node) in ("any", "all", "isfinite", "isnan", "max", "min", "sum")
        for node in ast.walk(test)
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


def _differences(body: Sequence[ast.stmt]) -> dict[str, list[int]]:
    """Clock's name -> the places of statements that take the difference to it, in order."""
    places: dict[str, list[int]] = {}
    for index, statement in enumerate(body):
        subtracted = {
            dotted(node.right)
            for node in ast.walk(statement)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        }
        for name in subtracted:
            places.setdefault(name, []).append(index)
    return places


def _callees(tree: ast.Module, function: Function | None, reaching: frozenset[str]) -> frozenset[str]:
    """Names that stand for compiled code inside `function`: with its parameters, where a compiled
    function is handed to it."""
    if function is None:
        return reaching
    names = [argument.arg for argument in function.args.args]
    handed = set()
    for call in calls_by_name(tree).get(function.name, ()):
        handed |= {name for name, value in zip(names, call.args, strict=False) if _mentions(value, reaching)}
        handed |= {
            keyword.arg for keyword in call.keywords if keyword.arg and _mentions(keyword.value, reaching)
        }
    return reaching | frozenset(handed)


def _mentions(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether an expression is compiled code: one of `names`, or a ``torch.compile`` on the spot."""
    return any(
        is_compile(part) or (isinstance(part, ast.Name | ast.Attribute) and dotted(part) in names)
        for part in ast.walk(node)
    )


def _called_before(
    tree: ast.Module,
    function: Function | None,
    first: int,
    callees: frozenset[str],
    reaching: frozenset[str],
) -> bool:
    """Whether compiled code was called before line `first`: above it in the same function, or above the
    calls of that function at module level."""
    calls = calls_by_name(tree)
    for name in callees:
        if any(
            call.lineno < first and enclosing(tree, call.lineno) is function for call in calls.get(name, ())
        ):
            return True
    if function is None:
        return False
    sites = [
        call.lineno for call in calls.get(function.name, ()) if enclosing(tree, call.lineno) is not function
    ]
    site = min(sites, default=0)
    around_site = enclosing(tree, site) if site else None
    return any(
        call.lineno < site and enclosing(tree, call.lineno) is around_site
        for name in reaching - {function.name}
        for call in calls.get(name, ())
    )


def _is_transfer(call: ast.Call) -> bool:
    name = tail(call)
    if name not in TRANSFERS or not isinstance(call.func, ast.Attribute):
        return False
    if name != "to":
        return True
    words = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    named = [dotted(argument) for argument in call.args] + [keyword.arg or "" for keyword in call.keywords]
    return any(isinstance(word, str) for word in words) or any("dev" in name.lower() for name in named)
