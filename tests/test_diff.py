"""`inspector diff`: two runs matched by what they compute, and what is said of the difference."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from sharing import unpacked
from test_contract import problems

from inspector.analysis.diff.align import Alignment
from inspector.analysis.diff.buffers import peak_bytes
from inspector.analysis.diff.code import plain_lines, side_by_side
from inspector.analysis.diff.graphs import Classes, pair_graphs
from inspector.analysis.diff.guards import guard_changes
from inspector.analysis.diff.kernels import Launched, Matcher, Unit, units_of
from inspector.analysis.diff.ledger import Timed, difference, of_one_process, outcome
from inspector.analysis.diff.moved import moved
from inspector.analysis.diff.nodes import Graph
from inspector.analysis.diff.settings import cache_misses
from inspector.analysis.diff.verdict import verdict
from inspector.analysis.two_sides import HOST
from inspector.cli import cli
from inspector.comparison import Side, compare_sides
from inspector.model.calls import Steady
from inspector.model.code import KernelCall, KernelKind
from inspector.model.compilation import Compilation, Guard
from inspector.model.diff import CacheKey, Change, GraphMatch, KernelMatch, LaunchId, RunDiff, Setting
from inspector.model.explain import Ledger, LedgerPart
from inspector.model.source import LineSpan, SourceLocation
from inspector.present.diff import markdown
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run

_MIRRORED = {"only_a": "only_b", "only_b": "only_a", "split": "merged", "merged": "split"}
_MATCHED = {"same", "changed", "split", "merged"}
SAME_PROGRAM = [
    ("cpu-torch2.4.1/softmax", "cpu-torch2.15.0/softmax"),
    ("cpu-torch2.6.0/softmax", "h200-torch2.11/softmax"),
    ("cpu-torch2.4.1/mlp", "cpu-torch2.13/mlp"),
    ("cpu-torch2.13/breaks", "h200-torch2.11/breaks"),
    ("cpu-torch2.13/norms", "h200-torch2.11/norms"),
    ("cpu-torch2.13/addrelumul", "h200-torch2.11/addrelumul"),
]


@pytest.fixture(scope="session")
def runs(corpus_runs: list[Path]) -> dict[str, Path]:
    return {f"{path.parent.name}/{path.name}": path for path in corpus_runs}


@cache
def side(path: Path) -> Side:
    return Side(Run.open(path))


@cache
def compared(a: Path, b: Path) -> RunDiff:
    return compare_sides(side(a), side(b))


def pairs(match: KernelMatch) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(map(str, match.a)), tuple(map(str, match.b))


@pytest.mark.parametrize("name", ["h200-torch2.11/breaks", "h200-torch2.11/autotune", "cpu-torch2.4.1/mlp"])
def test_a_run_against_itself_is_empty(runs: dict[str, Path], name: str) -> None:
    diff = compared(runs[name], runs[name])
    assert {match.relation for match in diff.kernels} == {"same"}
    assert {match.relation for match in diff.graphs} == {"same"}
    assert [pairs(match)[0] for match in diff.kernels] == [pairs(match)[1] for match in diff.kernels]
    assert not (diff.settings or diff.events or diff.cache_misses or diff.notes)
    assert verdict(diff) == "No difference: the same graphs, kernels and settings."


@pytest.mark.parametrize(("a", "b"), SAME_PROGRAM)
def test_both_directions_agree(runs: dict[str, Path], a: str, b: str) -> None:
    there, back = compared(runs[a], runs[b]), compared(runs[b], runs[a])
    ours = {(*pairs(match), match.relation) for match in there.kernels}
    theirs = {
        (*reversed(pairs(match)), _MIRRORED.get(match.relation, match.relation)) for match in back.kernels
    }
    assert ours == theirs


@pytest.mark.parametrize(("a", "b"), SAME_PROGRAM)
def test_every_launch_is_in_one_match(runs: dict[str, Path], a: str, b: str) -> None:
    diff = compared(runs[a], runs[b])
    for name, place in ((a, 0), (b, 1)):
        listed = Counter(launch for match in diff.kernels for launch in pairs(match)[place])
        codes = [(graph.ident, graph.code()) for graph in Run.open(runs[name]).graphs]
        calls = [f"{ident}/{call.index}" for ident, code in codes if code for call in code.calls]
        assert listed == Counter(calls)


@pytest.mark.parametrize(("a", "b"), SAME_PROGRAM)
def test_one_program_matches_whole_over_versions_and_devices(runs: dict[str, Path], a: str, b: str) -> None:
    """The programs are the same, so no kernel has nothing on the other side."""
    diff = compared(runs[a], runs[b])
    assert {match.relation for match in diff.kernels} <= _MATCHED
    assert all(match.basis for match in diff.kernels)


def test_unrelated_programs_share_no_match(runs: dict[str, Path]) -> None:
    programs = ["softmax", "mlp", "norms", "breaks", "addrelumul"]
    others = [f"h200-torch2.11/{name}" for name in ("fp8", "cudagraphs", "autotune", "llama_infer")]
    for a, b in itertools.combinations([*(f"cpu-torch2.13/{name}" for name in programs), *others], 2):
        diff = compared(runs[a], runs[b])
        assert {match.relation for match in diff.kernels} <= {"only_a", "only_b"}, (a, b)
        assert "different programs" in verdict(diff)


def test_the_buffers_that_are_alive_at_once(runs: dict[str, Path]) -> None:
    """Counted by hand in the wrappers: 100x100 floats of mm and of the result, and two columns of 100; on the
    GPU the result takes mm's memory."""
    cpu, gpu = (
        Run.open(runs[name]).graphs[0].artifacts()
        for name in ("cpu-torch2.13/softmax", "h200-torch2.11/softmax")
    )
    assert peak_bytes(cpu) == 4 * (2 * 10_000 + 2 * 100)
    assert peak_bytes(gpu) == 4 * 10_000
    assert peak_bytes(replace(cpu, code=None)) is None


