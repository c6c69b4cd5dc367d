"""FSDP2 on two GPUs (tests/data/extra/fsdp2-h100-torch2.11.tar.xz): most of a call is communication."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from build import fx_graph, fx_node
from sharing import unpacked

from inspector.analysis.two_sides import COMMUNICATION, OUTSIDE
from inspector.explain.case import Case
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.rules import communication, extern_dominated
from inspector.gather import summary_of
from inspector.model.fx import TensorMeta
from inspector.present.explain import lines as explained
from inspector.present.summary import lines
from inspector.readers.run import Run

ARCHIVE = Path(__file__).parent / "data" / "extra" / "fsdp2-h100-torch2.11.tar.xz"


@pytest.fixture(scope="module")
def fsdp2(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run.open(unpacked(ARCHIVE, tmp_path_factory.mktemp("fsdp2")) / "fsdp2")


@pytest.fixture(scope="module")
def case(fsdp2: Run) -> Case:
    return gather(fsdp2)


def test_what_no_other_kernel_hides_is_said_by_kind(case: Case) -> None:
    """NCCL's kernels of the five profiled calls: 40 AllGather in 157.6 ms, 20 ReduceScatter in 36.6 ms."""
    (finding,) = communication.find(case)
    assert (finding.severity, finding.cost_ms, finding.claims) == ("medium", None, ())
    assert "38.7 ms of a call (87 %)" in finding.title and finding.title.endswith(
        "AllGather 31.5 ms, ReduceScatter 7.20 ms; 33.6 ms in eager"
    )
    assert "reshard_after_forward=False" in finding.advice
    assert [item.path for item in finding.evidence] == ["profile/compiled.json.gz"] * 4


def test_what_is_widened_before_it_is_exchanged_is_said_with_its_line(case: Case) -> None:
    def told(exchanged: str) -> str:
        wide = fx_node("wide", "torch.ops.prims.convert_element_type.default", "x", 7)
        nodes = [
            replace(fx_node("x", ""), meta=TensorMeta("bfloat16", (8,))),
            replace(wide, meta=TensorMeta("float32", (8,))),
            fx_node("all_reduce", "torch.ops._c10d_functional.all_reduce.default", exchanged, 8),
        ]
        graph = next(graph for graph in case.graphs if graph.runs)
        graph = replace(graph, artifacts=replace(graph.artifacts, fx_after=fx_graph(*nodes)))
        (finding,) = communication.find(replace(case, graphs=(graph,)))
        return f"{finding.advice} {finding.evidence[0].path}:{finding.evidence[0].line}"

    assert told("wide").startswith("exchange half precision") and told("wide").endswith("model.py:7")
    assert not told("x").startswith("exchange half precision")


def test_of_one_process_nothing_is_said_to_wait_for_others(case: Case) -> None:
    assert not list(communication.find(replace(case, ranks=1)))
    assert not list(communication.find(replace(case, sides=None)))


def test_it_is_a_part_of_a_call_and_no_operator_of_the_program(case: Case) -> None:
    parts = {part.part: part.ms for part in explain_case(case).ledger.parts}
    assert parts[COMMUNICATION] == pytest.approx(38.7, abs=0.1) and parts[OUTSIDE] < 0.2


def test_estimates_of_library_kernels_yield_to_what_was_profiled(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of DDP on two GPUs "most time is in library kernels" was said, which took 12 % of a call."""
    monkeypatch.setattr(extern_dominated, "OF_KERNELS", 0.5)
    graphs = tuple(
        replace(graph, launches=tuple(replace(item, measured=False) for item in graph.launches))
        for graph in case.graphs
    )
    estimated = replace(case, graphs=graphs)
    assert not estimated.kernels_measured and not list(extern_dominated.find(estimated))
    assert list(extern_dominated.find(replace(estimated, sides=None)))


def test_what_to_change_stands_on_the_screen_however_many_parts_a_call_has(case: Case) -> None:
    text = [line.text for line in explained(explain_case(case), 100)]
    assert len(text) <= 23 and any(line.startswith("2 Ranks wait for each other") for line in text)
    assert any("smaller parts" in line for line in text) and any("unexplained" in line for line in text)


def test_graphs_have_their_ranks_without_a_trace(fsdp2: Run) -> None:
    """By the process ids of the records; names of folders cut short were all that told them apart."""
    assert not fsdp2.traces and [graph.rank for graph in fsdp2.graphs] == [0] * 4 + [1] * 4
    text = "\n".join(line.text for line in lines(summary_of(fsdp2), 100))
    assert "8 graphs · 2 ranks · 2 recompiles" in text and "run_2026" not in text
