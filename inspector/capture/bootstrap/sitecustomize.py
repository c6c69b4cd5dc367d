"""Runs at interpreter start in the captured program: sets torch config values and the default compile mode,
and lets the recorder in.

Standard library only, Python 3.9 syntax, and torch is never imported from here: a finder waits until the
program itself imports `torch` or one of its config modules. Every failure goes to the log named by the
environment variable INSPECTOR_BOOTSTRAP and never reaches the program.

Nothing is imported but what an interpreter has loaded before any program: a module imported here by its name
would be in the place of the program's own of that name (a `json.py` beside it), or be that one. The recorder,
which needs more, comes in when torch has been imported, and gets the standard library's own modules.

INSPECTOR_BOOTSTRAP is a JSON object with `log` (a path), `mode` (text or null), `config`, a list of
`[MODULE, KEY, VALUE]`, and `record`, null or an object with what the recorder is made with: `folder`, `log`;
`calls`, to watch nothing but calls; `inputs` and `inputs_limit`, where arguments are to be kept.
"""

import _frozen_importlib
import _frozen_importlib_external
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

VARIABLE = "INSPECTOR_BOOTSTRAP"
OVERRIDE = "INSPECTOR_OVERRIDE"
"""A JSON object with `mode` and `dynamic`, or null in their place: these and the config values then win over
what the program itself says. `whole` names operators that Inductor is to leave to ATen, `in_place` asks for
writes into parts to stay in place, `kept` names operators whose results are to be in memory, `loop_vectors`
asks g++ for vectors of plain loops, `state` has values of STATES. For trying advice. `without` is what the
recorder switches off (recorder/vary.py), to find a cause."""
INDUCTOR = "torch._inductor.config"
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
VARIED = frozenset(
    {
        "torch._inductor.compiler_bisector",
        "torch._inductor.pattern_matcher",
        "torch._inductor.scheduler",
        "torch.fx.passes.graph_transform_observer",
    }
)
"""The same where `without` of OVERRIDE asks for it."""
STATES = {
    "get_float32_matmul_precision": "set_float32_matmul_precision",
    "get_num_threads": "set_num_threads",
    "are_deterministic_algorithms_enabled": "use_deterministic_algorithms",
    "backends.cudnn.benchmark": "backends.cudnn.benchmark",
    "backends.cudnn.allow_tf32": "backends.cudnn.allow_tf32",
    "backends.cuda.matmul.allow_tf32": "backends.cuda.matmul.allow_tf32",
    "backends.cuda.flash_sdp_enabled": "backends.cuda.enable_flash_sdp",
    "backends.cuda.mem_efficient_sdp_enabled": "backends.cuda.enable_mem_efficient_sdp",
    "backends.cuda.math_sdp_enabled": "backends.cuda.enable_math_sdp",
    "backends.mkldnn.enabled": "backends.mkldnn.enabled",
    "set_flush_denormal": "set_flush_denormal",
}
"""What the recorder reads of torch's state -> what sets it, a function or an attribute, below `torch`; and
what can only be set."""
OF_THREADS = frozenset({"set_flush_denormal"})
"""Of these what a thread takes over from the one that starts it."""
USED = (
    "__future__", "atexit", "collections", "contextlib", "functools", "inspect", "json", "math", "os",
    "platform", "re", "sys", "threading", "time", "types", "typing", "weakref",
)  # fmt: skip
"""Modules of the standard library that the recorder imports."""


_IMPORT_SYSTEM = "<frozen importlib._bootstrap_external>"


