"""Faults planted in the C++ and Triton kernels of captured runs, and what replay says of them.

    python benchmarks/faults.py alarms RUN ... [-j JOBS] [-o FILE]      nothing is wrong: none may be blamed
    python benchmarks/faults.py plant RUN ... [-j JOBS] [-o FILE] [--most N] [--seconds S]
    python benchmarks/faults.py plant RUN ... --interpreter --known FILE     Triton's interpreter, same faults

A fault is a change of a kernel's text. An oracle decides whether it is one: the kernel as it was and as it is
run side by side on values of the oracle's own, random, tied, large, special, in memory with margins, and what
differs by more than rounding is a fault. Nothing of replay's comparison is part of that. A fault that shows
on N(0, 1) is plain, one that shows on other values only is a matter of values. Results are lines of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

_KERNEL = re.compile(
    r"^(?P<name>(?:cpp|triton)_\w+) = async_compile\.(?P<kind>\w+)\((?P<body>.*?)'''(?:\)|, device_str)",
    re.MULTILINE | re.DOTALL,
)

TMP = r"tmp\w*"
_ERF_VECTOR = r"(\1 * decltype(\1)(1.1283792f) + \1 * \1 * \1 * decltype(\1)(0.1009108f)).tanh()"
_BF16_VECTOR = (
    r"[](auto v) { float b[decltype(v)::size()]; v.store(b); for (auto& x : b) "
    r"x = static_cast<float>(c10::BFloat16(x)); return decltype(v)::loadu(b); }(\1 + \2)"
)

Change = tuple[str, str, str | Callable[[re.Match[str]], str]]


def _scaled(factor: float) -> Callable[[re.Match[str]], str]:
    return lambda match: f"{match[1]}{float(match[2]) * factor!r}{match[3]}"


def _less(match: re.Match[str]) -> str:
    return f"{match[1]}{int(match[2]) - 1}{match[3]}"


CPP: list[Change] = [
    (">= for >", rf"({TMP}) > ({TMP}|\w+\()", r"\1 >= \2"),
    ("> for >=", rf"({TMP}) >= ({TMP}|\w+\()", r"\1 > \2"),
    ("<= for <", rf"({TMP}) < ({TMP})\b", r"\1 <= \2"),
    ("< for <=", rf"({TMP}) <= ({TMP})\b", r"\1 < \2"),
    ("== for >=", rf"({TMP}) >= ({TMP})\b", r"\1 == \2"),
    ("minimum for maximum", r"at::vec::maximum\(", "at::vec::minimum("),
    ("maximum for minimum", r"at::vec::minimum\(", "at::vec::maximum("),
    ("NaN swallowed", r"max_propagate_nan\((tmp\w+), (tmp\w+)\)", r"(\1 > \2 ? \1 : \2)"),
    ("no lower bound", rf"at::vec::clamp_min\(({TMP}), [^;]*;", r"\1;"),
    ("dropped accumulation", r"(tmp_acc\w+) = \1 \+ (tmp\w+);", r"\1 = \2;"),
    ("dropped accumulation", r"(tmp_acc\w+) = sum_masked_reduce\(\1, (\w+), [^;]*;", r"\1 = \2;"),
    ("bfloat16 accumulator", r"(?<=_vec = )(tmp_acc\w+_vec) \+ (tmp\w+)(?=;)", _BF16_VECTOR),
    (
        "bfloat16 accumulator",
        r"(?<== )(tmp_acc\d+) \+ (tmp\w+)(?=;)",
        r"static_cast<float>(c10::BFloat16(\1 + \2))",
    ),
    ("constant 1 % off", r"(static_cast<float>\()(-?\d+\.\d+(?:e-?\d+)?)(\))", _scaled(1.01)),
    ("constant 0.01 % off", r"(static_cast<float>\()(-?\d+\.\d+(?:e-?\d+)?)(\))", _scaled(1.0001)),
    ("sign of an epsilon", r"(static_cast<float>\()(\d\.?\d*e-\d+)(\))", _scaled(-1.0)),
    ("off by one bound", r"(x\d<static_cast<int64_t>\()(\d+)(L\))", _less),
    ("off by one index", r"(static_cast<int64_t>\()(\d\d+)(L\*x\d)", _less),
    ("wrong index", r"(in_ptr\d\[static_cast<int64_t>\()(x\d)", r"\1 0*\2"),
    ("wrong wrap", r"(auto tmp\d+ = \d*u?L?static_cast<int64_t>\()(\d+)(L?\);)", _less),
    ("wrong wrap", rf"({TMP}) < 0\b", r"\1 < -1"),
    ("wrong sign", rf"(= {TMP}) \+ ({TMP})(?=;|\))", r"\1 - \2"),
    ("wrong sign", rf"(= {TMP}) - ({TMP})(?=;|\))", r"\1 + \2"),
    ("swapped operands", rf"= ({TMP}) - ({TMP})(?=;|\))", r"= \2 - \1"),
    ("wrong sign", rf"\(-({TMP})\)|({TMP})\.neg\(\)", r"(\1\2)"),
    ("swapped outputs", r"out_ptr0(?= \+|\[)", "out_ptr1"),
    ("tanh's GELU", rf"({TMP})\.erf\(\)", _ERF_VECTOR),
    ("tanh's GELU", rf"std::erf\(({TMP})\)", r"std::tanh(\1 * 1.1283792f + \1 * \1 * \1 * 0.1009108f)"),
    ("dropped mask", rf"decltype\({TMP}\)::blendv\(({TMP}), ({TMP}), {TMP}[^;]*;", r"\2;"),
    ("dropped mask", rf"({TMP}) \? ({TMP}) : ({TMP});", r"\2;"),
    ("other branch", rf"({TMP}) \? ({TMP}) : ({TMP});", r"\1 ? \3 : \2;"),
    ("dropped function", rf"({TMP})\.(?:abs|sqrt|floor|round|sin|tanh|exp)\(\)", r"\1"),
    (
        "trunc for floor",
        r"std::floor\(|\.floor\(\)",
        lambda m: "std::trunc(" if "std" in m[0] else ".trunc()",
    ),
    ("rsqrt for sqrt", r"\.rsqrt\(\)", ".sqrt()"),
    ("wrong wide", r"(sum_masked_reduce\([^;]*static_cast<int64_t>\()(\d+)(L\)\))", _less),
    ("missing division", rf"(= {TMP}) / ({TMP})(?=;|\))", r"\1"),
]

TRITON: list[Change] = [
    (">= for >", rf"({TMP}) > ({TMP})", r"\1 >= \2"),
    ("> for >=", rf"({TMP}) >= ({TMP})", r"\1 > \2"),
    ("<= for <", rf"({TMP}) < ({TMP})", r"\1 <= \2"),
    ("< for <=", rf"({TMP}) <= ({TMP})", r"\1 < \2"),
    ("NaN swallowed", r"triton_helpers\.maximum\((tmp\w+), (tmp\w+)\)", r"tl.where(\1 > \2, \1, \2)"),
    ("minimum for maximum", r"triton_helpers\.maximum\(", "triton_helpers.minimum("),
    ("maximum for minimum", r"triton_helpers\.minimum\(", "triton_helpers.maximum("),
    ("min for max", r"triton_helpers\.max2\(", "triton_helpers.min2("),
    ("dropped accumulation", r"(tmp\d+) = (_tmp\d+) \+ (tmp\d+)", r"\1 = \3"),
    (
        "bfloat16 accumulator",
        r"(tmp\d+) = (_tmp\d+) \+ (tmp\d+)",
        r"\1 = (\2 + \3).to(tl.bfloat16).to(tl.float32)",
    ),
    ("bfloat16 sum", r"tl\.sum\((tmp\d+), 1\)", r"tl.sum(\1.to(tl.bfloat16).to(tl.float32), 1)"),
    ("constant 1 % off", r"(tmp\d+ = |, )(-?\d+\.\d+(?:e-?\d+)?)(\n|, tl)", _scaled(1.01)),
    ("constant 0.01 % off", r"(tmp\d+ = |, )(-?\d+\.\d+(?:e-?\d+)?)(\n|, tl)", _scaled(1.0001)),
    ("sign of an epsilon", r"(tmp\d+ = |, )(\d\.?\d*e-\d+)(\n|, tl)", _scaled(-1.0)),
    ("off by one index", r"(\(\w+ \+ )(\d\d+)(\*\w+\))", _less),
    ("off by one bound", r"(xindex < )(xnumel)()", r"\1(xnumel - 1)"),
    ("off by one bound", r"(r0_index < )(r0_numel)()", r"\1(r0_numel - 1)"),
    ("wrong index", r"tl\.load\(in_ptr0 \+ \((x\d)\)", r"tl.load(in_ptr0 + (0*\1)"),
    ("wrong wrap", r"(tmp\d+ = tl\.full\(\[[^\]]*\], )(\d+)(, tl\.int)", _less),
    ("wrong wrap", rf"({TMP}) < 0\b", r"\1 < -1"),
    ("wrong sign", rf"(= {TMP}) \+ ({TMP})\n", r"\1 - \2\n"),
    ("wrong sign", rf"(= {TMP}) - ({TMP})\n", r"\1 + \2\n"),
    ("swapped operands", rf"= ({TMP}) - ({TMP})\n", r"= \2 - \1\n"),
    ("wrong sign", rf"= -({TMP})\n", r"= \1\n"),
    ("swapped outputs", r"tl\.store\(out_ptr0 ", "tl.store(out_ptr1 "),
    (
        "tanh's GELU",
        rf"libdevice\.erf\(({TMP})\)",
        r"libdevice.tanh(\1 * 1.1283792 + \1 * \1 * \1 * 0.1009108)",
    ),
    ("dropped mask", rf"tl\.where\([^,]*mask[^,]*, ({TMP}), 0\)", r"\1"),
    ("dropped mask", rf"tl\.where\({TMP}, ({TMP}), ({TMP})\)", r"\1"),
    ("other branch", rf"tl\.where\(({TMP}), ({TMP}), ({TMP})\)", r"tl.where(\1, \3, \2)"),
    ("wrong filler", r"other=0\.0", "other=1.0"),
    (
        "dropped function",
        rf"(?:tl_math\.abs|libdevice\.sqrt|libdevice\.floor|tl_math\.sin|libdevice\.tanh|tl_math\.exp|libdevice\.exp)\(({TMP})\)",
        r"\1",
    ),
    ("trunc for floor", r"libdevice\.floor\(", "libdevice.trunc("),
    ("sqrt for rsqrt", r"libdevice\.rsqrt\(", "libdevice.sqrt("),
    ("missing division", rf"\(({TMP}) / ({TMP})\)", r"(\1)"),
    ("max for sum", r"tl\.sum\(([^,]+), 1\)", r"tl.max(\1, 1)"),
]


@dataclass(frozen=True)
class Fault:
    """A change of one kernel of one graph: the text between two places of output_code.py."""

    graph: str
    kernel: str
    kind: str
    start: int
    end: int
    new: str

    def plant(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def faults_of(graph: str, text: str, most: int, seed: int = 0) -> list[Fault]:
    """At most `most` faults for each kernel, as many kinds as there are, at places drawn at random."""
    faults = []
    for kernel in _KERNEL.finditer(text):
        if "template" in kernel["body"][:400]:
            continue
        changes = TRITON if kernel["kind"] == "triton" else CPP
        start = kernel.start("body")
        # Of a Triton source only the function, not what its decorator says; of C++ what is behind the head.
        inner = (
            text.find("\ndef ", start, kernel.end())
            if kernel["kind"] == "triton"
            else text.find('extern "C"', start)
        )
        start = max(start, inner)
        body = text[start : kernel.end("body")]
        by_kind: dict[str, list[Fault]] = {}
        for kind, pattern, new in changes:
            if kind == "swapped outputs" and "out_ptr1" not in body:
                continue
            for match in re.finditer(pattern, body):
                changed = new(match) if callable(new) else match.expand(new)
                if changed != match[0]:
                    place = start + match.start()
                    by_kind.setdefault(kind, []).append(
                        Fault(graph, kernel["name"], kind, place, place + len(match[0]), changed)
                    )
        choice = random.Random(f"{seed}{graph}{kernel['name']}")
        kinds = sorted(by_kind)
        choice.shuffle(kinds)
        chosen: list[Fault] = []
        while kinds and len(chosen) < most:
            for kind in list(kinds):
                if by_kind[kind] and len(chosen) < most:
                    chosen.append(by_kind[kind].pop(choice.randrange(len(by_kind[kind]))))
                if not by_kind[kind]:
                    kinds.remove(kind)
        faults += chosen
    return faults


# -- the oracle


class Launches:
    """What one call of the generated module hands each kernel; later calls go to `kernels` instead."""

    def __init__(self, text: str) -> None:
        self.module = executed(text)
        self.seen: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {}

    def record(self, args: list[Any]) -> None:
        space = self.module
        for name in [name for name in space if re.match(r"(cpp|triton)_", name)]:
            space[name] = _Recorded(name, space[name], self.seen)
        space["call"](args)


class _Recorded:
    def __init__(self, name: str, kernel: Any, seen: dict[str, Any]) -> None:
        self._name, self._kernel, self._seen = name, kernel, seen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._seen.setdefault(self._name, (_copied(args), kwargs))
        return self._kernel(*args, **kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        self._seen.setdefault(self._name, (_copied(args), kwargs))
        return self._kernel.run(*args, **kwargs)


def _copied(args: Sequence[Any]) -> tuple[Any, ...]:
    import torch

    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)


def executed(text: str) -> dict[str, Any]:
    """The generated module's names."""
    space: dict[str, Any] = {"__name__": "faulty", "__file__": "/tmp/faulty.py"}
    exec(compile(text, "<output_code>", "exec"), space)
    return space


