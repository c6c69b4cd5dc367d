"""Both sides of the ConvMixer joined op by op, from the files of its runs and profiles alone."""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from inspector.analysis import sequences, side_totals
from inspector.analysis.eager_side import Place
from inspector.analysis.profile_work import MARK, length_ms, union, within, without, work_of
from inspector.analysis.sequences import align, period
from inspector.analysis.two_sides import (
    same_operator_other_kernel,
    side_doubt,
    slower_blocks,
    two_sided_ledger,
)
from inspector.explain.profiles import join_profiles
from inspector.model.profile import STEP_MARK, HostEvent, Profile
from inspector.model.two_sides import Joined, Side
from inspector.readers.kineto import load_profile
from inspector.readers.run import Run

MODES = [(program, mode) for program in ("infer", "train") for mode in ("default", "reduce-overhead")]


@pytest.fixture(scope="module")
def joined(convmixer: Path) -> dict[tuple[str, str], Joined]:
    return {
        (program, mode): join_profiles(
            Run.open(convmixer / f"{program}-{mode}.run"),
            load_profile(convmixer / f"{program}-{mode}.trace.json")[0],
            load_profile(convmixer / f"{program}-eager.trace.json")[0],
        )
        for program, mode in MODES
    }


@pytest.mark.parametrize("case", MODES)
def test_the_depthwise_convolutions_are_the_largest_difference(
    joined: dict[tuple[str, str], Joined], case: tuple[str, str]
) -> None:
    first = joined[case].blocks[0]
    assert [line.short for line in first.lines] == ["models.py:16"]
    assert (first.operators, first.times, first.phase) == (("conv2d",), 4, "forward")
    assert first.modules == ("blocks.0.dw", "blocks.1.dw", "blocks.2.dw", "blocks.3.dw")
    assert first.eager_ms == pytest.approx(1.09, abs=0.01)
    assert first.compiled_ms == pytest.approx(5.24, abs=0.02)
    eager, compiled = first.eager_kernels[0], first.compiled_kernels[0]
    assert "conv_depthwise2d_forward_kernel" in eager.name
    assert "conv2d_grouped_direct_kernel" in compiled.name
    assert eager.calls == compiled.calls == 4
    assert eager.ms / 4 == pytest.approx(0.270, abs=0.002)
    assert compiled.ms / 4 == pytest.approx(1.305, abs=0.002)
    assert same_operator_other_kernel(first) and first.sure
    assert slower_blocks(joined[case], 5.7)[0] == (0, first)


def test_the_backward_of_the_convolutions_follows_in_training(joined: dict[tuple[str, str], Joined]) -> None:
    second = joined["train", "default"].blocks[1]
    assert (second.phase, second.times, second.operators) == ("backward", 4, ("conv2d",))
    assert [line.short for line in second.lines] == ["models.py:16"]
    assert {kernel.name.split("<")[0].rpartition("::")[2] for kernel in second.eager_kernels[:2]} == {
        "conv_depthwise2d_grad_weight_kernel", "conv_depthwise2d_backward_kernel",
    }  # fmt: skip
    assert [kernel.name[:16] for kernel in second.compiled_kernels[:2]] == [
        "sm80_xmma_wgrad_", "dgrad2d_c1_k1_nh",
    ]  # fmt: skip


@pytest.mark.parametrize("case", MODES)
def test_nothing_is_lost_and_nothing_counted_twice(
    convmixer: Path, joined: dict[tuple[str, str], Joined], case: tuple[str, str]
) -> None:
    """Kernel by kernel the blocks hold what the trace's own JSON holds."""
    program, mode = case
    sides: tuple[tuple[Side, str], ...] = (("eager", f"{program}-eager"), ("compiled", f"{program}-{mode}"))
    for side, name in sides:
        raw = json.loads((convmixer / f"{name}.trace.json").read_text())["traceEvents"]
        counted: dict[str, float] = defaultdict(float)
        for event in raw:
            if event.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy"):
                counted[event["name"]] += event["dur"] / 1e3 / 3
        held: dict[str, float] = defaultdict(float)
        for block in joined[case].blocks:
            for kernel in block.eager_kernels if side == "eager" else block.compiled_kernels:
                held[kernel.name.removeprefix("memset: ").removeprefix("memcpy: ")] += kernel.ms
        assert held.keys() == counted.keys()
        for kernel_name, ms in counted.items():
            assert held[kernel_name] == pytest.approx(ms, rel=1e-9)


