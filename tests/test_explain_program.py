"""What is read from the user's source: compile calls, settings, and what a clock measures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from inspector.explain.case import Case
from inspector.explain.changes import before, in_eval_mode, remove, replace_in, with_option, without_option
from inspector.explain.gather import gather
from inspector.explain.program import Program, read_program
from inspector.explain.rules import benchmark_artifact
from inspector.model.calls import Outcome
from inspector.readers.programs import program_sources
from inspector.readers.run import Run


@pytest.fixture(scope="module")
def softmax(corpus: Path) -> Case:
    return gather(Run.open(corpus / "cpu-torch2.13" / "softmax"))


def program(text: str) -> Program:
    return read_program(text, "user.py")


WARM = """
import time, torch
fast = torch.compile(model)
x = torch.randn(8)
fast(x)
start = time.perf_counter()
for _ in range(10):
    fast(x)
print(time.perf_counter() - start)
"""


def test_a_warm_region_is_no_artifact() -> None:
    (region,) = program(WARM).regions
    assert region.calls_compiled
    assert not region.includes_first_call
    assert not region.data_lines


def test_the_first_call_inside_the_clock() -> None:
    (region,) = program(WARM.replace("fast(x)\nstart", "start", 1)).regions
    assert region.includes_first_call


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('print(f"warm-up {time.perf_counter() - start:.1f} s")', True),
        ("compile_time = time.perf_counter() - start", True),
        ("took = time.perf_counter() - start\nprint('first call', took)", True),
        ("took = time.perf_counter() - start\nprint('compiled', took)", False),
        ("print(time.perf_counter() - start, 'per step')", False),
    ],
)
def test_what_the_program_calls_its_first_calls_time(line: str, named: bool) -> None:
    text = WARM.replace("fast(x)\nstart", "start", 1).replace("print(time.perf_counter() - start)", line)
    (region,) = program(text).regions
    assert region.includes_first_call
    assert region.named is named


WALK = """
import time, torch
fast = torch.compile(model)
sizes, times = torch.ones(8), []
for step in range(60):
    start = time.perf_counter()
    new = sizes * torch.exp(torch.randn_like(sizes))
    y = fast(new, sizes.clamp_min(0))
    if y.item() > 0:
        sizes = new
    made = y.cpu()
    times.append(time.perf_counter() - start)
