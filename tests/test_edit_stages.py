"""What an edit of a kernel changes of what that is lowered to."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sharing import unpacked

from inspector.lowered import Lowered
from inspector.model.edits import KernelEdit, StageFigure
from inspector.model.replay import KernelReplay
from inspector.present.kernel_result import stage_figure_lines
from inspector.readers.run import Run
from inspector.replay import edits
from inspector.replay.lower_protocol import LowerJob
from inspector.replay.lowering import Lowerings
from inspector.replay.protocol import ReplayOptions

DATA = Path(__file__).parent / "data"


def test_an_edit_has_the_figures_of_both_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The edited one spills, as its disassembly is made to say."""
    run = Run.open(unpacked(DATA / "planted-h200.tar.xz", tmp_path) / "planted.run")
    item = next(item for graph in run.graphs for item in Lowered(run).kernels(graph) if item.stage("sass"))
    assert item.folder is not None
    files = item.folder.files
    asked: list[LowerJob] = []

    def lower(jobs: Sequence[LowerJob], folder: Path, *_: Any) -> Lowerings:
        asked.extend(jobs)
        for key, job in zip("ab", jobs, strict=True):
            (folder / key).mkdir()
            for path in files.values():
                shutil.copy(path, folder / key)
            if job.source == "edited":
                usage, sass = (folder / key / files[name].name for name in ("usage", "sass"))
                usage.write_text(usage.read_text().replace(f"REG:{item.folder.registers}", "REG:99"))  # type: ignore[union-attr]
                sass.write_text(
                    sass.read_text().replace("LDG.E.EF.128", "LDL.128").replace("LDG.E.128", "LDL.128")
                )
        return Lowerings(keys={0: "a", 1: "b"})

    monkeypatch.setattr(edits, "lower_kernels", lower)
    graph = run.graph(item.graph)
    code = graph.code()
    assert code is not None
    call = next(call.index for call in code.calls if call.kernel == item.kernel.name)
    done = KernelReplay(item.kernel.name, call, "match")
    edit = edits.with_stages(
        KernelEdit(item.graph, item.kernel.name, call, 1, "edited", edited=done), run, ReplayOptions()
    )
    assert [job.source == "edited" for job in asked] == [False, True] and not any(job.cubin for job in asked)
    figures = {figure.name: (figure.before, figure.after) for figure in edit.stages}
    assert figures["registers"] == (item.folder.registers, 99)
    before, after = figures["loads of 128 bits"]
    assert before and after is None and figures["of these spills"] == (None, before)
    shown = [line.text for line in stage_figure_lines(edit)]
    assert f"of these spills         none → {before}" in "\n".join(shown), shown
    assert not any("layout conversions" in text for text in shown), "what is the same is not said"
    # What cannot be lowered is an edit without figures.
    monkeypatch.setattr(edits, "lower_kernels", lambda *_: Lowerings(keys={0: "a"}))
    assert edits.with_stages(replace(edit, stages=()), run, ReplayOptions()).stages == ()


def test_figures_that_do_not_differ_are_said_to(tmp_path: Path) -> None:
    edit = KernelEdit("g", "k", 0, 1, "", stages=(StageFigure("registers", 8, 8),))
    (line,) = stage_figure_lines(edit)
    assert "as many registers" in line.text
    assert not list(stage_figure_lines(replace(edit, stages=())))
