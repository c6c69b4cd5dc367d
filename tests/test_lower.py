"""Below the kernels: Triton's stage files, the places of their lines, and what they come from."""

from __future__ import annotations

import json
import re
import shutil
import struct
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from sharing import unpacked
from test_contract import problems as contract_problems

from inspector.analysis.index_steps import index_steps
from inspector.analysis.inlined import with_callers
from inspector.analysis.kernel_lines import _Matching, lines_of
from inspector.analysis.kernel_statements import triton_statements
from inspector.analysis.linkage import link_graph
from inspector.analysis.lowering import LoweredKernel, Origin, lowered_kernel
from inspector.analysis.stage_facts import StageFacts, facts_of
from inspector.cli import cli
from inspector.hardware.occupancy import MULTIPROCESSORS, Occupancy, occupancy
from inspector.lowered import lowered_kernels
from inspector.model.fx import FxNode
from inspector.model.lowering import STAGES, Frame, Stage
from inspector.readers.run import Run
from inspector.readers.stages.amdgcn import parse_amdgcn, parse_counts
from inspector.readers.stages.files import folders_of, lowered_folders, read_stage
from inspector.readers.stages.llvm import parse_llvm
from inspector.readers.stages.mlir import parse_mlir
from inspector.readers.stages.objdump import parse_objdump
from inspector.readers.stages.ptx import parse_ptx
from inspector.readers.stages.sass import parse_sass
from inspector.replay.lower_protocol import LowerJob
from inspector.replay.lowering import lower_job, lower_kernels
from inspector.replay.worker.lower import _Lowering, _Made

WITH_TRITON = any(each.name == "triton" for each in distributions())
DATA = Path(__file__).parent / "data"
KEPT = STAGES[:4]
"""What a run itself keeps as text."""
RED = "triton_red_fused__native_batch_norm_legit_functional_gelu_6"


def kernels(path: Path, name: str | None = None) -> tuple[LoweredKernel, ...]:
    run = Run.open(path)
    return lowered_kernels(run, run.graphs, name)


# -- the formats of places


MLIR = """\
#loc = loc("/a/k.py":3:0)
#loc1 = loc(unknown)
#loc2 = loc("/a/k.py":5:8 to :12)
#loc3 = loc("/b/helpers.py":30:1)
#loc4 = loc("x"(#loc2))
#loc5 = loc(callsite(#loc3 at #loc4))
#loc6 = loc(fused[#loc2, #loc3])
#loc7 = loc(fused<"meta">[#loc3, "/a/k.py":6:0])
#loc8 = loc(callsite(#loc1 at #loc2))
module {
  tt.func public @k(%x: i32 loc("x"(#loc))) attributes {noinline = false} {
    %a = arith.constant 1 : i32 loc(#loc1)
    %b = tt.splat %x : i32 -> tensor<4xi32> loc(#loc4)
    %c = "tt.reduce"(%b) <{axis = 0 : i32}> ({
    ^bb0(%arg1: i32 loc(#loc8), %arg2: i32 loc(#loc8)):
      %d = arith.addi %arg1, %arg2 : i32 loc(#loc5)
      tt.reduce.return %d : i32 loc(#loc8)
    }) : (tensor<4xi32>) -> i32 loc(#loc6)
    %e = arith.addi %c, %a : i32 loc(#loc7)
    %f = arith.addi %c, %a : i32 loc("/a/k.py":9:2)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""


def test_every_form_of_an_mlir_location() -> None:
    stage = parse_mlir("ttir", MLIR, "k.ttir")
    assert stage.problems == ()
    k5, h30 = Frame("/a/k.py", 5, 8), Frame("/b/helpers.py", 30, 1)
    places = dict(enumerate(stage.places, 1))
    assert [number for number, place in places.items() if place is not None] == [
        12,
        13,
        14,
        16,
        17,
        18,
        19,
        20,
        21,
    ]
    assert places[12] == ()
    assert places[13] == (k5,)
    assert places[16] == (h30, k5)
    # A region's operation says where it is from behind the region.
    assert places[14] == places[18] == (k5, h30)
    assert places[19] == (h30, Frame("/a/k.py", 6, 0))
    assert places[20] == (Frame("/a/k.py", 9, 2),)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("loc(unknown)", "loc(elsewhere)", 2, "not understood"),
        ("-> tensor<4xi32> loc(#loc4)", "-> tensor<4xi32> loc(#loc99)", 13, "#loc99 is not in the table"),
        ("-> tensor<4xi32> loc(#loc4)", "-> tensor<4xi32>", 13, "has no location"),
        ('loc("x"(#loc2))', 'loc("x"(#loc4))', 5, "nested too deeply"),
        ("  } loc(#loc)\n} loc(#loc)\n", "", 10, "cut short"),
    ],
)
def test_what_mlir_does_not_say_is_a_problem_with_its_line(
    old: str, new: str, line: int, message: str
) -> None:
    stage = parse_mlir("ttir", MLIR.replace(old, new, 1), "k.ttir")
    assert any(each.line == line and message in each.message for each in stage.problems), stage.problems
    assert len(stage.places) == len(stage.lines)


LLVM = """\
define void @k(ptr %0) !dbg !4 {
  %2 = add i32 1, 2, !dbg !7
  switch i32 %2, label %3 [
    i32 1, label %3
  ], !dbg !8
3:                                                ; preds = %1
  %4 = phi i32 [ 1, %1 ]
  %5 = fadd float %4, 1.0, !dbg !9, !tbaa !2
  ret void, !dbg !11
}
!1 = !DIFile(filename: "k.py", directory: "/a")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 3)
!5 = distinct !DILexicalBlockFile(scope: !4, file: !6, discriminator: 0)
!6 = !DIFile(filename: "/b/helpers.py", directory: "/a")
!7 = !DILocation(line: 5, column: 8, scope: !4)
!8 = !DILocation(line: 0, scope: !4)
!9 = !DILocation(line: 30, column: 1, scope: !5, inlinedAt: !10)
!10 = !DILocation(line: 6, column: 2, scope: !4)
!11 = !DILocation(line: 7, column: 2, scope: !12)
!12 = !DILexicalBlock(scope: !4, line: 7)
"""


def test_llvm_places_follow_scopes_and_inlining() -> None:
    stage = parse_llvm("llir", LLVM, "k.llir")
    assert stage.problems == ()
    located = [place for place in stage.places if place is not None]
    assert located == [
        (Frame("/a/k.py", 5, 8),), (), (), (Frame("/b/helpers.py", 30, 1), Frame("/a/k.py", 6, 2)),
        (Frame("/a/k.py", 7, 2),),
    ]  # fmt: skip
    broken = parse_llvm(
        "llir", LLVM.replace("inlinedAt: !10", "inlinedAt: !9").replace("!7 = ", "!70 = "), "k.llir"
    )
    assert [(each.line, each.message.split()[0]) for each in broken.problems] == [(2, "!7"), (8, "!9")]


PTX = """\
.visible .entry k(
	.param .u64 k_param_0
)
{
	.local .align 4 .b8 	__local_depot0[28];
	.reg .b32 	%r<2>;
	mov.u32 	%r0, 1;
	.loc	1 5 8                           // k.py:5:8
$L__tmp0:
	add.s32 	%r1, %r0, 1;
	.loc	2 30 1, function_name $L__info, inlined_at 1 6 2  // helpers.py:30:1 @[ h.py:2:1 @[ k.py:6:2 ] ]
	// begin inline asm
	@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];
	.loc	2 31 1, function_name $L__info_string0, inlined_at 1 6 2
	add.s32 	%r1, %r0, 1;
	.loc	2 32 1, function_name $L__info_string0, inlined_at 2 31 1 // helpers.py:32:1
	add.s32 	%r1, %r0, 1;
	.loc	1 0 8                           // k.py:0:8
	ret;
}
	.file	1 "/a/k.py"
	.file	2 "/b/helpers.py"
	.section	.debug_info
	{
.b8 1
	}
