"""The TORCH_LOGS reader against real logs of five torch versions and forms read in torch's sources."""

# ruff: noqa: E501 - messages of torch are quoted whole

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sharing import unpacked

from inspector.model.decision import Decision
from inspector.model.logs import GraphBreak, TorchLog
from inspector.model.source import SourceLocation
from inspector.readers.dynamo_messages import whole_stacks
from inspector.readers.fusion_log import parse_candidate
from inspector.readers.text import decode
from inspector.readers.torch_log import parse_torch_log
from inspector.readers.trace import read_trace
from inspector.readers.trace_events import graph_breaks, recompiles

EXTRA = Path(__file__).parent / "data" / "extra" / "torch-logs-2.13-cpu.tar.xz"

# An independent reading of the decisions: what a person would grep for.
DECISION_LINE = re.compile(r"\[__fusion\] (cannot fuse (?!\()|fusing )")


@pytest.fixture(scope="module")
def extra(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs made with torch 2.13 on a CPU by small programs: `breaks`, `cond`, `multi`, `nodebug`."""
    return unpacked(EXTRA, tmp_path_factory.mktemp("extra"))


def read_log(path: Path) -> TorchLog:
    return parse_torch_log(path.read_text(encoding="utf-8"), path.name)


def log(
    *messages: str, prefix: str = "V1121 05:00:18.841000 12448 torch/_inductor/scheduler.py:2372] "
) -> TorchLog:
    """A log of these messages, `[0/0] [__fusion] TEXT`, each behind torch's prefix."""
    return parse_torch_log("".join(f"{prefix}{message}\n" for message in messages), "log")


def events_of(log: TorchLog) -> tuple[object, ...]:
    """Everything that does not depend on where in the file it stands."""
    return (
        [(d.first, d.second, d.verdict, d.reason) for block in log.fusions for d in block.decisions],
        [(block.graph, block.compile_id, block.attempt) for block in log.fusions],
        [(b.location, b.reason, b.frames) for b in log.graph_breaks],
        [(r.function, r.location, r.reasons) for r in log.recompiles],
    )


# -- fusion, over the captured runs


def line_of(decision: Decision) -> int:
    assert decision.line is not None, "a log's decision has its line"
    return decision.line


def test_every_decision_line_is_exactly_one_decision(corpus_runs: list[Path], extra: Path) -> None:
    paths = [run / name for run in corpus_runs for name in ("torch_logs.txt", "stderr.txt")]
    total = 0
    for path in [*paths, *extra.glob("*/torch_logs.txt")]:
        lines = path.read_text(encoding="utf-8").split("\n")
        expected = [number for number, line in enumerate(lines, 1) if DECISION_LINE.search(line)]
        found = sorted(line_of(d) for block in read_log(path).fusions for d in block.decisions)
        assert found == expected, path
        total += len(found)
    assert total > 5000


def test_decisions_quote_their_line(corpus_runs: list[Path]) -> None:
    for run in corpus_runs:
        lines = (run / "torch_logs.txt").read_text(encoding="utf-8").split("\n")
        for block in read_log(run / "torch_logs.txt").fusions:
            for d in block.decisions:
                said = f"fusing {d.first} with {d.second}"
                if d.verdict == "rejected":
                    said = f"cannot fuse {d.first} with {d.second}: {d.reason}"
                assert lines[line_of(d) - 1].endswith("[__fusion] " + said)


def test_every_block_belongs_to_a_folder_that_exists(corpus_runs: list[Path]) -> None:
    for run in corpus_runs:
        on_disk = {path.name for path in run.glob("torch_compile_debug/*/torchinductor/model__*")}
        read = read_log(run / "torch_logs.txt")
        announced = {path.rpartition("/")[2] for path, _ in read.folders}
        assert announced == on_disk
        assert {block.graph for block in read.fusions} <= on_disk
        for block in read.fusions:
            assert (run / "torch_compile_debug" / block.process / "torchinductor" / str(block.graph)).is_dir()


def test_rounds_add_up(corpus_runs: list[Path]) -> None:
    """torch's own counts agree with the decisions and candidates that were put into each round."""
    rounds = 0
    for run in corpus_runs:
        for block in read_log(run / "torch_logs.txt").fusions:
            fused = Counter(d.round for d in block.decisions if d.verdict == "fused")
            listed = Counter(candidate.round for candidate in block.candidates)
            assert [r.number for r in block.rounds] == list(range(1, len(block.rounds) + 1))
            for r in block.rounds:
                rounds += 1
                assert r.possible is not None
                if r.nodes_before is not None and r.nodes_after is not None:
                    assert r.nodes_before - fused[r.number] == r.nodes_after
                if r.nodes_before is not None and listed:
                    assert listed[r.number] == r.nodes_before
            for before, after in zip(block.rounds, block.rounds[1:], strict=False):
                assert after.nodes_before in (None, before.nodes_after)
    assert rounds > 80


def test_blocks_are_of_the_graph_they_name(corpus_runs: list[Path]) -> None:
    """Origins are nodes of that folder's FX graph, and what was not fused at last is in its IR."""
    checked = 0
    for run in corpus_runs:
        for block in read_log(run / "torch_logs.txt").fusions:
            folder = run / "torch_compile_debug" / block.process / "torchinductor" / str(block.graph)
            fx = (folder / "fx_graph_transformed.py").read_text(encoding="utf-8")
            nodes = set(re.findall(r'^ +(\w+)(?:: "[^"]*")? =', fx, re.M)) | set(re.findall(r'(\w+): "', fx))
            assert {origin for candidate in block.candidates for origin in candidate.origins} <= nodes
            heads = set(
                re.findall(
                    r"^(\S+): \w+\(", (folder / "ir_post_fusion.txt").read_text(encoding="utf-8"), re.M
                )
            )
            last = block.rounds[-1].number
            fused = {
                name
                for d in block.decisions
                if (d.round, d.verdict) == (last, "fused")
                for name in (d.first, d.second)
            }
            left = {candidate.name for candidate in block.candidates if candidate.round == last} - fused
            assert left <= heads
            checked += len(left)
    assert checked > 400


def test_versions_without_candidates_still_have_their_decisions(corpus: Path) -> None:
    (block,) = read_log(corpus / "cpu-torch2.4.1/softmax/torch_logs.txt").fusions
    assert block.candidates == ()
    assert [r.number for r in block.rounds] == [1, 2, 3]
    assert Counter(d.reason for d in block.decisions)["node1 is extern or nop"] == 5


def test_benchmarked_fusions(corpus: Path) -> None:
    (block,) = read_log(corpus / "h200-torch2.11/autotune/torch_logs.txt").fusions
    first, second = block.benchmarks
    assert (first.first_members, first.second_members, first.verdict) == (("buf2",), ("buf3",), "fused")
    assert (
        first.reason
        == "can fuse (benchmark): fusing OrderedSet(['buf2']) with OrderedSet(['buf3']) cause 1.038x speedup"
    )
    assert (second.first_members, second.second_members, second.verdict) == (("buf0",), ("buf1",), "rejected")


# -- fusion, form by form


def test_interleaved_graphs_attempts_and_ranks_are_kept_apart() -> None:
    def line(rank: int, ident: str, text: str) -> str:
        tag = "" if "debug trace" in text else "[__fusion] "
        return f"[rank{rank}]:V1121 05:00:18.841000 {100 + rank} torch/_inductor/scheduler.py:1] [{ident}] {tag}{text}\n"

    def end(rank: int, ident: str, name: str) -> str:
        return line(
            rank, ident, f"{name} debug trace: /home/user/tcd/run_X-pid_{100 + rank}/torchinductor/{name}.0"
        )

    text = "".join(
        [
            line(0, "0/0", "===== attempting fusion (1/10): 3 nodes ====="),
            line(0, "0/0", "fusing op0 with op1"),
            line(0, "0/0_1", "===== attempting fusion (1/10): 2 nodes ====="),
            line(1, "0/0_1", "===== attempting fusion (1/10): 2 nodes ====="),
            line(0, "1/0", "cannot fuse op5 with op6: will create cycle"),
            line(0, "0/0_1", "cannot fuse op0 with op1: no shared data"),
            line(1, "0/0_1", "fusing op0 with op1"),
            end(1, "0/0_1", "model__0_forward_1"),
            end(0, "0/0_1", "model__0_forward_1"),
            line(0, "0/0_1", "===== attempting fusion (1/10): 9 nodes ====="),
            end(0, "0/0_1", "model__0_backward_1"),
            end(0, "1/0", "model__1_forward_3"),
        ]
    )
    blocks = parse_torch_log(text, "log").fusions
    assert [(b.compile_id, b.attempt, b.graph, b.process, len(b.decisions)) for b in blocks] == [
        ("0/0", 0, None, "", 1),  # abandoned: the folder is the second attempt's
        ("0/0", 1, "model__0_forward_1.0", "run_X-pid_100", 1),
        ("0/0", 1, "model__0_forward_1.0", "run_X-pid_101", 1),
        ("1/0", 0, "model__1_forward_3.0", "run_X-pid_100", 1),
        ("0/0", 1, "model__0_backward_1.0", "run_X-pid_100", 0),
    ]


def test_subgraphs_are_parts_of_their_folder(extra: Path) -> None:
    """`torch.cond` and `while_loop`: each branch and body is scheduled on its own, in one folder."""
    blocks = read_log(extra / "cond/torch_logs.txt").fusions
    assert [(block.graph, block.part) for block in blocks] == [
        ("model__0_inference_0.0", part) for part in range(5)
    ]
    assert {
        candidate.name.rpartition("_op")[0]
        for candidate in blocks[1].candidates
        if candidate.cls == "SchedulerNode"
    } == {"true_graph_0"}
    assert blocks[0].rounds[0].nodes_before == 13


def test_without_debug_folders_forward_and_backward_are_told_apart(extra: Path) -> None:
    """TORCH_LOGS without TORCH_COMPILE_DEBUG has no line that ends a block."""
    blocks = read_log(extra / "nodebug/torch_logs.txt").fusions
    assert [block.graph for block in blocks] == [None] * 9
    assert Counter((b.compile_id, b.attempt) for b in blocks)["0/1", 1] == 2
    assert all(block.rounds[0].number == 1 and block.rounds[0].nodes_before for block in blocks)


def test_the_rounds_of_a_log_whose_beginning_is_lost() -> None:
    (block,) = log(
        "[0/0] [__fusion] cannot fuse op1 with op2: no shared data",
        "[0/0] [__fusion] completed fusion round (4/10): fused 9 nodes into 8 nodes",
        "[0/0] [__fusion] ",
        "[0/0] [__fusion] ===== attempting fusion (5/10): 8 nodes =====",
        "[0/0] [__fusion] found 0 possible fusions",
    ).fusions
    assert [(r.number, r.nodes_before, r.nodes_after, r.possible) for r in block.rounds] == [
        (4, 9, 8, None),
        (5, 8, None, 0),
    ]


def test_the_last_pass_is_a_round_even_where_fusion_never_completes() -> None:
    """After ten rounds torch stops without ``fusion complete``; its pass with reordered loops follows."""
    (block,) = log(
        "[0/0] [__fusion] ===== attempting fusion (10/10): 8 nodes =====",
        "[0/0] [__fusion] fusing op1 with op2",
        "[0/0] [__fusion] completed fusion round (10/10): fused 8 nodes into 7 nodes",
        "[0/0] [__fusion] fuse_nodes_once, candidates:",
        "[0/0] [__fusion] fusing op3 with op4",
    ).fusions
    assert [(d.first, d.round) for d in block.decisions] == [("op1", 10), ("op3", 11)]


@pytest.mark.parametrize(
    ("message", "first", "second", "reason"),
    [
        ("cannot fuse op1 with op2: numel/rnumel mismatch (reduce) (s50, 1024), (1, 4*s50)", "op1", "op2", "numel/rnumel mismatch (reduce) (s50, 1024), (1, 4*s50)"),
        ("cannot fuse a with b: device mismatch (cuda:0 vs cpu)", "a", "b", "device mismatch (cuda:0 vs cpu)"),
        ("fusing op1_op2 with op3", "op1_op2", "op3", None),
        ("memory-timeline fusion rejected op1 with op2: estimated peak delta 4096 bytes", "op1", "op2", "memory-timeline fusion rejected: estimated peak delta 4096 bytes"),
    ],
)  # fmt: skip
def test_decisions(message: str, first: str, second: str, reason: str | None) -> None:
    (block,) = log(f"[0/0] [__fusion] {message}").fusions
    (decision,) = block.decisions
    assert (decision.first, decision.second, decision.reason) == (first, second, reason)
    assert decision.verdict == ("fused" if reason is None else "rejected")


@pytest.mark.parametrize(
    ("message", "first", "second", "fused"),
    [
        ("can fuse (benchmark): fusing {'buf2', 'buf1'} with {'buf3'} cause \x1b[32m1.038\x1b[39mx speedup", ("buf2", "buf1"), ("buf3",), True),
        ("cannot fuse (benchmark): fusing OrderedSet(['buf2']) with OrderedSet([]) cause \x1b[31m1.2\x1b[0mx slowdown", ("buf2",), (), False),
        ("can fuse (assumed): fusing OrderedSet(['buf0']) with OrderedSet(['buf1', 'buf2']) (benchmarking skipped)", ("buf0",), ("buf1", "buf2"), True),
        ("cannot fuse (benchmark): fusing causes \x1b[31m0.9\x1b[0mx slowdown", (), (), False),
    ],
)  # fmt: skip
def test_benchmarks(message: str, first: tuple[str, ...], second: tuple[str, ...], fused: bool) -> None:
    (block,) = log(f"[0/0] [__fusion] {message}").fusions
    (benchmark,) = block.benchmarks
    assert (benchmark.first_members, benchmark.second_members) == (first, second)
    assert benchmark.measured and benchmark.verdict == ("fused" if fused else "rejected")
    assert benchmark.reason is not None and "\x1b" not in benchmark.reason
    assert block.decisions == ()


def test_candidates_of_groups_within_groups() -> None:
    inner = "SchedulerNode(name='op1'), Pointwise(['[8]', 'origins=OrderedSet([mul, add])'])"
    other = "SchedulerNode(name='op2'), Pointwise(['[8]', 'origins=OrderedSet([add, sub])'])"
    fused = f"FusedSchedulerNode(nodes=op1_op2), snodes: {[inner, other]}"
    extern = "ExternKernelSchedulerNode(name='op3')"
    assert parse_candidate(f"  ForeachKernelSchedulerNode(nodes=op1_op2_op3), snodes: {[fused, extern]}") == (
        "op1_op2_op3",
        "ForeachKernelSchedulerNode",
        ("op1", "op2", "op3"),
        ("mul", "add", "sub"),
    )
    assert parse_candidate("  SchedulerNode(name='buf1'), Pointwise(['[8]', 'origins={exp, sub}'])") == (
        "buf1",
        "SchedulerNode",
        ("buf1",),
        ("exp", "sub"),
    )
    assert parse_candidate('  File "/home/user/train.py", line 3') is None


def test_fusion_messages_that_decide_nothing_are_records() -> None:
    read = log(
        "[0/0] [__fusion] Exception in compiling epilogue: out of resource",
        "[0/0] [__fusion]   shared memory, Required: 300000",
    )
    assert read.fusions == ()
    assert [record.message for record in read.records] == [
        "Exception in compiling epilogue: out of resource\n  shared memory, Required: 300000"
    ]


# -- graph breaks and recompiles


def test_counts_and_contents_equal_the_trace(corpus_runs: list[Path], extra: Path) -> None:
    pairs = [(run / "torch_logs.txt", next(run.glob("trace/*.log"))) for run in corpus_runs]
    pairs += [(extra / name / "torch_logs.txt", extra / name / "trace.log") for name in ("breaks", "multi")]
    counted: Counter[str] = Counter()
    for log_path, trace_path in pairs:
        if not log_path.stat().st_size:
            continue
        read, data = read_log(log_path), trace_path.read_bytes()
        trace = read_trace(data, trace_path.name)
        traced = graph_breaks(trace, data)
        assert [(b.compile_id, str(b.location), b.reason) for b in read.graph_breaks] == [
            (b.compile_id, str(b.location), b.reason) for b in traced
        ]
        for ours, theirs in zip(read.graph_breaks, traced, strict=True):
            assert ours.frames == (() if ours.suppressed else theirs.frames)
        again = recompiles(trace, data)
        assert [(r.compile_id, r.function, r.location) for r in read.recompiles] == [
            (r.compile_id, r.function, r.location) for r in again
        ]
        if any(r.reasons for r in again):
            assert [r.reasons for r in read.recompiles] == [r.reasons for r in again]
        counted.update(breaks=len(traced), recompiles=len(again))
    assert counted == {"breaks": 41, "recompiles": 30}


def test_a_graph_break(corpus: Path) -> None:
    event = read_log(corpus / "cpu-torch2.13/breaks/torch_logs.txt").graph_breaks[0]
    assert event.location == SourceLocation(
        "/home/user/runs/breaks/workload.py", 8, "forward", "if x.sum() > 0: x = x * 2"
    )
    assert event.frames[0].function == "<module>" and event.frames[-1] == event.location
    assert event.reason.startswith("Data-dependent branching\n  Explanation: Detected")
    assert event.reason.endswith("gb0170.html")
    assert not event.suppressed and event.line == 1


def test_a_loop_break_has_one_reason_and_only_the_users_frames(extra: Path) -> None:
    """2.13 puts two reasons and a source attribution, with a frame of its own, before the traceback."""
    event = next(
        b for b in read_log(extra / "breaks/torch_logs.txt").graph_breaks if "graph break in loop" in b.reason
    )
    assert "While handling this graph break, another graph break occurred" in event.reason
    assert "source attribution" not in event.reason
    assert [frame.line for frame in event.frames] == [48, 6, 13]


def test_a_backend_failure_is_one_break(extra: Path) -> None:
    """torch logs WON'T CONVERT and then the graph break that follows from it."""
    path = extra / "breaks/torch_logs.txt"
    assert len(re.findall(r"\[__graph_breaks\] WON'T CONVERT", path.read_text(encoding="utf-8"))) == 2
    read = read_log(path)
    assert not any(b.text.startswith("WON'T CONVERT") for b in read.graph_breaks)


BREAKS = {
    "2.4": (
        'Graph break: from user code at:\n  File "/home/user/a.py", line 7, in f\n    print(x)\n',
        ("/home/user/a.py:7", "", False, 1),
    ),
    "2.4 with the exception": (
        'Graph break: from user code at:\n  File "/home/user/a.py", line 7, in f\n    print(x)\n\n'
        'Traceback (most recent call last):\n  File "/home/user/venv/torch/x.py", line 1, in wrapper\n    return inner()\n'
        "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)\n",
        ("/home/user/a.py:7", "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print)", False, 1),
    ),
    "2.6": (
        "Graph break in user code at /home/user/a.py:7\nReason: Unsupported: generic_jump TensorVariable()\n"
        'User code traceback:\n  File "/home/user/a.py", line 7, in f\n    if x.sum() > 0:\n',
        ("/home/user/a.py:7", "Unsupported: generic_jump TensorVariable()", False, 1),
    ),
    "2.6 repeated": (
        "Graph break (details suppressed) in user code at /home/user/a.py:7\nReason: Unsupported: print",
        ("/home/user/a.py:7", "Unsupported: print", True, 0),
    ),
    "2.8": (
        "Graph break in user code at /home/user/a.py:7\nGraph Break Reason: Call to print\n  Explanation: none\n"
        'User code traceback:\n  File "/home/user/b.py", line 1, in <module>\n    f(x)\n  File "/home/user/a.py", line 7, in f\n',
        ("/home/user/a.py:7", "Call to print\n  Explanation: none", False, 2),
    ),
    "skipped, 2.6": (
        'Graph break: skip: from user code at:\n  File "/home/user/a.py", line 7, in f\n    with x:\n',
        ("/home/user/a.py:7", "skip", False, 1),
    ),
    "skipped, 2.13": (
        "Graph break: torch.compile cannot properly resume from this graph break, which results in a skip.\n"
        "torch.compile will skip tracing the frame f (/home/user/a.py line 5) and fall back to eager.\n"
        'The graph break occurred in the following user code:\n  File "/home/user/a.py", line 7, in f\n    print(x)\n',
        (
            "/home/user/a.py:7",
            "torch.compile cannot properly resume from this graph break, which results in a skip.\n"
            "torch.compile will skip tracing the frame f (/home/user/a.py line 5) and fall back to eager.",
            False,
            1,
        ),
    ),
    "verbose": (
        "Graph break in user code at /home/user/a.py:7\nGraph Break Reason: Call to print\n\nUser code traceback:\n"
        '  File "/home/user/b.py", line 1, in <module>\n    f(x)\n\n========== most recent `torch.compile` tracing attempt'
        ' started here ==========\n\n  File "/home/user/a.py", line 7, in f\n    print(x)\n\n'
        'NOTE: the most recent `torch.compile`\n  File "/home/user/c.py", line 9, in not_a_frame\n',
        ("/home/user/a.py:7", "Call to print", False, 2),
    ),
    "a failing backend alone": (
        "WON'T CONVERT f /home/user/a.py line 5\n========== TorchDynamo Stack Trace ==========\n"
        'Traceback (most recent call last):\n  File "/home/user/venv/torch/x.py", line 1, in wrapper\n    return inner()\n'
        "RuntimeError: no\n",
        ("/home/user/a.py:5", "RuntimeError: no", False, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", BREAKS)
def test_the_forms_of_a_graph_break(form: str) -> None:
    text, expected = BREAKS[form]
    read = log(*(f"[3/1_2] [__graph_breaks] {line}" for line in text.split("\n")))
    (event,) = read.graph_breaks
    assert (str(event.location), event.reason, event.suppressed, len(event.frames)) == expected
    assert event.compile_id == "3/1"
    assert event.text == text


def test_a_repeated_break_of_2_4_is_a_plain_message() -> None:
    read = log("[0/0] Unsupported break in user code at /home/user/a.py:7 (details suppressed)")
    (event,) = read.graph_breaks
    assert (str(event.location), event.suppressed) == ("/home/user/a.py:7", True)


def test_breaks_of_the_same_millisecond_are_separate() -> None:
    read = log(
        "[0/0] [__graph_breaks] Graph break in user code at /home/user/a.py:7",
        "[0/0] [__graph_breaks] Graph Break Reason: one",
        "[0/0] [__graph_breaks] Graph break in user code at /home/user/a.py:9",
        "[0/0] [__graph_breaks] Graph Break Reason: two",
    )
    assert [(b.line, b.reason) for b in read.graph_breaks] == [(1, "one"), (3, "two")]


def test_breaks_of_two_ranks_may_be_interleaved() -> None:
    lines = ["Graph break in user code at /home/user/a.py:7", "Graph Break Reason: one", "  Hint: none"]
    text = "".join(
        f"[rank{rank}]:V1121 05:00:18.841000 {rank} torch/a.py:1] [0/0] [__graph_breaks] {line}\n"
        for line in lines
        for rank in (0, 1)
    )
    assert [b.reason for b in parse_torch_log(text, "log").graph_breaks] == ["one\n  Hint: none"] * 2


def test_recompiles_with_several_failures() -> None:
    (event,) = log(
        "[0/2] [__recompiles] Recompiling function f in /home/user/a.py:4",
        "[0/2] [__recompiles]     triggered by the following guard failure(s):",
        "[0/2] [__recompiles]     - 0/1: n == 1  # return x*n",
        "[0/2] [__recompiles]     - User stack trace:",
        '[0/2] [__recompiles]     -   File "/home/user/a.py", line 5, in f',
        "[0/2] [__recompiles]     - 0/0: n == 0",
    ).recompiles
    assert event.reasons == (
        '0/1: n == 1  # return x*n\nUser stack trace:\n  File "/home/user/a.py", line 5, in f',
        "0/0: n == 0",
    )
    assert event.location == SourceLocation("/home/user/a.py", 4, "f")
    assert (event.function, event.compile_id, event.line) == ("f", "0/2", 1)


def test_recompile_reasons_without_ids_are_one_a_line() -> None:
    """2.4 writes no compile id before a reason."""
    (event,) = log(
        "[0/1] [__recompiles] Recompiling function f in /home/user/a.py:4",
        "[0/1] [__recompiles]     triggered by the following guard failure(s):",
        "[0/1] [__recompiles]     - tensor 'L['x']' stride mismatch at index 0. expected 8, actual 4",
        "[0/1] [__recompiles]     - GLOBAL_STATE changed: grad_mode ",
    ).recompiles
    assert event.reasons == (
        "tensor 'L['x']' stride mismatch at index 0. expected 8, actual 4",
        "GLOBAL_STATE changed: grad_mode",
    )


def test_verbose_recompiles() -> None:
    (event,) = log(
        "[0/2] [__recompiles_verbose] Recompiling function f in /home/user/a.py:4",
        "[0/2] [__recompiles_verbose]     triggered by the following guard failure(s):",
        "[0/2] [__recompiles_verbose]     guard 0 failures:",
        "[0/2] [__recompiles_verbose]     - 0/1: n == 1",
        "[0/2] [__recompiles_verbose] ",
        "[0/2] [__recompiles_verbose]     guard 1 failures:",
        "[0/2] [__recompiles_verbose]     - 0/0: n == 0",
    ).recompiles
    assert event.reasons == ("0/1: n == 1", "0/0: n == 0")


# -- records


def test_standard_error_says_the_same_as_the_log(corpus_runs: list[Path]) -> None:
    foreign = 0
    for run in corpus_runs:
        read, error = read_log(run / "torch_logs.txt"), read_log(run / "stderr.txt")
        assert events_of(error) == events_of(read)
        assert error.problems == ()
        foreign += len(error.records) - len(read.records)
    assert foreign >= 10


def test_autotuning_tables_are_kept_whole(corpus: Path) -> None:
    read = read_log(corpus / "h200-torch2.11/autotune/stderr.txt")
    tables = [record for record in read.records if "AUTOTUNE addmm(" in record.message]
    assert [record.line for record in tables] == [71, 144]
    assert tables[0].message.count("\n") == 15 and tables[0].artifact is None


def test_a_torch_line_behind_an_unfinished_line_is_found() -> None:
    line = "V1121 05:00:18.841000 12448 torch/_inductor/scheduler.py:2372] [0/0] [__fusion] fusing op1 with op2\n"
    read = parse_torch_log(f" 45%|####  | 9/20 [00:01]{line}{line}", "log")
    assert [decision.line for decision in read.fusions[0].decisions] == [1, 2]
    assert [record.message for record in read.records] == [" 45%|####  | 9/20 [00:01]"]


def test_messages_of_several_lines_are_one_record(corpus: Path) -> None:
    read = read_log(corpus / "h200-torch2.11/breaks/torch_logs.txt")
    (warning,) = [
        record for record in read.records if record.message.startswith("Graph break from `Tensor.item()`")
    ]
    assert (warning.line, warning.message.count("\n"), warning.artifact) == (107, 10, None)
    assert (
        "to include these operations in the captured graph.\n\nGraph break: from user code at:"
        in warning.message
    )
    assert len(read.graph_breaks) == 6


def test_hints_of_one_call_are_separate_records() -> None:
    read = log(
        "[0/0] [__perf_hints] Using FallbackKernel: aten.a",
        "[0/0] [__perf_hints] Using FallbackKernel: aten.b",
        "[0/0] [__perf_hints] ",
        "[0/0] [__loop_ordering] op1 and op2 has 4 shared data",
        "[0/0] [__loop_ordering] op10 and op2 has 4 shared data",
    )
    assert [record.message.split(" ")[0] for record in read.records] == ["Using", "Using", "op1", "op10"]
    assert [record.artifact for record in read.records] == ["perf_hints"] * 2 + ["loop_ordering"] * 2


def test_cudagraph_reasons_keep_their_stack(corpus: Path) -> None:
    read = read_log(corpus / "h200-torch2.11/softmax/torch_logs.txt")
    (op0,) = [record for record in read.records if record.message.lstrip().startswith("op0: reason=")]
    assert op0.message.count("\n") == 2 and op0.message.endswith("z = torch.matmul(x, y)")


def test_ids_inside_run_time_messages_are_left_out(corpus: Path) -> None:
    read = read_log(corpus / "h200-torch2.11/cudagraphs/torch_logs.txt")
    texts = [r.message.split(",")[0] for r in read.records if "function=partition_0" in r.message]
    assert texts == ["Running warmup function=partition_0", "Recording function=partition_0"]


def test_prefixes() -> None:
    text = (
        "[rank3]:W0102 10:11:12.131000 77 torch/a b.py:9] [!0/2/1_4] [__perf_hints] one\n"
        "[default1]:[rank5]:I0102 10:11:12.131000 77 /home/user/x.py:9] [!1] two\n"
        "E0102 10:11:12.131000 77 x.py:9] three\n"
        "[default1]:[rank5]:V0102 10:11:12.131000 77 x.py:9] [!0/2/1_4] [__recompiles] Recompiling function f in a:1\n"
    )
    read = parse_torch_log(text, "")
    assert [(r.line, r.artifact, r.message) for r in read.records] == [
        (1, "perf_hints", "one"),
        (2, None, "two"),
        (3, None, "three"),
    ]
    assert [(r.rank, r.compile_id, r.line) for r in read.recompiles] == [(5, "!0/2/1", 4)]


def test_every_line_is_accounted_for(corpus_runs: list[Path]) -> None:
    """Records, events, decisions, candidates and rounds together touch every line that is not empty."""
    for run in corpus_runs:
        lines = (run / "stderr.txt").read_text(encoding="utf-8").split("\n")
        read = read_log(run / "stderr.txt")
        seen: set[int] = set()
        for record in read.records:
            seen.update(range(record.line, record.line + record.message.count("\n") + 1))
        for block in read.fusions:
            for parts in (block.decisions, block.candidates, block.benchmarks):
                seen.update(line for part in parts if (line := part.line) is not None)
        unseen = [line for number, line in enumerate(lines, 1) if number not in seen and line]
        rest = re.compile(
            r"\[__(graph_breaks|recompiles)\]| debug trace: |\[__fusion\] "
            r"(=====|found \d|completed fusion|fuse_nodes_once, candidates:|$)"
        )
        assert [line for line in unseen if not rest.search(line)] == []


# -- damage


def test_nothing_gives_nothing() -> None:
    read = parse_torch_log("", "log")
    assert (read.fusions, read.records, read.problems) == ((), (), ())


def test_text_that_is_no_log_is_a_problem() -> None:
    read = parse_torch_log("DEBUG:torch._inductor.scheduler.__fusion:fusing op1 with op2\n", "logs/x.txt")
    (problem,) = read.problems
    assert (problem.path, problem.line) == ("logs/x.txt", 1)
    assert len(read.records) == 1


def test_windows_line_ends_change_nothing(corpus: Path) -> None:
    data = (corpus / "cpu-torch2.13/breaks/torch_logs.txt").read_bytes()
    expected = parse_torch_log(data.decode(), "log")
    assert parse_torch_log(data.decode().replace("\n", "\r\n"), "log") == expected
    assert parse_torch_log(decode(data.replace(b"\n", b"\r\n"), "log")[0], "log") == expected


def test_wrong_encoding_keeps_the_rest(corpus: Path) -> None:
    data = (corpus / "cpu-torch2.13/softmax/torch_logs.txt").read_bytes()
    text, problems = decode(data.replace(b"simple_fn", b"simple_\xff\xfe"), "log")
    assert problems
    assert events_of(parse_torch_log(text, "log")) == events_of(parse_torch_log(data.decode(), "log"))


@pytest.mark.parametrize(
    "name",
    ["cpu-torch2.13/breaks", "h200-torch2.11/autotune", "cpu-torch2.4.1/softmax", "cpu-torch2.15.0/softmax"],
)
def test_a_log_cut_anywhere_keeps_what_precedes_the_cut(corpus: Path, name: str) -> None:
    text = (corpus / name / "torch_logs.txt").read_text(encoding="utf-8")
    whole = parse_torch_log(text, "log")
    decisions = [d for block in whole.fusions for d in block.decisions]
    for cut in random.Random(7).sample(range(len(text)), 60):
        part = parse_torch_log(text[:cut], "log")
        full_lines = text.count("\n", 0, cut)
        kept = [d for block in part.fusions for d in block.decisions if line_of(d) <= full_lines]
        assert sorted(kept, key=line_of) == sorted(
            (d for d in decisions if line_of(d) <= full_lines), key=line_of
        )
        assert all(b.location is not None for b in part.graph_breaks if b.line <= full_lines)
        assert bool(part.problems) == (cut > 0 and text[cut - 1] != "\n")
        assert all((p.path, p.line) in (("log", full_lines + 1), ("log", 1)) for p in part.problems)


def test_garbage_never_raises(corpus: Path) -> None:
    generator = random.Random(11)
    text = (corpus / "cpu-torch2.13/breaks/torch_logs.txt").read_text(encoding="utf-8")
    for _ in range(40):
        letters = list(text[: generator.randrange(20_000)])
        for _ in range(200):
            if letters:
                letters[generator.randrange(len(letters))] = chr(
                    generator.choice([0, 10, 32, 39, 40, 91, 93, 0xD7FF, 0x1F600])
                )
        parse_torch_log("".join(letters), "log")


def test_a_shortened_break_has_the_stack_that_a_trace_has_of_it() -> None:
    place = SourceLocation("/usr/lib/python3.11/site-packages/torch_geometric/utils/loop.py", 113)
    users = SourceLocation("/home/user/train.py", 18, "forward")
    short = GraphBreak(place, "Dynamic shape operator", (), "2/0", True, 120, "")
    traced = replace(short, frames=(users, place), suppressed=False, line=4322)
    (told,) = whole_stacks([short], [replace(traced, compile_id="1/0", frames=(place,)), traced])
    assert (told.frames, told.suppressed, told.line) == ((users, place), False, 120)
    assert whole_stacks([short], []) == [short]


def test_empty_lines_stay_between_foreign_lines_and_start_nothing() -> None:
    torchs = "V1121 05:00:18.841000 12448 torch/_inductor/x.py:7] [__cudagraphs] skipping"
    log = parse_torch_log(f"\n\nprinted\n\n\nmore\n\n{torchs}\n\n\nlast\n", "a.log")
    assert [(record.line, record.message) for record in log.records] == [
        (3, "printed\n\n\nmore\n"), (8, "skipping"), (11, "last"),
    ]  # fmt: skip
