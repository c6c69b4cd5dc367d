"""Hooks into torch/_inductor/scheduler.py, all of them on the classes `Scheduler` and `WhyNoFuse`.

Only functions that run while Inductor compiles are hooked: Dynamo never traces them, whatever the program
does. Names and arguments fit torch 2.4 to 2.15; what a version lacks is listed in the record's first line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import describe
from .guard import Guard, Guards
from .identity import current_graph
from .session import Pair, Session
from .sink import Sink


def watch_scheduler(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into the scheduler module once it has been executed."""
    watch = Watch(module, guards, sink)
    scheduler: Any = module.Scheduler
    around = guards.around
    around(scheduler, "__init__", before=watch.begin, after=watch.end)
    around(scheduler, "fuse_nodes", before=watch.schedule)
    around(scheduler, "fuse_nodes_once", before=watch.begin_round, after=watch.end_round)
    around(scheduler, "can_fuse", before=watch.ask, after=watch.answer)
    watch.tell("unfusable_node", lambda session, answer, node: session.unfusable(node, bool(answer)))
    watch.tell("get_possible_fusions", lambda session, pairs, *_, **__: session.possible(pairs))
    watch.tell("score_fusion_key", lambda session, score, nodes: session.scored(nodes[0], nodes[1], score))
    watch.tell("score_fusion_memory", _memory)
    watch.tell("will_fusion_create_cycle", _cycle)
    around(scheduler, "speedup_by_fusion", before=watch.speedup_asked, after=watch.speedup)
    watch.tell("benchmark_fused_nodes", _benchmarked)
    if hasattr(scheduler, "benchmark_codegened_module"):
        watch.tell("benchmark_codegened_module", _benchmarked)
    if hasattr(scheduler, "fuse_two_nodes"):
        around(scheduler, "fuse_two_nodes", before=watch.fuse)
    else:
        # Before there was a method for it, the backend's `fuse` was called from the middle of a loop.
        around(scheduler, "get_backend", after=watch.backend)
    for name, value in list(vars(module).items()):
        if name.startswith("WhyNoFuse") and isinstance(value, type) and "__call__" in vars(value):
            around(value, "__call__", before=watch.why, name=f"{name}.__call__")


