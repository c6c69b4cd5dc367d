"""Gradients or train mode where only inference happens.

Looks at: forward graphs that save activations for a backward that never comes; dropout and batch statistics
in a program that trains nothing; a module whose `training` flag is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case, GraphCase
from inspector.explain.changes import Change, in_eval_mode
from inspector.explain.estimate import memory_ms, peak
from inspector.explain.in_vain import PAGE, saved_bytes, trains
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.explain import Evidence, Finding
from inspector.model.fx import FxNode
from inspector.model.source import numel
from inspector.units import size

AUTOGRAD_MS = 0.03
"""autograd.Function.apply and saving tensors, for one forward graph."""

_DROPOUT = re.compile(r"dropout", re.I)
_RANDOM = re.compile(r"inductor_random|native_dropout|philox|bernoulli")
# F.dropout(x, 0.1, True)
_FUNCTIONAL = re.compile(r"\b(?:F|functional|torch)\.(?:\w+_)?dropout\w*\((.*)")
_ON = re.compile(r"training\s*=\s*True|,[^,]+,\s*True\b")
_BATCH_NORM = re.compile(r"batch_norm|self\.bn|BatchNorm", re.I)
# own = torch.randn(scenarios, 40)
_DRAWN = re.compile(
    r"\b(?:rand(?:n|int|perm)?(?:_like)?|(?:normal|bernoulli|uniform|exponential|poisson)_?|gumbel_\w+|multinomial)\("
)


def find(case: Case) -> Iterable[Finding]:
    if trains(case):
        return
    forward = [graph for graph in case.graphs if graph.artifacts.phase == "forward"]
    training = case.times.training is True
    nodes = [(graph, node) for graph in case.graphs for node in _train_nodes(graph, training)]
    if not forward and not nodes:
        return
    saved = sum(saved_bytes(graph) * graph.runs for graph in forward)
    device = peak(case.facts.devices, case.gpu, case.threads)
    cost = memory_ms(int(saved), device, case.gpu) + AUTOGRAD_MS * sum(graph.runs for graph in forward)
    cost += sum(_work(graph, node, case) for graph, node in nodes) + _fetching_ms(case, saved)
    share = case.share(cost)
    evidence = []
    for graph in forward[:2]:
        evidence.append(
            graph.place(
                "output_code.py",
                None,
                f"a forward graph that saves {size(saved_bytes(graph))}, and no backward ran",
            )
        )
    for graph, node in nodes[:3]:
        if node.source is not None:
            evidence.append(source_evidence(case, node.source))
        else:
            evidence.append(graph.place("fx_graph_transformed.py", node.line, node.target))
    evidence += _call_lines(case)
    what = []
    if forward:
        what.append(f"gradients are recorded ({size(saved)} of activations kept)")
    if nodes:
        what.append("layers are in train mode (dropout or batch statistics are computed)")
    advice = []
    if forward:
        advice.append("call it under torch.no_grad() or torch.inference_mode()")
    functional = [
        node.source.code for _, node in nodes if node.source is not None and _asked(node.source.code)
    ]
    if case.times.training or len(functional) < len(nodes):
        advice.append("call model.eval() first")
    if functional:
        advice.append("pass training=False, as F.dropout knows of no model")
    yield Finding(
        rule="training_mode_inference",
        severity=severity_of(share, at_least="high" if forward and nodes else "medium"),
        title=f"only inference happens, and {' and '.join(what)}",
        graph=(forward or [nodes[0][0]])[0].name,
        cost_ms=cost,
        evidence=tuple(evidence),
        advice="; ".join(advice),
        change=_change(case, bool(forward), len(functional) < len(nodes)),
        share=share,
    )


def _train_nodes(graph: GraphCase, training: bool) -> list[FxNode]:
    """Random numbers of dropout, and statistics of batch norm over the batch. Passes leave some nodes without
    a source; random numbers of a module that was called in train mode are dropout's where its line does not
    draw them itself."""
    fx = graph.artifacts.fx_after or graph.artifacts.fx_before
    nodes = []
    for node in fx.nodes if fx is not None else ():
        code = (node.source.code or "") if node.source is not None else ""
        if _asked(code) == "True":
            continue
        named = (training and not _DRAWN.search(code)) or _DROPOUT.search(code) or "dropout" in node.target
        dropped = _RANDOM.search(node.target) and named
        if dropped or ("var_mean" in node.target and _BATCH_NORM.search(code)):
            nodes.append(node)
    return nodes


def _asked(code: str | None) -> str:
    """What a line tells ``F.dropout`` of training: `True` where it says that itself, `default` where it
    leaves it out, which is training too (torch/nn/functional.py); empty for what a module says."""
    if (call := _FUNCTIONAL.search(code or "")) is None:
        return ""
    return "True" if _ON.search(call[1]) else "" if "training" in call[1] else "default"


def _fetching_ms(case: Case, saved: float) -> float:
    """What the memory of activations takes that each call fetches from the system, where that is counted."""
    manifest = case.facts.manifest
    each = manifest.page_fault_us if manifest is not None else ()
    pages = min(saved / PAGE, case.times.faults or 0.0)
    return pages * each[0] / 1e3 if each and not case.gpu else 0.0


def _work(graph: GraphCase, node: FxNode, case: Case) -> float:
    """Rough time of one such node: a pass over its values."""
    count = numel(node.meta.shape) if node.meta is not None else None
    return (
        memory_ms((count or 0) * 8, peak(case.facts.devices, graph.gpu, case.threads), graph.gpu) * graph.runs
    )


def _call_lines(case: Case) -> list[Evidence]:
    program = case.main_program
    if program is None:
        return []
    return [program.evidence(call.line) for call in program.compile_calls[:1]]


def _change(case: Case, gradients: bool, train_mode: bool) -> Change:
    program = case.main_program
    if program is None or not program.compile_calls:
        return ()
    lines = in_eval_mode(program, program.compile_calls[0].line) if train_mode else ()
    return (
        (*lines, "+ with torch.no_grad():", "      # the calls of the compiled model") if gradients else lines
    )


RULE = Rule("training_mode_inference", Stage.PROGRAM, find)
