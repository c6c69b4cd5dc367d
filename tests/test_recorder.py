"""The recorder without torch: hooks that can't hurt, decisions put together, lines on disk."""

from __future__ import annotations

import ast
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inspector.capture.environment import BOOTSTRAP
from inspector.capture.recorder import describe, tracebacks
from inspector.capture.recorder.complete import compile_all
from inspector.capture.recorder.guard import FAULT_LIMIT, Guards
from inspector.capture.recorder.places import user_location
from inspector.capture.recorder.session import LOWER_PRIORITY, NOT_TAKEN_UP, Session
from inspector.capture.recorder.sink import Sink
from inspector.readers.record import parse_record

RECORDER = BOOTSTRAP.parent / "recorder"


# -- hooks


class Torch:
    """Stands for a class of torch: counts its calls, and fails on request."""

    def __init__(self) -> None:
        self.calls = 0

    def decide(self, value: int, *, error: BaseException | None = None) -> int:
        self.calls += 1
        if error is not None:
            raise error
        return value * 2


@pytest.fixture
def original() -> Any:
    decide = Torch.decide
    yield decide
    Torch.decide = decide  # type: ignore[method-assign]


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("a fault of ours")


def fine(*args: object, **kwargs: object) -> None:
    return None


@pytest.mark.parametrize(
    ("before", "after"), [(broken, fine), (fine, broken), (broken, broken), (None, broken)]
)
def test_a_fault_in_a_hook_leaves_the_call_as_it_was(original: Any, before: Any, after: Any) -> None:
    said: list[str] = []
    assert Guards(said.append).around(Torch, "decide", before=before, after=after)
    torch = Torch()
    assert [torch.decide(value) for value in range(6)] == [0, 2, 4, 6, 8, 10]
    assert torch.calls == 6
    assert said[0].startswith("fault in Torch.decide at broken:")
    assert said[-1] == f"removed Torch.decide after {FAULT_LIMIT} faults"
    assert len(said) == FAULT_LIMIT + 1
    assert Torch.decide is original


