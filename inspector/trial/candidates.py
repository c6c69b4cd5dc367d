"""Settings that bear on a run's own kernels, for where no rule knows why they are slow.

Each stands for a decision that torch took in this run and that a setting takes back; what none of the run's
launches could feel is left out. Names are those of torch/_inductor/config.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from inspector.analysis.nothing import SWITCHES
from inspector.explain.case import Case
from inspector.model.explain import ConfigValue, Explanation, Trial

from .settings import Setting, offered


@dataclass(frozen=True, slots=True)
class _Row:
    """A setting, and whether the run has what it bears on."""

    bears: Callable[[Case], bool]
    trial: Trial


def candidates(explanation: Explanation, case: Case) -> list[Setting]:
    """What to try, the findings' own advice first; then what bears on the most general decisions. Leaving it
    all in eager is last: what is slower than that is not worth having."""
    settings = [setting for setting, _ in offered(explanation)]
    settings += (Setting(row.trial.label, row.trial) for row in _ROWS if row.bears(case))
    known: dict[str, Setting] = {}
    for setting in settings:
        known.setdefault(setting.label, setting)
    last = Setting(_EAGER.label, _EAGER)
    return [*(setting for label, setting in known.items() if label != last.label), last]


def _config(name: str, value: ConfigValue) -> Trial:
    return Trial(config=((name, value),))


def _launches(case: Case, words: Iterable[str]) -> bool:
    """Whether a launch's kernel has one of the words in its name."""
    return any(word in launch.name for _, launch in case.launches() for word in words)


def _fx(case: Case, words: Iterable[str]) -> bool:
    """Whether a generated kernel does the work of an FX node with one of the words in its name."""
    return any(word in name for name in _generated_nodes(case) for word in words)


def _generated_nodes(case: Case) -> Iterator[str]:
    for _, launch in case.launches():
        if launch.role == "generated":
            yield from launch.fx


def _library(case: Case) -> bool:
    return any(launch.role == "library" for _, launch in case.launches())


def _fused(case: Case) -> bool:
    """Whether a generated kernel does the work of several scheduler nodes."""
    return any(launch.role == "generated" and len(launch.leaves) > 1 for _, launch in case.launches())


_CONVOLUTIONS = ("convolution", "conv2d", "conv1d", "conv3d")
_RANDOM = ("rand", "dropout", "bernoulli", "normal")
_REDUCTIONS = ("triton_red", "triton_per", "_sum", "_mean", "_max", "_min", "_norm", "_softmax")
_EAGER = Trial(environment=((SWITCHES[0], "1"),))
_ROWS = (
    # Convolutions are made channels-last where torch counts that to win (decide_layout_opt).
    _Row(lambda case: _launches(case, _CONVOLUTIONS), _config("layout_optimization", False)),
    # Patterns put other library calls, or other operators, in the program's place.
    _Row(_library, _config("pattern_matcher", False)),
    _Row(lambda case: case.gpu and _library(case), Trial(mode="max-autotune-no-cudagraphs")),
    _Row(lambda case: not case.gpu and _library(case), _config("freezing", True)),
    _Row(lambda case: case.gpu, Trial(mode="reduce-overhead")),
    # A producer that several consumers read is computed again in each of them below these thresholds.
    _Row(
        lambda case: _fused(case) or _fx(case, ("pool", "upsample", "index", "gather")),
        Trial(config=(("realize_opcount_threshold", 1), ("realize_reads_threshold", 1))),
    ),
    _Row(_fused, _config("max_fusion_size", 1)),
    _Row(lambda case: _launches(case, ("triton_red",)), _config("triton.cooperative_reductions", True)),
    _Row(lambda case: _launches(case, ("triton_per",)), _config("triton.persistent_reductions", False)),
    _Row(lambda case: _launches(case, _REDUCTIONS), _config("split_reductions", False)),
    _Row(lambda case: _fx(case, _RANDOM), _config("fallback_random", True)),
    _Row(lambda case: not case.gpu, _config("cpp_wrapper", True)),
    _Row(lambda case: bool(case.facts.recompiles), Trial(dynamic=True)),
)  # fmt: skip
