"""What can be taken back in a run of B: settings that A has otherwise, and what Inductor did.

Names of Inductor's switches are those of torch/_inductor/config.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from inspector.analysis.diff.settings import differing
from inspector.capture.bootstrap.sitecustomize import STATES
from inspector.comparison import Side
from inspector.model.blame import Factor
from inspector.model.diff import Setting
from inspector.model.explain import ConfigValue, Trial
from inspector.model.literals import NO_LITERAL, literal
from inspector.readers.run import Run

_PREFIX = {"inductor": "", "dynamo": "dynamo.", "functorch": "functorch."}
_WORD = re.compile(r"[\w.-]+")
_OWN = re.compile(r"^INSPECTOR_|(?:^|[_.])(?:dir|out|trace|path|cxx|home)$|^PYTHONPATH$", re.IGNORECASE)
"""What a capture sets itself, and what names files: a run's trace and logs, from which settings are read too,
are not sealed."""
_FOLLOWS = frozenset({"affinity"})

SWITCHES: tuple[tuple[str, tuple[ConfigValue, ...]], ...] = (
    ("epilogue_fusion", (False,)),
    ("fallback_random", (True,)),
    ("emulate_precision_casts", (True,)),
    ("layout_optimization", (False,)),
    ("comprehensive_padding", (False,)),
    ("joint_graph_constant_folding", (False,)),
    ("split_reductions", (False,)),
    ("split_cat_fx_passes", (False,)),
    ("reorder_for_locality", (False,)),
    ("reorder_for_peak_memory", (False,)),
    ("inplace_buffers", (False,)),
    ("allow_buffer_reuse", (False,)),
    ("loop_ordering_after_fusion", (False,)),
    ("realize_opcount_threshold", (1,)),
    ("realize_reads_threshold", (1,)),
    ("unroll_reductions_threshold", (1,)),
    ("aggressive_fusion", (False,)),
    ("dynamic_scale_rblock", (False,)),
    ("coordinate_descent_tuning", (False,)),
    ("max_autotune", (False,)),
    ("max_autotune_gemm", (False,)),
    ("freezing", (False,)),
    ("combo_kernels", (False,)),
    ("shape_padding", (False,)),
    ("permute_fusion", (False,)),
    ("cpp_wrapper", (False,)),
    ("triton.cudagraphs", (False,)),
    ("triton.persistent_reductions", (False,)),
    ("triton.cooperative_reductions", (False,)),
    ("triton.codegen_upcast_to_fp32", (True,)),
    ("triton.multi_kernel", (0,)),
    ("cpp.simdlen", (None, 1)),
    ("cpp.threads", (-1,)),
    ("cpp.dynamic_threads", (False,)),
    ("cpp.enable_floating_point_contract_flag", ("off",)),
    ("cpp.enable_unsafe_math_opt_flag", (False,)),
    ("cpp.enable_loop_tail_vec", (False,)),
    ("cpp.enable_tiling_heuristics", (False,)),
    ("cpp.enable_grouped_gemm_template", (False,)),
    ("cpp.weight_prepack", (False,)),
    ("dynamo.assume_static_by_default", (True,)),
    ("dynamo.automatic_dynamic_shapes", (False,)),
    ("functorch.treat_parameters_as_free_to_save", (True,)),
)
"""Switches with the values at which Inductor does less, or what it did in earlier versions: the first that
the run does not have is tried. Which pass or fusion it was is asked before, so none of them is here."""


def settings(a: Run, b: Run) -> tuple[list[Factor], list[str]]:
    """(what A sets otherwise, what differs and cannot be set from outside)."""
    factors: list[Factor] = []
    fixed: list[str] = []
    ours, theirs = a.manifest, b.manifest
    command: list[Factor] = []
    if ours is not None and theirs is not None and ours.command != theirs.command:
        label = f"the command {' '.join(ours.command)}"
        command = [Factor("command", label, Trial(), " ".join(theirs.command), command=True)]
    for setting in differing(Side(a).settings(), Side(b).settings()):
        if setting.area == "cache key" or _OWN.search(setting.name) or setting.name in _FOLLOWS:
            continue
        trial = _trial(setting)
        name = f"{setting.area}.{setting.name}"
        if trial is None:
            fixed.append(f"{name} ({setting.a or 'unset'} in A, {setting.b or 'unset'} in B)")
        else:
            label = f"{name}={'unset' if setting.a is None else setting.a}"
            factors.append(Factor("setting", label, trial, "unset" if setting.b is None else setting.b))
    # Last, as it may stand for all that the program sets.
    return [*factors, *command], fixed


def _trial(setting: Setting) -> Trial | None:
    """Gives B the value of A."""
    if setting.area == "environment":
        # An empty variable is what torch and its libraries take for one that is not there.
        return Trial(environment=((setting.name, setting.a or ""),))
    if setting.a is None:
        return None
    if setting.area == "state":
        return Trial(state=((setting.name, setting.a),)) if setting.name in STATES else None
    prefix = _PREFIX.get(setting.area)
    known, value = _value(setting.a)
    return Trial(config=((prefix + setting.name, value),)) if prefix is not None and known else None


def _value(text: str) -> tuple[bool, ConfigValue]:
    """A setting's value of its text, where it is a flag, a number or a word."""
    value = literal(text)
    if value is NO_LITERAL:
        return bool(_WORD.fullmatch(text)), text
    if isinstance(value, str):
        return bool(_WORD.fullmatch(value)), value
    return (True, value) if value is None or isinstance(value, (bool, int, float)) else (False, text)


