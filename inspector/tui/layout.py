"""Which views a graph's panes show, narrow and wide, and the way a selection is followed through them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from inspector.frozen import dataclass
from inspector.views.panes import BY_ID

_STACKED = ("fx-after", "code")

_STEPS: tuple[tuple[str, str], ...] = (
    ("fx", "fx-before"),
    ("fx", "fx-after"),
    ("ir", "ir-before"),
    ("ir", "ir-after"),
    ("code", "code"),
    ("kernels", "kernels"),
)


LOWER = ("result", "source")
"""What a narrow pane of kernels shows below the table: one of these."""


_LEAST_TABLE, _TABLE_HEAD = 6, 3
"""Rows of the screen: for the smallest table of kernels; for its title, its head and an empty one below."""


def shown(pane: str, wide: bool, half: str, lower: str = "source") -> tuple[str, ...]:
    """Views on screen. Narrow panes show one half at a time, but the table of kernels with `lower` below."""
    views = halves(pane)
    if pane == "fusion":
        return _shown_of_fusion(wide, half)
    if wide:
        return views
    if pane == "all":
        return _STACKED
    if pane == "kernels":
        return ("kernels", half if half in LOWER else lower)
    return (half if half in views else BY_ID[pane].first,)


def _shown_of_fusion(wide: bool, half: str) -> tuple[str, ...]:
    """Lanes or misses with the reasons beside or below them; drawings as large as they can be."""
    if half == "sides" or (half == "boxes" and not wide):
        return (half,)
    if half == "boxes":
        return ("lanes", "boxes")
    return ("missed" if half == "missed" else "lanes", "why")


@dataclass(frozen=True, slots=True)
class Arrangement:
    """How the views of a pane lie, and their shares of width and height where these are not equal.

    A grid has two columns: `rows` are the heights of its rows, `spanning` the views that take both columns.
    """

    layout: Literal["horizontal", "vertical", "grid"]
    widths: Mapping[str, int] = field(default_factory=dict)
    heights: Mapping[str, int] = field(default_factory=dict)
    rows: str = "1fr"
    spanning: frozenset[str] = frozenset()


def arrange(pane: str, wide: bool, rows: int = 0, height: int = 0) -> Arrangement:
    """`rows` of the table of kernels, `height` of all panes: a short table leaves its room to the others."""
    if wide and pane == "kernels":
        table = max(_LEAST_TABLE, min(rows + _TABLE_HEAD, height * 2 // 5))
        return Arrangement("grid", rows=f"{table} 1fr", spanning=frozenset({"kernels"}))
    if wide:
        widths = {"launches": 2, "code": 3, "lanes": 3, "missed": 3, "why": 2, "boxes": 3}
        return Arrangement("grid" if pane == "all" else "horizontal", widths)
    heights = {"kernels": 2, "source": 3, "result": 3, "lanes": 3, "missed": 3, "why": 2}
    return Arrangement("vertical", heights=heights)


def halves(pane: str) -> tuple[str, ...]:
    """All views of a pane, on screen or not, in the order in which tab goes through them."""
    return tuple(view.id for view in BY_ID[pane].views)


def next_step(pane: str, view: str) -> tuple[str, str]:
    """Pane and view after `view` on the way from the user's program to a kernel, then from the start."""
    if pane == "all":
        order = halves("all")
        return "all", order[(order.index(view) + 1) % len(order)] if view in order else order[0]
    names = [name for _, name in _STEPS]
    of_kernels = {"source": "kernels", "result": "kernels"}
    aliases = {"launches": "ir-after", **of_kernels, **dict.fromkeys(halves("fusion"), "ir-after")}
    name = aliases.get(view, view)
    position = names.index(name) if name in names else -1
    return _STEPS[(position + 1) % len(_STEPS)]
