"""What a coding agent gets: every tool called by the SDK's own client, and causes named from the JSON alone.

    python benchmarks/agents.py [RUN...]       3 minutes; with RUNs, folders or archives whose cause is known (RULE/NAME...)

Tools: `inspector mcp` is started on the stories' runs, listed, and each tool is called, with `--allow-run` a capture and a
trial of it too. Causes: a script that sees nothing but `explain --json --limit 3` names one as docs/agents.md says, then follows
`next`, each of which has to work; it and the first finding are held against what is known of each story (docs/stories.md), and
what `change` says has to be the whole of it. 1 where a tool fails, `next` has a command that does, or the script is right less
often than the first finding.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import asyncio
import json
import re
import shlex
import subprocess
import tarfile
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mcp
from common import CLI, PYTHON, ROOT, machine

STORIES = ROOT / "sample_runs" / "stories"
LIMIT = 3
PROGRAM = """\
import torch

@torch.compile
def f(x):
    return (x.sin() + x.cos()).softmax(-1)

for _ in range(20):
    f(torch.randn(64, 64))
"""


def known() -> dict[Path, str]:
    """Archive -> what its story is about, from the table of docs/stories.md."""
    rows = re.findall(r"^\| `([\w/]+)` \|[^|]*\| `(\w+)`", (ROOT / "docs" / "stories.md").read_text(), re.M)
    archives = {STORIES / (name if "/" in name else f"{name}/run"): rule for name, rule in rows}
    return {path.with_suffix(".tar.xz"): rule for path, rule in archives.items()}


async def tools(folder: Path, paths: list[str]) -> int:
    """Lists and calls every tool; how many fail."""
    failed = 0
    words = ["-m", "inspector.cli", "mcp", str(folder), "--allow-run"]
    async with mcp.Client(mcp.StdioServerParameters(command=PYTHON, args=words)) as client:
        offered = [tool.name for tool in (await client.list_tools()).tools]

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            nonlocal failed
            begin = time.perf_counter()
            answer = await client.call_tool(name, arguments)
            text = answer.content[0].text
            failed += answer.is_error
            calls.setdefault(name, []).append((time.perf_counter() - begin, len(text), answer.is_error))
            return {} if answer.is_error else answer.structured_content

        calls: dict[str, list[tuple[float, int, bool]]] = {}
        runs = (await call("list_runs", limit=0))["runs"]
        assert sorted(run["path"] for run in runs) == sorted(paths), runs
        for path in paths:
            await call("summary", path=path)
            await call("explain", path=path)
            pairs = await call("why_not_fused", path=path)
            await call("compare", before=path, after=paths[0])
            kernels = [kernel for pair in pairs.get("pairs", ()) for kernel in pair["kernels"] if kernel]
            if kernels:
                await call("kernel", path=path, kernel=kernels[0], graph=pairs["pairs"][0]["graph"])
        (folder / "program.py").write_text(PROGRAM)
        await call("capture", command=[PYTHON, str(folder / "program.py")], out="captured")
        await call("try_setting", path="captured", setting="modes")
    print(f"\n{'tool':<15} {'calls':>5} {'failed':>6} {'slowest':>8} {'longest answer':>15}")
    for name in offered:
        done = calls.get(name, [])
        print(
            f"{name:<15} {len(done):>5} {sum(bad for *_, bad in done):>6} {max((s for s, *_ in done), default=0):>6.1f} s"
            f" {max((size for _, size, _ in done), default=0) / 1e3:>12.1f} KB"
        )
    return failed + len(set(offered) - set(calls))


def asked(words: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run([*CLI, *words], capture_output=True, text=True, cwd=folder, timeout=600)
    return done.returncode, done.stdout


def named(answer: dict[str, Any]) -> str:
    """The cause, as docs/agents.md has it: the first finding, on a busy machine the first that is not about that."""
    busy = answer["quality"] == "busy"
    findings = answer["findings"]
    return next((item for item in findings if not busy or item["account"] != "remark"), findings[0])["rule"]


def causes(runs: dict[Path, str], folder: Path) -> tuple[int, int, int]:
    """How often the script and the first finding name what is known, and how many `next` fail."""
    right = first_right = failed = 0
    print(f"\n{'run':<34} {'known':<26} {'first finding':<26} {'script':<26} {'bytes':>6}  next")
    for path, rule in runs.items():
        _, text = asked(["explain", str(path), "--json", "--limit", str(LIMIT)], folder)
        answer = json.loads(text)
        whole = json.loads(asked(["explain", str(path), "--json", "--limit", "0"], folder)[1])
        for finding, same in zip(answer["findings"], whole["findings"], strict=False):
            assert finding["change"] == same["change"], finding["rule"]
        first, chosen = answer["findings"][0]["rule"], named(answer)
        ends = [asked(shlex.split(line)[1:], folder)[0] for line in answer["next"] if "--try" not in line]
        failed += sum(end not in (0, 1) for end in ends)
        right += chosen == rule
        first_right += first == rule
        name = f"{path.parent.name}/{path.name.split('.')[0]}"
        print(
            f"{name:<34} {rule:<26} {first:<26} {chosen:<26} {len(text):>6}  {len(ends)} {'ok' if max(ends, default=0) < 2 else 'FAILED'}"
        )
    return right, first_right, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path, help="of known cause: their folder's name")
    given = parser.parse_args()
    runs = {path.resolve(): path.resolve().parent.name for path in given.runs} or known()
    print(f"python benchmarks/agents.py, {machine()}")
    with TemporaryDirectory(prefix="inspector-bench-") as folder:
        place = Path(folder)
        paths = []
        for archive in sorted(known()):
            with tarfile.open(archive) as tar:
                paths.append(f"{archive.parent.name}_{archive.name.split('.')[0]}")
                tar.extractall(place / "all" / paths[-1])
        inner = [f"{name}/{next((place / 'all' / name).iterdir()).name}" for name in paths]
        failed = asyncio.run(tools(place / "all", inner))
        right, first, bad = causes(runs, place)
    print(
        f"\nof {len(runs)} the script is right {right} times, the first finding {first}; tools that failed: {failed}, next: {bad}"
    )
    return 1 if failed or bad or right < first else 0


if __name__ == "__main__":
    raise SystemExit(main())
