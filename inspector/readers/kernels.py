"""Kernel definitions in output_code.py: ``NAME = async_compile.triton('NAME', '''source''', ...)``.

Triton sources and their decorators come from torch/_inductor/codegen/triton.py (users' kernels from
codegen/wrapper.py: define_user_defined_triton_kernel), C++ ones from codegen/cpp.py, the comment above a
definition from torch/_inductor/utils.py: get_kernel_metadata. A source is cut out, never executed.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from inspector.model.code import (
    FragmentNode,
    GraphFragment,
    Kernel,
    KernelKind,
    KernelParameter,
    SourceNodes,
)
from inspector.model.source import LineSpan

from .brackets import split_commas

# ``# Topologically Sorted Source Nodes: [x, y], Original ATen: [aten.tanh]``; 2.4: ``# Source Nodes: ...``;
# ``# Unsorted Source Nodes: ...`` where the nodes come from several graphs.
_SOURCE_NODES = re.compile(
    r"# (?:Topologically Sorted |Unsorted )?Source Nodes: \[(.*)\], Original ATen: \[(.*)\]"
)

# ``# kernel path: /home/user/cache/n4/cn4wz.py`` or ``# Original path: /home/user/train.py:12``.
_KERNEL_PATH = re.compile(r"# (kernel path|Original path): (.*)")

# ``triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''`` up to the opening quotes;
# a multi-kernel and a half-written line have no quotes.
_OPENING_QUOTES = re.compile(r"r?('''|\"\"\")")

# ``@triton_heuristics.persistent_reduction(``
_HEURISTIC = re.compile(r"^@triton_heuristics\.(\w+)\(", re.MULTILINE)

# ``    size_hints={'x': 32, 'r0_': 128},``: one keyword argument of the decorator, a line each.
_DECORATOR_ARGUMENT = re.compile(r"^\s*(\w+)=(.*)$")

# ``def triton_poi_fused_add_0(in_ptr0, xnumel, XBLOCK : tl.constexpr):`` up to the first parameter.
_PYTHON_DEFINITION = re.compile(r"^def (\w+)\(", re.MULTILINE)

# ``# *Pointer* to the first input (in a user's parameter list)``
_COMMENT = re.compile(r"#[^\n]*")

# ``'signature': {'in_ptr0': '*fp32', 'xnumel': 'i32'}``; 2.4: ``'signature': {0: '*fp32', 1: 'i32'}``
_SIGNATURE = re.compile(r"'signature': \{([^{}]{0,40000})\}")

# ``'in_ptr0': '*fp32'`` or ``0: '*fp32'``
_SIGNATURE_ENTRY = re.compile(r"(?:'(\w+)'|\b(\d+)): '([^']*)'")

# ``'mutated_arg_names': ['in_out_ptr0', 'in_ptr3']``
_MUTATED = re.compile(r"'mutated_arg_names': \[([^\[\]]{0,40000})\]")

# ``extern "C"  void  kernel(const float* in_ptr0,``; CUTLASS: ``extern "C" {\nPT_EXPORT int cutlass_1a2b(``
_C_DEFINITION = re.compile(
    r'extern "C"((?:(?!extern "C")[^(;]){0,4000})\(((?:(?!extern "C")[^)]){0,40000})\)'
)

# ``kernel void generated_kernel(device float* out_ptr0, constant float* in_ptr0)`` (Metal)
_METAL_DEFINITION = re.compile(r"kernel void (\w+)\(((?:(?!kernel void )[^)]){0,40000})\)")

# ``uint xindex [[thread_position_in_grid]]``: a Metal attribute, no part of the parameter.
_METAL_ATTRIBUTE = re.compile(r"\[\[[^\[\]]*\]\]")

# ``HalideInputSpec(ctype='float*', name='in_ptr0', shape=['10'], ...)``
_HALIDE_INPUT = re.compile(r"ctype='([^']*)', name='([^']*)'([^)]*)")

# ``tl.store(output_ptr + offsets, x)``, ``tl.atomic_add(counter, 1)``: what a user's kernel writes.
_TRITON_STORE = re.compile(r"\btl\.(?:store|atomic_\w+)\(\s*(\w+)")

# ``    triton_red_fused_0,`` or ``    (1024, 512): triton_tem_fused_mm_1,``: a choice of a multi-kernel.
_MULTI_KERNEL_CHOICE = re.compile(r"^[ \t]+(?![ \t])(?:.*: )?([A-Za-z_]\w*),$", re.MULTILINE)

_MULTI_KERNELS = frozenset({"multi_kernel", "size_hint_multi_kernel"})
_TEMPLATE_COMPILERS = frozenset({"cuda", "xpu", "rocm", "cutedsl", "nv_universal_gemm"})

FragmentKind = Literal["placeholder", "call", "other"]
_FRAGMENT_KINDS: dict[str, FragmentKind] = {
    "PlaceHolder": "placeholder",
    "placeholder": "placeholder",
    "call_function": "call",
    "call_method": "call",
    "call_module": "call",
}


class Definition(NamedTuple):
    """Where a definition stands: `start` at its name, `end` behind its last line, `comment_start` at the
    first line of the comment above it (equal to `start` without one); `line` is the line of `start`."""

    name: str
    compiler: str
    start: int
    end: int
    comment_start: int
    line: int


def definition_end(text: str, start: int) -> tuple[int, bool]:
    """The position behind the definition that starts at `start`, and whether it is all there."""
    line_end = text.find("\n", start)
    if line_end < 0:
        return len(text), _OPENING_QUOTES.search(text, start) is None and text.endswith(")")
    quotes = _OPENING_QUOTES.search(text, start, line_end)
    if quotes is not None:
        closing = text.find(quotes[1], quotes.end())
        if closing < 0:
            return len(text), False
        line_end = text.find("\n", closing)
    else:
        while line_end >= 0 and text[line_end + 1 : line_end + 2] in (" ", "]", "}"):
            line_end = text.find("\n", line_end + 1)
    return (line_end if line_end >= 0 else len(text)), True


def parse_kernel(text: str, definition: Definition, known: dict[str, Kernel]) -> Kernel:
    """The kernel of one definition. `known` holds the earlier ones, among them a multi-kernel's choices."""
    name, compiler, start, end, comment_start, line = definition
    comment = text[comment_start:start]
    comment_line = line - comment.count("\n")
    origin, fragment = _parse_comment(comment, comment_line) if comment else (None, None)
    kernel_path = _KERNEL_PATH.match(comment)
    metadata = [(kernel_path[1], kernel_path[2])] if kernel_path is not None else []
    head, source, source_span, tail = _cut_source(text, definition)

    function, heuristic = "", None
    parameters: tuple[KernelParameter, ...] = ()
    kind: KernelKind = "template" if compiler in _TEMPLATE_COMPILERS else "cpp"
    if compiler in _MULTI_KERNELS:
        kind, heuristic = "triton", "multi_kernel"
        choice = next((known[name] for name in _MULTI_KERNEL_CHOICE.findall(head) if name in known), None)
        if choice is not None:
            parameters = choice.parameters
            metadata += choice.metadata
    elif compiler == "triton":
        heuristic, decorator_arguments, function, parameters = _parse_triton(source)
        metadata += decorator_arguments
        kind = _triton_kind(name, head, heuristic)
    else:
        function, parameters = _parse_foreign(name, head, source)
    metadata += [
        (key, value) for key, _, value in (part.partition("=") for part in split_commas(tail)) if value
    ]
    metadata.append(("async_compile", compiler))
    span = LineSpan(comment_line, line + text.count("\n", start, end))
    return Kernel(
        name,
        kind,
        function,
        heuristic,
        source,
        span,
        source_span,
        parameters,
        tuple(metadata),
        origin,
        fragment,
    )


