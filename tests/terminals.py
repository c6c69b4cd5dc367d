"""A process on a pseudo-terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from waiting import PATIENCE_S


class Terminal:
    """A process that has a pseudo-terminal of its own as controlling terminal."""

    def __init__(
        self, words: Sequence[str], folder: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        pid, self.descriptor = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
            os.chdir(folder or ".")
            os.execve(words[0], list(words), env or os.environ)
        self.pid = pid
        self.seen = b""

    def read(self, until: bytes | None = None) -> bytes:
        """Everything up to `until`, or to the end."""
        end = time.monotonic() + PATIENCE_S
        while until is None or until not in self.seen:
            assert time.monotonic() < end, self.seen
            if not select.select([self.descriptor], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:
                data = b""
            if not data:
                break
            self.seen += data
        return self.seen

    def type(self, keys: bytes, until: bytes) -> None:
        """Type, and read on up to `until`, which is drawn after that."""
        self.seen = b""
        os.write(self.descriptor, keys)
        self.read(until)

    def close(self) -> int:
        os.close(self.descriptor)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
