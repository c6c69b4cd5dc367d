"""Runs one child per graph, under a time limit, and gathers what it reports."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from inspector.analysis.load import busy_reasons, busy_text
from inspector.confinement import free_memory
from inspector.model.codec import Malformed, to_data
from inspector.model.replay import (
    GraphReplay,
    KernelReplay,
    OperatorReplay,
    OutputCheck,
    ReplayResult,
    Timing,
)
from inspector.process import PIPE, Child, Ending, Limits, Lines, python_child
from inspector.replay import protocol
from inspector.replay.environment import child_environment, confined, host_machine, uses_gpu
from inspector.replay.peaks import Rooflines
from inspector.replay.protocol import INTERPRETER, Event, GraphFiles, PlannedCall, ReplayOptions, Request
from inspector.temporary import temporary_folder
from inspector.units import size

Progress = Callable[[str], object]

_LOG_CHARACTERS = 4000

_INTERPRETER_PATIENCE = 6
"""Times the limit for a graph whose kernels are interpreted: a ResNet-50 takes some four minutes."""

_MOST_CHILDREN = 24
"""Children of one graph: the first, and one for each kernel that cost a child."""

_MEMORY_SHARE = 0.85
"""Of what is free: what a child takes beyond that would end other programs."""

_ROWS_S = 1.0
"""Seconds between two looks at the rows that came."""

_MOST_ODD = 20
"""Messages that are not understood of which each is told."""

_EXIT_S = 5.0
"""Seconds that a child may take to exit when it has said all."""


class ReplayStopped(Exception):
    """The caller asked to stop while a child was running; the child has been killed."""


@dataclass(slots=True)
class _Collected:
    """What the children of one graph have said so far."""

    graph: GraphFiles
    options: ReplayOptions
    on_progress: Progress | None
    on_rows: Callable[[GraphReplay], object] | None = None
    limits: Limits = field(default_factory=Limits)
    told: float = 0.0
    """When rows were last handed on."""
    stage: str = "starting"
    machine: dict[str, object] = field(default_factory=dict)
    device: str | None = None
    label: str = "decomposed FX graph"
    timings: dict[str, Timing] = field(default_factory=dict)
    checks: list[OutputCheck] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failure: str | None = None
    whole_lost: str | None = None
    """Why the graph as a whole could not be run."""
    done: bool = False
    odd: int = 0
    """Messages that were not understood."""
    kernels: dict[int, KernelReplay] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    """Launches of which nothing more is to be said."""
    skip: dict[int, str] = field(default_factory=dict)
    edits: dict[int, KernelReplay] = field(default_factory=dict)
    repros: dict[int, str] = field(default_factory=dict)
    operators: dict[str, OperatorReplay] = field(default_factory=dict)
    editing: bool = False
    """What is reported next is of the user's source, not of the kernel's own."""
    lost: int = 0
    """Children that a kernel has cost."""
    current: tuple[int, str] | None = None
    """The kernel call, and its kernel, that was begun and not yet reported."""

    def begin(self) -> None:
        """Another child is about to start."""
        self.done, self.failure = False, None
        memory = self.options.memory_bytes or math.inf
        self.limits = Limits(self.limit_s, memory_bytes=memory, started=self.limits.started)

    @property
    def limit_s(self) -> float:
        """Seconds for a child: Triton's interpreter takes many times as long as the GPU it stands in for."""
        return self.options.timeout_s * (_INTERPRETER_PATIENCE if self.device == INTERPRETER else 1)

    def take(self, line: bytes) -> None:
        if not line:
            return
        try:
            self._take(protocol.from_line(line))
        except Malformed as error:
            self.odd += 1
            if self.odd <= _MOST_ODD:
                self.note(f"a message of the child was not understood and left out: {error}")
            elif self.odd == _MOST_ODD + 1:
                self.note("more messages of the child were not understood")

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _tell(self, text: str) -> None:
        if self.on_progress:
            self.on_progress(text)

    def _take(self, event: Event) -> None:
        reported = self.edits if self.editing else self.kernels
        if isinstance(event, protocol.Stage):
            self.stage = event.text
            self.limits.mark(self.options.kernel_timeout_s + event.launches if event.launches else math.inf)
            self._tell(event.text)
        elif isinstance(event, protocol.Machine):
            self.machine = {**self.machine, **to_data(event)}
        elif isinstance(event, protocol.Confined):
            self.machine = {**self.machine, "confined": list(event.active), "unconfined": list(event.missing)}
        elif isinstance(event, protocol.Load):
            if reasons := busy_reasons(event.samples):
                self.machine = {**self.machine, "busy": list(reasons)}
                self.note(busy_text(reasons))
        elif isinstance(event, protocol.DeviceKind):
            self.device = event.device
            self.limits.overall_s = self.limit_s
        elif isinstance(event, protocol.EagerLabel):
            self.label = event.text
        elif isinstance(event, protocol.GraphTimed):
            self.timings[event.which] = event.timing
        elif isinstance(event, protocol.OutputChecked):
            self.checks.append(event.check)
        elif isinstance(event, protocol.Note):
            self.note(event.text)
        elif isinstance(event, protocol.Failed):
            self.failure = event.text
        elif isinstance(event, protocol.WholeLost):
            self.whole_lost = event.text
        elif isinstance(event, protocol.KernelStarted):
            self.current = (event.call, event.kernel)
            self.limits.mark(self.options.kernel_timeout_s)
            left = len(self.planned) - len(self.finished)
            self._tell(f"kernel {event.kernel} (call {event.call}), {left} of {len(self.planned)} left")
        elif isinstance(event, protocol.KernelRan):
            self.limits.mark()
        elif isinstance(event, protocol.KernelChecked):
            reported[event.kernel.call] = event.kernel
        elif isinstance(event, protocol.KernelTimed) and event.call in reported:
            reported[event.call] = _timed(reported[event.call], event)
        elif isinstance(event, protocol.Repro):
            self.repros[event.call] = event.text
        elif isinstance(event, protocol.OperatorTimed):
            self.operators[event.operator.name] = event.operator
        elif isinstance(event, protocol.EditStarted):
            self.editing = True
        elif isinstance(event, protocol.KernelDone):
            if event.call in reported:
                facts = {name: value for name, value in asdict(event.facts).items() if value is not None}
                reported[event.call] = replace(reported[event.call], **facts)
            if event.final:
                self.finished.add(event.call)
            self._forget()
        elif isinstance(event, protocol.KernelLost):
            self.lose(event.text)
        elif isinstance(event, protocol.Done):
            self.done = True
            self.limits.mark(_EXIT_S)

    def _forget(self) -> None:
        self.current, self.editing = None, False
        self.limits.mark()
        if self.on_rows is not None and time.monotonic() - self.told > _ROWS_S:
            self.told = time.monotonic()
            self.on_rows(self.result())

    def lose(self, reason: str) -> None:
        """The launch that was begun cost its child; the next child leaves it out."""
        if self.current is None:
            return
        call, name = self.current
        self.finished.add(call)
        if self.editing:
            self.edits.setdefault(call, KernelReplay(name, call, "unverifiable", reason))
        elif not self.kernels.setdefault(call, KernelReplay(name, call, "unverifiable", reason)).kinds:
            self.skip[call] = reason
        else:
            # It ran once and was checked; the next child runs it once more and no further.
            self.notes.append(f"{name} (call {call}) has no time: {reason}")
        self.lost += 1
        self._forget()

    @property
    def planned(self) -> Sequence[PlannedCall]:
        """The launches that are to be run one by one."""
        if not self.options.kernels or self.graph.kernels is None:
            return ()
        kernel = self.options.kernel
        return self.graph.kernels.calls if kernel is None else self.graph.calls_of(kernel)

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() - self.limits.started > self.limit_s

    def add_not_run(self, failures: Sequence[str]) -> None:
        """A row for each launch that no child came to."""
        why = failures[-1] if failures else "the generated code does not launch it with these inputs"
        for call in self.planned:
            row = KernelReplay(
                call.kernel,
                call.index,
                "unverifiable",
                f"not run: {why}",
                method="none",
                bytes=call.bytes,
                bytes_asked=call.bytes_asked,
                flops=call.flops,
                flops_asked=call.flops_asked,
            )
            self.kernels.setdefault(call.index, row)
            if self.options.source is not None:
                self.edits.setdefault(call.index, row)

    def result(self, failures: Sequence[str] = (), log: str = "") -> GraphReplay:
        """What is known by now."""
        timings = self.timings
        profiled = {call.index: call.profiled_ms for call in self.planned}
        return GraphReplay(
            name=self.graph.name,
            eager=timings.get("eager"),
            compiled=timings.get("compiled"),
            outputs=tuple(self.checks),
            failure="; ".join(failures) or None,
            eager_label=self.label,
            notes=tuple(self.notes),
            device=self.device,
            eager_wall=timings.get("eager_wall"),
            compiled_wall=timings.get("compiled_wall"),
            log=log,
            kernels=tuple(
                replace(self.kernels[call], profiled_ms=profiled.get(call)) for call in sorted(self.kernels)
            ),
            cudagraph=timings.get("cudagraph"),
            some_kernels=self.options.kernel is not None,
            edits=tuple(self.edits[call] for call in sorted(self.edits)),
            repros=self.repros,
            operators=tuple(self.operators.values()),
        )

    def why_unfinished(self, ending: Ending) -> str | None:
        """Why a child did not finish; None where it did."""
        if self.failure or self.done:
            return self.failure
        doing = f"running {self.current[1]}" if self.current is not None else self.stage
        if ending.timed_out == "step":
            what = "it" if self.current is not None else "the generated code"
            return f"{what} did not end within {self.limits.step_s:g} s"
        if ending.timed_out == "memory":
            return f"out of memory: it took more than {size(self.limits.memory_bytes)} while {doing}"
        if ending.timed_out:
            return f"stopped at the time limit of {self.limit_s:g} s while {doing}"
        if ending.signal:
            cause = " (out of memory?)" if ending.signal == "SIGKILL" else ""
            return f"the child crashed with {ending.signal}{cause} while {doing}"
        return f"the child ended with exit code {ending.code} while {doing}"


