"""Times the outermost calls of what ``torch.compile`` returns, and the backward passes after them.

What torch.compile returns calls through a function that `_TorchDynamoContext.__call__` makes; that function
is wrapped. With TORCHDYNAMO_DISABLE=1 torch.compile hands back what it was given, for which something stands
that is timed (handle.py): the user's own eager. A call inside another one counts to the outermost, and so
does everything that the program does in it; the device has finished before and after each.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
import weakref
from collections import UserDict
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

try:
    import resource
except ImportError:  # Windows has none.
    resource = None  # type: ignore[assignment]

from .guard import Guard, Guards
from .handle import handle_of
from .journal import Entry, Journal, journal_of
from .places import user_location
from .profiling import Profiling
from .results import numbers
from .sink import Sink
from .tracebacks import leave_ours_out

HERE = os.path.dirname(os.path.abspath(__file__))
CAPTURE = os.path.dirname(HERE)
MOST_SIZES = 24
"""Tensors and flags of a call whose sizes are kept."""
WITH_GRADIENTS = "with gradients"
_OWN_NAMES = ("__call__", "_call_impl", "_wrapped_call_impl", "forward")


def watch_torch(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into ``torch.compile``, which knows where the user asked, with what mode and backend."""
    watch = watch_of(guards, sink)
    watch.journal.state()
    guards.around(
        module,
        "compile",
        before=watch.asked,
        after=watch.answered,
        instead=watch.unchanged,
        name="torch.compile",
    )


