"""Divisions of 64-bit integers in Triton kernels: which are seen, and what is claimed for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from test_explain_below import generated, profiled, with_launch

from inspector.analysis.calls import CallPayOff
from inspector.analysis.divisions import size_divisions, wide_divisions
from inspector.explain.case import Case
from inspector.explain.rules import integer_division
from inspector.explain.sized_calls import RECOMPILE_LIMIT
from inspector.model.code import Kernel, KernelParameter
from inspector.model.explain import Trial
from inspector.model.peaks import Costs, Peaks

__all__ = ["profiled"]
HEAD = "def divide(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK : tl.constexpr):\n    xnumel = 4000000\n"
LOADS = (
    "    x0 = (xindex % 8)\n"
    "    tmp0 = tl.load(in_ptr0 + (x0), xmask)\n"
    "    tmp1 = tl.load(in_ptr1 + (x0), xmask)\n"
)


def dividing(*lines: str, first: str = "*i64", second: str = "*i64") -> Kernel:
    body = "".join(f"    {line}\n" for line in lines)
    return Kernel(
        name="divide",
        kind="triton",
        function="divide",
        source=HEAD + LOADS + body,
        parameters=(
            KernelParameter("in_ptr0", first),
            KernelParameter("in_ptr1", second),
            KernelParameter("out_ptr0", "*i64"),
            KernelParameter("xnumel", "i32"),
            KernelParameter("XBLOCK", "constexpr"),
        ),
    )


@pytest.mark.parametrize(
    "line",
    [
        "tmp2 = (tmp0 % tmp1)",
        "tmp2 = tmp0 // tmp1",
        "tmp2 = triton_helpers.div_floor_integer(tmp0,  tmp1)",
        "tmp2 = triton_helpers.remainder_integer(tmp0, tmp1)",
    ],
)
def test_divisions_by_what_was_loaded_are_seen(line: str) -> None:
    assert wide_divisions(dividing(line)) == (6,)


def test_what_was_computed_of_integers_is_one() -> None:
    assert wide_divisions(dividing("tmp2 = tmp0 * tmp1", "tmp3 = tmp2 % tmp1")) == (7,)
    # A comparison's value is none of them.
    assert not wide_divisions(dividing("tmp2 = tmp0 < tmp1", "tmp3 = tmp2 % tmp2"))


def test_constants_floats_and_narrow_integers_are_not_told() -> None:
    constant = ("tmp2 = tl.full([1], 7, tl.int64)", "tmp3 = (tmp0 % tmp2)")
    assert not wide_divisions(dividing(*constant))
    assert not wide_divisions(dividing("tmp2 = tmp0 % tmp1", first="*i32", second="*i32"))
    assert not wide_divisions(dividing("tmp2 = tmp0 % tmp1", first="*fp32", second="*fp32"))
    floats = ("tmp2 = tmp0.to(tl.float32)", "tmp3 = tmp1.to(tl.float32)", "tmp4 = tmp2 % tmp3")
    assert not wide_divisions(dividing(*floats))
    # 64-bit integers of narrow ones, and floats of both.
    assert wide_divisions(dividing("tmp2 = tmp0.to(tl.int64)", "tmp3 = tmp2 % tmp1", first="*i32")) == (7,)
    assert not wide_divisions(dividing("tmp2 = tmp0 % tmp1", first="*fp64"))


def test_a_source_that_is_cut_off_has_none() -> None:
    whole = dividing("tmp2 = (tmp0 % tmp1)")
    for length in range(0, len(whole.source), 7):
        wide_divisions(replace(whole, source=whole.source[:length]))
    assert not wide_divisions(replace(whole, source=whole.source[:-3]))


def of_sizes(*lines: str, size: str = "i64") -> Kernel:
    """A kernel that is compiled for any size: its numbers of elements are handed to it."""
    kernel = dividing(*lines)
    head = "def divide(in_ptr0, in_ptr1, out_ptr0, ks0, ks1, xnumel, XBLOCK : tl.constexpr):\n"
    sizes = tuple(KernelParameter(name, size) for name in ("ks0", "ks1"))
    source = kernel.source.replace(HEAD, head)
    return replace(kernel, source=source, parameters=(*kernel.parameters[:3], *sizes, *kernel.parameters[3:]))


def test_index_arithmetic_by_symbolic_sizes_divides() -> None:
    """A minimum over five neighbours of a table of 361 x 361 x 361: 593 us for 279 MB."""
    index = ("x1 = ((xindex // ks0) % ks0)", "x0 = (xindex % ks0)", "x2 = xindex // ks1")
    # A quotient of line 5 comes with the remainder in line 6; 8 is a constant.
    assert size_divisions(of_sizes(*index)) == ((5, False), (6, False), (7, False))
    assert size_divisions(of_sizes("x1 = (r0_1 + x0) % (ks0*ks1)", "r2 = rindex // ks0")) == (
        (5, True),
        (6, True),
    )
    for line in (
        "x1 = (511 + ks0) // 512",
        "x1 = xindex // 512",
        "x1 = ks1 // ks0",
        "x1 = xindex // (ks0*x0)",
    ):
        assert not size_divisions(of_sizes(line)), line
    assert not size_divisions(of_sizes(*index, size="i32"))
    assert not size_divisions(replace(of_sizes(*index), source="def divide(:"))


def test_of_symbolic_sizes_as_many_elements_are_counted_as_there_were(profiled: Case) -> None:
    graph, launch, number = generated(profiled)
    kernel = of_sizes("x1 = (xindex // ks0)", "x0 = xindex // ks1")
    leaf = replace(launch.leaves[0], sizes=(("s0", 1000), (4,)))
    case = measured(profiled, Costs(division_s=1e-12, wide_division_s=6e-12))
    case = with_launch(case, number, kernel=kernel, ms=5.0, leaves=(leaf,))
    assert not list(integer_division.find(case)), "nobody knows how many"
    known = replace(case, graphs=tuple(replace(own, hints={"s0": 1000}) for own in case.graphs))
    (told,) = integer_division.find(known)
    # Once for each of a million rows, of numbers that fit or do not.
    assert told.claims[0].ms == pytest.approx((2e-3 * graph.runs, 12e-3 * graph.runs))
    assert "2 times for each element by sizes that are symbols" in told.title and told.how == "estimated"
    assert told.trial == Trial(dynamic=False) and told.advice.startswith("compile for each size")
    place = launch.sources[0]
    assert (told.evidence[0].path, told.evidence[0].line) == (place.path, place.line)
    # Of more sizes than torch compiles for, that is no way.
    groups = [SimpleNamespace(alike=((f"{size}x8",),)) for size in range(RECOMPILE_LIMIT + 1)]
    calls = cast(CallPayOff, SimpleNamespace(groups=groups))
    (many,) = integer_division.find(replace(known, times=replace(known.times, by_sizes=calls)))
    assert many.trial is None
    inner = of_sizes("r2 = (r0_1 + xindex) // ks0")
    (told,) = integer_division.find(with_launch(known, number, kernel=inner))
    assert told.claims[0].ms == pytest.approx((4e-3 * graph.runs, 24e-3 * graph.runs))


def measured(case: Case, costs: Costs | None) -> Case:
    name = case.facts.devices[0]
    peaks = Peaks(name, "measured", 4e12, {"float32": 5e13}, reference="measured", costs=costs)
    return replace(case, machine={**case.machine, "peaks": {"cuda": peaks.to_json()}})


def test_so_much_is_claimed_as_the_machine_takes(profiled: Case) -> None:
    graph, launch, number = generated(profiled)
    kernel = dividing("tmp2 = (tmp0 % tmp1)", "tmp3 = (tmp2 % tmp1)")
    case = with_launch(
        measured(profiled, Costs(division_s=1e-12, wide_division_s=6e-12)), number, kernel=kernel, ms=5.0
    )
    (told,) = integer_division.find(case)
    (claim,) = told.claims
    assert claim.call == launch.call.index
    # Two of four million elements.
    assert claim.ms == pytest.approx((8e-3 * graph.runs, 48e-3 * graph.runs))
    assert "up to 2 times for each element" in told.title
    # No more than it takes over its least.
    quick = with_launch(case, number, ms=0.02)
    assert all(each.claims[0].ms[1] < 0.02 * graph.runs for each in integer_division.find(quick))
    # Behind a reduction it is done once for a row.
    source = kernel.source.replace("xnumel = 4000000", "xnumel = 4000\n    r0_numel = 1000")
    (rows,) = integer_division.find(with_launch(case, number, kernel=replace(kernel, source=source)))
    assert rows.claims[0].ms == pytest.approx((8e-6 * graph.runs, 48e-3 * graph.runs))


def test_nothing_is_said_where_nobody_measured_it(profiled: Case) -> None:
    _, _, number = generated(profiled)
    kernel = dividing("tmp2 = (tmp0 % tmp1)")
    costs = Costs(division_s=1e-12, wide_division_s=6e-12)
    assert not list(integer_division.find(with_launch(profiled, number, kernel=kernel, ms=5.0)))
    for without in (None, Costs(), Costs(division_s=1e-12)):
        case = measured(profiled, without)
        assert not list(integer_division.find(with_launch(case, number, kernel=kernel, ms=5.0)))
    guessed = with_launch(measured(profiled, costs), number, kernel=kernel, ms=5.0, measured=False)
    assert not list(integer_division.find(guessed))
    assert not list(integer_division.find(with_launch(measured(profiled, costs), number, ms=5.0)))
