"""Compilations that failed and frames that Dynamo gave up, each with its error, line and torch's hint."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.frozen import dataclass
from inspector.model.explain import Trial
from inspector.model.failure import Failure
from inspector.model.logs import led_to
from inspector.model.source import SourceLocation, users_place
from inspector.readers.failures import parse_torchs

from .case import Case

_IN_LOOP = re.compile(r"graph break in (?:a for/while )?loop")
"""torch/_dynamo/symbolic_convert.py: InstructionTranslatorBase.should_compile_partial_graph."""
# Set torch._dynamo.config.allow_rnn=True to enable ...
_SETTING = re.compile(r"torch\._dynamo\.config\.(\w+)\s*=\s*(True|False)")
_RNN = re.compile(r"RNN, GRU, or LSTM|\b(?:RNN|LSTM|GRU)\(")
IN_ONE_CALL = "a library runs all of its steps in one call, which compiled code need not beat"
SCALARS = ("Tensor.item()", ".item()", "_local_scalar_dense", "tolist")
"""In what torch says of a number that the host reads."""


@dataclass(frozen=True, slots=True)
class FrameFailure:
    """`failed` tells an error from a frame that Dynamo gave up; `raised` that the program got the error, with
    `text` as its message. `users` is the user's line that led to a library's."""

    failure: Failure
    text: str
    frame: str
    failed: bool
    raised: bool = False
    users: SourceLocation | None = None

    @property
    def place(self) -> SourceLocation | None:
        """The user's line, where one is known."""
        return self.users or self.failure.place


def hinted(hint: str) -> Trial | None:
    """The setting that torch's hint names."""
    setting = _SETTING.search(hint)
    return Trial(config=((f"dynamo.{setting[1]}", setting[2] == "True"),)) if setting else None


def is_rnn(reason: str) -> bool:
    """Whether torch's reason is a recurrent layer, which Dynamo leaves to eager unless it is told not to."""
    return _RNN.search(reason) is not None


def decides(case: Case, reason: str, place: SourceLocation | None) -> bool:
    """Whether the number that a line reads decides which lines run next: captured, as torch's hint says, it
    breaks the graph there (torch/_dynamo/symbolic_convert.py: generic_jump)."""
    if place is None or not any(word in reason for word in SCALARS):
        return False
    return any(program.decides(place.line) for program in case.programs_of(place)[:1])


def compile_failures(case: Case) -> tuple[FrameFailure, ...]:
    """Each error once: of the recorder's events, and of torch's log for runs without them."""
    different: dict[tuple[str, str], FrameFailure] = {}
    for item in (*_of_events(case), *_of_log(case)):
        different.setdefault((str(item.failure.place), item.failure.error), item)
    return tuple(different.values())


def ended_by(case: Case, item: FrameFailure) -> bool:
    """Whether the program ended with that compilation's error."""
    message = case.failure.error.partition(": ")[2].rstrip("…") if case.failure is not None else ""
    return item.raised and bool(message) and message in " ".join(item.text.split())


def in_loop(case: Case, item: FrameFailure) -> bool:
    """Whether the frame was given up for a loop that is around the line itself, or has it as its condition:
    what a loop calls is compiled by itself."""
    place = item.place
    if place is None or _IN_LOOP.search(item.text) is None:
        return False
    return any(
        program.in_loop(place.line) or program.line(place.line).startswith("while ")
        for program in case.programs_of(place)[:1]
    )


def _of_events(case: Case) -> Iterator[FrameFailure]:
    for event in case.events:
        if event.kind in ("compile_error", "skipped_frame"):
            failure = parse_torchs(event.reason, event.location, event.raised)
            yield FrameFailure(
                failure,
                event.reason,
                event.frame or "",
                event.kind == "compile_error",
                event.raised,
                led_to(failure.place, event.frame, case.facts.given_up),
            )


def _of_log(case: Case) -> Iterator[FrameFailure]:
    if any(event.kind in ("compile_error", "skipped_frame") for event in case.events):
        return
    for broken in case.facts.given_up:
        place = users_place(broken.location, broken.frames)
        name = place.function if place is not None else None
        yield FrameFailure(parse_torchs(broken.reason, place, False), broken.reason, name or "", failed=False)
