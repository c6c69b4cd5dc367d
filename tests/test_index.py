"""An index of many runs: what is in it, what it costs to bring it up to date, what can be asked of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dying import dies_of_one
from sharing import unpacked
from test_contract import problems

from inspector.cli import cli
from inspector.cli.fleet import catalogue_at
from inspector.index import build as building
from inspector.index.build import build, parts_of
from inspector.index.query import ask, shown_tables
from inspector.index.questions import QUESTIONS
from inspector.index.sources import Found, sources_below
from inspector.index.tables import TABLES, columns
from inspector.library import open as open_run
from inspector.library.rows import RunRow
from inspector.model.problem import InspectorError

pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

SAMPLES = Path(__file__).parents[1] / "sample_runs"
NOTHING: dict[str, Any] = dict.fromkeys(RunRow.__dataclass_fields__)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run, an archive of one, what is no archive, and what is no run."""
    place = tmp_path / "nightly" / "deep"
    unpacked(SAMPLES / "breaks" / "run.tar.xz", place)
    shutil.copy(SAMPLES / "stories" / "small_softmax" / "run.tar.xz", place / "soft.tar.xz")
    (place / "bad.tar.gz").write_bytes(b"no archive at all")
    (place / "notes").mkdir()
    (place / "notes" / "a.txt").write_text("x")
    return tmp_path / "nightly"


def rows(index: Path, sql: str) -> list[tuple[Any, ...]]:
    return list(ask(index, sql).rows)


def test_an_index_has_what_the_library_says(folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    built = build([str(folder)], index, 1)
    assert (built.known, built.read, built.bad) == (0, 3, 1)
    place = folder / "deep"
    paths = [path for (path,) in rows(index, "select path from runs where error is null order by path")]
    assert paths == [str(place / "breaks"), str(place / "soft.tar.xz" / "small_softmax")]
    assert rows(index, "select path, error from runs where error is not null")[0][0] == str(
        place / "bad.tar.gz"
    )
    for path in paths:
        run = open_run(path)
        for table in ("graphs", "kernels", "blocks", "findings", "breaks", "recompiles"):
            names = [name for name, _ in columns(table)][3:]
            sql = f"select {', '.join(names)} from {table} where run = '{path}'"
            expected = [
                tuple(list(value) if isinstance(value, tuple) else value for value in each.values())
                for each in getattr(run, table).to_dicts()
            ]
            assert sorted(map(str, rows(index, sql))) == sorted(map(str, expected)), (path, table)
        (row,) = rows(
            index, f"select verdict, graphs, faster, torch, devices from runs where path = '{path}'"
        )
        assert row == (run.verdict, len(run.graphs), run.faster, run.row.torch, list(run.row.devices))


def test_only_what_is_new_or_changed_is_read_again(folder: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    build([str(folder)], index, 1)
    again = build([str(folder), str(folder / "deep")], index, 1)
    assert (again.known, again.read) == (3, 0) and len(parts_of(index)) == 1
    manifest = folder / "deep" / "breaks" / "inspector.json"
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "command": ["python", "renamed.py"]}))
    shutil.rmtree(folder / "deep" / "notes")
    (folder / "deep" / "bad.tar.gz").unlink()
    changed = build([str(folder)], index, 1)
    assert (changed.known, changed.read) == (1, 1)
    assert rows(index, "select count(*) from runs") == [(3,)]
    assert ("python renamed.py",) in rows(index, "select command from runs")
    # What is gone stays, and nothing is there twice.
    assert rows(index, "select count(*), count(distinct source) from sources") == [(3, 3)]
    breaks = rows(index, "select count(*) from breaks")
    assert breaks == [(len(open_run(folder / "deep" / "breaks").breaks),)]


