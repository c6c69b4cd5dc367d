"""A profiler's timeline of a few calls: what the host did, what the device did, and what started what.

torch.profiler writes it through Kineto (libkineto/src/output_json.cpp). Times are microseconds from the
trace's first event on.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from inspector.frozen import dataclass

HostKind = Literal["operator", "annotation", "runtime", "python"]
"""`operator`: ``cpu_op``, an ATen operator, a generated kernel's launch or one of torch's own sections.
`annotation`: a ``record_function`` of torch or of the user. `runtime`: a call of CUDA's runtime or driver.
`python`: a function, in a profile taken with stacks."""

DeviceKind = Literal["kernel", "memcpy", "memset"]

STEP_MARK = "ProfilerStep#"
"""How ``torch.profiler.profile.step`` names a step."""


@dataclass(frozen=True, slots=True)
class HostEvent:
    """One timed section of a thread. `parent` is the position in `Profile.host` of the section around it,
    -1 for an outermost one.

    `external` is Kineto's ``External id``, by which a device event names the operator that launched it.
    `sequence` numbers the forward operators that autograd recorded; a backward operator has its forward's
    number, and `forward_thread` is not 0 then. `file` is a generated kernel's source (``kernel_file``).
    """

    kind: HostKind
    name: str
    thread: int
    start: float
    duration: float
    parent: int = -1
    external: int | None = None
    correlation: int | None = None
    sequence: int | None = None
    forward_thread: int = 0
    file: str | None = None

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(frozen=True, slots=True)
class DeviceEvent:
    """One kernel, copy or fill on a stream.

    `operator` and `launch` are positions in `Profile.host`: of the operator that `external` names, and of the
    runtime call with the same `correlation`; -1 where there is none. All kernels of a CUDA graph's replay
    share the correlation of their ``cudaGraphLaunch``.
    """

    kind: DeviceKind
    name: str
    device: int
    stream: int
    start: float
    duration: float
    operator: int = -1
    launch: int = -1
    external: int | None = None
    correlation: int | None = None
    programs: int | None = None
    """Blocks of the kernel's grid, which is programs of a Triton kernel."""

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(frozen=True)
class Profile:
    """`host` is in order of thread and start, so that a section's own precede what follows it; `device` in
    order of start. `devices` are the names of GPUs; `rank` is the distributed one, None outside."""

    path: str
    host: tuple[HostEvent, ...]
    device: tuple[DeviceEvent, ...]
    devices: tuple[str, ...] = ()
    rank: int | None = None
    multiprocessors: int | None = None
    """Of the first device."""

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """Position of a section -> those directly inside, in order; -1 -> the outermost."""
        inside: dict[int, list[int]] = {}
        for position, event in enumerate(self.host):
            inside.setdefault(event.parent, []).append(position)
        return {parent: tuple(positions) for parent, positions in inside.items()}

    @property
    def steps(self) -> tuple[HostEvent, ...]:
        """The marks of ``profile.step()``, in order; empty where the program made none."""
        marks = (e for e in self.host if e.kind == "annotation" and e.name.startswith(STEP_MARK))
        return tuple(sorted(marks, key=lambda event: event.start))

    def around(self, position: int) -> list[int]:
        """Positions of the sections around one, innermost first."""
        outer = []
        position = self.host[position].parent
        while position >= 0:
            outer.append(position)
            position = self.host[position].parent
        return outer
