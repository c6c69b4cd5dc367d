"""What a profile tells by itself, without the run that its compiled graphs are from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from inspector.frozen import dataclass
from inspector.model.profile import Profile
from inspector.model.two_sides import KernelTime, SideTotals

from .compiled_side import calls_of, graph_runs
from .eager_side import Place
from .profile_work import Work, region_of, section_of, work_of
from .side_totals import totals


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """All per steady call, largest first. `kernels` are what ran on the device, on a CPU the operators' own
    times; `operators` the outermost operators with the work below them. `graphs` pairs keys of Inductor's
    cache with their runs in one call, `regions` the compile ids of compiled frames.
    """

    path: str
    devices: tuple[str, ...]
    whole: SideTotals
    kernels: tuple[KernelTime, ...]
    operators: tuple[KernelTime, ...]
    graphs: tuple[tuple[str, float], ...]
    regions: tuple[tuple[str, float], ...]


def summarise_profile(profile: Profile) -> ProfileSummary:
    """A call is one pass over the compiled frames, else a step that the program marked, else everything."""
    work, device = work_of(profile)
    calls, windows, _ = calls_of(profile)
    if not windows:
        calls = max(calls, len(profile.steps), 1)
    tops = [_top(profile, piece.host) for piece in work]
    names = [
        profile.host[top].name if top >= 0 else piece.name for top, piece in zip(tops, work, strict=True)
    ]
    places = [Place(None, (), "forward", name) for name in names]
    return ProfileSummary(
        path=profile.path,
        devices=profile.devices,
        whole=totals(profile, work, places, calls, windows, device, ()),
        kernels=_summed(((piece.name, n, piece) for n, piece in enumerate(work)), calls),
        operators=_summed(zip(names, tops, work, strict=True), calls),
        graphs=_counted(graph_runs(profile).values(), calls),
        regions=_counted(filter(None, (region_of(event) for event in profile.host)), calls),
    )


def _top(profile: Profile, position: int) -> int:
    """The outermost operator that is none of torch's own sections; -1 for a kernel that none launched."""
    top = position
    for outer in profile.around(position) if position >= 0 else ():
        event = profile.host[outer]
        if event.kind == "operator" and section_of(event) is None:
            top = outer
    return top


def _summed(pieces: Iterable[tuple[str, int, Work]], calls: int) -> tuple[KernelTime, ...]:
    """By name; pieces with the same number are of one call."""
    counted: dict[str, set[int]] = {}
    spent: dict[str, float] = {}
    generated: set[str] = set()
    for name, number, piece in pieces:
        counted.setdefault(name, set()).add(number)
        spent[name] = spent.get(name, 0.0) + piece.ms
        if piece.generated:
            generated.add(name)
    kernels = (
        KernelTime(name, len(counted[name]) / calls, ms / calls, name in generated)
        for name, ms in spent.items()
    )
    return tuple(sorted(kernels, key=lambda kernel: -kernel.ms))


def _counted(names: Iterable[str], calls: int) -> tuple[tuple[str, float], ...]:
    return tuple((name, count / calls) for name, count in Counter(names).most_common())
