"""A terminal that may be closed while it is drawn on."""

from __future__ import annotations

import select
from contextlib import suppress
from typing import Any, TextIO

from textual.driver import Driver

LOOK_S = 1.0
"""Between two looks at whether the terminal is still there."""


class LastingOutput:
    """Writes to `file` for as long as somebody is there; what comes after that is lost, without a word."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._file.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def hung_up(descriptor: int) -> bool:
    """Whether the other end of a terminal is gone. That signals the session's first process alone, which may
    be make or a shell that waits for this one, and Textual reads nothing, again and again, from then on."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def lasting(driver: type[Driver]) -> type[Driver]:
    """The driver, drawing on a `LastingOutput`.

    Textual's thread that writes ends with the first error, and its queue holds 30 texts
    (textual/drivers/_writer_thread.py): whoever writes the next one would wait for ever.
    """

    class LastingDriver(driver):  # type: ignore[valid-type, misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if file := getattr(self, "_file", None):
                self._file = LastingOutput(file)

    return LastingDriver
