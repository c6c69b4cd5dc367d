"""What a search for a cause switches off inside of Inductor, and the list of what there is to switch off.

The only part of the recorder that changes what a program does, and only where it was asked to: `without` of
INSPECTOR_OVERRIDE, an object with `passes`, `lowerings` and `apart`, empty lists for a list alone. Names:

- a pass that changed a graph, `post_grad_passes:remove_noop_ops`, and where that is made of patterns each of
  these, `post_grad_passes:pass_pattern_1:mm_plus_mm`;
- an operator that Inductor lowers itself, `aten.sum.dim_IntList`, where torch's own bisector would fall back
  to ATen (torch/_inductor/graph.py: GraphLowering.run_node);
- two nodes of the schedule, by the FX nodes that they compute, to be kept in kernels of their own.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from .guard import Guards
from .identity import current_graph
from .sink import Sink

NEEDED = ("decomp", "fix_", "stable_sort", "remove_profiler_ops")
"""Beginnings of passes without which nothing compiles."""


class Vary:
    """`without` as above; what was met is written as lines of the kinds `pass` and `lowering`, each once."""

    def __init__(self, without: dict[str, Any], guards: Guards, sink: Sink) -> None:
        self._passes = frozenset(without.get("passes") or ())
        self._lowerings = frozenset(without.get("lowerings") or ())
        self._apart = {
            pair for a, b in without.get("apart") or () for pair in ((str(a), str(b)), (str(b), str(a)))
        }
        self._guards = guards
        self._sink = sink
        self._told: set[tuple[str, str]] = set()
        self._inside: list[str] = []
        self._patterns = 0
        self.installers = {
            "torch.fx.passes.graph_transform_observer": self._watch_passes,
            "torch._inductor.pattern_matcher": self._watch_patterns,
            "torch._inductor.compiler_bisector": self._watch_lowerings,
            "torch._inductor.scheduler": self._watch_fusions,
        }

    def _tell(self, kind: str, name: str) -> None:
        if (kind, name) not in self._told:
            self._told.add((kind, name))
            self._sink.write({"kind": kind, "name": name})

    # -- passes

    def _watch_passes(self, module: ModuleType) -> None:
        observer: Any = getattr(module, "GraphTransformObserver", None)
        if observer is None:
            self._guards.missing.append("GraphTransformObserver")
            return
        around = self._guards.around
        around(observer, "_check_disable_pass", before=_pass_name, instead=self._disabled)
        for name in ("apply_graph_pass", "apply_gm_pass"):
            around(observer, name, before=self._begin_pass, after=self._end_pass)

    def _disabled(self, name: Any, result: Any) -> Any:
        return True if name in self._passes else None

    def _begin_pass(self, observer: Any, *args: Any, **kwargs: Any) -> Any:
        name = _pass_name(observer)
        self._inside.append(name)
        return name, observer, _text_of(observer.gm), self._patterns

    def _end_pass(self, token: Any, result: Any, error: BaseException | None) -> None:
        if self._inside:
            self._inside.pop()
        if token is None or error is not None:
            return
        name, observer, before, patterns = token
        needed = name.partition(":")[2].startswith(NEEDED)
        # What patterns did is told by each of them.
        if not needed and patterns == self._patterns and before != _text_of(observer.gm):
            self._tell("pass", name)

    def _watch_patterns(self, module: ModuleType) -> None:
        for name in ("GraphPatternEntry", "LoweringPatternEntry", "ReplacementPatternEntry"):
            entry: Any = getattr(module, name, None)
            if entry is None or "apply" not in vars(entry):
                self._guards.missing.append(f"{name}.apply")
                continue
            entry.apply = self._unless_without(entry.apply, self._guards.make(f"{name}.apply"))

    def _unless_without(self, original: Any, guard: Any) -> Any:
        @functools.wraps(original)
        def apply(entry: Any, match: Any, graph: Any, node: Any) -> Any:
            if guard.run(self._skips, entry, node):
                return None
            return original(entry, match, graph, node)

        return apply

    def _skips(self, entry: Any, node: Any) -> bool:
        inside = self._inside[-1] if self._inside else ":"
        name = f"{inside}:{_pattern_name(entry, node)}"
        self._patterns += 1
        self._tell("pass", name)
        return name in self._passes

    # -- lowerings

    def _watch_lowerings(self, module: ModuleType) -> None:
        bisector: Any = getattr(module, "CompilerBisector", None)
        if bisector is None or not hasattr(bisector, "disable_subsystem"):
            self._guards.missing.append("CompilerBisector.disable_subsystem")
            return
        original = bisector.disable_subsystem
        guard = self._guards.make("CompilerBisector.disable_subsystem")

        @functools.wraps(original)
        def disable_subsystem(backend: str, subsystem: str, *args: Any, **kwargs: Any) -> Any:
            if subsystem == "lowerings" and guard.run(self._falls_back):
                return True
            return original(backend, subsystem, *args, **kwargs)

        bisector.disable_subsystem = staticmethod(disable_subsystem)

    def _falls_back(self) -> bool:
        name = str(sys.modules["torch._inductor.virtualized"].V.current_node.target)
        self._tell("lowering", name)
        return name in self._lowerings

    # -- fusions

    def _watch_fusions(self, module: ModuleType) -> None:
        if self._apart:
            self._guards.around(
                module.Scheduler, "can_fuse", before=self._to_keep_apart, instead=self._refused
            )

    def _to_keep_apart(self, scheduler: Any, first: Any, second: Any, *args: Any, **kwargs: Any) -> bool:
        ours, theirs = _leaves(first), _leaves(second)
        return any((one, other) in self._apart for one in ours for other in theirs)

    def _refused(self, apart: Any, result: Any) -> Any:
        return False if apart else None


def _pass_name(observer: Any, *args: Any, **kwargs: Any) -> str:
    return f"{getattr(observer, 'subsystem', None) or ''}:{observer.passname}"


def _pattern_name(entry: Any, node: Any) -> str:
    for owner, name in ((entry, "pattern_name"), (getattr(entry, "handler", None), "__name__")):
        text = getattr(owner, name, None)
        if text and "<" not in str(text):
            return str(text)
    return f"{type(entry.pattern).__name__} {node.target}"


def _text_of(gm: Any) -> int:
    """Of the graph's nodes and edges, the same for the same graph in this process."""
    nodes = getattr(gm, "graph", gm).nodes
    return hash(tuple((n.name, n.op, str(n.target), tuple(i.name for i in n.all_input_nodes)) for n in nodes))


def _leaves(node: Any) -> list[str]:
    """`COMPILE_ID FX nodes` of each node in a group, as `analysis` reads them from the record."""
    compile_id = current_graph()["compile_id"]
    names = []
    for leaf in node.get_nodes():
        outputs = leaf.get_outputs() if hasattr(leaf, "get_outputs") else [leaf.node]
        origins: set[str] = set()
        for outer in outputs:
            inner = getattr(outer, "node", None) or outer
            origins.update(str(o.name) for o in getattr(inner, "origins", None) or () if hasattr(o, "name"))
        names.append(" ".join((str(compile_id), *sorted(origins))))
    return names
