"""Each rule judges the call itself: a neighbour has the property, the judged call has not."""

from __future__ import annotations

import lzma
from dataclasses import replace
from pathlib import Path

import pytest
from build import call, fx_node
from explaining import bare

import inspector.explain.gather
from inspector.analysis.index_ranges import IndexReader
from inspector.analysis.side_totals import DISPATCH, GUARDS, OPERATORS, PYTHON, WRAPPER
from inspector.analysis.two_sides import HOST
from inspector.explain import profiles
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.complex_numbers import AS_REAL
from inspector.explain.cpp_loops import inner_regions
from inspector.explain.estimate import (
    CUDA_GRAPH_MS,
    GPU_KERNEL_MS,
    GPU_LAUNCH_MS,
    HOST_MS,
    SYNC_MS,
    HostCosts,
    Peak,
    host_costs,
)
from inspector.explain.gather import gather
from inspector.explain.in_force import DESCENT
from inspector.explain.launches import _launch, gathers, indexed_by_data, is_copy
from inspector.explain.least import bytes_ms, least_of, machine_of
from inspector.explain.library_arguments import cure
from inspector.explain.profiles import load_profiles
from inspector.explain.program import Program, read_program
from inspector.explain.rule import Stage
from inspector.explain.rules import (
    atomics,
    benchmark_artifact,
    cpu_serial,
    device_transfer,
    extern_dominated,
    fallback_kernels,
    functionalized_copies,
    graph_breaks,
    host_bound,
    host_sync,
    inputs_copied,
    layout_copies,
    outside_compiled,
    parallel_in_loop,
    recompiles,
    slow_dtype,
    slow_kernel,
    tf32_disabled,
    too_few_programs,
    training_mode,
)
from inspector.explain.times import NewSizes, Times
from inspector.model.calls import Event, SteadySpan
from inspector.model.explain import Finding, Trial
from inspector.model.fx import TensorMeta
from inspector.model.logs import GraphBreak, Recompile
from inspector.model.peaks import Costs, Peaks
from inspector.model.replay import ReplayResult, Timing
from inspector.model.schedule import LoopBody, SchedulerNode
from inspector.model.source import SourceLocation
from inspector.model.two_sides import Block, Difference, KernelTime
from inspector.model.waste import Rewritten
from inspector.present.run import event_spans
from inspector.readers.fx_graph import parse_fx_graph
from inspector.readers.run import Run
from inspector.readers.torch_log import parse_torch_log
from inspector.replay.worker.timing import wider

FORWARD = "model__0_forward_1.0"


@pytest.fixture(scope="module")
def profiled(convmixer: Path) -> Case:
    """Inference of the ConvMixer with both sides' profiles."""
    run = Run.open(convmixer / "infer-default.run")
    compiled, eager = (convmixer / f"infer-{side}.trace.json" for side in ("default", "eager"))
    return gather(run, (), None, load_profiles(run, compiled, eager))


@pytest.fixture
def softmax_in_cpp(corpus: Path) -> Case:
    return gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))


def with_kernels(case: Case, *kernels: KernelTime, operators: tuple[str, ...] = ()) -> Case:
    """The case with these kernels in its first block."""
    assert case.sides is not None
    first, *others = case.sides.joined.blocks
    first = replace(first, compiled_kernels=kernels, operators=operators or first.operators)
    joined = replace(case.sides.joined, blocks=(first, *others))
    return replace(case, sides=replace(case.sides, joined=joined))


def test_few_programs_are_those_of_a_long_kernel_itself(profiled: Case) -> None:
    assert profiled.sides is not None and profiled.sides.joined.multiprocessors == 132
    # Short kernels of one program and long ones of 81 to 128 are there, and are none.
    assert not list(too_few_programs.find(profiled))
    slow = KernelTime("triton_red_fused_argmax_0", 1.0, 3.1, True, 4)
    wide = KernelTime("triton_red_fused_sum_1", 1.0, 9.0, True, 132)
    (told,) = too_few_programs.find(with_kernels(profiled, wide, slow, operators=("argmax",)))
    assert "3.10 ms in triton_red_fused_argmax_0, whose 4 programs can't fill 132" in told.title
    assert told.claims[0].block == 0 and 2.8 < told.claims[0].ms[0] < told.claims[0].ms[1] < 3.1
    assert "two steps" in told.advice and told.trial is not None
    library = replace(slow, name="gemv2T_kernel_val")
    (other,) = too_few_programs.find(with_kernels(profiled, library, operators=("mv",)))
    assert "larger batch" in other.advice and other.trial is None
    (convolution,) = too_few_programs.find(with_kernels(profiled, library))
    assert "cudnn.benchmark" in convolution.advice
    assert not list(too_few_programs.find(with_kernels(profiled, wide, replace(slow, ms=0.003))))
    assert not list(too_few_programs.find(with_kernels(profiled, replace(slow, programs=None))))


def test_few_programs_are_those_of_a_reduction_whose_line_is_told(profiled: Case) -> None:
    """Not of what is fused into it: a search's 13.1 ms were told at the lines of its gathers."""
    (graph,) = profiled.graphs
    nodes = graph.artifacts.fx_nodes
    launch = next(
        each for each in graph.launches if any(nodes[n].target.endswith("mean.dim") for n in each.fx)
    )
    (mean,) = (nodes[name] for name in launch.fx if nodes[name].target.endswith("mean.dim"))
    slow = KernelTime(launch.name, 1.0, 9.0, True, 4)
    case = with_kernels(profiled, slow, operators=("gelu", "mean"))
    assert case.sides is not None and mean.source is not None
    first, *others = case.sides.joined.blocks
    first = replace(first, launches=((graph.name, launch.call.index),), lines=(SourceLocation("m.py", 1),))
    joined = replace(case.sides.joined, blocks=(first, *others))
    (told,) = too_few_programs.find(replace(case, sides=replace(case.sides, joined=joined)))
    assert f"9.00 ms for mean in line {mean.source.line} in " in told.title
    assert [line.line for line in told.evidence[:2]] == [mean.source.line, 1]
    assert "over the parts; or" in told.advice


def test_a_slow_dtype_is_of_the_calls_that_were_measured_so(profiled: Case) -> None:
    assert not list(slow_dtype.find(profiled))
    (graph,) = profiled.graphs
    calls = [launch for launch in graph.launches if launch.role == "library"]
    slow, quick = replace(calls[0], ms=2.0, of_float32=0.25), replace(calls[1], ms=9.0)
    case = replace(profiled, graphs=(replace(graph, launches=(slow, quick)),))
    (told,) = slow_dtype.find(case)
    assert "1 library call" in told.title and "2.00 ms a call, and 500 us in float32" in told.title
    own = replace(slow, call=replace(slow.call, kernel="torch.ops.own.gelu.default"))
    (named,) = slow_dtype.find(replace(case, graphs=(replace(graph, launches=(own, quick)),)))
    assert "(gelu at " in named.title, "an operator of one's own is no default"
    assert told.how == "replayed" and told.cost_ms == pytest.approx(1.5, abs=0.1)
    assert [claim.call for claim in told.claims] == [slow.call.index]


def test_a_call_in_float32_is_the_same_on_wide_copies() -> None:
    torch = pytest.importorskip("torch")
    given = torch.ones(2, 3, dtype=torch.bfloat16)
    out = torch.zeros(2, 2, dtype=torch.bfloat16)
    action = wider.in_float32(torch.mm, (given, given.t()), {"out": out})
    assert action is not None
    assert str(getattr(action(), "dtype", "")) == "torch.float32" and out.eq(0).all()
    assert wider.in_float32(torch.mm, (given.float(), given.float().t()), {}) is None


@pytest.mark.parametrize(
    ("half", "wide", "again", "sure"), [(6.0, 1.0, 6.0, True), (6.0, 1.0, 1.1, False), (1.2, 1.0, 1.2, False)]
)
def test_float32_has_to_be_faster_before_and_after(
    half: float, wide: float, again: float, sure: bool
) -> None:
    first, second, third = (Timing(ms, 0.15, 7) for ms in (half, wide, again))
    assert wider.surely_faster(first, second, third) is sure


def test_a_size_that_each_graph_has_as_a_number_stays_one_with_dynamic_too() -> None:
    """As an image's width in a convolution of one channel (torch 2.13): dynamic=True compiled as often."""

    def again(*expected: int) -> list[recompiles._Again]:
        texts = [
            f"0/{i}: tensor 'images' size mismatch at index 3. expected {n}, actual 9"
            for i, n in enumerate(expected)
        ]
        return [recompiles._Again("forward", None, text) for text in texts]

    advice, trial = recompiles._advice(bare(), "size", again(140, 196, 84))
    assert trial is None and "TORCH_LOGS=+dynamic" in advice and "pad to a few sizes" in advice
    # Once is static, then dynamic.
    assert recompiles._advice(bare(), "size", again(140, 140))[1] == Trial(dynamic=True)


@pytest.mark.parametrize(
    ("guard", "kind"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 3, actual 8", "size"),
        ("0/0: tensor 'kwargs['input_ids']' size mismatch at index 1. expected 32, actual 1", "zero_one"),
        ("0/1: 2 <= ids.size()[0] <= 2147483647 # ids = ids[:, :n]", "zero_one"),
        ("2 <= L['counts'].size()[0]", "zero_one"),
        ("4 <= L['counts'].size()[0]", "size"),
        ("Eq(s0, 4)", "size"),
        ("tensor 'x' rank mismatch. expected 2, actual 3", "mismatch"),
        ("tensor 'x' stride mismatch at index 1. expected 5, actual 1", "mismatch"),
        ("tensor 'y' requires_grad mismatch. expected requires_grad=0", "grad"),
        ("0/0: L['self'].training == True  # def forward(self, x):", "train"),
        ("1/0: L['self'].step == 3", "attribute"),
        ("0/2: (1024*(t % 2)) != 0", "number"),
        ("0/1: 400 + i*i + ((-40)*i) >= 2", "number"),
        ("self.param_groups[0]['lr'] == 0.0001666 # for group in self.param_groups", "optimizer"),
        ("3/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.00033", "optimizer"),
        ("L['self'].shape_mode == 2", "attribute"),
        ("L['flag'] == True", "flag"),
        ("not L['reshape']", "flag"),
        ("self._connector._current_fx == 'training_step' # return", "flag"),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, ADInplaceOrView), actual "
            "DispatchKeySet(CPU)",
            "made",
        ),
        (
            "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, ADInplaceOrView), actual "
            "DispatchKeySet(CUDA, ADInplaceOrView)",
            "mismatch",
        ),
        (
            "0/0: tensor 'y' rank mismatch. expected 2, actual 1. Guard failed on a parameter, consider "
            "using torch._dynamo.config.force_parameter_static_shapes = False to allow dynamism on "
            "parameters.",
            "parameter",
        ),
        ("L['n'] == 3", "number"),
        ("((-0.1)*t) == (-0.07500000000000001)", "number"),
        ("t == 1e-05", "number"),
        ("len(L['shapes']) == 3", "length"),
        ("0/0: len(G['__import_einops_dot__backends']._type2backend) != 1 # for", "table"),
        ("0/2: len(self._modules['convs']._modules) != 3 # for norm, conv in zip(", "parts"),
        ("len(L['self']._modules) == 3", "parts"),
        ("1/0: ___check_type_id(self._modules['branch'], 94342), type=<class 'Sequential'>", "parts"),
        ("___check_type_id(L['x'], 94342)", "object"),
        ("G['SHAPE'] == 3", "global"),
        ("___check_obj_id(L['fn'], 140)", "object"),
    ],
)
def test_a_guard_is_what_it_checks_and_not_what_a_name_in_it_says(guard: str, kind: str) -> None:
    assert recompiles.guard_kind(guard) == kind
    advice, trial = recompiles._advice(bare(), kind)
    assert ("dynamic=True" in advice and trial is not None) == (kind == "size")
    settings = trial.config if trial is not None else ()
    assert (("dynamo.allow_unspec_int_on_nn_module", True) in settings) == (kind == "attribute")
    assert (("dynamo.force_parameter_static_shapes", False) in settings) == (kind == "parameter")


