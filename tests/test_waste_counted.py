"""Useful bytes and evaluations of the stories' graphs, against a dispatch mode's of the same programs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch
from as_eager import Counting
from torch.utils._pytree import tree_leaves

from inspector.analysis.fusion import analyse_fusion
from inspector.model.fusion import FusionReport
from inspector.readers.run import Run

STORIES = Path(__file__).parent.parent / "sample_runs" / "stories"


def counted(name: str) -> tuple[Counting, int]:
    """What the story's program does in one call, and the bytes of what it is given and returns."""
    program = runpy.run_path(str(STORIES / name / f"{name}.py"))
    with torch.no_grad(), torch.device("meta"):
        args = program["inputs"]()
        with Counting(args) as counting:
            result = program["step"](*args)
    sizes = (leaf.numel() * leaf.element_size() for leaf in tree_leaves((args, result)))
    return counting, sum(sizes)


def report(name: str) -> FusionReport:
    (graph,) = Run.open(STORIES / name / "run.tar.xz").graphs
    return analyse_fusion(graph.artifacts())


def test_parts_that_are_written_and_views_that_are_read_are_all_that_is_asked_for() -> None:
    counting, _ = counted("kv_by_position")
    (item,) = report("kv_by_position").rewritten
    assert item.asked == counting.written[0] + counting.read[0] < item.moved


def test_one_kernel_moves_what_goes_in_and_comes_out_and_a_seed() -> None:
    _, outside = counted("diffusion_noise")
    _, noise = report("diffusion_noise").groups
    assert noise.bytes_asked == noise.bytes_moved == outside + 8


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("relative_bias", {"log1p"}),
        ("diffusion_noise", {"cos", "sqrt"}),
        ("kv_by_position", {"exp"}),
    ],
)
def test_operators_have_as_many_elements_as_in_eager(name: str, operators: set[str]) -> None:
    counting, _ = counted(name)
    known = {item.operator: item for item in report(name).evaluations}
    assert operators <= known.keys()
    for operator in operators:
        made = counting.elements["_softmax" if operator == "exp" else operator]
        assert known[operator].elements in made
