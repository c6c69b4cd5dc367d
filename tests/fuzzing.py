"""Damages real runs and opens them with everything that looks at runs.

    python tests/fuzzing.py [--seed N] [--cases N] [--seconds S]      cases from seed N on
    python tests/fuzzing.py --log FILE ...                            from where FILE ends, which gets a line

A case is its seed: which run, which files of it, which damage, which LOOKS commands or screens. Nothing but an
`InspectorError` may come of it, within SLOW_S of processor time and MEMORY. Runs in one process on small runs
in memory; what a case did not damage is parsed once for all of them.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import gc
import gzip
import importlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from damage import damaged, restrict, swept

import inspector.readers.text as boundary
from inspector.model.problem import InspectorError

HERE = Path(__file__).parent
DATA = HERE / "data"
SAMPLES = HERE.parent / "sample_runs"
ARCHIVES = (
    DATA / "cpu-torch2.4.1.tar.xz", DATA / "cpu-torch2.6.0.tar.xz", DATA / "cpu-torch2.13.tar.xz",
    DATA / "cpu-torch2.15.0.tar.xz", DATA / "failed-runs.tar.xz", SAMPLES / "breaks" / "run.tar.xz",
    SAMPLES / "softmax" / "run.tar.xz", SAMPLES / "h200" / "run.tar.xz", DATA / "profiled-runs.tar.xz",
    DATA / "h200-torch2.11.tar.xz", DATA / "extra" / "ranks-torch2.13.tar.xz", DATA / "extra" / "adamw-h200-torch2.11.tar.xz",
    DATA / "extra" / "waste-torch2.13.tar.xz", DATA / "extra" / "wrappers-torch2.13.tar.xz",
    DATA / "planted-h200.tar.xz", DATA / "extra" / "doors-torch2.13.tar.xz",
    DATA / "extra" / "vllm-0.33-cpu-torch2.13.tar.xz",
)  # fmt: skip
SLOW_S = 2.0
STUCK_S = 15
"""Of the clock: who waits for a pipe that nobody writes to uses no processor time."""
STUCK_BUSY = 20
"""How many times longer on a machine with more work than cores."""
MOST_RUN_BYTES = 400_000
"""Trimmed runs larger than that take too long for a case of each of their bytes to be met."""
MEMORY = 4 << 30
WITH_CACHES = "planted-h200.tar.xz", "doors-torch2.13.tar.xz", "vllm-0.33-cpu-torch2.13.tar.xz"
"""Of these what lies in a cache is read: stages of kernels, generated code."""
MOST_UNREAD_BYTES = 4096
"""Of pickles and libraries, which are zeros here and of which nothing but the size is read."""
LOOKS = 3
"""Views of each damaged run."""
MOST_GRAPHS = 2
"""Of one process: a case damages one of them."""
_EVENTS_OF_A_KIND = 2
_PROFILE_EVENTS = 250
_SHARES = {"see_export": 1, "see_answers": 1, "see_nearer_answers": 1, "see_diff": 2, "see_check": 2}
_MOST_FRAMES = 24
_SHM_BYTES = 2 << 30
"""That /dev/shm must have free: some containers give it 64 MB."""


# -- runs, small ones


def trimmed(data: bytes) -> bytes:
    """A structured trace with a few events of each kind, each as it was."""
    from inspector.readers.locate import TRACE_LINE

    seen: Counter[tuple[bytes, ...]] = Counter()
    kept: list[bytes] = []
    keep = True
    for line in data.split(b"\n"):
        if TRACE_LINE.match(line):
            keys = tuple(re.findall(rb'"(\w+)": ', line[:400])[:1])
            compilation = tuple(re.findall(rb'"frame_(?:compile_)?id": (\d+)', line))
            seen[keys] += 1
            seen[keys + compilation] += 1
            few = b"chromium" in line or b"compilation_metrics" in line or b"start" in line[:120]
            keep = seen[keys] <= (40 if few else 8) and seen[keys + compilation] <= (
                12 if few else _EVENTS_OF_A_KIND
            )
            keep = keep or b'"str"' in line[:140]
        if keep:
            kept.append(line)
    return b"\n".join(kept) + (b"\n" if kept and kept[-1] else b"")


def _few_events(data: bytes) -> bytes:
    """A profile with its first events, and some of each category."""
    profile = json.loads(data)
    seen: Counter[Any] = Counter()
    kept = []
    for event in profile["traceEvents"]:
        seen[event.get("cat")] += 1
        if seen[event.get("cat")] <= _PROFILE_EVENTS:
            kept.append(event)
    return json.dumps({**profile, "traceEvents": kept}).encode()


def _unpack(archive: Path, folder: Path) -> None:
    graphs: dict[Path, set[Path]] = {}
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name)
            if name.parent.name.startswith("model__"):
                of_process = graphs.setdefault(name.parent.parent, set())
                if name.parent not in of_process and len(of_process) == MOST_GRAPHS:
                    continue
                of_process.add(name.parent)
            cached = "cache" in name.parts and archive.name not in WITH_CACHES
            if not member.isfile() or cached or member.size > 8 << 20:
                continue
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            data = tar.extractfile(member).read()  # type: ignore[union-attr]
            if path.suffix == ".gz" and data[:2] == b"\x1f\x8b":
                data = _few_events(gzip.decompress(data))
            if path.suffix == ".so" or {"fxgraph", "aotautograd"} & {*name.parts} or not any(data[64:]):
                data = data[:MOST_UNREAD_BYTES]
            path.write_bytes(
                trimmed(data) if path.parent.name == "trace" or path.name == "trace.log" else data
            )


def _runs(folder: Path) -> list[Path]:
    """Folders that can be opened: runs, and of some of them their parts alone."""
    from inspector.readers.locate import is_mega_cache, kind_of

    runs = sorted(path.parent for path in folder.rglob("torch_compile_debug") if path.is_dir())
    graphs = sorted(path.parent for path in folder.rglob("output_code.py"))
    runs += [graph for graph in graphs if not any(graph.is_relative_to(run) for run in runs)]
    parts: list[Path] = []
    for number, run in enumerate(runs[:6]):
        for pattern in ("trace", "torch_compile_debug", "torch_compile_debug/run_*")[number % 3 :: 3]:
            for part in sorted(run.glob(pattern))[:1]:
                parts.append(Path(shutil.copytree(part, folder / "parts" / str(number) / part.name)))
    for number, package in enumerate(sorted(folder.rglob("*.pt2"))):
        shutil.unpack_archive(package, unpacked := folder / "packages" / str(number), "zip")
        for path in unpacked.rglob("*.so"):
            os.truncate(path, MOST_UNREAD_BYTES)
        parts += [package, *unpacked.iterdir()]
    parts += [path for path in sorted(folder.rglob("*.bin")) if is_mega_cache(path)]
    known = ("Inductor cache", "vLLM cache")
    parts += [path for path in sorted(folder.rglob("*")) if path.is_dir() and kind_of(path) in known]
    opened = [run for run in (*runs, *parts) if run.is_file() or kind_of(run) is not None]
    return [run for run in opened if _size(run) < MOST_RUN_BYTES]


def _files(run: Path) -> list[Path]:
    """Of a folder, or the file that it is."""
    return [run] if run.is_file() else sorted(path for path in run.rglob("*") if path.is_file())


def _size(run: Path) -> int:
    return sum(path.stat().st_size for path in _files(run))


def _with_results(path: Path) -> None:
    """A replay's result and an edit, where the run has code."""
    from replays import replay_of, result_of

    from inspector.model.edits import KernelEdit
    from inspector.readers.run import Run
    from inspector.replay.edits import EditFolder
    from inspector.replay.store import save_result

    run = Run.open(path)
    graph = next((graph for graph in run.graphs if graph.code() is not None), None)
    if run.kind != "capture" or graph is None:
        return
    code = graph.code()
    assert code is not None
    gpu = any(kernel.kind == "triton" for kernel in code.kernels)
    for started in (1.79e9, 1.8e9):
        save_result(result_of(started, replay_of(graph.ident, code, gpu=gpu)), run.root)
    launches = replay_of(graph.ident, code, gpu=gpu).kernels
    for kernel in [kernel for kernel in code.kernels if kernel.source][:1]:
        launch = next((item for item in launches if item.name == kernel.name), None)
        edit = KernelEdit(
            graph.ident, kernel.name, 0, 1, f"{kernel.source}\n# changed\n", 1.8e9, launch, launch, None
        )
        EditFolder(run, graph.ident, kernel).save(edit)


