"""Lowers the Triton kernels of captured GPU runs here, and C++ kernels, and compares with what is on record.

    python benchmarks/lower.py [--python EXE] [--cpp N] [--cubins] [ARCHIVE OR RUN...]

Without arguments: every archive of tests/data and sample_runs. Printed are the share of kernels that are
lowered, registers and shared memory beside the record, seconds, how many instructions lead to a line of the
model, and whether constants of FX nodes stand in instructions that the map says to be of those nodes.
"""

from __future__ import annotations

import argparse
import re
import statistics
import struct
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from inspector.analysis.lowering import LoweredKernel
from inspector.analysis.stage_facts import Space, facts_of
from inspector.lowered import lowered_kernels
from inspector.model.lowering import Stage
from inspector.readers.run import Run
from inspector.readers.stages.sass import parse_sass, parse_usage
from inspector.replay.lowering import lower_job, lower_kernels
from inspector.replay.protocol import ReplayOptions

KINDS: tuple[tuple[Space, bool], ...] = (
    ("global", False), ("global", True), ("shared", False), ("shared", True),
)  # fmt: skip
ROOT = Path(__file__).parents[1]
# 0f3F3504F3, a float32 in PTX
_FLOAT = re.compile(r"\b0f([0-9A-F]{8})\b")
_COMMON = (0.0, 0.5, 1.0, 2.0)
"""Numbers that functions such as erf, and Triton's masks, have as well."""
_LITERAL = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[+-]?\d+)?(?![\w.])")


def runs_of(paths: list[Path], scratch: Path) -> Iterator[Path]:
    for number, path in enumerate(paths):
        root = path
        if path.is_file():
            root = scratch / str(number)
            root.mkdir()
            with tarfile.open(path) as tar:
                tar.extractall(root, filter="data")
        yield from sorted({debug.parent for debug in root.rglob("torch_compile_debug")})