def test_a_kernel_that_split_names_its_parts(runs: dict[str, Path]) -> None:
    """The C++ kernel of softmax and max became two Triton kernels: read in both wrappers."""
    diff = compared(runs["cpu-torch2.13/breaks"], runs["h200-torch2.11/breaks"])
    split = [pairs(match) for match in diff.kernels if match.relation == "split"]
    launches = [sum(len(own) for own in side) for side in zip(*map(pairs, diff.kernels), strict=True)]
    assert launches[0] != launches[1]
    assert f"f {launches[0]} kernel launches in A and {launches[1]} in B" in verdict(diff)
    assert (("model__2_forward_7.2/1",), ("model__2_forward_7.2/1", "model__2_forward_7.2/2")) in split
    merged = [pairs(match) for match in diff.kernels if match.relation == "merged"]
    assert merged == [
        (("model__4_backward_14.5/0", "model__4_backward_14.5/2"), ("model__4_backward_14.5/0",))
    ]


def test_json_keeps_its_contract(runs: dict[str, Path]) -> None:
    for a, b in SAME_PROGRAM[:4]:
        result = CliRunner().invoke(cli, ["diff", str(runs[a]), str(runs[b]), "--json"])
        assert problems("diff", json.loads(result.stdout)) == []


def test_markdown_is_no_markup_of_the_runs(runs: dict[str, Path]) -> None:
    a, b = SAME_PROGRAM[2]
    result = CliRunner().invoke(cli, ["diff", str(runs[a]), str(runs[b]), "--markdown"])
    assert result.stdout.startswith("**Of 69 kernel launches 27 changed")
    assert "|---|---|---|" in result.stdout
    setting = Setting("environment", "X", "![](http://e.example/x) <img> @team", "a|b\n| c |")
    shown = "\n".join(markdown(replace(compared(runs[a], runs[b]), settings=(setting,))))
    assert "environment.X | !&#91;](http://e.example/x) &lt;img> @\u200bteam | a\\|b \\| c \\| |" in shown
    # A comment on a pull request is cut off at 65,536 characters.
    assert len(result.stdout) < 65_000


