"""What is to be replayed, how, and in which environment: the parent's side, without torch."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from inspector.model.problem import InspectorError
from inspector.model.run import GRAPH_FILES, GraphName
from inspector.readers.graph import CompiledGraph
from inspector.replay.kernel_plan import kernel_plan

_DROPPED_PREFIXES = ("TORCH_COMPILE_DEBUG", "TORCH_LOGS", "TORCH_TRACE", "TORCHINDUCTOR_", "TORCHDYNAMO_")
"""Settings that make torch write debug files, move its caches or change what it generates."""

_DROPPED = frozenset({"TRITON_CACHE_DIR", "TRITON_DUMP_DIR", "TRITON_KERNEL_DUMP", "TRITON_ALWAYS_COMPILE"})

_KEPT = frozenset({"TORCHINDUCTOR_COMPILE_THREADS"})


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How to replay.

    `timeout_s`: seconds for one graph's child, compiling its kernels included; six times as many in Triton's
    interpreter. `rounds`: timing rounds, eager and compiled once in each; fewer where they would take longer
    than `max_time_s`. `warmup`: untimed calls of each before the first round. `min_block_ms`: a round
    repeats a call until it lasts this long, so that the clock's grain does not show. `device`: None for the
    one the graph was compiled for, "cpu", or "cuda:N" for the GPU that stands in for cuda:0.
    `whole`: whether the graph is run and timed as a whole. `kernels`: whether each kernel call is run by
    itself; `kernel`: only that one, by its name or its call's number. `kernel_timeout_s`: seconds for one
    launch. `time_kernels`: whether they are timed too, each for `kernel_time_s` seconds, with `time_warm`
    also on a warm L2 cache. `cudagraphs`: the compiled call is timed as one CUDA graph, too. `source`: text
    that takes the place of the source of `kernel`, run beside the original. `interpreter_s`: where Triton's
    interpreter stands in for a GPU, the seconds after which a launch's remaining programs are left out.
    `seed`: of the random inputs. `python`: the interpreter, None for this one. `cache_dir`: where
    the child's Inductor and Triton caches live, None for a folder that is removed afterwards.
    """

    timeout_s: float = 300.0
    rounds: int = 30
    warmup: int = 3
    min_block_ms: float = 2.0
    max_time_s: float = 20.0
    device: str | None = None
    seed: int = 0
    python: str | None = None
    cache_dir: Path | None = None
    whole: bool = True
    kernels: bool = True
    kernel: str | None = None
    kernel_timeout_s: float = 60.0
    time_kernels: bool = True
    kernel_time_s: float = 0.2
    time_warm: bool = False
    cudagraphs: bool = False
    source: str | None = None
    interpreter_s: float = 10.0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        data = asdict(self)
        data["cache_dir"] = str(self.cache_dir) if self.cache_dir else None
        return data


@dataclass(frozen=True, slots=True)
class GraphFiles:
    """One compiled graph's files. `output_code` need not exist: that is then the replay's failure.

    `forward`: for a backward graph the fx_graph_runnable.py of its forward, which is run in eager
    for the activations that it saved; without it they are made up. `saved_inputs`: its real arguments,
    where ``capture --save-inputs`` kept them. `kernels` is `kernel_plan`'s result, None where kernels are
    not to be run one by one.
    """

    name: str
    output_code: Path
    fx_runnable: Path | None = None
    fx_transformed: Path | None = None
    forward: Path | None = None
    saved_inputs: Path | None = None
    kernels: Mapping[str, Any] | None = None

    def calls_of(self, kernel: str) -> list[Mapping[str, Any]]:
        """The calls of the kernel with that name, or the one with that number."""
        calls = self.kernels["calls"] if self.kernels is not None else []
        return [call for call in calls if kernel in (call["kernel"], str(call["index"]))]

    @classmethod
    def of_graph(cls, graph: CompiledGraph) -> GraphFiles:
        """A graph's files and its kernel calls. Raises InspectorError for a graph that only a trace holds."""
        if graph.folder is None:
            raise InspectorError(
                f"{graph.ident}: a trace can be read but not replayed; open the run's folder"
            )
        files = cls.of_folder(graph.folder, graph.ident)
        script = graph.runnable()
        return replace(files, kernels=kernel_plan(graph.artifacts(), script.symbols if script else None))

    @classmethod
    def of_folder(cls, folder: Path, name: str | None = None) -> GraphFiles:
        """The files of a ``model__N_PHASE_M.K`` folder, or of any with files so named; no kernel calls."""
        _, transformed, runnable, _, _, code = (folder / file for file in GRAPH_FILES)
        return cls(
            name or folder.name,
            code,
            runnable if runnable.is_file() else None,
            transformed if transformed.is_file() else None,
            _forward_of(folder),
            saved_inputs_of(folder),
        )


