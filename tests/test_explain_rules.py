"""Each rule judges the call itself: a neighbour has the property, the judged call has not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inspector.explain.case import Case
from inspector.explain.gather import gather
from inspector.explain.profiles import load_profiles
from inspector.explain.rules import slow_dtype, too_few_programs
from inspector.model.replay import Timing
from inspector.model.two_sides import KernelTime
from inspector.readers.run import Run
from inspector.replay.worker.timing import wider


@pytest.fixture(scope="module")
def profiled(convmixer: Path) -> Case:
    """Inference of the ConvMixer with both sides' profiles."""
    run = Run.open(convmixer / "infer-default.run")
    compiled, eager = (convmixer / f"infer-{side}.trace.json" for side in ("default", "eager"))
    return gather(run, (), None, load_profiles(run, compiled, eager))


def with_kernels(case: Case, *kernels: KernelTime, operators: tuple[str, ...] = ()) -> Case:
    """The case with these kernels in its first block."""
    assert case.sides is not None
    first, *others = case.sides.joined.blocks
    first = replace(first, compiled_kernels=kernels, operators=operators or first.operators)
    joined = replace(case.sides.joined, blocks=(first, *others))
    return replace(case, sides=replace(case.sides, joined=joined))


def test_few_programs_are_those_of_a_long_kernel_itself(profiled: Case) -> None:
    assert profiled.sides is not None and profiled.sides.joined.multiprocessors == 132
    # Short kernels of one program and long ones of 81 to 128 are there, and are none.
    assert not list(too_few_programs.find(profiled))
    slow = KernelTime("triton_red_fused_argmax_0", 1.0, 3.1, True, 4)
    wide = KernelTime("triton_red_fused_sum_1", 1.0, 9.0, True, 132)
    (told,) = too_few_programs.find(with_kernels(profiled, wide, slow, operators=("argmax",)))
    assert "3.10 ms in triton_red_fused_argmax_0, whose 4 programs can't fill 132" in told.title
    assert told.claims[0].block == 0 and 2.8 < told.claims[0].ms[0] < told.claims[0].ms[1] < 3.1
    assert "two steps" in told.advice and told.trial is not None
    (other,) = too_few_programs.find(with_kernels(profiled, replace(slow, name="gemv2T_kernel_val")))
    assert "larger batch" in other.advice and other.trial is None
    assert not list(too_few_programs.find(with_kernels(profiled, wide, replace(slow, ms=0.003))))
    assert not list(too_few_programs.find(with_kernels(profiled, replace(slow, programs=None))))


def test_a_slow_dtype_is_of_the_calls_that_were_measured_so(profiled: Case) -> None:
    assert not list(slow_dtype.find(profiled))
    (graph,) = profiled.graphs
    calls = [launch for launch in graph.launches if launch.role == "library"]
    slow, quick = replace(calls[0], ms=2.0, of_float32=0.25), replace(calls[1], ms=9.0)
    case = replace(profiled, graphs=(replace(graph, launches=(slow, quick)),))
    (told,) = slow_dtype.find(case)
    assert "1 library call" in told.title and "2.00 ms a call, and 500 us in float32" in told.title
    assert told.how == "replayed" and told.cost_ms == pytest.approx(1.5, abs=0.1)
    assert [claim.call for claim in told.claims] == [slow.call.index]


def test_a_call_in_float32_is_the_same_on_wide_copies() -> None:
    torch = pytest.importorskip("torch")
    given = torch.ones(2, 3, dtype=torch.bfloat16)
    out = torch.zeros(2, 2, dtype=torch.bfloat16)
    action = wider.in_float32(torch.mm, (given, given.t()), {"out": out})
    assert action is not None
    assert str(getattr(action(), "dtype", "")) == "torch.float32" and out.eq(0).all()
    assert wider.in_float32(torch.mm, (given.float(), given.float().t()), {}) is None


@pytest.mark.parametrize(
    ("half", "wide", "again", "sure"), [(6.0, 1.0, 6.0, True), (6.0, 1.0, 1.1, False), (1.2, 1.0, 1.2, False)]
)
def test_float32_has_to_be_faster_before_and_after(
    half: float, wide: float, again: float, sure: bool
) -> None:
    first, second, third = (Timing(ms, 0.15, 7) for ms in (half, wide, again))
    assert wider.surely_faster(first, second, third) is sure