def test_torch_says_why_the_parts_did_not_fuse(runs: dict[str, Path]) -> None:
    """B's log: `cannot fuse op1_op2_op3 with op4_op5: numel/rnumel mismatch (reduce) (8, 1), (64, 512)`."""
    diff = compared(runs["cpu-torch2.13/breaks"], runs["h200-torch2.11/breaks"])
    graph = "model__2_forward_7.2"
    (change,) = [item for item in diff.fusions if str(item.whole) == f"{graph}/1"]
    assert [str(part) for part in change.apart] == [f"{graph}/1", f"{graph}/2"]
    assert (change.fused_in, change.by_torch) == ("a", True)
    assert change.reason == "numel/rnumel mismatch (reduce) (8, 1), (64, 512)"


def test_settings_and_the_cause_of_a_miss_are_named(convmixer: Path) -> None:
    """One run is the other's with mode="reduce-overhead"."""
    diff = compared(convmixer / "train-default.run", convmixer / "train-reduce-overhead.run")
    assert [(item.name, item.a, item.b) for item in diff.settings] == [("triton.cudagraphs", "False", "True")]
    assert {miss.graph for miss in diff.cache_misses} == {"model__0_forward_1.0", "model__0_backward_3.1"}
    for miss in diff.cache_misses:
        assert "inductor_config[triton.cudagraphs]" in [cause.what for cause in miss.causes]


def timed(
    wall: float, parts: dict[str, float], launches: dict[tuple[str, int], float] | None = None
) -> Timed:
    rows = tuple(LedgerPart(name, ms) for name, ms in parts.items())
    ledger = Ledger(None, wall, rows, wall - sum(parts.values()))
    return Timed(ledger, Steady(wall, wall / 50, 100), launches or {})


def matched(call: int) -> KernelMatch:
    launch = LaunchId("g", call, f"kernel_{call}", "triton")
    return KernelMatch((launch,), (launch,), "same")


def test_the_ledger_adds_up_to_the_difference() -> None:
    a = timed(5.0, {"generated kernels": 3.0, "the host": 1.5}, {("g", 0): 2.0, ("g", 1): 1.0})
    b = timed(9.0, {"generated kernels": 6.0, "the host": 2.5}, {("g", 0): 4.8, ("g", 1): 1.1})
    rows = difference(a, b, [matched(0), matched(1)])
    deltas = {row.part: round(row.delta_ms, 6) for row in rows}
    assert deltas == {"kernel_0": 2.8, "all other kernels": 0.2, "the host": 1.0, "unexplained": 0.0}
    assert outcome(a, b) == "slower"
    assert outcome(b, a) == "faster"


def test_a_side_that_tells_less_apart_is_compared_as_a_whole() -> None:
    a = timed(5.0, {"compiled graphs, kernels and wrapper together": 4.0, "host gap": 0.5})
    b = timed(9.0, {"generated kernels": 6.0, "the host": 1.0})
    assert [(row.part, row.delta_ms) for row in difference(a, b, [])] == [
        ("kernels and the host", 2.5),
        ("unexplained", 1.5),
    ]


def test_the_host_of_a_side_that_names_none_of_its_parts_is_one() -> None:
    a = timed(5.0, {"generated kernels": 4.0, "guards": 0.25, "wrappers and launches": 0.5})
    b = timed(9.0, {"generated kernels": 8.0, HOST: 1.0})
    assert [(row.part, row.a_ms, row.b_ms) for row in difference(a, b, [])] == [
        ("generated kernels", 4.0, 8.0),
        (HOST, 0.75, 1.0),
        ("unexplained", 0.25, 0.0),
    ]
    quiet = timed(4.5, {"generated kernels": 4.5})
    assert [row.part for row in difference(a, quiet, [])] == ["generated kernels", HOST, "unexplained"]


def test_rows_and_the_calls_that_they_add_up_to_are_of_one_process() -> None:
    a, b = timed(20.0, {"generated kernels": 20.0}), timed(24.0, {"generated kernels": 24.0})
    slow = [
        replace(side, again=other.steady, ledger_again=other.ledger)
        for side, other in (
            (a, timed(32.0, {"generated kernels": 30.0})),
            (b, timed(38.0, {"generated kernels": 37.0})),
        )
    ]
    rows = difference(*of_one_process(*slow), [])
    assert [row.delta_ms for row in rows] == [7.0, -1.0]
    assert outcome(*slow) == "slower"
    # Where a call takes the same in both processes the timed one is told, and where one side has no profile.
    assert of_one_process(*(replace(side, again=side.steady) for side in slow))[0].ledger == a.ledger
    assert of_one_process(slow[0], b) == (slow[0], b)
    # The other process says the opposite: no verdict.
    assert outcome(slow[0], replace(slow[1], again=Steady(26.0, 0.5, 100))) == "unknown"
    assert outcome(slow[0], replace(slow[1], again=Steady(32.2, 0.5, 100))) == "unknown"
    assert outcome(slow[0], replace(slow[1], again=Steady(36.0, 90.0, 100))) == "slower"


