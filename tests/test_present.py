"""Figures, texts and tables of every subject: three digits, nothing a terminal obeys, widths in cells."""

from __future__ import annotations

import codecs
import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from rich.cells import cell_len

from inspector import units
from inspector.capture.progress import Screen
from inspector.cli.terminal import STYLES
from inspector.present.highlight import highlight
from inspector.present.spans import Span, Tone, compared, fitted, line, wrapped
from inspector.present.tables import Column, Row, Table, table_lines
from inspector.text import clean, crop, elide, is_printable, pad, plain_cells, plain_signs, tail, wrap
from inspector.tui import app as inspector_app
from inspector.tui.screens.base import InspectorScreen

# -- figures

_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "min": 6e4, "h": 3.6e6}
_BYTES = {"B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15}
_RATES = {f"{prefix}B/s": scale for prefix, scale in zip("kMGTP", (1e3, 1e6, 1e9, 1e12, 1e15), strict=True)}
SCALES: dict[str, tuple[Callable[[float], str], dict[str, float]]] = {
    "duration": (units.duration, _MS),
    "size": (lambda value: units.size(round(value)), _BYTES),
    "rate": (lambda value: units.rate(value, "B/s"), {"B/s": 1.0, **_RATES}),
    "percent": (units.percent, {"%": 0.01}),
    "ratio": (lambda value: units.ratio(value).replace("x", " x"), {"x": 1.0}),
}


def values(scale: dict[str, float]) -> list[float]:
    """Small and large ones, with the edges of every unit among them."""
    chance = random.Random(1)
    sizes = list(scale.values())
    low, high = min(sizes) / 100, max(sizes) * 1e4
    spread = [low * (high / low) ** chance.random() for _ in range(3000)]
    near = (0.9994, 0.9995, 0.99951, 0.9996, 1.0, 9.996, 99.96, 999.6)
    edges = [size * edge for size in sizes for edge in near]
    return sorted([*spread, *edges])


@pytest.mark.parametrize("kind", SCALES)
def test_figures_have_three_digits_are_near_and_never_fall(kind: str) -> None:
    write, scale = SCALES[kind]
    before = 0.0
    for value in values(scale):
        text = write(value)
        number, _, unit = text.rpartition(" ")
        assert "e" not in number
        shown = float(number.replace(",", ""))
        mantissa = number.replace(",", "").replace(".", "").lstrip("0")
        digits = mantissa if "." in number else mantissa.rstrip("0")
        assert len(digits) <= 3, text
        if unit != list(scale)[-1]:
            assert shown < 1000, text
        value = round(value) if kind == "size" else value
        step = 10.0 ** -len(number.partition(".")[2]) if "." in number else 10.0 ** max(0, len(mantissa) - 3)
        assert abs(shown * scale[unit] - value) <= step * scale[unit] * 0.5000001, (value, text)
        assert shown * scale[unit] >= before * 0.9999999, (value, text)
        before = shown * scale[unit]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (units.duration(0.99996), "1.00 ms"),
        (units.duration(999.6), "1.00 s"),
        (units.duration(0.0345), "34.5 us"),
        (units.duration(0.00034), "340 ns"),
        (units.duration(1_640_000), "27.3 min"),
        (units.duration(-0.0345), "-34.5 us"),
        (units.duration(0), "0 ns"),
        (units.with_spread(0.0172, 0.0008), "17.2 ± 0.4 us"),
        (units.with_spread(0.99996, 0.02), "1.00 ± 0.01 ms"),
        (units.size(999_960), "1.00 MB"),
        (units.size(999_960_000), "1.00 GB"),
        (units.duration(0.9997), "1.00 ms"),
        (units.duration(999.6e3), "16.7 min"),
        (units.size(999), "999 B"),
        (units.size(None), "?"),
        (units.rate(3.35e12, "B/s"), "3.35 TB/s"),
        (units.digits(2345.0), "2,340"),
        (units.some_calls(1), "1 call"),
        (units.some_calls(490_592), "491,000 calls"),
        (units.percent(0.004), "0.4 %"),
        (units.percent(-0.0003), "0 %"),
        (units.percent(12.34), "1,230 %"),
        (units.comparison(1.4, "eager"), "1.40x faster than eager"),
        (units.comparison(0.8), "1.25x slower"),
        (units.comparison(1.001, "eager"), "as fast as eager"),
        (units.count(1203), "1,203"),
        (units.plural(1, "launch"), "1 launch"),
        (units.plural(2000, "launch"), "2,000 launches"),
        (units.bar(0.5, 3), "█▌ "),
    ],
)
def test_figures_in_the_unit_that_suits_them(text: str, written: str) -> None:
    assert text == written


