"""What compilers say of a C++ kernel's loops."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inspector.analysis.stage_facts import facts_of
from inspector.contract.lower import to_json
from inspector.explain.cpp_loops import LoopNest
from inspector.explain.rules.cpu_not_vectorized import _widened
from inspector.lowered import lowered_kernels
from inspector.model.lowering import NO_LOOPS, Frame
from inspector.present.lower import stage_lines
from inspector.readers.run import Run
from inspector.readers.stages.files import own_file
from inspector.readers.stages.objdump import parse_objdump
from inspector.replay.assembly import OBJDUMP, with_inlined
from inspector.replay.loops import asking, reasons, throughput

# As g++ 12 prints it for grid_sample's kernel, a header's path cut.
PRINTED = """/x/k.cpp:15:66: missed: couldn't vectorize loop
/x/k.cpp:15:66: missed: not vectorized: control flow in loop.
/x/k.cpp:6:13: missed: statement clobbers memory: __builtin_GOMP_barrier ();
/x/vec256.h:9:13: missed: couldn't vectorize loop
/x/vec256.h:9:13: missed: not vectorized: complicated access pattern.
/x/k.cpp:30:9: missed: couldn't vectorize loop
/x/vec256.h:70:13: missed: not vectorized: no vectype for stmt: _5 = *_4;
 scalar_type: c10::Half
/x/k.cpp:15:66: missed: couldn't vectorize loop
/x/k.cpp:15:66: missed: not vectorized: control flow in loop.
"""
LOOP = """
0000000000000000 <kernel>:
/x/k.cpp:9
   0:\tvxorps %xmm0,%xmm0,%xmm0
   4:\tvaddps (%rdi),%ymm0,%ymm0
   8:\tadd    $0x20,%rdi
   c:\tcmp    %rsi,%rdi
   f:\tjne    4 <kernel+0x4>
  11:\tvmovss (%rdi),%xmm0
  15:\tcall   20 <kernel+0x20>
  1a:\tjne    11 <kernel+0x11>
"""


def test_a_reason_is_of_the_loop_that_it_stands_behind() -> None:
    assert reasons(PRINTED, "k.cpp") == [(15, "control flow in loop"), (30, "no vectype")]


def test_gcc_is_asked_that_was_told_not_to_and_clang_as_it_is() -> None:
    command = ["/usr/bin/g++", "-O3", "-Wall", "-fno-tree-loop-vectorize", "-c"]
    assert asking(command) == ["/usr/bin/g++", "-O3", "-c", "-ftree-loop-vectorize", "-fopt-info-vec-missed"]
    assert asking(command[:3]) is None and asking(["icpx", *command[1:]]) is None
    said = asking(["/usr/bin/clang++-14", "-O3", "-c"])
    assert said is not None and said[:3] == ["/usr/bin/clang++-14", "-O3", "-c"] and "-Rpass" in said[3]


def test_clangs_reasons_stand_before_the_loop() -> None:
    """A reason of a loop of a header's is none of the kernel's."""
    printed = """\
k.cpp:3:39: remark: loop not vectorized: control flow cannot be substituted for a select [-Rpass-analysis=loop-vectorize]
/usr/include/cmath:1307:12: remark: loop not vectorized: call instruction cannot be vectorized [-Rpass-analysis=loop-vectorize]
  { return __builtin_erff(__x); }
