"""Takes from this process what code that is only replayed has no need of: network, other folders, other
processes, and memory, file sizes and processes without end.

Called before any thread is started, as namespaces and Landlock hold for the caller's thread and what that
starts. Each protection is tried by itself; `STATE` says which hold. Any Python 3 runs this, with the standard
library alone; as a program it confines itself and prints `STATE` as JSON, which is how the doctor asks.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

VARIABLE = "INSPECTOR_CONFINE"
"""In the environment of a child that is to be confined: what `request` gives."""

STATE: dict[str, str] = {}
"""By protection the reason why it does not hold, "" where it does; empty where nothing was asked for."""

FILE_BYTES = 4 << 30
"""The largest file that a child may write: precompiled headers take some 100 MB."""
PROCESSES = 2048
"""Processes and threads that a child may add: a compiler for each core, and torch's pools."""

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38

# include/uapi/linux/landlock.h; the numbers are those of all architectures.
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGES = 0b1111111110000 | _WRITE_FILE
"""Writing, removing and making of every kind; not executing and reading (bits 0, 2 and 3)."""
_TCP = 0b11
_SCOPE_SIGNAL = 1 << 1


_NETWORK = "no network"
_DEVICES = "null", "zero", "full", "tty", "urandom", "nvidia*", "nvidia-caps*/*", "dri/*", "kfd"
"""Below /dev: what programs write to, and graphics cards."""


def request(writable: Sequence[str], tasks: int = 0, gpu: bool = False) -> str:
    """What to set `VARIABLE` to. `writable`: folders in which the child may write; `tasks`: processes and
    threads that the user has already; `gpu`: it uses one, whose driver does not start in such a process
    (CUDA error 304 on an H200), so that it only ends with its parent."""
    return json.dumps({"writable": list(writable), "tasks": tasks, "gpu": gpu})


def has_gpu() -> bool:
    """Whether there is a device file of one that torch may use."""
    return any(glob.glob(f"/dev/{name}") for name in ("nvidia[0-9]*", "kfd"))


def confine(text: str) -> None:
    """Apply what `request` asks for, and fill `STATE`; never raises."""
    asked = json.loads(text)
    _try("ends with inspector", _die_with_parent)
    if asked["gpu"]:
        STATE["the rest"] = "a GPU's driver does not start so"
        return
    _try("a limit on file sizes", _limit_files)
    _try("a limit on processes", lambda: _limit_processes(int(asked["tasks"])))
    _try(_NETWORK, _leave_network)
    _try("writes to its own folders only", lambda: _restrict_writing(asked["writable"]))


def limit_memory(most: int) -> None:
    """Refuse this process more than so many bytes of data. Not for one that uses CUDA, which reserves far
    more than it takes."""

    def limit() -> None:
        _lower("RLIMIT_DATA", most)

    _try("a limit on memory", limit)


def free_memory() -> int | None:
    """Bytes that can be had without swapping or exceeding the control group's limit; None where unknown."""
    known = []
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo") as file:
        lines = dict(line.split(":", 1) for line in file)
        known.append(int(lines["MemAvailable"].split()[0]) << 10)
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        group = "/sys/fs/cgroup"
        with (
            suppress(OSError, ValueError),
            open(f"{group}/{most}") as limit,
            open(f"{group}/{used}") as taken,
        ):
            known.append(int(limit.read()) - int(taken.read()))
    return min(known, default=None)


def release(pid: int) -> None:
    """Remove what `confine` made for the process outside of itself; what is left of its family ends."""
    for folder in _groups(pid):
        with suppress(OSError), open(f"{folder}/cgroup.procs") as file:
            for member in file.read().split():
                with suppress(OSError):
                    os.kill(int(member), signal.SIGKILL)
        for _ in range(50):
            with suppress(OSError):
                os.rmdir(folder)
            if not os.path.isdir(folder):
                break
            time.sleep(0.01)


def _try(name: str, action: Callable[[], str | None]) -> None:
    try:
        STATE[name] = action() or ""
    except (OSError, AttributeError, ImportError, ValueError, struct.error) as error:
        STATE[name] = getattr(error, "strerror", None) or str(error) or type(error).__name__