@pytest.mark.parametrize("error", [ValueError("the program's own"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("after", [fine, broken])
def test_the_programs_own_exception_passes_once(original: Any, error: BaseException, after: Any) -> None:
    Guards(lambda text: None).around(Torch, "decide", before=fine, after=after)
    torch = Torch()
    with pytest.raises(type(error)) as caught:
        torch.decide(1, error=error)
    assert caught.value is error
    assert error.__context__ is None
    assert torch.calls == 1


def test_an_interrupt_during_a_hook_is_the_programs(original: Any) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    Guards(fine).around(Torch, "decide", before=interrupted)
    with pytest.raises(KeyboardInterrupt):
        Torch().decide(1)


def test_a_log_that_fails_does_no_harm_either(original: Any) -> None:
    Guards(broken).around(Torch, "decide", before=broken)
    assert Torch().decide(4) == 8


def test_a_hook_sees_the_call_and_how_it_ended(original: Any) -> None:
    seen: list[object] = []
    error = ValueError("no")
    Guards(fine).around(
        Torch,
        "decide",
        before=lambda torch, value, **options: ("token", value),
        after=lambda token, result, raised: seen.append((token, result, raised)),
    )
    Torch().decide(3)
    with pytest.raises(ValueError, match="no"):
        Torch().decide(4, error=error)
    assert seen == [(("token", 3), 6, None), (("token", 4), None, error)]


def test_what_a_version_lacks_is_said_and_not_made_up() -> None:
    guards = Guards(fine)
    assert not guards.around(Torch, "decide_later", before=broken)
    assert guards.missing == ["Torch.decide_later"]
    assert not hasattr(Torch, "decide_later")


def test_a_hook_that_somebody_wrapped_stays_and_only_passes_calls_on(original: Any) -> None:
    Guards(fine).around(Torch, "decide", before=broken)
    inner: Callable[..., int] = Torch.decide

    def theirs(torch: Torch, value: int) -> int:
        return inner(torch, value) + 1

    Torch.decide = theirs  # type: ignore[method-assign,assignment]
    torch = Torch()
    assert [torch.decide(1) for _ in range(FAULT_LIMIT + 2)] == [3] * (FAULT_LIMIT + 2)
    assert Torch.decide is theirs


# -- decisions


class Dependency(tuple[str, int]):
    def numbytes_hint(self) -> int:
        return self[1]


class Node:
    """A scheduler node that reads and writes buffers of the given bytes."""

    def __init__(self, name: str, **buffers: int) -> None:
        self.name = name
        self.buffers = buffers
        self.node = SimpleNamespace(python_kernel_name="extern_kernels.mm")
        deps = {Dependency(item) for item in buffers.items()}
        self.read_writes = SimpleNamespace(reads=deps, writes=set())

    def get_name(self) -> str:
        return self.name

    def get_nodes(self) -> list[Node]:
        return [self]

    def used_buffer_names(self) -> set[str]:
        return set(self.buffers)


class ExternNode(Node):
    pass


def decisions(session: Session) -> list[tuple[str, str, str, str | None, int | None]]:
    result = session.result()
    names = [node["name"] for node in result["nodes"]]
    return [
        (names[item["first"]], names[item["second"]], item["verdict"], item["reason"], item["shared_bytes"])
        for item in result["decisions"]
    ]


def asked(session: Session, first: Node, second: Node, answer: bool, *reasons: str) -> None:
    key = session.ask(first, second)
    for reason in reasons:
        session.why(first.name, second.name, reason)
    session.answer(key, answer)


A, B, C, D = Node("a", x=8), Node("b", x=8, y=4), Node("c", x=8, y=4), Node("d", z=1)


def test_a_round_as_torch_goes_through_it() -> None:
    session = Session(None, None, 64)
    session.begin_round([A, B, C])
    asked(session, A, B, False, "numel mismatch", "no shared data")
    asked(session, A, C, True)
    asked(session, B, C, True)
    session.possible([(B, C), (A, C)])
    session.scored(B, C, (1, True, 12))
    session.memory(B, C, 13)
    asked(session, B, C, True)
    session.fuse(B, C)
    session.end_round()
    assert decisions(session) == [
        ("a", "b", "rejected", "no shared data", 8),
        ("a", "c", "never_tried", "c was fused with b first", 8),
        ("b", "c", "fused", None, 13),
    ]
    refused, _, fused = session.result()["decisions"]
    assert refused["source"] == "torch"
    assert refused["reasons"] == ["numel mismatch", "no shared data"]
    assert fused["score"] == [1, True, 12]


def test_pairs_that_were_possible_and_came_to_nothing() -> None:
    session = Session(None, None, 64)
    session.begin_round([A, B, C])
    for pair in ((A, B), (A, C), (B, C)):
        asked(session, *pair, True)
    session.possible([(A, B), (A, C)])
    session.cycle(A, B)
    session.end_round()
    assert [(verdict, reason) for _, _, verdict, reason, _ in decisions(session)] == [
        ("rejected", "will create cycle"),
        ("rejected", NOT_TAKEN_UP),
        ("never_tried", LOWER_PRIORITY),
    ]


def test_pairs_that_were_never_asked_about_and_what_kept_them_apart() -> None:
    session = Session(None, None, 1)
    mm = ExternNode("mm", x=8)
    session.begin_round([mm, A, B, C, D])
    session.unfusable(mm, True)
    session.unfusable(A, False)
    asked(session, B, A, True)
    asked(session, B, C, False, "no")
    session.end_round()
    unasked = [item for item in decisions(session) if item[2] == "never_tried"]
    found = {(first, second): reason for first, second, _, reason, _ in unasked}
    extern = "unfusable node: mm is an extern kernel (extern_kernels.mm)"
    far = "pairs per buffer: 2 nodes apart among the users of x, and torch pairs only those up to 1 apart"
    assert found == {("mm", "a"): extern, ("mm", "b"): extern, ("mm", "c"): extern, ("a", "c"): far}


def test_what_can_not_change_is_listed_once() -> None:
    session = Session(None, None, 64)
    mm = ExternNode("mm", x=8)
    for _ in range(3):
        session.begin_round([mm, A])
        session.unfusable(mm, True)
        session.end_round()
    assert len(decisions(session)) == 1
    assert len(session.result()["rounds"]) == 3


def test_a_buffer_with_thousands_of_readers_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inspector.capture.recorder.prefilter.PAIR_LIMIT", 10)
    session = Session(None, None, 0)
    session.begin_round([Node(f"n{number}", x=1) for number in range(50)])
    session.end_round()
    assert len(decisions(session)) == 10
    assert session.result()["rounds"][0]["truncated"]


def test_a_pair_asked_about_for_the_sake_of_another_counts_only_where_it_was_refused() -> None:
    session = Session(None, None, 64)
    session.begin_round([A, B, C, D])
    outer = session.ask(A, D)
    asked(session, A, B, True)
    asked(session, B, C, False, "no")
    session.answer(outer, False)
    session.end_round()
    tried = [item[:3] for item in decisions(session) if item[2] != "never_tried"]
    assert tried == [("a", "d", "rejected"), ("b", "c", "rejected")]


@pytest.mark.parametrize(
    ("times", "faster", "verdict", "reason"),
    [
        ([2.0, 1.0, 3.5], False, "rejected", "slower fused than apart"),
        ([], False, "rejected", "refused before it was measured"),
        ([2.0, 1.0, 2.5], True, "fused", None),
    ],
)
def test_decisions_by_measurement(times: list[float], faster: bool, verdict: str, reason: str | None) -> None:
    session = Session(None, None, 64)
    session.begin_round([A, B])
    asked(session, A, B, True)
    pair = session.known(A, B)
    assert pair is not None
    pair.times.extend(times)
    session.timed(pair, faster)
    if faster:
        session.fuse(A, B)
    session.end_round()
    assert decisions(session)[0][2:4] == (verdict, reason)
    assert session.result()["decisions"][0]["benchmark"] == {"fused": faster, "times_ms": times}


def test_streams_that_keep_nodes_apart_without_a_word() -> None:
    session = Session(SimpleNamespace(node_to_stream={A: 0, B: 1}), None, 64)
    session.begin_round([A, B])
    asked(session, A, B, False)
    session.end_round()
    assert decisions(session)[0][2:4] == ("rejected", "other stream")


# -- buffers


def test_frames_of_several_origins_are_named_once() -> None:
    traces = [
        '  File "/a b/m.py", line 3, in f\n    x\n  File "/n.py", line 7, in g\n',
        '  File "/n.py", line 7, in g\n',
    ]
    origins = [SimpleNamespace(meta={"stack_trace": trace}) for trace in traces]
    assert describe.frames([*origins, SimpleNamespace(meta={})]) == ["/a b/m.py:3", "/n.py:7"]


def test_symbolic_sizes_come_with_hints() -> None:
    sizevars = SimpleNamespace(optimization_hint=lambda expression: {"s0": 6, "s0*2": 12}[expression])
    layout = SimpleNamespace(
        device="cpu", dtype=SimpleNamespace(itemsize=4), size=["s0", 2], stride=["s0*2", 1]
    )
    found = describe.layout(SimpleNamespace(layout=layout), sizevars)
    assert found["size"] == ["s0", "2"]
    assert found["size_hint"] == [6, 2]
    assert found["stride_hint"] == [12, 1]
    assert found["bytes"] == 48


def test_a_size_without_a_hint_has_no_bytes() -> None:
    layout = SimpleNamespace(dtype=SimpleNamespace(itemsize=4), size=["u0"], stride=[1])
    found = describe.layout(SimpleNamespace(layout=layout), SimpleNamespace())
    assert found["size_hint"] == [None]
    assert "bytes" not in found


# -- lines on disk


def test_a_second_process_of_a_rank_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "2")
    sinks = [Sink(str(tmp_path / "record"), str(tmp_path / "log")) for _ in range(2)]
    for number, sink in enumerate(sinks):
        sink.write({"kind": "graph", "number": number})
    sinks[0].write({"kind": "graph", "number": 2, "odd": {1, 2}.__class__})
    names = sorted(path.name for path in (tmp_path / "record").iterdir())
    assert names == [f"rank2-{os.getpid()}.jsonl", "rank2.jsonl"]
    lines = [json.loads(line) for line in (tmp_path / "record" / "rank2.jsonl").read_text().splitlines()]
    assert [line.get("number") for line in lines] == [None, 0, 2]
    assert (lines[0]["kind"], lines[0]["rank"], lines[0]["pid"]) == ("process", 2, os.getpid())


def test_a_fork_does_not_write_into_its_parents_file(tmp_path: Path) -> None:
    sink = Sink(str(tmp_path), str(tmp_path / "log"))
    sink.write({"from": "parent"})
    child = os.fork()
    if child == 0:
        sink.write({"from": "child"})
        os._exit(0)
    os.waitpid(child, 0)
    assert '"child"' not in (tmp_path / "rank0.jsonl").read_text()
    assert '"child"' in (tmp_path / f"rank0-{child}.jsonl").read_text()


def test_a_log_that_cannot_be_written_is_nobodys_problem(tmp_path: Path) -> None:
    Sink(str(tmp_path), str(tmp_path / "no" / "folder")).log("fault")


# -- reading it back


def record_line(**changes: object) -> str:
    session = Session(None, None, 64)
    session.begin_round([A, B])
    asked(session, A, B, False, "no shared data")
    session.end_round()
    session.buffers = [
        {"name": "buf0", "node": "a", "origins": ["exp"], "stack": ["/x:y/m.py:3"], "size": ["4"]}
    ]
    return json.dumps({"kind": "graph", "graph": "model__0_inference_0.0", **session.result(), **changes})


def test_what_was_written_is_read() -> None:
    head = '{"kind": "process", "schema": "inspector.record/1", "pid": 4, "rank": 1, "torch": "2.13.0"}'
    record = parse_record(f"{head}\n{record_line()}\n", "record/rank1.jsonl")
    assert record.problems == ()
    assert (record.pid, record.rank, record.torch) == (4, 1, "2.13.0")
    (graph,) = record.graphs
    assert (graph.graph, graph.part, graph.finished) == ("model__0_inference_0.0", 0, True)
    (decision,) = graph.decisions
    assert (decision.first, decision.second, decision.reason) == ("a", "b", "no shared data")
    assert (decision.verdict, decision.by_torch) == ("rejected", True)
    assert graph.rounds[0].nodes == ("a", "b")
    assert (graph.buffers[0].stack[0].path, graph.buffers[0].stack[0].line) == ("/x:y/m.py", 3)
    assert graph.origins() == {"a": ("exp",)}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"kind": "graph", "nod', "cut off"),
        ('{"kind": "graph"}\n', "not readable: KeyError('nodes')"),
        ("[1]\n", "not an object"),
        (
            record_line(decisions=[{"first": 7, "second": 0, "round": 1, "verdict": "fused"}]) + "\n",
            "IndexError",
        ),
        (
            record_line(decisions=[{"first": 0, "second": 0, "round": 1, "verdict": "maybe"}]) + "\n",
            "'maybe'",
        ),
    ],
)
def test_a_damaged_line_is_a_problem_and_the_others_count(line: str, problem: str) -> None:
    record = parse_record(f"{record_line()}\n{line}", "r")
    assert len(record.graphs) == 1
    assert [item.line for item in record.problems] == [2]
    assert problem in record.problems[0].message


