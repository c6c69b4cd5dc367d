"""Waiting for something real, for as long as the slowest machine takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psutil

PATIENCE_S = 180.0


def wait_until(what: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    return not _is_gone(pid)


def _is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until_gone(*pids: int) -> None:
    for pid in pids:
        wait_until(partial(_is_gone, pid))


def written(path: Path) -> str:
    """What is in a file; empty where it is not there yet."""
    return path.read_text() if path.exists() else ""