# -- what was parsed is parsed once

Key = tuple[Any, ...]


class Memory:
    """What functions made of files that no case has damaged yet. Only what was asked before `close` is kept."""

    def __init__(self) -> None:
        self._kept: dict[Key, Any] = {}
        self._alive: list[Any] = []
        self._open = True

    def close(self) -> None:
        self._open = False

    def of(self, module: str, name: str, key_of: Callable[..., Key]) -> Any:
        """A patch of `module.name`, wherever it was imported to, that remembers by `key_of` its arguments."""
        real = getattr(importlib.import_module(module), name)

        def remembered(*args: Any, **named: Any) -> Any:
            key = (name, *key_of(*args, **named))
            if key in self._kept:
                return self._kept[key]
            value = real(*args, **named)
            if self._open:
                self._kept[key] = value
                # Identities are keys: nothing of what is kept may die.
                self._alive.append((args, named, value))
            return value

        return _everywhere(name, real, remembered)


@contextmanager
def _everywhere(name: str, real: Any, instead: Any) -> Iterator[None]:
    """`instead` under that name in every module of the program that has `real` under it."""
    changed = [
        module
        for key, module in list(sys.modules.items())
        if key.startswith("inspector.") and getattr(module, name, None) is real
    ]
    for module in changed:
        setattr(module, name, instead)
    try:
        yield
    finally:
        for module in changed:
            setattr(module, name, real)


