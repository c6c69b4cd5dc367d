"""Which screen shows a target. Each is imported when it is first gone to: the first paint waits for none."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from textual.screen import Screen

from . import navigation as to

_SCREENS: dict[type, tuple[str, str]] = {
    to.RunTarget: ("first", "FirstScreen"),
    to.GraphsTarget: ("run", "RunScreen"),
    to.GraphTarget: ("graph", "GraphScreen"),
    to.ExplainTarget: ("explain", "ExplainScreen"),
    to.SourceTarget: ("source", "SourceScreen"),
    to.FindTarget: ("find", "FindScreen"),
    to.BelowTarget: ("below", "BelowScreen"),
    to.TraceTarget: ("trace", "TraceScreen"),
    to.DiffTarget: ("diff", "DiffScreen"),
    to.CaptureTarget: ("capture_form", "CaptureFormScreen"),
    to.LiveTarget: ("live", "LiveScreen"),
    to.DoctorTarget: ("doctor", "DoctorScreen"),
    to.IndexTarget: ("index", "IndexScreen"),
    to.LineTarget: ("line", "LineScreen"),
    to.HelpTarget: ("help", "HelpScreen"),
}
"""Each module below `screens`, and its class, which is made with the target."""


def screen_for(target: to.Target) -> Screen[Any]:
    module, name = _SCREENS[type(target)]
    screen: Screen[Any] = getattr(import_module(f".screens.{module}", __package__), name)(target)
    return screen
