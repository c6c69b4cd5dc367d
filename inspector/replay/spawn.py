"""Runs one child per graph, under a time limit, and gathers what it reports."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inspector.model.replay import GraphReplay, KernelReplay, OutputCheck, ReplayResult, Timing
from inspector.replay.peaks import Rooflines
from inspector.replay.plan import (
    GraphFiles,
    ReplayOptions,
    build_request,
    child_command,
    child_environment,
    host_machine,
)
from inspector.replay.store import check_from_json, kernel_from_json
from inspector.replay.worker.events import INTERPRETER

Progress = Callable[[str], None]

_LOG_CHARACTERS = 4000
_POLL_S = 0.1

_INTERPRETER_PATIENCE = 6
"""Times the limit for a graph whose kernels are interpreted: a ResNet-50 takes some four minutes."""

_MOST_CHILDREN = 24
"""Children of one graph: the first, and one for each kernel that cost a child."""


class ReplayStopped(Exception):
    """The caller asked to stop while a child was running; the child has been killed."""


@dataclass(slots=True)
class _Collected:
    """What the child has said so far; see worker/main.py for the events."""

    stage: str = "starting"
    machine: dict[str, Any] = field(default_factory=dict)
    device: str | None = None
    label: str = "decomposed FX graph"
    timings: dict[str, Timing] = field(default_factory=dict)
    checks: list[OutputCheck] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failure: str | None = None
    done: bool = False
    kernels: dict[int, KernelReplay] = field(default_factory=dict)
    skip: dict[int, str] = field(default_factory=dict)
    edits: dict[int, KernelReplay] = field(default_factory=dict)
    editing: bool = False
    """What is reported next is of the user's source, not of the kernel's own."""
    lost: int = 0
    """Children that a kernel has cost."""
    current: tuple[int, str] | None = None
    """The kernel call, and its kernel, that was begun and not yet reported."""
    launched: float | None = None
    """When the launch began that has not come back."""

    def take(self, line: bytes, on_progress: Progress | None) -> None:
        try:
            event = json.loads(line)
            kind = event["event"]
        except (ValueError, KeyError, TypeError):
            # A line cut short by a crash says nothing that the exit status does not say better.
            return
        if kind == "stage":
            self.stage = event["text"]
            if on_progress:
                on_progress(self.stage)
        elif kind == "machine":
            self.machine = event["machine"]
        elif kind == "device":
            self.device = event["device"]
        elif kind == "label":
            self.label = event["text"]
        elif kind == "timing":
            self.timings[event["which"]] = Timing(event["median_ms"], event["iqr_ms"], event["rounds"])
        elif kind == "check":
            self.checks.append(check_from_json(event["check"]))
        elif kind == "note":
            if event["text"] not in self.notes:
                self.notes.append(event["text"])
        elif kind == "failure":
            self.failure = event["reason"]
        elif kind == "kernel_start":
            self.current = (int(event["call"]), str(event["kernel"]))
            self.launched = time.monotonic()
            if on_progress:
                on_progress(f"kernel {self.current[1]} (call {self.current[0]})")
        elif kind == "kernel_ran":
            self.launched = None
        elif kind == "kernel":
            kernel = kernel_from_json(event["kernel"])
            (self.edits if self.editing else self.kernels)[kernel.call] = kernel
        elif kind == "kernel_time":
            self._add_times(int(event["call"]), event["times"])
        elif kind == "edit_start":
            self.editing = True
        elif kind == "kernel_done":
            call = int(event["call"])
            target = self.edits if self.editing else self.kernels
            if call in target:
                target[call] = replace(target[call], **event["facts"])
            self.current = self.launched = None
            self.editing = False
        elif kind == "kernel_lost":
            self.lose(str(event["reason"]))
        elif kind == "done":
            self.done = True

    def lose(self, reason: str) -> None:
        """The launch that was begun cost its child; the next child leaves it out."""
        assert self.current is not None
        call, name = self.current
        if self.editing:
            self.edits.setdefault(call, KernelReplay(name, call, "unverifiable", reason))
            self.editing = False
        elif call not in self.kernels:
            self.skip[call] = reason
            self.kernels[call] = KernelReplay(name, call, "unverifiable", reason)
        else:
            # It ran once and was checked; the next child runs it once more and no further.
            self.notes.append(f"{name} (call {call}) has no time: {reason}")
        self.lost += 1
        self.current = self.launched = None

    def _add_times(self, call: int, times: Mapping[str, Any]) -> None:
        target = self.edits if self.editing else self.kernels
        kernel = target.get(call)
        if kernel is None:
            return
        cold = Timing(**times["time"])
        warm = Timing(**times["time_warm"]) if "time_warm" in times else None
        timed = replace(kernel, time=cold, time_warm=warm, device_ms=times.get("device_ms"))
        own_ms = timed.own_ms
        gbps = kernel.bytes / own_ms / 1e6 if kernel.bytes and own_ms else None
        target[call] = replace(timed, gbps=gbps)


def replay_graphs(
    graphs: Sequence[GraphFiles],
    options: ReplayOptions | None = None,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_result: Callable[[GraphReplay], None] | None = None,
) -> ReplayResult:
    """Replays each graph in a child of its own, one after the other, and never raises for a graph.

    `on_progress` gets lines such as ``model__0_inference_0.0 (1/3): timing``. `on_result` gets each
    graph's result as it is there. `should_stop` is asked about ten times a second; once it answers
    yes the running child is killed and the graphs not finished are left out of the result.
    A KeyboardInterrupt kills the child and goes on to the caller.
    """
    options = options or ReplayOptions()
    started = time.time()
    machine = host_machine()
    rooflines = Rooflines(options, on_progress, should_stop)
    results: list[GraphReplay] = []
    with _cache_folder(options) as cache:
        for number, graph in enumerate(graphs, 1):
            if should_stop is not None and should_stop():
                break
            progress = _prefixed(on_progress, f"{graph.name} ({number}/{len(graphs)})")
            try:
                replay, said = _replay_in_child(graph, options, cache, progress, should_stop)
            except ReplayStopped:
                break
            machine.update(said)
            replay = rooflines.apply(replay, machine)
            results.append(replay)
            if on_result is not None:
                on_result(replay)
    return ReplayResult(machine, tuple(results), started, options.to_dict())


def replay_graph(
    folder_files: GraphFiles,
    options: ReplayOptions | None = None,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> GraphReplay:
    """Replays one graph; every failure is in the result's `failure`.

    Raises ReplayStopped where `should_stop` answered yes before the child was done.
    """
    options = options or ReplayOptions()
    with _cache_folder(options) as cache:
        return _replay_in_child(folder_files, options, cache, on_progress, should_stop)[0]


def _prefixed(on_progress: Progress | None, prefix: str) -> Progress | None:
    if on_progress is None:
        return None
    return lambda text: on_progress(f"{prefix}: {text}")


@contextlib.contextmanager
def _cache_folder(options: ReplayOptions) -> Any:
    """The caches that the graphs of one replay share, so that C++ headers are compiled once."""
    if options.cache_dir is not None:
        options.cache_dir.mkdir(parents=True, exist_ok=True)
        yield options.cache_dir.resolve()
        return
    folder = tempfile.mkdtemp(prefix="inspector-replay-cache-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replay_in_child(
    graph: GraphFiles,
    options: ReplayOptions,
    cache: Path,
    on_progress: Progress | None,
    should_stop: Callable[[], bool] | None,
) -> tuple[GraphReplay, dict[str, Any]]:
    """The graph's result and what the child said of the machine."""
    refusal = None
    if os.name != "posix":
        refusal = "replay needs a POSIX system (process groups and inherited pipes)"
    elif not graph.output_code.is_file():
        refusal = f"there is no {graph.output_code.name} to run: the graph's folder does not hold it"
    if refusal:
        return GraphReplay(graph.name, failure=refusal), {}
    scratch = Path(tempfile.mkdtemp(prefix="inspector-replay-"))
    try:
        return _run_child(graph, options, cache, scratch, on_progress, should_stop)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run_child(
    graph: GraphFiles,
    options: ReplayOptions,
    cache: Path,
    scratch: Path,
    on_progress: Progress | None,
    should_stop: Callable[[], bool] | None,
) -> tuple[GraphReplay, dict[str, Any]]:
    """Runs the graph's child, and after a crash another one that goes on behind the kernel that crashed."""
    collected = _Collected()
    failures: list[str] = []
    log = ""
    for attempt in range(_MOST_CHILDREN):
        lost = collected.lost
        request = build_request(
            graph,
            options,
            scratch,
            only_kernels=attempt > 0 or not options.whole,
            done=tuple(collected.kernels),
            skip=collected.skip,
        )
        (scratch / "request.json").write_text(json.dumps(request), encoding="utf-8")
        collected.done, collected.failure = False, None
        try:
            ending = _one_child(options, cache, scratch, collected, on_progress, should_stop)
        except OSError as error:
            failures.append(f"cannot start {options.python or 'python'}: {error.strerror or error}")
            break
        log = _tail(scratch / "child.log") if ending or not log else log
        if collected.done:
            break
        if collected.lost > lost:
            # Its kernel says what happened; the graph goes on.
            continue
        failures.append(str(ending))
        if attempt or collected.failure or not request["kernels"] or not request["kernels"]["calls"]:
            break
        # A crash of the graph as a whole: run alone, the kernels tell which of them it was.
    result = GraphReplay(
        name=graph.name,
        eager=collected.timings.get("eager"),
        compiled=collected.timings.get("compiled"),
        outputs=tuple(collected.checks),
        failure="; ".join(failures) or None,
        eager_label=collected.label,
        notes=tuple(collected.notes),
        device=collected.device,
        eager_wall=collected.timings.get("eager_wall"),
        compiled_wall=collected.timings.get("compiled_wall"),
        log=log,
        kernels=tuple(collected.kernels[call] for call in sorted(collected.kernels)),
        cudagraph=collected.timings.get("cudagraph"),
        some_kernels=options.kernel is not None,
        edits=tuple(collected.edits[call] for call in sorted(collected.edits)),
    )
    return result, collected.machine


