"""What a process shared its machine with while its calls were timed."""

from __future__ import annotations

from inspector.frozen import dataclass


@dataclass(frozen=True, slots=True)
class LoadSample:
    """Counters of one moment, in seconds since some beginning; None where the system has none.

    `own` is the processor time of the process and of those below it, `busy` that of everybody on the `cores`
    it may use, `stolen` the hypervisor's part of that. `waited`: the main thread was ready and had no core.
    `limited`: a cgroup's quota held the process back. `hot` counts thermal throttlings; `mhz` is one core's
    clock, `mhz_most` its highest.
    """

    at: float
    own: float
    busy: float | None = None
    stolen: float | None = None
    cores: int | None = None
    waited: float | None = None
    limited: float | None = None
    hot: int | None = None
    mhz: float | None = None
    mhz_most: float | None = None


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """A GPU that a command used: the share of time for which others kept it at work before the command was
    on it, None where that could not be seen, and for which heat or power held its clock down after that."""

    before: float | None
    held_down: float