def switches(run: Run) -> list[Factor]:
    """Inductor's, where the run has another value of them; where its values are not known, all."""
    values: dict[tuple[str, str], str] = {}
    known = Side(run).settings()
    for source in ("keys", "metrics", "scripts"):
        values |= known[source]
    factors = []
    for name, tried in SWITCHES:
        area, _, key = name.rpartition(".") if name.startswith(("dynamo.", "functorch.")) else ("", "", name)
        has = values.get((area or "inductor", key))
        if has is None and values:
            continue
        for value in [value for value in tried if str(value) != has][:1]:
            factors.append(Factor("switch", f"{name}={value}", Trial(config=((name, value),)), has or ""))
    return factors


def passes(names: Iterable[str]) -> list[Factor]:
    """What the listing run met, `SUBSYSTEM:PASS` or `SUBSYSTEM:PASS:PATTERN`."""
    return [Factor("pass", f"{_pass_words(name)} left out", Trial(passes=(name,))) for name in names]


def _pass_words(name: str) -> str:
    subsystem, _, rest = name.partition(":")
    own, _, pattern = rest.partition(":")
    where = f" ({subsystem})" if subsystem else ""
    if pattern:
        return f"the pattern {pattern} of {own or 'no pass'}{where}"
    return f"the pass {own}{where}"


def lowerings(names: Iterable[str]) -> list[Factor]:
    """Each operator left to ATen."""
    return [
        Factor("lowering", f"{name} left to ATen", Trial(lowerings=(name,)))
        for name in names
        if name.startswith("aten.")
    ]


def fusions(run: Run, other: Run | None) -> list[Factor]:
    """Each fusion of the run, to be refused; those first that the other run does not have."""
    ours = _fused(run)
    theirs = set(_fused(other)) if other is not None else set()
    ordered = sorted(ours, key=lambda name: name in theirs)
    return [Factor("fusion", f"{name} not fused", Trial(apart=tuple(ours[name]))) for name in ordered]


def _fused(run: Run) -> dict[str, list[tuple[str, str]]]:
    """Words for the fused nodes -> pairs of their members, as the recorder's `vary` names them."""
    fused: dict[str, list[tuple[str, str]]] = {}
    for record in run.records:
        for graph in record.graphs:
            leaves = _leaves(graph.origins(), graph.compile_id)
            for decision in graph.decisions:
                if decision.verdict != "fused":
                    continue
                first, second = (
                    graph.members.get(name, (name,)) for name in (decision.first, decision.second)
                )
                pairs = [
                    (leaves[one], leaves[two])
                    for one in first
                    for two in second
                    if one in leaves and two in leaves
                ]
                if pairs:
                    words = " and ".join(_members(side, leaves) for side in (first, second))
                    fused.setdefault(f"{words} (compile {graph.compile_id})", []).extend(pairs)
    return fused


def _leaves(origins: Mapping[str, Sequence[str]], compile_id: str | None) -> Mapping[str, str]:
    return {node: " ".join((str(compile_id), *sorted(names))) for node, names in origins.items()}


def _members(nodes: Sequence[str], leaves: Mapping[str, str]) -> str:
    return " + ".join(leaves[node].partition(" ")[2].replace(" ", "/") for node in nodes if node in leaves)


def merged(factors: Iterable[Factor]) -> Trial:
    """One trial of all; later values of a setting win."""

    def all_of(name: str) -> Iterator[tuple[object, ...]]:
        for factor in chosen:
            yield from getattr(factor.trial, name)

    chosen = list(factors)
    parts = {
        name: tuple(dict.fromkeys(all_of(name)))
        for name in ("config", "environment", "whole", "state", "passes", "lowerings", "apart")
    }
    return Trial(**parts, listed=True)  # type: ignore[arg-type]