def _one_child(
    options: ReplayOptions,
    cache: Path,
    scratch: Path,
    collected: _Collected,
    on_progress: Progress | None,
    should_stop: Callable[[], bool] | None,
) -> str | None:
    """Runs one child to its end; why it did not finish, None where it did. Raises OSError where it
    cannot be started."""
    read_end, write_end = os.pipe()
    try:
        with open(scratch / "child.log", "wb") as log:
            process = subprocess.Popen(
                child_command(options, scratch / "request.json", write_end),
                # The child watches its standard input: it closes when this process dies.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=child_environment(cache, options),
                cwd=scratch,
                pass_fds=(write_end,),
                start_new_session=True,
            )
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    timed_out = False
    try:
        timed_out = _pump(process, read_end, collected, options, on_progress, should_stop)
    finally:
        _kill_group(process)
        os.close(read_end)
    if collected.failure:
        return collected.failure
    ending = _ending(collected, process.returncode, timed_out, options)
    if ending and collected.current is not None:
        collected.lose(ending)
    return ending


def _pump(
    process: subprocess.Popen[bytes],
    descriptor: int,
    collected: _Collected,
    options: ReplayOptions,
    on_progress: Progress | None,
    should_stop: Callable[[], bool] | None,
) -> bool:
    """Reads events until the child is done, dead or out of time; True for out of time."""
    started = time.monotonic()
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not collected.done:
            if should_stop is not None and should_stop():
                raise ReplayStopped
            remaining = started + _limit_s(options, collected) - time.monotonic()
            if remaining <= 0:
                return True
            launched = collected.launched
            if launched is not None and time.monotonic() - launched > options.kernel_timeout_s:
                return True
            # Asked before reading: a child that is gone has written all that it ever will, even
            # where a grandchild still holds the pipe open.
            ended = process.poll() is not None
            if not selector.select(0 if ended else min(_POLL_S, remaining)):
                if ended:
                    return False
                continue
            data = os.read(descriptor, 1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                collected.take(line, on_progress)
    try:
        left = started + _limit_s(options, collected) - time.monotonic()
        process.wait(timeout=max(0.0, min(5.0, left)))
    except subprocess.TimeoutExpired:
        # Closed its pipe without an end: hung on the way out. After `done` that takes nothing away.
        return not collected.done
    return False


def _limit_s(options: ReplayOptions, collected: _Collected) -> float:
    """Seconds for a child: Triton's interpreter takes many times as long as the GPU that it stands in for."""
    return options.timeout_s * (_INTERPRETER_PATIENCE if collected.device == INTERPRETER else 1)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Ends the child and what it started: compilers, compile workers, whatever the graph spawned."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _ending(collected: _Collected, code: int | None, timed_out: bool, options: ReplayOptions) -> str | None:
    """Why a child that gave no reason of its own did not finish; None where it did."""
    if collected.done:
        return None
    doing = f"running {collected.current[1]}" if collected.current is not None else collected.stage
    if timed_out and collected.launched is not None:
        return f"it did not end within {options.kernel_timeout_s:g} s"
    if timed_out:
        return f"stopped at the time limit of {_limit_s(options, collected):g} s while {doing}"
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        cause = " (out of memory?)" if name == "SIGKILL" else ""
        return f"the child crashed with {name}{cause} while {doing}"
    return f"the child ended with exit code {code} while {doing}"


def _tail(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text[-_LOG_CHARACTERS:].strip()
