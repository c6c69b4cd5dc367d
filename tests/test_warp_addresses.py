"""Addresses of a warp's accesses, worked out from PTX."""

from __future__ import annotations

from pathlib import Path

import pytest

from inspector.analysis.warp_addresses import Touched, touched
from inspector.contract.lower import to_json
from inspector.lowered import lowered_kernels
from inspector.present.lower import stage_lines
from inspector.readers.run import Run
from inspector.readers.stages.ptx import parse_ptx

STORY = Path(__file__).parents[1] / "sample_runs" / "stories" / "depth_of_frames" / "run.tar.xz"
HEAD = """\tld.param.b64 \t%rd1, [k_param_0];
\tld.param.b32 \t%r90, [k_param_1];
\tmov.u32 \t%r1, %tid.x;
\tmov.b32 \t%r2, global_smem;
"""


def of(*lines: str) -> list[Touched]:
    text = HEAD + "".join(f"\t{line}\n" for line in lines)
    return list(touched(parse_ptx("ptx", text, "k.ptx")))


@pytest.mark.parametrize(
    ("step", "sectors"),
    [(4, 4), (8, 8), (16, 16), (32, 32), (14400, 32)],
    ids=["dense", "2", "4", "8", "rows"],
)
def test_lanes_that_lie_apart_touch_more_sectors(step: int, sectors: int) -> None:
    """32 lanes of 4 bytes fill 4 sectors of 32."""
    (seen,) = of(
        f"mul.wide.u32 %rd2, %r1, {step};",
        "add.s64 %rd3, %rd1, %rd2;",
        "ld.global.b32 { %r3 }, [ %rd3 + 0 ];",
    )
    assert (len(seen.sectors), len(seen.bytes) // 32, seen.space) == (sectors, 4, "global")


@pytest.mark.parametrize(("row", "rounds"), [(4, 1), (8, 2), (128, 32), (132, 1), (0, 1)])
def test_banks_serve_one_word_at_a_time(row: int, rounds: int) -> None:
    """32 banks of 4 bytes: rows of 128 bytes all begin in the first, rows of 132 each in the next; the same
    word goes to all lanes at once."""
    (seen,) = of(f"mad.lo.s32 %r3, %r1, {row}, %r2;", "st.shared.b32 [%r3], %r1;")
    assert (seen.rounds, seen.least, seen.writes) == (rounds, 1, True)


def test_wide_accesses_are_served_in_parts() -> None:
    (seen,) = of(
        "shl.b32 %r3, %r1, 4;", "add.s32 %r4, %r2, %r3;", "ld.shared.v4.b32 {%r5,%r6,%r7,%r8}, [%r4+16];"
    )
    assert (seen.rounds, seen.least) == (4, 4)
    (matrix,) = of(
        "shl.b32 %r3, %r1, 7;", "add.s32 %r4, %r2, %r3;",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r5, %r6}, [%r4];",
    )  # fmt: skip
    # Two matrices, the eight rows of each in the same banks.
    assert (matrix.rounds, matrix.least) == (16, 2)


def test_a_swizzle_takes_the_conflicts_away() -> None:
    """Rows of 128 bytes whose 16 byte pieces are exchanged by the row's number."""
    (seen,) = of(
        "shl.b32 %r3, %r1, 7;", "shl.b32 %r4, %r1, 4;", "and.b32 %r4, %r4, 112;", "or.b32 %r5, %r3, %r4;",
        "add.s32 %r6, %r2, %r5;", "ld.shared.v4.b32 {%r7,%r8,%r9,%r10}, [%r6];",
    )  # fmt: skip
    assert (seen.rounds, seen.least) == (4, 4)


def test_only_lanes_that_are_let_through_count() -> None:
    seen = of(
        "setp.eq.b32 %p1, %r1, 0;", "setp.lt.u32 %p2, %r1, 8;", "mad.lo.s32 %r3, %r1, 128, %r2;",
        "@%p1 st.shared.b32 [ %r3 + 0 ], %r1;", "@%p2 st.shared.b32 [ %r3 + 0 ], %r1;",
        "@!%p2 st.shared.b32 [ %r3 + 0 ], %r1;",
    )  # fmt: skip
    assert [each.rounds for each in seen] == [1, 8, 24]


def test_what_hangs_on_arguments_and_on_loaded_numbers_is_left_out() -> None:
    assert not of(
        "mul.lo.s32 %r5, %r1, %r90;",
        "mad.wide.s32 %rd3, %r5, 4, %rd1;",
        "ld.global.b32 { %r3 }, [ %rd3 + 0 ];",
    )
    seen = of(
        "mad.wide.s32 %rd2, %r1, 4, %rd1;", "ld.global.b32 { %r3 }, [ %rd2 + 0 ];",
        "mad.wide.s32 %rd3, %r3, 4, %rd1;", "ld.global.b32 { %r4 }, [ %rd3 + 0 ];",
    )  # fmt: skip
    assert [each.line for each in seen] == [6]


def test_a_column_of_a_tensor_is_told() -> None:
    """Of depth_of_frames: Triton gave each lane a row of its own (threadsPerWarp = [32, 1] in TTGIR), so that
    each of four loads touches a sector for every lane."""
    run = Run.open(STORY)
    item = lowered_kernels(run, [graph for graph in run.graphs if graph.files])[0]
    first = item.spread()[0]
    assert (first.units, first.least, first.count, first.space, first.worth) == (128, 16, 4, "global", True)
    text = " ".join(" ".join(span.text for row in stage_lines(item, None, 300) for span in row.spans).split())
    assert "a warp touches 128 sectors of 32 bytes in 4 loads, whose bytes fill 16" in text
    assert to_json([item])["kernels"][0]["spread"][0]["units"] == 128
