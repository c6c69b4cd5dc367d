"""Guards: the tree that torch prints, and guards on sizes.

``dynamo_cpp_guards_str`` is the printed tree of torch/csrc/dynamo/guards.cpp with the comments that
torch/_dynamo/guards.py adds (get_guard_str: the code, then the place). Managers (``GuardManager:
source=L['x'], ...``) only reach values; guards have names in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from inspector.model.compilation import Guard, Specialization, Symbol
from inspector.model.source import SourceLocation, is_ours, without_ours
from inspector.model.trace import Trace

from .trace import Occurrence

# | | +- LENGTH_CHECK: len(L['args']) == 1       # output = func(self)  # utils/generic.py:939 in wrapper
_NODE = re.compile(r"(?:\| )*\+- (?P<kind>\w+)(?:: (?P<text>.*))?\Z")
# # return func(x)  # nn/modules/linear.py:134 in forward (HINT: type dict)      (2.4: without code)
_PLACE = re.compile(
    r"(?<!\s)\s+# (?:(?P<code>.*?)\s+# )?"
    r"(?P<path>[^#]*?):(?P<line>\d+) in (?P<function>\S+)(?: \((?P<note>.*)\))?\Z"
)
_LINE = re.compile(r":\d+ in ")
# not math.isnan(L['k'])  # implicit guard for float input due to NaN specialization in the framework
_REMARK = re.compile(r"(?<!\s)\s{2,}# ((?:(?!\s# ).)+[^'\"])\Z")
_LONGEST_REMARK = 4_000
"""Letters at a guard's end among which its remark is looked for: in longer ones that takes quadratic time."""
_NOT_PART = ("TREE_GUARD_MANAGER:", "Guard latency = ")


def parse_guards(text: str, line: int) -> tuple[Guard, ...]:
    """The guards of one tree in order; `line` is the trace's line of the text's first."""
    nodes: list[tuple[str, int, list[str]]] = []
    for offset, row in enumerate(text.split("\n")):
        match = _NODE.match(row)
        if match is None:
            if nodes and row.strip() and not row.startswith(_NOT_PART) and not row.startswith("|"):
                nodes[-1][2].append(row)
            continue
        nodes.append((match["kind"], line + offset, [match["text"] or ""]))
    return tuple(_guard(*item) for item in nodes if item[0].isupper())


def _guard(kind: str, line: int, rows: list[str]) -> Guard:
    text = "\n".join(rows).rstrip()
    start = max(0, len(text) - _LONGEST_REMARK)
    match = _PLACE.search(text, start) if "# " in text and _LINE.search(text, start) else None
    if match is None:
        remark = _REMARK.search(text, start)
        end = remark.start() if remark else len(text)
        return Guard(kind, text[:end], None, line, remark[1] if remark else "")
    place = SourceLocation(match["path"], int(match["line"]), match["function"], match["code"] or None)
    location = None if is_ours(place.path) else place
    return Guard(kind, text[: match.start()].rstrip(), location, line, match["note"] or "")


def guards(seen: Occurrence) -> tuple[Guard, ...]:
    """``dynamo_cpp_guards_str``."""
    return parse_guards(seen.text, seen.event.line + 1)


def shape_guards(seen: Occurrence) -> tuple[Guard, ...]:
    """``guard_added_fast`` and ``guard_added`` (torch/fx/experimental/symbolic_shapes.py)."""
    match seen.event.data:
        case {"expr": str(expression)}:
            return (Guard("SHAPE", expression, user_location(seen), seen.event.line),)
    return ()


def symbols(seen: Occurrence) -> tuple[Symbol, ...]:
    """``create_symbol``, and ``create_unbacked_symbol``, which has neither value nor source."""
    match seen.event.data:
        case {"symbol": str(name), **data}:
            hint, limits, source = (_text(data.get(key)) for key in ("val", "vr", "source"))
            return (Symbol(name, hint, limits, source, user_location(seen), seen.event.line),)
    return ()


def specializations(seen: Occurrence) -> tuple[Specialization, ...]:
    """``symbolic_shape_specialization``, one for each thing that the symbol stood for."""
    match seen.event.data:
        case {"sources": [*sources], **data}:
            value, reason = _text(data.get("value")), _text(data.get("reason"))
            place, line = user_location(seen), seen.event.line
            return tuple(Specialization(_text(each), value, reason, place, line) for each in sources)
    return ()


def frames(seen: Occurrence) -> tuple[SourceLocation, ...]:
    """``dynamo_start``: the user's frames, outermost first."""
    data = seen.event.data
    return stack_of(seen.trace, data.get("stack")) if isinstance(data, dict) else ()


def user_location(seen: Occurrence) -> SourceLocation | None:
    """The innermost frame of the user's code while tracing (``user_stack``), else of the call."""
    data = seen.event.data
    if not isinstance(data, dict):
        return None
    if own := stack_of(seen.trace, data.get("user_stack")):
        return own[-1]
    return outside_torch(stack_of(seen.trace, data.get("stack")))


def stack_of(trace: Trace, value: object) -> tuple[SourceLocation, ...]:
    """``[{"line": 2, "name": "f", "filename": 1}, ...]`` with the names of files from the table."""
    if not isinstance(value, list):
        return ()
    stack = []
    for entry in value:
        match entry:
            case {"line": int(line), "name": str(name), "filename": int(number)}:
                code = entry.get("loc")
                path = trace.strings.get(number, "")
                stack.append(SourceLocation(path, line, name, code if isinstance(code, str) else None))
    return without_ours(stack)


def outside_torch(stack: Sequence[SourceLocation]) -> SourceLocation | None:
    """The innermost frame that is not torch's own; where all are, the innermost."""
    own = [frame for frame in stack if "/torch/" not in frame.path.replace("\\", "/")]
    return next(reversed(own or stack), None)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
