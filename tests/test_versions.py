"""Captures by versions of torch that the other tests' corpus lacks: read whole and told alike."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sharing import unpacked

from inspector.analysis.linkage import link_graph
from inspector.cli import cli
from inspector.explain.cpp_loops import loop_nests
from inspector.gates.judge import judge
from inspector.gates.write import budget_of
from inspector.readers.run import Run

ARCHIVE = Path(__file__).parent / "data" / "newer-versions.tar.xz"


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(ARCHIVE, tmp_path_factory.mktemp("newer")) / "newer"


@pytest.mark.parametrize("version", ["2.10.0", "2.12.0", "2.14.1"])
def test_a_capture_is_read_whole(newer: Path, corpus: Path, version: str) -> None:
    said = {}
    for command in ("summary", "fusions", "trace", "explain"):
        result = CliRunner().invoke(cli, [command, str(newer / version), "--json"], catch_exceptions=False)
        said[command] = json.loads(result.stdout)
        assert not said[command].get("problems"), command
    summary = said["summary"]
    assert summary["run"]["torch_version"].startswith(version), summary["run"]
    assert (summary["graph_breaks"], summary["recompiles"], len(summary["graphs"])) == (0, 0, 1)
    run, other = Run.open(newer / version), Run.open(corpus / "cpu-torch2.13" / "softmax")
    (graph,) = run.graphs
    links = link_graph(graph.artifacts())
    assert len(links.calls) == 2 and all(link.entries and link.fx for link in links.calls), links
    assert not judge(run, budget_of(other)).breaches and not judge(other, budget_of(run)).breaches


MACHINES = {
    "aarch64": {
        r"Linux-[\w.-]*x86_64": "Linux-6.8-aarch64",
        r"(?<=x1\+=static_cast<int64_t>\()16L|(?<=static_cast<int64_t>\()16(?=\))": "4",
    },
    "macOS": {
        r'"platform": "[^"]*': '"platform": "macOS-15.5-arm64-arm-64bit',
        r'(?<=")/tmp/dir\d': "/private/var/folders/zz/x1 y/T/of ada",
        r"(?<=\b\d)L\b|(?<=\d\d)L\b": "LL",
    },
}
"""What differs in files of other machines, by torch's source: lanes of NEON (torch/_inductor/cpu_vec_isa.py:
VecNEON), integers of a Mac (torch/utils/_sympy/printers.py: CppPrinter), its folders for temporary files."""


OTHER = ("run", "state", "next", "traces")
"""Which run it is, with its paths and its machine, and how long the texts are."""


@pytest.mark.parametrize("machine", MACHINES)
def test_a_handmade_run_of_another_machine_is_told_alike(newer: Path, tmp_path: Path, machine: str) -> None:
    """Made by hand of an x86's run: none of an ARM or a Mac is at hand."""
    shutil.copytree(newer / "2.14.1", tmp_path / "run")
    changed = dict.fromkeys(MACHINES[machine], 0)
    for path in filter(Path.is_file, (tmp_path / "run").rglob("*")):
        text = path.read_text()
        for pattern, other in MACHINES[machine].items():
            text, times = re.subn(pattern, other, text)
            changed[pattern] += times
        path.write_text(text)
    assert all(changed.values()), changed
    told: list[dict[str, Any]] = [{}, {}]
    for said, folder in zip(told, (newer / "2.14.1", tmp_path / "run"), strict=True):
        for command in ("summary", "fusions", "trace", "explain"):
            result = CliRunner().invoke(cli, [command, str(folder), "--json"], catch_exceptions=False)
            text = result.stdout.replace(str(folder), "RUN")
            text = re.sub(r"/private/[^\"]*/of ada|/tmp/dir1", "FOLDER", text)
            said[command] = {key: value for key, value in json.loads(text).items() if key not in OTHER}
        (graph,) = Run.open(folder).graphs
        code = graph.artifacts().code
        assert code is not None and not code.problems
        (kernel,) = (kernel for kernel in code.kernels if kernel.kind == "cpp")
        said["loops"] = [(nest.points, nest.vectorised) for nest in loop_nests(kernel.source)]
        said["links"] = [(len(link.entries), link.fx) for link in link_graph(graph.artifacts()).calls]
    for what in told[0]:
        assert told[0][what] == told[1][what], what
