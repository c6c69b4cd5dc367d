"""Ranks compared: a real job of two, and differences made by hand."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sharing import unpacked

from inspector.analysis.ranks import divergence, ranks_text
from inspector.cli import cli
from inspector.explain.gather import gather
from inspector.explain.ledger import BETWEEN_RANKS, GUARDS, PYTHON, make_ledger
from inspector.model.ranks import RankFacts, RankGraph
from inspector.readers.ranks import rank_facts
from inspector.readers.run import Run

ARCHIVE = Path(__file__).parent / "data" / "extra" / "ranks-torch2.13.tar.xz"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of torchrun with two ranks, see its README."""
    return unpacked(ARCHIVE, tmp_path_factory.mktemp("ranks")) / "ranks"


def facts_of(path: Path) -> tuple[RankFacts, ...]:
    run = Run.open(path)
    return rank_facts(run, [trace.content for trace in run.traces])


def command(*arguments: str) -> str:
    result = CliRunner().invoke(cli, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def told(path: Path) -> list[tuple[str, str]]:
    return [(item.kind, item.subject) for item in divergence(facts_of(path))]


EXPECTED = [
    ("graph", "1/0 inference"),
    ("graph", "2/0 inference"),
    ("graph", "1/1 inference"),
    ("graph", "3/0 inference"),
    ("recompile", "step: 1/0: tensor 'x' size mismatch at index 0. expected 16, actual 5"),
    ("graph break", "train.py:30: Call to `torch._dynamo.graph_break()`"),
    ("compile time", "2/0"),
]


def test_two_real_ranks(job: Path) -> None:
    assert told(job) == EXPECTED
    first = divergence(facts_of(job))[0]
    assert "rank 1 compiled another graph than rank 0" in first.text
    assert "aten.sigmoid.default(relu)" in first.text and "aten.sum.default(relu)" in first.text


def test_a_job_is_explained_by_its_first_rank(job: Path) -> None:
    run = Run.open(job)
    facts, case = run.facts(), gather(run)
    for all_, own in (
        ([item.rank for item in facts.graph_breaks], [item.rank for item in case.facts.graph_breaks]),
        ([item.rank for item in facts.recompiles], [item.rank for item in case.facts.recompiles]),
    ):
        assert 1 in all_ and own == [0] * all_.count(0)
    assert {calls.rank or 0 for calls in case.facts.calls} <= {0}


def test_the_traces_alone_tell_the_same(job: Path) -> None:
    assert told(job / "trace") == EXPECTED


def test_folders_get_their_rank_from_the_traces(job: Path) -> None:
    run = Run.open(job)
    assert {(graph.process[-5:], graph.rank) for graph in run.graphs} == {("25526", 0), ("25527", 1)}
    facts = facts_of(job)
    assert [(rank.label, len(rank.graphs)) for rank in facts] == [("rank 0", 3), ("rank 1", 5)]
    assert facts[0].graphs[2].collectives == ("torch.ops._c10d_functional.all_reduce_.default",)
    assert facts[0].graphs[0].kernels == facts[1].graphs[0].kernels
    assert facts[0].total_seconds == pytest.approx(12.69, abs=0.01)


def test_debug_folders_alone_are_compared_by_process(job: Path, tmp_path: Path) -> None:
    shutil.copytree(job / "torch_compile_debug", tmp_path / "torch_compile_debug")
    kinds = [kind for kind, _ in told(tmp_path)]
    assert kinds.count("graph") == 4 and "graph break" in kinds
    assert [rank.label for rank in facts_of(tmp_path)] == ["process 25526", "process 25527"]


def test_unrelated_processes_are_not_compared(job: Path, corpus: Path, tmp_path: Path) -> None:
    target = tmp_path / "torch_compile_debug"
    shutil.copytree(
        next((corpus / "cpu-torch2.13/norms").glob("torch_compile_debug/run_*")), target / "run_a-pid_1"
    )
    shutil.copytree(
        next((corpus / "cpu-torch2.13/mlp").glob("torch_compile_debug/run_*")), target / "run_b-pid_2"
    )
    assert len(facts_of(tmp_path)) == 2 and told(tmp_path) == []


def test_equal_ranks_do_not_differ(job: Path, tmp_path: Path) -> None:
    """The same trace under two ranks; another device number is no difference."""
    source = next((job / "trace").glob("*rank_1*")).read_text()
    for rank in (0, 1):
        text = source.replace('"rank": 1', f'"rank": {rank}').replace("]cpu", f"]cuda:{rank}")
        (tmp_path / f"dedicated_log_torch_trace_rank_{rank}_abc.log").write_text(text)
    facts = facts_of(tmp_path)
    assert [rank.rank for rank in facts] == [0, 1] and len(facts[0].graphs) == 5
    assert divergence(facts) == ()


def test_an_ordinary_run_has_one_rank(corpus: Path) -> None:
    for part in ("", "trace", "torch_compile_debug"):
        (single,) = facts_of(corpus / "cpu-torch2.13" / "breaks" / part)
        assert len(single.graphs) == 12 and divergence([single]) == ()


# -- by hand

GRAPH = RankGraph("0/0 forward", ("mm(a, b)", "relu(mm)"), {"k0": "aa"}, ("_c10d_functional.all_reduce",))
RANK = RankFacts("rank 0", 0, (GRAPH,), seconds={"0/0": 10.0}, caches={"0/0 fx_graph": "hit"})


def four(**changed: Any) -> list[RankFacts]:
    """Four ranks of which the third is changed."""
    ranks = [replace(RANK, label=f"rank {number}", rank=number) for number in range(4)]
    ranks[2] = replace(ranks[2], **changed)
    return ranks


def only(ranks: list[RankFacts]) -> tuple[str, str]:
    (found,) = divergence(ranks)
    return found.kind, found.text


def test_one_rank_among_many_is_named_and_the_rest_summed_up() -> None:
    assert divergence(four()) == ()
    graph = replace(GRAPH, fx=("mm(a, b)", "gelu(mm)"))
    assert only(four(graphs=(graph,))) == (
        "graph",
        "0/0 forward: rank 2 compiled another graph than ranks 0, 1, 3: "
        "node 2 is gelu(mm) in place of relu(mm)",
    )
    assert only(four(graphs=(GRAPH, replace(GRAPH, key="1/0 forward", collectives=())))) == (
        "graph",
        "1/0 forward: compiled on rank 2, not on ranks 0, 1, 3",
    )


def test_what_most_ranks_have_is_what_the_others_differ_from() -> None:
    ranks = [four()[0], *four(graphs=(replace(GRAPH, fx=("mm(a, b)",)),))[2:3]]
    ranks.append(replace(ranks[1], label="rank 3", rank=3))
    _, text = only(ranks)
    assert "rank 0 compiled another graph than ranks 2, 3" in text


def test_other_kernels_for_the_same_graph() -> None:
    kind, text = only(four(graphs=(replace(GRAPH, kernels={"k0": "bb", "k1": "cc"}),)))
    assert (kind, text) == ("kernel", "0/0 forward: rank 2 has other kernels than ranks 0, 1, 3: k0, k1")


def test_collectives_in_another_order() -> None:
    calls = ("_c10d_functional.all_gather", "_c10d_functional.all_reduce")
    kind, text = only(four(graphs=(replace(GRAPH, collectives=calls),)))
    assert kind == "collective"
    assert text.endswith("call 1 is all_gather, on ranks 0, 1, 3 it is all_reduce")
    _, missing = only(four(graphs=(replace(GRAPH, collectives=()),)))
    assert "call 1 is absent, on ranks 0, 1, 3 it is all_reduce" in missing


@pytest.mark.parametrize(
    ("seconds", "found"), [(10.9, False), (11.5, False), (12.1, True), (8.0, True), (9.5, False)]
)
def test_slow_means_a_fifth_and_a_second(seconds: float, found: bool) -> None:
    kinds = {item.kind for item in divergence(four(seconds={"0/0": seconds}))}
    assert kinds == ({"compile time"} if found else set())


def test_a_fifth_of_very_little_is_not_slow() -> None:
    ranks = [
        replace(rank, seconds={"0/0": 0.1 + rank.rank * 0.3}) for rank in four() if rank.rank is not None
    ]
    assert divergence(ranks) == ()


def test_hit_on_one_and_miss_on_another() -> None:
    assert only(four(caches={"0/0 fx_graph": "miss"})) == (
        "cache",
        "0/0 fx_graph cache: hit on ranks 0, 1, 3, miss on rank 2",
    )


def test_events_on_some_ranks_or_more_often() -> None:
    assert (
        only(four(breaks=("a.py:3: print",)))[1]
        == "rank 2 1x, ranks 0, 1, 3 0x breaks the graph: a.py:3: print"
    )
    twice = [replace(rank, recompiles=("f: n == 1",)) for rank in four()]
    twice[0] = replace(twice[0], recompiles=("f: n == 1", "f: n == 1"))
    assert only(twice)[0] == "recompile"


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["rank 1"], "rank 1"),
        (["rank 0", "rank 1"], "ranks 0, 1"),
        (["rank 0", "rank 1", "rank 2", "rank 5"], "ranks 0 to 2, 5"),
        (["process 7", "process 9"], "process 7, process 9"),
    ],
)
def test_ranks_in_words(labels: list[str], text: str) -> None:
    assert ranks_text(labels) == text


