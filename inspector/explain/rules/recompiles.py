"""The same function is compiled again and again, because a guard on its inputs fails.

Looks at: recompiles with their guards, and the time of the calls during which Dynamo worked after the first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from inspector.analysis.guard_words import (
    bare_guard,
    fixed_size,
    guard_source,
    guard_text,
    made_elsewhere,
    of_compilation,
    of_parameter,
    pinned_by,
)
from inspector.analysis.program_calls import of_module
from inspector.analysis.steady import MOST
from inspector.explain.case import Case
from inspector.explain.changes import Change, replace_in
from inspector.explain.rule import Rule, Stage, louder, severity_of, source_evidence
from inspector.model.calls import Event
from inspector.model.compilation import Specialization
from inspector.model.explain import Evidence, Finding, Severity, Trial
from inspector.model.logs import telling
from inspector.model.source import (
    SourceLocation,
    function_name,
    is_around,
    is_library,
    own_name,
    users_place,
)
from inspector.units import duration, percent, plural

# tensor 'x' size mismatch at index 0. expected 4, actual 1; 2 <= x.size()[0] <= 2147483647
_ZERO_ONE = re.compile(
    r"size mismatch at index \d+\. expected \d+, actual [01]$|expected [01], actual \d+$"
    r"|^2 <= [\w.\[\]']{1,400}\.size\(\)\[\d+\]"
)
_SIZE = re.compile(
    r"size mismatch at|\.size\(\)|\.shape\[|\bs\d+\b|\bEq\(|\bNe\(|\.numel\(\)|\b\d+ <= .{1,1000}\.size"
)
_FLAG = re.compile(r"(?:==|!=|\bis) (?:True|False|None|'[^']*')$|^not |^(?:\w+\()?L\['\w+'\](?:\.\w+)*$")
_TRUTH = re.compile(r"(?:==|!=|\bis) (?:True|False)$|^not ")
_ATTRIBUTE = re.compile(r"\bself'?\]?\.[\w.\[\]']{1,400} == -?[\d.]+")
# L['n'] == 3, ((-0.1)*t) == (-0.05)
_NUMBER = re.compile(r"== \(?-?\d[\d.]*(?:e-?\d+)?\)?$")
# (1024*(t % 2)) != 0, 400 + i*i + ((-40)*i) >= 2
_OF_NUMBERS = re.compile(r"(?=.*[A-Za-z_])[\w\s()*+/%.-]{1,400} (?:[!=]=|[<>]=?) -?[\d.]+$")
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("train", re.compile(r"\.training\b")),
    (
        "grad",
        re.compile(r"grad_mode|requires_grad|___check_global_state|inference_mode|_torch_function", re.I),
    ),
    ("mismatch", re.compile(r"(?:dtype|device|rank|stride|dispatch key set) mismatch|type\(|to be a tensor")),
    ("zero_one", _ZERO_ONE),
    ("size", _SIZE),
    ("parts", re.compile(r"\b(?:len|___check_type_id)\([\w.\[\]']{1,400}\b_modules\b")),
    ("table", re.compile(r"\blen\(G\['__import_")),
    ("length", re.compile(r"\blen\(")),
    ("global", re.compile(r"G\['")),
    ("alias", re.compile(r"^[\w.\[\]']{1,400} is (?!True\b|False\b|None\b)[A-Za-z_][\w.\[\]']{0,400}$")),
    ("object", re.compile(r"check_obj_id|___check_type_id|\.__code__|\.__closure__|id\(")),
    ("flag", _FLAG),
    ("optimizer", re.compile(r"\bparam_groups\[\d+\]\['\w+'\](?:\)\.item\(\))? == ")),
    ("attribute", _ATTRIBUTE),
    ("number", _NUMBER),
    ("number", _OF_NUMBERS),
)
"""What a guard checks, by its own text (torch/_dynamo/guards.py), the first that fits."""
_ADVICE = {
    "train": "train and eval mode need one graph each; switch modes less often, or compile two models",
    "grad": "call it with and without gradients from separate compiled functions",
    "made": "tensors that are made in torch.inference_mode() are of another kind: make the first ones, as a "
    "state or buffers, in it as well",
    "parameter": "a parameter's shape is fixed in each graph: update all parameters in one call",
    "mismatch": "give it tensors of the same dtype, rank, strides and device in every call",
    "zero_one": "sizes of 0 and 1 are compiled apart, with dynamic=True too: a graph for these is what it "
    "takes, as for decoding after a prompt",
    "parts": "modules of one class that have other parts are compiled apart: a graph for each kind of them "
    "is what it takes",
    "table": "a library fills a table of its own when it is first used: call the same once in eager, "
    "before the first compiled call",
    "length": "the length of a list or dict is part of the guard: hand over the same number, or one tensor",
    "global": "a global that changes is part of the guard: change it outside the compiled function",
    "alias": "the same tensor that is handed over twice is compiled apart: hand over tensors of their own "
    "from the first call on (x.clone())",
    "object": "a function or object made anew is part of the guard: make it once, outside the calls",
    "flag": "each value of a flag needs a graph of its own: choose outside the compiled function",
    "optimizer": "an optimizer's number that changes is part of the guard: give it as a tensor, which a "
    "scheduler fills (lr=torch.tensor(1e-3))",
    "attribute": "an int of a module's that changes is part of the guard: make it a tensor (a buffer), or "
    "torch._dynamo.config.allow_unspec_int_on_nn_module = True",
    "number": "a number that changes is part of the guard: pass it as a tensor, or keep it out of the "
    "compiled function",
    "": "keep what the guard checks the same between calls: types, dtypes, globals, closures",
}
_UNSPECIALISED = Trial(config=(("dynamo.allow_unspec_int_on_nn_module", True),))
_LET_SIZES = "or let their sizes be dynamic: torch._dynamo.config.force_parameter_static_shapes = False"
_DYNAMIC_PARAMETERS = Trial(config=(("dynamo.force_parameter_static_shapes", False),))
"""Of as many dimensions each: an update of matrices and vectors reached the limit with it as well."""
# L['n'] == 3, tensor 'x' size mismatch at index 0. expected 4, actual 8
_VALUE = re.compile(r" == |\. expected ")
# n_steps, L['n_steps']
_NAME = re.compile(r"^(?:L\[')?([A-Za-z_]\w*)(?:'\])?$")
_FROM_BREAK = re.compile(r"\b___stack\d")
"""A local of a resume function: what a graph break handed on (torch/_dynamo/resume_execution.py)."""
_ONCE = frozenset({"train", "grad", "size", "zero_one", "number", "flag", "parts", "table"})
"""What a function is compiled once more for by design (torch/_dynamo/config.py: automatic_dynamic_shapes,
which goes for a caller's numbers, too), or as a flag has two values and a table is empty once."""
_MODES = frozenset({"train", "grad", "zero_one", "parts"})
"""Of them those of which there are two, or as many as the model has."""
_FEW = 3
"""Times that a function is compiled again for other things each: a number, a size, and once without
gradients, as for an evaluation."""
_STATIC = "automatic_dynamic_shapes"
_FIXED = (
    "pad to a few sizes: something that is traced makes this size a number in each graph, with dynamic=True "
    "too; TORCH_LOGS=+dynamic says where"
)
_ELSEWHERE = (
    "what is called there takes only a number that is known, as an offset or an index: hand it a tensor, or "
    "leave that line to eager; further lines may ask for the same"
)
_STEPS = (
    "a loop of another number of steps is another graph: compile what one step does, and call it in the "
    "loop, or make the number of steps the same"
)
_MODULES = (
    "the same code is compiled for each module, as their weights have other shapes: compile what holds "
    "them, the whole model, and not each of them; or raise torch._dynamo.config.recompile_limit"
)
_LIMIT = Trial(config=(("dynamo.cache_size_limit", 64),))
"""By the name that every torch knows it by; 64 graphs are those of any model that has such modules."""
_BREAK_FIRST = "a graph break hands on a value that the rest is compiled for: take the break away"


def find(case: Case) -> Iterable[Finding]:
    facts = case.facts.recompiles
    limits = [event for event in case.events if event.kind == "cache_limit"]
    events = [event for event in case.events if event.kind == "recompile"]
    again = _again(case)
    number = len(again)
    if not number and not limits:
        return
    times = case.times
    cost: float | None = None
    of_run: float | None = None
    if times.calls and times.recompile_ms:
        cost = times.recompile_ms
        total = (times.cold_ms or 0.0) + (times.compiled_ms or 0.0) * times.calls
        of_run = times.recompile_ms / total if total else None
    reasons = [item.reason for item in again]
    often = _more_than_designed(case)
    # Training and evaluating in one program takes one graph for each, and so do sizes that change.
    as_it_should_be = not often and set(map(guard_kind, reasons)) <= _ONCE and not times.recompiling
    severity: Severity = "low" if as_it_should_be else "medium"
    if limits or often:
        # A state that begins as one tensor for all is several from the second call on.
        begun = set(map(guard_kind, reasons)) <= {"alias"} and not (limits or times.recompiling)
        severity = "medium" if begun else "high"
    from_break = bool(again) and all(
        _FROM_BREAK.search(item.reason) or own_name(item.function) != item.function for item in again
    )
    if from_break and severity == "high":
        severity = "medium"
    if times.calls > 1 and times.cold_ms and not times.recompile_ms and not limits:
        # All of it within first calls, as what a library sets up: no later call waited for one.
        severity = "low"
    if of_run is not None and not (limits or times.recompiling):
        # What came to its end is no louder than what it took; and a graph for each mode does come to an end,
        # so that what every call loses stands before it.
        ends = sum(guard_kind(item) in _MODES for item in reasons) > MOST * len(reasons)
        severity = severity_of(of_run, at_most="medium" if ends and severity == "high" else severity)
    in_eager = case.in_eager or case.some_in_eager > 0
    if in_eager and times.outcome == "slower" and case.some_in_eager < MOST and severity == "high":
        # Calls in eager take less than those that lose.
        severity = "medium"
    if case.compiled_more:
        severity = louder(severity, "medium")
    evidence = []
    for recompile in facts[:4]:
        place = users_place(recompile.location, recompile.frames)
        if place is not None:
            evidence.append(source_evidence(case, place, f"compiled again: {guard_text(recompile.headline)}"))
        elif case.log_path:
            evidence.append(Evidence(case.log_path, recompile.line, recompile.headline))
    told = {guard_text(recompile.headline) for recompile in facts}
    others = [event for event in events if guard_text(_reason(event)) not in told]
    for event in (*limits, *others)[: 4 - len(evidence)]:
        if event.location is not None:
            evidence.append(source_evidence(case, event.location, guard_text(_reason(event))))
    if not any(_users(item) for item in evidence):
        # torch blames a file of its own, as for a module whose forward is a library's.
        evidence[:0] = case.compile_lines[:1]
    most, *rest = _by_function(again) or [[]]
    function = _name(case, most[0]) if most else own_name(limits[0].frame or "a function")
    limit = ", until the limit is reached and it runs in eager" if limits else ""
    if in_eager:
        limit += f" in {percent(case.some_in_eager)} of the calls"
    kinds = Counter(guard_kind(item.reason) for item in most)
    kind = kinds.most_common(1)[0][0] if kinds else ""
    of_kind = [item.reason for item in most if guard_kind(item.reason) == kind]
    checked = Counter(map(_checked, of_kind)).most_common(1)
    reason = next((item for item in of_kind if _checked(item) == checked[0][0]), "")
    why = guard_text(reason) if reason else "recompile limit"
    weights = _sets_of_weights(case, most)
    # Most of the times it was another module's turn, whichever of their differences a guard met first.
    by_module = 2 * (weights - 1) >= max(len(most), 2)
    if by_module:
        why = f"its modules' weights have {weights} sets of shapes"
    alike = bool(checked) and 1 < checked[0][1] < len(most) and not by_module
    like = f"{checked[0][1]} of the {len(most)} like " if alike else ""
    spent = f"; {duration(times.recompile_ms)} in all" if times.recompile_ms else ""
    if case.compiled_more and not limits:
        _, before, then = case.compiled_more[0]
        spent += f"; with torch's caches full, as in a second run, in {then} calls, not {before}"
    handed = from_break or _FROM_BREAK.search(reason) is not None
    advice, trial = _advice(case, kind, most, _checked(reason))
    made = _made_number(case, of_kind)
    if made is not None and made.location is not None and advice in (_FIXED, _ADVICE["number"]):
        what = guard_source(made.source)
        evidence.insert(
            0, source_evidence(case, made.location, f"makes {what} a number: {made.location.code}")
        )
        advice = f"{what} is a number in each graph since {made.location.short}: {_ELSEWHERE}"
    if handed:
        advice, trial = _BREAK_FIRST, None
    elif by_module:
        advice, trial = _MODULES, _LIMIT if limits else None
    yield Finding(
        rule="recompiles",
        severity=severity,
        title=(
            f"{function} is compiled again {plural(len(most), 'time')}{_others(rest)}{limit}{spent}: "
            f"{like}{why}"
        ),
        graph=None,
        cost_ms=None if in_eager else cost,
        evidence=tuple(evidence) or (Evidence(case.log_path, None, "recompiles"),),
        advice=advice,
        how="measured" if cost is not None else "estimated",
        share=None if in_eager else of_run,
        change=_change(case) if trial is not None and trial.dynamic else (),
        trial=trial,
        # Since the limit steady calls are eager's, with a look at all the guards before each.
        account="call" if in_eager else "run",
    )


class _Again(NamedTuple):
    """One time that a function was compiled again."""

    function: str
    location: SourceLocation | None
    reason: str


def _sets_of_weights(case: Case, most: Sequence[_Again]) -> int:
    """How many shapes a weight has in the graphs of that code: one for each of the modules that share it."""
    codes = {_code(item.reason) for item in most} - {""}
    shapes: dict[str, set[object]] = defaultdict(set)
    for compile_id in {graph.artifacts.compile_id or "" for graph in case.graphs}:
        frame = case.frame(compile_id) if compile_id.partition("/")[0] in codes else None
        for node in frame.placeholders if frame is not None else ():
            if node.meta is not None and of_module(node.name):
                shapes[node.name.lower()].add(node.meta.shape)
    return max(map(len, shapes.values()), default=0)


def _code(reason: str) -> str:
    """Torch's number of the code that is compiled again, where a reason has it."""
    return of_compilation(reason).partition("/")[0]


def _made_number(case: Case, reasons: Sequence[str]) -> Specialization | None:
    """What made that a number, of which guards say that it must be the same, by the trace of a graph whose
    guard failed: otherwise it changes without another graph from the second on."""
    fixed = case.fixed() if case.fixed is not None else {}
    for reason in reasons:
        pinned = pinned_by(reason)
        for item in fixed.get(of_compilation(reason), ()):
            if (guard_source(item.source), item.value) == pinned and item.location is not None:
                return item
    return None


def _name(case: Case, again: _Again) -> str:
    """The function's; of what Dynamo put around a library's module the module's, where there is one only."""
    if is_around(again.location):
        only = case.times.callables if len(case.times.callables) == 1 else ()
        return only[0] if only else function_name(again.function, again.location)
    return own_name(again.function)


def _reason(event: Event) -> str:
    """Of the guards of all graphs, as the recorder saw them."""
    return telling(event.reason.splitlines())


def _again(case: Case) -> list[_Again]:
    """As the log has them, or the recorder where it saw more."""
    told = [_Again(item.function, item.location, item.headline) for item in case.facts.recompiles]
    seen = [
        _Again(event.frame or "a function", event.location, _reason(event))
        for event in case.events
        if event.kind == "recompile"
        for _ in range(event.count)
    ]
    return seen if len(seen) > len(told) else told


def _by_function(again: Sequence[_Again]) -> list[list[_Again]]:
    """Those of each of the user's functions, most first. What Dynamo resumes with after a break is a part of
    the function in that file that has the break."""
    groups: dict[tuple[object, ...], list[_Again]] = {}
    resumed: list[_Again] = []
    for item in again:
        if own_name(item.function) != item.function:
            resumed.append(item)
        else:
            groups.setdefault((item.function, item.location and str(item.location)), []).append(item)
    whole = list(groups.values())
    for item in resumed:
        name, path = own_name(item.function), item.location and item.location.path
        own = [
            one
            for one in whole
            if (one[0].function, one[0].location and one[0].location.path) == (name, path)
        ]
        group = own[0] if len(own) == 1 else groups.setdefault((item.function, name), [])
        group.append(item)
    return sorted(groups.values(), key=len, reverse=True)


def _others(others: Sequence[Sequence[_Again]]) -> str:
    """`, 2 other functions 5 times`"""
    times = plural(sum(map(len, others)), "time")
    return f", {plural(len(others), 'other function')} {times}" if others else ""


def _more_than_designed(case: Case) -> bool:
    """Whether a function is compiled again twice for sizes or for another thing that a guard checks, or for
    more than a few: once is what automatic dynamic shapes take (static, then dynamic). Sizes of 0 and 1 and
    each kind of module have graphs of their own, and do not count."""
    logged = [((item.function, item.location), item.headline, 1) for item in case.facts.recompiles]
    recorded = [
        ((event.frame, event.location), _reason(event), event.count)
        for event in case.events
        if event.kind == "recompile"
    ]
    for told in (logged, recorded):
        of_thing, of_function = Counter[object](), Counter[object]()
        for function, reason, count in told:
            kind = guard_kind(reason)
            if kind not in ("zero_one", "parts"):
                # What a function resumes with after two breaks in one line has one name, and two codes.
                code = _code(reason) or function
                # Sizes that change one after the other would all be dynamic with dynamic=True, and true and
                # false have a graph each.
                guard = bare_guard(reason)
                thing = kind if kind == "size" else guard if _TRUTH.search(guard) else _checked(reason)
                of_thing[code, thing] += count
                of_function[code] += count
        if max(of_thing.values(), default=0) > 1 or max(of_function.values(), default=0) > _FEW:
            return True
    return False


def _users(item: Evidence) -> bool:
    return item.path.endswith(".py") and not is_library(item.path)


def guard_kind(reason: str) -> str:
    """What a failed guard checks, as in `_KINDS`; `parameter` where torch fixes its shape as that of one,
    `made` where a tensor is of inference mode and was not, or the other way round; empty where that is not
    known."""
    if of_parameter(reason):
        return "parameter"
    text = bare_guard(reason)
    if made_elsewhere(text):
        return "made"
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "")