def test_codes_of_one_name_are_compiled_again_once_each() -> None:
    """Two breaks in one line: what the function resumes with has the same name, line and kind of guard."""

    def often(*codes: int) -> bool:
        events = tuple(
            Event(
                "recompile",
                f"{code}/0: tensor '___stack0' size mismatch at index 0. expected 3, actual 8",
                "rest",
                None,
            )
            for code in codes
        )
        return recompiles._more_than_designed(replace(bare(), events=events))

    matrices, vectors = (
        recompiles._advice(
            bare(), "parameter", [recompiles._Again("f", None, f"0/0: tensor 'y' {what} mismatch")]
        )
        for what in ("size", "rank")
    )
    assert matrices[1] is not None and "force_parameter_static_shapes" in matrices[0]
    assert vectors == ("a parameter's shape is fixed in each graph: update all parameters in one call", None)
    assert not often(2, 3) and not often(2, 3, 4, 5)
    assert often(2, 2)
    for values, many in (("False", "True"), False), (("False", "False"), True):
        flags = tuple(Event("recompile", f"0/0: self.campaign == {value}", "f", None) for value in values)
        assert recompiles._more_than_designed(replace(bare(), events=flags)) == many


def test_dynamic_shapes_are_not_advised_where_they_are_asked_for() -> None:
    asked = replace(bare(), programs=(read_program("f = torch.compile(g, dynamic=True)", "a.py"),))
    advice, trial = recompiles._advice(asked, "size")
    assert "pad" in advice and trial is None


