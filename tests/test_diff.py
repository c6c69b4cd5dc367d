"""`inspector diff`: two runs matched by what they compute, and what is said of the difference."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_contract import problems

from inspector.analysis.diff.code import plain_lines, side_by_side
from inspector.analysis.diff.verdict import verdict
from inspector.cli import cli
from inspector.comparison import Side, compare_sides
from inspector.model.diff import KernelMatch, RunDiff
from inspector.readers.run import Run

_MIRRORED = {"only_a": "only_b", "only_b": "only_a", "split": "merged", "merged": "split"}
_MATCHED = {"same", "changed", "split", "merged"}
SAME_PROGRAM = [
    ("cpu-torch2.4.1/softmax", "cpu-torch2.15.0/softmax"),
    ("cpu-torch2.6.0/softmax", "h200-torch2.11/softmax"),
    ("cpu-torch2.4.1/mlp", "cpu-torch2.13/mlp"),
    ("cpu-torch2.13/breaks", "h200-torch2.11/breaks"),
    ("cpu-torch2.13/norms", "h200-torch2.11/norms"),
    ("cpu-torch2.13/addrelumul", "h200-torch2.11/addrelumul"),
]


@pytest.fixture(scope="session")
def runs(corpus_runs: list[Path]) -> dict[str, Path]:
    return {f"{path.parent.name}/{path.name}": path for path in corpus_runs}


@cache
def side(path: Path) -> Side:
    return Side(Run.open(path))


@cache
def compared(a: Path, b: Path) -> RunDiff:
    return compare_sides(side(a), side(b))


def pairs(match: KernelMatch) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(map(str, match.a)), tuple(map(str, match.b))


@pytest.mark.parametrize("name", ["h200-torch2.11/breaks", "h200-torch2.11/autotune", "cpu-torch2.4.1/mlp"])
def test_a_run_against_itself_is_empty(runs: dict[str, Path], name: str) -> None:
    diff = compared(runs[name], runs[name])
    assert {match.relation for match in diff.kernels} == {"same"}
    assert {match.relation for match in diff.graphs} == {"same"}
    assert [pairs(match)[0] for match in diff.kernels] == [pairs(match)[1] for match in diff.kernels]
    assert not (diff.settings or diff.events or diff.cache_misses or diff.notes)
    assert verdict(diff) == "No difference: the same graphs, kernels and settings."


@pytest.mark.parametrize(("a", "b"), SAME_PROGRAM)
def test_both_directions_agree(runs: dict[str, Path], a: str, b: str) -> None:
    there, back = compared(runs[a], runs[b]), compared(runs[b], runs[a])
    ours = {(*pairs(match), match.relation) for match in there.kernels}
    theirs = {
        (*reversed(pairs(match)), _MIRRORED.get(match.relation, match.relation)) for match in back.kernels
    }
    assert ours == theirs


@pytest.mark.parametrize(("a", "b"), SAME_PROGRAM)
def test_every_launch_is_in_one_match(runs: dict[str, Path], a: str, b: str) -> None:
    diff = compared(runs[a], runs[b])
    for name, place in ((a, 0), (b, 1)):
        listed = Counter(launch for match in diff.kernels for launch in pairs(match)[place])
        codes = [(graph.ident, graph.code()) for graph in Run.open(runs[name]).graphs]
        calls = [f"{ident}/{call.index}" for ident, code in codes if code for call in code.calls]
        assert listed == Counter(calls)


@pytest.mark.parametrize(("a", "b"), SAME_PROGRAM)
def test_one_program_matches_whole_over_versions_and_devices(runs: dict[str, Path], a: str, b: str) -> None:
    """The programs are the same, so no kernel has nothing on the other side."""
    diff = compared(runs[a], runs[b])
    assert {match.relation for match in diff.kernels} <= _MATCHED
    assert all(match.basis for match in diff.kernels)


def test_unrelated_programs_share_no_match(runs: dict[str, Path]) -> None:
    programs = ["softmax", "mlp", "norms", "breaks", "addrelumul"]
    others = [f"h200-torch2.11/{name}" for name in ("fp8", "cudagraphs", "autotune", "llama_infer")]
    for a, b in itertools.combinations([*(f"cpu-torch2.13/{name}" for name in programs), *others], 2):
        diff = compared(runs[a], runs[b])
        assert {match.relation for match in diff.kernels} <= {"only_a", "only_b"}, (a, b)
        assert "different programs" in verdict(diff)


def test_a_kernel_that_split_names_its_parts(runs: dict[str, Path]) -> None:
    """The C++ kernel of softmax and max became two Triton kernels: read in both wrappers."""
    diff = compared(runs["cpu-torch2.13/breaks"], runs["h200-torch2.11/breaks"])
    split = [pairs(match) for match in diff.kernels if match.relation == "split"]
    assert (("model__2_forward_7.2/1",), ("model__2_forward_7.2/1", "model__2_forward_7.2/2")) in split
    merged = [pairs(match) for match in diff.kernels if match.relation == "merged"]
    assert merged == [
        (("model__4_backward_14.5/0", "model__4_backward_14.5/2"), ("model__4_backward_14.5/0",))
    ]


def test_json_keeps_its_contract(runs: dict[str, Path]) -> None:
    for a, b in SAME_PROGRAM[:4]:
        result = CliRunner().invoke(cli, ["diff", str(runs[a]), str(runs[b]), "--json"])
        assert problems("diff", json.loads(result.stdout)) == []


def test_markdown_is_no_markup_of_the_runs(runs: dict[str, Path]) -> None:
    a, b = SAME_PROGRAM[2]
    result = CliRunner().invoke(cli, ["diff", str(runs[a]), str(runs[b]), "--markdown"])
    assert result.stdout.startswith("**Of 69 kernel launches 27 changed")
    assert "|---|---|---|" in result.stdout
    # A comment on a pull request is cut off at 65,536 characters.
    assert len(result.stdout) < 65_000


def test_renamed_variables_are_no_change() -> None:
    ours = "tmp3 = tl.load(in_ptr0 + (x2), None)\ntmp4 = libdevice.exp2(tmp3)"
    theirs = "tmp7 = tl.load(in_ptr1 + (x0), None)\ntmp9 = libdevice.exp2(tmp7)"
    assert plain_lines(ours) == plain_lines(theirs)
    rows = list(side_by_side(ours, theirs.replace("exp2", "log2")))
    assert [row.same for row in rows] == [True, False]
    assert plain_lines("tmp0.to(tl.float32)") != plain_lines("tmp0.to(tl.float64)")
    assert plain_lines("tmp0 = tmp1 + 8") != plain_lines("tmp0 = tmp1 + 16")
