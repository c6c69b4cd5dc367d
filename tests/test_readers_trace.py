"""The TORCH_TRACE reader: an index of every line, and what the events say."""

from __future__ import annotations

import hashlib
import json
import random
import re
import tarfile
from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inspector.model.source import SourceLocation
from inspector.model.trace import Trace, TracedGraph, TraceEvent
from inspector.present.detail import event_detail
from inspector.present.run import event_spans
from inspector.present.trace import event_lines, function_text
from inspector.readers.run import Run
from inspector.readers.trace import compile_id_of, payload, read_trace
from inspector.readers.trace_events import (
    cache_events,
    compiled_graphs,
    graph_breaks,
    kind_counts,
    recompiles,
    torch_version,
)

EXTRA = Path(__file__).parent / "data" / "extra" / "torch-logs-2.13-cpu.tar.xz"
NAME = "dedicated_log_torch_trace_abcdefgh.log"


def verify(data: bytes, event: TraceEvent) -> bool:
    """Whether the payload is the one that torch wrote, by its md5; true for an event without one."""
    if event.digest is None:
        return event.payload is None
    return hashlib.md5(payload(data, event).encode()).hexdigest() == event.digest


@pytest.fixture(scope="module")
def traces(corpus: Path) -> list[tuple[Path, bytes, Trace]]:
    """Every captured trace: its run's folder, its bytes and its index."""
    found = []
    for path in sorted(corpus.glob("*/*/trace/*.log")):
        data = path.read_bytes()
        found.append((path.parent.parent, data, read_trace(data, path.name)))
    assert len(found) == 19
    return found


def envelope(content: dict[str, Any], *lines: str, frame: int = 0, count: int = 0) -> str:
    """One event as torch writes it."""
    record = {**content, "frame_id": frame, "frame_compile_id": count, "attempt": 0}
    if lines:
        record["has_payload"] = hashlib.md5("\n".join(lines).encode()).hexdigest()
    head = f"V1121 05:02:31.274000 12661 torch/_dynamo/utils.py:2009] {json.dumps(record)}"
    return "\n".join([head, *(f"\t{line}" for line in lines)]) + "\n"


def artifact(name: str, *lines: str, frame: int = 0, count: int = 0) -> str:
    """One artifact as torch writes it."""
    return envelope({"artifact": {"name": name, "encoding": "string"}}, *lines, frame=frame, count=count)


def lines_of(data: bytes, trace: Trace) -> Counter[int]:
    """How often each line of the file is claimed by an event, a payload or a problem."""
    ends = [match.start() for match in re.finditer(rb"\n", data)]
    claimed: Counter[int] = Counter()
    for event in trace.events:
        claimed[event.line] += 1
        if event.payload is not None:
            first, last = (bisect_left(ends, position) + 1 for position in event.payload)
            claimed.update(range(first, last + 1))
    for problem in trace.problems:
        if "is missing" in problem.message:
            continue
        assert problem.line is not None
        match = re.match(r"(\d+) lines? ", problem.message)
        claimed.update(range(problem.line, problem.line + (int(match[1]) if match else 1)))
    return claimed


# -- the index


def test_every_line_is_claimed_once(traces: list[tuple[Path, bytes, Trace]]) -> None:
    total = 0
    for run, data, trace in traces:
        claimed = lines_of(data, trace)
        assert claimed == Counter(range(1, data.count(b"\n") + 1)), run
        assert trace.problems == ()
        total += len(claimed)
    assert total > 100_000


def test_events_are_the_lines_without_a_tab(traces: list[tuple[Path, bytes, Trace]]) -> None:
    for _, data, trace in traces:
        heads = [(i, line) for i, line in enumerate(data.decode().split("\n"), 1) if line and line[0] != "\t"]
        assert [event.line for event in trace.events] == [line for line, _ in heads]
        for event, (_, head) in zip(trace.events, heads, strict=True):
            record = json.loads(head.split("] ", 1)[1])
            assert event.kind == next(iter(record)) and event.data == record[event.kind]
            assert event.digest == record.get("has_payload")
            assert event.compile_id == (
                f"{record['frame_id']}/{record['frame_compile_id']}" if "frame_id" in record else None
            )
            assert event.attempt == record.get("attempt", 0)


