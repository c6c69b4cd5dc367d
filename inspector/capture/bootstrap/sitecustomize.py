"""Runs at interpreter start in the captured program: sets torch config values and the default compile mode,
and lets the recorder in.

Standard library only, Python 3.9 syntax, and torch is never imported from here: a finder waits until the
program itself imports `torch` or one of its config modules. Every failure goes to the log named by the
environment variable INSPECTOR_BOOTSTRAP and never reaches the program.

INSPECTOR_BOOTSTRAP is a JSON object with `log` (a path), `mode` (text or null), `config`, a list of
`[MODULE, KEY, VALUE]`, and `record`, null or an object with what the recorder is made with: `folder`, `log`;
`calls`, to watch nothing but calls; `inputs` and `inputs_limit`, where arguments are to be kept.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

VARIABLE = "INSPECTOR_BOOTSTRAP"
OVERRIDE = "INSPECTOR_OVERRIDE"
"""A JSON object with `mode` and `dynamic`, or null in their place: these and the config values then win over
what the program itself says. `whole` names operators that Inductor is to leave to ATen. For trying advice."""
HERE = os.path.dirname(os.path.abspath(__file__))
RECORDER = os.path.join(os.path.dirname(HERE), "recorder")
RECORDED = frozenset(
    {
        "torch",
        "torch.autograd",
        "torch._dynamo.convert_frame",
        "torch._dynamo.eval_frame",
        "torch._dynamo.output_graph",
        "torch._inductor.codecache",
        "torch._inductor.compile_fx",
        "torch._inductor.cudagraph_utils",
        "torch._inductor.output_code",
        "torch._inductor.runtime.triton_heuristics",
        "torch._inductor.scheduler",
        "torch._inductor.select_algorithm",
    }
)
"""Modules that the recorder hooks into; kept here, so that it is loaded only when one of them is."""


class Bootstrap:
    """What was asked for, and the log of what became of it."""

    def __init__(self, text: str) -> None:
        request = json.loads(text)
        self.path: str = request["log"]
        self.mode: str | None = request.get("mode")
        self.config: dict[str, list[tuple[str, Any]]] = {}
        self.record: dict[str, Any] | None = request.get("record")
        self.recorder: Any = None
        self.override: dict[str, Any] | None = json.loads(os.environ.get(OVERRIDE) or "null")
        for module, key, value in request.get("config", ()):
            self.config.setdefault(module, []).append((key, value))

    @property
    def modules(self) -> set[str]:
        """Names of the modules to act on once they have been executed."""
        whole = {"torch"} if self.mode or self.override else set()
        return set(self.config) | whole | (RECORDED if self.record else set())

    def log(self, word: str, text: str) -> None:
        """Append one line; several processes may write, so each line is a single write."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                line = f"{word} {os.getpid()} {' '.join(text.splitlines())}\n"
                os.write(descriptor, line.encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        except Exception:
            pass

    def executed(self, module: ModuleType) -> None:
        """Called when `module` has run; a failure is logged and the program goes on without the setting."""
        name = module.__name__
        for key, value in self.config.get(name, ()):
            try:
                set_config(module, key, value)
                self.log("applied", f"{name}.{key} = {value!r}")
            except Exception as error:
                self.log("failed", f"{name}.{key} = {value!r}: {type(error).__name__}: {error}")
        # Before the mode is set, so that the recorder sees the mode that torch.compile is called with.
        if self.record is not None and name in RECORDED:
            try:
                if self.recorder is None:
                    self.recorder = load_recorder().Recorder(**self.record)
                self.recorder.executed(module)
                if name == "torch":
                    self.log("watching", f"torch {module.__version__}")
            except Exception as error:
                self.log("unrecorded", f"{name}: {type(error).__name__}: {error}")
        if name == "torch" and self.mode:
            try:
                set_default_mode(module, self.mode)
                self.log("applied", f"torch.compile mode = {self.mode}")
            except Exception as error:
                self.log("failed", f"torch.compile mode = {self.mode}: {type(error).__name__}: {error}")
        if name == "torch" and self.override is not None:
            override_compile(module, self)


def load_recorder() -> Any:
    """The recorder's package, by its path: Inspector need not be installed in this interpreter."""
    name = "inspector_recorder"
    spec = importlib.util.spec_from_file_location(
        name, os.path.join(RECORDER, "__init__.py"), submodule_search_locations=[RECORDER]
    )
    if spec is None or spec.loader is None:
        raise ImportError(RECORDER)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def set_config(module: ModuleType, key: str, value: Any) -> None:
    """Set a dotted `key`; torch's config modules raise AttributeError for a name that they don't have."""
    target: Any = module
    parts = key.split(".")
    for part in parts[:-1]:
        target = getattr(target, part)
    getattr(target, parts[-1])
    setattr(target, parts[-1], value)


def set_default_mode(torch: Any, mode: str) -> None:
    """Give torch.compile calls for Inductor without `mode` and `options` this mode."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        undecided = kwargs.get("mode") is None and kwargs.get("options") is None
        if undecided and kwargs.get("backend") in (None, "inductor") and not kwargs.get("disable"):
            kwargs["mode"] = mode
        return original(*args, **kwargs)

    torch.compile = compile


def override_compile(torch: Any, bootstrap: Bootstrap) -> None:
    """At each torch.compile set what the program has changed meanwhile, and put mode and dynamic in place."""
    original = torch.compile
    override = bootstrap.override or {}
    whole = list(override.get("whole") or ())

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        while whole:
            name = whole.pop()
            try:
                keep_whole(torch, name)
                bootstrap.log("applied", f"{name} left to ATen")
            except Exception as error:
                bootstrap.log("failed", f"{name} left to ATen: {type(error).__name__}: {error}")
        for name, values in bootstrap.config.items():
            for key, value in values if name in sys.modules else ():
                try:
                    set_config(sys.modules[name], key, value)
                except Exception as error:
                    bootstrap.log("failed", f"{name}.{key} = {value!r}: {type(error).__name__}: {error}")
        if kwargs.get("backend") in (None, "inductor") and not kwargs.get("disable"):
            if override.get("mode"):
                kwargs["mode"] = override["mode"]
                kwargs.pop("options", None)
            if override.get("dynamic") is not None:
                kwargs["dynamic"] = override["dynamic"]
        return original(*args, **kwargs)

    torch.compile = compile


def keep_whole(torch: Any, name: str) -> None:
    """Let Inductor call an operator of ATen (``aten.cumsum``) as eager does: no decomposition, no lowering of
    its own (torch/_inductor/decomposition.py, torch/_inductor/lowering.py: make_fallback)."""
    decomposition = importlib.import_module("torch._inductor.decomposition")
    lowering = importlib.import_module("torch._inductor.lowering")

    packet = getattr(torch.ops.aten, name.partition(".")[2])
    keys = torch._C.DispatchKey
    for overload in [getattr(packet, each) for each in packet.overloads()]:
        for table in (decomposition.decompositions, decomposition.fast_random_decomps()):
            table.pop(overload, None)
        # Some are taken apart before any table is asked (torch/_decomp/decompositions.py: py_impl).
        for key in (keys.CompositeImplicitAutograd, keys.Autograd):
            overload.py_kernels.pop(key, None)
        overload._dispatch_cache.clear()
    lowering.make_fallback(packet, warn=False)


class Finder:
    """First on sys.meta_path: lets the others find the module and adds a call after its execution."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self.bootstrap = bootstrap
        self.waiting = bootstrap.modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in self.waiting:
            return None
        self.waiting.discard(name)
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                self.hook(spec)
                return spec
        # Not importable now, but a later change of sys.path may make it so.
        self.waiting.add(name)
        return None

    def hook(self, spec: Any) -> None:
        try:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.bootstrap.executed(module)

            spec.loader.exec_module = exec_module
        except Exception as error:
            self.bootstrap.log("failed", f"{spec.name} cannot be watched: {error}")


def install() -> None:
    """Read the request and wait for torch; without a usable request nothing happens."""
    try:
        bootstrap = Bootstrap(os.environ[VARIABLE])
    except Exception:
        return
    try:
        sys.meta_path.insert(0, Finder(bootstrap))
        bootstrap.log("ready", sys.executable)
    except Exception as error:
        bootstrap.log("failed", f"the import hook: {error}")


def run_next() -> None:
    """Run the sitecustomize that this one hides; its own errors are the program's, as they always were."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    install()
    run_next()