tail = times[len(times) // 2:]
print(sum(tail) / len(tail))
"""


@pytest.mark.parametrize(
    ("test", "later"),
    [
        ("step >= 2", True),
        ("step > args.warmup", True),
        ("WARMUP <= step", True),
        ("step", True),
        ("step < 9", False),
        ("step % 10 == 9", False),
        ("y >= 2", False),
    ],
)
def test_rounds_that_are_timed_from_a_later_one_on_leave_the_first_out(test: str, later: bool) -> None:
    text = (
        "import time, torch\nfast = torch.compile(model)\nx, times = torch.ones(8), []\n"
        "for step in range(60):\n    start = time.perf_counter()\n    y = fast(x).item()\n"
        f"    if {test}:\n        times.append(time.perf_counter() - start)\n"
        "print(sum(times) / len(times))\n"
    )
    (region,) = program(text).regions
    assert region.includes_first_call and region.robust == later


@pytest.mark.parametrize(("factor", "later"), [("(step >= 30)", True), ("1000", False), ("(y > 0)", False)])
def test_a_time_that_is_multiplied_by_a_later_rounds_condition_leaves_the_first_out(
    factor: str, later: bool
) -> None:
    text = (
        "import time, torch\nfast = torch.compile(model)\nx, total = torch.ones(8), 0.0\n"
        "for step in range(60):\n    start = time.perf_counter()\n    y = fast(x).item()\n"
        f"    total += (time.perf_counter() - start) * {factor}\nprint(total / 30)\n"
    )
    (region,) = program(text).regions
    assert region.includes_first_call and region.robust == later


def test_a_list_of_which_only_the_last_time_is_told_is_a_log() -> None:
    text = (
        "import time, torch\nfast = torch.compile(model)\nx, times = torch.ones(8), []\n"
        "for step in range(60):\n    start = time.perf_counter()\n    y = fast(x).item()\n"
        "    times.append(time.perf_counter() - start)\n    print(step, times[-1], len(losses))\n"
    )
    (region,) = program(text).regions
    assert region.logged and not region.robust
    for used in ("print(sum(times))", "return times", "print(times[-1], np.mean(times[3:]))"):
        assert not program(f"{text}def tell():\n    {used}\n").regions[0].logged, used


SET_AGAIN = """\
import time, torch
net = torch.compile(torch.nn.Linear(8, 8))
last = time.time()
for step in range(40):
    loss = net(torch.ones(8)).sum()
    loss.backward()
    if step % 10 == 9:
        now = time.time()
        print(loss.item(), (now - last) / 10)
        last = now
"""


def test_a_clock_that_a_training_loop_sets_again_logs_logged() -> None:
    """Only the first of its times has the first call; a list of them all, or one clock around the loop, is
    none."""
    (region,) = program(SET_AGAIN).regions
    assert region.logged and region.includes_first_call
    direct = SET_AGAIN.replace("        last = now\n", "        last = time.time()\n")
    assert program(direct).regions[0].logged
    kept = SET_AGAIN.replace("print(loss.item(), (now - last) / 10)", "times.append(now - last)")
    assert not program(kept).regions[0].logged
    assert not program(SET_AGAIN.replace("        last = now\n", "")).regions[0].logged
    # So it does inside of what turns gradients off.
    head, loop, rest = SET_AGAIN.partition("for ")
    around = "with torch.no_grad():\n    " + (loop + rest).replace("\n", "\n    ").rstrip() + "\n"
    assert program(head + around).regions[0].logged


def test_the_whole_time_of_a_training_is_a_line_of_its_log() -> None:
    """By step, or of calls that train nothing, it is a measurement."""
    text = (
        "import time, torch\nnet = torch.compile(torch.nn.Linear(8, 8))\nt0 = time.time()\n"
        "for step in range(40):\n    loss = net(torch.ones(8)).sum()\n    loss.backward()\n"
        "print(f'done in {time.time() - t0:.1f} s')\n"
    )
    (region,) = program(text).regions
    assert region.logged and region.includes_first_call
    assert (
        not program(text.replace("{time.time() - t0:.1f} s", "{(time.time() - t0) / 40:.1f} s"))
        .regions[0]
        .logged
    )
    assert not program(text.replace("    loss.backward()\n", "")).regions[0].logged


def test_how_long_a_program_has_been_at_it_is_a_line_of_its_log() -> None:
    """By step, as a rate, or kept it is a measurement."""
    text = (
        "import time, torch\nnet = torch.compile(torch.nn.Linear(8, 8))\nt0 = time.time()\n"
        "for step in range(40):\n    x = net(torch.ones(8))\n    if step % 10 == 9:\n"
        "        print(f'{step} [{time.time() - t0:.1f} s]')\n"
    )
    assert program(text).regions[0].logged
    for other in (
        "        print((time.time() - t0) / step)\n",
        "        took = time.time() - t0\n        print(step / took)\n",
        "        times.append(time.time() - t0)\n",
    ):
        lines = text.splitlines(keepends=True)
        assert not program("".join((*lines[:-1], other))).regions[0].logged, other


def test_what_goes_on_from_an_earlier_round_is_work_and_results_are_no_data() -> None:
    """A random walk's proposal; and of the times the later half alone is used."""
    (region,) = program(WALK).regions
    assert (region.data_lines, region.transfer_lines) == ((), ()) and region.includes_first_call
    assert region.robust and not region.logged
    (region,) = program(WALK.replace("sum(tail) / len(tail)", "sum(times) / len(times)")).regions
    assert not region.robust
    (region,) = program(
        WALK.replace("new = sizes * torch.exp(torch.randn_like(sizes))", "new = torch.randn(8).cuda()")
    ).regions
    assert region.data_lines == region.transfer_lines == (7,)


def test_data_made_inside_the_clock_is_named_by_line() -> None:
    (region,) = program(WARM.replace("    fast(x)", "    x = torch.randn(8)\n    fast(x)")).regions
    assert region.data_lines == (8,)


@pytest.mark.parametrize(
    ("inside", "lines"),
    [
        ("    fast(x)\n    seen += torch.ones(8)", ()),
        ("    fast(torch.rand(8))", (8,)),
        ("    x.copy_(torch.rand(8))\n    fast(x)", (8,)),
        ("    y = torch.rand(8)\n    z = y * 2\n    fast(z)", (8,)),
        ("    out = fast(x)\n    hits.scatter_add_(0, out, torch.ones(8))", ()),
    ],
)
def test_only_what_reaches_the_compiled_call_is_its_data(inside: str, lines: tuple[int, ...]) -> None:
    (region,) = program(WARM.replace("    fast(x)", inside)).regions
    assert region.data_lines == lines


def test_moving_data_inside_the_clock() -> None:
    (region,) = program(WARM.replace("    fast(x)", '    fast(x.to("cuda"))')).regions
    assert region.transfer_lines == (8,)


def test_printing_the_time_is_no_wait_for_the_device() -> None:
    (region,) = program(WARM).regions
    assert not region.waits
    (region,) = program(WARM.replace("print(", "torch.cuda.synchronize()\nprint(")).regions
    assert region.waits
    (region,) = program(WARM.replace("    fast(x)", "    print(fast(x))")).regions
    assert region.waits


@pytest.mark.parametrize(
    ("line", "waits"),
    [
        ("final = float(loss)", True),
        ("kept = int(mask.sum())", True),
        ("last = float(losses[-1])", True),
        ("if (loss > 3).any():\n    stop = 1", True),
        ("rows = mask.nonzero()", True),
        ("size = int(SCALE * 64)", False),
        ("size = int(len(x) * 0.5)", False),
        ("threads = int(os.environ['THREADS'])", False),
        ("took = float(perf_counter() - start)", False),
        ("if any(flags):\n    stop = 1", False),
    ],
)
def test_a_number_made_of_a_tensor_waits_for_the_device(line: str, waits: bool) -> None:
    (region,) = program(WARM.replace("print(", f"{line}\nprint(")).regions
    assert region.waits == waits


def test_a_chain_as_long_as_python_reads_is_read() -> None:
    chain = "x" + ".a" * 980
    read = program(WARM + f"\n{chain}()\n")
    assert read.regions


def test_a_function_of_the_programs_own_waits_where_one_that_it_calls_does() -> None:
    helpers = "def sync():\n    if gpu:\n        torch.cuda.synchronize()\ndef finish():\n    sync()\n"
    called = helpers + WARM.replace("print(", "finish()\nprint(")
    (region,) = program(called).regions
    assert region.waits
    (region,) = program(called.replace("torch.cuda.synchronize()", "print(gpu)")).regions
    assert not region.waits
    for name, waits in (("utils.device_sync", True), ("run_async", False), ("finish", False)):
        (region,) = program(WARM.replace("print(", f"{name}()\nprint(")).regions
        assert region.waits == waits


HANDED = """
from time import perf_counter
def bench(fn, x):
    {warm}
    t0 = perf_counter()
    fn(x)
    return perf_counter() - t0
quick = torch.compile(layer)
bench(layer, 1)
{before}
bench(quick, 1)
"""


def test_a_compiled_function_handed_to_a_timing_function() -> None:
    (region,) = program(HANDED.format(warm="pass", before="")).regions
    assert region.calls_compiled and region.includes_first_call
    (warm,) = program(HANDED.format(warm="fn(x)", before="")).regions
    assert not warm.includes_first_call


def test_a_function_compiled_on_the_spot_where_it_is_timed() -> None:
    text = HANDED.replace("quick = torch.compile(layer)\n", "").replace(
        "bench(quick", "bench(torch.compile(layer)"
    )
    (region,) = program(text.format(warm="pass", before="")).regions
    assert region.calls_compiled and region.includes_first_call


def test_a_median_takes_no_harm_from_its_first_value() -> None:
    for text, robust in (
        ("statistics.median(times)", True),
        ("print(sorted(times)[len(times) // 2])", True),
        ("times.sort()\nprint(f'{times[n // 2] * 1e3} ms')", True),
        ("lat = sorted(times)\nprint(f'{lat[len(lat) // 2] * 1e3} ms')", True),
        ("print(sorted(scores)[:5])", False),
        ("scores.sort()\nprint(scores[:5], times[2])", False),
    ):
        (region,) = program(f"import statistics\n{text}\n" + WARM).regions
        assert region.robust == robust


def test_a_region_without_compiled_calls() -> None:
    (region,) = program("t = time.time()\neager(x)\nprint(time.time() - t)").regions
    assert not region.calls_compiled


def test_compile_calls_with_their_options() -> None:
    text = """
@torch.compile(dynamic=False)
def f(x): return x
g = torch.compile(f, backend="eager", mode=mode)
model.compile()
class A:
    def __init__(self):
        self.net = torch.compile(Net())
"""
    found = program(text)
    assert found.compiled_names == {"f", "g", "model", "self.net"}
    by_name = {call.name: call for call in found.compile_calls}
    assert by_name["f"].option("dynamic") is False
    assert by_name["g"].option("backend") == "eager"
    assert by_name["g"].option("mode") is None
    assert by_name["g"].line == 4


def test_settings_and_threads() -> None:
    found = program("torch._inductor.config.cpp.simdlen = 1\ntorch.set_num_threads(1)\n")
    place = found.assignment("cpp.simdlen")
    assert place is not None and (place.value, place.line) == (1, 1)
    assert found.threads == (1, 2)


def test_training() -> None:
    assert program("model.eval()\nwith torch.no_grad():\n    f(x)\nloss.backward()\n").backward_line == 4
    assert program("model.eval()\n").backward_line is None


def test_what_is_no_python_keeps_its_lines() -> None:
    found = program("def f(:\n")
    assert found.lines == ("def f(:",)
    assert found.compile_calls == ()


def test_changes_of_code() -> None:
    text = (
        'import torch\nfast = torch.compile(net, backend="eager", dynamic=False)\ntorch.set_num_threads(1)\n'
    )
    found = program(text)
    assert without_option(found, 2, "backend") == (
        '- fast = torch.compile(net, backend="eager", dynamic=False)',
        "+ fast = torch.compile(net, dynamic=False)",
    )
    assert remove(found, 3) == ("- torch.set_num_threads(1)",)
    assert in_eval_mode(found, 2)[1].startswith("+ fast = torch.compile(net.eval(), ")
    assert replace_in(found, 1, "numpy", "torch") == ()
    assert before(found, 3, "warm()") == ("+ warm()", "  torch.set_num_threads(1)")
    assert remove(found, 99) == ()


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("fast = torch.compile(model)", 'fast = torch.compile(model, mode="m")'),
        (
            "y = torch.compile(f(net), dynamic=True)(x)",
            'y = torch.compile(f(net), dynamic=True, mode="m")(x)',
        ),
        ("fast = torch.compile(model, mode=args.mode)", None),
        ('fast = torch.compile(model, backend="eager")', None),
        ("fast = torch.compile(model, **options)", None),
        ("fast = torch.compile(", None),
        ("@torch.compile", None),
        ("@torch.compile()", None),
    ],
)
def test_an_option_is_added_only_where_the_call_is_understood(line: str, changed: str | None) -> None:
    expected = (f"- {line}", f"+ {changed}") if changed else ()
    assert with_option(Program("p.py", (line,)), 1, 'mode="m"') == expected