def test_payloads_have_the_digest_that_torch_wrote(traces: list[tuple[Path, bytes, Trace]]) -> None:
    with_payload = 0
    for _, data, trace in traces:
        for event in trace.events:
            assert verify(data, event)
            assert (event.payload is None) == (event.digest is None)
            with_payload += event.payload is not None
    assert with_payload > 4000


def test_the_table_of_file_names(corpus: Path, traces: list[tuple[Path, bytes, Trace]]) -> None:
    trace = next(trace for run, _, trace in traces if run == corpus / "cpu-torch2.4.1/softmax")
    assert trace.strings[0] == "/home/user/runs/softmax/softmax.py"
    assert sorted(trace.strings) == list(range(len(trace.strings)))
    assert len(trace.of_kind("str")) == len(trace.strings)


def test_payloads_with_tabs_and_empty_lines() -> None:
    data = (artifact("one", "a", "\tb", "", "") + artifact("two", "") + artifact("three")).encode()
    trace = read_trace(data, NAME)
    assert [payload(data, event) for event in trace.events] == ["a\n\tb\n\n", "", ""]
    assert [event.payload is None for event in trace.events] == [False, False, True]
    assert all(verify(data, event) for event in trace.events) and trace.problems == ()


def test_a_changed_payload_does_not_verify_and_is_still_read() -> None:
    data = artifact("one", "/home/secret/train.py").replace("/home/secret", "/home/user").encode()
    (event,) = (trace := read_trace(data, NAME)).events
    assert not verify(data, event)
    assert payload(data, event) == "/home/user/train.py"
    assert trace.problems == ()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"frame_id": 0, "frame_compile_id": 3}, "0/3"),
        ({"compiled_autograd_id": 1, "frame_id": 0, "frame_compile_id": 2}, "!1/0/2"),
        ({"compiled_autograd_id": 0}, "!0"),
        ({"frame_id": 4}, None),
        ({}, None),
    ],
)
def test_compile_ids_are_written_as_torch_does(fields: dict[str, int], expected: str | None) -> None:
    assert compile_id_of(fields) == expected
    head = {"dynamo_start": {}, **fields, "attempt": 2}
    data = f"V1121 05:02:31.274000 12661 torch/x.py:9] {json.dumps(head)}\n".encode()
    (event,) = read_trace(data, NAME).events
    assert (event.compile_id, event.attempt) == (expected, 2)


def test_the_rank_comes_from_the_envelope_or_the_name() -> None:
    text = envelope({"dynamo_start": {}})
    named = read_trace(text.encode(), "trace/dedicated_log_torch_trace_rank_3_8x2k1v_0.log")
    assert (named.rank, named.events[0].rank) == (3, 3)
    told = read_trace(text.replace('"attempt"', '"rank": 5, "attempt"').encode(), NAME)
    assert (told.rank, told.events[0].rank) == (5, 5)
    assert read_trace(text.encode(), NAME).rank is None


# -- damage


def test_nothing_gives_nothing() -> None:
    assert read_trace(b"", NAME) == Trace(NAME, (), {}, None, ())


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("\tleft over\n\tof something\n", "", "2 lines of payload without an envelope"),
        ("what is this\n\tpayload\nand this\n", "", "3 lines neither envelope nor payload"),
        ("", 'V1121 05:02:31.274000 1 torch/x.py:9] {"artifact": {"na', "the log ends within an envelope"),
        ("", "V1121 05:02:31.2", "1 line neither envelope nor payload"),
        ("V1121 05:02:31.274000 1 torch/x.py:9] {nonsense}\n", "", "the envelope is not JSON"),
        ("V1121 05:02:31.274000 1 torch/x.py:9] {}\n\tlost\n", "", "1 line of payload without an envelope"),
    ],
)
def test_strange_lines_are_problems_and_the_rest_is_kept(before: str, after: str, message: str) -> None:
    good = artifact("one", "payload")
    data = (before + good + after).encode()
    trace = read_trace(data, NAME)
    (problem,) = trace.problems
    assert problem.message.startswith(message)
    assert problem.path == NAME
    assert [payload(data, event) for event in trace.events] == ["payload"]
    if after:
        assert problem.line == 3
    elif "{}" not in before:
        assert problem.line == 1


