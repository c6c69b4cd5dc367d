"""What-if on one kernel: its changed source is kept with how it did beside the original, which is never
changed."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from inspector.analysis.stage_figures import stage_figures
from inspector.files import cache_folder, is_inside, read_plain, write_whole
from inspector.lowered import Lowered
from inspector.model.code import Kernel, OutputCode
from inspector.model.codec import from_data, to_data
from inspector.model.edits import KernelEdit, StageFigure
from inspector.model.lowering import STAGES
from inspector.model.problem import InspectorError
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.readers.run_files import RunFiles
from inspector.readers.stages.files import lowered_folders, read_stage
from inspector.readers.text import decode, guarded
from inspector.readers.text import from_json as json_of
from inspector.replay.lowering import LoweringStopped, lower_job, lower_kernels
from inspector.replay.plan import graph_files
from inspector.replay.protocol import ReplayOptions
from inspector.replay.spawn import ReplayStopped, replay_graphs
from inspector.replay.store import kernel_data, kernel_to_json
from inspector.temporary import temporary_folder

SCHEMA = "inspector.edit/1"


def kernel_with_source(code: OutputCode, name: str) -> Kernel:
    """The kernel of that name, `source` as its compiler gets it. Raises InspectorError for one that is not
    there or is a library's."""
    kernel = code.kernel(name)
    if kernel is None:
        raise InspectorError(f"{name}: no kernel of this graph has that name")
    if kernel.span is None or not kernel.source:
        raise InspectorError(f"{name}: a library's kernel has no source here that could be changed")
    lines = code.text.split("\n")[kernel.span.first - 1 : kernel.span.last]
    try:
        # In a string without the letter r, what stands in the file has its backslashes doubled.
        nodes = ast.walk(ast.parse("\n".join(lines)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return kernel
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return replace(kernel, source=max(texts, key=len, default=kernel.source))


# -- where edits are kept


class EditFolder:
    """The edits of one kernel: RUN/replay/edits/GRAPH/KERNEL/ with ``1.py``, ``1.json``, ``2.py``, ...

    A run that is no capture, came as an archive, cannot be written or has a link there that leads out of it
    has them in the user's cache folder.
    """

    def __init__(self, run: RunFiles, graph: str, kernel: Kernel) -> None:
        parts = _file_name(graph), _file_name(kernel.name)
        base = run.root / "replay" / "edits"
        kept_there = run.kind == "capture" and not run.located.unpacked and os.access(run.root, os.W_OK)
        if not kept_there or not is_inside(base.joinpath(*parts), run.root):
            place = Path(run.shown).absolute()
            digest = hashlib.sha256(str(place).encode()).hexdigest()[:12]
            cache = cache_folder()
            base = cache / "inspector" / "edits" / f"{_file_name(place.name)}-{digest}"
        self.path = base.joinpath(*parts)
        self._graph = graph
        self._kernel = kernel
        self._suffix = ".cpp" if kernel.kind == "cpp" else ".py"

    def sources(self) -> dict[int, Path]:
        """Changed sources by number."""
        paths = self.path.glob(f"*{self._suffix}") if self.path.is_dir() else ()
        return dict(sorted((int(path.stem), path) for path in paths if path.stem.isdecimal()))

    def begin(self, anew: bool = False) -> Path:
        """A new file to be edited: it holds the newest edit, or the original where `anew` or none is there.

        Raises InspectorError where the folder cannot be written.
        """
        sources = self.sources()
        text = self._kernel.source
        number = max(sources, default=0) + 1
        try:
            if sources and not anew:
                text = sources[number - 1].read_text(encoding="utf-8")
            self.path.mkdir(parents=True, exist_ok=True)
            path = self.path / f"{number}{self._suffix}"
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise InspectorError(
                f"{self.path}: cannot keep the changed source: {error.strerror or error}"
            ) from error
        return path

    def save(self, edit: KernelEdit) -> None:
        """Writes the result beside its source. Raises InspectorError where that cannot be done."""
        path = self.path / f"{edit.number}.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_whole(path, json.dumps(to_json(edit), indent=1) + "\n")
            source = self.path / f"{edit.number}{self._suffix}"
            if not source.is_file():
                with source.open("x", encoding="utf-8") as file:
                    file.write(edit.source)
        except OSError as error:
            raise InspectorError(f"{path}: cannot be written: {error.strerror or error}") from error

    def load(self, tell: Callable[[str], object] = lambda _problem: None) -> tuple[KernelEdit, ...]:
        """Every edit with a result, newest first; what cannot be read is left out, and `tell` hears so."""
        edits = []
        for number, path in self.sources().items():
            result = self.path / f"{number}.json"
            if os.path.lexists(result):
                edit, problems = guarded(partial(self._load, number, path, result), None, str(result), "it")
                edits += [edit] if edit is not None else []
                for problem in problems:
                    tell(f"{problem}: left out")
        return tuple(reversed(edits))

    def _load(self, number: int, path: Path, result: Path) -> KernelEdit:
        data, source = json_of(decode(read_plain(result), "")[0]), read_plain(path).decode("utf-8", "replace")
        if isinstance(data, dict) and data.get("sha256") not in (None, _digest(source)):
            raise ValueError(f"{path.name} is not what was replayed: changed or cut since")
        return from_json(data, self._graph, self._kernel.name, number, source)


def _file_name(name: str) -> str:
    """A kernel's name may be thousands of characters long."""
    plain = re.sub(r"[^A-Za-z0-9_.]+", "_", name)
    if len(plain) <= 100:
        return plain
    return f"{plain[:80]}_{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def to_json(edit: KernelEdit) -> dict[str, object]:
    """The contract's kernel objects of both; the source is its own file."""
    data = to_data(edit)
    del data["source"]
    kernels = {
        "original": kernel_to_json(edit.original) if edit.original else None,
        "edited": kernel_to_json(edit.edited) if edit.edited else None,
    }
    return {"schema": SCHEMA, **data, **kernels, "ratio": edit.ratio, "sha256": _digest(edit.source)}


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()


def from_json(data: object, graph: str, kernel: str, number: int, source: str) -> KernelEdit:
    """Raises KeyError, TypeError or ValueError where `data` is not what `to_json` makes."""
    if not isinstance(data, dict) or data["schema"] != SCHEMA:
        raise ValueError(f"no {SCHEMA}")
    kernels = {side: kernel_data(data[side]) if data[side] else None for side in ("original", "edited")}
    known = {"graph": graph, "kernel": kernel, "number": number, "source": source}
    return from_data(KernelEdit, {**data, **kernels, **known}, ignore_unknown=True)


# -- what it is lowered to


def with_stages(
    edit: KernelEdit,
    run: Run,
    options: ReplayOptions,
    on_progress: Callable[[str], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> KernelEdit:
    """The edit with what both sources are lowered to here; as it is where either cannot be lowered. Raises
    ReplayStopped where `should_stop` said so."""
    code = run.graph(edit.graph).code()
    item = Lowered(run).launch(edit.graph, edit.call)
    job = lower_job(item) if item is not None else None
    if job is None or code is None or edit.edited is None or item is None:
        return edit
    original = replace(job, source=kernel_with_source(code, item.kernel.name).source, cubin=None)
    with temporary_folder("inspector-edit-") as folder:
        jobs = (original, replace(original, source=edit.source))
        try:
            keys = lower_kernels(jobs, folder, options, on_progress, should_stop).keys
        except LoweringStopped:
            raise ReplayStopped from None
        made = {each.key: each for each in lowered_folders(run, folder)}
        own = [made[keys[number]] for number in (0, 1) if keys.get(number) in made]
        sides = [
            stage_figures(each, [read_stage(each, name, run) for name in STAGES if name in each.files])
            for each in own
        ]
    if len(sides) < len(jobs):
        return edit
    before, after = sides
    names = dict.fromkeys((*before, *after))
    return replace(edit, stages=tuple(StageFigure(name, before.get(name), after.get(name)) for name in names))


# -- replaying one


def replay_edit(
    graph: CompiledGraph,
    call: int,
    source: str,
    number: int,
    options: ReplayOptions,
    on_progress: Callable[[str], object] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> KernelEdit:
    """Replays launch `call` as generated, and in the same child with `source` in its kernel's place.

    Raises ReplayStopped where `should_stop` said so. A source that does not compile, crashes or hangs is
    the edited kernel's reason.
    """
    files = graph_files(graph)
    options = replace(options, kernel=str(call), source=source, whole=False)
    result = replay_graphs([files], options, on_progress, should_stop)
    if not result.graphs:
        raise ReplayStopped
    return edit_of(result.graphs[0], call, source, number, result.started)


def keep_edits(
    run: Run,
    graphs: Iterable[CompiledGraph],
    result: ReplayResult,
    source: str,
    lower: Callable[[KernelEdit], KernelEdit] = lambda edit: edit,
) -> tuple[KernelEdit, ...]:
    """Keeps what a replay with `source` has measured with the edits that were made in the browser, and what
    it is lowered to where `lower` adds that.

    Raises InspectorError where the folder cannot be written.
    """
    made = []
    by_name = {graph.ident: graph for graph in graphs}
    for replay in result.graphs:
        code = by_name[replay.name].code() if replay.name in by_name else None
        for kernel in replay.edits[:1] if code is not None else ():
            assert code is not None
            folder = EditFolder(run, replay.name, kernel_with_source(code, kernel.name))
            number = max(folder.sources(), default=0) + 1
            edit = edit_of(replay, kernel.call, source, number, result.started)
            made.append(lower(edit))
            folder.save(made[-1])
    return tuple(made)


def edit_of(replay: GraphReplay, call: int, source: str, number: int, started: float) -> KernelEdit:
    """The edit that a replay with a source of the user's has measured."""
    before = next((kernel for kernel in replay.kernels if kernel.call == call), None)
    after = next((kernel for kernel in replay.edits if kernel.call == call), None)
    failure = None
    if after is None:
        failure = f"not replayed: {replay.failure or 'the graph did not come to this launch'}"
    name = next((kernel.name for kernel in (before, after) if kernel is not None), "")
    return KernelEdit(replay.name, name, call, number, source, started, before, after, failure)
