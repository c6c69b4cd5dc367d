"""The recorder's own presence: it changes nothing of what torch compiles, and its frames are nobody's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from capturing import captured, own_folder  # noqa: F401

from inspector.model.source import SourceLocation, is_library, is_ours, users_place
from inspector.readers.dynamo_messages import parse_graph_break
from inspector.readers.run import Run

PROGRAM = Path(__file__).parent / "watched_program.py"
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def compiled(path: str) -> list[tuple[object, ...]]:
    """What of each compilation is the same in every process: frames, guards, breaks, recompiles."""
    told: list[tuple[object, ...]] = []
    for file in Run.open(path).traces:
        for item in file.content.compilations:
            guards = [(guard.kind, anonymous(guard.text), guard.location) for guard in item.guards]
            breaks = [(broken.location, broken.frames) for broken in item.breaks]
            again = [(recompile.location, recompile.reasons) for recompile in item.recompiles]
            stages = [stage.label for stage in item.stages]
            # torch leaves out the innermost frames by number, so that one of ours brings back another.
            assert not [frame for frame in item.stack if is_ours(frame.path)]
            told.append((item.rank, item.ident, item.function, item.status, guards, breaks, again, stages))
    return sorted(told, key=lambda item: (str(item[0]), str(item[1])))


def anonymous(text: str) -> str:
    """Without the addresses of objects."""
    return re.sub(r"0x[0-9a-f]+|\b\d{7,}\b", "#", text)


@pytest.mark.slow
@pytest.mark.parametrize("kinds", ["hooks in_place nested generators managers", "ddp fsdp"])
def test_graphs_breaks_and_guards_are_the_same_with_and_without_the_recorder(
    kinds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = [sys.executable, *(LAUNCHER if "ddp" in kinds else ()), str(PROGRAM), *kinds.split()]
    subprocess.run(command, env={**os.environ, "TORCH_TRACE": "plain"}, check=True, capture_output=True)
    assert captured(*command).exit_code == 0
    assert not Path("run/logs/recorder.log").exists()
    plain = compiled("plain")
    assert plain and plain == compiled("run")
    assert any(guards for *_, guards, _, _, _ in plain)
    run = Run.open("run")
    facts = run.facts()
    places = [broken.location for broken in facts.graph_breaks]
    places += [frame for broken in facts.graph_breaks for frame in broken.frames]
    places += [event.location for calls in facts.calls for event in calls.events]
    places += [item.location for calls in facts.calls for item in calls.callables]
    assert places and not [place for place in places if place is not None and is_ours(place.path)]
    if "ddp" in kinds:
        named = [
            users_place(broken.location, broken.frames) for broken in facts.graph_breaks if broken.frames
        ]
        assert named and all(place is not None and place.path == str(PROGRAM) for place in named)


OURS = "/home/me/src/inspector/capture/recorder/calls.py"
BREAK = f"""Graph break in user code at {OURS}:269
Graph Break Reason: Attempted to call function marked as skipped

User code traceback:
  File "/home/me/train.py", line 9, in main
    model(x)
  File "{OURS}", line 269, in timed
    result = function(*args, **kwargs)
  File "/usr/lib/python3.11/contextlib.py", line 105, in inner
    with self._recreate_cm():
  File "{OURS}", line 261, in timed
    return function(*args, **kwargs)
"""


def test_a_break_in_the_recorder_is_where_the_user_called() -> None:
    broken = parse_graph_break(BREAK, "0/0", 1)
    assert [frame.line for frame in broken.frames] == [9, 105]
    place = users_place(broken.location, broken.frames)
    assert place is not None and str(place) == "/home/me/train.py:9"
    nowhere = parse_graph_break(BREAK.replace("/home/me/train.py", "/usr/lib/python3.11/runpy.py"), None, 1)
    assert users_place(nowhere.location, nowhere.frames) == nowhere.location


@pytest.mark.parametrize(
    ("path", "ours", "library"),
    [
        (OURS, True, False),
        (r"C:\work\inspector\capture\bootstrap\sitecustomize.py", True, False),
        ("/venv/lib/python3.12/site-packages/inspector/capture/recorder/fusion.py", True, True),
        ("/home/me/inspector/capture/launch.py", False, False),
        ("/home/me/recorder/calls.py", False, False),
        ("/usr/lib/python3.11/contextlib.py", False, True),
        ("/home/me/.pyenv/versions/3.11.7/lib/python3.11/contextlib.py", False, True),
        ("/home/me/lib/model.py", False, False),
        (f"/home/me/run/cache/inductor/qo/c{'qoymhfkn2':a<51}.py", False, True),
        ("/home/me/qo/calibrate.py", False, False),
    ],
)
def test_whose_file(path: str, ours: bool, library: bool) -> None:
    assert (is_ours(path), is_library(path)) == (ours, library)
    assert is_ours(SourceLocation(path, 1).path) == ours
