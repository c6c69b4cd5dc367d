"""The pytest plugin: the mark and the fixture `compiles` hold what a test compiles against a budget.

What is captured runs in a process of its own, as `inspector capture` does it: what this process has compiled,
and its caches, play no part. Relations are those of `inspector check` (`inspector.gates`), and so are the
words. Nothing but pytest is imported before a test asks.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest

if TYPE_CHECKING:
    from inspector.gates.budget import Budget
    from inspector.readers.run import Run

PLUGIN = "inspector.pytest_plugin"
"""The entry point's name, too, so that a child that names it has it once."""
SKIPPED = "INSPECTOR_PYTEST_SKIPPED"
"""Set in the child that runs a marked test: the file that gets the reason where the test skips itself."""
_MOST_SAID = 4000


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "compiles(graph_breaks=0, recompiles=..., share_kernel=[...], no_fallback=[...], traffic=..., "
        "peak_memory=..., error='eager', faster=True, packages={...}, budget='budget.toml'): what the test "
        "compiles keeps these relations; alone: no graph breaks",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """A marked test runs in a child, which is captured; in that child as ever."""
    marks = list(pyfuncitem.iter_markers("compiles"))
    if not marks or SKIPPED in os.environ:
        return None
    if any(mark.args for mark in marks):
        pytest.fail("compiles: relations are named, such as graph_breaks=0", pytrace=False)
    # The closest mark comes first, and what it says holds.
    asked: dict[str, Any] = {}
    for mark in reversed(marks):
        asked |= mark.kwargs
    budget = _budget(asked, pyfuncitem.config.rootpath)
    with _folder() as folder:
        _judge(_capture_test(pyfuncitem, folder, budget), budget)
    return True


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In the child: why the test was skipped."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.skipped and (place := os.environ.get(SKIPPED)) and item.get_closest_marker("compiles"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        Path(place).write_text(reason.removeprefix("Skipped: "), encoding="utf-8")


@pytest.fixture
def compiles(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`compiles(fn, *args, graph_breaks=0, ...)` compiles a function or module in a process of its own, calls
    it 20 times with these arguments, and fails where a relation is not kept; gives the run. `kwargs` are the
    function's own, `mode` is torch.compile's, `calls` another number of calls."""

    def check(
        fn: Callable[..., object],
        *args: object,
        kwargs: Mapping[str, object] | None = None,
        mode: str | None = None,
        calls: int = 20,
        **relations: Any,
    ) -> object:
        from inspector.library import capture
        from inspector.model.problem import InspectorError

        budget = _budget(relations, request.config.rootpath)
        with _folder() as folder, patch.dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, sys.path))):
            # The child imports the test's module as this process did.
            try:
                run = capture(
                    fn, *args, out=folder / "run", baseline=bool(budget.faster), calls=calls, mode=mode,
                    **(kwargs or {}),
                )  # fmt: skip
            except InspectorError as error:
                pytest.fail(str(error), pytrace=False)
            _judge(run.files, budget)
        return run

    return check


def _budget(asked: Mapping[str, Any], root: Path) -> Budget:
    from inspector.gates.budget import Budget, from_data, merged, read_budget
    from inspector.model.problem import InspectorError

    relations = dict(asked)
    file = relations.pop("budget", None)
    try:
        own = from_data(relations, "compiles")
        budget = merged(read_budget(root / str(file)), own) if file is not None else own
    except InspectorError as error:
        pytest.fail(str(error), pytrace=False)
    return Budget(graph_breaks=0) if budget.empty else budget


@contextmanager
def _folder() -> Iterator[Path]:
    """For a run, which stays where the test fails."""
    folder = Path(tempfile.mkdtemp(prefix="inspector-test-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _capture_test(item: pytest.Function, folder: Path, budget: Budget) -> Run:
    from inspector.capture.environment import CaptureOptions
    from inspector.capture.launch import capture
    from inspector.library.captured import Quiet
    from inspector.model.problem import InspectorError
    from inspector.readers.run import Run as RunFiles
    from inspector.text import clean

    said = bytearray()

    class Kept(Quiet):
        def write_stdout(self, data: bytes) -> bool:
            said.extend(data)
            return True

    skipped = folder / "skipped"
    # Options of the whole session, such as one for processes, are not this test's.
    pytest_words = ("-p", PLUGIN, "-p", "no:cacheprovider", "-q", "--no-header", "-o", "addopts=")
    rootdir = f"--rootdir={item.config.rootpath}"
    test = str(item.config.rootpath / item.nodeid)
    options = CaptureOptions(
        command=(sys.executable, "-m", "pytest", *pytest_words, rootdir, test),
        out=folder / "run",
        baseline=bool(budget.faster),
        env=((SKIPPED, str(skipped)),),
    )
    try:
        outcome = capture(options, display=Kept())
    except InspectorError as error:
        pytest.fail(str(error), pytrace=False)
    if skipped.exists():
        reason = skipped.read_text(encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(reason)
    if outcome.exit_code:
        text = bytes(said[-_MOST_SAID:]).decode("utf-8", "replace")
        lines = "\n".join(map(clean, re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")))
        pytest.fail(f"the test failed where it was captured:\n{lines}", pytrace=False)
    return RunFiles.open(outcome.run)


def _judge(run: Run, budget: Budget) -> None:
    """Fails with a line for each breach; what was not judged is a warning."""
    from inspector.gates.judge import judge
    from inspector.present.gates import sentence_of

    report = judge(run, budget, _replayed(run) if budget.error else ())
    for item in report.judged:
        if item.note:
            warnings.warn(f"not judged: {item.relation}: {item.note}", stacklevel=2)
    if report.breaches:
        lines = [sentence_of(breach, str(Path.cwd())) for breach in report.breaches]
        pytest.fail("\n".join([*lines, f"more: inspector open {run.root}"]), pytrace=False)


def _replayed(run: Run) -> tuple[Any, ...]:
    """The results of all graphs on this machine."""
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions
    from inspector.replay.spawn import replay_graphs

    graphs = [graph_files(graph) for graph in run.graphs if graph.files]
    return (replay_graphs(graphs, ReplayOptions(whole=False, time_kernels=False)),)
