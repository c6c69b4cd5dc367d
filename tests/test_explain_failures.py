"""What failed comes first: programs that died, compilations that failed, frames that stay in eager."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from explaining import explained
from sharing import unpacked

from inspector.explain import failures
from inspector.explain.engine import explain_case
from inspector.explain.gather import gather
from inspector.explain.program import read_program
from inspector.explain.rules import compile_failed, graph_breaks
from inspector.gates.judge import Evidence
from inspector.model.calls import Event
from inspector.model.explain import Trial
from inspector.model.logs import GraphBreak
from inspector.model.source import SourceLocation
from inspector.present import summary
from inspector.readers.failures import parse_torchs, parse_traceback
from inspector.readers.run import Run

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures with torch 2.13 on a CPU: `a_raise` calls graph_break() under fullgraph=True, `b_dies` at its
    seventh batch, `c_lstm` (with a baseline) compiles an LSTM, `d_suppress` and `e_lower` use an operator
    without a fake implementation, the first with suppress_errors."""
    return unpacked(DATA / "failed-runs.tar.xz", tmp_path_factory.mktemp("failed")) / "failed"


@pytest.mark.parametrize(
    ("run", "rule", "place", "words"),
    [
        ("a_raise", "compile_failed", "a_raise.py:10", "compiling forward failed (a_raise.py:10), and the"),
        ("b_dies", "program_failed", "b_dies.py:17", "RuntimeError: The size of tensor a (32) must match"),
        ("c_lstm", "compile_failed", "c_lstm.py:10", "Attempted to wrap RNN, GRU, or LSTM; 99 % of a call"),
        ("d_suppress", "compile_failed", "d_suppress.py:10", "price runs in eager (d_suppress.py:10), as"),
        ("e_lower", "compile_failed", "e_lower.py:8", "RuntimeError: There was no fake impl registered for"),
    ],
)
def test_what_failed_comes_first_with_its_line(
    failed: Path, run: str, rule: str, place: str, words: str
) -> None:
    explanation = explained(failed / f"{run}.run")
    first = explanation.findings[0]
    assert (first.rule, first.severity) == (rule, "high")
    assert words in first.title and first.title[1:] in explanation.verdict
    assert f"{first.evidence[0].path}:{first.evidence[0].line}".endswith(place)
    # Of one cause one finding, and no word on what a run that ended early would have cost.
    others = [finding.rule for finding in explanation.findings[1:]]
    assert not {"program_failed", "eager_in_disguise", "graph_breaks"}.intersection(others)
    assert ("compile_cost_not_amortized" in others) == (run == "d_suppress")


def test_an_rnn_that_stays_eager_names_its_operator_and_torchs_switch(failed: Path) -> None:
    first = explained(failed / "c_lstm.run").findings[0]
    assert "operators outside of graphs, aten::lstm 268 ms" in first.title
    assert "allow_rnn=True" in first.advice
    assert first.trial is not None and first.trial.config == (("dynamo.allow_rnn", True),)


def test_a_break_says_what_runs_between_the_pieces_where_that_is_most_of_a_call(failed: Path) -> None:
    """Beside it a finding that costs calls little is no quiet one."""
    case = gather(Run.open(failed / "c_lstm.run"))
    place = SourceLocation("c_lstm.py", 10)
    broken = GraphBreak(place, "Attempted to wrap RNN, GRU, or LSTM", (place,), "1/0", False, 1, "")
    case = replace(case, facts=replace(case.facts, given_up=(), graph_breaks=(broken,)), events=())
    (told,) = graph_breaks.find(case)
    assert told.title.endswith("LSTM; 99 % of a call is operators outside of graphs, aten::lstm 268 ms")
    assert told.severity == "medium"
    assert case.sides is not None
    inside = tuple(replace(block, place="graph") for block in case.sides.joined.blocks)
    joined = replace(case.sides.joined, blocks=inside)
    (told,) = graph_breaks.find(replace(case, sides=replace(case.sides, joined=joined)))
    assert "of a call" not in told.title and told.severity == "low"