LOGGED = """
import time, torch
model = torch.compile(net)
for step, x in enumerate(batches):
    start = time.perf_counter()
    loss = model(x.to("cuda"))
    print(f"{step}: {time.perf_counter() - start}")
"""
KEPT = LOGGED.replace(
    'print(f"{step}: {time.perf_counter() - start}")', "times.append(time.perf_counter() - start)"
)


def test_a_loop_that_logs_its_rounds_concludes_nothing(softmax: Case) -> None:
    for text, severity in ((LOGGED, "low"), (KEPT, "high")):
        (finding,) = benchmark_artifact.find(replace(softmax, programs=(read_program(text, "train.py"),)))
        assert (finding.severity, finding.account, finding.cost_ms) == (severity, "remark", None)


def test_a_first_call_in_the_time_is_loud_where_it_turns_the_conclusion(softmax: Case) -> None:
    program = read_program(KEPT, "bench.py")
    cases: tuple[tuple[float, Outcome, str], ...] = (
        (2.0, "faster", "high"),
        (0.5, "slower", "medium"),
        (200.0, "faster", "medium"),
        (1.0, "same", "high"),
        (2.0, "unknown", "medium"),
    )
    for eager, outcome, severity in cases:
        times = replace(
            softmax.times, outcome=outcome, compiled_ms=1.0, eager_ms=eager, cold_ms=1000.0, calls=10
        )
        (finding,) = benchmark_artifact.find(replace(softmax, programs=(program,), times=times))
        assert finding.severity == severity


