"""fx_graph_runnable.py: environment, settings, graph and inputs of one compiled graph.

torch/_dynamo/repro/after_aot.py: generate_compiler_repro_string writes, in this order: hints of
symbolic sizes, environment, imports, settings, versions and GPUs as comments, Triton kernels of
the user, ``class Repro`` with the graph, and ``load_args``, one line for each storage and input:

    buf0 = reader.storage(None, 40000, device=device(type='cuda', index=0))
    reader.tensor(buf0, (100, 100), is_leaf=True)  # arg0_1

The script is taken apart as text and never executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, get_args

from inspector.model.problem import Problem
from inspector.model.runnable import InputKind, RunnableInput, RunnableScript
from inspector.model.source import LineSpan, Size, parse_size

from .brackets import split_commas

# s77 = 16
_SYMBOL = re.compile(r"^(\w+) = (-?\d+)$", re.MULTILINE)

# os.environ['TORCH_LOGS'] = 'fusion'      (a value may hold line breaks)
_ENVIRONMENT = re.compile(r"^os\.environ\['([^']*)'\] = '([^']*)'$", re.MULTILINE)

# torch._inductor.config.triton.store_cubin = False
_SETTING = re.compile(r"^(torch\.[\w.]*config\.[\w.]+) = (.*)$", re.MULTILINE)

# # torch version: 2.11.0+cu130      # torch cuda version: 13.0      # torch git version: 70d99e99
_VERSION = re.compile(r"^# torch (version|cuda version|git version): (.*)$", re.MULTILINE)

# # GPU Hardware Info:
# # NVIDIA H200 : 1
_HARDWARE = re.compile(r"^# GPU Hardware Info: *\n((?:# .* : \d+ *\n)*)", re.MULTILINE)

# # NVIDIA H200 : 1
_DEVICE = re.compile(r"^# (.*) : (\d+) *$", re.MULTILINE)

# # CUDA Info:
# # nvcc: NVIDIA (R) Cuda compiler driver
_TOOLKIT = re.compile(r"^# CUDA Info: *\n((?:# .*\n)*)", re.MULTILINE)

# buf0 = reader.storage('9f86d0', 256*s77, device=device(type='cuda', index=0), dtype_hint=torch.bool)
_STORAGE = re.compile(r"(\w+) = reader\.storage\((.*)\)")

# reader.tensor(buf0, (100, 100), is_leaf=True)  # arg0_1
_INPUT = re.compile(r"reader\.(\w+)\((.*?)\)(?:  # (.*))?")

# The start of one of the two above; other statements only adjust values for a run.
_READS = re.compile(r"(?:\w+ = )?reader\.(?!args\b)")

# device(type='cuda', index=0)
_DEVICE_OBJECT = re.compile(r"device\(type='(\w+)'(?:, index=(\d+))?\)")

# run_repro(mod, load_args, accuracy=False, command='run', save_dir=None, tracing_mode='real', check_str=None)
_RUN = re.compile(r"run_repro\(mod, load_args, .*?save_dir=(None|'[^']*'), tracing_mode='(\w+)'")

_GRAPH_HEAD = "\nclass Repro("
_INPUTS_HEAD = "\ndef load_args(reader):"
_AFTER_INPUTS = ("load_args.", "mod = ")
_NO_GPU = "# torch.cuda.is_available()==False"
_KINDS: tuple[InputKind, ...] = get_args(InputKind)


class _Storage(NamedTuple):
    """What ``reader.storage`` says of a piece of memory; sizes in bytes."""

    saved_as: str | None
    size: Size
    device: str


def parse_runnable(text: str, path: str) -> RunnableScript:
    """The facts in a repro script; `path` is only used in problems. Never raises.

    A script that torch refused to write (it says so in one sentence), or that is cut, gives what
    there is and a problem.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    problems: list[Problem] = []
    source = "\n" + text
    inputs_at = source.find(_INPUTS_HEAD)
    graph_at = source.find(_GRAPH_HEAD)
    if graph_at < 0:
        message = (
            text.strip().partition("\n")[0][:200] if "not generated" in text else "no class Repro: cut short?"
        )
        problems.append(Problem(path, None, message))
    if inputs_at < 0:
        problems.append(Problem(path, None, "no load_args: the inputs are not known"))
    ends = [at for at in (graph_at, inputs_at) if at >= 0]
    preamble = source[: min(ends)] + "\n" if ends else source
    graph_text = (
        source[graph_at + 1 : inputs_at if inputs_at > graph_at else None].rstrip() if graph_at >= 0 else ""
    )
    first = source.count("\n", 0, graph_at + 1)
    span = LineSpan(first, first + graph_text.count("\n")) if graph_text else None
    read: list[RunnableInput | Problem] = []
    if inputs_at >= 0:
        read += _InputReader(path).read(source[inputs_at + 1 :], source.count("\n", 0, inputs_at + 1))
    versions = {kind: value.strip() for kind, value in _VERSION.findall(preamble)}
    cuda = versions.get("cuda version")
    hardware = _HARDWARE.search(preamble)
    toolkit = _TOOLKIT.search(preamble)
    devices = tuple(
        (name.strip(), int(count)) for name, count in _DEVICE.findall(hardware[1] if hardware else "")
    )
    run = _RUN.search(source, max(inputs_at, 0))
    return RunnableScript(
        path=path,
        text=text,
        torch_version=versions.get("version"),
        cuda_version=None if cuda == "None" else cuda,
        git_version=versions.get("git version"),
        devices=devices,
        has_gpu=True if devices else False if _NO_GPU in preamble else None,
        toolkit=tuple(line[2:].strip() for line in toolkit[1].splitlines()) if toolkit else (),
        environment=dict(_ENVIRONMENT.findall(preamble)),
        config=tuple((name, value) for name, value in _SETTING.findall(preamble)),
        symbols={name: int(value) for name, value in _SYMBOL.findall(preamble.partition("\nimport ")[0])},
        tracing_mode=run[2] if run else None,
        save_dir=run[1].strip("'") if run and run[1] != "None" else None,
        graph_text=graph_text,
        graph_span=span,
        inputs=tuple(item for item in read if not isinstance(item, Problem)),
        problems=(*problems, *(item for item in read if isinstance(item, Problem))),
    )


