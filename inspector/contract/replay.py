"""`inspector.replay/1`: the same object as in the files of RUN/replay."""

from __future__ import annotations

from inspector.replay.store import SCHEMA, to_json

__all__ = ["SCHEMA", "to_json"]
