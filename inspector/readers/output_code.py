"""output_code.py as a whole: where its kernels, wrapper functions and example inputs stand.

Written by torch/_inductor/codegen/wrapper.py: imports, module aliases, kernel definitions (with partition and
subgraph functions among them), the wrapper's `call`, then `get_args` and `benchmark_compiled_module`. The
file is scanned by lines, since one that was cut off must still give everything before the cut.
"""

from __future__ import annotations

import re

from inspector.model.code import ExampleInput, Kernel, OutputCode
from inspector.model.problem import Problem

from .brackets import open_brackets, split_commas
from .generated import arguments, parse_dtype, parse_extents, split_keywords, unquote
from .kernels import Definition, definition_end, parse_kernel
from .wrapper import Function, Walker

# ``# AOT ID: ['0_inference']``
_AOT_ID = re.compile(r"# AOT ID: \['?([^'\]]*)")

# One of: ``def partition_0(args):``, ``    def call(self, args):``,
# ``triton_poi_fused_0 = async_compile.triton(``, ``mps_lib_0 = compile_mps_shader(``,
# ``_frozen_param1 = None  # device(type='cpu') ...``, ``inductor_ops = torch.ops.inductor``.
_LANDMARK = re.compile(
    r"\n(?=[ \w])(?P<indent>(?: {4})?)"
    r"(?:def (?P<function>\w+)\((?P<parameters>[^)\n]*)\):"
    r"|(?P<name>\w+) = (?:async_compile\.(?P<compiler>\w+)\(|(?P<metal>compile_mps_shader\()"
    r"|(?P<constant>None  # )|(?P<namespace>torch\.ops\.\w+$)))",
    re.MULTILINE,
)

# ``    return (buf4, )`` before ``runner = Runner(...)``: the next line is indented less than the body.
_FUNCTION_END = {0: re.compile(r"\n(?=[^ \n])"), 4: re.compile(r"\n(?= {0,4}[^ \n])")}

# ``runner = Runner(partitions=[partition_0,partition_1,])``
_RUNNER = re.compile(r"\nrunner = Runner\(partitions=\[([^\]=]*)\]")

# ``partition_3``
_PARTITION_NAME = re.compile(r"partition_\d+$")

# ``    arg0_1 = rand_strided((100, 100), (100, 1), device='cpu', dtype=torch.float32)``
_EXAMPLE = re.compile(r"^ +(\w+) = (.*)$", re.MULTILINE)

# ``rand_strided((100, 100), (100, 1), device='cuda:0', dtype=torch.float32)``: as it nearly always is.
_RAND_STRIDED = re.compile(
    r"rand_strided\((\([^()]*\)), (\([^()]*\)), device='([^']*)', dtype=torch\.(\w+)\)$"
)

# ``    global _frozen_param1``: a constant, made beside the arguments.
_GLOBAL = re.compile(r"^ +global (\w+)$", re.MULTILINE)

# ``torch.cuda.default_generators[0].graphsafe_get_state()``, ``pickle.loads(b'...')``: known, but no number.
_OPAQUE = re.compile(r"None$|torch\.\w+\.default_generators|pickle\.loads\(")

_WRAPPER_PARAMETERS = frozenset({"args", "self, args"})
_EXAMPLE_FUNCTIONS = frozenset({"get_args", "benchmark_compiled_module"})
_NOT_INPUTS = frozenset({"fn", "args"})
# ``void inductor_entry_impl(`` (cpp_wrapper), ``void AOTInductorModel::run_impl(`` (a package), to the body.
_ENTRY = re.compile(
    r"^void (?P<name>inductor_entry_impl|AOTInductorModel::run_impl)\([^{}]*\) \{\n", re.MULTILINE
)