MARGIN = 64
DRAWS = ("plain", "plain", "tied", "tied", "large", "special", "positive", "constants")


def oracle(before: Any, after: Any, launch: tuple[tuple[Any, ...], dict[str, Any]], text: str) -> str:
    """`plain` or `values`: the kernels differ by more than rounding, on N(0, 1) or on other values only;
    `same`: they don't; `unstable`: the kernel as it was differs from itself."""
    import torch

    args, kwargs = launch
    constants = sorted({float(value) for value in re.findall(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?", text)})[:20]
    differs = False
    for number, kind in enumerate(DRAWS * 2):
        generator = torch.Generator().manual_seed(number)
        drawn = [_drawn(arg, kind, constants, generator) for arg in args]
        results = [_ran(kernel, drawn, kwargs) for kernel in (before, before, after)]
        if not _alike(results[0], results[1], exact=True):
            return "unstable"
        if not _alike(results[0], results[2], exact=False):
            differs = True
            if kind == "plain":
                return "plain"
    return "values" if differs else "same"


def _drawn(arg: Any, kind: str, constants: Sequence[float], generator: Any) -> Any:
    """An argument's values; indices are those that were seen, in another order."""
    import torch

    if not isinstance(arg, torch.Tensor) or not arg.numel():
        return arg
    count = arg.numel()
    if arg.dtype == torch.bool:
        return (torch.rand(count, generator=generator) < 0.5).reshape(arg.shape)
    if not arg.dtype.is_floating_point:
        flat = arg.flatten().cpu()
        return flat[torch.randint(count, (count,), generator=generator)].reshape(arg.shape)
    values = torch.randn(count, generator=generator, dtype=torch.float64)
    if kind == "positive":
        values = values.abs() + 0.1
    elif kind == "large":
        values = values * 10.0 ** torch.randint(-2, 4, (count,), generator=generator)
    elif kind in {"tied", "constants"}:
        pool = [-1.0, 0.0, 1.0, 2.0, -3.0] if kind == "tied" else [*constants, *(-c for c in constants), 0.0]
        values = torch.tensor(pool, dtype=torch.float64)[
            torch.randint(len(pool), (count,), generator=generator)
        ]
    elif kind == "special":
        pool = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 30.0], dtype=torch.float64)
        picked = pool[torch.randint(5, (count,), generator=generator)]
        values = torch.where(torch.rand(count, generator=generator) < 0.05, picked, values)
    return values.to(arg.dtype).reshape(arg.shape)


def _ran(kernel: Any, drawn: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Every tensor after the launch, with the margins around it."""
    import torch

    whole, args = [], []
    for value in drawn:
        if not isinstance(value, torch.Tensor):
            args.append(value)
            continue
        extent = (
            1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
            if value.numel()
            else 0
        )
        memory = (
            torch.full((extent + 2 * MARGIN,), 3, dtype=torch.float32).to(value.dtype).to(_device(kwargs))
        )
        inner = torch.as_strided(memory, value.shape, value.stride(), MARGIN)
        inner.copy_(value)
        whole.append(memory)
        args.append(inner)
    if "stream" in kwargs:
        torch.cuda.set_device(0)
        kernel.run(*args, **{**kwargs, "stream": torch.cuda.current_stream().cuda_stream})
        torch.cuda.synchronize()
    else:
        kernel(*args, **kwargs)
    return [memory.cpu() for memory in whole]


def _device(kwargs: dict[str, Any]) -> str:
    return "cuda" if "stream" in kwargs else "cpu"


def _alike(left: Sequence[Any], right: Sequence[Any], exact: bool) -> bool:
    import torch

    for one, other in zip(left, right, strict=True):
        if not one.dtype.is_floating_point:
            if not torch.equal(one, other):
                return False
            continue
        a, b = one.double(), other.double()
        same = (a == b) | (a.isnan() & b.isnan())
        if not exact:
            eps = torch.finfo(one.dtype).eps
            inner = a[MARGIN:-MARGIN]
            inner = inner[inner.isfinite()]
            scale = inner.abs().median() if inner.numel() else torch.zeros(())
            near = (
                (a - b).abs() <= 32 * eps * (a.abs() + scale)
                if eps < 1e-4
                else (a - b).abs() <= 3 * eps * (a.abs() + scale)
            )
            same |= near & a.isfinite() & b.isfinite()
        if not bool(same.all()):
            return False
    return True


# -- one graph, in this process


def verdicts(files: Any, options: Any) -> tuple[dict[int, Any], list[Any], str]:
    """What replay says of each call, of the outputs, and why it failed, without a child."""
    import torch

    from inspector.replay import protocol
    from inspector.replay.worker.events import Failure
    from inspector.replay.worker.replay import Replay

    kernels: dict[int, Any] = {}
    outputs: list[Any] = []

    class Reporter:
        def send(self, event: Any) -> None:
            if isinstance(event, protocol.KernelChecked):
                kernels[event.kernel.call] = event.kernel
            elif isinstance(event, protocol.OutputChecked):
                outputs.append(event.check)

        def stage(self, *_: object) -> None: ...

        def note(self, *_: object) -> None: ...

    failure = ""
    with TemporaryDirectory() as scratch, torch.no_grad():
        request = protocol.Request(files, options, Path(scratch), only_kernels=not options.whole)
        try:
            Replay(request, Reporter(), options.device == "cpu" and "TRITON_INTERPRET" in os.environ).run()  # type: ignore[arg-type]
        except Failure as error:
            failure = str(error)
    return kernels, outputs, failure


def work(task: dict[str, Any], out: Path) -> None:
    """Handles one graph's faults (none: the graph as it is), a line of `out` for each."""
    import torch

    from inspector.readers.run import Run
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions

    torch.set_num_threads(1)
    graph = Run.open(Path(task["run"])).graph(task["graph"])
    files = graph_files(graph)
    text = files.output_code.read_text()
    options = ReplayOptions(
        whole=task["plant"] is None, rounds=3, max_time_s=0.5, time_kernels=False, seed=1, interpreter_s=4.0
    )
    if task["interpreter"]:
        options = replace(options, device="cpu")

    def tell(**line: Any) -> None:
        with out.open("a") as file:
            file.write(json.dumps({"run": task["run"], "graph": task["graph"], **line}) + "\n")

    def said(kernels: dict[int, Any]) -> list[dict[str, Any]]:
        return [
            {
                "call": call,
                "name": item.name,
                "verdict": item.verdict,
                "kinds": item.kinds,
                "reason": item.reason[:300],
            }
            for call, item in kernels.items()
        ]

    if task["plant"] is None:
        started = time.perf_counter()
        kernels, outputs, failure = verdicts(files, options)
        bad = [
            f"{check.name}: {check.verdict} {check.reason}"[:300]
            for check in outputs
            if check.verdict not in {"match", "compiled_closer"}
        ]
        tell(
            kernels=said(kernels),
            outputs=len(outputs),
            not_match=bad,
            failure=failure,
            seconds=time.perf_counter() - started,
        )
        return
    native = not task["interpreter"]
    if native:
        launches = Launches(text)
        launches.record(_arguments(files, launches.module))
        plain = executed(text)
    for fault in [Fault(*item) for item in task["plant"]]:
        key = [fault.kernel, fault.kind, fault.start, fault.new]
        if key in task["done"]:
            continue
        tell(fault=key, begun=True)
        changed = fault.plant(text)
        real = task["real"].get(json.dumps(key), "")
        try:
            if native:
                if fault.kernel not in launches.seen:
                    tell(fault=key, real="never launched")
                    continue
                other = executed(changed)
                real = oracle(
                    plain[fault.kernel],
                    other[fault.kernel],
                    launches.seen[fault.kernel],
                    text[fault.start - 3000 : fault.start + 3000],
                )
        except Exception as error:
            tell(fault=key, real="does not compile", error=str(error)[-200:])
            continue
        if real not in {"plain", "values"}:
            tell(fault=key, real=real)
            continue
        tell(fault=key, real=real, begun=True)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "output_code.py"
            path.write_text(changed)
            try:
                kernels, _, failure = verdicts(replace(files, output_code=path), options)
            except Exception as error:
                kernels, failure = {}, f"{type(error).__name__}: {error}"
        guilty = [item for item in kernels.values() if item.name == fault.kernel]
        blamed = [
            f"{item.name}: {item.reason[:200]}"
            for item in kernels.values()
            if item.name != fault.kernel and item.verdict == "mismatch"
        ]
        worst = "mismatch" if any(item.verdict == "mismatch" for item in guilty) else ""
        worst = worst or next(
            (item.verdict for item in guilty if item.verdict != "match"),
            guilty[0].verdict if guilty else "no row",
        )
        reason = next((item.reason for item in guilty if item.verdict == worst), "")[:300]
        kinds = guilty[0].kinds if guilty else ()
        tell(
            fault=key,
            real=real,
            verdict=worst,
            reason=reason,
            kinds=kinds,
            blamed=blamed,
            failure=failure,
            old=text[fault.start : fault.end],
        )


def _arguments(files: Any, space: dict[str, Any]) -> list[Any]:
    """The graph's arguments: floats N(0, 1), indices in range as replay chooses them."""
    import torch

    from inspector.replay.worker.code.fx import load_program
    from inspector.replay.worker.inputs.arguments import Inputs, TensorSpec
    from inspector.replay.worker.inputs.roles import choose_values

    specs = []
    for number, arg in enumerate(space["get_args"]()):
        if isinstance(arg, torch.Tensor):
            arg = TensorSpec(tuple(arg.shape), tuple(arg.stride()), arg.dtype, str(arg.device), number)
        specs.append(arg)
    program = load_program(files.fx_runnable, files.fx_transformed)
    inputs = Inputs(specs, 5)
    choose_values(program, inputs)
    return inputs.fresh()


# -- all of them

DONE = "=== done ===\n"
REAL = ("plain", "values")


def _without_end(fault: list[Any]) -> list[Any]:
    """Graph, kernel, kind, start and new text."""
    return [*fault[:4], fault[5]]


def tasks(
    runs: Sequence[Path], options: argparse.Namespace, known: dict[str, dict[str, str]]
) -> Iterator[dict[str, Any]]:
    from inspector.readers.run import Run

    for run in runs:
        for graph in Run.open(run).graphs:
            if "output_code.py" not in graph.files or graph.folder is None:
                continue
            base = {
                "run": str(run),
                "graph": graph.ident,
                "plant": None,
                "done": [],
                "real": known.get(f"{run} {graph.ident}", {}),
                "interpreter": options.interpreter,
            }
            if options.what == "alarms":
                yield base
                continue
            text = (graph.folder / "output_code.py").read_text()
            faults = faults_of(graph.ident, text, options.most, options.seed)
            for first in range(0, len(faults), 6):
                chunk = [list(vars(fault).values()) for fault in faults[first : first + 6]]
                if options.interpreter:
                    # Only what the oracle called a fault where it ran natively.
                    said = [
                        base["real"].get(json.dumps([k, *rest])) for _, k, *rest in map(_without_end, chunk)
                    ]
                    chunk = [item for item, real in zip(chunk, said, strict=True) if real in REAL]
                if chunk:
                    yield {**base, "plant": chunk}


class Child:
    """A process that handles one task after the other; after a crash another one takes its place."""

    def __init__(self, out: Path, interpreter: bool) -> None:
        self._out = out
        self._interpreter = interpreter
        self._process: subprocess.Popen[str] | None = None
        self._errors = open(f"{out}.{id(self)}.err", "w+")  # noqa: SIM115

    def _started(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        environment["TORCHINDUCTOR_CACHE_DIR"] = os.environ.get("FAULTS_CACHE", "/tmp/faults-cache")
        if self._interpreter:
            environment["TRITON_INTERPRET"] = "1"
        command = [sys.executable, __file__, "serve", str(self._out)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=self._errors, text=True
        )

    def handle(self, task: dict[str, Any], until: float) -> None:
        """Gives a task to the process, and after a crash what is left of it to another one."""
        for _ in range(8):
            left = until - time.monotonic()
            if left < 2:
                return
            process = self._process = self._process or self._started()
            assert process.stdin is not None and process.stdout is not None
            timer = Timer(min(left, 120.0), process.kill)
            timer.start()
            try:
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
                done = any(line == DONE for line in process.stdout)
            except BrokenPipeError:
                done = False
            finally:
                timer.cancel()
            if done or time.monotonic() > until - 1:
                return
            process.kill()
            code, self._process = process.wait(), None
            if not self._blame(task, f"exit {code}"):
                return

    def _blame(self, task: dict[str, Any], ended: str) -> bool:
        """Writes down with what the process ended; whether there is more to do of the task."""
        lines = (
            [json.loads(line) for line in self._out.read_text().splitlines()] if self._out.exists() else []
        )
        place = (task["run"], task["graph"])
        mine = [line for line in lines if (line["run"], line["graph"]) == place and "fault" in line]
        finished = [line["fault"] for line in mine if not line.get("begun")]
        last = next((line for line in reversed(mine) if line["fault"] not in finished), None)
        self._errors.flush()
        self._errors.seek(0)
        said = self._errors.read()[-400:]
        line = {"run": task["run"], "graph": task["graph"], "ended": ended, "error": said}
        if last is not None:
            line.update(fault=last["fault"], real=last.get("real", "crashed in the oracle"), verdict="crash")
        with self._out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if last is None or task["plant"] is None:
            return False
        task["done"] = [*finished, last["fault"]]
        return True

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        Path(self._errors.name).unlink()


def handled(queue: SimpleQueue[dict[str, Any]], out: Path, until: float, interpreter: bool) -> None:
    """Works on the queue until it is empty."""
    child = Child(out, interpreter)
    try:
        while time.monotonic() < until - 2:
            child.handle(queue.get_nowait(), until)
    except Empty:
        pass
    finally:
        child.end()


def summarise(out: Path, what: str) -> str:
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return "\n".join(_alarms(lines) if what == "alarms" else _planted(lines))


def _alarms(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    kernels = [(line["graph"], item) for line in lines for item in line.get("kernels", ())]
    counts = Counter(item["verdict"] for _, item in kernels)
    kinds = Counter(len(item["kinds"]) for _, item in kernels)
    seconds = sum(line.get("seconds", 0.0) for line in lines)
    yield f"{len(lines)} graphs, {len(kernels)} kernel calls: {dict(counts)}"
    yield f"kinds of values: {dict(kinds)}; {seconds:.1f} s"
    for graph, item in kernels:
        if item["verdict"] != "match":
            yield f"  {graph} {item['name'][:60]}: {item['verdict']} {item['kinds']} {item['reason'][:230]}"
    for line in lines:
        yield from (f"  {line['graph']} output {bad[:230]}" for bad in line.get("not_match", ()))
        if line.get("failure") or line.get("ended"):
            why = f"{line.get('failure')} {line.get('ended')} {line.get('error', '')[-200:]}"
            yield f"  {line['graph']} failed: {why}"


def _planted(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    done = [line for line in lines if not line.get("begun")]
    real = [line for line in done if "verdict" in line and line.get("real") in {"plain", "values"}]
    for sort in ("plain", "values"):
        rows = [line for line in real if line["real"] == sort]
        yield f"{len(rows)} faults ({sort}): {dict(Counter(line['verdict'] for line in rows))}"
    yield f"not faults: {dict(Counter(line.get('real') for line in done if line not in real))}"
    yield f"others blamed: {sum(bool(line.get('blamed')) for line in real)}"
    for line in real:
        if line["verdict"] != "mismatch" or line.get("blamed"):
            kernel, kind, _, new = line["fault"]
            yield f"  {line['real']} {line['verdict']} {line['graph']} {kernel[:60]} [{kind}]"
            yield f"      {line.get('old', '')[:90]!r} -> {new[:90]!r}"
            said = (line.get("kinds"), line.get("reason", "")[:150], line.get("failure", "")[:100])
            yield f"      {' '.join(map(str, said))} {line.get('blamed') or ''}"


def main() -> None:
    if sys.argv[1] == "serve":
        for line in sys.stdin:
            work(json.loads(line), Path(sys.argv[2]))
            print(f"\n{DONE}", end="", flush=True)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["alarms", "plant", "show"])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("-o", type=Path, default=Path("faults.jsonl"))
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--known", type=Path, help="what the oracle said natively, for --interpreter")
    options = parser.parse_args()
    if options.what == "show":
        print(summarise(options.o, str(options.runs[0])))
        return
    known: dict[str, dict[str, str]] = {}
    for line in map(json.loads, options.known.read_text().splitlines() if options.known else ()):
        if "fault" in line and not line.get("begun"):
            known.setdefault(f"{line['run']} {line['graph']}", {})[json.dumps(line["fault"])] = line.get(
                "real", ""
            )
    options.o.unlink(missing_ok=True)
    until = time.monotonic() + options.seconds
    todo = list(tasks(options.runs, options, known))
    random.Random(options.seed).shuffle(todo)
    queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
    for task in todo:
        queue.put(task)
    with ThreadPoolExecutor(options.j) as pool:
        workers = [
            pool.submit(handled, queue, options.o, until, options.interpreter) for _ in range(options.j)
        ]
    for worker in workers:
        worker.result()
    print(summarise(options.o, options.what))


if __name__ == "__main__":
    main()
