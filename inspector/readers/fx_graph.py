"""fx_graph_readable.py, fx_graph_transformed.py, and the graphs in a structured trace.

All are the output of torch/fx/graph_module.py: _print_readable, around the code that
torch/fx/graph.py: CodeGen._gen_python_code makes:

    class <lambda>(torch.nn.Module):
        def forward(self, arg0_1: "f32[8, 64]", arg1_1: "Sym(s77)"):
            # File: /home/user/m.py:7 in forward, code: x = x.relu()
            relu: "f32[8, 64]" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None
            return (relu,)

        class true_graph_0(torch.nn.Module):

It looks like Python and often is not (``class <lambda>``), so it is taken apart by hand, line by
line; nothing is compiled or executed. Only the first class's `forward` becomes nodes: the classes
that follow it are the subgraphs of higher-order operators such as cond. What a line says by itself
is memoised by its text, since a graph is written two to ten times with little difference.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from inspector.model.fx import DTYPES, FxGraph, FxKind, FxNode, TensorMeta
from inspector.model.problem import Problem
from inspector.model.source import SourceLocation, is_ours, parse_size

from .brackets import leaves, open_brackets, split_commas

# "    def forward(self, arg0_1: ..."      (the __init__ of a repro script is not it)
_FORWARD = re.compile(r"^( *)def (?!__init__)\w+\(", re.MULTILINE)

# primals_1: "f32[64, 64][64, 1]cpu"      **kwargs      x : torch.Tensor = None
_PARAMETER = re.compile(r"\*{0,2}([A-Za-z_]\w*)(?:: \"([^\"]*)\"| : ([^=]+?))?(?: = (.*))?")

# primals_1, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
_FLATTENED = re.compile(r"((?:\w+, )+)= .*(?:tree_flatten_spec|_in_shuffle_graph)\(")

# args_list.clear()      a, b, = pytree.tree_leaves((self, x,))      pass
_PROLOGUE = re.compile(r"args_list\.clear\(\)|(?:\w+, )+= pytree\.tree_leaves\(|pass$")

# mul: "f32[8, 64]" = ...      getitem : torch.Tensor = ...      mul = ...
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:: \"([^\"]*)\"| : ([^=]+?))? = (.*)")

# The end of   permute: "..." = torch.ops...(view_20);  permute_14 = view_20 = None
_DELETION = re.compile(r"(?:\w+ = )+None")

# torch.ops.aten.mm.default(      self.layers(      getattr(self.layers, "0")(      x.sum(
_CALL = re.compile(r"((?:getattr\(.*?, \"[^\"]*\"\)|[A-Za-z_]\w*)(?:\.\w+)*)\(")

# var_mean[0]
_GETITEM = re.compile(r"([A-Za-z_]\w*)\[(.*)\]")

# self.weight      getattr(self.layers, "0").weight      x.shape
_ATTRIBUTE = re.compile(r"(?:getattr\(.*, \"[^\"]*\"\)|[A-Za-z_]\w*)(?:\.\w+)+")

# Names in an expression, but not in quotes, after a dot, before a bracket, or as a keyword (dim = 1).
_NAME = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w.])([A-Za-z_]\w*)(?![\w(]|\s*=[^=])""")

# File: /home/user/m.py:7 in forward, code: x = x.relu()
_FILE = "File: "
_LINE = re.compile(r":(\d+) in ")
_CODE = ", code: "

_LONGEST_META = 1_000
"""Letters of an annotation that is read: brackets behind brackets take more than quadratic time."""
# f32[4, s77]      f32[100, 100][100, 1]cuda:0      DTensor(bf16[8, 8][8, 1]cpu, S(0))
_TENSOR = re.compile(r"(?:\w+\()?([a-z]\w*)\[(.*?)\](?:\[(.*?)\])?([a-z]+(?::\d+)?)?(?:[,)].*)?")

