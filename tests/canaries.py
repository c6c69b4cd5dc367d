"""A run by somebody else, in which everything that could be executed says so: a canary is a file below `proof`
that what is run makes executable, which even a confined child could do; it is named after what was run. The run
claims to be this user's capture in every way that a run can."""

# ruff: noqa: E501
from __future__ import annotations

import hashlib
import hmac
import json
import os
import pickle
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replays import replay_of, result_of

from inspector.model.edits import KernelEdit
from inspector.readers.run import Run
from inspector.replay.edits import EditFolder
from inspector.replay.store import save_result
from inspector.seal import NAME, SCHEMA

MODULES = (
    "json", "torch", "torch/_inductor/codecache", "triton", "numpy", "inspector", "textual", "rich", "queue", "typing",
    "inspect", "sitecustomize", "usercustomize", "conftest", "pyarrow", "duckdb", "mcp", "textual_serve", "click",
    "aiohttp", "jinja2", "aiohttp_jinja2",
)  # fmt: skip
TOOLS = (
    "python", "python3", Path(sys.executable).name, "g++", "gcc", "c++", "clang++", "nvcc", "ptxas", "nvdisasm", "cuobjdump",
    "nvidia-smi", "ncu", "objdump", "c++filt", "git", "vim", "vi", "editor", "sh", "xclip", "wl-copy", "xdg-open", "true",
)  # fmt: skip


class _Reduced:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return os.system, (f"/bin/chmod 700 {shlex.quote(str(self.proof))}",)


def sung(proof: Path) -> list[str]:
    """Names of what was executed."""
    return sorted(path.name for path in proof.iterdir() if path.stat().st_mode & 0o100)


def silence(proof: Path) -> None:
    """As it was before anything was."""
    for path in proof.iterdir():
        path.chmod(0o600)


def plant(run: Path, proof: Path, known: Path | None = None) -> None:
    """Into a capture's folder. `known` is a capture whose seal is good: it is put on this one, too."""
    proof.mkdir(exist_ok=True)

    def canary(name: str) -> Path:
        path = proof / name
        path.touch(0o600)
        return path

    def touch(name: str) -> str:
        return f"__import__('os').chmod({str(canary(name))!r}, 0o700)\n"

    opened = Run.open(run)
    graph = next(graph for graph in opened.graphs if graph.code() is not None)
    code = graph.code()
    assert code is not None
    kernel = next(kernel for kernel in code.kernels if kernel.source)
    save_result(result_of(1.8e9, replay_of(graph.ident, code)), run)
    edit = KernelEdit(graph.ident, kernel.name, 0, 1, touch("edit") + kernel.source)
    EditFolder(opened, graph.ident, kernel).save(edit)
    for path in sorted(run.rglob("*.py")):
        # Inside of what is compiled from it, too: a C++ function that runs as its library is loaded.
        text = path.read_text(encoding="utf-8")
        library = f'static int owned = chmod("{canary("library")}", 0700);'
        text = text.replace('extern "C"', f'#include <sys/stat.h>\n{library}\nextern "C"')
        path.write_text(touch(path.name) + text, encoding="utf-8")
    for name in MODULES:
        for folder in (run, run / "lib", graph.folder or run):
            path = folder / f"{name}.py"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(touch(f"module-{name.replace('/', '.')}"))
    (run / "lib" / "owned.pth").write_text(f"import os; {touch('pth')}")
    for name in TOOLS:
        path = run / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n/bin/chmod 700 {shlex.quote(str(canary(f'tool-{name}')))}\n")
        path.chmod(0o755)
    for name in (
        "cache/inductor/fxgraph/ab/abc/entry", "cache/inductor/aotautograd/abc/entry", "inputs/process1/graph0.pt",
        "cache/inductor/ab/cabc.py", "cache/triton/ABC/kernel.json", "lowered/key/kernel.json", "trials/1/state.pkl",
    ):  # fmt: skip
        path = run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            touch(path.name).encode()
            if path.suffix == ".py"
            else pickle.dumps(_Reduced(canary(f"pickle-{path.name}")))
        )
    _forge_record(run)
    _forge_manifest(run, touch)
    _forge_seal(run, known)


def _forge_record(run: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"kind": "process", "schema": "inspector.record/1", "pid": 1, "rank": 0, "executable": str(run / "bin" / "python")},
        {"kind": "inputs", "graph": "model__0", "process": 1, "file": "inputs/process1/graph0.pt", "arguments": 3},
        {"kind": "environment", "values": _environment(run)},
    ]  # fmt: skip
    (run / "record").mkdir(exist_ok=True)
    with (run / "record" / "rank0.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _environment(run: Path) -> dict[str, str]:
    tools = {"CXX": "g++", "CC": "gcc", "EDITOR": "editor", "VISUAL": "vi", "BROWSER": "xdg-open", "PYTHON": "python",
             "TRITON_PTXAS_PATH": "ptxas", "TRITON_NVDISASM_PATH": "nvdisasm", "TRITON_CUOBJDUMP_PATH": "cuobjdump"}  # fmt: skip
    own = {
        "PATH": f"{run / 'bin'}:/bin",
        "PYTHONPATH": str(run / "lib"),
        "PYTHONSTARTUP": str(run / "json.py"),
        "CUDA_HOME": str(run),
    }
    return {
        **own,
        "TORCHINDUCTOR_CACHE_DIR": str(run / "cache"),
        **{name: str(run / "bin" / tool) for name, tool in tools.items()},
    }


def _forge_manifest(run: Path, touch: Callable[[str], str]) -> None:
    path = run / "inspector.json"
    manifest = (
        json.loads(path.read_text()) if path.exists() else {"schema": "inspector.run/1", "status": "done"}
    )
    manifest.update(
        {
            "host": os.uname().nodename, "command": [sys.executable, "-c", touch("command")], "exit_code": 0,
            "environment": _environment(run), "python": str(run / "bin" / "python"), "executable": str(run / "bin" / "python"),
            "options": {"cwd": str(run), "python": str(run / "bin" / "python"), "env": [["PATH", str(run / "bin")]]},
        }
    )  # fmt: skip
    path.write_text(json.dumps(manifest))


def _forge_seal(run: Path, known: Path | None) -> None:
    """The seal of another capture, or one with a key that the run brings along."""
    if known is not None:
        shutil.copy(known / NAME, run / NAME)
        return
    from inspector.seal import _digest_of, _files, _records

    key = b"0" * 64
    for place in ("key", "inspector/key", ".local/state/inspector/key", "state/inspector/key"):
        (run / place).parent.mkdir(parents=True, exist_ok=True)
        (run / place).write_bytes(key)
        (run / place).chmod(0o600)
    manifest = json.loads((run / "inspector.json").read_text())
    sealed = {
        "schema": SCHEMA,
        "files": dict((*_files(run), *_records(run))),
        "repeats": _digest_of(*(manifest.get(name) for name in ("command", "environment", "options"))),
        "cwd": os.path.realpath(run),
    }
    mac = hmac.new(key, json.dumps(sealed, sort_keys=True).encode(), hashlib.sha256).hexdigest()
    (run / NAME).write_text(json.dumps({**sealed, "hmac": mac}))
