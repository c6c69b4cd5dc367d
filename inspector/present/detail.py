"""What the panel below the table says of one row: what is missing and why, problems, a replay's results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from inspector.analysis.nothing import nothing_compiled
from inspector.model.logs import GraphBreak
from inspector.model.problem import Problem
from inspector.model.replay import GraphReplay
from inspector.model.run import PROVENANCE_FILE, RunFacts
from inspector.model.two_sides import GraphWork
from inspector.text import sentence
from inspector.units import plural

from .replay import graph_lines
from .run import Event, work_text
from .spans import Line, line, plain, toned

_LIMIT = 50
"""Problems listed; a damaged log may have thousands, and the summary as JSON has all."""


def graph_detail(
    ident: str,
    kind: str,
    files: Sequence[str],
    missing: Sequence[str],
    problems: Iterable[Problem],
    replay: GraphReplay | None,
    work: GraphWork | None = None,
) -> list[Line]:
    lines = [toned(ident, "accent")]
    if not files:
        return [
            *lines,
            line("An empty folder: this graph had nothing to compute, so torch wrote no files for it."),
        ]
    if work is not None:
        text = f"kernels and operators of one steady call, as profiled: {work_text(work)} compiled"
        lines.append(line(text))
    lines += graph_lines(replay) if replay is not None else ()
    lines += plain((f"missing  {name}: {why_missing(name, files, kind)}" for name in missing), "warn")
    lines += _problem_lines(problems)
    if len(lines) == 1:
        lines.append(toned(f"{plural(len(files), 'file')}, nothing missing, no problems.", "dim"))
    return lines


def why_missing(name: str, files: Sequence[str], kind: str) -> str:
    """The likely reason, and what to do or what it costs."""
    if kind == "trace":
        return "a TORCH_TRACE log does not hold it; a capture does (inspector capture -o RUN -- COMMAND)"
    if kind == "vLLM cache":
        return "vLLM keeps what became of the piece pickled, which is not loaded"
    if name == PROVENANCE_FILE:
        return "torch did not write it for this graph; links rest on comments, buffer names and order instead"
    if name == "output_code.py":
        return "compilation stopped before code was generated; the run's standard error should say why"
    if name.startswith("ir_") and "output_code.py" not in files:
        return "compilation stopped before the scheduler was done; the run's standard error should say why"
    return "not copied along, or cut off; copy the whole folder, or capture again"


def event_detail(event: Event) -> list[Line]:
    where = f"{event.location or 'unknown place'}"
    where += f"  compile id {event.compile_id}" if event.compile_id else ""
    where += f"  rank {event.rank}" if event.rank is not None else ""
    if isinstance(event, GraphBreak):
        frames = (f"  {frame}  {frame.function or ''}  {frame.code or ''}".rstrip() for frame in event.frames)
        return [
            toned(f"graph break at {where}", "warn"),
            *plain(event.reason.strip().split("\n")),
            *plain(frames, "dim"),
        ]
    reasons = (text for reason in event.reasons for text in reason.split("\n"))
    return [
        toned(f"recompile of {event.name} at {where}", "warn"),
        *plain(reasons),
    ]


def run_detail(facts: RunFacts | None) -> list[Line]:
    """Problems of the run as a whole."""
    if facts is None:
        return [toned("reading logs and traces…", "dim")]
    notes = facts.manifest.problems if facts.manifest is not None else ()
    return [*_problem_lines(facts.problems), *plain((f"problem  {text}" for text in notes), "warn")]


def why_empty(facts: RunFacts | None) -> str:
    """In place of the table, where a run has no compiled graph: the reason and the remedy, in sentences."""
    if facts is None:
        return "There is no compiled graph here. Looking for the reason in logs and traces…"
    reason = nothing_compiled(facts, 0) or "no compiled graph"
    return "\n".join(sentence(part.strip()) for part in reason.replace("; ", "\n").split("\n"))


def _problem_lines(problems: Iterable[Problem]) -> Iterator[Line]:
    listed = list(problems)
    yield from plain((f"problem  {problem}" for problem in listed[:_LIMIT]), "warn")
    if len(listed) > _LIMIT:
        yield toned(f"and {len(listed) - _LIMIT:,} more: inspector summary --json has all", "dim")