def test_breaks_that_torch_asks_for_stand_behind_the_programs_own(failed: Path) -> None:
    """Around an optimizer's step there is nothing to take out of the program."""
    case = gather(Run.open(failed / "c_lstm.run"))
    step, line = SourceLocation("c_lstm.py", 11), SourceLocation("c_lstm.py", 10)
    torchs = SourceLocation("/x/site-packages/torch/optim/optimizer.py", 79)
    asked = GraphBreak(torchs, "Call to `torch._dynamo.graph_break()`", (step, torchs), "1/0", False, 1, "")
    own = replace(asked, location=line, frames=(line,), reason="Unsupported Tensor.backward() call")
    case = replace(case, facts=replace(case.facts, given_up=(), graph_breaks=(asked, asked, own)), events=())
    (told,) = graph_breaks.find(case)
    assert "at c_lstm.py:10" in told.title and "Unsupported Tensor.backward() call" in told.title
    (told,) = graph_breaks.find(replace(case, facts=replace(case.facts, graph_breaks=(asked,))))
    assert told.advice.startswith("nothing here: torch breaks its graphs there on purpose")
    mine = replace(asked, location=line, frames=(line,))
    (told,) = graph_breaks.find(replace(case, facts=replace(case.facts, graph_breaks=(mine,))))
    assert told.advice == "remove the call of torch._dynamo.graph_break()"


