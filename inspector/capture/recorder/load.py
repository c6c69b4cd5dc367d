"""How busy the machine is beside this process: what the calls that are timed had to share it with.

Samples of counters that the kernel keeps anyway, taken between calls; what they mean is worked out by the
reader. On Linux; elsewhere a sample has the process's own time only.
"""

from __future__ import annotations

import os
import time
from typing import Any

SAMPLE_LIMIT = 64
_TICK = 100.0
"""Of /proc/stat a second (USER_HZ, which Linux shows as 100 on every common architecture)."""
_BUSY = (0, 1, 2, 5, 6, 7)
"""user, nice, system, irq, softirq, steal (man proc_stat); guests are in user."""
_STEAL = 7
_SYSTEM = "/sys/devices/system/cpu"


def sample() -> dict[str, Any]:
    """Counters of this moment, in seconds; those that this system does not have are left out.

    `at` is a clock, `own` the processor time of this process and of those below it, `busy` that of
    everybody on the `cores` that it may use, `stolen` the hypervisor's part of that. `waited` is how long
    the main thread was ready and had no core, `limited` how long a cgroup's quota held the process back,
    `hot` counts thermal throttlings, `mhz` and `mhz_most` are of one core.
    """
    times = os.times()
    data: dict[str, Any] = {"at": time.monotonic(), "own": sum(times[:4]) + _descendants()}
    for read in (_processors, _waited, _limited, _hot, _clock):
        try:
            data.update(read())
        except Exception:
            continue
    return data


class Loads:
    """The samples of a process, the newest kept where there are many."""

    def __init__(self) -> None:
        self._samples: list[dict[str, Any]] = []

    def take(self) -> None:
        """A sample of this moment; the first one is where steady calls begin."""
        if len(self._samples) >= SAMPLE_LIMIT:
            del self._samples[1]
        self._samples.append(sample())

    def clear(self) -> None:
        self._samples = []

    def as_json(self) -> list[dict[str, Any]]:
        return self._samples


def _descendants() -> float:
    """Processor time of the processes below this one that still run: compile workers, loaders of data."""
    try:
        below = _children_of(os.getpid())
        return sum(_time_of(process) for process in below)
    except Exception:
        return 0.0


def _children_of(process: int) -> list[int]:
    """All processes below `process`. A kernel without lists of children has all processes looked at."""
    if os.path.exists(f"/proc/{process}/task/{process}/children"):
        below: list[int] = []
        waiting = [process]
        while waiting:
            parent = waiting.pop()
            try:
                for thread in os.listdir(f"/proc/{parent}/task"):
                    with open(f"/proc/{parent}/task/{thread}/children") as file:
                        waiting += [int(word) for word in file.read().split()]
            except OSError:
                continue
            below.append(parent)
        return below[1:]
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields:
                parents.setdefault(int(fields[1]), []).append(int(name))
    below = []
    waiting = list(parents.get(process, ()))
    while waiting:
        below.append(waiting.pop())
        waiting += parents.get(below[-1], ())
    return below


def _time_of(process: int) -> float:
    # utime, stime, cutime, cstime: its own, and of the children that it has waited for.
    return sum(float(field) for field in _stat(process)[11:15]) / _TICK


def _stat(process: int) -> list[str]:
    """/proc/PID/stat from the state on; before it stands the name, which may hold anything."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _processors() -> dict[str, Any]:
    allowed = os.sched_getaffinity(0)
    busy = stolen = 0.0
    cores = 0
    with open("/proc/stat") as file:
        for line in file:
            name, *fields = line.split()
            if not name.startswith("cpu"):
                break
            if name != "cpu" and int(name[3:]) in allowed:
                cores += 1
                busy += sum(float(fields[place]) for place in _BUSY)
                stolen += float(fields[_STEAL])
    return {"busy": busy / _TICK, "stolen": stolen / _TICK, "cores": cores}


def _waited() -> dict[str, Any]:
    # /proc/self/schedstat: time on a core, time ready without one (nanoseconds), slices.
    with open("/proc/self/schedstat") as file:
        return {"waited": int(file.read().split()[1]) / 1e9}


def _limited() -> dict[str, Any]:
    with open("/proc/self/cgroup") as file:
        path = next(line[3:].strip() for line in file if line.startswith("0::"))
    with open(f"/sys/fs/cgroup{path.rstrip('/')}/cpu.stat") as file:
        for line in file:
            name, value = line.split()
            if name == "throttled_usec":
                return {"limited": int(value) / 1e6}
    return {}


def _hot() -> dict[str, Any]:
    core = min(os.sched_getaffinity(0))
    with open(f"{_SYSTEM}/cpu{core}/thermal_throttle/package_throttle_count") as file:
        return {"hot": int(file.read())}


def _clock() -> dict[str, Any]:
    folder = f"{_SYSTEM}/cpu{min(os.sched_getaffinity(0))}/cpufreq"
    with open(f"{folder}/scaling_cur_freq") as now, open(f"{folder}/cpuinfo_max_freq") as most:
        return {"mhz": int(now.read()) / 1e3, "mhz_most": int(most.read()) / 1e3}
