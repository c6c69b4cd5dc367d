"""`inspector capture`: runs a command so that torch leaves everything it knows in one run folder."""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TextIO

from inspector.capture.baseline import run_baseline
from inspector.capture.child import ChildResult, gpu_loads, is_terminal, run_child
from inspector.capture.command import Command, check_torch, probe, resolve
from inspector.capture.diagnosis import diagnose
from inspector.capture.environment import CACHES, MODES, CaptureOptions, ChildEnvironment, build
from inspector.capture.follow import count_graphs
from inspector.capture.machine import machine_peaks
from inspector.capture.manifest import devices, shown_environment, shown_folder, write_manifest
from inspector.capture.progress import Display, Screen
from inspector.files import unused
from inspector.frozen import dataclass
from inspector.hardware.host import cpu_name
from inspector.hardware.page_faults import fault_us
from inspector.model.problem import InspectorError
from inspector.model.run import MANIFEST_NAME, Manifest
from inspector.seal import seal
from inspector.temporary import temporary_folder
from inspector.units import duration, plural
from inspector.version import __version__

DEFAULT_PARENT = Path("inspector_runs")


@dataclass(frozen=True, slots=True)
class CaptureOutcome:
    """How a capture ended. `exit_code` is the command's, 128+n where signal n ended it."""

    run: Path
    manifest: Manifest
    exit_code: int
    interrupted: bool
    graphs: int
    notes: tuple[str, ...]


def capture(
    options: CaptureOptions, *, stderr: TextIO | None = None, display: Display | None = None
) -> CaptureOutcome:
    """Run the command and keep what torch writes; progress and a closing note go to `stderr`.

    With a `display`, output, notes and requests to stop are its business; any thread may call this then.
    The command's failure is not an error here: see `exit_code`. Raises InspectorError for a command that
    cannot be run, a destination that cannot be used, or an option that makes no sense; nothing is left
    behind then.
    """
    stderr = sys.stderr if stderr is None else stderr
    _check(options)
    base = {**os.environ, **dict(options.env)}
    command = resolve(options.command, base.get("PATH"))
    interpreter = probe(command.python, base) if command.python is not None else None
    check_torch(command, interpreter)
    live = display is None and not options.quiet and is_terminal(stderr)
    screen = Screen(stderr, live=live) if display is None else display
    if screen.stop_requests:
        raise InspectorError("stopped before the command was run: nothing was captured")
    with _RunFolder(options.out, command.name) as folder:
        run = folder.path
        version = interpreter.torch if interpreter is not None else None
        environment = build(os.environ, options, run=run, caches=folder.caches, torch_version=version)
        manifest = Manifest(
            command=options.command,
            status="running",
            exit_code=None,
            started=time.time(),
            seconds=0.0,
            python=interpreter.version if interpreter is not None else "",
            torch_version=version,
            triton_version=interpreter.triton if interpreter is not None else None,
            devices=devices(environment.full, version),
            environment=shown_environment(environment.variables, run, folder.caches),
            options=_recorded(options, command, run),
            problems=environment.notes,
            host=platform.node(),
            platform=platform.platform(),
        )
        screen.started(run)
        if options.baseline:
            screen.say(f"inspector: {_ahead(options)}")
        result = _run(command, environment, folder, manifest, screen, stderr=stderr, live=live)
        manifest = dataclasses.replace(
            manifest,
            status=_status(result),
            exit_code=result.exit_code,
            seconds=round(result.seconds, 3),
            gpus=gpu_loads(result),
        )
        said = diagnose(run, manifest, environment.full, options)
        notes = (*said, *environment.notes, *([result.problem] if result.problem else []))
        manifest = dataclasses.replace(manifest, problems=notes)
        manifest = _rewrite(run, manifest)
        try:
            seal(run)
        except (OSError, ValueError) as error:
            note = f"not sealed, so to replay it will be asked about: {getattr(error, 'strerror', error)}"
            manifest = _rewrite(run, manifest, note)
        interrupted = result.interrupted
        if options.baseline and (result.exit_code or interrupted):
            note = "no baseline: the command did not end well, so it was not run again"
            if not interrupted and "pytest" in map(os.path.basename, command.argv):
                note += "; leave out the test that fails (pytest --deselect TEST), and capture again"
            manifest = _rewrite(run, manifest, note)
        elif options.baseline:
            baseline = run_baseline(command.argv, run, os.environ, screen, options, live=live)
            interrupted = baseline.interrupted
            manifest = _rewrite(
                run,
                dataclasses.replace(manifest, baseline=baseline.ran, page_fault_us=fault_us() or ()),
                *baseline.notes,
            )
            if options.peaks and not interrupted and interpreter is not None:
                peaks, notes = machine_peaks(run, manifest, interpreter.executable, base, screen)
                manifest = _rewrite(run, dataclasses.replace(manifest, peaks=peaks), *notes)
    outcome = CaptureOutcome(
        run, manifest, result.exit_code, interrupted, count_graphs(run), manifest.problems
    )
    if not options.quiet:
        _report(outcome, screen)
    return outcome


