"""Captures of real commands: what passes through, how they end, and what torch leaves in the run."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import venv
from pathlib import Path

import pytest
from capturing import manifest_of
from terminals import Terminal
from waiting import PATIENCE_S, is_running, wait_until, wait_until_gone

from inspector.capture.environment import CaptureOptions
from inspector.capture.follow import graph_folders
from inspector.capture.launch import CaptureOutcome, capture
from inspector.model.problem import InspectorError
from inspector.model.run import GRAPH_FILES
from inspector.readers.run import Run

DRIVER = """
import sys
import inspector.capture.child as child
from inspector.capture.environment import CaptureOptions
from inspector.capture.launch import capture
child.GRACE_SECONDS = float(sys.argv[1])
child.REFRESH_SECONDS = 0.1
outcome = capture(CaptureOptions(command=tuple(sys.argv[3:]), out=__import__("pathlib").Path(sys.argv[2])))
sys.exit(90 + outcome.interrupted)
"""
"""Runs a capture in a process of its own: arguments are the grace in seconds, the run folder, the command."""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("TORCH", "TRITON"))]:
        monkeypatch.delenv(name)


def script(text: str, name: str = "program.py") -> str:
    Path(name).write_text(textwrap.dedent(text))
    return name


def captured(*words: str, **options: object) -> CaptureOutcome:
    options.setdefault("out", Path("run"))
    return capture(CaptureOptions(command=words, **options), stderr=io.StringIO())  # type: ignore[arg-type]


def driven(*words: str, grace: float = 10.0) -> list[str]:
    return [sys.executable, "-c", DRIVER, str(grace), "run", *words]


def wait_for(name: str) -> None:
    wait_until(Path(name).exists)


# -- what passes through


def test_output_input_and_exit_code_are_the_programs_own() -> None:
    program = script(
        r"""
        import sys
        sys.stdout.buffer.write(b"\xff\x00\r\n" + sys.stdin.buffer.read())
        sys.stderr.buffer.write(b"\x80err\r 50%")
        sys.exit(3)
        """
    )
    answer = subprocess.run(driven(sys.executable, program), input=b"in\xfe", capture_output=True)
    assert answer.stdout == b"\xff\x00\r\nin\xfe"
    assert answer.stderr.startswith(b"\x80err\r 50%\ninspector: 0 graphs compiled in ")
    assert b"exit code 3\n" in answer.stderr
    assert b"next: inspector open run\n" in answer.stderr
    assert answer.returncode == 90
    manifest, problems = manifest_of(Path("run"))
    assert manifest is not None
    assert problems == ()
    assert (manifest.status, manifest.exit_code) == ("failed", 3)
    assert manifest.problems == ("nothing was compiled before the command failed with exit code 3",)


def test_torchs_log_lines_are_hidden_and_kept_and_the_programs_own_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("inspector.capture.stderr_filter.PATIENCE_S", 30.0)
    lines = [
        f"V1121 05:00:18.84100{n} 1 torch/_inductor/scheduler.py:1] [0/0] [__fusion] x" for n in range(2)
    ]
    program = script(
        f"""
        import os, sys, time
        print({lines[0]!r}, file=sys.stderr)
        time.sleep(0.02)
        open(os.environ["TORCH_LOGS_OUT"], "a").write({lines[0]!r} + "\\n")
        print({lines[1]!r}, file=sys.stderr)
        print("mine", file=sys.stderr)
        """
    )
    stderr = io.StringIO()
    capture(CaptureOptions(command=(program,), out=Path("run")), stderr=stderr)
    assert stderr.getvalue().startswith(f"{lines[1]}\nmine\n")
    assert lines[0] not in stderr.getvalue()
    assert Path("run/logs/stderr.txt").read_text() == "\n".join([*lines, "mine\n"])


@pytest.mark.usefixtures("fake_torch")
def test_a_programs_own_module_of_a_standard_name_is_neither_hidden_nor_used() -> None:
    """By what asks its interpreter, by the bootstrap, and by the recorder, which needs the real one."""
    Path("json.py").write_text("open('loaded', 'a').write('x'); MINE = 1")
    with Path("fake/torch/__init__.py").open("a") as file:
        file.write("__version__ = '2.13.0'\n")
    program = script("import torch, json; open('printed', 'w').write(f'{json.MINE} {json.__file__}')")
    assert captured(program).exit_code == 0
    assert Path("loaded").read_text() == "x"
    assert Path("printed").read_text() == f"1 {Path('json.py').absolute()}"
    log = Path("run/logs/bootstrap.log").read_text()
    assert "watching" in log and "unrecorded" not in log


def test_a_signal_is_an_exit_code_above_128() -> None:
    outcome = captured(script("import os; os.kill(os.getpid(), 15)"))
    assert outcome.exit_code == 128 + 15
    assert outcome.manifest.status == "failed"
    assert not outcome.interrupted


def test_a_process_left_behind_does_not_hold_the_capture_up() -> None:
    program = script("import subprocess; print(subprocess.Popen(['sleep', '6000']).pid)")
    with open("out", "wb") as out:
        subprocess.run(driven(program), stdout=out, stderr=subprocess.DEVNULL, timeout=PATIENCE_S)
    left = int(Path("out").read_text())
    assert is_running(left)
    os.kill(left, signal.SIGKILL)


def test_quiet_says_nothing() -> None:
    stderr = io.StringIO()
    capture(CaptureOptions(command=(script("pass"),), out=Path("run"), quiet=True), stderr=stderr)
    assert stderr.getvalue() == ""


def test_the_manifest_says_what_was_run() -> None:
    outcome = captured(script("pass"), env=(("MY", "1"),))
    manifest, problems = manifest_of(Path("run"))
    assert problems == ()
    assert manifest == outcome.manifest
    assert manifest.command == ("program.py",)
    assert manifest.status == "done"
    assert manifest.python == ".".join(map(str, sys.version_info[:3]))
    assert re.match(r"2\.\d+", manifest.torch_version or "")
    assert manifest.environment["TORCH_TRACE"] == "RUN/trace"
    assert manifest.environment["MY"] == "1"
    assert manifest.options["cwd"] == ".."


def test_a_running_capture_says_so() -> None:
    program = script(
        """
        import json, os
        print(json.load(open(os.environ["TORCH_COMPILE_DEBUG_DIR"] + "/inspector.json"))["status"])
        """
    )
    answer = subprocess.run(driven(program), capture_output=True, text=True)
    assert answer.stdout == "running\n"


# -- destinations


def test_the_default_name_has_the_script_and_the_time() -> None:
    outcome = captured(script("pass", "train.py"), out=None)
    assert re.fullmatch(r"train-\d{8}-\d{6}", outcome.run.name)
    assert outcome.run.parent == Path.cwd() / "inspector_runs"


def test_an_empty_folder_is_used_and_a_full_one_refused() -> None:
    Path("run").mkdir()
    captured(script("pass"))
    before = sorted(Path("run").rglob("*"))
    with pytest.raises(InspectorError, match="is not empty"):
        captured("program.py")
    assert sorted(Path("run").rglob("*")) == before


def test_a_file_is_refused() -> None:
    Path("run").write_text("mine")
    with pytest.raises(InspectorError, match="is a file"):
        captured(script("pass"))
    assert Path("run").read_text() == "mine"


def test_a_place_that_cannot_be_written_is_one_line() -> None:
    with pytest.raises(InspectorError, match="cannot be") as error:
        captured(script("pass"), out=Path("/proc/nowhere/run"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("existed", [False, True])
def test_a_program_that_cannot_start_leaves_nothing_behind(existed: bool) -> None:
    Path("broken").write_bytes(b"\x7fELF nonsense")
    Path("broken").chmod(0o755)
    if existed:
        Path("a/b").mkdir(parents=True)
    with pytest.raises(InspectorError, match="cannot be run"):
        captured("./broken", out=Path("a/b"))
    assert Path("a/b").exists() == existed
    assert Path("a").exists() == existed
    assert not existed or list(Path("a/b").iterdir()) == []


def test_an_interpreter_without_torch_is_refused() -> None:
    venv.create("bare", with_pip=False, symlinks=True)
    with pytest.raises(InspectorError, match=r"torch is not installed in .*bare/bin/python") as error:
        captured("bare/bin/python", script("pass"))
    assert "\n" not in str(error.value)
    assert not Path("run").exists()


# -- signals


def interruptible(handler: str) -> str:
    return script(
        f"""
        import signal, sys, time
        count = 0
        def on(number, frame):
            global count
            count += 1
            {handler}
        signal.signal(signal.SIGINT, on)
        signal.signal(signal.SIGTERM, on)
        open("started", "w").close()
        for _ in range(6000):
            time.sleep(0.05)
        """
    )


def test_an_interrupt_is_passed_on_and_the_run_is_kept() -> None:
    program = interruptible("print('got', number, flush=True); sys.exit(7)")
    process = subprocess.Popen(driven(program), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for("started")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert out == b"got 2\n"
    assert b"interrupted, exit code 7" in err
    assert process.returncode == 91
    manifest = json.loads(Path("run/inspector.json").read_text())
    assert (manifest["status"], manifest["exit_code"]) == ("interrupted", 7)


def test_a_termination_is_passed_on() -> None:
    program = interruptible("print('got', number, flush=True); sys.exit(0)")
    process = subprocess.Popen(driven(program), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for("started")
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=PATIENCE_S)[0] == b"got 15\n"
    assert json.loads(Path("run/inspector.json").read_text())["status"] == "interrupted"


PATIENT = """
import os, time
real = time.monotonic
time.monotonic = lambda: real() + 1000 * (os.path.getsize("handled") if os.path.exists("handled") else 0)
"""
"""The clock: patience ends once the program has handled what it was sent."""


def test_patience_ends_in_steps() -> None:
    program = interruptible("print('got', number, flush=True); open('handled', 'a').write('x')")
    words = [sys.executable, "-c", PATIENT + DRIVER, "1000", "run", program]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for("started")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S)[0] == b"got 2\ngot 15\n"
    assert json.loads(Path("run/inspector.json").read_text())["exit_code"] == 128 + 9


def test_a_second_interrupt_kills_at_once_with_the_workers() -> None:
    program = script(
        """
        import signal, subprocess, sys, time
        signal.signal(signal.SIGINT, lambda *_: print("got", flush=True))
        worker = subprocess.Popen(["sleep", "6000"], start_new_session=True)
        open("worker", "w").write(str(worker.pid))
        open("started", "w").close()
        while True:
            time.sleep(0.05)
        """
    )
    # Patience would not end by itself while the test waits.
    process = subprocess.Popen(driven(program, grace=1e6), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for("started")
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"got\n"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    wait_until_gone(int(Path("worker").read_text()))


# -- on a terminal


def test_the_program_still_sees_a_terminal() -> None:
    program = script(
        r"""
        import os, sys
        sizes = [tuple(os.get_terminal_size(number)) for number in (0, 1, 2)]
        print([stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)], sizes)
        sys.stderr.write("\rbar"); sys.stderr.flush()
        print("typed", input())
        """
    )
    terminal = Terminal(driven(program))
    assert b"[True, True, True] [(101, 33), (101, 33), (101, 33)]" in terminal.read(until=b"\rbar")
    os.write(terminal.descriptor, b"hello\n")
    seen = terminal.read()
    assert terminal.close() == 90
    assert b"typed hello\r\n" in seen
    assert b"inspector: run saved in run" in seen


def test_ctrl_c_reaches_the_program_once() -> None:
    program = interruptible("print('got', number, count, flush=True)")
    text = Path(program).read_text()
    # A second one would come at once: the program lasts for a second more.
    text = text.replace("for _ in range(6000):", "while not count:")
    Path(program).write_text(text + "time.sleep(1)")
    terminal = Terminal(driven(program))
    wait_for("started")
    os.write(terminal.descriptor, b"\x03")
    seen = terminal.read()
    assert terminal.close() == 91
    assert b"got 2 1" in seen
    assert b"got 2 2" not in seen
    assert b"interrupted" in seen


def test_the_progress_line_counts_and_goes_away() -> None:
    program = script(
        """
        import os, sys, time
        def wait_for(name):
            while not os.path.exists(name):
                time.sleep(0.02)
        run = os.environ["TORCH_COMPILE_DEBUG_DIR"]
        os.makedirs(run + "/torch_compile_debug/run_1/torchinductor/model__0.0")
        wait_for("counted")
        print("from stdout")
        wait_for("printed")
        print("from stderr", file=sys.stderr)
        """
    )
    terminal = Terminal(driven(program))
    terminal.read(until="\r\x1b[K1 graph compiled · ".encode())
    Path("counted").touch()
    terminal.read(until=b"from stdout\r\n")
    Path("printed").touch()
    seen = terminal.read()
    assert terminal.close() == 90
    # A screen: what a carriage return and an erased line leave of it.
    lines = [re.sub(r".*\r\x1b\[K", "", line) for line in seen.decode().split("\r\n")]
    assert lines[:2] == ["from stdout", "from stderr"]
    assert lines[2].startswith("inspector: 1 graph compiled in ")


# -- the bootstrap, with a torch that costs nothing


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        "torch/__init__.py": "def compile(*args, **kwargs):\n    return args, kwargs\n",
        "torch/version.py": "__version__ = '2.13.0'\n",
        "torch/_inductor/__init__.py": "",
        "torch/_inductor/config.py": "passes = {}\nmax_fusion_size = 64\n"
        "class triton:\n    cudagraph_trees = True\n",
    }
    for name, text in files.items():
        path = Path("fake", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(Path("fake").absolute()))


def printed() -> object:
    return json.loads(Path("printed").read_text())


@pytest.mark.usefixtures("fake_torch")
def test_config_values_reach_the_program() -> None:
    program = script(
        """
        import json, torch._inductor.config as config
        values = [config.max_fusion_size, config.triton.cudagraph_trees, config.passes]
        json.dump(values, open("printed", "w"))
        """
    )
    config = (("max_fusion_size", "7"), ("triton.cudagraph_trees", "false"), ("no_such", "1"))
    outcome = captured(program, config=(*config, ("passes", '{"one": {"on": true}, "two": null}')))
    assert printed() == [7, False, {"one": {"on": True}, "two": None}]
    assert len(outcome.notes) == 2
    assert "could not be set: torch._inductor.config.no_such = 1: AttributeError" in outcome.notes[1]
    assert outcome.manifest.options["config"]["torch._inductor.config.max_fusion_size"] == 7


@pytest.mark.usefixtures("fake_torch")
def test_the_mode_is_given_only_where_none_is() -> None:
    program = script(
        """
        import json, torch
        calls = [torch.compile(1), torch.compile(mode="default"), torch.compile(2, options={"a": 1}),
                 torch.compile(backend="eager"), torch.compile(backend="inductor", dynamic=True)]
        json.dump([kwargs for args, kwargs in calls], open("printed", "w"))
        """
    )
    captured(program, mode="max-autotune")
    assert printed() == [
        {"mode": "max-autotune"},
        {"mode": "default"},
        {"options": {"a": 1}},
        {"backend": "eager"},
        {"backend": "inductor", "dynamic": True, "mode": "max-autotune"},
    ]


@pytest.mark.usefixtures("fake_torch")
def test_the_users_own_sitecustomize_still_runs() -> None:
    Path("fake/sitecustomize.py").write_text("import builtins; builtins.from_site = __file__")
    program = script(
        """
        import json, sys, torch
        ours = [path for path in sys.path if "bootstrap" in path]
        json.dump([from_site, ours, torch.compile()[1]], open("printed", "w"))
        """
    )
    captured(program, mode="default")
    site = str(Path("fake/sitecustomize.py").absolute())
    assert printed() == [site, [], {"mode": "default"}]


@pytest.mark.usefixtures("fake_torch")
@pytest.mark.parametrize("request_text", ["{", '{"log": 3, "config": [["torch", "x", 1]]}', "[]"])
def test_a_broken_request_never_reaches_the_program(request_text: str) -> None:
    program = script("import torch; print(torch.compile())")
    outcome = captured(program, mode="default", env=(("INSPECTOR_BOOTSTRAP", request_text),))
    assert outcome.exit_code == 0


# -- torch itself

COMPILED = """
    import sys, torch
    @torch.compile
    def f(x):
        x = torch.relu(x + 1)
        torch._dynamo.graph_break()
        return x * 2
    print(f(torch.ones(8)).sum().item())
    print("to stderr", file=sys.stderr)
