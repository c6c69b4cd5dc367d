"""Checks a release: built, its metadata right, installed by pip, uv and pipx, library and commands there.

Run by ``make release``, which goes on with ``make plain``: every command shown, with torch and without, and
each extra. The version is that of inspector/version.py everywhere, and the changelog has a heading for it.
What is built stays in dist/. Needs a package registry; takes minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
IN_WHEEL = ("py.typed", "export/page/page.html", "capture/bootstrap/sitecustomize.py", "tui/inspector.tcss")
"""Of what is no module, or is read as a file: a wheel without it breaks far from the cause."""
LOOKS = "sample_runs/transformer/run.tar.xz"


def run(*words: str | Path, **options: str) -> str:
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        **options,
    }
    done = subprocess.run(
        [*map(str, words)], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def version() -> str:
    (text,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "inspector/version.py").read_text(), re.MULTILINE)
    return str(text)


def check(what: str, right: bool) -> None:
    print(f"{'ok   ' if right else 'WRONG'}  {what}", flush=True)
    if not right:
        raise SystemExit(1)


def built(tools: Path) -> tuple[Path, Path]:
    """(sdist, wheel): the wheel is made of what the sdist holds."""
    for old in DIST.glob("inductor_inspector-*"):
        old.unlink()
    run(tools / "python", "-m", "build", "--outdir", DIST)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    check(
        "metadata and description as a registry takes them",
        "PASSED" in run(tools / "twine", "check", "--strict", sdist, wheel),
    )
    return sdist, wheel


def check_contents(sdist: Path, wheel: Path) -> None:
    stem = f"inductor_inspector-{version()}"
    check(f"both are of version {version()}", sdist.name.startswith(stem) and wheel.name.startswith(stem))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    check(
        "the changelog has this version first",
        re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == version(),
    )
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "inspector").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    check(
        "the wheel has all of the package",
        source <= names and all(f"inspector/{name}" in names for name in IN_WHEEL),
    )
    check("and nothing else", all(name.startswith(("inspector/", f"{stem}.dist-info/")) for name in names))
    with tarfile.open(sdist) as tar:
        inside = {name.partition("/")[2] for name in tar.getnames()}
    check("the source archive has all of it too", source <= inside and "LICENSE" in inside)


def check_installed(bin_folder: Path, how: str) -> None:
    inspector = bin_folder / "inspector"
    check(f"{how}: --version", version() in run(inspector, "--version"))
    check(f"{how}: explain, without torch", "transformer" in run(inspector, "explain", ROOT / LOOKS))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="inspector-release-") as name:
        place = Path(name)
        run(sys.executable, "-m", "venv", place / "tools")
        tools = place / "tools" / "bin"
        run(tools / "python", "-m", "pip", "install", "--quiet", "build", "twine", "uv", "pipx")
        sdist, wheel = built(tools)
        check_contents(sdist, wheel)
        run(sys.executable, "-m", "venv", place / "pip")
        run(place / "pip/bin/python", "-m", "pip", "install", "--quiet", "-c", "constraints.txt", wheel)
        check_installed(place / "pip/bin", "pip")
        program = (
            "import inspector, sys; run = inspector.open(sys.argv[1]); "
            "print(inspector.__version__, len(run.kernels), 'torch' in sys.modules)"
        )
        said = run(place / "pip/bin/python", "-c", program, ROOT / LOOKS).split()
        check("pip: the library", said[0] == version() and int(said[1]) > 0 and said[2] == "False")
        run(
            tools / "uv",
            "tool",
            "install",
            wheel,
            UV_TOOL_DIR=str(place / "uv"),
            UV_TOOL_BIN_DIR=str(place / "uv-bin"),
        )
        check_installed(place / "uv-bin", "uv")
        run(
            tools / "pipx",
            "install",
            wheel,
            PIPX_HOME=str(place / "pipx"),
            PIPX_BIN_DIR=str(place / "pipx-bin"),
        )
        check_installed(place / "pipx-bin", "pipx")


if __name__ == "__main__":
    main()