def _rewrite(run: Path, manifest: Manifest, *notes: str) -> Manifest:
    """Bring RUN/inspector.json up to date with `notes` added; the manifest says where that failed."""
    manifest = dataclasses.replace(manifest, problems=(*manifest.problems, *notes))
    try:
        write_manifest(run, manifest)
    except OSError as error:
        note = f"inspector.json could not be brought up to date: {error.strerror or error}"
        manifest = dataclasses.replace(manifest, problems=(*manifest.problems, note))
    return manifest


def _check(options: CaptureOptions) -> None:
    if options.mode is not None and options.mode not in MODES:
        raise InspectorError(f"--mode {options.mode}: no such mode: choose from {', '.join(MODES)}")
    if options.save_inputs is not None and not options.record:
        raise InspectorError("--save-inputs needs the recorder: leave --no-record out")
    for name, value in options.env:
        if not name or "=" in name or "\0" in name + value:
            raise InspectorError(
                f"--env {name}={value}: not a variable: example: --env CUDA_VISIBLE_DEVICES=0"
            )


def _recorded(options: CaptureOptions, command: Command, run: Path) -> dict[str, object]:
    """The options that say how to repeat the run; `cwd` is relative to the run where it can be."""
    return {
        "inspector": __version__,
        "cwd": shown_folder(Path.cwd(), run),
        "interpreter": command.python,
        "cpu": cpu_name(),
        "fresh": options.fresh,
        "mode": options.mode,
        "config": {f"{setting.module}.{setting.key}": setting.value for setting in options.settings},
        "logs": options.logs,
        "record": options.record,
        "save_inputs": options.save_inputs,
        "baseline": options.baseline,
        "profile": options.profile,
        "peaks": options.peaks,
    }


def _run(
    command: Command,
    environment: ChildEnvironment,
    folder: _RunFolder,
    manifest: Manifest,
    screen: Display,
    *,
    stderr: TextIO,
    live: bool,
) -> ChildResult:
    try:
        write_manifest(folder.path, manifest)
    except OSError as error:
        folder.discard()
        raise InspectorError(f"{folder.path}: cannot be written: {error.strerror or error}") from error
    try:
        return run_child(
            command.argv, environment.full, folder.path, environment.hidden, screen, stderr=stderr, live=live
        )
    except OSError as error:
        folder.discard()
        raise InspectorError(f"{command.argv[0]}: cannot be run: {error.strerror or error}") from error


def _ahead(options: CaptureOptions) -> str:
    """What is to come, before it takes its time."""
    if not options.profile:
        return "the command will run 3 times: captured, compiled, in eager"
    return (
        "the command will run 5 times: captured, compiled, in eager, and these two profiled "
        "(--no-profile leaves those out)"
    )


def _status(result: ChildResult) -> str:
    if result.interrupted:
        return "interrupted"
    return "failed" if result.exit_code else "done"


