"""Captures by versions of torch that the other tests' corpus lacks: read whole and told alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from sharing import unpacked

from inspector.analysis.linkage import link_graph
from inspector.cli import cli
from inspector.gates.judge import judge
from inspector.gates.write import budget_of
from inspector.readers.run import Run

ARCHIVE = Path(__file__).parent / "data" / "newer-versions.tar.xz"


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(ARCHIVE, tmp_path_factory.mktemp("newer")) / "newer"


@pytest.mark.parametrize("version", ["2.12.0", "2.14.1"])
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
