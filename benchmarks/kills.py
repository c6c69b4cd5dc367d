"""Captures ended at random moments, and with no room for their run: what is left opens and says how it ended.

    python benchmarks/kills.py [--rounds 30] [--torch 4] [--seed 1] [--within S] [--only PARTS]

SIGKILL, SIGTERM, SIGHUP and SIGINT, each `--rounds` times at a random moment, sent to the capture alone or to
all of its group, as a terminal does; it runs on a pseudo-terminal with its progress line, in a folder whose
name makes it take a temporary one. Its program writes what torch writes, with a child and a grandchild;
`--torch` of the rounds compile for real. Looked at: that the run opens and says how it ended, that no process
and after the next capture no temporary folder is left, and the terminal. Then captures into a small disk (a
tmpfs, where one can be mounted), with limited file sizes, and without a home. Prints a table; 1 where
anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import uuid
from contextlib import suppress
from pathlib import Path

from common import CLI, PYTHON, ROOT

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
WRITER = """
import os, subprocess, sys, time
if len(sys.argv) > 1:
    if sys.argv[1] == 'child': subprocess.Popen([sys.executable, __file__, 'grandchild'])
    time.sleep(1.2)
    sys.exit()
subprocess.Popen([sys.executable, __file__, 'child'])
graphs = os.environ['TORCH_COMPILE_DEBUG_DIR'] + '/torch_compile_debug/run_1-pid_1/torchinductor'
for n in range(60):
    folder = os.path.join(graphs, f'model__{n}_inference_{n}.{n}')
    try:
        os.makedirs(folder)
        for name in ('output_code.py', 'fx_graph_readable.py', 'ir_post_fusion.txt'):
            with open(os.path.join(folder, name), 'w') as file: file.write('x = 1\\n' * 4000)
        with open(os.environ['TORCH_LOGS_OUT'], 'a') as file: file.write('V1121 a line\\n' * 50)
    except OSError: pass
    print('out', n, flush=True); print('err', n, file=sys.stderr, flush=True)
    time.sleep(0.02)
