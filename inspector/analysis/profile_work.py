"""What a profiled side did: pieces of work with the operator that each belongs to, and torch's own sections.

On a GPU work is what ran on the device; on a CPU it is each operator's own time, without those inside it.
"""

from __future__ import annotations

import re
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from inspector.frozen import dataclass
from inspector.model.profile import HostEvent, Profile

REGION = "Torch-Compiled Region: "
"""With the compile id, around a frame's compiled bytecode (torch/_dynamo/eval_frame.py, 2.6 and later)."""
LOOKUP = "TorchDynamo Cache Lookup"
MARK = "inspector: "
"""What the recorder puts around the calls that it profiles."""
HOOK = "FSDP::"
"""What FSDP2 puts around its hooks, before the hook's name."""
STEP = "Optimizer.step#"
"""What an optimizer puts around its step, before its class (torch/optim/optimizer.py: profile_hook_step)."""
ENGINE = "autograd::engine::evaluate_function: "
# ## Call CompiledFxGraph f4o3yq... ##
_GRAPH = re.compile(r"^## Call CompiledFxGraph (\w+) ##$")
# graph_0_cpp_fused_gelu_0
_CPP = re.compile(r"^graph_\w*?_?(?=cpp_)")
_GENERATED = ("triton_", "cpp_fused", "cpp_")
_ACROSS = ("HtoD", "DtoH")
COMMUNICATING = "nccl"
_FEWEST_CALLS = 3
"""Of which a median leaves one out."""
_INTERRUPTED = 2.0
"""Nine in ten operators of more than 20 us take 0.82 to 1.41 times their median from call to call (12,110
in 24 profiles on two cores)."""

Section = Literal["guards", "dispatch", "wrapper", "autograd", "mark"]


@dataclass(frozen=True, slots=True)
class Work:
    """`host` is the operator's position in `Profile.host`, -1 for a kernel that none launched; milliseconds
    and a start in the profile's microseconds. `launch` is the runtime call's position. `taken_ms` is its part
    of the device's time: all of `ms` unless other work ran at once. `waited_ms`, an interruption, is no part
    of `ms`."""

    host: int
    name: str
    ms: float
    taken_ms: float
    start: float
    end: float
    generated: bool = False
    transfer: bool = False
    launch: int = -1
    programs: int | None = None
    waited_ms: float = 0.0


def graph_key(name: str) -> str | None:
    """The cache key in the name of the annotation around one run of a compiled graph."""
    match = _GRAPH.match(name)
    return match[1] if match else None


def region_of(event: HostEvent) -> str | None:
    """The compile id of a compiled region; torch adds to it what it knows of a backward."""
    if not event.name.startswith(REGION):
        return None
    return event.name.removeprefix(REGION).split(" ")[0]


def section_of(event: HostEvent) -> Section | None:
    """Which of torch's own sections an event is; None for an operator and what the user marked."""
    name = event.name
    if name == LOOKUP:
        return "guards"
    if name.startswith((REGION, "Pregraph bytecode", "AOTDispatcher ", "CompiledFunction")):
        return "dispatch"
    if name.startswith("## Call CompiledFxGraph "):
        return "wrapper"
    if name.startswith(ENGINE):
        return "autograd"
    return "mark" if event.kind == "annotation" else None


def is_backward(profile: Profile, position: int) -> bool:
    """Whether autograd's engine runs the operator."""
    event = profile.host[position]
    return event.name.startswith(ENGINE) or event.forward_thread != 0


def outermost(profile: Profile, position: int) -> int:
    """The outermost operator around one, itself where there is none; marks and Python don't count."""
    best = position
    for outer in profile.around(position):
        event = profile.host[outer]
        if event.kind == "operator" and graph_key(event.name) is None:
            best = outer
    return best


def hook_of(profile: Profile, position: int) -> str | None:
    """FSDP2's hook around what the host does, ``FSDP::all_gather``, without the module's name
    (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py)."""
    name = _around(profile, position, HOOK)
    return name.partition(" ")[0] if name is not None else None


def step_of(profile: Profile, position: int) -> str | None:
    """The optimizer in whose step the host is, as ``AdamW.step``."""
    name = _around(profile, position, STEP)
    return name.removeprefix(STEP) if name is not None else None


def _around(profile: Profile, position: int, beginning: str) -> str | None:
    """The name of the innermost event around one that begins so."""
    names = (profile.host[outer].name for outer in profile.around(position))
    return next((name for name in names if name.startswith(beginning)), None)


def kernel_name(name: str) -> str:
    """A generated C++ kernel without the ``graph_0_`` that ``enable_kernel_profile`` adds."""
    return _CPP.sub("", name)


