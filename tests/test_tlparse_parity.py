"""What tlparse shows of a trace is found here too; needs tlparse, a dev extra."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize(
    "run", ["cpu-torch2.4.1/softmax", "cpu-torch2.13/cache_hit", "h200-torch2.11/cudagraphs"]
)
def test_everything_that_tlparse_shows_is_found(
    corpus: Path, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import tlparse_parity

    tlparse = tlparse_parity.find_tlparse()
    if tlparse is None:
        pytest.skip("tlparse is not installed (pip install -e '.[dev]')")
    parity = tlparse_parity.compare(tlparse, next((corpus / run / "trace").glob("*.log")))
    assert parity.missing == []
    assert parity.shown["artifacts"] > 5 and parity.shown["metrics"] >= 1 and parity.shown["kinds"] > 10