def cpp_kernel(name: str, source: str, span: LineSpan) -> Kernel:
    """A C++ kernel that stands beside its wrapper in one C++ text; `span` are its lines there."""
    function, parameters = _parse_foreign(name, "", source)
    return Kernel(name, "cpp", function, None, source, span, span, parameters)


def _cut_source(text: str, definition: Definition) -> tuple[str, str, LineSpan, str]:
    """The text before the opening quotes, the source, its lines, and the text behind the closing quotes.

    The source begins in the line below the quotes. Without quotes (a multi-kernel) the whole definition is
    both the text before them and the source.
    """
    start, end, line = definition.start, definition.end, definition.line
    head_end = text.find("\n", start, end)
    quotes = _OPENING_QUOTES.search(text, start, head_end if head_end >= 0 else end)
    if quotes is None:
        whole = text[start:end]
        return whole, whole, LineSpan(line, line + whole.count("\n")), ""
    begin = quotes.end() + (text[quotes.end() : quotes.end() + 1] == "\n")
    closing = text.find(quotes[1], begin, end)
    source = text[begin : closing if closing >= 0 else end]
    tail = text[closing + len(quotes[1]) : end].rstrip().removesuffix(")") if closing >= 0 else ""
    first = line + (begin > quotes.end())
    last = first + source.count("\n") - source.endswith("\n")
    return text[start : quotes.start()], source, LineSpan(first, max(first, last)), tail


