"""Fixtures shared by all tests: the captured runs of tests/data, unpacked once per session."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from forked import Popen
from fusion_program import PROGRAM as FUSION_PROGRAM
from replays import CPU
from sharing import once, unpacked

from inspector.hardware import peaks
from inspector.process import Child

if shutil.which("nvidia-smi") is None:
    # No test runs a Triton kernel in this process then, and Triton's bindings, once imported with
    # torch, fill the end of the output with a report of their own leaks.
    sys.modules["triton"] = None  # type: ignore[assignment]

# A job in the background of a script ignores SIGINT and its children inherit that; tests of Ctrl-C
# need it as it is at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Nobody's terminal, and nothing that decides how torch compiles: pytest-xdist says a width, a shell more.
NOBODYS = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "RANK", "TRITON_INTERPRET")
for name in [*os.environ]:
    if name in NOBODYS or re.match("TORCH|TEXTUAL_(?!SNAPSHOT_)", name):
        del os.environ[name]
os.environ["TERM"] = "xterm-256color"

DATA = Path(__file__).parent / "data"


def has_avx512() -> bool:
    """Whether torch would use AVX-512 here, which ATEN_CPU_CAPABILITY can forbid."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return os.environ.get("ATEN_CPU_CAPABILITY", "avx512") == "avx512" and flags.issuperset(
        ("avx512f", "avx512dq", "avx512vl", "avx512bw", "fma")
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not has_avx512():
        for item in items:
            if item.get_closest_marker("avx512"):
                item.add_marker(pytest.mark.skip(reason="needs AVX-512: its C++ was captured with it"))


@pytest.fixture(autouse=True)
def strict_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the TUI would say of a handler that failed fails the test."""
    if (bounded := sys.modules.get("inspector.tui.bounded")) is not None:
        monkeypatch.setattr(bounded, "report", _raised)


def _raised(_app: object, error: Exception) -> None:
    raise error


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session, the same one in each process of pytest-xdist."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session", autouse=True)
def kept_compiles(shared: Path) -> Iterator[None]:
    """Programs and replays of all tests compile each C++ text once: `g++` is first on PATH a compiler that
    keeps what it made. Who sets CXX has another."""
    compiler = shutil.which("g++")
    with pytest.MonkeyPatch.context() as patch:
        if compiler is not None:
            tool = shared / f"bin-{os.getpid()}" / "g++"
            tool.parent.mkdir()
            program = Path(__file__).with_name("kept_compiles.py")
            words = [sys.executable, "-IS", str(program), compiler, str(shared / "compiles")]
            tool.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            tool.chmod(0o755)
            # A child that is confined may write where it is said to keep what compilers make.
            (shared / "compiles").mkdir(exist_ok=True)
            patch.setenv("CCACHE_DIR", str(shared / "compiles"))
            patch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture(scope="session", autouse=True)
def own_state(shared: Path) -> Iterator[None]:
    """Captures of tests are sealed with a key of their own, and no test meets peaks that somebody keeps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(shared / "state"))
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        yield


@pytest.fixture(scope="session", autouse=True)
def known_peaks() -> Iterator[None]:
    """The same on every machine: nobody but test_roofline.py measures them, which takes a quarter of a minute
    and depends on who else uses the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peaks, "measure_peaks", lambda device, _: replace(CPU, device=device.name))
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_replays() -> Iterator[None]:
    """See `forked`."""
    with pytest.MonkeyPatch.context() as patch:
        if shutil.which("nvidia-smi") is None:
            patch.setattr(Child, "popen", Popen)
        yield


@pytest.fixture(autouse=True)
def _real_child(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("real_child"):
        monkeypatch.setattr(Child, "popen", subprocess.Popen)


SAME_VECTORS = """
from torch._inductor import config
from torch._inductor.cpu_vec_isa import valid_vec_isa_list
tried = list(map(str, valid_vec_isa_list()))
config.cpp.vec_isa_ok = True
getattr(valid_vec_isa_list, "cache_clear", int)()
print(tried == list(map(str, valid_vec_isa_list())))
"""


@pytest.fixture(scope="session")
def known_vectors(shared: Path) -> None:
    """Whether the compiler and torch have each vector instruction of this processor is tried once; programs
    are then told so, where each would compile and load six libraries to find the same."""

    def ask(folder: Path) -> None:
        answer = subprocess.run([sys.executable, "-c", SAME_VECTORS], capture_output=True, text=True)
        (folder / "same").write_text(answer.stdout)

    if (once(shared / "vectors", ask) / "same").read_text() == "True\n":
        os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"


@pytest.fixture(autouse=True)
def _quick_compiles(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("known_vectors")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one sub-folder for each archive of tests/data, e.g. `h200-torch2.11/softmax`."""
    root = tmp_path_factory.mktemp("corpus")
    for archive in sorted(DATA.glob("*-torch*.tar.xz")):
        unpacked(archive, root)
    return root


