"""Calls and events of real programs: what the recorder sees, the baseline, and faults of our own."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capturing import captured, own_folder, script  # noqa: F401
from click.testing import CliRunner

from inspector.analysis.calls import pay_off
from inspector.capture.recorder.handle import handle_of
from inspector.cli import cli
from inspector.model.calls import ProcessCalls
from inspector.readers.run import Run

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow


def calls(path: str = "run") -> ProcessCalls:
    (process,) = Run.open(path).variants[0].processes
    return process


def summary(path: str = "run") -> str:
    result = CliRunner().invoke(cli, ["summary", path])
    assert result.exit_code == 0, result.output
    return result.output


BREAKS = """
    import torch
    def loop(x):
        for _ in range(2):
            x = torch.relu(x) + 1
            print("in the loop", x.sum().item())
        return x
    def broken(x):
        x = torch.sin(x)
        print("a break")
        return x * 2
    @torch.compile(backend="eager")
    def sized(x, number):
        return x * number
    @torch.compile(backend="eager", fullgraph=True, mode=None)
    def whole(x):
        return inner(x) + 1
    inner = torch.compile(lambda x: x - 1, backend="eager")
    loop, broken = torch.compile(loop, backend="eager"), torch.compile(broken, backend="eager")
    for turn in range(4):
        loop(torch.ones(3))
        broken(torch.ones(3))
        whole(torch.ones(3))
    try:
        whole("no tensor")
    except Exception:
        print("raised")
    for number in (2, 3.0, 4):
        sized(torch.ones(3), number)
"""


def test_calls_breaks_given_up_frames_and_recompiles() -> None:
    assert captured(script(BREAKS)).exit_code == 0
    assert not Path("run/logs/recorder.log").exists()
    seen = calls()
    named = {item.name: item for item in seen.callables}
    assert list(named) == ["sized", "whole", "<lambda>", "loop", "broken"]
    assert {name: item.calls for name, item in named.items()} == {
        "sized": 3, "whole": 4, "<lambda>": 0, "loop": 4, "broken": 4,
    }  # fmt: skip
    lines = Path("program.py").read_text().splitlines()
    for name, text in (("sized", '@torch.compile(backend="eager")'), ("loop", "loop, broken = ")):
        location = named[name].location
        assert location is not None and location.path.endswith("program.py")
        # Python before 3.12 gives a decorator's line, later the function's.
        assert lines[location.line - 1].startswith((text, f"def {name}"))
    assert {item.backend for item in seen.callables} == {"eager"}
    for name in ("whole", "loop", "broken"):
        item = named[name]
        assert (len(item.cold_ms), item.cold_index, len(item.steady_ms)) == (1, (0,), 3)
        assert item.first_ms == item.cold_ms[0] and item.device == "cpu"
        assert item.total_ms == pytest.approx(sum((*item.cold_ms, *item.steady_ms)))
    assert named["sized"].cold_index[:2] == (0, 1), "a recompile is a cold call"
    assert named["sized"].setup_ms > 0 or named["whole"].setup_ms > 0

    span = seen.steady_span
    assert span is not None and 0 <= span.inside_ms <= span.span_ms < seen.callables[0].total_ms

    events = {event.kind: event for event in seen.events}
    assert (events["graph_break"].frame, events["skipped_frame"].frame) == ("broken", "loop")
    assert lines[events["skipped_frame"].location.line - 1].strip().startswith("print")  # type: ignore[union-attr]
    assert "item" in events["skipped_frame"].reason
    assert lines[events["graph_break"].location.line - 1].strip() == 'print("a break")'  # type: ignore[union-attr]
    (raised,) = [event for event in seen.events if event.kind == "compile_error"]
    assert (raised.frame, raised.raised) == ("whole", True)
    recompiles = [event for event in seen.events if event.kind == "recompile" and event.frame == "sized"]
    assert recompiles and "number" in recompiles[0].reason
    assert seen.counter("stats.unique_graphs")
    shown = summary()
    assert shown.startswith('nothing was compiled by Inductor: the backend is "eager" (program.py:')
    assert "runs in eager  loop (program.py:6)" in shown


TRAINING = """
    import torch
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
        def forward(self, x):
            return torch.relu(self.inner(x))
        def encode(self, x):
            return self.forward(x) + 1
    torch.manual_seed(0)
    net, place = Net(), Net()
    compiled, encode = torch.compile(net, backend="aot_eager"), torch.compile(net.encode, backend="aot_eager")
    place.compile(backend="aot_eager")
    for _ in range(5):
        (compiled(torch.ones(2, 4)) + place(torch.ones(2, 4))).sum().backward()
    net.eval()
    with torch.no_grad():
        for _ in range(3):
            encode(torch.ones(2, 4))
            net(torch.ones(2, 4))  # is no call of what was compiled, in eager neither
    print(sum(parameter.grad.sum().item() for parameter in net.parameters()))
