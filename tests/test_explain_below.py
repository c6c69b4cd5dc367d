"""Findings that look below the kernels, and the instruction that a finding points at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from explaining import bare
from sharing import unpacked

from inspector.analysis.bank_conflicts import conflicts
from inspector.analysis.index_steps import Address, addresses
from inspector.analysis.lowering import LoweredKernel
from inspector.analysis.sectors import sparse_accesses
from inspector.analysis.stage_facts import facts_of
from inspector.explain.below import below
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.claims import on_launch
from inspector.explain.cpp_loops import loop_nests
from inspector.explain.gather import gather
from inspector.explain.profiles import load_profiles
from inspector.explain.rules import (
    bank_conflicts,
    cpu_not_vectorized,
    no_tensor_cores,
    register_spills,
    strided_accesses,
)
from inspector.lowered import Lowered
from inspector.model.code import Kernel, KernelParameter
from inspector.model.explain import Finding
from inspector.model.lowering import Stage as ModelStage
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run
from inspector.readers.stages.ptx import parse_ptx
from inspector.units import percent

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def profiled(convmixer: Path) -> Case:
    run = Run.open(convmixer / "infer-default.run")
    compiled, eager = (convmixer / f"infer-{side}.trace.json" for side in ("default", "eager"))
    return gather(run, (), None, load_profiles(run, compiled, eager))


@pytest.fixture
def planted(tmp_path: Path) -> tuple[Run, LoweredKernel]:
    """A kernel that ran on an H200, disassembled."""
    run = Run.open(unpacked(DATA / "planted-h200.tar.xz", tmp_path) / "planted.run")
    item = next(item for graph in run.graphs for item in Lowered(run).kernels(graph) if item.stage("sass"))
    return run, item


def kernel(*lines: str, **types: str) -> Kernel:
    parameters = tuple(KernelParameter(name, type_) for name, type_ in types.items())
    return Kernel("k", "triton", source="\n".join(lines), parameters=parameters)


def with_launch(case: Case, number: int, **changes: object) -> Case:
    """The case with another launch in the place of one of its first graph's."""
    graph = case.graphs[0]
    launches = list(graph.launches)
    launches[number] = replace(launches[number], **changes)  # type: ignore[arg-type]
    return replace(case, graphs=(replace(graph, launches=tuple(launches)), *case.graphs[1:]))


def test_an_address_is_a_pointer_its_steps_and_an_offset() -> None:
    (own,) = addresses("tmp1 = tl.load(in_ptr0 + (2 + 4*(x0 - 1) + 512*r0_1), xmask)")
    assert own == Address("in_ptr0", {"x0": 4, "r0_1": 512}, -2)
    assert not list(addresses("tmp1 = tl.load(tmp0, None)"))


def test_what_of_a_sector_is_used_follows_from_steps_and_offsets() -> None:
    one = kernel(
        "a = tl.load(p + (3 + 4*x0 + 4096*x1), m)", "b = tl.load(q + (x0 + 7*x1), m)", p="*fp32", q="*fp32"
    )
    assert {name: (each.step, each.used, each.row) for name, each in sparse_accesses(one).items()} == {
        "p": (4, 0.25, 1)
    }
    # Half of it where two of four are read; all where every one is; of halves a sector has twice as many.
    two = kernel("a = tl.load(p + (4*x0), m)", "b = tl.load(p + (1 + 4*x0), m)", p="*fp32")
    assert sparse_accesses(two)["p"].used == 0.5
    pair = kernel("a = tl.load(p + (2*x0), m)", "b = tl.load(p + (1 + 2*x0), m)", p="*fp32")
    assert not sparse_accesses(pair)
    far = kernel("a = tl.load(p + (512*x0), m)", "b = tl.load(h + (512*x0), m)", p="*fp32", h="*bf16")
    assert {name: each.used for name, each in sparse_accesses(far).items()} == {"p": 1 / 8, "h": 1 / 16}
    # Steps of 4 and 6 reach every second; data, and what moves by no constant, may reach any.
    assert sparse_accesses(kernel("a = tl.load(p + (4*x0 + 6*x1), m)", p="*fp32"))["p"].step == 2
    assert not sparse_accesses(kernel("a = tl.load(p + (4*x0 + ks0*x1), m)", p="*fp32"))


