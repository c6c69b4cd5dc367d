"""What a program prints, as lines that are safe to draw: no control sequences, progress bars in place."""

from __future__ import annotations

import codecs
import re
import threading
from collections import deque
from typing import Literal

from inspector.present.documents import Document, message_document
from inspector.text import clean

Stream = Literal["stdout", "stderr"]

KEPT = 2_000
"""Lines that are kept; standard error is whole in the run's logs/stderr.txt."""
_LONGEST = 4_000
"""Characters of one line that are kept."""

# ECMA-48: CSI (colours, cursor), OSC (titles, links), two-character escapes.
_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_]|[ -/]+[0-~])")
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[ -/]*)?\Z")


class OutputLines:
    """Takes bytes from threads; `document` gives the last lines. `generation` changes with the lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: deque[str] = deque(maxlen=KEPT)
        self._tails: dict[Stream, str] = {"stdout": "", "stderr": ""}
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in ("stdout", "stderr")
        }
        self._dropped = 0
        self.generation = 0

    def feed(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            text = self._tails[stream] + self._decoders[stream].decode(data)
            *whole, tail = text.split("\n")
            for line in whole:
                self._add(_shown(line))
            # A progress bar draws itself again and again; only its last state can matter.
            start = tail.rstrip("\r").rfind("\r") + 1
            self._tails[stream] = tail[start:][-_LONGEST:]
            self.generation += 1

    def say(self, text: str) -> None:
        """A line of the capture's own; what the program left unfinished ends before it."""
        with self._lock:
            for stream, tail in self._tails.items():
                if tail:
                    self._add(_shown(tail))
                    self._tails[stream] = ""
            self._add(clean(text))
            self.generation += 1

    def document(self, title: str) -> Document:
        """The lines kept, unfinished ones last."""
        with self._lock:
            lines = (*self._lines, *(_shown(tail) for tail in self._tails.values() if tail))
            dropped = self._dropped
        if not lines:
            return message_document(title, "nothing printed yet")
        start = len(lines) - 1
        return Document(title, lines, first_number=dropped + 1, start=start)

    def _add(self, line: str) -> None:
        if len(self._lines) == KEPT:
            self._dropped += 1
        self._lines.append(line)


def _shown(line: str) -> str:
    """One line as a terminal would have left it; of a progress bar the last state."""
    line = _UNFINISHED.sub("", _CONTROL.sub("", line)).rstrip("\r")
    return clean(line[line.rfind("\r") + 1 :][:_LONGEST].replace("\x08", ""))
