"""A busy machine is seen, said at the top, and makes no finding high; a quiet one is none of that."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from burning import CORES, Burners
from capturing import captured, own_folder, script  # noqa: F401
from click.testing import CliRunner

from inspector.analysis.ending import ending
from inspector.analysis.load import busy_reasons, busy_text, gpu_reasons, run_busy, run_taken, taken_part
from inspector.capture.gpus import GpuSample, GpuWatch, visible_gpus
from inspector.cli import cli
from inspector.contract.explain import to_json
from inspector.explain.case import Case
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.times import Times
from inspector.model.calls import CompiledCallable, ProcessCalls, VariantRun
from inspector.model.load import GpuLoad, LoadSample
from inspector.model.run import Manifest
from inspector.present.explain import lines, short_verdict
from inspector.present.spans import Line
from inspector.readers.run import Run
from inspector.readers.variants import read_gpus

BEGIN = LoadSample(at=10.0, own=5.0, busy=100.0, stolen=1.0, cores=2, waited=0.5)


def after(seconds: float = 1.0, own: float = 1.0, others: float = 0.0, **more: float) -> LoadSample:
    """The sample so long after BEGIN, that time spent by this process and by others in between."""
    return replace(BEGIN, at=10.0 + seconds, own=5.0 + own, busy=100.0 + own + others, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (after(own=2.0, others=0.05), ""),
        (after(own=1.0, others=0.9), ""),
        (after(own=1.3, others=0.7), "other processes used 0.7 of 2 cores"),
        (after(own=1.0, others=1.3), "other processes used 1.3 of 2 cores"),
        (after(own=1.0, others=1.3, stolen=2.2), "the hypervisor and other processes used 1.3 of 2 cores"),
        (after(waited=0.58), ""),
        (after(waited=0.7), "had no core for 20 % of the time"),
        (after(limited=0.3), ""),
        (after(seconds=0.1, own=0.1, others=1.0, waited=2.0), ""),
        (after(cores=1, others=5.0), ""),
    ],
)
def test_what_counts_as_busy(last: LoadSample, words: str) -> None:
    assert busy_text(busy_reasons((BEGIN, last))).startswith("the machine was busy: " if words else "")
    assert words in busy_text(busy_reasons((BEGIN, last))) and bool(words) == bool(
        busy_reasons((BEGIN, last))
    )


def test_limits_heat_and_clocks() -> None:
    first = replace(BEGIN, limited=1.0, hot=3, mhz=1200.0, mhz_most=3600.0)
    last = replace(after(), limited=1.25, hot=5, mhz=1500.0, mhz_most=3600.0)
    assert busy_reasons((first, last)) == (
        "its container's CPU limit held it back for 25 % of the time",
        "the processor was slowed down by heat 2 times",
        "the processor ran at 42 % of its highest clock at most",
    )


def test_ranks_are_not_each_others_others() -> None:
    busy = ProcessCalls(1, 0, load=(BEGIN, after(own=1.0, others=1.5)))
    assert len(run_busy([VariantRun("eager", 0, 1.0, (busy,))])) == 1
    assert run_busy([VariantRun("eager", 0, 1.0, (busy, replace(busy, rank=1)))]) == ()
    assert run_busy([VariantRun("eager", 0, 1.0, (busy,))])[0].endswith("(eager run)")
    # What blocks are made of is from a run of its own.
    profiled = run_busy([VariantRun("eager", 0, 1.0, (), profiled=(busy,))])
    assert len(profiled) == 1 and profiled[0].endswith("(eager run, profiled)")


def watched(*moments: tuple[float, int, float, bool]) -> dict[int, GpuLoad]:
    """(seconds, MiB in use, share at work, held down) of one GPU, each looked at."""
    samples = [[GpuSample(used << 20, work, held)] for _, used, work, held in moments]
    watch = GpuWatch(True, None, lambda: samples.pop(0))
    for seconds, *_ in moments[1:]:
        watch.look(seconds)
    return watch.loads()


def test_a_gpus_load_is_that_before_the_command_was_on_it() -> None:
    begin, loading = (0.0, 900, 0.9, False), (0.5, 900, 0.9, False)
    # At first the driver tells of the run before.
    quiet = watched(begin, loading, (1.5, 900, 0.0, False), (3.0, 1500, 1.0, False))
    assert quiet == {0: GpuLoad(0.0, 0.0)}
    shared = watched(begin, (1.5, 900, 0.6, False), (2.0, 900, 0.9, False), (3.0, 1500, 1.0, True))
    assert shared == {0: GpuLoad(0.75, 1.0)}
    assert watched(begin, (3.0, 1500, 1.0, False)) == {0: GpuLoad(None, 0.0)}
    # Others' work on a GPU that the command leaves alone.
    assert watched(begin, (3.0, 910, 1.0, True)) == {}
    assert list(gpu_reasons("0", quiet[0])) == []
    assert list(gpu_reasons("0", shared[0])) == [
        "others kept GPU 0 at work for 75 % of the time before the program began",
        "GPU 0 was slowed down by heat or power for 100 % of the time",
    ]


def test_gpus_that_a_command_may_use() -> None:
    assert visible_gpus({}) is None and visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-ab12"}) is None
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0, 2"}) == {0, 2}
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == visible_gpus({"CUDA_VISIBLE_DEVICES": "-1"}) == set()
    used = [0, 1 << 30]
    watch = GpuWatch(False, {1}, lambda: [GpuSample(used.pop(0), 0.0, False)] * 2)
    watch.look(3.0)
    assert list(watch.loads()) == [1]


def test_what_a_manifest_says_of_gpus_makes_a_run_busy() -> None:
    gpus = read_gpus({"0": {"before": 0.5, "held_down": 0.0}, "1": None, "2": {"before": "x"}})
    assert gpus == (("0", GpuLoad(0.5, 0.0)), ("2", GpuLoad(None, 0.0)))
    assert len(run_busy([VariantRun("compiled", 0, 1.0, (), gpus=gpus)])) == 1
    assert read_gpus("no object") == ()
    # Another's memory grew on a GPU while a program compiled for the CPU.
    for device, reasons in ("cpu", 0), ("cuda:0", 1), (None, 1):
        compiled = (CompiledCallable("f", None, 0, None, None, 3, 1.0, (), (), (1.0,), 3.0, device),)
        calls = ProcessCalls(1, 0, callables=compiled)
        assert len(run_busy([VariantRun("compiled", 0, 1.0, (calls,), gpus=gpus)])) == reasons


def test_how_much_of_a_time_others_may_have_had() -> None:
    assert taken_part((BEGIN, after(own=2.0))) == 0.0
    assert taken_part((BEGIN, after(waited=0.7))) == pytest.approx(0.2)
    # Of the one core that it would use, where two are there.
    assert taken_part((BEGIN, after(own=1.0, others=1.3))) == pytest.approx(0.3)
    # Heat says nothing of how much.
    assert taken_part((replace(BEGIN, hot=1), after(waited=0.7, hot=3))) == 1.0
    calls = (ProcessCalls(7, 0, load=(BEGIN, after(waited=0.7))),)
    assert run_taken([VariantRun("captured", 0, 1.0, calls)]) == pytest.approx(0.2)
    gpus = (("0", GpuLoad(0.5, 0.0)),)
    assert run_taken([VariantRun("captured", 0, 1.0, (), gpus=gpus)]) == 1.0


@pytest.mark.parametrize(("taken", "severity"), [(0.3, "low"), (0.6, "medium"), (1.0, "medium")])
def test_a_busy_machine_stands_below_what_holds_whatever_others_had(
    case: Case, taken: float, severity: str
) -> None:
    """44 us and 22 us: with a third of its time taken away the slower one is the slower still."""
    found = explain_case(replace(case, busy=("other processes used 1.4 of 2 cores",), taken=taken)).findings
    (at,) = (number for number, item in enumerate(found) if item.rule == "machine_busy")
    assert found[at].severity == severity and (at == 0) == (severity == "medium")
    assert ("compiled calls are slower" in found[at].title) == (severity == "low")


def test_of_several_ranks_each_is_named() -> None:
    waits = [LoadSample(0.0, 0.0, waited=0.0), LoadSample(10.0, 5.0, waited=4.0)]
    calls = tuple(ProcessCalls(pid, rank, load=tuple(waits)) for pid, rank in ((7, 0), (8, 1)))
    text = "it was ready to run and had no core for 40 % of the time"
    assert run_busy([VariantRun("captured", 0, 1.0, calls)]) == (f"rank 0: {text}", f"rank 1: {text}")
    assert run_busy([VariantRun("captured", 0, 1.0, calls[:1])]) == (text,)


@pytest.fixture(scope="module")
def case(corpus: Path) -> Case:
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    times = Times(
        compiled_ms=0.044,
        eager_ms=0.022,
        source="compiled run",
        calls=1000,
        steady_calls=999,
        outcome="slower",
    )
    return replace(case, times=times)


def words(text: list[Line]) -> list[str]:
    return ["".join(span.text for span in item.spans) for item in text]


def test_no_finding_is_high_on_a_busy_machine(case: Case) -> None:
    quiet = explain_case(case)
    assert quiet.findings[0].severity == "high" and quiet.quality != "busy" and quiet.remarks == ()
    busy = explain_case(replace(case, busy=("other processes used 1.4 of 2 cores",), taken=0.7))
    assert busy.quality == to_json(busy)["quality"] == "busy"
    assert busy.findings[0].rule == "machine_busy"
    # The reasons stand once: above the verdict, and with the finding.
    assert "1.4 of 2 cores" not in busy.verdict and "1.4 of 2 cores" in busy.findings[0].evidence[0].text
    assert busy.verdict.startswith("The machine was busy, so that times say little: capture again")
    assert busy.verdict.endswith("as it was measured, 2.00x slower than eager")
    assert {finding.severity for finding in busy.findings} <= {"medium", "low"}
    assert {finding.rule for finding in busy.findings} > {finding.rule for finding in quiet.findings}
    assert short_verdict(busy, "1.2x faster than op by op").text == "The machine was not free"
    assert words(lines(busy, 80))[0] == "the machine was busy: other processes used 1.4 of 2 cores"


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ("done", 0, ""),
        ("running", None, "the command did not end: the capture is still running, or was killed itself"),
        ("failed", 137, "the command did not end: killed by SIGKILL"),
        ("failed", 3, "the command failed with exit code 3"),
        ("interrupted", 1, "the command did not end: interrupted, exit code 1"),
    ],
)
def test_a_run_that_did_not_end_says_so(case: Case, status: str, code: int | None, text: str) -> None:
    manifest = Manifest(("python", "x.py"), status, code, 0.0, 1.0)
    assert ending(manifest) == text
    explanation = explain_case(replace(case, facts=replace(case.facts, manifest=manifest)))
    assert explanation.remarks == ((text,) if text else ())
    if text:
        assert words(lines(explanation, 120))[0] == text


BUSY = f"""
    import os, time
    os.sched_setaffinity(0, {CORES})
    import torch
    @torch.compile(backend="eager")
    def f(x):
        return (x @ x).relu()
    x = torch.ones(300, 300)
    open("begun", "w").close()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        f(x)
