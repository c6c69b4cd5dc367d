"""Reports of Nsight Compute: read, joined to a run's kernels, shown."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from sharing import unpacked

from inspector.analysis.ncu import ncu_text
from inspector.cli import cli
from inspector.lowered import Lowered
from inspector.model.ncu import NcuKernel
from inspector.model.problem import InspectorError
from inspector.present.below import documents
from inspector.readers.ncu import load_ncu, parse_csv, read_ncu
from inspector.readers.run import Run

NAME = "triton_poi_fused__to_copy_3"
METRICS = {
    "Kernel Name": ("", NAME),
    "Grid Size": ("", "(81, 1, 1)"),
    "gpu__time_duration.sum": ("us", "2,112.000000"),
    "launch__registers_per_thread": ("register/thread", "20"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", "6.25"),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("%", "0.44"),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "0.37"),
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": ("", "12"),
    "smsp__average_warp_latency_per_inst_issued.ratio": ("cycle", "40"),
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": ("inst", "24"),
    "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio": ("inst", "0"),
    "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": ("inst", "2"),
}


def page(*rows: dict[str, str]) -> str:
    """A raw page as ncu prints it, below what it says while it runs; `rows` change the first one's values."""
    names = ["ID", "Process ID", *METRICS]
    lines = [names, ["", "", *(unit for unit, _ in METRICS.values())]]
    for row in rows:
        lines.append(["0", "1", *(row.get(name, value) for name, (_, value) in METRICS.items())])
    csv = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    return f"==PROF== Connected to process 1\n{csv}\n"


def test_a_raw_page_has_times_throughput_and_stalls() -> None:
    (kernel,), problems = parse_csv(page({}), "ncu.csv")
    assert not problems and (kernel.name, kernel.grid, kernel.blocks) == (NAME, (81, 1, 1), 81)
    assert (kernel.ms, kernel.registers, kernel.occupancy, kernel.conflicts) == (2.112, 20, 0.0625, 12)
    assert kernel.throughput == {"DRAM": 0.44, "multiprocessors": 0.37}
    assert kernel.stalls == {"long scoreboard": 0.6, "wait": 0.05}
    text = ncu_text([kernel])
    assert text.startswith("2.11 ms; DRAM at 0.4 %") and "60 % waiting for device memory" in text
    assert text.endswith("12 bank conflicts")


def test_what_is_cut_or_no_page_is_told() -> None:
    whole = page({}, {})
    cut = whole.rstrip("\n").rpartition(",")[0]
    kernels, problems = parse_csv(cut, "ncu.csv")
    assert len(kernels) == 1 and [problem.line for problem in problems] == [5]
    nothing, (problem,) = parse_csv("a,b\n1,2\n", "x.csv")
    assert not nothing and "no CSV of ncu's raw page" in problem.message
    (empty,), _ = parse_csv(page({name: "n/a" for name in METRICS if "." in name}), "ncu.csv")
    assert (empty.ms, empty.throughput, empty.stalls) == (None, {}, {})


