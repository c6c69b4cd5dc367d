"""The parts of a capture that need no child: what is set, what is hidden, what is said."""

from __future__ import annotations

import ast
import io
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capturing import manifest_of

from inspector.analysis.nothing import cached_graphs
from inspector.capture import manifest as machine
from inspector.capture.command import resolve
from inspector.capture.diagnosis import diagnose, read_bootstrap_log
from inspector.capture.environment import (
    BOOTSTRAP,
    CaptureOptions,
    ChildEnvironment,
    HiddenLogs,
    artifacts_for,
    build,
    merge_logs,
    parse_setting,
)
from inspector.capture.follow import Seen, count_graphs
from inspector.capture.launch import capture
from inspector.capture.manifest import shown_environment, shown_folder, write_manifest
from inspector.capture.progress import Screen, progress_text
from inspector.capture.stderr_filter import StderrFilter, TorchLog
from inspector.model.problem import InspectorError
from inspector.model.run import Manifest
from inspector.readers.run import Run

RUN = Path("/runs/one")
HIDDEN = HiddenLogs(
    artifacts=frozenset({"fusion", "graph_breaks"}), warnings=frozenset({"fusion"}), trace_paths=True
)
STAMP = b"1121 05:00:18.841000 1398 torch/_inductor/scheduler.py:1820] [0/0]"


def built(base: dict[str, str] | None = None, **options: Any) -> ChildEnvironment:
    asked = CaptureOptions(("python",), **options)
    return build(base or {}, asked, run=RUN, caches=RUN / "cache", torch_version="2.13.0+cpu")


# -- log artifacts


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("2.4.1", {"fusion", "cudagraphs"}, {"loop_ordering", "autotuning"}),
        ("2.5.1+cu121", {"fusion", "loop_ordering"}, {"autotuning"}),
        ("2.7.0", {"loop_ordering", "autotuning"}, set()),
        ("2.13.0+cpu", {"fusion", "loop_ordering", "autotuning"}, set()),
        (None, {"fusion", "cudagraphs"}, {"loop_ordering", "autotuning"}),
        ("unknown", {"fusion", "cudagraphs"}, {"loop_ordering", "autotuning"}),
        ("2.3.0", {"graph_breaks", "recompiles"}, {"fusion", "cudagraphs"}),
    ],
)
def test_only_artifacts_that_the_version_knows(version: str | None, has: set[str], lacks: set[str]) -> None:
    names = set(artifacts_for(version))
    assert has <= names
    assert not lacks & names


def test_the_users_own_logs_are_kept_and_shown() -> None:
    merged, hidden = merge_logs("graph_breaks, inductor", ("fusion", "graph_breaks"), None)
    assert merged == "graph_breaks,inductor,fusion"
    assert hidden.artifacts == {"fusion"}


def test_a_verbose_module_of_the_user_shows_its_default_artifacts() -> None:
    hidden = merge_logs("+dynamo", ("fusion", "graph_breaks", "recompiles"), None)[1]
    assert hidden.artifacts == {"fusion"}


def test_extra_logs_are_hidden_too() -> None:
    merged, hidden = merge_logs("", ("fusion",), "schedule,+inductor")
    assert merged == "fusion,schedule,+inductor"
    assert hidden.artifacts == {"fusion", "schedule"}
    assert hidden.untagged
    assert not merge_logs("inductor", ("fusion",), "+dynamo")[1].untagged


def test_warnings_that_torch_shows_by_default_stay() -> None:
    hidden = merge_logs("", ("fusion", "graph_breaks"), None)[1]
    assert hidden.warnings == {"fusion"}


# -- the environment


def test_torch_writes_into_the_run() -> None:
    made = built().variables
    assert made["TORCH_COMPILE_DEBUG"] == "1"
    assert made["TORCH_COMPILE_DEBUG_DIR"] == "/runs/one"
    assert made["TORCH_TRACE"] == "/runs/one/trace"
    assert made["TORCH_LOGS_OUT"] == "/runs/one/logs/torch_logs.txt"
    assert made["TORCHINDUCTOR_CACHE_DIR"] == "/runs/one/cache/inductor"
    assert made["TRITON_CACHE_DIR"] == "/runs/one/cache/triton"
    assert "TORCHINDUCTOR_ENABLED_METRIC_TABLES" not in made


