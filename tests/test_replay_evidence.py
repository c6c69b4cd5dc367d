"""Where wrong elements lie, and by how much they are off."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from inspector.model.codec import from_data, to_data  # noqa: E402
from inspector.model.replay import OutputCheck, Steps, WorstElement  # noqa: E402
from inspector.present.replay import evidence_texts  # noqa: E402
from inspector.replay.worker.kernels.evidence import worst_element  # noqa: E402

CHECK = OutputCheck(0, "mismatch", rtol=1e-5, atol=1e-6)


def seen(wrong: Any, truth: Any) -> WorstElement:
    element = worst_element("buf0", wrong, truth, truth.double(), CHECK)
    assert element is not None
    assert from_data(WorstElement, json.loads(json.dumps(to_data(element)))) == element
    return element


def test_a_tail_of_each_row_and_stripes_are_told_apart() -> None:
    truth = torch.full((20, 96), 2.0)
    tail = truth.clone()
    tail[:, 93:] = 3.0
    element = seen(tail, truth)
    assert element.rows == Steps(0, 19, 1, 20) and element.columns == Steps(93, 95, 1, 96)
    assert element.first == (0, 93) and element.index == (0, 93)
    # Two columns to a cell: the last two cells are wrong in half and in all of it.
    assert element.picture == ("0" * 46 + "48",) * 12
    stripes = truth.clone()
    stripes[5, 3::4] = 2.5
    element = seen(stripes, truth)
    assert element.rows == Steps(5, 5, 1, 20) and element.columns == Steps(3, 95, 4, 96)
    assert list(evidence_texts(element))[1] == (
        "wrong from [5, 3] on; row 5 of 20; columns 3 to 95 of 96, one in 4"
    )


def test_how_far_off_in_units_of_the_last_place_and_of_the_value() -> None:
    truth = torch.ones(4)
    wrong = truth.clone()
    wrong[2] = 1 + 3 * 2.0**-23 * 1000
    element = seen(wrong, truth)
    assert element.ulps == pytest.approx(3000) and element.relative == pytest.approx(3000 * 2.0**-23)
    assert element.first == (2,) and element.columns == Steps(2, 2, 1, 4)
    nothing = seen(torch.tensor([float("nan"), 1.0]), torch.ones(2))
    assert nothing.ulps is None and nothing.first == (0,) and nothing.picture == ("80",)


def test_what_cannot_be_judged_is_in_no_picture() -> None:
    truth = torch.zeros(3, 3)
    wrong = truth + 1
    certain = torch.eye(3, dtype=torch.bool)
    element = worst_element("buf0", wrong, truth, truth.double(), CHECK, certain)
    assert element is not None and element.picture == ("800", "080", "008")


def test_a_scalar_and_integers() -> None:
    element = seen(torch.tensor(3), torch.tensor(5))
    assert element.first == () and element.ulps is None and element.picture == ("8",)
