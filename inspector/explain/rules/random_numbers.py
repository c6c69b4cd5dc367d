"""Inductor's own random numbers take longer than ATen's.

Looks at: blocks of both profiles in which compiled loses and whose generated kernels draw random numbers.
Inductor computes each from a counter (Philox), element by element; ATen fills a tensor with its own generator
(torch/_inductor/fx_passes/replace_random.py; config.fallback_random).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.block_words import both_times, label
from inspector.explain.case import Case, Launch
from inspector.explain.rule import Rule, Stage, lost_finding
from inspector.model.explain import Finding, Trial

# rand = ops.rand(load_seed, index_expr)
_DRAWS = re.compile(r"ops\.(?:rand|randn|randint64)\(")


def find(case: Case) -> Iterable[Finding]:
    drawing = {(graph.name, launch.call.index) for graph, launch in case.launches() if draws(launch)}
    for number, block in case.slower:
        if drawing.intersection(block.launches):
            yield lost_finding(
                case,
                number,
                block,
                rule="random_numbers",
                title=f"{label(block)}: {both_times(block)}, with random numbers of Inductor's own",
                advice=(
                    "let ATen draw them, as eager does, with the same numbers for the same seed: "
                    "torch._inductor.config.fallback_random = True"
                ),
                trial=Trial(config=(("fallback_random", True),)),
            )


def draws(launch: Launch) -> bool:
    """Whether a launch computes random numbers."""
    bodies = (leaf.body.lines for leaf in launch.leaves if leaf.body is not None)
    return any(_DRAWS.search(line) for lines in bodies for line in lines)


RULE = Rule("random_numbers", Stage.LOST, find)
"""Before what only says where compiled loses."""
