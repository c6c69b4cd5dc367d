"""README and docs/: links lead somewhere, commands answer, what is made from the program is up to date."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import commands
import constants
import pictures
import pytest
from click.testing import CliRunner
from explaining import explained
from plain_install import RUNS, shown_commands

from inspector.cli import cli
from inspector.cli.examples import EXAMPLES

ROOT = Path(__file__).parents[1]

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LOOKS = {"summary", "explain", "diff", "fusions", "ir-diff", "trace"}
WRITES = {"lower", "export", "report", "pack", "check", "index", "query"}


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^    .*$|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_page_of_commands_is_what_help_prints() -> None:
    """`python docs/tools/commands.py` writes it."""
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page()


def test_every_number_of_explain_has_a_reason_beside_it() -> None:
    """`python docs/tools/constants.py` writes the page."""
    found = constants.constants()
    assert {"LOUD", "FACTOR", "REACHED"} <= {item.name for item in found}
    assert [item for item in found if not item.reason] == []
    assert constants.PAGE.read_text(encoding="utf-8") == constants.page()


def test_a_reason_is_of_the_numbers_above_it() -> None:
    text = "A = 1 << 4\nB: float = -0.5\n'why'\nC = 'x'\n'no'\nD = (1, 2.0)\nE = A * A\nF = True\nG = A\n"
    found = [(item.name, item.value, item.reason) for item in constants.of_module(text, "m")]
    assert found == [("A", "1 << 4", "why"), ("B", "-0.5", "why"), ("D", "(1, 2.0)", ""), ("E", "A * A", "")]


def test_every_command_has_examples() -> None:
    assert set(EXAMPLES) == set(cli.commands)
    assert all(len(lines) >= 2 for lines in EXAMPLES.values())


@pytest.mark.parametrize("line", shown_commands())
def test_a_shown_command_is_one(line: str) -> None:
    """Known command, known options; `make plain` runs all of them."""
    words = words_of(line)
    command = cli.commands[words[0]]
    assert isinstance(command, click.Command)
    # click keeps what it made of the settings for help: later tests would see another one without them.
    command.make_context(words[0], words[1:], click.Context(cli, **cli.context_settings))


def words_of(line: str) -> list[str]:
    """The command's words without redirection, with a run that is here in place of those named."""
    story = ROOT / "sample_runs" / "stories" / "decoder_upsample"
    words = shlex.split(line.partition(" > ")[0])[1:]
    words = [str(story / "run.tar.xz") if word in RUNS else word for word in words]
    words = [str(story / "decoder_upsample.py") if word.endswith(".json.gz") else word for word in words]
    return [str(ROOT / word) if word.startswith("sample_runs/") else word for word in words]


def only_looks(line: str) -> bool:
    """Executes nothing of the run, and any run that was captured will do."""
    words = line.split()[1:]
    special = {
        "--measure",
        "--make",
        "--try",
        "--profile",
        "--ncu",
        "--rank",
        "--svg",
        "runs.tar.xz/softmax",
        "compiled.json.gz",
    }
    return words[0] in LOOKS and not special & set(words)


@pytest.mark.parametrize("line", [line for line in shown_commands() if only_looks(line)])
def test_a_shown_command_that_only_looks_answers(line: str) -> None:
    words = words_of(line)
    if "--compile-id" in words:
        words[words.index("--compile-id") + 1] = "0/0"
    words = ["fx_graph_runnable" if word == "aot_joint_graph" else word for word in words]
    answer = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert answer.exit_code == 0 and answer.output.strip()


def only_writes(line: str) -> bool:
    """Executes nothing of the run either, and writes what it makes into the folder that it is started in."""
    words = line.split()[1:]
    return words[0] in WRITES and not {"--make", "--kernel", "--dask"} & set(words)


@pytest.mark.parametrize("line", [line for line in shown_commands() if only_writes(line)])
def test_a_shown_command_that_writes_answers(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words, good = words_of(line), words_of("inspector summary run")[-1]
    words = [good if word in ("good", "nightly") else word for word in words]
    if "-o" in words:
        # A run's name there is what is to be written.
        words[words.index("-o") + 1] = re.findall(r"-o (\S+)", line)[0]
    before = {
        "check": ["check", good, "--budget", "budget.toml", "--write"],
        "query": ["index", good, "-o", "fleet"],
    }
    if words[0] == "query" or words[0] == "index":
        pytest.importorskip("duckdb")
    if words[0] in before and "--write" not in words:
        assert CliRunner().invoke(cli, before[words[0]], catch_exceptions=False).exit_code == 0
    answer = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    written = {"-o", "--write"} & set(words)
    assert list(tmp_path.iterdir()) if written else answer.output.strip()


_STORY = re.compile(
    r"^\| `(?P<name>\w+)(?:/(?P<run>\w+))?` \|(?P<told>[^|]*)\| `(?P<rule>\w+)`(?P<more>[^|]*)\|", re.M
)
_COMPARED = re.compile(r"([\d.]+)(?:x| times) (slower|faster) than eager")


def test_the_table_of_stories_says_what_explain_says() -> None:
    """What comes first, but for a machine that was busy, and how compiled compares with eager."""
    rows = list(_STORY.finditer((ROOT / "docs" / "stories.md").read_text(encoding="utf-8")))
    folders = [path.name for path in (ROOT / "sample_runs" / "stories").iterdir() if path.is_dir()]
    assert sorted({row["name"] for row in rows}) == sorted(folders)
    for row in rows:
        told = explained(ROOT / "sample_runs" / "stories" / row["name"] / f"{row['run'] or 'run'}.tar.xz")
        first = next(finding.rule for finding in told.findings if finding.rule != "machine_busy")
        assert row["rule"] == first, row["name"]
        for factor, how in _COMPARED.findall(row["told"] + row["more"]):
            assert told.faster is not None and how == ("faster" if told.faster > 1 else "slower"), row["name"]
            assert float(factor) == pytest.approx(max(told.faster, 1 / told.faster), rel=0.05), row["name"]


def test_the_pictures_shown_are_the_pictures_made() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    shown = {Path(name).stem for text in texts for name in re.findall(r"!\[[^]]*\]\(([^)]+\.svg)\)", text)}
    assert shown == {picture.name for picture in pictures.PICTURES}
    for name in shown:
        # Fonts and the like that a reader's browser would fetch.
        assert not re.search(
            r"url\([^#]|@font-face|href=", (pictures.FOLDER / f"{name}.svg").read_text(encoding="utf-8")
        )
