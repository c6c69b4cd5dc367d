"""A captured run whose every text tries to command the terminal, or to be read as markup."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from replays import replay_of, result_of

from inspector.readers.run import Run
from inspector.replay.store import save_result

SEQUENCES = "\x1b]0;owned\x07\x1b[31m\x1b[2J\x9b31m\x9d0;owned\x9c"
CONTROLS = "".join(map(chr, (*range(1, 9), 11, 12, *range(14, 32), *range(127, 160))))
COMMANDS = f"{SEQUENCES}\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\\x1b]52;c;AAAA\x07\x1bP+q\x1b\\{CONTROLS}"
"""C0, C1 and DEL; sequences that set the title, colours, the cursor, links and the clipboard."""

HIDDEN = (
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c\u200b\u200c\u200d\u2060\u2061\u2028"
    "\u2029\u00ad\ufeff\ufe01\u180e\u3164\U000e0041\U000e0101"
)
"""What turns the reading direction, or can't be seen."""

FLOOD = "e" + "\u0301\u0315" * 20
"""Marks that are drawn over the lines around."""

MARKUP = "[red]x[/red][@click=app.quit]y[/]<script>owned()</script><img src=x onerror=owned()>\"'{{7*7}}"
"""Of rich, of Textual, of HTML, and of templates."""

LINE = f"{COMMANDS}{HIDDEN}{MARKUP}{FLOOD}"

NAME = f"{SEQUENCES}\u202e\u200b{MARKUP}".replace("/", "")
"""As much of it as a file's name may hold."""

TEXT = f"{LINE}\r\n\tz"

_SELECTS = frozenset({"schema", "kind", "encoding", "ph", "has_payload"})
"""Keys whose values say how the rest is read."""


def owned(text: str) -> set[str]:
    """Characters of `text` that do something, or hide: everything but ink, spaces and line breaks."""
    flood = {"flood"} if re.search("[\u0300-\u036f]{6}", text) else set()
    hidden = "\u3164\uffa0\ufe01\U000e0101"
    return flood | {char for char in text if char != "\n" and (not char.isprintable() or char in hidden)}


def spoil(run: Path, seed: int) -> None:
    """Seed 0: in every text of every JSON artifact, and in half of all lines of the others.

    Further seeds: here and there, also where it says how to read the rest.
    """
    chance = random.Random(seed)
    for path in sorted(path for path in run.rglob("*") if path.is_file()):
        lines = path.read_text(encoding="utf-8").split("\n")
        if path.suffix == ".json":
            path.write_text(
                json.dumps(_spoiled(json.loads("\n".join(lines)), seed, chance)), encoding="utf-8"
            )
        elif path.suffix == ".jsonl":
            path.write_text("\n".join(_json(line, seed, chance) for line in lines), encoding="utf-8")
        else:
            in_trace = path.parent.name == "trace"
            changed = (_line(line, seed, chance, in_trace) for line in lines)
            path.write_text("\n".join(changed), encoding="utf-8")


def _spoiled(value: Any, seed: int, chance: random.Random) -> Any:
    if isinstance(value, dict):
        return {
            key: item if seed == 0 and key in _SELECTS else _spoiled(item, seed, chance)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_spoiled(item, seed, chance) for item in value]
    if isinstance(value, str) and (seed == 0 or chance.random() < 0.1):
        return f"{value}{TEXT}"
    return value


def _json(line: str, seed: int, chance: random.Random) -> str:
    return json.dumps(_spoiled(json.loads(line), seed, chance)) if line.strip() else line


def _line(line: str, seed: int, chance: random.Random, in_trace: bool) -> str:
    """A line of a program, a log or a trace: of a trace's envelopes only the JSON."""
    head, bracket, envelope = line.partition("] {")
    if in_trace and bracket:
        return f"{head}] {_json('{' + envelope, seed, chance)}"
    if not line.strip() or chance.random() > (0.5 if seed == 0 else 0.05):
        return line
    start = len(line) - len(line.lstrip())
    place = len(line) if seed == 0 and "#" in line else chance.randrange(start, len(line) + 1)
    return f"{line[:place]}{LINE}{line[place:]}"


def hostile_run(sample: Path, folder: Path, seed: int) -> Path:
    """A spoiled copy of an unpacked run with a replay's result, in a folder whose name is hostile too."""
    run = folder / f"run{NAME}"
    run.mkdir(parents=True)
    for path in sorted(sample.rglob("*")):
        target = run / path.relative_to(sample)
        if path.is_dir():
            target.mkdir(exist_ok=True)
        else:
            target.write_bytes(path.read_bytes())
    graph = Run.open(str(run)).graphs[0]
    code = graph.code()
    assert code is not None
    save_result(result_of(1_795_000_000.0, replay_of(graph.ident, code)), run)
    spoil(run, seed)
    model = next(run.rglob("model__1_*"), None)
    if model is not None:
        model.rename(model.with_name(f"{model.name}\x1b[31m\u202e[b]"))
    return run
