"""Faults planted in the C++ and Triton kernels of captured runs, and what replay says of them.

    python benchmarks/faults.py alarms RUN ... [-j JOBS] [-o FILE]      nothing is wrong: none may be blamed
    python benchmarks/faults.py plant RUN ... [-j JOBS] [-o FILE] [--most N] [--seconds S]
    python benchmarks/faults.py plant RUN ... --interpreter [--known FILE]   the same in Triton's interpreter

A fault is a change of a kernel's text (`fault_kinds`). Whether it is one is for `fault_oracle` to decide,
which knows nothing of replay. A fault that shows on what the graph gives or on N(0, 1) is plain, one that
shows on other values only is a matter of values. Results are lines of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from fault_kinds import KERNEL, KINDS, Fault, faults_of
from fault_oracle import Launches, executed, oracle

# -- one graph, in this process


def verdicts(
    files: Any, options: Any, programs: dict[int, str] | None = None
) -> tuple[dict[int, Any], list[Any], str]:
    """What replay says of each call, of the outputs, and why it failed, without a child. `programs` takes the
    calls that are written as programs."""
    import torch

    from inspector.model.replay import KernelReplay
    from inspector.replay import protocol
    from inspector.replay.worker.events import Failure
    from inspector.replay.worker.replay import Replay

    kernels: dict[int, Any] = {}
    outputs: list[Any] = []

    class Reporter:
        def send(self, event: Any) -> None:
            if isinstance(event, protocol.KernelChecked):
                kernels[event.kernel.call] = event.kernel
            elif isinstance(event, protocol.KernelStarted):
                self.started = event
            elif isinstance(event, protocol.KernelLost):
                lost = KernelReplay(self.started.kernel, self.started.call, "unverifiable", event.text)
                kernels.setdefault(self.started.call, lost)
            elif isinstance(event, protocol.Repro) and programs is not None:
                programs[event.call] = event.text
            elif isinstance(event, protocol.OutputChecked):
                outputs.append(event.check)

        def stage(self, *_: object) -> None: ...

        def note(self, *_: object) -> None: ...

    failure = ""
    with TemporaryDirectory() as scratch, torch.no_grad():
        request = protocol.Request(files, options, Path(scratch), only_kernels=not options.whole)
        try:
            Replay(request, Reporter(), options.device == "cpu" and "TRITON_INTERPRET" in os.environ).run()  # type: ignore[arg-type]
        except Failure as error:
            failure = str(error)
    return kernels, outputs, failure


def work(task: dict[str, Any], out: Path) -> None:
    """Handles one graph's faults (none: the graph as it is), a line of `out` for each."""
    import torch

    from inspector.readers.run import Run
    from inspector.replay.plan import graph_files
    from inspector.replay.protocol import ReplayOptions

    torch.set_num_threads(1)
    graph = Run.open(Path(task["run"])).graph(task["graph"])
    files = graph_files(graph)
    text = files.output_code.read_text()
    options = ReplayOptions(
        whole=task["plant"] is None, rounds=3, max_time_s=0.5, time_kernels=False, seed=1, interpreter_s=4.0
    )
    if task["interpreter"]:
        options = replace(options, device="cpu")

    def tell(**line: Any) -> None:
        with out.open("a") as file:
            file.write(json.dumps({"run": task["run"], "graph": task["graph"], **line}) + "\n")

    def said(kernels: dict[int, Any]) -> list[dict[str, Any]]:
        return [
            {
                "call": call,
                "name": item.name,
                "verdict": item.verdict,
                "kinds": item.kinds,
                "reason": item.reason[:300],
            }
            for call, item in kernels.items()
        ]

    if task["plant"] is None:
        started = time.perf_counter()
        kernels, outputs, failure = verdicts(files, options)
        bad = [
            f"{check.name}: {check.verdict} {check.reason}"[:300]
            for check in outputs
            if check.verdict not in {"match", "compiled_closer"}
        ]
        tell(
            kernels=said(kernels),
            outputs=len(outputs),
            not_match=bad,
            failure=failure,
            seconds=time.perf_counter() - started,
        )
        return
    interpreter = task["interpreter"]
    native = not interpreter or not task["known"]
    if native:
        launches = Launches(text, interpreter)
        with torch.no_grad():
            launches.record(_arguments(files, launches.module, interpreter))
        plain = executed(text, interpreter)
    texts = {kernel["name"]: kernel["body"] for kernel in KERNEL.finditer(text)}
    for graph_id, kernel, kind, edits in task["plant"]:
        fault = Fault(graph_id, kernel, kind, edits)
        key = [kernel, kind, edits]
        began = time.perf_counter()
        if key in task["done"]:
            continue
        tell(fault=key, begun=True)
        changed = fault.plant(text)
        real = task["real"].get(json.dumps(key), "")
        try:
            if native and not real:
                if fault.kernel not in launches.seen:
                    tell(fault=key, real="never launched")
                    continue
                other = executed(changed, interpreter)
                real = oracle(
                    plain[fault.kernel],
                    other[fault.kernel],
                    launches.seen[fault.kernel],
                    texts[fault.kernel],
                )
        except Exception as error:
            tell(fault=key, real="does not compile", error=str(error)[-200:])
            continue
        if real not in {"plain", "values"}:
            tell(fault=key, real=real)
            continue
        tell(fault=key, real=real, begun=True)
        _leave_if_lost()
        with TemporaryDirectory() as folder:
            path = Path(folder) / "output_code.py"
            path.write_text(changed)
            try:
                kernels, _, failure = verdicts(replace(files, output_code=path), options)
            except Exception as error:
                kernels, failure = {}, f"{type(error).__name__}: {error}"
        guilty = [item for item in kernels.values() if item.name == fault.kernel]
        blamed = [
            f"{item.name}: {item.reason[:200]}"
            for item in kernels.values()
            if item.name != fault.kernel and item.verdict == "mismatch"
        ]
        worst = "mismatch" if any(item.verdict == "mismatch" for item in guilty) else ""
        worst = worst or next(
            (item.verdict for item in guilty if item.verdict != "match"),
            guilty[0].verdict if guilty else "no row",
        )
        reason = next((item.reason for item in guilty if item.verdict == worst), "")[:300]
        kinds = guilty[0].kinds if guilty else ()
        tell(
            fault=key,
            real=real,
            verdict=worst,
            reason=reason,
            kinds=kinds,
            blamed=blamed,
            failure=failure,
            old=text[edits[0][0] : edits[0][1]],
            seconds=time.perf_counter() - began,
        )
        _leave_if_lost()


