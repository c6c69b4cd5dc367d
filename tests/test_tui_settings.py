"""Keys that a user has bound anew, and a theme that stays: the config file, and what it does on screen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tui_support import GraphsApp, lines, press, settle, text

from inspector.tui.actions import KEYS, key_name, typed_key
from inspector.tui.screens.graph import GraphScreen
from inspector.tui.screens.run import RunScreen
from inspector.tui.settings import Settings, load_settings, remember_theme, settings_path

WIDE = (160, 50)


@pytest.fixture
def config() -> Path:
    """Where the config file of this test is; there is none yet."""
    path = settings_path()
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def softmax(corpus: Path) -> str:
    return str(corpus / "cpu-torch2.13" / "softmax")


def test_the_file_is_in_the_xdg_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert settings_path() == tmp_path / "inspector" / "config.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert settings_path() == Path.home() / ".config" / "inspector" / "config.toml"


def test_no_file_sets_nothing(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "absent.toml") == Settings()


def test_keys_are_written_as_the_help_shows_them(config: Path) -> None:
    config.write_text(
        "# mine\ntheme = 'nord' # dark\n\n[keys]  # below\n"
        'stop = "^x"\nback = "esc, Q"\nhelp = "?,f2"\ncopy = "r"\nreplay = "y"\n'
    )
    assert load_settings(config) == Settings(
        "nord",
        {"stop": "ctrl+x", "back": "escape,Q", "help": "question_mark,f2", "copy": "r", "replay": "y"},
    )
    for key in KEYS:
        for name in key.keys:
            assert typed_key(key_name(name)) == name


@pytest.mark.parametrize(
    ("written", "line", "problem", "keys"),
    [
        ('[keys]\nstopp = "x"', 2, "no action is called stopp", {}),
        ('[keys]\nstop = "ctrl+nothing"\ncopy = "f9"', 2, "stop: ctrl+nothing is no key", {"copy": "f9"}),
        ('[keys]\nstop = ""', 2, "stop: nothing is no key", {}),
        ('[keys]\nstop = "y"', 2, "stop: y is the key of copy", {}),
        ('[keys]\ncopy = "f9"\nstop = "f9"', 3, "stop: f9 is the key of copy", {"copy": "f9"}),
        ('[keys]\nstop = "3"', 2, "stop: 3 is a pane", {}),
        ("[keys]\nstop = x", 2, "not a line of", {}),
        ('[colours]\nred = "x"', 1, "no table is called colours", {}),
        ('them = "nord"', 1, "nothing is called them", {}),
        ('them = "nord"\n???', 1, "(and 1 more)", {}),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_the_rest_counts(
    config: Path, written: str, line: int, problem: str, keys: dict[str, str]
) -> None:
    config.write_text(written)
    settings = load_settings(config)
    assert settings.problem.startswith(f"{config}:{line}: ") and problem in settings.problem
    assert settings.keys == keys and "\n" not in settings.problem


def test_an_unreadable_file_is_told_too(config: Path) -> None:
    config.write_bytes(b"\xff\xfe")
    assert load_settings(config).problem == f"{config}: not UTF-8; nothing of it counts"
    config.unlink()
    config.mkdir()
    assert load_settings(config).problem == f"{config}: not a file; nothing of it counts"


def test_the_theme_is_written_beside_and_the_other_lines_stay(config: Path) -> None:
    config.write_text('# mine\ntheme = "nord"\n[keys]\nstop = "f9"\n')
    assert remember_theme(config, "dracula") == ""
    assert config.read_text() == '# mine\ntheme = "dracula"\n[keys]\nstop = "f9"\n'
    config.write_text('[keys]\nstop = "f9"\n')
    assert remember_theme(config, "dracula") == ""
    assert config.read_text() == 'theme = "dracula"\n[keys]\nstop = "f9"\n'
    assert os.listdir(config.parent) == [config.name]


def test_a_link_to_the_file_stays_a_link(config: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfiles.toml").write_text("")
    config.symlink_to(tmp_path / "dotfiles.toml")
    assert remember_theme(config, "nord") == ""
    assert config.is_symlink() and load_settings(config).theme == "nord"


def test_a_theme_that_cannot_be_kept_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    problem = remember_theme(tmp_path / "file" / "config.toml", "nord")
    assert problem.endswith("config.toml: the theme is not kept: File exists")


async def test_a_rebound_key_does_it_everywhere_and_is_what_one_reads(config: Path, softmax: str) -> None:
    config.write_text('[keys]\nfusion = "F"\nsearch = "s"\nsort = "Z"\nhelp = "f2"\n')
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert "F fusion" in lines(app)[-1] and "s search" in lines(app)[-1] and "f2 help" in lines(app)[-1]
        await press(pilot, "f")
        assert isinstance(app.screen, RunScreen), "the key of before does nothing"
        await press(pilot, "F")
        assert isinstance(app.screen, GraphScreen) and app.screen.pane == "fusion"
        await press(pilot, "1", "F")
        assert app.screen.pane == "fusion"
        await press(pilot, "1", "n")
        assert "s searches" in text(app)
        await press(pilot, "s", *"soft", "enter")
        assert "/soft" in text(app)
        await press(pilot, "f2")
        assert "6 F" in text(app) or "F 6" in text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, GraphScreen)


async def test_what_is_typed_behind_a_rebound_search_key_is_searched(config: Path, softmax: str) -> None:
    config.write_text('[keys]\nsearch = "f9"\n')
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        await pilot.press("f9", *"model")
        await press(pilot, "enter")
        assert "/model" in text(app)


async def test_a_bad_file_is_one_notification_and_the_program_starts(config: Path, softmax: str) -> None:
    config.write_text('theme = "[b]none"\n[keys]\nstop = "y"\n')
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        [told] = app._notifications
        assert told.message == f"{config}:3: stop: y is the key of copy"
        assert isinstance(app.screen, RunScreen) and app.theme == "inspector"


async def test_an_unknown_theme_is_told_and_the_default_serves(config: Path, softmax: str) -> None:
    config.write_text('theme = "none"\n')
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        [told] = app._notifications
        assert "no theme is called none" in told.message and app.theme == "inspector"


async def test_a_theme_is_remembered(softmax: str) -> None:
    for theme in ("nord", "gruvbox"):
        app = GraphsApp(softmax)
        async with app.run_test(size=WIDE) as pilot:
            await settle(pilot)
            assert not settings_path().exists() or theme == "gruvbox"
            app.theme = theme
            await settle(pilot)
    assert GraphsApp(softmax).theme == "gruvbox"
    assert settings_path().read_text() == 'theme = "gruvbox"\n'


async def test_no_color_neither_takes_nor_keeps_a_theme(
    config: Path, softmax: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('theme = "nord"\n')
    monkeypatch.setenv("NO_COLOR", "1")
    app = GraphsApp(softmax)
    async with app.run_test(size=WIDE) as pilot:
        await settle(pilot)
        assert app.theme == "ansi-dark"
        app.theme = "gruvbox"
        await settle(pilot)
    assert config.read_text() == 'theme = "nord"\n'
