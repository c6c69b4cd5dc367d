"""Measuring a run ends within the time that is announced, the most expensive graphs first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from inspector.model.calls import GraphRuns, ProcessCalls
from inspector.model.record import ProcessRecord
from inspector.model.replay import GraphReplay, KernelReplay, ReplayResult
from inspector.readers.run import Run
from inspector.replay import budget
from inspector.replay.budget import announced_s, costly_first, measure
from inspector.replay.protocol import GraphFiles, ReplayOptions


@pytest.fixture
def run(corpus: Path) -> Run:
    return Run.open(corpus / "cpu-torch2.13" / "mlp")


def test_the_announced_time_grows_with_the_graphs_and_ends() -> None:
    assert announced_s(1) == 75 and announced_s(30) == 510 and announced_s(1000) == 900


def test_graphs_that_took_longest_in_the_program_come_first(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = run.graphs[-1]
    runs = (
        GraphRuns(run.graphs[0].name, run.graphs[0].process, 10, (1.0, 1.0)),
        GraphRuns(last.name, last.process, 100, (0.2, 0.2)),
    )
    record = ProcessRecord("r", 1, 0, "", "", (), (), (), calls=ProcessCalls(1, 0, graph_runs=runs))
    monkeypatch.setattr(type(run), "records", (record,))
    ordered = [graph.name for graph in costly_first(run.graphs)]
    assert ordered[:2] == [last.name, run.graphs[0].name]
    assert sorted(ordered) == sorted(graph.name for graph in run.graphs)


def test_no_graph_is_begun_after_the_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each graph takes 0.6 s of 0.5: one is begun, and the others are named."""
    clock = [100.0]
    seen: list[str] = []
    said: list[str] = []

    def replayed(
        files: Sequence[GraphFiles],
        options: ReplayOptions,
        on_progress: Callable[[str], object],
        should_stop: Callable[[], bool],
        on_result: Callable[[GraphReplay], object],
    ) -> ReplayResult:
        assert options.timeout_s == 0.25 and options.max_time_s == 1.0
        for item in files:
            if should_stop():
                on_result(GraphReplay(item.name, kernels=(KernelReplay("k", 0, "match"),)))
                break
            on_progress(item.name)
            clock[0] += 0.6
            seen.append(item.name)
        return ReplayResult({}, tuple(GraphReplay(name) for name in seen), 0.0)

    monkeypatch.setattr(budget, "replay_graphs", replayed)
    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    result, left = measure(run.graphs, 0.5, said.append)
    assert len(run.graphs) > 2 and len(seen) == 1 and said[0].endswith(" · 0 s left")
    # What there was of the graph that was under way is kept.
    whole, cut = result.graphs
    assert whole.name == seen[0] and cut.failure == "stopped as the time for measuring was up" and cut.kernels
    assert set(left) == {graph.ident for graph in run.graphs} - {whole.name, cut.name}


@pytest.mark.real_child
@pytest.mark.slow
def test_a_child_that_is_at_work_is_stopped_at_the_announced_time(run: Run) -> None:
    graphs = [graph for graph in run.graphs if graph.files]
    # Longer than anybody waits, where nobody stops it.
    options = replace(ReplayOptions(), rounds=1 << 30, max_time_s=1e6, timeout_s=1e6)
    result, left = measure(graphs, 3.0, lambda text: None, options)
    assert len(left) + len(result.graphs) == len(graphs) and left
