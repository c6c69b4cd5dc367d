"""How often the loops of generated C++ run."""

from __future__ import annotations

import pytest

from inspector.explain.cpp_loops import loop_nests


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
