"""How the captured command ended, where that was not as it should be."""

from __future__ import annotations

import signal

from inspector.model.run import Manifest

_SIGNALS = 128
"""A shell's exit code of a command that signal n ended is 128 + n."""


def ending(manifest: Manifest | None) -> str:
    """`the command did not end: killed by SIGKILL`; empty for one that went well, and for what is no capture.

    A command that failed has ended, and says so; its calls up to then were made all the same.
    """
    if manifest is None or manifest.status == "done":
        return ""
    if manifest.exit_code is None:
        return "the command did not end: the capture is still running, or was killed itself"
    if name := _signal(manifest.exit_code):
        return f"the command did not end: killed by {name}"
    if manifest.status == "interrupted":
        return f"the command did not end: interrupted, exit code {manifest.exit_code}"
    return f"the command failed with exit code {manifest.exit_code}"


def _signal(code: int) -> str:
    try:
        return signal.Signals(code - _SIGNALS).name if code > _SIGNALS else ""
    except ValueError:
        return ""
