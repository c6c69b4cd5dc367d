"""What coding agents ask: the tools as functions, and all of them over MCP with the SDK's own client."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile import hostile_run
from sharing import unpacked

from inspector.agents.tools import Looking, Running
from inspector.cli import cli
from inspector.model.problem import InspectorError

STORIES = Path(__file__).parents[1] / "sample_runs" / "stories"
LOOKS = {"list_runs", "summary", "explain", "kernel", "why_not_fused", "compare"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs as they were captured."""
    place = tmp_path_factory.mktemp("agents")
    for name in ("small_softmax", "decoder_upsample"):
        unpacked(STORIES / name / "run.tar.xz", place)
    unpacked(STORIES.parent / "transformer" / "run.tar.xz", place)
    return place


def check_next(answer: dict[str, Any]) -> None:
    for line in answer["next"]:
        words = shlex.split(line)
        assert words[0] == "inspector" and words[1] in cli.commands


def test_what_a_tool_says_is_what_the_command_says(folder: Path) -> None:
    looking = Looking(folder)
    runs = looking.list_runs()["runs"]
    assert {run["path"] for run in runs} == {"small_softmax", "decoder_upsample", "transformer"}
    assert runs == sorted(runs, key=lambda run: -run["started"]) and runs[0]["torch"]
    explained = looking.explain("decoder_upsample", limit=0)
    kernel = explained["findings"][0]["claims"][0]
    assert explained["schema"] == "inspector.explain/1" and kernel and explained["left_out"] == {}
    for answer in (
        explained,
        looking.summary("small_softmax"),
        looking.compare("small_softmax", "small_softmax"),
    ):
        assert answer["next"]
        check_next(answer)


def test_a_kernel_has_its_source_and_lines(folder: Path) -> None:
    looking = Looking(folder)
    (name, *_) = [run.name for run in looking._run("small_softmax").kernels if run.kind != "extern"]
    answer = looking.kernel("small_softmax", name)
    assert answer["source"] and answer["kernel"]["lines"] and answer["replayed"][0]["verdict"]
    check_next(answer)
    with pytest.raises(InspectorError, match=f"no kernel nope; there are: .*{name}"):
        looking.kernel("small_softmax", "nope")


def test_refusals_are_bounded_and_filtered(folder: Path) -> None:
    looking = Looking(folder)
    every = looking.why_not_fused("transformer", limit=0)["pairs"]
    assert every == sorted(every, key=lambda pair: -(pair["bytes"] or 0)) and all(
        pair["reason"] for pair in every
    )
    first = every[0]
    some = looking.why_not_fused("transformer", about=first["first"], limit=1)
    assert some["pairs"][0]["first"] == first["first"]
    asked = [pair for pair in every if first["first"] in json.dumps(pair)]
    assert some["left_out"].get("pairs", 0) >= len(asked) - len(every) and len(some["pairs"]) == 1
    assert looking.why_not_fused("transformer", about="no such text")["pairs"] == []
    with pytest.raises(InspectorError, match="no graph nope"):
        looking.why_not_fused("transformer", graph="nope")


@pytest.mark.parametrize("path", ["..", "/", "../other", "link"])
def test_nothing_beyond_the_folder_is_read(folder: Path, tmp_path: Path, path: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    shutil.copytree(folder / "small_softmax", tmp_path / "other")
    (inside / "link").symlink_to(tmp_path / "other")
    with pytest.raises(InspectorError, match="not below the folder"):
        Looking(inside).summary(path)


def test_an_allowed_capture_runs_and_a_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(tmp_path)
    said: list[tuple[str, ...]] = []

    def answered(_self: Running, *words: str) -> tuple[int, str]:
        said.append(words)
        return 0, '{"schema": "x/1"}'

    monkeypatch.setattr(Running, "_execute", answered)
    assert running.try_setting(".", "modes")["schema"] == "x/1" and "--try=modes" in said[0]
    monkeypatch.undo()
    with pytest.raises(InspectorError, match="inspector: no-such-program"):
        running.capture(["no-such-program"], "run")
    with pytest.raises(InspectorError, match="not below the folder"):
        running.capture(["true"], "../run")


async def test_every_tool_over_the_protocol(folder: Path, tmp_path: Path) -> None:
    """With a hostile run beside: its text comes as data."""
    mcp = pytest.importorskip("mcp")
    place = tmp_path / "runs"
    shutil.copytree(folder / "small_softmax", place / "soft")
    sample = unpacked(STORIES.parent / "breaks" / "run.tar.xz", tmp_path) / "breaks"
    hostile = hostile_run(sample, place, 0).relative_to(place)
    words = ["-m", "inspector", "mcp", str(place)]
    asked: dict[str, dict[str, Any]] = {
        "list_runs": {},
        "summary": {"path": str(hostile), "limit": 3},
        "explain": {"path": "soft", "limit": 3},
        "why_not_fused": {"path": "soft"},
        "compare": {"before": "soft", "after": "soft"},
    }
    async with mcp.Client(mcp.StdioServerParameters(command=sys.executable, args=words)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == LOOKS and all(tool.description for tool in tools.values())
        for name, arguments in asked.items():
            answer = await client.call_tool(name, arguments)
            assert not answer.is_error, answer
            data = answer.structured_content
            assert data == json.loads(answer.content[0].text) and data["schema"].startswith("inspector.")
            assert max((len(v) for v in data.values() if isinstance(v, list)), default=0) <= 20
        runs = (await client.call_tool("list_runs", {})).structured_content["runs"]
        assert {run["path"] for run in runs} == {"soft", str(hostile)}
        rows = Looking(place)._run("soft").kernels
        kernel = await client.call_tool("kernel", {"path": "soft", "kernel": rows[0].name})
        assert kernel.structured_content["kernel"]["name"] == rows[0].name
        wrong = await client.call_tool("explain", {"path": "../.."})
        assert wrong.is_error and "not below the folder" in wrong.content[0].text


async def test_running_is_offered_only_where_it_was_allowed(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp")
    parameters = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "inspector", "mcp", str(tmp_path), "--allow-run"]
    )
    async with mcp.Client(parameters) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == LOOKS | {"capture", "try_setting"}
        answer = await client.call_tool("capture", {"command": ["no-such-program"], "out": "run"})
        assert answer.is_error and "no-such-program" in answer.content[0].text
        answer = await client.call_tool("try_setting", {"path": "run"})
        assert answer.is_error and "run" in answer.content[0].text


def test_without_the_sdk_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inspector.agents.server import serve

    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(InspectorError, match=r"pip install 'inductor-inspector\[mcp\]'"):
        serve(tmp_path, False)