def _leave_if_lost() -> None:
    """Ends the process where a kernel's assertion lost the GPU's context; another one goes on from there."""
    import torch

    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            os._exit(LOST)


def _arguments(files: Any, space: dict[str, Any], interpreter: bool) -> list[Any]:
    """The graph's arguments: floats N(0, 1), indices in range as replay chooses them."""
    import torch

    from inspector.replay.protocol import ReplayOptions, Request
    from inspector.replay.worker.code.fx import load_program
    from inspector.replay.worker.inputs.arguments import Inputs, TensorSpec
    from inspector.replay.worker.inputs.roles import choose_values
    from inspector.replay.worker.interpreter.module import OnCpu

    specs = []
    for number, arg in enumerate(space["get_args"]()):
        if isinstance(arg, torch.Tensor):
            arg = TensorSpec(tuple(arg.shape), tuple(arg.stride()), arg.dtype, str(arg.device), number)
        specs.append(arg)
    with TemporaryDirectory() as scratch:
        if interpreter:
            request = Request(files, ReplayOptions(), Path(scratch))
            files = OnCpu(None, 20.0, 1).request(request).files
        program = load_program(files.fx_runnable, files.fx_transformed)
    inputs = Inputs(specs, 5)
    choose_values(program, inputs)
    return inputs.fresh()


# -- all of them

DONE = "=== done ===\n"
LOST = 77
REAL = ("plain", "values")


