"""`summary`: the contract's counts over real runs, each counted a second way, and every kind of path."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from words import text

from inspector.analysis.summary import KERNEL_KINDS, summarise
from inspector.cli import cli
from inspector.contract.summary import to_json
from inspector.present.summary import lines as words_of
from inspector.readers.run import Run

SIX = {
    "fx_graph_readable.py",
    "fx_graph_transformed.py",
    "fx_graph_runnable.py",
    "ir_pre_fusion.txt",
    "ir_post_fusion.txt",
    "output_code.py",
}


def summary_of(path: Path) -> dict[str, Any]:
    result = CliRunner().invoke(cli, ["summary", str(path), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.output)


def entries(path: Path) -> int:
    """Top-level entries: blocks between two empty lines."""
    return len([block for block in path.read_text().split("\n\n\n") if block.strip()])


def assignments(path: Path) -> int:
    """Assignments in `forward` that are no deletion."""
    body = path.read_text().split("def forward", 1)[1]
    return len(re.findall(r"^ {8}\w+(?:: \"[^\"]*\")? = (?!None)", body, re.M))


def definitions(code: str) -> dict[str, int]:
    """Kernels by kind, counted with patterns of their own."""
    counts = dict.fromkeys(KERNEL_KINDS, 0)
    for source in re.findall(r"= async_compile\.triton\([^\n]*\n(.*?)\n'''", code, re.S):
        kind = re.search(r"@triton_heuristics\.(\w+)", source)
        assert kind is not None
        counts[{"template": "template", "user_autotune": "user"}.get(kind[1], "triton")] += 1
    counts["cpp"] = len(re.findall(r"^\w+ = async_compile\.cpp", code, re.M))
    body = wrapper(code)
    counts["extern"] = len(set(re.findall(r"\bextern_kernels\.\w+(?=\()", body)))
    counts["fallback"] = len(set(re.findall(r"(?:= |^ +)((?:torch\.ops\.|aten\.)[\w.]+)\(", body, re.M)))
    return counts


def wrapper(code: str) -> str:
    """The wrapper without kernel sources and without comments."""
    code = re.sub(r"r?'''.*?'''", "", code, flags=re.S)
    body = code[code.index("def partition_0") if "def partition_0" in code else code.index("def call(") :]
    return re.sub(r"^ *#.*\n", "", body, flags=re.M)


def launches(code: str) -> int:
    body = wrapper(code)
    triton_and_cpp = len(re.findall(r"^ +\w+\.run\(|^ +cpp_fused\w*\(", body, re.M))
    outside = len(re.findall(r"(?:= |^ +)(?:extern_kernels|torch\.ops|aten)\.[\w.]+\(", body, re.M))
    return triton_and_cpp + outside


def test_counts_are_right_on_every_run_of_the_corpus(corpus_runs: list[Path]) -> None:
    assert len(corpus_runs) == 19
    for root in corpus_runs:
        summary = summary_of(root)
        folders = {path.parent.name: path.parent for path in root.rglob("output_code.py")}
        assert [graph["name"] for graph in summary["graphs"]] == sorted(
            folders, key=lambda n: int(n.split(".")[-1])
        )
        for graph in summary["graphs"]:
            folder = folders[graph["name"]]
            code = (folder / "output_code.py").read_text()
            expected = (
                assignments(folder / "fx_graph_transformed.py"),
                entries(folder / "ir_pre_fusion.txt"),
                entries(folder / "ir_post_fusion.txt"),
                definitions(code),
                launches(code),
            )
            actual = (
                graph["fx_nodes"],
                graph["scheduler_nodes_pre"],
                graph["scheduler_nodes_post"],
                graph["kernels"],
                graph["kernel_calls"],
            )
            assert actual == expected, folder
            assert set(graph["artifacts"]) >= SIX
            # torch 2.13 left the provenance of one backward graph of this corpus unwritten.
            assert set(graph["missing"]) <= {"inductor_provenance_tracking_node_mappings.json"}
            assert not set(graph["missing"]) & set(graph["artifacts"])
            assert graph["phase"] in graph["name"]
            assert re.fullmatch(r"\d+/\d+", graph["compile_id"])


def test_breaks_recompiles_versions_and_devices(corpus: Path) -> None:
    breaks = summary_of(corpus / "cpu-torch2.13" / "breaks")
    log = (corpus / "cpu-torch2.13" / "breaks" / "torch_logs.txt").read_text()
    assert breaks["graph_breaks"] == len(re.findall(r"Graph break (?:in user code|\(user stack)", log)) > 0
    assert breaks["recompiles"] == len(re.findall(r"Recompiling function", log)) > 0
    assert breaks["run"]["torch_version"] == "2.13.0+cpu"
    assert breaks["run"]["devices"] == ["cpu"]
    gpu = summary_of(corpus / "h200-torch2.11" / "softmax")
    assert gpu["run"]["devices"] == ["NVIDIA H200"]
    assert gpu["run"]["ranks"] == 1


def test_a_bare_debug_folder_has_its_graph_breaks_and_says_what_is_unknown(corpus: Path) -> None:
    root = corpus / "cpu-torch2.13" / "breaks"
    bare = summary_of(root / "torch_compile_debug")
    assert bare["graph_breaks"] == summary_of(root)["graph_breaks"]
    assert "recompiles are not known" in bare["problems"][0]["message"]


def test_the_contract_is_kept_for_every_kind_of_path(corpus: Path, tmp_path: Path) -> None:
    root = corpus / "cpu-torch2.13" / "softmax"
    process = next(root.glob("torch_compile_debug/run_*"))
    with tarfile.open(tmp_path / "run.tar.xz", "w:xz") as tar:
        tar.add(root, "softmax")
    paths = [
        root,
        root / "torch_compile_debug",
        process,
        next(process.glob("torchinductor/model__*")),
        root / "trace",
        next((root / "trace").glob("*.log")),
        tmp_path / "run.tar.xz",
    ]
    for path in paths:
        summary = summary_of(path)
        assert summary["schema"] == "inspector.summary/1"
        assert set(summary) >= {"run", "graphs", "graph_breaks", "recompiles", "problems"}
        assert set(summary["run"]) >= {"root", "torch_version", "devices", "ranks"}
        (graph,) = summary["graphs"]
        assert set(graph["kernels"]) == set(KERNEL_KINDS)
        assert (graph["phase"], graph["fx_nodes"], graph["kernel_calls"]) == ("inference", 6, 2), path
        assert summary["run"]["torch_version"] == "2.13.0+cpu", path


def test_a_trace_tells_what_its_folder_tells(corpus: Path) -> None:
    """Fields that the trace has must agree with the folders of the same run."""
    for root in (corpus / "cpu-torch2.13" / "breaks", corpus / "h200-torch2.11" / "resnet50"):
        folders, trace = summary_of(root), summary_of(root / "trace")
        keys = ("phase", "fx_nodes", "kernels", "kernel_calls", "compile_id")
        assert [[graph[key] for key in keys] for graph in trace["graphs"]] == [
            [graph[key] for key in keys] for graph in folders["graphs"]
        ]
        assert (trace["graph_breaks"], trace["recompiles"]) == (
            folders["graph_breaks"],
            folders["recompiles"],
        )
        assert all("ir_post_fusion.txt" in graph["missing"] for graph in trace["graphs"])


def test_a_cache_hit_says_so_and_what_to_do(corpus: Path) -> None:
    root = corpus / "cpu-torch2.13" / "cache_hit"
    summary = summary_of(root)
    assert summary["graphs"] == []
    assert "1 graph came from the cache" in summary["nothing_compiled"]
    assert "fresh caches" in summary["nothing_compiled"]
    opened = summary_of(root / "trace")
    assert opened["graphs"][0]["kernel_calls"] == 2, "the trace of a cache hit has the code"


def test_missing_empty_and_truncated_files_never_stop_the_rest(corpus: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(corpus / "cpu-torch2.13" / "mlp", root)
    graphs = sorted(root.glob("torch_compile_debug/run_*/torchinductor/model__*"))
    (graphs[0] / "ir_pre_fusion.txt").unlink()
    (graphs[0] / "output_code.py").write_text("")
    whole = (graphs[1] / "ir_post_fusion.txt").read_text()
    (graphs[1] / "ir_post_fusion.txt").write_text(whole[: len(whole) // 2])
    (graphs[2] / "fx_graph_transformed.py").write_bytes(b"\xff\xfe\x00garbage")
    provenance = graphs[2] / "inductor_provenance_tracking_node_mappings.json"
    provenance.write_text(provenance.read_text()[:100])
    summary = summary_of(root)
    broken = {graph["name"]: graph for graph in summary["graphs"]}
    assert "ir_pre_fusion.txt" in broken[graphs[0].name]["missing"]
    assert broken[graphs[0].name]["scheduler_nodes_pre"] is None
    assert broken[graphs[0].name]["scheduler_nodes_post"] > 0
    assert 0 < broken[graphs[1].name]["scheduler_nodes_post"] <= entries(graphs[1] / "ir_post_fusion.txt")
    paths = " ".join(problem["path"] for problem in summary["problems"])
    for name in ("output_code.py", "ir_post_fusion.txt", "fx_graph_transformed.py", "node_mappings.json"):
        assert name in paths


def test_two_processes_with_graphs_of_the_same_name_are_told_apart(corpus: Path, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", root)
    process = next(root.glob("torch_compile_debug/run_*"))
    shutil.copytree(process, process.with_name(process.name.replace("pid_", "pid_9")))
    summary = summary_of(root)
    assert len({graph["id"] for graph in summary["graphs"]}) == 2
    assert len({graph["name"] for graph in summary["graphs"]}) == 1


def test_text_fits_the_width_and_names_what_matters(corpus: Path) -> None:
    run = Run.open(corpus / "h200-torch2.11" / "breaks")
    shown = text(words_of(summarise(run.facts(), [graph.artifacts() for graph in run.graphs]), 80))
    table = shown.split("graph breaks:")[0].splitlines()[2:]
    assert all(len(line) <= 80 for line in table)
    assert "NVIDIA H200" in shown
    assert "workload.py:8" in shown
    assert "1 extern" in shown


@pytest.mark.parametrize("graph", ["nothing", "model__"])
def test_unknown_and_ambiguous_graph_names_list_the_choices(corpus: Path, graph: str) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "mlp")
    with pytest.raises(Exception, match=r"model__0_forward_1\.0"):
        run.graph(graph)
    assert run.graph("model__0_f").name == "model__0_forward_1.0"


def test_json_is_json_even_for_odd_names(corpus: Path, tmp_path: Path) -> None:
    root = tmp_path / 'a "quoted" näme'
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", root)
    run = Run.open(root)
    data = to_json(summarise(run.facts(), [graph.artifacts() for graph in run.graphs]))
    assert json.loads(json.dumps(data))["run"]["root"] == str(root)
