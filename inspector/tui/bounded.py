"""The boundary around everything that keys, clicks and threads' messages set off in the TUI.

Textual ends the program with a handler that fails. What a run says may make one fail that nobody foresaw, and
then a remark is enough: the other views are as good as before.
"""

from __future__ import annotations

from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump

from inspector.model.problem import told


class Bounded(MessagePump):
    """The app, a screen or a widget whose handlers may fail."""

    async def _dispatch_message(self, message: Message) -> None:
        try:
            await super()._dispatch_message(message)
        except Exception as error:  # noqa: BLE001
            report(self.app, error)


def report(app: App[object], error: Exception) -> None:
    """Say on the screen what failed; what is there stays."""
    app.notify(f"this cannot be shown: {told(error)}", severity="error", markup=False)