def test_what_full_caches_have_compiled_again_and_again_is_said(
    profiled_convmixer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its profile is of other graphs than those of the run, and is none of these."""
    finding = compiled_again(("f", 3, "i == 0"), ("f", 3, "2*i != 0"))
    assert "caches" not in finding.title and finding.severity == "low"
    finding = compiled_again(("f", 3, "i == 0"), ("f", 3, "2*i != 0"), more=(("f", 3, 9),))
    assert "; with torch's caches full, as in a second run, in 9 calls, not 3: " in finding.title
    assert finding.severity == "medium"
    # However little of the run the first time took.
    twice = (("f", 3, "x is y"), ("f", 3, "x is y"))
    times = Times(compiled_ms=10.0, calls=1000, recompile_ms=1.0, cold_ms=2.0)
    assert compiled_again(*twice, times=times).severity == "low"
    assert compiled_again(*twice, times=times, more=(("f", 3, 9),)).severity == "medium"
    run = Run.open(profiled_convmixer)
    whole = load_profiles(run)
    assert whole is not None and whole.compiled is not None and not whole.notes
    monkeypatch.setattr(profiles, "compiled_more", lambda _variants: (("f", 3, 9),))
    monkeypatch.setattr(inspector.explain.gather, "compiled_more", lambda _variants: (("f", 3, 9),))
    assert gather(run).compiled_more == (("f", 3, 9),)
    left = load_profiles(run)
    assert left is not None and left.compiled is None and left.eager == whole.eager
    assert left.notes == (
        "compiled: its profile is left out, as it is of other graphs: f was compiled in 9 of the calls "
        "there, with torch's caches full, and in 3 before",
    )


def compiled_again(
    *items: tuple[str, int, str],
    more: tuple[tuple[str, int, int], ...] = (),
    times: Times | None = None,
) -> Finding:
    """What is found of functions that were compiled again: their names, lines and guards."""
    events = tuple(
        Recompile(function, SourceLocation("/home/user/a.py", line), (f"0/0: {guard}",), None, number)
        for number, (function, line, guard) in enumerate(items)
    )
    case = replace(bare(times), compiled_more=more)
    (finding,) = recompiles.find(replace(case, facts=replace(case.facts, recompiles=events)))
    return finding


def test_tensors_of_inference_mode_are_told_apart_from_others_by_where_they_were_made() -> None:
    keys = "DispatchKeySet(CPU, BackendSelect{})"
    guard = "tensor 'state' dispatch key set mismatch. expected {}, actual {}"
    found = compiled_again(("step", 3, guard.format(keys.format(", ADInplaceOrView"), keys.format(""))))
    assert "state was made outside of torch.inference_mode() before, and inside of it now" in found.title
    assert "make the first ones" in found.advice
    other = guard.format(keys.format(""), keys.format("").replace("CPU", "CUDA"))
    assert "same dtype, rank, strides and device" in compiled_again(("step", 3, other)).advice


def test_a_graph_that_only_has_other_sizes_tells_more_than_one_of_another_kind_of_tensor() -> None:
    """As a cache that grows in a decoder whose prompts were made outside of inference mode."""
    kind = (
        "0/2: tensor 'ids' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet()"
    )
    size = "0/0: tensor 'ids' size mismatch at index 1. expected 73, actual 27"
    listed = "0/1: ___check_type_id(cache, 140661768942400), type=<class 'list'>  # cache is None"
    again = Recompile("forward", None, (kind, listed, "User stack trace:", size), "0/3", 1)
    assert again.headline == size
    assert replace(again, reasons=(listed, kind)).headline == listed.partition("  #")[0]
    assert replace(again, reasons=("0/1: n == 4", size)).headline == "0/1: n == 4"
    assert replace(again, reasons=()).headline == "no reason given"


def test_what_dynamo_puts_around_a_librarys_module_has_no_name_of_torchs() -> None:
    around = SourceLocation("/x/site-packages/torch/_dynamo/external_utils.py", 67, "inner")
    users = SourceLocation("/home/user/train.py", 5)
    again = Recompile("inner", around, ("0/0: tensor 'x' size mismatch",), "0/1", 1, None, (users, around))
    assert [span.text for span in event_spans(again)][1::2] == ["train.py:5", "(a library's module)"]
    case = replace(bare(), facts=replace(bare().facts, recompiles=(again,)))
    for callables, name in ((("Sequential",), "Sequential"), (("A", "B"), "a library's module")):
        (finding,) = recompiles.find(replace(case, times=replace(case.times, callables=callables)))
        assert finding.title.startswith(f"{name} is compiled again")


def test_the_function_that_is_compiled_most_often_is_named_with_its_most_frequent_guard() -> None:
    size = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
    steps = [("forward", 9, f"self.steps == {number}") for number in range(6)]
    finding = compiled_again(("wrapper", 3, size), ("forward", 9, size), *steps, ("wrapper", 8, size))
    assert finding.title == (
        "forward is compiled again 7 times, 2 other functions 2 times: 6 of the 7 like self.steps == 0"
    )
    assert "allow_unspec_int_on_nn_module" in finding.advice
    assert finding.trial is not None and not finding.trial.dynamic


def test_of_several_numbers_the_one_that_changes_most_is_named() -> None:
    steps = [("leapfrog", 9, f"n_steps == {number}") for number in range(3, 8)]
    finding = compiled_again(("leapfrog", 9, "eps == 0.05"), *steps)
    assert finding.title == "leapfrog is compiled again 6 times: 5 of the 6 like n_steps == 3"
    assert "pass it as a tensor" in finding.advice
    program = read_program("for _ in range(n_steps):\n    q = q + eps * p", "a.py")
    counted = replace(bare(), programs=(program,))
    for checked in ("n_steps", "L['n_steps']"):
        assert "what one step does" in recompiles._advice(counted, "number", checked=checked)[0]
    assert "pass it as a tensor" in recompiles._advice(counted, "number", checked="eps")[0]


def test_what_a_function_is_resumed_with_is_a_part_of_it() -> None:
    size = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
    parts = [(f"torch_dynamo_resume_in_forward_at_{line}", line, size) for line in (14, 15)]
    assert compiled_again(("forward", 12, size), *parts).title.startswith(
        "forward is compiled again 3 times: "
    )
    alone = compiled_again(*parts[:1])
    assert alone.title.startswith("forward is compiled again 1 time: ")


def test_what_a_break_hands_on_is_advised_on_where_it_is_met_most() -> None:
    """A coin that is thrown behind a break: a number, and another one in each call."""
    coins = [("torch_dynamo_resume_in_step_at_75", 75, f"___stack0 > 0.{digit}") for digit in (8, 5)]
    stride = "tensor 'gold' stride mismatch at index 0. expected 9, actual 8"
    assert "take the break away" in compiled_again(("step", 75, stride), *coins).advice
    assert "strides" in compiled_again(("step", 75, stride), ("step", 75, stride), *coins[:1]).advice


def test_one_tensor_handed_over_twice_at_first_is_no_alarm() -> None:
    found = compiled_again(("diagonal", 9, "m2 is m1"), ("diagonal", 9, "m2 is x2"))
    assert found.severity == "medium" and "tensors of their own" in found.advice
    again = (("f", 9, "n == 3"), ("f", 9, "n == 4"))
    assert compiled_again(("f", 9, "m2 is m1"), *again).severity == "high"
    assert recompiles.guard_kind("flag is True") == "flag"


def test_one_function_and_one_guard_need_no_counts() -> None:
    finding = compiled_again(("f", 1, "L['n'] == 3"), ("f", 1, "L['n'] == 4"))
    assert finding.title == "f is compiled again 2 times: L['n'] == 3"


def test_the_same_break_counts_each_time_as_in_a_summary() -> None:
    place, other = SourceLocation("/home/user/a.py", 3), SourceLocation("/home/user/a.py", 7)
    breaks = [
        GraphBreak(at, "print", (), None, False, number, "")
        for number, at in enumerate([place] * 3 + [other])
    ]
    case = bare()
    for seen, title in (
        (breaks[:3], "3 graph breaks at a.py:3: print"),
        (breaks, "4 graph breaks at a.py:3 and 1 more place: print"),
        (breaks[2:], "2 graph breaks at a.py:3 and 1 more: print"),
    ):
        (finding,) = graph_breaks.find(replace(case, facts=replace(case.facts, graph_breaks=tuple(seen))))
        assert finding.title == title


def test_of_several_reasons_the_one_that_is_met_most_is_told_and_advised_on() -> None:
    """As of gpytorch: 10 of 29 compare data, 12 call pickle, most of them from one line."""
    first, often, seldom = (SourceLocation("/home/user/gp.py", line) for line in (9, 30, 17))
    data, disabled = "Data-dependent branching", "a disabled function"
    seen = [(first, data), (first, data), (seldom, disabled), (often, disabled), (often, disabled)]
    breaks = tuple(
        GraphBreak(at, reason, (), None, False, number, "") for number, (at, reason) in enumerate(seen)
    )
    case = bare()
    (finding,) = graph_breaks.find(replace(case, facts=replace(case.facts, graph_breaks=breaks)))
    assert finding.title == "5 graph breaks at gp.py:30 and 2 more places: 3 of them: a disabled function"
    assert finding.advice.startswith("the called function is excluded")


def test_breaks_of_a_line_that_leads_to_a_given_up_frame_too_count_without_those_of_that_frame() -> None:
    line, theirs = SourceLocation("/home/user/a.py", 18), SourceLocation("/usr/lib/python3.11/loop.py", 113)
    given = GraphBreak(theirs, "Dynamic shape\n\nresults in a skip", (line, theirs), "0/0", False, 1, "")
    breaks = tuple(
        replace(given, reason="Dynamic shape", compile_id=ident) for ident in ("0/0", "0/0_1", "1/0", "2/0")
    )
    case = bare()
    case = replace(case, facts=replace(case.facts, graph_breaks=breaks, given_up=(given,)))
    (finding,) = graph_breaks.find(case)
    assert finding.title == "2 graph breaks at a.py:18: Dynamic shape"
    # The recorder's event of the library's line is none of another place.
    event = Event("graph_break", "Dynamic shape", None, theirs, 2)
    assert [item.title for item in graph_breaks.find(replace(case, events=(event,)))] == [finding.title]


COMPUTED = """
    get_index = self.get_index('index0')
    index_expr = ops.index_expr(get_index, torch.float32)
    constant = ops.constant(0.37, torch.float32)
    mul = ops.mul(index_expr, constant)
    load = ops.load('arg1_1', get_index)
    to_dtype = ops.to_dtype(mul, torch.int64, src_dtype = torch.float32)
    set_indirect0 = self.set_indirect0(to_dtype)
    get_index_1 = self.get_index('index1')
    load_1 = ops.load('arg0_1', get_index_1)
"""


RELU_BACKWARD = """
    get_index = self.get_index('index0')
    load = ops.load('relu', get_index)
    constant = ops.constant(0, torch.float32)
    le = ops.le(load, constant)
    load_1 = ops.load('buf74', get_index)
    where = ops.where(le, constant, load_1)
    store = ops.store('buf75', get_index, where, None)
"""
PADDED = """
    get_index = self.get_index('index0')
    index_expr = ops.index_expr(get_index, torch.int64)
    constant = ops.constant(4, torch.int64)
    lt = ops.lt(index_expr, constant)
    load = ops.load('arg0_1', get_index)
    constant_1 = ops.constant(0, torch.float32)
    where = ops.where(lt, load, constant_1)
    store = ops.store('buf0', get_index, where, None)
"""


def test_what_is_chosen_by_its_values_is_no_copy(profiled: Case) -> None:
    """Twenty-four gradients of relu "only moved data into another layout"; padding does."""
    leaf = next(leaf for _, launch in profiled.launches() for leaf in launch.leaves if leaf.body)

    def node(text: str) -> SchedulerNode:
        body = LoopBody("b", (("p0", 6),), (("index0", "p0"),), tuple(text.splitlines()))
        return replace(leaf, body=body)

    assert is_copy(node(PADDED)) and not is_copy(node(RELU_BACKWARD))
    masked = RELU_BACKWARD.replace("    le = ops.le(load, constant)\n", "").replace(
        "where(le,", "where(load,"
    )
    assert not is_copy(node(masked)), "by a mask that is data"


def test_an_index_is_data_where_it_is_loaded_and_not_where_its_neighbour_is(profiled: Case) -> None:
    leaf = next(leaf for _, launch in profiled.launches() for leaf in launch.leaves if leaf.body)

    def node(text: str, index: str) -> SchedulerNode:
        ranges = (("p0", 6), ("p1", 16))
        return replace(leaf, body=LoopBody("b", ranges, (("index1", index),), tuple(text.splitlines())))

    loaded = COMPUTED.replace("ops.mul(index_expr, constant)", "ops.load('arg2_1', get_index)")
    assert not indexed_by_data(node(COMPUTED, "64*indirect0 + p1"))
    assert gathers(node(loaded, "indirect0 + 64*p1")) and gathers(node(loaded, "indirect0"))
    # Whole rows of 16 are no single elements.
    rows = node(loaded, "16*indirect0 + p1")
    assert indexed_by_data(rows) and not gathers(rows)


def generated(case: Case) -> tuple[GraphCase, Launch]:
    """The first launch of a generated kernel, with its graph."""
    return next((graph, launch) for graph, launch in case.launches() if launch.leaves and launch.source)


def test_additions_are_counted_on_the_loops_that_add(profiled: Case) -> None:
    graph, launch = generated(profiled)
    leaf = next(leaf for leaf in launch.leaves if leaf.body is not None)
    body = LoopBody("b", (), (), ("store = ops.store('buf0', get_index, load, 'atomic_add')",))
    adding = replace(leaf, body=body, sizes=((5, 1000), ()))
    other = replace(leaf, sizes=((7, 1000), ()))
    kernel = replace(launch.kernel, source="tl.atomic_add(out_ptr0, tmp0)") if launch.kernel else None
    both = replace(launch, ms=1.0, kernel=kernel, leaves=(adding, other), points=12_000)
    (told,) = atomics.find(replace(profiled, graphs=(replace(graph, launches=(both,)),)))
    assert told.title.startswith("5,000 elements") and "the indices are worked out" in told.advice


def test_what_eager_adds_up_in_less_time_is_left_to_it(profiled: Case) -> None:
    """Histograms of gradients: left to ATen they took a third of the time. Not where eager takes as long."""
    graph, launch = generated(profiled)
    kernel = replace(launch.kernel, source="tl.atomic_add(out_ptr0, tmp0)") if launch.kernel else None
    adding = replace(launch, ms=1.0, kernel=kernel, leaves=(), points=5000, role="generated")
    assert profiled.sides is not None
    (block, *_) = profiled.sides.joined.blocks
    for eager_ms in (0.2, 1.0):
        own = replace(block, eager_ms=eager_ms, compiled_ms=1.0, launches=((graph.name, adding.call.index),))
        sides = replace(profiled.sides, joined=replace(profiled.sides.joined, blocks=(own,)))
        (told,) = atomics.find(replace(profiled, sides=sides, graphs=(replace(graph, launches=(adding,)),)))
        lost = eager_ms < 1.0
        assert told.advice.startswith("leave it to ATen, which in eager takes 200 us") == lost
        assert told.cost_ms == pytest.approx(0.8 if lost else 0.525) and (told.how == "measured") == lost
        assert {(claim.over, claim.how) for claim in told.claims} == {
            ("eager", "profiled") if lost else ("least", "estimated")
        }


def test_no_more_is_claimed_of_adding_than_eager_is_known_to_save(
    profiled: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of a table of positions on a CPU: ATen's own kernel took half as long, in a part that as a
    whole was as fast."""
    graph, launch = generated(profiled)
    kernel = replace(launch.kernel, source="atomic_add(&out_ptr0[0], tmp0);") if launch.kernel else None
    adding = replace(launch, ms=1.0, kernel=kernel, leaves=(), points=5000, role="generated")
    assert profiled.sides is not None
    (block, *_) = profiled.sides.joined.blocks
    runs = graph.runs
    monkeypatch.setattr(atomics, "_by_data", lambda launch: True)
    for name, atens, saved in (
        ("aten::embedding_dense_backward", 0.6, (0.2, 0.4)),
        ("aten::upsample_bilinear2d_backward", 0.05, (0.25, 0.88)),
        ("aten::index_put_", 1.2, None),
        ("aten::mul", 0.6, (0.25, 0.88)),
    ):
        own = replace(
            block,
            eager_ms=1.0,
            compiled_ms=1.0,
            launches=((graph.name, adding.call.index),),
            eager_kernels=(KernelTime(name, 1.0, atens * runs),),
        )
        sides = replace(profiled.sides, joined=replace(profiled.sides.joined, blocks=(own,)))
        on_cpu = replace(graph, launches=(adding,), gpu=False)
        (told,) = atomics.find(replace(profiled, sides=sides, graphs=(on_cpu,)))
        claimed = [tuple(ms / runs for ms in claim.ms) for claim in told.claims]
        assert claimed == ([pytest.approx(saved)] if saved else []), name
        assert ("leave it to ATen, which took" in told.advice) == (saved is not None)


def test_many_additions_into_few_cells_wait_for_each_other(profiled: Case) -> None:
    """A histogram on a GPU, and the gradient of a table of bytes: what was lost against eager is a part of
    what copies of the cells save, and where eager sorts for longer than that, they do all the same."""
    graph, launch = generated(profiled)
    kernel = replace(launch.kernel, source="tl.atomic_add(out_ptr0, tmp0)") if launch.kernel else None
    adding = replace(launch, ms=4.0, bytes=1 << 20, kernel=kernel, leaves=(), points=1 << 20, fx=("put",))
    adding = replace(adding, call=replace(adding.call, kernel="embedding_dense_backward"), role="generated")
    assert profiled.sides is not None
    (block, *_) = profiled.sides.joined.blocks
    sorts = KernelTime("krn_partial_segment_offset<long>(long*)", 1.0, 6.0)
    place = (graph.name, adding.call.index)

    def told(cells: int, eager_ms: float) -> Finding:
        after = graph.artifacts.fx_after
        assert after is not None and profiled.sides is not None
        meta = TensorMeta("float32", (cells,), None, None)
        node = replace(after.nodes[0], name="put", target="torch.ops.aten.index_put_.default", meta=meta)
        artifacts = replace(graph.artifacts, fx_after=replace(after, nodes=(node,)))
        own = replace(block, eager_ms=eager_ms, compiled_ms=4.0, launches=(place,), eager_kernels=(sorts,))
        sides = replace(profiled.sides, joined=replace(profiled.sides.joined, blocks=(own,)))
        graphs = (replace(graph, artifacts=artifacts, launches=(adding,), runs=1.0),)
        (finding,) = atomics.find(replace(profiled, sides=sides, graphs=graphs))
        return finding

    few = told(1000, 3.5)
    assert few.advice.startswith("add into some hundred copies of the 1,000 cells")
    eager, least = few.claims
    assert (eager.over, eager.ms) == ("eager", (0.5, 0.5)) and least.over == "least"
    low, high = (sum(claim.ms[end] for claim in few.claims) for end in (0, 1))
    assert (low, high) == (pytest.approx(1.4), pytest.approx(2.8))
    # Of no few cells sorting is slower, as eager shows, and nothing sure.
    assert "copies" not in told(2000, 6.0).advice and told(2000, 6.0).claims[0].ms[0] == 0.0
    assert told(1000, 6.0).claims[0].ms[0] == pytest.approx(1.4)


def test_what_rewrites_whole_tensors_may_be_all_that_it_loses_against_eager(profiled: Case) -> None:
    """A wavelet by parts took 16.6 ms for eager's 5.5, of which bytes explain 3.7; its writes kept in
    place, 4.0."""
    graph, launch = generated(profiled)
    launch = replace(launch, ms=1.0, bytes=1 << 24, measured=True)
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    sides, side = profiled.sides, profiled.sides.joined.compiled
    own = graph.groups_of(launch)[0]
    moved = sum(group.bytes_moved or 0 for group in graph.groups_of(launch))

    def told(eager_ms: float, lost: int, work_ms: float = 1.0, graphs: int = 1) -> list[tuple[object, ...]]:
        place = (graph.name, launch.call.index)
        block = replace(
            sides.joined.blocks[0], eager_ms=eager_ms, compiled_ms=1.0, launches=(place,), inside=True
        )
        joined = replace(sides.joined, blocks=(block,), compiled=replace(side, work_ms=work_ms))
        item = Rewritten("buf0", ("slice_scatter",), (), 2 * lost, lost, ((own.name, lost),), False)
        fusion = replace(graph.fusion, rewritten=(item,))
        case = replace(
            profiled,
            sides=replace(sides, joined=joined),
            graphs=(replace(graph, fusion=fusion, launches=(replace(launch, bytes=moved),), runs=1.0),)
            * graphs,
            times=replace(profiled.times, compiled_ms=3.0, eager_ms=1.0, outcome="slower"),
        )
        (finding,) = functionalized_copies.find(case)
        assert finding.title.startswith(
            "1 write into parts of a tensor" if graphs == 1 else "2 writes into parts of 2 tensors"
        )
        return [(claim.block, claim.over, *claim.ms) for claim in finding.claims]

    half = moved // 2
    # A half of its bytes surely, all that the block lost at most; and what of the call's 2 ms it has not.
    assert told(0.2, half) == [
        (0, "eager", pytest.approx(0.5), pytest.approx(0.8)),
        (None, "eager", 0.0, pytest.approx(1.2)),
    ]
    # Beside other work the rest is not its own; of a part that is no slower than in eager only its bytes are.
    assert told(0.2, half, 4.0) == [(0, "eager", pytest.approx(0.5), pytest.approx(0.8))]
    assert told(1.0, half) == [(None, "least", pytest.approx(0.5), pytest.approx(0.5))]
    # One setting keeps those of all graphs, as of a forward and its backward, in place.
    assert len(told(1.0, half, graphs=2)) == 2
    # A few of its bytes are no reason for all that it lost.
    assert told(0.2, moved // 8) == [(None, "least", pytest.approx(0.125), pytest.approx(0.125))]
    # What its arithmetic may hide takes no more than by itself (claimed 0.23 to 0.46 of 1.7 ms, saved 0.02).
    launch = replace(launch, expected_ms=1e3)
    alone = bytes_ms(machine_of(profiled), graph, replace(launch, bytes=moved), half)
    assert told(1.0, half) == [(None, "least", pytest.approx(alone), pytest.approx(alone))]
    assert 0 < alone < 0.4


def test_additions_on_a_cpu_claim_what_aten_saved_where_both_were_timed(corpus: Path) -> None:
    """It took an eighth to three quarters as long; what adding by index has to take nobody knows."""
    case = gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))
    graph, launch = generated(case)
    assert launch.kernel is not None and not graph.gpu
    loop = "for(int64_t x0=static_cast<int64_t>(0L); x0<{}; x0+={})".format(
        *(f"static_cast<int64_t>({number}L)" for number in (900, 1))
    )
    kernel = replace(launch.kernel, source=f"{loop}\n{{\n    atomic_add(&out_ptr0[tmp0], tmp1);\n}}\n")
    adding = replace(launch, ms=4.0, kernel=kernel, points=900, role="generated", measured=True)
    own = replace(graph, launches=(adding,), runs=2.0)
    (told,) = atomics.find(replace(case, graphs=(own,)))
    assert [claim.ms for claim in told.claims] == [pytest.approx((2.0, 7.04))]
    assert told.cost_ms == pytest.approx(4.52)
    # Beside another loop, by the points that it leaves where its own size is a symbol.
    claimed = []
    for size in ("static_cast<int64_t>(900L)", "static_cast<int64_t>(ks0)"):
        own_loop = kernel.source.replace("static_cast<int64_t>(900L)", size)
        other = f"{loop}\n{{\n    auto tmp0 = in_ptr0[x0];\n}}\n"
        both = replace(adding, kernel=replace(kernel, source=own_loop + other), points=1800)
        (told,) = atomics.find(replace(case, graphs=(replace(own, launches=(both,)),)))
        claimed.append(told.claims[0].ms)
    assert claimed[0] == claimed[1]


