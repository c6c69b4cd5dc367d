"""The recorder inside captured programs: a torch that costs nothing first, then the real one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from capturing import captured, own_folder, script  # noqa: F401

from inspector.analysis.linkage import link_graph
from inspector.readers.run import Run

# -- with a scheduler that costs nothing

SCHEDULER = """
class V:
    class graph:
        sizevars = None
        graph_inputs = {}
    class debug:
        _path = "/x/run_1-pid_7/torchinductor/model__0_inference_0.0"

class Node:
    read_writes = type("", (), {"reads": set(), "writes": set()})
    def __init__(self, name):
        self.name = name
    def get_name(self):
        return self.name
    def get_nodes(self):
        return [self]
    def get_outputs(self):
        return []
    def used_buffer_names(self):
        return {"x"}

class WhyNoFuse:
    def __init__(self, node1, node2):
        self.node1, self.node2 = node1, node2
    def __call__(self, reason, *args):
        pass

class Scheduler:
    def __init__(self, nodes):
        self.nodes = self.fuse_nodes(nodes)
    def fuse_nodes(self, nodes):
        self.fuse_nodes_once(nodes)
        return nodes
    def fuse_nodes_once(self, nodes):
        return self.can_fuse(*nodes)
    def can_fuse(self, node1, node2):
        WhyNoFuse(node1, node2)("%s of %s", "none", "them")
        return False
"""


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "torch/__init__.py": "",
        "torch/version.py": "__version__ = '2.13.0'\n",
        "torch/_inductor/__init__.py": "",
        "torch/_inductor/scheduler.py": SCHEDULER,
    }.items():
        path = Path("fake", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", f"{Path('fake').absolute()}:{Path.cwd()}")


COMPILES = """
    import torch._inductor.scheduler as scheduler
    scheduler.Scheduler([scheduler.Node("op0"), scheduler.Node("op1")])