@pytest.fixture(scope="session")
def corpus_runs(corpus: Path) -> list[Path]:
    """Every run folder of the corpus: those that hold `torch_compile_debug`."""
    return sorted(path.parent for path in corpus.glob("*/*/torch_compile_debug"))


@pytest.fixture(scope="session")
def corpus_graphs(corpus: Path) -> list[Path]:
    """Every compiled-graph folder of the corpus that holds files."""
    return sorted(path.parent for path in corpus.rglob("output_code.py"))


@pytest.fixture(scope="session")
def convmixer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of a ConvMixer on an H200, with profiles of both sides beside them: `infer-default.run`,
    `infer-default.trace.json`, `infer-eager.trace.json`, the same for training and CUDA graphs, and
    `*.facts.json` with device times by kernel name as `key_averages` counted them."""
    return unpacked(DATA / "h200-profiles.tar.xz", tmp_path_factory.mktemp("profiles")) / "convmixer"


@pytest.fixture(scope="session")
def staged(convmixer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`infer-default.run` and `train-default.run` of `convmixer` with Triton's stage files as the H200's run
    left them: all of inference, and of training two kernels that inline functions of torch's."""
    folder = tmp_path_factory.mktemp("staged")
    for name in ("infer-default.run", "train-default.run"):
        shutil.copytree(convmixer / name, folder / name)
    return unpacked(DATA / "stages.tar.xz", folder)


@pytest.fixture
def profiled_convmixer(convmixer: Path, tmp_path: Path) -> Path:
    """A copy of `infer-default.run` with its profiles in it, as a capture leaves them, beside the program."""
    run = tmp_path / "run"
    shutil.copytree(convmixer / "infer-default.run", run)
    shutil.copy(convmixer / "models.py", tmp_path)
    (run / "profile").mkdir()
    for name, side in (("infer-default", "compiled"), ("infer-eager", "eager")):
        packed = gzip.compress((convmixer / f"{name}.trace.json").read_bytes())
        (run / "profile" / f"{side}.json.gz").write_bytes(packed)
    return run


@pytest.fixture(autouse=True)
def no_settings(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test meets the settings of who runs it, or those that another test has left."""
    folder = tmp_path_factory.getbasetemp() / f"config-{uuid.uuid4().hex}"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))


@pytest.fixture(scope="session")
def profiled_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures with a baseline and profiles: `gpt.run`, a small GPT trained on an H200 with torch 2.11, and
    `cpu.run`, two linear layers trained on a busy machine's CPU with torch 2.13. Without a capture, profiled
    by the program itself: `breaks.run`, a module with two graph breaks, trained, and `several.run`, the same
    beside functions, one of them called three times and once with another size."""
    return unpacked(DATA / "profiled-runs.tar.xz", tmp_path_factory.mktemp("profiled"))


@pytest.fixture(scope="session")
def fusion_cases(shared: Path, known_vectors: None) -> Path:
    """`fusion_program.py` captured with this interpreter's torch: seven graphs, the last two forward and
    backward."""

    def capture(folder: Path) -> None:
        (folder / "program.py").write_text(FUSION_PROGRAM)
        command = [sys.executable, "-m", "inspector.cli", "capture", "-q", "-o", str(folder / "run"), "--"]
        subprocess.run(
            [*command, sys.executable, str(folder / "program.py")],
            check=True,
            capture_output=True,
            cwd=Path(__file__).parent.parent,
        )

    return once(shared / "fusion-cases", capture) / "run"
