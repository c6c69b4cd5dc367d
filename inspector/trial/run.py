"""Advice that is a setting, tried: the run's command captured again with it, and what that changed.

This executes the user's own command, as `inspector capture` does, and the generated code of the new runs to
check its results. The command is captured once more as it is too, so that both sides see the same machine.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from inspector.capture.bootstrap.sitecustomize import OVERRIDE, VARIABLE
from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import capture
from inspector.explain.gather import gather
from inspector.model.explain import Trial
from inspector.model.problem import InspectorError
from inspector.model.replay import ReplayResult
from inspector.model.trial import FOLDER, Outcome, TrialReport
from inspector.readers.failures import program_failure
from inspector.readers.run import Run
from inspector.replay.environment import DECIDING
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import replay_graphs
from inspector.replay.trust import foreign
from inspector.text import clean

from .settings import Prediction, Setting
from .turns import INTERRUPTED, stdout_on_stderr, time_in_turns

AS_IT_IS = "as it is"
CHECK_ROUNDS = 3
"""Of replay: its times are not used, only its verdicts."""
_CAPTURES_OWN = frozenset(
    {
        "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DEBUG_DIR", "TORCH_TRACE", "TORCH_DTRACE", "TORCH_LOGS",
        "TORCH_LOGS_OUT", "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
        "PYTHONPATH", VARIABLE, OVERRIDE,
    }
)  # fmt: skip
"""Variables that a capture sets for its own files."""


def why_not(run: Run) -> str | None:
    """Why the run's command cannot be repeated, and what to do; None where it can."""
    manifest = run.manifest
    if manifest is None or not manifest.command:
        return "no command to repeat: only what inspector capture wrote can be tried"
    if (why := foreign(run, repeats=True)) is not None:
        return f"not known to be your capture ({why}): capture it here, then try"
    if not (run.root.is_dir() and os.access(run.root, os.W_OK)):
        return "cannot be written to: copy or unpack it first"
    return None


def refuse_foreign(run: Run) -> None:
    """Raises InspectorError where `why_not` has a reason."""
    if (why := why_not(run)) is not None:
        raise InspectorError(f"{run.shown}: {why}")


def command_line(run: Run) -> str:
    """What repeating the run executes, in one line as a shell would take it: folder, variables, command."""
    options = options_of(run, Path(), "", None)
    words = [*(f"{name}={value}" for name, value in options.env), *options.command]
    return clean(f"cd {shlex.quote(str(folder_of(run)))} && {shlex.join(words)}")


def try_settings(
    run: Run,
    settings: Sequence[Setting],
    rule: str = "",
    progress: Callable[[str], None] = lambda _: None,
) -> TrialReport:
    """Capture the command of `run` as it is, then with each setting, into RUN/trials.

    Raises InspectorError where the run has no command, or is not known to be the user's own.
    """
    with into_trials(run) as folder:
        base, *tried = _run_all(run, folder, settings, progress)
    progress("")
    predicted = [
        _predicted(outcome, setting.prediction, base)
        for outcome, setting in zip(tried, settings, strict=True)
    ]
    return TrialReport(base, tuple(predicted), rule)


@contextmanager
def into_trials(run: Run) -> Iterator[Path]:
    """A new folder in RUN/trials while the command is repeated there, as `repeating` has it."""
    parent = run.root.absolute() / FOLDER
    folder = next(path for number in count(1) if not (path := parent / str(number)).exists())
    with repeating(run, folder):
        yield folder


@contextmanager
def repeating(run: Run, folder: Path) -> Iterator[None]:
    """While the command is repeated into `folder`, in its own working folder; compile caches are not kept.
    Raises InspectorError where the run has no command, or is not known to be the user's own."""
    refuse_foreign(run)
    try:
        with _own_folder(run), stdout_on_stderr():
            yield
    finally:
        for cache in folder.rglob("cache"):
            shutil.rmtree(cache, ignore_errors=True)


def _predicted(outcome: Outcome, said: Prediction | None, base: Outcome) -> Outcome:
    """The outcome with what was said of it, brought to the command as it is now."""
    if said is None:
        return outcome
    now = base.whole_ms if said.compiling else base.ms
    return replace(outcome, predicted_ms=said.at(now), compiling=said.compiling)


def _run_all(
    run: Run, folder: Path, settings: Sequence[Setting], progress: Callable[[str], None]
) -> list[Outcome]:
    """The command as it is and with each setting: captured and checked, then timed in turns."""
    wanted = [(AS_IT_IS, None), *((setting.label, setting.trial) for setting in settings)]
    outcomes: list[Outcome] = []
    worked: list[CaptureOptions] = []
    for label, trial in wanted:
        progress(label)
        options, outcome = capture_with(run, folder, label, trial)
        outcomes.append(outcome if outcome.failure else checked(outcome, progress))
        if not outcome.failure:
            worked.append(options)
        elif trial is None:
            raise InspectorError(f"the command as it is: {outcome.failure}", exit_code=1)
    times = dict(zip((str(options.out) for options in worked), time_in_turns(worked, progress), strict=True))
    return [replace(outcome, ms=times.get(outcome.run) or outcome.ms) for outcome in outcomes]


