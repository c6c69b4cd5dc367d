"""Dynamo's own words on graph breaks and recompiles, as TORCH_LOGS and TORCH_TRACE both carry them.

Written by torch/_dynamo/symbolic_convert.py (log_graph_break), convert_frame.py (frames that are
skipped), exc.py (unimplemented_with_warning) and guards.py (recompilation reasons). The texts here
are whole messages: line prefixes are gone, lines are joined by newlines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, zip_longest

from inspector.model.logs import GraphBreak, Recompile, TorchLog
from inspector.model.source import SourceLocation, is_ours, without_ours

# Graph break in user code at /home/user/train.py:8
# Graph break (user stack suppressed due to duplicate graph break) in user code at /home/user/train.py:8
# Graph break (details suppressed) in user code at /home/user/train.py:8      (2.6)
# Unsupported break in user code at /home/user/train.py:8 (details suppressed)      (2.4 and 2.5, plain)
_BREAK_AT = re.compile(
    r"(?:Graph|Unsupported) break(?P<suppressed> \([^)]*suppressed[^)]*\))? in user code at "
    r"(?P<path>.*):(?P<line>\d+)(?P<details> \(details suppressed\))?"
)
# Graph break: from user code at:      (2.4, 2.5)
# Graph break: skip: from user code at:      (2.4 to 2.8)
_BREAK_FROM = re.compile(r"Graph break: (?P<reason>.*?)from user code at:\n", re.S)
# Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.
_BREAK_SKIP = re.compile(
    r"Graph break: (?P<reason>.*?)(?:\nThe graph break occurred in the following user code:|\Z)", re.S
)
# WON'T CONVERT forward /home/user/train.py line 56
_WONT_CONVERT = re.compile(r"WON'T CONVERT (?P<function>.*) (?P<path>\S+) line (?P<line>\d+)")

# Graph Break Reason: Data-dependent branching
# Reason: Unsupported: generic_jump TensorVariable()      (2.6)
_REASON = re.compile(r"^(?:Graph Break )?Reason: ", re.M)
# User code traceback:
# Stack variable source attribution:
_AFTER_REASON = re.compile(r"^(?:User code traceback|Stack variable source attribution):$", re.M)
# The lines after which no frame is the user's: an exception's traceback, and the notes of verbose mode.
_AFTER_FRAMES = re.compile(
    r"^(?:Traceback \(most recent call last\):|NOTE: the most recent|Most recent bytecode)", re.M
)
# ========== The above exception occurred while processing the following code ==========
_BEFORE_FRAMES_OF_EXCEPTION = "while processing the following code"
#   File "/home/user/train.py", line 8, in forward
_FRAME = re.compile(
    r'^ *File "(?P<path>.*)", line (?P<line>\d+)(?:, in (?P<function>.*))?(?:\n {4,}(?P<code>[^\s^].*))?',
    re.M,
)
# torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: .*|$)", re.M)

# Recompiling function forward in /home/user/train.py:6
_RECOMPILING = re.compile(
    r"Recompiling function (?=.*:\d+$)(?P<function>.*?) in (?P<path>.*):(?P<line>\d+)$", re.M
)
#     - 0/0: tensor 'x' size mismatch at index 0. expected 8, actual 16
_GUARD_FAILURE = re.compile(r"^ {4}- (.*)$", re.M)
# 0/0: L['n'] == 3      (with compiled autograd !0/0/0: ...)
_REASON_ID = re.compile(r"!?\d+(?:/\d+)*: ")


def begins_graph_break(line: str) -> bool:
    """Whether a line of a ``[__graph_breaks]`` message is the first of an event."""
    return line.startswith(("Graph break in ", "Graph break (", "Graph break: ", "WON'T CONVERT "))


def is_suppressed_break(line: str) -> bool:
    """Whether a plain message stands for a repeated break, as 2.4 and 2.5 log it outside the artifact."""
    return line.startswith("Unsupported break in user code at ")


def begins_recompile(line: str) -> bool:
    """Whether a line of a ``[__recompiles]`` message is the first of an event."""
    return line.startswith("Recompiling function ")


def parse_graph_break(text: str, compile_id: str | None, line: int) -> GraphBreak:
    """One event from its whole text; `line` is where the text begins in its file.

    `reason` is verbatim, several lines in newer versions; empty where torch gives none (2.4 and 2.5
    without the exception's traceback).
    """
    path = at_line = ""
    suppressed = False
    frames: tuple[SourceLocation, ...] = ()
    if match := _BREAK_AT.match(text):
        path, at_line = match["path"], match["line"]
        suppressed = bool(match["suppressed"] or match["details"])
        reason = _stated_reason(text)
        frames = _frames_after(text, "User code traceback:")
    elif match := _WONT_CONVERT.match(text):
        path, at_line = match["path"], match["line"]
        reason = _raised(text)
        frames = _frames_after(text, _BEFORE_FRAMES_OF_EXCEPTION)
    else:
        match = _BREAK_FROM.match(text) or _BREAK_SKIP.match(text)
        reason = match["reason"].strip() if match else text.strip()
        frames = _user_frames(text[match.end() :] if match else "")
        if reason in ("", "skip:"):
            reason = _raised(text) or reason.rstrip(":")
    location = SourceLocation(path, int(at_line)) if at_line and not is_ours(path) else None
    if frames and (location is None or (location.path, location.line) == (frames[-1].path, frames[-1].line)):
        location = frames[-1]
    return GraphBreak(location, reason, frames, compile_id, suppressed, line, text)


def without_announcements(breaks: Sequence[GraphBreak]) -> tuple[GraphBreak, ...]:
    """Events only: a ``WON'T CONVERT`` text is dropped where the break that it announces follows.

    torch logs a backend's failure first (exc.py) and then, for the same frame, the graph break that
    this causes (symbolic_convert.py). Where that second text is missing, the first is the event.
    """
    kept: list[GraphBreak] = []
    for event in breaks:
        if kept and kept[-1].text.startswith("WON'T CONVERT") and kept[-1].compile_id == event.compile_id:
            kept.pop()
        kept.append(event)
    return tuple(kept)


def whole_stacks(breaks: Sequence[GraphBreak], traced: Sequence[GraphBreak]) -> list[GraphBreak]:
    """A log's breaks, those that torch shortened with the frames that a trace has of them."""
    known = {(event.rank, event.compile_id, str(event.location)): event.frames for event in traced}
    frames = (known.get((event.rank, event.compile_id, str(event.location)), ()) for event in breaks)
    return [
        replace(event, frames=stack, suppressed=False) if event.suppressed and stack else event
        for event, stack in zip(breaks, frames, strict=True)
    ]


def parse_recompile(text: str, compile_id: str | None, line: int) -> Recompile:
    """One event from its whole text, of ``recompiles`` or ``recompiles_verbose``."""
    match = _RECOMPILING.match(text)
    location = SourceLocation(match["path"], int(match["line"]), match["function"]) if match else None
    failures = [failure[1].rstrip() for failure in _GUARD_FAILURE.finditer(text)]
    reasons = _joined_reasons(failures)
    return Recompile(match["function"] if match else "", location, reasons, compile_id, line)


def parse_frames(text: str) -> tuple[SourceLocation, ...]:
    """The frames of a traceback in Python's layout, in its order (innermost last), without the recorder's."""
    return without_ours(
        SourceLocation(
            match["path"],
            int(match["line"]),
            match["function"] or None,
            match["code"].strip() if match["code"] else None,
        )
        for match in _FRAME.finditer(text)
    )


def _stated_reason(text: str) -> str:
    head = _REASON.search(text)
    if head is None:
        return ""
    end = _AFTER_REASON.search(text, head.end())
    return text[head.end() : end.start() if end else len(text)].strip()


def _raised(text: str) -> str:
    """The last exception of a text with tracebacks, as Python prints it; empty without one."""
    last = text.rfind("Traceback (most recent call last):")
    match = _EXCEPTION.search(text, last + 1) if last >= 0 else None
    return match[0] if match else ""


def _frames_after(text: str, marker: str) -> tuple[SourceLocation, ...]:
    start = text.find(marker)
    return _user_frames(text[start:]) if start >= 0 else ()


def _user_frames(text: str) -> tuple[SourceLocation, ...]:
    end = _AFTER_FRAMES.search(text)
    return parse_frames(text[: end.start()] if end else text)


def _joined_reasons(failures: list[str]) -> tuple[str, ...]:
    """Lines to reasons: each line without ids (2.4), else each id with the lines that follow it."""
    if not any(_REASON_ID.match(failure) for failure in failures):
        return tuple(failures)
    reasons: list[str] = []
    for failure in failures:
        if _REASON_ID.match(failure) or not reasons:
            reasons.append(failure)
        else:
            reasons[-1] += f"\n{failure}"
    return tuple(reasons)


def parse_debug_log(text: str, path: str) -> TorchLog:
    """``torchdynamo/debug.log``, whose messages stand without any prefix: its graph breaks."""
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if begins_graph_break(line)]
    breaks = [
        parse_graph_break("\n".join(lines[start:end]).rstrip(), None, start + 1)
        for start, end in pairwise([*starts, len(lines)])
    ]
    # Newer versions write "Graph break: from user code at:" as a plain warning before the event proper.
    events = [
        event
        for event, following in zip_longest(breaks, breaks[1:])
        if event.reason or following is None or str(following.location) != str(event.location)
    ]
    return TorchLog(path, (), without_announcements(events), (), ())