def test_a_program_of_a_split_scan_goes_along_one_row() -> None:
    """Its neighbours' columns are those of other programs."""
    line = "a = tl.load(p + (x0 + 1056*r0_2 + 1086624*x1), m)"
    scan = replace(kernel(line, p="*fp32"), heuristic="split_scan")
    assert sparse_accesses(scan)["p"] == (1056, 1 / 8, 1, line)
    assert not sparse_accesses(kernel(line, p="*fp32"))
    assert not sparse_accesses(
        replace(kernel("a = tl.load(p + (1056*x0 + r0_1), m)", p="*fp32"), heuristic="split_scan")
    )


def generated(case: Case) -> tuple[GraphCase, Launch, int]:
    """The launch that moves most of the first graph's generated ones."""
    graph = case.graphs[0]
    number, launch = max(
        ((number, each) for number, each in enumerate(graph.launches) if each.role == "generated"),
        key=lambda item: item[1].bytes or 0,
    )
    return graph, launch, number


def strided(launch: Launch) -> Kernel:
    """Its kernel with every index four times as large."""
    assert launch.kernel is not None
    return replace(launch.kernel, source="tmp0 = tl.load(in_ptr0 + (4*x0), None)")


def test_a_strided_kernel_claims_what_it_fetches_in_vain(profiled: Case) -> None:
    _, launch, number = generated(profiled)
    slow = with_launch(profiled, number, kernel=strided(launch), ms=0.5)
    (told,) = strided_accesses.find(slow)
    (claim,) = told.claims
    assert claim.call == launch.call.index and claim.how == "bounded"
    # Three elements of four, at the datasheet's 4.8 TB/s: no more than that twice, nor than the kernel took.
    wasted = 3 * (launch.bytes or 0) / 4.8e12 * 1e3
    assert 0 < claim.ms[0] <= wasted < claim.ms[1] <= 2 * wasted
    assert "every 4th element" in told.title


def test_strides_of_a_neighbour_or_without_lost_time_are_no_finding(profiled: Case) -> None:
    _, launch, number = generated(profiled)
    assert not list(strided_accesses.find(with_launch(profiled, number, ms=0.5)))
    quick = with_launch(profiled, number, kernel=strided(launch), ms=1e-4)
    assert not list(strided_accesses.find(quick))
    guessed = with_launch(profiled, number, kernel=strided(launch), ms=0.5, measured=False)
    assert not list(strided_accesses.find(guessed))


def test_arrays_of_sines_are_no_spills(profiled: Case) -> None:
    _, launch, number = generated(profiled)
    assert launch.kernel is not None
    sine = replace(launch.kernel, source="tmp1 = libdevice.sin(tmp0)")
    assert list(register_spills.find(with_launch(profiled, number, spills=8)))
    assert not list(register_spills.find(with_launch(profiled, number, spills=8, kernel=sine)))
    drawn = replace(launch.kernel, source="tmp2 = tl.randn(tmp0, tmp1)")
    assert not list(register_spills.find(with_launch(profiled, number, spills=8, kernel=drawn)))
    assert list(register_spills.find(with_launch(profiled, number, spills=40, kernel=sine)))


def spilled(item: LoweredKernel) -> tuple[LoweredKernel, int]:
    """The kernel with a load of shared or global memory that is one of local memory, and its line."""
    sass = item.stage("sass")
    assert sass is not None
    row = next(
        row
        for row, text in enumerate(sass.lines)
        if "LDG" in text and (item.origin(sass.places[row]) or None)
    )
    lines = list(sass.lines)
    lines[row] = lines[row].replace("LDG.E.128", "LDL.128").replace("LDG.E", "LDL")
    return replace(item, stages=(replace(sass, lines=tuple(lines)),)), row + 1