class Watch:
    """The hooks' functions. A Scheduler works in one thread; several threads may compile at once."""

    def __init__(self, module: ModuleType, guards: Guards, sink: Sink) -> None:
        self._module: Any = module
        self._guards = guards
        self._sink = sink
        self._local = threading.local()
        self._parts: dict[tuple[str | None, str], int] = {}
        self._backends: set[type] = set()
        self._benchmark = guards.make("benchmark decision")

    # -- one scheduler

    def begin(self, scheduler: Any, *args: Any, **kwargs: Any) -> Session:
        """Before `Scheduler.__init__`, which makes every decision."""
        config = getattr(self._module, "config", None)
        limit = getattr(config, "max_fusion_buffer_group_pairwise_attempts", None)
        session = Session(scheduler, self._module.V.graph.sizevars, limit)
        self._sessions.append(session)
        return session

    def end(self, session: Session | None, result: Any, error: BaseException | None) -> None:
        """After `Scheduler.__init__`: the graph's line is written, also where torch failed half-way."""
        if session is None:
            return
        while self._sessions and self._sessions.pop() is not session:
            pass
        session.end_round()
        self._sink.write(
            {
                "kind": "graph",
                **self._identity(),
                "finished": error is None,
                **session.result(),
                "faults": self._guards.faults,
            }
        )

    def schedule(self, scheduler: Any, *args: Any, **kwargs: Any) -> None:
        """Before `Scheduler.fuse_nodes`: the nodes and their dependencies are complete, none is fused."""
        session = self.session_of(scheduler)
        if session is not None and not session.buffers:
            session.buffers = describe.buffers(_nodes(scheduler, args, kwargs), session.sizevars)
            session.inputs = describe.inputs(self._module.V.graph)

    def session_of(self, scheduler: Any, *args: Any, **kwargs: Any) -> Session | None:
        """The innermost session, where it is this scheduler's."""
        sessions = self._sessions
        return sessions[-1] if sessions and sessions[-1].scheduler is scheduler else None

    def tell(self, name: str, hear: Callable[..., None]) -> None:
        """Hook into `Scheduler.NAME`: `hear(session, result, *its arguments)` once it has returned."""

        def before(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
            session = self.session_of(scheduler)
            return None if session is None else (session, args, kwargs)

        def after(token: Any, result: Any, error: BaseException | None) -> None:
            if token is not None and error is None:
                session, args, kwargs = token
                hear(session, result, *args, **kwargs)

        self._guards.around(self._module.Scheduler, name, before=before, after=after)

    @property
    def _sessions(self) -> list[Session]:
        if not hasattr(self._local, "sessions"):
            self._local.sessions = []
        sessions: list[Session] = self._local.sessions
        return sessions

    def _identity(self) -> dict[str, Any]:
        """The graph and its AOT name.

        `part` counts the schedulers of one folder from 0: subgraphs of `torch.cond` have their own.
        """
        graph = current_graph(self._module.V)
        aot = _call("torch._functorch._aot_autograd.logging_utils", "get_aot_graph_name")
        key = (graph["process"], graph["graph"] or str(aot))
        part = self._parts[key] = self._parts.get(key, -1) + 1
        return {**graph, "aot": aot, "part": part}

    # -- its rounds and questions

    def begin_round(self, scheduler: Any, *args: Any, **kwargs: Any) -> Session | None:
        """Before `Scheduler.fuse_nodes_once`."""
        session = self.session_of(scheduler)
        if session is not None:
            session.begin_round(_nodes(scheduler, args, kwargs))
        return session

    def end_round(self, session: Session | None, result: Any, error: BaseException | None) -> None:
        """After `Scheduler.fuse_nodes_once`."""
        if session is not None:
            session.end_round()

    def ask(self, scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
        """Before `Scheduler.can_fuse`."""
        session = self.session_of(scheduler)
        return (session, session.ask(node1, node2)) if session is not None else None

    def answer(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `Scheduler.can_fuse`."""
        if token is not None:
            session, key = token
            session.answer(key, result if error is None else None)

    def why(self, why: Any, reason: str, *args: Any) -> None:
        """At `WhyNoFuse.__call__`; torch 2.4 keeps the nodes in it, later versions their names."""
        if not self._sessions:
            return
        names = [
            str(getattr(why, f"name{side}"))
            if hasattr(why, f"name{side}")
            else describe.node_name(getattr(why, f"node{side}"))
            for side in (1, 2)
        ]
        self._sessions[-1].why(names[0], names[1], reason % args)

    def fuse(self, scheduler: Any, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> None:
        """Before `Scheduler.fuse_two_nodes`."""
        session = self.session_of(scheduler)
        if session is not None:
            session.fuse(node1, node2)

    def backend(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `Scheduler.get_backend`: hook into `fuse` of a backend's class, when it is first seen."""
        cls = type(result)
        if error is not None or cls in self._backends:
            return
        self._backends.add(cls)
        self._guards.around(cls, "fuse", before=self.backend_fuse)

    def backend_fuse(self, backend: Any, node1: Any, node2: Any) -> None:
        """Before a backend's `fuse`."""
        if self._sessions:
            self._sessions[-1].fuse(node1, node2)

    # -- decisions by measurement

    def speedup_asked(self, scheduler: Any, node1: Any, node2: Any) -> Any:
        """Before `Scheduler.speedup_by_fusion`."""
        session = self.session_of(scheduler)
        if session is None:
            return None
        before, session.benchmarking = session.benchmarking, session.known(node1, node2)
        return session, session.benchmarking, before

    def speedup(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `Scheduler.speedup_by_fusion`.

        The result is a bool (2.4), a bool or a function that measures later (2.6), or a FusionResult with
        either (`should_fuse`, `callable_fn`).
        """
        if token is None:
            return
        session, pair, session.benchmarking = token
        if error is not None:
            return
        later = getattr(result, "callable_fn", None)
        if later is not None:
            result.callable_fn = self._measured(session, pair, later)
            return
        decided = getattr(result, "should_fuse", result)
        if isinstance(decided, bool):
            session.timed(pair, decided)

    def _measured(
        self, session: Session, pair: Pair | None, measure: Callable[[], bool]
    ) -> Callable[[], bool]:
        """`measure`, with the times that are taken meanwhile put down to `pair`."""
        guard: Guard = self._benchmark

        def measured() -> bool:
            before = session.benchmarking
            session.benchmarking = pair
            try:
                faster = measure()
            finally:
                session.benchmarking = before
            guard.run(session.timed, pair, bool(faster))
            return faster

        return measured


def _memory(
    session: Session, result: Any, node1: Any, node2: Any, count_bytes: bool = True, *_: Any, **__: Any
) -> None:
    """`Scheduler.score_fusion_memory` gave bytes, or exact matches, overlaps, and a flag."""
    # It can also count elements.
    if not count_bytes:
        return
    if not isinstance(result, tuple):
        session.memory(node1, node2, int(result))
    elif not any(part is True for part in result):
        session.memory(node1, node2, sum(int(part) for part in result))


def _cycle(session: Session, creates: Any, node1: Any, node2: Any) -> None:
    if creates:
        session.cycle(node1, node2)


def _benchmarked(session: Session, result: Any, *_: Any, **__: Any) -> None:
    """A measurement: (milliseconds, path) of the first node, the second, and both as one."""
    if session.benchmarking is not None:
        session.benchmarking.times.append(float(result[0]))


def _nodes(scheduler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The nodes handed to a pass; before 2.5 it works on the scheduler's own."""
    given = kwargs.get("nodes", args[0] if args else None)
    return list(given if isinstance(given, (list, tuple)) else scheduler.nodes)


def _call(module: str, function: str) -> Any:
    """What a function without arguments returns; None where it isn't there or there is nothing to say."""
    known = getattr(sys.modules.get(module), function, None)
    try:
        return known() if known is not None else None
    except Exception:
        return None