def test_an_estimate_makes_no_ledger() -> None:
    a = timed(5.0, {"generated kernels": 3.0})
    estimated = replace(a, ledger=replace(a.ledger, how="estimated"))
    assert difference(a, estimated, [matched(0)]) == ()


def test_renamed_variables_are_no_change() -> None:
    ours = "tmp3 = tl.load(in_ptr0 + (x2), None)\ntmp4 = libdevice.exp2(tmp3)"
    theirs = "tmp7 = tl.load(in_ptr1 + (x0), None)\ntmp9 = libdevice.exp2(tmp7)"
    assert plain_lines(ours) == plain_lines(theirs)
    rows = list(side_by_side(ours, theirs.replace("exp2", "log2")))
    assert [row.same for row in rows] == [True, False]
    assert plain_lines("tmp0.to(tl.float32)") != plain_lines("tmp0.to(tl.float64)")
    assert plain_lines("tmp0 = tmp1 + 8") != plain_lines("tmp0 = tmp1 + 16")


def test_a_line_of_a_million_names_stands_as_it_is() -> None:
    ours, theirs = "a1 " * 30_000 + "\ntmp1 = 2", "a2 " * 30_000 + "\ntmp2 = 2"
    assert [row.same for row in side_by_side(ours, theirs)] == [False, True]


def test_a_layer_between_equal_ones_is_the_one_that_is_gone() -> None:
    """Layers of different widths in a loop, one line for all: what comes after the removed one is found by
    where its values go."""
    whole, short = layers((72, 80, 88)), layers((72, 88))
    (pair,) = pair_graphs([whole], [short]).pairs
    alignment = Alignment(whole, short, whole.operations, short.operations)
    names = {whole.nodes[x].name: short.nodes[y].name for x, y in alignment.of_a.items()}
    steps = ("up", "gelu", "down", "add")
    assert names == {f"{step}_{a}": f"{step}_{b}" for a, b in ((0, 0), (2, 1)) for step in steps}
    assert pair[2] == len(names)


def test_an_edited_line_keeps_what_stands_between_matched_nodes() -> None:
    before, after = layers((72, 80)), layers((72, 80), edited=True)
    alignment = Alignment(before, after, before.operations, after.operations)
    assert len(alignment.of_a) == len(before.operations)
    assert [after.nodes[y].name for y in sorted(alignment.free_b)] == ["abs_0", "abs_1"]


def test_what_follows_a_new_break_is_the_rest_of_the_graph() -> None:
    """Dynamo calls the function that it resumes by another name."""
    whole, rest = layers((72, 80, 88)), layers((80, 88), function="torch_dynamo_resume_in_forward_at_3")
    first = layers((72,))
    pairs = pair_graphs([whole], [renamed(first, "first"), renamed(rest, "rest")]).pairs
    assert {pair[:2] for pair in pairs} == {("g", "first"), ("g", "rest")}
    assert sum(pair[2] for pair in pairs) == len(whole.operations)


def test_a_step_is_told_from_another_by_the_item_that_it_reads() -> None:
    """A loop over three items and one over the last two, which else would be the first two."""
    classes = pair_graphs(steps(0, 1, 2), steps(1, 2)).classes
    numbers = [classes.a.get(("g_forward_0", f"tanh_{item}")) for item in range(3)]
    assert numbers == [None, *(classes.b["g_forward_0", f"tanh_{item}"] for item in (1, 2))]


def test_a_step_of_the_backward_belongs_to_the_forward_step_that_saved_its_values() -> None:
    classes = pair_graphs(steps(0, 1, 2), steps(1, 2)).classes
    numbers = [classes.a.get(("g_backward_1", f"mul_{item}")) for item in range(3)]
    assert numbers == [None, *(classes.b["g_backward_1", f"mul_{item}"] for item in (1, 2))]