k.cpp:3:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
vec.h:7:3: remark: loop not vectorized: value that could not be identified as reduction is used outside the loop [-Rpass-analysis=loop-vectorize]
vec.h:6:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
k.cpp:9:3: remark: loop not vectorized: unsafe dependent memory operations in loop. Use #pragma loop distribute(enable) [-Rpass-analysis=loop-vectorize]
k.cpp:9:3: remark: loop not vectorized [-Rpass-missed=loop-vectorize]
"""  # noqa: E501
    assert reasons(printed, "k.cpp") == [
        (3, "call instruction cannot be vectorized"),
        (3, "control flow cannot be substituted for a select"),
        (9, "unsafe dependent memory operations in loop"),
    ]


PARALLEL = """\
static inline float inner(float x) { return x * 3.5f; }
extern "C" void kernel(float* a, long n)
{
    #pragma omp parallel for
    for (long i = 0; i < n; i++)
        a[i] = inner(a[i]);
}
"""


@pytest.mark.skipif(None in map(shutil.which, ("clang++", "llvm-symbolizer")), reason="needs clang")
def test_what_clang_made_of_a_parallel_loop_has_its_lines(tmp_path: Path) -> None:
    """The body is a function of its own, which another one calls for each thread."""
    code, library = tmp_path / "k.cpp", tmp_path / "k.so"
    code.write_text(PARALLEL)
    done = subprocess.run(
        ["clang++", "-O3", "-g", "-fopenmp", "-fPIC", "-shared", str(code), "-o", str(library)],
        capture_output=True,
    )
    if done.returncode:
        pytest.skip("needs clang's OpenMP")
    printed = subprocess.run([*OBJDUMP, str(library)], capture_output=True, text=True).stdout
    stage = parse_objdump("asm", with_inlined(printed, library), "k.asm")
    facts = facts_of(stage)
    assert facts.innermost and any(loop.bits and loop.bits > 0 for loop in facts.innermost)
    rows = [row for row, text in enumerate(stage.lines) if re.search(r"\tv?mulps", text)]
    assert rows and all([frame.line for frame in stage.places[row] or ()] == [1, 6] for row in rows)
    assert not any(
        "plt" in text and "jmp" in text
        for text, place in zip(stage.lines, stage.places, strict=True)
        if place
    )


def test_functions_of_a_kernel_are_the_compilers_own_names_for_it() -> None:
    text = "\n".join(
        f"0000 <{name}>:\n/a/k.cpp:{row}\ninlined by /a/k.cpp:9 (.omp_outlined.)\n  {row:x}:\tret\n"
        for row, name in enumerate(
            ("kernel", "kernel._omp_fn.0", ".omp_outlined.", ".omp_outlined..1", "kernel.omp_outlined",
             "kernel@plt", "_ZN3c105ErrorE"), 1,
        )
    )  # fmt: skip
    stage = parse_objdump("asm", text, "k.asm")
    known = [place for place in stage.places if place is not None]
    assert known == [(Frame("/a/k.cpp", row),) for row in (1, 2, 3, 4, 5)] and stage.problems == ()


@pytest.mark.skipif(shutil.which("llvm-mca") is None, reason="needs llvm-mca")
def test_a_sum_waits_for_itself() -> None:
    """One addition after the other, 3 to 5 cycles on all x86 processors; what calls has no estimate."""
    said = throughput(LOOP, "k")
    ((first, last, cycles, busiest),) = said["loops"]
    assert (first, last) == (5, 8) and 2 <= cycles <= 5 and busiest <= 2


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_gcc_says_why_a_search_is_scalar(tmp_path: Path) -> None:
    """Nobody knows beforehand how often it goes round."""
    code = tmp_path / "search.cpp"
    code.write_text(
        "void kernel(float* a, const float* b)\n{\n"
        "    for (long i = 0; b[i] != 3.0f; i++)\n        a[i] = b[i] / 3;\n}\n"
    )
    command = asking(["g++", "-O3", NO_LOOPS, "-c", str(code), "-o", str(tmp_path / "search.o")])
    assert command is not None
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and {line for line, _ in reasons(done.stderr, code.name)} <= {3, 4}
    assert reasons(done.stderr, code.name)


def test_reasons_and_rounds_are_told_of_the_lines_of_the_generated_code(corpus: Path, tmp_path: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "breaks")
    items = lowered_kernels(run, run.graphs)
    kernel = next(item.kernel for item in items if item.kernel.name == "cpp_fused_mul_0")
    assert kernel.source_span is not None
    folder = tmp_path / "key"
    folder.mkdir()
    file = own_file(kernel)
    (folder / "k.asm").write_text(LOOP.replace("k.cpp", file))
    facts = {
        "name": "kernel",
        "target": {"backend": "cpu", "arch": "avx2"},
        "source": file,
        "unvectorised": [[4, "control flow in loop"], [4, "no vectype"], [4], ["4", "x"], [10**6, "beyond"]],
        "throughput": {"model": "znver3", "loops": [[5, 8, 4.04, 1], [5, 8, "4"], [5, None, 1, 1]]},
    }
    (folder / "k.json").write_text(json.dumps(facts))
    made = lowered_kernels(run, run.graphs, "cpp_fused_mul_0", made=tmp_path)[0]
    text = " ".join(
        " ".join(span.text for each in stage_lines(made, None, 200) for span in each.spans).split()
    )
    row = kernel.source_span.first + 2
    assert f"the loop at line {row} of output_code.py itself, says: control flow in loop; no vectype" in text
    assert made.folder is not None and made.folder.unvectorised is not None
    by_clang = tuple(each._replace(compiler="clang++") for each in made.folder.unvectorised)
    other = replace(made, folder=replace(made.folder, unvectorised=by_clang))
    words = " ".join(" ".join(span.text for span in each.spans) for each in stage_lines(other, None, 200))
    assert f"did not vectorise the loop at line {row} of output_code.py itself: control flow in loop" in words
    assert "estimated at 4.0 cycles (llvm-mca for znver3, all data in the first cache), 1.0 if no" in text
    # Of a loop that the run's compiler made vectors of nobody says that it has none.
    stage, loops = made.stage("asm"), made.facts("asm")
    assert stage is not None and loops is not None and loops.loops[0].bits == 256
    span = made.span(stage, loops.loops[0])
    assert span is not None and made.folder is not None
    nest = LoopNest(span.first - kernel.source_span.first + 1, 8, False, 0, 1, False, "", "for (;;)\n    a;")
    ran: Any = replace(made, folder=replace(made.folder, made=False))
    launch: Any = SimpleNamespace(kernel=kernel, call=SimpleNamespace(index=0))
    graph: Any = SimpleNamespace(name="g")
    for item, line, widened in ((ran, 0, True), (made, 0, False), (ran, 2, False), (ran, -2, False)):
        case: Any = SimpleNamespace(lowered=lambda *_, item=item: item)
        assert _widened(case, graph, launch, replace(nest, line=nest.line + line)) is widened
    (told,) = to_json([made])["kernels"]
    assert [each["code_line"] for each in told["unvectorised"]] == [row, row]
    assert told["throughput_model"] == "znver3" and not made.unasked
    assert [loop["throughput"] for loop in told["loops"]] == [{"cycles": 4.04, "busiest": 1.0}, None]