"""


@pytest.mark.slow
def test_cores_that_others_burn_are_seen_in_a_capture() -> None:
    with Burners() as burners:
        # Nothing is measured while torch is imported.
        burners.start("begun")
        assert captured(script(BUSY)).exit_code == 0
    (calls,) = Run.open("run").variants[0].processes
    assert len(calls.load) > 1 and calls.load[-1].cores == len(CORES)
    assert not Path("run/logs/recorder.log").exists()
    said = CliRunner().invoke(cli, ["summary", "run"]).output
    # In a virtual machine others may be the hypervisor.
    assert re.search(r"the machine was busy: .*other processes used \d\.\d of", " ".join(said.split()))
    data = json.loads(CliRunner().invoke(cli, ["summary", "run", "--json"]).output)
    assert data["busy"] == list(run_busy(Run.open("run").variants))


def test_a_reason_of_many_runs_is_said_once() -> None:
    waited = "it was ready to run and had no core for {} % of the time"
    reasons = (
        "other processes used 15.4 of 16 cores", "other processes used 9.1 of 16 cores (eager run)",
        f"rank 0: {waited.format(27)} (eager run)", f"rank 1: {waited.format(31)} (eager run)",
        "others kept GPU 0 at work for 34 % of the time before the program began",
    )  # fmt: skip
    assert busy_text(reasons) == (
        "the machine was busy: other processes used 9.1 to 15.4 of 16 cores (captured run; eager run); it "
        "was ready to run and had no core for 27 to 31 % of the time (rank 0 and 1; eager run); others kept "
        "GPU 0 at work for 34 % of the time before the program began"
    )
    assert busy_text(reasons[2:3]).endswith(reasons[2])