def tasks(
    runs: Sequence[Path], options: argparse.Namespace, known: dict[str, dict[str, str]]
) -> Iterator[dict[str, Any]]:
    from inspector.readers.run import Run

    for run in runs:
        for graph in Run.open(run).graphs:
            if "output_code.py" not in graph.files or graph.folder is None:
                continue
            base = {
                "run": str(run),
                "graph": graph.ident,
                "plant": None,
                "done": [],
                "real": known.get(f"{run} {graph.ident}", {}),
                "interpreter": options.interpreter,
                "known": options.known is not None,
            }
            if options.what == "alarms":
                yield base
                continue
            text = (graph.folder / "output_code.py").read_text()
            faults = faults_of(graph.ident, text, options.most, options.seed, options.kinds)
            for first in range(0, len(faults), 6):
                chunk = [list(vars(fault).values()) for fault in faults[first : first + 6]]
                if options.known is not None:
                    # Only what the oracle called a fault where it ran natively.
                    said = [base["real"].get(json.dumps(fault[1:])) for fault in chunk]
                    chunk = [item for item, real in zip(chunk, said, strict=True) if real in REAL]
                if chunk:
                    yield {**base, "plant": chunk}


class Child:
    """A process that handles one task after the other; after a crash another one takes its place."""

    def __init__(self, out: Path, interpreter: bool) -> None:
        self._out = out
        self._interpreter = interpreter
        self._process: subprocess.Popen[str] | None = None
        self._errors = open(f"{out}.{id(self)}.err", "w+")  # noqa: SIM115

    def _started(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        environment["TORCHINDUCTOR_CACHE_DIR"] = os.environ.get("FAULTS_CACHE", "/tmp/faults-cache")
        if self._interpreter:
            environment["TRITON_INTERPRET"] = "1"
        command = [sys.executable, __file__, "serve", str(self._out)]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, env=environment, stdin=pipe, stdout=pipe, stderr=self._errors, text=True
        )

    def handle(self, task: dict[str, Any], until: float) -> None:
        """Gives a task to the process, and after a crash what is left of it to another one."""
        for _ in range(8):
            left = until - time.monotonic()
            if left < 2:
                return
            process = self._process = self._process or self._started()
            assert process.stdin is not None and process.stdout is not None
            timer = Timer(min(left, 120.0), process.kill)
            timer.start()
            try:
                process.stdin.write(json.dumps(task) + "\n")
                process.stdin.flush()
                done = any(line == DONE for line in process.stdout)
            except BrokenPipeError:
                done = False
            finally:
                timer.cancel()
            if done or time.monotonic() > until - 1:
                return
            process.kill()
            code, self._process = process.wait(), None
            if not self._blame(task, f"exit {code}"):
                return

    def _blame(self, task: dict[str, Any], ended: str) -> bool:
        """Writes down with what the process ended; whether there is more to do of the task."""
        lines = (
            [json.loads(line) for line in self._out.read_text().splitlines()] if self._out.exists() else []
        )
        place = (task["run"], task["graph"])
        mine = [line for line in lines if (line["run"], line["graph"]) == place and "fault" in line]
        finished = [line["fault"] for line in mine if not line.get("begun")]
        last = next((line for line in reversed(mine) if line["fault"] not in finished), None)
        if ended == f"exit {LOST}":
            task["done"] = finished
            if last is not None:
                task["real"][json.dumps(last["fault"])] = last.get("real", "")
            return True
        self._errors.flush()
        self._errors.seek(0)
        said = self._errors.read()[-400:]
        line = {"run": task["run"], "graph": task["graph"], "ended": ended, "error": said}
        if last is not None:
            line.update(fault=last["fault"], real=last.get("real", "crashed in the oracle"), verdict="crash")
        with self._out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if last is None or task["plant"] is None:
            return False
        task["done"] = [*finished, last["fault"]]
        return True

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._errors.close()
        Path(self._errors.name).unlink()


def handled(queue: SimpleQueue[dict[str, Any]], out: Path, until: float, interpreter: bool) -> None:
    """Works on the queue until it is empty."""
    child = Child(out, interpreter)
    try:
        while time.monotonic() < until - 2:
            child.handle(queue.get_nowait(), until)
    except Empty:
        pass
    finally:
        child.end()


def summarise(out: Path, what: str) -> str:
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return "\n".join(_alarms(lines) if what == "alarms" else _planted(lines))


