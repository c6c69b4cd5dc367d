"""What torch leaves outside a debug folder: an Inductor cache, a package of AOTInductor, a folder laid out as
vLLM's (by hand, around artifacts of torch's standalone_compile), a mega-cache; all of torch 2.13 on the CPU.
What was pickled in them is zeros from the 32nd byte on: nothing reads it."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import zlib
from pathlib import Path

import pytest
from damage import damaged
from sharing import unpacked

from inspector.explain import explain
from inspector.gather import summary_of
from inspector.model.literals import NO_LITERAL, literal
from inspector.model.problem import InspectorError
from inspector.present.summary import lines
from inspector.readers.locate import NOT_IN, find_runs, locate
from inspector.readers.run import Run
from inspector.replay.plan import graph_files
from inspector.replay.worker.code.generated import CodeError, GeneratedCode
from inspector.tui.destinations import find_destination

ARCHIVE = Path(__file__).parent / "data" / "extra" / "doors-torch2.13.tar.xz"
KINDS = {
    "cache": "Inductor cache", "model.pt2": "package", "vllm": "vLLM cache", "mega_cache.bin": "mega-cache",
}  # fmt: skip
RANK = "vllm/torch_compile_cache/4b1f0a2c9d/rank_0_0"


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(ARCHIVE, tmp_path_factory.mktemp("doors"))


def contents(run: Run) -> dict[str, tuple[int, int]]:
    return {content.what: (content.count, content.bytes) for content in run.facts().contents}


@pytest.mark.parametrize("name", KINDS)
def test_what_it_is_and_what_cannot_be_known(doors: Path, name: str) -> None:
    run = Run.open(doors / name)
    assert run.kind == KINDS[name]
    text = "\n".join(line.text for line in lines(summary_of(run), 100))
    assert NOT_IN[run.kind] in text
    assert "graph breaks: 0" not in text, "nobody knows"


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_claimed_of_its_speed(doors: Path, name: str) -> None:
    explanation = explain(Run.open(doors / name))
    assert (explanation.findings, explanation.ledger.parts) == ((), ())
    assert explanation.remarks == (NOT_IN[Run.open(doors / name).kind],)


@pytest.mark.parametrize("name", KINDS)
def test_nothing_is_unpickled_or_run(doors: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("unpickled, or run")

    # To import a module is to run it.
    summary_of(Run.open(doors / name))
    for module, function in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(module, function, never)
    for function in ("eval", "exec"):
        monkeypatch.setattr(f"builtins.{function}", never)
    run = Run.open(doors / name)
    assert not summary_of(run).problems[1:]


def test_wrappers_of_a_cache(doors: Path) -> None:
    run = Run.open(doors / "cache")
    graphs = {graph.name: graph.artifacts() for graph in run.graphs}
    assert {name: graph.phase for name, graph in graphs.items()} == {
        "0_backward.ccp6erntfhzo": "backward", "0_forward.cl6v7jfbygfy": "forward",
    }  # fmt: skip
    code = graphs["0_forward.cl6v7jfbygfy"].code
    assert code is not None and [call.kind for call in code.calls] == ["extern", "cpp", "fallback", "cpp"]
    assert code.path == "l6/cl6v7jfbygfyuwzqzdomedjjhlwgxpc7ttigixemblzd3febosl7.py"
    assert all(not graph.missing and not graph.problems for graph in graphs.values())
    assert contents(run)["entries of the FX graph cache, pickled"] == (2, 183974)


def test_a_package(doors: Path) -> None:
    run = Run.open(doors / "model.pt2")
    (graph,) = run.graphs
    code = graph.code()
    assert code is not None
    assert (graph.name, graph.phase, run.devices) == ("model", "inference", ("cpu",))
    assert [call.kernel for call in code.calls] == [
        "aoti_torch_cpu_addmm_out", "cpp_fused__softmax_native_layer_norm_relu_0",
    ]  # fmt: skip
    assert code.calls[0].origin is not None and code.calls[0].origin.source_nodes == ("linear",)
    kernel = next(kernel for kernel in code.kernels if kernel.kind == "cpp")
    assert len(kernel.parameters) == 8 and "at::vec::Vectorized" in kernel.source
    # The library has its size, and nothing of it was unpacked.
    assert contents(run)["compiled libraries"] == (1, 1505904)
    library = next(run.root.rglob("*.so"))
    assert library.read_bytes() == bytes(1505904)


def test_a_package_unpacked_by_hand(doors: Path, tmp_path: Path) -> None:
    shutil.unpack_archive(doors / "model.pt2", tmp_path, "zip")
    assert [graph.name for graph in Run.open(tmp_path).graphs] == ["model"]


def test_an_exported_program_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "archive_format").write_text("pt2")
    shutil.make_archive(str(tmp_path / "exported"), "zip", tmp_path, "model")
    path = (tmp_path / "exported.zip").rename(tmp_path / "exported.pt2")
    with pytest.raises(InspectorError, match="an exported program is not compiled yet"):
        locate(path)


def test_vllm(doors: Path) -> None:
    run = Run.open(doors / RANK)
    assert [graph.name for graph in run.graphs] == ["0_inference.cagoz7cozp57", "1_inference.czwjusvbvexl"]
    assert contents(run)["graphs in vLLM's index"] == (2, 0)
    assert contents(run)["artifacts of vLLM in one file each, pickled"] == (1, 160288)
    assert [graph.name for graph in Run.open(doors / RANK / "backbone").graphs] == [
        "0_inference.cagoz7cozp57"
    ]


def test_what_vllm_compiled_ahead_of_time(doors: Path, tmp_path: Path) -> None:
    """torch_aot_compile/HASH has a pickle for each rank and, where vLLM keeps it there, an Inductor cache."""
    ahead = tmp_path / "torch_compile_cache" / "torch_aot_compile" / "9a5549f2"
    (ahead / "rank_0_0").mkdir(parents=True)
    (ahead / "rank_0_0" / "model").write_bytes(bytes(3000))
    run = Run.open(ahead / "rank_0_0")
    assert (run.kind, run.graphs) == ("vLLM cache", ())
    assert contents(run) == {"functions of vLLM compiled ahead of time, pickled": (1, 3000)}
    assert Run.open(tmp_path).root == ahead
    shutil.copytree(doors / RANK / "inductor_cache", ahead / "inductor_cache")
    (whole,) = find_runs(str(ahead))
    assert whole.kind == "vLLM cache" and len(Run(whole).graphs) == 2


MODELS = {
    "pieces/3145e605c8": "graphs in vLLM's index",
    "ahead/5381cff997": "graphs that vLLM cut into pieces",
    "ahead/torch_aot_compile/a71ea4aec3b4381918bbac623c6cc9f12fb61c81f65a0991cdbd89c165a169b1":
        "functions of vLLM compiled ahead of time, pickled",
}  # fmt: skip
"""Of vLLM 0.33.0 itself (benchmarks/programs/vllm_pieces.py), with and without VLLM_USE_AOT_COMPILE: a model
of two layers around an attention that splits the graph, for lengths of 1 to 2,048 and for 16."""


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return (
        unpacked(ARCHIVE.with_name("vllm-0.33-cpu-torch2.13.tar.xz"), tmp_path_factory.mktemp("vllm"))
        / "vllm"
    )


@pytest.mark.parametrize("model", MODELS)
def test_a_folder_that_vllm_made_opens_as_one(vllm: Path, model: str) -> None:
    run = Run.open(vllm / model)
    assert run.kind == "vLLM cache" and MODELS[model] in contents(run)
    assert len(run.graphs) == (6 if "aot" in model else 5)
    assert [str(problem).partition(": ")[2] for problem in run.facts().problems] == [NOT_IN["vLLM cache"]]
    for rank in (vllm / model).glob("rank_*"):
        assert Run.open(rank).kind == "vLLM cache"


def test_the_pieces_of_a_graph_have_the_users_lines(vllm: Path) -> None:
    run = Run.open(vllm / "pieces")
    assert [graph.ident for graph in run.graphs] == [f"submod_{number}" for number in range(5)]
    assert [graph.fx_nodes for graph in summary_of(run).graphs] == [7, 1, 10, 1, 3]
    first = run.graphs[0].fx("readable")
    assert first is not None and [node.target.rpartition(".")[2] for node in first.operations][:3] == [
        "rms_norm", "linear", "chunk",
    ]  # fmt: skip
    assert str(first.operations[1].source) == "/home/user/vllm_pieces.py:43"
    assert run.graphs[3].fx("transformed") is None and run.graphs[3].artifacts().problems == ()


def test_pieces_of_several_ranks_and_parts_are_told_apart(vllm: Path, tmp_path: Path) -> None:
    source = vllm / "pieces/3145e605c8/rank_0_0/backbone"
    for rank, part in ((0, "backbone"), (1, "backbone"), (1, "draft")):
        shutil.copytree(source, tmp_path / "4f" / f"rank_{rank}_0" / part)
    run = Run.open(tmp_path / "4f")
    assert len(run.graphs) == 15 and {graph.rank for graph in run.graphs} == {0, 1}
    assert run.graphs[5].ident == "rank_1_0/backbone/submod_0"
    assert contents(run)["graphs in vLLM's index"] == (18, 0)
    # Cut short in the second piece, and without any.
    graph = tmp_path / "4f" / "rank_1_0" / "draft" / "computation_graph.py"
    graph.write_text(graph.read_text().partition("silu")[0])
    (tmp_path / "4f" / "rank_1_0" / "backbone" / "computation_graph.py").write_bytes(bytes(range(256)))
    assert len(Run.open(tmp_path / "4f").graphs) == 5 + 3


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "[" * 50 + "]" * 50,
        "{1: 2",
        "1 + 1",
        "--1",
        "lambda: 0",
        "'a' 'b' * 9**9",
        "(" * 100_000,
    ],
)
def test_what_is_no_literal_is_not_read(text: str) -> None:
    assert literal(text) is NO_LITERAL


def test_literals_are_read() -> None:
    text = "{(None, 0, 'inductor'): ('hash', '/a + b/x.py'), ((1, -8), 1, \"it's\"): None}"
    assert literal(text) == {(None, 0, "inductor"): ("hash", "/a + b/x.py"), ((1, -8), 1, "it's"): None}


def test_an_index_of_another_type(doors: Path, tmp_path: Path) -> None:
    rank = tmp_path / "rank_0_0"
    shutil.copytree(doors / RANK / "backbone", rank / "backbone")
    (rank / "backbone" / "vllm_compile_cache.py").write_text("[1, 2]")
    assert "a list, where vLLM writes a dictionary" in str(Run.open(rank).facts().problems[0])
    (rank / "backbone" / "vllm_compile_cache.py").write_text("1 + 1")
    assert "no Python literal" in str(Run.open(rank).facts().problems[0])


def test_kinds_and_sizes_of_a_mega_cache(doors: Path, tmp_path: Path) -> None:
    data = (doors / "mega_cache.bin").read_bytes()
    run = Run.open(doors / "mega_cache.bin")
    assert contents(run) == {
        "inductor entries, pickled": (1, 83712),
        "aot_autograd entries, pickled": (1, 74896),
    }
    assert run.graphs == () and "as text" in (summary_of(run).nothing_compiled or "")
    path = tmp_path / "cache"
    for broken, left, told in (
        (data[:-1], ["inductor entries, pickled"], "cut short"),
        (data[:40], [], "cut short"),
        (data[:30] + b"\xff" * 8 + data[38:], [], "cut short"),
        (b"0" * 4 + data[4:], [*contents(run)], "its checksum does not fit"),
    ):
        path.write_bytes(broken)
        facts = Run.open(path).facts()
        assert [content.what for content in facts.contents] == left
        assert any(told in problem.message for problem in facts.problems)
    old = data[4:]
    path.write_bytes(old)
    assert contents(Run.open(path)) == contents(run), "without a checksum, as torch 2.7 wrote it"
    assert zlib.crc32(old).to_bytes(4, "big") == data[:4]


def test_code_that_is_cpp_alone_is_found_and_nothing_is_asked_of_it(doors: Path, tmp_path: Path) -> None:
    folder = tmp_path / "aoti"
    shutil.copytree(doors / "aoti", folder)
    ran = {"exit_code": 0, "seconds": 1.0, "started": 0.0, "interrupted": False, "gpus": {}}
    manifest = {"schema": "inspector.run/1", "command": ["a"], "status": "done", "baseline": {"eager": ran}}
    (folder / "inspector.json").write_text(json.dumps(manifest))
    run = Run.open(folder)
    explanation = explain(run)
    (finding,) = explanation.findings
    (evidence,) = finding.evidence
    assert (folder / evidence.path).name == "output_code.cpp" and (folder / evidence.path).is_file()
    there = find_destination(run, evidence)
    assert there.graph is run.graphs[0] and there.place == ("code", "code")
    told = "\n".join((finding.advice, *explanation.ledger.missing))
    assert "capture --baseline" not in told and "--measure" not in told
    with pytest.raises(CodeError, match="C\\+\\+ alone"):
        GeneratedCode(folder / evidence.path, tmp_path)


def test_none_of_them_is_replayed(doors: Path) -> None:
    (graph, *_) = Run.open(doors / "cache").graphs
    with pytest.raises(InspectorError, match="an Inductor cache can be read but not replayed"):
        graph_files(graph)


def test_all_of_them_below_one_folder(doors: Path) -> None:
    # A mega-cache has no name of its own; an archive's kind is known once it is unpacked; folders called
    # cache, which every capture has, are not looked into.
    named = {run.shown.removeprefix(f"{doors}/"): run.kind for run in find_runs(str(doors))}
    assert named == {
        "cpp_wrapper": "capture",
        "aoti": "capture",
        "h200/cpp_wrapper": "capture",
        "h200/model.pt2": "capture",
        "model.pt2": "capture",
        RANK.rpartition("/")[0]: "vLLM cache",
    }


@pytest.mark.parametrize("name", ["cache/l6", "empty", "vllm/torch_compile_cache/4b1f0a2c9d/other"])
def test_folders_that_are_none(doors: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "cache.py").write_text("# AOT ID: ['0_inference']")
    with pytest.raises(InspectorError):
        locate(folder)


@pytest.mark.parametrize("seed", range(12))
def test_damaged(doors: Path, tmp_path: Path, seed: int) -> None:
    """Of a damaged file nothing but an InspectorError comes, and what is wrong is a problem."""
    chance = random.Random(seed)
    # A damaged archive seldom opens: its members are damaged, too.
    shutil.unpack_archive(doors / "model.pt2", tmp_path / "members", "zip")
    sources = [doors / name for name in ("cache", "model.pt2", RANK, "mega_cache.bin", "cpp_wrapper", "aoti")]
    for source in (*sources, tmp_path / "members"):
        target = tmp_path / "damaged" / source.name
        target.parent.mkdir(exist_ok=True)
        if source.is_file():
            target.write_bytes(damaged(source.read_bytes(), chance, b"PK\3\4"))
        else:
            shutil.copytree(source, target)
            files = sorted(
                path for path in target.rglob("*") if path.is_file() and "pickled" not in path.parts
            )
            for path in chance.sample(files, 3):
                path.write_bytes(damaged(path.read_bytes(), chance, b"{}"))
        try:
            run = Run.open(target)
        except InspectorError:
            assert source.is_file(), "a folder with three damaged files opens"
            continue
        summary_of(run)
        explain(run)
