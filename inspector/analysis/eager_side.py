"""Eager's operators put on the program's calls: names first, order for the rest, backward by autograd.

The outermost operators of the thread that runs the program come in the order of the calls that Dynamo traced
(`ProgramGraph`). Equal names are aligned; what lies between two aligned neighbours of one graph belongs to
the calls between them, or to the one before where there is none. What lies between two graphs, or before
and after them, is outside. A backward operator has the sequence number of its forward one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from itertools import pairwise, zip_longest

from inspector.frozen import dataclass
from inspector.model.profile import Profile
from inspector.model.two_sides import Phase, ProgramCall, ProgramGraph

from .profile_work import ENGINE, MARK, Interval, Work, hook_of, is_backward, outermost, section_of, step_of
from .program_calls import token
from .sequences import align

_AGAIN = "CheckpointFunction"
"""torch/utils/checkpoint.py: in its backward the forward runs again, and that one's own backward in it."""
_NONE = ""
"""The compile id of what the program runs between its graphs."""
_MOST_CANDIDATES = 6
"""Calls between two neighbours that one operator may stand for; among more, it is nobody's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator belongs. `graph` is a compile id on eager's side and a graph's ident on the compiled
    one, None outside. `parts` are numbers of calls in it: several where order leaves it open, none where
    nothing tells. `name` is the operator's, for what is outside. `compile_id` is, on the compiled side, of
    the region in which the graph ran: code from Inductor's cache runs in several."""

    graph: str | None
    parts: tuple[int, ...]
    phase: Phase
    name: str
    inside: bool = True
    compile_id: str = ""


@dataclass(frozen=True, slots=True)
class Placed:
    """Outermost operator -> its place; `calls` passes over the program, each a window of time."""

    places: dict[int, Place]
    calls: int
    windows: tuple[Interval, ...]


def marks(profile: Profile) -> tuple[Interval, ...]:
    """The calls that the recorder marked, all threads' work in them included."""
    return tuple((e.start, e.end) for e in profile.host if e.name.startswith(MARK))


def marked_calls(profile: Profile) -> int | None:
    """How many steady calls the recorder profiled: the profiler's steps, each begun with the callable that is
    called most. None for a profile that it did not make."""
    return len(profile.steps) or None if marks(profile) else None


