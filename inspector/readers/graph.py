"""One compiled graph of a run, each artifact read when it is first asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from inspector.model.code import OutputCode
from inspector.model.fx import FxGraph
from inspector.model.logs import FusionLog
from inspector.model.problem import Problem
from inspector.model.provenance import Provenance
from inspector.model.record import GraphRecord, RecordedKernel
from inspector.model.run import GRAPH_FILES, PROVENANCE_FILE, GraphArtifacts
from inspector.model.runnable import RunnableScript
from inspector.model.schedule import Schedule

from .text import collection_paused, read_text

if TYPE_CHECKING:
    from .run import Run

_T = TypeVar("_T")
TextReader = Callable[[], tuple[str, tuple[Problem, ...]]]
"""Reads one text, with what was wrong with it."""


class CompiledGraph:
    """One compiled graph. Its artifacts come from a folder or from the events of a trace.

    Every method returns None where the artifact is absent, and the same object when called again.
    What went wrong while reading is in `problems`, which grows as artifacts are read.
    """

    def __init__(
        self, run: Run, name: str, phase: str, ident: str, process: str, folder: Path | None = None
    ) -> None:
        self.run = run
        self.name = name
        self.phase = phase
        self.ident = ident
        self.process = process
        self.folder = folder
        self._texts: dict[str, TextReader] = {}
        self._parsed: dict[str, Any] = {}
        self._problems: list[Problem] = []
        self._trace_id: tuple[str | None, int | None] = (None, None)

    @classmethod
    def from_events(
        cls,
        run: Run,
        name: str,
        phase: str,
        ident: str,
        texts: dict[str, TextReader],
        compile_id: str | None,
        rank: int | None,
    ) -> CompiledGraph:
        """A graph of a bare trace: `texts` maps file names to readers of their payloads."""
        graph = cls(run, name, phase, ident, "")
        graph._texts = texts
        graph._trace_id = (compile_id, rank)
        return graph

    def __repr__(self) -> str:
        return f"CompiledGraph({self.ident!r})"

    @cached_property
    def files(self) -> tuple[str, ...]:
        """Names of the files that are here, sorted; listing a folder reads none of them."""
        if self.folder is None:
            return tuple(sorted(self._texts))
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self.folder) if entry.is_file()))
        except OSError as error:
            self._problems.append(
                Problem(self.run.label(self.folder), None, f"cannot be listed: {error.strerror}")
            )
            return ()

    @property
    def missing(self) -> tuple[str, ...]:
        """Files that the run's torch version writes for every graph and that are not here."""
        expected = [*GRAPH_FILES]
        if self.run.writes_provenance:
            expected.append(PROVENANCE_FILE)
        return tuple(name for name in expected if name not in self.files)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(self._problems)

    @property
    def rank(self) -> int | None:
        return self._trace_id[1] if self.folder is None else self.run.rank_of(self.process)

    @property
    def compile_id(self) -> str | None:
        """torch's ``0/0``: from the log's ``debug trace:`` line, else from the trace."""
        if self.folder is None:
            return self._trace_id[0]
        return self.run.compile_ids.get((self.process, self.name), self.run.compile_ids.get(("", self.name)))

    def path(self, name: str) -> Path | None:
        """The file's place on disk, None where it is absent or the graph came from a trace."""
        return self.folder / name if self.folder is not None and name in self.files else None

    def label(self, name: str) -> str:
        """How problems call the file: relative to the run."""
        return self.run.label(self.folder / name) if self.folder is not None else f"{self.ident}/{name}"

    def text(self, name: str) -> str | None:
        """The file's text as it is; None where it is absent."""
        return self._once(f"text {name}", lambda: self._read(name))

    def _read(self, name: str) -> str | None:
        if name not in self.files:
            return None
        if self.folder is not None:
            text, problems = read_text(self.folder / name, self.label(name))
        else:
            text, problems = self._texts[name]()
        self._problems.extend(problems)
        if not text.strip():
            self._problems.append(
                Problem(self.label(name), None, "empty file; the compilation may have been cut off")
            )
        return text

    def fx(self, stage: str) -> FxGraph | None:
        """`readable`: before the post-grad passes; `transformed`: after them."""
        from .fx_graph import parse_fx_graph

        return self._artifact(f"fx_graph_{stage}.py", parse_fx_graph)

    def runnable(self) -> RunnableScript | None:
        from .runnable import parse_runnable

        return self._artifact("fx_graph_runnable.py", parse_runnable)

    def schedule(self, stage: str) -> Schedule | None:
        """`pre` or `post` fusion."""
        from .schedule import parse_schedule

        return self._artifact(
            f"ir_{stage}_fusion.txt",
            lambda text, path: parse_schedule(text, path, "pre" if stage == "pre" else "post"),
        )

    def code(self) -> OutputCode | None:
        from .output_code import parse_output_code

        return self._artifact("output_code.py", parse_output_code)

    def provenance(self) -> Provenance | None:
        """From the folder; torch leaves some backward graphs without the file, and only the trace has it."""
        from .provenance import parse_provenance

        if self.folder is None or PROVENANCE_FILE in self.files:
            return self._artifact(PROVENANCE_FILE, parse_provenance)

        def from_trace() -> Provenance | None:
            read = self.run.traced_text(self, PROVENANCE_FILE)
            return parse_provenance(read()[0], self.label(PROVENANCE_FILE)) if read is not None else None

        return self._once(PROVENANCE_FILE, from_trace)

    def fusion(self) -> FusionLog | None:
        """The log's account of this graph's fusion; None without a log or without the block."""
        return self.run.fusion_of(self)

    def record(self) -> GraphRecord | None:
        """What the recorder saw of this graph's schedule; None where it was not there."""
        return self.run.record_of(self)

    def kernel_results(self) -> dict[str, RecordedKernel]:
        """What compiling and tuning each Triton kernel gave, by name; empty where the recorder saw none."""
        return self.run.kernels_of(self)

    def artifacts(self) -> GraphArtifacts:
        """Everything, read now."""
        with collection_paused():
            whole = self._read_everything()
        # Problems grow while the artifacts are read, so they are taken last.
        return replace(whole, problems=self.problems)

    def _read_everything(self) -> GraphArtifacts:
        return GraphArtifacts(
            ident=self.ident,
            name=self.name,
            phase=self.phase,
            compile_id=self.compile_id,
            rank=self.rank,
            files=self.files,
            missing=self.missing,
            fx_before=self.fx("readable"),
            fx_after=self.fx("transformed"),
            pre=self.schedule("pre"),
            post=self.schedule("post"),
            code=self.code(),
            provenance=self.provenance(),
            fusion=self.fusion(),
            record=self.record(),
        )

    def _artifact(self, name: str, parse: Callable[[str, str], _T]) -> _T | None:
        def build() -> _T | None:
            text = self.text(name)
            if text is None:
                return None
            parsed = parse(text, self.label(name))
            self._problems.extend(getattr(parsed, "problems", ()))
            return parsed

        return self._once(name, build)

    def _once(self, key: str, build: Callable[[], _T]) -> _T:
        if key not in self._parsed:
            self._parsed[key] = build()
        return self._parsed[key]  # type: ignore[no-any-return]
