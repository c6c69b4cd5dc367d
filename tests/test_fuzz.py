"""Damaged runs are shown as far as they can be, and what could not be read is named: a short round of
`fuzzing.py`, and what longer ones have found."""

from __future__ import annotations

import errno
import importlib
import json
import os
import re
import shutil
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cutting import said
from fuzzing import ARCHIVES, Fuzzer
from looking import VIEWS, see_explain, see_ir, see_plan, see_summary
from monkey import Monkey
from replays import replay_of, result_of

from inspector import text
from inspector.analysis.cpp_statements import cpp_statements
from inspector.analysis.diff.code import plain_lines, side_by_side
from inspector.analysis.fusion import _shorten as shortened
from inspector.analysis.fusion_groups import build_groups
from inspector.analysis.guard_words import guard_text
from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.loop_values import LoopValues
from inspector.analysis.program_calls import _PARAMETER
from inspector.analysis.reasons import classify
from inspector.analysis.stage_facts import _CONVERT
from inspector.analysis.warp_addresses import _value as warp_value
from inspector.contract.bounds import finite
from inspector.explain import explain
from inspector.explain.cpp_loops import inner_regions, loop_nests
from inspector.explain.program import read_program
from inspector.gates.judge import _CALLED
from inspector.gather import fusion_of, summary_of
from inspector.model.diff import Total
from inspector.model.edits import KernelEdit
from inspector.model.replay import KernelReplay, Timing
from inspector.model.run import GRAPH_FILES, MANIFEST_NAME, MANIFEST_SCHEMA, PROVENANCE_FILE
from inspector.model.schedule import LoopBody
from inspector.model.source import SourceLocation
from inspector.pack.form import Form
from inspector.pack.private import Private, _parted
from inspector.pack.run import Packer
from inspector.pack.source import Source
from inspector.present.diff import total_lines
from inspector.present.documents import split_lines
from inspector.present.drawing import _place
from inspector.present.highlight import highlight
from inspector.present.lower import is_place
from inspector.present.replay import edit_text
from inspector.readers.brackets import leaves
from inspector.readers.caches import _mega_cache
from inspector.readers.cpp_wrapper import _NUMBER_INPUT
from inspector.readers.fx_graph import parse_fx_graph, parse_location, parse_meta
from inspector.readers.guards import parse_guards
from inspector.readers.ir_values import parse_layout, parse_size_pair
from inspector.readers.output_code import parse_output_code
from inspector.readers.record import parse_record
from inspector.readers.run import Run
from inspector.readers.schedule import parse_post_fusion, parse_schedule
from inspector.readers.stages.sass import parse_sass
from inspector.readers.text import decode, from_json
from inspector.replay.edits import EditFolder
from inspector.replay.lowering import keep
from inspector.replay.store import load_results, save_result
from inspector.tui.sources import find_source
from inspector.units import date_text

ROUND = 120
EVENTS = 60
FEW = tuple(path for path in ARCHIVES if path.name in ("cpu-torch2.4.1.tar.xz", "failed-runs.tar.xz"))


def test_a_round_of_damage(tmp_path: Path) -> None:
    with Fuzzer(tmp_path, FEW) as fuzzer:
        failures = [fuzzer.case(seed) for seed in range(ROUND)]
    assert not [failure for failure in failures if failure is not None and not failure.slow]


def test_a_round_of_keys_and_clicks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkey = Monkey(Fuzzer(tmp_path, FEW, quick=True))
    for seed in range(2):
        monkey.session(seed, EVENTS)
    assert monkey.events > EVENTS
    assert not [where for where in monkey.classes if not where.startswith("slow")]


@pytest.fixture
def run(corpus: Path, tmp_path: Path) -> Path:
    shutil.copytree(corpus / "cpu-torch2.13" / "softmax", tmp_path / "run")
    (tmp_path / "run" / "record").mkdir(exist_ok=True)
    (tmp_path / "run" / "replay").mkdir(exist_ok=True)
    return tmp_path / "run"


def graph_file(name: str) -> Callable[[Path], Path]:
    return lambda run: next(run.rglob("output_code.py")).parent / name


SEEN = (see_summary, see_explain, see_ir, see_plan)

