"""A C++ compiler that keeps what it made: `kept_compiles.py COMPILER FOLDER ARGUMENTS...`.

Captures and replays start with an empty cache, so each of them would compile torch's checks of the vector
instructions (torch/_inductor/cpu_vec_isa.py) and kernels that other tests compiled already. The same
text and options give the same file: the compiler runs once for each, and a copy stands for it after that.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from itertools import pairwise
from pathlib import Path


def main(compiler: str, folder: str, words: list[str]) -> int:
    kept = _place(Path(folder), compiler, words)
    if kept is None:
        return subprocess.call([compiler, *words])
    output = words[words.index("-o") + 1]
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            if code := subprocess.call([compiler, *words]):
                return code
            _copy(output, kept.with_suffix(".new"))
            kept.with_suffix(".new").rename(kept)
            return 0
    _copy(kept, output)
    return 0


def _copy(kept: str | Path, target: str | Path) -> None:
    """A precompiled header, which has 156 MB, by a second name where that can be."""
    if str(target).endswith(".gch") or str(kept).endswith(".gch"):
        with suppress(OSError):
            os.link(kept, target)
            return
    shutil.copy(kept, target)


def _place(folder: Path, compiler: str, words: list[str]) -> Path | None:
    """Where the result is kept; None where the command is no plain compilation of one text."""
    header = words[:2] == ["-x", "c++-header"]
    sources = words[2:3] if header else [word for word in words if word.endswith((".cpp", ".hpp"))]
    if len(sources) != 1 or "-o" not in words[:-1] or ("-x" in words and not header):
        return None
    try:
        text = Path(sources[0]).read_bytes()
    except OSError:
        return None
    # A header beside the text may change under the same name; those of torch and the compiler don't.
    if b'#include "' in text:
        return None
    own = (*sources, words[words.index("-o") + 1])
    # torch names a precompiled header by what is in it.
    headers = {path for option, path in pairwise(words) if option == "-include"}
    options = [compiler]
    for word in words:
        options.append("" if word in own else os.path.basename(word) if word in headers else word)
    name = hashlib.sha256("\0".join(options).encode() + b"\0" + text).hexdigest()
    return folder / name


if __name__ == "__main__":
    os.makedirs(sys.argv[2], exist_ok=True)
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