def test_sizes_as_they_are_typed() -> None:
    typed = {"64M": 64 << 20, "1.5G": 3 << 29, "10kib": 10240, "7": 7, "M": None, "1X": None}
    assert {text: units.parse_size(text) for text in typed} == typed


# -- texts

CONTROLS = "".join(map(chr, [*range(32), *range(127, 160)]))
HIDDEN = "\u200b\u200d\u200e\u200f\u061c\u2028\u2029\u202e\u2066\u2069\ufeff\u3164\U000e0041\udc80"
ALPHABET = "ab_ .é漢字ｗ🙂e\u0301\u0308\t\x1b\u202e"


def test_nothing_that_is_cleaned_is_obeyed() -> None:
    for char in f"{CONTROLS}{HIDDEN}".replace("\t", ""):
        shown = clean(f"a{char}b")
        assert shown.isprintable() and shown.isascii() and len(shown) > 3, hex(ord(char))
        assert clean(shown) == shown
    assert clean("\x1b]0;title\x07 [red]x[/] \u202e") == r"\x1b]0;title\x07 [red]x[/] \u202e"
    assert clean("größe → ⤷ 漢字 🙂 e\u0301") == "größe → ⤷ 漢字 🙂 e\u0301"


def test_every_way_into_a_line_is_clean() -> None:
    name = "a\x1b[31m\nb\u202e"
    shown = [
        line(name, Span(name, "bad")),
        fitted([Span(name), Span(name * 9)], 30),
        *wrapped(name * 9, 30),
        *table_lines(Table(name, (Column(name, shrinks=True),), (Row(name, (Span(name),)),)), 12),
        *table_lines(Table("", (), (Row("", (Span(name), Span(name * 5)), wide=True),)), 20),
    ]
    assert shown and all(is_printable(item.text) for item in shown)


def test_signs_keep_to_their_cells_on_a_screen_without_them() -> None:
    signs = "─│█▏▁…±→⤷✓≈▸“”╭╯é"
    codecs.register_error("cells", plain_cells)
    codecs.register_error("signs", plain_signs)
    drawn = signs.encode("ascii", errors="cells").decode()
    assert len(drawn) == len(signs) and drawn == '-|##_~~>>v~>""++?'
    assert "a → b…".encode("ascii", errors="signs") == b"a -> b.."


def test_widths_are_cells() -> None:
    chance = random.Random(2)
    for _ in range(2000):
        text = "".join(chance.choice(ALPHABET) for _ in range(chance.randrange(40)))
        width = chance.randrange(1, 30)
        whole = clean(text)
        for shown in (elide(text, width), crop(text, width), tail(whole, width)):
            assert cell_len(shown) <= width
            assert shown == whole or cell_len(whole) > width
        assert cell_len(pad(elide(text, width), width)) == width
        assert all(cell_len(part) <= max(width, 12) for part in wrap(text, max(width, 12), "  ", "    "))
    assert elide("abcdefghij", 7) == "abcd…ij" and elide("漢字漢字漢字", 7) == "漢字…字"
    assert tail("cafe\u0301s", 2) == "e\u0301s" and crop("漢字", 3) == "漢…"


