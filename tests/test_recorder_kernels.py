"""What compiling and tuning Triton kernels gave: hooks on classes shaped like torch's; lines read back."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from inspector.capture.recorder.choices import watch_choices
from inspector.capture.recorder.guard import Guards
from inspector.capture.recorder.kernels import watch_kernels
from inspector.capture.recorder.sink import Sink
from inspector.model.record import ProcessRecord
from inspector.readers.record import parse_record

FOLDER = "/x/torch_compile_debug/run_1-pid_7/torchinductor/model__0_inference_0.0"


class Config:
    """triton.Config."""

    def __init__(self, warps: int, stages: int = 1, **kwargs: int) -> None:
        self.kwargs, self.num_warps, self.num_stages = kwargs, warps, stages
        self.num_ctas, self.maxnreg = 1, None


def make_launcher(configuration: Config, **results: Any) -> Any:
    def launcher() -> None: ...

    values = {"config": configuration, "n_regs": 32, "n_spills": 0, "shared": 1024, **results}
    for name, value in values.items():
        setattr(launcher, name, value)
    return launcher


@pytest.fixture
def heuristics() -> ModuleType:
    """torch/_inductor/runtime/triton_heuristics.py of 2.13, as far as it is hooked."""

    class CachingAutotuner:
        def __init__(self, name: str, launchers: list[Any], times: dict[Any, float] | None = None) -> None:
            self.fn = SimpleNamespace(__name__="triton_")
            self.inductor_meta = {"kernel_name": name}
            self.heuristic_type = SimpleNamespace(name="REDUCTION")
            self.launchers: list[Any] = []
            self.compile_id = None
            self.results = launchers
            self.times = times or {}
            self.better: Any = None

        def precompile(self, warm_cache_only: bool = False, reload_kernel: Any = None) -> None:
            # A worker of torch 2.4 is left with None for each launcher.
            self.launchers = [None for _ in self.results] if warm_cache_only else list(self.results)

        def bench(self, launcher: Any, *args: Any, with_profiler: bool = False, **kwargs: Any) -> float:
            return self.times[launcher]

        def autotune_to_one_config(self, *args: Any, **kwargs: Any) -> None:
            timings = {launcher: self.bench(launcher, *args, **kwargs) for launcher in self.launchers}
            self.launchers = [min(timings, key=lambda launcher: timings[launcher])]

        def coordinate_descent_tuning(self, launcher: Any, *args: Any, **kwargs: Any) -> Any:
            if self.better is not None:
                self.bench(self.better, *args, **kwargs)
            return self.better or launcher

    module = ModuleType("torch._inductor.runtime.triton_heuristics")
    module.CachingAutotuner = CachingAutotuner  # type: ignore[attr-defined]
    return module


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Says which graph's folder is being compiled, as torch/_inductor/virtualized.py does."""

    def at(path: str | None) -> None:
        virtualized = SimpleNamespace(V=SimpleNamespace(debug=SimpleNamespace(_path=path)))
        monkeypatch.setitem(sys.modules, "torch._inductor.virtualized", virtualized)

    at(FOLDER)
    return at