def written_parameters(kernel: Kernel) -> tuple[int, ...]:
    """Which arguments of a launch the kernel writes, as positions among those that a launch passes.

    Compile-time constants are not passed. Told by Inductor's names (``out_ptr0``, ``in_out_ptr0``), by
    ``mutated_arg_names``, by a C++ pointer that is not const, and for a user's kernel by its stores.
    """
    names: set[str] = set()
    for key, value in kernel.metadata:
        if key == "inductor_meta" and (mutated := _MUTATED.search(value)) is not None:
            names.update(part.strip("'\" ") for part in mutated[1].split(","))
    if kernel.kind == "user":
        names.update(_TRITON_STORE.findall(kernel.source))
    passed = [parameter for parameter in kernel.parameters if not _is_constant(kernel, parameter)]
    return tuple(
        position
        for position, (name, kind) in enumerate((parameter.name, parameter.type) for parameter in passed)
        if name in names
        or name.startswith(("out_ptr", "in_out_ptr"))
        or (kind.endswith("*") and not kind.startswith("const") and not name.startswith("in_ptr"))
    )


def _is_constant(kernel: Kernel, parameter: KernelParameter) -> bool:
    """Whether launches leave the parameter out.

    Triton also calls an argument constexpr that equals 1 or None, but launches pass it. In Inductor's own
    kernels such arguments follow all pointers, so only a user's kernel needs the look at its source.
    """
    if parameter.type != "constexpr" or kernel.kind != "user":
        return parameter.type == "constexpr"
    return re.search(rf"\b{re.escape(parameter.name)}\s*:[^,)\n]*constexpr", kernel.source) is not None


def parse_source_nodes(comment: str, line: int) -> SourceNodes | None:
    """The origin that a comment line names, None for any other comment."""
    match = _SOURCE_NODES.match(comment)
    if match is None:
        return None
    return SourceNodes(_names(match[1]), line, _names(match[2]))


def _names(text: str) -> tuple[str, ...]:
    """`"x, , y"` becomes ``("x", "y")``: a node without a source has an empty name."""
    names = text.split(", ")
    return tuple(filter(None, names)) if "" in names else tuple(names)


def _parse_comment(comment: str, first_line: int) -> tuple[SourceNodes | None, GraphFragment | None]:
    """The origin and the FX subgraph in the comment above a definition.

    The subgraph has a line for each node, such as
    ``#   %mm : Tensor "f32[8, 4][4, 1]cuda:0" = PlaceHolder[target=mm]`` or ``#   %sub : [num_users=1] =
    call_function[target=torch.ops.aten.sub.Tensor](args = ..)``, and ``#   return %sub``.
    """
    origin = None
    nodes: list[FragmentNode] = []
    returns: tuple[str, ...] = ()
    for line, text in enumerate(comment.split("\n"), first_line):
        if text.startswith("#   %"):
            name, _, rest = text[5:].partition(" : ")
            opcode, _, rest = rest.partition(" = ")[2].partition("[target=")
            kind = _FRAGMENT_KINDS.get(opcode, "other")
            nodes.append(FragmentNode(name, kind, rest.partition("]")[0], text[4:], line))
        elif text.startswith("#   return "):
            returns = tuple(name.strip(" %()") for name in text[11:].split(","))
        elif origin is None:
            origin = parse_source_nodes(text, line)
    if not (nodes or returns):
        return origin, None
    return origin, GraphFragment(tuple(nodes), returns)


def _triton_kind(name: str, head: str, heuristic: str | None) -> KernelKind:
    """A Triton definition's kind, from its decorator; from its two names where that was cut off."""
    if heuristic == "template":
        return "template"
    if heuristic is None:
        inner = head.partition("('")[2].partition("'")[0]
        return "triton" if inner in (name, "triton_", "") else "user"
    return "user" if heuristic == "user_autotune" else "triton"