def test_what_all_frames_run_in_eager_is_said_of_the_first(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = gather(Run.open(failed / "c_lstm.run"))
    (item,) = failures.compile_failures(case)
    monkeypatch.setattr(compile_failed, "compile_failures", lambda case: [item, replace(item, frame="other")])
    first, second = compile_failed.find(case)
    assert "of a call is operators outside of graphs" in first.title
    assert "runs in eager" in second.title and "of a call" not in second.title


def test_a_break_in_a_loop_says_what_it_costs_and_what_a_loop_calls_is_none(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Photons of which some are done: the whole `while` stays in eager for one line."""
    text = "def trace(x):\n    while x.numel():\n        if done.any():\n            break\n    return x\n"
    case = gather(Run.open(failed / "c_lstm.run"))
    (item,) = failures.compile_failures(case)
    said = "Data-dependent branching\n\ngraph break in loop\n  Explanation: Skipping the frame"
    for line, of_loop in ((3, True), (2, True), (5, False)):
        place = SourceLocation("orbit.py", line)
        failure = replace(
            item.failure, error="Data-dependent branching", place=place, hint="it is fundamental"
        )
        own = replace(item, failure=failure, text=said, users=None)
        monkeypatch.setattr(compile_failed, "compile_failures", lambda case, own=own: [own])
        (told,) = compile_failed.find(replace(case, programs=(read_program(text, "work/orbit.py"),)))
        assert told.advice.startswith("a break inside of a loop" if of_loop else "torch's hint: it is fund")


SCALAR = "Unsupported Tensor.item() call with capture_scalar_outputs=False"


@pytest.mark.parametrize(
    ("line", "after", "decides"),
    [
        ("if int(x.sum()) == 0:", "    return x", True),
        ("while x.max().item() > 1:", "    x = x / 2", True),
        ("left = int(x.sum())", "if left == 0:\n        return x", True),
        ("left = int(x.sum())", "x = x * left", False),
        ("scale = x.max().item()", "x = x / scale\n\ndef other(scale):\n    if scale:\n        pass", False),
    ],
)
def test_a_number_that_a_condition_has_is_none_to_capture(
    failed: Path, monkeypatch: pytest.MonkeyPatch, line: str, after: str, decides: bool
) -> None:
    """A sandpile that is still where nothing spills: captured, the number breaks the graph at the `if`."""
    program = read_program(f"def relax(x):\n    {line}\n    {after}\n    return x\n", "work/pile.py")
    case = replace(gather(Run.open(failed / "c_lstm.run")), programs=(program,))
    (item,) = failures.compile_failures(case)
    place = SourceLocation("work/pile.py", 2, "relax")
    hint = "Set `torch._dynamo.config.capture_scalar_outputs = True`"
    own = replace(
        item, failure=replace(item.failure, error=SCALAR, place=place, hint=hint), text="", users=None
    )
    monkeypatch.setattr(compile_failed, "compile_failures", lambda case: [own])
    (told,) = compile_failed.find(case)
    assert (told.trial is None) == ("capture_scalar" not in told.advice) == decides
    broken = GraphBreak(place, SCALAR, (place,), "1/0", False, 1, "")
    facts = replace(case.facts, given_up=(), graph_breaks=(broken,))
    monkeypatch.setattr(graph_breaks, "compile_failures", lambda case: [])
    (told,) = graph_breaks.find(replace(case, facts=facts))
    assert (told.trial is None) == ("torch.where" in told.advice) == decides


def test_what_was_compiled_for_fixed_sizes_is_to_be_compiled_for_each(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A detector of photos: the third size compiles with symbols, and torch fails at a convolution's."""
    case = gather(Run.open(failed / "e_lower.run"))
    (item,) = failures.compile_failures(case)
    own = replace(
        item, failure=replace(item.failure, error="LoweringException: ValueRangeError"), failed=True
    )
    monkeypatch.setattr(compile_failed, "compile_failures", lambda case: [own])
    reasons = {
        "0/0: tensor 'img' size mismatch at index 3. expected 320, actual 256": True,
        "0/0: n == 3": False,
    }
    for reason, sized in reasons.items():
        again = Event("recompile", reason, item.frame, None, 1)
        (told,) = compile_failed.find(replace(case, events=(again,)))
        assert (told.trial == Trial(dynamic=False)) == told.advice.startswith("for fixed sizes") == sized
    other = Event("recompile", next(iter(reasons)), "another", None, 1)
    (told,) = compile_failed.find(replace(case, events=(other,)))
    assert told.trial is None


def test_a_break_that_leaves_a_loop_in_eager_is_told_once(
    failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function that the loop is in is given up for a line of it that breaks what it calls as well."""
    text = "def trace(x):\n    while x.numel():\n        x = step(x)\n    return x\n"
    case = gather(Run.open(failed / "c_lstm.run"))
    (item,) = failures.compile_failures(case)
    place = SourceLocation("work/orbit.py", 3, "trace")
    own = replace(item, failure=replace(item.failure, place=place), text="graph break in loop", users=None)
    monkeypatch.setattr(graph_breaks, "compile_failures", lambda case: [own])
    given_up = replace(case.facts.given_up[0], compile_id="0/0")
    broken = replace(given_up, location=place, frames=(place,), compile_id="1/0", reason="a break")
    facts = replace(case.facts, given_up=(given_up,), graph_breaks=(broken,))
    told = replace(case, facts=facts, programs=(read_program(text, "work/orbit.py"),))
    assert not list(graph_breaks.find(told))
    outside = text.replace("while", "if")
    (finding,) = graph_breaks.find(replace(told, programs=(read_program(outside, "work/orbit.py"),)))
    assert finding.title.startswith("1 graph break")


def test_where_nothing_was_compiled_first_calls_are_not_called_compiling(
    failed: Path, tmp_path: Path
) -> None:
    shutil.copytree(failed / "c_lstm.run", tmp_path / "run", ignore=shutil.ignore_patterns("baseline"))
    case = gather(Run.open(tmp_path / "run"))
    assert (case.compile_s, case.compile_source) == (None, None) and (case.times.cold_ms or 0.0) > 1000


def test_torchs_log_says_it_too_where_nothing_was_recorded(failed: Path) -> None:
    case = gather(Run.open(failed / "c_lstm.run"))
    first = explain_case(replace(case, events=())).findings[0]
    assert first.rule == "compile_failed" and "Attempted to wrap RNN" in first.title


def test_a_frame_that_is_given_up_is_no_graph_break_as_in_torchs_own_count(failed: Path) -> None:
    run = Run.open(failed / "c_lstm.run")
    evidence, facts = Evidence(run), run.facts()
    assert (len(facts.graph_breaks), [item.headline for item in facts.given_up]) == (
        0,
        ["Attempted to wrap RNN, GRU, or LSTM"],
    )
    told = [item.text for item in summary.lines(evidence.summary, 100)]
    assert "graph breaks: 0   recompiles: 0" in told
    assert sum("Attempted to wrap RNN" in line and "runs in eager" in line for line in told) == 1
    assert evidence.breaks, "a budget of no graph breaks does not pass it"


def test_a_program_that_caught_its_compilations_error_did_not_die_of_it(failed: Path) -> None:
    case = gather(Run.open(failed / "a_raise.run"))
    assert case.failure is not None and case.facts.manifest is not None
    done = replace(case.facts, manifest=replace(case.facts.manifest, status="done", exit_code=0))
    (first, *_) = explain_case(replace(case, facts=done, failure=None)).findings
    assert "which the program caught" in first.title
    other = replace(case.failure, error="KeyError: 'lr'")
    told = [finding.title for finding in explain_case(replace(case, failure=other)).findings]
    assert any("the program died at" in title and "KeyError: 'lr'" in title for title in told), told
    assert any("which the program caught" in title for title in told)


def test_a_break_that_splits_a_frame_did_not_fail(corpus: Path) -> None:
    case = gather(Run.open(corpus / "cpu-torch2.13" / "breaks"))
    facts = case.facts
    assert facts.graph_breaks and not any(broken.gave_up for broken in facts.graph_breaks)
    assert len(failures.compile_failures(case)) == len(facts.given_up)


def test_the_last_traceback_that_is_no_launchers() -> None:
    text = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/home/user/train.py", line 7, in step\n'
        "[rank1]:     loss = model(x)\n"
        '[rank1]:   File "/usr/lib/site-packages/torch/nn/modules/module.py", line 1778, in _call\n'
        "[rank1]:     return forward(x)\n"
        "[rank1]: torch.OutOfMemoryError: CUDA out of memory.\n"
        "Traceback (most recent call last):\n"
        '  File "/usr/bin/torchrun", line 8, in <module>\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    )
    died = parse_traceback(text, "logs/stderr.txt")
    assert died is not None and died.error == "torch.OutOfMemoryError: CUDA out of memory."
    assert died.place is not None and died.place.short == "train.py:7" and died.line == 6
    assert parse_traceback("Killed\n") is None


@pytest.mark.parametrize(
    ("reason", "error", "hint"),
    [
        (
            "call_function BuiltinVariable(print) [ConstantVariable(str)] {}\n\nfrom user code:\n",
            "call_function BuiltinVariable(print) [ConstantVariable(str)] {}",
            "",
        ),
        (
            "BackendCompilerFailed: backend='mine' raised:\nRuntimeError: not supported\n\nSet TORCH_LOGS",
            "BackendCompilerFailed: backend='mine' raised: RuntimeError: not supported",
            "",
        ),
        (
            "Failed to handle graph break gracefully. Skipping the function.\n\nUnsupported context\n"
            "  Hint: It may be possible to write Dynamo tracing rules. Please report an issue to PyTorch\n"
            "  Hint: Remove the call.\n",
            "Unsupported context",
            "Remove the call.",
        ),
    ],
)
def test_torchs_words_of_several_versions(reason: str, error: str, hint: str) -> None:
    place = SourceLocation("/home/user/a.py", 3)
    told = parse_torchs(reason, place)
    assert (told.error, told.hint, told.place) == (error, hint, place)


def test_breaks_are_not_advised_where_they_are_allowed() -> None:
    hints = "  Hint: Consider using fullgraph=False to allow graph breaks.\n  Hint: Move it outside.\n"
    told = [
        parse_torchs(f"Attempted to wrap sparse Tensor\n{hints}", None, raised) for raised in (False, True)
    ]
    assert [item.hint for item in told] == [
        "Move it outside.",
        "Consider using fullgraph=False to allow graph breaks.",
    ]
