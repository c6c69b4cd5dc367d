"""How busy the machine's other programs keep it while something is measured. Standard library only."""

from __future__ import annotations

import os
import time


def busy_seconds(stat: str, ticks_per_s: int) -> float:
    """CPU seconds spent on anything but idling, over all CPUs since boot, out of /proc/stat's text."""
    # user nice system idle iowait irq softirq steal; guest times are part of user and nice.
    times = [int(field) for field in stat.split("\n", 1)[0].split()[1:9]]
    return (sum(times) - times[3] - times[4]) / ticks_per_s


class Neighbours:
    """How many CPUs other programs keep busy from now on; None where the system does not tell."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._others = self._other_seconds()

    def cpus(self) -> float | None:
        """CPU seconds of other processes for each second since this object was made."""
        others, elapsed = self._other_seconds(), time.perf_counter() - self._started
        if others is None or self._others is None or elapsed <= 0:
            return None
        return max(0.0, (others - self._others) / elapsed)

    @staticmethod
    def _other_seconds() -> float | None:
        try:
            with open("/proc/stat", encoding="ascii") as file:
                busy = busy_seconds(file.read(), os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError, IndexError):
            return None
        own = os.times()
        return busy - own.user - own.system
