"""Part of `make real-models`: a real program that needs torch alone, through every command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_a_real_program_goes_through_every_command(tmp_path: Path) -> None:
    """An RNN with batches of changing sizes, which Dynamo gives up: each command has to say so."""
    script = str(ROOT / "benchmarks" / "real_models.py")
    done = subprocess.run(
        [sys.executable, script, "-k", "gru_dynamic", "--with", "nothing", "--keep", str(tmp_path)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    program, graphs, torchs, breaks, counted, again, compiled_again = done.stdout.splitlines()[1].split()[:7]
    assert (program, graphs, breaks, again) == ("gru_dynamic", torchs, counted, compiled_again)
    assert "runs in eager" in (tmp_path / "gru_dynamic" / "summary_text.said").read_text()
