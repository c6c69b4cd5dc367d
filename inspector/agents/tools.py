"""What an agent may ask, as functions that return JSON: the contracts' objects, bounded, and what is next.

Every path is below one folder. Looking executes nothing of a run; `Running` has what does, for a user who
allowed it. A user's mistake raises InspectorError, one line that says what to do.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inspector.contract.bounds import bounded
from inspector.contract.next import next_commands
from inspector.library import Graph, Run
from inspector.library import open as open_run
from inspector.model.problem import InspectorError
from inspector.process import Child, Limits, own_command
from inspector.readers.locate import runs_at
from inspector.text import clean
from inspector.views.loading import sketch_run

Answer = dict[str, Any]
LIMIT = 20
"""Entries of a list, where nobody asks for another number: an answer is read by a model."""
_SOURCE = 12_000
"""Characters of a kernel's source."""
_RUN_S = 1_800.0


class Looking:
    """Questions about the runs below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @property
    def tools(self) -> list[Callable[..., Answer]]:
        return [self.list_runs, self.summary, self.explain, self.kernel, self.why_not_fused, self.compare]

    def list_runs(self, limit: int = LIMIT) -> Answer:
        """The captured runs below the server's folder, newest first: path, torch, graphs, and what a steady
        call took compiled and in eager. Begin here."""
        runs = []
        for located in runs_at(self.folder):
            sketch = sketch_run(located)
            calls = sketch.calls
            runs.append(
                {
                    "path": os.path.relpath(located.shown, self.folder),
                    "kind": located.kind,
                    "torch": sketch.torch_version,
                    "graphs": sketch.graphs,
                    "started": sketch.started or None,
                    "compiled_ms": None if calls is None else calls.compiled_ms,
                    "eager_ms": None if calls is None else calls.eager_ms,
                    "outcome": "unknown" if calls is None else calls.outcome,
                    "error": sketch.error or None,
                }
            )
        runs.sort(key=lambda run: run["started"] or 0.0, reverse=True)
        following = [shlex.join(("inspector", "explain", str(run["path"]), "--json")) for run in runs[:1]]
        return {**bounded({"schema": "inspector.runs/1", "runs": runs}, limit), "next": following}

    def summary(self, path: str, limit: int = LIMIT) -> Answer:
        """What was compiled: graphs, kernels, each graph break and recompile with its line and reason,
        compile time, problems."""
        return self._answered(self._run(path).json("summary"), limit, path)

    def explain(self, path: str, limit: int = LIMIT) -> Answer:
        """Why the compiled program is slow or fast: the verdict in one sentence, findings worst first, each
        with evidence, cost and advice, and where a steady call's time goes."""
        return self._answered(self._run(path).json("explain"), limit, path)

    def kernel(self, path: str, kernel: str, graph: str = "", limit: int = LIMIT) -> Answer:
        """One kernel: its source, launches, times, the program's lines that it computes, and the fusions that
        it is made of. `graph` is needed where several graphs have a kernel of that name."""
        run = self._run(path)
        matching = [item for item in run.kernels if item.name == kernel and graph in ("", item.graph)]
        if len(matching) != 1:
            names = [item.graph for item in matching] if matching else [item.name for item in run.kernels]
            what = f"{len(matching)} graphs have {kernel}, name one" if matching else f"no kernel {kernel}"
            raise InspectorError(f"{path}: {what}; there are: {', '.join(names[:12]) or 'none'}")
        (chosen,) = matching
        own: Graph = run.graphs[chosen.graph]
        source = own.kernel_source(kernel) or ""
        replayed = own.replay.kernels if own.replay is not None else ()
        data = {
            "schema": "inspector.kernel/1",
            "kernel": asdict(chosen),
            "source": source[:_SOURCE],
            "source_left_out": max(0, len(source) - _SOURCE),
            "replayed": [
                {"call": item.call, "ms": item.own_ms, "verdict": item.verdict, "reason": item.reason}
                for item in replayed
                if item.name == kernel
            ],
            "fusions": [asdict(item) for item in own.fusions if item.kernel == kernel],
        }
        words = ["lower", path, "--graph", chosen.graph, "--kernel", kernel, "--json"]
        return {**bounded(data, limit), "next": [shlex.join(("inspector", *words))]}

    def why_not_fused(self, path: str, about: str = "", graph: str = "", limit: int = LIMIT) -> Answer:
        """Pairs of groups that touch the same memory and did not fuse, worst first: the bytes that it would
        have saved, torch's reason, the same in words, and what to do. `about` keeps pairs in which a node,
        kernel or source line has that text; `graph` those of one graph."""
        run = self._run(path)
        if graph and graph not in [item.name for item in run.graphs]:
            names = ", ".join(item.name for item in run.graphs[:12])
            raise InspectorError(f"{path}: no graph {graph}; there are: {names or 'none'}")
        pairs = []
        for item in run.graphs:
            kernels = {group.name: group.kernel for group in item.fusions}
            for pair in item.missed if graph in ("", item.name) else ():
                sides = (pair.first, pair.second)
                entry = {**asdict(pair), "kernels": [kernels.get(side) for side in sides]}
                told = [*sides, *entry["kernels"], *pair.first_lines, *pair.second_lines]
                if any(about in (text or "") for text in told):
                    pairs.append(entry)
        pairs.sort(key=lambda entry: -(entry["bytes"] or 0))
        words = ["fusions", path, *(["--graph", graph] if graph else []), "--json"]
        data = {"schema": "inspector.missed/1", "pairs": pairs}
        return {**bounded(data, limit), "next": [shlex.join(("inspector", *words))]}

    def compare(self, before: str, after: str, limit: int = LIMIT) -> Answer:
        """What differs between two runs: the verdict, kernels matched by what they compute, graphs, settings,
        times."""
        answer = self._run(before).compare_json(self._run(after))
        return {**bounded(answer, limit), "next": next_commands(answer, [before, after])}

    def _answered(self, answer: Answer, limit: int, path: str) -> Answer:
        return {**bounded(answer, limit), "next": next_commands(answer, [path])}

    def _run(self, path: str) -> Run:
        return open_run(self.below(path))

    def below(self, path: str) -> Path:
        """The absolute path; InspectorError where it is not below the folder, however it is written."""
        place = Path(os.path.realpath(self.folder / path))
        if not place.is_relative_to(self.folder):
            raise InspectorError(f"{path}: not below the folder that this server shows: {self.folder}")
        return place