def _alarms(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    kernels = [(line["graph"], item) for line in lines for item in line.get("kernels", ())]
    counts = Counter(item["verdict"] for _, item in kernels)
    kinds = Counter(len(item["kinds"]) for _, item in kernels)
    seconds = sum(line.get("seconds", 0.0) for line in lines)
    yield f"{len(lines)} graphs, {len(kernels)} kernel calls: {dict(counts)}"
    yield f"kinds of values: {dict(kinds)}; {seconds:.1f} s"
    for graph, item in kernels:
        if item["verdict"] != "match":
            yield f"  {graph} {item['name'][:60]}: {item['verdict']} {item['kinds']} {item['reason'][:230]}"
    for line in lines:
        yield from (f"  {line['graph']} output {bad[:230]}" for bad in line.get("not_match", ()))
        if line.get("failure") or line.get("ended"):
            why = f"{line.get('failure')} {line.get('ended')} {line.get('error', '')[-200:]}"
            yield f"  {line['graph']} failed: {why}"


def _planted(lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    done = [line for line in lines if not line.get("begun")]
    real = [line for line in done if "verdict" in line and line.get("real") in {"plain", "values"}]
    for sort in ("plain", "values"):
        rows = [line for line in real if line["real"] == sort]
        yield f"{len(rows)} faults ({sort}): {dict(Counter(line['verdict'] for line in rows))}"
    values = sum(line["real"] == "values" for line in real)
    blamed = sum(line["verdict"] == "mismatch" for line in real)
    if real:
        shares = (blamed / len(real), values / len(real))
        yield f"{blamed} of {len(real)} caught ({shares[0]:.1%}); {shares[1]:.1%} a matter of values"
    yield from _by_kind(real)
    yield f"not faults: {dict(Counter(line.get('real') for line in done if line not in real))}"
    yield f"others blamed: {sum(bool(line.get('blamed')) for line in real)}"
    for line in real:
        if line["verdict"] != "mismatch" or line.get("blamed"):
            kernel, kind, edits = line["fault"]
            new = edits[0][2]
            place = f"{Path(line['run']).name} {line['graph']} {kernel[:60]}"
            yield f"  {line['real']} {line['verdict']} {place} [{kind}]"
            yield f"      {line.get('old', '')[:90]!r} -> {new[:90]!r}"
            said = (line.get("kinds"), line.get("reason", "")[:150], line.get("failure", "")[:100])
            yield f"      {' '.join(map(str, said))} {line.get('blamed') or ''}"


def _by_kind(real: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A row for each kind of fault: how many, on some values only, caught, and what was said else."""
    yield f"  {'kind':30}{'faults':>8}{'values':>8}{'caught':>8}  else"
    for kind in sorted({line["fault"][1] for line in real}):
        rows = [line for line in real if line["fault"][1] == kind]
        values = sum(line["real"] == "values" for line in rows)
        verdicts = Counter(line["verdict"] for line in rows)
        others = ", ".join(f"{n} {name}" for name, n in sorted(verdicts.items()) if name != "mismatch")
        yield f"  {kind:30}{len(rows):8}{values:8}{verdicts['mismatch']:8}  {others}".rstrip()


def main() -> None:
    if sys.argv[1] == "serve":
        for line in sys.stdin:
            work(json.loads(line), Path(sys.argv[2]))
            print(f"\n{DONE}", end="", flush=True)
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["alarms", "plant", "show"])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("-j", type=int, default=2)
    parser.add_argument("-o", type=Path, default=Path("faults.jsonl"))
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--interpreter", action="store_true")
    parser.add_argument("--known", type=Path, help="what the oracle said natively, for --interpreter")
    parser.add_argument("--kinds", choices=list(KINDS), default="first", help="which set of kinds of faults")
    options = parser.parse_args()
    if options.what == "show":
        print(summarise(options.o, str(options.runs[0])))
        return
    known: dict[str, dict[str, str]] = {}
    for line in map(json.loads, options.known.read_text().splitlines() if options.known else ()):
        if "fault" in line and not line.get("begun"):
            known.setdefault(f"{line['run']} {line['graph']}", {})[json.dumps(line["fault"])] = line.get(
                "real", ""
            )
    options.o.unlink(missing_ok=True)
    until = time.monotonic() + options.seconds
    todo = list(tasks(options.runs, options, known))
    random.Random(options.seed).shuffle(todo)
    queue: SimpleQueue[dict[str, Any]] = SimpleQueue()
    for task in todo:
        queue.put(task)
    with ThreadPoolExecutor(options.j) as pool:
        workers = [
            pool.submit(handled, queue, options.o, until, options.interpreter) for _ in range(options.j)
        ]
    for worker in workers:
        worker.result()
    print(summarise(options.o, options.what))


if __name__ == "__main__":
    main()
