"""Cuts every file of some runs short, at many places, and lists the cuts that nobody mentions.

    python tests/cutting.py [--cuts N]

A cut counts as said where a problem, note or remark that was not there before names the file.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fuzzing import DATA, SAMPLES, Fuzzer

from inspector.explain import explain
from inspector.explain.profiles import load_profiles
from inspector.gather import fusion_of, summary_of, trace_report
from inspector.model.problem import InspectorError
from inspector.readers.run import Run
from inspector.replay.edits import EditFolder
from inspector.replay.store import load_results

ARCHIVES = (
    DATA / "cpu-torch2.4.1.tar.xz", DATA / "cpu-torch2.13.tar.xz", SAMPLES / "breaks" / "run.tar.xz",
    SAMPLES / "h200" / "run.tar.xz", DATA / "profiled-runs.tar.xz",
)  # fmt: skip


UNREAD = {"stdout.txt", "workload.py", "c.json.gz", "e.json.gz", "bootstrap.log"}
"""The program's own, and what belongs to no run."""


def said(path: Path) -> set[str]:
    """Everything that is said of what is wrong with a run."""
    run = Run.open(path)
    texts: list[str] = []
    texts += map(str, summary_of(run).problems)
    explanation = explain(run, load_results(run.root, texts.append), None, load_profiles(run, None, None))
    texts += explanation.remarks
    texts += explanation.sides.notes if explanation.sides is not None else ()
    with suppress(InspectorError):
        texts += map(str, trace_report(run, None).problems)
    for graph in run.graphs:
        if graph.files:
            texts += fusion_of(graph).notes
        code = graph.code()
        for kernel in code.kernels[:1] if code is not None else ():
            EditFolder(run, graph.ident, kernel).load(texts.append)
    return set(texts)


def places(data: bytes, count: int, chance: random.Random) -> Iterator[int]:
    """Half of them at the ends of lines."""
    ends = [at for at, byte in enumerate(data) if byte == 10 and at + 1 < len(data)]
    middle = [chance.randrange(1, len(data)) for _ in range(count)] if len(data) > 1 else []
    yield from sorted(
        {*middle, *(chance.choice(ends) + 1 for _ in range(count if ends else 0)), len(data) - 1} - {0}
    )


def cuts_of(run: Path, path: Path, count: int) -> Iterator[tuple[int, bool, bool]]:
    """(place, whether it is behind a line's end, whether anybody mentions it) for each cut."""
    data = path.read_bytes()
    if not data.strip():
        return
    before = said(run)
    try:
        for at in places(data, count, random.Random(str(path.name))):
            if not data[at:].strip():
                continue  # Nothing is lost.
            path.write_bytes(data[:at])
            yield at, data[at - 1 : at] == b"\n", any(path.name in text for text in said(run) - before)
    finally:
        path.write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cuts", type=int, default=12, help="of each file, twice as many")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cuts-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    os.environ.update(
        {name: str(folder / "home") for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
    )
    total: Counter[str] = Counter()
    silent: dict[tuple[str, bool], list[str]] = defaultdict(list)
    try:
        with Fuzzer(folder, ARCHIVES) as fuzzer:
            for run in fuzzer.runs:
                for path in fuzzer.files[run]:
                    if path.name in UNREAD or path.name.startswith("aot_model"):
                        continue
                    kind = path.suffix if path.parent.name == "trace" else path.name
                    kind = "replay/*.json" if path.parent.name == "replay" else kind
                    for at, at_end, known in cuts_of(run, path, given.cuts):
                        total[kind] += 1
                        if not known:
                            silent[kind, at_end].append(f"{path.relative_to(folder)} at {at}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{sum(total.values()):,} cuts, of which nobody mentions {sum(map(len, silent.values())):,}:")
    print("  cuts  silent within a line  silent behind a line's end")
    for kind, count in total.most_common():
        within, behind = silent.get((kind, False), []), silent.get((kind, True), [])
        print(f"{count:>6}  {len(within):>20}  {len(behind):>26}  {kind}")
        for text in within[:3] + behind[:1]:
            print(f"        {text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