class Bootstrap:
    """What was asked for, and the log of what became of it."""

    def __init__(self, text: str) -> None:
        request = from_json(text)
        self.path: str = request["log"]
        self.mode: str | None = request.get("mode")
        self.config: dict[str, list[tuple[str, Any]]] = {}
        self.record: dict[str, Any] | None = request.get("record")
        self.recorder: Any = None
        self.override: dict[str, Any] | None = from_json(os.environ.get(OVERRIDE) or "null")
        for module, key, value in request.get("config", ()):
            if isinstance(value, str) and value.startswith("{"):
                value = from_json(value)
            self.config.setdefault(module, []).append((key, value))

    @property
    def modules(self) -> "set[str]":
        """Names of the modules to act on once they have been executed."""
        whole = {"torch"} if self.mode or self.override is not None else set()
        return set(self.config) | whole | self.recorded

    @property
    def recorded(self) -> "frozenset[str]":
        """Modules that the recorder hooks into."""
        if not self.record:
            return frozenset()
        return RECORDED | VARIED if (self.override or {}).get("without") is not None else RECORDED

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

    def executed(self, module: "ModuleType") -> None:
        """Called when `module` has run; a failure is logged and the program goes on without the setting."""
        name = module.__name__
        for key, value in self.config.get(name, ()):
            try:
                set_config(module, key, value)
                self.log("applied", f"{name}.{key} = {value!r}")
            except Exception as error:
                self.log("failed", f"{name}.{key} = {value!r}: {type(error).__name__}: {error}")
        # Before the mode is set, so that the recorder sees the mode that torch.compile is called with.
        if name in self.recorded:
            try:
                if self.recorder is None:
                    without = (self.override or {}).get("without")
                    self.recorder = load_recorder().Recorder(**(self.record or {}), without=without)
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


def from_json(text: str) -> "Any":
    """What JSON says, without `json`: text that `json.dumps(ensure_ascii=False)` made is a Python expression
    but for these names."""
    names = {"null": None, "true": True, "false": False, "NaN": float("nan"), "Infinity": float("inf")}
    return eval(text, {"__builtins__": {}, **names})


def load_recorder() -> "Any":
    """The recorder's package, by its path: Inspector need not be installed in this interpreter."""
    name = "inspector_recorder"
    spec = _frozen_importlib_external.spec_from_file_location(
        name, os.path.join(RECORDER, "__init__.py"), submodule_search_locations=[RECORDER]
    )
    if spec is None or spec.loader is None:
        raise ImportError(RECORDER)
    module = _frozen_importlib.module_from_spec(spec)
    sys.modules[name] = module
    with StandardLibrary(USED):
        spec.loader.exec_module(module)
    return module


class StandardLibrary:
    """While it is entered, `names` and what else is imported are the standard library's modules, where the
    program has modules of such names, too; afterwards it has its own again."""

    def __init__(self, names: "Iterable[str]") -> None:
        self.names = names
        self.path: list[str] | None = None
        self.hidden: dict[str, ModuleType] = {}

    def __enter__(self) -> None:
        home = os.path.dirname(os.__file__)
        find = _frozen_importlib_external.PathFinder.find_spec
        modules = {name: module for name, module in sys.modules.items() if name.split(".")[0] in self.names}
        shadowed = {
            name.split(".")[0]
            for name, module in modules.items()
            if not _is_standard(getattr(module, "__file__", None), home)
        }
        for name in self.names:
            spec = None if name in modules else find(name, sys.path)
            if spec is not None and not _is_standard(spec.origin, home):
                shadowed.add(name)
        if not shadowed:
            return
        self.path = sys.path[:]
        self.before = set(sys.modules)
        self.hidden = {name: module for name, module in modules.items() if name.split(".")[0] in shadowed}
        for name in self.hidden:
            del sys.modules[name]
        sys.path[:] = [home, os.path.join(home, "lib-dynload")]

    def __exit__(self, *_exception: "object") -> None:
        if self.path is None:
            return
        sys.path[:] = self.path
        for name in set(sys.modules) - self.before | set(self.hidden):
            if not name.startswith("inspector_recorder"):
                del sys.modules[name]
        sys.modules.update(self.hidden)


def _is_standard(path: "str | None", home: str) -> bool:
    """Whether a module's file is the standard library's; one without a file is built in."""
    inside = path is None or path in ("built-in", "frozen") or path.startswith(home + os.sep)
    return inside and "-packages" not in (path or "")