"""


@pytest.mark.slow
def test_a_real_compilation_in_an_awkward_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    Path("pack").mkdir()
    script(COMPILED, "pack/train.py")
    stderr = io.StringIO()
    run = Path("a run é/one")
    outcome = capture(CaptureOptions(command=("-m", "pack.train"), out=run), stderr=stderr)
    assert outcome.exit_code == 0
    assert outcome.graphs == 2
    assert outcome.notes == ()
    folders = list(graph_folders(run))
    assert len(folders) == 2
    for folder in folders:
        assert {path.name for path in folder.iterdir()} >= set(GRAPH_FILES)
    assert len(list((run / "trace").glob("dedicated_log_torch_trace_*.log"))) == 1
    log = (run / "logs" / "torch_logs.txt").read_text()
    assert "[__fusion]" in log
    assert "[__graph_breaks]" in log
    assert "[__fusion]" in (run / "logs" / "stderr.txt").read_text()
    assert list((run / "cache" / "inductor").rglob("*.cpp"))
    assert list((tmp_path / "temporary").iterdir()) == []
    # A CUDA build of torch says so where there is no GPU.
    lines = [line for line in stderr.getvalue().splitlines() if "No CUDA runtime is found" not in line]
    assert lines[0] == "to stderr"
    assert lines[1].startswith("inspector: 2 graphs compiled in ")
    assert len(lines) == 3


@pytest.mark.slow
def test_each_rank_of_torchrun_leaves_its_files_and_calls() -> None:
    program = script(
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        compiled = torch.compile(lambda x: torch.relu(x + 1) * 2)
        compiled(torch.ones(8 + rank))
        f = torch.compile(lambda x, n: x * n + 1, backend="aot_eager", dynamic=False)
        for turn in range(3):
            f(torch.ones(2 + rank * turn), 2)
        dist.destroy_process_group()
        """
    )
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    outcome = captured(torchrun, "--standalone", "--nproc-per-node", "2", program)
    assert outcome.exit_code == 0
    assert re.match(r"2\.\d+", outcome.manifest.torch_version or "")
    assert len(list(outcome.run.glob("torch_compile_debug/run_*/torchinductor/model__*"))) == 2
    traces = sorted(path.name for path in (outcome.run / "trace").iterdir())
    assert [re.match(r"dedicated_log_torch_trace_rank_[01]_", name) is not None for name in traces] == [
        True
    ] * 2
    first, second = Run.open(outcome.run).variants[0].processes
    assert (first.rank, second.rank) == (0, 1)
    assert [[item.calls for item in process.callables] for process in (first, second)] == [[1, 3]] * 2
    assert [sum(e.kind == "recompile" for e in process.events) for process in (first, second)] == [0, 2]