def test_the_recorder_is_let_in_unless_it_is_switched_off() -> None:
    made = built().variables
    assert made["PYTHONPATH"] == str(BOOTSTRAP)
    assert json.loads(made["INSPECTOR_BOOTSTRAP"])["record"] == {
        "folder": "/runs/one/record",
        "log": "/runs/one/logs/recorder.log",
        "complete": True,
    }
    off = built(record=False).variables
    assert "PYTHONPATH" not in off
    assert "INSPECTOR_BOOTSTRAP" not in off


def test_no_fresh_leaves_the_users_caches_and_says_so() -> None:
    made = built({"TRITON_CACHE_DIR": "/mine"}, fresh=False)
    assert "TORCHINDUCTOR_CACHE_DIR" not in made.full
    assert made.full["TRITON_CACHE_DIR"] == "/mine"
    assert "--no-fresh" in made.notes[0]


def test_what_the_user_passes_wins() -> None:
    made = built(env=(("TORCHINDUCTOR_CACHE_DIR", "/mine"), ("TORCH_TRACE", "/else"), ("TORCH_LOGS", "aot")))
    assert made.full["TORCHINDUCTOR_CACHE_DIR"] == "/mine"
    assert made.full["TORCH_TRACE"] == "/else"
    assert made.full["TORCH_LOGS"].startswith("aot,")
    assert any("TORCH_TRACE" in note for note in made.notes)
    assert made.variables["TORCH_TRACE"] == "/else"


def test_formats_that_would_spoil_the_log_are_left_out() -> None:
    made = built({"TORCH_LOGS_FORMAT": "short", "HOME": "/h"})
    assert "TORCH_LOGS_FORMAT" not in made.full
    assert made.full["HOME"] == "/h"
    assert "TORCH_LOGS_FORMAT" in made.notes[0]
    kept = built({}, env=(("TORCH_LOGS_FORMAT", "short"),))
    assert kept.full["TORCH_LOGS_FORMAT"] == "short"


def test_dtrace_does_not_take_the_trace_away() -> None:
    assert built({"TORCH_DTRACE": "/elsewhere"}).full["TORCH_DTRACE"] == "/runs/one/trace"


def test_the_trace_path_line_is_the_users_own_where_they_asked_for_it() -> None:
    assert built().hidden.trace_paths
    assert not built({"TORCH_COMPILE_DEBUG": "1"}).hidden.trace_paths


def test_settings_use_torchs_variable_where_there_is_one() -> None:
    config = (("max_autotune", "true"), ("inductor.triton.cudagraphs", "False"))
    made = built(config=config, record=False).variables
    assert made["TORCHINDUCTOR_MAX_AUTOTUNE"] == "1"
    assert made["TORCHINDUCTOR_CUDAGRAPHS"] == "0"
    assert "INSPECTOR_BOOTSTRAP" not in made


def test_other_settings_and_the_mode_go_to_the_bootstrap() -> None:
    config = (("dynamo.cache_size_limit", "16"), ("max_fusion_size", "2"))
    made = built({"PYTHONPATH": "/a"}, config=config, mode="reduce-overhead", record=False)
    assert made.full["PYTHONPATH"] == f"{BOOTSTRAP}{os.pathsep}/a"
    assert json.loads(made.variables["INSPECTOR_BOOTSTRAP"]) == {
        "log": "/runs/one/logs/bootstrap.log",
        "mode": "reduce-overhead",
        "config": [
            ["torch._dynamo.config", "cache_size_limit", 16],
            ["torch._inductor.config", "max_fusion_size", 2],
        ],
        "record": None,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("None", None), ("3", 3), ("0.5", 0.5), ("aten,triton", "aten,triton"), ("1e3", 1000.0)],
)
def test_values_of_settings(text: str, value: object) -> None:
    parsed = parse_setting("anything", text).value
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize("key", ["", "a b", "3x", "dynamo.", "a..b", "x=y"])
def test_a_setting_needs_a_name(key: str) -> None:
    with pytest.raises(InspectorError, match="--config"):
        parse_setting(key, "1")


def test_a_dictionary_is_json() -> None:
    with pytest.raises(InspectorError, match=r"--config passes=\{'one': 1\}: no JSON .*example: --config"):
        parse_setting("passes", "{'one': 1}")


# -- the filter


