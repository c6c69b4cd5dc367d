"""Styles by name, from the components that every main screen declares (see `InspectorScreen`), and texts
with them: whatever a widget shows of a run goes through here or through `LinesView`, and is cleaned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from inspector.text import clean

if TYPE_CHECKING:
    from inspector.present.spans import Line, Tone


def component(widget: Widget, name: str) -> Style:
    """A component's whole style, background included."""
    return widget.screen.get_component_rich_style(name)


def ink(widget: Widget, name: str) -> Style:
    """A component's style without background, to be laid over any: colour and weight.

    Textual's partial styles would leave muted colours unmixed with their background.
    """
    style = component(widget, name)
    return Style(color=style.color, bold=style.bold, dim=style.dim, italic=style.italic)


def tone_style(widget: Widget, tone: Tone) -> Style:
    """What a tone looks like; the command line's are in `inspector.cli.terminal`."""
    return ink(widget, f"tone--{tone}") if tone else Style.null()


def plain_text(text: str, style: str | Style = "") -> Text:
    """What a widget may show of foreign text: no markup, nothing that a terminal obeys but line breaks."""
    return Text("\n".join(map(clean, text.split("\n"))), style=style)


def lines_text(widget: Widget, lines: Iterable[Line]) -> Text:
    """Lines in their tones, one below the other."""
    text = Text()
    for number, line in enumerate(lines):
        text.append("\n" if number else "")
        for span in line.spans:
            text.append(clean(span.text), tone_style(widget, span.tone))
    return text