def test_a_newer_recorders_lines_are_passed_over() -> None:
    record = parse_record('{"kind": "process", "schema": "inspector.record/2"}\n{"kind": "novelty"}\n', "r")
    assert record.graphs == ()
    assert "inspector.record/2" in record.problems[0].message


# -- somebody else's interpreter


@pytest.mark.parametrize("path", sorted(RECORDER.glob("*.py")), ids=lambda path: path.name)
def test_the_recorder_is_python_3_9_and_needs_the_standard_library_only(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


def test_lookups_of_a_capture_with_its_own_caches_find_nothing(tmp_path: Path) -> None:
    class GuardedCache:
        @classmethod
        def iterate_over_candidates(cls, local: bool, remote_cache: object, key: str) -> list[str]:
            return [key]

    class FxGraphCache(GuardedCache):
        pass

    module: Any = SimpleNamespace(GuardedCache=GuardedCache, FxGraphCache=FxGraphCache)
    guards = Guards(lambda *_: None)
    sink = Sink(str(tmp_path), str(tmp_path / "log"))
    compile_all(SimpleNamespace(), guards, sink)  # type: ignore[arg-type]
    assert FxGraphCache.iterate_over_candidates(True, None, "f1") == ["f1"], "an old torch: left alone"
    compile_all(module, guards, sink)
    assert list(FxGraphCache.iterate_over_candidates(True, None, "f1")) == []
    assert guards.installed == ["GuardedCache.iterate_over_candidates"]


def test_a_traceback_that_nobody_takes_is_without_our_frames(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ours(call: Callable[[], None]) -> None:
        call()

    # As if it stood in a file of the recorder.
    ours.__code__ = ours.__code__.replace(co_filename=tracebacks.OURS + "calls.py")

    def first() -> None:
        raise KeyError("inner")

    def second() -> None:
        try:
            ours(first)
        except KeyError as error:
            raise ValueError("mine") from error

    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    for walk in {"walk_tb", "_walk_tb_with_full_positions"} & set(vars(traceback)):
        monkeypatch.setattr(traceback, walk, getattr(traceback, walk))
    tracebacks.leave_ours_out()
    with pytest.raises(ValueError, match="mine") as caught:
        ours(second)
    printed = "".join(traceback.format_exception(caught.value)) + "".join(traceback.format_tb(caught.tb))
    assert "in second" in printed and "calls.py" not in printed, "printed by the program itself"
    sys.excepthook(caught.type, caught.value, caught.tb)
    said = capsys.readouterr().err
    assert "KeyError: 'inner'" in said and "ValueError: mine" in said and "in second" in said
    assert "calls.py" not in said
    own = monkeypatch.setattr(sys, "excepthook", print)
    tracebacks.leave_ours_out()
    assert own is None and sys.excepthook is print, "a program's own hook stays"


def test_the_users_line_comes_before_that_of_a_library_which_compiles_for_its_user() -> None:
    def called(*files: str) -> str | None:
        names: dict[str, object] = {"call": lambda: user_location(lambda file: file == __file__)}
        for file in reversed(files):
            exec(compile("\ndef outer(inner=call):\n    return inner()\ncall = outer", file, "exec"), names)
        call = names["call"]
        assert callable(call)
        return str(call())

    library = "/usr/lib/python3.11/site-packages/accelerate/accelerator.py"
    assert called("/home/user/train.py", library) == "/home/user/train.py:3"
    assert called("/home/user/train.py", "/home/user/model.py", library) == "/home/user/model.py:3"
