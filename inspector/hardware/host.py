"""Which machine this is."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from inspector.hardware.peaks import kept_peaks
from inspector.model.explain import Host


def this_host() -> Host:
    """This machine, with the CPUs that this process may use."""
    return Host(platform.node(), usable_cpus(), os.environ, kept_peaks())


def usable_cpus() -> int | None:
    """Those that this process may use; None where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def cpu_name() -> str:
    """The processor's name as the system gives it; empty where it doesn't."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