def place_eager(
    profile: Profile,
    graphs: Sequence[ProgramGraph],
    calls_per_pass: float = 1.0,
    behind: Sequence[Sequence[str]] = (),
    known_calls: int | None = None,
) -> Placed:
    """`graphs` in the order in which one pass through the program runs them, each as often as it runs, and
    the operators that the program runs outside of them `behind` each. A pass is several steady calls where it
    calls its most called frame several times. `known_calls`: of the profile that the order is from."""
    outside = [ProgramGraph(_NONE, tuple(ProgramCall("", name, None) for name in names)) for names in behind]
    graphs = [part for both in zip_longest(graphs, outside) for part in both if part is not None]
    each = [
        (number, graph, part, name)
        for number, graph in enumerate(graphs)
        for part, call in enumerate(graph.calls)
        for name in (call.operator, *call.behind)
    ]
    once = [(graph, part) for _, graph, part, _ in each]
    wanted = [token(name) for *_, name in each]
    tops = _outermost_forward(profile, frozenset(wanted))
    marked = marks(profile)
    names = _in_marks(profile, tops, marked, frozenset(wanted))
    calls = marked_calls(profile)
    if calls is None:
        passes = passes_of(wanted, names)
        calls = max(round(passes * calls_per_pass), 1)
    else:
        # What was profiled may begin and end within a pass; the same calls did so on the other side.
        passes = math.ceil(calls / calls_per_pass) + (calls_per_pass != 1 and calls != known_calls)
    # Which graph in the pass each call is of, as one may run several times.
    runs = [number for number, *_ in each]
    ends = {place for place, run in enumerate(runs) if runs[place + 1 : place + 2] != [run]}
    pairs = _behind_composites(_align(wanted * passes, names), names, ends, max(len(once), 1))
    places: dict[int, Place] = {}
    windows: list[Interval] = []
    for (first, start), (second, stop) in pairwise(pairs):
        node = once[first % len(once)]
        places[tops[start]] = Place(node[0].compile_id, (node[1],), "forward", profile.host[tops[start]].name)
        between = range(start + 1, stop)
        same = (
            second // len(once) == first // len(once) and runs[second % len(once)] == runs[first % len(once)]
        )
        if not same or not between:
            continue
        free = [once[place % len(once)][1] for place in range(first + 1, second)]
        for number, position in enumerate(between):
            parts = _candidates(free, number, len(between), node[1])
            places[tops[position]] = Place(
                node[0].compile_id, parts, "forward", profile.host[tops[position]].name
            )
    for number in range(passes):
        own = [tops[j] for i, j in pairs if i // max(len(once), 1) == number]
        if own:
            windows.append((profile.host[own[0]].start, profile.host[own[-1]].end))
    if pairs:
        last_call, last = pairs[-1]
        graph, part = once[last_call % len(once)]
        places[tops[last]] = Place(graph.compile_id, (part,), "forward", profile.host[tops[last]].name)
    windows = list(marked) or windows
    places = {top: place for top, place in places.items() if place.graph != _NONE}
    for top in tops:
        if top not in places:
            event = profile.host[top]
            places[top] = Place(None, (), "forward", event.name, within(event.start, marked))
    _place_backward(profile, places, marked)
    return Placed(places, calls, tuple(windows))


def _in_marks(
    profile: Profile, tops: Sequence[int], marked: Sequence[Interval], wanted: Set[str]
) -> list[str]:
    """What operators are called; nothing for those outside of the calls that the recorder marked, as a loss
    and an optimizer, unless none of the program's calls is inside."""
    names = [token(profile.host[top].name) for top in tops]
    inside = [within(profile.host[top].start, marked) for top in tops]
    if not any(own and name in wanted for own, name in zip(inside, names, strict=True)):
        return names
    return [name if own else "" for own, name in zip(inside, names, strict=True)]


def _align(wanted: Sequence[str], names: Sequence[str]) -> list[tuple[int, int]]:
    """As `align`, which gives up beyond so many differences, without the names of one side alone: they are
    differences wherever they stand."""
    common = set(wanted) & set(names)
    first, second = ([at for at, name in enumerate(side) if name in common] for side in (wanted, names))
    pairs = align([wanted[at] for at in first], [names[at] for at in second])
    return [(first[i], second[j]) for i, j in pairs]


def _behind_composites(
    pairs: Sequence[tuple[int, int]], names: Sequence[str], ends: Set[int], once: int
) -> list[tuple[int, int]]:
    """Of equal names up to the next aligned neighbour the last, where the calls before have no operator of
    their own name: those that a composite runs, as attention its transposes, come before the one behind it.
    `ends` are the last calls of graphs, in a pass of `once` calls."""
    moved, before = [], -1
    for place, (call, top) in enumerate(pairs):
        behind = pairs[place + 1] if place + 1 < len(pairs) else None
        if behind is not None and behind[0] == call + 1 > before + 2 and call % once not in ends:
            top = max(number for number in range(top, behind[1]) if names[number] == names[top])
        moved.append((call, top))
        before = call
    return moved


def places_of(profile: Profile, work: Iterable[Work], placed: Placed) -> tuple[Place, ...]:
    """The place of each piece of work, by the outermost operator around it."""
    marked = marks(profile)
    return tuple(_place_of(profile, piece, placed, marked) for piece in work)


def _place_of(profile: Profile, piece: Work, placed: Placed, marked: Sequence[Interval]) -> Place:
    place = placed.places.get(outermost(profile, piece.host)) if piece.host >= 0 else None
    if place is None:
        return Place(None, (), "forward", piece.name, False)
    # What a hook does is its own, whatever operator of the program it waits for.
    hook = hook_of(profile, piece.host)
    if hook is None and place.graph is None:
        hook = step_of(profile, piece.host)
    if hook is None:
        return place
    inside = within(profile.host[piece.host].start, marked) if marked else place.inside
    return Place(None, (), place.phase, hook, inside)


def passes_of(wanted: Sequence[str], names: Sequence[str]) -> int:
    """How often the wanted sequence is run through: what most of its names say by their counts."""
    once, all_ = Counter(name for name in wanted if name), Counter(names)
    votes: Counter[int] = Counter()
    for name, count in once.items():
        votes[round(all_[name] / count)] += count
    votes.pop(0, None)
    return votes.most_common(1)[0][0] if votes else 1


def _outermost_forward(profile: Profile, wanted: Set[str]) -> list[int]:
    """Of the thread that runs the program, which is the one with most of the `wanted`; in order of time.
    Hooks in autograd's threads, as those of DistributedDataParallel, may run more than the forward pass."""
    by_thread: dict[int, list[int]] = {}
    for position, event in enumerate(profile.host):
        own = event.kind == "operator" and section_of(event) is None and not is_backward(profile, position)
        if own and outermost(profile, position) == position:
            by_thread.setdefault(event.thread, []).append(position)

    def likeness(tops: Sequence[int]) -> tuple[int, int]:
        return sum(token(profile.host[top].name) in wanted for top in tops), len(tops)

    return max(by_thread.values(), key=likeness, default=[])


def _candidates(free: list[int], number: int, count: int, before: int) -> tuple[int, ...]:
    """Which calls the operator `number` of `count` between two aligned neighbours belongs to."""
    if not free:
        return (before,)
    if len(free) == count:
        return (free[number],)
    return tuple(free) if len(free) <= _MOST_CANDIDATES else ()


def _place_backward(profile: Profile, places: dict[int, Place], marked: Sequence[Interval]) -> None:
    """Each of the engine's operators at the forward one that autograd recorded it for. What the engine itself
    ran then, as for the backward of a backward, is nobody's, but for a checkpoint's forward once more."""
    # Each thread numbers its operators by itself (torch/csrc/autograd: sequence_number), the engine's too.
    forward: dict[int, dict[int, int]] = {}
    backward: dict[int, list[int]] = {}
    for position, event in enumerate(profile.host):
        if event.kind != "operator":
            continue
        if is_backward(profile, position):
            if outermost(profile, position) == position:
                backward.setdefault(event.forward_thread, []).append(position)
        elif event.sequence is not None:
            # Of several with one number the last begun made the node: the others only read the counter.
            forward.setdefault(event.thread, {})[event.sequence] = position
    taken: list[int] = []
    for own in sorted(backward.values(), key=len, reverse=True):
        numbers = {profile.host[position].sequence for position in own}
        # The thread that has the most of its numbers, rather one that is nobody's yet.
        likeness = {at: (len(numbers & made.keys()), at not in taken) for at, made in forward.items()}
        thread = max(likeness, key=likeness.__getitem__, default=-1)
        taken.append(thread)
        made = forward.get(thread, {})
        later = _a_pass_later(profile, own, made)
        for position in own:
            event = profile.host[position]
            source = made.get(later.get(position, event.sequence)) if event.sequence is not None else None
            outer = outermost(profile, source) if source is not None else -1
            place = places.get(outer)
            if place is not None and place.phase == "backward" and _AGAIN not in profile.host[outer].name:
                place = None
            name = event.name.removeprefix(ENGINE)
            if place is not None and place.graph is not None:
                places[position] = Place(place.graph, place.parts, "backward", name)
            else:
                inside = within(event.start, marked) if marked else True
                places[position] = Place(None, (), "backward", name, inside)


def _a_pass_later(profile: Profile, backward: Iterable[int], forward: Collection[int]) -> dict[int, int]:
    """Backward operators whose forward ones ran before the profile began, as it may within a pass, with
    the sequence numbers of the next pass: as far on as makes most of their names come again."""
    first = min(forward, default=0)
    numbered = [(profile.host[at].sequence, profile.host[at].name, at) for at in backward]
    early = [(number, name, at) for number, name, at in numbered if number is not None and number < first]
    seen: dict[str, list[int]] = {}
    for number, name, _ in numbered:
        if number is not None and number >= first:
            seen.setdefault(name, []).append(number)
    votes = Counter(other - number for number, name, _ in early for other in seen.get(name, ()))
    ((further, agreeing),) = votes.most_common(1) or [(0, 0)]
    if agreeing * 2 <= len(early):
        return {}
    return {at: number + further for number, name, at in early if number + further in seen.get(name, ())}


def within(start: float, marked: Sequence[Interval]) -> bool:
    """Whether a moment lies in one of the marked calls."""
    return any(begin <= start < end for begin, end in marked)