def _libc() -> ctypes.CDLL:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, f"not on {sys.platform}")
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        import ctypes

        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _die_with_parent() -> None:
    """Also where it is stopped, and reads nothing any more."""
    _checked(_libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


def _lower(name: str, most: int) -> None:
    import resource

    kind = getattr(resource, name)
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _limit_files() -> None:
    _lower("RLIMIT_FSIZE", FILE_BYTES)
    _lower("RLIMIT_CORE", 0)


def _limit_processes(tasks: int) -> str:
    if os.geteuid():
        _lower("RLIMIT_NPROC", tasks + PROCESSES)
        return ""
    # kernel/fork.c: copy_process: the limit is not for root, whom only a control group holds.
    for folder in _groups(os.getpid()):
        # What a parent that was killed could not remove.
        for left in glob.glob(f"{os.path.dirname(folder)}/inspector-*"):
            if not os.path.exists(f"/proc/{left.rpartition('-')[2]}"):
                with suppress(OSError):
                    os.rmdir(left)
        try:
            os.mkdir(folder)
            if os.path.exists(f"{folder}/pids.max"):
                for name, value in (("pids.max", PROCESSES), ("cgroup.procs", os.getpid())):
                    with open(f"{folder}/{name}", "w") as file:
                        file.write(str(value))
                return ""
        except OSError:
            pass
        with suppress(OSError):
            os.rmdir(folder)
    return "root is limited by a control group alone, and none can be made here"


def _groups(pid: int) -> list[str]:
    """Where a control group of processes may be made for the process, in both versions' trees."""
    return [
        f"{parent}/inspector-{pid}"
        for parent in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")
        if os.path.exists(f"{parent}/cgroup.procs")
    ]


def _leave_network() -> None:
    """A network namespace with nothing in it but a loopback of its own."""
    libc = _libc()
    uid, gid = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWNET) < 0:
        _checked(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, value in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(value)
    import fcntl
    import socket

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        # SIOCSIFFLAGS with IFF_UP and IFF_RUNNING.
        fcntl.ioctl(made, 0x8914, struct.pack("16sh14x", b"lo", 0x41))


def _restrict_writing(writable: Sequence[str]) -> str:
    """Landlock: files are changed in these folders alone, and signals stay in the family where Linux knows
    that (from 6.12 on). Where there is no network namespace, TCP is refused as well."""
    libc = _libc()
    version = _checked(libc.syscall(_LANDLOCK_CREATE, None, 0, 1))
    changes = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    network = _TCP if version >= 4 and STATE.get(_NETWORK) else 0
    scoped = _SCOPE_SIGNAL if version >= 6 else 0
    size = 8 if version < 4 else 16 if version < 6 else 24
    attributes = struct.pack("QQQ", changes, network, scoped)[:size]
    rules = _checked(libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0))
    try:
        for path in writable:
            _allow(libc, rules, path, changes)
        for pattern in _DEVICES:
            for path in glob.glob(f"/dev/{pattern}"):
                _allow(libc, rules, path, _WRITE_FILE | (changes & _TRUNCATE))
        _allow(libc, rules, "/dev/shm", changes)
        _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(libc.syscall(_LANDLOCK_RESTRICT, rules, 0))
    finally:
        os.close(rules)
    if network:
        STATE[_NETWORK] = "only TCP is refused"
    STATE["no signals to other programs"] = "" if scoped else "needs Linux 6.12"
    return ""


def _allow(libc: ctypes.CDLL, rules: int, path: str, access: int) -> None:
    with suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):
                access &= _WRITE_FILE | _TRUNCATE
            _checked(libc.syscall(_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", access, place), 0))
        finally:
            os.close(place)


def words(state: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The protections that hold, and those that don't, with the reason."""
    missing = [f"{name} ({why})" for name, why in state.items() if why]
    return [name for name, why in state.items() if not why], missing


if __name__ == "__main__":
    confine(request([]))
    limit_memory(1 << 40)
    print(json.dumps(STATE))
