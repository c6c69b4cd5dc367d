"""One run of the command with factors taken back, and the metric's value in it. Executes the command."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inspector.analysis.diff.buffers import peak_bytes
from inspector.capture.baseline import variant_environment
from inspector.capture.bootstrap.sitecustomize import OVERRIDE
from inspector.capture.child import run_apart
from inspector.capture.command import resolve
from inspector.capture.environment import CACHES, CaptureOptions, cache_folders
from inspector.capture.launch import capture
from inspector.capture.progress import Screen
from inspector.explain.times import steady_call_ms
from inspector.frozen import dataclass
from inspector.model.blame import Factor, MetricName
from inspector.model.calls import Variant
from inspector.model.problem import InspectorError
from inspector.readers.failures import program_failure
from inspector.readers.run import Run
from inspector.readers.text import from_json
from inspector.readers.variants import read_records
from inspector.text import clean

from ..run import options_of
from .factors import merged
from .packages import overlay

CAPTURED: frozenset[MetricName] = frozenset({"kernels", "memory"})
"""Metrics that are read from what a capture leaves; the others are of runs without debug output."""
_LEAST_SCALE = 1e-30
# torch._inductor.exc.InductorError: LoweringException: ...
_EXCEPTION = re.compile(r"^((?:\w+\.)*[A-Z]\w+)(?::|$)", re.M)


@dataclass(frozen=True, slots=True)
class Subject:
    """A side: the run whose command it is, and the interpreter where that is not the command's own."""

    run: Run
    python: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """`value` is None where the run says nothing, for the reason in `problem`. `passes` and `lowerings` are
    what the run could do without."""

    value: float | None
    problem: str
    folder: str
    passes: tuple[str, ...] = ()
    lowerings: tuple[str, ...] = ()


def options_with(
    subject: Subject, other: Subject | None, factors: Sequence[Factor], folder: Path
) -> CaptureOptions:
    """What repeats the subject's command with the factors; `other` is the side that these come from."""
    options = options_of(subject.run, folder, "run", merged(factors))
    command = options.command
    if other is not None and any(factor.command for factor in factors):
        assert other.run.manifest is not None
        command = other.run.manifest.command
    if subject.python is not None:
        command = with_python(command, subject.python)
    names = tuple(name for factor in factors for name in factor.packages)
    env = options.env
    if names and other is not None and other.python is not None:
        env = (*env, ("PYTHONPATH", overlay(other.python, names, folder.parent)))
    return replace(options, command=command, env=env)


def with_kernels(options: CaptureOptions, kernels: Path, known: Sequence[Path] = ()) -> CaptureOptions:
    """With caches that several runs share, of which only compiled kernels are kept: what a run does otherwise
    is done anew, and most of its kernels are those of another one. The caches begin with those of the
    captures `known`, where these have their own."""
    caches = cache_folders(kernels)
    if not kernels.exists():
        # Half a kernel is worse than none, so the copy has its name once it is whole.
        copies = kernels.with_name(f"{kernels.name}.new")
        shutil.rmtree(copies, ignore_errors=True)
        copies.mkdir(parents=True)
        for capture in known:
            if (capture / CACHES).is_dir():
                shutil.copytree(capture / CACHES, copies, symlinks=True, dirs_exist_ok=True)
        copies.rename(kernels)
    inductor = Path(caches["TORCHINDUCTOR_CACHE_DIR"])
    for folder in inductor.iterdir() if inductor.is_dir() else ():
        # Code lies in folders of two letters (torch/_inductor/codecache.py: get_path), graphs in named ones.
        if len(folder.name) > 2 and folder.name != "precompiled_headers":
            shutil.rmtree(folder, ignore_errors=True)
    # What autotuning chose is part of what a run does.
    for chosen in inductor.glob("*/*.best_config"):
        chosen.unlink(missing_ok=True)
    return replace(options, env=(*options.env, *caches.items()))


def with_python(command: Sequence[str], python: str) -> tuple[str, ...]:
    """The command with another interpreter. Raises InspectorError where it does not begin with one."""
    first = Path(command[0]).name if command else ""
    if first.endswith(".py") or first == "-m":
        return (python, *command)
    if not first.startswith(("python", "pypy")):
        raise InspectorError(
            f"--python: the command begins with {command[0]}, not with an interpreter: capture it as "
            "python -m MODULE or python SCRIPT"
        )
    return (python, *command[1:])


def measure(metric: MetricName, options: CaptureOptions, reference: Path | None) -> Measured:
    """Run it. `reference` is where its eager run's results are, for the metric `error`."""
    assert options.out is not None
    if metric in CAPTURED:
        return _captured(metric, options)
    folder = options.out
    result = run_plain(options, "compiled", results=metric == "error")
    if metric == "exit":
        return _told(Measured(float(result), _raised(folder) if result else "", str(folder)), folder)
    if result:
        return _told(Measured(None, _last_words(folder, result), str(folder)), folder)
    value, problem = _value(metric, folder, reference)
    return _told(Measured(value, problem, str(folder)), folder)


def run_plain(options: CaptureOptions, variant: Variant, results: bool = False) -> int:
    """Without debug output, into the options' folder; its exit code. Raises InspectorError where it was
    interrupted."""
    assert options.out is not None
    folder = options.out
    folder.mkdir(parents=True, exist_ok=True)
    environment = variant_environment(os.environ, folder, folder / "cache", variant, options, results=results)
    command = resolve(options.command, environment.get("PATH"))
    result = run_apart(command.argv, environment, folder, Screen(sys.stderr, live=False), "", live=False)
    if result.interrupted:
        raise InspectorError("interrupted: the same command goes on where this ended", exit_code=130)
    return result.exit_code