def _wrapping(original: "Any") -> "Callable[[Any], Any]":
    """What `functools.wraps` does."""

    def decorate(function: "Any") -> "Any":
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(function, name, getattr(original, name, None))
        function.__dict__.update(original.__dict__)
        function.__wrapped__ = original
        return function

    return decorate


def set_config(module: "ModuleType", key: str, value: "Any") -> None:
    """Set a dotted `key`; torch's config modules raise AttributeError for a name that they don't have."""
    target: Any = module
    parts = key.split(".")
    for part in parts[:-1]:
        target = getattr(target, part)
    getattr(target, parts[-1])
    setattr(target, parts[-1], value)


def set_default_mode(torch: "Any", mode: str) -> None:
    """Give torch.compile calls for Inductor without `mode` and `options` this mode."""
    original = torch.compile

    @_wrapping(original)
    def compile(*args: "Any", **kwargs: "Any") -> "Any":
        undecided = kwargs.get("mode") is None and kwargs.get("options") is None
        if undecided and kwargs.get("backend") in (None, "inductor") and not kwargs.get("disable"):
            kwargs["mode"] = mode
        return original(*args, **kwargs)

    torch.compile = compile


def make_changes(
    changes: "list[tuple[str, Callable[..., None], tuple[Any, ...]]]", bootstrap: Bootstrap
) -> None:
    """Each once: they are taken out of the list."""
    while changes:
        words, change, given = changes.pop()
        try:
            change(*given)
            bootstrap.log("applied", words)
        except Exception as error:
            bootstrap.log("failed", f"{words}: {type(error).__name__}: {error}")


def override_compile(torch: "Any", bootstrap: Bootstrap) -> None:
    """At each torch.compile set what the program has changed meanwhile, and put mode and dynamic in place."""
    original = torch.compile
    override = bootstrap.override or {}
    changes: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = [
        (f"{name} left to ATen", keep_whole, (torch, name)) for name in override.get("whole") or ()
    ]
    changes += [(f"{name} kept in memory", keep_values, (name,)) for name in override.get("kept") or ()]
    at_once: list[tuple[str, Callable[..., None], tuple[Any, ...]]] = []
    for name, value in (override.get("state") or {}).items():
        to = at_once if name in OF_THREADS else changes
        to.append((f"{name} = {value}", set_state, (torch, name, value)))
    make_changes(at_once, bootstrap)
    if override.get("in_place"):
        changes.append(("writes kept in place", keep_in_place, ()))
    if override.get("loop_vectors"):
        changes.append(("g++ with -ftree-loop-vectorize", make_loop_vectors, ()))

    @_wrapping(original)
    def compile(*args: "Any", **kwargs: "Any") -> "Any":
        make_changes(changes, bootstrap)
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
            elif kwargs.get("mode") or kwargs.get("options"):
                try:
                    kwargs.update(winning(torch, kwargs, bootstrap.config.get(INDUCTOR, ())))
                except Exception as error:
                    bootstrap.log("failed", f"mode and options: {type(error).__name__}: {error}")
            if override.get("dynamic") is not None:
                kwargs["dynamic"] = override["dynamic"]
        return original(*args, **kwargs)

    torch.compile = compile


def winning(torch: "Any", kwargs: "Any", ours: "Iterable[tuple[str, Any]]") -> "dict[str, Any]":
    """The `mode` and `options` of a torch.compile call, with the config values in the place of those in them;
    empty where there are none of these (torch/_inductor/__init__.py: list_mode_options)."""
    options = kwargs.get("options") or torch._inductor.list_mode_options(kwargs["mode"])
    theirs = {name.replace("-", "_"): value for name, value in options.items()}
    changed = {name: value for name, value in ours if name in theirs}
    return {"mode": None, "options": {**theirs, **changed}} if changed else {}


