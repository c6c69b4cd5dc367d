"""Callers of what was inlined, where the disassembly names none."""

from __future__ import annotations

from pathlib import Path

from inspector.analysis.inlined import with_callers
from inspector.lowered import lowered_kernels
from inspector.model.lowering import Frame, Place, Stage
from inspector.readers.run import Run

STORY = Path(__file__).parents[1] / "sample_runs" / "stories" / "depth_of_frames" / "run.tar.xz"
HELPER, OTHER = Frame("/t/triton_helpers.py", 118), Frame("/t/standard.py", 263)
FIRST, SECOND = Frame("/c/k.py", 40, 3), Frame("/c/k.py", 44, 3)


def stage(name: str, *places: Place | None) -> Stage:
    return Stage(name, name, ("",) * len(places), places)


def test_callers_are_those_that_ptx_has() -> None:
    ptx = stage("ptx", (HELPER, FIRST), (OTHER, FIRST), None, (OTHER, SECOND), (FIRST,), (OTHER, FIRST))
    sass = stage("sass", (HELPER,), (OTHER,), None, (SECOND,), (Frame("/t/x.py", 1),), ())
    _, made = with_callers((ptx, sass), "k.py")
    both = (OTHER, FIRST, OTHER, SECOND)
    assert made.places == ((HELPER, FIRST), both, None, (SECOND,), (Frame("/t/x.py", 1),), ())
    assert with_callers((sass,), "k.py") == (sass,) and with_callers((ptx, sass), None) == (ptx, sass)


def test_every_instruction_of_a_run_of_triton_3_6_leads_to_the_model() -> None:
    """Of 228 instructions 82 are of triton_helpers.maximum and tl.sum, which the disassembly tells nothing
    more of; the comparison with 0.1 is clamp's."""
    run = Run.open(STORY)
    item = lowered_kernels(run, [graph for graph in run.graphs if graph.files])[0]
    sass = item.stage("sass")
    assert sass is not None
    origins = [origin for place in sass.places if (origin := item.origin(place)) is not None]
    assert len(origins) == 228 and all(origin.sources for origin in origins)
    row = next(row for row, text in enumerate(sass.lines) if "FSETP.NAN.AND P2, PT, R28, R28" in text)
    origin = item.origin(sass.places[row])
    assert origin is not None and origin.line is not None and item.kernel.source_span is not None
    text = item.kernel.source.split("\n")[origin.line - item.kernel.source_span.first]
    assert "triton_helpers.maximum(tmp0" in text