def test_the_line_of_additions_is_that_of_the_most(profiled: Case) -> None:
    graph, launch = generated(profiled)
    leaf = next(leaf for leaf in launch.leaves if leaf.body is not None)
    body = LoopBody("b", (), (), ("store = ops.store('buf0', get_index, load, 'atomic_add')",))
    few, many = (
        replace(leaf, name=name, body=body, sizes=((count,), ()))
        for name, count in (("few", 10), ("many", 20))
    )
    node = graph.fusion.nodes[0]
    lines = {name: (SourceLocation("model.py", line),) for name, line in (("few", 7), ("many", 8))}
    nodes = tuple(replace(node, name=name, sources=place) for name, place in lines.items())
    told = replace(graph, fusion=replace(graph.fusion, nodes=nodes))
    both = replace(launch, leaves=(few, many))
    assert atomics._places(told, both) == lines["many"]
    assert atomics._places(graph, both) == launch.sources


def test_sorting_is_no_advice_where_eager_sorts_and_takes_longer(profiled: Case) -> None:
    graph, launch = generated(profiled)
    kernel = replace(launch.kernel, source="tl.atomic_add(out_ptr0, tmp0)") if launch.kernel else None
    adding = replace(launch, ms=1.0, kernel=kernel, leaves=(), points=5000, role="generated")
    adding = replace(adding, call=replace(adding.call, kernel="embedding_dense_backward"))
    assert profiled.sides is not None
    for eager_ms in (0.2, 3.0):
        sorts = KernelTime(
            "void at::native::(anonymous namespace)::sum_and_scatter<float, long>(long*)", 1.0, eager_ms
        )
        (block, *_) = profiled.sides.joined.blocks
        block = replace(block, eager_kernels=(sorts,), launches=((graph.name, adding.call.index),))
        sides = replace(profiled.sides, joined=replace(profiled.sides.joined, blocks=(block,)))
        fallback = replace(adding, role="fallback")
        case = replace(profiled, sides=sides, graphs=(replace(graph, launches=(fallback,)),))
        (told,) = atomics.find(case)
        assert told.advice.startswith("sort by index") == (eager_ms < 1.0)
        assert (told.claims[0].ms[0] == 0.0) == ("is slower: 3.00 ms" in told.advice) == (eager_ms > 1.0)


def test_other_sizes_are_not_advised_to_what_is_as_fast_as_the_machine(profiled: Case) -> None:
    """384 products of a matrix and a vector that read their matrices at 4.26 of 4.24 TB/s on an H200."""
    (graph,) = profiled.graphs
    call = next(launch for launch in graph.launches if launch.name.endswith("addmm"))
    (least, _), _ = least_of(machine_of(profiled), graph, replace(call, ms=1e3))
    assert least > 0.0
    for times, at_roof in ((1.1, True), (2.0, False)):
        own = replace(call, ms=times * least, measured=True)
        advice = extern_dominated._advice(profiled, graph, own)
        assert ("less work: it is as fast as this machine can" in advice) == at_roof
        assert ("other sizes" in advice and "max-autotune" in advice) != at_roof
        assert (extern_dominated._trial(profiled, graph, own) is None) == at_roof
    guessed = replace(call, ms=1.1 * least, measured=False)
    assert "other sizes" in extern_dominated._advice(profiled, graph, guessed)