def _parse_triton(
    source: str,
) -> tuple[str | None, list[tuple[str, str]], str, tuple[KernelParameter, ...]]:
    """Decorator, its keyword arguments, function name and parameters of a Triton source."""
    decorator = _HEURISTIC.search(source)
    after = decorator.end() if decorator is not None else 0
    end = source.find("@triton.jit", after)
    definition = _PYTHON_DEFINITION.search(source, max(end, after))
    metadata: list[tuple[str, str]] = []
    if decorator is not None:
        stop = end if end >= 0 else definition.start() if definition is not None else len(source)
        metadata = _decorator_arguments(source[after:stop])
    signature = next((value for key, value in metadata if key == "triton_meta"), "")
    types = _signature(signature)
    function = definition[1] if definition is not None else ""
    declared = _python_parameters(source, definition.end()) if definition is not None else None
    if declared is None:
        parameters = tuple(
            KernelParameter(name, type_) for name, type_ in types.items() if not name.isdigit()
        )
    else:
        parameters = tuple(
            KernelParameter(name, types.get(name) or types.get(str(index)) or annotation)
            for index, (name, annotation) in enumerate(declared)
        )
    return decorator[1] if decorator is not None else None, metadata, function, parameters


def _decorator_arguments(text: str) -> list[tuple[str, str]]:
    """The decorator's keyword arguments as (name, text). Each begins a line; other lines continue it."""
    parameters: list[tuple[str, str]] = []
    for line in text.split("\n"):
        match = _DECORATOR_ARGUMENT.match(line)
        if match is not None:
            parameters.append((match[1], match[2].rstrip(" ,")))
        elif parameters and (rest := line.strip()) and rest != ")":
            parameters[-1] = (parameters[-1][0], f"{parameters[-1][1]} {rest}".rstrip(" ,"))
    return parameters


def _signature(triton_meta: str) -> dict[str, str]:
    """Types by parameter name (by position in 2.4) from the decorator's ``triton_meta``."""
    match = _SIGNATURE.search(triton_meta)
    if match is None:
        return {}
    return {name or index: type_ for name, index, type_ in _SIGNATURE_ENTRY.findall(match[1])}


def _python_parameters(source: str, start: int) -> list[tuple[str, str]] | None:
    """(name, "constexpr" or "") of a Python function's parameters; None where the list was cut off."""
    close = source.find("):", start)
    if close < 0:
        return None
    parameters = []
    for part in split_commas(_COMMENT.sub("", source[start:close])):
        name, _, annotation = part.partition(":")
        parameters.append((name.partition("=")[0].strip(), "constexpr" if "constexpr" in annotation else ""))
    return parameters


def _parse_foreign(name: str, head: str, source: str) -> tuple[str, tuple[KernelParameter, ...]]:
    """Function name and parameters of a source that is not Triton: C++, CUTLASS, Metal, Halide or Python."""
    if "HalideInputSpec" in head:
        arguments = _HALIDE_INPUT.findall(head)
        return name, tuple(KernelParameter(n, t) for t, n, rest in arguments if "alias_of='" not in rest)
    match = _C_DEFINITION.search(source) or _METAL_DEFINITION.search(source)
    if match is not None:
        parts = split_commas(_METAL_ATTRIBUTE.sub("", match[2]))
        return _last_word(match[1].rstrip()), tuple(map(_c_parameter, parts))
    for definition in _PYTHON_DEFINITION.finditer(source):
        if definition[1] in (name, f"{name}_main"):
            declared = _python_parameters(source, definition.end()) or []
            return definition[1], tuple(KernelParameter(n, annotation) for n, annotation in declared)
    return "", ()


def c_parameters(text: str) -> tuple[KernelParameter, ...]:
    """Those of a C++ parameter list; defaults are left out."""
    return tuple(_c_parameter(part.partition(" = ")[0]) for part in split_commas(text))


def _c_parameter(text: str) -> KernelParameter:
    """`"const float* in_ptr0"` is the parameter in_ptr0 of type ``const float*``."""
    text = " ".join(text.replace("__restrict__", " ").split())
    name = _last_word(text)
    return KernelParameter(name, text[: len(text) - len(name)].replace(" *", "*").strip())


def _last_word(text: str) -> str:
    """The name that ends a text; empty where none does."""
    return text[len(text.rstrip("_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")) :]
