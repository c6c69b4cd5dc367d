"""The help text: what can be done on one screen, from the bindings that are active there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from textual.binding import ActiveBinding

from inspector.frozen import dataclass
from inspector.tui.actions import SCOPE_TITLES, Action, keys_of, keys_text


@dataclass(frozen=True, slots=True)
class HelpLine:
    """A heading (`keys` empty), or keys and what they do."""

    keys: str
    text: str


def help_lines(actions: Iterable[Action], active: Mapping[str, ActiveBinding]) -> list[list[HelpLine]]:
    """Sections in the order of their titles, with the keys that work now."""
    known = [(action, keys) for action in actions if (keys := keys_of(action, active))]
    sections = []
    for title in dict.fromkeys(SCOPE_TITLES.values()):
        here = [item for item in known if SCOPE_TITLES.get(item[0].scope) == title]
        lines = [HelpLine(keys_text(keys), action.title) for action, keys in here]
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
