"""Styles by name, from the components that every main screen declares (see `InspectorScreen`)."""

from __future__ import annotations

from rich.style import Style
from textual.widget import Widget


def component(widget: Widget, name: str) -> Style:
    """A component's whole style, background included."""
    return widget.screen.get_component_rich_style(name)


def ink(widget: Widget, name: str) -> Style:
    """A component's style without background, to be laid over any: colour and weight.

    Textual's partial styles would leave muted colours unmixed with their background.
    """
    style = component(widget, name)
    return Style(color=style.color, bold=style.bold, dim=style.dim, italic=style.italic)
