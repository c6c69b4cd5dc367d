"""Cores that other programs burn: as busy on a machine of one core as on one of sixty-four."""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType

CORES = sorted(os.sched_getaffinity(0))[:2]
"""What is to be disturbed has these and no others."""

_BURN = """
import os, sys, time
os.sched_setaffinity(0, CORES)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
while True:
    pass
"""


class Burners:
    """Four programs that share CORES from `start` on, or once the file `after` is there."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *after: str) -> None:
        words = [sys.executable, "-c", _BURN.replace("CORES", str(CORES)), *after]
        # Each in a session: Linux shares cores out among sessions (autogroups) first.
        self._processes += [subprocess.Popen(words, start_new_session=True) for _ in range(4)]

    def __bool__(self) -> bool:
        return bool(self._processes)

    def __enter__(self) -> Burners:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