"""
CHILD = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'inner'], check=True)"


@pytest.mark.usefixtures("fake_torch")
@pytest.mark.parametrize(
    "words", [("program.py",), ("-m", "inner"), ("outer.py",)], ids=["script", "-m", "child"]
)
def test_scripts_modules_and_child_processes_are_recorded(words: tuple[str, ...]) -> None:
    script(COMPILES)
    script(COMPILES, "inner.py")
    script(CHILD, "outer.py")
    assert captured(*words).exit_code == 0
    (record,) = Run.open("run").records
    assert "Scheduler.unfusable_node" in record.missing
    (graph,) = record.graphs
    assert (graph.graph, graph.process) == ("model__0_inference_0.0", "run_1-pid_7")
    (decision,) = graph.decisions
    assert (decision.first, decision.second, decision.reason) == ("op0", "op1", "none of them")
    assert not Path("run/logs/recorder.log").exists()


@pytest.mark.usefixtures("fake_torch")
def test_no_record_switches_it_off() -> None:
    captured(script(COMPILES), record=False)
    assert not Path("run/record").exists()
    assert not Path("run/logs/bootstrap.log").exists()


@pytest.mark.usefixtures("fake_torch")
def test_a_scheduler_unlike_any_other_leaves_the_program_alone() -> None:
    Path("fake/torch/_inductor/scheduler.py").write_text("answer = 42\n")
    outcome = captured(script("import torch._inductor.scheduler as s; raise SystemExit(s.answer)"))
    assert outcome.exit_code == 42
    assert "fault in install torch._inductor.scheduler" in Path("run/logs/recorder.log").read_text()


@pytest.mark.usefixtures("fake_torch")
def test_what_the_record_lacks_is_said() -> None:
    folder = "run/torch_compile_debug/run_1-pid_7/torchinductor/model__0_inference_0.0"
    program = script(f"import os, sys; os.makedirs({folder!r}); " + COMPILES.replace("\n    ", "\n"))
    command = (sys.executable, "-E", program)
    notes = captured(*command, save_inputs=1).notes[-2:]
    assert "no record of fusion decisions: the interpreter ignores PYTHONPATH" in notes[0]
    assert "no inputs were saved" in notes[1]


# -- with torch itself


@pytest.mark.slow
def test_the_record_has_all_that_the_log_has_and_more(fusion_cases: Path) -> None:
    assert not (fusion_cases / "logs" / "recorder.log").exists()
    run = Run.open(fusion_cases)
    graphs = run.graphs[-3:]
    assert [graph.phase for graph in graphs] == ["inference", "forward", "backward"]
    for graph in graphs:
        log, record = graph.fusion(), graph.record()
        assert log is not None
        assert record is not None
        recorded = {(item.first, item.second, item.round): item for item in record.decisions}
        assert len(recorded) == len(record.decisions) > len(log.decisions) > 0
        for decision in log.decisions:
            same = recorded[decision.first, decision.second, decision.round]
            assert same.verdict == decision.verdict
            assert decision.reason in (same.reason, *(same.evidence.reasons or ()))
        assert [len(item.nodes) for item in record.rounds[: len(log.rounds)]] == [
            item.nodes_before or len(record.rounds[index].nodes) for index, item in enumerate(log.rounds)
        ]
        assert any(item.evidence.score for item in record.decisions if item.verdict == "fused")
        assert {item.name for item in record.buffers} >= {
            buffer.name for node in graph.artifacts().pre.leaves() for buffer in node.outputs  # type: ignore[union-attr]
        }  # fmt: skip
        here = [item for item in record.buffers if item.stack]
        assert here and all(item.stack[-1].path.endswith("program.py") for item in here)
        evidence = {kind for link in link_graph(graph.artifacts()).calls for kind in link.fx_evidence}
        assert evidence


HOOKS = {
    "Scheduler.__init__", "Scheduler.fuse_nodes", "Scheduler.fuse_nodes_once", "Scheduler.can_fuse",
    "Scheduler.unfusable_node", "Scheduler.get_possible_fusions", "Scheduler.score_fusion_key",
    "Scheduler.score_fusion_memory", "Scheduler.will_fusion_create_cycle", "Scheduler.speedup_by_fusion",
    "Scheduler.fuse_two_nodes", "WhyNoFuse.__call__", "CompiledFxGraph.__init__/inputs",
    "CompiledFxGraph.__call__/inputs",
}  # fmt: skip
"""Those that torch calls for a graph on the CPU; the others measure on a GPU."""

FAULTS = """
    import sys
    import torch
    import torch._inductor.scheduler
    from inspector_recorder import guard

    torch._inductor.config.force_disable_caches = True
    hurt, run = {"name": ""}, guard.Guard.run
    def faulty(self, function, *args, **kwargs):
        if self.name == hurt["name"] and self.calls % hurt["every"] == 0:
            function = lambda *args, **kwargs: 1 // 0
        self.calls += 1
        return run(self, function, *args, **kwargs)
    guard.Guard.calls = 0
    guard.FAULT_LIMIT = 1_000_000
    guard.Guard.run = faulty

    def f(x, y):
        z = torch.softmax(x @ y, 1)
        return z, (z * 2).sum(0)
    def summed(function):
        out = function(torch.eye(8), torch.eye(8))
        return [round(tensor.sum().item(), 3) for tensor in out]
    for every in (2, 1):
        for name in HOOKS:
            hurt.update(name=name, every=every)
            torch._dynamo.reset()
            print(name, every, summed(torch.compile(f)) == summed(f))
    sys.exit(7)
""".replace("HOOKS", repr(sorted(HOOKS)))


@pytest.mark.slow
def test_faults_at_every_hook_change_neither_output_nor_exit_code() -> None:
    driver = (
        "import sys; from pathlib import Path; from inspector.capture.environment import CaptureOptions\n"
        "from inspector.capture.launch import capture\n"
        "options = CaptureOptions(command=(sys.argv[1],), out=Path('run'), save_inputs=1 << 20)\n"
        "sys.exit(capture(options).exit_code)"
    )
    hurt = subprocess.run([sys.executable, "-c", driver, script(FAULTS)], capture_output=True, text=True)
    assert hurt.stdout.splitlines() == [f"{name} {every} True" for every in (2, 1) for name in sorted(HOOKS)]
    assert hurt.returncode == 7
    assert "Traceback" not in hurt.stderr
    log = Path("run/logs/recorder.log").read_text()
    faults = {line.split()[3] for line in log.splitlines() if " fault in " in line}
    assert faults == HOOKS
    assert "the recorder failed" in hurt.stderr