def test_a_launch_computes_nothing_that_waits_for_a_later_library_call() -> None:
    """Of a piece of a concatenation torch names all other pieces as origins, too."""
    graph = layers((72, 80))
    calls: tuple[tuple[str, KernelKind, tuple[str, ...]], ...] = (
        ("extern_kernels.mm", "extern", ("up_0",)),
        ("cpp_fused_0", "cpp", ("gelu_0", "gelu_1")),
        ("extern_kernels.mm", "extern", ("up_1",)),
        ("cpp_fused_1", "cpp", ("gelu_1",)),
    )
    launches = [
        Launched(
            LaunchId("g", index, kernel, kind, ()),
            KernelCall(index, kernel, kind, (), (), (), LineSpan(1, 1), ""),
            None,
            "",
            names,
            "",
        )
        for index, (kernel, kind, names) in enumerate(calls)
    ]
    units = units_of(graph, launches, {("g", f"gelu_{n}"): n for n in range(2)})
    assert [set(unit.shares) for unit in units] == [set(), {0}, set(), {1}]
    assert units[3].shares[1] == 1.0


def test_graphs_of_one_text_may_have_launches_that_the_other_has_not() -> None:
    """Of a piece that several graphs share, damaged on one side: none is put beside another by its place."""
    call = KernelCall(0, "k", "triton", (), (), (), LineSpan(1, 1), "")
    units = [
        Unit(LaunchId("g", place, "k", "triton", ()), call, None, "", 0.0, file="x = 1\n")
        for place in range(3)
    ]
    groups = Matcher(units, units[:2], Classes()).groups()
    assert sorted((len(group.a), len(group.b)) for group in groups) == [(0, 1)] * 2 + [(1, 0)] * 3
    whole = Matcher(units, units, Classes()).groups()
    assert [(group.a, group.b) for group in whole] == [((place,), (place,)) for place in range(3)]


def steps(*items: int) -> list[Graph]:
    """`for x in xs.unbind(0): h = tanh(x + h)`, and its gradient, which reads each step's result."""
    forward = [
        "class <lambda>(torch.nn.Module):",
        '    def forward(self, xs: "f32[3, 8]", h: "f32[8]"):',
        "        # File: /m.py:3 in f, code: for x in xs.unbind(0):",
        "        unbind = torch.ops.aten.unbind.int(xs)",
    ]
    backward = [
        "class <lambda>(torch.nn.Module):",
        f"    def forward(self, {', '.join(f'tanh_{n}' for n in items)}, grad):",
        "        # File: /m.py:4 in f, code: h = tanh(x + h)",
    ]
    last, grad = "h", "grad"
    for n in items:
        forward.append(f'        getitem_{n}: "f32[8]" = unbind[{n}]')
        forward.append("        # File: /m.py:4 in f, code: h = tanh(x + h)")
        forward.append(f'        add_{n}: "f32[8]" = torch.ops.aten.add.Tensor(getitem_{n}, {last})')
        forward.append(f'        tanh_{n}: "f32[8]" = torch.ops.aten.tanh.default(add_{n})')
        last = f"tanh_{n}"
    for n in reversed(items):
        backward.append(f'        square_{n}: "f32[8]" = torch.ops.aten.square.default(tanh_{n})')
        backward.append(f'        sub_{n}: "f32[8]" = torch.ops.aten.sub.Tensor(1, square_{n})')
        backward.append(f'        mul_{n}: "f32[8]" = torch.ops.aten.mul.Tensor({grad}, sub_{n})')
        grad = f"mul_{n}"
    forward.append(f"        return ({last},)")
    backward.append(f"        return ({grad},)")
    return [
        Graph("g_forward_0", "forward", parse_fx_graph("\n".join(forward), "fx.py")),
        Graph("g_backward_1", "backward", parse_fx_graph("\n".join(backward), "fx.py")),
    ]


def renamed(graph: Graph, ident: str) -> Graph:
    graph.ident = ident
    return graph