"""
COMPILER = """
import torch
@torch.compile
def f(x): return torch.softmax(x * 2, -1)
x = torch.ones(8, 8, requires_grad=True)
f(x).sum().backward()
print('done')
"""
PATIENCE_S = 60.0
THEIRS = re.compile(r"torchinductor_.+|cc\w{6}\.\w+")
"""What the program leaves without us, too: torch's cache of precompiled headers, which it keeps for other
runs, and the file of a compiler that was killed."""


class Round:
    """One capture of a program in a new folder."""

    def __init__(self, parent: Path, code: str) -> None:
        self.folder = parent / "a b"
        self.temporary = parent / "tmp"
        self.run = self.folder / "run"
        self.folder.mkdir(parents=True)
        self.temporary.mkdir(exist_ok=True)
        (self.folder / "prog.py").write_text(code)
        self.mark = f"KILLED={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            "XDG_STATE_HOME": str(parent / "state"),
            name: value,
        }
        self.words = [*CLI, "capture", "-o", str(self.run), "--", PYTHON, "prog.py"]

    def left(self) -> list[str]:
        """Processes that carry the round's mark."""
        names = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if self.mark.encode() in (path / "environ").read_bytes().split(b"\0"):
                    names.append(
                        (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    )
        return names

    def opened(self) -> tuple[str, str]:
        """What `summary` says of the run, and what is wrong with that."""
        if not (self.run / "inspector.json").exists():
            shutil.rmtree(self.run, ignore_errors=True)
            return "no run yet", ""
        done = subprocess.run(
            [*CLI, "summary", str(self.run)], capture_output=True, text=True, env=self.environment
        )
        if done.returncode != 0 or done.stderr:
            return "", f"summary: {done.returncode}, {done.stderr[-300:]}"
        status = json.loads((self.run / "inspector.json").read_text())["status"]
        ended = re.search("the command (did not end|failed)[^\n]*", done.stdout)
        if status != "done" and ended is None:
            return "", f"status {status}, and summary does not say so"
        return (ended[0] if ended else "it ended"), ""


def killed(
    parent: Path, code: str, number: signal.Signals, chance: random.Random, longest: float
) -> tuple[str, str]:
    """(how it ended, what was wrong) of one round."""
    one = Round(parent, code)
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    shown = parent / "shown"
    with shown.open("wb") as sink:
        process = subprocess.Popen(
            one.words,
            cwd=one.folder,
            env=one.environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            # A shell's background job ignores it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        reader = subprocess.Popen(["cat"], stdin=master, stdout=sink, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0, longest))
        with suppress(ProcessLookupError):
            if chance.random() < 0.5 and number != signal.SIGKILL:
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)
        wrong = []
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            wrong.append("it did not end")
            process.kill()
        deadline = time.monotonic() + PATIENCE_S
        while (left := one.left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            wrong.append(f"still running: {left}")
            for path in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    if one.mark.encode() in (path / "environ").read_bytes():
                        os.kill(int(path.name), signal.SIGKILL)
        if termios.tcgetattr(slave) != before:
            wrong.append("the terminal's settings were changed")
        os.close(slave)
        reader.terminate()
        reader.wait()
        os.close(master)
    if b"Traceback" in shown.read_bytes() and number != signal.SIGINT:
        wrong.append(f"a traceback: {shown.read_bytes()[-400:]!r}")
    said, bad = one.opened()
    shutil.rmtree(one.folder)
    kept = [name for name in os.listdir(one.temporary) if not THEIRS.fullmatch(name)]
    if number != signal.SIGKILL and kept:
        wrong.append(f"left behind: {kept}")
    return said, "; ".join([*wrong, *([bad] if bad else [])])


def whole(
    parent: Path, code: str, shell: str = "", out: Path | None = None, **environment: str
) -> tuple[Round, subprocess.CompletedProcess[str]]:
    one = Round(parent, code)
    one.run = out if out is not None else one.run
    words = [*CLI, "capture", "-o", str(one.run), "--", PYTHON, "prog.py"]
    words = ["bash", "-c", shell, "bash", *words] if shell else words
    env = {**one.environment, **environment}
    return one, subprocess.run(words, cwd=one.folder, env=env, capture_output=True, text=True, timeout=180)


def no_room(parent: Path, code: str, plain: str) -> list[tuple[str, str, str]]:
    """(what there was, what it said, what was wrong) of captures without room."""
    rows = []
    disk = parent / "disk"
    disk.mkdir()
    sizes = [32, 128, 512, 1024, 3000, 6000]
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32k", "none", str(disk)], capture_output=True
    )
    if mounted.returncode:
        print("no tmpfs can be mounted here: RLIMIT_FSIZE alone")
        sizes = []
    kinds: list[tuple[str, str, Path | None, dict[str, str], int]]
    kinds = [(f"a disk of {size} KiB", "", disk / "run", {}, size) for size in sizes]
    kinds += [(f"files of at most {n} KiB", f'ulimit -f {n}; "$@"', None, {}, 0) for n in (0, 1, 8, 64)]
    kinds += [
        ("a home that can't be written", "", None, {"HOME": "/proc", "XDG_STATE_HOME": "/proc/x"}, 0),
        ("no temporary folder", "", None, {"TMPDIR": "/nowhere"}, 0),
        ("a run that can't be made", "", Path("/proc/run"), {}, 0),
    ]
    for name, shell, out, environment, size in kinds:
        if size:
            subprocess.run(["mount", "-o", f"remount,size={size}k", str(disk)], check=True)
        one, done = whole(parent, code, shell, out, **environment)
        wrong = []
        if "Traceback" in done.stderr:
            wrong.append(done.stderr[-500:])
        made = done.returncode == 0
        if made and done.stdout != plain:
            wrong.append(f"its output was changed: {done.stdout[-100:]!r}")
        if not made and done.returncode != 2:
            wrong.append(f"exit code {done.returncode}")
        said = [line for line in done.stderr.splitlines() if line.startswith("inspector: ")]
        if made and one.run.exists():
            _, bad = one.opened()
            wrong += [bad] if bad else []
        rows.append((name, " | ".join(said[1:-1] if made else said)[:160], "; ".join(wrong)))
        for path in (one.folder, *disk.iterdir()):
            shutil.rmtree(path, ignore_errors=True)
    if sizes:
        subprocess.run(["umount", str(disk)], check=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--torch", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="parts: SIGKILL,SIGTERM,SIGHUP,SIGINT,room")
    parser.add_argument("--within", type=float, help="seconds; by default what a whole capture takes")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    bad = 0
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        parent = Path(name)
        longest = {}
        for label, code in (("writer", WRITER), ("torch", COMPILER))[: 2 if options.torch else 1]:
            started = time.monotonic()
            one, done = whole(parent, code)
            longest[code] = time.monotonic() - started
            print(f"whole: {label}: {longest[code]:.1f} s, exit code {done.returncode}", flush=True)
            shutil.rmtree(one.folder)
        parts = options.only.split(",") if options.only else [*(each.name for each in SIGNALS), "room"]
        for number in (each for each in SIGNALS if each.name in parts):
            endings: dict[str, int] = {}
            for n in range(options.rounds):
                code = COMPILER if n < options.torch else WRITER
                said, wrong = killed(parent, code, number, chance, options.within or longest[code])
                endings[said] = endings.get(said, 0) + 1
                bad += bool(wrong)
                if wrong:
                    print(f"  {number.name} round {n}: {wrong}", flush=True)
            print(f"{number.name}: {options.rounds} rounds ({options.torch} with torch)", flush=True)
            for said, count in sorted(endings.items(), key=lambda item: -item[1]):
                print(f"  {count:3}  {said}", flush=True)
        one, _ = whole(parent, WRITER)
        shutil.rmtree(one.folder)
        left = [each for each in os.listdir(parent / "tmp") if each.startswith("inspector")]
        print(f"temporary folders after one more capture: {left or 'none'}")
        bad += bool(left)
        plain = "".join(f"out {n}\n" for n in range(60))
        rows = no_room(parent, WRITER, plain) if "room" in parts else ()
        for what, said, wrong in rows:
            print(f"{'WRONG' if wrong else 'ok':>6}  {what}: {said}{wrong and '  ' + wrong}", flush=True)
            bad += bool(wrong)
    print(f"{bad} wrong, seed {options.seed}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
