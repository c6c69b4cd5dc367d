"""The files that a run may hold: where each lies, what parses it, and what that yields.

To read another file, write its parser in a module of this package, and add its row below. A row of a graph's
folder is read with `CompiledGraph.read(ROW)`, one of the run with `RunFiles.read(ROW)`; both give the value
and the problems. Rows name their parsers, so that opening a run imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from inspector.model.code import OutputCode
from inspector.model.fx import FxGraph
from inspector.model.logs import TorchLog
from inspector.model.problem import Read
from inspector.model.provenance import Provenance
from inspector.model.record import ProcessRecord
from inspector.model.run import GRAPH_FILES, MANIFEST_NAME, PROVENANCE_FILE, Manifest
from inspector.model.runnable import RunnableScript
from inspector.model.schedule import Schedule

from .locate import Kind
from .text import guarded, read_text

_T = TypeVar("_T")
TextReader = Callable[[], Read[str]]
"""Reads one text, wherever it lies."""


@dataclass(frozen=True, slots=True, eq=False)
class Artifact(Generic[_T]):
    """One row. `parser` is ``module:function`` of this package: of a text, and the path that problems name it
    by, it makes a `yields` with its `problems`, or a pair of the two; what it raises for what is in the
    text is a problem, too."""

    parser: str
    yields: type[_T]

    def read(self, source: TextReader, label: str) -> Read[_T | None]:
        text, problems = source()
        module, _, function = self.parser.partition(":")
        parser = getattr(import_module(f".{module}", __package__), function)
        parsed, failed = guarded(lambda: parser(text, label), None, label, "it")
        if parsed is None:
            return None, (*problems, *failed)
        value, more = parsed if type(parsed) is tuple else (parsed, parsed.problems)
        return value, (*problems, *more)


@dataclass(frozen=True, slots=True, eq=False)
class GraphFile(Artifact[_T]):
    """A file of a compiled graph's folder, or the trace's event with the same text. `part` is the field of
    GraphArtifacts that it fills, empty for what is only read on request."""

    file: str
    part: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class RunFile(Artifact[_T]):
    """Files of a run as a whole: `patterns` are globs below what was opened, by its kind."""

    patterns: Mapping[Kind, tuple[str, ...]]

    def read_path(self, path: Path, label: str) -> Read[_T | None]:
        return self.read(lambda: read_text(path, label), label)


def matching(
    patterns: Mapping[Kind, tuple[str, ...]],
    kind: Kind,
    root: Path,
    accept: Callable[[Path], bool] = Path.is_file,
) -> tuple[Path, ...]:
    """The files of the first pattern that any fits, sorted; empty where such a run has none."""
    for pattern in patterns.get(kind, ()):
        if paths := sorted(path for path in root.glob(pattern) if accept(path)):
            return tuple(paths)
    return ()


_READABLE, _TRANSFORMED, _RUNNABLE, _PRE, _POST, _CODE = GRAPH_FILES

FX_BEFORE = GraphFile("fx_graph:parse_fx_graph", FxGraph, _READABLE, "fx_before")
FX_AFTER = GraphFile("fx_graph:parse_fx_graph", FxGraph, _TRANSFORMED, "fx_after")
SCRIPT = GraphFile("runnable:parse_runnable", RunnableScript, _RUNNABLE)
PRE_FUSION = GraphFile("schedule:parse_pre_fusion", Schedule, _PRE, "pre")
POST_FUSION = GraphFile("schedule:parse_post_fusion", Schedule, _POST, "post")
CODE = GraphFile("output_code:parse_output_code", OutputCode, _CODE, "code")
PROVENANCE = GraphFile("provenance:parse_provenance", Provenance, PROVENANCE_FILE, "provenance")

GRAPH_TABLE: tuple[GraphFile[Any], ...] = (
    FX_BEFORE, FX_AFTER, SCRIPT, PRE_FUSION, POST_FUSION, CODE, PROVENANCE,
)  # fmt: skip

MANIFEST = RunFile("manifest:parse_manifest", Manifest, {"capture": (MANIFEST_NAME,)})
LOGS = RunFile(
    "torch_log:parse_torch_log",
    TorchLog,
    # Standard error has what TORCH_LOGS wrote, where no file was named for it.
    {"capture": ("torch_logs.txt", "logs/torch_logs.txt", "stderr.txt", "logs/stderr.txt")},
)
DEBUG_LOGS = RunFile(
    "dynamo_messages:parse_debug_log",
    TorchLog,
    {
        "capture": ("torch_compile_debug/run_*/torchdynamo/debug.log",),
        "debug folder": ("run_*/torchdynamo/debug.log",),
        "process folder": ("torchdynamo/debug.log",),
    },
)
RECORDS = RunFile("record:parse_record", ProcessRecord, {"capture": ("record/*.jsonl",)})
RUN_TABLE: tuple[RunFile[Any], ...] = (MANIFEST, LOGS, DEBUG_LOGS, RECORDS)

TRACE_PATTERNS: Mapping[Kind, tuple[str, ...]] = {
    "capture": ("trace/*.log", "torch_compile_debug/tlparse/*.log", "*.log"),
    "trace": ("*.log",),
    "debug folder": ("tlparse/*.log",),
    "process folder": ("tlparse/*.log",),
    "graph folder": ("tlparse/*.log",),
}
"""Structured traces, which are indexed in place of being parsed as a whole (`trace_file`)."""
