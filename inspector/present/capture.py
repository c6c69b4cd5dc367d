"""What a capture can be asked for on screen, and from what was typed to what `capture` takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from inspector.capture.environment import MODES
from inspector.capture.history import PastCommand
from inspector.capture.launch import CaptureOptions
from inspector.model.problem import InspectorError
from inspector.present.tables import Column, Row, Table, cell, message_table

Kind = Literal["text", "path", "pairs", "choice", "flag", "size"]


@dataclass(frozen=True, slots=True)
class Field:
    """One line of the form. `name` is the field of CaptureOptions; `hint` stands where nothing is typed yet,
    or behind a choice. The first of `choices` means the default of CaptureOptions; a flag has one more."""

    name: str
    label: str
    kind: Kind
    hint: str
    choices: tuple[str, ...] = ()


FIELDS: tuple[Field, ...] = (
    Field("mode", "Mode", "choice", "for torch.compile calls that name none", ("as written", *MODES)),
    Field("out", "Run folder", "path", "new or empty; if left out: inspector_runs/NAME-TIME"),
    Field("config", "Config", "pairs", "torch._inductor.config: KEY=VALUE ...; of Dynamo: dynamo.KEY=VALUE"),
    Field("env", "Variables", "pairs", "set for the command: NAME=VALUE ..."),
    Field("logs", "Logs", "text", "more TORCH_LOGS artifacts, separated by commas"),
    Field("fresh", "Caches", "flag", "your own: cached graphs leave no files", ("empty ones", "your own")),
    Field("record", "Recorder", "flag", "watches the compiler for fusion decisions", ("on", "off")),
    Field("baseline", "Baseline", "flag", "run twice more: without debug output, and eager", ("no", "yes")),
    Field("save_inputs", "Inputs", "size", "each graph's own, for replay", ("not kept", "64M", "256M", "1G")),
)
"""Everything beside the command. One more option of a capture is one more line here."""

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_WORDS = frozenset({"|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>"})

Value = str | int
"""What a line of the form holds: a text, or which of its choices."""


def default(field: Field) -> Value:
    return 0 if field.choices else ""


def capture_options(command: str, values: Mapping[str, Value]) -> CaptureOptions:
    """The options for a command line and the form's values by name; InspectorError says what is wrong.

    Leading NAME=VALUE words set variables, as in a shell.
    """
    words = _words(command, "the command")
    if words[:2] == ["inspector", "capture"]:
        raise InspectorError("only the program's own command goes here, without inspector capture")
    leading: list[tuple[str, str]] = []
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        leading.append((name, value))
    if not words:
        raise InspectorError("no command to capture: type one, for example: python train.py")
    shell = next((word for word in words if word in _SHELL_WORDS), None)
    if shell is not None:
        raise InspectorError(f"{shell} means something to a shell only; for one, type: bash -c '...'")
    options: dict[str, Any] = {}
    for field in FIELDS:
        options[field.name] = _value(field, values.get(field.name, default(field)))
    options["env"] = (*leading, *options["env"])
    return CaptureOptions(command=tuple(words), **options)


def _value(field: Field, value: Value) -> Any:
    if field.choices and not value:
        return CaptureOptions.__dataclass_fields__[field.name].default
    if field.kind == "flag":
        return not CaptureOptions.__dataclass_fields__[field.name].default
    if field.kind == "choice":
        return field.choices[int(value)]
    if field.kind == "size":
        return _bytes(field.choices[int(value)])
    text = str(value).strip()
    if field.kind == "pairs":
        return tuple(_pair(word, field.label) for word in _words(text, field.label))
    if field.kind == "path":
        return Path(text) if text else None
    return text or None


def _bytes(text: str) -> int:
    """`64M` as bytes; 1 K are 1,024."""
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


def _words(text: str, what: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InspectorError(f"{what}: {str(error).lower()}: close every quote") from None


def _pair(word: str, label: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise InspectorError(f"{label}: {word}: needs the form NAME=VALUE")
    return name, value


def history_table(commands: tuple[PastCommand, ...], folder: str) -> Table:
    """The commands captured before, those of this folder first, others with theirs."""
    if not commands:
        return message_table(
            "Captured before", "nothing yet: what is captured from here is kept for next time"
        )
    rows = [
        Row(
            str(number),
            (cell(past.command, "accent"), cell("" if past.folder == folder else past.folder, "dim")),
        )
        for number, past in enumerate(commands)
    ]
    columns = (Column("command", shrinks=True, least=40), Column("in folder", rank=1, optional=True))
    return Table(f"Captured before · {len(rows)}", columns, tuple(rows))