def filtered(data: bytes, hidden: HiddenLogs = HIDDEN) -> bytes:
    log_filter = StderrFilter(hidden)
    return log_filter.feed(data) + log_filter.close()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (b"V" + STAMP + b" [__fusion] fusing op1 with op2\n", b""),
        (b"W" + STAMP + b" [__fusion] \n", b""),
        (b"V" + STAMP + b" [__graph_breaks] Graph break\n", b""),
        (b"[rank0]:V" + STAMP + b" [__fusion] x\n", b""),
        (b"[default1]:[rank1]:V" + STAMP + b" [__fusion] x\n", b""),
        (b"W1121 05:02:31.243000 1 torch/_inductor/debug.py:545] [0/0] model__0 debug trace: /x y/z\n", b""),
        (b"\r 50%|###  | 1/2V" + STAMP + b" [__fusion] x\n\r100%", b"\r 50%|###  | 1/2\r100%"),
        (b"V" + STAMP + b" [__fusion] the end is missing", b""),
    ],
)
def test_lines_of_the_capture_are_hidden(text: bytes, shown: bytes) -> None:
    assert filtered(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        b"W" + STAMP + b" [__graph_breaks] a warning torch shows anyway\n",
        b"V" + STAMP + b" [__guards] switched on by the user\n",
        b"W" + STAMP + b" hit the recompile limit\n",
        b"I1121 05:00:18.841000 77 other/glog.cc:12] another library\n",
        b"W1121 05:02:31.243000 1 user/code.py:5] my debug trace: x\n",
        b"\xff\x00\r\r\n\x1b[31mred\x1b[0m\n\n",
        b"talk of [__fusion] in a line\n",
        b"V1121 is no record\nVIWEC",
        b"[rank0]: [",
    ],
)
def test_everything_else_passes_unchanged(text: bytes) -> None:
    assert filtered(text) == text


def test_untagged_information_is_hidden_only_on_request() -> None:
    line = b"I" + STAMP + b" a module speaks\n"
    assert filtered(line) == line
    assert filtered(line, HiddenLogs(untagged=True)) == b""


def test_the_pieces_in_which_text_arrives_do_not_matter() -> None:
    text = b"".join(
        (
            b"one\nEnter V\r 10%|#",
            b"V" + STAMP + b" [__fusion] a\n[rank3]:V" + STAMP + b" [__fusion] b\n",
            b"[rank3]:W" + STAMP + b" kept\n\xff\xfe[x]:[y]:",
            b"V" + STAMP + b" [__fusion] c\nlast V11",
        )
    )
    expected = b"one\nEnter V\r 10%|#[rank3]:W" + STAMP + b" kept\n\xff\xfelast V11"
    assert filtered(text) == expected
    chance = random.Random(5)
    for size in (1, 2, 7, 50):
        log_filter = StderrFilter(HIDDEN)
        shown, rest = b"", text
        while rest:
            cut = chance.randint(1, size)
            shown += log_filter.feed(rest[:cut])
            rest = rest[cut:]
        assert shown + log_filter.close() == expected


def test_unfinished_lines_appear_at_once() -> None:
    log_filter = StderrFilter(HIDDEN)
    assert log_filter.feed(b"\r 10%|#   | 1/10") == b"\r 10%|#   | 1/10"
    assert log_filter.feed(b"Continue? V") == b"Continue? "
    assert log_filter.holding
    assert log_filter.flush() == b"V"
    assert log_filter.feed(b"V" + STAMP) == b""
    assert log_filter.flush() == b""


def test_with_torchs_own_file_only_what_it_has_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / "torch_logs.txt"
    path.write_bytes(b"V" + STAMP + b" [__fusion] a\n[rank1]:I" + STAMP + b" [__fusion] b\n")
    text = b"".join(
        (
            b"[default0]:V" + STAMP + b" [__fusion] a\n",
            b"[rank1]:I" + STAMP + b" [__fusion] b\n",
            b"E" + STAMP + b" [__fusion] the program's own\n",
            b"V" + STAMP.replace(b"1", b"2") + b" [__fusion] the program's own, too\n",
        )
    )
    log_filter = StderrFilter(HIDDEN, TorchLog(path))
    shown = log_filter.feed(text) + log_filter.close()
    assert shown.count(b"\n") == 2 and b"fusion] a" not in shown and b"fusion] b" not in shown