def is_generated(name: str) -> bool:
    return kernel_name(name).startswith(_GENERATED)


def work_of(profile: Profile) -> tuple[tuple[Work, ...], bool]:
    """All work in order of start, and whether a device did it."""
    if profile.device:
        behind = [event.kind != "kernel" or COMMUNICATING in event.name for event in profile.device]
        taken = shared_ms([(event.start, event.end) for event in profile.device], behind)
        return tuple(
            Work(
                event.operator,
                event.name if event.kind == "kernel" else f"{event.kind}: {event.name}",
                event.duration / 1e3,
                taken[number],
                event.start,
                event.end,
                is_generated(event.name),
                event.kind == "memcpy" and any(way in event.name for way in _ACROSS),
                event.launch,
                event.programs,
            )
            for number, event in enumerate(profile.device)
        ), True
    inside = inner_ms(profile)
    work = [
        Work(position, kernel_name(event.name), own, own, event.start, event.end, is_generated(event.name))
        for position, event in enumerate(profile.host)
        if event.kind == "operator" and section_of(event) is None
        for own in (max(event.duration / 1e3 - inside.get(position, 0.0), 0.0),)
    ]
    return _uninterrupted(work, [step.start for step in profile.steps]), False


def _uninterrupted(work: Sequence[Work], steps: Sequence[float]) -> tuple[Work, ...]:
    """Pieces that took more than `_INTERRUPTED` times the median of the same one in all calls, which begin at
    `steps`, with that median, where each call has as many of its name: a core may be taken away in the middle
    of an operator, and of five calls one that waited would make it several times slower than eager's."""
    if len(steps) < _FEWEST_CALLS:
        return tuple(work)
    alike: dict[str, list[list[int]]] = {}
    for number, piece in enumerate(work):
        call = bisect_right(steps, piece.start) - 1
        if call >= 0:
            alike.setdefault(piece.name, [[] for _ in steps])[call].append(number)
    usual = list(work)
    for calls in alike.values():
        if len({len(numbers) for numbers in calls}) > 1:
            continue
        for same in zip(*calls, strict=True):
            ms = statistics.median(work[number].ms for number in same)
            for number in same:
                if work[number].ms > _INTERRUPTED * ms:
                    usual[number] = replace(work[number], ms=ms, taken_ms=ms, waited_ms=work[number].ms - ms)
    return tuple(usual)


def shared_ms(intervals: Sequence[Interval], behind: Sequence[bool]) -> list[float]:
    """The device's time shared out, in milliseconds: equally among what runs at once, and to what stands
    `behind` (copies, communication) only while nothing else runs. The sum is the time with any work."""
    taken = [0.0] * len(intervals)
    turns = sorted(
        (time, begins, number)
        for number, interval in enumerate(intervals)
        for begins, time in enumerate(reversed(interval))
    )
    running: tuple[set[int], set[int]] = (set(), set())
    last = 0.0
    for time, begins, number in turns:
        active = running[False] or running[True]
        for other in active:
            taken[other] += (time - last) / len(active) / 1e3
        last = time
        if begins:
            running[behind[number]].add(number)
        else:
            running[behind[number]].discard(number)
    return taken


def inner_ms(profile: Profile) -> dict[int, float]:
    """Position -> milliseconds of the operators and sections directly inside; Python frames and runtime
    calls stand aside, so what is in them counts to what is around them."""
    total: dict[int, float] = {}
    for position, event in enumerate(profile.host):
        if event.kind in ("operator", "annotation"):
            outer = next(
                (o for o in profile.around(position) if profile.host[o].kind in ("operator", "annotation")),
                -1,
            )
            if outer >= 0:
                total[outer] = total.get(outer, 0.0) + event.duration / 1e3
    return total


Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Overlapping intervals made one, in order."""
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        elif end > start:
            joined.append((start, end))
    return joined


def without(intervals: Iterable[Interval], taken: Iterable[Interval]) -> list[Interval]:
    """What of the first no interval of the second covers; both are made unions."""
    left: list[Interval] = []
    cuts = union(taken)
    place = 0
    for start, end in union(intervals):
        while place < len(cuts) and cuts[place][1] <= start:
            place += 1
        at, ahead = start, place
        while ahead < len(cuts) and cuts[ahead][0] < end:
            if cuts[ahead][0] > at:
                left.append((at, cuts[ahead][0]))
            at = max(at, cuts[ahead][1])
            ahead += 1
        if at < end:
            left.append((at, end))
    return left


def within(intervals: Iterable[Interval], windows: Iterable[Interval]) -> list[Interval]:
    """What of the first lies in the second."""
    joined = union(intervals)
    return without(joined, without(joined, windows))


def length_ms(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in union(intervals)) / 1e3
