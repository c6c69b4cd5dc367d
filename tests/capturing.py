"""Programs of a test, captured in a folder of its own; import all three names, as `own_folder` is autouse."""

from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest

from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import CaptureOutcome, capture
from inspector.model.problem import Read
from inspector.model.run import Manifest
from inspector.readers.artifacts import MANIFEST


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)


def script(text: str, name: str = "program.py") -> str:
    Path(name).write_text(textwrap.dedent(text))
    return name


def manifest_of(run: Path) -> Read[Manifest | None]:
    return MANIFEST.read_path(run / "inspector.json", "inspector.json")


def captured(*words: str, **options: object) -> CaptureOutcome:
    options.setdefault("out", Path("run"))
    return capture(CaptureOptions(command=words, **options), stderr=io.StringIO())  # type: ignore[arg-type]
