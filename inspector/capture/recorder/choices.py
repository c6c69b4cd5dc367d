"""Hooks into torch/_inductor/select_algorithm.py: the kernels that max-autotune measured for one operation.

`AlgorithmSelectorCache.__call__` is asked for an operation's buffer. It measures at once, or returns a
buffer with several templates, which is measured later by the scheduler; `log_results` sees both.
"""

from __future__ import annotations

import math
import threading
from types import ModuleType
from typing import Any

from .guard import Guards
from .identity import current_graph
from .sink import Sink

Key = tuple[str, tuple[str, ...]]


def watch_choices(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into the module once it has been executed."""
    watch = Watch(sink)
    selector: Any = module.AlgorithmSelectorCache
    guards.around(selector, "__call__", before=watch.asked, after=watch.answered)
    guards.around(selector, "log_results", before=watch.results)


class Question:
    """One call of the selector; `tried` once it has measured."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.tried: list[dict[str, Any]] | None = None


class Watch:
    """The hooks' functions. Several threads may compile at once; a table may be made in a third."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._local = threading.local()
        self._buffers: dict[Any, str] = {}
        """(graph, operation and inputs) -> the buffer that is measured later."""

    @property
    def _open(self) -> list[Question]:
        if not hasattr(self._local, "questions"):
            self._local.questions = []
        questions: list[Question] = self._local.questions
        return questions

    def asked(self, selector: Any, name: str, choices: Any, input_nodes: Any, *_: Any, **__: Any) -> Question:
        """Before `AlgorithmSelectorCache.__call__`."""
        question = Question(_key(name, input_nodes))
        self._open.append(question)
        return question

    def answered(self, question: Question | None, result: Any, error: BaseException | None) -> None:
        """After `AlgorithmSelectorCache.__call__`: a buffer; with the choice beside it in later versions."""
        if question is None:
            return
        while self._open and self._open.pop() is not question:
            pass
        if error is not None:
            return
        buffer = str((result[0] if isinstance(result, tuple) else result).get_name())
        if question.tried is not None:
            self._write(question.key, buffer, question.tried)
        else:
            self._buffers[current_graph()["graph"], question.key] = buffer

    def results(self, *args: Any, **kwargs: Any) -> None:
        """Before `AlgorithmSelectorCache.log_results(name, input_nodes, timings, ...)`, a static method."""
        names = ("name", "input_nodes", "timings")
        name, input_nodes, timings = (
            kwargs[label] if label in kwargs else args[position] for position, label in enumerate(names)
        )
        key = _key(name, input_nodes)
        tried = [_choice(choice, float(time)) for choice, time in dict(timings).items()]
        if self._open and self._open[-1].key == key:
            self._open[-1].tried = tried
        else:
            self._write(key, self._buffers.get((current_graph()["graph"], key)), tried)

    def _write(self, key: Key, buffer: str | None, tried: list[dict[str, Any]]) -> None:
        operation, inputs = key
        self._sink.write(
            {
                "kind": "choices",
                **current_graph(),
                "operation": operation,
                "inputs": list(inputs),
                "buffer": buffer,
                "tried": tried,
            }
        )


def _key(name: Any, input_nodes: Any) -> Key:
    return str(name), tuple(str(node.get_name()) for node in input_nodes)


def _choice(choice: Any, milliseconds: float) -> dict[str, Any]:
    """One kernel that was measured; without a time where it could not run.

    From 2.5 on a template's `description` is `BLOCK_M=64, num_warps=4, ...`; before, `info_dict` has a part.
    """
    parts = [part.partition("=") for part in str(getattr(choice, "description", "") or "").split(", ")]
    config = {name.strip(): value.strip("'\" ") for name, equals, value in parts if equals}
    if not config and hasattr(choice, "info_dict"):
        config = {
            str(name): str(value)
            for name, value in dict(choice.info_dict()).items()
            if isinstance(value, (str, int, float, bool))
        }
    return {
        "name": str(getattr(choice, "name", choice)),
        "config": config,
        "ms": milliseconds if math.isfinite(milliseconds) else None,
    }