def test_many_parts_become_one(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    monkeypatch.setattr(building, "_PART_SOURCES", 1)
    build([str(folder)], index, 1)
    assert len(parts_of(index)) == 3
    before = {table: rows(index, f"select * exclude (part) from {table} order by all") for table in TABLES}
    # Older parts that a kill left behind count no more than what was read again.
    shutil.copytree(index, tmp_path / "copy")
    monkeypatch.setattr(building, "_MOST_PARTS", 2)
    build([str(folder)], index, 1)
    assert len(parts_of(index)) == 1
    for part in parts_of(tmp_path / "copy"):
        shutil.copytree(part, index / part.name)
    after = {table: rows(index, f"select * exclude (part) from {table} order by all") for table in TABLES}
    assert len(parts_of(index)) == 4 and after == before


BUILD = """
import sys
from pathlib import Path
from inspector.index import build
build._PART_SOURCES = 2
if __name__ == "__main__":
    build.build([sys.argv[1]], Path(sys.argv[2]), int(sys.argv[3]))
"""


def test_a_build_that_was_killed_goes_on(tmp_path: Path) -> None:
    """With two processes, which end with it."""
    place, index = tmp_path / "runs", tmp_path / "index"
    sample = unpacked(SAMPLES / "breaks" / "run.tar.xz", tmp_path) / "breaks"
    for number in range(8):
        shutil.copytree(sample, place / str(number), symlinks=True)
    (tmp_path / "program.py").write_text(BUILD)
    words = [sys.executable, str(tmp_path / "program.py"), str(place), str(index), "2"]
    child = subprocess.Popen(words, start_new_session=True)
    while not list(index.glob("part-*")) and child.poll() is None:
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    # A kill while a part was written leaves a folder beside the parts.
    (index / "new-00000099").mkdir()
    kept = [path for (path,) in rows(index, "select path from runs")]
    assert kept and len(kept) == len(set(kept))
    built = build([str(place)], index, 1)
    assert built.known == len(kept) and built.known + built.read == 8
    paths = Counter(path for (path,) in rows(index, "select path from runs"))
    assert set(paths.values()) == {1} and len(paths) == 8
    assert rows(
        index, "select count(distinct n) from (select run, count(*) as n from breaks group by run)"
    ) == [(1,)]
    assert not list(index.glob("new-*"))


def test_a_process_that_dies_makes_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were handed out with it are read all the same."""
    monkeypatch.setattr(building, "read_source", dies_of_one)
    every = [Found(str(tmp_path / name), "1") for name in ("a", "killer", "b", "c")]
    results = list(building._from_processes(every, 2))
    said = {item["sources"][0]["source"]: item["sources"][0]["error"] for item in results}
    assert len(results) == 4 and said.pop(str(tmp_path / "killer")).startswith(
        "the process that read it died"
    )
    assert set(said.values()) == {"no run"}


def test_two_builds_do_not_write_at_once(tmp_path: Path) -> None:
    index = tmp_path / "index"
    (tmp_path / "runs").mkdir()
    with building._locked(index), pytest.raises(InspectorError, match="another build"):
        build([str(tmp_path / "runs")], index, 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(InspectorError, match="is no index and not empty"):
        build([str(tmp_path / "runs")], tmp_path / "other", 1)
    with pytest.raises(InspectorError, match="not here"):
        build([str(tmp_path / "nowhere")], index, 1)


def test_object_storage_is_read(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    unpacked(SAMPLES / "breaks" / "run.tar.xz", tmp_path)
    store.put(str(tmp_path / "breaks"), "/bucket/nightly/one", recursive=True)
    store.put(str(SAMPLES / "stories" / "small_softmax" / "run.tar.xz"), "/bucket/nightly/soft.tar.xz")
    store.pipe("/bucket/nightly/notes.txt", b"x")
    index = tmp_path / "index"
    built = build(["memory://bucket/nightly"], index, 1)
    assert (built.read, built.bad) == (2, 0)
    paths = [path for (path,) in rows(index, "select path from runs order by path")]
    assert paths == ["memory:///bucket/nightly/one", "memory:///bucket/nightly/soft.tar.xz/small_softmax"]
    store.rm("/bucket", recursive=True)
    with pytest.raises(InspectorError, match=r"nothing is here|cannot be read"):
        build(["memory://bucket/nightly"], index, 1)
    with pytest.raises(InspectorError, match="nonsense://x"):
        list(sources_below("nonsense://x"))


def test_a_cluster_reads(folder: Path, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        built = build([str(folder)], tmp_path / "index", 1, cluster.scheduler_address)
    assert (built.read, built.bad) == (3, 1)
    assert rows(tmp_path / "index", "select count(*) from runs where error is null") == [(2,)]


# -- questions


def planted(index: Path, **tables: list[dict[str, Any]]) -> Path:
    """An index with these rows."""
    index.mkdir()
    (index / "lock").touch()
    runs = [{**NOTHING, "error": None, "outcome": "unknown", **row} for row in tables.pop("runs", [])]
    names = {row["path"] for row in runs} | {row["run"] for table in tables.values() for row in table}
    building._write_part(
        index,
        [
            {
                "sources": [{"source": name, "stamp": "1", "runs": 1, "error": None} for name in names],
                "runs": [{**row, "source": row["path"]} for row in runs],
                **{name: [{**row, "source": row["run"]} for row in table] for name, table in tables.items()},
            }
        ],
    )
    return index


DAY = 86_400.0


def nightly(command: str, *times: float | None) -> list[dict[str, Any]]:
    return [
        {
            "path": f"/{command}/{day}",
            "command": command,
            "compiled_ms": ms,
            "started": 1e9 + day * DAY,
            "devices": [],
        }
        for day, ms in enumerate(times)
        if ms is not None
    ]


def test_what_got_slower_is_told(tmp_path: Path) -> None:
    index = planted(
        tmp_path / "index",
        runs=[
            *nightly("slower", 10.0, 10.0, 13.0),
            *nightly("as ever", 10.0, 10.0, 10.4),
            *nightly("faster", 10.0, 10.0, 8.0),
            *nightly("slower before", 10.0, 20.0, 20.0),
            # Not measured yesterday: the day before counts.
            *nightly("with a gap", 10.0, None, 12.0),
            *nightly("gone", 10.0, 20.0),
        ],
    )
    answer = ask(index, "got-slower")
    named = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    assert [(row["command"], row["slower"]) for row in named] == [("slower", 1.3), ("with a gap", 1.2)]
    assert named[0]["run"] == "/slower/2" and str(named[1]["before"]) == "2001-09-09"


def test_ready_questions_have_known_answers(tmp_path: Path) -> None:
    reason, place = (
        {"compile_id": None, "rank": None, "text": "", "repeated": False},
        {"how": "measured", "kernels": 1},
    )
    index = planted(
        tmp_path / "index",
        runs=[
            {"path": "/a", "outcome": "slower", "faster": 0.5, "compile_s": 3.0, "torch": "2.13"},
            {"path": "/b", "outcome": "slower", "faster": 0.8, "compile_s": 9.0},
            {"path": "/c", "outcome": "faster", "faster": 3.0},
            {"path": "/d", "error": "no archive"},
        ],
        breaks=[
            {"run": run, "line": f"m.py:{number}", "reason": why, **reason}
            for number, (run, why) in enumerate(
                [("/a", "print"), ("/b", "print"), ("/b", "item"), ("/b", "print")]
            )
        ],
        recompiles=[{"run": "/a", "function": "f", "reason": "L['x'].size()[0] == 3", "reasons": []}],
        blocks=[
            {"run": "/a", "name": "x", "ms": 1.0, **place},
            {"run": "/b", "name": "y", "ms": 7.0, **place},
        ],
        findings=[
            {"run": run, "rule": rule, "severity": severity, "cost_ms": cost}
            for run, rule, severity, cost in [
                ("/a", "host_bound", "high", 1.5),
                ("/b", "host_bound", "high", 2.0),
                ("/b", "graph_breaks", "medium", None),
                ("/c", "host_bound", "low", 5.0),
            ]
        ],
        kernels=[
            {"run": "/a", "name": "slow", "ms": 4.0, "roofline_fraction": 0.5},
            {"run": "/a", "name": "small", "ms": 0.1, "roofline_fraction": 0.1},
        ],
        differences=[
            {"run": "/a", "kind": "graph", "subject": "0/0", "text": "t", "ranks": ["rank 0: 1", "rank 1: 2"]}
        ],
    )
    known: dict[str, list[tuple[Any, ...]]] = {
        "slowest-blocks": [
            (7.0, None, "y", "measured", 1, None, "/b"),
            (1.0, None, "x", "measured", 1, "2.13", "/a"),
        ],
        "breaks-by-reason": [(3, 2, "print", "m.py:0"), (1, 1, "item", "m.py:2")],
        "recompiles-by-reason": [(1, 1, "L['x'].size()[0] == 3", "f")],
        "got-slower": [],
        "ranks-that-differ": [("/a", "graph", "0/0", "t", ["rank 0: 1", "rank 1: 2"])],
        "slower-than-eager": [(2.0, None, None, None, "/a"), (1.25, None, None, None, "/b")],
        "findings-by-rule": [("host_bound", 2, 2, 3.5), ("graph_breaks", 1, 1, None)],
        "kernels-far-from-the-roof": [(0.5, 4.0, "slow", None, "/a"), (0.1, 0.1, "small", None, "/a")],
        "longest-compiles": [(9.0, None, None, None, None, "/b"), (3.0, None, None, None, "2.13", "/a")],
        "bad-runs": [("/d", "no archive")],
        "all-runs": [
            ("/a", 0.5, *[None] * 6, 3.0, "2.13", None, None),
            ("/b", 0.8, *[None] * 6, 9.0, None, None, None),
            ("/c", 3.0, *[None] * 10),
            ("/d", *[None] * 10, "no archive"),
        ],
    }
    assert set(known) == set(QUESTIONS)
    for name, expected in known.items():
        assert rows(index, name) == expected, name


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "select content from read_text('{file}')",
        "copy runs to '{file}2'",
        "attach '{file}2'",
        "install httpfs",
        "set enable_external_access = true",
        "create table x as select 1",
        "delete from runs",
        "select 1; select 2",
        "select nonsense from runs",
        "export database '{file}2'",
        "pragma database_list",
    ],
)
def test_a_question_reads_the_index_alone(sql: str, tmp_path: Path) -> None:
    index = planted(tmp_path / "index", runs=[{"path": "/a"}])
    (tmp_path / "secret").write_text("secret")
    with pytest.raises(InspectorError) as refused:
        ask(index, sql.format(file=tmp_path / "secret"))
    assert "\n" not in str(refused.value) and not (tmp_path / "secret2").exists()


@pytest.mark.parametrize("name", ["a=b", "a*", "a?c", "a[bc]c", "{abc,x}", "a[*]c"])
def test_an_index_is_its_folder_whatever_that_is_called(name: str, tmp_path: Path) -> None:
    """Neither a column more, nor the rows of an index beside it."""
    planted(tmp_path / "abc", runs=[{"path": "/other"}])
    index = planted(tmp_path / name, runs=[{"path": "/a"}])
    assert rows(index, "select path from runs") == [("/a",)]


@pytest.mark.parametrize("there", [False, True])
def test_a_disk_without_room_keeps_no_half_of_a_part(
    folder: Path, tmp_path: Path, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor anything else, where there was nothing."""
    if there:
        (tmp_path / "index").mkdir()

    def full(_table: object, path: Path, **_named: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(building.arrow().parquet, "write_table", full)
    with pytest.raises(InspectorError, match="No space left"):
        build((str(folder),), tmp_path / "index", 1, None, lambda _text: None)
    left = [path.name for path in (tmp_path / "index").iterdir()] if there else (tmp_path / "index").exists()
    assert left == (["lock"] if there else False)


def test_questions_on_the_command_line(tmp_path: Path) -> None:
    index = str(planted(tmp_path / "index", runs=[{"path": "/a", "torch": "2.13", "devices": ["cpu"]}]))
    shown = CliRunner().invoke(
        cli, ["query", "select path, torch from runs", "-i", index], catch_exceptions=False
    )
    assert shown.output.split() == ["path", "torch", "/a", "2.13", "1", "row"]
    for words in (["select *, make_timestamp(0) as t from runs"], ["bad-runs"], []):
        done = CliRunner().invoke(cli, ["query", *words, "-i", index, "--json"], catch_exceptions=False)
        assert problems("query", json.loads(done.stdout)) == []
    offered = CliRunner().invoke(cli, ["query"], catch_exceptions=False).output
    assert all(name[:12] in offered for name in (*QUESTIONS, *shown_tables()))
    for words, why in (
        (["nonsense"], "neither SQL nor a ready question"),
        (["bad-runs", "-i", "nowhere"], "no index"),
    ):
        with pytest.raises(InspectorError, match=why):
            CliRunner().invoke(cli, ["query", "-i", index, *words], catch_exceptions=False)


def test_a_system_that_binds_no_process_to_cpus(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")  # macOS has none
    index = str(tmp_path / "index")
    done = CliRunner().invoke(cli, ["index", str(folder), "-o", index], catch_exceptions=False)
    assert "3 sources read" in done.output


def test_a_folder_that_is_an_index_is_opened_as_one(tmp_path: Path) -> None:
    index = planted(tmp_path / "index", runs=[{"path": "/a", "started": 0.0}, {"path": "/b", "error": "bad"}])
    opened = catalogue_at(str(index))
    assert opened is not None and list(opened.questions) == list(QUESTIONS)
    answer = opened.ask("all-runs")
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    assert [(row["run"], row["started_utc"], row["error"]) for row in rows] == [
        ("/a", "1970-01-01 00:00", None),
        ("/b", None, "bad"),
    ]
    (tmp_path / "lock").touch()
    assert catalogue_at(str(tmp_path)) is None and catalogue_at(str(tmp_path / "nowhere")) is None


def test_what_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(InspectorError, match=r"inductor-inspector\[index\]"):
        build([str(tmp_path)], tmp_path / "index", 1)
    with pytest.raises(InspectorError, match=r"inductor-inspector\[index\]"):
        ask(tmp_path, "select 1")
