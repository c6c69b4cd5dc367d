"""Slow work off the event loop: an awaitable around a daemon thread, for Textual's workers.

Textual's own thread workers use an executor whose threads are waited for when the program ends, so that
quitting would take as long as the longest file takes to be read. What runs here only reads and posts
messages; when the program ends it may be dropped at any point.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from textual.dom import DOMNode
from textual.worker import Worker

from inspector.views.attempt import attempt


def start(
    node: DOMNode, work: Callable[[], None], group: str, failed: Callable[[Exception], None] | None = None
) -> None:
    """Run `work` in a thread as a worker of `node`. It reports by `node.call_later`, which posts a message;
    whatever it raises is handed to `failed` in the same way."""

    def guarded() -> None:
        error = attempt(work)
        if error is not None:
            if failed is None:
                raise error
            node.call_later(failed, error)

    # A worker that never starts, as its screen went, would leave a coroutine that nobody awaits.
    _: Worker[None] = node.run_worker(partial(_in_thread, guarded), group=group, exit_on_error=False)


async def _in_thread(work: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    context = contextvars.copy_context()

    def finish() -> None:
        if not done.done():
            done.set_result(None)

    def run() -> None:
        # Messages to an application that has ended meanwhile have nowhere to go.
        with suppress(RuntimeError):
            try:
                context.run(work)
            finally:
                loop.call_soon_threadsafe(finish)

    threading.Thread(target=run, daemon=True).start()
    await done