class _InputReader:
    """Reads the lines of ``load_args`` (torch/_dynamo/debug_utils.py: InputWriter.lines)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.storages: dict[str, _Storage] = {}

    def read(self, text: str, line: int) -> Iterator[RunnableInput | Problem]:
        """The inputs in `text`, which starts at `line` with the head of ``load_args``, and what is none."""
        in_quotes = False
        for number, raw in enumerate(text.split("\n")[1:], line + 1):
            if raw.startswith(_AFTER_INPUTS):
                return
            if raw and not raw.startswith(" "):
                yield Problem(self.path, number, "not a line of load_args")
                continue
            content = raw.strip()
            if content == '"""':
                # Between these, torch shows what a list that it cannot dump would hold.
                in_quotes = not in_quotes
            if in_quotes or not _READS.match(content) or self.storage(content):
                continue
            unknown = Problem(self.path, number, "an input that is cut or not known")
            yield self.input(content, number) or unknown
        yield Problem(self.path, None, "load_args does not end: cut short?")

    def storage(self, content: str) -> bool:
        match = _STORAGE.fullmatch(content)
        arguments = split_commas(match[2]) if match else ()
        if match is None or len(arguments) < 2:
            return False
        keywords = _keywords(arguments)
        saved_as = None if arguments[0] == "None" else arguments[0].strip("'\"")
        self.storages[match[1]] = _Storage(
            saved_as, parse_size(arguments[1]), _device(keywords.get("device", ""))
        )
        return True

    def input(self, content: str, line: int) -> RunnableInput | None:
        match = _INPUT.fullmatch(content)
        kind = next((kind for kind in _KINDS if match and match[1] == kind), None)
        if match is None or kind is None:
            return None
        arguments = split_commas(match[2])
        label = (match[3] or "").strip()
        if kind == "tensor":
            return self.tensor(arguments, label, content, line)
        first = arguments[0] if arguments else ""
        if kind == "symint":
            expression = _keywords(arguments).get("expr")
            value = _number(first)
            return RunnableInput(
                label,
                kind,
                line,
                content,
                value=value,
                expression=expression.strip("'\"") if expression else None,
            )
        if kind == "generator":
            device = first.strip("'\"")
            index = arguments[1] if len(arguments) > 1 else "None"
            return RunnableInput(
                label, kind, line, content, device=device if index == "None" else f"{device}:{index}"
            )
        name = label if kind == "opaque" else first.strip("'\"")
        return RunnableInput(name, kind, line, content)

    def tensor(self, arguments: tuple[str, ...], label: str, content: str, line: int) -> RunnableInput | None:
        if len(arguments) < 2 or arguments[0] not in self.storages:
            return None
        storage = self.storages[arguments[0]]
        keywords = _keywords(arguments)
        shape = tuple(map(parse_size, split_commas(arguments[1][1:-1])))
        has_stride = len(arguments) > 2 and arguments[2].startswith("(")
        stride = tuple(map(parse_size, split_commas(arguments[2][1:-1]))) if has_stride else contiguous(shape)
        return RunnableInput(
            label,
            "tensor",
            line,
            content,
            shape=shape,
            stride=stride,
            dtype=keywords.get("dtype", "float32").removeprefix("torch."),
            device=storage.device,
            offset=parse_size(keywords.get("storage_offset", "0")),
            requires_grad=keywords.get("requires_grad") == "True",
            storage=arguments[0],
            storage_hash=storage.saved_as,
            storage_bytes=storage.size,
        )


def _keywords(arguments: tuple[str, ...]) -> dict[str, str]:
    """The ``name=value`` ones among printed arguments."""
    pairs = (argument.partition("=") for argument in arguments)
    return {name: value for name, mark, value in pairs if mark and name.isidentifier()}


def _device(text: str) -> str:
    """``device(type='cuda', index=0)`` as ``cuda:0``; torch leaves the CPU unsaid."""
    match = _DEVICE_OBJECT.fullmatch(text)
    if match is None:
        return "cpu"
    return f"{match[1]}:{match[2]}" if match[2] else match[1]


def _number(text: str) -> int | float | None:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return None


def contiguous(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The strides in elements that torch leaves unsaid: row-major; symbolic ones are products as text."""
    strides: list[Size] = []
    known, symbols = 1, ""
    for extent in reversed(shape):
        strides.append(f"{known}{symbols}" if symbols else known)
        if isinstance(extent, int):
            known *= max(extent, 1)
        else:
            symbols += f"*{extent}" if extent.isidentifier() else f"*({extent})"
    return tuple(reversed(strides))
