"""Costs planted into what was measured of real programs: what findings claim of them, and where.

    python benchmarks/planted_claims.py RUN...

Each RUN is a capture with profiles of both sides that fit into its calls, on a machine that was not busy. A
third of a call's time, beyond what the thing wins over eager, is added to one thing at a time and to the
call's wall: `algorithm` to a library's kernel under another name, `copy` to a launch that only moves data,
`scalar` to a C++ kernel without vectors, `host` to the wrapper's work, and two that no rule knows:
`generated` to a kernel of generated code, and `asleep` to the gaps in which torch does nothing. A block is
one of which nothing is claimed as it is. What a rule that knows the cost claims of the part should be what
was planted and what it lost before; of the others it should be unexplained, on that block or in the ledger.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from inspector.analysis.side_totals import GAPS, WRAPPER
from inspector.analysis.two_sides import same_operator_other_kernel, two_sided_ledger
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.rules import RULES
from inspector.model.account import HOST
from inspector.model.explain import Explanation
from inspector.model.two_sides import Block, KernelTime, SideTotals
from inspector.readers.run import Run

OF_CALL = 1 / 3
WITHIN = 0.25
PLACES = {rule.name for rule in RULES if rule.place_only} - {"host_bound"}


@dataclass(frozen=True)
class Plant:
    """`rules` are those that know it, none where nobody does; `fits` tells whether it can be in a block."""

    name: str
    rules: frozenset[str]
    fits: Callable[[Case, Block], bool] | None


def _launches(case: Case, block: Block) -> list[Launch]:
    return [launch for graph, launch in case.launches() if (graph.name, launch.call.index) in block.launches]


def _library(case: Case, block: Block) -> bool:
    # Under another name it is another kernel, whatever it is now.
    renamed = replace(block, compiled_kernels=_under_another_name(block.compiled_kernels))
    return bool(block.eager_ms and block.compiled_kernels) and same_operator_other_kernel(renamed)


def _copy(case: Case, block: Block) -> bool:
    roles = {launch.role for launch in _launches(case, block)}
    return roles == {"copy"}


def _scalar(case: Case, block: Block) -> bool:
    launches = _launches(case, block)
    return bool(launches) and all(
        launch.call.kind == "cpp" and "for(" in launch.source and "at::vec" not in launch.source
        for launch in launches
    )


def _generated(case: Case, block: Block) -> bool:
    kernels = block.compiled_kernels
    return bool(block.eager_ms and kernels) and all(k.generated for k in kernels) and not _copy(case, block)


PLANTS = (
    Plant("algorithm", frozenset({"library_kernel_differs"}), _library),
    Plant("copy", frozenset({"layout_copies", "functionalized_copies"}), _copy),
    Plant("scalar", frozenset({"cpu_not_vectorized"}), _scalar),
    Plant("host", frozenset({"host_bound", "graph_breaks"}), None),
    Plant("generated", frozenset(), _generated),
    Plant("asleep", frozenset(), None),
)


def _under_another_name(kernels: tuple[KernelTime, ...]) -> tuple[KernelTime, ...]:
    return tuple(k if k.generated else replace(k, name=f"planted::{k.name}") for k in kernels)


def planted(case: Case, plant: Plant, number: int | None, ms: float) -> Case:
    """The case with `ms` more a call, of the block `number` where the plant is one of a block."""
    sides, times = case.sides, case.times
    assert sides is not None and sides.joined.compiled is not None
    joined, compiled = sides.joined, sides.joined.compiled
    graphs = case.graphs
    if number is not None:
        block = joined.blocks[number]
        kernels = block.compiled_kernels
        if plant.name == "algorithm":
            kernels = _under_another_name(kernels)
        first = replace(kernels[0], ms=kernels[0].ms + ms, part_ms=kernels[0].taken_ms + ms)
        slower = replace(
            block, compiled_ms=(block.compiled_ms or 0.0) + ms, compiled_kernels=(first, *kernels[1:])
        )
        blocks = tuple(slower if place == number else item for place, item in enumerate(joined.blocks))
        joined = replace(joined, blocks=tuple(blocks))
        compiled = _more(compiled, ms, work=True)
        graph, call = block.launches[0] if block.launches else ("", -1)
        graphs = tuple(_longer(item, call, ms) if item.name == graph else item for item in graphs)
    else:
        host, thing = dict(compiled.host), WRAPPER if plant.name == "host" else GAPS
        host[thing] = host.get(thing, 0.0) + ms
        compiled = replace(_more(compiled, ms, work=False), host=tuple(host.items()))
    wall = (times.compiled_ms or 0.0) + ms
    joined = replace(joined, compiled=compiled)
    slow = times.eager_ms is not None and wall > times.eager_ms * 1.05
    times = replace(times, compiled_ms=wall, outcome="slower" if slow else times.outcome)
    return replace(
        case,
        times=times,
        graphs=graphs,
        sides=replace(sides, joined=joined, ledger=two_sided_ledger(joined, times.eager_ms, wall)),
    )


def _longer(graph: GraphCase, call: int, ms: float) -> GraphCase:
    each = ms / graph.runs if graph.runs else 0.0
    return replace(
        graph,
        launches=tuple(
            replace(launch, ms=launch.ms + each) if launch.call.index == call else launch
            for launch in graph.launches
        ),
    )


def _more(side: SideTotals, ms: float, *, work: bool) -> SideTotals:
    more = ms if work else 0.0
    return replace(
        side,
        wall_ms=side.wall_ms + ms,
        work_ms=side.work_ms + more,
        attributed_ms=side.attributed_ms + more,
    )


def claimed(said: Explanation, plant: Plant, number: int | None) -> tuple[float, float]:
    """What rules that know the plant claim of its part, from the least to the most."""
    low = high = 0.0
    for finding in said.findings:
        for claim in finding.claims if finding.rule in plant.rules else ():
            if number is None and claim.over == "least":
                continue
            if claim.block == number if number is not None else claim.part == HOST:
                low, high = low + claim.ms[0], high + claim.ms[1]
    return low, high


def shown(said: Explanation, number: int | None) -> float:
    """What the part shows as nobody's: claimed by what only says where, or by no finding at all."""
    account = said.account
    assert account is not None
    if number is None:
        return said.ledger.unexplained_ms or 0.0
    (part,) = (part for part in account.parts if part.block == number)
    places = [
        claim.ms[1]
        for finding in said.findings
        if finding.rule in PLACES
        for claim in finding.claims
        if claim.block == number
    ]
    return sum(places) + max(part.ms - part.claimed_ms[1], 0.0)


