"""`inspector check`: relations of a run against a budget, on runs of several versions and devices."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from sharing import unpacked

from inspector.analysis.replay_history import latest
from inspector.cli import cli
from inspector.gates.budget import Budget, Share, from_data, merged, read_budget, to_toml
from inspector.gates.judge import Report, judge
from inspector.gates.memory import peak_bytes
from inspector.gates.write import budget_of
from inspector.model.problem import InspectorError
from inspector.model.replay import ReplayResult
from inspector.present import gates
from inspector.readers.output_code import parse_output_code
from inspector.readers.run import Run
from inspector.replay.store import load_results

SAMPLES = Path(__file__).parents[1] / "sample_runs"
DATA = Path(__file__).parent / "data" / "extra"


def story(name: str, folder: Path) -> Path:
    return unpacked(SAMPLES / "stories" / name / "run.tar.xz", folder) / name


def broken(report: Report) -> list[tuple[str, str | None, str]]:
    """(relation, place, reason) of each breach."""
    return [
        (item.relation, item.place.short if item.place else None, item.reason) for item in report.breaches
    ]


def test_a_budget_of_one_version_is_kept_by_the_others_and_by_a_gpu(corpus: Path) -> None:
    versions = ("cpu-torch2.6.0", "cpu-torch2.13", "cpu-torch2.15.0")
    runs = [Run.open(corpus / version / "softmax") for version in versions]
    for run in runs:
        budget = budget_of(run)
        assert budget.graph_breaks == budget.recompiles == 0 and budget.no_fallback == ("*",)
        assert [broken(judge(other, budget)) for other in runs] == [[], [], []]
    norms = [Run.open(corpus / group / "norms") for group in ("cpu-torch2.13", "h200-torch2.11")]
    for run in norms:
        budget = budget_of(run)
        (share,) = budget.share_kernel
        assert {"gelu", "layer_norm", "log_softmax", "rsqrt"} <= {*share.operators}
        assert [broken(judge(other, budget)) for other in norms] == [[], []]


def test_each_break_and_recompile_has_its_line_and_torchs_reason(corpus: Path) -> None:
    report = judge(Run.open(corpus / "cpu-torch2.13" / "breaks"), Budget(graph_breaks=2, recompiles=0))
    assert broken(report)[:4] == [
        ("graph_breaks", "workload.py:8", "Data-dependent branching"),
        ("graph_breaks", "workload.py:9", "Failed to trace builtin operator"),
        (
            "graph_breaks",
            "workload.py:11",
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        ),
        ("recompiles", "workload.py:6", "0/0: tensor 'x' size mismatch at index 0. expected 8, actual 16"),
    ]
    assert len(report.breaches) == 7
    assert not judge(
        Run.open(corpus / "cpu-torch2.13" / "breaks"), Budget(graph_breaks=3, recompiles=4)
    ).breaches


def test_a_package_has_limits_of_its_own(corpus: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "breaks")

    def of(package: str) -> int:
        return len(judge(run, Budget(packages={package: Budget(graph_breaks=0)})).breaches)

    assert (of("runs.breaks"), of("workload"), of("workload.py"), of("breaks/workload.py")) == (3, 3, 3, 3)
    assert (of("runs.other"), of("load"), of("oad.py")) == (0, 0, 0)


def test_a_fallback_and_bytes_in_vain_have_their_lines(corpus: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "mlp")
    report = judge(run, Budget(no_fallback=("_scaled_dot_product_flash_attention_for_cpu",), traffic=1.2))
    assert [item[:2] for item in broken(report)] == [
        ("no_fallback", "mlp.py:8"), ("no_fallback", "mlp.py:8"), ("traffic", "mlp.py:10"),
    ]  # fmt: skip
    assert report.breaches[-1].reason == "op3 is extern_kernels.mm, which runs as it is"
    assert not judge(run, Budget(no_fallback=("aten.sort", "mm"), traffic=4.0)).breaches


def test_a_fallbacks_line_is_its_own_where_torch_names_what_fed_it_too(tmp_path: Path) -> None:
    """torch 2.6 gives a library call the origins of all that it reads."""
    run = Run.open(unpacked(DATA / "fallback-torch2.6.tar.xz", tmp_path) / "fallback")
    report = judge(run, Budget(no_fallback=("*",), traffic=1.5))
    (fallback, traffic) = report.breaches
    assert [item.place.short if item.place else None for item in (fallback, traffic)] == ["p.py:7", "p.py:7"]
    assert "between op0_op1_op3 (p.py:5, 6) and op4 (p.py:7)" in traffic.message


@pytest.mark.parametrize(
    ("operators", "kernels", "said"),
    [
        (("rsqrt", "mean"), 1, None),
        (("aten.rsqrt", "pow", "add"), 39, None),
        (("rsqrt", "mean"), 80, "in 80 places but in"),
        (("silu", "rsqrt"), 1, "triton_poi_fused__unsafe_view_mul_silu_9 and triton_red_fused_"),
        (("silu", "softplus"), 1, "no generated kernel computes softplus"),
        # An extern kernel is none that operators share.
        (("mm", "silu"), 1, "no generated kernel computes mm"),
    ],
)
def test_operators_that_share_a_kernel(
    corpus: Path, operators: tuple[str, ...], kernels: int, said: str | None
) -> None:
    run = Run.open(corpus / "h200-torch2.11" / "llama_infer")
    breaches = judge(run, Budget(share_kernel=(Share(operators, kernels),))).breaches
    assert len(breaches) == (said is not None) and all(str(said) in breach.message for breach in breaches)


def test_lines_of_the_program_name_operators_too(corpus: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "norms")
    assert not judge(run, Budget(share_kernel=(Share(("workload.py:3", "workload.py:6")),))).breaches
    assert judge(run, Budget(share_kernel=(Share(("workload.py:3", "workload.py:77")),))).breaches


def test_times_are_judged_as_summary_judges_them(tmp_path: Path) -> None:
    asked = Budget(faster=True)
    slow, fast = (Run.open(story(name, tmp_path)) for name in ("small_softmax", "ten_million"))
    (breach,) = judge(slow, asked).breaches
    assert breach.place is not None and "compiled and" in breach.message and not judge(fast, asked).breaches
    assert budget_of(fast).faster and budget_of(slow).faster is None
    (unknown,) = judge(Run.open(SAMPLES / "softmax" / "run.tar.xz"), asked).breaches
    assert "--baseline" in unknown.message


def test_results_are_judged_where_a_replay_is(tmp_path: Path) -> None:
    run = Run.open(story("training_step", tmp_path))
    results = load_results(run.root)
    asked = Budget(error="eager")
    assert not judge(run, asked, results).breaches
    (judged,) = judge(run, asked).judged
    assert "inspector replay" in judged.note and not judged.breaches
    graph = next(iter(latest(results).values()))
    wrong = replace(graph.kernels[0].outputs[0], verdict="mismatch", reason="wrong", error_compiled=3.0)
    kernel = replace(graph.kernels[0], outputs=(wrong,))
    worse = ReplayResult(results[-1].machine, (replace(graph, kernels=(kernel, *graph.kernels[1:])),))
    (breach,) = judge(run, asked, (worse,)).breaches
    assert breach.reason == "wrong" and "3 off" in breach.message


def test_what_failed_or_compiled_nothing_keeps_no_budget(tmp_path: Path) -> None:
    failed = unpacked(Path(__file__).parent / "data" / "failed-runs.tar.xz", tmp_path) / "failed"
    (breach,) = judge(Run.open(failed / "a_raise.run"), Budget(graph_breaks=0)).breaches
    assert breach.relation == "program"
    (breach,) = judge(Run.open(story("old_gpu", tmp_path)), Budget(graph_breaks=0)).breaches
    assert breach.relation == "program"


def test_recompiles_that_nobody_tells_of_are_not_none(corpus: Path) -> None:
    debug = corpus / "cpu-torch2.13" / "softmax" / "torch_compile_debug"
    (breach,) = judge(Run.open(debug), Budget(graph_breaks=0, recompiles=0)).breaches
    assert breach.message.startswith("cannot be judged") and breach.relation == "recompiles"


CODE = """
def call(args):
    arg0_1, = args
    args.clear()
    buf0 = empty_strided_cpu((4, 8), (8, 1), torch.float32)
    extern_kernels.mm(arg0_1, arg0_1, out=buf0)
    buf1 = buf0; del buf0  # reuse
    buf2 = empty_strided_cpu((10, ), (1, ), torch.bfloat16)
    cpp_fused_0(buf1, buf2)
    del buf1
    buf3 = empty_strided_cpu((10, ), (1, ), torch.float32)
    return (buf2, buf3, )
