"""One compiled graph of a run, each artifact read when it is first asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from inspector.model.calls import GraphRuns
from inspector.model.code import OutputCode
from inspector.model.fx import FxGraph
from inspector.model.logs import FusionLog
from inspector.model.problem import Problem, Read
from inspector.model.provenance import Provenance
from inspector.model.record import GraphRecord
from inspector.model.run import GRAPH_FILES, GraphArtifacts, forward_of
from inspector.model.runnable import RunnableScript
from inspector.model.schedule import Schedule
from inspector.model.state import GraphState

from .artifacts import (
    CODE,
    FX_AFTER,
    FX_BEFORE,
    GRAPH_TABLE,
    POST_FUSION,
    PRE_FUSION,
    PROVENANCE,
    SCRIPT,
    GraphFile,
)
from .fx_replaced import with_lines
from .run_files import GraphPlace, RunFiles
from .runnable import is_cut
from .text import collection_paused, guarded, read_text

_T = TypeVar("_T")

_RUNNABLE = "fx_graph_runnable.py"
_CUT = "cut short: its last line is missing"
_NO_BENCHMARK = "benchmark_harness = False"
_CODE_IN_CPP = "output_code.cpp"
_EMPTY = "empty file; the compilation may have been cut off"


class CompiledGraph:
    """One compiled graph. Its artifacts come from a folder or from the events of a trace; `run` has the files
    around it. Every method returns None where the artifact is absent, and the same object when called again.
    """

    def __init__(self, run: RunFiles, place: GraphPlace) -> None:
        self.run = run
        self.place = place
        self.name = place.name
        self.phase = place.phase
        self.ident = place.ident
        self.process = place.process
        self.folder = place.folder
        self._texts: dict[str, Read[str | None]] = {}
        self._values: dict[GraphFile[Any], Read[Any]] = {}
        self._lines: dict[bool, Read[FxGraph | None]] = {}

    def __repr__(self) -> str:
        return f"CompiledGraph({self.ident!r})"

    def unread(self) -> CompiledGraph:
        """The same graph with nothing read yet."""
        return CompiledGraph(self.run, self.place)

    @cached_property
    def _listing(self) -> Read[tuple[str, ...]]:
        if self.folder is None:
            return tuple(sorted(self.place.texts)), ()
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self.folder) if os.path.isfile(entry))), ()
        except OSError as error:
            return (), (Problem(self.run.label(self.folder), None, f"cannot be listed: {error.strerror}"),)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that are here, sorted; listing a folder reads none of them."""
        return self._listing[0]

    def stored(self, name: str) -> str:
        """What a file is called here: AOTInductor's code, which is C++ alone, is output_code.cpp."""
        in_cpp = name == CODE.file and name not in self.files and _CODE_IN_CPP in self.files
        return _CODE_IN_CPP if in_cpp else name

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that the run's torch version writes for every graph and that are not here."""
        return tuple(name for name in self.run.expected_files if self.stored(name) not in self.files)

    @property
    def rank(self) -> int | None:
        return self.run.rank_of(self.place)

    @property
    def compile_id(self) -> str | None:
        """torch's ``0/0``."""
        return self.run.compile_id_of(self.place)

    def path(self, name: str) -> Path | None:
        """The file's place on disk, None where it is absent or the graph came from a trace."""
        name = self.stored(name)
        return self.folder / name if self.folder is not None and name in self.files else None

    def label(self, name: str) -> str:
        """How problems call the file: relative to the run."""
        if self.folder is not None:
            return self.run.label(self.folder / self.stored(name))
        return self.place.labels.get(name, f"{self.ident}/{name}")

    def text(self, name: str) -> str | None:
        """The file's text as it is; None where it is absent."""
        return self._text(name)[0]

    @cached_property
    def sources(self) -> Mapping[Path, str]:
        """What running the graph takes, as it was read; empty for a graph that came from a trace."""
        if self.folder is None:
            return {}
        texts = {name: self.text(name) for name in GRAPH_FILES}
        sources = {self.folder / name: text for name, text in texts.items() if text is not None}
        scripts = {path.parent.name: path for path in self.folder.parent.glob(f"model__*/{_RUNNABLE}")}
        forward = forward_of(self.folder.name, scripts)
        return sources | ({scripts[forward]: read_text(scripts[forward])[0]} if forward is not None else {})

    def _text(self, name: str) -> Read[str | None]:
        if name not in self._texts:
            self._texts[name] = self._read_text(name) if self.stored(name) in self.files else (None, ())
        return self._texts[name]

    def _read_text(self, name: str) -> Read[str]:
        text, problems = self.place.read(self.stored(name), self.label(name))
        return text, problems if text.strip() else (*problems, Problem(self.label(name), None, _EMPTY))

    def read(self, row: GraphFile[_T]) -> Read[_T | None]:
        """A row of the table of artifacts: what its file says, and what is wrong with it."""
        if row not in self._values:
            self._values[row] = self._parse(row)
        return self._values[row]

    def _parse(self, row: GraphFile[_T]) -> Read[_T | None]:
        text, problems = self._text(row.file)
        if text is not None:
            return row.read(lambda: (text, problems), self.label(row.file))
        # torch leaves some backward graphs without the provenance file, and only the trace has it.
        traced = self.run.traced_text(self.place, row.file) if row is PROVENANCE else None
        return row.read(traced, self.label(row.file)) if traced is not None else (None, ())

    def fx(self, stage: str) -> FxGraph | None:
        """`readable`: before the post-grad passes; `transformed`: after them."""
        return self.read(FX_BEFORE if stage == "readable" else FX_AFTER)[0]

    def runnable(self) -> RunnableScript | None:
        return self.read(SCRIPT)[0]

    def schedule(self, stage: str) -> Schedule | None:
        """`pre` or `post` fusion."""
        return self.read(PRE_FUSION if stage == "pre" else POST_FUSION)[0]

    def code(self) -> OutputCode | None:
        return self.read(CODE)[0]

    def provenance(self) -> Provenance | None:
        return self.read(PROVENANCE)[0]

    def fusion(self) -> FusionLog | None:
        """The log's account of this graph's fusion; None without a log or without the block."""
        return self.run.fusion_of(self.place)

    def state(self) -> GraphState | None:
        """How torch was set when it first ran."""
        return self.run.state_of(self.place)

    def runs(self) -> GraphRuns | None:
        """What the recorder saw of its runs; None where it saw none."""
        return self.run.runs_of(self.place)

    def record(self) -> GraphRecord | None:
        """What the recorder saw of this graph's schedule; None where it was not there."""
        return self.run.record_of(self.place)

    def artifacts(self) -> GraphArtifacts:
        """Everything, read now."""
        with collection_paused():
            return replace(
                self.own_artifacts(*GRAPH_TABLE),
                compile_id=self.compile_id,
                rank=self.rank,
                missing=self.missing,
                fusion=self.fusion(),
                record=self.record(),
            )

    def own_artifacts(self, *rows: GraphFile[Any]) -> GraphArtifacts:
        """Of the graph's own files only those, and nothing of the files around it."""
        read: dict[str, Read[Any]] = {row.part or row.file: self._part(row) for row in rows}
        parts: dict[str, Any] = {row.part: read[row.part][0] for row in rows if row.part}
        if (code := parts.get(CODE.part)) is not None and not code.calls and not code.problems:
            # What returns only views of its inputs has no scheduler node, and torch writes empty files.
            for row in (PRE_FUSION, POST_FUSION):
                text = self._text(row.file)[0] if row in rows else None
                if text is not None and not text.strip():
                    read[row.part] = read[row.part][0], ()
        problems = (*self._listing[1], *(problem for _, more in read.values() for problem in more))
        if "fx_after" in parts and "fx_before" in parts:
            known = "provenance" in parts
            if known not in self._lines:
                self._lines[known] = self._with_lines(parts)
            parts["fx_after"], more = self._lines[known]
            problems = (*problems, *more)
        return GraphArtifacts(self.ident, self.name, self.phase, files=self.files, problems=problems, **parts)

    def _with_lines(self, parts: Mapping[str, Any]) -> Read[FxGraph | None]:
        after, before, provenance = parts["fx_after"], parts["fx_before"], parts.get("provenance")
        earlier = provenance.post_to_pre if provenance is not None else {}
        return guarded(
            lambda: with_lines(after, before, earlier), after, self.label(FX_AFTER.file), "its lines"
        )

    def _part(self, row: GraphFile[Any]) -> Read[Any]:
        """A row's value; of what is only read on request no more than whether there is anything in it."""
        if row is CODE and (text := self._text(row.file)[0]) is not None and self._lost_its_end(text):
            value, problems = self.read(row)
            return value, (*problems, Problem(self.label(row.file), None, _CUT))
        if row.part:
            return self.read(row)
        text, problems = self._texts.get(row.file) or (
            self._read_text(row.file) if self.stored(row.file) in self.files else (None, ())
        )
        if row is SCRIPT and text is not None and is_cut(text):
            problems = (*problems, Problem(self.label(row.file), None, _CUT))
        return text, problems

    def _lost_its_end(self, code: str) -> bool:
        """Whether generated code lacks the benchmark that ends it, which only a setting leaves out: without
        the script that has the settings it is not known."""
        from .output_code import has_end

        if self.stored(CODE.file) != CODE.file:
            return False
        script = self._text(SCRIPT.file)[0] or ""
        return "\ndef load_args(" in script and _NO_BENCHMARK not in script and not has_end(code)