def test_advice_is_no_repetition_of_what_is_set(profiled: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    (graph,) = profiled.graphs
    call = next(launch for launch in graph.launches if launch.name.endswith("addmm"))
    convolution = next(launch for launch in graph.launches if "convolution" in launch.name)
    assert "bfloat16" not in extern_dominated._advice(profiled, graph, call)
    assert "max-autotune" in extern_dominated._advice(profiled, graph, call)
    tuned = replace(profiled, programs=(read_program('f = torch.compile(g, mode="max-autotune")', "a.py"),))
    assert "max-autotune" not in extern_dominated._advice(tuned, graph, call)
    assert extern_dominated._trial(tuned, graph, call) is None
    on_cpu = replace(graph, gpu=False)
    assert "bfloat16" not in extern_dominated._advice(profiled, on_cpu, convolution)
    assert extern_dominated._trial(profiled, on_cpu, convolution) is None
    assert "Triton" in fallback_kernels._advice(["mine.op"], graph)
    assert "Triton" not in fallback_kernels._advice(["mine.op"], on_cpu)
    monkeypatch.setattr(fallback_kernels, "has_complex", lambda nodes: True)
    assert fallback_kernels._advice(["aten.mul.Tensor"], graph) == AS_REAL
    assert fallback_kernels._advice(["aten._fft_r2c.default"], graph) != AS_REAL


def test_channels_last_is_advised_to_those_who_have_it_not(profiled: Case) -> None:
    (graph,) = profiled.graphs
    code = graph.artifacts.code
    assert code is not None
    image = next(each for each in code.example_inputs if each.size is not None and len(each.size) == 4)

    def taking(stride: tuple[int, ...]) -> GraphCase:
        example = replace(image, size=(8, 3, 224, 224), stride=stride)
        artifacts = replace(graph.artifacts, code=replace(code, example_inputs=(example,)))
        return replace(graph, artifacts=artifacts)

    first, last = taking((150528, 50176, 224, 1)), taking((150528, 1, 672, 3))
    assert "torch.channels_last" in layout_copies._advice(first, "convolution")
    assert "comes in already" in layout_copies._advice(last, "convolution")


def test_values_are_read_as_often_as_their_graphs_run(profiled: Case) -> None:
    (graph,) = profiled.graphs
    fx = graph.artifacts.fx_after
    assert fx is not None
    reading = replace(fx.nodes[-2], target="torch.ops.aten._local_scalar_dense.default")
    artifacts = replace(graph.artifacts, fx_after=replace(fx, nodes=(*fx.nodes, reading)))
    often, never = (replace(graph, artifacts=artifacts, runs=runs) for runs in (3.0, 0.0))
    (told,) = host_sync.find(replace(profiled, graphs=(often, never)))
    assert "3 times in a call" in told.title
    assert not list(host_sync.find(replace(profiled, graphs=(never, graph))))


def test_operators_without_code_are_blamed_for_blocks_that_lost(profiled: Case) -> None:
    """The ConvMixer's depthwise convolutions, and then its others, taken for operators without code."""
    assert profiled.sides is not None
    (graph,) = profiled.graphs
    blocks = profiled.sides.joined.blocks
    lost, same = blocks[0].launches, blocks[1].launches

    def told(places: tuple[tuple[str, int], ...], alone: bool = False) -> list[Finding]:
        launches = tuple(
            replace(
                launch,
                role="fallback" if (graph.name, launch.call.index) in places else "library",
                ms=1e-6 if alone and (graph.name, launch.call.index) != lost[0] else launch.ms,
            )
            for launch in graph.launches
        )
        case = replace(profiled, graphs=(replace(graph, launches=launches),))
        if alone:
            case = replace(case, sides=None, times=replace(case.times, outcome="slower"))
        return list(fallback_kernels.find(case))

    (longest,) = told(lost, alone=True)
    assert len(longest.evidence) == 2, "what takes next to nothing is no evidence"
    (finding,) = told(lost)
    assert finding.title.startswith("4.14 ms more than in eager in extern_kernels.convolution")
    assert [(claim.block, claim.over) for claim in finding.claims] == [(0, "eager")]
    # As slow in eager, and too short to be worth a line.
    assert not told(same)


@pytest.mark.parametrize(
    ("function", "code", "theirs"),
    [
        ("<module>", "loss = step(x)", True),
        ("train", "loss = fast(x)", True),
        ("training_step", "self.log('loss', loss)", False),
    ],
)
def test_a_break_in_a_library_is_the_users_where_a_compiled_line_leads_to_it(
    function: str, code: str, theirs: bool
) -> None:
    inside = SourceLocation("/x/site-packages/lightning/core/module.py", 531, "log", "x.item()")
    user = SourceLocation("/home/user/train.py", 21, function, code)
    case = replace(bare(), programs=(read_program("fast = torch.compile(model)", "train.py"),))
    broken = GraphBreak(inside, "Tensor.item()", (user, inside), "0/0", False, 1, "")
    assert graph_breaks._theirs(case, broken) is theirs
    assert not graph_breaks._theirs(case, replace(broken, location=user, frames=(user,)))


def test_advice_is_for_the_break_that_is_named() -> None:
    reasons = ["Attempted to use `torch.nn.Parameter()` constructor", "Skip inlining disable()d function"]
    assert graph_breaks._advice(reasons, ["Construct it outside."]) == "torch's hint: Construct it outside."
    assert "excluded from compiling" in graph_breaks._advice(reasons[1:], ["Construct it outside."])


def test_of_a_break_at_a_builtin_its_name_is_advised_on() -> None:
    reason = (
        "Failed to trace builtin operator\n"
        "  Explanation: Dynamo does not know how to trace builtin operator `{}` with argument types ['str']\n"
        "  Hint: If you call a logging function (e.g. `print`), add it to a list."
    )
    advised = {}
    for name in ("print", "iter"):
        place = SourceLocation("/home/user/a.py", 3, "f", "x")
        broken = GraphBreak(place, reason.format(name), (place,), "0/0", False, 1, "")
        (finding,) = graph_breaks.find(replace(bare(), facts=replace(bare().facts, graph_breaks=(broken,))))
        advised[name] = finding.advice
    assert advised["print"].startswith("take printing and logging out")
    assert advised["iter"].startswith("torch's hint")


def test_operators_between_graphs_are_no_cost_of_breaking_them(profiled: Case) -> None:
    assert profiled.sides is not None and profiled.sides.ledger is not None
    joined, ledger = profiled.sides.joined, profiled.sides.ledger
    # A CPU's operators are in it, and nobody knows how long they are.
    (graph,) = profiled.graphs
    on_cpu = replace(profiled, sides=None, graphs=(replace(graph, gpu=False),))
    assert graph_breaks._of_host(on_cpu, 1.5, 0.06) == (0.06, 1.5)
    assert graph_breaks._of_host(replace(profiled, sides=None), 1.5, 0.06) == (1.5, 1.5)
    between = replace(joined.blocks[0], place="outside", compiled_ms=1.0)
    more = Difference(HOST, 0.1, 0.4)
    sides = replace(
        profiled.sides,
        joined=replace(joined, blocks=(between,)),
        ledger=replace(ledger, differences=(more,)),
    )
    assert graph_breaks._of_host(replace(profiled, sides=sides), 1.5, 0.06) == pytest.approx((0.3, 0.5))


@pytest.mark.parametrize(
    ("host", "operators", "inside", "title", "advice"),
    [
        (
            0.85,
            ("LogaddexpBackward0",),
            True,
            "90 % of a call runs outside of what is compiled: 400",
            "compile the",
        ),
        (
            0.0,
            ("ConvolutionBackwardBackward0",),
            False,
            "of the GPU's work from one call to the next",
            "take the",
        ),
        (
            0.0,
            ("AdamW.step",),
            False,
            "most of it in AdamW.step 90.0 ms",
            "give the optimizer",
        ),
        (
            0.0,
            ("aten::matmul",),
            False,
            "most of it in aten::matmul 90.0 ms",
            "most of that is library calls",
        ),
        (0.0, ("aten::add",), False, "most of it in aten::add 90.0 ms", "compile the functions"),
        (0.0, ("aten::add",), True, "", ""),
    ],
)
def test_most_of_the_work_outside_of_what_is_compiled(
    profiled: Case, host: float, operators: tuple[str, ...], inside: bool, title: str, advice: str
) -> None:
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    joined, compiled = profiled.sides.joined, profiled.sides.joined.compiled
    wall = compiled.wall_ms
    ms = 0.05 * wall if inside else 90.0
    kernel = KernelTime("elementwise_kernel", 400.0, ms)
    block = replace(
        joined.blocks[0], place="outside", operators=operators, inside=inside, lines=(), launches=(),
        compiled_ms=ms, compiled_kernels=(kernel,),
    )  # fmt: skip
    totals = replace(compiled, outside_ms=host * wall)
    first = joined.blocks[0] if inside else replace(joined.blocks[0], compiled_ms=60.0)
    joined = replace(joined, blocks=(first, *joined.blocks[1:], block), compiled=totals)
    program = Program("p.py", ("def logaddexp(a):", "a = torch.logaddexp(a, b)"))
    case = replace(profiled, sides=replace(profiled.sides, joined=joined), programs=(program,))
    told = list(outside_compiled.find(case))
    assert len(told) == bool(title)
    assert all(title in finding.title and finding.advice.startswith(advice) for finding in told)
    # An optimizer's step that is most of it stands before what calls could save.
    step = operators == ("AdamW.step",)
    usual = "low" if operators == ("aten::matmul",) else "medium"
    severity = "high" if step else usual
    assert all(finding.severity == severity for finding in told)
    fused = replace(case, programs=(Program("p.py", ("opt = AdamW(p, fused=True)",)),))
    assert all(finding.severity == usual for finding in outside_compiled.find(fused))
    stages = [outside_compiled.RULE.stage_of(finding) for finding in told]
    assert stages == [Stage.VOID if step else Stage.PROGRAM] * len(told)
    if host:
        assert [(item.path, item.line) for item in told[0].evidence] == [("p.py", 2)]
        # A product has no name in it: then where the program was seen, often enough.
        for looks in (40, 12):
            lines = ((SourceLocation("p.py", 1), 1), (SourceLocation("p.py", 2), looks - 1))
            span = SteadySpan(200, 1000.0, 100.0, looks, lines)
            unnamed = replace(case, programs=(Program("p.py", ("y = x", "a = b * c")),))
            unnamed = replace(unnamed, times=replace(case.times, span=span))
            on_cpu = replace(unnamed, graphs=tuple(replace(graph, gpu=False) for graph in unnamed.graphs))
            for there in (unnamed, on_cpu):
                seen = [(item.path, item.line) for item in next(iter(outside_compiled.find(there))).evidence]
                # Beside a GPU it was seen where it waits.
                assert (seen == [("p.py", 2)]) == (looks == 40 and there is on_cpu)
    # Nor is what ranks exchange, and what is done for it.
    exchange = replace(block, operators=("FSDP::all_gather",))
    # A backward that was compiled when it ran first, in a profiled call.
    compiling = replace(
        block, compiled_kernels=(kernel, KernelTime("Scheduler.codegen (dynamo_timed)", 0.4, 369.0))
    )
    for other in (exchange, compiling):
        others = replace(totals, outside_ms=0.0)
        changed = replace(joined, blocks=(*joined.blocks[:-1], other), compiled=others)
        assert not list(outside_compiled.find(replace(case, sides=replace(profiled.sides, joined=changed))))
    # A program that times its compiled calls alone makes its data outside of them.
    timed = (
        "import time, torch\nf = torch.compile(g)\nfor _ in range(9):\n    x = torch.rand(9)\n"
        "    t0 = time.perf_counter()\n    y = f(x)\n    spent += time.perf_counter() - t0\n"
    )
    for text, alone in ((timed, True), (timed.replace("y = f(x)", "y = h(f(x))"), False)):
        own = replace(case, programs=(read_program(text, "p.py"),))
        for finding in outside_compiled.find(own):
            quiet = alone and not inside
            assert (finding.severity == "low") == (quiet or severity == "low")
            assert finding.title.endswith("; the program's own clock has none of it") == quiet
    # What runs inside of a call that breaks is the break's.
    broken = replace(case.facts, graph_breaks=(GraphBreak(None, "print", (), None, False, 1, ""),))
    assert bool(list(outside_compiled.find(replace(case, facts=broken)))) == (bool(title) and not inside)
    # So is what runs in eager past the limit of recompiles.
    (graph,) = case.graphs
    limit = (Event("cache_limit", "recompile limit", "forward", None),)
    limited = replace(case, events=limit, graphs=(replace(graph, runs=0.7),))
    assert limited.some_in_eager == pytest.approx(0.3)
    assert bool(list(outside_compiled.find(limited))) == (bool(title) and not inside)
    assert (
        replace(limited, graphs=case.graphs).some_in_eager == 0.0 == replace(limited, events=()).some_in_eager
    )
    if title and not inside:
        # Nearly all of the work: nothing that is done to compiled code matters beside it.
        nearly = replace(joined, blocks=(replace(first, compiled_ms=6.0), *joined.blocks[1:]))
        (finding,) = outside_compiled.find(replace(case, sides=replace(profiled.sides, joined=nearly)))
        assert finding.severity == "high" and outside_compiled.RULE.stage_of(finding) == Stage.VOID


def test_an_optimizers_step_that_could_be_fused_is_told_where_it_is_a_part_worth_a_word(
    profiled: Case,
) -> None:
    """A Q network whose Adam is a seventh of the loop; not a smaller one, what is fused, or has no switch."""
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    joined = profiled.sides.joined
    compiled = replace(joined.compiled, outside_ms=0.0) if joined.compiled is not None else None

    def told(ms: float, name: str = "Adam.step", line: str = "opt = Adam(net.parameters())") -> list[Finding]:
        first = replace(joined.blocks[0], place="graph", inside=True, compiled_ms=8.0)
        kernel = KernelTime("elementwise_kernel", 40.0, ms)
        step = replace(
            first, place="outside", operators=(name,), inside=False, lines=(), launches=(),
            compiled_ms=ms, compiled_kernels=(kernel,),
        )  # fmt: skip
        own = replace(joined, blocks=(first, step), compiled=compiled)
        assert profiled.sides is not None
        sides = replace(profiled.sides, joined=own)
        return list(
            outside_compiled.find(replace(profiled, sides=sides, programs=(Program("p.py", (line,)),)))
        )

    (finding,) = told(2.0)
    assert finding.title.startswith(
        "20 % of the work from one call to the next is Adam.step: 2.00 ms of 10.0 ms"
    )
    assert finding.severity == "low" and finding.advice.startswith("give the optimizer fused=True")
    assert not told(0.5) and not told(2.0, "LBFGS.step") and not told(2.0, "aten::add")
    assert not told(2.0, line="opt = Adam(net.parameters(), fused=True)")


def test_what_passes_between_calls_is_told_where_no_profile_has_it(profiled: Case) -> None:
    """Noise drawn once for 32 calls, of which five were profiled: 71 % of the loop."""

    def told(calls: int, span: float, inside: float) -> list[Finding]:
        times = replace(profiled.times, span=SteadySpan(calls, span, inside))
        return list(outside_compiled.find(replace(profiled, times=times)))

    (finding,) = told(1919, 938.0, 270.0)
    assert finding.title.startswith("71 % of the time passes between steady calls: 668 ms of 938 ms")
    assert "1,919 calls" in finding.title and finding.cost_ms is None and finding.severity == "medium"
    for other in ((1919, 938.0, 470.0), (19, 938.0, 270.0), (1919, 9.0, 2.0), (50, 0.0, 0.0)):
        assert not told(*other)


def test_what_a_program_does_once_for_many_calls_is_no_work_of_each(profiled: Case) -> None:
    """A meeting that is made for each fifteen calls, between two of the profiled five: 81 % of their work."""
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    joined = profiled.sides.joined
    block = replace(
        joined.blocks[0], place="outside", operators=("aten::sin",), inside=False, lines=(), launches=(),
        compiled_ms=400.0, compiled_kernels=(KernelTime("sin", 9.0, 400.0),),
    )  # fmt: skip
    first = replace(joined.blocks[0], compiled_ms=95.0)
    joined = replace(
        joined, blocks=(first, block), compiled=replace(profiled.sides.joined.compiled, wall_ms=100.0)
    )
    lines = ((SourceLocation("p.py", 2), 20), (SourceLocation("p.py", 9), 20))
    program = Program("p.py", ("vib = torch.sin(t)", "wav = torch.sin(f * t).sum(0)"))
    on_cpu = tuple(replace(graph, gpu=False) for graph in profiled.graphs)
    case = replace(
        profiled, sides=replace(profiled.sides, joined=joined), programs=(program,), graphs=on_cpu,
    )  # fmt: skip

    def told(outside: float, case: Case) -> list[Finding]:
        span = SteadySpan(65, 1850.0, 1850.0 * (1 - outside), 40, lines)
        return list(outside_compiled.find(replace(case, times=replace(case.times, span=span))))

    assert not told(0.23, case)
    (finding,) = told(0.75, case)
    # 300 ms pass there for each call, and of two lines with a sine one was seen.
    assert (
        finding.title.startswith("76 % of")
        and "300 ms of 395 ms, most of it in aten::sin 300 ms" in finding.title
    )
    assert [item.line for item in finding.evidence] == [2]
    # On a GPU what was launched there is waited for in the next call.
    (finding,) = told(0.23, replace(case, graphs=profiled.graphs))
    assert "400 ms of 495 ms" in finding.title


def test_lines_at_which_the_program_was_seen_between_calls_are_told(profiled: Case) -> None:
    program = read_program("import torch\nx = batch(rows)\ny = x.to(device)\nz = f(y)\n", "p.py")

    def told(looks: int, *lines: tuple[int, int]) -> Finding:
        seen = tuple((SourceLocation("p.py", line), found) for line, found in lines)
        span = SteadySpan(232, 2560.0, 560.0, looks, seen)
        case = replace(profiled, times=replace(profiled.times, span=span), programs=(program,))
        (finding,) = outside_compiled.find(case)
        return finding

    finding = told(200, (2, 150), (3, 40), (4, 2))
    assert [(line.line, line.text) for line in finding.evidence] == [
        (2, "75 % of it: x = batch(rows)"), (3, "20 % of it: y = x.to(device)"),
    ]  # fmt: skip
    assert "DataLoader" in finding.advice
    few = told(5, (2, 4))
    assert not any("of it" in line.text for line in few.evidence) and "torch.profiler" in few.advice


@pytest.mark.parametrize(
    ("kernel", "saves"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x128x8", True),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x128x8", False),
        ("cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4", False),
        ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16>", False),
    ],
)
def test_tf32_is_for_the_matmuls_whose_own_kernels_have_none(
    profiled: Case, monkeypatch: pytest.MonkeyPatch, kernel: str, saves: bool
) -> None:
    (graph,) = profiled.graphs
    assert profiled.sides is not None
    number, launch = next(
        (number, launch)
        for number, block in enumerate(profiled.sides.joined.blocks)
        for launch in graph.launches
        if launch.name.endswith("addmm") and (graph.name, launch.call.index) in block.launches
    )
    monkeypatch.setattr(tf32_disabled, "given_dtype", lambda launch: "float32")
    monkeypatch.setattr(tf32_disabled, "_disabled", lambda *given: True)
    blocks = list(profiled.sides.joined.blocks)
    blocks[number] = replace(blocks[number], compiled_kernels=(KernelTime(kernel, 1.0, 4.0),))
    sides = replace(profiled.sides, joined=replace(profiled.sides.joined, blocks=tuple(blocks)))
    long = replace(launch, ms=4.0, flops=10**11, bytes=1 << 20)
    case = replace(profiled, sides=sides, graphs=(replace(graph, launches=(long,)),))
    told = list(tf32_disabled.find(case))
    assert [finding.cost_ms for finding in told] == ([pytest.approx(2.4)] if saves else [])
    # What only moves bytes can't be faster by arithmetic.
    moving = replace(long, bytes=20 * 10**9)
    assert not list(tf32_disabled.find(replace(case, graphs=(replace(graph, launches=(moving,)),))))
    few = replace(long, flops=10**8)
    few_told = tf32_disabled.find(replace(case, graphs=(replace(graph, launches=(few,)),)))
    assert all((finding.cost_ms or 0) < 0.01 for finding in few_told)
    # Nor does one that takes no longer than any kernel does.
    tiny = replace(long, ms=GPU_KERNEL_MS)
    assert not list(tf32_disabled.find(replace(case, graphs=(replace(graph, launches=(tiny,)),))))


