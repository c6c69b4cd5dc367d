"""Which screen shows a target. Each is imported when it is first gone to: the first paint waits for none."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

from . import navigation as to


def screen_for(target: to.Target) -> Screen[Any]:
    match target:
        case to.RunTarget():
            from .screens.run import RunScreen

            return RunScreen(target)
        case to.GraphTarget():
            from .screens.graph import GraphScreen

            return GraphScreen(target)
        case to.ExplainTarget():
            from .screens.explain import ExplainScreen

            return ExplainScreen(target)
        case to.SourceTarget():
            from .screens.source import SourceScreen

            return SourceScreen(target)
        case to.TraceTarget():
            from .screens.trace import TraceScreen

            return TraceScreen(target.run)
        case to.CaptureTarget():
            from .screens.capture_form import CaptureFormScreen

            return CaptureFormScreen()
        case to.LiveTarget():
            from .screens.live import LiveScreen

            return LiveScreen(target.job)
        case to.DoctorTarget():
            from .screens.doctor import DoctorScreen

            return DoctorScreen()
        case to.HelpTarget():
            from .screens.help import HelpScreen

            return HelpScreen(target.sections)
