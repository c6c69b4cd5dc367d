"""Every JSON object that leaves the program against its schema in docs/schema."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from replays import replay_of, result_of
from sharing import unpacked
from test_tui_story import DIAGNOSIS

from inspector import contract
from inspector.cli import cli
from inspector.contract import doctor, replay, trace, trial
from inspector.contract.bounds import bounded
from inspector.gather import trace_report
from inspector.model.calls import Outcome as CallOutcome
from inspector.model.compilation import Compilation, Status
from inspector.model.compile_time import Part
from inspector.model.decision import Category, DecisionSource
from inspector.model.decision import Verdict as FusionVerdict
from inspector.model.explain import Severity, Trial
from inspector.model.fusion import Basis, GroupKind, NodeKind
from inspector.model.logs import GraphBreak
from inspector.model.problem import InspectorError
from inspector.model.ranks import DivergenceKind
from inspector.model.record import ChosenBy
from inspector.model.replay import Verdict
from inspector.model.trial import Outcome, TrialReport
from inspector.readers.locate import Kind
from inspector.readers.run import Run

ROOT = Path(__file__).parents[1]
SCHEMAS = ROOT / "docs" / "schema"
SAMPLES = sorted(ROOT.glob("sample_runs/**/run.tar.xz"))
EXECUTES = {"replay"}
EVERYTHING = {"fusions": ["--all"]}
LOOKING = sorted(
    name
    for name, command in cli.commands.items()
    if {"path", "as_json"} <= {parameter.name for parameter in command.params} and name not in EXECUTES
)
"""Commands that print JSON of a run without running any of it."""


@cache
def schema(name: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))


def problems(name: str, data: object) -> list[str]:
    validator = Draft202012Validator(schema(name))
    plain = json.loads(json.dumps(data, allow_nan=False))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(plain)]


def test_every_contract_has_its_schema_and_every_schema_its_contract() -> None:
    assert set(LOOKING) >= {"summary", "fusions", "explain", "trace"}
    modules = {path.stem for path in Path(contract.__file__).parent.glob("*.py")} - {
        "__init__",
        "fields",
        "bounds",
        "next",
    }
    assert {path.name.partition(".")[0] for path in SCHEMAS.iterdir()} == modules
    for name in modules:
        Draft202012Validator.check_schema(schema(name))
        assert schema(name)["properties"]["schema"] == {"const": f"inspector.{name}/1"}
        # What `print_json` adds to any of them.
        assert {"left_out", "next"} <= set(schema(name)["properties"]), name


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for item in node.values():
            yield from objects(item)
    elif isinstance(node, list):
        for item in node:
            yield from objects(item)


def test_schemas_are_strict() -> None:
    """An object has the keys of its version, all of them; where keys are data, their values have a type."""
    for path in SCHEMAS.iterdir():
        for item in objects(json.loads(path.read_text(encoding="utf-8"))):
            assert "additionalProperties" in item, (path.name, item)
            if "properties" in item and item["additionalProperties"] is False:
                assert set(item["required"]) <= set(item["properties"])


def enumerations(node: Any) -> Iterator[frozenset[str]]:
    if isinstance(node, dict):
        if "enum" in node:
            yield frozenset(item for item in node["enum"] if item is not None)
        for item in node.values():
            yield from enumerations(item)
    elif isinstance(node, list):
        for item in node:
            yield from enumerations(item)


@pytest.mark.parametrize(
    ("name", "closed"),
    [
        ("summary", (Kind, CallOutcome, DivergenceKind, ChosenBy, Part)),
        ("fusions", (FusionVerdict, Category, GroupKind, NodeKind, Basis, DecisionSource)),
        ("explain", (Severity,)),
        ("trace", (Status, Part, DivergenceKind)),
        ("replay", (Verdict,)),
    ],
)
def test_closed_lists_are_those_of_the_model(name: str, closed: tuple[Any, ...]) -> None:
    known = set(enumerations(schema(name)))
    for literal in closed:
        assert frozenset(get_args(literal)) in known, literal


def check(run: Path) -> None:
    for command in LOOKING:
        result = CliRunner().invoke(cli, [command, str(run), *EVERYTHING.get(command, ()), "--json"])
        if result.exception is None:
            assert problems(command, json.loads(result.stdout)) == [], (run, command)
        else:
            assert command == "trace" and "no structured trace" in str(result.exception)


def test_the_corpus_keeps_its_contracts(corpus_runs: list[Path]) -> None:
    for run in corpus_runs:
        check(run)


@pytest.mark.parametrize("archive", SAMPLES, ids=lambda path: path.parent.name)
def test_sample_runs_keep_their_contracts(archive: Path, tmp_path: Path) -> None:
    unpacked(archive, tmp_path)
    check(tmp_path)


def replayed(corpus: Path) -> object:
    graph = Run.open(corpus / "cpu-torch2.13" / "mlp").graphs[0]
    code = graph.code()
    assert code is not None
    result = replay_of(graph.ident, code)
    return replay.to_json(result_of(1.0, replace(result, edits=result.kernels[:2])))


def tried(corpus: Path) -> object:
    setting = Trial("max-autotune", (("cpp.simdlen", None),), (("A", "1"),), True)
    base = Outcome("as it is", None, 10.0, 5.0, 3, 1e6, (("match", 2),), "run")
    after = Outcome("x", setting, None, None, 0, 0, (), "run", 4.0, "exit code 1")
    return trial.to_json(TrialReport(base, (after,), "cpu_serial"))


@pytest.mark.parametrize(
    ("name", "make"),
    [("replay", replayed), ("trial", tried), ("doctor", lambda corpus: doctor.to_json(DIAGNOSIS))],
)
def test_what_is_executed_keeps_its_contract(name: str, make: Callable[[Path], object], corpus: Path) -> None:
    assert problems(name, make(corpus)) == []


def test_an_answer_is_bounded_and_says_what_it_leaves_out(tmp_path: Path) -> None:
    run = str(unpacked(ROOT / "sample_runs" / "transformer" / "run.tar.xz", tmp_path))
    words = ["fusions", run, "--json", "--limit"]
    whole, part = (json.loads(CliRunner().invoke(cli, [*words, limit]).stdout) for limit in ("0", "2"))
    assert problems("fusions", part) == [] and whole["left_out"] == {} and len(part["graphs"]) == 2
    for name in ("groups", "decisions", "missed"):
        left = sum(max(0, len(graph[name]) - 2) for graph in whole["graphs"][:2])
        assert part["left_out"].get(f"graphs[].{name}", 0) == left
        assert [len(graph[name]) for graph in part["graphs"]] == [
            min(2, len(graph[name])) for graph in whole["graphs"][:2]
        ]
    assert part["left_out"]["graphs[].decisions"] > 50 and len(json.dumps(part)) < len(json.dumps(whole)) / 5


def test_numbers_are_not_left_out() -> None:
    data = {"shape": [1, 2, 3], "names": ["a", "b", "c"], "deep": [{"names": [{"n": [1, 2]}] * 3}]}
    assert bounded(data, 1) == {
        "shape": [1, 2, 3],
        "names": ["a"],
        "deep": [{"names": [{"n": [1, 2]}]}],
        "left_out": {"names": 2, "deep[].names": 2},
    }


def test_a_change_of_code_is_whole() -> None:
    data = {"findings": [{"change": ["- a", "+ b"], "names": ["c", "d"]}] * 2}
    assert bounded(data, 1) == {
        "findings": [{"change": ["- a", "+ b"], "names": ["c"]}],
        "left_out": {"findings": 1, "findings[].names": 1},
    }


def test_a_limit_without_json_is_told() -> None:
    with pytest.raises(InspectorError, match="--limit"):
        CliRunner().invoke(cli, ["summary", ".", "--limit", "3"], catch_exceptions=False)


@pytest.mark.parametrize("name", ["breaks", "small_softmax"])
def test_the_next_commands_are_commands(name: str) -> None:
    (archive,) = [archive for archive in SAMPLES if archive.parent.name == name]
    for command in LOOKING:
        result = CliRunner().invoke(cli, [command, str(archive), "--json"])
        if result.exception is not None:
            continue
        following = json.loads(result.stdout)["next"]
        assert following, command
        for line in following:
            asked, *words = shlex.split(line)[1:]
            assert "--try" not in words, "an archive's program is elsewhere"
            parent = click.Context(cli, **cli.context_settings)
            assert cli.commands[asked].make_context(asked, words, parent)


def test_breaks_and_recompiles_of_a_summary_have_lines(tmp_path: Path) -> None:
    run = str(unpacked(ROOT / "sample_runs" / "breaks" / "run.tar.xz", tmp_path))
    said = json.loads(CliRunner().invoke(cli, ["summary", run, "--json"]).stdout)
    assert (
        len(said["breaks"]) == said["graph_breaks"] and len(said["compiled_again"]) == said["recompiles"] > 0
    )
    places = [item["location"] for item in (*said["breaks"], *said["compiled_again"])]
    assert places and all(place.rpartition(":")[2].isdigit() for place in places)


def test_a_contract_that_is_broken_is_told() -> None:
    good = doctor.to_json(DIAGNOSIS)
    assert problems("doctor", {**good, "verdict": 3}) and problems("doctor", {**good, "more": 1})
    assert problems("doctor", {key: value for key, value in good.items() if key != "checks"})


def test_summary_and_trace_count_the_same_breaks_and_recompiles(corpus_runs: list[Path]) -> None:
    seen = 0
    for run in (Run.open(path) for path in corpus_runs):
        if not run.traces:
            continue
        facts, told = run.facts(), trace.to_json(trace_report(run))
        ids = [item for each in told["traces"] for item in each["compilations"]]
        counts = [sum(len(item[key]) for item in ids) for key in ("graph_breaks", "given_up", "recompiles")]
        assert counts == [len(facts.graph_breaks), len(facts.given_up), len(facts.recompiles)]
        seen += any(counts)
    assert seen > 2


def test_a_frame_that_is_given_up_is_no_graph_break_in_a_trace_either() -> None:
    broken = GraphBreak(None, "print", (), "0/0", False, 1, "")
    given_up = replace(broken, reason="Skipping the function and falling back to eager")
    item = Compilation("0/0", "0/0", None, None, "ok", 1, 1, None, breaks=(broken, given_up))
    told = trace._compilation(item, None)
    assert [len(told[key]) for key in ("graph_breaks", "given_up")] == [1, 1]