def test_a_finding_points_at_its_instruction_and_the_line_behind(
    planted: tuple[Run, LoweredKernel],
) -> None:
    run, item = planted
    worse, line = spilled(item)
    graph = run.graph(item.graph)
    case = gather(run)
    (call,) = (call for call in graph.artifacts().code.calls if call.kernel == item.kernel.name)  # type: ignore[union-attr]
    launch = next(each for each in case.graphs[0].launches if each.call.index == call.index)
    finding = Finding(
        "register_spills", "low", "", item.graph, 1.0, (), "",
        claims=(on_launch(case.graphs[0], launch, 1.0, "profiled"),),
    )  # fmt: skip
    told, model = below(replace(case, lowered=lambda graph, number: worse), finding)
    assert told.line == line and "LDL" in told.text and "for spilled registers" in told.text
    assert f"of {Path(model.path).name}:{model.line}" in told.text
    assert worse.folder is not None
    few = replace(worse, folder=replace(worse.folder, registers=255, warps=4, shared_bytes=0))
    slow = replace(finding, rule="slow_kernel")
    words = [each.text for each in below(replace(case, lowered=lambda graph, number: few), slow)]
    assert any("holds 8 of 64 warps at a time (12 %); there are no more registers" in each for each in words)
    many = replace(few, folder=replace(worse.folder, registers=32, warps=4, shared_bytes=0))
    words = [each.text for each in below(replace(case, lowered=lambda graph, number: many), slow)]
    assert words and not any("warps" in each for each in words)
    # The kernel as it was spills nothing; what a neighbour spills is none of its own.
    assert below(case, finding) == ()
    other = replace(case, lowered=lambda graph, number: worse if number != call.index else item)
    assert below(other, finding) == ()


def test_a_dtype_without_vectors_is_the_reason_in_loops_that_touch_it() -> None:
    head = "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=1L)"
    loop = head + "\n{\n    auto tmp0 = %s[static_cast<int64_t>(x0)];\n}\n"
    source = 'extern "C" void kernel(const int16_t* in_ptr0,\n const float* in_ptr1)\n{\n'
    samples, floats = loop_nests(source + loop % "in_ptr0" + loop % "in_ptr1" + "}")
    assert "int16 has no vectors" in cpu_not_vectorized._reason(samples, source)[0]
    assert "int16" not in cpu_not_vectorized._reason(floats, source)[0]


def test_a_last_dimension_that_fills_no_vector_is_the_reason_where_all_of_the_loop_is_a_tail() -> None:
    """A softmax over five modes of travel: g++ gets a loop over them, one by one."""
    head = "for(int64_t {0}=static_cast<int64_t>({1}L); {0}<static_cast<int64_t>({2}L); {0}+={3}L)\n{{\n"
    tail = "for (int64_t x1_tail = static_cast<int64_t>(0L);x1_tail < static_cast<int64_t>(5L); x1_tail++)\n"
    work = "{\nauto tmp0 = in_ptr0[static_cast<int64_t>(x1_tail + 5L*x0)];\n}\n}\n}\n"
    for last, short in ((5, True), (64, False)):
        (nest,) = loop_nests(head.format("x0", 0, 1200, 1) + head.format("x1", 0, last, 16) + tail + work)
        reason, advice = cpu_not_vectorized._reason(nest, "")
        assert (reason == "its innermost loop has 5 elements, fewer than the 16 of a vector") == short
        assert ("[4, n] rather than [n, 4]" in advice) == short


def test_a_stride_that_is_a_symbol_is_the_reason_in_loops_that_go_along_it() -> None:
    """An oscillator's phase, the last column of the block before: 13.1 ms where eager took 3.05."""
    head = "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=1L)"
    loop = head + "\n{\n    auto tmp0 = in_ptr0[static_cast<int64_t>(%s)];\n}\n"
    along, across = loop_nests(loop % "ks0*x0" + loop % "x0 + ks0*x1")
    assert cpu_not_vectorized._reason(along, "")[0] == cpu_not_vectorized._SYMBOLIC
    assert "symbol" not in cpu_not_vectorized._reason(across, "")[0]


def test_inputs_of_a_symbolic_stride_are_named() -> None:
    text = (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, s87: "Sym(s87)", L_phase_: "f32[64][s87]cpu", L_freq_: "f32[64][1]cpu"):\n'
        "        return (L_phase_,)\n"
    )
    case = replace(bare(), traced=lambda: {"0/1": parse_fx_graph(text, "fx")})
    graph = SimpleNamespace(artifacts=SimpleNamespace(compile_id="0/1"))
    assert cpu_not_vectorized._of_symbolic_stride(case, cast(GraphCase, graph)) == "phase"
    graph = SimpleNamespace(artifacts=SimpleNamespace(compile_id="5/0"))
    assert cpu_not_vectorized._of_symbolic_stride(case, cast(GraphCase, graph)) == "its inputs"