def test_a_missing_payload_and_one_that_nobody_announced() -> None:
    cut = artifact("one", "payload").split("\n")[0] + "\n"
    extra = artifact("two").rstrip("\n") + "\n\tsurplus\n"
    trace = read_trace((cut + extra).encode(), NAME)
    assert [event.name for event in trace.events] == ["one", "two"]
    assert [event.payload for event in trace.events] == [None, None]
    assert [(p.line, p.message) for p in trace.problems] == [
        (1, "the payload of artifact is missing"),
        (3, "1 line of payload without an envelope"),
    ]
    assert not verify(b"", trace.events[0])


def test_windows_line_ends_change_only_the_ranges(corpus: Path) -> None:
    data = next((corpus / "cpu-torch2.6.0/softmax/trace").glob("*.log")).read_bytes()
    other = data.replace(b"\n", b"\r\n")
    one, two = read_trace(data, NAME), read_trace(other, NAME)
    assert two.problems == ()
    for first, second in zip(one.events, two.events, strict=True):
        assert (first.kind, first.name, first.line, first.data) == (
            second.kind,
            second.name,
            second.line,
            second.data,
        )
        assert payload(data, first).rstrip("\n") == payload(other, second).rstrip("\n\r")


def test_a_byte_order_mark_and_bad_bytes() -> None:
    data = b"\xef\xbb\xbf" + artifact("one", "payload").encode().replace(b"\tpayl", b"\tp\xff\xfel")
    trace = read_trace(data, NAME)
    assert trace.problems == ()
    assert payload(data, trace.events[0]) == "p��load"
    utf16 = artifact("one", "payload").encode("utf-16")
    assert read_trace(utf16, NAME).events == () and read_trace(utf16, NAME).problems


@pytest.mark.parametrize(
    "run", ["cpu-torch2.4.1/softmax", "cpu-torch2.6.0/softmax", "cpu-torch2.13/cache_hit"]
)
def test_a_trace_cut_anywhere_keeps_what_precedes_the_cut(corpus: Path, run: str) -> None:
    data = next((corpus / run / "trace").glob("*.log")).read_bytes()
    whole = read_trace(data, NAME)
    for cut in random.Random(3).sample(range(len(data)), 150):
        part_data = data[:cut]
        part = read_trace(part_data, NAME)
        complete = [
            event
            for event in whole.events
            if (event.payload or (0, 0))[1] < cut and part_data.count(b"\n") >= event.line
        ]
        assert [event.line for event in part.events[: len(complete)]] == [event.line for event in complete]
        for event in part.events[: len(complete) - 1]:
            assert verify(part_data, event)
        assert set(lines_of(part_data, part)) == set(
            range(1, part_data.count(b"\n") + 1 + (part_data[-1:] not in (b"", b"\n")))
        )
        graph_breaks(part, part_data), recompiles(part, part_data), compiled_graphs(part, part_data)
        torch_version(part, part_data), cache_events(part), kind_counts(part)


def test_garbage_never_raises(corpus: Path) -> None:
    generator = random.Random(5)
    source = next((corpus / "cpu-torch2.4.1/softmax/trace").glob("*.log")).read_bytes()
    for _ in range(150):
        data = bytearray(source)
        for _ in range(120):
            data[generator.randrange(len(data))] = generator.choice(b'\t\n\r\0"{}[]:,x\xff')
        damaged = bytes(data)
        trace = read_trace(damaged, NAME)
        for event in trace.events:
            payload(damaged, event)
        (
            graph_breaks(trace, damaged),
            recompiles(trace, damaged),
            compiled_graphs(trace, damaged),
            torch_version(trace, damaged),
        )


def test_envelopes_that_are_not_what_they_should_be() -> None:
    heads = [
        '{"str": [1]}',
        '{"artifact": null}',
        '{"artifact": {"name": 7}, "attempt": "x", "rank": "y", "has_payload": 3}',
    ]
    heads += [
        '{"dynamo_start": {"stack": 4}, "frame_id": 0, "frame_compile_id": 1}',
        "[" * 100_000,
        '{"a": ' * 100_000,
    ]
    data = "".join(f"V1121 05:02:31.274000 1 torch/x.py:9] {head}\n" for head in heads).encode()
    trace = read_trace(data, NAME)
    assert len(trace.events) == 4
    assert [problem.line for problem in trace.problems] == [1, 3, 5, 6]
    recompiles(trace, data)


# -- what the events say


