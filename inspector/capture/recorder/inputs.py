"""Keeps the real arguments of each compiled graph's first call, for replay: RUN/inputs/PROCESS/GRAPH.pt.

The file is torch.save's, of plain data and tensors of bytes, so that `torch.load(weights_only=True)` reads
it. Only the bytes that the arguments reach are kept, each stretch of memory once: views of one tensor still
share it afterwards. They are copied before the graph runs, which may write to its inputs, and frees those of
a backward graph as it goes (torch/_inductor/output_code.py: CompiledFxGraph.__call__).
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from .guard import Guards
from .identity import current_graph
from .sink import Sink

SCHEMA = "inspector.inputs/1"

ALIGNMENT = 64
"""Bytes; what is kept of a storage begins at a multiple, so that every view keeps its own alignment."""


def inputs_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
    """The arguments of a graph in those of ``CompiledFxGraph.__call__``."""
    given: Sequence[Any] = kwargs["inputs"] if "inputs" in kwargs else args[0]
    return given


class Span:
    """The bytes of one storage that arguments reach: `start` up to `end`."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage
        self.start = sys.maxsize
        self.end = 0

    @property
    def bytes(self) -> int:
        return max(0, self.end - self.start)


class InputSaver:
    """Saves once for each `CompiledFxGraph`. `limit` are bytes for each graph, `folder` is RUN/inputs."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._waiting: dict[int, tuple[Any, dict[str, Any], list[str]]] = {}
        self._armed = False

    def watch(self, module: ModuleType, guards: Guards, sink: Sink) -> None:
        """Hook into the class where it is defined: in `codecache` up to torch 2.5, then in `output_code`."""
        graph = getattr(module, "CompiledFxGraph", None)
        if graph is None or graph.__module__ != module.__name__:
            return
        self._class: Any = graph
        self._sink = sink
        self._guard = guards.make("CompiledFxGraph.__call__/inputs")
        name = "CompiledFxGraph.__init__/inputs"
        if guards.around(graph, "__init__", before=self.making, after=self.made, name=name):
            guards.installed.append(self._guard.name)

    def making(self, compiled: Any, *args: Any, **kwargs: Any) -> Any:
        """Before `CompiledFxGraph.__init__(current_callable, graph, ...)`."""
        lowering = kwargs.get("graph", args[1] if len(args) > 1 else None)
        names = getattr(lowering, "graph_input_names", None) or getattr(lowering, "graph_inputs", None) or ()
        return compiled, [str(name) for name in names]

    def made(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `CompiledFxGraph.__init__`, while its folder is known. No graph from a cache comes here."""
        identity = current_graph()
        if token is None or error is not None or identity["graph"] is None:
            return
        compiled, names = token
        self._waiting[id(compiled)] = (weakref.ref(compiled), identity, names)
        self._arm()

    def _arm(self) -> None:
        """Watch calls as long as a graph has not been called: later ones cost nothing."""
        if self._armed or self._guard.off:
            return
        original = self._class.__call__
        self._armed = True

        @functools.wraps(original)
        def watched(compiled: Any, *args: Any, **kwargs: Any) -> Any:
            self._guard.run(self.called, compiled, args, kwargs)
            return original(compiled, *args, **kwargs)

        def remove() -> None:
            # Where somebody has wrapped us in turn we stay, and only pass calls on.
            if vars(self._class).get("__call__") is watched:
                self._class.__call__ = original
                self._armed = False

        self._class.__call__ = watched
        self._guard.remove = self._disarm = remove

    def called(self, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Before a call of a graph."""
        waiting = self._waiting.pop(id(compiled), None)
        if not self._waiting:
            self._disarm()
        if waiting is None or waiting[0]() is not compiled:
            return
        _, identity, names = waiting
        try:
            inputs = list(inputs_of(args, kwargs))
            line = self._save(identity, names, inputs)
        except Exception as error:
            line = {"file": None, "problem": f"{type(error).__name__}: {error}"}
            self._sink.write({"kind": "inputs", **identity, **line})
            raise
        self._sink.write({"kind": "inputs", **identity, "limit": self.limit, **line})

    def _save(self, identity: dict[str, Any], names: Sequence[str], inputs: Sequence[Any]) -> dict[str, Any]:
        torch: Any = sys.modules["torch"]
        with _undisturbed(torch):
            arguments, spans = _arguments(torch, inputs)
            on_gpu = any(span.storage.device.type == "cuda" for span in spans)
            if on_gpu and torch.cuda.is_current_stream_capturing():
                return {"file": None, "problem": "nothing can be copied while a CUDA graph is being captured"}
            kept, left_out = _within(spans, self.limit)
            storages = {number: _bytes(torch, spans[number]) for number in kept}
            data = {
                "schema": SCHEMA,
                **identity,
                "names": list(names) if len(names) == len(inputs) else [],
                "arguments": arguments,
                "storages": storages,
            }
            path = os.path.join(self.folder, str(identity["process"]), f"{identity['graph']}.pt")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            beside = f"{path}.{os.getpid()}"
            try:
                torch.save(data, beside)
                os.replace(beside, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise
        missing = [index for index, item in enumerate(arguments) if item.get("storage") in left_out]
        other = [index for index, item in enumerate(arguments) if item["kind"] == "other"]
        return {
            "file": "/".join(("inputs", str(identity["process"]), f"{identity['graph']}.pt")),
            "arguments": len(arguments),
            "bytes": sum(spans[number].bytes for number in kept),
            "left_out": missing,
            "left_out_bytes": sum(spans[number].bytes for number in left_out),
            "unknown": other,
        }


@contextlib.contextmanager
def _undisturbed(torch: Any) -> Iterator[None]:
    """Without autograd and the program's own dispatch and function modes, which would see our copies."""
    from_modes = sys.modules.get("torch.utils._python_dispatch")
    disable = getattr(from_modes, "_disable_current_modes", contextlib.nullcontext)
    with torch._C.DisableTorchFunction(), disable(), torch.no_grad():
        yield


def _arguments(torch: Any, inputs: Sequence[Any]) -> tuple[list[dict[str, Any]], list[Span]]:
    """What each argument is, and the memory that the tensors among them reach. Nothing is copied yet."""
    spans: list[Span] = []
    numbers: dict[Any, int] = {}
    arguments: list[dict[str, Any]] = []
    for value in inputs:
        if not isinstance(value, torch.Tensor):
            plain = value is None or isinstance(value, (bool, int, float, str))
            arguments.append({"kind": "value", "value": value} if plain else _other(value))
            continue
        if not _is_plain(torch, value):
            arguments.append(_other(value))
            continue
        storage = value.untyped_storage()
        width = value.element_size()
        start = value.storage_offset() * width
        reach = 0
        if value.numel():
            reach = width * (1 + sum(map(lambda n, step: (n - 1) * step, value.size(), value.stride())))
        number = numbers.setdefault((storage._cdata, str(value.device)), len(spans))
        if number == len(spans):
            spans.append(Span(storage))
        span = spans[number]
        if reach:
            span.start = min(span.start, start // ALIGNMENT * ALIGNMENT)
            span.end = max(span.end, start + reach)
        arguments.append(
            {
                "kind": "tensor",
                "storage": number,
                "start": start,
                "size": list(value.size()),
                "stride": list(value.stride()),
                "dtype": str(value.dtype).replace("torch.", ""),
                "device": str(value.device),
            }
        )
    for item in arguments:
        if item["kind"] == "tensor":
            # An empty tensor has an offset, but no byte of its own.
            item["start"] = item["start"] - spans[item["storage"]].start if 0 not in item["size"] else 0
    return arguments, spans


def _other(value: Any) -> dict[str, Any]:
    return {"kind": "other", "type": type(value).__name__}


def _is_plain(torch: Any, value: Any) -> bool:
    """Whether its elements are those of its storage: no subclass with its own dispatch, no sparse layout."""
    own_dispatch = type(value).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    return not (
        own_dispatch
        or value.layout is not torch.strided
        or value.is_quantized
        or value.is_conj()
        or value.is_neg()
        or value.device.type == "meta"
    )


def _within(spans: Sequence[Span], limit: int) -> tuple[list[int], set[int]]:
    """Numbers of the storages that fit into the limit together, the smallest first, and of the others.

    Small ones hold indices and masks, which can't be made up; large ones are weights and activations.
    """
    kept: list[int] = []
    room = limit
    for number in sorted(range(len(spans)), key=lambda number: spans[number].bytes):
        if spans[number].bytes > room:
            break
        room -= spans[number].bytes
        kept.append(number)
    return sorted(kept), set(range(len(spans))) - set(kept)


def _bytes(torch: Any, span: Span) -> Any:
    """A copy of the span in the host's memory; on a GPU nothing is allocated for it."""
    view = torch.empty(0, dtype=torch.uint8, device=span.storage.device)
    view.set_(span.storage, span.start if span.bytes else 0, (span.bytes,), (1,))
    return view.cpu() if view.device.type != "cpu" else view.clone()
