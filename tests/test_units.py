"""Figures as text."""

from __future__ import annotations

from inspector.units import duration, size


def test_whole_numbers_beyond_any_float_are_shown() -> None:
    assert (size(10**400), duration(-(10**400))) == ("inf PB", "-inf h")