"""


def test_ptx_instructions_stand_below_their_places() -> None:
    stage = parse_ptx("ptx", PTX, "k.ptx")
    assert stage.problems == ()
    k6, inner, h31 = Frame("/a/k.py", 6, 2), Frame("h.py", 2, 1), Frame("/b/helpers.py", 31, 1)
    assert [place for place in stage.places if place is not None] == [
        (), (Frame("/a/k.py", 5, 8),), (Frame("/b/helpers.py", 30, 1), inner, k6),
        (h31, k6), (Frame("/b/helpers.py", 32, 1), h31, k6), (),
    ]  # fmt: skip
    broken = parse_ptx("ptx", PTX.replace('.file	2 "/b/', '.file	3 "/b/'), "k.ptx")
    assert [each.line for each in broken.problems] == [11, 14, 16]


# -- what an H200's machine left


def test_every_kernel_has_its_stages_and_every_instruction_is_accounted_for(staged: Path) -> None:
    every = kernels(staged / "infer-default.run")
    assert len(every) == 11 and all([stage.name for stage in item.stages] == list(KEPT) for item in every)
    for item in every:
        assert item.problems == () and item.folder is not None and item.folder.chosen
        assert item.recorded is not None and item.recorded.shared_bytes == item.folder.shared_bytes
        assert str(item.folder.target) == "sm_90" and item.folder.triton_version == "3.6.0"
        for stage in item.stages:
            assert sum(place is not None for place in stage.places) == _instructions(stage), stage.path
            origins = [origin for place in stage.places if (origin := item.origin(place)) is not None]
            assert sum(bool(origin.sources) for origin in origins) >= 0.6 * len(origins)
            # Whatever has a place has one in the kernel's own file, however deep it was inlined.
            located = [item.origin(place) for place in stage.places if place]
            assert all(origin is not None and origin.line is not None for origin in located)


def _instructions(stage: Stage) -> int:
    """Counted by other means than the readers' own."""
    text = "\n".join(stage.lines)
    if stage.name in ("ttir", "ttgir"):
        lines = text[text.index("tt.func") :].split("\n", 1)[1].rsplit("    tt.return", 1)[0].split("\n")
        rows = [line for line in lines if line.strip() and not line.strip().startswith("^bb")]
        return len(rows) + 1
    if stage.name == "llir":
        bodies = re.findall(r"^define .*?\{\n(.*?)^\}", text, re.M | re.S)
        return len(re.findall(r"^  \S", "".join(bodies), re.M))
    body = text[text.index("\n{\n") : text.index("\n}\n")]
    return len(re.findall(r"^\t[@a-z].*;", body, re.M))


def test_the_chosen_configuration_is_the_one_that_inductor_named(staged: Path) -> None:
    run = staged / "infer-default.run"
    hashes = {
        json.loads(path.read_text())["triton_cache_hash"]
        for path in run.glob("cache/inductor/*/*.best_config")
    }
    tuned = [item for item in kernels(run) if item.others]
    assert len(tuned) == 6 and {item.folder.key for item in tuned if item.folder} == hashes
    assert all(not other.chosen for item in tuned for other in item.others)


