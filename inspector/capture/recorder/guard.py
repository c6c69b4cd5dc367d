"""Hooks that can't hurt: whatever goes wrong in one, the program's own call happens once and as it was."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

FAULT_LIMIT = 3
"""After so many faults a hook removes itself: what fails three times fails every time, and costs time."""


class Guard:
    """Runs code of ours; an exception in it is logged and goes no further."""

    def __init__(self, name: str, log: Callable[[str], None]) -> None:
        self.name = name
        self.off = False
        self.faults = 0
        self.remove: Callable[[], None] | None = None
        self._log = log

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What `function` returns; None where it fails or the guard is off.

        KeyboardInterrupt and SystemExit are the program's own and pass.
        """
        if self.off:
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self._fault(error)
            return None

    def _fault(self, error: Exception) -> None:
        try:
            self.faults += 1
            last = error.__traceback__
            while last is not None and last.tb_next is not None:
                last = last.tb_next
            place = f"{last.tb_frame.f_code.co_name}:{last.tb_lineno}" if last is not None else "?"
            self._log(f"fault in {self.name} at {place}: {type(error).__name__}: {error}")
            if self.faults >= FAULT_LIMIT:
                self.off = True
                if self.remove is not None:
                    self.remove()
                self._log(f"removed {self.name} after {self.faults} faults")
        except Exception:
            self.off = True


class Guards:
    """All guards of a process: which hooks are in place, which this torch has no place for."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.log = log
        self.installed: list[str] = []
        self.missing: list[str] = []
        self.all: list[Guard] = []

    def make(self, name: str) -> Guard:
        guard = Guard(name, self.log)
        self.all.append(guard)
        return guard

    @property
    def faults(self) -> int:
        """Faults of all hooks so far."""
        return sum(guard.faults for guard in self.all)

    def around(
        self,
        owner: Any,
        attribute: str,
        *,
        before: Callable[..., Any] | None = None,
        after: Callable[[Any, Any, BaseException | None], Any] | None = None,
        instead: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
    ) -> bool:
        """Watch the calls of `owner.attribute`; False where this version of torch has no such function.

        `before(*args, **kwargs)` makes a token. `after(token, result, error)` sees how the call ended; what
        it returns is ignored, and the caller gets what the original returned or raised. `after` is called
        with a token of None where `before` failed. `instead(token, result)` may give the caller something in
        the result's place; None leaves it.
        """
        name = name or f"{getattr(owner, '__name__', owner)}.{attribute}"
        original = getattr(owner, attribute, None)
        if not callable(original):
            self.missing.append(name)
            return False
        declared = vars(owner).get(attribute)
        guard = self.make(name)

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if guard.off:
                return original(*args, **kwargs)
            token = guard.run(before, *args, **kwargs) if before is not None else None
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                if after is not None:
                    guard.run(after, token, None, error)
                raise
            if after is not None:
                guard.run(after, token, result, None)
            other = guard.run(instead, token, result) if instead is not None else None
            return result if other is None else other

        hook: Any = staticmethod(watched) if isinstance(declared, staticmethod) else watched

        def remove() -> None:
            # Somebody may have wrapped us in turn; then we stay, and only pass calls on.
            if vars(owner).get(attribute) is hook:
                if declared is not None:
                    setattr(owner, attribute, declared)
                else:
                    delattr(owner, attribute)

        setattr(owner, attribute, hook)
        guard.remove = remove
        self.installed.append(name)
        return True