def test_a_line_that_torch_writes_into_its_file_in_parts_is_hidden(tmp_path: Path) -> None:
    path = tmp_path / "torch_logs.txt"
    line = b"V" + STAMP + b" [__fusion] " + b"x" * 100_000 + b"\n"
    path.write_bytes(line[:60_000])
    log_filter = StderrFilter(HIDDEN, TorchLog(path))
    assert log_filter.feed(line) == b""
    path.write_bytes(line)
    assert log_filter.feed(b"the program's own\n") + log_filter.close() == b"the program's own\n"


def test_captured_runs_show_nothing_of_our_logs(corpus: Path) -> None:
    seen = 0
    for path in sorted(corpus.glob("*/*/stderr.txt")):
        data = path.read_bytes()
        hidden = merge_logs("", artifacts_for("2.13"), None)[1]
        every = HiddenLogs(hidden.artifacts, hidden.warnings, True, False)
        shown = filtered(data, every)
        for name in every.artifacts:
            assert f"[__{name}]".encode() not in shown, path
        assert b" debug trace: /" not in shown
        seen += data.count(b"\n") - shown.count(b"\n")
    assert seen > 1000


# -- commands


def test_a_script_runs_with_this_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train it.py").write_text("")
    monkeypatch.chdir(tmp_path)
    command = resolve(("train it.py", "--lr", "1"))
    assert command.argv == (sys.executable, "train it.py", "--lr", "1")
    assert command.name == "train_it"
    assert command.plain


def test_a_module_runs_with_this_interpreter() -> None:
    command = resolve(("-m", "package.train", "x"))
    assert command.argv == (sys.executable, "-m", "package.train", "x")
    assert command.name == "package.train"


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ((sys.executable, "-X", "dev", "-u", "a/b.py"), "b"),
        ((sys.executable, "-W", "ignore", "-m", "m.n"), "m.n"),
        ((sys.executable, "-c", "pass"), "command"),
        (("sh", "-c", "true"), "sh"),
    ],
)
def test_names_for_run_folders(words: tuple[str, ...], name: str) -> None:
    assert resolve(words).name == name


@pytest.mark.parametrize(
    ("head", "known"),
    [
        (f"#!{sys.executable}\n", True),
        (f'#!/bin/sh\n\'\'\'exec\' "{sys.executable}" "$0" "$@"\n', True),
        ("#!/bin/bash\n", False),
        ("\x7fELF", False),
    ],
)
def test_the_interpreter_of_a_console_script(tmp_path: Path, head: str, known: bool) -> None:
    script = tmp_path / "torchrun"
    script.write_text(head)
    script.chmod(0o755)
    (tmp_path / "train.py").write_text("")
    command = resolve((str(script), "--nproc-per-node", "2", str(tmp_path / "train.py")))
    assert command.python == (sys.executable if known else None)
    assert not command.plain
    assert command.name == "train"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no command"),
        (("",), "no command"),
        (("-m",), "-m needs"),
        (("--fast", "x.py"), "--fast is not a command"),
        (("nowhere.py",), "nowhere.py: no such file"),
        (("no-such-program-here",), "no-such-program-here: command not found"),
    ],
)
def test_what_cannot_be_run_is_refused(
    words: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InspectorError, match=message) as error:
        capture(CaptureOptions(command=words))
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fastest"}, "--mode fastest"),
        ({"config": (("a b", "1"),)}, "--config a b=1"),
        ({"env": (("", "1"),)}, "--env =1"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(InspectorError, match=message):
        capture(CaptureOptions(command=(sys.executable, "-c", ""), **options))  # type: ignore[arg-type]


# -- the manifest


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = Manifest(
        command=("python", "train é.py"),
        status="failed",
        exit_code=3,
        started=12.5,
        seconds=2.25,
        python="3.11.7",
        torch_version="2.13.0",
        triton_version=None,
        devices=("NVIDIA H200",),
        environment={"A": "1"},
        options={"fresh": True, "config": {"x": None}},
        problems=("one",),
        host="h",
        platform="p",
    )
    write_manifest(tmp_path, manifest)
    assert [path.name for path in tmp_path.iterdir()] == ["inspector.json"]
    assert json.loads((tmp_path / "inspector.json").read_text())["schema"] == "inspector.run/1"
    assert manifest_of(tmp_path) == (manifest, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "not JSON"), ("[1]", "not a JSON object"), ("[" * 100_000, "not JSON"), ("", "not JSON")],
)
def test_a_broken_manifest_is_one_problem(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "inspector.json").write_text(text)
    manifest, problems = manifest_of(tmp_path)
    assert manifest is None
    assert [message in problem.message for problem in problems] == [True]