def test_a_call_that_waits_by_itself_is_not_timed_too_early(profiled: Case) -> None:
    timed = "fast(x)\nt = time.time()\nfast(x)\nprint(time.time() - t)"
    text = f"import time, torch\nfast = torch.compile(model)\n{timed}"
    case = replace(profiled, programs=(read_program(text, "bench.py"),))
    told = [finding.title for finding in benchmark_artifact.find(case)]
    assert told == ["the timing at line 4 ends before the GPU does: it measures launching alone"]
    assert profiled.sides is not None
    joined = replace(profiled.sides.joined, waiting=("nonzero",))
    assert not list(benchmark_artifact.find(replace(case, sides=replace(profiled.sides, joined=joined))))


def test_data_made_inside_the_clock_is_quiet_where_a_profile_shows_it_costs_little(profiled: Case) -> None:
    """Frames of a video that each call is handed are its work, too."""
    text = (
        "import time, torch\nfast = torch.compile(model)\nfast(x)\nfor _ in range(9):\n"
        "    t = time.time()\n    fast(torch.from_numpy(frame).to('cuda')).cpu()\n"
        "    times.append(time.time() - t)\n"
    )
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    sides, side, times = profiled.sides, profiled.sides.joined.compiled, profiled.times

    def told(copying: float, outside: float, seen: Times = times, *beside: Block) -> list[str]:
        totals = replace(side, transfers_ms=copying * side.wall_ms, outside_ms=outside * side.wall_ms)
        inside = tuple(block for block in sides.joined.blocks if block.launches)
        joined = replace(sides.joined, compiled=totals, blocks=(*inside, *beside))
        case = replace(profiled, sides=replace(sides, joined=joined), times=seen)
        found = benchmark_artifact.find(replace(case, programs=(read_program(text, "video.py"),)))
        return [finding.severity for finding in found]

    assert told(0.01, 0.02) == ["low"]
    assert told(0.2, 0.0) == told(0.0, 0.2) == ["medium"]
    # Of a program that was hardly ever seen at that line, though much else lies between its calls.
    for outside, looks, there, quiet in ((0.4, 40, 2, True), (0.4, 40, 12, False), (0.4, 12, 0, False)):
        lines = ((SourceLocation("video.py", 6), there), (SourceLocation("video.py", 9), looks - there))
        seen = replace(times, span=SteadySpan(200, 1000.0, 1000.0 * (1 - outside), looks, lines))
        assert told(0.0, 0.2, seen) == ["low" if quiet else "medium"]
    # A GPU may be at it later.
    busy = replace(sides.joined.blocks[0], launches=(), compiled_ms=side.work_ms)
    assert told(0.0, 0.2, replace(times, span=SteadySpan(200, 1000.0, 600.0, 40)), busy) == ["medium"]


def test_a_call_to_warm_up_is_not_put_into_a_loop() -> None:
    text = """
import time, torch
fast = torch.compile(model)
def main():
{loop}    start = time.time()
{more}    loss = fast(x)
{more}    print(time.time() - start)
main()
"""
    for loop, more in (("", ""), ("    for step in range(9):\n    ", "    ")):
        program = read_program(text.format(loop=loop, more=more), "a.py")
        (region,) = program.regions
        change = benchmark_artifact._warm_up(program, region)
        assert bool(change) == (not loop), change


def test_settings_that_are_on_are_not_advised(profiled: Case) -> None:
    (graph,) = profiled.graphs
    assert "coordinate_descent" in slow_kernel._advice(profiled, graph)
    tuned = replace(graph, config={**graph.config, f"torch._inductor.config.{DESCENT}": "True"})
    assert "coordinate_descent" not in slow_kernel._advice(profiled, tuned)
    assert slow_kernel._trial(tuned) is None
    assert "max-autotune" not in slow_kernel._advice(profiled, replace(graph, gpu=False))


