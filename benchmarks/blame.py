"""How often `inspector blame` finds a planted cause, in how many runs, and what it says where there is none.

    python benchmarks/blame.py FOLDER [CASE ...] [--jobs N] [--cores 0,1,2] [--gpu] [--gpus N]

The programs are those of blame_programs.py. Each is captured (both sides of a pair), then `blame` has twelve
runs, with every kind of cause allowed. Found: a cause is named, and each that is named is the planted one.
With --cores each job keeps to one of them (or to several, `0-1,2-3`), with --gpus to one GPU in turn.
"""

from __future__ import annotations

import argparse
import json
import re
import site
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

from blame_programs import CASES, Case
from common import CLI, PYTHON, machine

PROGRAM = Path(__file__).with_name("blame_programs.py")
QUICK = ("TORCHINDUCTOR_COMPILE_THREADS=1", "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS=0")
"""Less work for each run; the same on both sides."""
FASTOPS = "def setup(config):\n    config.max_fusion_size = {0}\n"
GRAPHTOOLS = (
    "import torch\ndef optimise(graph):\n    for node in graph.nodes:\n"
    "        if node.target is torch.ops.aten.relu.default and {0}:\n"
    "            node.target = torch.ops.aten.abs.default\n"
)


def environments(folder: Path) -> tuple[Path, Path]:
    """Two interpreters with this one's packages, and six packages of which each has another version."""
    made = []
    for name, number in (("a", 1), ("b", 2)):
        home = folder / f"env_{name}"
        if not home.exists():
            subprocess.run([PYTHON, "-m", "venv", "--without-pip", home], check=True)
            own = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
            shared = [path for path in (*site.getsitepackages(), *sys.path) if path.endswith("-packages")]
            lines = [f"import site; site.addsitedir({path!r})" for path in dict.fromkeys(shared)]
            (own / "shared.pth").write_text("\n".join(lines) + "\n")
            texts = {
                "fastops": FASTOPS.format(64 if number == 1 else 13),
                "graphtools": GRAPHTOOLS.format(number == 2),
                **{f"other{n}": f"VALUE = {number}\n" for n in range(4)},
            }
            for package, text in texts.items():
                (own / package).mkdir()
                (own / package / "__init__.py").write_text(text)
                info = own / f"{package}-{number}.0.dist-info"
                info.mkdir()
                (info / "METADATA").write_text(
                    f"Metadata-Version: 2.1\nName: {package}\nVersion: {number}.0\n"
                )
                (info / "RECORD").write_text(f"{package}/__init__.py,,\n{info.name}/METADATA,,\n")
        made.append(home / "bin" / "python")
    return made[0], made[1]


def answer(case: Case, folder: Path, prefix: list[str]) -> dict[str, Any]:
    """Capture what there is to capture, and ask."""
    place = folder / case.name
    place.mkdir(parents=True)
    asked = []
    pythons = environments(folder) if case.packages else ()
    for side in ("a", "b") if case.sides == 2 else ("b",):
        words = [str(pythons[1]) if pythons else PYTHON, str(PROGRAM), case.name]
        # Both sides have the same words but for one case: which it is lies in the folder that it runs in.
        more = case.environment if side == "b" else case.a_environment
        options = [word for text in (*QUICK, *more) for word in ("--env", text)]
        words += ["wide"] if case.name == "command" and side == "b" else []
        cwd = place / f"cwd_{side}"
        cwd.mkdir()
        if side == "b":
            (cwd / "worse").touch()
        command = [*CLI, "capture", "-q", "--exit-zero", "-o", str(place / side), *options, "--", *words]
        subprocess.run([*prefix, *command], check=True, capture_output=True, cwd=cwd)
        asked.append(str(place / side))
    command = [*CLI, "blame", *asked, "--metric", case.metric, "--json"]
    command += ["--below", str(case.below)] if case.below is not None else []
    command += [word for python in pythons for word in ("--python", str(python))]
    done = subprocess.run([*prefix, *command], capture_output=True, text=True, cwd=place)
    if done.returncode:
        return {"causes": [], "tries": [], "verdict": done.stderr.strip().splitlines()[-1]}
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def judged(case: Case, report: dict[str, Any]) -> bool:
    labels = [cause["label"] for cause in report["causes"]]
    if case.cause is None:
        return not labels and report["verdict"] == "no difference"
    return bool(labels) and all(re.search(case.cause, label) for label in labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cores", default="")
    parser.add_argument("--gpu", action="store_true", help="the cases that need one, in place of all others")
    parser.add_argument("--gpus", type=int, default=0)
    given = parser.parse_args()
    chosen = [
        case
        for case in CASES
        if (case.name in given.cases if given.cases else case.name.startswith("gpu_") == given.gpu)
    ]
    given.folder.mkdir(parents=True, exist_ok=True)
    folder = given.folder.resolve()
    if any(case.packages for case in chosen):
        environments(folder)
    places: Queue[list[str]] = Queue()
    for number, core in enumerate(given.cores.split(",") if given.cores else [""] * given.jobs):
        visible = ["env", f"CUDA_VISIBLE_DEVICES={number % given.gpus}"] if given.gpus else []
        places.put([*visible, *(["taskset", "-c", core] if core else [])])
    print(machine(), flush=True)

    def one(case: Case) -> tuple[Case, bool, int]:
        place = places.get()
        began = time.monotonic()
        try:
            report = answer(case, folder, place)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            report = {"causes": [], "tries": [], "verdict": f"{type(error).__name__}: {error}"}
        finally:
            places.put(place)
        right = judged(case, report)
        said = " and ".join(cause["label"] for cause in report["causes"]) or report["verdict"]
        runs = len(report["tries"])
        print(
            f"{'ok' if right else 'NO':3} {case.name:16} {case.metric:8} {runs:2} runs "
            f"{time.monotonic() - began:5.0f} s  {said[:150]}",
            flush=True,
        )
        return case, right, runs

    with ThreadPoolExecutor(places.qsize()) as pool:
        results = list(pool.map(one, chosen))
    planted = [item for item in results if item[0].cause is not None]
    null = [item for item in results if item[0].cause is None]
    print(f"{sum(right for _, right, _ in planted)} of {len(planted)} planted causes found, ", end="")
    print(f"most runs {max((runs for _, _, runs in planted), default=0)}; ", end="")
    print(f"{sum(right for _, right, _ in null)} of {len(null)} without one blamed nothing")


if __name__ == "__main__":
    main()
