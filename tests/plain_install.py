"""Installs the wheel alone into a fresh environment and runs every command of README and docs/ there.

Run by ``make plain``. Each command is run on a CPU run that is captured first, on a run of a GPU that is
unpacked, and on an archive. What a command may not do is print a traceback, end by a signal, lack a module,
or, on the CPU run, be refused; and replay has to check a kernel of each run.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 900
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "TERM": "xterm-256color",
        }

    def install(self, *extras: str) -> None:
        subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], check=True)
        pip = [str(self.bin / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "-w", self.folder, str(ROOT)], check=True)
        (wheel,) = self.folder.glob("*.whl")
        for extra in ("", *extras):
            subprocess.run([*pip, "install", "-c", ROOT / "constraints.txt", f"{wheel}{extra}"], check=True)

    def run(self, words: list[str]) -> tuple[int, str]:
        """Exit code and output; from a folder that holds nothing of the project."""
        if words[1:2] == ["open"]:
            return self._on_a_terminal(words)
        answer = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        return answer.returncode, answer.stdout + answer.stderr

    def _on_a_terminal(self, words: list[str]) -> tuple[int, str]:
        """Ctrl-Q after five seconds."""
        process, terminal = pty.fork()
        if not process:
            os.chdir(self.folder)
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
    replaced = []
    for word in shlex.split(command):
        if word in RUNS or word.startswith(("sample_runs/", "runs.tar.xz")):
            word = str(run)
        elif word.startswith(("triton_", "cpp_")):
            if not kernels:
                return None
            word = sorted(kernels)[0]
        elif word == "edited.cpp":
            word = str(plain.folder / "edited.cpp")
            Path(word).write_text("// no kernel at all\n")
        elif word == "0/1":
            if not ids:
                return None
            word = ids[0]
        elif word == "repro.py":
            word = str(plain.folder / word)
        elif word.endswith(".json.gz"):
            word = str(run / "profile" / word)
            if not Path(word).exists():
                return None
        replaced.append(word)
    if {"replay", "repro"} & set(replaced):
        replaced.append("--trust")
    return replaced


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
    if "Traceback (most recent call last)" in said:
        return "it prints a traceback"
    if re.search(r"No module named|cannot be imported", said):
        return "a module is missing"
    if code < 0 or code > 2:
        return f"it ended with {code}"
    if code == 2 and (said.count("\n") > 1 or "No such option" in said):
        return "it is not answered in one line"
    if words[1] == "replay" and "--source" not in words and not re.search(r"\bmatch|closer", said):
        return "no kernel was checked"
    return None


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="inspector-plain-") as name:
        plain = Plain(Path(name).resolve())
        plain.install()
        bad = 0
        commands = shown_commands()
        first = [command for command in commands if " capture " in command]
        others = [command for command in commands if command not in first]
        program = str(ROOT / "sample_runs" / "softmax" / "softmax.py")
        for number, command in enumerate(first):
            words = [
                program if word.endswith(".py") else f"run{number}" if re.fullmatch(r"run\d*", word) else word
                for word in shlex.split(command)
            ]
            bad += report("capture", words, *plain.run(words))
        for kind, run in runs(plain.folder):
            for command in others:
                named = words_for(command, run, plain)
                if named is None:
                    print(f"{kind:8} left out  {command}")
                    continue
                bad += report(kind, named, *plain.run(named))
        return 1 if bad else 0


def report(kind: str, words: list[str], code: int, said: str) -> int:
    wrong = complaint(words, code, said)
    print(f"{kind:8} exit {code}   {shlex.join(words)}{f'   <- {wrong}' if wrong else ''}", flush=True)
    if wrong:
        print(said[-2000:])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