def _forward_of(folder: Path) -> Path | None:
    """The forward graph with the AOT id of the backward graph in `folder`, compiled last before it."""
    own = GraphName.parse(folder.name)
    if own is None or own.phase != "backward":
        return None
    found: tuple[int, Path] | None = None
    for path in folder.parent.glob(f"model__{own.aot_id}_forward_*/fx_graph_runnable.py"):
        name = GraphName.parse(path.parent.name)
        if name is not None and name.order < own.order and (found is None or name.order > found[0]):
            found = (name.order, path)
    return found[1] if found else None


def saved_inputs_of(folder: Path) -> Path | None:
    """RUN/inputs/PROCESS/GRAPH.pt of the folder RUN/torch_compile_debug/PROCESS/torchinductor/GRAPH."""
    parents = folder.resolve().parents
    if len(parents) < 4:
        return None
    path = parents[3] / "inputs" / parents[1].name / f"{folder.name}.pt"
    return path if path.is_file() else None


def build_request(
    graph: GraphFiles,
    options: ReplayOptions,
    scratch: Path,
    *,
    only_kernels: bool = False,
    done: Sequence[int] = (),
    skip: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """What the child is told; paths are absolute because it runs in `scratch`.

    `only_kernels`: the graph as a whole was done by an earlier child. `done`: calls that need no check any
    more; `skip`: calls that must not be made, with what happened when they were.
    """
    return {
        "kernels": graph.kernels if options.kernels else None,
        "wanted": [call["index"] for call in graph.calls_of(options.kernel)] if options.kernel else None,
        "only_kernels": only_kernels,
        "done": list(done),
        "skip": {str(call): reason for call, reason in (skip or {}).items()},
        "name": graph.name,
        "output_code": str(graph.output_code.resolve()),
        "fx_runnable": str(graph.fx_runnable.resolve()) if graph.fx_runnable else None,
        "fx_transformed": str(graph.fx_transformed.resolve()) if graph.fx_transformed else None,
        "forward": str(graph.forward.resolve()) if graph.forward else None,
        "saved_inputs": str(graph.saved_inputs.resolve()) if graph.saved_inputs else None,
        "scratch": str(scratch),
        "options": options.to_dict(),
    }


def child_environment(
    cache: Path, options: ReplayOptions, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """This process's environment without what would make torch log, dump or use another cache.

    `cache` becomes Inductor's and Triton's cache folder. ``cuda:N`` in the options becomes
    CUDA_VISIBLE_DEVICES, counted among the devices that are visible now.
    """
    environ = os.environ if environ is None else environ
    result = {
        key: value
        for key, value in environ.items()
        if key in _KEPT or not (key.startswith(_DROPPED_PREFIXES) or key in _DROPPED)
    }
    result["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
    result["TRITON_CACHE_DIR"] = str(cache / "triton")
    result.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(min(8, os.cpu_count() or 1)))
    # A crash then leaves its Python stack in the child's log.
    result["PYTHONFAULTHANDLER"] = "1"
    if options.device and options.device.startswith("cuda:"):
        index = options.device.removeprefix("cuda:")
        visible = [item for item in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if item]
        result["CUDA_VISIBLE_DEVICES"] = (
            visible[int(index)] if index.isdigit() and int(index) < len(visible) else index
        )
    return result


def child_command(options: ReplayOptions, request: Path, descriptor: int) -> Sequence[str]:
    """``PYTHON bootstrap.py REQUEST FD``; by path, so that PYTHON need not have Inspector installed."""
    bootstrap = Path(__file__).with_name("bootstrap.py")
    return [options.python or sys.executable, str(bootstrap), str(request), str(descriptor)]


def host_machine() -> dict[str, Any]:
    """What this process can say of the machine without torch; the child adds to it."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cpu_count": os.cpu_count(),
    }


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