class Recording:
    """A recorder's sink on a folder of its own, and what it holds."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rank0.jsonl"
        self.log = folder / "log"
        self.sink = Sink(str(folder), str(self.log))
        self.guards = Guards(self.sink.log)

    def read(self) -> ProcessRecord:
        return parse_record(self.path.read_text() if self.path.exists() else "", "record/rank0.jsonl")


@pytest.fixture
def recording(tmp_path: Path, heuristics: ModuleType, compiling: object) -> Iterator[Recording]:
    found = Recording(tmp_path)
    watch_kernels(heuristics, found.guards, found.sink)
    yield found
    assert not found.log.exists(), found.log.read_text()


def test_a_kernel_with_one_configuration_is_settled_when_it_is_compiled(
    heuristics: Any, recording: Recording
) -> None:
    launcher = make_launcher(Config(8, XBLOCK=256), n_regs=40, n_spills=2)
    heuristics.CachingAutotuner("triton_poi_fused_add_0", [launcher]).precompile()
    (kernel,) = recording.read().kernels
    assert (kernel.name, kernel.graph, kernel.process) == (
        "triton_poi_fused_add_0", "model__0_inference_0.0", "run_1-pid_7",
    )  # fmt: skip
    assert kernel.config == {"XBLOCK": "256", "num_warps": "8", "num_stages": "1"}
    assert (kernel.registers, kernel.spills, kernel.shared_bytes) == (40, 2, 1024)
    assert (kernel.heuristic, kernel.chosen_by, kernel.tried) == ("reduction", "only", ())


def test_autotuning_leaves_its_table_and_coordinate_descent_adds_to_it(
    heuristics: Any, compiling: Callable[[str | None], None], recording: Recording
) -> None:
    slow, fast, spilled, best = (make_launcher(Config(4, XBLOCK=size)) for size in (1, 2, 4, 8))
    times = {slow: 0.5, fast: 0.25, spilled: float("inf"), best: 0.125}
    autotuner = heuristics.CachingAutotuner("triton_red_fused_sum_1", [slow, fast, spilled], times)
    autotuner.precompile()
    assert recording.read().kernels == ()
    # The first launch comes when nothing is being compiled any more.
    compiling(None)
    autotuner.autotune_to_one_config(stream=0)
    (kernel,) = recording.read().kernels
    assert (kernel.config["XBLOCK"], kernel.chosen_by, kernel.graph) == (
        "2", "measured", "model__0_inference_0.0",
    )  # fmt: skip
    assert [(config["XBLOCK"], time) for config, time in kernel.tried] == [("2", 0.25), ("1", 0.5)]
    assert kernel.refused == 1

    autotuner.better = best
    assert autotuner.coordinate_descent_tuning(autotuner.launchers[0], stream=0) is best
    (kernel,) = recording.read().kernels
    assert (kernel.config["XBLOCK"], kernel.chosen_by) == ("8", "descent")
    assert [config["XBLOCK"] for config, _ in kernel.tried] == ["8", "2", "1"]


def test_coordinate_descent_that_is_switched_off_says_nothing(heuristics: Any, recording: Recording) -> None:
    autotuner = heuristics.CachingAutotuner("triton_red_fused_sum_1", [make_launcher(Config(4))])
    autotuner.precompile()
    autotuner.coordinate_descent_tuning(autotuner.launchers[0])
    assert [kernel.chosen_by for kernel in recording.read().kernels] == ["only"]


def test_a_configuration_from_the_cache_of_an_earlier_run_is_called_so(
    heuristics: Any, recording: Recording
) -> None:
    autotuner = heuristics.CachingAutotuner("triton_red_fused_sum_1", [make_launcher(Config(4))])
    autotuner.autotune_cache_info = {"autotune_cache_state": "hit"}
    autotuner.precompile()
    assert [kernel.chosen_by for kernel in recording.read().kernels] == ["cache"]


@pytest.mark.parametrize("name", ["Placeholder.DESCRIPTIVE_NAME", "triton_", ""])
def test_a_kernel_that_is_only_measured_is_in_no_wrapper(
    name: str, heuristics: Any, recording: Recording
) -> None:
    launchers = [make_launcher(Config(4)), make_launcher(Config(8))]
    autotuner = heuristics.CachingAutotuner(name, launchers, dict.fromkeys(launchers, 1.0))
    autotuner.precompile()
    autotuner.autotune_to_one_config()
    assert not recording.path.exists()


def test_workers_that_only_fill_triton_s_cache_write_nothing(heuristics: Any, recording: Recording) -> None:
    launcher = make_launcher(Config(4))
    heuristics.CachingAutotuner("triton_poi_fused_add_0", [launcher]).precompile(warm_cache_only=True)
    assert not recording.path.exists()


def test_a_kernel_at_a_dead_one_s_address_is_another(heuristics: Any, recording: Recording) -> None:
    for number in range(20):
        heuristics.CachingAutotuner(f"triton_poi_fused_{number}", [make_launcher(Config(4))]).precompile()
        gc.collect()
    assert len(recording.read().kernels) == 20


HOOKS = ("precompile", "bench", "autotune_to_one_config", "coordinate_descent_tuning")


@pytest.mark.parametrize(
    ("odd", "hooks"),
    [
        ({"inductor_meta": 7}, {"precompile"}),
        ({"config": None}, {"bench", "autotune_to_one_config", "coordinate_descent_tuning"}),
    ],
)
def test_an_autotuner_unlike_any_other_works_as_ever(
    odd: dict[str, Any], hooks: set[str], heuristics: Any, tmp_path: Path, compiling: object
) -> None:
    found = Recording(tmp_path)
    watch_kernels(heuristics, found.guards, found.sink)
    slow, fast = make_launcher(Config(4)), make_launcher(Config(8), **odd)
    autotuner = heuristics.CachingAutotuner("triton_poi_fused_0", [slow, fast], {slow: 2.0, fast: 1.0})
    vars(autotuner).update(odd)
    autotuner.precompile()
    autotuner.autotune_to_one_config()
    assert autotuner.launchers == [fast]
    autotuner.better = slow
    assert autotuner.coordinate_descent_tuning(fast) is slow
    faults = {line.split()[3].partition(".")[2] for line in found.log.read_text().splitlines()}
    assert faults and faults <= hooks


@pytest.mark.parametrize("hook", HOOKS)
def test_a_version_without_one_of_the_functions_keeps_the_others(
    hook: str, heuristics: Any, tmp_path: Path, compiling: object
) -> None:
    delattr(heuristics.CachingAutotuner, hook)
    found = Recording(tmp_path)
    watch_kernels(heuristics, found.guards, found.sink)
    assert found.guards.missing == [f"CachingAutotuner.{hook}"]
    assert len(found.guards.installed) == len(HOOKS) - 1


# -- choices of max-autotune


class Node:
    def __init__(self, name: str) -> None:
        self.name = name

    def get_name(self) -> str:
        return self.name


@pytest.fixture
def selector() -> ModuleType:
    """torch/_inductor/select_algorithm.py as far as it is hooked: at once, or later through the buffer."""

    class AlgorithmSelectorCache:
        def __call__(self, name: str, choices: Any, input_nodes: Any, layout: Any, **options: Any) -> Any:
            def measure() -> None:
                self.log_results(name, input_nodes, choices, 0.1, precompile_elapse=0.2)

            node = Node("buf3")
            if options.get("later"):
                node.measure = measure  # type: ignore[attr-defined]
                return node
            measure()
            return (node, "choice") if options.get("pair") else node

        @staticmethod
        def log_results(
            name: str, input_nodes: Any, timings: Any, elapse: float, precompile_elapse: float
        ) -> str:
            return f"{name}: {len(timings)}"

    module = ModuleType("torch._inductor.select_algorithm")
    module.AlgorithmSelectorCache = AlgorithmSelectorCache  # type: ignore[attr-defined]
    return module


class Choice:
    """torch/_inductor/ir.py: ChoiceCaller."""

    def __init__(self, name: str, description: str = "", **info: Any) -> None:
        self.name, self.description = name, description
        self.info_dict = lambda: info


def timings() -> dict[Any, float]:
    return {
        Choice("triton_mm_1", "BLOCK_M=64, ACC_TYPE='tl.float32', num_warps=4"): 0.25,
        Choice("mm"): 0.125,
        Choice("triton_mm_0", tile_shape="(64, 32, 64)", odd=[1]): 0.5,
        Choice("triton_mm_2"): float("inf"),
    }


@pytest.mark.parametrize("how", ["pair", "single", "later"])
def test_choices_of_an_operation_are_recorded_with_its_buffer(
    how: str, selector: Any, tmp_path: Path, compiling: object
) -> None:
    found = Recording(tmp_path)
    watch_choices(selector, found.guards, found.sink)
    cache = selector.AlgorithmSelectorCache()
    result = cache("mm", timings(), [Node("arg0_1"), Node("buf1")], None, **{how: True})
    if how == "later":
        assert not found.path.exists()
        result.measure()
    assert cache.log_results("bmm", [], {}, 0, 0) == "bmm: 0"
    choices, unknown = found.read().choices
    assert (choices.operation, choices.inputs, choices.buffer) == ("mm", ("arg0_1", "buf1"), "buf3")
    assert choices.graph == "model__0_inference_0.0"
    assert [(item.name, item.milliseconds) for item in choices.tried] == [
        ("mm", 0.125), ("triton_mm_1", 0.25), ("triton_mm_0", 0.5), ("triton_mm_2", None),
    ]  # fmt: skip
    assert choices.tried[1].config == {"BLOCK_M": "64", "ACC_TYPE": "tl.float32", "num_warps": "4"}
    assert choices.tried[2].config == {"tile_shape": "(64, 32, 64)"}
    assert unknown.buffer is None
    assert not found.log.exists()


def test_inputs_that_have_no_name_are_no_harm(selector: Any, tmp_path: Path, compiling: object) -> None:
    found = Recording(tmp_path)
    watch_choices(selector, found.guards, found.sink)
    cache = selector.AlgorithmSelectorCache()
    assert cache("mm", timings(), ["not a node"], None).get_name() == "buf3"
    assert "fault in AlgorithmSelectorCache" in found.log.read_text()


# -- lines


def test_damaged_lines_about_kernels_are_problems(tmp_path: Path) -> None:
    good = {
        "kind": "kernel",
        "id": 1,
        "name": "k",
        "config": {"XBLOCK": 4},
        "chosen_by": "oracle",
        "spills": -1,
    }
    lines = [
        json.dumps(good),
        '{"kind": "kernel", "id": 2, "name": "k"}',
        '{"kind": "choices", "operation": "mm", "inputs": [], "tried": [{"name": "mm"}]}',
    ]
    record = parse_record("\n".join(lines) + "\n", "r")
    assert [(kernel.name, kernel.spills, kernel.chosen_by) for kernel in record.kernels] == [
        ("k", None, None)
    ]
    assert [problem.line for problem in record.problems] == [2, 3]


def test_hooks_of_modules_that_come_later_are_told(tmp_path: Path) -> None:
    sink = Sink(str(tmp_path), str(tmp_path / "log"))
    hooks = ["a"]
    sink.describe = lambda: {"hooks": hooks, "missing": []}
    sink.describe_again()
    assert list(tmp_path.iterdir()) == []
    sink.write({"kind": "novelty"})
    hooks.append("b")
    sink.describe_again()
    assert parse_record((tmp_path / "rank0.jsonl").read_text(), "r").hooks == ("a", "b")