def _of_artifacts(artifacts: Any, *more: Any, **named: Any) -> Key:
    parts = ("fx_before", "fx_after", "pre", "post", "code", "provenance", "fusion", "record")
    symbols = named.get("symbols") or (more[1] if len(more) > 1 else None)
    return (
        artifacts.ident,
        *(id(getattr(artifacts, part)) for part in parts),
        str(symbols),
        str(artifacts.files),
    )


def _of_file(path: Path, *_more: Any) -> Key:
    with suppress(OSError):
        facts = os.stat(path)
        return str(path), facts.st_size, facts.st_mtime_ns, facts.st_ino
    return (object(),)


# -- a case


@dataclass(frozen=True)
class Failure:
    """`where` is the innermost line of the project's own, by function; `trace` the stack as it failed, or when
    SLOW_S were over."""

    seed: int
    where: str
    detail: str
    seconds: float
    trace: str = ""

    @property
    def slow(self) -> bool:
        return self.where.startswith("slow")


class Stuck(BaseException):
    """A case that waits for something."""


class Fuzzer:
    """Runs unpacked into `folder`; a case by its seed. `named` counts what a boundary of the program has turned
    into a problem with a name: no failure, and no beauty."""

    def __init__(self, folder: Path, archives: tuple[Path, ...] = ARCHIVES, quick: bool = False) -> None:
        import looking

        self.folder = folder
        self.looking = looking
        self.views: tuple[Callable[..., object], ...] = (*looking.VIEWS, looking.run_command)
        # What takes three or ten times as long as the others is looked at less often.
        self.shares = [_SHARES.get(view.__name__, 6) for view in self.views]
        for number, archive in enumerate(archives):
            _unpack(archive, folder / str(number))
        for path in sorted(path.parent for path in folder.rglob("torch_compile_debug")):
            with suppress(InspectorError):
                _with_results(path)
        self.runs = _runs(folder)
        self.files = {run: _files(run) for run in self.runs}
        self.slowest = 0.0
        sizes = {run: (20_000 + _size(run)) ** -1.4 for run in self.runs}
        captures = {run for run in self.runs if (run / "inspector.json").exists()}
        # As many cases of the captures, which have logs, records and results, as of all the others.
        shares = [
            sum(size for run, size in sizes.items() if (run in captures) == own) for own in (False, True)
        ]
        self.weights = [size / shares[run in captures] for run, size in sizes.items()]
        self.namesakes: dict[str, list[Path]] = {}
        for paths in self.files.values():
            for path in paths:
                self.namesakes.setdefault(path.name, []).append(path)
        self.named: Counter[str] = Counter()
        self._quick = quick
        self._others: dict[Path, Any] = {}
        self._memory = Memory()
        self._stack = ExitStack()
        if not quick:
            self._remember()

    def __enter__(self) -> Fuzzer:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _remember(self) -> None:
        from inspector.readers.run import Run

        for run in self.runs[:2]:
            for view in self.looking.VIEWS:  # Everything is imported then.
                with suppress(InspectorError):
                    view(Run.open(run))
        enter, of = self._stack.enter_context, self._memory.of
        enter(_everywhere("guarded", boundary.guarded, self._heard))
        enter(of("inspector.readers.trace", "read_trace", lambda data, label: (data, label)))
        enter(of("inspector.readers.compilations", "read_content", lambda trace, data: (id(trace), data)))
        enter(of("inspector.readers.chromium", "read_timeline", lambda trace, data: (id(trace), data)))
        enter(of("inspector.readers.text", "decode", lambda data, label: (data, label)))
        enter(of("inspector.analysis.linkage", "link_graph", _of_artifacts))
        enter(of("inspector.analysis.fusion", "analyse_fusion", _of_artifacts))
        enter(of("inspector.explain.profiles", "load_profile", _of_file))
        enter(of("inspector.explain.program", "read_program", lambda text, shown: (text, shown)))
        enter(
            of(
                "inspector.present.highlight",
                "_pygments_spans",
                lambda lines, language: (tuple(lines), language),
            )
        )
        for module, function in _parsers():
            enter(of(module, function, lambda text, label: (text, label)))
        for run in self.runs:
            for view in self.looking.VIEWS:
                with suppress(InspectorError):
                    view(Run.open(run))
        self._memory.close()
        gc.collect()
        gc.freeze()

    def _heard(self, read: Callable[[], Any], instead: Any, label: str, what: str) -> Any:
        error: list[Exception] = []

        def watched() -> Any:
            try:
                return read()
            except Exception as raised:
                error.append(raised)
                raise

        value, problems = _GUARDED(watched, instead, label, what)
        for one in error:
            self.named[_place(one)] += 1
        return value, problems

    def choose(self, rng: random.Random) -> tuple[Path, list[Path]]:
        """A run, and one file of it, now and then two."""
        run = rng.choices(self.runs, self.weights)[0]
        # Large files no more often than small ones, and each kind as often as the others.
        kinds = sorted({path.name if path.suffix != ".log" else ".log" for path in self.files[run]})
        paths = []
        for _ in range(1 if rng.random() < 0.85 else 2):
            kind = rng.choice(kinds)
            paths.append(rng.choice([path for path in self.files[run] if kind in (path.name, path.suffix)]))
        return run, list(dict.fromkeys(paths))

    def case(self, seed: int) -> Failure | None:
        """The first failure of the views of one damaged run, which share what they have read as screens do."""
        rng = random.Random(seed)
        run, paths = self.choose(rng)
        views = list(dict.fromkeys(rng.sample(self.views, LOOKS, counts=self.shares)))
        width = rng.choice(self.looking.WIDTHS)
        command = rng.choice(self.looking.COMMANDS)
        packed = rng.random() < 0.02 and run.is_dir()
        other_run = rng.choice(self.runs)
        names = ", ".join(str(path.relative_to(self.folder)) for path in paths) + " packed" * packed
        with ExitStack() as stack:
            for path in paths:
                other = rng.choice(self.namesakes[path.name])
                stack.enter_context(in_place_of(path, rng, other.read_bytes() if other.is_file() else b""))
            target = stack.enter_context(_packed(run, rng)) if packed else run
            opened: list[Any] = []
            for view in views:
                look = partial(self._look, view, target, width, command, opened, other_run)
                if (failure := self._failure(seed, look, view.__name__, names)) is not None:
                    return failure
        return None

    def _failure(self, seed: int, look: Callable[[], None], view: str, names: str) -> Failure | None:
        # Of this process alone: other programs' work is no slowness of ours.
        started = time.process_time()
        where, detail, trace = _watched(look)
        seconds = time.process_time() - started
        self.slowest = max(self.slowest, seconds)
        if not where and seconds > SLOW_S:
            where, detail = f"slow {view}", f"{seconds:.1f} s"
        return Failure(seed, where, f"{view} {names}: {detail}", seconds, trace) if where else None

    def sweep(self) -> Iterator[Failure | None]:
        """Each place of each kind of JSON in the runs with values of other kinds, before two views each."""
        seen: Counter[str] = Counter()
        number = 0
        for run, suffix in (
            (run, suffix)
            for suffix in (".json", ".jsonl", ".gz", ".log")
            for run in sorted(self.runs, key=_size)
        ):
            for path in self.files[run]:
                if path.suffix != suffix:
                    continue
                kind = "replay" if path.parent.name == "replay" else path.name if suffix != ".log" else suffix
                data = path.read_bytes()
                if len(data) < 2 or seen[kind] == 1:
                    continue
                seen[kind] += 1
                try:
                    for changed in swept(data):
                        number += 1
                        path.write_bytes(changed)
                        opened: list[Any] = []
                        views = self.looking.VIEWS
                        for view in {views[number % len(views)], views[(number // 2) % len(views)]}:
                            look = partial(self._look, view, run, 100, (), opened, run)
                            yield self._failure(
                                number, look, view.__name__, str(path.relative_to(self.folder))
                            )
                finally:
                    path.write_bytes(data)

    def _look(
        self,
        view: Callable[..., object],
        target: Path,
        width: int,
        command: tuple[str, ...],
        opened: list[Any],
        other: Path,
    ) -> None:
        from inspector.readers.run import Run

        if view is self.looking.run_command:
            self.looking.run_command(target, command, other, self.folder / "written")
            return
        if not opened:
            opened.append(Run.open(target))
        beside = (self._beside(other, target),) if view in self.looking.OF_TWO else ()
        view(opened[0], width, *beside)

    def _beside(self, other: Path, target: Path) -> Any:
        """The run that the damaged one is compared with: whole, so that it is read once, unless it is that one."""
        from inspector.readers.run import Run

        if other.is_relative_to(target) or target.is_relative_to(other) or self._quick:
            return Run.open(other)
        if other not in self._others:
            self._others[other] = Run.open(other)
        return self._others[other]


_GUARDED = boundary.guarded


def _parsers() -> Iterator[tuple[str, str]]:
    from inspector.readers.artifacts import GRAPH_TABLE, RUN_TABLE

    for module, function in sorted({tuple(row.parser.split(":")) for row in (*GRAPH_TABLE, *RUN_TABLE)}):
        importlib.import_module(f"inspector.readers.{module}")
        yield f"inspector.readers.{module}", function


def _watched(look: Callable[[], None]) -> tuple[str, str, str]:
    """Where it failed, how, and the stack; the first two are empty where it did not. The stack of one that takes
    long is from when SLOW_S of processor time were over."""
    stack: list[str] = []

    waits = iter(range(STUCK_BUSY))

    def too_long(*_signal: object) -> None:
        # Where others have the cores a look may wait for its turn, which no clock tells from a pipe.
        if os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1) and next(waits, None) is not None:
            signal.alarm(STUCK_S)
            return
        raise Stuck

    def slow(_signal: int, frame: Any) -> None:
        stack[:] = traceback.format_stack(frame)[-_MOST_FRAMES:]

    before = signal.signal(signal.SIGALRM, too_long), signal.signal(signal.SIGPROF, slow)
    signal.alarm(STUCK_S)
    signal.setitimer(signal.ITIMER_PROF, SLOW_S)
    try:
        look()
    except InspectorError:
        pass
    except (Exception, Stuck) as error:
        told = "".join(traceback.format_exception(error)[-_MOST_FRAMES:])
        return _place(error), f"{type(error).__name__}: {str(error)[:150]}", told
    finally:
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGPROF, before[1])
    return "", "", "".join(stack)


def _place(error: BaseException) -> str:
    """The innermost line of the project's own, else of anyone's. What failed in a worker is told with its cause."""
    error = getattr(error, "error", None) or error if type(error).__name__ == "WorkerFailed" else error
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/inspector/" in frame.filename and "/tests/" not in frame.filename]
    where = "".join(
        f"{one.filename.rpartition('/inspector/')[2]}:{one.name}" for one in (ours or frames)[-1:]
    )
    return f"{type(error).__name__} in {where or 'nowhere'}"


@contextmanager
def in_place_of(path: Path, rng: random.Random, other: bytes) -> Iterator[None]:
    """The file damaged, or something else in its place; as it was afterwards."""
    data = path.read_bytes()
    kind = rng.random()
    beside = path.with_name(f"{path.name}.kept")
    path.rename(beside)
    try:
        if kind < 0.96:
            path.write_bytes(damaged(data, rng, other, path.suffix in (".json", ".jsonl", ".gz", ".log")))
        elif kind < 0.965:
            path.mkdir()
        elif kind < 0.97:
            os.mkfifo(path)
        elif kind < 0.98:
            path.symlink_to(
                rng.choice(["/dev/zero", "/nowhere", path.name, "/proc/self/mem", "/", "/dev/tty", ".."])
            )
        elif kind < 0.982:
            path.write_bytes(data)
            os.truncate(path, 5 << 30)
        elif kind < 0.985:
            path.write_bytes(gzip.compress(damaged(data, rng, other), 1)[: rng.choice([20, 1 << 30])])
        elif kind < 0.99:
            path.write_bytes(data)
            path.chmod(0)
        else:
            path.write_bytes(
                rng.choice([b"", b"\n", b"\0" * 4096, rng.randbytes(4096), b"\xef\xbb\xbf" + data])
            )
        yield
    finally:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        beside.rename(path)


@contextmanager
def _packed(run: Path, rng: random.Random) -> Iterator[Path]:
    """The run as an archive, which may be damaged, too."""
    from inspector.readers import archive

    suffix = rng.choice([".tar", ".tar.gz", ".zip"])
    packed = io.BytesIO()
    paths = [
        path
        for path in run.rglob("*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24
    ]
    if suffix == ".zip":
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bundle:
            for path in paths:
                with suppress(OSError):
                    bundle.write(path, path.relative_to(run.parent))
    else:
        with tarfile.open(fileobj=packed, mode="w:gz" if suffix == ".tar.gz" else "w") as tar:
            for path in paths:
                with suppress(OSError):
                    tar.add(path, path.relative_to(run.parent))
    data = packed.getvalue()
    target = run.parent / f"packed{suffix}"
    target.write_bytes(damaged(data, rng, data) if rng.random() < 0.7 else data)
    try:
        yield target
    finally:
        target.unlink()
        archive.remove_unpacked()


# -- many cases


def until(seconds: float) -> Callable[[], bool]:
    """Whether so long has passed, or a SIGTERM or SIGINT has come: what was done until then is told."""
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda which, _frame: asked.append(which))
    end = time.monotonic() + seconds
    return lambda: bool(asked) or time.monotonic() > end


def run_cases(
    fuzzer: Fuzzer,
    first: int,
    cases: int,
    over: Callable[[], bool],
    sweep: bool = False,
    failures: Path | None = None,
) -> tuple[int, Counter[str], float]:
    """(cases, failures by class, seconds), until it is `over`; tells of failures as they come, and of all of them
    in `failures`, a line of JSON each."""
    classes: Counter[str] = Counter()
    done, started = 0, time.monotonic()
    for failure in fuzzer.sweep() if sweep else map(fuzzer.case, range(first, first + cases)):
        done += 1
        if failure is not None:
            classes[failure.where] += 1
            if classes[failure.where] <= 2:
                print(f"seed {failure.seed}: {failure.where}: {failure.detail}", flush=True)
            if failures is not None:
                with failures.open("a") as file:
                    file.write(json.dumps(asdict(failure)) + "\n")
        if done % 500 == 0:
            gc.collect()
        if over():
            break
    return done, classes, time.monotonic() - started


def next_seed(seed: int, log: Path | None) -> int:
    """`seed`, or the one behind the last part that `log` has."""
    if log is None or not log.exists():
        return seed
    ended = re.findall(r"^\s*\d+ to\s+(\d+)", log.read_text(), re.M)
    return max([seed, *(int(last) + 1 for last in ended)])


def confined(prefix: str) -> Path:
    """A folder of its own for this process, which has its user's state there and no more than MEMORY."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and shutil.disk_usage(shm).free > _SHM_BYTES
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=shm if roomy else None))
    os.environ.update(
        {name: str(folder / "home") for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    )
    return folder


def tell_part(line: str, counters: Mapping[str, Counter[str]], log: Path | None) -> None:
    """Prints a part's line and what was met, by title; keeps the line in `log`."""
    print(line)
    for title, counter in counters.items():
        for where, count in counter.most_common(40):
            print(f"{count:>6}  {title}{where}")
    if log is not None:
        with log.open("a") as file:
            file.write(line.rstrip() + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop so long after the start")
    parser.add_argument("--only", metavar="KIND", help="damage of that kind alone, such as stretched")
    parser.add_argument(
        "--sweep", action="store_true", help="in place of chance, all places of JSON, each with other kinds"
    )
    parser.add_argument("--log", type=Path, help="a line for each part; goes on where its last one ends")
    parser.add_argument(
        "--failures", type=Path, metavar="FILE", help="all of them with their stacks, as JSON"
    )
    parser.add_argument("--note", default="", help="what was fuzzed, for the log")
    given = parser.parse_args()
    if given.only:
        restrict(given.only)
    warnings.simplefilter("ignore", SyntaxWarning)
    first, folder, over = next_seed(given.seed, given.log), confined("fuzz-"), until(given.seconds)
    # Archives are unpacked here, and what others left elsewhere is none of ours.
    tempfile.tempdir = str(folder)
    try:
        with Fuzzer(folder) as fuzzer:
            print(f"{len(fuzzer.runs)} runs of {sum(map(_size, fuzzer.runs)) >> 10} KB", flush=True)
            done, classes, seconds = run_cases(fuzzer, first, given.cases, over, given.sweep, given.failures)
            named, slowest = fuzzer.named, fuzzer.slowest
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    slow = sum(count for where, count in classes.items() if where.startswith("slow"))
    crashes = sum(classes.values()) - slow
    kinds = sum(not where.startswith("slow") for where in classes)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    line = (f"{first:>9} to {first + done - 1:>9} {done:>8,} {done * (1 if given.sweep else LOOKS):>10,} {seconds:>7,.0f} {crashes:>5} in {kinds:>2} {slow:>5} "
            f"{slowest:>6.1f} s {memory:>6,} MB  {given.note}")  # fmt: skip
    print("seeds                       cases      looks seconds   crashes  slow  slowest    memory")
    tell_part(line, {"": classes, "named by a boundary: ": named}, given.log)
    return 1 if classes else 0


if __name__ == "__main__":
    sys.exit(main())
