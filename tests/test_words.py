"""Plain words: titles of rules, guards, terms; and tables that sort by what figures mean."""

from __future__ import annotations

import pytest

from inspector.analysis import side_totals, two_sides
from inspector.analysis.guard_words import guard_text
from inspector.explain import ledger
from inspector.explain.rules import RULES as ASKED
from inspector.model.account import Claim
from inspector.model.explain import Finding, Ledger, LedgerPart
from inspector.model.links import Related
from inspector.present.answer import ledger_lines, named_parts
from inspector.present.arrange import Arrangement, arranged, next_column
from inspector.present.glossary import TERMS, terms_in
from inspector.present.spans import Span
from inspector.present.tables import Column, Row, Table
from inspector.present.words import PART_SLOWER, PARTS, RULES, SOURCES, title
from inspector.text import wrap
from inspector.units import parse_figure


def test_every_rule_has_plain_words() -> None:
    renamed = {
        "compile_cost": "compile_cost_not_amortized",
        "max_autotune": "max_autotune_unavailable",
        "training_mode": "training_mode_inference",
    }
    asked = {renamed.get(rule.name, rule.name) for rule in ASKED} | {"healthy", "nothing_found"}
    assert asked <= RULES.keys()
    for name, plain in RULES.items():
        assert len(plain.title) <= 42 and "_" not in plain.title + plain.why, name
        assert plain.title[0].isupper() and not plain.why.endswith("."), name


def part_names() -> set[str]:
    """As the ledger calls the parts of a call."""
    constants = (vars(module).items() for module in (ledger, two_sides, side_totals))
    named = {
        value for pairs in constants for name, value in pairs if name.isupper() and isinstance(value, str)
    }
    return {*named, *(name for name, _ in ledger.PARTS), *PARTS} - {ledger.PROFILE}


def test_a_part_that_loses_is_not_told_as_the_whole_call() -> None:
    def told(*blocks: int | None) -> str:
        claims = tuple(Claim(block, "eager", (1.0, 1.0), "profiled") for block in blocks)
        return title(Finding("slower_than_eager", "low", "", None, 1.0, (), "", claims=claims))

    assert (
        told(3) == PART_SLOWER.title
        and told() == told(None) == told(3, None) == RULES["slower_than_eager"].title
    )


@pytest.mark.parametrize("source", SOURCES)
def test_parts_of_a_call_and_what_they_rest_on_stand_whole_at_80_columns(source: str) -> None:
    parts = tuple(LedgerPart(name, 123.4, source) for name in sorted(part_names()))
    account = Ledger(None, 123.4 * (len(parts) - 3), parts, -370.2)
    rows = [row.text for row in ledger_lines(account, 77)]
    named = named_parts(account)
    assert len(named) == len(rows) == len(parts) + 1 > 12
    for part, row in zip(named, rows, strict=True):
        assert row.startswith(f"  {part.name} ") and len(row) <= 77, row
        assert row.endswith(f" {part.source}") or not part.source, row
        assert "…" not in row and (" 123 ms " in row or " -370 ms " in row), row


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 3, actual 8",
            "x's first size changed from 3 to 8",
        ),
        (
            "tensor 'L['x']' rank mismatch. expected 2, actual 3",
            "x's number of dimensions changed from 2 to 3",
        ),
        (
            "0/0: tensor 'y' rank mismatch. expected 2, actual 1. Guard failed on a parameter, consider "
            "using torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on "
            "parameters.",
            "y's number of dimensions changed from 2 to 1",
        ),
        ("1/0: L['n'] == 3", "L['n'] == 3"),
        (
            "tensor 'x' stride mismatch at index 9. expected 1, actual 4",
            "x's 10th stride changed from 1 to 4",
        ),
        (
            "0/0: tensor 'var' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect, "
            "ADInplaceOrView), actual DispatchKeySet(CPU, BackendSelect)",
            "var was made outside of torch.inference_mode() before, and inside of it now",
        ),
        (
            "0/0: tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect), actual "
            "DispatchKeySet(CUDA, BackendSelect)",
            "x's kind of tensor changed from DispatchKeySet(CPU, BackendSelect) to DispatchKeySet(CUDA, "
            "BackendSelect)",
        ),
        ("0/0: x.size()[0] < 5242880  # (_inductor/scheduler.py:326 in can_fuse)", "x.size()[0] < 5242880"),
    ],
)
def test_a_guard_is_told_plainly(reason: str, told: str) -> None:
    assert guard_text(reason) == told


def test_terms_of_a_line_are_explained_in_two_lines_each() -> None:
    assert [term for term, _ in terms_in("3 graph breaks at a.py:1, 2 kernels launched")] == [
        "graph break", "kernel", "launch",
    ]  # fmt: skip
    assert terms_in("nothing here") == []
    assert all(len(wrap(text, 90)) <= 2 for text in TERMS.values())


def test_figures_are_read_back_in_their_size() -> None:
    texts = ["999 ns", "1.20 us", "3.00 ms", "2.50 s", "27.3 min"]
    values = [parse_figure(text) for text in texts]
    assert values == sorted(value for value in values if value is not None)
    assert parse_figure("1,203") == 1203 and parse_figure("12 %") == 12 and parse_figure("match") is None


def table() -> Table:
    rows = [("a", "2.00 ms"), ("b", "30.0 us"), ("c", "·"), ("d", "1.00 s")]
    cells = [Row(name, (Span(name), Span(ms))) for name, ms in rows]
    return Table("T", (Column("name"), Column("time")), tuple(cells), find=lambda _related: ((1, 2),))


def test_a_table_is_sorted_by_size_with_what_is_unknown_last() -> None:
    down = arranged(table(), Arrangement(column=1))
    assert [row.key for row in down.rows] == ["d", "a", "b", "c"] and down.columns[1].title == "time ↓"
    assert [row.key for row in arranged(table(), Arrangement(column=1, down=False)).rows] == [
        "b",
        "a",
        "d",
        "c",
    ]
    # What belongs to a selection goes along.
    assert down.rows_of(Related()) == ((2, 3),)
    only = arranged(table(), Arrangement(words="MS"))
    assert [row.key for row in only.rows] == ["a"] and only.rows_of(Related()) == ()
    assert (
        arranged(table(), Arrangement()) == table() or arranged(table(), Arrangement()).rows == table().rows
    )


def test_sorting_goes_through_the_columns_and_ends() -> None:
    how = Arrangement()
    columns = [how := next_column(table(), how, (0, 1)) for _ in range(3)]
    assert [item.column for item in columns] == [0, 1, None]
