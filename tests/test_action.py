"""action.yml: its steps run as a runner does it, with a run at hand and with a command that is captured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

ACTION = Path(__file__).parents[1] / "action.yml"
PROGRAM = """
import torch

@torch.compile
def model(x):
    return torch.softmax(torch.sin(x), 0)

for _ in range(3):
    model(torch.ones(64))
"""


class Runner:
    """What a runner does with a composite action, as far as action.yml asks for it."""

    def __init__(self, place: Path, **inputs: str) -> None:
        self.action: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
        known = self.action["inputs"]
        assert set(inputs) <= set(known)
        assert {name for name, item in known.items() if item.get("required")} <= set(inputs)
        self.inputs = {name: inputs.get(name, item.get("default", "")) for name, item in known.items()}
        self.place = place
        self.ran: list[str] = []
        self.said = ""

    def run(self) -> bool:
        """All steps; whether the job is green."""
        green = True
        for step in self.action["runs"]["steps"]:
            if not self._wanted(step.get("if", "success()"), green):
                continue
            self.ran.append(step["name"])
            script = self.place / "step.sh"
            script.write_text(step["run"], encoding="utf-8")
            assert step["shell"] == "bash" and "${{" not in step["run"]
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
                cwd=self.place,
                env={**os.environ, **self._github(), **self._environment(step.get("env", {}))},
                capture_output=True,
                text=True,
            )
            self.said += done.stdout + done.stderr
            green &= done.returncode == 0
        return green

    def _wanted(self, condition: str, green: bool) -> bool:
        if condition == "always()":
            return True
        filled = re.fullmatch(r"inputs\.(\w+) != ''", condition)
        assert filled is not None or condition == "success()", condition
        return green and (filled is None or self.inputs[filled[1]] != "")

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        def value(match: re.Match[str]) -> str:
            return self.inputs[match[1]]

        return {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", value, text) for name, text in variables.items()}

    def _github(self) -> dict[str, str]:
        files = {"GITHUB_STEP_SUMMARY": "summary.md", "GITHUB_OUTPUT": "output"}
        paths = {name: str(self.place / file) for name, file in files.items()}
        return {**paths, "GITHUB_WORKSPACE": str(self.place), "RUNNER_TEMP": str(self.place)}

    def file(self, name: str) -> str:
        return (self.place / name).read_text(encoding="utf-8")


def test_a_run_that_breaks_its_budget_fails_the_job(corpus: Path, tmp_path: Path) -> None:
    run = corpus / "cpu-torch2.13" / "breaks"
    (tmp_path / "my budget.toml").write_text("graph_breaks = 0\n", encoding="utf-8")
    runner = Runner(
        tmp_path, budget="my budget.toml", run=str(run), python=sys.executable, sarif="a.sarif", junit="a.xml"
    )
    assert not runner.run() and runner.ran == ["Check", "Pack"]
    assert runner.said.count("::error file=") == 3
    assert "| ❌ | `graph_breaks` |" in runner.file("summary.md")
    assert '"ruleId": "graph_breaks"' in runner.file("a.sarif") and "<failure" in runner.file("a.xml")
    archive = Path(runner.file("output").strip().removeprefix("archive="))
    with tarfile.open(archive) as tar:
        assert "run/trace" in {os.path.dirname(name) for name in tar.getnames()}


def test_inputs_are_no_part_of_a_script(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text("graph_breaks = 0\n", encoding="utf-8")
    runner = Runner(tmp_path, budget="b.toml", run='x"; touch owned; "', python=sys.executable)
    assert not runner.run() and not (tmp_path / "owned").exists()
    assert "no such file or folder" in runner.said and "archive" not in runner.said


@pytest.mark.slow
def test_a_command_is_captured_and_checked(tmp_path: Path) -> None:
    (tmp_path / "a program.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / "b.toml").write_text('graph_breaks = 0\nno_fallback = ["*"]\n', encoding="utf-8")
    command = f"{sys.executable} 'a program.py'"
    runner = Runner(tmp_path, budget="b.toml", command=command, capture="--quiet", python=sys.executable)
    assert runner.run(), runner.said
    assert runner.ran == ["Capture", "Check", "Pack"] and "2 relations kept" in runner.said
    assert runner.file("summary.md").count("✅") == 2
