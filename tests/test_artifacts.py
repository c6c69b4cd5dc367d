"""The table of artifacts: every row names a parser that gives what the row says, and problems are values."""

from __future__ import annotations

import shutil
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from sharing import unpacked

from inspector.gather import summary_of
from inspector.model.problem import Problem
from inspector.model.run import GRAPH_FILES, PROVENANCE_FILE, GraphArtifacts
from inspector.present.summary import lines
from inspector.readers.artifacts import GRAPH_TABLE, LOGS, RUN_TABLE, Artifact, GraphFile
from inspector.readers.run import Run
from inspector.readers.trace_file import TraceFile

SAMPLE = Path(__file__).parent.parent / "sample_runs" / "softmax" / "run.tar.xz"


@pytest.mark.parametrize("row", [*GRAPH_TABLE, *RUN_TABLE], ids=lambda row: row.parser)
def test_a_parser_yields_what_its_row_says(row: Artifact[Any]) -> None:
    module, _, function = row.parser.partition(":")
    parser = getattr(import_module(f"inspector.readers.{module}"), function)
    yields = get_type_hints(parser)["return"]
    assert row.yields in (yields, *get_args(yields), *get_args((get_args(yields) or (None,))[0]))
    value, problems = row.read(lambda: ("", ()), "nothing.txt")
    assert value is None or isinstance(value, row.yields)
    assert all(isinstance(problem, Problem) for problem in problems)


def test_the_rows_of_a_graph_fill_its_artifacts() -> None:
    assert [row.file for row in GRAPH_TABLE[: len(GRAPH_FILES)]] == list(GRAPH_FILES)
    assert {row.part for row in GRAPH_TABLE} - {""} <= set(GraphArtifacts.__dataclass_fields__)


def test_a_new_file_of_a_graph_is_a_row_and_a_parser(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import inspector.readers.provenance as module

    def parse_shout(text: str, path: str) -> tuple[str, tuple[Problem, ...]]:
        return text.upper(), (Problem(path, 1, "too loud"),)

    monkeypatch.setattr(module, "parse_shout", parse_shout, raising=False)
    row: GraphFile[Any] = GraphFile("provenance:parse_shout", str, "output_code.py")
    graph = Run.open(corpus / "cpu-torch2.13" / "softmax").graphs[0]
    value, problems = graph.read(row)
    assert value == (graph.text("output_code.py") or "").upper()
    assert [problem.message for problem in problems] == ["too loud"]
    assert graph.read(GraphFile("provenance:parse_shout", str, "not_there.py")) == (None, ())


def test_problems_do_not_depend_on_what_was_read_before(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", path)
    (folder,) = (script.parent for script in path.rglob("fx_graph_runnable.py"))
    for name in ("fx_graph_runnable.py", "ir_pre_fusion.txt"):
        (folder / name).write_text(" \n")
    (path / "torch_logs.txt").write_text("not torch's\n")
    first, second = Run.open(path), Run.open(path)
    second.graphs[0].runnable()
    assert second.graphs[0].code() is not None and second.logs and second.facts()
    assert first.graphs[0].artifacts().problems == second.graphs[0].artifacts().problems
    told = [(Path(p.path).name, p.message) for p in first.graphs[0].artifacts().problems]
    assert ("fx_graph_runnable.py", "empty file; the compilation may have been cut off") in told
    assert ("ir_pre_fusion.txt", "is empty: no scheduler node") in told
    assert first.facts().problems == second.facts().problems
    (log,), problems = first.read(LOGS)
    assert problems == log.problems and problems[0] in first.facts().problems


def test_a_graph_that_returns_a_view_has_empty_ir_and_nothing_was_cut_off(
    corpus: Path, tmp_path: Path
) -> None:
    """As torch 2.13 wrote it of `constant.expand(700)` in gpytorch's mean."""
    (source,) = (
        script.parent for script in (corpus / "cpu-torch2.13" / "softmax").rglob("ir_pre_fusion.txt")
    )
    folder = tmp_path / "model__0_inference_0.0"
    shutil.copytree(source, folder)
    code = (folder / "output_code.py").read_text()
    for name in ("ir_pre_fusion.txt", "ir_post_fusion.txt"):
        (folder / name).write_text("")
    assert len(Run.open(folder).graphs[0].artifacts().problems) == 4, "here are kernels"
    head, call, rest = code.partition("    def call(self, args):\n")
    view = "        arg0_1, = args\n        return (reinterpret_tensor(arg0_1, (700, ), (0, ), 0), )\n"
    assert call and "\nrunner = " in rest
    (folder / "output_code.py").write_text(
        head + call + view + "\nrunner = " + rest.partition("\nrunner = ")[2]
    )
    (graph,) = Run.open(folder).graphs
    assert graph.artifacts().code is not None and graph.artifacts().problems == ()


def test_what_is_wrong_with_many_graphs_is_one_line(corpus: Path) -> None:
    summary = summary_of(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    wrong = [Problem(f"model__{number}_forward_1.{number}", None, "an empty folder") for number in range(3)]
    text = [
        item.text for item in lines(replace(summary, problems=(*wrong, Problem("x", 3, "no FX node"))), 100)
    ]
    assert text[-3:] == [
        "problems: 4",
        "  model__0_forward_1.0 and 2 others: an empty folder",
        "  x:3: no FX node",
    ]


def test_each_source_of_a_run_tells_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    unpacked(SAMPLE, path)
    (path,) = (manifest.parent for manifest in path.rglob("inspector.json"))
    (record,), (trace,) = path.glob("record/*.jsonl"), path.glob("trace/*.log")
    record.write_bytes(record.read_bytes() + b'{"kind": "\xff"}\n')
    trace.write_bytes(trace.read_bytes() + b"V1121 05:02:31.274000 1 torch/x.py:9] {broken\n")
    (path / "inspector.json").write_text("[]")
    run = Run.open(path)
    told = {problem.path: problem.message for problem in run.facts().problems}
    assert told["inspector.json"] == "not a JSON object"
    assert told[f"record/{record.name}"].startswith("not UTF-8")
    assert told[f"trace/{trace.name}"].startswith("the envelope is not JSON")
    assert run.records[0].problems, "the record's own view shows it too"


def test_a_trace_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (problem,) = TraceFile(tmp_path / "gone.log", "gone.log").problems
    assert str(problem) == "gone.log: cannot be read: No such file or directory"


def test_what_the_folder_lacks_of_provenance_the_trace_has(corpus: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", path)
    whole = Run.open(path).graphs[0].provenance()
    for file in path.rglob(PROVENANCE_FILE):
        file.unlink()
    (graph,) = Run.open(path).graphs
    assert whole is not None and PROVENANCE_FILE in graph.missing
    traced = graph.provenance()
    assert traced is not None and traced.kernel_to_post == whole.kernel_to_post
