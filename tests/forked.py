"""Replays in forks of a process that has torch already, in place of interpreters that each import it anew.

In the place of `inspector.process.Child.popen`, `Popen` starts what it is told to, but for a replay's worker
in this interpreter: a server forks that, which is a child of the tests' process, has imported torch and done
nothing with it. The fork becomes the tests' own child, in its own session, with the streams, descriptors,
folder and environment that it was to have, and executes the same text as `python -c` would: what confines,
watches, feeds and ends it is as ever. A test that is about the child itself is marked `real_child`.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

_WORKER = "inspector.replay.worker.main"
_PR_SET_CHILD_SUBREAPER = 36
_BYTES = 1 << 18

_HARMLESS = frozenset(
    {
        "CCACHE_DIR", "CUDA_CACHE_PATH", "INSPECTOR_CHILD", "INSPECTOR_CONFINE", "PATH", "PWD",
        "PYTEST_CURRENT_TEST", "PYTHONFAULTHANDLER", "TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR",
        "TRITON_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME",
    }
)  # fmt: skip
"""Variables that decide nothing while torch is imported; for each set of the others there is a server."""

_MOST = 3
"""Servers at a time: the one that was asked least recently ends, so that no order of tests has them all run
with the variables that one test had set."""


class _Servers:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[tuple[tuple[str, str], ...], socket.socket] = {}

    def fork(
        self,
        argv: list[str],
        env: dict[str, str],
        interpreting: bool,
        cwd: str,
        streams: list[int],
        passed: list[int],
    ) -> int:
        """The process of a fork; 0 where there can be none. `interpreting`: with what torch and Triton are
        where Triton interprets."""
        decisive = {name: value for name, value in env.items() if name not in _HARMLESS}
        if interpreting:
            decisive["TRITON_INTERPRET"] = "1"
        key = tuple(sorted(decisive.items()))
        with self._lock:
            connection = self._connections.pop(key, None) or _start(env, decisive)
            self._connections[key] = connection
            if len(self._connections) > _MOST:
                self._connections.pop(next(iter(self._connections))).close()
            order = {"argv": argv[2:], "env": env, "cwd": cwd, "passed": passed, "parent": os.getpid()}
            # Who lost his parent becomes a child of the next process above that asked for that.
            _adopts(True)
            try:
                socket.send_fds(connection, [json.dumps(order).encode()], [*streams, *passed])
                answer = connection.recv(64)
            finally:
                _adopts(False)
        if not answer:
            raise RuntimeError("the server of replays has ended")
        return int(answer)


def _start(env: dict[str, str], decisive: dict[str, str]) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-c", _SERVER, str(theirs.fileno())],
            env={**decisive, "PATH": env["PATH"]},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    return ours


def _adopts(yes: bool) -> None:
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0):
        raise OSError("cannot adopt the fork")


_servers = _Servers()


def _interprets(request: str) -> bool:
    """Whether the code of the request is for a GPU: `Popen` is for machines without one."""
    return "device='cuda" in Path(json.loads(Path(request).read_text())["files"]["output_code"]).read_text()


class Popen(subprocess.Popen[bytes]):
    """See above."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, *rest: Any) -> None:
        # CPython's Lib/subprocess.py: `pipes` are the ends of three, the child's and ours, -1 for none.
        passed, cwd, env, _, _, _, *pipes = rest[:12]
        if sys.platform == "linux" and args[:2] == [sys.executable, "-c"] and _WORKER in args[4:5]:
            theirs = pipes[0], pipes[3], pipes[5]
            streams = [number if end == -1 else end for number, end in enumerate(theirs)]
            self.pid = _servers.fork(args, dict(env), _interprets(args[5]), str(cwd), streams, list(passed))
            if self.pid:
                self._child_created = True
                self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
                return
        super()._execute_child(args, executable, preexec_fn, close_fds, *rest)  # type: ignore[misc]


_SERVER = """
import faulthandler, fcntl, gc, json, os, socket, sys, tempfile, time

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

def forked():
    # The order, in each fork.
    import torch._dynamo.testing, torch._inductor.async_compile, torch._inductor.select_algorithm
    # Collecting garbage would copy every page that a fork shares.
    gc.collect()
    gc.freeze()
    connection = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, received, _, _ = socket.recv_fds(connection, BYTES, 16)
        if not data:
            os._exit(0)
        order = json.loads(data)
        middle = os.fork()
        if middle == 0:
            middle = os.getpid()
            if os.fork():
                os._exit(0)
            while os.getppid() == middle:
                time.sleep(0.0005)
            # Above the numbers that it is to have.
            high = [fcntl.fcntl(number, fcntl.F_DUPFD, 256) for number in (connection.fileno(), *received)]
            os.setsid()
            for number in (connection.detach(), *received):
                os.close(number)
            fits = os.getppid() == order["parent"] and not any(map(is_open, order["passed"]))
            os.write(high[0], str(os.getpid() if fits else 0).encode())
            if not fits:
                os._exit(0)
            for number, target in zip(high[1:], [0, 1, 2, *order["passed"]]):
                os.dup2(number, target)
            os.closerange(256, 256 + len(high))
            return order
        os.waitpid(middle, 0)
        for number in received:
            os.close(number)

order = forked()
os.chdir(order["cwd"])
os.environ.clear()
os.environ.update(order["env"])
tempfile.tempdir = None
# What torch has from its variables as it is imported.
codecache = sys.modules["torch._inductor.codecache"]
codecache._HEADER_DIR = os.path.join(codecache.default_cache_dir(), "precompiled_headers")
codecache._HEADER_LOCK_DIR = os.path.join(codecache._HEADER_DIR, "locks")
del codecache
faulthandler.enable()
text, *words = order["argv"]
sys.argv = ["-c", *words]
del order, words
exec(text)
""".replace("BYTES", str(_BYTES))