def watch_eval_frame(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into torch/_dynamo/eval_frame.py, which makes the functions that call compiled code."""
    watch = watch_of(guards, sink)
    watch.skip_code(module)
    context: Any = getattr(module, "_TorchDynamoContext", None)
    if context is None:
        guards.missing.append("_TorchDynamoContext.__call__")
        return
    guards.around(context, "__call__", before=watch.wrapping, instead=watch.wrapped)
    # A compiled module's own call does more than call that function. Dynamo looks through it to the module
    # (torch/_dynamo/variables/builder.py: wrap_module).
    owner: Any = getattr(module, "OptimizedModule", None)
    if owner is None:
        guards.missing.append("OptimizedModule.__call__")
        return
    owner.__call__ = timer(owner.__call__, watch, guards.make("OptimizedModule.__call__"), watch.begin_module)
    guards.installed.append("OptimizedModule.__call__")


def watch_autograd(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Time the backward passes: compiled code runs in them too, outside the call of its callable.

    ``_engine_run_backward`` is behind ``Tensor.backward``, ``autograd.backward`` and ``autograd.grad``
    (torch/autograd/__init__.py), and unlike those it is not known to Dynamo by its identity.
    """
    watch = watch_of(guards, sink)
    original = getattr(module, "_engine_run_backward", None)
    if not callable(original):
        guards.missing.append("autograd._engine_run_backward")
        return
    guard = guards.make("autograd._engine_run_backward")
    timed = timer(original, watch, guard, watch.begin_backward)
    module._engine_run_backward = timed  # type: ignore[attr-defined]
    guards.installed.append("autograd._engine_run_backward")


def watch_of(guards: Guards, sink: Sink) -> Watch:
    """This process's watch, made on first use."""
    if "calls" not in sink.shared:
        sink.shared["calls"] = Watch(
            guards, journal_of(guards, sink), sink.shared.get("profiling"), sink.shared.get("results")
        )
    watch: Watch = sink.shared["calls"]
    return watch


class _Local(threading.local):
    """Of each thread: whether a timed call is running, and the ``torch.compile`` calls that are."""

    busy = False

    def __init__(self) -> None:
        self.asked: list[tuple[Entry, Any, int]] = []


class Watch:
    """What the hooks know of each other."""

    def __init__(
        self,
        guards: Guards,
        journal: Journal,
        profiling: Profiling | None = None,
        results: Callable[[str, Any, Any], None] | None = None,
    ) -> None:
        self.journal = journal
        journal.between.skip = self._not_the_users
        self.profiling = profiling
        self.results = results
        """Takes what the first call of each callable got and gave (results.py)."""
        self.local = _Local()
        self._guards = guards
        self._guard = guards.make("a compiled call")
        self._contexts: weakref.WeakKeyDictionary[Any, tuple[Entry, Any]] = weakref.WeakKeyDictionary()
        """What a context of Dynamo compiles for: its entry, and a reference to the nn.Module behind it."""
        self._backwards: dict[str | None, Entry] = {}
        self._trained = False
        self._sizes: Any = ()
        """Of the newest call: a backward pass after it is of these."""
        self.trains = False
        """Whether the call that runs, or the newest, has gradients."""
        self.backward = False
        """Whether a timed backward pass is running: of a GPU's, in a thread of autograd's own."""
        self.gradients: tuple[tuple[int, ...], ...] | None = None
        """Of that pass, the shapes of the tensors whose gradients alone it is to give; None where it gives
        those of all leaves."""
        self._disabled = os.environ.get("TORCHDYNAMO_DISABLE") == "1"
        self._torch = ""

    # -- torch.compile

    def asked(self, *args: Any, **kwargs: Any) -> tuple[Entry, Any, int] | None:
        """Before ``torch.compile``; without a model it is the first half of a decorator, and comes again."""
        model = args[0] if args else kwargs.get("model")
        if model is None:
            return None
        entry = self.journal.entry(name_of(model), user_location(self._not_the_users))
        mode, backend = kwargs.get("mode"), kwargs.get("backend")
        entry.mode = None if mode is None else str(mode)
        entry.backend = str(backend or "inductor") if not callable(backend) else name_of(backend)
        token = (entry, model, time.perf_counter_ns())
        self.local.asked.append(token)
        return token

    def answered(
        self, token: tuple[Entry, Any, int] | None, result: Any, error: BaseException | None
    ) -> None:
        """After ``torch.compile``. The first call imports Dynamo, which is part of what compiling costs."""
        if token is not None:
            token[0].setup_ms += (time.perf_counter_ns() - token[2]) / 1e6
            while self.local.asked and self.local.asked.pop() is not token:
                pass

    def unchanged(self, token: tuple[Entry, Any, int] | None, result: Any) -> Any:
        """Dynamo is disabled and torch.compile gave back what it got: the eager call is timed."""
        if token is None or not self._disabled or result is not token[1]:
            return None
        entry, model, _ = token
        if isinstance(model, (FunctionType, MethodType)):
            return self._timed(model, entry, _module_of(model))
        module = _module_of(model)
        if module() is not model:
            return None
        handle = handle_of(model, lambda call: self._timed(call, entry, module))
        if handle is None and model._compiled_call_impl is None:
            # nn.Module's own place for another implementation of its call, as `Module.compile` uses it.
            model._compiled_call_impl = self._timed(model._call_impl, entry, module)
        return handle

    def _not_the_users(self, file: str) -> bool:
        if not self._torch:
            self._torch = os.path.dirname(str(sys.modules["torch"].__file__)) + os.sep
        return file.startswith((self._torch, CAPTURE)) or file in (functools.__file__, threading.__file__)

    # -- what it returns

    def wrapping(self, context: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Before ``_TorchDynamoContext.__call__``."""
        return context, args[0] if args else kwargs.get("fn")

    def wrapped(self, token: tuple[Any, Any] | None, result: Any) -> Any:
        """After it: a plain function is timed. A module's or class's own comes through here by itself."""
        if token is None or not isinstance(result, FunctionType):
            return None
        context, given = token
        if getattr(context, "export", False) or not callable(getattr(context, "callback", None)):
            return None
        if context not in self._contexts:
            if self.local.asked:
                entry, given, _ = self.local.asked[-1]
            else:
                entry = self.journal.entry(name_of(given), user_location(self._not_the_users))
            self._contexts[context] = (entry, _module_of(given))
        return self._timed(result, *self._contexts[context])

    def _timed(self, function: Any, entry: Entry, module: Any) -> Any:
        timed = timer(function, self, self._guard, functools.partial(_begin_call, self, entry, module))
        if hasattr(function, "_torchdynamo_wrapper_id"):
            # By this Dynamo knows a wrapper from what functools.wraps made look like one.
            timed._torchdynamo_wrapper_id = id(timed)
        return timed

    def skip_code(self, eval_frame: Any) -> None:
        """Tell Dynamo never to trace these functions, should they run where it watches."""
        skip = getattr(eval_frame, "skip_code", None)
        if skip is None:
            self._guards.missing.append("eval_frame.skip_code")
            return
        sample = timer(_nothing, self, self._guard, _nothing)
        for function in (
            sample,
            _begin_call,
            Call.__init__,
            Call.end,
            Call.keep,
            Call.passed,
            numbers,
            page_faults,
            Profiling.before,
            Profiling.after,
            Watch.begin_backward,
            Watch.begin_module,
            Watch.gave,
            may_have_gradients,
            sizes_of,
            _add_sizes,
            asked_of,
            Guard.run,
        ):
            skip(function.__code__)

    def begin_module(self, args: Any, kwargs: Any) -> Call | None:
        """Before the call of an OptimizedModule, the first of `args`."""
        context = self._contexts.get(args[0].dynamo_ctx)
        return None if context is None else _begin_call(self, *context, args[1:], kwargs)

    # -- backward passes

    def begin_backward(self, args: Any, kwargs: Any) -> Call | None:
        """Before a backward pass that follows a call of a compiled callable with gradients on."""
        if not self._trained:
            return None
        self._trained = False
        location = user_location(self._not_the_users)
        entry = self._backwards.get(location)
        if entry is None:
            entry = self._backwards[location] = self.journal.entry("backward", location, "backward")
        self.journal.note(entry)
        self.backward = self.trains = True
        self.gradients = asked_of(args, kwargs)
        return Call(self, entry, self._sizes)

    def ended(self, entry: Entry, milliseconds: float, cold: bool, sizes: Any, faults: int) -> bool:
        """After a timed call that has returned; whether it counts as a cold one."""
        self.backward = False
        if entry.kind == "call":
            entry.grad = bool(sys.modules["torch"].is_grad_enabled())
            self._sizes = sizes
        cold = entry.add(milliseconds, cold, sizes, faults)
        self.journal.write_now_and_then()
        return cold

    def gave(self, entry: Entry, result: Any) -> None:
        """After that, with what the call gave: where nothing in that has gradients, as of an optimizer's
        update, a backward pass that follows is another's."""
        if entry.kind == "call" and entry.grad:
            self._trained = self._trained or may_have_gradients(result)


class Call:
    """One outermost call while it runs."""

    __slots__ = (
        "_cold",
        "_entry",
        "_faults",
        "_sizes",
        "_synchronize",
        "_watch",
        "_worked",
        "given",
        "start",
    )

    def __init__(self, watch: Watch, entry: Entry, sizes: Any) -> None:
        self._watch = watch
        self._entry = entry
        self._sizes = sizes
        self._worked = watch.journal.worked
        self._synchronize = synchronizer()
        if self._synchronize is not None:
            self._synchronize()
        if watch.profiling is not None:
            watch.profiling.before(entry)
        self.given: Any = None
        self._cold = True
        self.start = 0
        self._faults = page_faults()

    def end(self, now: int) -> None:
        """The call has returned at `now`, in nanoseconds; its device may still be at work."""
        faults = page_faults() - self._faults
        if self._synchronize is not None:
            self._synchronize()
            now = time.perf_counter_ns()
        cold = self._watch.journal.worked != self._worked
        if self._watch.profiling is not None:
            self._watch.profiling.after(cold)
        took = (now - self.start) / 1e6
        self._cold = self._watch.ended(self._entry, took, cold, self._sizes, faults)

    def keep(self, result: Any) -> None:
        """What it gave; of a first call beside what it got."""
        self._watch.gave(self._entry, result)
        if self.given is not None and self._watch.results is not None:
            self._watch.results(self._entry.name, self.given, numbers(result))

    def passed(self, opened: int) -> None:
        """Last: with all that is our own it had the program's thread since `opened`."""
        self._watch.journal.passed(opened, time.perf_counter_ns(), self._cold)


def timer(function: Any, watch: Watch, guard: Guard, begin: Callable[[Any, Any], Call | None]) -> Any:
    """`function`, its outermost calls timed. A call that raises is the program's, and is not counted."""
    local, clock = watch.local, time.perf_counter_ns

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if local.busy or guard.off:
            return function(*args, **kwargs)
        local.busy = True
        try:
            opened = clock()
            call = guard.run(begin, args, kwargs)
            if call is None:
                return function(*args, **kwargs)
            # Read here, so that as little as can be of our own is between the two.
            call.start = clock()
            result = function(*args, **kwargs)
            now = clock()
            guard.run(call.end, now)
            guard.run(call.keep, result)
            guard.run(call.passed, opened)
            return result
        except BaseException:
            guard.run(leave_ours_out)
            raise
        finally:
            local.busy = False

    return timed


def _begin_call(watch: Watch, entry: Entry, module: Any, args: Any, kwargs: Any) -> Call | None:
    if entry.calls == 0:
        entry.device = device_of(args, kwargs, module())
    owner = module()
    if owner is not None:
        entry.training = bool(getattr(owner, "training", None))
    # One that raised has not said that it ended.
    watch.backward = False
    watch.journal.note(entry)
    sizes = sizes_of(owner, args, kwargs)
    watch.trains = sizes[0] == WITH_GRADIENTS
    call = Call(watch, entry, sizes)
    if watch.results is not None and entry.calls == 0:
        call.given = numbers((args, kwargs))
    return call


def may_have_gradients(result: Any, depth: int = 3) -> bool:
    """Whether a backward pass may begin at what a call gave; of objects that are not known it may."""
    torch: Any = sys.modules["torch"]
    if type(result) in (torch.Tensor, torch.nn.Parameter):
        return bool(result.requires_grad)
    if depth and isinstance(result, (dict, UserDict)):
        result = list(result.values())
    if depth and isinstance(result, (list, tuple)):
        return any(may_have_gradients(part, depth - 1) for part in result)
    return not (result is None or isinstance(result, (bool, int, float, str)))


def asked_of(args: Any, kwargs: Any) -> tuple[tuple[int, ...], ...] | None:
    """`Watch.gradients` of ``_engine_run_backward(outputs, gradients, keep, create, inputs, ...)``
    (torch/autograd/__init__.py: grad, backward)."""
    inputs = kwargs.get("inputs", args[4] if len(args) > 4 else None)
    tensor: Any = sys.modules["torch"].Tensor
    if not inputs or not all(isinstance(value, tensor) and not value.is_nested for value in inputs):
        return None
    return tuple(tuple(map(int, value.shape)) for value in inputs)


def page_faults() -> int:
    """Of all threads of this process so far, those without input or output: memory touched for the first time
    since the system gave it."""
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def sizes_of(module: Any, args: Any, kwargs: Any) -> Any:
    """What a call's work depends on: how its module and autograd are set, the sizes of tensors among its
    arguments, in lists and dictionaries too, and flags and words. Numbers are left out: some count."""
    torch: Any = sys.modules["torch"]
    sizes: list[Any] = [WITH_GRADIENTS if torch.is_grad_enabled() else "without gradients"]
    if module is not None:
        sizes.append("training" if getattr(module, "training", None) else "eval")
    _add_sizes((*args, *kwargs.values()), (torch.Tensor, torch.nn.Parameter), sizes, 3)
    return tuple(sizes)


def _add_sizes(values: Any, plain: Any, sizes: Any, depth: int) -> None:
    for value in values:
        if len(sizes) >= MOST_SIZES:
            return
        if isinstance(value, plain):
            # A subclass may act on being asked for its shape, and a nested tensor has none.
            known = type(value) in plain and not value.is_nested
            sizes.append(tuple(map(int, value.shape)) if known else type(value).__name__)
        elif value is None or isinstance(value, (bool, str)):
            sizes.append(str(value))
        elif depth and isinstance(value, (list, tuple)):
            _add_sizes(value, plain, sizes, depth - 1)
        elif depth and isinstance(value, (dict, UserDict)):
            _add_sizes(value.values(), plain, sizes, depth - 1)


def synchronizer() -> Any:
    """What waits for the device; None where none is in use, or where waiting would break a graph capture."""
    torch: Any = sys.modules["torch"]
    for name in ("cuda", "xpu"):
        module = getattr(torch, name, None)
        if module is None or not module.is_initialized():
            continue
        capturing = getattr(module, "is_current_stream_capturing", None)
        if capturing is not None and capturing():
            return None
        return module.synchronize
    return None


def device_of(args: Any, kwargs: Any, module: Any) -> str | None:
    """Of the first tensor among the arguments, or in a list or dictionary there; else of the parameters."""
    tensor: Any = sys.modules["torch"].Tensor
    for value in (*args, *kwargs.values()):
        inner = value.values() if isinstance(value, dict) else value
        for item in inner if isinstance(value, (list, tuple, dict)) else (value,):
            if isinstance(item, tensor):
                return str(item.device)
    parameters = getattr(module, "parameters", None)
    first = next(iter(parameters()), None) if parameters is not None else None
    return None if first is None else str(first.device)


def name_of(model: Any) -> str:
    """`f`, `Net`, `Net.encode`."""
    owner = getattr(model, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        name = getattr(model, "__name__", "")
        kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
        return kind if name in _OWN_NAMES else f"{kind}.{name}"
    name = getattr(model, "__qualname__", None) or getattr(model, "__name__", None)
    return str(name).rpartition("<locals>.")[2] if name else type(model).__name__


def _module_of(model: Any) -> Callable[[], Any]:
    """Gives the nn.Module behind a callable while it lives; None where there is none."""
    module: Any = sys.modules["torch"].nn.Module
    for candidate in (model, getattr(model, "__self__", None)):
        if isinstance(candidate, module):
            return weakref.ref(candidate)
    return _nothing


def _nothing(*args: Any) -> None:
    return None
