"""Times each run of a compiled graph inside a timed call: what is left of the call is guards and Python. And
sees which of its arguments stay the same, which have become too small to be computed with quickly, how large
its symbolic sizes are, which gradients alone are asked of a backward pass, and whether the call has any.

The host's side only: on a GPU a run ends when its kernels are launched. Installed for captures and not for
the baseline, whose calls it would slow down by a microsecond each.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from .calls import Watch, watch_of
from .guard import Guards
from .identity import current_graph
from .inputs import inputs_of
from .journal import Journal, journal_of
from .same_inputs import SameInputs
from .sink import Sink
from .subnormal import Subnormals

RUN_LIMIT = 300
GRAPH_LIMIT = 1000
ASKED_LIMIT = 50
"""Shapes of tensors whose gradients alone a backward pass was to give."""


def watch_compiled_graph(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into CompiledFxGraph (torch/_inductor/output_code.py; codecache.py before 2.6)."""
    owner: Any = getattr(module, "CompiledFxGraph", None)
    original = vars(owner).get("__call__") if owner is not None else None
    if original is None:
        # Older versions have the class elsewhere, and the other of the two modules is watched too.
        return
    journal = journal_of(guards, sink)
    watch = watch_of(guards, sink)
    graphs = GraphRuns(journal, watch)
    local = watch.local
    journal.also["graph_runs"] = graphs.as_json
    guards.around(owner, "__init__", before=graphs.made, name="CompiledFxGraph.__init__")
    guard = guards.make("CompiledFxGraph.__call__")

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.off or not (local.busy or watch.backward):
            return original(self, *args, **kwargs)
        guard.run(graphs.called, self, args, kwargs)
        start = time.perf_counter_ns()
        result = original(self, *args, **kwargs)
        guard.run(graphs.ran, self, time.perf_counter_ns() - start)
        return result

    owner.__call__ = timed
    guards.installed.append("CompiledFxGraph.__call__")


class GraphRuns:
    """Runs and times by graph. Graphs are told apart by identity, as torch's class has no hash."""

    def __init__(self, journal: Journal, watch: Watch) -> None:
        self._journal = journal
        self._watch = watch
        self._graphs: dict[int, dict[str, Any]] = {}

    def made(self, graph: Any, *args: Any, **kwargs: Any) -> None:
        """Before a graph's constructor: its folder's name is that of the compilation that goes on."""
        identity = current_graph()
        if identity["graph"] and len(self._graphs) < GRAPH_LIMIT:
            self._graphs[id(graph)] = {
                "graph": identity["graph"],
                "process": identity["process"],
                "runs": 0,
                "trained": 0,
                "ms": deque(maxlen=RUN_LIMIT),
                "same": SameInputs(),
                "subnormal": Subnormals(),
                "sizes": Sizes(),
            }

    def called(self, graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a run."""
        entry = self._graphs.get(id(graph))
        if entry is not None:
            inputs = inputs_of(args, kwargs)
            entry["same"].look(inputs)
            entry["subnormal"].look(inputs)
            entry["sizes"].look(inputs)
            if self._watch.backward:
                known, new = entry.get("asked", ()), self._watch.gradients
                # Any run that gives all gradients needs all.
                both = None if known is None or new is None else tuple(dict.fromkeys((*known, *new)))
                entry["asked"] = both if both is None or len(both) <= ASKED_LIMIT else None

    def ran(self, graph: Any, nanoseconds: int) -> None:
        entry = self._graphs.get(id(graph))
        if entry is not None:
            if not entry["runs"]:
                entry["state"] = self._journal.state()
            entry["runs"] += 1
            entry["trained"] += self._watch.trains
            # The call that goes on is noted already.
            call = self._journal.noted - 1
            entry["span"] = [entry.get("span", [call])[0], call]
            entry["ms"].append(nanoseconds / 1e6)

    def as_json(self) -> list[dict[str, Any]]:
        """Each graph that ran, with the newest times of its runs and the arguments that stayed the same."""
        return [
            {
                **entry,
                "ms": [round(value, 6) for value in entry["ms"]],
                "same": entry["same"].as_json(),
                "subnormal": entry["subnormal"].as_json(),
                "sizes": entry["sizes"].as_json(),
            }
            for entry in self._graphs.values()
            if entry["runs"]
        ]


class Sizes:
    """Of one graph: the whole numbers among its arguments, its symbolic sizes, summed over its runs."""

    def __init__(self) -> None:
        self._runs = 0
        self._sums: dict[int, int] = {}

    def look(self, inputs: Sequence[Any]) -> None:
        """Before a run."""
        self._runs += 1
        if self._sums or self._runs == 1:
            for position, value in enumerate(inputs):
                if type(value) is int:
                    self._sums[position] = self._sums.get(position, 0) + value

    def as_json(self) -> dict[str, float]:
        """The position of each -> its mean."""
        return {str(position): total / self._runs for position, total in self._sums.items()}