@pytest.mark.parametrize("case", MODES)
def test_work_is_attributed(joined: dict[tuple[str, str], Joined], case: tuple[str, str]) -> None:
    eager, compiled = joined[case].eager, joined[case].compiled
    assert eager is not None and compiled is not None
    assert eager.calls == compiled.calls == 3
    assert eager.attributed > 0.99 and compiled.attributed > 0.99
    assert not compiled.notes


def test_the_copy_of_a_cuda_graphs_inputs_is_no_launch(joined: dict[tuple[str, str], Joined]) -> None:
    loose = [block for block in joined["infer", "reduce-overhead"].blocks if block.place == "unplaced"]
    assert [block.operators for block in loose] == [("aten::_foreach_copy_",)]


@pytest.mark.parametrize("walls", [(None, None), (1.64, 5.69), (1.0, 5.0), (4.0, 9.0)])
@pytest.mark.parametrize("case", MODES)
def test_the_ledger_adds_up(
    joined: dict[tuple[str, str], Joined],
    case: tuple[str, str],
    walls: tuple[float | None, float | None],
) -> None:
    ledger = two_sided_ledger(joined[case], *walls)
    assert ledger is not None
    total = ledger.eager_ms + sum(part.ms for part in ledger.differences) + ledger.unexplained_ms
    assert total == pytest.approx(ledger.compiled_ms, abs=1e-9)
    assert next(part for part in ledger.differences if part.block is not None).block == 0
    assert ledger.source in ("calls", "profile") and (walls[0] or ledger.source == "profile")
    if ledger.source == "calls":
        assert (ledger.eager_ms, ledger.compiled_ms) == walls


def test_what_kernels_take_beyond_the_wall_is_unexplained(joined: dict[tuple[str, str], Joined]) -> None:
    """A call that was little quicker than its profiled kernels: no part is made smaller to fit."""
    ledger = two_sided_ledger(joined["infer", "default"], 1.4, 5.0)
    assert ledger is not None and ledger.source == "calls"
    assert ledger.unexplained_eager_ms == pytest.approx(1.4 - 1.4912, abs=1e-3)
    assert ledger.unexplained_compiled_ms == pytest.approx(5.0 - 5.4774, abs=1e-3)


@pytest.mark.parametrize(("walls", "doubtful"), [((1.0, 5.0), "eager"), ((1.4, 2.0), "compiled")])
def test_a_profile_that_does_not_fit_into_a_call_is_no_breakdown_of_it(
    joined: dict[tuple[str, str], Joined], walls: tuple[float, float], doubtful: Side
) -> None:
    both = joined["infer", "default"]
    ledger = two_sided_ledger(both, *walls)
    assert ledger is not None and ledger.source == "profile"
    assert both.eager is not None and both.compiled is not None
    assert (ledger.eager_ms, ledger.compiled_ms) == (both.eager.wall_ms, both.compiled.wall_ms)
    sides: tuple[Side, Side] = ("eager", "compiled")
    assert [name for name, ms in zip(sides, walls, strict=True) if side_doubt(both, name, ms)] == [doubtful]


def test_a_call_that_the_profiler_doubled_is_not_divided_by_it(joined: dict[tuple[str, str], Joined]) -> None:
    """On a CPU operators are slowed too; a GPU's own clock times kernels."""
    both = joined["infer", "default"]
    assert both.compiled is not None
    quick = replace(both, blocks=(), compiled=replace(both.compiled, wall_ms=1.0))
    assert not side_doubt(quick, "compiled", 0.4)
    on_cpu = replace(quick, compiled=replace(both.compiled, wall_ms=1.0, device=False))
    assert side_doubt(on_cpu, "compiled", 0.4) and not side_doubt(on_cpu, "compiled", 0.6)


def test_a_wall_without_a_name_is_unexplained(joined: dict[tuple[str, str], Joined]) -> None:
    ledger = two_sided_ledger(joined["infer", "default"], 100.0, 100.0)
    assert ledger is not None
    assert ledger.unexplained_eager_ms > 96 and ledger.unexplained_compiled_ms > 93


