"""What stands for a module that ``torch.compile`` was given, where Dynamo is disabled and gives it back.

Compiled, the module itself and what torch.compile returns are two: a program may train through the one and
evaluate through the other. Only calls through what was returned are those of the compiled callable, in eager
too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def handle_of(module: Any, timed: Callable[[Any], Any]) -> Any | None:
    """Another object with the state, the class to all appearances and the methods of `module`, whose calls go
    through ``timed(call)``, where `call` is the module's own; None where there can't be one."""
    kind = type(module)
    # torch/nn/modules/lazy.py: a lazy module changes its class in its first call.
    if getattr(module, "cls_to_become", None) is not None:
        return None
    try:
        call = timed(kind.__call__.__get__(module))

        class Handle(kind):  # type: ignore[misc, valid-type]
            __class__ = property(lambda self: kind)

            def __call__(self, *args: Any, **kwargs: Any) -> Any:
                return call(*args, **kwargs)

            def __reduce_ex__(self, protocol: Any) -> Any:
                return module.__reduce_ex__(protocol)

        Handle.__name__, Handle.__qualname__, Handle.__module__ = (
            kind.__name__,
            kind.__qualname__,
            kind.__module__,
        )
        handle = object.__new__(Handle)
        # The very dictionary: what is set on one is set on both.
        object.__setattr__(handle, "__dict__", module.__dict__)
    except Exception:  # A class may forbid to be derived from.
        return None
    return handle