def test_wrong_fields_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    data = {"schema": "inspector.run/9", "command": "x", "status": "odd", "exit_code": True, "started": "now"}
    data |= {"environment": [], "torch_version": 2, "seconds": 1.5, "host": "h", "later": 1}
    (tmp_path / "inspector.json").write_text(json.dumps(data))
    manifest, problems = manifest_of(tmp_path)
    assert manifest is not None
    assert (manifest.command, manifest.exit_code, manifest.seconds, manifest.host) == ((), None, 1.5, "h")
    said = " ".join(problem.message for problem in problems)
    for name in ("schema", "command", "status", "exit_code", "started", "environment", "torch_version"):
        assert name in said
    assert len(problems) == 7


def test_paths_in_the_manifest_move_with_the_run() -> None:
    shown = shown_environment({"B": "/runs/one/trace", "A": "/tmp/l/triton"}, RUN, Path("/tmp/l"))
    assert shown == {"A": "RUN/cache/triton", "B": "RUN/trace"}
    assert shown_folder(Path("/runs"), RUN) == ".."
    assert shown_folder(Path("/home/me"), RUN) == "/home/me"


def test_the_gpus_that_the_child_can_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_nvidia_names", lambda environment: ("A", "B", "C"))
    assert machine.devices({}, "2.11.0+cu130") == ("A", "B", "C")
    assert machine.devices({"CUDA_VISIBLE_DEVICES": "2,0"}, None) == ("C", "A")
    assert machine.devices({"CUDA_VISIBLE_DEVICES": ""}, None) == ("cpu",)
    assert machine.devices({"CUDA_VISIBLE_DEVICES": "GPU-1234"}, None) == ("A", "B", "C")
    assert machine.devices({}, "2.13.0+cpu") == ("cpu",)


# -- what is said afterwards


def traced(run: Path, *events: str) -> None:
    (run / "trace").mkdir()
    lines = [f"V{STAMP.decode().removesuffix(' [0/0]')} {event}\n\tdynamo_start\n" for event in events]
    (run / "trace" / "dedicated_log_torch_trace_x.log").write_text("".join(lines))


START = '{"dynamo_start": {"stack": []}, "frame_id": 0}'
GRAPH = '{"dynamo_output_graph": {"sizes": {}}, "frame_id": 0}'
HIT = '{"artifact": {"name": "fx_graph_cache_hit", "encoding": "json"}}'


@pytest.mark.parametrize(
    ("events", "environment", "exit_code", "fresh", "said"),
    [
        ((), {}, 0, True, "no function made by torch.compile was called"),
        ((), {"TORCHDYNAMO_DISABLE": "1"}, 0, True, "TORCHDYNAMO_DISABLE=1"),
        ((), {"TORCH_COMPILE_DISABLE": "0"}, 0, True, "no function made"),
        ((START, GRAPH, HIT), {}, 0, False, "capture without --no-fresh"),
        ((START, GRAPH, HIT), {}, 0, True, "TORCHINDUCTOR_FX_GRAPH_CACHE=0"),
        ((START, GRAPH, START, GRAPH), {}, 0, True, "Dynamo made 2 graphs, but Inductor compiled none"),
        ((START,), {}, 0, True, "no tensor computation"),
        ((START,), {}, 4, True, "before the command failed with exit code 4"),
        ((START, GRAPH), {}, 4, True, "before Inductor compiled one"),
    ],
)
def test_why_nothing_was_compiled(
    tmp_path: Path,
    events: tuple[str, ...],
    environment: dict[str, str],
    exit_code: int,
    fresh: bool,
    said: str,
) -> None:
    traced(tmp_path, *events)
    status = "failed" if exit_code else "done"
    manifest = Manifest(("python",), status, exit_code, 0.0, 0.0, options={"fresh": fresh})
    notes = diagnose(tmp_path, manifest, environment, CaptureOptions(("python",), fresh=fresh))
    assert len(notes) == 1
    assert said in notes[0]