def test_a_report_without_its_package_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "a.ncu-rep"
    report.write_bytes(b"NVR")
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    with pytest.raises(InspectorError, match="pip install ncu-report"):
        read_ncu(report)
    with pytest.raises(InspectorError, match="no such file"):
        read_ncu(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("a,b\n")
    with pytest.raises(InspectorError, match="--page raw --csv"):
        read_ncu(tmp_path / "c.csv")


class Metric:
    """As the package has it: a value, and of sampled ones a value at each address."""

    def __init__(self, value: Any, unit: str = "", at: dict[int, int] | None = None) -> None:
        self._value, self._unit, self._at = value, unit, at or {}

    def value(self) -> Any:
        return self._value

    def unit(self) -> str:
        return self._unit

    def has_correlation_ids(self) -> bool:
        return bool(self._at)

    def correlation_ids(self) -> Metric:
        return Metric(None, at=dict(enumerate(self._at)))

    def num_instances(self) -> int:
        return len(self._at)

    def as_uint64(self, number: int) -> int:
        return list(self._at.values())[number]


def test_a_report_has_samples_at_its_instructions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = {
        "gpu__time_duration.sum": Metric(2112.0, "ns"),
        "launch__grid_dim_x": Metric(81),
        "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio": Metric(2.0),
        "inst_executed": Metric(4, at={0x7EF0: 1, 0x7F00: 1}),
        "smsp__pcsamp_warps_issue_stalled_wait": Metric(9, at={0x7F00: 4, 0x7F10: 5}),
        "smsp__pcsamp_warps_issue_stalled_barrier": Metric(2, at={0x7F10: 2}),
        "smsp__pcsamp_warps_issue_stalled_wait_not_issued": Metric(9, at={0x7F00: 4}),
    }
    action = SimpleNamespace(name=lambda: NAME, metric_names=lambda: metrics, metric_by_name=metrics.get)
    part = SimpleNamespace(num_actions=lambda: 1, action_by_idx=lambda number: action)
    context = SimpleNamespace(num_ranges=lambda: 1, range_by_idx=lambda number: part)
    package = SimpleNamespace(load_report=lambda path: context)
    monkeypatch.setitem(sys.modules, "ncu_report", package)
    (tmp_path / "a.ncu-rep").write_bytes(b"NVR")
    (kernel,), _ = read_ncu(tmp_path / "a.ncu-rep")
    assert (kernel.name, kernel.blocks, kernel.ms) == (NAME, 81, pytest.approx(2.112e-3))
    assert kernel.stalls == {"wait": 1.0} and kernel.samples == ((0x10, 4), (0x20, 7))


def test_a_report_stays_with_its_run_and_is_shown(staged: Path, tmp_path: Path) -> None:
    run = tmp_path / "a.run"
    shutil.copytree(staged / "infer-default.run", run)
    report = tmp_path / "ncu.csv"
    report.write_text(page({}, {"Grid Size": "(7, 1, 1)"}, {"Kernel Name": "ampere_sgemm_128x64_nn"}))
    done = CliRunner().invoke(cli, ["explain", str(run), "--ncu", str(report)])
    assert done.exit_code == 0, done.output
    assert "1 launch of 3 of kernels that this run did not generate" in done.stderr
    assert f"2 launches of {NAME}; by instruction: inspector lower" in done.stderr
    kept, problems = load_ncu(Run.open(run))
    assert not problems and [kernel.name for kernel in kept] == [NAME, NAME]
    shown = CliRunner().invoke(cli, ["lower", str(run), "--kernel", NAME]).stdout
    assert "60 % waiting for device memory" in shown and "longest of 2 launches" in shown
    # Of a neighbour nothing was measured.
    other = CliRunner().invoke(cli, ["lower", str(run), "--kernel", "triton_poi_fused__to_copy_0"])
    assert "ttgir" in other.stdout and "device memory" not in other.stdout
    (run / "ncu" / "ncu.json").write_text('[{"name": 3}]')
    assert load_ncu(Run.open(run))[1][0].path.endswith("ncu.json")


def test_of_a_launch_those_with_as_many_blocks_count(staged: Path) -> None:
    run = Run.open(staged / "infer-default.run")
    item = next(item for item in Lowered(run).kernels(run.graphs[0]) if item.kernel.name == NAME)
    code = run.graphs[0].code()
    assert code is not None
    call = next(call for call in code.calls if call.kernel == NAME)
    given = [each.name for each in item.kernel.parameters if each.type != "constexpr"]
    extent = int(call.arguments[given.index("xnumel")])
    same, other = (NcuKernel(NAME, (-(-extent // size), 1, 1), ms=1.0) for size in (128, 512))
    lowered = Lowered(run, reports=(same, other))
    seen = lowered.launch(run.graphs[0].ident, call.index)
    assert seen is not None and seen.ncu == (same,)


def test_samples_stand_at_their_instructions(tmp_path: Path) -> None:
    root = Path(__file__).parent / "data" / "planted-h200.tar.xz"
    run = Run.open(unpacked(root, tmp_path) / "planted.run")
    item = next(item for graph in run.graphs for item in Lowered(run).kernels(graph) if item.stage("sass"))
    seen = NcuKernel(item.kernel.name, (1,), samples=((0x10, 3), (0x30, 1)))
    sass = documents(replace(item, ncu=(seen,)))["sass"]
    told = {sass.lines[row].split()[0]: note for row, note in sass.notes.items() if "samples" in note}
    assert {place: note.split("← ")[-1].split(" of")[0][-4:] for place, note in told.items()} == {
        "/*0010*/": "75 %",
        "/*0030*/": "25 %",
    }
