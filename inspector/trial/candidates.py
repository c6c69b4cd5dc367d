"""Settings that bear on a run's own kernels, for where no rule knows why they are slow.

Each stands for a decision that torch took in this run and that a setting takes back; what none of the run's
launches could feel is left out. Names are those of torch/_inductor/config.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from inspector.analysis.nothing import SWITCHES
from inspector.explain.case import CALLED, Case, GraphCase, Launch
from inspector.explain.cpp_loops import starts_threads
from inspector.explain.cuda_graphs import unrecordable
from inspector.explain.in_force import cudnn_benchmark
from inspector.explain.left_to_aten import as_eager, kept_whole
from inspector.explain.rules.page_faults import KEPT_MEMORY, MAPPED
from inspector.frozen import dataclass
from inspector.model.account import HOST
from inspector.model.explain import ConfigValue, Explanation, Trial

from .settings import Setting, offered

MOST_WHOLE = 2
"""Operators that are left to ATen one by one, after all of a kernel's together."""

_Timed = tuple[GraphCase, Launch]


@dataclass(frozen=True, slots=True)
class _Row:
    """A setting, and whether it bears on a launch; None where it bears on the host's side."""

    bears: Callable[[Launch], bool] | None
    trial: Trial
    possible: Callable[[Case], bool] = lambda _: True


def candidates(explanation: Explanation, case: Case) -> list[Setting]:
    """What to try, the findings' own advice first; then what takes back a decision, by the time of the
    launches that it bears on, those first that the first finding speaks of. Leaving it all in eager is last:
    what is slower than that is not worth having."""
    place = _place(explanation, case)
    settings = [setting for setting, _ in offered(explanation)]
    settings += (Setting(trial.label, trial) for trial in _by_time(explanation, case, place))
    known: dict[str, Setting] = {}
    for setting in settings:
        known.setdefault(setting.label, setting)
    last = Setting(_EAGER.label, _EAGER)
    return [*(setting for label, setting in known.items() if label != last.label), last]


def _place(explanation: Explanation, case: Case) -> list[_Timed]:
    """The launches that the first finding with a claim of any speaks of, the longest first; else all."""
    timed = sorted((item for item in case.launches() if item[0].runs), key=lambda item: -item[0].ms(item[1]))
    blocks = explanation.sides.joined.blocks if explanation.sides is not None else ()
    for finding in explanation.findings:
        named = {(claim.graph, claim.call) for claim in finding.claims}
        for claim in finding.claims:
            named.update(blocks[claim.block].launches if claim.block is not None else ())
        own = [item for item in timed if (item[0].name, item[1].call.index) in named]
        if own:
            return own
    return timed


def _by_time(explanation: Explanation, case: Case, place: Sequence[_Timed]) -> list[Trial]:
    """The rows that bear on anything: by the time that they bear on in that place, then by that in all."""
    parts = explanation.account.parts if explanation.account is not None else ()
    host = sum(part.ms for part in parts if part.name == HOST)
    everywhere = list(case.launches())

    def ms(row: _Row, items: Sequence[_Timed]) -> float:
        return sum(graph.ms(launch) for graph, launch in items if row.bears is None or row.bears(launch))

    rows = [
        row
        for row in (*_whole(explanation, case, place), *_ROWS)
        if row.possible(case) and (row.bears is None or any(row.bears(launch) for _, launch in everywhere))
    ]
    rows.sort(key=lambda row: (0.0, -host) if row.bears is None else (-ms(row, place), -ms(row, everywhere)))
    return [row.trial for row in rows]


def _whole(explanation: Explanation, case: Case, place: Sequence[_Timed]) -> Iterator[_Row]:
    """What eager runs where the longest generated kernel is, and what that generates, left to ATen: all, then
    one by one."""
    blocks = explanation.sides.joined.blocks if explanation.sides is not None else ()
    for graph, launch in place:
        here = (graph.name, launch.call.index)
        eager = [name for block in blocks if here in block.launches for name in as_eager(case, block)]
        names = tuple(dict.fromkeys((*eager, *kept_whole(graph, launch))))
        if names:
            # Of what takes longest in that place it bears on all of it, and is the nearest to eager.
            own = launch.__eq__ if launch is not place[0][1] else (lambda _: True)
            yield _Row(own, Trial(whole=names))
            yield from (_Row(own, Trial(whole=(name,))) for name in names[:MOST_WHOLE] if len(names) > 1)
            return


