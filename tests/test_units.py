"""Figures as text."""

from __future__ import annotations

from inspector.units import comparison, duration, size


def test_whole_numbers_beyond_any_float_are_shown() -> None:
    assert (size(10**400), duration(-(10**400))) == ("inf PB", "-inf h")


def test_a_time_too_short_for_the_clock_divides_nothing() -> None:
    assert comparison(0.0, "eager") == "slower than eager"
    assert (comparison(0.5), comparison(1.002, "A"), comparison(2.0)) == (
        "2.00x slower",
        "as fast as A",
        "2.00x faster",
    )
