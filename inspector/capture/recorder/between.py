"""At which lines the program is between its steady calls: a look now and then, from a thread of our own.

What lies outside of compiled code no clock of calls has, and it may be most of the time: batches put
together, copies, an optimizer's step. A look takes some 20 us, and Python's lock for as long. During a call
there is none.
"""

from __future__ import annotations

import _thread
import sys
import time
from collections.abc import Callable

from .guard import Guards
from .places import location_of

PAUSE_SECONDS = 0.01
"""From one look to the next, as long as there are fewer than MANY."""
MANY = 256
"""Looks, of which shares are known well enough: from then on they become rarer, the more there are."""
LINES_LIMIT = 1000
SHOWN_LIMIT = 20


class Between:
    """Of one process: `seen` has for lines how many looks found the program there."""

    def __init__(self, guards: Guards) -> None:
        self._guard = guards.make("the lines between calls")
        self.skip: Callable[[str], bool] = _never
        """Files that are not the user's."""
        self.clear()

    def clear(self) -> None:
        """A forked child has no thread of ours."""
        self._started = False
        self._of = 0
        """The program's thread while it is between two calls; 0 during one."""
        self.forget()

    def forget(self) -> None:
        """A steady stretch begins anew."""
        self.seen: dict[str, int] = {}
        self._newest: dict[str, int] = {}

    def ends(self) -> None:
        """A call begins."""
        self._of = 0

    def begins(self, steady: bool) -> None:
        """A call has returned."""
        self._of = _thread.get_ident()
        if steady and not self._started:
            self._started = True
            _thread.start_new_thread(self._look_on, ())

    def taken(self) -> dict[str, int]:
        """What was seen since the newest call, or since this was asked."""
        newest, self._newest = self._newest, {}
        return newest

    def add(self, lines: dict[str, int]) -> None:
        for line, looks in lines.items():
            if line in self.seen or len(self.seen) < LINES_LIMIT:
                self.seen[line] = self.seen.get(line, 0) + looks

    def look(self) -> int:
        """Whether there was something to see. Nothing of the program's frames is kept: what it lets go of is
        freed where it is."""
        thread = self._of
        frame = sys._current_frames().get(thread) if thread else None
        place = location_of(frame, self.skip)
        del frame
        # It has not begun a call meanwhile.
        if place is None or self._of != thread:
            return 0
        self._newest[place] = self._newest.get(place, 0) + 1
        return 1

    def _look_on(self) -> None:
        looks = 0
        while not self._guard.off:
            time.sleep(PAUSE_SECONDS * (1 + looks // MANY))
            looks += self._guard.run(self.look) or 0

    def as_json(self) -> list[tuple[str, int]]:
        """The lines with most looks."""
        return sorted(self.seen.items(), key=lambda item: -item[1])[:SHOWN_LIMIT]


def _never(file: str) -> bool:
    return False
