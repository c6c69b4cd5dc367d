"""Attacks every command and screen with text that commands a terminal, hides, or is markup, in every field of a run.

    python benchmarks/escapes.py [-k TEXT] [--without TEXT] [--attack NAME ...]   rows whose name has TEXT, or not that

For each attack two captured runs, of a CPU and of a GPU, are spoiled in every text of every artifact, their folders'
names included, and looked at. A cell is "reached/raw": how often the attack's mark came out, and how often something of it came out as it was:
a character that does something or hides, a flood, markup that was taken for markup, an element, a line of its own.
Exits with 1 where anything came out raw, or where an output was never reached.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import asyncio
import gc
import io
import json
import os
import re
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch

from common import ROOT

sys.path.insert(0, str(ROOT / "tests"))

import hostile
from tui_support import press, settle

from inspector.cli import app
from inspector.readers.archive import remove_unpacked

MARK = "Qwn"
"""In every attack, so that what came of it is found."""
ATTACKS: dict[str, str] = {
    "C0": "".join(map(chr, (*range(1, 9), 11, 12, *range(14, 32), 127))),
    "CR and BS": "\r\b\b\b",
    "C1": "".join(map(chr, range(128, 160))),
    "CSI": "\x1b[2J\x1b[31m\x9b2J",
    "title": "\x1b]0;t\x07\x9d0;t\x9c",
    "OSC 8": "\x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\",
    "OSC 52": "\x1b]52;c;AAAA\x07\x1bP+q\x1b\\",
    "bidi": "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    "no width": "\u200b\u200c\u200d\u2060\u2061\u00ad\ufeff\ufe01\u180e\u3164\uffa0\U000e0041\U000e0101\u2028\u2029",
    "flood": "e" + "\u0301\u0315" * 20,
    "rich": f"[red]{MARK}[/red][@click=app.quit]{MARK}[/][link=http://x]{MARK}[/link]",
    "elements": f"<script>{MARK}</script><img src=x onerror={MARK}>\"'--><svg onload={MARK}>]]>&{MARK};{{{{7*7}}}}",
    "lines": f"\n::error file={MARK}::{MARK}\n::add-mask::{MARK}%0A::warning::{MARK}\n## {MARK}\n",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    reached: int
    raw: int

    def __str__(self) -> str:
        return f"{self.reached}/{self.raw}"


def raw(kind: str, attack: str, text: str) -> int:
    """How much of the attack is in what came out as it was."""
    found = len(hostile.owned(text.replace("\t", " ")))
    if attack == "rich":
        # What was taken for markup is no longer there.
        found += len(re.findall(rf"{MARK}(?=\[/red)", text)) - len(
            re.findall(rf"\[red\]{MARK}(?=\[/red)", text)
        )
    if kind == "elements":
        found += _elements(text)
    if kind == "markdown":
        found += _elements(re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S))
        found += len(re.findall(rf"^## {MARK}", re.sub(r"```.*?```", "", text, flags=re.S), re.M))
    if kind == "github":
        commands = [line for line in text.split("\n") if line.startswith("::")]
        found += sum(not re.match(r"::(error|warning|notice|group|endgroup)\b", line) for line in commands)
        found += sum(line.startswith(f"::error file={MARK}") for line in commands)
    return found


class _Marked(HTMLParser):
    """Elements and attributes that only an attack brings."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        self.count += any(name.startswith("on") for name, _ in attrs)
        self.count += any(
            name in ("src", "href") and (value or "") in ("x", "http://x") for name, value in attrs
        )

    def handle_data(self, data: str) -> None:
        self.count += self._within == "script" and data.startswith(MARK)


def _elements(text: str) -> int:
    parser = _Marked()
    parser.feed(text)
    parser.close()
    return parser.count


