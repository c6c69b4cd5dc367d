"""Whether everything that tlparse shows of a trace is found in Inspector: a table, one line per trace.

    python benchmarks/tlparse_parity.py [TRACE ...]

Without arguments: the traces of tests/data. tlparse (a dev extra) writes its pages to a temporary
folder; each of its artifact files must be a stage of ours with the same compile id, attempt, name and
content, each metrics page a compilation with the same counts, each frame of its stack trie a frame of
ours, each section of its Chrome trace a section of ours, each failure and restart ours too, and each
kind of event that it keeps a kind that we count. Exit code 1 where anything is not found.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from common import corpus

from inspector.analysis.compile_time import time_tree, walk
from inspector.model.compilation import Compilation, Stage
from inspector.readers.trace_file import TraceFile

# before_post_grad_graph_12.txt, inductor_output_code_cnarnw3g3vek2bq_14.txt
FILE = re.compile(r"(?P<name>.+?)_(?P<number>\d+)\.(?:txt|json|html)\Z")
OUTPUT_CODE = re.compile(r"inductor_output_code(_\w+)?\Z")
# Guard Count: 31, Entire Frame [?] : 8.30773
NUMBER = re.compile(
    r"(Entire Frame|Backend|Inductor|Code Gen Time|Guard Count|Shape Env Guards|Graph (?:Ops|Nodes|Inputs)"
    r"|(?<!Accumulated )Cache Size)(?:\s*\[\?\])?\s*:\s*([\d.]+)"
)
# [0/1_2]: compile id 0/1, third attempt
DIRECTORY = re.compile(r"\[(?P<id>.*?)(?:_(?P<attempt>\d+))?\]\Z")
# <td> [1/0_1] </td><td> RestartAnalysis </td>
FAILURE_ROW = re.compile(r"<td>\s*(?:<a[^>]*>)?\s*\[([^\]]+)\].*?</td>\s*<td>(.*?)</td>", re.S)
STACK_FRAME = re.compile(r">?\s*([^\s<>]+):(\d+) in (\S+)<br", re.S)

ENVELOPE = {
    "compile_id", "frame_id", "frame_compile_id", "compiled_autograd_id", "attempt", "timestamp", "thread",
    "pathname", "lineno", "has_payload", "rank", "payload_filename",
}  # fmt: skip


@dataclass
class Parity:
    """Of each kind: how many tlparse shows, and how many of them are ours too."""

    shown: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    missing: list[str] = field(default_factory=list)

    def check(self, kind: str, what: str, ours: bool) -> None:
        self.shown[kind] += 1
        self.found[kind] += ours
        if not ours:
            self.missing.append(f"{kind}: {what}")


KINDS = ("artifacts", "metrics", "frames", "sections", "failures", "kinds")


def find_tlparse() -> str | None:
    """The executable beside this interpreter, else the one on the path."""
    beside = Path(sys.executable).with_name("tlparse")
    return str(beside) if beside.is_file() else shutil.which("tlparse")


def compare(tlparse: str, trace: Path) -> Parity:
    """Run tlparse on one trace and look for each thing that it shows."""
    parity = Parity()
    file = TraceFile(trace, trace.name)
    with TemporaryDirectory(prefix="tlparse-") as folder:
        out = Path(folder) / "out"
        command = [tlparse, "--plain-text", "--no-browser", "-o", str(out), str(trace)]
        subprocess.run(command, check=True, capture_output=True)
        _artifacts(parity, file, out)
        _frames(parity, file, (out / "index.html").read_text())
        _sections(parity, file, json.loads((out / "chromium_events.json").read_text()))
        _failures(parity, file, (out / "failures_and_restarts.html").read_text())
        _kinds(parity, file, (out / "raw.jsonl").read_text())
    return parity


def _artifacts(parity: Parity, file: TraceFile, out: Path) -> None:
    directory = json.loads((out / "compile_directory.json").read_text())
    for key, entry in directory.items():
        match = DIRECTORY.match(key)
        assert match is not None, key
        attempt = int(match["attempt"] or 0)
        compilations = [c for c in file.content.compilations if c.compile_id == match["id"]]
        stages = [stage for c in compilations for stage in c.stages] or list(file.content.general)
        for artifact in entry["artifacts"]:
            name = FILE.match(artifact["name"])
            assert name is not None, artifact["name"]
            base = "inductor_output_code" if OUTPUT_CODE.match(name["name"]) else name["name"]
            what = f"{key} {artifact['name']}"
            if base.endswith("compilation_metrics"):
                page = (out / artifact["url"]).read_text()
                backward = base.startswith("bwd_")
                same_page = any(_same_metrics(page, c, backward) for c in compilations)
                parity.check("metrics", what, same_page)
                continue
            text = (out / artifact["url"]).read_text()
            if artifact["name"].endswith(".html"):
                # A list of guards (2.4) that tlparse makes a page of.
                text = json.dumps(re.findall(r"<code>(.*?)</code>", html.unescape(text), re.S))
            same = [s for s in stages if s.name == base and s.attempt == attempt]
            parity.check("artifacts", what, any(_same_text(file, stage, text) for stage in same))


def _same_text(file: TraceFile, stage: Stage, text: str) -> bool:
    """Equal, or equal as JSON, which tlparse formats anew."""
    own = file.payload(stage.event)
    if own == text:
        return True
    try:
        return bool(json.loads(own) == json.loads(text))
    except ValueError:
        return False


def _same_metrics(page: str, compilation: Compilation, backward: bool) -> bool:
    """Each number of the page is the field of ours that it shows."""
    text = re.sub(r"<[^>]+>", " ", page)
    entries = compilation.backward_metrics if backward else (compilation.metrics,)
    for metrics in entries:
        if metrics is None:
            continue
        fields = {
            "Entire Frame": metrics.seconds,
            "Backend": metrics.backend_seconds,
            "Inductor": metrics.inductor_seconds,
            "Code Gen Time": metrics.codegen_seconds,
            "Cache Size": metrics.cache_size,
            "Guard Count": metrics.guard_count,
            "Shape Env Guards": metrics.shape_guard_count,
            "Graph Ops": metrics.graph_ops,
            "Graph Nodes": metrics.graph_nodes,
            "Graph Inputs": metrics.graph_inputs,
        }
        shown = dict(NUMBER.findall(text))
        if shown and all(float(value) == fields[label] for label, value in shown.items()):
            return True
    return False


def _frames(parity: Parity, file: TraceFile, index: str) -> None:
    own = {
        (frame.path, frame.line, frame.function)
        for compilation in file.content.compilations
        for frame in compilation.stack
    }
    for path, line, function in dict.fromkeys(STACK_FRAME.findall(index)):
        frame = (html.unescape(path), int(line), html.unescape(function))
        parity.check("frames", f"{frame}", frame in own)


def _sections(parity: Parity, file: TraceFile, events: list[dict[str, Any]]) -> None:
    roots, beside = time_tree(file.timeline.spans)
    own = Counter(node.span.name for _, node in walk(roots))
    own.update(span.name for span in beside)
    theirs = Counter(event["name"] for event in events if event.get("ph") in ("B", "X"))
    for name, count in theirs.items():
        parity.check("sections", f"{name} {count}x, here {own[name]}x", own[name] == count)


def _failures(parity: Parity, file: TraceFile, page: str) -> None:
    for compile_id, kind in FAILURE_ROW.findall(page):
        same = [c for c in file.content.compilations if c.compile_id == compile_id.partition("_")[0]]
        restart = "RestartAnalysis" in kind
        ours = any(c.metrics and c.metrics.restart_reasons if restart else c.failures for c in same)
        parity.check("failures", f"{compile_id} {kind.strip()}", bool(ours))


def _kinds(parity: Parity, file: TraceFile, raw: str) -> None:
    own = {kind.name: kind.count for kind in file.content.kinds}
    theirs: Counter[str] = Counter()
    for line in raw.splitlines():
        record = json.loads(line)
        kind = next((key for key in record if key not in ENVELOPE), None)
        if kind is None or kind == "string_table":
            continue
        theirs[record[kind]["name"] if kind == "artifact" else kind] += 1
    for name, count in theirs.items():
        parity.check("kinds", f"{name} {count}x, here {own.get(name, 0)}x", own.get(name) == count)


def main() -> int:
    tlparse = find_tlparse()
    if tlparse is None:
        print("tlparse is not installed: pip install -e '.[dev]'")
        return 2
    with corpus() as folder:
        traces = [Path(name) for name in sys.argv[1:]] or sorted(folder.glob("*/*/trace/*.log"))
        print(f"{'trace':<32}" + "".join(f"{kind:>14}" for kind in KINDS))
        total = Parity()
        for trace in traces:
            parity = compare(tlparse, trace)
            total.shown.update(parity.shown)
            total.found.update(parity.found)
            total.missing.extend(f"{trace.parent.parent.name} {item}" for item in parity.missing)
            name = "/".join(trace.parts[-4:-2])
            print(f"{name:<32}" + _cells(parity))
        print(f"{'all':<32}" + _cells(total))
    for item in total.missing:
        print(f"  not found: {item}")
    return 1 if total.missing else 0


def _cells(parity: Parity) -> str:
    return "".join(f"{f'{parity.found[kind]} of {parity.shown[kind]}':>14}" for kind in KINDS)


if __name__ == "__main__":
    raise SystemExit(main())
