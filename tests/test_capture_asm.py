"""The assembly that a capture keeps of its C++ kernels."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from inspector.capture import launch
from inspector.cli import cli
from inspector.lowered import lowered_kernels
from inspector.model.lowering import Frame, LoweredFolder
from inspector.readers.run import Run
from inspector.readers.stages.files import folders_of, own_file
from inspector.replay import assembly

# As objdump -dl writes it, with the file that Inductor compiled.
PRINTED = """
/c/k.so:     file format elf64-x86-64

0000000000002340 <kernel>:
kernel():
{file}:{line}
    2340:\tvmovss (%rdi),%xmm0
    2344:\tvaddss (%rsi),%xmm0,%xmm0
    2348:\tjl     2340 <kernel>
"""


@pytest.fixture
def captured(corpus: Path, tmp_path: Path) -> Path:
    """A run whose libraries lie in its cache, as Inductor leaves them."""
    run = tmp_path / "run"
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", run)
    for number, item in enumerate(cpp(run)):
        folder = run / "cache" / "inductor" / f"a{number}"
        folder.mkdir(parents=True)
        (folder / "c.main.cpp").write_text(f"\n{item.kernel.source}\n// g++ c.main.cpp\n")
        (folder / "c.main.so").write_bytes(b"")
    return run


def cpp(path: Path) -> list[Any]:
    run = Run.open(path)
    items = lowered_kernels(run, [graph for graph in run.graphs if graph.files])
    return [item for item in items if item.kernel.kind == "cpp"]


def prints(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """In place of objdump, for whichever library."""

    def run(command: list[str], **_: Any) -> Any:
        shown = text.replace("{file}", command[-1].replace(".so", ".cpp"))
        return subprocess.CompletedProcess(command, 0, shown, "")

    monkeypatch.setattr("inspector.replay.assembly.subprocess.run", run)


def test_libraries_become_stages_with_the_lines_of_their_kernels(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (item, *_) = cpp(captured)
    assert not item.stages
    row = next(row for row, line in enumerate(item.kernel.source.split("\n")) if "tmp1" in line)
    # Inductor's file has one line above the source, and counts from 1.
    prints(monkeypatch, PRINTED.replace("{line}", str(row + 2)))
    kept = assembly.keep_assembly(Run.open(captured))
    assert (kept.kernels, kept.without_lines, kept.problem) == (len(cpp(captured)), 0, None)
    (made, *_) = cpp(captured)
    assert made.folder is not None and not made.folder.made, "it is what ran"
    stage = made.stage("asm")
    assert stage is not None
    origins = {made.origin(place).line for place in stage.places if place is not None}
    assert made.kernel.source_span is not None and origins == {made.kernel.source_span.first + row}
    assert made.facts("asm").loops[0].bits == 0


def test_a_kernel_has_its_own_assembly_though_all_are_called_kernel(captured: Path) -> None:
    (item, *_) = cpp(captured)
    places = (Frame(own_file(item.kernel), 1), Frame("another.cpp", 1))
    own, other = (LoweredFolder(place.file, "kernel", {}, source=place, chosen=True) for place in places)
    assert folders_of(item.kernel, (other,)) == ()
    assert folders_of(item.kernel, (other, own)) == (own,)


def test_libraries_without_lines_are_left_and_counted(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prints(monkeypatch, "0000000000002340 <kernel>:\n    2340:\tret\n")
    kept = assembly.keep_assembly(Run.open(captured))
    assert (kept.kernels, kept.without_lines) == (0, len(cpp(captured)))
    assert not (captured / "lowered").exists()

    def missing(*_: Any, **__: Any) -> Any:
        raise FileNotFoundError("objdump")

    monkeypatch.setattr("inspector.replay.assembly.subprocess.run", missing)
    assert "objdump" in (assembly.keep_assembly(Run.open(captured)).problem or "")


def test_a_capture_asks_for_line_tables_and_says_what_it_took(
    captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def capture(options: Any) -> Any:
        asked.append(options)
        return SimpleNamespace(
            run=captured, interrupted=False, exit_code=0, manifest=SimpleNamespace(status="done")
        )

    monkeypatch.setattr(launch, "capture", capture)
    prints(monkeypatch, PRINTED.replace("{line}", "3"))
    done = CliRunner().invoke(cli, ["capture", "--asm", "--", "python", "a.py"])
    assert done.exit_code == 0 and ("TORCHINDUCTOR_DEBUG_SYMBOL", "1") in asked[0].env
    assert "kernel" in done.stderr and "of the time in all" in done.stderr
    assert CliRunner().invoke(cli, ["capture", "--", "python", "a.py"]).exit_code == 0
    assert not asked[1].env
