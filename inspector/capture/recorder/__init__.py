"""Watches torch.compile from inside the captured program, and writes what it sees to RUN/record/*.jsonl.

This package is loaded by its path from the bootstrap's `sitecustomize`, in somebody else's interpreter:
standard library only, Python 3.9 syntax, no import of torch. It is handed torch's modules once the program
itself has executed them. Nothing here may change what the program does, prints or returns.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .choices import watch_choices
from .fusion import watch_scheduler
from .guard import Guards
from .inputs import InputSaver
from .kernels import watch_kernels
from .sink import Sink

INSTALLERS: dict[str, Callable[[ModuleType, Guards, Sink], None]] = {
    "torch._inductor.scheduler": watch_scheduler,
    "torch._inductor.select_algorithm": watch_choices,
    "torch._inductor.runtime.triton_heuristics": watch_kernels,
}
"""Module of torch -> what hooks into it once it has been executed."""


class Recorder:
    """One for each process. `folder` is RUN/record, `log` RUN/logs/recorder.log; `inputs` is RUN/inputs where
    the arguments of graphs are to be kept, up to `inputs_limit` bytes for each."""

    def __init__(self, folder: str, log: str, inputs: str | None = None, inputs_limit: int = 0) -> None:
        self.sink = Sink(folder, log)
        self.guards = Guards(self.sink.log)
        self.sink.describe = lambda: {"hooks": self.guards.installed, "missing": self.guards.missing}
        self.saver = None if inputs is None else InputSaver(inputs, inputs_limit)

    def executed(self, module: ModuleType) -> None:
        """Hook into a module that has just been executed; a failure is logged, the rest stays as it is."""
        install: Any = INSTALLERS.get(module.__name__)
        if install is None:
            if self.saver is None:
                return
            install = self.saver.watch
        guard = self.guards.make(f"install {module.__name__}")
        guard.run(install, module, self.guards, self.sink)
        guard.run(self.sink.describe_again)