@dataclass(frozen=True)
class Spoiled:
    """What is attacked: runs of a CPU and of a GPU below `folder`, and what they were."""

    attack: str
    folder: Path
    run: Path
    gpu: Path
    sample: Path

    @property
    def payload(self) -> str:
        return f"{MARK}{ATTACKS[self.attack]}{MARK}"

    @property
    def index(self) -> Path:
        return self.folder / "made" / f"index{hostile.NAME}"

    def profile(self) -> Path:
        """A profiler's trace of the same."""
        path = self.folder / "made" / f"trace{hostile.NAME}.json"
        text = self.payload
        events = [
            {"ph": "X", "cat": cat, "name": f"{n}{text}", "ts": n, "dur": 5, "pid": text, "args": {text: text}}
            for n in range(4) for cat in ("kernel", "cpu_op", "cuda_runtime", "user_annotation")
        ]  # fmt: skip
        devices = [{"name": text}]
        path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": events}))
        return path


@contextmanager
def attacked(samples: tuple[Path, ...], folder: Path, attack: str) -> Iterator[Spoiled]:
    """Spoiled runs."""
    text = f"{MARK}{ATTACKS[attack]}{MARK}"
    name = re.sub(r"[/\n\0]", "", text)[:60]
    line = text.replace("\n", "\\n") if attack == "lines" else text
    with patch.multiple(hostile, LINE=line, TEXT=text, NAME=name):
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "made").mkdir(parents=True)
        run, gpu = (
            hostile.hostile_run(sample, folder / "runs" / kind, 0)
            for kind, sample in zip(("cpu", "gpu"), samples, strict=True)
        )
        yield Spoiled(attack, folder, run, gpu, samples[0])