def _timed(kernel: KernelReplay, times: protocol.KernelTimed) -> KernelReplay:
    timed = replace(
        kernel,
        time=times.time,
        time_warm=times.time_warm,
        device_ms=times.device_ms,
        time_float32=times.time_float32,
        device_kernels=times.device_kernels,
        time_eager_strides=times.time_eager_strides,
        restrided=times.restrided,
    )
    own_ms = timed.own_ms
    return replace(timed, gbps=kernel.bytes / own_ms / 1e6 if kernel.bytes and own_ms else None)


def replay_graphs(
    graphs: Sequence[GraphFiles],
    options: ReplayOptions | None = None,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
    on_result: Callable[[GraphReplay], object] | None = None,
) -> ReplayResult:
    """Replays each graph in a child of its own, one after the other, and never raises for a graph.

    `on_progress` gets lines such as ``model__0_inference_0.0 (1/3): timing``. `on_result` gets each graph's
    result: what is known of it as its kernels are done, and the whole at last. `should_stop` is asked about
    ten times a second; once it answers yes the running child is killed and the graphs not finished are left
    out of the result. A KeyboardInterrupt kills the child and goes on to the caller.
    """
    options = with_memory(options or ReplayOptions())
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
                replay, said = _replay_in_child(graph, options, cache, progress, should_stop, on_result)
            except ReplayStopped:
                break
            machine.update(said)
            replay = rooflines.apply(replay, machine)
            results.append(replay)
            if on_result is not None:
                on_result(replay)
    return ReplayResult(machine, tuple(results), started, to_data(options))


