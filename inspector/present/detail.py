"""What the panel below the table says of one row: what is missing and why, problems, a replay's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from inspector.analysis.nothing import nothing_compiled
from inspector.model.logs import GraphBreak
from inspector.model.problem import Problem
from inspector.model.replay import GraphReplay
from inspector.model.run import PROVENANCE_FILE, RunFacts
from inspector.present.about import DetailLine
from inspector.present.content import clean
from inspector.present.kernels import duration
from inspector.present.run import Event, check_text, plural, worst_text
from inspector.present.tables import Tone

_LIMIT = 50
"""Problems listed; a damaged log may have thousands, and the summary as JSON has all."""


def graph_detail(
    ident: str,
    kind: str,
    files: Sequence[str],
    missing: Sequence[str],
    problems: Iterable[Problem],
    replay: GraphReplay | None,
) -> list[DetailLine]:
    lines = [DetailLine(clean(ident), "accent")]
    if not files:
        lines.append(
            DetailLine("An empty folder: this graph had nothing to compute, so torch wrote no files for it.")
        )
        return lines
    lines.extend(_replay_lines(replay))
    for name in missing:
        lines.append(DetailLine(f"missing  {name}: {why_missing(name, files, kind)}", "warn"))
    lines.extend(_problem_lines(problems))
    if len(lines) == 1:
        lines.append(DetailLine(f"{plural(len(files), 'file')}, nothing missing, no problems.", "dim"))
    return lines


def why_missing(name: str, files: Sequence[str], kind: str) -> str:
    """The likely reason, and what to do or what it costs."""
    if kind == "trace":
        return "a TORCH_TRACE log does not hold it; a capture does (inspector capture -o RUN -- COMMAND)"
    if name == PROVENANCE_FILE:
        return "torch did not write it for this graph; links rest on comments, buffer names and order instead"
    if name == "output_code.py":
        return "compilation stopped before code was generated; the run's standard error should say why"
    if name.startswith("ir_") and "output_code.py" not in files:
        return "compilation stopped before the scheduler was done; the run's standard error should say why"
    return "not copied along, or cut off; copy the whole folder, or capture again"


def event_detail(event: Event) -> list[DetailLine]:
    place = str(event.location) if event.location else "unknown place"
    compile_id = f"  compile id {event.compile_id}" if event.compile_id else ""
    if event.rank is not None:
        compile_id += f"  rank {event.rank}"
    if isinstance(event, GraphBreak):
        lines = [DetailLine(clean(f"graph break at {place}{compile_id}"), "warn")]
        lines += [DetailLine(clean(line)) for line in event.reason.strip().split("\n")]
        lines += [
            DetailLine(clean(f"  {frame}  {frame.function or ''}  {frame.code or ''}".rstrip()), "dim")
            for frame in event.frames
        ]
        return lines
    lines = [DetailLine(clean(f"recompile of {event.function} at {place}{compile_id}"), "warn")]
    return lines + [DetailLine(clean(line)) for reason in event.reasons for line in reason.split("\n")]


def run_detail(facts: RunFacts | None) -> list[DetailLine]:
    """Problems of the run as a whole."""
    if facts is None:
        return [DetailLine("reading logs and traces…", "dim")]
    lines = list(_problem_lines(facts.problems))
    manifest = facts.manifest
    for text in manifest.problems if manifest is not None else ():
        lines.append(DetailLine(clean(f"problem  {text}"), "warn"))
    return lines


def why_empty(facts: RunFacts | None) -> str:
    """In place of the table, where a run has no compiled graph: the reason and the remedy, in sentences."""
    if facts is None:
        return "There is no compiled graph here. Looking for the reason in logs and traces…"
    reason = nothing_compiled(facts, 0) or "no compiled graph"
    sentences = [part.strip() for part in clean(reason).replace("; ", "\n").split("\n")]
    return "\n".join(sentence(part) for part in sentences)


def sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", ":")) else f"{text}."


def _replay_lines(replay: GraphReplay | None) -> Iterable[DetailLine]:
    if replay is None:
        return
    if replay.failure:
        yield DetailLine(clean(f"replay failed: {replay.failure}"), "bad")
    if replay.eager is not None and replay.compiled is not None:
        eager, compiled = replay.eager, replay.compiled
        yield DetailLine(
            clean(
                f"eager ({replay.eager_label}) {eager.median_ms:.4g} ms, iqr {eager.iqr_ms:.2g}; "
                f"compiled {compiled.median_ms:.4g} ms, iqr {compiled.iqr_ms:.2g}; {compiled.rounds} rounds"
            )
        )
    yield from _kernel_lines(replay)
    for check in replay.outputs:
        tone: Tone = (
            "bad" if check.verdict == "mismatch" else "warn" if check.verdict == "unverifiable" else ""
        )
        yield DetailLine(check_text(check), tone)
    for note in replay.notes:
        yield DetailLine(clean(f"note  {note}"), "dim")


def _kernel_lines(replay: GraphReplay) -> Iterable[DetailLine]:
    """Where the compiled call's time goes, and how the launches were verified."""
    if not replay.kernels:
        return
    counts = Counter(kernel.verdict for kernel in replay.kernels)
    said = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in counts.most_common())
    total, gap = replay.kernels_ms, replay.host_gap_ms
    times = f", {duration(total)} together" if total is not None else ""
    if gap is not None and gap > 0:
        times += f" + {duration(gap)} host gap"
    tone: Tone = "bad" if counts["mismatch"] else "warn" if counts["unverifiable"] else ""
    yield DetailLine(f"{plural(len(replay.kernels), 'launch')}: {said}{times}", tone)
    worst = worst_text(replay)
    if worst:
        yield DetailLine(clean(f"look first at {worst}{' the roofline' if worst.endswith('above') else ''}"))


def _problem_lines(problems: Iterable[Problem]) -> Iterable[DetailLine]:
    found = list(problems)
    for problem in found[:_LIMIT]:
        yield DetailLine(clean(f"problem  {problem}"), "warn")
    if len(found) > _LIMIT:
        yield DetailLine(f"and {len(found) - _LIMIT} more: inspector summary --json has all", "dim")