FILES: list[Callable[[Path], Path]] = [
    *map(graph_file, ("output_code.py", "ir_pre_fusion.txt", "ir_post_fusion.txt", "fx_graph_runnable.py")),
    *map(graph_file, ("fx_graph_readable.py", "fx_graph_transformed.py")),
    lambda run: run / "inspector.json",
    lambda run: run / "a.log",
    lambda run: run / "torch_logs.txt",
    lambda run: run / "record" / "rank0.jsonl",
    lambda run: run / "replay" / "1.json",
]


def _sparse(path: Path) -> None:
    path.write_text("V1")
    os.truncate(path, 4 << 30)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "four gigabytes": _sparse,
    "a number of 9,999 digits": lambda path: path.write_text(f'{{"a": {"9" * 9999}}}\n[rank{"9" * 9999}]'),
    "a number that is too large": lambda path: path.write_text('{"schema": 1e309, "started": Infinity}'),
    "deep brackets": lambda path: path.write_text("[" * 100_000),
    "deep parentheses": lambda path: path.write_text(f"x = {'(' * 5000}"),
    "NUL": lambda path: path.write_text('{"command": ["a\\u0000b"], "schema": "x"}\0'),
    "nothing that is text": lambda path: path.write_bytes(bytes(range(256)) * 30),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_whatever_stands_in_a_files_place_neither_blocks_nor_fails(run: Path, damage: str) -> None:
    for place in FILES if damage != "four gigabytes" else FILES[-5:-3]:
        path = place(run)
        before = path.read_bytes() if path.is_file() else None
        path.unlink(missing_ok=True)
        DAMAGE[damage](path)
        started = time.process_time()
        for view in SEEN if before is None or len(before) < 20_000 else (see_summary,):
            view(Run.open(run))
        assert time.process_time() - started < 30, path
        (path.rmdir if path.is_dir() and not path.is_symlink() else path.unlink)()
        if before is not None:
            path.write_bytes(before)


def problems(run: Path) -> str:
    opened = Run.open(run)
    result = summary_of(opened)
    graphs = [graph.artifacts() for graph in opened.graphs]
    return "\n".join(map(str, [*result.facts.problems, *(p for graph in graphs for p in graph.problems)]))


def test_what_is_written_a_thousand_times_is_shown_once(run: Path) -> None:
    path = graph_file("ir_post_fusion.txt")(run)
    text = path.read_text()
    before = fusion_of(Run.open(run).graphs[0])
    path.write_text(text * 1000)
    assert fusion_of(Run.open(run).graphs[0]).decisions == before.decisions
    assert "once more" in problems(run)


def test_a_schedule_with_a_circle_is_drawn() -> None:
    boxes: dict[str, Any] = {name: SimpleNamespace(x=0.0, y=0.0, height=10) for name in "abc"}
    circle = [("a", "b", "", None), ("b", "a", "", None), ("b", "c", "", None)]
    width, height = _place(boxes, circle)
    assert boxes["a"].y < boxes["b"].y < boxes["c"].y < height and width > 0


def test_a_link_to_itself_hides_nothing_else(run: Path) -> None:
    for folder in (graph_file("")(run), graph_file("")(run).parent, run / "torch_compile_debug"):
        (folder / "loop").symlink_to("loop")
    (graph,) = Run.open(run).graphs
    assert "output_code.py" in graph.files


def test_a_source_with_a_name_that_no_file_can_have(run: Path) -> None:
    path = graph_file("fx_graph_transformed.py")(run)
    path.write_text(re.sub(r"# File: \S+", f"# File: {'x' * 5000}.py:1", path.read_text()))
    for view in VIEWS:
        view(Run.open(run))