"""


def test_memory_is_counted_where_most_of_it_is_held() -> None:
    code = parse_output_code(CODE, "output_code.py")
    assert peak_bytes(code) == (128 + 20, 8)
    assert peak_bytes(parse_output_code(CODE.replace("(4, 8)", "(s0, 8)"), "output_code.py")) is None
    kept = parse_output_code(CODE.replace("    del buf1\n", ""), "output_code.py")
    assert peak_bytes(kept) == (128 + 20 + 40, 10)


# -- the budget


def test_a_budget_is_written_as_it_is_read(tmp_path: Path) -> None:
    budget = Budget(
        1, 2, (Share(("gelu", "add"), 3),), ("aten.sort",), 1.25, 1 << 20, "eager", True,
        {"acme.layers": Budget(graph_breaks=0), "a.py": Budget(recompiles=1)},
    )  # fmt: skip
    file = tmp_path / "budget.toml"
    file.write_text(to_toml(budget), encoding="utf-8")
    assert read_budget(file) == budget
    assert merged(Budget(graph_breaks=5, traffic=2.0), Budget(graph_breaks=0)) == Budget(0, traffic=2.0)
    assert from_data({"share_kernel": ["a", "b"], "peak_memory": "2MB", "recompiles": None}, "") == Budget(
        share_kernel=(Share(("a", "b")),), peak_memory=2 << 20
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("graph_breaks = -1", "a whole number"), ("recompiles = true", "a whole number"),
        ("traffic = 0.5", "at least 1"), ("breaks = 0", "no such relation"),
        ("share_kernel = ['a']", "two operators"), ("error = 'none'", '"eager"'),
        ("peak_memory = 'much'", "a size"), ("packages.x = 1", "no such relation"),
        ("faster = 1", "true or false"), ("faster = false", "nothing"),
        ("packages.x.traffic = 1.2", "alone"), ("= 3", "not TOML"), ("", "asks for nothing"),
        ("share_kernel = [{ operators = ['a', 'b'], kernel = 2 }]", "nothing else"),
    ],
)  # fmt: skip
def test_a_wrong_budget_says_what_is_wrong(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "budget.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InspectorError, match=said) as raised:
        read_budget(tmp_path / "budget.toml")
    assert "\n" not in str(raised.value)


# -- the command


@pytest.fixture
def checked(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("GITHUB_WORKSPACE", "/home/user/runs/breaks")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    budget = tmp_path / "budget.toml"
    budget.write_text('graph_breaks = 0\nno_fallback = ["*"]\nerror = "eager"\n', encoding="utf-8")

    def check(*options: str) -> Result:
        run = str(corpus / "cpu-torch2.13" / "breaks")
        return CliRunner().invoke(cli, ["check", run, "--budget", str(budget), *options])

    return check


def test_a_breach_is_a_line_and_exit_code_1(checked: Any, tmp_path: Path) -> None:
    done = checked()
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0] == "workload.py:8: graph break in forward: Data-dependent branching [graph_breaks]"
    assert len(lines) == 5 and lines[-1] == "1 relation kept, 1 broken, 1 not judged"
    assert lines[-2].startswith("not judged: error: ") and not (tmp_path / "summary.md").exists()


def test_github_shows_it_at_the_line_and_on_the_jobs_page(checked: Any, tmp_path: Path) -> None:
    done = checked("--format", "github")
    lines = done.stdout.splitlines()
    assert done.exit_code == 1 and lines[0].startswith(
        "::error file=workload.py,line=8,title=inspector graph_breaks::"
    )
    page = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert (
        "| ❌ | `graph_breaks` | `at most 0` | `3 graph breaks` |" in page
        and page.count("- `workload.py") == 3
    )


def test_json_keeps_its_schema_and_says_what_to_run_next(checked: Any) -> None:
    data = json.loads(checked("--format", "json").stdout)
    schema = Path(__file__).parents[1] / "docs" / "schema" / "check.schema.json"
    assert not [*Draft202012Validator(json.loads(schema.read_text(encoding="utf-8"))).iter_errors(data)]
    assert data["kept"] is False and [command.split()[1] for command in data["next"]] == ["explain"]


def test_junit_and_sarif_are_well_formed(checked: Any) -> None:
    suite = ET.fromstring(checked("--format", "junit").stdout.encode())
    assert suite.attrib == {
        "name": "inspector check", "tests": "3", "failures": "1", "errors": "0", "skipped": "1",
    }  # fmt: skip
    assert [len(case) for case in suite] == [1, 0, 1]
    log = json.loads(checked("--format", "sarif").stdout)
    (run,) = log["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["region"]["startLine"] for place in places] == [8, 9, 11]
    assert {place["artifactLocation"]["uri"] for place in places} == {"workload.py"}
    assert {result["ruleId"] for result in run["results"]} <= {
        rule["id"] for rule in run["tool"]["driver"]["rules"]
    }


def test_nothing_of_a_run_becomes_markup_or_a_command(corpus: Path) -> None:
    report = judge(Run.open(corpus / "cpu-torch2.13" / "breaks"), Budget(graph_breaks=0))
    evil = "x\n::set-output a=b\x1b[31m <b> ` | ]]>\x00"
    judged = report.judged[0]
    hostile = replace(report, judged=(replace(judged, breaches=(replace(judged.breaches[0], reason=evil),)),))
    assert [line[:8] for line in gates.workflow_commands(hostile, "").splitlines()[:1]] == ["::error "]
    assert "\x1b" not in gates.workflow_commands(hostile, "") + gates.step_summary(hostile, "")
    assert len(ET.fromstring(gates.junit(hostile, "").encode())[0]) == 1
    (cell,) = [line for line in gates.step_summary(hostile, "").splitlines() if line.startswith("- ")]
    assert cell.count("`") == 2
    linked = replace(
        judged, breaches=(replace(judged.breaches[0], reason="[a](https://x)\\"),), there="", note=""
    )
    report = replace(report, judged=(linked,))
    (result,) = json.loads(gates.sarif(report, ""))["runs"][0]["results"]
    assert r"\[a\](https://x)\\" in result["message"]["text"]
    assert "``" not in gates.step_summary(report, "")


def test_a_good_run_writes_the_budget_that_it_keeps(corpus: Path, tmp_path: Path) -> None:
    run, budget = str(corpus / "cpu-torch2.13" / "norms"), str(tmp_path / "made.toml")
    done = CliRunner().invoke(cli, ["check", run, "--budget", budget, "--write"])
    assert done.exit_code == 0 and done.stdout == "6 relations kept\n"
    assert "share_kernel" in Path(budget).read_text(encoding="utf-8")
    again = CliRunner().invoke(cli, ["check", run, "--budget", budget, "--write"])
    assert isinstance(again.exception, InspectorError) and "--force" in str(again.exception)
    missing = CliRunner().invoke(cli, ["check", run, "--budget", str(tmp_path / "none.toml")])
    assert "--write" in str(missing.exception)
