"""Watches torch.compile from inside the captured program, and writes what it sees to RUN/record/*.jsonl.

This package is loaded by its path from the bootstrap's `sitecustomize`, in somebody else's interpreter:
standard library only, Python 3.9 syntax, no import of torch. It is handed torch's modules once the program
itself has executed them. Nothing here may change what the program does, prints or returns.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from .calls import watch_autograd, watch_eval_frame, watch_torch
from .choices import watch_choices
from .complete import compile_all
from .events import watch_convert_frame, watch_cudagraphs, watch_inductor, watch_output_graph
from .fusion import watch_scheduler
from .graph_runs import watch_compiled_graph
from .guard import Guards
from .inputs import InputSaver
from .kernels import watch_kernels
from .profiling import Profiling
from .results import keeper
from .sink import Sink
from .vary import Vary

CALLS: dict[str, Callable[[ModuleType, Guards, Sink], None]] = {
    "torch": watch_torch,
    "torch.autograd": watch_autograd,
    "torch._dynamo.convert_frame": watch_convert_frame,
    "torch._dynamo.eval_frame": watch_eval_frame,
    "torch._dynamo.output_graph": watch_output_graph,
    "torch._inductor.compile_fx": watch_inductor,
    "torch._inductor.cudagraph_utils": watch_cudagraphs,
}
"""What a run of the baseline is watched with: calls and events, nothing that slows a compilation down."""

INSTALLERS: dict[str, Callable[[ModuleType, Guards, Sink], None]] = {
    **CALLS,
    "torch._inductor.codecache": watch_compiled_graph,
    "torch._inductor.output_code": watch_compiled_graph,
    "torch._inductor.scheduler": watch_scheduler,
    "torch._inductor.select_algorithm": watch_choices,
    "torch._inductor.runtime.triton_heuristics": watch_kernels,
}
"""Module of torch -> what hooks into it once it has been executed."""


class Recorder:
    """One for each process. `folder` is RUN/record, `log` RUN/logs/recorder.log; `calls` leaves out all
    but calls and events, and `profile` says what to profile of them (profiling.py: Profiling). `inputs` is
    RUN/inputs where the arguments of graphs are to be kept, up to `inputs_limit` bytes for each. `complete`
    compiles what would come out of a cache. `without` is what a search for a cause switches off (vary.py);
    with `results` numbers of what callables got and gave are kept (results.py)."""

    def __init__(
        self,
        folder: str,
        log: str,
        calls: bool = False,
        inputs: str | None = None,
        inputs_limit: int = 0,
        profile: dict[str, Any] | None = None,
        complete: bool = False,
        without: dict[str, Any] | None = None,
        results: bool = False,
    ) -> None:
        self.sink = Sink(folder, log)
        self.guards = Guards(self.sink.log)
        self.sink.describe = lambda: {"hooks": self.guards.installed, "missing": self.guards.missing}
        self.installers = CALLS if calls else INSTALLERS
        if profile is not None:
            self.sink.shared["profiling"] = Profiling(guards=self.guards, **profile)
        if results:
            self.sink.shared["results"] = keeper(self.sink)
        self.vary = None if without is None else Vary(without, self.guards, self.sink)
        self.complete = complete
        self.saver = None if inputs is None else InputSaver(inputs, inputs_limit)

    def executed(self, module: ModuleType) -> None:
        """Hook into a module that has just been executed; a failure is logged, the rest stays as it is."""
        install: Any = self.installers.get(module.__name__)
        guard = self.guards.make(f"install {module.__name__}")
        if install is not None:
            guard.run(install, module, self.guards, self.sink)
        if self.vary is not None and module.__name__ in self.vary.installers:
            guard.run(self.vary.installers[module.__name__], module)
        if self.complete and module.__name__ == "torch._inductor.codecache":
            guard.run(compile_all, module, self.guards, self.sink)
        if self.saver is not None:
            guard.run(self.saver.watch, module, self.guards, self.sink)
        guard.run(self.sink.describe_again)
