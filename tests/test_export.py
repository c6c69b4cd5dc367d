"""`inspector export`: a file that says what the first screen says, asks for nothing, runs only our script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from click.testing import CliRunner
from hostile import hostile_run, owned
from sharing import unpacked

from inspector.analysis.diff.verdict import verdict
from inspector.cli import cli
from inspector.comparison import compare
from inspector.explain import explain
from inspector.export import page as page_module
from inspector.export import report as report_module
from inspector.export.graph import TITLES
from inspector.export.markdown import RUNNABLE, markdown, words
from inspector.export.page import export_page
from inspector.export.report import gather_report
from inspector.hardware.host import this_host
from inspector.model.problem import InspectorError
from inspector.present.answer import Offers, answer_rows
from inspector.present.content import contains
from inspector.readers.run import Run
from inspector.replay.store import load_results
from inspector.views.pane import Reading
from inspector.views.panes import load_parts

SAMPLES = Path(__file__).parents[1] / "sample_runs"
STORY = SAMPLES / "stories" / "training_step" / "run.tar.xz"
"""Two graphs, replayed."""


class Markup(HTMLParser):
    """Tags, attributes, and the text between tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def exported(path: Path, said: list[str] | None = None) -> str:
    return export_page(Run.open(path), (said if said is not None else []).append, lambda _text: None)


def graphs_of(text: str) -> dict[str, Any]:
    packed = re.findall(r'class="packed" data-graph="([^"]*)">([^<]*)<', text)
    return {unescape(ident): json.loads(zlib.decompress(base64.b64decode(data))) for ident, data in packed}