def test_inlined_helpers_lead_to_the_line_that_calls_them(staged: Path) -> None:
    (item,) = kernels(staged / "train-default.run", RED)
    code = item.kernel.source.split("\n")
    assert item.kernel.source_span is not None
    for name in KEPT:
        stage = item.stage(name)
        assert stage is not None
        inlined = [place for place in stage.places if place and place[0].file == "triton_helpers.py"]
        assert len(inlined) > 10
        for place in inlined:
            origin = item.origin(place)
            assert origin is not None and origin.line is not None
            row = origin.line - item.kernel.source_span.first
            # Of a call over several lines, the line of its last parenthesis or of its function.
            assert "welford" in " ".join(code[max(0, row - 2) : row + 1]), code[row]


def test_stages_of_another_source_are_told_and_lead_nowhere(staged: Path) -> None:
    run = Run.open(staged / "train-default.run")
    graph = next(graph for graph in run.graphs if graph.phase == "forward")
    artifacts = graph.artifacts()
    assert artifacts.code is not None
    kernel = artifacts.code.kernel(RED)
    assert kernel is not None
    own = folders_of(kernel, lowered_folders(run))
    other = replace(kernel, source="# one more line\n" + kernel.source)
    item = lowered_kernel(artifacts, lambda: link_graph(artifacts), other, own, ())
    assert [problem.message for problem in item.problems] == [
        "its places do not fit the kernel's source in output_code.py"
    ]
    assert own[0].source is not None and item.origin((own[0].source,)) == Origin(None)