# "  # PlainAOTInput(idx=2)" after a parameter or a returned value on a line of its own
_REMARK = re.compile(r"  # .*\Z")

_CACHE = 1 << 14


class _Statement(NamedTuple):
    """What an assignment says by itself: `names` are mentioned in its `value`, nodes or not."""

    name: str
    annotation: str | None
    value: str
    kind: FxKind
    target: str
    arguments: tuple[str, ...]
    names: tuple[str, ...]
    is_whole: bool


class _Draft(NamedTuple):
    """A node before its inputs and users are known; `line` counts from 1 in the file."""

    statement: _Statement
    source: SourceLocation | None
    line: int
    text: str


def parse_fx_graph(text: str, path: str, first_line: int = 1) -> FxGraph:
    """The graph that `print_readable` wrote; `path` is only used in problems.

    `first_line` is the line of the file at which `text` starts. Never raises: what is cut or
    foreign is a problem, and the nodes before and after it are kept.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    reader = _Reader(path, first_line, text.split("\n"))
    reader.read(text)
    return FxGraph(path, reader.nodes(), reader.outputs(), text, tuple(reader.problems))


class _Reader:
    """Goes through the lines of one `forward`; indices count lines from 0."""

    def __init__(self, path: str, first_line: int, lines: list[str]) -> None:
        self.path = path
        self.first_line = first_line
        self.lines = lines
        self.placeholders: dict[str, _Draft] = {}
        self.operations: list[_Draft] = []
        self.declared: dict[str, _Draft] = {}
        self.returned: str | None = None
        self.problems: list[Problem] = []

    def problem(self, index: int, message: str) -> None:
        self.problems.append(Problem(self.path, self.first_line + index, message))

    def read(self, text: str) -> None:
        forward = _FORWARD.search(text)
        if forward is None:
            self.problem(0, "no forward function: not a printed graph, or cut short")
            return
        body = forward[1] + "    "
        next_class = forward[1] + "class "
        index = self.signature(text.count("\n", 0, forward.start()))
        source: SourceLocation | None = None
        while index < len(self.lines):
            line = self.lines[index]
            content = line.strip()
            if not content:
                pass
            elif content[0] == "#":
                # torch prints a comment when the place changes: it holds until the next one.
                source = parse_location(content)
            elif line.startswith(next_class):
                break
            elif line.startswith(body):
                index = self.statement(index, content, source)
            else:
                self.problem(index, "not a line of this graph")
            index += 1
        if self.returned is None:
            self.problem(len(self.lines) - 1, "the graph has no return: cut short?")

    def signature(self, index: int) -> int:
        """Reads the parameters, on the line of `def` or on one line each; the index of the next line."""
        line = self.lines[index].rstrip()
        inside = line.partition("(")[2]
        if inside:
            self.parameters(index, inside.rpartition(")")[0] if line.endswith(":") else inside)
            return index + 1
        while index + 1 < len(self.lines):
            index += 1
            line = _REMARK.sub("", self.lines[index]).strip()
            if line.startswith(")"):
                return index + 1
            if not line.endswith(","):
                self.problem(index, "not a parameter of this graph")
                if _ASSIGNMENT.match(line):
                    return index
            else:
                self.parameters(index, line)
        return index + 1

    def parameters(self, index: int, text: str) -> None:
        for piece in split_commas(text):
            match = _PARAMETER.fullmatch(piece)
            if match is None:
                self.problem(index, "a parameter is cut or garbled")
            elif match[1] not in ("self", "args_list"):
                self.placeholder(self.placeholders, match[1], match[2] or match[3], index, piece)

    def placeholder(
        self, into: dict[str, _Draft], name: str, annotation: str | None, index: int, text: str
    ) -> None:
        statement = _Statement(name, annotation, "", "placeholder", "", (), (), True)
        into[name] = _Draft(statement, None, self.first_line + index, text)

    def statement(self, index: int, content: str, source: SourceLocation | None) -> int:
        """Reads the statement that starts at `index`; the index of its last line."""
        first = index
        statement = parse_statement(content)
        if statement is None or not statement.is_whole:
            content, index = self.logical_line(index)
            statement = parse_statement(content)
        if statement is None:
            if not self.prologue(first, content):
                self.problem(first, "not understood")
        elif statement.value == "next(args_iter)":
            self.placeholder(self.placeholders, statement.name, statement.annotation, first, content)
        elif statement.value in self.placeholders:
            # Dynamo: the parameter L_x_ is the node l_x_.
            draft = self.placeholders[statement.value]
            self.placeholders[statement.value] = draft._replace(
                statement=draft.statement._replace(name=statement.name)
            )
        elif statement.value not in ("None", "iter(args_list)"):
            if not statement.is_whole:
                self.problem(first, f"the value of {statement.name} is cut or garbled")
            self.operations.append(_Draft(statement, source, self.first_line + first, content))
        return index

    def logical_line(self, index: int) -> tuple[str, int]:
        """The statement that starts at `index`, with the lines that its brackets span, and its last index."""
        text = self.lines[index].strip()
        depth = open_brackets(text)
        indent = len(self.lines[index]) - len(self.lines[index].lstrip())
        pieces = [text]
        while depth > 0 and index + 1 < len(self.lines):
            line = self.lines[index + 1]
            content = _REMARK.sub("", line).strip()
            if content and len(line) - len(line.lstrip()) <= indent and content[0] not in ")]}":
                break
            depth += open_brackets(content)
            pieces.append(content)
            index += 1
        return " ".join(pieces), index

    def prologue(self, index: int, content: str) -> bool:
        """Takes in a line that is no node: the return, or how parameters become placeholders."""
        if content.startswith("return"):
            self.returned = content.removeprefix("return").strip()
            if not self.returned or open_brackets(content) > 0:
                self.problem(index, "the return is cut short")
            return True
        if match := _FLATTENED.match(content):
            # A joint graph: the parameters are containers, the placeholders what is in them.
            names = [name.strip() for name in match[1].split(",") if name.strip()]
            flat: dict[str, _Draft] = {}
            for name in names:
                self.placeholder(flat, name, None, index, name)
            self.placeholders = {name: self.declared.get(name, draft) for name, draft in flat.items()}
            return True
        if _PROLOGUE.match(content):
            return True
        return self.declarations(index, _REMARK.sub("", content).rstrip("; "))

    def declarations(self, index: int, text: str) -> bool:
        """``primals_1: "f32[8]"; tangents_1: "f32[8]"``, which precedes the flattening of parameters."""
        matches = [_PARAMETER.fullmatch(piece.strip()) for piece in text.split(";")]
        for match in matches:
            if match and match[2]:
                self.placeholder(self.declared, match[1], match[2], index, match[0])
        return all(match and match[2] for match in matches)

    def drafts(self) -> list[_Draft]:
        """Placeholders and operations, each name once."""
        drafts: dict[str, _Draft] = {}
        for draft in (*self.placeholders.values(), *self.operations):
            if drafts.setdefault(draft.statement.name, draft) is not draft:
                self.problem(
                    draft.line - self.first_line, f"{draft.statement.name} stands here once more: left out"
                )
        return list(drafts.values())

    def nodes(self) -> tuple[FxNode, ...]:
        drafts = self.drafts()
        users: dict[str, list[str]] = {}
        inputs: list[tuple[str, ...]] = []
        for draft in drafts:
            # Only what stands above: nodes that read each other would be a circle, which no graph has.
            mentioned = tuple([name for name in draft.statement.names if name in users])
            inputs.append(mentioned)
            users[draft.statement.name] = []
            for name in mentioned:
                users[name].append(draft.statement.name)
        return tuple(
            FxNode(
                statement.name,
                statement.kind,
                statement.target,
                statement.arguments,
                mentioned,
                tuple(users[statement.name]),
                statement.annotation,
                parse_meta(statement.annotation) if statement.annotation else None,
                source,
                line,
                text,
            )
            for (statement, source, line, text), mentioned in zip(drafts, inputs, strict=True)
        )

    def outputs(self) -> tuple[str | None, ...]:
        if self.returned is None:
            return ()
        drafts = (*self.placeholders.values(), *self.operations)
        names = {draft.statement.name for draft in drafts}
        value = self.returned
        if value.startswith("pytree.tree_unflatten("):
            value = split_commas(value.partition("(")[2])[0]
        return tuple(item if item in names else None for item in leaves(value))


@lru_cache(_CACHE)
def parse_statement(content: str) -> _Statement | None:
    """One assignment, without the deletions behind it; None where the text is no assignment."""
    if content.endswith(" = None"):
        before, mark, after = content.rpartition(";  ")
        if mark and _DELETION.fullmatch(after):
            content = before
    effect = ""
    match = _ASSIGNMENT.fullmatch(content)
    if match is None:
        # An operator that works in place:  x += y;  add = x      x[0] = y;  setitem = x
        effect, _, content = content.rpartition(";  ")
        match = _ASSIGNMENT.fullmatch(content) if effect else None
    if match is None:
        return None
    name, annotation, type_name, value = match.groups()
    annotation = annotation or type_name
    if effect:
        return _Statement(name, annotation, effect, "expression", "", (effect,), _names(effect), True)
    names = _names(value)
    is_whole = open_brackets(value) <= 0
    call = _CALL.match(value)
    if call and (value.endswith(")") or not _ATTRIBUTE.fullmatch(value)):
        arguments = split_commas(value[call.end() : -1] if value.endswith(")") else value[call.end() :])
        if call[1] == "getattr" and len(arguments) == 2:
            return _Statement(name, annotation, value, "attribute", value, (), names, is_whole)
        is_whole = is_whole and value.endswith(")")
        return _Statement(name, annotation, value, "call", call[1], arguments, names, is_whole)
    if item := _GETITEM.fullmatch(value):
        return _Statement(name, annotation, value, "getitem", "getitem", item.groups(), names, is_whole)
    if _ATTRIBUTE.fullmatch(value):
        return _Statement(name, annotation, value, "attribute", value, (), names, is_whole)
    return _Statement(name, annotation, value, "expression", "", (value,), names, is_whole)


def _names(text: str) -> tuple[str, ...]:
    """The names mentioned in an expression, each once, in order."""
    return tuple(dict.fromkeys(filter(None, _NAME.findall(text))))


@lru_cache(_CACHE)
def parse_location(comment: str) -> SourceLocation | None:
    """The place that a comment above nodes tells; None for torch's `No stacktrace found` and others."""
    start = comment.find(_FILE)
    while start >= 0:
        start += len(_FILE)
        following = comment.find(_FILE, start)
        end = following if following >= 0 else len(comment)
        line = _LINE.search(comment, start + 1, end)
        code = comment.find(_CODE, line.end() + 1, end) if line is not None else -1
        if line is not None and code >= 0:
            path, function = comment[start : line.start()], comment[line.end() : code]
            place = SourceLocation(path, int(line[1]), function, comment[code + len(_CODE) :])
            return None if is_ours(path) else place
        start = following
    return None


@lru_cache(_CACHE)
def parse_meta(annotation: str) -> TensorMeta | None:
    """``f32[8, 64][64, 1]cuda:0`` as dtype, shape, strides and device; None for ``Sym(..)`` and types."""
    match = _TENSOR.fullmatch(annotation) if len(annotation) <= _LONGEST_META else None
    if match is None:
        return None
    dtype, shape, stride, device = match.groups()
    return TensorMeta(
        DTYPES.get(dtype, dtype),
        tuple(map(parse_size, split_commas(shape))),
        None if stride is None else tuple(map(parse_size, split_commas(stride))),
        device,
    )
