"""Every command that writes, where it cannot: a full disk, limited files, a read-only folder, another user.

    python benchmarks/places.py [-k TEXT] [--uid 65534]      as root, as it mounts and becomes somebody else

Each command writes into a folder of its own, on a small tmpfs, or reads a run that is not the user's. Wrong is:
a traceback; an exit code that is neither that of what was done nor 2; a failure in more than one line, or in
none; half a file or a temporary one left; something left in the temporary folder; a command that looks
only and fails because nothing can be written. Prints a table; 1 where one is wrong.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from common import CLI, PYTHON, ROOT, corpus

LIMIT_S = 240
LOOKING = (
    ("summary", "RUN"), ("explain", "RUN", "--json"), ("diff", "RUN", "OTHER", "--json"), ("report", "RUN"),
    ("trace", "RUN"), ("lower", "RUN"), ("fusions", "RUN", "--json"), ("ir-diff", "RUN"),
)  # fmt: skip
WRITING = (
    ("export", "RUN", "-o", "OUT/page.html"),
    ("export", "RUN", "-o", "OUT/page.html", "--against", "OTHER"),
    ("report", "RUN", "-o", "OUT/report.md"),
    ("fusions", "RUN", "--graph", "model__0", "--svg", "OUT/a.svg"),
    ("fusions", "RUN", "--graph", "model__0", "--dot", "OUT/a.dot"),
    ("pack", "RUN", "-o", "OUT/run.tar.gz"),
    ("check", "RUN", "--budget", "OUT/budget.toml", "--write"),
    ("index", "RUN", "-o", "OUT/index"),
    ("capture", "-o", "OUT/new", "--", PYTHON, "-c", "print('out')"),
)
INTO_THE_RUN = (
    ("replay", "OUT/run", "--graph", "model__0", "--kernel", "0", "--trust"),
    ("lower", "OUT/run", "--make", "--trust"),
)
"""What these find out is shown where it cannot be kept, and that is said."""


@dataclass
class Place:
    """Where a command runs: how much room there is in OUT, and who runs it with which home."""

    name: str
    commands: Iterable[tuple[str, ...]]
    disk_kib: int = 0
    read_only: bool = False
    file_bytes: int | None = None
    uid: int | None = None
    output: str = ""
    owned: bool = True
    environment: dict[str, str | None] = field(default_factory=dict)


def places(uid: int, parent: Path) -> list[Place]:
    home, locked = parent / "home", parent / "locked"
    home.mkdir()
    locked.mkdir(mode=0o555)
    os.chown(home, uid, uid)
    every = (*WRITING, *INTO_THE_RUN)
    nobody = {"XDG_STATE_HOME": None, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None}
    return [
        Place("a full disk", every, disk_kib=4),
        Place("a disk with 24 KiB left", every, disk_kib=24),
        Place("files of at most 2 KiB", WRITING, file_bytes=2048),
        Place("a read-only folder", every, read_only=True),
        Place("standard output on a full disk", LOOKING, output="/dev/full"),
        Place("a user, a folder of his", every, uid=uid, environment={**nobody, "HOME": str(home)}),
        Place("a user, a folder that is not his", every, uid=uid, owned=False, environment={**nobody, "HOME": str(home)}),
        Place("a user, a home that can't be written", (*LOOKING, *every), uid=uid, environment={**nobody, "HOME": str(locked)}),
        Place("a user, somebody else's home", (*LOOKING[:2], *every), uid=uid, environment={**nobody, "HOME": "/root"}),
        Place("a user without a name, no home", (*LOOKING[:2], *every), uid=54321, environment={**nobody, "HOME": None}),
    ]  # fmt: skip


class Trial:
    """One command in one place."""

    def __init__(self, place: Place, words: tuple[str, ...], parent: Path, runs: Path) -> None:
        self.place, self.words, self.runs = place, words, runs
        self.temporary = parent / "tmp"
        self.out = parent / "out"
        self.folder = self.out / "o"
        self.mounted = bool(place.disk_kib or place.read_only)

    def __enter__(self) -> Trial:
        for path in (self.temporary, self.out):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        self.temporary.chmod(0o777)
        if self.mounted:
            subprocess.run(
                ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "none", str(self.out)], check=True
            )
        self.folder.mkdir()
        if self.words in INTO_THE_RUN:
            shutil.copytree(self.runs / "cpu-torch2.13" / "softmax", self.folder / "run")
        if self.place.disk_kib:
            self._fill()
        if self.place.read_only:
            subprocess.run(["mount", "-o", "remount,ro", str(self.out)], check=True)
        if self.place.uid is not None and self.place.owned:
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, self.place.uid, self.place.uid)
        self.before = self._files()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.out)], check=True)

    def _fill(self) -> None:
        """All of the disk but that much."""
        with (self.out / "filling").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        facts = os.stat(self.out / "filling")
        os.truncate(self.out / "filling", max(0, facts.st_size - self.place.disk_kib * 1024))

    def _files(self) -> dict[str, int]:
        return {str(path.relative_to(self.out)): path.stat().st_size for path in self.out.rglob("*")}

    def run(self) -> tuple[str, list[str]]:
        """What it said, and what was wrong."""
        named = {"RUN": "cpu-torch2.13/softmax", "OTHER": "cpu-torch2.13/norms"}
        words = [
            str(self.runs / named[word]) if word in named else word.replace("OUT", str(self.folder), 1)
            for word in self.words
        ]
        environment = {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name, value in self.place.environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        started = becoming(self.place)
        with open(self.place.output or os.devnull, "wb") as sink:
            done = subprocess.run(
                [*CLI, *words], cwd="/", env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                stdout=sink if self.place.output else subprocess.PIPE, timeout=LIMIT_S, preexec_fn=started,
            )  # fmt: skip
        lines = [line for line in done.stderr.splitlines() if line.startswith("inspector: ")]
        return f"{done.returncode}: {' | '.join(done.stderr.splitlines()[-2:])}", list(
            self._wrong(done, lines)
        )

    def _wrong(self, done: subprocess.CompletedProcess[str], lines: list[str]) -> Iterable[str]:
        if "Traceback" in done.stderr or "defect of inspector" in done.stderr:
            yield done.stderr[-900:]
        if done.returncode not in (0, 1, 2):
            yield f"exit code {done.returncode}"
        failed = done.returncode == 2
        if failed and len(lines) != 1 and "capture" not in self.words:
            yield f"{len(lines)} lines of a failure"
        if failed and self.words in LOOKING and not self.place.output:
            yield "it only looks, and fails"
        if not failed and self.place.output:
            yield "nothing says that its output is lost"
        after = self._files()
        fresh = {name: size for name, size in after.items() if name not in self.before}
        if failed and fresh and "capture" not in self.words:
            yield f"left: {fresh}"
        if hidden := [name for name in fresh if Path(name).name.startswith(".")]:
            yield f"left: {hidden}"
        if kept := [name for name in os.listdir(self.temporary) if "inductor" not in name]:
            yield f"in the temporary folder: {kept}"


def becoming(place: Place) -> Callable[[], None]:
    def become() -> None:
        if place.file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (place.file_bytes, place.file_bytes))
        if place.uid is not None:
            os.setgroups([])
            os.setgid(place.uid)
            os.setuid(place.uid)

    return become


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-k", default="", help="places and commands with this in their name alone")
    parser.add_argument("--uid", type=int, default=65534)
    given = parser.parse_args()
    bad = count = 0
    with corpus() as runs, tempfile.TemporaryDirectory(prefix="places-") as name:
        parent = Path(name)
        for path in (parent, runs):
            path.chmod(0o755)
        for place in places(given.uid, parent):
            for words in place.commands:
                shown = " ".join(words).replace(PYTHON, "python")
                if given.k not in f"{place.name}: {shown}":
                    continue
                with Trial(place, words, parent, runs) as trial:
                    try:
                        said, wrong = trial.run()
                    except (OSError, subprocess.SubprocessError) as error:
                        said, wrong = "", [str(error)]
                said = said.replace(name, "...").replace(str(runs), "...")
                count += 1
                bad += bool(wrong)
                print(
                    f"{'WRONG' if wrong else 'ok':>6}  {place.name}: {shown[:60]}: {said[:150]}", flush=True
                )
                for each in wrong:
                    print(f"        {each}", flush=True)
    print(f"{count} commands, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