def test_recompiles_of_versions_without_reasons() -> None:
    metrics = {"co_name": "f", "co_filename": "/home/user/a.py", "co_firstlineno": 4}
    data = (
        envelope({"dynamo_start": {"stack": []}})
        + envelope({"dynamo_start": {"stack": [{"line": 9, "name": "caller", "filename": 0}]}}, count=1)
        + envelope({"compilation_metrics": metrics}, count=1)
        + envelope({"dynamo_start": {"stack": []}}, frame=1)
    ).encode()
    (event,) = recompiles(read_trace(data, NAME), data)
    assert (event.compile_id, event.function, event.reasons, event.line) == ("0/1", "f", (), 2)
    assert event.location == SourceLocation("/home/user/a.py", 4, "f")


def test_a_start_of_2_4_does_not_name_its_function() -> None:
    """Its stack ends with the caller; only the metrics, here cut off, name what is compiled."""
    stack = [{"line": 1116, "name": "__call__", "filename": 0}]
    data = (
        envelope({"str": ["/home/user/a.py", 0]}) + envelope({"dynamo_start": {"stack": stack}}, count=1)
    ).encode()
    (event,) = recompiles(read_trace(data, NAME), data)
    assert (event.function, event.location) == ("", None)


@pytest.mark.parametrize(
    ("lines", "reasons"),
    [
        (["0/0: n == 1"], ("0/0: n == 1",)),
        (["0/0: n == 1", "User stack trace:", "  here"], ("0/0: n == 1\nUser stack trace:\n  here",)),
        (["[", '"0/1: n == 1",', '"0/0: n == 0"', "]"], ("0/1: n == 1", "0/0: n == 0")),
        (["[", "", "]"], ()),
        (["[", '"0/1: cut'], ('[\n"0/1: cut',)),
    ],
)
def test_recompile_reasons_are_a_list_or_one_text(lines: list[str], reasons: tuple[str, ...]) -> None:
    data = (
        artifact("recompile_reasons", *lines, count=1)
        + envelope({"str": ["/home/user/a.py", 0]})
        + envelope({"dynamo_start": {"stack": [{"line": 4, "name": "f", "filename": 0}]}}, count=1)
    ).encode()
    (event,) = recompiles(read_trace(data, NAME), data)
    assert event.reasons == reasons
    assert event.location == SourceLocation("/home/user/a.py", 4, "f")


def test_a_recompile_over_the_limit_knows_its_function(tmp_path: Path) -> None:
    """torch writes its reasons and then neither a start nor metrics: the frame is given up."""
    with tarfile.open(EXTRA) as tar:
        tar.extract("breaks/trace.log", tmp_path, filter="data")
    data = (tmp_path / "breaks/trace.log").read_bytes()
    trace = read_trace(data, NAME)
    last = recompiles(trace, data)[-1]
    assert (last.compile_id, last.function, len(last.reasons)) == ("8/8", "f6", 8)
    assert not any(event.kind == "dynamo_start" and event.compile_id == "8/8" for event in trace.events)


def test_a_librarys_function_is_told_with_the_line_that_led_to_it(tmp_path: Path) -> None:
    stack = [
        {"line": 8, "name": "train", "filename": 1},
        {"line": 3, "name": "wrapper", "filename": 2},
    ]
    names = ("/home/user/train.py", "/env/site-packages/lib/wrappers.py")
    text = "".join(
        (
            *(envelope({"str": [name, number]}) for number, name in enumerate(names, 1)),
            envelope({"dynamo_start": {"stack": stack}}),
            artifact("recompile_reasons", "0/0: self.scale == 0", count=1),
            envelope({"dynamo_start": {"stack": stack}}, count=1),
        )
    )
    (tmp_path / "dedicated_log_torch_trace_abc.log").write_text(text)
    run = Run.open(tmp_path)
    (again,) = run.facts().recompiles
    assert again.location is not None and again.location.short == "wrappers.py:3"
    assert [span.text for span in event_spans(again)] == [
        "recompile",
        "train.py:8",
        "self.scale == 0",
        "(wrapper in wrappers.py:3)",
    ]
    rest = replace(again, function="torch_dynamo_resume_in_wrapper_at_3")
    assert event_spans(rest)[-1].text == "(rest of wrapper in wrappers.py:3)"
    assert "recompile of rest of wrapper" in "".join(
        span.text for line in event_detail(rest) for span in line.spans
    )
    first, second = run.traces[0].content.compilations
    assert function_text(first) == "wrapper train.py:8 (wrappers.py:3)"
    assert function_text(first, whole=False) == "wrapper train.py:8"
    assert first.function is not None
    resumed = replace(first.function, function="torch_dynamo_resume_in_wrapper_at_3")
    assert function_text(replace(first, function=resumed), whole=False) == "rest of wrapper train.py:8"
    assert "train.py:8" in "".join(span.text for item in event_lines(second) for span in item.spans)


