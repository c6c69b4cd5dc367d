"""Which machine this is."""

from __future__ import annotations

import os
import platform

from inspector.model.explain import Host


def this_host() -> Host:
    """This machine, with the CPUs that this process may use."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Host(platform.node(), cpus, os.environ)