"""


def test_modules_methods_and_backward_passes_in_all_variants() -> None:
    outcome = captured(script(TRAINING), baseline=True, profile=False)
    assert outcome.exit_code == 0 and not any("baseline" in note for note in outcome.notes)
    assert set(outcome.manifest.baseline) == {"compiled", "eager"}
    printed = [Path(f"run/baseline/{name}/stdout.txt").read_text() for name in ("compiled", "eager")]
    assert printed[0] == printed[1]
    variants = Run.open("run").variants
    assert [variant.variant for variant in variants] == ["captured", "compiled", "eager"]
    for variant in variants:
        assert variant.exit_code == 0 and variant.wall_s > 0 and variant.problems == ()
        (process,) = variant.processes
        found = {(item.kind, item.name, item.order): item for item in process.callables}
        assert list(found) == [
            ("call", "Net", 0), ("call", "Net.encode", 1), ("call", "Net", 2), ("backward", "backward", 0),
        ]  # fmt: skip
        assert [item.calls for item in found.values()] == [5, 3, 5, 5]
        assert [item.grad for item in found.values()] == [True, False, True, None]
        assert [item.training for item in found.values()] == [True, False, True, None]
        trained = (("with gradients", "training", "2x4"),)
        assert [item.sizes for item in found.values()] == [
            trained, (("without gradients", "eval", "2x4"),), trained, trained,
        ]  # fmt: skip
        assert [set(item.steady_sizes) for item in found.values()] == [{0}] * 4
        assert (process.disabled is not None) == (variant.variant == "eager")
        assert (process.counter("stats.unique_graphs") is None) == (variant.variant == "eager")
    assert not Path("run/baseline/compiled/torch_compile_debug").exists()
    assert not Path("run/profile").exists()
    assert "profile" not in outcome.manifest.baseline["compiled"]
    result = pay_off(variants)
    assert [item.eager is not None for item in result.callables] == [True] * 4
    shown = json.loads(CliRunner().invoke(cli, ["summary", "run", "--json"]).output)
    assert shown["baseline"]["ratio"] > 0 and len(shown["calls"]) == 4


UPDATE = """
    import torch
    from torch import nn
    net = nn.Linear(4, 4)
    @torch.compile(backend="eager")
    @torch.no_grad()
    def update(parameters, gradients):
        for parameter, gradient in zip(parameters, gradients):
            parameter.sub_(0.1 * gradient)
    for _ in range(5):
        net.zero_grad()
        net(torch.ones(2, 4)).square().sum().backward()
        update(list(net.parameters()), [parameter.grad for parameter in net.parameters()])
"""


def test_a_backward_pass_is_of_no_call_that_gave_nothing_with_gradients() -> None:
    """As of an optimizer's update, with gradients on around it."""
    outcome = captured(script(UPDATE), baseline=False, profile=False)
    assert outcome.exit_code == 0
    assert [(item.kind, item.name, item.calls) for item in calls().callables] == [("call", "update", 5)]


