"""How the child speaks to its parent, and how it puts an exception into one sentence. No torch here."""

from __future__ import annotations

import os
import re

from inspector.replay.protocol import Event, Note, Stage, to_line


class Failure(Exception):
    """The replay ends here; the message is one sentence that says why."""


class NotRunnable(Exception):
    """A kernel cannot be run here, through no fault of its own; the message is one line that says why."""


class KernelFault(Exception):
    """A kernel does what no right kernel does, such as touching memory outside its arguments."""


class Reporter:
    """Writes events, each line at once."""

    def __init__(self, descriptor: int) -> None:
        # Compilers and compile workers must not hold the pipe open.
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor

    def send(self, event: Event) -> None:
        # In a line of its own, also behind what a kernel wrote to the descriptor.
        view = memoryview(b"\n" + to_line(event))
        while view:
            view = view[os.write(self._descriptor, view) :]

    def stage(self, text: str, launches: int = 0) -> None:
        self.send(Stage(text, launches))

    def note(self, text: str) -> None:
        self.send(Note(text))


def first_line(error: BaseException) -> str:
    """The first line of the message that says anything, else the exception's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def describe(error: BaseException) -> str:
    """One sentence for an exception of torch, a compiler or the generated code."""
    text = str(error)
    if isinstance(error, NotRunnable):
        return text
    kind = type(error).__name__
    if kind == "InvalidCxxCompiler":
        return (
            f"no working C++ compiler: {first_line(error).rstrip('.')}; install g++ or set CXX "
            "(`inspector doctor` says what is found)"
        )
    if "C++ compile error" in text or kind.endswith("CompileError"):
        match = re.search(r"(?:fatal )?error: (?P<what>.*)$", text, re.MULTILINE)
        return f"a kernel does not compile: {match['what'].strip() if match else first_line(error)}"
    if "No such file or directory" in text and isinstance(error, FileNotFoundError):
        return f"a program or file is missing: {error.filename}"
    if "out of memory" in text.lower():
        return f"out of memory: {first_line(error)}"
    return f"{kind}: {first_line(error)}"
