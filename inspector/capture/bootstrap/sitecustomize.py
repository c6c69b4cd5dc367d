"""Runs at interpreter start in the captured program: sets torch config values and the default compile mode.

Standard library only, Python 3.9 syntax, and torch is never imported from here: a finder waits until the
program itself imports `torch` or one of its config modules. Every failure goes to the log named by the
environment variable INSPECTOR_BOOTSTRAP and never reaches the program.

INSPECTOR_BOOTSTRAP is a JSON object: `{"log": PATH, "mode": MODE or null, "config": [[MODULE, KEY, VALUE], ...]}`.
"""

import functools
import importlib.machinery
import importlib.util
import json
import os
import sys

VARIABLE = "INSPECTOR_BOOTSTRAP"
HERE = os.path.dirname(os.path.abspath(__file__))


class Bootstrap:
    """What was asked for, and the log of what became of it."""

    def __init__(self, text):
        request = json.loads(text)
        self.path = request["log"]
        self.mode = request.get("mode")
        self.config = {}
        for module, key, value in request.get("config", ()):
            self.config.setdefault(module, []).append((key, value))

    @property
    def modules(self):
        """Names of the modules to act on once they have been executed."""
        return set(self.config) | ({"torch"} if self.mode else set())

    def log(self, word, text):
        """Append one line; several processes may write, so each line is a single write."""
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                line = "%s %d %s\n" % (word, os.getpid(), text)
                os.write(descriptor, line.replace("\n", " ", line.count("\n") - 1).encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        except Exception:
            pass

    def executed(self, module):
        """Called when `module` has run; a failure is logged and the program goes on without the setting."""
        name = module.__name__
        for key, value in self.config.get(name, ()):
            try:
                set_config(module, key, value)
                self.log("applied", "%s.%s = %r" % (name, key, value))
            except BaseException as error:
                self.log("failed", "%s.%s = %r: %s: %s" % (name, key, value, type(error).__name__, error))
        if name == "torch" and self.mode:
            try:
                set_default_mode(module, self.mode)
                self.log("applied", "torch.compile mode = %s" % self.mode)
            except BaseException as error:
                self.log("failed", "torch.compile mode = %s: %s: %s" % (self.mode, type(error).__name__, error))


def set_config(module, key, value):
    """Set a dotted `key`; torch's config modules raise AttributeError for a name that they don't have."""
    target = module
    parts = key.split(".")
    for part in parts[:-1]:
        target = getattr(target, part)
    getattr(target, parts[-1])
    setattr(target, parts[-1], value)


def set_default_mode(torch, mode):
    """Give torch.compile calls for Inductor without `mode` and `options` this mode."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*args, **kwargs):
        undecided = kwargs.get("mode") is None and kwargs.get("options") is None
        if undecided and kwargs.get("backend") in (None, "inductor") and not kwargs.get("disable"):
            kwargs["mode"] = mode
        return original(*args, **kwargs)

    torch.compile = compile


class Finder:
    """First on sys.meta_path: lets the others find the module and adds a call after its execution."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.waiting = bootstrap.modules

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        self.waiting.discard(name)
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec = find_spec(name, path, target)
            if spec is not None:
                self.hook(spec)
                return spec
        # Not importable now, but a later change of sys.path may make it so.
        self.waiting.add(name)
        return None

    def hook(self, spec):
        try:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self.bootstrap.executed(module)

            spec.loader.exec_module = exec_module
        except Exception as error:
            self.bootstrap.log("failed", "%s cannot be watched: %s" % (spec.name, error))


def install():
    """Read the request and wait for torch; without a usable request nothing happens."""
    try:
        bootstrap = Bootstrap(os.environ[VARIABLE])
    except Exception:
        return
    try:
        sys.meta_path.insert(0, Finder(bootstrap))
        bootstrap.log("ready", sys.executable)
    except Exception as error:
        bootstrap.log("failed", "the import hook: %s" % error)


def run_next():
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