@pytest.mark.parametrize("name", KEPT)
def test_a_stage_that_is_cut_anywhere_is_read_as_far_as_it_goes(name: str, staged: Path) -> None:
    (path,) = staged.glob(f"train-default.run/cache/triton/*/{RED}.{name}")
    text = path.read_text()
    parse = {"llir": parse_llvm, "ptx": parse_ptx}.get(name, parse_mlir)
    for end in range(0, len(text), max(1, len(text) // 40)):
        stage = parse(name, text[:end], path.name)
        assert len(stage.places) == len(stage.lines)
    assert parse(name, text[: len(text) // 3], path.name).problems


# -- from a kernel's line to the model's


def test_a_line_of_a_kernel_is_of_the_node_with_its_operation_and_constants(tmp_path: Path) -> None:
    root = Path(__file__).parents[1] / "sample_runs" / "stories" / "transformer_gpu" / "run.tar.xz"
    artifacts = Run.open(root).graphs[0].artifacts()
    assert artifacts.code is not None and artifacts.fx_after is not None
    kernel = artifacts.code.kernel("triton_per_fused_add_native_layer_norm_view_3")
    assert kernel is not None
    lines = lines_of(kernel, artifacts, link_graph(artifacts))
    nodes = {node.name: node for node in artifacts.fx_after.nodes}
    source = kernel.source.split("\n")

    def at(text: str) -> set[str]:
        (number,) = (index for index, line in enumerate(source, 1) if line.strip().startswith(text))
        return {re.sub(r"_\d+$", "", name) for name in lines.nodes.get(number, ())}

    # Three layers share the kernel, so each line is of three nodes of one kind.
    assert at("tmp2 = tmp0 + tmp1") == {"add"}
    assert at("tmp13 = tl.full([1, 1], 512, tl.int32)") == at("tmp17 = tmp16 * tmp16") == {"var_mean"}
    assert at("tmp22 = tmp5 - tmp15") == {"sub"}
    assert at("tmp27 = libdevice.rsqrt(tmp26)") == {"rsqrt"}
    epsilon = next(index for index, line in enumerate(source, 1) if "1e-05" in line)
    assert all("1e-05" in nodes[name].text for name in lines.nodes[epsilon])
    places = {index: {nodes[name].source.line for name in names} for index, names in lines.nodes.items()}  # type: ignore[union-attr]
    assert {line for own in places.values() for line in own} == {22, 25, 26} and all(
        len(own) == 1 for own in places.values()
    )


def test_a_launch_by_its_number_narrows_what_its_lines_are_of(staged: Path) -> None:
    path = staged / "train-default.run"
    (every,) = kernels(path, RED)
    graph = next(graph for graph in Run.open(path).graphs if graph.ident == every.graph)
    code = graph.code()
    assert code is not None
    calls = [call.index for call in code.calls if call.kernel == RED]
    run = Run.open(path)
    own = [lowered_kernels(run, [run.graph(every.graph)], str(call))[0] for call in calls]
    assert set().union(*(item.lines.every for item in own)) == set(every.lines.every)
    assert all(len(item.lines.every) < len(every.lines.every) for item in own) and len(calls) > 2


PLANTED = {1.2345: 6, 0.625: 6, 3.3125: 7, 0.40625: 8, 7.1875: 9, 2.53125: 10, 0.8125: 11}
"""Constants of a program that ran on an H200, each of one line of it."""
# 0f3F9E0419 in PTX, 1.2345000505447387695 in SASS
_IMMEDIATE = re.compile(r"\b0f([0-9A-F]{8})\b|(?<![\w.])-?(\d+\.\d+)(?![\w.])")


def planted(item: LoweredKernel, name: str) -> Iterator[tuple[float, set[int], str]]:
    """(constant, lines of the model that the map says, text) of each instruction that has one."""
    stage = item.stage(name)
    for text, place in zip(stage.lines, stage.places, strict=True) if stage is not None else ():
        origin = item.origin(place)
        for bits, decimal in _IMMEDIATE.findall(text) if origin is not None else ():
            value = struct.unpack(">f", bytes.fromhex(bits))[0] if bits else float(decimal)
            number = next((each for each in PLANTED if abs(abs(value) - each) < 1e-6), None)
            if number is not None and origin is not None:
                yield number, {each.line for each in origin.sources}, text


def test_a_planted_constant_is_found_where_the_map_says(tmp_path: Path) -> None:
    unpacked(DATA / "planted-h200.tar.xz", tmp_path)
    (item,) = kernels(tmp_path / "planted.run")
    assert item.problems == () and item.folder is not None and item.folder.registers == 30
    # What LLVM left without a place (.loc 1 0), ptxas puts behind whatever stands above.
    unplaced = {number for number, lines, _ in planted(item, "ptx") if not lines}
    assert unplaced == {1.2345, 0.625, 3.3125, 0.40625}
    for name in ("ptx", "sass"):
        placed: dict[float, bool] = {}
        for number, lines, text in planted(item, name):
            # A product and the sum that takes it are one instruction, which is at the sum.
            fused = {PLANTED[number] + 1} if "fma" in text.lower() else set()
            right = lines in ({PLANTED[number]}, fused)
            assert right or (number in unplaced and (not lines or name == "sass")), text
            placed[number] = placed.get(number, False) or right
        assert {number for number, right in placed.items() if right} >= set(PLANTED) - {1.2345, 0.625, 3.3125}


# -- the command


def invoke(*arguments: object) -> Any:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def test_a_stage_is_printed_beside_the_models_lines(staged: Path) -> None:
    run = staged / "infer-default.run"
    overview = invoke("lower", run)
    assert overview.exit_code == 0 and "11 kernels, 11 with the stages" in overview.stdout
    shown = invoke(
        "lower", run, "--kernel", "triton_poi_fused__to_copy_convolution_gelu_2", "--stage", "ttgir"
    )
    assert shown.exit_code == 0
    loads = [
        line for line in shown.stdout.split("\n") if "tt.load" in line or "math.erf" in line or "erf" in line
    ]
    assert loads and "lines without instructions" in shown.stdout
    located = [line for line in shown.stdout.split("\n") if re.match(r"models\.py:\d+ ", line)]
    assert len(located) >= 10


def test_the_json_keeps_its_contract(staged: Path) -> None:
    result = invoke("lower", staged / "infer-default.run", "--json")
    data = json.loads(result.stdout)
    assert contract_problems("lower", data) == [] and len(data["kernels"]) == 11
    asked = json.loads(
        invoke("lower", staged / "train-default.run", "--kernel", RED, "--stage", "ptx", "--json").stdout
    )
    (kernel,) = asked["kernels"]
    assert contract_problems("lower", asked) == []
    assert kernel["stages"]["ptx"].startswith("//") and kernel["stages"]["ttir"].endswith(".ttir")
    assert {line["stage"] for line in kernel["lines"]} == {"ptx"} and kernel["shared_bytes"] == 192


def test_what_cannot_be_shown_is_one_line(staged: Path, tmp_path: Path) -> None:
    run = staged / "infer-default.run"
    name = "triton_poi_fused__to_copy_3"
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for path in copy.glob(f"cache/triton/*/{name}.ptx"):
        path.unlink()
    for arguments, message in (
        (("--stage", "ptx"), "name it with --kernel"),
        (("--kernel", "nothing"), "no kernel nothing"),
        (("--target", "rtx"), "no GPU is called so"),
        (("--kernel", name, "--stage", "ptx"), f"{name} has no ptx"),
    ):
        result = invoke("lower", copy, *arguments)
        assert result.exit_code != 0 and message in str(result.exception)
    shutil.rmtree(copy / "cache")
    assert "no stages here" in invoke("lower", copy).stdout


def test_json_that_is_none_is_a_problem_of_that_file(staged: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(staged / "infer-default.run", copy)
    (path,) = copy.glob("cache/triton/*/triton_poi_fused__to_copy_0.json")
    path.write_text("{")
    (item,) = (item for item in kernels(copy) if item.kernel.name == "triton_poi_fused__to_copy_0")
    assert [problem.path for problem in item.problems] == [str(path.relative_to(copy))]
    assert item.folder is not None and item.folder.warps is None and len(item.stages) == 4


# -- disassembly, and lowering here


SASS = """\
	.section	.text.k,"ax",@progbits
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/a/k.py", line 5
        /*0010*/                   S2R R0, SR_CTAID.X ;
	//## File "/b/helpers.py", line 30 inlined at "/b/helpers.py", line 12
	//## File "/b/helpers.py", line 12 inlined at "/a/k.py", line 6
	//## File "/a/k.py", line 6
        /*0020*/              @!P0 LDG.E.128 R8, desc[UR4][R2.64] ;
.L_x_1:
        /*0030*/                   EXIT ;
.L_x_0:
        /*0040*/                   BRA `(.L_x_0);
        /*0050*/                   NOP;
"""


def test_sass_stands_below_its_frames_and_its_filling_is_none() -> None:
    stage = parse_sass("sass", SASS, "k.sass")
    k6 = (Frame("/b/helpers.py", 30), Frame("/b/helpers.py", 12), Frame("/a/k.py", 6))
    assert stage.problems == ()
    assert [place for place in stage.places if place is not None] == [(), (Frame("/a/k.py", 5),), k6, k6]
    assert parse_sass("sass", SASS.replace('"/a/k.py", line 5', "?"), "k.sass").problems[0].line == 4


def test_what_is_lowered_takes_the_recorded_configuration(staged: Path) -> None:
    path = staged / "infer-default.run"
    items = kernels(path)
    jobs = [lower_job(item) for item in items]
    assert len(jobs) == 11
    for item, job in zip(items, jobs, strict=True):
        assert (
            job is not None and item.recorded is not None and dict(job.config) == dict(item.recorded.config)
        )
        assert job.file == (item.folder.source.file if item.folder and item.folder.source else "")
        # Without the recorder's word, what Inductor wrote of the configuration that it chose.
        unrecorded = lower_job(replace(item, recorded=None))
        chosen = dict(item.folder.config) if item.folder is not None else {}
        assert unrecorded is not None and dict(unrecorded.config) == chosen
        assert bool(chosen) == bool(item.others)


def test_what_a_kernel_does_not_take_is_none_of_its_configuration() -> None:
    """torch/_inductor/runtime/triton_heuristics.py: split_scan gives an XBLOCK to kernels without rows."""
    config = SimpleNamespace(kwargs={"XBLOCK": 1, "R0_BLOCK": 2048}, num_warps=16, num_stages=1)
    made = _Made(SimpleNamespace(arg_names=["in_ptr0", "R0_BLOCK"]), [config], {}, {})
    job = LowerJob("k", "k", "k.py", "", config={"XBLOCK": "1", "num_warps": "8"})
    for each, warps in ((replace(job, config={}), 16), (job, 8)):
        blocks, options = _Lowering._configuration(each, made, [])
        assert blocks == {"R0_BLOCK": 2048} and options["num_warps"] == warps


@pytest.mark.slow
@pytest.mark.skipif(not WITH_TRITON, reason="lowering needs Triton")
def test_kernels_are_lowered_here_as_on_the_gpu(staged: Path, tmp_path: Path) -> None:
    """A reduction that inlines helpers and a pointwise kernel for the run's GPU, and that one for others."""
    run = Run.open(staged / "train-default.run")
    names = (RED, "triton_poi_fused__to_copy_3")
    items = [item for item in kernels(run.root) if item.kernel.name in names and "forward" in item.graph]
    jobs = [job for item in items if (job := lower_job(item)) is not None]
    broken = replace(jobs[1], source=jobs[1].source.replace("tl.load(", "tl.loaded("))
    other = [replace(jobs[0], target=target) for target in ("sm_80", "gfx942")]
    result = lower_kernels([*jobs, broken, *other], tmp_path)
    assert result.failure is None and set(result.keys) == {0, 1, 3, 4} and "'loaded'" in result.problems[2]
    for item in items:
        (made,) = lowered_kernels(run, [run.graph(item.graph)], item.kernel.name, made=tmp_path)
        # The run's own folder comes first: what was made is for the target that it has not.
        assert made.folder is not None and made.folder.made == (item.folder is None)
        made = lowered_kernels(run, [run.graph(item.graph)], item.kernel.name, "sm_90", tmp_path)[0]
        folder = next(each for each in (made.folder, *made.others) if each is not None and each.made)
        assert item.recorded is not None and folder.shared_bytes == item.recorded.shared_bytes
        assert folder.registers is not None and item.recorded.registers is not None
        assert abs(folder.registers - item.recorded.registers) <= max(2, 0.1 * item.recorded.registers)
        assert {*KEPT, "sass"} <= set(folder.files) and folder.spill_bytes == 0
        assert folder.source is not None
        read = [read_stage(folder, name, run) for name in ("ptx", "sass")]
        _, stage = with_callers(read, folder.source.file)
        origins = [origin for place in stage.places if (origin := made.origin(place)) is not None]
        assert sum(origin.line is not None for origin in origins) >= 0.9 * len(origins)
    for target in ("sm_80", "gfx942"):
        item = lowered_kernels(run, [run.graph(items[0].graph)], names[1], target, tmp_path)[0]
        assert item.folder is not None and str(item.folder.target) == target and item.problems == ()
        last = item.stage("sass" if target == "sm_80" else "amdgcn")
        assert last is not None and item.folder.registers
        located = [origin for place in last.places if (origin := item.origin(place)) is not None]
        assert sum(origin.line is not None for origin in located) >= 0.7 * len(located)


AMDGCN = """\
	.text
kernel:                                 ; @kernel
.Lfunc_begin0:
; %bb.9:
	.file	1 "/cache/uo" "cuok.py"
	.loc	1 18 0 prologue_end             ; cuok.py:18:0
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	.loc	1 0 0 is_stmt 0                 ; :0:0
	s_waitcnt lgkmcnt(0)
.LBB0_0:
	.loc	1 23 15 is_stmt 1               ; helpers.py:23:15 @[ cuok.py:53:79 ]
	s_lshl_b32 s18, s16, 2                  ; a comment
.Lfunc_end0:
	.size	kernel, .Lfunc_end0-kernel
    .vgpr_count:     43
    .vgpr_spill_count: 2
"""


def test_an_amd_gpus_assembly_has_places_and_registers() -> None:
    stage = parse_amdgcn("amdgcn", AMDGCN, "k.amdgcn")
    assert stage.problems == ()
    assert [place for place in stage.places if place is not None] == [
        (Frame("/cache/uo/cuok.py", 18, 0),), (),
        (Frame("/cache/uo/cuok.py", 23, 15), Frame("cuok.py", 53, 79)),
    ]  # fmt: skip
    assert parse_counts(AMDGCN) == {"vgpr_count": 43, "vgpr_spill_count": 2}
    broken = parse_amdgcn(
        "amdgcn", AMDGCN.replace(".file	1", ".file	2").replace(".Lfunc_end0:", ""), "k.amdgcn"
    )
    assert [each.line for each in broken.problems] == [6, 8, 11, 16]


# -- what is counted


def test_sass_is_counted_by_kind_width_and_loop() -> None:
    text = """\
	.section	.text.k,"ax",@progbits
	//## File "/a/k.py", line 5
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_1:
        /*0010*/              @!P0 LDG.E.EL.128 R8, desc[UR4][R2.64] ;
        /*0020*/                   LDG.E.U16 R8, desc[UR4][R2.64] ;
        /*0030*/                   HGMMA.64x64x16.F32 R24, gdesc[UR8], R24 ;
        /*0040*/                   FFMA R1, R1, R2, R3 ;
        /*0050*/                   STL.64 [R1], R8 ;
        /*0060*/               @P1 BRA `(.L_x_1) ;
        /*0070*/              @!P0 STG.E desc[UR4][R2.64], R8 ;
        /*0080*/                   EXIT ;
.L_x_0:
        /*0090*/                   BRA `(.L_x_0);
"""
    facts = facts_of(parse_sass("sass", text, "k.sass"))
    assert facts.instructions == 9 and facts.tensor_cores == {"HGMMA.64x64x16": 1}
    assert facts.mix == {
        "global memory": 3, "control": 2, "constants": 1, "tensor cores": 1, "floating point": 1, "spills": 1,
    }  # fmt: skip
    assert facts.widths("global", False) == {128: 1, 16: 1} and facts.widths("global", True) == {32: 1}
    assert facts.widths("local", True) == {64: 1}
    assert [(loop.first, loop.last, loop.instructions) for loop in facts.loops] == [(4, 10, 6)]
    assert facts.in_loop(5) and not facts.in_loop(11)


def test_widths_of_real_stages_are_those_of_their_text(staged: Path) -> None:
    """Triton's own vectorisation is in the brackets of the assembly that it writes."""
    for item in kernels(staged / "infer-default.run"):
        stage, facts = item.stage("ptx"), item.facts("ptx")
        assert stage is not None and facts is not None
        expected: dict[tuple[str, int], int] = {}
        for line in stage.lines:
            match = re.search(r"\b(ld|st)\.global\S*b(\d+) (.*)", line)
            if match is not None:
                bracket = re.search(r"\{(.*?)\}", match[3])
                bits = int(match[2]) * (bracket[1].count("%") if bracket else 1)
                expected[match[1], bits] = expected.get((match[1], bits), 0) + 1
        for kind, writes in (("ld", False), ("st", True)):
            own = {bits: count for (name, bits), count in expected.items() if name == kind}
            assert own and dict(facts.widths("global", writes)) == own, stage.path


def test_layout_conversions_have_their_bytes() -> None:
    text = MLIR.replace(
        "    %b = tt.splat %x : i32 -> tensor<4xi32> loc(#loc4)\n",
        "    %b = ttg.convert_layout %x : tensor<4x128xf32, #blocked> -> "
        "tensor<4x128xf32, #blocked1> loc(#loc4)\n"
        "    %g = ttg.convert_layout %b : tensor<64xbf16, #ttg.slice<{dim = 1, parent = #blocked2}>> -> "
        "tensor<64xbf16, #ttg.slice<{dim = 1, parent = #blocked}>> loc(#loc4)\n",
    )
    layouts = "".join(f"#blocked{n} = #ttg.blocked<{{sizePerThread = [1]}}>\n" for n in ("", 1, 2))
    facts = facts_of(parse_mlir("ttgir", layouts + text, "k.ttgir"))
    assert set(facts.layouts) == {"blocked", "blocked1", "blocked2"}
    assert [(each.source, each.target, each.bytes) for each in facts.conversions] == [
        ("blocked", "blocked1", 2048), ("slice of blocked2", "slice of blocked", 128),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("warps", "registers", "block_bytes", "expected"),
    [
        # As the CUDA occupancy calculator has them for compute capability 9.0.
        (4, 32, 0, Occupancy(64, 64, "warps")),
        (4, 36, 0, Occupancy(48, 64, "registers")),
        (8, 255, 0, Occupancy(8, 64, "registers")),
        (4, 32, 100 * 1024, Occupancy(8, 64, "shared memory")),
        (1, 16, 0, Occupancy(32, 64, "blocks")),
        (4, 32, 300 * 1024, None),
    ],
)
def test_occupancy_is_what_runs_out_first(
    warps: int, registers: int, block_bytes: int, expected: object
) -> None:
    assert occupancy(MULTIPROCESSORS["90"], warps, registers, block_bytes) == expected


@pytest.mark.parametrize(
    ("line", "steps"),
    [
        ("tmp0 = tl.load(in_ptr0 + (x0 + 128*r0_2), xmask)", {"x0": 1, "r0_2": 128}),
        ("tl.store(out_ptr0 + (3*x2 + 150528*y1 + 3*x2), tmp1, xmask)", {"x2": 6, "y1": 150528}),
        ("tmp0 = tl.load(in_ptr0 + ((-1)*x0 + 7 + x1*ks0), xmask)", {"x0": -1, "x1": None, "ks0": None}),
        ("tmp0 = tl.load(in_ptr0 + (x0 // 2), xmask)", {"x0": None}),
        ("tmp3 = tmp1 + tmp2", {}),
        ("tmp3 = tl.load(", {}),
    ],
)
def test_an_index_moves_by_its_factors(line: str, steps: dict[str, int | None]) -> None:
    assert index_steps(line) == steps


def test_a_narrow_load_names_its_line_and_what_its_index_does(staged: Path) -> None:
    name = "triton_poi_fused__to_copy_0"
    (item,) = kernels(staged / "infer-default.run", name)
    (narrow,) = item.narrow()
    assert narrow.writes and narrow.bits == 16 and narrow.text.startswith("tl.store(out_ptr0 + (y0 + 3*x2")
    assert dict(narrow.steps) == {"y0": 1, "x2": 3, "y1": 150528} and narrow.unit
    shown = invoke("lower", staged / "infer-default.run", "--kernel", name).stdout
    assert "stores 16 bits at a time (8x): tl.store(out_ptr0" in shown


def test_instructions_of_lines_that_a_source_has_not_are_of_no_line(staged: Path) -> None:
    """As after an edit: output_code.py is shorter than the source that was compiled."""
    (item,) = kernels(staged / "infer-default.run", "triton_poi_fused__to_copy_0")
    span = item.kernel.source_span
    assert span is not None
    lines = item.kernel.source.split("\n")[:3]
    short = replace(item.kernel, source="\n".join(lines), source_span=replace(span, last=span.first + 2))
    assert item.spread() or item.narrow()
    cut = replace(item, kernel=short)
    assert cut.narrow() == () and cut.spread() == ()


# -- C++ kernels


ASSEMBLY = """\

k.o:     file format elf64-x86-64

0000000000000000 <kernel._omp_fn.0>:
kernel._omp_fn.0():
/cache/k.cpp:9
   0:	push   %r13
_Z21_mm512_maskz_loadu_pstPKv():
/usr/lib/gcc/avx512fintrin.h:6349
inlined by /torch/vec512_float.h:181 (_ZN2at3vec5loadu)
inlined by /cache/k.cpp:31 (kernel._omp_fn.0)
  10:	vmovups (%rdi),%zmm1
inlined by /torch/vec512_float.h:181 (_ZN2at3vec5loadu)
inlined by /cache/k.cpp:31 (kernel._omp_fn.0)
  16:	vmulps -0x180(%rbx),%zmm2,%zmm0
kernel._omp_fn.0():
/cache/k.cpp:33 (discriminator 3)
  20:	add    $0x40,%rdi
  24:	jl     10 <kernel._omp_fn.0+0x10>
/cache/k.cpp:40
  30:	vaddss (%rdi),%xmm1,%xmm0
  34:	jmp    30 <kernel._omp_fn.0+0x30>
0000000000000040 <_ZN3c106detail12_str_wrapper>:
_ZN3c106detail12_str_wrapper():
/torch/c10/util/StringUtil.h:50
  40:	vaddps (%rdi),%ymm1,%ymm0
"""


def test_assembly_has_the_frames_that_it_was_inlined_through() -> None:
    stage = parse_objdump("asm", ASSEMBLY, "k.asm")
    k31 = (
        Frame("/usr/lib/gcc/avx512fintrin.h", 6349),
        Frame("/torch/vec512_float.h", 181),
        Frame("/cache/k.cpp", 31),
    )
    assert stage.problems == ()
    assert [place for place in stage.places if place is not None] == [
        (Frame("/cache/k.cpp", 9),), k31, k31, (Frame("/cache/k.cpp", 33),), (Frame("/cache/k.cpp", 33),),
        (Frame("/cache/k.cpp", 40),), (Frame("/cache/k.cpp", 40),),
    ]  # fmt: skip
    facts = facts_of(stage)
    assert facts.mix == {"others": 4, "zmm": 2, "scalar floating point": 1}
    assert [(loop.bits, loop.instructions) for loop in facts.innermost] == [(512, 4), (0, 2)]


def test_of_instructions_that_are_no_x86s_nothing_but_their_number_is_said() -> None:
    # Handmade after the manual's syntax: none of an ARM is at hand.
    text = "0 <kernel>:\n/cache/k.cpp:9\n   0:\tfmla v0.4s, v1.4s, v2.4s\n   4:\tb.lt 0 <kernel>\n"
    assert facts_of(parse_objdump("asm", text, "k.asm")) == StageFacts(2)


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("vfmadd213ps %ymm1,%ymm2,%ymm3", "ymm"),
        ("vmovss %xmm0,(%rax)", "scalar floating point"),
        ("vcvtsi2ss %eax,%xmm0,%xmm0", "scalar floating point"),
        ("vsqrtsd %xmm1,%xmm1,%xmm1", "scalar floating point"),
        ("vcvttss2si %xmm0,%rax", "scalar floating point"),
        ("vaddps %xmm1,%xmm2,%xmm3", "xmm"),
        ("vandps 0x0(%rip),%xmm0,%xmm0", "scalar floating point"),
        ("vblendvps %xmm3,%xmm2,%xmm5,%xmm3", "scalar floating point"),
        ("vandps %zmm1,%zmm0,%zmm0", "zmm"),
        ("vpaddd %xmm1,%xmm2,%xmm3", "xmm"),
        ("vcvtps2pd %ymm0,%zmm0", "zmm"),
        ("add %rax,%rbx", "others"),
    ],
)
def test_how_many_numbers_an_instruction_takes(instruction: str, kind: str) -> None:
    text = f"0 <kernel>:\n/cache/k.cpp:9\n   0:\t{instruction}\n"
    assert facts_of(parse_objdump("asm", text, "k.asm")).mix == {kind: 1}


def test_a_line_of_a_cpp_kernel_is_of_one_node_though_its_names_are_used_again() -> None:
    root = Path(__file__).parents[1] / "sample_runs" / "stories" / "training_step" / "run.tar.xz"
    graph = next(graph for graph in Run.open(root).graphs if graph.phase == "forward")
    artifacts = graph.artifacts()
    assert artifacts.code is not None
    kernel = artifacts.code.kernel("cpp_fused_gelu_native_layer_norm_0")
    assert kernel is not None
    lines = lines_of(kernel, artifacts, link_graph(artifacts))
    source = kernel.source.split("\n")
    expected = {
        "auto tmp7 = tmp6.erf();": {"erf"},
        "auto tmp1 = static_cast<float>(0.5);": {"mul"},
        "auto tmp4 = static_cast<float>(0.7071067811865476);": {"mul_1"},
        "tmp_acc0_vec = tmp_acc0_vec + tmp15;": {"var_mean"},
        "auto tmp4 = static_cast<float>(1e-05);": {"add_1"},
        "auto tmp13 = at::vec::Vectorized<float>(tmp12);": {"sub", "var_mean"},
        "auto tmp7 = tmp6.rsqrt();": {"rsqrt"},
    }
    seen: dict[str, set[str]] = {}
    for number, text in enumerate(source, 1):
        if text.strip() in expected:
            names = lines.nodes.get(number, frozenset())
            # In the pass for the variance and in the last one alike.
            assert names and len(names) == 1
            seen.setdefault(text.strip(), set()).update(names)
    assert seen == expected


POWER = """\
def triton_poi(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp1 = tmp0 * tmp0
    tmp2 = tmp1 * tmp1
    tmp3 = tl.full([1], 0.109375, tl.float32)
    tmp4 = tmp2 * tmp3
    tmp5 = tmp4 + tmp0
    tl.store(out_ptr0 + (x0), tmp5, xmask)
"""


def test_a_power_is_all_of_its_products_and_no_sum() -> None:
    def node(name: str, target: str, *arguments: str) -> FxNode:
        inputs = tuple(each for each in arguments if not each[0].isdigit())
        text = f"{name} = torch.ops.{target}({', '.join(arguments)})"
        return FxNode(name, "call", f"torch.ops.{target}", arguments, inputs, (), None, None, None, 1, text)

    nodes = [
        node("pow_1", "aten.pow.Tensor_Scalar", "x", "4"),
        node("mul", "aten.mul.Tensor", "pow_1", "0.109375"),
        node("add", "aten.add.Tensor", "mul", "x"),
    ]
    statements = triton_statements(POWER, "triton_poi")
    named = {each.name: each for each in nodes}
    lines = _Matching(statements, nodes, named, {"in_ptr0": frozenset("x")}).lines()
    assert {number: lines[number] for number in (3, 4, 6, 7)} == {
        3: {"pow_1"}, 4: {"pow_1"}, 6: {"mul"}, 7: {"add"},
    }  # fmt: skip


def test_a_sum_of_thousands_of_terms_is_read() -> None:
    source = "def k(in_ptr0, xnumel):\n    tmp0 = tl.load(in_ptr0)\n    tmp1 = tmp0" + " + tmp0 * 2.0" * 1200
    (_, made) = triton_statements(source, "k")
    assert made.names == ("tmp0",) and made.kinds == {"add", "mul"} and made.constants == (2.0,) * 1200


@pytest.mark.slow
def test_a_cpp_kernel_is_compiled_with_its_lines(corpus: Path, tmp_path: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "breaks")
    item = next(item for item in kernels(run.root) if item.kernel.name == "cpp_fused_mul_0")
    job = lower_job(item)
    assert job is not None and job.cpp and lower_job(item, "sm_90") is None
    wide = replace(job, source=re.sub(r"\b16(?=L?\))", "64", job.source))
    result = lower_kernels([job, replace(job, source=job.source.replace("tmp3", "tmpx", 1)), wide], tmp_path)
    if "there is no" in result.problems.get(0, ""):
        pytest.skip(result.problems[0])
    assert set(result.keys) == {0} and "tmp3" in result.problems[1]
    # With other vectors than it was written for it would be another kernel.
    assert "for vectors of 2048 bits" in result.problems[2]
    graph = run.graph(item.graph)
    (made,) = lowered_kernels(run, [graph], item.kernel.name, made=tmp_path)
    (stage,), facts = made.stages, made.facts("asm")
    assert facts is not None and made.problems == () and made.fits
    # Written for AVX-512, whatever this machine has.
    assert any("zmm" in line for line in stage.lines)
    origins = [origin for place in stage.places if (origin := made.origin(place)) is not None]
    assert len(origins) == facts.instructions > 20
    assert sum(bool(origin.line) for origin in origins) >= 0.9 * len(origins)
    # The product with 2, which may be a sum, is where its line says.
    row = next(index for index, text in enumerate(stage.lines) if re.search(r"\bv?(?:mul|add)ps\b", text))
    origin = made.origin(stage.places[row])
    assert origin is not None and origin.line is not None and made.kernel.source_span is not None
    text = made.kernel.source.split("\n")[origin.line - made.kernel.source_span.first]
    assert "tmp0 * tmp2" in text
