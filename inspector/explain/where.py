"""Where in the program a steady call's kernels are: the user's lines, and what became of their operators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from inspector.model.account import Account, Part
from inspector.model.explain import Evidence, Explanation, Finding, Place
from inspector.model.run import GRAPH_FILES
from inspector.model.source import SourceLocation, is_library, short_places
from inspector.model.two_sides import Block, ProgramCall
from inspector.text import file_name

from .block_words import call_label
from .case import Case, GraphCase, Launch

_NAMED = 3
"""Lines of a place that its name has."""
_PROGRAM = ".py"
_Launched = dict[tuple[str, int], tuple[GraphCase, Launch]]


def places(case: Case, account: Account) -> tuple[Place, ...]:
    """The blocks of a profile, else launches summed by the user's lines; those that take longest first."""
    launched = {(graph.name, launch.call.index): (graph, launch) for graph, launch in case.launches()}
    joined = case.sides.joined if case.sides is not None else None
    blocks = joined.blocks if joined is not None else ()
    device = joined is not None and joined.compiled is not None and joined.compiled.device
    made = [
        _of_block(part, blocks[part.block], launched, device)
        for part in account.parts
        if part.block is not None
    ]
    made += _of_lines([part for part in account.parts if part.block is None and part.launches], launched)
    return tuple(sorted(made, key=lambda place: -place.ms))


def _of_block(part: Part, block: Block, launched: _Launched, device: bool) -> Place:
    # Of a CPU a profile has operators, of which one launch runs several within another.
    kernels = 0.0 if part.launches and not device else sum(kernel.calls for kernel in block.compiled_kernels)
    first = next((launched[place] for place in part.launches if place in launched), None)
    return Place(
        part.name,
        part.ms,
        part.how,
        part.eager_ms,
        len(block.operators) * block.times,
        round(kernels) or len(part.launches),
        block.graph,
        _source(block.lines),
        first[1].call.span.first if first is not None else None,
    )


def _of_lines(parts: Sequence[Part], launched: _Launched) -> Iterator[Place]:
    by_lines: dict[tuple[str, ...], list[tuple[Part, GraphCase, Launch]]] = defaultdict(list)
    for part in parts:
        for place in part.launches:
            if place in launched:
                graph, launch = launched[place]
                # A launch of no known line is of the modules that it calls, else a place by its kernel.
                lines = tuple(sorted({str(source) for source in launch.sources}))
                called = call_label(_calls(graph, launch)) or part.name
                by_lines[lines or (graph.name, called)].append((part, graph, launch))
    for items in by_lines.values():
        part, graph, launch = max(items, key=lambda item: item[0].ms)
        sources = sorted(set(launch.sources), key=lambda source: (source.path, source.line))
        yield Place(
            _name(sources) or call_label(_calls(graph, launch)) or part.name,
            sum(part.ms for part, _, _ in items),
            part.how,
            None,
            _per_call({(graph.name, name): graph.runs for _, graph, launch in items for name in launch.fx}),
            _per_call({(graph.name, launch.call.index): graph.runs for _, graph, launch in items}),
            graph.name,
            _source(sources),
            launch.call.span.first,
        )


def _calls(graph: GraphCase, launch: Launch) -> tuple[ProgramCall, ...]:
    """The program's calls that a launch is of, each once."""
    return tuple(dict.fromkeys(call for name in launch.fx for call in graph.program.get(name, ())))


def _per_call(runs: Mapping[tuple[str, object], float]) -> int:
    """So many of them in one steady call, which runs each graph so often, or one of several."""
    return round(sum(runs.values())) or len(runs)


def _name(sources: Sequence[SourceLocation]) -> str:
    """`model.py:14, 16, 17 +2`"""
    names = short_places(sources)
    more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _source(sources: Sequence[SourceLocation]) -> Evidence | None:
    return Evidence(sources[0].path, sources[0].line, sources[0].code or "") if sources else None


def line_to_blame(explanation: Explanation, finding: Finding) -> Evidence | None:
    """The user's line that a finding is about, else the one whose kernels take longest in its graph, else
    where the program calls ``torch.compile``."""
    inside = [place.source for place in explanation.places if finding.graph in (None, place.graph)]
    items = (*finding.evidence, *inside, explanation.called)
    return next((item for item in items if item is not None and _users(item)), None)


def _users(item: Evidence) -> bool:
    """Whether a line of evidence is of the user's program: no library's, and of no file that torch wrote."""
    program = item.line is not None and item.path.endswith(_PROGRAM)
    return program and file_name(item.path) not in GRAPH_FILES and not is_library(item.path)


def compile_call(case: Case) -> Evidence | None:
    """Where the program calls ``torch.compile``, as the recorder saw it first."""
    items = (item.location for process in case.facts.calls for item in process.callables)
    place = next((place for place in items if place is not None and not is_library(place.path)), None)
    if place is None:
        return None
    lines = (program.line(place.line) for program in case.programs if program.path == place.path)
    return Evidence(place.path, place.line, next(lines, ""))
