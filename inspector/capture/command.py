"""From the words after `--` to a command that can be run, and what its interpreter has installed."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.process import output_of

EXAMPLE = "inspector capture -- python train.py"
PROBE_SECONDS = 30.0
"""A cold network file system may need seconds to list site-packages."""

_PYTHON = re.compile(r"^(?:python|pypy)[0-9.]*[a-z]?$")
_OPTIONS_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}

_PROBE = """
import os, sys
path, home = [entry for entry in sys.path if entry], os.path.dirname(os.__file__)
# A json.py of the user's is not ours to run.
sys.path[:] = [home, os.path.join(home, "lib-dynload")]
import importlib.metadata, importlib.util, json, re
sys.path[:] = path
def version(*names):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except Exception:
            pass
spec = importlib.util.find_spec("torch")
torch = None
if spec is not None and spec.origin is not None:
    torch = version("torch")
    if torch is None:
        try:
            with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
                torch = re.search("__version__ = ['\\"](.+?)['\\"]", file.read()).group(1)
        except Exception:
            torch = "unknown"
triton = version("triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton-windows")
print(json.dumps([sys.executable, ".".join(map(str, sys.version_info[:3])), torch, triton]))
"""


@dataclass(frozen=True, slots=True)
class Command:
    """`argv` as it is run; `name` for a run folder; `python` the interpreter behind it, where it is known.

    `plain` is true where the first word is the interpreter itself, false for launchers such as torchrun.
    """

    argv: tuple[str, ...]
    name: str
    python: str | None
    plain: bool


@dataclass(frozen=True, slots=True)
class Interpreter:
    """What an interpreter says of itself. `torch` is None where it isn't installed."""

    executable: str
    version: str
    torch: str | None
    triton: str | None


def resolve(words: Sequence[str], search_path: str | None = None) -> Command:
    """The command to run for the user's words; `search_path` is the child's PATH.

    `train.py` and `-m module` run with the current interpreter. Raises InspectorError where there is
    nothing to run or the program is not found.
    """
    if not words or not words[0].strip():
        raise InspectorError(f"no command to capture: give it after --, for example: {EXAMPLE}")
    first, rest = words[0], tuple(words[1:])
    if first == "-m":
        if not rest:
            raise InspectorError(
                "-m needs the name of a module, for example: inspector capture -- -m package.train"
            )
        argv = (sys.executable, *words)
    elif first.startswith("-"):
        raise InspectorError(
            f"{first} is not a command: options go before --, the command after it: {EXAMPLE}"
        )
    elif first.endswith(".py"):
        if not Path(first).is_file():
            raise InspectorError(f"{first}: no such file in {Path.cwd()}: check the script's path")
        argv = (sys.executable, *words)
    else:
        program = shutil.which(first, path=search_path)
        if program is None:
            raise InspectorError(
                f"{first}: command not found: check the name, or give the program's full path"
            )
        argv = (program, *rest)
    plain = argv[0] == sys.executable or _PYTHON.match(Path(argv[0]).name) is not None
    python = argv[0] if plain else _shebang(Path(argv[0]))
    return Command(argv, _safe(_name(argv, plain)), python, plain)


def _name(argv: tuple[str, ...], plain: bool) -> str:
    """The script's stem or the module's name; the program's name where there is neither."""
    if plain:
        words = iter(argv[1:])
        for word in words:
            if word == "-m":
                return next(words, "module")
            if word == "-c":
                return "command"
            if word in _OPTIONS_WITH_VALUE:
                next(words, None)
            elif not word.startswith("-"):
                return Path(word).stem
        return Path(argv[0]).name
    for before, word in itertools.pairwise(argv):
        if before == "-m":
            return word
        if word.endswith(".py") and Path(word).is_file():
            return Path(word).stem
    return Path(argv[0]).name


def runs_site(words: Sequence[str]) -> bool:
    """Whether the command lets a sitecustomize in, as far as its words tell: `python -S` does not."""
    if not words or not _PYTHON.match(Path(words[0]).name):
        return True
    rest = iter(words[1:])
    for word in rest:
        if word in _OPTIONS_WITH_VALUE:
            next(rest, None)
        elif not word.startswith("-") or word.startswith("--") or word == "-":
            return True
        else:
            # What follows these letters is their value.
            flags = re.split("[WXcm]", word[1:])
            if "S" in flags[0]:
                return False
            if flags[1:] and word[1 + len(flags[0])] in "cm":
                return True
    return True


def _safe(name: str) -> str:
    """Usable as a folder's name everywhere; at most 60 characters."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._")[:60] or "run"


def _shebang(program: Path) -> str | None:
    """The interpreter of a console script; None for a binary or a script of another language.

    pip writes `#!/bin/sh` and then `'''exec' "/path/python" "$0" "$@"` where the path is long or has a space.
    """
    try:
        with program.open("rb") as file:
            head = file.read(1024).decode("utf-8", "replace").split("\n")
    except OSError:
        return None
    if not head[0].startswith("#!"):
        return None
    words = head[0][2:].split()
    if words[:1] == ["/bin/sh"] and len(head) > 1 and head[1].startswith("'''exec' "):
        match = re.match(r"'''exec' (?:\"([^\"]+)\"|(\S+))", head[1])
        words = [match[1] or match[2]] if match else []
    elif len(words) > 1 and Path(words[0]).name == "env":
        words = [shutil.which(words[1]) or ""]
    if words and _PYTHON.match(Path(words[0]).name):
        return words[0]
    return None


def probe(python: str, environment: Mapping[str, str]) -> Interpreter | None:
    """Versions of `python`, its torch and its Triton, nothing imported; None where it gives no answer."""
    answer = output_of([python, "-c", _PROBE], PROBE_SECONDS, environment)
    try:
        # The last line: a sitecustomize may print something before it.
        executable, version, torch, triton = json.loads((answer or b"").splitlines()[-1])
    except (ValueError, IndexError):
        return None
    return Interpreter(os.fspath(executable or python), str(version), torch, triton)


def check_torch(command: Command, interpreter: Interpreter | None) -> None:
    """Raise InspectorError where a plain Python command cannot import torch at all."""
    if command.plain and interpreter is not None and interpreter.torch is None:
        raise InspectorError(
            f"torch is not installed in {interpreter.executable} (Python {interpreter.version}): "
            "install it there, or name the interpreter that has it: "
            "inspector capture -- /path/to/python train.py"
        )