def _report(outcome: CaptureOutcome, screen: Display) -> None:
    ending = "interrupted, " if outcome.interrupted else ""
    graphs, seconds = plural(outcome.graphs, "graph"), outcome.manifest.seconds
    screen.say(
        f"inspector: {graphs} compiled in {duration(seconds * 1e3)}, {ending}exit code {outcome.exit_code}"
    )
    if took := _each(outcome.manifest):
        screen.say(f"inspector: the command ran {len(took)} times: {', '.join(took)}")
    for note in outcome.notes:
        screen.say(f"inspector: {note}")
    shown = _shown(outcome.run)
    screen.say(f"inspector: run saved in {shown}; next: inspector open {_quoted(shown)}")


def _each(manifest: Manifest) -> list[str]:
    """`captured 94.0 s`, `compiled 40.1 s`, ...: where the time of a capture with a baseline went."""
    if not manifest.baseline:
        return []
    took = [("captured", manifest.seconds)]
    took += [(name, entry["seconds"]) for name, entry in manifest.baseline.items()]
    again = [(name, entry.get("profile")) for name, entry in manifest.baseline.items()]
    took += [(f"{name} and profiled", made["seconds"]) for name, made in again if made and "seconds" in made]
    return [f"{name} {duration(seconds * 1e3)}" for name, seconds in took]


def _shown(run: Path) -> str:
    cwd = Path.cwd()
    return str(run.relative_to(cwd)) if run.is_relative_to(cwd) else str(run)


def _quoted(path: str) -> str:
    return f"'{path}'" if any(character.isspace() for character in path) else path


class _RunFolder:
    """The destination: made on entry, with everything that had to be made for it undone by `discard`.

    `caches` is where torch is told to keep its caches: RUN/cache, through a link in the temporary folder
    where the path has a character that torch 2.13 does not quote in its C++ compiler's command line.
    """

    def __init__(self, out: Path | None, name: str) -> None:
        self.path = _destination(out, name)
        self.caches = self.path / CACHES
        self._made: list[Path] = []
        self._temporary = ExitStack()

    def __enter__(self) -> _RunFolder:
        _refuse_used(self.path)
        try:
            missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
            for made in reversed(missing):
                made.mkdir(exist_ok=True)
                self._made.append(made)
            for inner in ("logs", "trace", "cache"):
                (self.path / inner).mkdir()
                self._made.append(self.path / inner)
        except OSError as error:
            self.discard()
            raise InspectorError(
                f"{self.path}: cannot be made: {error.strerror or error}: choose another folder with -o"
            ) from error
        if _needs_link(self.caches):
            folder = self._temporary.enter_context(temporary_folder("inspector-link-"))
            (folder / "cache").symlink_to(self.caches, target_is_directory=True)
            self.caches = folder / "cache"
        return self

    def __exit__(self, *exception: object) -> None:
        self._temporary.close()

    def discard(self) -> None:
        """Remove what was made here, and nothing that was there before."""
        for made in reversed(self._made):
            if made.is_relative_to(self.path):
                shutil.rmtree(made, ignore_errors=True)
            else:
                with suppress(OSError):
                    made.rmdir()
        with suppress(OSError):
            (self.path / MANIFEST_NAME).unlink()


def _destination(out: Path | None, name: str) -> Path:
    """The run's absolute path: what was asked for, or a new name below inspector_runs."""
    if out is not None:
        return Path(os.path.abspath(os.path.expanduser(out)))
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    parent = Path(os.path.abspath(DEFAULT_PARENT))
    return parent / unused(stem, lambda other: (parent / other).exists())


def _refuse_used(path: Path) -> None:
    """Raise InspectorError where `path` is a file or holds anything."""
    try:
        if path.is_dir():
            with os.scandir(path) as entries:
                used = any(True for _ in entries)
            if used:
                raise InspectorError(f"{path}: is not empty: choose another folder with -o, or remove it")
        elif os.path.lexists(path):
            raise InspectorError(f"{path}: is a file, not a folder: choose another one with -o")
    except OSError as error:
        raise InspectorError(f"{path}: cannot be read: {error.strerror or error}") from error


def _needs_link(caches: Path) -> bool:
    """torch/_inductor/cpp_builder.py splits the compiler's command line like a shell, but quotes no path."""
    return any(character.isspace() or character in "'\"\\$`&;|<>()*?[]#~" for character in str(caches))