class Running(Looking):
    """The same with what executes programs of this machine; only for a user who said so."""

    @property
    def tools(self) -> list[Callable[..., Answer]]:
        return [*super().tools, self.capture, self.try_setting]

    def capture(self, command: list[str], out: str, baseline: bool = True, limit: int = LIMIT) -> Answer:
        """Run a command such as ["python", "train.py"] in the server's folder, keep what torch.compile writes
        as the new run `out`, and summarise it. `baseline` runs it again in eager, which says whether that
        pays. It executes the program, several times."""
        target = str(self.below(out))
        options = ["--baseline"] if baseline else []
        code, said = self._execute("capture", "--exit-zero", *options, "-o", target, "--", *command)
        if code:
            raise InspectorError(said or f"the capture ended with {code}")
        return self.summary(out, limit)

    def try_setting(self, path: str, setting: str = "first", limit: int = LIMIT) -> Answer:
        """Run a run's command again as a finding advises and compare: `first`, `modes`, `auto`, or a
        finding's rule. It executes the program, several times."""
        code, said = self._execute(
            "explain", str(self.below(path)), f"--try={setting}", "--json", "--limit=0"
        )
        try:
            answer: Answer = json.loads(said)
        except ValueError:
            raise InspectorError(said or f"it ended with {code}") from None
        return self._answered(answer, limit, path)

    def _execute(self, *words: str) -> tuple[int, str]:
        """Exit code, and what it printed; of a failure the last line of its errors. Nothing of it may come
        onto our own output, which is the protocol's."""
        chunks: dict[str, list[bytes]] = {"out": [], "err": []}
        ending = Child(
            own_command(*words),
            cwd=self.folder,
            stdout=chunks["out"].append,
            stderr=chunks["err"].append,
        ).follow(Limits(_RUN_S))
        out, err = (b"".join(parts).decode("utf-8", "replace") for parts in chunks.values())
        if ending.timed_out:
            return 1, f"it took longer than {_RUN_S / 60:.0f} minutes"
        last = next((line for line in reversed(err.splitlines()) if line.strip()), "")
        return ending.shell_code, out if out.strip() else clean(last)