def _captured(metric: MetricName, options: CaptureOptions) -> Measured:
    outcome = capture(options)
    if outcome.interrupted:
        raise InspectorError("interrupted: the same command goes on where this ended", exit_code=130)
    run = Run.open(outcome.run)
    folder = str(outcome.run)
    if outcome.exit_code:
        died = program_failure(run)
        said = died.error if died is not None else f"exit code {outcome.exit_code}"
        return _told(Measured(None, said, folder), outcome.run)
    codes = [artifacts for graph in run.graphs if (artifacts := graph.artifacts()).code is not None]
    if not codes:
        return _told(Measured(None, "nothing was compiled", folder), outcome.run)
    if metric == "kernels":
        value: float | None = sum(len(item.code.calls) for item in codes if item.code is not None)
    else:
        peaks = [peak_bytes(item) for item in codes]
        value = max((peak for peak in peaks if peak is not None), default=None)
    return _told(Measured(value, "" if value is not None else "sizes are not known", folder), outcome.run)


def _value(metric: MetricName, folder: Path, reference: Path | None) -> tuple[float | None, str]:
    if metric == "error":
        assert reference is not None
        return _error(lines_of(folder, "result"), lines_of(reference, "result"))
    records = [record.calls for record in read_records(folder, str) if record.calls is not None]
    if metric == "time":
        ms = steady_call_ms(records)
        return ms, "" if ms is not None else "no steady call of anything compiled"
    called = [item for calls in records for item in calls.callables if item.calls]
    seconds = sum(item.setup_ms + sum(item.cold_ms) for item in called) / 1e3
    return (seconds, "") if called else (None, "nothing compiled was called")


def _error(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> tuple[float | None, str]:
    """The largest difference of an output to that in eager, as a part of the largest number there."""
    if not ours or not theirs or len(ours) != len(theirs):
        return None, "no results of compiled callables to compare"
    worst = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if one["given"] != other["given"]:
            return None, "two runs of the command begin with other numbers: seed it (torch.manual_seed)"
        if [len(x) for x in one["made"]] != [len(x) for x in other["made"]]:
            return None, f"{one['name']} gives other tensors than in eager"
        for mine, yours in zip(one["made"], other["made"], strict=True):
            worst = max(worst, _difference(mine, yours))
    return worst, ""


def _difference(ours: Sequence[float | None], theirs: Sequence[float | None]) -> float:
    """None is what is no finite number."""
    scale = max((abs(x) for x in theirs if x is not None), default=0.0)
    worst = 0.0
    for x, y in zip(ours, theirs, strict=True):
        if x is not None and y is not None:
            worst = max(worst, abs(x - y) / max(scale, _LEAST_SCALE))
        elif x is not y:
            return math.inf
    return worst


def lines_of(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The record's lines of one kind, of the first process of the first rank."""
    items = []
    for path in (folder / "record").glob("rank0.jsonl"):
        for line in path.read_text("utf-8", "replace").splitlines():
            if f'"kind":"{kind}"' in line:
                items.append(from_json(line))
    return items


def _told(measured: Measured, folder: Path) -> Measured:
    """With what the run could do without."""
    names = {
        kind: [str(item.get("name")) for item in lines_of(folder, kind)] for kind in ("pass", "lowering")
    }
    return replace(
        measured,
        passes=tuple(dict.fromkeys(names["pass"])),
        lowerings=tuple(dict.fromkeys(names["lowering"])),
    )


def _raised(folder: Path) -> str:
    """The exception that ended a program, by its class; empty for none, as a test's own verdict may be."""
    try:
        text = (folder / "stderr.txt").read_text("utf-8", "replace")
    except OSError:
        return ""
    _, _, last = text.rpartition("Traceback (most recent call last):")
    raised = _EXCEPTION.findall(last) if last != text else []
    return raised[-1] if raised else ""


def _last_words(folder: Path, code: int) -> str:
    try:
        said = (folder / "stderr.txt").read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        said = []
    return clean(f"exit code {code}{': ' + said[-1].strip() if said else ''}")


def reproduction(options: CaptureOptions, cwd: Path, out: str) -> str:
    """The command line that makes one side again, as a capture."""
    words = ["inspector", "capture", "-o", out]
    words += ["--mode", options.mode] if options.mode else []
    for key, value in options.config:
        words += ["--config", f"{key}={value}"]
    for name, value in dict(options.env).items():
        words += ["--env", f"{name}={value}"]
    return clean(f"cd {shlex.quote(str(cwd))} && {shlex.join([*words, '--', *options.command])}")


def without_listing(env: Sequence[tuple[str, str]], wins: bool) -> tuple[tuple[str, str], ...]:
    """Variables without what only asks for a list; `wins`: what is set is to win over the program's own."""
    kept = []
    for name, value in env:
        if name == OVERRIDE:
            data = {key: item for key, item in json.loads(value).items() if item}
            without = {key: item for key, item in data.pop("without", {}).items() if item}
            data |= {"without": without} if without else {}
            if not (data or wins):
                continue
            value = json.dumps(data)
        kept.append((name, value))
    return tuple(kept)