def test_versions_and_caches(corpus: Path, traces: list[tuple[Path, bytes, Trace]]) -> None:
    by_run = {str(run.relative_to(corpus)): (data, trace) for run, data, trace in traces}
    versions = {name: torch_version(trace, data) for name, (data, trace) in by_run.items()}
    assert versions["cpu-torch2.4.1/softmax"] is None
    assert versions["cpu-torch2.6.0/softmax"] == "2.6.0+cu124"
    assert versions["h200-torch2.11/softmax"] == "2.11.0+cu130"
    assert versions["cpu-torch2.15.0/softmax"] == "2.15.0+cu132"
    assert cache_events(by_run["cpu-torch2.13/cache_hit"][1]) == {
        "aotautograd_cache_hit": 1,
        "fx_graph_cache_hit": 1,
    }
    assert cache_events(by_run["h200-torch2.11/resnet50"][1]) == {
        "aotautograd_cache_miss": 2,
        "fx_graph_cache_miss": 3,
    }
    assert cache_events(by_run["cpu-torch2.4.1/mlp"][1]) == {}
    counts = kind_counts(by_run["cpu-torch2.13/breaks"][1])
    assert (counts["dynamo_graph_break_reason"], counts["inductor_output_code"], counts["dynamo_start"]) == (
        6,
        12,
        8,
    )
    assert sum(counts.values()) == len(by_run["cpu-torch2.13/breaks"][1].events)


# -- compiled graphs

# "f32[100, 100][100, 1]cuda:0": the trace adds strides and the device to what the folder has
STRIDES = re.compile(r'("\w+\[[^"\]]*\])\[[^"\]]*\][\w:]+"')
# Inductor's first post-grad pass runs between the trace's graph and the folder's.
RESHAPE = ".aten.reshape.default("


def comparable(name: str, text: str) -> object:
    """A text without what the trace and the folder are known to write differently."""
    if name.endswith(".json"):
        maps = json.loads(text)
        maps.pop("version", None)
        return maps
    if name == "fx_graph_runnable.py":
        # The folder's script is written while the configuration is patched.
        return [
            line
            for line in text.split("\n")
            if line.strip() and not line.startswith(("torch._", "os.environ"))
        ]
    if name.startswith("fx_graph_"):
        text = STRIDES.sub(r'\1"', text)
        text = text.replace(RESHAPE, ".aten.view.default(")
        # "Sym(s50 + 1)" or "Sym(1+s50)": another printer, in another order
        return re.sub(r'"Sym\([^"]*"', '"Sym"', text).split("\n")
    return text


def test_traced_graphs_are_the_folders_of_the_run(traces: list[tuple[Path, bytes, Trace]]) -> None:
    compared: Counter[str] = Counter()
    for run, data, trace in traces:
        folders = {
            p.name.rpartition("_")[0]: p for p in run.glob("torch_compile_debug/*/torchinductor/model__*")
        }
        graphs = compiled_graphs(trace, data)
        if folders or "cache_hit" not in run.name:
            filled = {name for name, path in folders.items() if any(path.iterdir())}
            assert filled <= {graph.name for graph in graphs} <= set(folders)
        for graph in graphs:
            for name, event in graph.files:
                path = folders.get(graph.name, run) / name
                if path.is_file():
                    text = path.read_text(encoding="utf-8")
                    assert comparable(name, payload(data, event)) == comparable(name, text), (
                        run,
                        graph.name,
                        name,
                    )
                    compared[name] += 1
            assert graph.name.endswith(graph.phase)
    assert (
        compared["output_code.py"]
        == compared["fx_graph_transformed.py"]
        == compared["fx_graph_readable.py"]
        > 40
    )
    assert compared["inductor_provenance_tracking_node_mappings.json"] > 30


