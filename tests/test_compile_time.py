"""Where compilation spent its time: spans from events, the tree, parts that add up."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inspector.analysis.compile_time import compile_times, covered_ns, part_of, time_tree, walk
from inspector.model.compilation import Compilation, CompileMetrics
from inspector.model.compile_time import PARTS, CompileTimes, Timeline, TimeSpan
from inspector.present.compile_time import LEGEND, LETTERS, bar, parts_lines
from inspector.readers.chromium import read_timeline
from inspector.readers.compilations import read_content
from inspector.readers.trace import read_trace


def traces(corpus: Path) -> list[Path]:
    found = sorted(corpus.glob("*/*/trace/*.log"))
    assert len(found) == 19
    return found


def event(phase: str, name: str, time: float, compile_id: str | None = "0/0", **more: Any) -> str:
    """One chromium event as torch writes it."""
    body = {"name": name, "ts": time, "args": {"compile_id": str(compile_id)}, "ph": phase, **more}
    numbers = compile_id.split("/") if compile_id is not None else ()
    frame = {key: int(value) for key, value in zip(("frame_id", "frame_compile_id"), numbers, strict=False)}
    head = {"chromium_event": {}, **frame, "attempt": 0, "has_payload": "0" * 32}
    lines = json.dumps(body, indent=0).replace("\n", "\n\t")
    return f"V1121 05:02:31.274000 12661 torch/_dynamo/utils.py:2350] {json.dumps(head)}\n\t{lines}\n"


def timeline(*events: str) -> Timeline:
    data = "".join(events).encode()
    return read_timeline(read_trace(data, "trace.log"), data)


def times_of(path: Path, data: bytes | None = None) -> CompileTimes:
    data = path.read_bytes() if data is None else data
    trace = read_trace(data, path.name)
    return compile_times(read_timeline(trace, data).spans, read_content(trace, data).compilations)


def check_sums(times: CompileTimes) -> None:
    """What must hold of any log, whole or damaged."""
    for time in (*times.ids.values(), times.total):
        assert sum(time.parts.values()) == time.total_ns
        assert all(value >= 0 for value in time.parts.values())
    assert sum(time.total_ns for time in times.ids.values()) == times.total.total_ns
    for root in times.total.roots:
        assert sum(node.self_ns for _, node in walk([root])) == root.span.duration_ns
    assert sum(root.span.duration_ns for root in times.total.roots) == times.total.total_ns


def test_self_times_add_up_on_every_trace(corpus: Path) -> None:
    for path in traces(corpus):
        times = times_of(path)
        check_sums(times)
        assert times.total.total_ns > 10**9 and times.total.complete, path
        assert times.total.source == ("metrics" if "2.4.1" in str(path) else "events")


def test_the_total_is_what_torch_says(corpus: Path) -> None:
    """The frame's time in compilation_metrics is measured by torch's own clock around the same code."""
    for path in traces(corpus):
        data = path.read_bytes()
        trace = read_trace(data, path.name)
        for item in read_content(trace, data).compilations:
            time = times_of(path).ids[item.ident]
            told = sum(entry.seconds or 0.0 for entry in item.all_metrics if not entry.is_runtime)
            compiling = (time.total_ns - time.first_run_ns) / 1e9
            assert compiling == pytest.approx(told, abs=0.03), (path, item.ident)


def test_known_parts_of_one_run(corpus: Path) -> None:
    times = times_of(next((corpus / "h200-torch2.11/resnet50/trace").glob("*.log")))
    assert list(times.ids) == ["0/0", "0/1"]
    seconds = {part: value / 1e9 for part, value in times.ids["0/1"].parts.items()}
    assert seconds["scheduling"] == pytest.approx(5.54, abs=0.01)
    assert seconds["codegen"] == pytest.approx(4.06, abs=0.01)
    assert seconds["kernels"] == pytest.approx(0.58, abs=0.01)
    assert seconds["guards"] == pytest.approx(0.092, abs=0.001)
    assert times.ids["0/1"].phases["backward"] / 1e9 == pytest.approx(5.53, abs=0.01)
    assert times.ids["0/1"].phases["joint"] / 1e9 == pytest.approx(0.72, abs=0.01)
    assert times.ids["0/0"].phases["backward"] == 0
    assert times.ids["0/1"].first_run_ns / 1e9 == pytest.approx(0.58, abs=0.01)


def test_every_section_of_the_corpus_has_a_part(corpus: Path) -> None:
    for path in traces(corpus):
        data = path.read_bytes()
        for span in read_timeline(read_trace(data, path.name), data).spans:
            assert part_of(span.name) != "other" or span.name in ("gc",), span.name


def test_threads_beside_the_main_one_are_not_counted_twice() -> None:
    """C++ compilers in the background: no compile id, and crossing the section that waits for them."""
    spans = timeline(
        event("B", "code_gen", 0),
        event("B", "compile_file", 10, None),
        event("B", "async_compile.wait", 30),
        event("E", "compile_file", 70, None),
        event("E", "async_compile.wait", 80),
        event("E", "code_gen", 100),
    ).spans
    times = compile_times(spans)
    assert times.total.parts == {"codegen": 50_000, "kernels": 50_000}
    assert (times.total.total_ns, times.total.parallel_ns) == (100_000, 60_000)
    assert times.ids["0/0"].parallel_ns == 60_000
    check_sums(times)


def test_a_section_that_ends_after_the_one_around_it_runs_beside() -> None:
    roots, beside = time_tree([TimeSpan("a", "0/0", 0, 10, 1), TimeSpan("b", "0/0", 5, 15, 2)])
    assert [root.span.name for root in roots] == ["a"] and [span.name for span in beside] == ["b"]
    assert roots[0].self_ns == 10


def test_recursion_and_repetition_pair_from_the_inside() -> None:
    spans = timeline(
        event("B", "dynamo", 0), event("B", "dynamo", 2), event("E", "dynamo", 3), event("E", "dynamo", 9),
        event("X", "gc", 9.5, dur=2.25), event("i", "note", 4),
    ).spans  # fmt: skip
    assert [(span.name, span.start_ns, span.end_ns) for span in spans] == [
        ("dynamo", 0, 9000),
        ("dynamo", 2000, 3000),
        ("gc", 9500, 11750),
    ]


def test_what_compiles_inside_another_keeps_its_time() -> None:
    times = compile_times(
        timeline(
            event("B", "dynamo", 0), event("B", "dynamo", 10, "1/0"), event("E", "dynamo", 40, "1/0"),
            event("E", "dynamo", 100),
        ).spans
    )  # fmt: skip
    assert {name: time.total_ns for name, time in times.ids.items()} == {"0/0": 70_000, "1/0": 30_000}
    check_sums(times)


def test_a_log_cut_off_says_which_sections_have_no_end() -> None:
    found = timeline(
        event("B", "dynamo", 0), event("B", "code_gen", 5), event("B", "gc", 7), event("E", "gc", 8)
    )
    assert [(span.name, span.closed, span.end_ns) for span in found.spans] == [
        ("dynamo", False, 8000),
        ("code_gen", False, 8000),
        ("gc", True, 8000),
    ]
    (problem,) = found.problems
    assert "2 timed sections without an end" in problem.message and problem.line == 1
    assert not compile_times(found.spans).total.complete


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (event("E", "dynamo", 3), "1 end of timed sections without a beginning: dynamo"),
        (event("B", "dynamo", 3).replace('"ph"', '"pf"'), "1 chromium event that cannot be read"),
        (event("B", "dynamo", float("nan")), "1 chromium event that cannot be read"),
        (event("B", "dynamo", True), "1 chromium event that cannot be read"),
        (event("B", "dynamo", 3).replace('"dynamo"', "7"), "1 chromium event that cannot be read"),
    ],
)
def test_strange_events_are_problems(text: str, message: str) -> None:
    good = event("B", "gc", 1) + event("E", "gc", 2)
    found = timeline(good + text)
    assert [problem.message for problem in found.problems] == [message]
    assert [span.name for span in found.spans] == ["gc"]


def test_cuts_and_garbage_never_raise_and_still_add_up(corpus: Path) -> None:
    path = next((corpus / "cpu-torch2.13/mlp/trace").glob("*.log"))
    data = path.read_bytes()
    generator = random.Random(11)
    cut_inside = 0
    for cut in generator.sample(range(len(data)), 12):
        times = times_of(path, data[:cut])
        check_sums(times)
        cut_inside += not times.total.complete
    assert cut_inside > 6
    small = next((corpus / "cpu-torch2.6.0/softmax/trace").glob("*.log"))
    source = small.read_bytes()
    for _ in range(60):
        damaged = bytearray(source)
        for _ in range(150):
            damaged[generator.randrange(len(damaged))] = generator.choice(b'\t\n\0"{}[]:,0x9\xff')
        check_sums(times_of(small, bytes(damaged)))


def test_deep_nesting_is_no_recursion() -> None:
    spans = [TimeSpan("x", "0/0", i, 50_000 - i, i) for i in range(20_000)]
    times = compile_times(spans)
    check_sums(times)
    assert times.total.total_ns == 50_000


def test_two_compilations_of_one_id_have_their_own_time() -> None:
    """After torch._dynamo.reset() ids begin again; the frame's sections begin before dynamo_start."""

    def one(offset: float) -> str:
        start = '{"dynamo_start": {"stack": []}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}'
        metrics = (
            '{"compilation_metrics": {"co_name": "f"}, "frame_id": 0, "frame_compile_id": 0, "attempt": 0}'
        )
        head = "V1121 05:02:31.274000 12661 torch/_dynamo/utils.py:2350] "
        return (
            event("B", "dynamo", offset)
            + f"{head}{start}\n"
            + event("B", "build_guards", offset + 1)
            + event("E", "build_guards", offset + 3)
            + f"{head}{metrics}\n"
            + event("E", "dynamo", offset + 10 + offset / 100)
        )

    data = (one(0) + one(100)).encode()
    trace = read_trace(data, "t")
    times = compile_times(read_timeline(trace, data).spans, read_content(trace, data).compilations)
    assert {ident: time.total_ns for ident, time in times.ids.items()} == {"0/0": 10_000, "0/0~2": 11_000}
    assert times.ids["0/0~2"].parts["guards"] == 2000