@pytest.mark.parametrize(
    "name", [*GRAPH_FILES, MANIFEST_NAME, "torch_logs.txt", PROVENANCE_FILE, "trace", "replay", "record"]
)
def test_a_file_that_is_cut_is_said_to_be(run: Path, name: str) -> None:
    """Within a line anywhere; the files of a graph and of JSON behind a line's end, too."""
    logs = {"trace": "trace/*.log", "replay": "replay/*.json", "record": "record/*.jsonl"}
    if name == MANIFEST_NAME:
        manifest = {
            "schema": MANIFEST_SCHEMA,
            "command": ["python", "x.py"],
            "status": "done",
            "exit_code": 0,
        }
        (run / name).write_text(json.dumps(manifest, indent=1))
    elif name == "record":
        line = {"kind": "process", "schema": "inspector.record/1", "pid": 1, "rank": 0}
        (run / "record" / "rank0.jsonl").write_text(f"{json.dumps(line)}\n" * 3)
    elif name == "replay":
        code = Run.open(run).graphs[0].code()
        assert code is not None
        save_result(result_of(1.8e9, replay_of(Run.open(run).graphs[0].ident, code)), run)
    path = next(iter([*run.glob(logs.get(name, name)), *run.rglob(name)]))
    data, before = path.read_bytes(), said(run)
    ends = [at + 1 for at, byte in enumerate(data[:-20]) if byte == 10]
    cuts = [len(data) // 2 + 3, len(data) - 9, 30]
    if name not in ("torch_logs.txt", "trace", "record"):
        cuts += [ends[0], ends[len(ends) // 2], ends[-1]] if ends else []
    for at in cuts:
        path.write_bytes(data[:at])
        assert any(path.name in text for text in said(run) - before), at


def test_an_edit_is_the_source_that_was_replayed(run: Path) -> None:
    graph = Run.open(run).graphs[0]
    code = graph.code()
    assert code is not None
    folder = EditFolder(graph.run, graph.ident, code.kernels[0])
    folder.save(KernelEdit(graph.ident, code.kernels[0].name, 0, 1, "a changed\nkernel\n"))
    heard: list[str] = []
    assert len(folder.load(heard.append)) == 1 and not heard
    source = folder.sources()[1]
    source.write_text("a changed\n")
    assert folder.load(heard.append) == () and source.name in heard[0]
    (folder.path / "²").with_suffix(source.suffix).write_text("no number")
    assert list(folder.sources()) == [1]


def test_a_record_and_a_replay_that_are_cut_are_said_to_be(run: Path) -> None:
    line = '{"kind": "process", "schema": "inspector.record/1", "pid": 1, "rank": 0}'
    (run / "record" / "rank0.jsonl").write_text(line + "\n")
    assert "rank0.jsonl" not in problems(run)
    (run / "record" / "rank0.jsonl").write_text(line)
    assert "rank0.jsonl:1: the record ends" in problems(run)
    (run / "replay" / "1.json").write_text('{"schema": "inspector.replay/1", "graphs": [')
    heard: list[str] = []
    assert load_results(run, heard.append) == () and len(heard) == 1 and "1.json" in heard[0]


def test_dates_that_no_clock_shows() -> None:
    assert date_text(1e300) == date_text(float("inf")) == date_text(float("nan")) == ""
    assert date_text(1.8e9).startswith("2027-01-15")


def test_a_head_without_an_end_takes_no_time() -> None:
    started = time.process_time()
    kernel = "cpp_f = async_compile.cpp_pybinding([], '''\nextern \"C\" void " + "f" * 300_000 + "\n''')\n"
    parse_output_code(kernel * 2, "output_code.py")
    assert time.process_time() - started < 5


FLOODS = {
    "lines": "\n" * 300_000,
    "name": f"{'a1' * 100_000}(",
    "heads": "/*" * 200_000,
    "two": "x\ny\n" * 1500,
}


@pytest.mark.parametrize("text", FLOODS.values(), ids=FLOODS)
def test_two_texts_of_nothing_new_take_no_time_to_compare(text: str) -> None:
    """Names numbered anew, comments taken out, lines matched that stand a thousand times."""
    started = time.process_time()
    assert len(plain_lines(text)) == text.count("\n") + 1
    other = "\n".join(f"a{'b' * (n % 999)} {n}" if n % 2 else "y" for n in range(3000))
    list(side_by_side("\n".join(text.split("\n")[:3000]), other))
    assert time.process_time() - started < 30


def test_an_analysis_that_fails_is_a_problem_of_its_graph(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(nodes: Any, *rest: Any) -> Any:
        if nodes:
            raise KeyError("buf9")
        return real(nodes, *rest)

    real = build_groups
    monkeypatch.setattr("inspector.analysis.fusion.build_groups", fail)
    opened = Run.open(run)
    assert "its fusion cannot be understood (KeyError: 'buf9' at " in str(summary_of(opened).problems)
    assert "its fusion cannot be understood" in str(fusion_of(opened.graphs[0]).notes)
    remarks = explain(opened).remarks
    assert any("what its kernels do cannot be understood" in remark for remark in remarks)
    assert not explain(opened).findings or remarks


def test_nodes_read_only_what_stands_above_them() -> None:
    head = "class GraphModule(torch.nn.Module):\n    def forward(self, x):\n"
    body = ["a = torch.ops.aten.view.default(b, [4])", "b = torch.ops.aten.view.default(a, [4])", "a = x + a"]
    graph = parse_fx_graph(head + "".join(f"        {line}\n" for line in [*body, "return (b,)"]), "file")
    assert {node.name: node.inputs for node in graph.nodes} == {"x": (), "a": (), "b": ("a",)}
    assert "a stands here once more: left out" in str(graph.problems)


def test_fields_of_a_record_have_their_kinds() -> None:
    calls: dict[str, Any] = {
        "name": "f",
        "order": 0,
        "calls": 1,
        "cold_ms": [1e300],
        "cold_index": [],
        "steady_ms": [],
    }
    lines = [
        {"kind": "process", "schema": "inspector.record/1", "pid": "x", "rank": 1.5},
        {"kind": "inputs", "graph": 1e308, "process": [], "file": None, "arguments": -1},
        {"kind": "calls", "callables": [{**calls, "total_ms": 1.0}]},
    ]
    record = parse_record("".join(f"{json.dumps(line)}\n" for line in lines), "r.jsonl")
    (inputs,) = record.inputs
    assert (record.pid, record.rank, inputs.graph, inputs.process, inputs.arguments) == (
        None,
        None,
        None,
        None,
        0,
    )
    assert record.calls is None and [problem.line for problem in record.problems] == [3]


def test_numbers_are_bounded_before_any_parser_sees_them() -> None:
    text, (problem,) = decode(b"a\nx" + b"9" * 5000 + b"y", "file")
    assert len(text) == 104 and problem.line == 2 and "5000 digits" in problem.message
    assert from_json('[1e309, NaN, -Infinity, 1.5, {"a": 1e-400}]') == [None, None, None, 1.5, {"a": 0.0}]
    for bad in ("[" * 100_000, '{"a":' * 100_000, "9" * 5000, b"\xff", "", "nul"):
        with pytest.raises(ValueError):
            from_json(bad)


def test_attributes_of_metal_that_do_not_end_take_no_time() -> None:
    started = time.process_time()
    source = f"kernel void f(device float* a {'[[' * 100_000}) {{}}"
    parse_output_code(f'f = compile_mps_shader("""\n{source}\n""")\n', "output_code.py")
    assert time.process_time() - started < 5


def test_a_text_of_empty_lines_and_gaps_is_coloured_in_no_time() -> None:
    started = time.process_time()
    for line in ("", "x" + " " * 9000 + "y", "["):
        lines = ["def f(): pass", *[line] * 15_000, "return 1"]
        spans = highlight(lines, "cpp" if line == "" else "python")
        assert len(spans) == len(lines) and spans[0]
    assert highlight(["", "", "return 1"], "python")[2][0] == (0, 6, "keyword")
    assert time.process_time() - started < 30


def test_entries_that_damage_has_joined_are_read_once() -> None:
    started = time.process_time()
    head = "op0: SchedulerNode(ComputedBuffer)\nop0.writes = []\n"
    assert "once more" in str(parse_schedule(head * 3_000, "ir_pre_fusion.txt", "pre").problems)
    assert time.process_time() - started < 30


def test_a_source_that_no_parser_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    def overflow(*_args: object, **_named: object) -> None:
        raise MemoryError("Parser stack overflowed - Python source too complex to parse")

    monkeypatch.setattr("inspector.explain.program.ast.parse", overflow)
    assert read_program("x = 1", "x.py").lines == ("x = 1",)


def test_stages_that_have_no_room_leave_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_source: Path, target: Path) -> None:
        target.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "made" / "key").mkdir(parents=True)
    (tmp_path / "made" / "key" / "kernel.asm").write_text("whole")
    monkeypatch.setattr("inspector.replay.lowering.shutil.copyfile", full)
    with pytest.raises(OSError, match="No space"):
        keep(tmp_path / "made", tmp_path / "run", ["key"])
    assert not [path for path in (tmp_path / "run").rglob("*") if path.is_file()]


def test_lines_in_which_nothing_begins_take_no_time() -> None:
    started = time.process_time()
    assert _CALLED.findall("a" * 300_000) == [] and _CALLED.findall("x = f(g(y))") == ["f", "g"]
    filled = "        /*0010*/    MOV R1, " + " " * 200_000 + "c ;\n"
    assert len(parse_sass("sass", filled * 2, "f.sass").lines) == 2
    words = ("-a" * 100_000, "-" * 200_000, "A_" * 100_000, "eyJ-" * 50_000, "a+" * 100_000, "\\" * 200_000)
    private = Private()
    for word in words:
        private.learn(f"/ @ token {word}")
        private.clean(f"/ @ token {word}")
    assert time.process_time() - started < 30
    # Behind a dash, a token, an address, an option of many words are no less private.
    told = f"x-eyJhbGciOiJI.eyJzdWIiOiIx.c2ln @foo-jane@box.com --{'long-' * 20}token s3cr3tvalue"
    private = Private()
    private.learn(told)
    assert not any(each in private.clean(told) for each in ("eyJhbGci", "jane", "s3cr3tvalue"))


LONG: dict[str, tuple[str, str]] = {
    "inspector.analysis.diff.guards._FIELD": ("", "a0"),
    "inspector.analysis.load._FIGURE": ("", "0"),
    "inspector.analysis.warp_addresses._ADDRESS": ("[ a", " "),
    "inspector.explain.block_words._TELLING": ("", "aF"),
    "inspector.explain.rules.recompiles._SIZE": ("", "0"),
    "inspector.readers.dynamo_messages._BREAK_FROM": ("Graph break: a", " "),
    "inspector.readers.dynamo_messages._RECOMPILING": ("Recompiling function ", "a in a:0"),
    "inspector.readers.fusion_log._BENCHMARK": ("can fuse (benchmark): fusing ", "aa with ag"),
    "inspector.readers.kernels._C_DEFINITION": ("", 'extern "C"a('),
    "inspector.readers.kernels._METAL_DEFINITION": ("", "kernel void a("),
    "inspector.readers.kernels._MULTI_KERNEL_CHOICE": ("", "\n"),
    "inspector.readers.kernels._MUTATED": ("", "'mutated_arg_names': ["),
    "inspector.readers.kernels._SIGNATURE_ENTRY": ("", "0"),
    "inspector.readers.output_code._RUNNER": ("", "\nrunner = Runner(partitions=[a"),
    "inspector.readers.ranks._INCIDENTAL": ("", "/a"),
    "inspector.readers.runnable._SETTING": ("", "torch.aconfig.a"),
    "inspector.readers.stages.amdgcn._CHAIN": ("", "a"),
    "inspector.readers.stages.files._DEVICE": ("", "DeviceProperties(type='a'"),
    "inspector.readers.stages.llvm._DBG": ("", ", !dbg !0, !a !0"),
    "inspector.readers.stages.llvm._FIELD": ("", "a"),
    "inspector.readers.stages.objdump._INLINED": ("inlined by ", "a:0 ("),
    "inspector.readers.stages.ptx._CHAIN": ("", "0"),
    "inspector.readers.torch_log._STAMP": ("", "[a0]: "),
}
"""Pattern -> the beginning and what is repeated of a text in which it matches nowhere, or at the end."""


@pytest.mark.parametrize("name", LONG)
def test_a_pattern_goes_once_over_a_long_text(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    pattern = getattr(importlib.import_module(module), attribute)
    begin, again = LONG[name]
    text = begin + again * (400_000 // len(again))
    started = time.process_time()
    for _ in pattern.finditer(text):
        pass
    assert time.process_time() - started < 10


def test_what_takes_more_than_one_look_is_not_asked_of_long_texts() -> None:
    started = time.process_time()
    assert (
        guard_text("tensor 'a' rank mismatch. expected 2, actual 3")
        == "a's number of dimensions changed from 2 to 3"
    )
    flood = "tensor 'a' rank mismatch. expected 2, ac" * 3_000
    assert guard_text(flood) == flood
    assert parse_meta("a(aa[a][a]a:0,a" * 3_000 + "\n\0") is None
    assert parse_layout("a('a', torch.a, size=(a), stride=(a), of" * 3_000) is None
    assert parse_size_pair("([a], [a]" * 20_000) is None and not is_place("/a:0 (da)y" * 20_000)
    for flood in ("a:0 in ", "File: a:0 in ", "File: a:0 i", "File: "):
        assert parse_location("File: " + flood * 50_000) is None
    assert _NUMBER_INPUT.match("aoti_torch_item_" * 20_000) is None
    assert classify("unfusable node: a is a n" * 20_000).category == "extern_kernel"
    assert cpp_statements("a_ptr0[a] = a;" * 20_000 + "x") == ()
    guards = parse_guards("+- A: x  # y" + "  # :1 in" * 50_000 + "\n", 1)
    assert len(guards) == 1
    assert time.process_time() - started < 10


def test_what_is_escaped_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def looked_at(one: str) -> bool:
        seen.append(one)
        return one.isprintable()

    monkeypatch.setattr(text, "is_printable", looked_at)
    assert text.escaped("\x1bé" * 1000, lambda char: "?") == "?é" * 1000 and len(seen) == 2
    flood = "a" + "\u0301" * 40
    assert text.escaped(flood, lambda char: "?").count("?") > 20


def test_half_a_pair_of_surrogates_is_packed_as_json_names_it(run: Path, tmp_path: Path) -> None:
    """What JSON names as \\ud800 no encoding has."""
    data = {"schema": MANIFEST_SCHEMA, "command": ["python", "x\ud800.py"], "status": "done", "exit_code": 0}
    (run / MANIFEST_NAME).write_text(json.dumps(data))
    Packer(Run.open(run)).write(tmp_path / "run.tar.gz")
    with tarfile.open(tmp_path / "run.tar.gz") as tar:
        packed = tar.extractfile(f"run/{MANIFEST_NAME}")
        assert packed is not None and json.loads(packed.read())["command"][1].endswith("\ud800.py")


def test_names_and_layouts_that_begin_again_and_again_take_no_time() -> None:
    """Their words, repeated: a pattern with two stretches of anything tries every pair of places."""
    started = time.process_time()
    assert _PARAMETER.match("l_a_modules_" + "a_parameters_" * 20_000 + "!") is None
    assert _PARAMETER.match("l_" + "_modules_a" * 20_000) is None
    assert _CONVERT.search("ttg.convert_layout  : tensor< , # " * 5_000) is None
    assert _CONVERT.search("ttg.convert_layout " * 20_000) is None
    assert _CONVERT.search("ttg.convert_layout %y : tensor<4xf32, #a> -> tensor<4xf32, " * 3_000) is None
    assert time.process_time() - started < 5
    path = _PARAMETER.match("L_self_modules_a_modules_b_parameters_weight_")
    assert path is not None and path["path"] == "a_modules_b"
    layouts = ("#ttg.slice<{dim = 1, parent = #ttg.slice<{dim = 0, parent = #b}>}>", "#c")
    found = _CONVERT.search(
        "ttg.convert_layout %y : tensor<4x2xf32, {}> -> tensor<4x2xf32, {}> loc(#l)".format(*layouts)
    )
    assert found is not None and found.groups() == ("4x2xf32", *layouts)


def test_statements_that_damage_has_doubled_are_counted_once() -> None:
    text = "op0: SchedulerNode(ComputedBuffer)\n" + "op0.met_dependencies \n" * 100_000
    started = time.process_time()
    schedule = parse_post_fusion(text, "ir.txt")
    assert time.process_time() - started < 10
    assert [problem.line for problem in schedule.problems[:-1]] == [*range(2, 100_002)]


def test_backslashes_without_end_are_packed_in_no_time() -> None:
    source = Source()
    source.add("y = x.relu()")
    started = time.process_time()
    assert source.clean("\\" * 100_000) == "\\" * 100_000
    assert time.process_time() - started < 10
    assert source.clean('{\\"loc\\": \\"y = x.relu()\\"}') == '{\\"loc\\": \\"...\\"}'


def test_results_within_results_are_taken_apart_at_once() -> None:
    assert leaves("(a, [b, {'k': (c,)}], None, f(d, e), 'g, h')") == (
        *("a", "b", "c", "None", "f(d, e)", "'g, h'"),
    )
    assert leaves("a, b") == ("a, b",) and leaves("()") == () and leaves("[a, (b") == ("a", "b")
    started = time.process_time()
    assert leaves("[" * 300_000 + "a" + "]" * 300_000) == ("a",)
    assert time.process_time() - started < 10


def test_a_time_of_nothing_is_no_comparison() -> None:
    nothing, one, two = (KernelReplay("k", 0, "match", time=Timing(ms, 0.0, 3)) for ms in (0.0, 1.0, 2.0))
    assert "slower" not in edit_text(nothing, one) and "faster" not in edit_text(one, nothing)
    assert "2.00x slower" in edit_text(one, two)


def test_floods_of_nothing_are_passed_over() -> None:
    started = time.process_time()
    assert parse_post_fusion("op0: SchedulerNode(ComputedBuffer)" + "\n" * 3_000_000, "ir.txt").nodes
    assert highlight(["x" * 200_000, "op0: x"], "ir")[0] == []
    assert split_lines("\n" * 3_000_000 + "\x1b") == ("",) * 3_000_000 + ("\\x1b",)
    assert time.process_time() - started < 20


def test_a_cache_of_zeros_has_no_entries(tmp_path: Path) -> None:
    (tmp_path / "mega_cache.bin").write_bytes(bytes(1 << 20))
    listed, problems = _mega_cache(tmp_path / "mega_cache.bin")
    assert listed == () and "cut short or damaged" in str(problems)


def test_parts_that_are_used_again_and_again_are_not_gone_through_each_time() -> None:
    value = "    a = ops.constant(1.0, torch.float32)\n"
    part = f"    def masked_subblock1(self, ops):\n{value * 1000}    return a\n"
    uses = "".join(f"    m{n} = self.masked_subblock1(a, 0.0)\n" for n in range(1000))
    text = f"    def body(self, ops):\n{value}{uses}    return m0\n{part}"
    body = LoopBody("b", (("p0", 8),), (), tuple(text.split("\n")))
    with pytest.raises(ValueError, match="too many statements"):
        LoopValues(body, IndexReader(), {}, {}, apart=False)


@pytest.mark.parametrize("long", ["    b = ops.add({}, a)\n", "    i = self.get_index('index0')\n"])
def test_a_statement_of_a_million_words_is_not_gone_through(long: str) -> None:
    words = "a, " * 1_000_000
    first = "    def body(self, ops):\n    a = ops.constant(1.0, torch.float32)\n"
    text = f"{first}{long.format(words)}    return a\n"
    body = LoopBody("b", (("p0", 8),), (("index0", words),), tuple(text.split("\n")))
    with pytest.raises(ValueError, match="a statement of 3,000,0"):
        LoopValues(body, IndexReader(), {}, {}, apart=False)


REPEATED = """def measure(f, x):
    f(x)
    start = time.perf_counter()
    f(x)
    return time.perf_counter() - start

model = torch.compile(lambda x: x + 1)
print(measure(model, torch.ones(3)))
"""


def test_a_program_that_stands_there_hundreds_of_times_is_read_in_no_time() -> None:
    once = read_program(REPEATED, "a.py").regions
    started = time.process_time()
    many = read_program(REPEATED * 600, "a.py").regions
    assert time.process_time() - started < 20
    assert many[0] == once[0] and len(once) == 1 and len(many) == 100


def test_a_path_of_a_hundred_thousand_folders_is_looked_for_in_no_time(run: Path) -> None:
    started = time.process_time()
    deep = f"/{'a/' * 100_000}"
    assert find_source(SourceLocation(f"{deep}model.py", 3), Run.open(run)) is None
    assert time.process_time() - started < 5
    (run / "softmax.py").write_text("a\nb\ndef f(x):\n    return x\n")
    found = find_source(SourceLocation(f"{deep}softmax.py", 3, "f"), Run.open(run))
    assert found is not None and found.path == run / "softmax.py"


def test_numbers_beyond_a_double_are_no_json() -> None:
    lines = ["a line"] * 3
    assert finite({"lines": lines, "more": [*lines, 1e400]}) == {"lines": lines, "more": [*lines, None]}
    told = finite({"a": [10**400, 2**63, 1e400, True], "b": ({"c": -(10**5000)},)})
    assert told == {"a": [None, 2**63, None, True], "b": [{"c": None}]}


def test_runs_of_one_character_are_packed_as_they_are() -> None:
    """What stands before, between and behind them is rewritten as in a line of its own."""
    parts = ("API_TOKEN=abcd1234efgh5678 ", " /home/jane/a.py ", " https://node7.corp/x file://jane/b")
    line = f"{parts[0]}{'#' * 60_000}{parts[1]}{'=' * 60_000}{parts[2]}"
    private = Private()
    private.learn(line)
    cleaned = private.clean(line)
    alone = Private()
    alone.learn("\n".join(parts))
    assert re.sub(r"([#=])\1{300,}", "|", cleaned) == alone.clean("|".join(parts))
    assert not any(each in cleaned for each in ("abcd1234", "jane/a", "node7.corp")) and "file://" in cleaned


def test_a_kernel_of_millions_of_lines_has_no_loops_to_look_at() -> None:
    loop = "for(int64_t x0=0L; x0<8L; x0+=1L)\n"
    region = f"{loop}{{\n#pragma omp parallel num_threads(2)\n{{\n}}\n}}\n"
    assert inner_regions(region) == 8 and len(loop_nests(region)) == 1
    assert inner_regions(region + "\n" * 5_000_000) == 0 and loop_nests(region + "\n" * 5_000_000) == ()


def test_numbers_that_no_double_holds_are_compared_without_a_part() -> None:
    total = Total("bytes moved", "B", 8, 8 * 10**400)
    assert "%" not in str(list(total_lines([total])))
    assert "+100 %" in str(list(total_lines([replace(total, b=16)])))


@pytest.mark.parametrize(
    ("written", "value"),
    [("031", 25), ("31", 31), ("-0x1F", -31), ("0", 0), ("089", None), ("9" * 5000, None)],
)
def test_integers_of_ptx_are_read_as_its_assembler_reads_them(written: str, value: int | None) -> None:
    found = warp_value(written, {})
    assert found == (None if value is None else (value,) * 32)


def test_a_line_of_backslashes_is_taken_apart_before_names_are_looked_for() -> None:
    private = Private()
    text = "C:\\Users\\anneliese\\a.py at 10.1.2.3:80 " + "\\" * 200_000 + " 10.1.2.3 1.2.3.4.5 v10.1.2.3"
    assert max(len(part) for part in _parted(text)) == 200_000 and len(_parted(text)) == 3
    private.learn(text)
    clean = private.clean(text)
    assert "anneliese" not in clean and "10.1.2.3:80" not in clean and "1.2.3.4.5" in clean
    assert clean.count("10.1.2.3") == 1


def test_a_name_of_a_million_letters_is_cut_in_a_note() -> None:
    assert shortened(["x" * 1_000_000, "buf1"]) == f"{'x' * 200}…, buf1"
    assert shortened([f"buf{n}" for n in range(8)]) == "buf0, buf1, buf2, buf3, buf4, buf5 and 2 more"


def test_of_many_lines_each_is_cleaned_once_and_counted_as_often_as_it_stands() -> None:
    private = Private()
    text = "\n".join(["x", "in /data/zeta/a.py", "", "at /data/eta/b.py"] * 50_000 + [""] * 3_000_000)
    started = time.process_time()
    private.learn(text)
    private.replaced.clear()
    clean = private.clean(text)
    assert time.process_time() - started < 10
    assert clean.split("\n")[:4] == ["x", "in /data/dir1/a.py", "", "at /data/dir2/b.py"]
    assert clean.count("\n") == text.count("\n") and private.replaced["folder"] == 100_000


@pytest.mark.parametrize(("length", "parts"), [(255, 1), (256, 3), (5_000, 3)])
@pytest.mark.parametrize("place", range(0, 300, 37))
def test_a_long_line_is_parted_at_long_runs_wherever_they_stand(length: int, parts: int, place: int) -> None:
    line = "ab" * 50_000
    assert len(_parted(line[:place] + "\t" * length + line)) == parts
    assert len(_parted(line + "\t" * length + "b")) == parts


def test_a_form_is_tried_where_any_of_what_it_needs_stands() -> None:
    form = Form("(?:a b|c): ?", "a b|c", between="|")
    assert form.sub(lambda match: match[0].upper(), "a b: x c: y") == "A B: x C: y"
    assert not list(form.finditer("a: b: x"))