def test_a_gap_without_any_event_is_unexplained(convmixer: Path) -> None:
    """Five milliseconds in which nothing happens, put into each profiled call."""
    run = Run.open(convmixer / "infer-default.run")
    eager, _ = load_profile(convmixer / "infer-eager.trace.json")
    compiled, _ = load_profile(convmixer / "infer-default.trace.json")
    ledgers = [
        two_sided_ledger(join_profiles(run, profile, eager)) for profile in (compiled, _with_sleeps(compiled))
    ]
    assert ledgers[0] is not None and ledgers[1] is not None
    more = ledgers[1].unexplained_compiled_ms - ledgers[0].unexplained_compiled_ms
    assert more == pytest.approx(10 / 3, abs=0.5)
    assert ledgers[1].compiled_ms - ledgers[0].compiled_ms == pytest.approx(10 / 3, abs=1e-6)


@pytest.mark.parametrize(("longest", "usual"), [(2000.0, True), (150.0, False)])
def test_an_operator_that_was_interrupted_once_is_no_slower(longest: float, usual: bool) -> None:
    host: list[HostEvent] = []
    for call, took in enumerate((100.0, 110.0, 90.0, longest, 100.0)):
        start, step = 10_000.0 * call, len(host)
        host.append(HostEvent("annotation", f"{STEP_MARK}{call}", 1, start, 200.0 + took))
        host.append(HostEvent("annotation", f"{MARK}call", 1, start + 10, 150.0 + took, step))
        host.append(HostEvent("operator", "aten::mm", 1, start + 20, took, step + 1))
        host.append(HostEvent("operator", "aten::add", 1, start + 30 + took, 10.0, step + 1))
        # Called once in one call: not every call has it.
        if call == 2:
            host.append(HostEvent("operator", "aten::sum", 1, start + 50 + took, 9.0, step + 1))
    profile = Profile("p", tuple(host), ())
    work, device = work_of(profile)
    products = [piece for piece in work if piece.name == "aten::mm"]
    expected = [0.1, 0.11, 0.09, 0.1 if usual else longest / 1e3, 0.1]
    assert not device and [piece.ms for piece in products] == pytest.approx(expected)
    assert sum(piece.waited_ms for piece in work) == pytest.approx((longest - 100.0) / 1e3 if usual else 0.0)
    places = [Place(None, (), "forward", piece.name) for piece in work]
    whole = side_totals.totals(profile, work, places, 5, (), False, ())
    # The call that it was in is as much shorter.
    spans = 5 * 150.0 + 400.0 + longest - (longest - 100.0 if usual else 0.0)
    assert whole.wall_ms == pytest.approx(spans / 5e3)


def _with_sleeps(profile: Profile) -> Profile:
    """Everything from the second and from the third call on, 5 ms later."""
    lookups = [event.start for event in profile.host if event.name == "TorchDynamo Cache Lookup"][1:]

    def later(start: float) -> float:
        return start + 5000 * sum(start >= lookup for lookup in lookups)

    return replace(
        profile,
        host=tuple(replace(event, start=later(event.start)) for event in profile.host),
        device=tuple(replace(event, start=later(event.start)) for event in profile.device),
    )


def test_a_run_without_logs_is_joined_by_its_trace(convmixer: Path, tmp_path: Path) -> None:
    """What tells a graph's compile id is the log, else the structured trace."""
    run = tmp_path / "run"
    for part in ("torch_compile_debug", "trace"):
        shutil.copytree(convmixer / "train-default.run" / part, run / part)
    joined = join_profiles(
        Run.open(run),
        load_profile(convmixer / "train-default.trace.json")[0],
        load_profile(convmixer / "train-eager.trace.json")[0],
    )
    first = joined.blocks[0]
    assert (first.operators, first.times, first.graph) == (("conv2d",), 4, "model__0_forward_1.0")
    assert joined.compiled is not None and joined.compiled.attributed > 0.99