def test_what_is_looked_up_in_a_small_table_is_advised_to_be_computed(profiled: Case) -> None:
    """Sorted indices win nothing where all of it lies in the nearest cache."""
    text = (
        "class GraphModule(torch.nn.Module):\n"
        '    def forward(self, arg0_1: "i32[256]", arg1_1: "i64[4, 8]", arg2_1: "f32[90000]"):\n'
        '        index: "i32[4, 8]" = torch.ops.aten.index.Tensor(arg0_1, [arg1_1])\n'
        '        take: "f32[4, 8]" = torch.ops.aten.take.default(arg2_1, arg1_1)\n'
        "        return (index, take)\n"
    )
    (graph,) = profiled.graphs
    fx = parse_fx_graph(text, "fx")
    nodes = {node.name: node for node in fx.nodes}
    own = replace(graph, gpu=False, artifacts=replace(graph.artifacts, fx_after=fx))
    table = slow_kernel._gathering(own, [nodes["index"]])
    assert table.startswith("compute what the table (1.02 KB) holds")
    for other, fetching in ((own, ["index", "take"]), (replace(own, gpu=True), ["index"]), (own, [])):
        assert slow_kernel._gathering(other, [nodes[name] for name in fetching]).startswith(
            "sort the indices"
        )


def test_what_fetches_by_index_no_slower_than_such_loops_is_not_slow(
    profiled: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bones of a crowd, 40 KB, for each vertex: 3.15 ms, of which its bytes would take a quarter."""
    monkeypatch.setattr(slow_kernel, "gathers", lambda _: True)
    (graph,) = profiled.graphs
    launch = next(item for item in graph.launches if item.role == "generated" and item.bytes)
    launch = replace(launch, ms=50.0, measured=True)
    machine = machine_of(profiled)
    for gpu, expected, slow in ((False, 60.0, False), (False, 40.0, True), (True, 60.0, True)):
        over = slow_kernel._over_least(
            machine, replace(graph, gpu=gpu, runs=1.0), replace(launch, expected_ms=expected)
        )
        assert (over is not None) == slow


def test_a_stencil_of_a_padded_tensor_that_is_never_made(profiled: Case) -> None:
    """A blur of 25 places in two tensors that replication pads took 1,031 us so on an H200, and 114 us of
    tensors that were padded before (benchmarks/results/natural-blind-h200.txt)."""
    (graph,) = profiled.graphs
    launch = next(item for item in graph.launches if item.leaves and item.leaves[0].body is not None)
    (leaf, body) = (launch.leaves[0], launch.leaves[0].body)
    assert body is not None

    def reading(*places: str, of: str = "replication_pad2d") -> int:
        own = replace(body, indexing=tuple((f"index{n}", text) for n, text in enumerate(places)))
        call = replace(launch.call, kernel=f"triton_poi_fused_add_{of}_0")
        return slow_kernel._bounded(replace(launch, call=call, leaves=(replace(leaf, body=own),)))

    rows = [f"64*Min(63, Max(0, p0 - {step})) + p1" for step in range(6)]
    assert reading(*rows) == 6 and "finds 6 places in padded tensors" in slow_kernel._why(False, 6, None)
    # Taps of a resampling, few places, and steps in plain sums.
    assert reading(*rows, of="upsample_bicubic2d") == 0
    assert reading(*rows[:4]) == reading(*(f"64*p0 + p1 + {step}" for step in range(9))) == 0


def test_what_ranks_exchange_is_no_kernel_of_few_programs(profiled: Case) -> None:
    exchange = KernelTime(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 8.0, 2.5, False, 24
    )
    assert not list(too_few_programs.find(with_kernels(profiled, exchange)))
    assert list(too_few_programs.find(with_kernels(profiled, replace(exchange, name="gemvx::kernel"))))


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        ("f = torch.compile(g)\nfor _ in range(9):\n    y = f(x)", 'use mode="reduce-overhead"'),
        (
            "f = torch.compile(g)\nfor _ in range(9):\n    x = f(x, walls)",
            "with clones of what line 3 hands to",
        ),
        ("f = torch.compile(g)\nfully_shard(f)", "six times slower"),
    ],
)
def test_cuda_graphs_may_save_some_where_the_host_takes_less_than_most(
    profiled: Case, program: str, advice: str
) -> None:
    """Radar's: 0.154 of 0.822 ms were won where the host took less than half."""
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    compiled = replace(profiled.sides.joined.compiled, host=((WRAPPER, 3.0), (PYTHON, 0.5)), outside_ms=0.5)
    times = replace(profiled.times, compiled_ms=profiled.kernels_ms + 3.5, eager_ms=30.0, outcome="faster")
    sides = replace(
        profiled.sides, joined=replace(profiled.sides.joined, eager=None, compiled=compiled), ledger=None
    )
    case = replace(profiled, sides=sides, times=times, programs=(read_program(program, "a.py"),))
    found = list(host_bound._profiled(case, None, compiled))
    assert host_bound._what_helps(case, 0.0, 3.0, 0.0)[0].find(advice) >= 0
    assert len(found) == (advice.startswith("use"))
    for told in found:
        assert told.severity == "low" and told.claims[0].ms[0] == 0.0 < told.claims[0].ms[1] < 3.0
    lost = replace(case, times=replace(times, eager_ms=4.0, outcome="slower"))
    assert not list(host_bound._profiled(lost, None, compiled))


@pytest.mark.parametrize(("runs", "gpu"), [(36.0, False), (2.0, False), (36.0, True)])
def test_many_small_graphs_of_a_call_are_entered_one_by_one(profiled: Case, runs: float, gpu: bool) -> None:
    """As a cell's that is compiled and called in a loop: guards and dispatch of each, on a CPU."""
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    wall = profiled.kernels_ms + 20.0
    host = ((GUARDS, 4.0), (DISPATCH, 5.0), (WRAPPER, 3.0))
    compiled = replace(profiled.sides.joined.compiled, host=host, wall_ms=2 * wall)
    times = replace(profiled.times, compiled_ms=wall, eager_ms=2 * wall, outcome="faster")
    (graph,) = profiled.graphs
    case = replace(profiled, times=times, graphs=(replace(graph, runs=runs, gpu=gpu),), facts=profiled.facts)
    entering = host_bound._entering_ms(case, compiled)
    assert entering == (pytest.approx(4.5 * 34 / 36) if runs > 2 and not case.gpu else 0.0)
    advice, _, saved = host_bound._what_helps(case, 0.0, 0.0, entering)
    if entering >= case.noise_ms:
        assert saved == entering and "a call enters 36 compiled graphs" in advice


def test_cuda_graphs_save_no_more_than_launching_took(profiled: Case) -> None:
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    times = replace(profiled.times, compiled_ms=profiled.kernels_ms + 16.0, steady_calls=9)
    compiled = replace(profiled.sides.joined.compiled, host=((WRAPPER, 3.0), (PYTHON, 12.0)), outside_ms=12.0)
    sides = replace(profiled.sides, joined=replace(profiled.sides.joined, eager=None, compiled=compiled))
    advice, trial, saved = host_bound._advice(replace(profiled, sides=sides, times=times), 15.0)
    assert saved == 3.0 - CUDA_GRAPH_MS and "reduce-overhead" in advice and trial is not None
    # A graph for each size is no gain where few sizes come again.
    times = replace(times, new_sizes=NewSizes(8, 9, 20.0, 20.0, 0.0))
    advice, trial, _ = host_bound._advice(replace(profiled, sides=sides, times=times), 15.0)
    assert "would record anew for each new size" in advice and (trial is None or trial.mode is None)


def test_cuda_graphs_take_away_what_the_operators_do_that_a_wrapper_calls(profiled: Case) -> None:
    """As 150 matmuls of an unrolled planner: the host 7.02 of 8.22 ms, of which wrappers themselves 1.5."""
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    host = ((WRAPPER, 2.0), (OPERATORS, 7.0), (PYTHON, 1.0))
    compiled = replace(profiled.sides.joined.compiled, host=host, outside_ms=1.0)
    assert host_bound._launching_ms(compiled, 20.0) == (2.0, 9.0)
    # A profiler doubled it.
    assert host_bound._launching_ms(compiled, 5.0) == (pytest.approx(1.0), pytest.approx(4.5))
    # What the program calls outside of compiled code is launched as ever.
    outside = replace(compiled, outside_ms=8.0)
    assert host_bound._launching_ms(outside, 20.0) == (2.0, 2.0)
    times = replace(profiled.times, compiled_ms=profiled.kernels_ms + 10.0, eager_ms=30.0, outcome="faster")
    sides = replace(
        profiled.sides, joined=replace(profiled.sides.joined, eager=None, compiled=compiled), ledger=None
    )
    (found,) = host_bound._profiled(replace(profiled, sides=sides, times=times), None, compiled)
    (claim,) = found.claims
    assert claim.ms == (pytest.approx(2.0 - CUDA_GRAPH_MS), pytest.approx(9.0 - CUDA_GRAPH_MS))


def test_inputs_that_are_copied_for_a_cuda_graph_are_named(convmixer: Path) -> None:
    """The ConvMixer's batch takes 19 us of copying, which two runs could not tell; one of 40 times that."""
    run = Run.open(convmixer / "train-reduce-overhead.run")
    sides = (convmixer / f"train-{side}.trace.json" for side in ("reduce-overhead", "eager"))
    found = gather(run, (), None, load_profiles(run, *sides))
    assert found.sides is not None and not list(inputs_copied.find(found))
    joined = found.sides.joined
    (at,) = (n for n, b in enumerate(joined.blocks) if b.graph == FORWARD and b.place == "unplaced")
    large = replace(joined.blocks[at], compiled_ms=0.2 * found.wall_ms)
    blocks = (*joined.blocks[:at], large, *joined.blocks[at + 1 :])
    told = replace(found, sides=replace(found.sides, joined=replace(joined, blocks=blocks)))
    (finding,) = inputs_copied.find(told)
    assert finding.share == pytest.approx(0.2, abs=0.01) and "most of it for x (" in finding.title
    assert [claim.block for claim in finding.claims][:1] == [at]
    # What a slower call lost there stands with what says where it lost.
    assert inputs_copied.RULE.stage is Stage.LOST
    # The same copies in eager, or of a graph that is none of CUDA's, are nothing of the kind.
    in_eager = (*joined.blocks[:at], replace(large, eager_ms=0.2), *joined.blocks[at + 1 :])
    neighbour = replace(told, sides=replace(found.sides, joined=replace(joined, blocks=in_eager)))
    assert not list(inputs_copied.find(neighbour))


def test_copies_from_memory_that_is_not_pinned_are_told_with_the_line_of_the_loop(profiled: Case) -> None:
    assert profiled.sides is not None and profiled.sides.joined.compiled is not None
    text = (
        "model = Net().to(DEVICE)\nfor step in range(9):\n"
        "    x = data[step].to(DEVICE, non_blocking=True)\n    y = model(x).to(torch.float16)\n"
    )
    joined = profiled.sides.joined

    def told(ms: float) -> list[Finding]:
        compiled = replace(profiled.sides.joined.compiled, pageable_ms=ms)  # type: ignore[union-attr, type-var]
        sides = replace(profiled.sides, joined=replace(joined, compiled=compiled))  # type: ignore[type-var]
        return list(
            device_transfer.find(replace(profiled, sides=sides, programs=(read_program(text, "n.py"),)))
        )

    (finding,) = told(0.4 * profiled.wall_ms)
    assert [(item.path, item.line) for item in finding.evidence] == [("n.py", 3)]
    assert finding.severity == "low" and finding.claims[0].ms == (0.0, pytest.approx(0.4 * profiled.wall_ms))
    assert told(0.0) == []


def test_costs_are_the_machines_where_it_was_measured_and_the_tables_else() -> None:
    assert host_costs(None, gpu=True) == replace(HostCosts(), launch_ms=GPU_LAUNCH_MS, sync_ms=SYNC_MS)
    own = host_costs(Costs(graph_s=50e-6, copy_bytes_per_s=25e9), gpu=True)
    assert (own.graph_ms, own.how("graph_ms")) == (pytest.approx(0.05), "counted")
    assert (own.sync_ms, own.how("sync_ms"), own.bytes_per_s) == (SYNC_MS, "estimated", 25e9)
    assert own.host_ms(3) == pytest.approx(0.05 + 3 * GPU_LAUNCH_MS)


def test_a_case_has_the_costs_that_its_machine_was_measured_to_have(corpus: Path) -> None:
    run = Run.open(corpus / "cpu-torch2.13" / "softmax")
    peaks = Peaks("cpu", "measured", 1e11, {"float32": 1e11}, threads=2, costs=Costs(graph_s=90e-6))
    found = gather(run, (ReplayResult({"peaks": {"cpu": peaks.to_json()}}, ()),))
    assert found.costs.graph_ms == pytest.approx(0.09) and found.costs.how("graph_ms") == "counted"
    more = found.host_ms - gather(run).host_ms
    assert more == pytest.approx(sum(graph.runs for graph in found.graphs) * (0.09 - HOST_MS))


def test_elements_of_a_size_that_a_graph_knows_by_a_symbol_are_counted(profiled: Case) -> None:
    """A pooling's gradient of 32 x 32 x 800, of which 32 elements were told."""
    text = """\
class <lambda>(torch.nn.Module):
    def forward(self, arg0_1: "f32[32*s77, 2400]", arg1_1: "i64[32*s77, 800]", arg2_1: "f32[32*s77, 800]"):
        put: "f32[32*s77, 2400]" = torch.ops.aten.scatter_add.default(arg0_1, 1, arg1_1, arg2_1)
        return (put,)
"""
    (graph,) = profiled.graphs
    launch = replace(graph.launches[0], role="fallback", fx=("put",))
    symbolic = replace(graph, artifacts=replace(graph.artifacts, fx_after=parse_fx_graph(text, "g")))
    assert atomics._largest_input(symbolic, launch) == 0
    assert atomics._largest_input(replace(symbolic, hints={"s77": 32}), launch) == 32 * 32 * 800


def test_a_librarys_call_is_at_its_operators_line() -> None:
    """Votes that a scatter adds, which stood at the line of the square root that weighs them."""
    nodes = [
        fx_node("sqrt", "torch.ops.aten.sqrt.default", "x", 42),
        fx_node("put", "torch.ops.aten.scatter_add.default", "x sqrt sqrt", 53),
    ]
    device = Peak(1e11, 1e11, 1e11, 1e11)
    arguments = ({node.name: node for node in nodes}, None, None, IndexReader({}), device, False, 2, None)
    for kernel, lines in (("aten.scatter_reduce_.two", [53, 42]), ("aten.other.default", [42, 53])):
        made = _launch(call(0, kernel, "fallback"), None, (), nodes, *arguments)
        assert [place.line for place in made.sources] == lines


def test_all_that_is_added_into_cells_is_said(profiled: Case) -> None:
    (graph,) = profiled.graphs
    launch = replace(graph.launches[0], measured=True)
    one = (2.0, 1000, graph, launch)
    assert atomics._title([one]) == "1,000 elements are added into cells one by one (2.00 ms)"
    assert atomics._title([one, one]).endswith("(2.00 ms), and 1,000 in another kernel (2.00 ms)")
    assert atomics._title([one] * 3).endswith("(2.00 ms), and 2,000 in 2 other kernels (4.00 ms)")
    symbolic = (one[0], 0, *one[2:])
    assert atomics._title([symbolic, one]).startswith("elements are added into cells one by one (2.00 ms)")
    assert atomics._title([one, symbolic, one]).endswith("and more in 2 other kernels (4.00 ms)")


NESTED = """\
    #pragma omp parallel num_threads(2)
    {
        #pragma omp for
        for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(64L); x0+=static_cast<int64_t>(1L))
        {
            auto tmp0 = in_ptr0[x0];
        }
    }
    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(1000L); x0+=static_cast<int64_t>(1L))
    {
        for(int64_t x1=static_cast<int64_t>(0L); x1<static_cast<int64_t>(33L); x1+=static_cast<int64_t>(16L))
        {
            {
                #pragma omp parallel
                {
                    #pragma omp for
                    for(int64_t x2=static_cast<int64_t>(0L); x2<static_cast<int64_t>(8L); x2+=1)
                    {
                    }
                }
            }
        }
    }
    {
        #pragma omp parallel
    }
"""


def test_threads_that_are_started_inside_of_loops_are_counted(softmax_in_cpp: Case) -> None:
    assert inner_regions(NESTED) == 3000
    assert inner_regions(NESTED.replace("1000L", "ks0")) == 3
    (graph,) = softmax_in_cpp.graphs
    launch = next(item for item in graph.launches if item.call.kind == "cpp")
    assert launch.kernel is not None
    slow = replace(
        launch, ms=5.0, measured=True, expected_ms=0.5, kernel=replace(launch.kernel, source=NESTED)
    )
    case = replace(softmax_in_cpp, graphs=(replace(graph, runs=1.0, launches=(slow,)),), threads=2)
    (finding,) = parallel_in_loop.find(case)
    assert finding.title == "threads are started and waited for 3,000 times a call, inside of loops"
    assert finding.claims[0].ms == pytest.approx((0.9, 4.5))
    assert finding.trial is not None and finding.trial.label == "cpp.threads=1"
    assert not list(parallel_in_loop.find(replace(case, threads=1)))
    assert not list(slow_kernel.find(case)), "whose threads are why"
    outer = replace(launch.kernel, source=NESTED.partition("    for(int64_t x0=")[0])
    plain = replace(slow, kernel=outer)
    one = replace(case, graphs=(replace(graph, runs=1.0, launches=(plain,)),))
    assert not list(parallel_in_loop.find(one))
    assert list(slow_kernel.find(one))


def test_a_template_that_shares_its_rows_by_aten_runs_on_more_than_one_core(softmax_in_cpp: Case) -> None:
    (graph,) = softmax_in_cpp.graphs
    launch = next(item for item in graph.launches if item.call.kind == "cpp")
    assert launch.kernel is not None
    # Of cpp_flex_attention_template.py, without its body.
    shared = "at::parallel_for(0, batchSize * num_head * qSlice, 1, [&](int64_t begin, int64_t end) {\n"
    loop = "for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(65536L); x0+=1L)\n{\n}\n"
    beside = replace(launch, kernel=replace(launch.kernel, source=NESTED))
    of_any = loop.replace("65536L", "ks0")
    for source, findings in ((loop, 1), (of_any, 1), (shared + loop + "});", 0)):
        own = replace(launch, kernel=replace(launch.kernel, source=source), points=65536)
        case = replace(softmax_in_cpp, graphs=(replace(graph, launches=(own, beside)),))
        assert len(list(cpu_serial.find(case))) == findings, source


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("return F.linear(F.dropout(F.relu(x), 0.1, True), second)", "True"),
        ("x = torch.nn.functional.dropout(x, p=0.5, training=True)", "True"),
        ("x = F.dropout(x, 0.1)", "default"),
        ("x = F.dropout(x, self.p, self.training)", ""),
        ("return self.dropout(x)", ""),
    ],
)
def test_who_says_that_dropout_drops(line: str, asked: str) -> None:
    """A line that asks for it means it, and a function knows of no model.eval()."""
    assert training_mode._asked(line) == asked


