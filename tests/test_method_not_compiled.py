"""Methods of a compiled module that call the module."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inspector.explain.case import Case
from inspector.explain.gather import gather
from inspector.explain.program import read_program
from inspector.explain.rules import method_not_compiled
from inspector.readers.run import Run

PROGRAM = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return self.layer(x)

    def loss(self, x, y):
        return (self(x) - y).square().mean()

    def sizes(self):
        return 3

model = torch.compile(Net())
for step in range(9):
    loss = model.loss(x, y)
    loss.backward()
"""


@pytest.fixture
def case(corpus: Path) -> Case:
    return gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))


def severities(case: Case, text: str, calls: int = 100) -> list[str]:
    times = replace(case.times, calls=calls)
    told = method_not_compiled.find(replace(case, programs=(read_program(text, "a.py"),), times=times))
    return [finding.severity for finding in told]


def test_a_method_that_calls_its_module_is_told_where_it_is_called(case: Case) -> None:
    (finding,) = method_not_compiled.find(replace(case, programs=(read_program(PROGRAM, "a.py"),)))
    assert [item.line for item in finding.evidence] == [16, 14]
    assert finding.title.startswith("model.loss() runs in eager") and finding.severity == "high"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("model.loss(x, y)", "model.sizes()", []),
        ("model.loss(x, y)", "model(x).sum()", []),
        ("model = torch.compile(Net())", "model = Net()\nmodel.compile()\nmodel = model", []),
        ("model = torch.compile(Net())", "model = Net()\nfast = torch.compile(model)", []),
        ("for step in range(9):\n    loss", "loss", ["medium"]),
    ],
)
def test_other_methods_and_modules_are_not(case: Case, old: str, new: str, said: list[str]) -> None:
    text = PROGRAM.replace(old, new)
    if "for step" in old:
        text = text.replace("    loss.backward()", "loss.backward()")
    assert severities(case, text) == said
    if said:
        assert severities(case, text, calls=1) == ["high"], "hardly anything else was compiled"