def test_graphs_keep_their_compile_id(corpus: Path, traces: list[tuple[Path, bytes, Trace]]) -> None:
    data, trace = next((data, trace) for run, data, trace in traces if run == corpus / "cpu-torch2.13/breaks")
    found = [(g.name, g.compile_id, g.attempt, g.occurrence) for g in compiled_graphs(trace, data)]
    assert found[1] == ("model__1_forward", "1/0", 1, 0)
    assert found[4:8] == [
        ("model__4_forward", "0/1", 0, 0),
        ("model__4_backward", "0/1", 0, 1),
        ("model__6_forward", "1/1", 2, 0),
        ("model__6_backward", "1/1", 2, 1),
    ]


def test_a_cache_hit_has_its_code_in_the_trace(corpus: Path, traces: list[tuple[Path, bytes, Trace]]) -> None:
    data, trace = next(
        (data, trace) for run, data, trace in traces if run == corpus / "cpu-torch2.13/cache_hit"
    )
    (graph,) = compiled_graphs(trace, data)
    assert (graph.name, graph.phase) == ("model__0_inference", "inference")
    files = dict(graph.files)
    assert sorted(files) == [
        "fx_graph_readable.py",
        "fx_graph_runnable.py",
        "fx_graph_transformed.py",
        "inductor_provenance_tracking_node_mappings.json",
        "output_code.py",
    ]
    assert files["fx_graph_readable.py"].kind == "aot_inference_graph"
    assert payload(data, files["output_code.py"]).startswith("# AOT ID: ['0_inference']")


def graphs_of(text: str) -> tuple[TracedGraph, ...]:
    return compiled_graphs(read_trace(text.encode(), NAME), text.encode())


def code(aot_id: str) -> str:
    return envelope(
        {"inductor_output_code": {"filename": "/home/user/x.py"}}, f"# AOT ID: ['{aot_id}']", "import torch"
    )


def test_a_late_backward_gets_its_own_aot_graph() -> None:
    """One frame in two graphs (DDP): both forwards are compiled before the first backward runs."""
    text = ""
    for number in (0, 1):
        text += envelope({"aot_joint_graph": {}}, f"joint {number}")
        text += envelope({"aot_forward_graph": {}}, f"forward {number}")
        text += envelope({"aot_backward_graph": {}}, f"backward {number}")
        text += envelope({"inductor_post_grad_graph": {}}, "graph") + code(f"{number}_forward")
    for number in (1, 0):
        text += envelope({"inductor_post_grad_graph": {}}, "graph") + code(f"{number}_backward")
    data = text.encode()
    found = [
        (g.name, g.occurrence, payload(data, dict(g.files)["fx_graph_readable.py"])) for g in graphs_of(text)
    ]
    assert found == [
        ("model__0_forward", 0, "forward 0"),
        ("model__1_forward", 1, "forward 1"),
        ("model__1_backward", 2, "backward 1"),
        ("model__0_backward", 3, "backward 0"),
    ]


@pytest.mark.parametrize(
    ("kinds", "phase"),
    [
        (["aot_inference_graph"], "inference"),
        (["aot_forward_graph"], "inference"),
        (["aot_joint_graph", "aot_forward_graph", "aot_backward_graph"], "forward"),
        ([], "unknown"),
    ],
)
def test_a_compilation_that_failed_has_a_phase_and_a_name(kinds: list[str], phase: str) -> None:
    text = "".join(envelope({kind: {}}, kind) for kind in kinds) + artifact(
        "fx_graph_runnable", "import torch"
    )
    (graph,) = graphs_of(text)
    assert (graph.phase, graph.name, graph.aot_id) == (phase, "model__0_0_0_0", None)


def test_attempts_are_compilations_of_their_own() -> None:
    again = artifact("inductor_post_grad_graph", "graph").replace('"attempt": 0', '"attempt": 1')
    graphs = graphs_of(artifact("fx_graph_runnable", "import torch") + again)
    assert [(graph.attempt, graph.occurrence, len(graph.files)) for graph in graphs] == [(0, 0, 1), (1, 0, 1)]


def test_graphs_without_code_or_with_the_same_id_have_their_own_names() -> None:
    text = artifact("fx_graph_runnable", "a") + artifact("fx_graph_runnable", "b") + code("0_forward")
    text += artifact("inductor_provenance_tracking_node_mappings", "{}")
    text += artifact("before_post_grad_graph", "c") + code("0_forward")
    graphs = graphs_of(text)
    assert [graph.name for graph in graphs] == ["model__0_0_0_0", "model__0_forward", "model__0_forward.1"]
    assert [len(graph.files) for graph in graphs] == [1, 3, 2]
