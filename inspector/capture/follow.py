"""What a run has so far, while its program is running: graphs from their folders, events from the log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from inspector.frozen import dataclass
from inspector.model.logs import GraphBreak, Recompile
from inspector.readers.torch_log import parse_torch_log


def _is_event(line: bytes) -> bool:
    """Torch repeats the prefix before every line of a message (torch/_logging/_internal.py:
    TorchLogsFormatter.format), so that these lines alone make whole messages."""
    if b"[__graph_breaks]" in line or b"[__recompiles]" in line:
        return True
    prefix = line.find(b"] ")
    return prefix >= 0 and line.find(b" debug trace: ", prefix + 2) >= 0


@dataclass(frozen=True, slots=True)
class Seen:
    """Compiled-graph folders so far, in order of process and time; events as the log tells them.
    `compile_ids` maps the last two names of a graph's path (process folder, graph) to its compile id."""

    graphs: tuple[Path, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    compile_ids: tuple[tuple[tuple[str, str], str | None], ...] = ()


class RunFollower:
    """Looks at a run again and again; each look reads only what the log has gained."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._log = run / "logs" / "torch_logs.txt"
        self._offset = 0
        self._event_lines = b""
        self._events = Seen()

    def look(self) -> Seen:
        """Never raises: a file that is not there yet, or can't be read, has nothing to tell."""
        new = self._new_lines()
        if new:
            self._event_lines += new
            log = parse_torch_log(self._event_lines.decode("utf-8", "replace"), self._log.name)
            ids = [
                ((parts[-3] if len(parts) >= 3 else "", parts[-1]), compile_id)
                for path, compile_id in log.folders
                if (parts := path.split("/"))
            ]
            self._events = Seen((), log.graph_breaks, log.recompiles, tuple(ids))
        events = self._events
        graphs = tuple(graph_folders(self._run))
        return Seen(graphs, events.graph_breaks, events.recompiles, events.compile_ids)

    def _new_lines(self) -> bytes:
        """Of the whole lines that were added since the last look, those of events."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return b""
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        return b"".join(line + b"\n" for line in whole.split(b"\n") if _is_event(line))


def graph_folders(run: Path) -> Iterator[Path]:
    """The compiled-graph folders of a run that is still being written, without looking into them."""
    for process in _folders(run / "torch_compile_debug"):
        yield from (
            entry for entry in _folders(process / "torchinductor") if entry.name.startswith("model__")
        )


def count_graphs(run: Path) -> int:
    """Number of compiled-graph folders so far."""
    return sum(1 for _ in graph_folders(run))


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except OSError:
        return []
