"""The extra runs of `capture --baseline`, with programs that need no torch: run, kept, said, stopped."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from waiting import PATIENCE_S, wait_until

from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import CaptureOutcome, capture
from inspector.readers.run import Run


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def script(text: str) -> str:
    Path("program.py").write_text(textwrap.dedent(text))
    return "program.py"


def captured(*words: str, **options: object) -> tuple[CaptureOutcome, str]:
    stderr = io.StringIO()
    outcome = capture(
        CaptureOptions(command=words, out=Path("run"), baseline=True, **options),  # type: ignore[arg-type]
        stderr=stderr,
    )
    return outcome, stderr.getvalue()


RUNS = """
    import json, os, sys
    names = ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DEBUG", "TORCHINDUCTOR_CACHE_DIR")
    with open("runs", "a") as file:
        print(json.dumps([sys.argv[1:], *(os.environ.get(name) for name in names)]), file=file)
    print("out", sys.stdin.read())
    print("err", file=sys.stderr)
"""


def test_the_command_runs_three_times_with_its_arguments(capfd: pytest.CaptureFixture[str]) -> None:
    outcome, said = captured(script(RUNS), "--size", "3")
    assert outcome.exit_code == 0
    runs = [json.loads(line) for line in Path("runs").read_text().splitlines()]
    assert [run[0] for run in runs] == [["--size", "3"]] * 3
    assert [run[1] for run in runs] == [None, None, "1"]
    assert [run[2] for run in runs] == ["1", None, None]
    caches = [run[3] for run in runs]
    assert len(set(caches)) == 3 and not any(Path(cache).exists() for cache in caches[1:])
    # What the user has seen once is kept, not shown again.
    assert capfd.readouterr().out.count("out") == 1
    for name in ("compiled", "eager"):
        assert Path(f"run/baseline/{name}/stdout.txt").read_text() == "out \n"
        assert Path(f"run/baseline/{name}/stderr.txt").read_text() == "err\n"
        assert outcome.manifest.baseline[name]["exit_code"] == 0
        assert f"the {name} run of the baseline left no record" in "\n".join(outcome.notes)
    assert "the command will run" in said
    assert "running the command again in eager, with Dynamo disabled" in said
    assert re.search(r"the command ran 3 times: captured .+, compiled .+, eager .+", said)
    manifest = Run.open("run").manifest
    assert manifest is not None and manifest.baseline == outcome.manifest.baseline
    assert manifest.options["baseline"] is True


def test_a_command_that_failed_is_not_run_again() -> None:
    outcome, _ = captured(script("raise SystemExit(3)"))
    assert (outcome.exit_code, dict(outcome.manifest.baseline)) == (3, {})
    assert "no baseline: the command did not end well" in outcome.notes[-1]
    assert not Path("run/baseline").exists()


def test_of_tests_that_fail_it_is_said_what_to_leave_out() -> None:
    Path("test_two.py").write_text("def test_good(): pass\ndef test_bad(): assert False\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_two.py"]
    outcome, _ = captured(*command)
    assert outcome.exit_code == 1 and "pytest --deselect TEST" in outcome.notes[-1]


def test_a_variant_that_fails_is_said_and_the_capture_stands() -> None:
    outcome, _ = captured(
        script("import os, sys; sys.exit(4 if os.environ.get('TORCHDYNAMO_DISABLE') else 0)")
    )
    assert (outcome.exit_code, outcome.manifest.status) == (0, "done")
    assert outcome.manifest.baseline["eager"]["exit_code"] == 4
    assert "the eager run of the baseline failed with exit code 4" in outcome.notes[-1]
    assert "baseline/eager/stderr.txt" in outcome.notes[-1]


def test_an_interrupt_stops_the_baseline_and_keeps_the_capture() -> None:
    program = script(
        """
        import os, time
        if "TORCH_COMPILE_DEBUG" not in os.environ:
            open("started", "w").close()
            time.sleep(6000)
        """
    )
    words = [sys.executable, "-m", "inspector.cli", "capture", "--baseline", "-o", "run", "--", program]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    wait_until(lambda: Path("started").exists() or child.poll() is not None)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert "the baseline was interrupted in its compiled run" in said
    manifest = Run.open("run").manifest
    assert manifest is not None and (manifest.status, manifest.exit_code) == ("done", 0)
    assert list(manifest.baseline) == ["compiled"] and manifest.baseline["compiled"]["interrupted"] is True
