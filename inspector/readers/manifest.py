"""RUN/inspector.json: what a capture says of itself."""

from __future__ import annotations

import math
from typing import Any

from inspector.model.peaks import Peaks
from inspector.model.problem import Problem, Read
from inspector.model.run import MANIFEST_SCHEMA, Manifest

from .text import from_json, number

STATUSES = ("running", "done", "failed", "interrupted")


def parse_manifest(text: str, path: str) -> Read[Manifest | None]:
    """A field of the wrong kind is reported and takes its default; unknown fields are ignored, newer versions
    add some."""
    try:
        data = from_json(text)
    except ValueError as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", "") or str(error) or type(error).__name__
        return None, (Problem(path, line, f"not JSON: {reason}"),)
    if not isinstance(data, dict):
        return None, (Problem(path, 1, "not a JSON object"),)
    fields = _Fields(data, path)
    schema = data.get("schema")
    if schema != MANIFEST_SCHEMA:
        fields.report(f"schema is {schema!r}, not {MANIFEST_SCHEMA!r}: read as far as it is understood")
    status = fields.text("status") or "running"
    if status not in STATUSES:
        fields.report(f"status {status!r} is not one of {', '.join(STATUSES)}")
    code = fields.number("exit_code")
    manifest = Manifest(
        command=fields.texts("command"),
        status=status,
        exit_code=None if code is None else int(code),
        started=float(fields.number("started") or 0.0),
        seconds=float(fields.number("seconds") or 0.0),
        python=fields.text("python") or "",
        torch_version=fields.text("torch_version"),
        triton_version=fields.text("triton_version"),
        devices=fields.texts("devices"),
        environment={
            name: value for name, value in fields.mapping("environment").items() if isinstance(value, str)
        },
        options=fields.mapping("options"),
        problems=fields.texts("problems"),
        host=fields.text("host"),
        platform=fields.text("platform"),
        baseline=fields.mapping("baseline"),
        gpus=fields.mapping("gpus"),
        page_fault_us=fields.interval("page_fault_us"),
        peaks=fields.peaks("peaks"),
    )
    return manifest, tuple(fields.problems)


class _Fields:
    """Fields of an object whose kinds cannot be relied on."""

    def __init__(self, data: dict[str, Any], path: str) -> None:
        self._data = data
        self._path = path
        self.problems: list[Problem] = []

    def report(self, message: str) -> None:
        self.problems.append(Problem(self._path, None, message))

    def text(self, name: str) -> str | None:
        value = self._data.get(name)
        if value is None or isinstance(value, str):
            return value
        self.report(f"{name} is not text")
        return None

    def number(self, name: str) -> int | float | None:
        value = self._data.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            self.report(f"{name} is not a number")
            return None
        return value

    def interval(self, name: str) -> tuple[float, ...]:
        """Two numbers of which the second is no smaller; empty where it is absent."""
        value = self._data.get(name) or []
        ends = tuple(filter(None, map(number, value))) if isinstance(value, list) else ()
        rising = len(ends) == 2 and 0 < ends[0] <= ends[1]
        if value != list(ends) or (ends and not rising):
            self.report(f"{name} is no interval")
            return ()
        return ends

    def peaks(self, name: str) -> tuple[Peaks, ...]:
        """What is no peaks is left out."""
        value = self._data.get(name) or []
        known = tuple(filter(None, map(Peaks.from_json, value))) if isinstance(value, list) else ()
        if not isinstance(value, list) or len(known) < len(value):
            self.report(f"{name} are no rates of a device")
        return known

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._data.get(name)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.report(f"{name} is not a list of texts")
            return ()
        return tuple(value)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._data.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.report(f"{name} is not an object")
            return {}
        return value