def _checked(reason: str) -> str:
    """What of the function's inputs a guard checks, without the value: `n_steps`, `tensor 'x' size mismatch
    at index 0`; a guard of another form whole."""
    return _VALUE.split(bare_guard(reason), maxsplit=1)[0].strip()


def _advice(
    case: Case, kind: str, most: Sequence[_Again] = (), checked: str = ""
) -> tuple[str, Trial | None]:
    """By what most guards check of the function that is compiled most often, and what the program does."""
    name = _NAME.match(checked)
    if kind == "number" and name is not None:
        counts = re.compile(rf"\bin range\([^)]*\b{name[1]}\b")
        if any(counts.search(line) for program in case.programs for line in program.lines):
            return _STEPS, None
    if kind == "parameter" and not any("rank mismatch" in item.reason for item in most):
        return f"{_ADVICE[kind]}, {_LET_SIZES}", _DYNAMIC_PARAMETERS
    if kind != "size":
        return _ADVICE[kind], _UNSPECIALISED if kind == "attribute" else None
    asked = {call.option("dynamic") for program in case.programs for call in program.compile_calls}
    if True in asked:
        return (
            "pad to a few sizes: dynamic=True is set, and these sizes are compiled apart all the same",
            None,
        )
    if False in asked:
        return "drop dynamic=False, or pad to a few sizes", Trial(dynamic=True)
    if _fixed(most) and not any(_STATIC in line for program in case.programs for line in program.lines):
        return _FIXED, None
    return "compile with dynamic=True, mark_dynamic the dimension, or pad to a few sizes", Trial(dynamic=True)


def _fixed(most: Sequence[_Again]) -> bool:
    """Whether one size of a tensor was a number in several graphs: one that changes is dynamic from the
    second graph on (torch/_dynamo/config.py: automatic_dynamic_shapes), unless tracing makes it a number."""
    sizes = set(filter(None, (fixed_size(item.reason) for item in most)))
    return len({(name, index) for name, index, _ in sizes}) < len(sizes)


def _change(case: Case) -> Change:
    for program in case.programs:
        for call in program.compile_calls:
            if call.option("dynamic") is False:
                return replace_in(program, call.line, r"dynamic\s*=\s*False", "dynamic=True")
    return ()


RULE = Rule("recompiles", Stage.PROGRAM, find)