def _config(*values: tuple[str, ConfigValue]) -> Trial:
    return Trial(config=values)


def _named(*words: str) -> Callable[[Launch], bool]:
    """Whether the launch's kernel has one of the words in its name."""
    return lambda launch: any(word in launch.name for word in words)


def _of(*words: str) -> Callable[[Launch], bool]:
    """Whether it is generated and does the work of an FX node with one of the words in its name."""
    return lambda launch: _generated(launch) and any(word in name for name in launch.fx for word in words)


def _generated(launch: Launch) -> bool:
    return launch.role == "generated"


def _library(launch: Launch) -> bool:
    return launch.role == "library"


def _convolution(launch: Launch) -> bool:
    return _library(launch) and "conv" in launch.name


def _fused(launch: Launch) -> bool:
    """Whether it is generated and does the work of several scheduler nodes."""
    return _generated(launch) and len(launch.leaves) > 1


def _gpu(case: Case) -> bool:
    return case.gpu


def _cpu(case: Case) -> bool:
    return not case.gpu


def _unmeasured_algorithms(case: Case) -> bool:
    return case.gpu and not cudnn_benchmark(case)


_EAGER = Trial(environment=((SWITCHES[0], "1"),))
_ROWS = (
    # Threads of a library that wait for work take cores from generated code, and the other way round.
    _Row(
        lambda launch: launch.role in CALLED,
        Trial(environment=(("OMP_WAIT_POLICY", "passive"),)),
        _cpu,
    ),
    # Memory that is handed back after each call is slow to touch again, whatever kernel does.
    _Row(lambda launch: (launch.bytes or 0) >= MAPPED, KEPT_MEMORY, _cpu),
    # Threads take longer to start than a short kernel, or are started inside of its loops.
    _Row(lambda launch: starts_threads(launch.source), _config(("cpp.threads", 1)), _cpu),
    # Convolutions are made channels-last where torch counts that to win (decide_layout_opt).
    _Row(_convolution, _config(("layout_optimization", False))),
    # Which algorithm cuDNN takes is else a heuristic's choice (torch/backends/cudnn: benchmark).
    _Row(_convolution, Trial(state=(("backends.cudnn.benchmark", "True"),)), _unmeasured_algorithms),
    # Patterns put other library calls, or other operators, in the program's place.
    _Row(_library, _config(("pattern_matcher", False))),
    _Row(_library, Trial(mode="max-autotune-no-cudagraphs"), _gpu),
    _Row(_library, _config(("freezing", True)), _cpu),
    _Row(None, Trial(mode="reduce-overhead"), lambda case: case.gpu and not unrecordable(case)),
    # A producer that several consumers read is computed again in each of them below these thresholds.
    _Row(
        lambda launch: _fused(launch) or _of("pool", "upsample", "index", "gather")(launch),
        _config(("realize_opcount_threshold", 1), ("realize_reads_threshold", 1)),
    ),
    _Row(_fused, _config(("max_fusion_size", 1))),
    _Row(_named("triton_red"), _config(("triton.cooperative_reductions", True))),
    _Row(_named("triton_per"), _config(("triton.persistent_reductions", False))),
    _Row(
        _named("triton_red", "triton_per", "_sum", "_mean", "_max", "_min", "_norm", "_softmax"),
        _config(("split_reductions", False)),
    ),
    _Row(_of("rand", "dropout", "bernoulli", "normal"), _config(("fallback_random", True))),
    # Which loop of a C++ kernel gets vectors is chosen by a heuristic (cpp.py: TilingSelect).
    _Row(_generated, _config(("cpp.enable_tiling_heuristics", False)), _cpu),
    _Row(None, _config(("cpp_wrapper", True)), _cpu),
    _Row(None, Trial(dynamic=True), lambda case: bool(case.facts.recompiles)),
)  # fmt: skip