def replay_graph(
    graph: GraphFiles,
    options: ReplayOptions | None = None,
    on_progress: Progress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> GraphReplay:
    """Replays one graph; every failure is in the result's `failure`.

    Raises ReplayStopped where `should_stop` answered yes before the child was done.
    """
    options = with_memory(options or ReplayOptions())
    with _cache_folder(options) as cache:
        return _replay_in_child(graph, options, cache, on_progress, should_stop)[0]


def with_memory(options: ReplayOptions) -> ReplayOptions:
    """With most of what is free, where the caller sets no limit."""
    free = free_memory()
    if options.memory_bytes is not None or free is None:
        return options
    return replace(options, memory_bytes=int(_MEMORY_SHARE * free))


def _prefixed(on_progress: Progress | None, prefix: str) -> Progress | None:
    if on_progress is None:
        return None
    return lambda text: on_progress(f"{prefix}: {text}")


@contextlib.contextmanager
def _cache_folder(options: ReplayOptions) -> Iterator[Path]:
    """The caches that the graphs of one replay share, so that C++ headers are compiled once."""
    if options.cache_dir is not None:
        options.cache_dir.mkdir(parents=True, exist_ok=True)
        yield options.cache_dir.resolve()
    else:
        with temporary_folder("inspector-replay-cache-") as folder:
            yield folder


def _replay_in_child(
    graph: GraphFiles,
    options: ReplayOptions,
    cache: Path,
    on_progress: Progress | None,
    should_stop: Callable[[], bool] | None,
    on_rows: Callable[[GraphReplay], object] | None = None,
) -> tuple[GraphReplay, dict[str, object]]:
    """The graph's result and what the child said of the machine."""
    refusal = None
    if os.name != "posix":
        refusal = "replay needs a POSIX system (process groups and inherited pipes)"
    elif graph.output_code not in graph.texts and not graph.output_code.is_file():
        refusal = f"there is no {graph.output_code.name} to run: the graph's folder does not hold it"
    collected = _Collected(graph, options, on_progress, on_rows)
    if refusal:
        collected.add_not_run([refusal])
        return collected.result([refusal]), {}
    with temporary_folder("inspector-replay-") as scratch:
        collected.graph = graph.written_to(scratch / "graph")
        return _run_children(cache, scratch, collected, should_stop), collected.machine


def _run_children(
    cache: Path,
    scratch: Path,
    collected: _Collected,
    should_stop: Callable[[], bool] | None,
) -> GraphReplay:
    """Runs the graph's child, and after a crash another one that goes on behind the kernel that crashed."""
    graph, options = collected.graph, collected.options
    failures: list[str] = []
    log = ""
    wanted = tuple(call.index for call in collected.planned) if options.kernel else None
    for attempt in range(_MOST_CHILDREN):
        lost = collected.lost
        only_kernels = attempt > 0 or not options.whole
        done = tuple(collected.finished)
        edited = tuple(collected.edits)
        # Of its own: what runs in it may have deleted the last one's.
        own = scratch / f"child{attempt}"
        own.mkdir(parents=True)
        request = Request(graph, options, own, wanted, only_kernels, done, collected.skip, edited)
        collected.begin()
        try:
            reason, printed = _one_child(request, cache, collected, should_stop)
        except OSError as error:
            failures.append(f"cannot start {options.python or 'python'}: {error.strerror or error}")
            break
        log = printed if reason or not log else log
        if collected.done:
            break
        out_of_time = collected.out_of_time
        if collected.lost > lost and not out_of_time:
            # Its kernel says what happened; the graph goes on.
            continue
        if not collected.whole_lost or attempt:
            failures.append(str(reason))
        refused = collected.failure and not collected.whole_lost
        if out_of_time or attempt or refused or request.plan is None or not request.plan.calls:
            break
        # A crash of the graph as a whole: run alone, the kernels tell which of them it was.
    failures[:0] = [collected.whole_lost] if collected.whole_lost else []
    collected.add_not_run(failures)
    return collected.result(failures, log)


def _one_child(
    request: Request, cache: Path, collected: _Collected, should_stop: Callable[[], bool] | None
) -> tuple[str | None, str]:
    """Runs one child to its end: why it did not finish, None where it did, and the end of what it printed.

    Raises OSError where it cannot be started.
    """
    path = request.scratch / "request.json"
    state = request.files.state
    request.write(path)
    environment = child_environment(cache, request.options, captured=state.environment if state else None)
    gpu = uses_gpu(request.files.output_code, request.options)
    child = Child(
        python_child(request.options.python, "inspector.replay.worker.main", str(path), PIPE),
        env=environment | confined(request.scratch, cache, environment, gpu),
        cwd=request.scratch,
        stdin="held",
        pipe=Lines(collected.take),
    )
    ending = child.follow(collected.limits, should_stop)
    if ending.stopped:
        raise ReplayStopped
    reason = collected.why_unfinished(ending)
    if reason and not collected.failure:
        collected.lose(reason)
    return reason, ending.tail[-_LOG_CHARACTERS:]