def parse_output_code(text: str, path: str) -> OutputCode:
    """The kernels, steps and example inputs of one output_code.py; `path` is only used to name problems.

    Never raises: of a damaged file what precedes the damage is kept, and problems say where it is.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    scan = _Scan(text, path)
    entry = _entry_function(text)
    if entry is not None:
        from .cpp_wrapper import CppWalker, cpp_kernels

        scan.functions["call"] = entry
        # Triton's own definitions stand there too, beside the functions that launch them.
        scan.kernels = {**cpp_kernels(text), **scan.kernels}
        walker: Walker = CppWalker(path, entry, scan.kernels)
    else:
        walker = Walker(
            path,
            scan.functions,
            scan.kernels,
            frozenset(scan.namespaces),
            frozenset(scan.constants),
            scan.partitions,
        )
    if "call" in scan.functions:
        walker.walk("call")
    for name, function in scan.functions.items():
        if name not in walker.reached:
            if "call" in scan.functions:
                scan.problem(function.first_line, f"{name} is never called")
            walker.walk(name)
    if not walker.returned:
        scan.problem(text.count("\n") + 1, _why_incomplete(text, "call" in scan.functions))
    aot_id = _AOT_ID.search(text, 0, 200)
    return OutputCode(
        path=path,
        aot_id=aot_id[1] if aot_id is not None else None,
        kernels=tuple(scan.kernels.values()),
        steps=tuple(walker.steps),
        inputs=walker.inputs,
        outputs=walker.outputs,
        example_inputs=tuple(scan.examples),
        text=text,
        partitions=sum(1 for name in scan.functions if _PARTITION_NAME.match(name)),
        problems=tuple(sorted((*scan.problems, *walker.problems), key=lambda problem: problem.line or 0)),
    )


def has_end(text: str) -> bool:
    """Whether the last line is that of the benchmark (torch/_inductor/codegen/wrapper.py:
    benchmark_compiled_module), whole."""
    last = text.rstrip().rpartition("\n")[2]
    return "compiled_module_main(" in last and open_brackets(last) == 0


def _why_incomplete(text: str, has_call: bool) -> str:
    if not text.strip():
        return "empty file"
    return "ends before `call` returns" if has_call else "no wrapper function `call`"


def _entry_function(text: str) -> Function | None:
    """The body of the C++ function that makes the launches, None where `text` has none."""
    entry = _ENTRY.search(text)
    if entry is None:
        return None
    end = text.find(f"\n}} // {entry['name']}", entry.end())
    stop = end if end >= 0 else len(text)
    lines = text[entry.end() : stop].split("\n")
    # The last line, which a file that was cut off lacks, says that the function came to its end.
    return Function("call", text.count("\n", 0, entry.end()) + 1, lines + ["return;"] * (end >= 0))


class _Scan:
    """One pass over the file: kernels are parsed, functions cut into lines, example inputs read."""

    def __init__(self, text: str, path: str) -> None:
        self.kernels: dict[str, Kernel] = {}
        self.functions: dict[str, Function] = {}
        self.namespaces: list[str] = []
        self.constants: list[str] = []
        self.examples: list[ExampleInput] = []
        self.problems: list[Problem] = []
        self._text = text
        self._path = path
        self._position = 0
        self._line = 1
        end = 0
        while (landmark := _LANDMARK.search(text, end)) is not None:
            end = self._landmark(landmark, end)
        runner = _RUNNER.search(text, end)
        names = split_commas(runner[1]) if runner is not None else ()
        self.partitions = names or tuple(sorted(filter(_PARTITION_NAME.match, self.functions), key=_number))

    def problem(self, line: int, message: str) -> None:
        self.problems.append(Problem(self._path, line, message))

    def _line_of(self, position: int) -> int:
        """The number of the line at `position`; positions are asked for in ascending order."""
        self._line += self._text.count("\n", self._position, position)
        self._position = position
        return self._line

    def _landmark(self, landmark: re.Match[str], previous_end: int) -> int:
        """Takes in what stands at a landmark and returns the position behind it."""
        start = landmark.start() + 1
        if (name := landmark["function"]) is not None:
            if landmark["parameters"] in _WRAPPER_PARAMETERS and (not landmark["indent"] or name == "call"):
                return self._function(name, landmark.end(), len(landmark["indent"]))
            if name in _EXAMPLE_FUNCTIONS and not landmark["indent"]:
                return self._examples(landmark.end())
            return landmark.end()
        name = landmark["name"]
        if landmark["indent"]:
            return landmark.end()
        if landmark["constant"] is not None:
            self.constants.append(name)
            return landmark.end()
        if landmark["namespace"] is not None:
            self.namespaces.append(name)
            return landmark.end()
        if landmark["compiler"] == "wait":
            return landmark.end()
        return self._kernel(name, landmark["compiler"] or "metal", start, previous_end)

    def _kernel(self, name: str, compiler: str, start: int, previous_end: int) -> int:
        text = self._text
        end, complete = definition_end(text, start)
        comment_start = max(text.rfind("\n\n", previous_end, start) + 2, previous_end)
        if text[comment_start : comment_start + 1] != "#":
            comment_start = start
        line = self._line_of(start)
        definition = Definition(name, compiler, start, end, comment_start, line)
        self.kernels[name] = parse_kernel(text, definition, self.kernels)
        if not complete:
            self.problem(line, f"the definition of {name} is cut off")
        return end

    def _function(self, name: str, body: int, indent: int) -> int:
        text = self._text
        end_match = _FUNCTION_END[indent].search(text, body)
        end = end_match.start() if end_match is not None else len(text)
        lines = text[body + 1 : end].split("\n")
        self.functions[name] = Function(name, self._line_of(body) + 1, lines)
        return end

    def _examples(self, body: int) -> int:
        """The arguments that ``get_args`` makes; before 2.11 ``benchmark_compiled_module`` makes them."""
        text = self._text
        end_match = _FUNCTION_END[0].search(text, body)
        end = end_match.start() if end_match is not None else len(text)
        if self.examples:
            return end
        constants = set(_GLOBAL.findall(text, body, end))
        storages: dict[str, ExampleInput] = {}
        for match in _EXAMPLE.finditer(text, body, end):
            name, value = match.groups()
            if name in constants or name in _NOT_INPUTS:
                continue
            line = self._line_of(match.start())
            example = _example_input(name, value, line, storages)
            if example is None:
                self.problem(line, f"example input not understood: {value[:80]}")
                example = ExampleInput(name, None, None, None, None, None, line)
            if name.startswith("_shared_storage_"):
                storages[name] = example
            else:
                self.examples.append(example)
        return end


def _example_input(
    name: str, value: str, line: int, storages: dict[str, ExampleInput]
) -> ExampleInput | None:
    """``rand_strided(size, stride, device='cuda:0', dtype=torch.float32)``, ``torch.as_strided(storage, size,
    stride)``, a number, or a known object without a value; None for anything else."""
    if (simple := _RAND_STRIDED.match(value)) is not None:
        size, stride, device, dtype = simple.groups()
        return ExampleInput(name, parse_extents(size), parse_extents(stride), dtype, device, None, line)
    if value.startswith(("rand_strided(", "torch.as_strided(")):
        positional, named = split_keywords(arguments(value, value.index("(") + 1)[0])
        storage = None
        if value.startswith("torch"):
            storage = storages.get(positional.pop(0)) if positional else None
            if storage is None:
                return None
        if len(positional) < 2:
            return None
        extents = tuple(map(parse_extents, positional[:2]))
        offset = named.get(
            "storage_offset", positional[2] if len(positional) > 2 and storage is not None else "0"
        )
        return ExampleInput(
            name,
            extents[0],
            extents[1],
            parse_dtype(named["dtype"])
            if "dtype" in named
            else storage.dtype
            if storage is not None
            else None,
            unquote(named["device"])
            if "device" in named
            else storage.device
            if storage is not None
            else None,
            None,
            line,
            storage.name if storage is not None else None,
            int(offset) if offset.isdigit() else 0,
        )
    number = _number_of(value)
    if number is None and _OPAQUE.match(value) is None:
        return None
    return ExampleInput(name, None, None, None, None, number, line)


def _number_of(text: str) -> int | float | None:
    """`"16"`, `"3.5"`, `"inf"` and `"False"` as numbers, None for anything else."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def _number(name: str) -> int:
    return int(name.rpartition("_")[2])