def test_long_words_are_measured_in_proportion_to_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = 0

    def counted(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return cell_len(text)

    monkeypatch.setattr("inspector.text.cell_len", counted)
    word = "漢" * 40_000
    lines = wrap(word, 80)
    assert "".join(lines) == word and {cell_len(part) for part in lines} == {80}
    assert cell_len(elide(word, 80)) <= 80 and cell_len(tail(word, 79)) == 78
    assert measured < 40 * len(word)


def test_one_endless_cell_takes_its_column_no_more_than_the_others_leave() -> None:
    columns = (Column("a", shrinks=True, least=10), Column("b", shrinks=True, least=8), Column("c"))

    def shown(longest: int) -> list[str]:
        row = Row("", (Span("x" * longest), Span("y" * 70), Span("z" * 9)))
        return [item.text for item in table_lines(Table("", columns, (row,)), 80)]

    assert shown(81) == shown(100_000)
    assert all(len(text) == 80 for text in shown(100_000)[1:])


def test_a_line_that_nobody_can_read_has_no_colours() -> None:
    spans = highlight(["x = 1", "y = " + "('" * 100_000, "def f(): pass"], "python")
    assert [bool(item) for item in spans] == [True, False, True]


def test_a_word_that_shall_stay_whole_does() -> None:
    path = "/a/path/that/is/longer/than/the/line"
    assert wrap(f"see {path} there", 12, break_words=False) == ["see", path, "there"]
    assert all(len(part) <= 12 for part in wrap(f"see {path} there", 12))


def test_columns_stand_below_each_other_whatever_is_in_them() -> None:
    names = ["plain", "漢字漢字", "e\u0301te\u0301", "🙂", "a\x1bb"]
    rows = tuple(Row(name, (Span(name), Span(len(name)), Span("end"))) for name in names)
    columns = (Column("name", shrinks=True, least=6), Column("n", right=True), Column("last"))
    for width in (40, 16):
        lines = [item.text for item in table_lines(Table("", columns, rows), width)]
        (place,) = {cell_len(text[: text.index("end")]) for text in lines[1:]}
        assert place == cell_len(lines[0][: lines[0].index("last")])
        assert all(cell_len(text) <= width for text in lines)


def test_no_table_is_read_for_markup() -> None:
    text = "[red]a[/red] [@click=app.quit]b[/]"
    (_, row) = table_lines(Table("", (Column("name"),), (Row("", (Span(text),)),)), 80)
    assert row.text.rstrip() == text and re.search(r"\[red\]", row.text)


def test_each_tone_has_one_look_on_either_face() -> None:
    style_sheet = Path(inspector_app.__file__).with_name("inspector.tcss").read_text(encoding="utf-8")
    assert set(STYLES) == set(get_args(Tone))
    for tone in set(STYLES) - {""}:
        assert f"tone--{tone}" in InspectorScreen.COMPONENT_CLASSES and f".tone--{tone} {{" in style_sheet


def test_a_capture_says_its_own_lines_clean() -> None:
    stderr = io.StringIO()
    screen = Screen(stderr, live=True)
    screen.say("inspector: run saved in a\x1b]0;title\x07\n\u202eb")
    screen.show("1 graph\x1b[2J compiled " + "x" * 300)
    said, shown = stderr.getvalue().split("\n")
    assert said == "inspector: run saved in a\\x1b]0;title\\x07 \\u202eb"
    assert shown.startswith("\r\x1b[K1 graph\\x1b[2J compiled x") and shown.endswith("…") and len(shown) < 210


def test_slower_is_a_warning_and_what_was_not_compared_says_nothing() -> None:
    assert compared(1.4, "eager") == Span("1.40x faster than eager", "good")
    assert compared(0.8, "op by op", " (1 of 2 graphs)") == Span(
        "1.25x slower than op by op (1 of 2 graphs)", "warn"
    )
    assert compared(1.001) == Span("as fast")
    assert compared(None) == Span("-")
