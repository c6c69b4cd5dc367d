"""What a trace tells of each compilation, and the `trace` command over it."""

from __future__ import annotations

import json
import random
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from inspector.cli import cli
from inspector.model.compilation import TraceContent
from inspector.model.problem import InspectorError
from inspector.model.source import SourceLocation
from inspector.readers import compilations, trace_kinds
from inspector.readers.compilations import read_content
from inspector.readers.guards import parse_guards
from inspector.readers.program_graphs import fixed_by_tracing
from inspector.readers.trace import Occurrence, payload, read_trace
from inspector.readers.trace_artifacts import cache_lookups, kernel_infos
from inspector.readers.trace_events import graph_breaks, recompiles
from inspector.readers.trace_file import TraceFile
from inspector.readers.trace_kinds import KINDS, TraceKind, kind_of

EXTRA = Path(__file__).parent / "data" / "extra" / "torch-logs-2.13-cpu.tar.xz"


def log_of(run: Path) -> Path:
    return next((run / "trace").glob("*.log"))


def content_of(run: Path) -> TraceContent:
    return TraceFile(log_of(run), "trace.log").content


def command(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["trace", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def line(head: dict[str, Any], text: str | None = None) -> str:
    """One envelope of compile id 0/0 unless `head` says otherwise, with its payload."""
    record: dict[str, Any] = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    record = {**head, **{key: value for key, value in record.items() if key not in head}}
    if text is not None:
        record["has_payload"] = "0" * 32
    body = "" if text is None else "\t" + text.replace("\n", "\n\t") + "\n"
    return f"V1121 05:02:31.274000 12661 torch/x.py:9] {json.dumps(record)}\n{body}"


def read(*lines: str) -> TraceContent:
    data = "".join(lines).encode()
    return read_content(read_trace(data, "trace.log"), data)


def seen(text: str) -> Occurrence:
    """The first event of a trace."""
    data = text.encode()
    trace = read_trace(data, "trace.log")
    return Occurrence(trace, data, trace.events[0])


def artifact(name: str) -> dict[str, Any]:
    return {"artifact": {"name": name, "encoding": "string"}}


# -- what is read of real traces


def test_functions_status_and_restarts(corpus: Path) -> None:
    found = [
        (item.ident, item.function and item.function.short, item.status, item.restarts, len(item.breaks))
        for item in content_of(corpus / "cpu-torch2.13/breaks").compilations
    ]
    assert found == [
        ("0/0", "workload.py:6", "ok", 0, 1),
        ("1/0", "workload.py:8", "ok", 1, 1),
        ("2/0", "workload.py:9", "ok", 1, 1),
        ("3/0", "workload.py:11", "ok", 0, 0),
        ("0/1", "workload.py:6", "ok", 0, 1),
        ("1/1", "workload.py:8", "ok", 2, 1),
        ("2/1", "workload.py:9", "ok", 1, 1),
        ("3/1", "workload.py:11", "ok", 0, 0),
    ]
    (item,) = content_of(corpus / "cpu-torch2.13/cache_hit").compilations
    assert item.status == "cache hit"
    assert [(lookup.cache, lookup.outcome, lookup.reason) for lookup in item.caches] == [
        ("fx_graph", "hit", "hit"),
        ("aotautograd", "hit", "hit"),
    ]
    assert item.caches[1].saved_ms == 6910.0 and item.caches[1].key.startswith("apbdvfhi6vi76")


def test_stages_are_the_graphs_in_order_with_their_texts(corpus: Path) -> None:
    run = corpus / "h200-torch2.11/resnet50"
    file = TraceFile(log_of(run), "trace.log")
    training = file.content.compilations[1]
    assert [(stage.label, stage.phase) for stage in training.stages if stage.is_graph] == [
        ("dynamo_output_graph", ""),
        ("before_pre_grad_graph", ""),
        ("after_pre_grad_graph", ""),
        ("aot_joint_graph", ""),
        ("aot_forward_graph", "forward"),
        ("aot_backward_graph", "backward"),
        ("before_post_grad_graph#1", "forward"),
        ("inductor_post_grad_graph#1", "forward"),
        ("inductor_output_code#1", "forward"),
        ("before_post_grad_graph#2", "backward"),
        ("inductor_post_grad_graph#2", "backward"),
        ("inductor_output_code#2", "backward"),
    ]
    (code,) = training.stage("inductor_output_code#2")
    folder = next(run.glob("torch_compile_debug/*/torchinductor/model__*_backward_*"))
    assert file.payload(code.event) == (folder / "output_code.py").read_text()
    assert len(training.stage("inductor_output_code")) == 2


def test_every_payload_of_a_compilation_is_a_stage(corpus: Path) -> None:
    total = 0
    for path in sorted(corpus.glob("*/*/trace/*.log")):
        file = TraceFile(path, path.name)
        stages = [stage.event for item in file.content.compilations for stage in item.stages]
        stages += [stage.event for stage in file.content.general]
        expected = [
            event
            for event in file.trace.events
            if event.payload is not None and event.kind not in ("chromium_event", "str")
        ]
        assert sorted(stages, key=lambda event: event.line) == expected, path
        total += len(stages)
        for item in file.content.compilations:
            labels = [stage.label for stage in item.stages]
            assert len(labels) == len(set(labels))
    assert total > 800


def test_guards_have_text_and_place(corpus: Path) -> None:
    first = content_of(corpus / "cpu-torch2.13/breaks").compilations[0]
    guard = next(guard for guard in first.guards if guard.kind == "TENSOR_MATCH")
    assert guard.text.startswith("check_tensor(L['x'], Tensor,") and guard.text.endswith("stride=[64, 1])")
    assert guard.location == SourceLocation(
        "nn/modules/linear.py", 134, "forward", "return F.linear(input, self.weight, self.bias)"
    )
    hinted = next(guard for guard in first.guards if guard.text.startswith("___check_type_id(L['s'],"))
    assert hinted.location is not None and hinted.location.line == 7
    assert hinted.note == "HINT: type M"
    shape = content_of(corpus / "cpu-torch2.13/breaks").compilations[6]
    assert [guard.text for guard in shape.guards if guard.kind == "SHAPE"] == ["s77 <= 4096"]


def test_guard_lines_point_into_the_trace_and_none_is_lost(corpus: Path) -> None:
    for path in sorted(corpus.glob("*/*/trace/*.log")):
        data = path.read_bytes()
        lines = data.decode().split("\n")
        trace = read_trace(data, path.name)
        content = read_content(trace, data)
        found = [g for item in content.compilations for g in item.guards if g.kind != "SHAPE"]
        printed = sum(re.match(r"\t(\| )*\+- [A-Z][A-Z_]+\b", row) is not None for row in lines)
        assert len(found) == printed > 0, path
        for guard in found:
            assert f"+- {guard.kind}" in lines[guard.line - 1]
            assert guard.text.split("\n")[0] in lines[guard.line - 1]
            assert (guard.location is not None) == bool(re.search(r"# .*:\d+ in ", lines[guard.line - 1]))
            assert "  # " not in guard.text
            assert guard.location or guard.note or "  # " not in lines[guard.line - 1]


def test_guards_of_2_4_and_continuation_lines() -> None:
    text = (
        "\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n"
        "| +- DEFAULT_DEVICE: utils_device.CURRENT_DEVICE == None     # _dynamo/output_graph.py:460 in init\n"
        "| +- GuardManager: source=L['x'], accessed_by=DictGetItemGuardAccessor(x)\n"
        "| | +- EQUALS_MATCH: L['x'] == 'a\nb'\n"
        "\nGuard latency = 70.12 us"
    )
    one, two = parse_guards(text, 10)
    assert one.location == SourceLocation("_dynamo/output_graph.py", 460, "init") and one.line == 13
    assert (two.text, two.location, two.line) == ("L['x'] == 'a\nb'", None, 15)


def test_symbols_and_their_hints(corpus: Path) -> None:
    item = content_of(corpus / "cpu-torch2.13/breaks").compilations[4]
    (symbol,) = item.symbols
    assert (symbol.name, symbol.hint, symbol.range, symbol.source) == (
        "s77", "16", "[2, int_oo]", "L['x'].size()[0]",
    )  # fmt: skip
    assert symbol.location is not None and symbol.location.line == 134


def test_what_tracing_made_a_number_of_is_told_with_its_line(tmp_path: Path) -> None:
    """By torch 2.13, of ``x.diagonal(offset=n - 1)``; a restart tells it again."""
    fixed: dict[str, Any] = {
        "symbol": "s6",
        "sources": ["L['n']"],
        "value": "6",
        "reason": "range_refined_to_singleton",
        "stack": [{"line": 1, "name": "main", "filename": 0}],
        "user_stack": [{"line": 43, "name": "f", "filename": 0, "loc": "x.diagonal(offset=n - 1)"}],
    }
    heads: tuple[dict[str, Any], ...] = (
        {"str": ["/home/u/a.py", 0]},
        {"dynamo_start": {"stack": []}},
        {"symbolic_shape_specialization": {**fixed, "value": "5"}},
        {"symbolic_shape_specialization": fixed},
        {"symbolic_shape_specialization": {"symbol": "s7", "sources": "?"}},
    )
    text = "".join(map(line, heads))
    (item,) = read(text).compilations[0].specializations
    assert (item.source, item.value, item.reason) == ("L['n']", "6", "range_refined_to_singleton")
    assert item.location is not None and (item.location.path, item.location.line) == ("/home/u/a.py", 43)
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    path.write_text(text)
    assert "L['n'] = 6  a.py:43  x.diagonal(offset=n - 1)" in command(str(path), "--compile-id", "0/0")
    run = SimpleNamespace(traces=(TraceFile(path, "t"),))
    assert [each.value for each in fixed_by_tracing(cast(Any, run))["0/0"]] == ["5", "6"]


def test_kernels_side_effects_stacks_and_first_runs(corpus: Path) -> None:
    tuned = content_of(corpus / "h200-torch2.11/autotune").compilations[0]
    by_name = {kernel.name: kernel for kernel in tuned.kernels}
    kernel = by_name["triton_tem_fused_addmm_gelu_relu_t_1"]
    assert (kernel.cache_state, kernel.compile_us) == ("only 1 config", 533784)
    assert kernel.config == (("num_warps", "8"), ("num_stages", "5"))
    assert by_name["triton_poi_fused_gelu_0"].configs == 2
    assert by_name["triton_poi_fused_gelu_0"].other == {"coordesc_tuning": True}
    llama = content_of(corpus / "h200-torch2.11/llama_infer").compilations
    effects = llama[0].facts["side effects"]
    assert len(effects) > 1 and all(effect.startswith("Mutating object of type") for effect in effects)
    graphs = content_of(corpus / "h200-torch2.11/cudagraphs").compilations[0]
    assert [round(entry.cudagraph_seconds or 0, 4) for entry in graphs.runtime_metrics] == [0.0079, 0.0013]
    stacks = dict(content_of(corpus / "cpu-torch2.13/breaks").compilations[0].kernel_stacks)
    assert 'workload.py", line 7, in forward' in stacks["extern_kernels.addmm:1"][0]


def test_a_function_given_up_and_failures(tmp_path: Path) -> None:
    with tarfile.open(EXTRA) as tar:
        tar.extract("breaks/trace.log", tmp_path, filter="data")
    content = TraceFile(tmp_path / "breaks/trace.log", "trace.log").content
    by_id = {item.ident: item for item in content.compilations}
    assert by_id["3/0"].status == "failed"
    assert by_id["3/0"].failures[0].kind == "Unsupported"
    assert by_id["0/0"].status == "no graph"
    again = by_id["0/0~2"]
    assert (again.compile_id, again.function and again.function.function) == ("0/0", "f1")
    assert len(content.compilations) == 43
    file = TraceFile(tmp_path / "breaks/trace.log", "trace.log")
    told = graph_breaks(file.trace, file.data)
    assert sum(len(item.breaks) for item in content.compilations) == len(told) > 20
    again_told = recompiles(file.trace, file.data)
    assert sum(len(item.recompiles) for item in content.compilations) == len(again_told) > 10


# -- made by hand


def test_statuses_of_compilations_without_an_end() -> None:
    start: dict[str, Any] = {"dynamo_start": {"stack": []}}
    metrics = {"compilation_metrics": {"has_guarded_code": False}}
    error = 'File "/home/user/a.py", line 3, in f\nboom'
    content = read(
        line(start),
        line({**start, "frame_id": 1}),
        line({**metrics, "frame_id": 1}),
        line({**artifact("recompile_reasons"), "frame_id": 2}, "2/0: x"),
        line({**start, "frame_id": 3}),
        line({**artifact("dynamo_error"), "frame_id": 3}, error),
    )
    statuses = [item.status for item in content.compilations]
    assert statuses == ["unfinished", "skipped", "not compiled", "failed"]
    (failure,) = content.compilations[3].failures
    assert failure.location == SourceLocation("/home/user/a.py", 3, "f")


def test_bypassed_caches_tell_why() -> None:
    data = json.dumps({"cache_bypass_reason": "Cannot cache a custom op", "key": None})
    (lookup,) = cache_lookups(seen(line(artifact("aotautograd_cache_bypass"), data)))
    assert (lookup.cache, lookup.outcome, lookup.reason, lookup.key) == (
        "aotautograd", "bypass", "Cannot cache a custom op", "",
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "[]", "{", '{"k": 3}', '{"k": {"only_config": 7}}', '{"k": null}'])
def test_kernel_infos_of_any_shape(text: str) -> None:
    kernels = kernel_infos(seen(line(artifact("triton_kernel_info"), text)))
    assert all(kernel.name == "k" for kernel in kernels)


def test_unknown_kinds_are_counted_with_an_example() -> None:
    content = read(
        line(artifact("brand_new_graph"), "\nclass New:"), line(artifact("brand_new_graph"), "x"),
        line({"brand_new": {"a": 1}}), line({"dynamo_start": {}}),
    )  # fmt: skip
    unknown = [(kind.name, kind.count, kind.example) for kind in content.kinds if not kind.known]
    assert unknown == [("brand_new", 1, "{'a': 1}"), ("brand_new_graph", 2, "class New:")]
    assert [stage.label for stage in content.compilations[0].stages] == [
        "brand_new_graph#1",
        "brand_new_graph#2",
    ]


def test_no_kind_of_the_corpus_is_unknown(corpus: Path) -> None:
    for path in sorted(corpus.glob("*/*/trace/*.log")):
        assert [kind.name for kind in TraceFile(path, "t").content.kinds if not kind.known] == []
    assert not kind_of("something_else") and kind_of("f_MODIFIED_BYTECODE")


def test_a_restart_makes_its_symbols_anew_and_keeps_the_stack() -> None:
    frame = {"line": 7, "name": "step", "filename": 1}
    symbols = [{"create_symbol": {"symbol": name, "val": hint}} for name, hint in (("s0", "3"), ("s1", "4"))]
    content = read(
        line({"str": ["/home/user/train.py", 1]}),
        line({"dynamo_start": {"stack": [frame]}}),
        *(line(head) for head in symbols),
        line({"dynamo_start": {}, "attempt": 1}),
        line({"create_symbol": {"symbol": "s0", "val": "9"}, "attempt": 1}),
    )
    (compilation,) = content.compilations
    assert [(symbol.name, symbol.hint) for symbol in compilation.symbols] == [("s1", "4"), ("s0", "9")]
    assert [frame.short for frame in compilation.stack] == ["train.py:7"]


ONE_OF_EACH = (
    "dynamo_start", "dynamo_cpp_guards_str", "guard_added", "create_unbacked_symbol",
    "symbolic_shape_specialization", "triton_kernel_info",
    "inductor_provenance_tracking_kernel_stack_traces", "inductor_collective_schedule", "dynamo_side_effects",
    "bwd_compilation_metrics_runtime", "dynamo_cache_bypass", "aotautograd_cache_pickle_failure",
    "make_fx_fail_partial", "min_cut_failed_edge_list", "mismatched_fake_kernel",
    "guard_on_data_dependent_error", "fx_graph_bundled_cache_hit", "str", "chromium_event",
    "dynamo_graph_break_reason", "recompile_reasons", "torch_version", "fx_graph_runnable", "describe_tensor",
    "inductor_output_code", "f_MODIFIED_BYTECODE", "torch._functorch.config", "compiled_fn_wrapper",
    "compiled_function_backward",
)  # fmt: skip


def test_no_row_of_the_table_of_kinds_stands_behind_one_that_takes_its_names() -> None:
    assert [kind_of(name) for name in ONE_OF_EACH] == list(KINDS)


@pytest.fixture
def fresh_kinds() -> Iterator[None]:
    kind_of.cache_clear()
    yield
    kind_of.cache_clear()


@pytest.mark.usefixtures("fresh_kinds")
def test_a_new_kind_is_a_row_and_its_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    row = TraceKind("brand_new", "weather", lambda seen: (f"{seen.text} in {seen.event.name}",))
    for module in (trace_kinds, compilations):
        monkeypatch.setattr(module, "KINDS", (*KINDS, row))
    events = [({"dynamo_start": {}}, None), (artifact("brand_new"), "rain"), (artifact("brand_new"), "sun")]
    content = read(*(line(head, text) for head, text in events))
    assert [kind.known for kind in content.kinds if kind.name == "brand_new"] == [True]
    (compilation,) = content.compilations
    assert compilation.facts == {"weather": ("rain in brand_new", "sun in brand_new")}


def test_garbage_never_raises(corpus: Path) -> None:
    generator = random.Random(3)
    source = log_of(corpus / "cpu-torch2.4.1/softmax").read_bytes()
    breaks = log_of(corpus / "cpu-torch2.13/cache_hit").read_bytes()
    for original in (source, breaks):
        for _ in range(40):
            data = bytearray(original)
            for _ in range(200):
                data[generator.randrange(len(data))] = generator.choice(b'\t\n\0"{}[]:,+-|#\xff')
            read_content(read_trace(bytes(data), "t"), bytes(data))
    values: list[Any] = [None, 3, "x", [], [1], {}, {"stack": 7}, {"stack": [{"line": "a"}]}]
    values += [{"symbol": 1}, {"expr": 2}]
    kinds = ["dynamo_start", "compilation_metrics", "create_symbol", "guard_added_fast"]
    kinds.append("missing_fake_kernel")
    for kind in kinds:
        for value in values:
            read(line({kind: value}), line({kind: value}, "text"))


def test_numbers_that_are_none_never_raise(tmp_path: Path) -> None:
    """Python's JSON reads NaN and integers of any length; JSON for programs has neither."""
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    text = line({"dynamo_start": {"stack": []}})
    for number in ("NaN", "Infinity", "9" * 400, "1e300", "-1e300"):
        keys = ("duration_us", "guard_count", "entire_frame_compile_time_s", "code_gen_time_s")
        text += line({"compilation_metrics": dict.fromkeys(keys, "@")}).replace('"@"', number)
        kernel = '{"k": {"compile_time_us": @, "num_configs": @, "other": @}}'
        text += line(artifact("triton_kernel_info"), kernel.replace("@", number))
        text += line(artifact("fx_graph_cache_hit"), f'{{"time_saved_ms": {number}}}')
        event = f'{{"name": "dynamo", "ts": {number}, "ph": "X", "dur": {number}}}'
        text += line({"chromium_event": {}}, event)
    path.write_text(text)
    data = json.loads(command(str(path), "--json"), parse_constant=lambda name: pytest.fail(name))
    assert len(data["traces"][0]["compilations"]) == 1
    assert "0/0" in command(str(path)) and command(str(path), "--compile-id", "0/0")
    assert CliRunner().invoke(cli, ["summary", str(path), "--json"], catch_exceptions=False).exit_code == 0


# -- the command


def test_overview_fits_the_width_and_names_what_matters(corpus: Path) -> None:
    for path in sorted(corpus.glob("*/*/trace")):
        text = command(str(path))
        assert all(len(row) <= 100 for row in text.splitlines()[1:] if "problems" not in row), path
    text = command(str(corpus / "cpu-torch2.13/breaks"))
    assert "8 compilations in 16.0 s" in text
    assert "ok, restarted 2" in text
    assert "graph break  workload.py:8  Data-dependent branching" in text
    assert "x's first size changed from 8 to 16" in text
    assert "k compiling kernels" in text


def test_detail_of_one_compilation(corpus: Path) -> None:
    text = command(str(corpus / "h200-torch2.11/autotune"), "--compile-id", "0/0")
    for part in (
        "addmm_template_precompiling",
        "aotautograd miss (full_miss)",
        "triton_poi_fused_gelu_0",
        "guards: 49",
    ):
        assert part in text
    assert "first run of the forward: autotuning" in text
    symbols = command(str(corpus / "cpu-torch2.13/breaks"), "--compile-id", "0/1")
    assert "s77 = 16 in [2, int_oo]  from L['x'].size()[0]" in symbols


def test_show_prints_the_text_and_nothing_else(corpus: Path) -> None:
    path = corpus / "cpu-torch2.13/breaks"
    file = TraceFile(log_of(path), "t")
    one = command(str(path), "--compile-id", "0/1", "--show", "inductor_output_code#2")
    (stage,) = file.content.compilations[4].stage("inductor_output_code#2")
    assert one == payload(file.data, stage.event)
    both = command(str(path), "--compile-id", "0/1", "--show", "inductor_output_code")
    assert both.startswith("# ---- 0/1 inductor_output_code#1 forward\n") and one in both
    version = command(str(path), "--show", "torch_version")
    assert '"pytorch_version": "2.13.0+cpu"' in version


def test_kinds_lists_every_kind(corpus: Path) -> None:
    text = command(str(corpus / "cpu-torch2.6.0/softmax"), "--kinds")
    assert "chromium_event" in text and "dynamo_cpp_guards_str" in text
    assert all(len(row) <= 100 for row in text.splitlines())


def test_json_is_complete_and_agrees_with_the_text(corpus: Path) -> None:
    data = json.loads(command(str(corpus / "cpu-torch2.13/breaks"), "--json"))
    assert data["schema"] == "inspector.trace/1" and data["divergence"] == []
    (trace,) = data["traces"]
    assert sum(data["compile_time"]["parts"].values()) == pytest.approx(data["compile_time"]["seconds"])
    item = trace["compilations"][4]
    assert (item["id"], item["status"], item["function"]["line"]) == ("0/1", "ok", 6)
    assert len(item["guards"]) == 38 and item["symbols"][0]["name"] == "s77"
    sections = item["compile_time"]["sections"]
    roots = sum(section["seconds"] for section in sections if section["depth"] == 0)
    assert sum(section["self_seconds"] for section in sections) == pytest.approx(roots)
    assert item["metrics"][0]["fields"]["guard_count"] == 31
    one = json.loads(command(str(corpus / "cpu-torch2.13/breaks"), "--json", "--compile-id", "0/1"))
    assert [entry["id"] for entry in one["traces"][0]["compilations"]] == ["0/1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compile-id", "7/7"], "no compilation 7/7; there are: 0/0"),
        (["--show", "nothing"], "no stage nothing; there are: dynamo_output_graph"),
        (["--compile-id", "0/0", "--show", "nothing"], "no stage nothing"),
        (["--show", "dynamo_output_graph", "--json"], "cannot be combined"),
        (["--rank", "3"], "no structured trace here"),
    ],
)
def test_mistakes_name_the_choices(corpus: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(InspectorError, match=message):
        CliRunner().invoke(
            cli, ["trace", str(corpus / "cpu-torch2.13/softmax"), *arguments], catch_exceptions=False
        )


def test_a_run_without_a_trace_says_how_to_get_one(corpus: Path) -> None:
    path = corpus / "cpu-torch2.13/softmax/torch_compile_debug"
    with pytest.raises(InspectorError, match="TORCH_TRACE=DIR"):
        CliRunner().invoke(cli, ["trace", str(path)], catch_exceptions=False)


def test_an_empty_compilation_has_a_row_and_a_detail(tmp_path: Path) -> None:
    path = tmp_path / "dedicated_log_torch_trace_x.log"
    path.write_text(line({"dynamo_start": {"stack": []}}))
    assert "unfinished" in command(str(path))
    detail = command(str(path), "--compile-id", "0/0")
    assert "stages (--show NAME)\n  none" in detail


def test_summary_tells_compile_time(corpus: Path) -> None:
    run = CliRunner().invoke(
        cli, ["summary", str(corpus / "cpu-torch2.4.1/mlp"), "--json"], catch_exceptions=False
    )
    data = json.loads(run.output)
    assert data["compile_time"]["source"] == "metrics"
    assert data["compile_time"]["seconds"] == pytest.approx(22.74, abs=0.01)
    assert data["divergence"] == []
    text = CliRunner().invoke(cli, ["summary", str(corpus / "cpu-torch2.13/breaks")], catch_exceptions=False)
    assert "compile time in the trace: 16.0 s: compiling kernels 77 %" in text.output