@pytest.mark.parametrize(
    ("line", "dropped"),
    [
        ("own = torch.randn(scenarios, self.loadings.shape[0])", False),
        ("noise = torch.empty_like(x).normal_(0, 1)", False),
        ("keep = torch.bernoulli(self.rate)", False),
        ("x = self.drop(x)", True),
    ],
)
def test_numbers_that_a_line_draws_itself_are_no_dropout(
    softmax_in_cpp: Case, line: str, dropped: bool
) -> None:
    """Of a module that is called in train mode."""
    graph = softmax_in_cpp.graphs[0]
    fx = graph.artifacts.fx_after
    assert fx is not None
    place = SourceLocation("model.py", 3, code=line)
    drawn = replace(fx.operations[0], target="torch.ops.prims.inductor_random.default", source=place)
    artifacts = replace(graph.artifacts, fx_after=replace(fx, nodes=(drawn,)))
    assert bool(training_mode._train_nodes(replace(graph, artifacts=artifacts), training=True)) == dropped


def test_an_argument_of_a_library_that_takes_its_break_away() -> None:
    """Logs of small calls of torch_geometric 2.8.1, diffusers 0.42.1 and transformers 5.23.0 with torch 2.13,
    their frames cut to the last six."""
    packed = Path(__file__).parent / "data" / "extra" / "library-breaks-torch2.13.txt.xz"
    text = lzma.decompress(packed.read_bytes()).decode()
    breaks = parse_torch_log(text, "log").graph_breaks
    said = {broken.location.short: cure(broken) for broken in breaks if broken.location is not None}
    assert None not in said.values()
    assert said["graph_norm.py:70"] == (
        "give the norm batch_size=, the number of graphs in a batch (tried with torch_geometric 2.8.1)"
    )
    # What breaks below contextlib is of DDP's forward, too.
    assert {said["distributed.py:1757"], said["contextlib.py:105"]} == {
        "compile the module before it is wrapped: DistributedDataParallel(torch.compile(module)) (tried with "
        "torch 2.13.0)"
    }
    metrics = [text or "" for place, text in said.items() if place.startswith("stat_scores.py")]
    assert len(metrics) == 8 and all("validate_args=False" in text for text in metrics)
    # scatter, which the pool calls in turn, is none of the user's; a scatter of the user's own is.
    told = [cure(broken) or "" for broken in breaks if broken.frames[-1].function == "scatter"]
    assert [text.partition("=")[0] for text in told] == ["give the pool size", "give scatter dim_size"]
    elsewhere = replace(breaks[0], frames=breaks[0].frames[:-2])
    assert cure(elsewhere) is None
    assert sum("set_begin_index(0)" in (text or "") for text in said.values()) == 16