def layers(widths: tuple[int, ...], edited: bool = False, function: str = "forward") -> Graph:
    """`x + down(gelu(up(x)))` for each width, with an `abs` where the line was edited."""
    code = "y = gelu(up(x)).abs()" if edited else "y = gelu(up(x))"
    text, last = ["class <lambda>(torch.nn.Module):"], "x"
    names = ", ".join(f'up_w{n}: "f32[64, {w}]", down_w{n}: "f32[{w}, 64]"' for n, w in enumerate(widths))
    text.append(f'    def forward(self, x: "f32[16, 64]", {names}):')
    for n, width in enumerate(widths):
        text.append(f"        # File: /m.py:3 in {function}, code: {code}")
        hidden = f"f32[16, {width}]"
        text.append(f'        up_{n}: "{hidden}" = torch.ops.aten.mm.default({last}, up_w{n})')
        text.append(f'        gelu_{n}: "{hidden}" = torch.ops.aten.gelu.default(up_{n})')
        value = f"gelu_{n}"
        if edited:
            text.append(f'        abs_{n}: "{hidden}" = torch.ops.aten.abs.default(gelu_{n})')
            value = f"abs_{n}"
        text.append(f"        # File: /m.py:4 in {function}, code: return x + down(y)")
        text.append(f'        down_{n}: "f32[16, 64]" = torch.ops.aten.mm.default({value}, down_w{n})')
        text.append(f'        add_{n}: "f32[16, 64]" = torch.ops.aten.add.Tensor({last}, down_{n})')
        last = f"add_{n}"
    text.append(f"        return ({last},)")
    return Graph("g", "inference", parse_fx_graph("\n".join(text), "fx.py"))


def test_what_one_side_cannot_know_is_no_difference(runs: dict[str, Path]) -> None:
    """The trace of a run against its debug folder: one has no schedule, the other no keys, no recompiles."""
    run = runs["h200-torch2.11/breaks"]
    diff = compared(run / "trace", run / "torch_compile_debug")
    assert {match.relation for match in diff.kernels} == {"same"}
    assert not diff.settings
    assert not diff.events


def test_a_run_without_graphs_is_no_other_program(runs: dict[str, Path]) -> None:
    diff = compared(runs["cpu-torch2.13/cache_hit"], runs["cpu-torch2.13/softmax"])
    assert verdict(diff) == "Nothing to compare: A without a compiled graph."


def test_a_thousand_recompiles_find_their_own() -> None:
    """Each of another width, on the other side seven later: the right one is near in order."""

    def compiled(first: int) -> list[Graph]:
        return [renamed(layers((first + number, 40)), f"g{number}") for number in range(60)]

    pairs = {a: b for a, b, _ in pair_graphs(compiled(72), compiled(79)).pairs}
    assert all(pairs[f"g{number + 7}"] == f"g{number}" for number in range(53))


def test_the_cause_of_a_miss_is_the_field_that_differs() -> None:
    def key(shape: str, fused: str) -> CacheKey:
        meta = f"TensorMetadata(dtype=torch.float32, shape=torch.Size([{shape}]), device=device(type='cpu'))"
        parts = {"example_inputs[0]": (shape, meta), "inductor_config[max_fusion_size]": (fused, fused)}
        return CacheKey("g", "0/0", "miss", shape + fused, parts)

    (miss,) = cache_misses([key("8, 4", "64")], [key("16, 4", "64")], {"g": "g"})
    sizes = "shape=torch.Size([8, 4])", "shape=torch.Size([16, 4])"
    assert miss.causes == (Change("example_inputs[0]", *sizes),)
    (miss,) = cache_misses([key("8, 4", "64")], [key("8, 4", "1")], {"g": "g"})
    assert miss.causes == (Change("inductor_config[max_fusion_size]", "64", "1"),)
    assert cache_misses([key("8, 4", "64")], [key("8, 4", "64")], {"g": "g"}) == ()


def test_a_part_of_a_cache_key_that_nobody_can_read_is_told_by_its_digest() -> None:
    def key(digest: str, text: str) -> CacheKey:
        return CacheKey("g", "0/0", "miss", "k", {"torch_version": (digest, text)})

    (miss,) = cache_misses([key("one", "\ufffdM\x10")], [key("two", "o\ufffd")], {"g": "g"})
    assert miss.causes == (Change("torch_version", "digest one", "digest two"),)