SIMULATED = """
import time, torch
sim = torch.compile(model)
total, kept = 0.0, []
start = time.perf_counter()
for _ in range(60):
    x = torch.randn(8)
    value, _ = sim(x)
    pair = value[:4] + value[4:]
    total += pair.sum().item()
took = time.perf_counter() - start
print(total, 60 / took)
"""


@pytest.mark.parametrize(
    ("line", "job"),
    [
        ("    total += pair.sum().item()", True),
        ("    kept.append(pair)", True),
        ("    kept.append(time.perf_counter())", False),
        ("    total += len(x)", False),
        ("    last = pair.sum()", False),
        ("    print(pair.sum().item())", False),
        ("    pair.sum().backward()", True),
        ("    kept[0] = pair", True),
        ("    kept[0:1] = sim(x)", True),
        ("    if value.sum().item() > best: best = 1", True),
        ("    assert value.isfinite().all()", False),
    ],
)
def test_a_job_that_collects_what_compiled_code_gives_measures_all_of_itself(
    softmax: Case, line: str, job: bool
) -> None:
    told = program(SIMULATED.replace("    total += pair.sum().item()", line))
    (region,) = told.regions
    assert region.job == job and region.includes_first_call
    assert bool(list(benchmark_artifact.find(replace(softmax, programs=(told,))))) != job