class Reach:
    """How many instructions of one stage lead to lines of the model, all of them and those in loops."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, item: LoweredKernel, stage: Stage) -> None:
        facts = item.facts(stage.name)
        for number, place in enumerate(stage.places, 1):
            origin = item.origin(place)
            if origin is None:
                continue
            for scope in ("all", "loops") if facts is not None and facts.in_loop(number) else ("all",):
                self.counts[scope] += 1
                self.counts[f"{scope} reach"] += bool(origin.sources)
                self.counts[f"{scope} one"] += origin.source is not None

    def __str__(self) -> str:
        parts = []
        for scope in ("all", "loops"):
            count = self.counts[scope]
            if count:
                reach, one = (self.counts[f"{scope} {what}"] / count for what in ("reach", "one"))
                parts.append(f"{scope}: {count} instructions, {reach:.1%} reach a line, {one:.1%} one alone")
        return "; ".join(parts)


def constants(item: LoweredKernel, nodes: dict[str, str]) -> Counter[str]:
    """Floats that one FX node of the kernel alone has in its arguments, looked for in PTX: whether the
    instruction with it is of a node with it, as the map says."""
    owners: dict[str, set[str]] = {}
    for name in item.lines.every:
        for text in _LITERAL.findall(nodes.get(name, "")):
            if abs(float(text)) not in _COMMON:
                owners.setdefault(struct.pack(">f", float(text)).hex().upper(), set()).add(name)
    result: Counter[str] = Counter()
    stage = item.stage("ptx")
    for line, place in zip(stage.lines, stage.places, strict=True) if stage is not None else ():
        origin = item.origin(place)
        for bits in _FLOAT.findall(line) if origin is not None and place else ():
            if bits in owners and origin is not None and origin.line is not None:
                mapped = item.lines.nodes.get(origin.line - _first(item) + 1, frozenset())
                # A product whose only use is a sum becomes one instruction, which is at the sum.
                fused = "fma" in line and any(each in nodes[name] for name in mapped for each in owners[bits])
                kind = "right" if mapped & owners[bits] else "fused" if fused else "wrong"
                result[kind if mapped else "open"] += 1
    return result


def _first(item: LoweredKernel) -> int:
    assert item.kernel.source_span is not None
    return item.kernel.source_span.first


def beside_cubins(paths: list[Path], python: str | None) -> None:
    """Of runs that kept what ran on the GPU: its disassembly beside that of the same kernel lowered here."""
    with tempfile.TemporaryDirectory() as folder:
        for number, root in enumerate(runs_of(paths, Path(folder))):
            run = Run.open(root)
            own, again = Path(folder) / f"own{number}", Path(folder) / f"again{number}"
            every = lowered_kernels(run, run.graphs)
            items = [item for item in every if item.folder is not None and "cubin" in item.folder.files]
            jobs = [job for item in items if (job := lower_job(item)) is not None]
            lower_kernels(jobs, own)
            made = lower_kernels(
                [replace(job, cubin=None) for job in jobs],
                again,
                ReplayOptions(python=python),
            )
            for index, item in enumerate(items):
                name = f"{root.name} {item.kernel.kind:8} {item.kernel.name}"
                if index not in made.keys:
                    print(f"{name}: not lowered: {made.problems.get(index, made.failure)}")
                    continue
                assert item.folder is not None
                places = (own / item.folder.key, again / made.keys[index])
                texts = [next(place.glob("*.sass")) for place in places]
                ran, here = (facts_of(parse_sass("sass", path.read_text(), path.name)) for path in texts)
                same_text = _code(texts[0]) == _code(texts[1])
                facts = [
                    (each.mix, *(each.widths(*kind) for kind in KINDS), len(each.loops))
                    for each in (ran, here)
                ]
                equal = facts[0] == facts[1]
                usage = [parse_usage(next(path.parent.glob("*.usage")).read_text())["REG"] for path in texts]
                word = "the same instructions" if same_text else "equal facts" if equal else "other"
                print(f"{name}: {word}, {ran.instructions} and {here.instructions}, registers {usage}")


def _code(path: Path) -> list[str]:
    return re.findall(r"/\*[0-9a-f]{4,}\*/(.*)", path.read_text())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--cpp", type=int, default=0, help="C++ kernels to compile")
    parser.add_argument("--cubins", action="store_true", help="only compare runs that kept their cubins")
    parser.add_argument("paths", nargs="*", type=Path)
    asked = parser.parse_args()
    archives = sorted([*ROOT.glob("tests/data/*.tar.xz"), *ROOT.glob("sample_runs/**/run.tar.xz")])
    paths = asked.paths or [path for path in archives if path.name != "stages.tar.xz"]
    if asked.cubins:
        beside_cubins(paths, asked.python)
        return
    kinds: Counter[str] = Counter()
    seconds: list[float] = []
    recorded: list[tuple[str, int, int, int | None, int | None]] = []
    sass, asm, floats, versions = Reach(), Reach(), Counter[str](), set()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for number, root in enumerate(runs_of(paths, scratch)):
            run, made = Run.open(root), scratch / f"made{number}"
            pairs = [(item, job) for item in lowered_kernels(run, run.graphs) if (job := lower_job(item))]
            left = max(0, asked.cpp - kinds["cpp"])
            pairs = [pair for pair in pairs if not pair[1].cpp] + [pair for pair in pairs if pair[1].cpp][
                :left
            ]
            if not pairs:
                continue
            options = ReplayOptions(python=asked.python)
            result = lower_kernels([job for _, job in pairs], made, options)
            for index, (item, job) in enumerate(pairs):
                kind = "cpp" if job.cpp else item.kernel.kind
                kinds[kind] += 1
                kinds[f"{kind} lowered"] += index in result.keys
                if index in result.problems:
                    print(f"not lowered: {item.kernel.name} of {root.name}: {result.problems[index]}")
                kinds["first of several"] += bool(result.notes.get(index))
                if index in result.seconds and not job.cpp:
                    seconds.append(result.seconds[index])
            nodes = {
                graph.ident: {node.name: node.text for node in fx.nodes}
                for graph in run.graphs
                if (fx := graph.fx("transformed")) is not None
            }
            wanted = {(item.graph, item.kernel.name) for item, _ in pairs}
            for item in lowered_kernels(run, run.graphs, made=made):
                folder_of = next((each for each in (item.folder, *item.others) if each and each.made), None)
                if folder_of is None or (item.graph, item.kernel.name) not in wanted:
                    continue
                versions.add(folder_of.triton_version)
                for stage in item.stages:
                    if stage.name in ("sass", "asm"):
                        (sass if stage.name == "sass" else asm).add(item, stage)
                floats += constants(item, nodes.get(item.graph, {}))
                seen = item.recorded
                if seen is not None and seen.registers is not None and folder_of.registers is not None:
                    values = (folder_of.registers, seen.registers, folder_of.shared_bytes, seen.shared_bytes)
                    recorded.append((item.kernel.name, *values))
            print(f"{root.name}: {len(result.keys)} of {len(pairs)}", flush=True)
    print(f"\nTriton {', '.join(sorted(filter(None, versions)))}")
    for kind in ("triton", "user", "template", "cpp"):
        if kinds[kind]:
            print(f"{kind}: {kinds[f'{kind} lowered']} of {kinds[kind]} lowered")
    print(f"whose configuration nobody recorded (the first of several): {kinds['first of several']}")
    if seconds:
        print(f"seconds per Triton kernel: median {statistics.median(seconds):.2f}, most {max(seconds):.2f}")
    if recorded:
        equal = sum(own == other for _, own, other, _, _ in recorded)
        near = sum(abs(own - other) <= 0.1 * other for _, own, other, _, _ in recorded)
        shared = sum(own == other for _, _, _, own, other in recorded)
        print(f"on record {len(recorded)}: shared memory equal {shared}, ", end="")
        print(f"registers equal {equal}, within 10 % {near}")
        for name, own, other, memory, before in recorded:
            if abs(own - other) > 0.1 * other or memory != before:
                print(f"  {name}: {own} registers ({other}), {memory} bytes ({before})")
    print(f"SASS: {sass}\nassembly: {asm}")
    print(f"constants of one FX node in PTX: {dict(floats)}")


if __name__ == "__main__":
    main()