def test_without_fx_graphs_equal_files_are_the_same_and_others_are_not(tmp_path: Path) -> None:
    """Folders of small programs that hold generated code alone."""
    folder = unpacked(Path(__file__).parent / "data" / "extra" / "wrappers-torch2.13.tar.xz", tmp_path)
    code = sorted(path.parent for path in folder.rglob("output_code.py"))
    read = [side(path) for path in code]
    for one in read:
        assert {match.relation for match in compare_sides(one, one).kernels} <= {"same"}, one.run.shown
    for a, b in itertools.pairwise(read):
        if a.run.root.parent != b.run.root.parent:
            assert {match.relation for match in compare_sides(a, b).kernels} <= {"only_a", "only_b"}


def compilation(*guards: Guard, function: str = "f") -> Compilation:
    place = SourceLocation("model.py", 3, function, None)
    return Compilation("0/0", "0/0", None, place, "ok", 1, 1, None, guards=guards)


def guard(kind: str, text: str, line: int | None = 7) -> Guard:
    place = SourceLocation("model.py", line, "f", None) if line is not None else None
    return Guard(kind, text, place, 1)


def test_guards_that_differ_are_told_with_the_line_that_needs_them() -> None:
    size = "check_tensor(L['x'], Tensor, torch.float32, device=None, size=[{0}, 64], stride=[64, 1])"
    a = compilation(guard("TENSOR_MATCH", size.format(8)), guard("EQUALS_MATCH", "L['k'] == 2"))
    b = compilation(guard("TENSOR_MATCH", size.format(4)), guard("LENGTH_CHECK", "len(L['xs']) == 3"))
    assert list(guard_changes([a], [b], True)) == [
        Change("guard", "f: L['x'] size=[8, 64], for model.py:7", "f: L['x'] size=[4, 64], for model.py:7"),
        Change("guard", "f: L['k'] == 2, for model.py:7", None),
        Change("guard", None, "f: len(L['xs']) == 3, for model.py:7"),
    ]
    assert list(guard_changes([a, a], [a], True)) == []


def test_where_an_object_lies_is_no_difference_of_guards() -> None:
    one, two = (
        compilation(guard("ID_MATCH", f"___check_obj_id(G['g'], {address})"))
        for address in (139898654029792, 139898654031792)
    )
    assert list(guard_changes([one], [two], True)) == []
    other = compilation(guard("ID_MATCH", "___check_obj_id(G['h'], 139898654029792)"))
    assert len(list(guard_changes([one], [other], True))) == 2
    # What another version of torch checks of its own says nothing of the program.
    assert list(guard_changes([one], [other], False)) == []


def test_a_ledger_of_no_difference_is_empty() -> None:
    timed = Timed(Ledger(1.0, None, (LedgerPart("library kernels", 1.0, "measured"),), 0.0, how="measured"))
    assert difference(timed, timed, ()) == ()


def one_to_one(a: str, a_call: int, b: str, b_call: int) -> KernelMatch:
    return KernelMatch((LaunchId(a, a_call, f"k{a_call}", ""),), (LaunchId(b, b_call, "k", ""),), "same")


def test_what_moved_is_told_and_what_it_moved_past_is_not() -> None:
    graphs = [GraphMatch(("g",), ("h",), "same", (5, 5, 5)), GraphMatch(("x",), ("y",), "same", (1, 1, 1))]
    order = [1, 2, 0, 3, 4]
    matches = [one_to_one("g", call, "h", order.index(call)) for call in range(5)]
    (change,) = moved(graphs, matches)
    assert (change.a, change.b) == ("k0, launch 0", "k, launch 2")
    mirrored = [KernelMatch(match.b, match.a, "same") for match in matches]
    back = [GraphMatch(match.b, match.a, "same", match.nodes) for match in graphs]
    assert [(item.b, item.a) for item in moved(back, mirrored)] == [(change.a, change.b)]
    assert list(moved(graphs, [one_to_one("g", call, "h", call) for call in range(5)])) == []


def test_a_launch_of_another_graph_is_told() -> None:
    graphs = [GraphMatch(("g",), ("h",), "same", (5, 5, 5)), GraphMatch(("x",), ("y",), "same", (1, 1, 1))]
    (change,) = moved(graphs, [one_to_one("g", 1, "y", 1)])
    assert (change.a, change.b) == ("k1 in g", "k in y")
