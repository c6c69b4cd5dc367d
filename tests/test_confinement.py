"""What a confined child can't do, and that it says so where it can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import PATIENCE_S

from inspector import confinement

ATTACKS = {
    "no network": "socket.create_connection(('127.0.0.1', int(sys.argv[3])), 5)",
    "writes to its own folders only": "open(sys.argv[4], 'w')",
    "no signals to other programs": "os.kill(os.getppid(), 0)",
    "a limit on file sizes": "open(sys.argv[2] + '/large', 'wb').truncate(confinement.FILE_BYTES + 1)",
    "a limit on memory": "confinement.limit_memory(1 << 30), bytearray(2 << 30)",
}
PROGRAM = """
import json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from inspector import confinement
confinement.confine(confinement.request([sys.argv[2]], 1000))
attacks = json.loads(sys.argv[5])
open(sys.argv[2] + "/own", "w").write("kept")
done = []
for name, attack in attacks.items():
    try:
        eval(attack)
    except (OSError, MemoryError):
        continue
    done.append(name)
print(json.dumps({"state": confinement.STATE, "done": done}))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces, Landlock and limits are Linux's")
def test_what_is_said_to_hold_holds(tmp_path: Path) -> None:
    import socket

    own = tmp_path / "own"
    own.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        package = str(Path(confinement.__file__).parents[1])
        words = [package, str(own), port, str(tmp_path / "elsewhere"), json.dumps(ATTACKS)]
        child = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=subprocess.PIPE)
        said = json.loads(child.communicate(timeout=PATIENCE_S)[0])
    confinement.release(child.pid)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/inspector-{child.pid}"))
    missing = {name for name, why in said["state"].items() if why}
    assert set(said["done"]) <= missing, "said to hold, and did not"
    assert missing or not said["done"]
    assert set(ATTACKS) <= {*said["state"], "a limit on memory"}
    assert (own / "own").read_text() == "kept" and (tmp_path / "elsewhere").exists() <= bool(missing)


def test_protections_that_are_missing_are_named_with_the_reason() -> None:
    active, missing = confinement.words({"no network": "", "a limit on memory": "not on darwin"})
    assert active == ["no network"] and missing == ["a limit on memory (not on darwin)"]


def test_free_memory_is_a_part_of_all() -> None:
    free = confinement.free_memory()
    if free is None:
        pytest.skip("this system does not tell")
    assert 0 < free <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