@pytest.fixture(scope="module")
def story() -> str:
    return exported(STORY)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("breaks")
    return exported(hostile_run(unpacked(SAMPLES / "breaks" / "run.tar.xz", folder) / "breaks", folder, 0))


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With a hostile run of the same program."""
    folder = tmp_path_factory.mktemp("compared")
    sample = unpacked(SAMPLES / "breaks" / "run.tar.xz", folder) / "breaks"
    before = hostile_run(sample, folder / "hostile", 0)
    return export_page(Run.open(sample), print, lambda _text: None, Run.open(before))


# -- the bytes


def test_the_answer_is_that_of_the_first_screen(story: str) -> None:
    run = Run.open(STORY)
    explanation = explain(run, load_results(run.root), this_host())
    text = Markup(story).text
    words = [word for line, _ in answer_rows(explanation, 200, Offers()) for word in line.text.split("  ")]
    words = [word.strip("─█▏▎▍▌▋▊▉ ") for word in words if not word.startswith("──")]
    # The page has all places.
    words = [word for word in words if not re.match(r"\d+ more, ", word)]
    missing = [word for word in words if word.strip() and word.lstrip("0123456789 ") not in text]
    assert all(place.name in text for place in explanation.places)
    # Titles of columns are written out there, and numbers stand apart from titles.
    assert len([word for word in words if word]) > 20 and not missing, missing


def test_it_asks_for_nothing_and_lets_only_our_script_run(story: str) -> None:
    markup = Markup(story)
    (policy,) = [meta["content"] for meta in markup.of("meta") if "http-equiv" in meta]
    assert policy is not None and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", story, re.DOTALL)
        hashed = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert f"{directive} 'sha256-{hashed}'" in policy
    assert not re.findall(r"(?:https?:)?//[\w.]+/[^\s<]*\.(?:js|css|png|svg|woff2?)", story)
    loads = [attributes for _, attributes in markup.tags if {"src", "srcset", "style"} & set(attributes)]
    links = [attributes["href"] or "" for _, attributes in markup.tags if "href" in attributes]
    assert not loads and all(link.startswith("#") or link == "data:," for link in links)


@pytest.mark.parametrize("page", ["story", "hostile", "compared"])
def test_every_link_leads_somewhere(page: str, request: pytest.FixtureRequest) -> None:
    text = request.getfixturevalue(page)
    markup, graphs = Markup(text), graphs_of(text)
    ids = {attributes["id"] for _, attributes in markup.tags if "id" in attributes}
    targets = {attributes.get("href") or attributes.get("data-link") for _, attributes in markup.tags}
    inside = [target[1:].split("/") for target in targets if target and "/" in target]
    assert inside and {len(parts) for parts in inside} <= {2, 3}
    for ident, what, *line in (map(unquote, parts) for parts in inside):
        graph = graphs[ident]
        views = {view["id"]: view for view in graph["views"]}
        assert what in ("", *views, *graph["kernels"]) or what in json.dumps(views["kernels"]), what
        assert not line or int(line[0]) <= len(views[what]["lines"])
    assert all(target[1:] in ids for target in targets if target and target[0] == "#" and "/" not in target)


def test_the_panes_and_their_selections_are_those_of_the_screen(story: str) -> None:
    run = Run.open(STORY)
    for graph in run.graphs:
        reading, data = Reading(graph), graphs_of(story)[graph.ident]
        contents = {part.view: part.content for part in load_parts(reading)}
        views = {view["id"]: view for view in data["views"]}
        assert list(views) == [name for name in TITLES if name in views] and len(views) > 8
        compared = 0
        for name in ("fx-after", "ir-after", "code"):
            content, view = contents[name], views[name]
            assert view["lines"] == [content.text(row) for row in range(content.count)]
            for row in range(0, content.count, 7):
                ref, number = content.ref_at(row), view["refs"][row]
                related = reading.links.cross.related(ref) if ref is not None else None
                if number < 0:
                    assert related is None or not (related.calls or related.fx_after or related.leaves)
                    continue
                assert related is not None
                for other in ("fx-after", "ir-before", "code"):
                    ends = data["selections"][number]["rows"].get(other, [])
                    spans = tuple(zip(ends[::2], ends[1::2], strict=True))
                    assert spans == contents[other].rows_of(related)
                assert name == "ir-after" or contains(contents[name].rows_of(related), row)
                compared += 1
        assert compared > 10


def test_a_comparison_holds_both_sides() -> None:
    runs = [Run.open(SAMPLES / "stories" / name / "run.tar.xz") for name in ("matmuls", "first_call")]
    text = export_page(runs[1], print, lambda _text: None, runs[0])
    assert {ident.startswith("A/") for ident in graphs_of(text)} == {True, False}
    shown = Markup(text).text
    assert "Compared with matmuls" in shown and verdict(compare(runs[0], runs[1])) in shown


@pytest.mark.parametrize("page", ["hostile", "compared"])
def test_no_text_of_a_run_becomes_markup(page: str, story: str, request: pytest.FixtureRequest) -> None:
    hostile = request.getfixturevalue(page)
    markup, ours = Markup(hostile), Markup(story)
    assert hostile.count("owned()") > 5 and json.dumps(graphs_of(hostile)).count("owned()") > 50
    assert not re.search(r"<(?:script|img)[^>]*owned", hostile) and "owned()" not in re.findall(
        "<script>(.*?)</script>", hostile, re.DOTALL
    )
    assert {tag for tag, _ in markup.tags} <= {tag for tag, _ in ours.tags} | {"span"}
    names = {name for _, attributes in markup.tags for name in attributes}
    assert names <= {name for _, attributes in ours.tags for name in attributes} | {"colspan"}
    assert len(markup.of("script")) == 1 + len(graphs_of(hostile))
    assert not owned(markup.text) and "{{7*7}}" in hostile and ">49<" not in hostile
    for data in graphs_of(hostile).values():
        lines = [line for view in data["views"] for line in view.get("lines", ())]
        lines += [str(cell) for view in data["views"] for row in view.get("rows", ()) for cell in row]
        assert not [line for line in lines if owned(line)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_damaged_run_is_told_as_far_as_it_can_be(seed: int, tmp_path: Path) -> None:
    sample = unpacked(SAMPLES / "breaks" / "run.tar.xz", tmp_path) / "breaks"
    markup = Markup(exported(hostile_run(sample, tmp_path / "hostile", seed)))
    assert "Compiled graphs" in markup.text and markup.of("h1") and not owned(markup.text)


def test_what_is_too_large_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "MOST_BYTES", 40_000)
    said: list[str] = []
    text = exported(STORY, said)
    assert len(graphs_of(text)) == 1 and said == ["1 graph left out beyond 0.0 MB, those that take least"]
    assert "1 of them are too large" in text


def test_a_long_list_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "MOST_ROWS", 3)
    text = Markup(exported(SAMPLES / "breaks" / "run.tar.xz")).text
    assert re.search(r"\d+ more rows: inspector summary has all", text)


def test_a_run_without_a_graph_says_why(tmp_path: Path) -> None:
    corpus = unpacked(Path(__file__).parent / "data" / "cpu-torch2.13.tar.xz", tmp_path)
    text = Markup(exported(corpus / "cpu-torch2.13" / "cache_hit")).text
    assert "from the cache. Capture again with fresh caches" in text and "Compiled graphs · 0" in text


# -- the command


def test_a_file_that_is_there_stays_unless_told(tmp_path: Path) -> None:
    target, sample = tmp_path / "report.html", str(SAMPLES / "softmax" / "run.tar.xz")
    target.write_text("mine")
    done = CliRunner().invoke(cli, ["export", sample, "-o", str(target)])
    assert isinstance(done.exception, InspectorError) and target.read_text() == "mine"
    for place in (tmp_path, tmp_path / "nowhere" / "report.html"):
        done = CliRunner().invoke(cli, ["export", sample, "-o", str(place)])
        assert isinstance(done.exception, InspectorError) and "\n" not in str(done.exception)
    done = CliRunner().invoke(cli, ["export", sample, "-o", str(target), "--force"])
    assert done.exit_code == 0 and target.read_text().startswith("<!doctype html>")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_it_needs_neither_torch_nor_a_terminal() -> None:
    program = (
        "import sys; from inspector.export.page import export_page; from inspector.readers.run import Run\n"
        f"export_page(Run.open({str(STORY)!r}), print, id)\n"
        "print(sorted({'torch', 'triton', 'textual'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


# -- for an issue


def summary_of(path: Path) -> str:
    run = Run.open(path)
    return markdown(run, gather_report(run, print, lambda _text: None))


def test_the_summary_for_an_issue_has_versions_verdict_findings_and_a_reproduction() -> None:
    text = summary_of(STORY)
    for part in (
        "# ",
        " compiled · ",
        "torch `2.",
        "## What to change",
        "1. **",
        "## Where one call goes",
        RUNNABLE,
    ):
        assert part in text
    short = summary_of(SAMPLES / "breaks" / "run.tar.xz")
    assert (
        "```python\n" in short
        and "class Repro(torch.nn.Module)" in short
        and '- print("step", step)' in short
    )


def test_text_of_a_run_is_code_or_words_in_an_issue(tmp_path: Path) -> None:
    sample = unpacked(SAMPLES / "breaks" / "run.tar.xz", tmp_path) / "breaks"
    text = summary_of(hostile_run(sample, tmp_path / "hostile", 0))
    assert "owned()" in text and not owned(text)
    outside = re.sub(r"^ *(`{3,})\w*\n.*?^ *\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    outside = re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"[<@\[]|//|www", outside.replace("<details>", "").replace("</details>", ""))


@pytest.mark.parametrize(
    "text, shown",
    [
        ("a_b of 3 kernels", r"a\_b of 3 kernels"),
        ("- a list", r"\- a list"),
        ("1. a list", r"1\. a list"),
        ("1.24x slower", "1.24x slower"),
        ("ask @somebody", "`ask @somebody`"),
        ("see https://x.y", "`see https://x.y`"),
        ("a ` and `` b", "``` a ` and `` b ```"),
        ("<img src=x>", "`<img src=x>`"),
        ("a | b", "`a | b`"),
    ],
)
def test_words_and_code(text: str, shown: str) -> None:
    assert words(text) == shown


# -- in a browser


@asynccontextmanager
async def shown(text: str, folder: Path, link: str = "", **looks: Any) -> AsyncIterator[Any]:
    """The page in Chromium; afterwards: it asked for nothing, and nothing went wrong in it."""
    api = pytest.importorskip("playwright.async_api")
    chromium = shutil.which("chromium") or pytest.skip("no chromium")
    file = folder / "report.html"
    file.write_text(text, encoding="utf-8")
    asked, said = [], []
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu"],
        )
        page = await browser.new_page(**{"viewport": {"width": 1300, "height": 900}, **looks})
        # However busy the machine is: nothing here is about time.
        page.set_default_timeout(120_000)
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        await page.add_init_script("window.owned = () => { window.wasOwned = true }")
        await page.goto(f"{file.as_uri()}{link}")
        yield page
        assert await page.evaluate("window.wasOwned") is None
        await browser.close()
    assert [url.partition("#")[0] for url in asked] == [file.as_uri()] and not said


async def test_a_link_selects_its_line_in_all_panes(story: str, tmp_path: Path) -> None:
    ident, data = next(iter(graphs_of(story).items()))
    kernel, (first, last) = next(iter(data["kernels"].items()))
    async with shown(story, tmp_path, f"#{ident}/{kernel}/{first + 1}") as page:
        await page.wait_for_selector(f"#code-{first}.here")
        lines = [line.strip() for line in await page.locator("#panes .row.on .text").all_inner_texts()]
        (chain,) = await page.locator("#chain").all_inner_texts()
        assert kernel in chain and any("torch.ops.aten" in line for line in lines)
        assert await page.locator("#here").get_attribute("href") == f"#{ident}/{kernel}/{first + 1}"
        # One line down is another link; another pane shows what belongs to it.
        await page.locator("[aria-labelledby=title-code].body").press("ArrowDown")
        assert page.url.endswith(f"#{ident}/{quote(kernel)}/{first + 2}") and last > first + 2
        await page.keyboard.press("4")
        await page.wait_for_selector("#panes .row.here")
        assert await page.locator("#told").is_visible()
        # Every pane of every graph can be drawn.
        for graph in graphs_of(story):
            await page.select_option("#graph", graph)
            for digit in "123456":
                await page.locator("#tabs button").nth(int(digit) - 1).click()
                await page.wait_for_selector("#panes .row")


async def test_search_lists_places_that_lead_there(story: str, tmp_path: Path) -> None:
    async with shown(story, tmp_path) as page:
        await page.keyboard.press("/")
        await page.keyboard.type("aten.addmm")
        await page.wait_for_selector("#results a")
        found_at = page.locator("#results a").first
        link = await found_at.get_attribute("href")
        await found_at.click()
        await page.wait_for_selector("#panes .row.here")
        assert page.url.endswith(link) and not await page.locator("#results").is_visible()


async def test_a_hostile_run_stays_text_in_a_browser(hostile: str, tmp_path: Path) -> None:
    graphs = graphs_of(hostile)
    async with shown(hostile, tmp_path) as page:
        scripts = await page.locator("script").count()
        seen = ""
        for graph in graphs:
            await page.locator("#explorer").scroll_into_view_if_needed()
            await page.select_option("#graph", graph)
            for tab in range(6):
                await page.locator("#tabs button").nth(tab).click()
                if await page.locator("#panes .row").count():
                    await page.locator("#panes .row").first.click()
                seen += await page.locator("#explorer").inner_text()
        await page.keyboard.press("/")
        await page.locator("#search").fill("owned()")
        await page.wait_for_selector("#results a")
        assert seen.count("<script>owned()</script>") > 20 and await page.locator("img").count() == 0
        assert await page.locator("script").count() == scripts == len(graphs) + 1
        assert not owned(seen)


async def test_it_is_accessible_and_fits_a_phone(tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_core_python.async_playwright").Axe()
    text = exported(SAMPLES / "stories" / "small_softmax" / "run.tar.xz")
    async with shown(text, tmp_path, viewport={"width": 390, "height": 844}) as page:
        await page.locator("#explorer").scroll_into_view_if_needed()
        await page.wait_for_selector("#panes .row")
        await page.locator("#panes .row").nth(4).click()
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        for scheme, rules in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            await page.emulate_media(color_scheme=scheme)
            answer = await axe.run(page, options=rules)
            assert answer["passes"] and not [
                (each["id"], [node["html"] for node in each["nodes"]]) for each in answer["violations"]
            ]
