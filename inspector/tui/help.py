"""The help text: what can be done on one screen, from the bindings that are active there."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from inspector.tui.actions import ACTIONS, SCOPE_TITLES, keys_text


@dataclass(frozen=True, slots=True)
class HelpLine:
    """A heading (`keys` empty), or keys and what they do."""

    keys: str
    text: str


def help_lines(active: Collection[str]) -> list[list[HelpLine]]:
    """Sections in the registry's order; `active` are the Textual actions that work now."""
    sections = []
    for scope, title in SCOPE_TITLES.items():
        lines = [HelpLine(keys_text(a), a.title) for a in ACTIONS if a.scope == scope and a.name in active]
        if scope == "everywhere" and lines:
            lines.insert(
                0, HelpLine("^p", "Palette: find graphs, kernels, panes, themes and actions by name")
            )
        if lines:
            sections.append([HelpLine("", title), *lines])
    return sections


def help_columns(sections: list[list[HelpLine]], wide: bool) -> list[list[list[HelpLine]]]:
    """One column, or two of about the same height."""
    if not wide:
        return [sections]
    half = sum(len(section) + 1 for section in sections) / 2
    left: list[list[HelpLine]] = []
    while len(left) < len(sections) and sum(len(section) + 1 for section in left) < half - 1:
        left.append(sections[len(left)])
    return [left, sections[len(left) :]]


MOUSE = "Mouse: a click sets the cursor, a drag selects lines, a double click opens, the wheel scrolls."