@pytest.mark.parametrize(("name", "calls"), [("breaks", 4), ("several", 16)])
def test_graph_breaks_and_several_callables(profiled_runs: Path, name: str, calls: int) -> None:
    """Regions inside each other, a frame compiled for two sizes, and one that runs four times in a pass."""
    run = profiled_runs / f"{name}.run"
    profiles = [load_profile(run / f"{side}.json.gz")[0] for side in "ce"]
    joined = join_profiles(Run.open(run), *profiles)
    for totals, side in ((joined.eager, "eager_ms"), (joined.compiled, "compiled_ms")):
        assert totals is not None and totals.calls == calls and totals.attributed > 0.98
        inside = sum(getattr(block, side) for block in joined.blocks if block.place == "graph")
        assert inside > 0.95 * totals.work_ms
    both = {
        (tuple(line.line for line in block.lines), block.operators, block.phase)
        for block in joined.blocks
        if block.eager_ms and block.compiled_ms and block.place == "graph"
    }
    assert ((12,), ("linear",), "forward") in both and ((16,), ("linear",), "forward") in both
    assert ((14,), ("cumsum",), "forward") in both
    if name == "breaks":
        assert ((16,), ("linear",), "backward") in both and ((12,), ("linear",), "backward") in both
    else:
        idents = [block.graph for block in joined.blocks if [line.line for line in block.lines] == [19]]
        assert len(idents) == len(set(idents)) == 2


def test_one_side_alone(convmixer: Path) -> None:
    run = Run.open(convmixer / "infer-default.run")
    compiled, _ = load_profile(convmixer / "infer-default.trace.json")
    eager, _ = load_profile(convmixer / "infer-eager.trace.json")
    only = join_profiles(run, compiled, None)
    assert only.eager is None and all(block.eager_ms is None for block in only.blocks)
    assert only.blocks[0].compiled_ms == pytest.approx(5.2254, abs=1e-3)
    assert two_sided_ledger(only) is None
    other = join_profiles(run, None, eager)
    assert other.compiled is None and other.blocks[0].eager_ms == pytest.approx(1.0896, abs=1e-3)


def test_a_profile_of_another_program_is_not_put_on_this_runs_graphs(convmixer: Path) -> None:
    """The training's profile beside the inference's run: its graphs are not among the run's."""
    run = Run.open(convmixer / "infer-default.run")
    compiled, _ = load_profile(convmixer / "train-default.trace.json")
    other = join_profiles(run, compiled, None)
    assert other.compiled is not None and other.compiled.attributed < 0.1
    assert "no files of" in other.compiled.notes[0]


def _longest(first: str, second: str) -> int:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def test_alignment_is_a_longest_common_subsequence() -> None:
    draw = random.Random(7)
    for _ in range(400):
        first, second = ("".join(draw.choices("abc", k=draw.randrange(12))) for _ in range(2))
        pairs = align(first, second)
        assert all(first[i] == second[j] for i, j in pairs)
        assert sorted({i for i, _ in pairs}) == [i for i, _ in pairs]
        assert sorted({j for _, j in pairs}) == [j for _, j in pairs]
        assert len(pairs) == _longest(first, second)
    assert align(["", "a"], ["", "a"]) == [(1, 1)]


def test_long_sequences_that_differ_in_many_places_are_aligned_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five passes of a scan over time, in each of which one side has operators of its own: five times as many
    as are looked at in one stretch."""
    monkeypatch.setattr(sequences, "_MOST_EDITS", 200)
    draw = random.Random(3)
    once = draw.choices("abcdefgh", k=1000)
    theirs = [name for name in once * 5 for name in ([name, "z"] if draw.random() < 0.2 else [name])]
    pairs = align(once * 5, theirs)
    assert len(pairs) > 0.99 * 5 * len(once)
    assert all((once * 5)[i] == theirs[j] for i, j in pairs)
    assert all(first[0] < second[0] and first[1] < second[1] for first, second in pairwise(pairs))
    # Nothing to do with each other: no hours.
    assert align(["a", "b"] * 20000, ["c", "d"] * 20000) == []


def test_the_shortest_period() -> None:
    assert [period(text) for text in ("", "a", "aaa", "abab", "ababa", "aabaab", "abc")] == [
        0,
        1,
        1,
        2,
        5,
        3,
        3,
    ]


def test_intervals() -> None:
    assert union([(3, 4), (0, 2), (1, 2.5)]) == [(0, 2.5), (3, 4)]
    assert without([(0, 10)], [(2, 3), (5, 12)]) == [(0, 2), (3, 5)]
    assert within([(0, 10)], [(2, 3), (5, 12)]) == [(2, 3), (5, 10)]
    assert length_ms([(0, 1000), (500, 1500)]) == 1.5
