"""Where the recorder writes: one JSON object a line, a file for each process, complete after every line."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import threading
from collections.abc import Callable
from typing import Any

SCHEMA = "inspector.record/1"


class Sink:
    """RUN/record/rank0.jsonl, or rank0-PID.jsonl where another process of that rank was first.

    The file is made with the first line, so that processes which compile nothing leave none. It is closed
    after every line: a file left open is one warning more in a program that runs with `python -X dev`.
    """

    def __init__(self, folder: str, log: str) -> None:
        self._folder = folder
        self._log = log
        self._path = ""
        self._owner = 0
        self._lock = threading.Lock()
        self.describe: Callable[[], dict[str, Any]] = dict
        """What the first line says beside the versions: the hooks in place and those without a place."""
        self.shared: dict[str, Any] = {}
        """What hooks in different modules of torch share, one of each in a process."""

    def write(self, data: dict[str, Any]) -> None:
        """Append one line. Raises OSError; values that are not JSON become their text."""
        line = json.dumps(data, separators=(",", ":"), default=str)
        with self._lock:
            # A fork inherits the name of its parent's file; lines of two processes must not mix.
            if self._owner != os.getpid():
                self._path, self._owner = self._begin(), os.getpid()
            _append(self._path, line)

    def describe_again(self) -> None:
        """Where the first line is written already: what it would say now, for modules imported later."""
        if self._owner == os.getpid():
            self.write({"kind": "hooks", **self.describe()})

    def _begin(self) -> str:
        """Make this process's file, with its first line."""
        rank = os.environ.get("RANK", "0")
        rank = rank if rank.isdigit() else "0"
        os.makedirs(self._folder, exist_ok=True)
        path = os.path.join(self._folder, f"rank{rank}.jsonl")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            path = os.path.join(self._folder, f"rank{rank}-{os.getpid()}.jsonl")
        head = {
            "kind": "process",
            "schema": SCHEMA,
            "pid": os.getpid(),
            "rank": int(rank),
            "python": platform.python_version(),
            "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
        }
        _append(path, json.dumps({**head, **self.describe()}, default=str))
        return path

    def log(self, text: str) -> None:
        """Append one line to the recorder's log; never raises."""
        with contextlib.suppress(Exception):
            _append(self._log, f"{os.getpid()} {' '.join(text.split())}")


def _append(path: str, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        rest = memoryview(f"{line}\n".encode("utf-8", "replace"))
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)
