"""Runs the probe with the chosen interpreter and gathers what it says, section by section."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from inspector import confinement
from inspector.doctor import probe
from inspector.doctor.checks import diagnose, settled
from inspector.doctor.variables import concerns_compilation
from inspector.model.doctor import Diagnosis, Facts, Finding
from inspector.model.problem import InspectorError
from inspector.process import Child, Ending, Limits, output_of, python_child

Progress = Callable[[str], None]

LIMITS: Mapping[str, float] = {
    "python": 30.0,
    "packages": 30.0,
    "nvidia_smi": 45.0,
    "torch": 180.0,
    "gpu": 90.0,
    "triton": 60.0,
    "names": 60.0,
    "caches": 60.0,
    "compiler": 240.0,
    "vectors": 180.0,
    "compile_cpu": 240.0,
    "compile_gpu": 240.0,
}
"""Seconds a section may take. Generous: the first import of torch from a network disk takes a minute."""

_DOING = {
    "torch": "importing torch",
    "gpu": "looking at the GPU",
    "compiler": "trying the C++ compiler",
    "vectors": "trying vector instructions",
    "compile_cpu": "compiling a small function for the CPU",
    "compile_gpu": "compiling a small function for the GPU",
}
_OUTPUTS = ("TORCH_TRACE", "TORCH_DTRACE", "TORCH_LOGS_OUT", "TORCH_INDUCTOR_INSTALL_GXX")
"""Left out for the probe: it writes nothing outside its own folder, and downloads no compiler."""

OUT = "facts.jsonl"
"""In the probe's folder: its events, one a line, read as they come."""


def examine(
    python: str | None = None,
    environment: Mapping[str, str] | None = None,
    on_progress: Progress | None = None,
    limits: Mapping[str, float] = LIMITS,
    should_stop: Callable[[], bool] | None = None,
    on_findings: Callable[[Sequence[Finding]], None] = lambda _findings: None,
) -> Diagnosis:
    """Probe the machine and judge it. `python` is an interpreter's name or path; None: the running one.
    `on_findings` hears what is known so far whenever that grows.

    `environment` is the one to judge and to probe in, by default this process's. A hanging or crashing
    section is a fact, not an error; raises InspectorError where `python` is no working interpreter, and
    where `should_stop` says, asked many times a second, that nobody waits for the answer any more.
    KeyboardInterrupt ends the probe and goes on to the caller.
    """
    environment = os.environ if environment is None else environment

    def on_facts(facts: Mapping[str, Mapping[str, Any]]) -> None:
        on_findings(settled(Facts(dict(facts))))

    sections = gather(interpreter(python), environment, on_progress, limits, should_stop, on_facts)
    return diagnose(Facts(sections))


def interpreter(python: str | None) -> str:
    """An absolute path, links kept: a virtual environment's `python` is one. Raises InspectorError."""
    if python is None:
        return sys.executable
    path = shutil.which(os.path.expanduser(python))
    if path is None:
        raise InspectorError(
            f"--python {python}: no such program: give an interpreter, for example venv/bin/python"
        )
    return os.path.abspath(path)


def gather(
    python: str,
    environment: Mapping[str, str],
    on_progress: Progress | None = None,
    limits: Mapping[str, float] = LIMITS,
    should_stop: Callable[[], bool] | None = None,
    on_facts: Callable[[Mapping[str, Mapping[str, Any]]], None] = lambda _facts: None,
) -> dict[str, dict[str, Any]]:
    """The facts of all sections that could be looked at; see Facts. Raises InspectorError as `examine`."""
    told = {name: value for name, value in sorted(environment.items()) if concerns_compilation(name)}
    facts: dict[str, dict[str, Any]] = {"environment": dict(told)}
    waiting = list(probe.SECTIONS)
    with tempfile.TemporaryDirectory(prefix="inspector-doctor-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        while waiting:
            request = {
                "out": str(scratch / OUT),
                "sections": waiting,
                "scratch": str(scratch),
                "cache_dir": environment.get("TORCHINDUCTOR_CACHE_DIR"),
                "names": [
                    name for name in told if re.match("TORCHINDUCTOR_|TORCHDYNAMO_|TORCH_COMPILE_", name)
                ],
            }
            own = _child_environment(environment, scratch)
            child = _Probe(python, request, scratch)
            stopped = child.run(facts, own, on_progress, {**LIMITS, **limits}, should_stop, on_facts)
            if stopped is None or stopped == "torch":
                break
            if stopped == "python":
                reason = facts["python"]["failure"]
                raise InspectorError(f"{python}: does not run as Python: {reason}: give another --python")
            waiting = waiting[waiting.index(stopped) + 1 :]
            if not facts.get("gpu", {}).get("available"):
                waiting = [name for name in waiting if name != "compile_gpu"]
    answer = output_of([python, str(confinement.__file__)], LIMITS["python"])
    if answer is not None:
        facts["confinement"] = json.loads(answer)
    return facts


def _child_environment(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """The user's environment, with caches of the probe's own and every compiled graph's files written."""
    kept = {name: value for name, value in environment.items() if name not in _OUTPUTS}
    return {
        **kept,
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(scratch),
    }


class _Probe:
    """One run of the probe; `run` takes what it says into `facts`."""

    def __init__(self, python: str, request: Mapping[str, object], scratch: Path) -> None:
        path = scratch / "request.json"
        path.write_text(json.dumps(request), encoding="utf-8")
        self._command = python_child(python, probe.__name__, str(path))
        self._scratch = scratch
        self._out = scratch / OUT
        self._out.write_text("", encoding="utf-8")
        self._read = 0
        self._section = "python"
        self._ended = False

    def run(
        self,
        facts: dict[str, dict[str, Any]],
        environment: Mapping[str, str],
        on_progress: Progress | None,
        limits: Mapping[str, float],
        should_stop: Callable[[], bool] | None,
        on_facts: Callable[[Mapping[str, Mapping[str, Any]]], None],
    ) -> str | None:
        """None where the child came to its end, else the section in which it crashed or was stopped."""
        try:
            child = Child(self._command, env=environment, cwd=self._scratch, stdin="held")
        except OSError as error:
            raise InspectorError(f"{self._command[0]}: cannot be run: {error.strerror or error}") from error
        limit = Limits()
        limit.mark(limits[self._section])

        def take() -> None:
            known = len(facts)
            begun = self._take(facts)
            if len(facts) > known:
                on_facts(facts)
            if begun:
                limit.mark(limits[self._section])
                if on_progress is not None and self._section in _DOING:
                    on_progress(_DOING[self._section])
            if self._ended and child.running:
                child.end()

        ending = child.follow(limit, should_stop, every=take)
        if self._ended:
            return None
        if ending.stopped:
            raise InspectorError("stopped before the machine was examined")
        late = f"no answer within {limits[self._section]:g} s" if ending.timed_out else None
        facts.setdefault(self._section, {})["failure"] = late or _crash(ending)
        return self._section

    def _take(self, facts: dict[str, dict[str, Any]]) -> bool:
        """Read complete lines; True where a section began."""
        with self._out.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._read += len(complete)
        begun = False
        for line in complete.splitlines():
            event = json.loads(line)
            if "begin" in event:
                self._section, begun = event["begin"], True
            elif "section" in event:
                facts[event["section"]] = event["facts"]
            else:
                self._ended = True
        return begun


def _crash(ending: Ending) -> str:
    """Why a child ended before it said so: its signal, or the last line that it printed."""
    if ending.signal is not None:
        return f"crashed with {ending.signal}"
    said = ending.last_line[:200]
    return f"ended with exit code {ending.code}" + (f": {said}" if said else "")
