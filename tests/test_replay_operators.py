"""Graphs that call what torch does not have: what registers it is loaded, or the call alone is left out."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from inspector.replay.worker.code.fx import FxProgram  # noqa: E402
from inspector.replay.worker.code.generated import GeneratedCode  # noqa: E402
from inspector.replay.worker.code.operators import function_named  # noqa: E402
from inspector.replay.worker.events import NotRunnable  # noqa: E402
from inspector.replay.worker.inputs.arguments import Fill, Inputs, TensorSpec  # noqa: E402
from inspector.replay.worker.reference.evaluate import record, undefined_reason  # noqa: E402

RUNNABLE = """
import torch
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body_0 = <lambda>()

    def forward(self, a):
        body_0 = self.body_0
        relu = torch.ops.aten.relu.default(a)
        called = torch.ops.inspector_test.OPERATOR.default(relu)
        split = torch.ops.inspector_test.nowhere.default(relu)
        getitem = split[0]
        add = torch.ops.aten.add.Tensor(called, getitem)
        cond = torch_nn_functional_softplus(add)
        twice = torch.ops.aten.mul.Tensor(relu, 2)
        return (cond, twice)
"""
PRINTED = """
class <lambda>(torch.nn.Module):
    def forward(self, a: "f32[4, 3]"):
        # File: SOURCE:7 in model, code: x = inspector_test.twice(x)
        body_0 = self.body_0
        called: "f32[4, 3]" = torch.ops.inspector_test.OPERATOR.default(relu)
        split = torch.ops.inspector_test.nowhere.default(relu)
        getitem: "f32[4, 3]" = split[0]

    class body_0(torch.nn.Module):
        def forward(self, x: "f32[4, 3]"):
            return x + 1
"""
LIBRARY = """
import torch
from torch.library import Library
library = Library("inspector_test", "FRAGMENT")
library.define("OPERATOR(Tensor x) -> Tensor")
@torch.library.impl(library, "OPERATOR", "CompositeExplicitAutograd")
def twice(x):
    return x * 2
raise SystemExit("a program that is only looked through was run")
"""


def program_in(folder: Path, operator: str) -> FxProgram:
    source = folder / "train.py"
    for name, text in {
        "fx_graph_runnable.py": RUNNABLE,
        "fx_graph_readable.py": PRINTED,
        "train.py": LIBRARY,
    }.items():
        text = text.replace("OPERATOR", operator).replace("SOURCE", str(source))
        (folder / name).write_text(textwrap.dedent(text))
    return FxProgram(folder / "fx_graph_runnable.py", "graph")


@pytest.mark.parametrize("above", [None, 0, 1])
def test_what_registers_an_operator_is_loaded_and_the_rest_of_it_is_not_run(
    tmp_path: Path, above: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it lies below what Python imports from: it is a program all the same."""
    if above is not None:
        monkeypatch.syspath_prepend((tmp_path, tmp_path.parent)[above])
    operator = f"twice_{above}"
    program = program_in(tmp_path, operator)
    assert f"inspector_test::{operator} is registered by train.py" in program.problems
    assert set(program.absent) == {"split", "cond"}
    assert isinstance(program.module.body_0, torch.nn.Module)
    assert torch.equal(program.module.body_0(torch.zeros(2)), torch.ones(2))


def test_an_operator_that_is_nowhere_costs_what_depends_on_it(tmp_path: Path) -> None:
    program = program_in(tmp_path, "thrice")
    inputs = Inputs([TensorSpec((4, 3), (3, 1), torch.float32, "cpu", 0)], 0)
    inputs.fill([Fill()])
    (first, twice), _, recording = record(program, inputs)
    again = record(program, inputs)[0][0]
    assert isinstance(first, torch.Tensor) and first.shape == (4, 3) and torch.equal(first, again)
    assert undefined_reason(program, recording, "twice") is None and isinstance(twice, torch.Tensor)
    reason = undefined_reason(program, recording, "cond") or ""
    assert "torch.ops.inspector_test.nowhere.default is registered by what is not here" in reason


def test_functions_are_found_by_the_names_that_a_printed_graph_has() -> None:
    from torch._inductor.utils import ceildiv

    assert function_named("torch__inductor_utils_ceildiv") is ceildiv
    assert function_named("torch__inductor_utils_ceildiv_1") is ceildiv
    assert function_named("torch__inductor_no_such_thing") is None and function_named("len") is None


def test_a_kernel_that_does_not_compile_costs_its_own_launch(tmp_path: Path) -> None:
    code = """
        class Compiler:
            def cpp(self, text):
                if "bad" in text:
                    raise RuntimeError("C++ compile error: k.cpp:1: error: bad is not declared")
                return text

            def wait(self, space):
                pass

        async_compile = Compiler()
        first = async_compile.cpp("bad")
        second = async_compile.cpp("good")
        async_compile.wait(globals())

        def call(args):
            return (second, first.run() if args else None)
        """
    path = tmp_path / "code.py"
    path.write_text(textwrap.dedent(code))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    generated = GeneratedCode(path, scratch)
    assert generated.call([]) == ["good", None]
    with pytest.raises(NotRunnable, match=r"does not compile: .*bad is not declared"):
        generated.call([1])


EMPTY = """
import torch
class Repro(torch.nn.Module):
    def forward(self, a):
        empty = torch.ops.aten.empty.memory_format([4, 3], dtype = torch.float32)
        like = torch.ops.aten.full_like.default(empty, 2.0)
        shaped = torch.ops.aten.add.Tensor(like, a)
        read = torch.ops.aten.empty.memory_format([4, 3], dtype = torch.float32)
        sum_1 = torch.ops.aten.add.Tensor(read, a)
        return (shaped, sum_1)
"""


def test_memory_of_which_only_the_shape_counts_leaves_nothing_undefined(tmp_path: Path) -> None:
    path = tmp_path / "fx_graph_runnable.py"
    path.write_text(EMPTY)
    program = FxProgram(path, "graph")
    inputs = Inputs([TensorSpec((4, 3), (3, 1), torch.float32, "cpu", 0)], 0)
    inputs.fill([Fill()])
    recording = record(program, inputs)[2]
    assert set(recording.undefined) == {"read"}
    assert undefined_reason(program, recording, "shaped") is None
    assert "uninitialised" in (undefined_reason(program, recording, "sum_1") or "")