def test_divisions_of_integers_go_lane_by_lane() -> None:
    head = "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=16L)"
    body = "\n{\n    auto tmp0 = at::vec::VectorizedN<int64_t,2>::loadu(in_ptr0 + x0, 16);\n%s}\n"
    divided = "    auto tmp%d = remainder_integral(tmp0, tmp1);\n"
    source = 'extern "C" void kernel(const int64_t* in_ptr0)\n{\n'
    (nest,) = loop_nests(source + head + body % (divided % 2 + divided % 3 + divided % 2) + "}")
    assert nest.divisions == 2, "the last elements of a loop have them once more"
    reason, advice = cpu_not_vectorized._reason(nest, source)
    assert reason == "integer division goes lane by lane" and "2**53" in advice
    # One for a whole row, as of where a minimum of a matrix is.
    row = "    auto tmp4 = out_ptr1[x1];\n    auto tmp5 = floor_divide_integral(tmp4, 140);\n"
    (once,) = loop_nests(
        source + head + body % (row + "    auto tmp6 = at::vec::Vectorized<int64_t>(tmp5);\n") + "}"
    )
    assert not once.divisions and not once.scalar
    (plain,) = loop_nests(source + head + body % "" + "}")
    assert not plain.divisions and not plain.scalar


def test_a_product_without_tensor_cores_is_one_whose_instructions_have_none(
    profiled: Case, planted: tuple[Run, LoweredKernel]
) -> None:
    _, launch, number = generated(profiled)
    _, item = planted
    sass = item.stage("sass")
    assert launch.kernel is not None and sass is not None
    product = replace(launch.kernel, source="acc = tl.dot(a, b, acc)")
    slow = with_launch(profiled, number, kernel=product, role="library", ms=5.0, flops=10**11)
    (told,) = no_tensor_cores.find(replace(slow, lowered=lambda graph, call: item))
    assert (
        told.claims[0].call == launch.call.index and 4.0 < told.claims[0].ms[0] < told.claims[0].ms[1] < 5.0
    )
    line = next(row for row, text in enumerate(sass.lines) if " FMUL " in text)
    lines = [*sass.lines]
    lines[line] = lines[line].replace(" FMUL ", " HGMMA.64x128x16.F32 ")
    with_cores = replace(item, stages=(replace(sass, lines=tuple(lines)),))
    assert not list(no_tensor_cores.find(replace(slow, lowered=lambda graph, call: with_cores)))
    # A neighbour with a product, and this one without: nothing is said of it.
    assert not list(no_tensor_cores.find(replace(profiled, lowered=lambda graph, call: item)))


def test_a_product_of_no_known_operations_counts_by_its_instructions(
    profiled: Case, planted: tuple[Run, LoweredKernel]
) -> None:
    """A user's kernel, whose dtype is that of its pointers."""
    _, _, number = generated(profiled)
    _, item = planted
    sass, facts = item.stage("sass"), item.facts("sass")
    assert sass is not None and facts is not None and item.kernel.source_span is not None
    source = item.kernel.source.split("\n")
    origins = [item.origin(place) for place in sass.places]
    line = next(
        origin.line
        for origin, text in zip(origins, sass.lines, strict=True)
        if origin is not None and origin.line is not None and " FMUL " in text
    )
    row = line - item.kernel.source_span.first
    # Every second instruction of its loop multiplies at a line with a product.
    inside = [at for at, each in enumerate(sass.places) if each is not None and facts.in_loop(at + 1)]
    half = [at for at in inside[::2] if "BRA" not in sass.lines[at]]
    place = next(sass.places[at] for at, each in enumerate(origins) if each is not None and each.line == line)
    lines, places = [*sass.lines], [*sass.places]
    for at in half:
        lines[at], places[at] = "        /*0010*/                   FFMA R1, R2, R3, R4 ;", place
    source[row] += "  # tl.dot(a, b)"
    own = replace(item.kernel, source="\n".join(source), parameters=(KernelParameter("a", "*fp32"),))
    made = replace(item, kernel=own, stages=(replace(sass, lines=tuple(lines), places=tuple(places)),))
    slow = with_launch(profiled, number, kernel=own, ms=5.0, flops=None, leaves=())
    (told,) = no_tensor_cores.find(replace(slow, lowered=lambda graph, call: made))
    low, high = told.claims[0].ms
    assert low == 0.0 < high and told.claims[0].how == "estimated" and "multiplies float32" in told.title
    # TF32 has 7.4 times float32's rate on an H200.
    assert high == pytest.approx(5.0 * len(half) / len(inside) * (1 - 67 / 494.7), rel=0.02)
    words = f"{percent(len(half) / len(inside))} of its instructions multiply for tl.dot"
    assert any(words in each.text for each in told.evidence)
    other = replace(own, parameters=(KernelParameter("a", "*fp64"),))
    unknown = with_launch(profiled, number, kernel=other, ms=5.0, flops=None, leaves=())
    assert not list(no_tensor_cores.find(replace(unknown, lowered=lambda graph, call: made)))