def printed(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output and errors of a command in this process."""
    streams = [
        io.TextIOWrapper(io.BytesIO(), "utf-8", errors="replace", write_through=True) for _ in range(2)
    ]
    with (
        patch.object(sys, "argv", ["inspector", *words]),
        redirect_stdout(streams[0]),
        redirect_stderr(streams[1]),
    ):
        code = app._run()
    out, err = (stream.buffer.getvalue().decode() for stream in streams)
    return code, out, err


PLAIN: dict[str, tuple[str, tuple[str, ...]]] = {
    "summary": ("", ("summary", "RUN")), "summary --json": ("", ("summary", "RUN", "--json")),
    "trace": ("", ("trace", "RUN")), "trace --json": ("", ("trace", "RUN", "--json")), "trace --kinds": ("", ("trace", "RUN", "--kinds")),
    "trace --compile-id": ("", ("trace", "RUN", "--compile-id", "0/0")), "trace --show": ("", ("trace", "RUN", "--show", "dynamo_guards")),
    "fusions --all": ("", ("fusions", "RUN", "--all")), "fusions --json": ("", ("fusions", "RUN", "--json")),
    "fusions --svg": ("elements", ("fusions", "RUN", "--graph", "model__0", "--svg", "FILE")),
    "fusions --dot": ("", ("fusions", "RUN", "--graph", "model__0", "--dot", "FILE")),
    "ir-diff": ("", ("ir-diff", "RUN")), "explain --all": ("", ("explain", "RUN", "--all")), "explain --json": ("", ("explain", "RUN", "--json")),
    "lower": ("", ("lower", "GPU")), "lower --json": ("", ("lower", "GPU", "--json")), "lower --kernel": ("", ("lower", "GPU", "--kernel", "0")),
    "explain of a GPU": ("", ("explain", "GPU", "--all")), "report of a GPU": ("markdown", ("report", "GPU")), "export of a GPU": ("elements", ("export", "GPU", "-o", "FILE", "--force")),
    "a profile": ("", ("summary", "PROFILE")), "a profile, --json": ("", ("summary", "PROFILE", "--json")), "open": ("", ("open", "RUN")),
    "diff": ("", ("diff", "RUN", "SAMPLE")), "diff, the other way": ("", ("diff", "SAMPLE", "RUN", "--all")),
    "diff --json": ("", ("diff", "RUN", "SAMPLE", "--json")), "diff --markdown": ("markdown", ("diff", "RUN", "SAMPLE", "--markdown")),
    "export": ("elements", ("export", "RUN", "-o", "FILE", "--force")),
    "export --against": ("elements", ("export", "SAMPLE", "-o", "FILE", "--force", "--against", "RUN")),
    "report": ("markdown", ("report", "RUN")), "pack": ("", ("pack", "RUN", "-o", "TAR", "--force")),
    "check --write": ("", ("check", "RUN", "--budget", "FILE", "--write", "--force")),
    "check": ("", ("check", "RUN", "--budget", "TIGHT")), "check json": ("", ("check", "RUN", "--budget", "TIGHT", "--format", "json")),
    "check github": ("github", ("check", "RUN", "--budget", "TIGHT", "--format", "github")),
    "check junit": ("elements", ("check", "RUN", "--budget", "TIGHT", "--format", "junit")),
    "check sarif": ("", ("check", "RUN", "--budget", "TIGHT", "--format", "sarif")),
    "index": ("", ("index", "PARENT", "-o", "INDEX", "--jobs", "1")),
    "query": ("", ("query", "select * from runs, breaks", "-i", "INDEX")), "query --json": ("", ("query", "select * from runs, breaks", "-i", "INDEX", "--json")),
    "query, an error": ("", ("query", "select PAYLOAD", "-i", "INDEX")),
    "replay": ("", ("replay", "RUN")), "repro": ("", ("repro", "RUN", "--kernel", "0")), "explain --try": ("", ("explain", "RUN", "--try", "modes")),
    "explain --measure": ("", ("explain", "RUN", "--measure")), "lower --make": ("", ("lower", "RUN", "--make")), "blame": ("", ("blame", "RUN")),
    "no such graph": ("", ("fusions", "RUN", "--graph", "PAYLOAD")), "no such kernel": ("", ("lower", "RUN", "--kernel", "PAYLOAD")),
    "no such file": ("", ("check", "RUN", "--budget", "PAYLOAD")), "no such run": ("", ("diff", "RUN", "PAYLOAD")),
}  # fmt: skip
"""By row: what kind of text comes out, and the command."""
NAMES_ALONE = {"lower"}
"""What shows no text of a run but names that its code could not have otherwise: those of functions."""


def commands(spoiled: Spoiled, wanted: str) -> Iterator[tuple[str, Cell]]:
    file, attack = spoiled.folder / "made" / "written", spoiled.attack
    places = {
        "RUN": str(spoiled.run), "GPU": str(spoiled.gpu), "SAMPLE": str(spoiled.sample), "FILE": str(file), "TAR": f"{file}.tar",
        "PARENT": str(spoiled.folder / "runs"), "TIGHT": str(ROOT / "tests" / "data" / "tight.toml"), "INDEX": str(spoiled.index),
        "PROFILE": str(spoiled.profile()), "PAYLOAD": spoiled.payload, "select PAYLOAD": f"select {spoiled.payload}",
    }  # fmt: skip
    for name, (kind, words) in PLAIN.items():
        if wanted not in name and not (name == "index" and "query" in wanted):
            continue
        file.unlink(missing_ok=True)
        code, out, err = printed(*(places.get(word, word) for word in words))
        made = file.read_text(encoding="utf-8") if file.exists() else ""
        assert code in (0, 1, 2) and "a defect" not in err, (name, attack, code, err)
        if attack != "lines":
            assert len(err.splitlines()) <= 3, (name, attack, err)
        found = raw(kind, attack, made or out) + raw("", attack, err)
        if "--json" in words or "json" in name:
            with suppress(ValueError):
                json.loads(out)
        yield name, Cell((out + err + made).count(MARK), found)


def examined(text: str) -> Any:
    """What the doctor finds where the machine's every text is this one."""
    from inspector.doctor.checks import diagnose
    from inspector.model.doctor import Facts

    sections: dict[str, dict[str, Any]] = {
        "environment": dict.fromkeys(("TORCHINDUCTOR_X", "TORCH_LOGS", "CUDA_VISIBLE_DEVICES", "CXX"), text),
        "python": dict.fromkeys(("executable", "version", "system", "machine"), text), "names": {"known": [text]},
        "torch": {"failure": text, "version": text}, "cpp": {"failure": text, "compiler": text},
    }  # fmt: skip
    return diagnose(Facts(sections))


def tools(spoiled: Spoiled) -> Iterator[tuple[str, Cell]]:
    """What an agent, a notebook and the doctor show."""
    import inspector
    from inspector.agents.tools import Looking
    from inspector.contract.doctor import to_json
    from inspector.present.doctor import lines

    run, attack = spoiled.run, spoiled.attack
    looking = Looking(run.parent)
    texts = [
        json.dumps(looking.list_runs()),
        *(json.dumps(ask(run.name)) for ask in (looking.summary, looking.explain, looking.why_not_fused)),
    ]
    yield "mcp", Cell(sum(text.count(MARK) for text in texts), sum(raw("", attack, text) for text in texts))
    opened = inspector.open(run)
    shown = [
        opened._repr_html_(),
        *(getattr(opened, name)._repr_html_() for name in ("kernels", "breaks", "findings", "graphs")),
    ]
    yield (
        "notebook",
        Cell(sum(text.count(MARK) for text in shown), sum(raw("elements", attack, text) for text in shown)),
    )
    diagnosis = examined(spoiled.payload)
    out = "\n".join(line.text for line in lines(diagnosis, 100)) + json.dumps(to_json(diagnosis))
    yield "doctor", Cell(out.count(MARK), raw("", attack, out))


class Seen:
    """All that is drawn, and on which screens."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.visited: set[str] = set()

    async def walk(
        self, application: Any, targets: Callable[[Any], list[Any]], keys: tuple[str, ...]
    ) -> None:
        """Every target with the keys pressed there, beginning at the first screen."""
        async with application.run_test(size=(150, 48)) as pilot:

            async def press_all(*names: str) -> None:
                for key in names:
                    await press(pilot, key)
                    self._keep(application)

            await settle(pilot)
            self._keep(application)
            await press_all("ctrl+p", "escape", "question_mark", "escape", *keys)
            for target in targets(application):
                application.post_message(target)
                await settle(pilot)
                self._keep(application)
                await press_all("j", "enter", "tab", "z", "escape")
                while len(application.screen_stack) > 1:
                    application.pop_screen()
                    await settle(pilot)

    def _keep(self, application: Any) -> None:
        strips = application.screen._compositor.render_strips(application.size)
        self.shown.append("\n".join(strip.text for strip in strips))
        self.visited.add(type(application.screen).__name__)

    def cell(self, attack: str) -> Cell:
        text = "\n".join(self.shown)
        return Cell(text.count(MARK), raw("", attack, text))


def everywhere(spoiled: Spoiled, application: Any) -> list[Any]:
    """Every screen of a run, and what others bring there: a question, a capture that runs."""
    from inspector.capture.environment import CaptureOptions
    from inspector.readers.locate import locate
    from inspector.tui import navigation as to
    from inspector.tui.capturing import CaptureJob, _Watch

    session, text = application.screen.session, spoiled.payload
    graph, code = next(
        (graph, code) for graph in session.run.graphs if (code := graph.code()) is not None and code.calls
    )
    job = CaptureJob(CaptureOptions((text,)), text, (150, 48))
    job.state, job.sighting = "running", _Watch(spoiled.run).look(True)
    job.write_stdout(f"{text}\n".encode())
    job.say(text)
    targets: list[Any] = [
        to.GraphsTarget(session), to.ExplainTarget(session), to.TraceTarget(session.run), to.FindTarget(session, MARK),
        *(to.GraphTarget(session, graph, pane) for pane in ("fx", "ir", "fusion", "code", "kernels")),
        *(to.BelowTarget(session, graph, call) for call in code.calls[:1]), to.DiffTarget(locate(str(spoiled.sample)), session.run.located),
        to.CaptureTarget(session.run.manifest.command if session.run.manifest else (), why=text), to.DoctorTarget(), to.LiveTarget(job),
    ]  # fmt: skip
    return [*(to.Open(target) for target in targets), to.Ask(text, text, lambda _yes: None)]


async def screens(spoiled: Spoiled) -> tuple[Cell, set[str]]:
    """A walk through every screen of the spoiled runs, of the folder that they are in and of an index of both."""
    import inspector.doctor.run
    from inspector.cli.fleet import catalogue_at
    from inspector.tui.app import InspectorApp

    seen = Seen()
    if not spoiled.index.exists():
        printed("index", str(spoiled.folder / "runs"), "-o", str(spoiled.index), "--jobs", "1")
    with patch.object(inspector.doctor.run, "examine", lambda **_told: examined(spoiled.payload)):
        for run in (spoiled.run, spoiled.gpu):
            await seen.walk(
                InspectorApp(str(run)), lambda app: everywhere(spoiled, app), ("r", "n", "t", "escape")
            )
    await seen.walk(InspectorApp(str(spoiled.folder / "runs")), lambda _app: [], ("j", "enter"))
    catalogue = catalogue_at(str(spoiled.index))
    await seen.walk(InspectorApp(catalogue=catalogue), lambda _app: [], (*("j",) * 12, "tab", "enter"))
    return seen.cell(spoiled.attack), seen.visited


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-k", dest="wanted", default="")
    parser.add_argument("--without", default="nothing")
    parser.add_argument(
        "--attack", dest="attacks", nargs="+", choices=ATTACKS, default=[*ATTACKS], metavar="NAME"
    )
    given = parser.parse_args()
    wanted = given.wanted
    from sharing import unpacked

    table: dict[str, dict[str, Cell]] = {}
    visited: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        os.environ.update(
            {name: str(place / "home") for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
        )
        os.environ["COLUMNS"] = "160"
        samples = tuple(
            unpacked(ROOT / "sample_runs" / name / "run.tar.xz", place) / name for name in ("breaks", "h200")
        )
        for attack in given.attacks:
            with attacked(samples, place / "attacked", attack) as spoiled:
                cells = dict(commands(spoiled, wanted))
                if not wanted or wanted in ("mcp", "notebook", "doctor"):
                    cells |= dict(tools(spoiled))
                if wanted == "screens" or (not wanted and given.without != "screens"):
                    cells["screens"], seen = asyncio.run(screens(spoiled))
                    visited |= seen
            for name, cell in cells.items():
                table.setdefault(name, {})[attack] = cell
            # What a long round has found is not lost with it.
            print(attack, *(f"{name}: {cell}" for name, cell in cells.items()), sep="; ", file=sys.stderr)
            remove_unpacked()
            # Screens tell the collector to leave alone what is alive, which ends with them.
            gc.unfreeze()
            gc.collect()
    print(f"{'':22}" + "".join(f"{attack:>11}" for attack in given.attacks))
    for name, row in table.items():
        print(f"{name:22}" + "".join(f"{row[attack]!s:>11}" for attack in given.attacks))
    found = sum(cell.raw for row in table.values() for cell in row.values())
    unreached = [
        name
        for name, row in table.items()
        if name not in NAMES_ALONE and not any(cell.reached for cell in row.values())
    ]
    print(
        f"{sum(map(len, table.values()))} outputs, {found} raw; never reached: {', '.join(unreached) or 'none'}; screens: {', '.join(sorted(visited))}"
    )
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB at most")
    return 1 if found or unreached else 0


if __name__ == "__main__":
    sys.exit(main())
