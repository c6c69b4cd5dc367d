"""Installs the wheel into fresh environments and runs every command of README and docs/ there.

    python tests/plain_install.py [-o FILE] [--limit SECONDS] [--extras]

FILE: the table of what ran, written as it goes; SECONDS for a command [900]; --extras: of these alone.

Run by ``make plain``. Each command is run on a CPU run that is captured first, on a run of a GPU that is
unpacked, on an archive, and on that archive where the wheel is installed without its extra for torch. What a
command may not do is print a traceback, end by a signal, lack a module, or, on the CPU run, be refused; and
replay has to check a kernel of each run. What is still at work at the limit (a server, a search) is
interrupted, and said to be long. Then each extra is installed beside it, what needs it is run, and it is
taken away again.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONG = -1000
"""For an exit code: the command was interrupted."""
WITH_EXTRA = {
    "index": (
        "inspector index SAMPLES -o fleet",
        "inspector query slowest-blocks -i fleet",
        "inspector query 'select torch, count(*) from runs group by all' -i fleet",
    ),
    "mcp": ("inspector mcp SAMPLES",),
    "web": ("inspector web SAMPLES/softmax/run.tar.xz",),
    "frames": (
        "python -c 'import inspector; inspector.open(\"SAMPLES/softmax/run.tar.xz\").kernels.to_polars()'",
    ),
}
"""What needs an extra, and is refused without it."""
RUNS = ("run", "run.tar.xz", "before", "after")
"""What runs are called in texts."""


def shown_commands() -> list[str]:
    """The command lines of the indented blocks of README and docs/, without comments, each once."""
    pages = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    texts = (page.read_text(encoding="utf-8") for page in pages)
    return list(
        dict.fromkeys(
            command
            for text in texts
            for command in re.findall(r"^    (inspector \S.*?)(?:\s+#.*)?$", text, re.MULTILINE)
        )
    )


class Plain:
    """A fresh environment with the wheel in it, and a folder for what the commands write."""

    def __init__(self, folder: Path, limit_s: float) -> None:
        folder.mkdir(parents=True)
        self.limit_s = limit_s
        self.folder = folder
        self.here = folder
        """Where commands are run, and write."""
        self.bin = folder / "venv" / "bin"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TERM": "xterm-256color",
        }

    def pip(self, *words: str | Path) -> str:
        command = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check", *map(str, words)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def make(self, extra: str = "") -> None:
        """The environment with the wheel and what it asks for, and an `extra` such as ``[torch]``."""
        subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], check=True)
        self.pip("wheel", "--quiet", "--no-deps", "-w", self.folder, ROOT)
        self.pip("install", "--quiet", "-c", ROOT / "constraints.txt", f"{self.wheel}{extra}")

    @property
    def wheel(self) -> Path:
        return next(self.folder.glob("*.whl"))

    def asks(self, header: str) -> list[str]:
        """What the wheel's metadata says: ``Requires-Dist``, ``Provides-Extra``."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (name,) = (item for item in wheel.namelist() if item.endswith(".dist-info/METADATA"))
            text = wheel.read(name).decode()
        return re.findall(rf"^{header}: (.*)$", text, re.MULTILINE)

    def packages(self) -> dict[str, str]:
        return {item["name"]: item["version"] for item in json.loads(self.pip("list", "--format", "json"))}

    def megabytes(self) -> float:
        files = (self.folder / "venv").rglob("*")
        return sum(path.lstat().st_size for path in files if path.is_file()) / 1e6

    def extra(self, name: str) -> str:
        """Installs an extra; what it brings, and whether its modules are there. Taken away again."""
        before, size = self.packages(), self.megabytes()
        self.pip("install", "--quiet", "-c", ROOT / "constraints.txt", f"{self.wheel}[{name}]")
        brought = {each: version for each, version in self.packages().items() if each not in before}
        code, said = self.run(["inspector", "--help"])
        wrong = complaint(["inspector", "--help"], code, said)
        works = []
        for command in WITH_EXTRA.get(name, ()):
            words = shlex.split(command.replace("SAMPLES", str(ROOT / "sample_runs")))
            code, said = self.run(words)
            good = code in (0, LONG)
            wrong = wrong or complaint(words, code, said) or (None if good else "it is refused")
            what = words[1] if words[0] == "inspector" else words[0]
            works.append(f"{what} {'ok' if good else 'refused'}")
        more = f" ({', '.join(works)})" if works else ""
        said = (
            f"{len(brought)} packages, {self.megabytes() - size:.0f} MB{more}: {', '.join(sorted(brought))}"
        )
        if brought:
            self.pip("uninstall", "--quiet", "-y", *brought)
        return f"{name:8} {said}{f'   <- {wrong}' if wrong else ''}"

    def run(self, words: list[str]) -> tuple[int, str]:
        """Exit code and output; from a folder that holds nothing of the project."""
        if words[1:2] == ["open"]:
            return self._on_a_terminal(words)
        process = subprocess.Popen(
            words,
            cwd=self.here,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # A server works until somebody ends it.
        try:
            said, _ = process.communicate(timeout=20 if words[1] == "web" else self.limit_s)
            return process.returncode, said
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            return LONG, process.communicate()[0]

    def _on_a_terminal(self, words: list[str]) -> tuple[int, str]:
        """Ctrl-Q after five seconds."""
        process, terminal = pty.fork()
        if not process:
            os.chdir(self.here)
            os.execvpe(words[0], words, self.environ)
        seen, started, asked = b"", time.monotonic(), False
        while time.monotonic() - started < 60:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    seen += os.read(terminal, 1 << 16)
                except OSError:
                    break
            if not asked and time.monotonic() - started > 5:
                os.write(terminal, b"\x11")
                asked = True
        status = os.waitpid(process, 0)[1]
        return os.waitstatus_to_exitcode(status), seen.decode("utf-8", "replace")


def runs(folder: Path) -> Iterator[tuple[str, Path]]:
    # The one with a baseline, where there are profiles.
    yield "cpu", folder / "run0"
    with tarfile.open(ROOT / "sample_runs" / "h200" / "run.tar.xz") as tar:
        tar.extractall(folder / "gpu", filter="data")
    yield "gpu", next(path.parent for path in (folder / "gpu").rglob("torch_compile_debug"))
    yield "archive", ROOT / "sample_runs" / "transformer" / "run.tar.xz"


def words_for(command: str, run: Path, plain: Plain) -> list[str] | None:
    """The command with this run's names in place of those shown; None where the run has no such thing."""
    kernels, ids = names_of(run, plain)
    replaced: list[str] = []
    for word in shlex.split(command):
        if word in RUNS or word.startswith(("sample_runs/", "runs.tar.xz")):
            word = str(run)
        elif word.startswith(("triton_", "cpp_")):
            if not kernels:
                return None
            word = sorted(kernels)[0]
        elif word == "edited.cpp":
            word = str(plain.here / "edited.cpp")
            Path(word).write_text("// no kernel at all\n")
        elif word == "0/1":
            if not ids:
                return None
            word = ids[0]
        elif word == "repro.py":
            word = str(plain.here / word)
        elif word.endswith(".json.gz"):
            word = str(run / "profile" / word)
            if not Path(word).exists():
                return None
        replaced.append(word)
    if {"replay", "repro"} & set(replaced):
        replaced.append("--trust")
    return replaced


@cache
def names_of(run: Path, plain: Plain) -> tuple[list[str], list[str]]:
    """Kernels with a source of their own, and compilations."""
    _, said = plain.run(["inspector", "fusions", str(run), "--json"])
    groups = [group for graph in json.loads(said)["graphs"] for group in graph["groups"]]
    kernels = {str(group["kernel"]) for group in groups if group.get("kernel")}
    code, said = plain.run(["inspector", "trace", str(run), "--json"])
    traces = json.loads(said)["traces"] if code == 0 else []
    return (
        [name for name in kernels if name.startswith(("cpp_", "triton_"))],
        [item["compile_id"] for trace in traces for item in trace["compilations"]],
    )


def complaint(words: list[str], code: int, said: str) -> str | None:
    """What is wrong with how a command ended; None where nothing is."""
    if code == LONG:
        return None if re.search(r"web|blame|--try", " ".join(words)) else "it does not end"
    if "Traceback (most recent call last)" in said:
        return "it prints a traceback"
    if re.search(r"No module named|cannot be imported", said):
        return "a module is missing"
    if code < 0 or code > 2:
        return f"it ended with {code}"
    if code == 2 and (said.count("\n") > 1 or "No such option" in said):
        return "it is not answered in one line"
    checked = re.search(r"\bmatch|closer|take a machine with such vectors", said)
    if words[1] == "replay" and "--source" not in words and not checked:
        return "no kernel was checked"
    return None


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", type=Path, help="write the table there")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for a command")
    parser.add_argument("--extras", action="store_true", help="what each extra brings, and nothing else")
    options = parser.parse_args()
    table: dict[str, dict[str, str]] = {}
    lines: list[str] = []
    bad = 0
    head = options.o.read_text() if options.o and options.o.exists() else ""

    def save() -> None:
        if options.o:
            options.o.write_text(f"{head}{text_of(lines, table)}\n")

    with tempfile.TemporaryDirectory(prefix="inspector-plain-") as name:
        plain = Plain(Path(name).resolve() / "plain", options.limit)
        plain.make("[torch]")
        lines.append(f"the wheel with torch: {len(plain.packages())} packages, {plain.megabytes():.0f} MB")
        bare = Plain(Path(name).resolve() / "bare", options.limit)
        bare.make()
        lines.append(f"the wheel alone: {len(bare.packages())} packages, {bare.megabytes():.0f} MB")
        print("\n".join(lines), flush=True)
        commands = shown_commands()
        if options.extras:
            commands = []
        first = [command for command in commands if " capture " in command]
        others = [command for command in commands if command not in first]
        program = str(ROOT / "sample_runs" / "softmax" / "softmax.py")
        tried: dict[str, dict[str, str]] = {}
        for number, command in enumerate(first):
            words = [
                program if word.endswith(".py") else "RUN" if word in (*RUNS, "run1", "run2") else word
                for word in shlex.split(command)
            ]
            same = shlex.join(words)
            if same not in tried:
                tried[same] = {}
                words = [f"run{number}" if word == "RUN" else word for word in words]
                bad += report("cpu", words, *plain.run(words), tried[same])
            table[command] = tried[same]
            save()
        targets = [] if options.extras else [(kind, plain, run) for kind, run in runs(plain.folder)]
        targets += [("no torch", bare, run) for _, _, run in targets[-1:]]
        for kind, place, run in targets:
            # What one run's commands write is in no other's way.
            place.here = place.folder / f"of {kind}"
            place.here.mkdir()
            for command in others:
                row = table.setdefault(command, {})
                named = words_for(command, run, place)
                if named is None:
                    row[kind] = "-"
                    continue
                bad += report(kind, named, *place.run(named), row)
                save()
        for extra in plain.asks("Provides-Extra"):
            lines.append(plain.extra(extra))
            save()
    bad += sum("<-" in line for line in lines)
    save()
    print(text_of(lines, table))
    return 1 if bad else 0