def test_in_eager_a_handle_shares_all_but_the_calls_of_its_module() -> None:
    import torch
    from torch import nn

    class Net(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 1

    called: list[str] = []

    def timed(call: Any) -> Any:
        def counted(*args: Any) -> Any:
            called.append("call")
            return call(*args)

        return counted

    net = Net(3, 3)
    handle = handle_of(net, timed)
    assert handle is not net and isinstance(handle, Net) and handle.__class__ is Net
    assert repr(type(handle)) == repr(Net) and repr(handle) == repr(net)
    ones = torch.ones(2, 3)
    assert torch.equal(handle(ones), net(ones)) and called == ["call"]
    handle.eval()
    handle.double().scale = 2
    assert not net.training and net.weight.dtype == torch.float64 and net.scale == 2
    net.register_forward_hook(lambda *_: called.append("hook"))
    handle(ones.double())
    assert called == ["call", "call", "hook"]
    copied = copy.deepcopy(handle)
    assert type(copied) is Net and copied.scale == 2
    assert list(nn.Sequential(handle).state_dict()) == ["0.weight", "0.bias"]
    assert torch.func.functional_call(handle, dict(net.named_parameters()), ones.double()).shape == (2, 3)

    class Final(nn.Linear):
        def __init_subclass__(cls) -> None:
            raise TypeError("is not derived from")

    assert handle_of(Final(3, 3), timed) is None and handle_of(nn.LazyLinear(3), timed) is None


def test_suppressed_errors_are_the_first_line_of_the_summary() -> None:
    program = script(
        """
        import torch
        def backend(graph, inputs):
            raise RuntimeError("a backend that fails")
        print(torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2)).sum().item())
        """
    )
    assert captured(program, env=(("TORCHDYNAMO_SUPPRESS_ERRORS", "1"),)).exit_code == 0
    (event,) = [event for event in calls().events if event.kind == "compile_error"]
    assert not event.raised and "a backend that fails" in event.reason
    first = summary().splitlines()[0]
    assert first.startswith("nothing was compiled: compiling failed in <lambda> (program.py:5)")
    assert "suppressed" in first and "a backend that fails" in first


@pytest.mark.parametrize(
    ("text", "variable", "said"),
    [
        ("f = torch.compile(lambda x: x + 1)\nf(torch.ones(2))", "TORCH_COMPILE_DISABLE", "DISABLE=1 is set"),
        ("torch.ones(2)", None, "the program never called torch.compile"),
        ("torch.compile(torch.sin)", None, "was never called to its end"),
    ],
)
def test_nothing_was_compiled_is_said_with_its_reason(
    text: str, variable: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv(variable, "1")
    outcome = captured(script(f"import torch\n{text}\n"))
    monkeypatch.undo()
    assert said in outcome.notes[0]
    assert summary(str(outcome.run)).splitlines()[0] == outcome.notes[0]


def test_a_killed_program_leaves_the_calls_so_far() -> None:
    program = script(
        r"""
        import glob, os, re, signal, time, torch
        f = torch.compile(lambda x: x + 1, backend="eager")
        record = os.environ["TORCH_COMPILE_DEBUG_DIR"] + "/record/*.jsonl"
        def calls_so_far():
            text = "".join(open(path).read() for path in glob.glob(record))
            return max(map(int, re.findall(r'"calls": ?(\d+)', text)), default=0)
        end = time.monotonic() + 600
        while time.monotonic() < end and calls_so_far() <= 10:
            f(torch.ones(2))
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert captured(program).exit_code == 128 + 9
    assert calls().callables[0].calls > 10


HOOKS = (
    "torch.compile", "_TorchDynamoContext.__call__", "OptimizedModule.__call__",
    "autograd._engine_run_backward", "a compiled call",
    "convert_frame._compile", "convert_frame.transform_code_object",
    "convert_frame.get_and_maybe_log_recompilation_reasons", "GraphCompileReason.__post_init__",
    "compile_fx._compile_fx_inner", "the line of calls",
)  # fmt: skip
FAULTS = """
    import sys
    import torch
    import torch._inductor.compile_fx
    from inspector_recorder import guard

    torch._inductor.config.force_disable_caches = True
    hurt, run = {"name": "the line of calls", "every": 1}, guard.Guard.run
    def faulty(self, function, *args, **kwargs):
        if self.name == hurt["name"] and self.calls % hurt["every"] == 0:
            function = lambda *args, **kwargs: 1 // 0
        self.calls += 1
        return run(self, function, *args, **kwargs)
    guard.Guard.calls = 0
    guard.FAULT_LIMIT = 1_000_000
    guard.Guard.run = faulty

    def broken(x):
        x = torch.sin(x)
        print("a break", file=sys.stderr)
        return x * 2
    def loop(x):
        for _ in range(2):
            x = x + x.sum().item()
        return x
    def sized(x, number):
        return x * number
    def answered(inductor, compile):
        torch._dynamo.reset()
        net = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.ReLU())
        torch.nn.init.ones_(net[0].weight)
        compiled = compile(net, backend="aot_eager")
        compiled(torch.ones(1, 2)).sum().backward()
        assert type(compiled) is type(net) or type(compiled).__name__ == "OptimizedModule"
        answers = [net[0].weight.grad.sum().item()]
        for function in (broken, loop):
            made = compile(function, backend="eager")
            answers += [made(torch.ones(3)).sum().item() for _ in range(2)] + [made.__name__]
        made = compile(sized, backend="eager")
        answers += [made(torch.ones(3), number).sum().item() for number in (2, 3.5, 4)]
        if inductor:
            answers.append(compile(sized)(torch.ones(3), 2).sum().item())
        return answers
    plain = [answered(inductor, lambda function, **_: function) for inductor in (False, True)]
    for every in (2, 1):
        for name in HOOKS:
            hurt.update(name=name, every=every)
            inductor = name.startswith("compile_fx")
            print(name, every, answered(inductor, torch.compile) == plain[inductor])
    hurt.update(name="the line of calls", every=1)
    sys.exit(7)
""".replace("HOOKS", repr(HOOKS))


def test_faults_at_every_hook_of_the_calls_change_neither_output_nor_exit_code() -> None:
    driver = (
        "import sys; from pathlib import Path; from inspector.capture.environment import CaptureOptions\n"
        "from inspector.capture.launch import capture\n"
        "sys.exit(capture(CaptureOptions(command=(sys.argv[1],), out=Path('run'))).exit_code)"
    )
    hurt = subprocess.run([sys.executable, "-c", driver, script(FAULTS)], capture_output=True, text=True)
    assert hurt.stdout.splitlines() == [f"{name} {every} True" for every in (2, 1) for name in HOOKS]
    assert hurt.returncode == 7
    assert "Traceback" not in hurt.stderr
    log = Path("run/logs/recorder.log").read_text()
    assert set(re.findall(r"fault in (.+?) at ", log)) == set(HOOKS)
