"""How often the loops of generated C++ run, and what a point of them takes."""

from __future__ import annotations

import pytest

from inspector.explain.cpp_loops import counted_nests, loop_nests
from inspector.explain.estimate import SCALAR_HEAVY_NS, SCALAR_NS, VECTOR_HEAVY_NS, VECTOR_NS, point_ns
from inspector.model.schedule import Buffer, Layout, LoopBody, SchedulerNode
from inspector.model.source import LineSpan


def loop(name: str, end: str, *inner: str, start: int = 0, step: int = 1) -> str:
    head = (
        f"for(int64_t {name}=static_cast<int64_t>({start}L); {name}<static_cast<int64_t>({end}); "
        f"{name}+=static_cast<int64_t>({step}L))"
    )
    return "\n".join((head, "{", *inner, "}"))


BODY = "auto tmp0 = in_ptr0[static_cast<int64_t>(x0)];"


@pytest.mark.parametrize(
    ("text", "points"),
    [
        (loop("x0", "900L", BODY), 900),
        (loop("x0", "16L", loop("x1", "1024L", BODY, step=16)), 16 * 1024),
        # A row's sum, then its elements: these follow one another.
        (
            loop("x0", "16L", loop("x1", "1024L", BODY), loop("x1", "12L", loop("x2", "1024L", BODY))),
            16 * 13 * 1024,
        ),
        # What is left over behind the vectors.
        (loop("x0", "8L", loop("x1", "992L", BODY, step=16), loop("x1", "1000L", BODY, start=992)), 8000),
        (loop("x0", "8L", loop("x1", "ks0", BODY)), None),
        (loop("x0", "8L", loop("x1", "4L*ks0", BODY), loop("x1", "7L", BODY)), None),
        # One that is cut off.
        (loop("x0", "8L", loop("x1", "7L", BODY)).removesuffix("}\n}"), 56),
    ],
)
def test_points_are_those_of_the_innermost_bodies(text: str, points: int | None) -> None:
    (nest,) = loop_nests(text)
    assert nest.points == points


@pytest.mark.parametrize(
    ("lines", "dtype", "ns"),
    [
        (("ops.load('a', i)", "ops.pow(load, c)"), "float32", 2.5),
        (("ops.load('a', i)", "ops.pow(load, c)"), "float64", 5.0),
        (("ops.load('a', i)", "ops.exp(load)"), "float64", VECTOR_HEAVY_NS),
        (("ops.exp(load)", "ops.tanh(exp)"), "float32", VECTOR_HEAVY_NS + 1.5),
    ],
)
def test_functions_take_what_they_take_in_vectors(lines: tuple[str, ...], dtype: str, ns: float) -> None:
    """A power of float64 gains little of them (benchmarks/results/vector-functions.txt)."""
    buffer = Buffer("buf0", "ComputedBuffer", Layout("FixedLayout", "", "cpu", dtype, (128,), (1,)))
    body = LoopBody("op0_loop_body", (), (), lines)
    leaf = SchedulerNode("op0", "SchedulerNode", (), LineSpan(1, 9), outputs=(buffer,), body=body)
    assert point_ns(leaf, vectorised=True) == pytest.approx(ns + VECTOR_NS)
    functions = sum("load(" not in line for line in lines)
    assert point_ns(leaf, vectorised=False) == pytest.approx(SCALAR_HEAVY_NS * functions + SCALAR_NS)


def test_loops_over_symbolic_sizes_have_what_the_others_leave() -> None:
    """Of a kernel of 1,000 points with a loop of 400: 300 are each other's."""
    head = "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>({}); x0+=1L)\n"
    loop = head + "{{\nauto tmp0 = x0;\n}}\n"
    source = loop.format("400L") + loop.format("ks0") + loop.format("ks1")
    assert [nest.points for nest in counted_nests(source, 1000)] == [400, 300, 300]
    assert [nest.points for nest in counted_nests(source, 100)] == [400, 1, 1]
    assert [nest.points for nest in counted_nests(source, None)] == [400, None, None]
    assert counted_nests(loop.format("400L"), 7) == loop_nests(loop.format("400L"))