def tried(name: str, case: Case) -> Iterator[tuple[str, bool, str]]:
    """(plant, whether it came out, a line) for each plant that the run has a place for."""
    # Profiles of slower calls are no breakdown of these, with a plant or without.
    if case.walls is None or case.times.compiled_ms is None or case.busy or case.profile_busy:
        return
    before = explain_case(case)
    assert before.account is not None
    parts = {part.block if part.launches else part.name: part for part in before.account.parts}
    for plant in PLANTS:
        number = None
        if plant.fits is not None:
            number = _place(case, before, plant)
            if number is None:
                continue
        # What the part won over eager is no loss.
        part = parts.get(HOST if number is None else number)
        lost = part.over_eager_ms if part is not None and plant.name != "asleep" else 0.0
        ms = case.times.compiled_ms * OF_CALL + max(-lost, 0.0)
        after = explain_case(planted(case, plant, number, ms))
        if plant.rules:
            low, high = claimed(after, plant, number)
            most = ms + (
                lost if plant.name in ("algorithm", "host") else part.ms if part is not None else 0.0
            )
            least = min(most, ms)
            good = low <= most * (1 + WITHIN) and high >= least * (1 - WITHIN)
            text = f"{least:.3f}..{most:.3f} in all, claimed {low:.3f}..{high:.3f}"
        else:
            more = shown(after, number) - shown(before, number)
            good = abs(more - ms) <= WITHIN * ms
            text = f"unexplained {more:.3f}"
        first = after.findings[0].rule
        line = (
            f"{'ok ' if good else 'OFF'} {name:32} {plant.name:9} planted {ms:.3f} ms, {text}; first {first}"
        )
        yield plant.name, good, line


def _place(case: Case, before: Explanation, plant: Plant) -> int | None:
    """The largest block that has a place for the plant, and of which nothing is claimed."""
    assert case.sides is not None and plant.fits is not None
    claims = {claim.block for finding in before.findings for claim in finding.claims}
    places = [
        (block.compiled_ms, number)
        for number, block in enumerate(case.sides.joined.blocks)
        if block.place == "graph"
        and block.inside
        and block.compiled_ms
        and number not in claims
        and plant.fits(case, block)
    ]
    return max(places)[1] if places else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    counted: dict[str, list[bool]] = {}
    for path in parser.parse_args().runs:
        try:
            results = list(tried(path.name, gather(Run.open(path))))
        except Exception as error:
            print(f"{path.name}: {type(error).__name__}: {error}")
            continue
        for plant, good, line in results:
            counted.setdefault(plant, []).append(good)
            print(line, flush=True)
    for plant, items in counted.items():
        print(f"{plant}: {sum(items)} of {len(items)}")


if __name__ == "__main__":
    main()
