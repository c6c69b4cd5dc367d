"""`inspector pack` of every sample run and every captured run of tests/data, with private names planted in each file.

    python benchmarks/pack.py [-k TEXT]      10 minutes

Names of a user, a machine and a project, tokens, URLs, remotes and addresses are written into every text of a copy of
the run (tests/private_names.py), digests of its trace brought up to date. Then: files with planted names, how often they
are left in the archive's bytes (unpacked, also members that are packed themselves, and names of members), digests that no
longer fit, and whether what `summary`, `fusions` and `explain` say as JSON is the same but for names. 1 where one fails.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
import json
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from common import DATA, ROOT

sys.path.insert(0, str(ROOT / "tests"))

from private_names import leaks, plant, whole

from inspector.contract import explain as explain_contract
from inspector.contract import fusions as fusions_contract
from inspector.contract import summary as summary_contract
from inspector.explain import explain
from inspector.gather import fusion_of, summary_of
from inspector.hardware.host import this_host
from inspector.pack.run import Packer
from inspector.readers.run import Run
from inspector.replay.store import load_results


def said(root: Path) -> list[str]:
    """What the commands say of a run, as JSON."""
    run = Run.open(root)
    answers = (
        summary_contract.to_json(summary_of(run)),
        fusions_contract.to_json([fusion_of(graph) for graph in run.graphs if graph.files], True),
        explain_contract.to_json(explain(run, load_results(run.root), this_host())),
    )
    return [json.dumps(answer, default=str).replace(str(root), "RUN") for answer in answers]


def archives() -> Iterator[tuple[str, Path]]:
    for archive in sorted((ROOT / "sample_runs").rglob("*.tar.xz")):
        yield archive.parent.name, archive
    for archive in sorted(DATA.rglob("*.tar.xz")):
        yield archive.name.removesuffix(".tar.xz"), archive


def runs(folder: Path, wanted: str) -> Iterator[tuple[str, Path]]:
    for number, (name, archive) in enumerate(archives()):
        if wanted in name:
            place = folder / str(number)
            with tarfile.open(archive) as tar:
                tar.extractall(place, filter="data")
            marks = {"inspector.json", "torch_compile_debug", "trace"}
            roots = {path.parent for mark in marks for path in place.rglob(mark)}
            # Not what lies in a run: trials.
            for root in sorted(root for root in roots if not roots & set(root.parents)):
                yield f"{name}/{root.relative_to(place)}", root


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-k", default="", help="only archives with this in their names")
    options = parser.parse_args()
    print(
        f"{'run':<64}{'files':>6}{'planted':>8}{'packed':>9}{'left':>5}{'digests':>9}{'unfit':>6}  JSON that differs"
    )
    bad = count = 0
    with TemporaryDirectory() as folder:
        for name, root in runs(Path(folder), options.k):
            planted = len(plant(root))
            packer = Packer(Run.open(root))
            packed = packer.write(Path(folder) / "run.tar.gz", root.name)
            left = leaks(packed.target)
            out = Path(folder) / "out" / str(count)
            with tarfile.open(packed.target) as tar:
                tar.extractall(out, filter="data")
            fit = [ok for path in (out / root.name).rglob("*.log") for ok in whole(path.read_text())]
            names = ("summary", "fusions", "explain")
            differ = [
                what
                for what, before, after in zip(names, said(root), said(out / root.name), strict=True)
                if json.loads(packer.private.clean(before)) != json.loads(after)
            ]
            count += 1
            bad += bool(left or differ or not all(fit))
            print(
                f"{name[-63:]:<64}{packed.files:>6}{planted:>8}{packed.target.stat().st_size / 1e3:>6.0f} KB{len(left):>5}"
                f"{len(fit):>9}{fit.count(False):>6}  {', '.join(differ) or 'none'}",
                flush=True,
            )
    print(f"{count} runs, {bad} bad")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