def text_of(lines: list[str], table: dict[str, dict[str, str]]) -> str:
    """What was installed, and how each command ended on each run."""
    kinds = ["cpu", "gpu", "archive", "no torch"]
    rows = [
        f"{command[:69]:70}{''.join(f'{row.get(kind, str()):>10}' for kind in kinds)}"
        for command, row in table.items()
    ]
    return "\n".join(
        [
            *lines,
            "",
            f"{'':70}{''.join(f'{kind:>10}' for kind in kinds)}",
            *rows,
            "",
            "ok: it answers; finds: it answers, and says by its exit code 1 that something is wrong in the",
            "run; refused: one line says why not; long: at work at the limit; -: the run has no such thing",
        ]
    )


def report(kind: str, words: list[str], code: int, said: str, row: dict[str, str]) -> int:
    wrong = complaint(words, code, said)
    refused = kind == "no torch" and "needs torch" in said and "Traceback" not in said
    wrong = None if refused else wrong
    answered = "refused" if code == 2 or refused else "finds" if code else "ok"
    row[kind] = "wrong" if wrong else "long" if code == LONG else answered
    print(f"{kind:8} exit {code}   {shlex.join(words)}{f'   <- {wrong}' if wrong else ''}", flush=True)
    if wrong or row[kind] == "refused":
        print(said[-2000:])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
