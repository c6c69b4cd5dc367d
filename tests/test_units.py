"""Figures as text."""

from __future__ import annotations

from inspector.units import comparison, duration, duration_range, size


def test_whole_numbers_beyond_any_float_are_shown() -> None:
    assert (size(10**400), duration(-(10**400))) == ("inf PB", "-inf h")


def test_a_time_too_short_for_the_clock_divides_nothing() -> None:
    assert comparison(0.0, "eager") == "slower than eager"
    assert (comparison(0.5), comparison(1.002, "A"), comparison(2.0)) == (
        "2.00x slower",
        "as fast as A",
        "2.00x faster",
    )


def test_a_range_has_one_unit_where_that_reads_well() -> None:
    assert duration_range((0.0213, 0.0421)) == "21.3 to 42.1 us"
    assert duration_range((0.703, 1.41)) == "0.70 to 1.41 ms"
    assert duration_range((0.001, 0.105)) == "1.00 us to 105 us"
    assert duration_range((1.004, 1.0041)) == "1.00 ms"
    assert duration_range((0.0, 3.0)) == "up to 3.00 ms"