# -- the commands


def test_summary_and_trace_tell_the_differences(job: Path) -> None:
    for name in ("summary", "trace"):
        data = json.loads(command(name, str(job), "--json"))
        assert [(item["kind"], item["subject"]) for item in data["divergence"]] == EXPECTED
        assert data["divergence"][0]["groups"][0]["ranks"] == ["rank 0"]
        text = command(name, str(job))
        assert "differences between ranks: 7" in text
        assert "rank 1 compiled another graph than rank 0" in text


def test_graphs_are_called_by_their_rank(job: Path) -> None:
    titles = [text for text in command("fusions", str(job)).splitlines() if " in " in text and ": " in text]
    assert titles[0].startswith("rank 0 · model__0_")
    assert command("ir-diff", str(job)).startswith("rank 0 · model__0_")


def test_what_a_rank_does_between_its_graphs_is_no_check_of_inputs(job: Path) -> None:
    case = gather(Run.open(job))
    assert case.ranks == 2
    graphs = tuple(replace(graph, in_process_ms=1.0) for graph in case.graphs)
    timed = replace(case, graphs=graphs, times=replace(case.times, compiled_ms=50.0))
    names = {part.part for part in make_ledger(timed).parts}
    assert BETWEEN_RANKS in names and not {GUARDS, PYTHON} & names
    assert BETWEEN_RANKS not in {part.part for part in make_ledger(replace(timed, ranks=1)).parts}


def test_one_rank_can_be_chosen(job: Path) -> None:
    assert "rank 0" not in command("trace", str(job), "--rank", "1").split("differences")[0]
    detail = command("trace", str(job), "--rank", "1", "--compile-id", "1/1")
    assert "rank 1" in detail and "s77" in detail
    both = command("trace", str(job), "--compile-id", "0/0", "--show", "dynamo_output_graph")
    assert both.count("# ---- rank ") == 2
    result = CliRunner().invoke(cli, ["trace", str(job), "--rank", "5"])
    assert "no rank 5; there are: 0, 1" in str(result.exception)


def test_a_collective_schedule_is_shown(job: Path) -> None:
    detail = command("trace", str(job), "--rank", "0", "--compile-id", "2/0")
    assert "communication: 2" in detail and "all_reduce_" in detail
