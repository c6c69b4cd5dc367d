"""Inductor's own random numbers take longer than ATen's.

Looks at: generated kernels that draw random numbers, beside what ATen takes for the same alone; else blocks
of both profiles in which compiled loses and whose kernels draw them. Inductor computes each number from a
counter (Philox), element by element; ATen fills a tensor with its own generator
(torch/_inductor/fx_passes/replace_random.py; config.fallback_random).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.analysis.whole_operators import RANDOM
from inspector.explain.block_words import both_times, label
from inspector.explain.case import Case, Launch
from inspector.explain.rule import Rule, Stage, lost_finding
from inspector.explain.whole_operators import found_slower, slower_operators
from inspector.model.explain import Finding, Trial

# rand = ops.rand(load_seed, index_expr)
_DRAWS = re.compile(r"ops\.(?:rand|randn|randint64)\(")
_ADVICE = (
    "let ATen draw them, as eager does, with the same numbers for the same seed: "
    "torch._inductor.config.fallback_random = True"
)
_TRIAL = Trial(config=(("fallback_random", True),))


def find(case: Case) -> Iterable[Finding]:
    told: set[tuple[str, int]] = set()
    for item in slower_operators(case):
        if RANDOM.intersection(item.names):
            told |= {(item.graph.name, launch.call.index) for launch in item.launches}
            title = f"random numbers of Inductor's own ({', '.join(item.names)}): {item.both_times}"
            yield found_slower(case, item, "random_numbers", title, _ADVICE, _TRIAL)
    drawing = {(graph.name, launch.call.index) for graph, launch in case.launches() if draws(launch)} - told
    for number, block in case.slower:
        if drawing.intersection(block.launches) and not told.intersection(block.launches):
            title = f"{label(block)}: {both_times(block)}, with random numbers of Inductor's own"
            yield lost_finding(
                case, [(number, block)], rule="random_numbers", title=title, advice=_ADVICE, trial=_TRIAL
            )


def draws(launch: Launch) -> bool:
    """Whether a launch computes random numbers."""
    bodies = (leaf.body.lines for leaf in launch.leaves if leaf.body is not None)
    return any(_DRAWS.search(line) for lines in bodies for line in lines)


RULE = Rule("random_numbers", Stage.LOST, find)
"""Before what only says where compiled loses."""
