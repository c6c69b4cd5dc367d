"""What a screen asks of the app: to go somewhere, to put a question, to look after a job.

Screens do not know each other. They post these messages; the app alone knows which screen shows a target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from textual.message import Message

from inspector.frozen import dataclass

if TYPE_CHECKING:
    from inspector.model.code import KernelCall
    from inspector.present.documents import Document
    from inspector.present.query import Catalogue
    from inspector.present.spans import Tone
    from inspector.readers.graph import CompiledGraph
    from inspector.readers.locate import Located
    from inspector.readers.run import Run

    from .capturing import CaptureJob
    from .help import HelpLine
    from .replaying import ReplaySession


class Job(Protocol):
    """Something of the user's that runs: it is stopped before the program is left."""

    command: str
    what: str
    """With an article: `a capture`."""

    @property
    def live(self) -> bool:
        """Whether there is something to stop."""

    def end(self) -> None:
        """Stop it within seconds."""


@dataclass(frozen=True, slots=True)
class RunTarget:
    """`remark`: what to say of the run first."""

    located: Located
    remark: tuple[str, Tone] | None = None


@dataclass(frozen=True, slots=True)
class GraphsTarget:
    """All that lies in the run: compiled graphs, graph breaks, recompiles, compile time, the recorder."""

    session: ReplaySession


@dataclass(frozen=True, slots=True)
class GraphTarget:
    """`at`: the view and the line of its file, counted from 1, to begin at. `label`: a better name than its
    ident."""

    session: ReplaySession
    graph: CompiledGraph
    pane: str = "fx"
    at: tuple[str, int] | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class ExplainTarget:
    """`finding`: position of the one to begin at."""

    session: ReplaySession
    finding: int | None = None


@dataclass(frozen=True, slots=True)
class SourceTarget:
    """A text at its line; `remark` says why its lines may not be what was compiled."""

    document: Document
    headline: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class FindTarget:
    """Lines with `query` in all graphs; asks for it where it is empty."""

    session: ReplaySession
    query: str = ""


@dataclass(frozen=True, slots=True)
class BelowTarget:
    """What the kernel of a launch was lowered to."""

    session: ReplaySession
    graph: CompiledGraph
    call: KernelCall


@dataclass(frozen=True, slots=True)
class TraceTarget:
    run: Run


@dataclass(frozen=True, slots=True)
class DiffTarget:
    """Two runs side by side."""

    a: Located
    b: Located


@dataclass(frozen=True, slots=True)
class CaptureTarget:
    """The form in which a capture is put together; `command` to begin with, with a baseline. `why` the run
    that it is from is not known to be the user's own, as half a sentence."""

    command: tuple[str, ...] = ()
    why: str | None = None


@dataclass(frozen=True, slots=True)
class LiveTarget:
    job: CaptureJob


@dataclass(frozen=True, slots=True)
class IndexTarget:
    """Many runs as tables, and what is asked of them."""

    catalogue: Catalogue


@dataclass(frozen=True, slots=True)
class DoctorTarget:
    """Whether this machine can compile."""


@dataclass(frozen=True, slots=True)
class LineTarget:
    """A row whole, however long: its parts, each with its column's title or none."""

    parts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HelpTarget:
    """What can be done on the screen below, in sections."""

    sections: list[list[HelpLine]]
    terms: list[tuple[str, str]] = field(default_factory=list)
    """Words of the line under the cursor, and what they mean."""


Target = (
    RunTarget
    | GraphsTarget
    | GraphTarget
    | ExplainTarget
    | SourceTarget
    | FindTarget
    | BelowTarget
    | TraceTarget
    | DiffTarget
    | CaptureTarget
    | LiveTarget
    | IndexTarget
    | DoctorTarget
    | LineTarget
    | HelpTarget
)


class Open(Message):
    """Go to `target`; `instead`: in place of the screens on top that show the same kind of thing."""

    def __init__(self, target: Target, instead: bool = False) -> None:
        super().__init__()
        self.target = target
        self.instead = instead


class Left(Message):
    """A screen was gone back from; `target` leads there again."""

    def __init__(self, target: Target | None) -> None:
        super().__init__()
        self.target = target


class Forward(Message):
    """Go where going back came from."""


class Wrap(Message):
    """Long lines of texts go on below from now on, or no more; on all screens."""


class Ask(Message):
    """Put a question; `answered` hears whether the answer was yes."""

    def __init__(self, question: str, remark: str, answered: Callable[[bool], None]) -> None:
        super().__init__()
        self.question = question
        self.remark = remark
        self.answered = answered


class Started(Message):
    """A job runs from now on."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job