def test_graphs_beside_cached_ones(tmp_path: Path) -> None:
    traced(tmp_path, START, GRAPH, HIT)
    (tmp_path / "torch_compile_debug" / "run_1" / "torchinductor" / "model__0_inference_0.0").mkdir(
        parents=True
    )
    (tmp_path / "torch_compile_debug" / "run_1" / "torchinductor" / "aot_model___0_debug.log").write_text("")
    assert count_graphs(tmp_path) == 1
    manifest = Manifest(("python",), "done", 0, 0.0, 0.0)
    notes = diagnose(tmp_path, manifest, {}, CaptureOptions(("python",), record=False))
    assert [note.startswith("1 more graph came from a cache") for note in notes] == [True]


def test_the_trace_of_a_real_cache_hit(corpus: Path) -> None:
    facts = Run.open(corpus / "cpu-torch2.13" / "cache_hit").facts()
    frames, graphs = (facts.event_kinds[name] for name in ("dynamo_start", "dynamo_output_graph"))
    assert (frames, graphs, cached_graphs(facts.cache_events)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "ignores PYTHONPATH"),
        ("ready 1 python\n", "never imported"),
        ("ready 1 python\nfailed 1 a.b = 3: no\nfailed 2 a.b = 3: no\n", "could not be set: a.b = 3: no"),
        ("ready 1 python\napplied 1 a.b = 3\n", None),
    ],
)
def test_settings_without_effect_are_told(tmp_path: Path, text: str | None, said: str | None) -> None:
    if text is not None:
        (tmp_path / "bootstrap.log").write_text(text)
    notes = read_bootstrap_log(tmp_path / "bootstrap.log")
    assert len(notes) == (said is not None)
    assert said is None or said in notes[0]


# -- the screen


def test_progress_text() -> None:
    assert progress_text(Seen((Path("a"), Path("b"), Path("c"))), 12.9) == "3 graphs compiled · 12 s"
    assert progress_text(Seen((Path("a"),)), 125) == "1 graph compiled · 2 min 05 s"


def test_the_progress_line_gives_way_to_the_program() -> None:
    stream = io.StringIO()
    screen = Screen(stream, live=True)
    screen.show("busy")
    screen.write_stderr(b"line\n")
    screen.show("busy")
    screen.clear()
    assert stream.getvalue() == "\r\x1b[Kbusy\r\x1b[Kline\n\r\x1b[Kbusy\r\x1b[K"


def test_no_progress_line_behind_an_unfinished_line() -> None:
    stream = io.StringIO()
    screen = Screen(stream, live=True)
    screen.write_stderr(b"\r 50%")
    screen.show("busy")
    assert stream.getvalue() == "\r 50%"
    screen.say("done")
    assert stream.getvalue() == "\r 50%\ndone\n"


def test_no_progress_line_without_a_terminal() -> None:
    stream = io.StringIO()
    screen = Screen(stream, live=False)
    screen.show("busy")
    screen.clear()
    assert stream.getvalue() == ""


def test_the_bootstrap_imports_nothing_that_a_program_may_have_a_module_of() -> None:
    """What an interpreter has loaded by then; and its annotations are no expressions of a newer Python."""
    tree = ast.parse((BOOTSTRAP / "sitecustomize.py").read_text(), feature_version=(3, 9))
    imported = [
        alias.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert imported == ["_frozen_importlib", "_frozen_importlib_external", "os", "sys"]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            given = [node.returns, *(argument.annotation for argument in node.args.args)]
            assert all(isinstance(each, ast.Name | ast.Constant | None) for each in given), node.name


def test_a_program_gets_the_signals_of_a_batch_system_and_learns_that_nobody_reads_its_errors(
    tmp_path: Path,
) -> None:
    (tmp_path / "prog.py").write_text(
        "import os, signal, time\n"
        "told = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: told.append(print('saved', flush=True)))\n"
        "print('ready', flush=True)\n"
        "while not told: time.sleep(0.01)\n"
        "try:\n"
        "    while True: os.write(2, b'x' * 1000 + b'\\n')\n"
        "except BrokenPipeError: print('gone', flush=True)\n"
        "os._exit(4)\n"
    )
    program = ["--", sys.executable, "prog.py"]
    words = [sys.executable, "-m", "inspector.cli", "capture", "-q", "-o", "run", *program]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.stdout.readline() == b"saved\n"
        process.stderr.close()
        assert process.stdout.readline() == b"gone\n"
    assert process.returncode == 4
