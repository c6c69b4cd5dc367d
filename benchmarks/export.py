"""`inspector export` of every sample run and of the captured runs of tests/data: size, time, and the page in Chromium.

    python benchmarks/export.py [-k TEXT] [--pictures FOLDER]      5 minutes

Each page is opened in a new headless browser: seconds until it is loaded, and until the first graph's panes are
drawn; requests beside the file itself; errors and warnings of scripts and of the content security policy; axe-core's
violations (WCAG A and AA) in light and dark and at a phone's width, where axe-core-python is installed. `--pictures`
keeps screenshots. Prints a table; 1 where a page is larger than 5 MB, asks for something, or has an error.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from common import CLI, DATA, ROOT, corpus
from playwright.sync_api import sync_playwright

MOST_BYTES = 5_000_000
LOOKS = (("light", 1280, 900), ("dark", 1280, 900), ("light", 390, 844))


class Page(NamedTuple):
    loaded_s: float
    drawn_s: float | None
    asked: int
    errors: list[str]
    violations: list[str] | None


def runs(folder: Path) -> Iterator[tuple[str, Path]]:
    for archive in sorted((ROOT / "sample_runs").rglob("run.tar.xz")):
        yield str(archive.parent.relative_to(ROOT / "sample_runs")), archive
    for group in sorted(path for path in folder.iterdir() if path.is_dir()):
        for run in sorted(path for path in group.iterdir() if (path / "torch_compile_debug").is_dir()):
            yield f"{group.name}/{run.name}", run


def axe() -> Any:
    try:
        return import_module("axe_core_python.sync_playwright").Axe()
    except ImportError:
        return None


def look(browser: Any, file: Path, pictures: Path | None, name: str) -> Page:
    """The page in each of the looks; times are of the first one."""
    checker = axe()
    asked: list[str] = []
    errors: list[str] = []
    violations: set[str] = set()
    times: list[tuple[float, float | None]] = []
    for scheme, width, height in LOOKS:
        page = browser.new_page(
            color_scheme=scheme, viewport={"width": width, "height": height}, reduced_motion="reduce"
        )
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        start = time.perf_counter()
        page.goto(file.as_uri())
        loaded, drawn = time.perf_counter() - start, None
        if page.locator("#explorer").count():
            start = time.perf_counter()
            page.evaluate("document.getElementById('code').scrollIntoView()")
            page.wait_for_selector("#panes .row")
            drawn = time.perf_counter() - start
        times.append((loaded, drawn))
        if checker is not None:
            violations |= {each["id"] for each in checker.run(page)["violations"]}
        if page.evaluate("document.documentElement.scrollWidth") > width:
            errors.append(f"wider than {width}")
        if pictures is not None:
            page.screenshot(path=pictures / f"{name.replace('/', '-')}-{scheme}-{width}.png", full_page=True)
        page.close()
    elsewhere = [url for url in asked if url != file.as_uri()]
    return Page(*times[0], len(elsewhere), errors, sorted(violations) if checker is not None else None)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-k", default="", help="only runs with this in their names")
    parser.add_argument("--pictures", type=Path, help="folder for screenshots")
    options = parser.parse_args()
    if options.pictures is not None:
        options.pictures.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    print(
        f"{'run':<42}{'size':>9}{'export':>9}{'loaded':>9}{'drawn':>9}{'asked':>7}{'errors':>8}  accessibility"
    )
    bad = False
    with corpus() as folder, TemporaryDirectory() as place, sync_playwright() as playwright:
        with tarfile.open(DATA / "h200-profiles.tar.xz") as tar:
            tar.extractall(folder)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for name, run in runs(folder):
            if options.k not in name:
                continue
            file = Path(place) / "report.html"
            start = time.perf_counter()
            done = subprocess.run(
                [*CLI, "export", str(run), "-o", str(file), "--force"], capture_output=True, text=True
            )
            took = time.perf_counter() - start
            if done.returncode:
                print(f"{name:<42}{done.stderr.strip()}")
                bad = True
                continue
            size, page = file.stat().st_size, look(browser, file, options.pictures, name)
            drawn = f"{page.drawn_s:.2f} s" if page.drawn_s is not None else "-"
            said = "not checked" if page.violations is None else ", ".join(page.violations) or "no violation"
            print(
                f"{name:<42}{size / 1e3:>6.0f} KB{took:>7.1f} s{page.loaded_s:>7.2f} s{drawn:>9}"
                f"{page.asked:>7}{len(page.errors):>8}  {said}{'  ' + page.errors[0] if page.errors else ''}",
                flush=True,
            )
            bad |= size > MOST_BYTES or bool(page.asked) or bool(page.errors) or bool(page.violations)
        browser.close()
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
