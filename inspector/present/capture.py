"""A capture on screen: what it can be asked for, how it goes while it runs, and how it ended."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from inspector.capture.environment import MODES, CaptureOptions
from inspector.capture.history import PastCommand
from inspector.capture.launch import CaptureOutcome
from inspector.frozen import dataclass
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.problem import InspectorError
from inspector.model.run import RunFacts
from inspector.units import parse_size, plural

from .identity import event_counts
from .rows import PastRow
from .run import Counts, GraphEntry, events_of, run_table
from .spans import Span, Tone
from .tables import Column, Row, Table, message_table

Kind = Literal["text", "path", "pairs", "choice", "flag", "size"]


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the form. `name` is the field of CaptureOptions; `hint` stands where nothing is typed yet,
    or behind a choice. The first of `choices` means the default of CaptureOptions; a flag has one more.
    `start` is the one that the form begins with."""

    name: str
    label: str
    kind: Kind
    hint: str
    choices: tuple[str, ...] = ()
    start: int = 0


RUNS = "the command is run five times in all"
"""What a baseline costs."""

FIELDS: tuple[Field, ...] = (
    Field("mode", "Mode", "choice", "for torch.compile calls that name none", ("as written", *MODES)),
    Field("out", "Run folder", "path", "new or empty; if left out: inspector_runs/NAME-TIME"),
    Field("config", "Config", "pairs", "torch._inductor.config: KEY=VALUE ...; of Dynamo: dynamo.KEY=VALUE"),
    Field("env", "Variables", "pairs", "set for the command: NAME=VALUE ..."),
    Field("logs", "Logs", "text", "more TORCH_LOGS artifacts, separated by commas"),
    Field("fresh", "Caches", "flag", "your own: cached graphs leave no files", ("empty ones", "your own")),
    Field("record", "Recorder", "flag", "watches the compiler for fusion decisions", ("on", "off")),
    Field("baseline", "Baseline", "flag", f"against eager: {RUNS}", ("no", "yes"), start=1),
    Field("save_inputs", "Inputs", "size", "each graph's own, for replay", ("not kept", "64M", "256M", "1G")),
)
"""Everything beside the command. One more option of a capture is one more line here."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})

Value = str | int
"""What a line of the form holds: a text, or which of its choices."""


# -- before it runs


def capture_options(command: str, values: Mapping[str, Value]) -> CaptureOptions:
    """The options for a command line and the form's values by name; InspectorError says what is wrong.

    Leading NAME=VALUE words set variables, as in a shell.
    """
    words = _words(command, "the command")
    if words[:2] == ["inspector", "capture"]:
        raise InspectorError("only the program's own command goes here, without inspector capture")
    leading: list[tuple[str, str]] = []
    while words and _ASSIGNMENT.match(words[0]):
        leading.append(pair(words.pop(0), "the command"))
    if not words:
        raise InspectorError("no command to capture: type one, for example: python train.py")
    shell = next((word for word in words if word in _SHELL_WORDS), None)
    if shell is not None:
        raise InspectorError(f"{shell} means something to a shell only; for one, type: bash -c '...'")
    options: dict[str, Any] = {}
    for field in FIELDS:
        options[field.name] = _value(field, values.get(field.name, 0 if field.choices else ""))
    options["env"] = (*leading, *options["env"])
    return CaptureOptions(command=tuple(words), **options)


def _value(field: Field, value: Value) -> object:
    default = CaptureOptions.__dataclass_fields__[field.name].default
    if field.choices and not value:
        return default
    if field.kind == "flag":
        return not default
    if field.kind in ("choice", "size"):
        choice = field.choices[int(value)]
        return choice if field.kind == "choice" else parse_size(choice)
    text = str(value).strip()
    if field.kind == "pairs":
        return tuple(pair(word, field.label) for word in _words(text, field.label))
    if field.kind == "path":
        return Path(text) if text else None
    return text or None


def _words(text: str, what: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InspectorError(f"{what}: {str(error).lower()}: close every quote") from None


def pair(word: str, label: str) -> tuple[str, str]:
    """`NAME=VALUE` as name and value; InspectorError, which begins with `label`, for what is none."""
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise InspectorError(f"{label}: {word}: needs the form NAME=VALUE")
    return name, value


def history_table(commands: Sequence[PastCommand], folder: str) -> Table:
    """The commands captured before, those of this folder first, others with theirs."""
    if not commands:
        message = "nothing yet: what is captured from here is kept for next time"
        return message_table("Captured before", message)
    rows = []
    for number, past in enumerate(commands):
        where = "" if past.folder == folder else past.folder
        rows.append(Row(PastRow(number), (Span(past.command, "accent"), Span(where, "dim"))))
    columns = (Column("command", shrinks=True, least=40), Column("in folder", rank=1, optional=True))
    return Table(f"Captured before · {len(rows)}", columns, tuple(rows))


# -- while it runs


def live_facts(breaks: Sequence[GraphBreak], recompiles: Sequence[Recompile]) -> RunFacts:
    """What is known of a run that is being captured."""
    return RunFacts("", "capture", graph_breaks=tuple(breaks), recompiles=tuple(recompiles))


def live_table(entries: Sequence[GraphEntry], counts: Mapping[str, Counts], facts: RunFacts) -> Table:
    """The table of the run screen, as far as it is known."""
    if not entries and not events_of(facts):
        return message_table("Compiled graphs", "nothing is compiled yet")
    return run_table(entries, counts, {}, facts)


def live_headline(entries: Sequence[GraphEntry], counts: Mapping[str, Counts], facts: RunFacts) -> str:
    """`3 graphs · 41 FX nodes · 7 kernels · 1 graph break`"""
    parts = [plural(len(entries), "graph")]
    known = list(counts.values())
    if known:
        parts.append(plural(sum(item.fx or 0 for item in known), "FX node"))
        parts.append(plural(sum(sum((item.kernels or {}).values()) for item in known), "kernel"))
    return " · ".join([*parts, *event_counts(facts)])


def outcome_text(outcome: CaptureOutcome) -> tuple[str, Tone]:
    """How it ended and the first problem; all problems stand below the run's table."""
    how = "interrupted, " if outcome.interrupted else ""
    text = f"captured: {how}exit code {outcome.exit_code}"
    if outcome.notes:
        more = f" (and {len(outcome.notes) - 1} more below)" if len(outcome.notes) > 1 else ""
        text += f": {outcome.notes[0]}{more}"
    else:
        text += "; esc goes back to what it printed"
    return text, "bad" if outcome.exit_code else "warn" if outcome.notes else "dim"
