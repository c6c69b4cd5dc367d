"""What operators on complex numbers cost: captured steps of optical pulses and of a lattice on an H200."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sharing import unpacked

from inspector.explain import complex_numbers
from inspector.explain.case import Case
from inspector.explain.complex_numbers import saved_by_fusing
from inspector.explain.gather import gather
from inspector.explain.rules import awkward_calls, layout_copies, library_kernel_differs
from inspector.readers.run import Run

ELEMENTS = 768 * 16384
COMPLEX, REAL = 8 * ELEMENTS, 4 * ELEMENTS


@pytest.fixture(scope="module")
def fibre(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = unpacked(Path(__file__).parent / "data" / "fibre-h200.tar.xz", tmp_path_factory.mktemp("fibre"))
    return gather(Run.open(folder / "fibre-h200"))


def test_a_call_moves_what_it_gives_too(fibre: Case) -> None:
    """Its tensors are nodes of their own, which no launch makes."""
    transform, product, size = fibre.graphs[0].launches[:3]
    assert transform.name == "torch.ops.aten._fft_c2c.default" and transform.bytes == 2 * COMPLEX
    # By a row of 16,384 of them.
    assert product.bytes == 2 * COMPLEX + 8 * 16384
    assert size.name == "torch.ops.aten.abs.default" and size.bytes == COMPLEX + REAL


def test_no_bytes_of_a_graph_are_lost_among_its_launches(fibre: Case, corpus_graphs: list[Path]) -> None:
    graph = fibre.graphs[0]
    told = sum(graph.fusion.by_call(lambda group: group.bytes_moved).values())
    assert told == sum(group.bytes_moved or 0 for group in graph.fusion.groups)


def test_a_chain_reads_what_it_is_given_and_writes_its_end(fibre: Case) -> None:
    graph = fibre.graphs[0]
    saved = saved_by_fusing(graph)
    launches = {launch.fx[0]: launch.call.index for launch in graph.launches if launch.fx}
    # spec * half_disp * amp, of which amp comes from a sum in between: two products, the one inside not kept.
    row, amplitude = 8 * 16384, REAL
    chain = 1 - (COMPLEX + row + amplitude + COMPLEX) / (4 * COMPLEX + row + amplitude)
    assert saved[launches["mul_4"]] == saved[launches["mul_5"]] == pytest.approx(chain)
    # u * exp(1j * phase - loss), with the power of u, which generated code computes: reads u, writes u.
    kerr = {saved[launches[name]] for name in ("abs_2", "mul_6", "mul_7", "sub", "exp_1", "mul_10")}
    assert len(kerr) == 1 and 0.75 < kerr.pop() < 0.85
    # No transform is one of them. A size that is summed up, beside an amplitude read and one written, need
    # not be written, nor read again.
    assert not saved.keys() & {launches[name] for name in ("_fft_c2c", "_fft_c2c_1")}
    ended = 1 - (COMPLEX + 2 * REAL) / (COMPLEX + 4 * REAL)
    assert saved[launches["abs_1"]] == saved[launches["sum_1"]] == pytest.approx(ended, abs=1e-3)


def test_what_follows_a_sum_is_not_fused_with_what_it_is_of(
    fibre: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were transforms done element by element, a step would be one chain but for the sum in between."""
    elementwise = complex_numbers._ELEMENTWISE | {"_fft_c2c"}
    monkeypatch.setattr(complex_numbers, "_ELEMENTWISE", elementwise)
    saved = saved_by_fusing(fibre.graphs[0])
    launches = {launch.fx[0]: launch.call.index for launch in fibre.graphs[0].launches if launch.fx}
    before, behind = (saved[launches[name]] for name in ("mul_4", "mul_5"))
    assert before != behind
    assert behind != saved[launches["sum_1"]] == saved[launches["abs_1"]]


def test_on_a_gpu_chains_claim_the_bytes_that_they_would_not_move(fibre: Case) -> None:
    graph = fibre.graphs[0]
    saved = saved_by_fusing(graph)
    (told,) = (each for each in awkward_calls.find(fibre) if "complex numbers" in each.title)
    ms = {launch.call.index: launch.ms for launch in graph.launches}
    for claim in told.claims:
        assert claim.call is not None
        part, whole = saved[claim.call], ms[claim.call] * graph.runs
        assert claim.ms == pytest.approx((whole * max(0.0, 2 * part - 1), whole * part))
    assert len(told.claims) == len(saved)
    # What is shown is called for complex numbers, each line of the program once.
    generated = {launch.name for launch in graph.launches if launch.role == "generated"}
    assert not any(item.text.endswith(name) for item in told.evidence for name in generated)
    lines = [(item.path, item.line) for item in told.evidence if item.path.endswith("fibre_pulses.py")]
    assert len(lines) == len(set(lines)) > 1
    # Without the schedule nobody knows what follows what.
    bare = replace(graph, artifacts=replace(graph.artifacts, post=None))
    assert not saved_by_fusing(bare)


@pytest.fixture(scope="module")
def lattice(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A step that is compiled anew for each of three lattices. Its recorder did not count calls yet, which
    the program makes one lattice after the other."""
    folder = unpacked(Path(__file__).parent / "data" / "kpm-h200.tar.xz", tmp_path_factory.mktemp("kpm"))
    for path in folder.rglob("record/*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            for number, item in enumerate(line.get("callables", ())):
                item["span"] = [511 * number, 511 * number + 510]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return gather(Run.open(folder / "kpm-h200"))


def test_a_call_is_one_of_what_was_compiled_anew(lattice: Case) -> None:
    """Its profile is of one as well: nothing of it is left over."""
    assert lattice.times.calls == 3 * 511
    assert lattice.times.compiled_ms == pytest.approx(1.16, abs=0.01)
    assert lattice.times.eager_ms == pytest.approx(0.853, abs=0.001)
    ledger = lattice.walls
    assert ledger is not None and abs(ledger.unexplained_compiled_ms) < 0.1 * ledger.compiled_ms


def test_what_inductor_takes_apart_is_for_its_complex_numbers(lattice: Case) -> None:
    (told,) = library_kernel_differs.find(lattice)
    assert "kpm_graphene.py:36 add: 47.0 us in eager, 118 us compiled" in told.title
    assert "takes operators of complex numbers apart" in told.title and "view_as_real" in told.advice
    # Nor are copies of complex numbers between such operators a choice of layouts.
    assert not list(layout_copies.find(lattice))
    (graph,) = lattice.graphs
    (claims,) = (each.claims for each in awkward_calls.find(lattice) if "complex numbers" in each.title)
    copied = {launch.call.index for launch in graph.launches if launch.name == "torch.ops.aten.clone.default"}
    assert copied & {claim.call for claim in claims if claim.ms[0] == 0.0}