@pytest.mark.slow
def test_a_warm_cache_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(Path("mine").absolute()))
    program = script("import torch; torch.compile(lambda x: x + 1)(torch.ones(8))")
    first = captured(program, fresh=False, out=Path("first"))
    second = captured(program, fresh=False, out=Path("second"))
    assert (first.graphs, second.graphs) == (1, 0)
    assert not (first.run / "cache" / "inductor").exists()
    assert "no files of compiled graphs: 1 graph came from the cache" in second.notes[0]


@pytest.mark.slow
def test_settings_and_another_backend_with_real_torch() -> None:
    program = script(
        """
        import json, torch, torch._inductor.config as inductor, torch._dynamo.config as dynamo
        seen = []
        original = torch._TorchCompileInductorWrapper.__init__
        def spy(self, mode, *rest):
            seen.append(mode)
            original(self, mode, *rest)
        torch._TorchCompileInductorWrapper.__init__ = spy
        torch.nn.Linear(1, 1).compile()
        torch.compile(lambda x: x)
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        values = [inductor.max_autotune, inductor.triton.cudagraph_trees, dynamo.recompile_limit]
        json.dump([seen, values], open("printed", "w"))
        """
    )
    config = (("max_autotune", "true"), ("triton.cudagraph_trees", "false"), ("dynamo.recompile_limit", "3"))
    outcome = captured(program, mode="reduce-overhead", config=config)
    assert printed() == [["reduce-overhead"] * 2, [True, False, 3]]
    assert 'backend="eager"' in outcome.notes[0]
    assert len(outcome.notes) == 1