def options_of(run: Run, folder: Path, label: str, trial: Trial | None) -> CaptureOptions:
    """The run's own command and options with the trial's, into a folder named by `label`."""
    manifest = run.manifest
    assert manifest is not None
    name = "".join(letter if letter.isalnum() else "-" for letter in label).strip("-").lower()[:60]
    kept = tuple((key, value) for key, value in manifest.environment.items() if key not in _CAPTURES_OWN)
    config = manifest.options.get("config")
    given = (
        tuple((_option(key), _text(value)) for key, value in config.items())
        if isinstance(config, dict)
        else ()
    )
    mode = manifest.options.get("mode")
    return CaptureOptions(
        command=manifest.command,
        out=folder / name,
        mode=mode if isinstance(mode, str) else None,
        config=(*given, *((key, _text(value)) for key, value in (trial.config if trial else ()))),
        env=(*_as_it_was(run), *kept, *_environment(trial)),
        quiet=True,
    )


def _as_it_was(run: Run) -> Iterator[tuple[str, str]]:
    """Variables of the shell that the run was captured in and that decide how torch compiles and which
    kernels run."""
    for record in run.records[:1]:
        state = record.calls.state if record.calls is not None else None
        for name, value in (state.environment if state is not None else {}).items():
            if name in DECIDING or (name.startswith("TORCH") and name not in _CAPTURES_OWN):
                yield name, value


def capture_with(run: Run, folder: Path, label: str, trial: Trial | None) -> tuple[CaptureOptions, Outcome]:
    """The command captured with the setting, its results not checked yet."""
    options = options_of(run, folder, label, trial)
    outcome = capture(options)
    out = outcome.run
    if outcome.interrupted:
        raise InspectorError(INTERRUPTED, exit_code=130)
    if outcome.exit_code:
        died = program_failure(Run.open(out))
        said = died.error if died is not None else f"exit code {outcome.exit_code}"
        failure = f"{said}, see {out / 'logs'}"
        return options, Outcome(label, trial, None, None, 0, 0, (), str(out), failure=failure)
    case = gather(Run.open(out))
    return options, Outcome(
        label=label,
        trial=trial,
        ms=case.times.compiled_ms,
        cold_s=case.compile_s,
        launches=sum(len(graph.launches) * graph.runs for graph in case.graphs),
        bytes=sum((launch.bytes or 0) * graph.runs for graph, launch in case.launches()),
        checks=(),
        run=str(out),
        calls=case.times.calls,
    )


def checked(outcome: Outcome, progress: Callable[[str], None]) -> Outcome:
    """The outcome with the verdicts of replaying its graphs."""
    run = Run.open(outcome.run)
    graphs = [graph for graph in run.graphs if graph.folder and graph.files]
    if (why := foreign(run, graphs)) is not None:
        return replace(outcome, unchecked=why)
    files = [graph_files(graph) for graph in graphs]
    progress(f"{outcome.label}: checking its results")
    replayed = replay_graphs(files, ReplayOptions(rounds=CHECK_ROUNDS, max_time_s=5.0, kernels=False))
    failure = next((graph.failure for graph in replayed.graphs if graph.failure), "")
    return replace(outcome, checks=_checks(replayed), unchecked=failure)


def _checks(result: ReplayResult) -> tuple[tuple[str, int], ...]:
    counts = Counter[str](check.verdict for graph in result.graphs for check in graph.outputs)
    counts.update("failed" for graph in result.graphs if graph.failure)
    return tuple(counts.most_common())


def _environment(trial: Trial | None) -> tuple[tuple[str, str], ...]:
    """The trial's variables, and what makes its settings win over the program's own."""
    if trial is None:
        return ()
    plain = ("mode", "dynamic", "whole", "kept", "in_place", "loop_vectors")
    override = {name: getattr(trial, name) for name in plain}
    without = {name: getattr(trial, name) for name in ("passes", "lowerings", "apart")}
    override |= {"state": dict(trial.state)} if trial.state else {}
    override |= {"without": without} if any(without.values()) or trial.listed else {}
    return (*trial.environment, (OVERRIDE, json.dumps(override)))


def _option(key: str) -> str:
    """`cpp.simdlen` of the manifest's `torch._inductor.config.cpp.simdlen`, as --config takes it."""
    for module, prefix in (
        ("torch._inductor.config.", ""),
        ("torch._dynamo.config.", "dynamo."),
        ("torch._functorch.config.", "functorch."),
    ):
        if key.startswith(module):
            return prefix + key[len(module) :]
    return key


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def folder_of(run: Run) -> Path:
    """The working folder of the run's command."""
    return run.root / str((run.manifest and run.manifest.options.get("cwd")) or ".")


@contextmanager
def _own_folder(run: Run) -> Iterator[None]:
    """The command's own working folder, for as long as it runs."""
    folder = folder_of(run)
    before = Path.cwd()
    try:
        os.chdir(folder)
    except OSError as error:
        raise InspectorError(f"the command's folder {folder}: {error.strerror or error}") from error
    try:
        yield
    finally:
        os.chdir(before)
