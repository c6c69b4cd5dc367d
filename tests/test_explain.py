"""Explaining captured runs: the right finding, a ledger that adds up, text and JSON as the contract says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from explaining import explained
from words import texts

from inspector.cli import cli
from inspector.contract.explain import to_json
from inspector.explain import rules
from inspector.explain.rules import RULES
from inspector.model.problem import InspectorError
from inspector.present.explain import lines as words_of

RULES_PAGE = Path(__file__).parent.parent / "docs" / "rules.md"


def test_every_rule_has_a_name_of_its_own_and_its_page() -> None:
    names = [rule.name for rule in RULES] + ["healthy", "nothing_found"]
    assert len(names) == len(set(names))
    modules = {path.stem for path in Path(rules.__file__).parent.glob("*.py")} - {"__init__"}
    assert len(names) == len(modules) + 1, "a module without a row is never asked"
    headings = re.findall(r"^### (.+)$", RULES_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    explained_there = [name for heading in headings for name in heading.split(", ")]
    assert sorted(explained_there) == sorted(names)


@pytest.mark.parametrize(
    ("run", "rule", "severity"),
    [
        ("cpu-torch2.4.1/softmax", "host_bound", "medium"),
        ("cpu-torch2.6.0/softmax", "host_bound", "medium"),
        ("cpu-torch2.13/softmax", "host_bound", "medium"),
        ("cpu-torch2.15.0/softmax", "host_bound", "medium"),
        ("h200-torch2.11/softmax", "host_bound", "medium"),
        ("h200-torch2.11/cudagraphs", "host_bound", "medium"),
        ("cpu-torch2.13/breaks", "graph_breaks", "high"),
        ("h200-torch2.11/breaks", "graph_breaks", "high"),
        ("cpu-torch2.13/addrelumul", "nothing_found", "low"),
        ("h200-torch2.11/addrelumul", "nothing_found", "low"),
        ("cpu-torch2.13/norms", "nothing_found", "low"),
        ("h200-torch2.11/norms", "nothing_found", "low"),
        ("h200-torch2.11/resnet50", "nothing_found", "low"),
    ],
)
def test_bare_folders_are_explained_by_estimates(corpus: Path, run: str, rule: str, severity: str) -> None:
    result = explained(corpus / run)
    first = result.findings[0]
    assert (first.rule, first.severity) == (rule, severity)
    assert not first.measured
    assert result.ledger.compiled_ms is None
    assert any("inspector capture" in text for text in result.ledger.missing)


def test_evidence_leads_to_lines_that_exist(corpus_runs: list[Path]) -> None:
    seen = 0
    for root in corpus_runs:
        for finding in explained(root).findings:
            assert finding.evidence, (root, finding.rule)
            for item in finding.evidence:
                path = root / item.path
                if item.line is None or not path.is_file():
                    continue
                assert 1 <= item.line <= len(path.read_text(errors="replace").splitlines())
                seen += 1
    assert seen > 15


def test_a_break_names_the_line_of_the_user(corpus: Path) -> None:
    first = explained(corpus / "cpu-torch2.13" / "breaks").findings[0]
    assert first.evidence[0].path.endswith("workload.py")
    assert first.evidence[0].line == 8


def test_a_cache_hit_is_not_called_eager(corpus: Path) -> None:
    result = explained(corpus / "cpu-torch2.13" / "cache_hit")
    assert "eager_in_disguise" not in [finding.rule for finding in result.findings]


def test_findings_come_worst_first(corpus_runs: list[Path]) -> None:
    order = ["high", "medium", "low"]
    for root in corpus_runs:
        places = [order.index(finding.severity) for finding in explained(root).findings]
        assert places == sorted(places), root


def test_json_is_the_contracts(corpus: Path) -> None:
    data = to_json(explained(corpus / "cpu-torch2.13" / "softmax"))
    assert data["schema"] == "inspector.explain/1"
    assert {"verdict", "ledger", "unexplained_ms", "findings"} <= set(data)
    assert all({"part", "ms"} <= set(part) for part in data["ledger"])
    keys = {"rule", "severity", "title", "graph", "cost_ms", "evidence", "advice"}
    for finding in data["findings"]:
        assert keys <= set(finding)
        assert all({"path", "line", "text"} <= set(item) for item in finding["evidence"])
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("width", [80, 160])
def test_a_usual_case_fits_a_screen(corpus_runs: list[Path], width: int) -> None:
    for root in corpus_runs:
        lines = texts(words_of(explained(root), width))
        assert len(lines) <= 23, root
        assert all(len(line) <= width for line in lines), root


def test_the_command_prints_one_object(corpus: Path) -> None:
    result = CliRunner().invoke(cli, ["explain", str(corpus / "cpu-torch2.13" / "norms"), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["findings"][0]["rule"] == "nothing_found"


def test_plain_text_has_no_colour_in_a_pipe(corpus: Path) -> None:
    result = CliRunner().invoke(cli, ["explain", str(corpus / "cpu-torch2.13" / "norms")])
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout


def test_measuring_and_trying_stay_on_the_machine_that_captured(corpus: Path) -> None:
    path = str(corpus / "cpu-torch2.13" / "softmax")
    for option, words in (("--measure", "not known to be your capture"), ("--try=modes", "no command")):
        result = CliRunner().invoke(cli, ["explain", path, option])
        assert isinstance(result.exception, InspectorError)
        assert words in str(result.exception)