def keep_whole(torch: "Any", name: str) -> None:
    """Let Inductor call an operator of ATen (``aten.cumsum``) as eager does: no decomposition, no lowering of
    its own (torch/_inductor/decomposition.py, torch/_inductor/lowering.py: make_fallback)."""
    decomposition = _module("torch._inductor.decomposition")
    lowering = _module("torch._inductor.lowering")
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


def keep_values(name: str) -> None:
    """Have all that an operator (``aten.acos``) gives written to memory, and not computed where it is read,
    and a copy of what it only views, as ``aten.select`` does (torch/_inductor/lowering.py: lowerings;
    torch/_inductor/ir.py: StorageBox.realize, ExternKernel.copy_input)."""
    ir = _module("torch._inductor.ir")
    lowerings = _module("torch._inductor.lowering").lowerings
    for overload in [each for each in lowerings if str(each).rpartition(".")[0] == name]:
        original = lowerings[overload]

        @_wrapping(original)
        def kept(*args: "Any", _original: "Any" = original, **kwargs: "Any") -> "Any":
            made = _original(*args, **kwargs)
            if isinstance(getattr(made, "data", None), ir.BaseView):
                return ir.ExternKernel.copy_input(made)
            if hasattr(made, "realize"):
                made.realize()
            return made

        lowerings[overload] = kept


def set_state(torch: "Any", name: str, text: str) -> None:
    """Set one of STATES to a value's text, as the recorder has it."""
    *path, last = STATES[name].split(".")
    owner: Any = torch
    for part in path:
        owner = getattr(owner, part)
    value: Any = {"True": True, "False": False}.get(text, int(text) if text.isdigit() else text)
    known = getattr(owner, last)
    if callable(known):
        known(value)
    else:
        setattr(owner, last, value)


def keep_in_place() -> None:
    """Let every write into a part of a tensor stay one where nothing reads the older version afterwards, as
    if both were in memory anyway (torch/_inductor/fx_passes/reinplace.py: should_reinplace_scatter)."""
    set_config(_module("torch._inductor.fx_passes.reinplace"), "is_node_realized", lambda _: True)


def make_loop_vectors() -> None:
    """Take out of g++'s flags what keeps it from vectors of plain loops, which -O3 makes otherwise
    (torch/_inductor/cpp_builder.py: _get_optimization_cflags, a list, or a tuple of lists)."""
    builder = _module("torch._inductor.cpp_builder")
    original = builder._get_optimization_cflags

    @_wrapping(original)
    def flags(*args: "Any", **kwargs: "Any") -> "Any":
        made = original(*args, **kwargs)
        for part in made if isinstance(made, tuple) else (made,):
            if "fno-tree-loop-vectorize" in part:
                part.remove("fno-tree-loop-vectorize")
        return made

    builder._get_optimization_cflags = flags


def _module(name: str) -> "Any":
    """A module of torch's, imported."""
    __import__(name)
    return sys.modules[name]


class Finder:
    """First on sys.meta_path: lets the others find the module and adds a call after its execution."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self.bootstrap = bootstrap
        self.waiting = bootstrap.modules

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        if name not in self.waiting:
            return None
        self.waiting.discard(name)
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec: ModuleSpec | None = find_spec(name, path, target)
            if spec is not None:
                self.hook(spec)
                return spec
        # Not importable now, but a later change of sys.path may make it so.
        self.waiting.add(name)
        return None

    def hook(self, spec: "Any") -> None:
        try:
            execute = spec.loader.exec_module

            def exec_module(module: "ModuleType") -> None:
                execute(module)
                self.bootstrap.executed(module)

            # Then a traceback leaves its line out, as it does the lines of the import system around it.
            exec_module.__code__ = exec_module.__code__.replace(co_filename=_IMPORT_SYSTEM)
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
    """Run the sitecustomize that this one hides; its own errors are the program's, as they always were.

    Raises ImportError as the interpreter expects it where there is none (Lib/site.py: execsitecustomize).
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]
    spec = _frozen_importlib_external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        raise ImportError("No module named 'sitecustomize'", name="sitecustomize")
    module = _frozen_importlib.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    install()
    run_next()