STEPPED = """
import time, torch
step = torch.compile(move)
spent = 0.0
for frame in range(60):
    start = time.perf_counter()
    state = step(state, gain)
    spent += time.perf_counter() - start
print(60 / spent)
"""


def test_a_loop_that_goes_on_with_what_compiled_code_gives_is_a_job_and_one_that_repeats_itself_none() -> (
    None
):
    def job(old: str = "", new: str = "") -> bool:
        (region,) = program(STEPPED.replace(old, new)).regions
        assert region.includes_first_call
        return region.job

    assert job()
    assert not job("state = step(state, gain)", "out = step(state, gain)")
    # A slow loop of a camera's, whose gain comes of the last frame.
    assert job("state = step(state, gain)\n", "out = step(camera(), gain)\n    gain = out.mean()\n")
    # The same data again is a measurement, whatever is done with what comes of it.
    out = "out = step(x, gain)\n    out.sum().backward()\n"
    assert not job("state = step(state, gain)\n", out)
    # But for a training on all of it at once.
    assert job("state = step(state, gain)\n", f"{out}    optimizer.step()\n")
    # Another scan in each round, of which numbers are kept: no two calls do the same.
    kept = "    widths.append(out[out > 0.3].mean().item())\n"
    scanned = "img, truth = scan(frame)\n    out = step(flat(img), gain)\n"
    assert job("state = step(state, gain)\n", f"{scanned}{kept}") and not job(
        "state = step(state, gain)\n", f"{scanned}    print(out.mean().item())\n"
    )
    assert not job("state = step(state, gain)\n", f"out = step(x, gain)\n{kept}")


@pytest.mark.parametrize(
    ("work", "job"),
    [
        ("batches = [run(x) for _ in range(9)]", True),
        ("batches = {n: run(x) for n in range(9)}", True),
        ("[run(x) for _ in range(9)]", False),
        ("names = [len(x) for _ in range(9)]; run(x)", False),
        ("for w in (3.0, 0.3): guess = minimize(fun, guess, w).x", True),
        ("for w in (3.0, 0.3): res = minimize(fun, guess, w); print(res.fun)", False),
    ],
)
def test_what_is_listed_at_once_and_what_a_minimizer_goes_on_with_is_work(work: str, job: bool) -> None:
    text = (
        "import time, torch\nstep = torch.compile(move)\ndef run(x): return step(x)\n"
        "def fun(x): return run(x).sum()\nstart = time.perf_counter()\n"
        f"{work}\nrun(x)\ntook = time.perf_counter() - start\nprint(9 / took)\n"
    )
    (region,) = program(text).regions
    assert (region.job, region.includes_first_call) == (job, True)


def test_the_time_of_what_has_a_job_inside_is_that_of_the_job(softmax: Case) -> None:
    """As of a fit whose rounds train, timed as a whole where it is called."""
    text = (
        "import time, torch\nloss_of = torch.compile(nll)\ndef fit(x):\n    start = time.perf_counter()\n"
        "    for it in range(40):\n        loss = loss_of(x)\n        loss.backward()\n        opt.step()\n"
        "    print(time.perf_counter() - start)\nt0 = time.perf_counter()\nfit(data)\n"
        "took = time.perf_counter() - t0\nprint(40 / took)\n"
    )
    for source, told in ((text, 0), (text.replace("opt.step()", "pass"), 1)):
        found = list(benchmark_artifact.find(replace(softmax, programs=(read_program(source, "fit.py"),))))
        assert len(found) == told


def test_a_script_that_graphs_name_too_is_read_once(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, kept = tmp_path / "train.py", tmp_path / "utils.py"
    script.write_text("import torch\n")
    kept.write_text("x = 1\n")
    named = [("train.py", script), (str(script), script), ("/a/utils.py", kept), ("/b/utils.py", kept)]
    monkeypatch.setattr("inspector.readers.programs._source_paths", lambda _run: iter(named))
    run = Run.open(corpus / "cpu-torch2.13" / "softmax")
    # Of two files of one name, of which an archive has one, each keeps its own.
    assert [shown for shown, _ in program_sources(run)] == [str(script), "/a/utils.py", "/b/utils.py"]
    monkeypatch.setattr("inspector.readers.programs._source_paths", lambda _run: iter(named[:1]))
    assert [shown for shown, _ in program_sources(run)] == ["train.py"]
