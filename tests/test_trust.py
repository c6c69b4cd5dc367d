"""Whose code runs unasked: the user's own capture's, as long as nobody changed it; nothing else's."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import PATIENCE_S

from inspector.agents.tools import Running
from inspector.cli.replay import confirm
from inspector.cli.web import web
from inspector.contract.next import next_commands
from inspector.files import state_folder
from inspector.model.diff import Setting
from inspector.model.problem import InspectorError
from inspector.model.replay import ReplayResult
from inspector.readers.run import Run
from inspector.replay.edits import EditFolder
from inspector.replay.plan import graph_files
from inspector.replay.store import save_result
from inspector.replay.trust import foreign, what_runs
from inspector.seal import NAME, seal
from inspector.trial.blame.factors import _OWN, _trial
from inspector.trial.blame.packages import packages_of
from inspector.trial.run import command_line, why_not
from inspector.tui.navigation import Ask
from inspector.tui.replaying import ReplaySession
from inspector.tui.screens.replays import Replays
from inspector.version import __version__

GRAPH = "model__0_inference_0.0"


@pytest.fixture
def run(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A capture, sealed by this user."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = tmp_path / "run"
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", run)
    manifest = {"schema": "inspector.run/1", "command": ["python", "a b.py"], "host": os.uname().nodename}
    (run / "inspector.json").write_text(json.dumps({**manifest, "environment": {"MODE": "x\x1b[2J\ny"}}))
    seal(run)
    return run


def graph_of(run: Path) -> Path:
    return next(run.rglob("output_code.py")).parent


def test_a_capture_is_the_users_own_wherever_it_is_moved(run: Path, tmp_path: Path) -> None:
    assert foreign(Run.open(run)) is None and why_not(Run.open(run)) is None
    moved = run.rename(tmp_path / "moved")
    assert "moved or copied" in str(why_not(Run.open(moved))), "its command's words name other files there"
    (tmp_path / "link").symlink_to(moved)
    for path in (moved, tmp_path / "link", moved / "torch_compile_debug", graph_of(moved)):
        assert foreign(Run.open(path)) is None, path
    (graph_of(moved).parent / "model__9_forward_9.0").mkdir()
    (moved / "replay").mkdir()
    (moved / "replay" / "any.json").write_text("{}")
    with (moved / "inspector.json").open("r+") as file:
        manifest = json.load(file)
        file.seek(0)
        json.dump({**manifest, "problems": ["one more"]}, file)
    assert foreign(Run.open(moved)) is None, "what is not executed may change"


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda run: (graph_of(run) / name).write_text(text) and None  # type: ignore[return-value]


def _add_graph(run: Path) -> None:
    shutil.copytree(graph_of(run), graph_of(run).with_name("model__7_inference_7.7"))


def _link_graph(run: Path) -> None:
    elsewhere = run.parent / "elsewhere"
    graph_of(run).rename(elsewhere)
    (elsewhere / "output_code.py").write_text("evil")
    next(run.rglob("torchinductor")).joinpath(GRAPH).symlink_to(elsewhere)


def _change_command(run: Path) -> None:
    manifest = json.loads((run / "inspector.json").read_text())
    (run / "inspector.json").write_text(json.dumps({**manifest, "command": ["rm", "-rf", "/"]}))


def _change_seal(run: Path) -> None:
    _write("output_code.py", "evil")(run)
    data = json.loads((run / NAME).read_text())
    seal(run)
    changed = json.loads((run / NAME).read_text())
    (run / NAME).write_text(json.dumps({**changed, "hmac": data["hmac"]}))


def _pipe(run: Path) -> None:
    code = graph_of(run) / "output_code.py"
    code.unlink()
    os.mkfifo(code)


FOREIGN: list[tuple[str, Callable[[Path], object]]] = [
    ("output_code.py was changed", _write("output_code.py", "evil")),
    ("fx_graph_runnable.py was changed", _write("fx_graph_runnable.py", "evil")),
    ("ir_post_fusion.txt was changed", _write("ir_post_fusion.txt", "evil")),
    ("output_code.py was changed", _pipe),
    ("was added", _add_graph),
    ("was changed", _link_graph),
    ("inspector.json was changed", _change_command),
    ("not one of yours", _change_seal),
    ("no seal", lambda run: (run / NAME).unlink()),
    ("cannot be checked", lambda run: (run / NAME).write_text("[" * 100_000)),
    ("cannot be checked", lambda run: os.truncate(run / NAME, 1 << 33)),
    ("cannot be checked", lambda _: shutil.rmtree(state_folder())),
    ("cannot be checked", lambda _: (state_folder() / "key").chmod(0o644)),
    ("not one of yours", lambda _: (state_folder() / "key").write_text("0" * 64)),
]


@pytest.mark.parametrize(("reason", "change"), FOREIGN, ids=[str(n) for n in range(len(FOREIGN))])
def test_what_was_changed_or_is_anothers_is_foreign(
    run: Path, reason: str, change: Callable[[Path], object]
) -> None:
    change(run)
    opened = Run.open(run)
    assert reason in str(foreign(opened))
    assert "not known to be your capture" in str(why_not(opened))
    with pytest.raises(InspectorError, match="--trust"):
        confirm(opened, opened.graphs, sys.executable, trust=False)


def test_variables_of_a_record_that_was_changed_are_not_set(run: Path) -> None:
    """A repeated command's environment is partly from there, and TORCHINDUCTOR_CUTLASS_DIR names code."""
    (run / "record").mkdir()
    record = run / "record" / "rank0.jsonl"
    record.write_text("{}\n")
    seal(run)
    assert why_not(Run.open(run)) is None
    record.write_text('{"type": "state"}\n')
    assert "record/rank0.jsonl was changed" in str(why_not(Run.open(run)))
    assert foreign(Run.open(run)) is None, "replay takes no such variable from it"
    record.unlink()
    (run / "record" / "rank1.jsonl").write_text("{}\n")
    assert "record/rank1.jsonl was added" in str(why_not(Run.open(run)))