CONFLICTS = """\
.visible .entry k()
{
	.loc	1 10 5
	mov.u32 	%r1, %tid.x;
	shl.b32 	%r2, %r1, BY;
	mov.b32 	%r3, global_smem;
	add.s32 	%r4, %r3, %r2;
	st.shared.b32 	[%r4], %r1;
$L__BB0_1:
	.loc	1 11 5
	ld.shared.b32 	%r5, [%r4];
	ld.shared.b32 	%r5, [%r9];
	fma.rn.f32 	%r6, %r5, %r6, %r6;
	@%p1 bra 	$L__BB0_1;
	ret;
}
"""


def ptx_of(by: int, *, loop: bool = True) -> ModelStage:
    text = CONFLICTS.replace("BY", str(by))
    return parse_ptx("ptx", text if loop else text.replace("bra", "nop"), "k.ptx")


@pytest.mark.parametrize(("by", "rounds"), [(7, 32), (5, 8), (3, 2), (2, 1)])
def test_a_loops_rounds_of_the_banks_stand_beside_its_instructions(by: int, rounds: int) -> None:
    """Lanes 128 bytes apart want words of one bank; what is not known is one round."""
    stage = ptx_of(by)
    facts = facts_of(stage)
    assert [(loop.first, loop.last, loop.instructions) for loop in facts.loops] == [(9, 14, 4)]
    seen = conflicts(stage, facts)
    if rounds <= 2:
        assert seen is None
        return
    assert seen is not None
    assert (seen.rounds, seen.least, seen.instructions, seen.worst) == (rounds + 1, 2, 4, (11,))
    assert seen.lost == pytest.approx(1 - 2 / (rounds + 1))
    assert seen.surely_lost == pytest.approx(max(0.0, 1 - 4 / (rounds + 1)))
    # Instructions that take as long are what it waits for.
    busy = replace(facts, loops=(replace(facts.loops[0], instructions=4 * (rounds + 1)),))
    behind = conflicts(stage, busy)
    assert behind is not None and behind.lost == 0
    # Without a loop all of it counts, and in a kernel with one what stands outside does not.
    whole = conflicts(ptx_of(by, loop=False), facts_of(ptx_of(by, loop=False)))
    assert whole is not None and whole.rounds == 2 * rounds + 1


def test_conflicts_claim_their_part_of_what_is_above_the_bytes(
    profiled: Case, planted: tuple[Run, LoweredKernel]
) -> None:
    _, launch, number = generated(profiled)
    _, item = planted
    made = replace(item, stages=(ptx_of(7),))
    slow = replace(with_launch(profiled, number, ms=5.0), lowered=lambda graph, call: made)
    told = next(each for each in bank_conflicts.find(slow) if each.claims[0].call == launch.call.index)
    (low, high) = told.claims[0].ms
    lost = 1 - 2 / 33
    assert high <= 5.0 * lost and low <= 5.0 * (1 - 4 / 33) < high and told.trial is not None
    assert "33 rounds, 2 without conflicts" in told.title
    (where, *_) = below(slow, told)
    assert (where.path, where.line) == ("k.ptx", 11)
    # As fast as its bytes allow, or without conflicts: nothing.
    assert not list(
        bank_conflicts.find(replace(profiled, lowered=lambda graph, call: replace(item, stages=(ptx_of(2),))))
    )
    fast = replace(with_launch(profiled, number, ms=0.001), lowered=lambda graph, call: made)
    assert launch.call.index not in [each.claims[0].call for each in bank_conflicts.find(fast)]


def test_where_nothing_is_known_below_no_kernel_is_looked_at(corpus: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "softmax")
    lowered = Lowered(run)
    assert lowered.launch("model__0_inference_0.0", 1) is not None
    assert lowered.known("model__0_inference_0.0", 1) is None
    case = gather(run)
    assert case.lowered is not None and case.lowered(case.graphs[0].name, 1) is None
