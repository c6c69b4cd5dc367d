"""Masks that generated C++ stores as bools, one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inspector.analysis.index_ranges import IndexReader
from inspector.explain.bool_stores import DRAWN_NS, STORED_NS
from inspector.explain.case import Case
from inspector.explain.gather import gather
from inspector.explain.launches import loop_points
from inspector.explain.rules import bool_masks
from inspector.model.explain import Finding
from inspector.model.run import Manifest
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run

FX = """
class GraphModule(torch.nn.Module):
    def forward(self, arg0_1: "f32[4096, 256]"):
        # File: /home/user/net.py:7 in f, code: return F.leaky_relu(x)
        mul: "f32[4096, 256]" = torch.ops.aten.mul.Tensor(arg0_1, 0.1)
        # File: /home/user/net.py:8 in f, code: positive = x > 0
        gt: "b8[4096, 256]" = torch.ops.aten.gt.Scalar(arg0_1, 0);  arg0_1 = None
        return (mul, gt)
"""

SOURCE = """
extern "C" void kernel(const float* in_ptr0, {type}* out_ptr0, float* out_ptr1)
{{
    #pragma omp parallel num_threads(2)
    {{
        #pragma omp for
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(1048576L); x0+=16L)
        {{
            auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + static_cast<int64_t>(x0), 16);
            auto tmp3 = at::vec::VecMask<float,1>(tmp0 > tmp0);
            tmp3.store(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
            tmp0.store(out_ptr1 + static_cast<int64_t>(x0));
        }}
    }}
}}
"""


@pytest.fixture
def case(corpus: Path) -> Case:
    return gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))


def told(case: Case, source: str, ms: float, measured: bool = True) -> list[Finding]:
    (graph,) = case.graphs
    own = next(item for item in graph.launches if item.role == "generated" and item.kernel is not None)
    assert own.kernel is not None
    kernel = replace(own.kernel, source=source)
    launch = replace(own, kernel=kernel, ms=ms, measured=measured, bytes=9 << 20, fx=("mul", "gt"))
    artifacts = replace(graph.artifacts, fx_after=parse_fx_graph(FX, "fx"))
    changed = replace(graph, artifacts=artifacts, launches=(launch,), runs=2.0)
    return list(bool_masks.find(replace(case, graphs=(changed,), threads=2)))


def test_masks_that_are_stored_take_their_time(case: Case) -> None:
    (finding,) = told(case, SOURCE.format(type="bool"), 9.0)
    assert "in masks of 2,097,152 elements, which 1 kernel turns into bools one by one" in finding.title
    most = 2 * 1048576 * STORED_NS / 2 / 1e6
    assert finding.claims[0].ms == (pytest.approx(most / 2), pytest.approx(most))
    assert [(item.path, item.line) for item in finding.evidence[1:]] == [("/home/user/net.py", 8)]
    assert "-ftree-loop-vectorize" in finding.advice


def test_what_is_drawn_for_masks_becomes_vectors_as_well(case: Case) -> None:
    """A dropout: each element draws a number of its own."""
    (graph,) = case.graphs
    drawing = []
    for item in graph.launches:
        leaves = [leaf for leaf in item.leaves if leaf.body is not None]
        made = [
            replace(leaf, body=replace(leaf.body, lines=("rand = ops.rand(load_seed, index_expr)",)))
            for leaf in leaves[:1]
            if leaf.body is not None
        ]
        drawing.append(replace(item, leaves=tuple(made)))
    own = next(item for item in drawing if item.role == "generated" and item.leaves)
    numbers = loop_points(own.leaves[0], IndexReader({}))
    assert numbers
    changed = replace(case, graphs=(replace(graph, launches=(own,)),))
    (finding,) = told(changed, SOURCE.format(type="bool"), 9.0)
    assert f"bools one by one, with {2 * numbers:,} random numbers drawn alike" in finding.title
    assert "fallback_random" in finding.advice
    most = (1048576 * STORED_NS + numbers * DRAWN_NS) / 1e6
    assert finding.claims[0].ms == (pytest.approx(most / 2), pytest.approx(most))
    assert not told(changed, SOURCE.format(type="float"), 9.0), "numbers alone are for another rule"


def test_masks_of_symbolic_sizes_are_what_the_other_loops_leave(case: Case) -> None:
    """Two loops of a poker hand's had all points of the kernel each, and a share of what it took."""
    (graph,) = case.graphs
    source = SOURCE.format(type="bool").replace(
        "x0<static_cast<int64_t>(1048576L)", "x0<static_cast<int64_t>({})"
    )
    head, loop = source.split("        #pragma omp for\n")
    known, unknown = loop.rsplit("    }\n}", 1)[0].replace("{}", "1000L"), loop.replace("{}", "16L*ks0")
    two = f"{head}        #pragma omp for\n{known}        #pragma omp for\n{unknown}"
    own = tuple(replace(item, points=1400) for item in graph.launches)
    changed = replace(case, graphs=(replace(graph, launches=own),))
    (finding,) = told(changed, two, 9.0)
    assert "in masks of 2,800 elements" in finding.title


def test_no_more_than_a_kernel_takes_beyond_its_bytes(case: Case) -> None:
    """As where a compiler made vectors of these loops."""
    (finding,) = told(case, SOURCE.format(type="bool"), 2.0)
    assert 0.0 < finding.claims[0].ms[1] < 4.0
    assert not told(case, SOURCE.format(type="bool"), 0.01)


def test_of_other_machines_nothing_is_known(case: Case) -> None:
    manifest = Manifest(command=("python",), status="finished", exit_code=0, started=0.0, seconds=1.0)
    for platform, said in (
        ("macOS-15.1-arm64-arm-64bit", False),
        ("Linux-6.8.0-x86_64-with-glibc2.36", True),
    ):
        facts = replace(case.facts, manifest=replace(manifest, platform=platform))
        assert bool(told(replace(case, facts=facts), SOURCE.format(type="bool"), 9.0)) == said


def test_numbers_that_are_stored_are_no_masks(case: Case) -> None:
    assert not told(case, SOURCE.format(type="float"), 9.0)
    scalar = SOURCE.format(type="bool").replace("at::vec::", "")
    assert not told(case, scalar, 9.0), "a loop without vectors converts nothing"