@pytest.mark.parametrize(
    ("name", "value", "given"),
    [
        ("cpp.simdlen", "256", True),
        ("max_autotune", "True", True),
        ("cpp.enable_floating_point_contract_flag", "'off'", True),
        ("cpp.cxx", "'evil'", False),
        ("cutlass.cutlass_dir", "evil", False),
        ("comment_origin", "'/tmp/evil'", False),
    ],
)
def test_no_setting_that_names_a_file_is_taken_from_a_run(name: str, value: str, given: bool) -> None:
    setting = Setting("inductor", name, value, None)
    assert (not _OWN.search(name) and _trial(setting) is not None) == given


def test_no_module_is_taken_from_the_folder_that_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an agent's server or a web browser's: it may be a folder of other people's runs."""
    proof = tmp_path / "proof"
    for name in ("json", "click", "inspector", "random", "importlib", "csv"):
        (tmp_path / f"{name}.py").write_text(f"open({str(proof)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert Running(tmp_path)._execute("--version") == (0, f"inspector, version {__version__}\n")
    assert packages_of(sys.executable)[1]["torch"]
    commands: list[list[str]] = []
    monkeypatch.setattr("inspector.cli.web._serve", lambda command, _port: commands.append(command))
    (tmp_path / "model__0_inference_0.0").mkdir()
    (tmp_path / "model__0_inference_0.0" / "output_code.py").write_text("x = 1")
    web.callback(".", 0)  # type: ignore[misc]
    (command,) = commands
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2 and "terminal" in done.stderr, done.stderr
    assert not proof.exists()


def test_without_torch_what_runs_code_says_so_in_a_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Run.open(run)
    monkeypatch.setattr("inspector.cli.replay.find_spec", lambda name: None)
    with pytest.raises(InspectorError, match="needs torch, which is not installed here; --python"):
        confirm(opened, opened.graphs, None, trust=True)
    confirm(opened, opened.graphs, sys.executable, trust=True)


def test_a_command_runs_only_in_the_folder_that_it_was_captured_in(run: Path, tmp_path: Path) -> None:
    """`python a b.py` of a copy elsewhere would be another's file of that name."""
    project = tmp_path / "project"
    project.mkdir()
    kept = run.rename(project / "run")
    manifest = json.loads((kept / "inspector.json").read_text())
    (kept / "inspector.json").write_text(json.dumps({**manifest, "options": {"cwd": ".."}}))
    seal(kept)
    assert why_not(Run.open(kept)) is None
    renamed = kept.rename(project / "renamed")
    assert why_not(Run.open(renamed)) is None, "its folder is the same"
    copied = tmp_path / "theirs" / "run"
    shutil.copytree(renamed, copied)
    assert foreign(Run.open(copied)) is None and str(project) in str(why_not(Run.open(copied)))


def test_a_run_inside_a_sealed_run_is_not_of_it(run: Path) -> None:
    """Its manifest is nobody's seal's, and it has no graphs that could be missing from one."""
    for inner in (run / "trials", run / "torch_compile_debug", run / "baseline" / "eager"):
        inner.mkdir(parents=True, exist_ok=True)
        shutil.copy(run / "inspector.json", inner)
        assert "not the one that was sealed" in str(foreign(Run.open(inner))), inner
        assert why_not(Run.open(inner)) is not None
        (inner / "inspector.json").unlink()


def test_what_is_checked_is_what_was_read_and_that_is_what_runs(run: Path, tmp_path: Path) -> None:
    code = graph_of(run) / "output_code.py"
    good = code.read_text()
    code.write_text("evil")
    early = Run.open(run)
    early.graphs[0].artifacts()
    code.write_text(good)
    assert foreign(early) is None and "as it was read" in str(foreign(early, early.graphs))
    late = Run.open(run)
    assert foreign(late, late.graphs) is None
    code.unlink()
    code.symlink_to(tmp_path / "evil")
    (tmp_path / "evil").write_text("evil")
    files = graph_files(late.graphs[0]).written_to(tmp_path / "scratch")
    assert files.output_code.read_text() == good and not files.texts
    assert files.output_code.is_relative_to(tmp_path / "scratch")
    assert files.fx_runnable is not None and files.fx_runnable.is_relative_to(tmp_path / "scratch")


def test_the_forward_graph_of_a_backward_one_is_checked_with_it(run: Path) -> None:
    torchinductor = graph_of(run).parent
    forward, backward = torchinductor / "model__3_forward_4.1", torchinductor / "model__3_backward_5.2"
    shutil.copytree(graph_of(run), forward)
    graph_of(run).rename(backward)
    seal(run)
    opened = Run.open(backward)
    assert forward / "fx_graph_runnable.py" in opened.graphs[0].sources
    assert foreign(opened, opened.graphs) is None
    (forward / "fx_graph_runnable.py").write_text("evil")
    assert foreign(Run.open(backward)) is not None
    # Also where it is changed only while it is read.
    early = Run.open(backward)
    assert early.graphs[0].sources
    (forward / "fx_graph_runnable.py").write_text((backward / "fx_graph_runnable.py").read_text())
    assert "as it was read" in str(foreign(early, early.graphs))


def test_nothing_is_written_through_links_of_a_foreign_run(run: Path, tmp_path: Path) -> None:
    outside = tmp_path / "startup"
    outside.mkdir()
    (run / "replay").symlink_to(outside)
    opened = Run.open(run)
    code = opened.graphs[0].code()
    assert code is not None
    kernel = next(kernel for kernel in code.kernels if kernel.span is not None)
    path = EditFolder(opened, opened.graphs[0].ident, kernel).path
    assert not path.is_relative_to(run) and not path.is_relative_to(outside)
    with pytest.raises(InspectorError, match="a link that leads out of the run"):
        save_result(ReplayResult({}, (), 1.0, {}), run)
    assert not list(outside.iterdir())


def test_the_browser_asks_again_where_something_else_would_run(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Ask] = []
    begun: list[str] = []
    bar = SimpleNamespace(remark=print)
    screen: Any = SimpleNamespace(post_message=asked.append, stopping="", bar=bar, is_attached=True)
    session = ReplaySession()
    replays = Replays(screen, session, lambda: None)
    monkeypatch.setattr(replays, "_begin", lambda what, _job: begun.append(what))

    def ask() -> None:
        session.run = Run.open(run)
        replays.ask(session.run.graphs)

    ask()
    assert "You captured it here" in asked[0].remark and not begun
    asked[0].answered(False)
    ask()
    asked[1].answered(True)
    ask()
    assert len(asked) == 2 and len(begun) == 2, "own code is asked about once"
    (graph_of(run) / "output_code.py").write_text("evil")
    ask()
    assert "output_code.py was changed" in asked[2].remark and len(begun) == 2
    asked[2].answered(True)
    (run / NAME).unlink()
    ask()
    assert "No seal" in asked[3].remark and len(begun) == 3


def test_the_question_names_what_runs_where_and_with_what(run: Path) -> None:
    opened = Run.open(run)
    said = what_runs(opened.graphs, "/opt/py\x1b[2Jthon")
    assert (
        said.isprintable() and str(run) in said and "output_code.py" in said and r"/opt/py\x1b[2Jthon" in said
    )


def test_an_archive_and_a_folder_that_was_never_captured_are_foreign(run: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path, "run")
    opened = Run.open(archive)
    assert foreign(opened) == "it came as an archive" and why_not(opened)
    bare = tmp_path / "bare"
    shutil.copytree(run / "torch_compile_debug", bare / "torch_compile_debug")
    assert "no seal" in str(foreign(Run.open(bare)))
    # In a sealed run, but not of it.
    inner = run / "torch_compile_debug" / GRAPH
    shutil.copytree(graph_of(run), inner)
    assert "none of the graphs" in str(foreign(Run.open(inner)))


def test_a_host_that_a_run_names_is_told_and_not_believed(run: Path) -> None:
    (run / NAME).unlink()
    assert "no seal" in str(foreign(Run.open(run)))
    (run / "inspector.json").write_text('{"schema": "inspector.run/1", "host": "el\\u001bsewhere"}')
    assert foreign(Run.open(run)) == r"it was captured on el\x1bsewhere"


def test_the_key_is_the_users_alone_and_stays_at_home(run: Path) -> None:
    key = state_folder() / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    first = key.read_bytes()
    assert not any(first in path.read_bytes() for path in run.rglob("*") if path.is_file())
    seal(run)
    assert key.read_bytes() == first, "older runs stay the user's own"
    key.chmod(0o640)
    seal(run)
    assert key.read_bytes() != first and foreign(Run.open(run)) is None


def test_what_a_trial_runs_is_shown_in_one_line_that_a_shell_would_take(run: Path) -> None:
    line = command_line(Run.open(run))
    assert line.isprintable() and line.endswith("python 'a b.py'") and r"'MODE=x\x1b[2J\ny'" in line


@pytest.mark.parametrize(
    "words", [["replay"], ["repro"], ["explain", "--measure"], ["explain", "--try", "modes"]]
)
def test_no_command_runs_what_is_not_the_users_own(run: Path, tmp_path: Path, words: list[str]) -> None:
    proof = tmp_path / "proof"
    manifest = json.loads((run / "inspector.json").read_text())
    manifest["command"] = [sys.executable, "-c", f"open({str(proof)!r}, 'w')"]
    (run / "inspector.json").write_text(json.dumps(manifest))
    for code in run.rglob("output_code.py"):
        code.write_text(f"open({str(proof)!r}, 'w')\n{code.read_text()}")
    archive = shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path, "run")
    for path in (str(run), archive):
        kernel = ["--kernel", "0"] if words == ["repro"] else []
        done = subprocess.run(
            [sys.executable, "-m", "inspector.cli", words[0], path, *words[1:], *kernel],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
        assert "not known to be your capture" in done.stderr
    assert not proof.exists()


def test_what_is_to_be_run_next_repeats_no_command_of_anothers(run: Path, tmp_path: Path) -> None:
    answers: list[dict[str, Any]] = [
        {"schema": "inspector.summary/1", "run": {"command": ["python", "a b.py"]}, "baseline": None},
        {"schema": "inspector.explain/1", "findings": [{"trial": "modes", "graph": None}]},
    ]

    def asked(path: Path | str) -> list[str]:
        proposed = [line for answer in answers for line in next_commands(answer, [str(path)])]
        return [line for line in proposed if "a b.py" in line or "--try" in line]

    assert [line.split()[1] for line in asked(run)] == ["capture", "explain"]
    archive = shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path, "run")
    for code in run.rglob("output_code.py"):
        code.write_text("evil")
    assert not any(asked(path) for path in (run, archive, tmp_path, tmp_path / "none"))
