"""Regions of index expressions, against counting every address."""

from __future__ import annotations

import random
from itertools import product

import pytest

from inspector.analysis.index_ranges import IndexReader, union
from inspector.model.fusion import Region


def counted(index: str, ranges: dict[str, int]) -> set[int]:
    """The addresses, each computed on its own; Python's `eval` on texts of this file only."""
    names = {
        "ModularIndexing": lambda x, d, m: x // d % m,
        "FloorDiv": lambda x, d: x // d,
        "Min": min,
        "Max": max,
    }
    points = product(*(range(extent) for extent in ranges.values()))
    code = compile(index, "index", "eval")
    return {eval(code, names, dict(zip(ranges, point, strict=True))) for point in points}


EXPRESSIONS = [
    ("c0", {"c0": 10000}, True),
    ("c1", {"c0": 64, "c1": 48}, True),
    ("100*c0 + c1", {"c0": 100, "c1": 100}, True),
    ("c0 + 64*c1", {"c0": 64, "c1": 96}, True),
    ("2*c0", {"c0": 50}, True),
    ("c0 + c1", {"c0": 10, "c1": 7}, True),
    ("3*c0 + 2*c1", {"c0": 5, "c1": 5}, False),
    ("c0 - c1 + 12", {"c0": 6, "c1": 13}, True),
    ("7", {}, True),
    ("64*c0 + 4*c1 + c2 + 5", {"c0": 3, "c1": 8, "c2": 2}, True),
    ("ModularIndexing(c0, 2, 5) + 10*c1", {"c0": 40, "c1": 3}, True),
    ("c0 + 8*((c1//4))", {"c0": 8, "c1": 16}, True),
    ("Min(c0, 5)", {"c0": 20}, True),
    ("c0*c0", {"c0": 9}, True),
    ("((c0 - 1)) + 4*c1", {"c0": 4, "c1": 4}, True),
    ("ModularIndexing(c0, 1, 7)", {"c0": 10000}, False),
    ("(c0//3) + 4000*Min(c1, 2)", {"c0": 10000, "c1": 5}, False),
]


@pytest.mark.parametrize(("index", "ranges", "exact"), EXPRESSIONS)
def test_regions_are_the_addresses_that_are_visited(index: str, ranges: dict[str, int], exact: bool) -> None:
    region = IndexReader().region(index, tuple(ranges.items()))
    assert region is not None
    addresses = counted(index, ranges)
    assert region.exact is exact
    assert region.elements == len(addresses) if exact else region.elements >= len(addresses)
    assert region.low <= min(addresses)
    assert region.high >= max(addresses)


def test_random_affine_sums_are_never_undercounted_and_exact_ones_are_right() -> None:
    source = random.Random(7)
    exact = 0
    for _ in range(400):
        ranges = {f"c{n}": source.choice([1, 2, 3, 5, 8]) for n in range(3)}
        factors = [source.choice([-4, 0, 1, 2, 3, 8, 40]) for _ in ranges]
        index = " + ".join(f"{factor}*{name}" for factor, name in zip(factors, ranges, strict=True))
        region = IndexReader().region(index, tuple(ranges.items()))
        assert region is not None
        addresses = counted(index, ranges)
        assert region.elements >= len(addresses), index
        if region.exact:
            exact += 1
            assert region.elements == len(addresses), (index, ranges)
            assert (region.low, region.high) == (min(addresses), max(addresses))
    assert exact > 200, "most sums of this kind can be counted exactly"


def test_symbols_take_their_hints_and_stay_unknown_without() -> None:
    ranges = (("d0", "s77"), ("d1", 64))
    known = IndexReader({"s77": 16}).region("64*d0 + d1", ranges)
    assert known == Region(1024, 0, 1023)
    assert IndexReader().region("64*d0 + d1", ranges) is None
    assert IndexReader({"s0": 3, "s1": 4}).size("s0*s1**2 + 1") == 49
    assert IndexReader().size("s0*2") is None
    assert IndexReader().numel((2, "s0")) is None


def test_indirect_addresses_are_bounded_by_the_loop() -> None:
    region = IndexReader().region("c1 + 64*tmp0", (("c0", 16), ("c1", 64)))
    assert region is not None
    assert (region.elements, region.exact) == (1024, False)


@pytest.mark.parametrize(
    "text", ["__import__('os')", "c0.real", "[c0]", "c0 if c0 else 1", "(" * 400, "9**9**9"]
)
def test_hostile_texts_are_bounded_never_executed(text: str) -> None:
    region = IndexReader().region(text, (("c0", 4),))
    assert region is None or (region.elements <= 4 and not region.exact)


def test_unions_merge_what_overlaps() -> None:
    first, second = Region(10, 0, 9), Region(10, 5, 14)
    assert union([first, second], None) == Region(15, 0, 14)
    assert union([first, first], None) == first
    assert union([first, Region(10, 20, 29)], None).elements == 20
    assert union([first, Region(3, 0, 8)], None).elements == 10, "a strided set inside a stretch adds nothing"
    assert union([first, Region(10, 0, 18)], 12).elements == 12, "never more than the buffer"
