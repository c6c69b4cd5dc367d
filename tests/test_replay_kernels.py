"""Every kernel by itself: planted faults found and named, nothing else blamed, crashes survived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
from kernel_faults import PLANTINGS

from inspector.model.replay import GraphReplay, KernelReplay
from inspector.readers.run import Run
from inspector.replay.plan import GraphFiles, ReplayOptions
from inspector.replay.spawn import replay_graph

QUICK = ReplayOptions(whole=False, time_kernels=False, timeout_s=280)


def copied(
    run: Path, graph: str, target: Path, change: Callable[[str], str] = lambda text: text
) -> GraphFiles:
    """A graph of a copy of `run`, its output_code.py changed."""
    copytree(run, target)
    found = Run.open(target).graph(graph)
    assert found.folder is not None
    code = found.folder / "output_code.py"
    code.write_text(change(code.read_text()))
    return GraphFiles.of_graph(found)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> ReplayOptions:
    """Options whose kernel cache the tests share: a precompiled C++ header takes seconds to make."""
    return replace(QUICK, cache_dir=tmp_path_factory.mktemp("kernel-cache"))


def described(kernels: list[KernelReplay]) -> str:
    return "\n".join(f"{kernel.call} {kernel.name}: {kernel.verdict} {kernel.reason}" for kernel in kernels)


def verdict_of(result: GraphReplay, call: int) -> str:
    return next(kernel.verdict for kernel in result.kernels if kernel.call == call)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTINGS)
def test_planted_faults_are_found_and_no_other_kernel_is_blamed(
    name: str, corpus: Path, tmp_path: Path, warm: ReplayOptions
) -> None:
    planting = PLANTINGS[name]
    files = copied(corpus / planting.run, planting.graph, tmp_path / "run")
    text = files.output_code.read_text()
    names = {fault.kernel: fault.name(text) for fault in planting.faults if not fault.kernel.isdigit()}
    for fault in planting.faults:
        text = fault.plant(text)
    files.output_code.write_text(text)
    result = replay_graph(files, warm)
    assert result.failure is None, (result.failure, result.log)
    guilty: dict[int, str] = {}
    for fault in planting.faults:
        for kernel in result.kernels:
            if names.get(fault.kernel) == kernel.name or fault.kernel == str(kernel.call):
                guilty[kernel.call] = fault.kind
    assert len(set(guilty.values())) == len(planting.faults)
    found = {kind: verdict_of(result, call) for call, kind in guilty.items()}
    assert set(found.values()) == {"mismatch"}, found
    blamed = [
        kernel
        for kernel in result.kernels
        if kernel.call not in guilty and kernel.verdict not in {"match", "compiled_closer"}
    ]
    assert not blamed, described(blamed)


def test_over_twenty_kinds_of_fault_are_planted() -> None:
    kinds = {fault.kind for planting in PLANTINGS.values() for fault in planting.faults}
    assert len(kinds) >= 20
