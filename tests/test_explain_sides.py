"""What explain says where both sides were profiled: verdict, findings, ledger, text and JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from inspector.analysis.two_sides import HOST
from inspector.cli import cli
from inspector.contract.explain import to_json
from inspector.explain import explain
from inspector.explain.block_words import both_times, label, short_kernel
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.profiles import Profiles, compare, load_profiles
from inspector.explain.rules import fallback_kernels
from inspector.model.calls import Outcome
from inspector.model.explain import Explanation
from inspector.model.problem import InspectorError
from inspector.model.profile import Profile
from inspector.model.replay import GraphReplay, KernelReplay, ReplayResult, Timing
from inspector.model.two_sides import Block, KernelTime
from inspector.present.explain import lines
from inspector.readers.run import Run
from inspector.units import duration

SCHEMA = Path(__file__).parents[1] / "docs" / "schema" / "explain.schema.json"


def explained(convmixer: Path, program: str, mode: str, eager: bool = True) -> Explanation:
    run = Run.open(convmixer / f"{program}-{mode}.run")
    compiled = convmixer / f"{program}-{mode}.trace.json"
    profiles = load_profiles(run, compiled, convmixer / f"{program}-eager.trace.json" if eager else None)
    return explain(run, (), None, profiles)


@pytest.mark.parametrize(
    ("program", "mode"),
    [("infer", "default"), ("infer", "reduce-overhead"), ("train", "default"), ("train", "reduce-overhead")],
)
def test_the_other_library_kernel_is_the_first_finding(convmixer: Path, program: str, mode: str) -> None:
    explanation = explained(convmixer, program, mode)
    first = explanation.findings[0]
    assert (first.rule, first.severity) == ("library_kernel_differs", "high")
    assert "models.py:16 blocks.*.dw conv2d x4: 1.09 ms in eager, 5.2" in first.title
    assert "conv_depthwise2d_forward_kernel_generic x4, 270 us each" in first.title
    assert "conv2d_grouped_direct_kernel x4, 1.3" in first.title
    assert first.cost_ms == pytest.approx(4.15, abs=0.02) and first.measured
    assert [(claim.block, claim.over, claim.how) for claim in first.claims] == [(0, "eager", "profiled")]
    assert first.title in explanation.verdict
    said = json.dumps(to_json(explanation))
    assert "as in eager" not in said and "nothing worth changing" not in said


@pytest.mark.parametrize("other", [False, True])
def test_a_replay_that_runs_another_library_kernel_is_said_so(convmixer: Path, other: bool) -> None:
    run = Run.open(convmixer / "infer-default.run")
    profiles = load_profiles(
        run, convmixer / "infer-default.trace.json", convmixer / "infer-eager.trace.json"
    )
    assert profiles is not None
    conv = compare(run, profiles, None, None).joined.blocks[0]
    ran = (conv.eager_kernels if other else conv.compiled_kernels)[0].name
    kernels = tuple(
        KernelReplay("convolution", call, "match", device_kernels=(ran,)) for _, call in conv.launches
    )
    time = Timing(1.0, 0.0, 9)
    replay = GraphReplay(conv.launches[0][0], compiled=time, eager=time, kernels=kernels)
    explanation = explain(run, (ReplayResult({}, (replay,)),), None, profiles)
    said = [text for text in explanation.ledger.doubts if "in the replay" in text]
    assert said == other * [
        "models.py:16 blocks.*.dw conv2d x4 ran conv2d_grouped_direct_kernel in the profiled calls and "
        "conv_depthwise2d_forward_kernel_generic in the replay: what the profile has holds"
    ]


def test_the_host_is_not_blamed_for_what_kernels_lost(convmixer: Path) -> None:
    """A training call that takes 3 ms more than in eager, all of it in convolutions."""
    run = Run.open(convmixer / "train-default.run")
    profiles = load_profiles(
        run, convmixer / "train-default.trace.json", convmixer / "train-eager.trace.json"
    )
    assert profiles is not None
    sides = compare(run, profiles, 9.5, 12.5)
    case = gather(run, (), None, profiles)
    case = replace(case, sides=sides, times=replace(case.times, eager_ms=9.5, compiled_ms=12.5))
    assert "host_bound" not in {finding.rule for finding in explain_case(case).findings}


def test_without_profiles_nothing_is_said_of_eager(convmixer: Path) -> None:
    explanation = explain(Run.open(convmixer / "infer-default.run"))
    assert explanation.sides is None and explanation.faster is None
    assert "eager" not in json.dumps([finding.title for finding in explanation.findings])


def test_one_side_says_where_the_other_comes_from(convmixer: Path) -> None:
    explanation = explained(convmixer, "infer", "default", eager=False)
    assert explanation.sides is not None and explanation.sides.ledger is None
    assert explanation.ledger.missing == (
        "no profile of the eager side: inspector capture --baseline -- COMMAND",
    )
    assert not [finding for finding in explanation.findings if finding.rule == "library_kernel_differs"]


def test_both_sides_the_same_is_said_to_be_so(convmixer: Path) -> None:
    """The compiled profile with eager's conv kernels' time: 4 x 270 us."""
    run = Run.open(convmixer / "infer-default.run")
    profiles = load_profiles(
        run, convmixer / "infer-default.trace.json", convmixer / "infer-eager.trace.json"
    )
    assert profiles is not None and profiles.compiled is not None
    same = Profiles(_as_quick(profiles.compiled), profiles.eager)
    explanation = explain(run, (), None, same)
    assert not [finding for finding in explanation.findings if finding.rule == "library_kernel_differs"]


def _as_quick(profile: Profile) -> Profile:
    return replace(
        profile,
        device=tuple(
            replace(event, duration=270.0) if "conv2d_grouped" in event.name else event
            for event in profile.device
        ),
    )


@pytest.mark.parametrize(("program", "mode"), [("infer", "default"), ("train", "reduce-overhead")])
def test_one_ledger_adds_up_and_is_the_profiles(convmixer: Path, program: str, mode: str) -> None:
    ledger = explained(convmixer, program, mode).ledger
    assert ledger.compiled_ms is not None and ledger.unexplained_ms is not None
    total = sum(part.ms for part in ledger.parts) + ledger.unexplained_ms
    assert total == pytest.approx(ledger.compiled_ms, abs=1e-9)
    parts = {part.part: part.ms for part in ledger.parts}
    assert {part.source for part in ledger.parts} == {"profile"}
    assert parts["library kernels"] > 5 * parts["generated kernels"] > 0.5


def test_json_is_as_the_schema_says(convmixer: Path) -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    for eager in (True, False):
        data = json.loads(
            json.dumps(to_json(explained(convmixer, "train", "default", eager)), allow_nan=False)
        )
        assert not list(validator.iter_errors(data))
    data = to_json(explained(convmixer, "infer", "default"))
    block = data["blocks"][0]
    assert (block["lines"], block["modules"][0], block["times"]) == (["models.py:16"], "blocks.0.dw", 4)
    assert block["eager_ms"] == pytest.approx(1.09, abs=0.01)
    ledger = data["differences"]
    assert ledger["parts"][0]["block"] == 0
    total = sum(part["ms"] for part in ledger["parts"]) + ledger["unexplained_ms"]
    assert total == pytest.approx(ledger["compiled_ms"] - ledger["eager_ms"], abs=1e-9)


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("everything", [True, False])
def test_lines_fit_and_name_both_kernels(convmixer: Path, width: int, everything: bool) -> None:
    shown = [line.text for line in lines(explained(convmixer, "train", "default"), width, everything)]
    assert all(len(line) <= width for line in shown)
    text = "\n".join(shown)
    if everything:
        assert "conv_depthwise2d_forward_kernel" in text and "conv2d_grouped_direct_kernel" in text
    if everything and width >= 100:
        assert "models.py:16 blocks.*.dw conv2d x4, another library kernel" in text
    if not everything:
        assert len(shown) <= 24


def test_the_command_line_takes_profiles_and_refuses_what_is_none(convmixer: Path, tmp_path: Path) -> None:
    run = str(convmixer / "infer-default.run")
    trace, eager = (str(convmixer / f"infer-{side}.trace.json") for side in ("default", "eager"))
    result = CliRunner().invoke(cli, ["explain", run, "--profile", trace, "--eager-profile", eager, "--json"])
    assert result.exit_code == 0
    assert json.loads(result.output)["findings"][0]["rule"] == "library_kernel_differs"
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    result = CliRunner().invoke(cli, ["explain", run, "--profile", str(bad)])
    assert isinstance(result.exception, InspectorError) and result.exception.exit_code == 2


def test_a_runs_own_profiles_are_read(profiled_convmixer: Path) -> None:
    run = profiled_convmixer
    explanation = explain(Run.open(run))
    assert explanation.findings[0].rule == "library_kernel_differs"
    (run / "profile" / "eager.json.gz").write_bytes(b"\x1f\x8bnonsense")
    explanation = explain(Run.open(run))
    assert explanation.sides is not None
    assert any("eager.json.gz" in note for note in explanation.sides.notes)


def test_words(convmixer: Path) -> None:
    explanation = explained(convmixer, "infer", "default")
    assert explanation.sides is not None
    labels = [label(block) for block in explanation.sides.joined.blocks]
    assert labels[0] == "models.py:16 blocks.*.dw conv2d x4"
    assert labels[1:3] == ["models.py:17 blocks.*.pw conv2d x4", "models.py:14 stem conv2d"]
    unplaced = replace(
        explanation.sides.joined.blocks[0], place="unplaced", graph=None, lines=(), modules=(), times=1,
        operators=("void x::split<2, A<float> >(A<float>)",),
    )  # fmt: skip
    assert label(unplaced) == "split of no known graph"
    assert short_kernel("void at::(anonymous namespace)::conv_k<c10::BFloat16, int>(x::y)") == "conv_k"
    assert short_kernel("triton_poi_fused_add_0") == "triton_poi_fused_add_0"
    assert short_kernel("Memcpy DtoH (Device -> Pageable)") == "Memcpy DtoH"
    returned = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, X<float const> >(X<int>)"
    assert short_kernel(returned) == "gemvx::kernel"
    assert short_kernel("void cutlass::Kernel2<cutlass_80_w>(cutlass_80_w::P)") == "Kernel2<cutlass_80_w>"


@pytest.mark.parametrize(
    ("by", "first"),
    [("line", "models.py:16"), ("module", "blocks.*.dw"), ("kernel", "conv2d_grouped_direct_kernel")],
)
def test_both_sides_by_line_module_and_kernel(convmixer: Path, by: str, first: str) -> None:
    traces = [str(convmixer / f"infer-{side}.trace.json") for side in ("default", "eager")]
    words = ["explain", str(convmixer / "infer-default.run"), "--profile", traces[0]]
    result = CliRunner().invoke(cli, [*words, "--eager-profile", traces[1], "--by", by])
    assert result.exit_code == 0
    shown = result.output.splitlines()
    assert shown[1].split()[0] == first
    # All of the devices' time, however it is summed.
    assert shown[-1].split()[:6] == ["all", "work", "1.49", "ms", "5.48", "ms"]
    result = CliRunner().invoke(cli, ["explain", words[1], "--by", by])
    assert isinstance(result.exception, InspectorError) and "no profile" in str(result.exception)


# -- captures with profiles of their own


@pytest.fixture(scope="module")
def gpt(profiled_runs: Path) -> Explanation:
    return explain(Run.open(profiled_runs / "gpt.run"))


def test_attention_and_its_backward_are_joined(gpt: Explanation) -> None:
    assert gpt.sides is not None and gpt.sides.ledger is not None and not gpt.sides.notes
    for side in (gpt.sides.joined.eager, gpt.sides.joined.compiled):
        assert side is not None and side.attributed > 0.99 and side.calls == 5
    forward = [
        block
        for block in gpt.sides.joined.blocks
        if "scaled_dot_product_attention" in block.operators and block.phase == "forward"
    ]
    assert sum(block.times for block in forward) == 4
    for block in forward:
        assert [line.short for line in block.lines] == ["models.py:28"]
        for kernels in (block.eager_kernels, block.compiled_kernels):
            assert any("sdpa" in kernel.name and round(kernel.calls) == block.times for kernel in kernels)


def test_a_quiet_capture_leaves_little_unexplained(gpt: Explanation) -> None:
    assert gpt.sides is not None and gpt.sides.ledger is not None
    ledger = gpt.sides.ledger
    assert ledger.source == "calls" and gpt.quality == "measured"
    larger = max(ledger.eager_ms, ledger.compiled_ms)
    assert abs(ledger.unexplained_eager_ms) < 0.1 * larger
    assert abs(ledger.unexplained_compiled_ms) < 0.1 * larger
    assert gpt.faster == pytest.approx(ledger.eager_ms / ledger.compiled_ms)


def test_the_losses_backward_is_no_part_of_a_graph(gpt: Explanation) -> None:
    assert gpt.sides is not None
    outside = {block.operators[0] for block in gpt.sides.joined.blocks if block.place == "outside"}
    assert outside >= {"aten::cross_entropy_loss", "NllLossBackward0", "LogSoftmaxBackward0"}


def test_what_the_host_takes_has_one_value(gpt: Explanation) -> None:
    parts = {part.part: part.ms for part in gpt.ledger.parts}
    bound = next(finding for finding in gpt.findings if finding.rule == "host_bound")
    assert duration(parts[HOST]) in bound.title and bound.measured
    # Eager's host took more: nothing of it is said to be compiled code's but what the profile says is.
    assert "in eager" in bound.title and "wrappers and launches" in bound.title


def test_a_cpus_own_kernels_are_seen_and_what_a_busy_machine_adds_is_not_counted(profiled_runs: Path) -> None:
    explanation = explain(Run.open(profiled_runs / "cpu.run"))
    sides = explanation.sides
    assert sides is not None and sides.ledger is not None
    # Of compiled code nothing was in the way but once, and that is left out.
    assert [note.split(":")[0] for note in sides.notes] == ["eager"] and "no breakdown" in sides.notes[0]
    for side in (sides.joined.eager, sides.joined.compiled):
        assert side is not None and not side.device and side.attributed > 0.99
    generated = {k.name for block in sides.joined.blocks for k in block.compiled_kernels if k.generated}
    assert {"cpp_fused_gelu_0", "cpp_fused_add_mul_native_layer_norm_tanh_1"} <= generated
    linear = next(block for block in sides.joined.blocks if block.operators == ("linear",))
    assert linear.lines[0].short == "m.py:7" and linear.graph is not None
    # The profiled runs took twice as long as those without a profiler: they are no breakdown of these.
    assert explanation.quality == "busy" and sides.ledger.source == "profile"
    assert abs(sides.ledger.unexplained_eager_ms) < 1.0
    assert not [finding for finding in explanation.findings if finding.severity == "high"]


# -- a profile without its run


@pytest.mark.parametrize("name", ["infer-default", "infer-reduce-overhead", "train-eager"])
def test_a_trace_alone_is_summed_up(convmixer: Path, name: str) -> None:
    trace = str(convmixer / f"{name}.trace.json")
    facts = json.loads((convmixer / f"{name}.facts.json").read_text())["kernels"]
    result = CliRunner().invoke(cli, ["summary", trace, "--json"])
    data = json.loads(result.output)
    schema = json.loads((SCHEMA.parent / "profile.schema.json").read_text())
    assert not list(Draft202012Validator(schema).iter_errors(data))
    calls = 1 if name == "train-eager" else 3
    assert (data["calls"], data["devices"]) == (calls, ["NVIDIA H200"])
    for kernel in data["kernels"]:
        if kernel["name"] in facts:
            assert kernel["ms"] * calls == pytest.approx(facts[kernel["name"]]["us"] / 1e3, abs=1e-4)
    total = sum(kernel["ms"] for kernel in data["kernels"])
    assert sum(item["ms"] for item in data["operators"]) == pytest.approx(total) == data["work_ms"]
    shown = CliRunner().invoke(cli, ["summary", trace]).output
    largest = "conv2d_grouped_direct_kernel" if "infer" in name else "conv_depthwise2d_grad_weight_kernel"
    assert largest in shown and "inspector explain RUN --profile" in shown
    assert CliRunner().invoke(cli, ["open", trace]).output == shown


def test_what_runs_as_in_eager_on_both_sides_is_no_loss(profiled_runs: Path) -> None:
    """A library's products taken for operators without code of Inductor's: as slow in eager."""
    case = gather(Run.open(profiled_runs / "gpt.run"))
    graphs = tuple(
        replace(
            graph,
            launches=tuple(
                replace(launch, role="fallback") if launch.role == "library" else launch
                for launch in graph.launches
            ),
        )
        for graph in case.graphs
    )
    (told,) = fallback_kernels.find(replace(case, graphs=graphs))
    assert (told.severity, told.cost_ms) == ("low", None)
    # Of most of a call it is what there is to say, and still nothing that compiling lost.
    most = replace(case, graphs=graphs)
    most = replace(most, times=replace(case.times, compiled_ms=1.5 * most.role_ms("fallback")))
    (loud,) = fallback_kernels.find(most)
    assert (loud.severity, loud.cost_ms) == ("medium", None) and " a call: no code" in loud.title
    # Without profiles neither, but where a call is slower than in eager.
    outcomes: tuple[tuple[Outcome, bool], ...] = (("faster", False), ("slower", True))
    for outcome, costs in outcomes:
        times = replace(case.times, outcome=outcome)
        (untold,) = fallback_kernels.find(replace(case, graphs=graphs, sides=None, times=times))
        assert (untold.severity != "low" and bool(untold.cost_ms)) == costs


def test_a_part_that_only_one_side_runs_is_named_by_its_kernels() -> None:
    kernel = KernelTime(
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>", 3, 0.5
    )
    block = Block((), (), (), "forward", "g", 0.0, 0.5, (), (kernel,), times=3)
    assert label(block) == "vectorized_elementwise_kernel<add> x3"
    assert both_times(block) == "500 us compiled, nothing in eager"