def test_rounded_metrics_nest_like_sections() -> None:
    """2.4 writes four durations, each including the next; rounding can turn two of them round."""
    metrics = CompileMetrics(
        "0/0",
        False,
        False,
        1,
        seconds=2.0,
        backend_seconds=1.5,
        inductor_seconds=1.5000001,
        codegen_seconds=1.0,
    )
    compilation = Compilation("0/0", "0/0", None, None, "ok", 1, 1, 1, metrics=metrics)
    late = Compilation("1/0", "1/0", None, None, "ok", 1, 9, 9, metrics=replace(metrics, compile_id="1/0"))
    times = compile_times([], [compilation, late])
    check_sums(times)
    assert times.total.parallel_ns == 0 and times.total.source == "metrics"
    parts = {"dynamo": 500_000_000, "aot": 0, "lowering": 500_000_000, "codegen": 1_000_000_000}
    assert times.ids["0/0"].parts == times.ids["1/0"].parts == parts


def test_covered_time_counts_overlaps_once() -> None:
    spans = [TimeSpan("a", None, 0, 10, 1), TimeSpan("a", None, 5, 20, 2), TimeSpan("a", None, 30, 31, 3)]
    assert covered_ns(spans) == 21
    assert covered_ns([]) == 0


def test_every_part_has_a_letter_and_bars_have_their_length(corpus: Path) -> None:
    assert set(LETTERS) == set(PARTS) and {letter for letter, _ in LEGEND} == set(LETTERS.values())
    for path in traces(corpus):
        times = times_of(path)
        for time in times.ids.values():
            assert len(bar(time)) == 20
        assert bar(times.total).count("k") == pytest.approx(
            20 * times.total.parts.get("kernels", 0) / times.total.total_ns, abs=1
        )
        assert any("compile time" in line.text for line in parts_lines(times.total))
    assert bar(None) == ""
