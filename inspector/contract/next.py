"""What to run after an answer: the commands that say more of what it shows, as a shell takes them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inspector.model.problem import InspectorError


def next_commands(data: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """Of an answer of any schema about the runs at `paths`, the most telling first; those that print JSON do.
    Empty where there is nothing more to ask."""
    rule = _RULES.get(str(data.get("schema")).partition("/")[0])
    commands = rule(data, paths) if rule is not None and paths else []
    return [shlex.join(("inspector", *words)) for words in commands]


def _own(path: str) -> bool:
    """Whether the command of the run may be proposed: whoever follows that runs what its author wrote."""
    from inspector.readers.run import Run
    from inspector.replay.trust import foreign

    # A file is an archive or a log, neither of which has a seal: it is not unpacked once more to be told so.
    if os.path.isfile(path):
        return False
    try:
        return foreign(Run.open(path), repeats=True) is None
    except InspectorError:
        return False


_Commands = list[list[str]]
_Rule = Callable[[Mapping[str, Any], Sequence[str]], _Commands]


def _summary(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    commands = [["explain", paths[0], "--json"]]
    command = data["run"].get("command")
    if command and data["baseline"] is None and _own(paths[0]):
        commands.append(["capture", "--baseline", "--", *command])
    return commands


def _explain(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    findings = data["findings"]
    graph = next((finding["graph"] for finding in findings if finding["graph"]), None)
    commands = []
    if any(finding["trial"] for finding in findings) and _own(paths[0]):
        commands.append(["explain", paths[0], "--try", "first", "--json"])
    if graph is not None:
        commands.append(["fusions", paths[0], "--graph", graph, "--json"])
    return commands or [["summary", paths[0], "--json"]]


def _fusions(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    graphs = [graph for graph in data["graphs"] if graph["groups"]]
    if not graphs:
        return [["explain", paths[0], "--json"]]
    worst = max(graphs, key=lambda graph: graph["bytes_fused"] or 0)["id"]
    if len(graphs) > 1:
        return [["fusions", paths[0], "--graph", worst, "--json"]]
    return [["lower", paths[0], "--graph", worst, "--json"], ["ir-diff", paths[0], "--graph", worst]]


def _trace(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    compiled = [item for trace in data["traces"] for item in trace["compilations"]]
    if len(compiled) < 2:
        return [["explain", paths[0], "--json"]]
    slowest = max(compiled, key=lambda item: (item["compile_time"] or {}).get("seconds") or 0.0)
    return [["trace", paths[0], "--compile-id", slowest["id"], "--json"]]


def _replay(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    kernels = [kernel for graph in data["graphs"] for kernel in graph["kernels"]]
    wrong = [kernel["name"] for kernel in kernels if kernel["verdict"] == "mismatch"]
    again = [["repro", paths[0], "--kernel", wrong[0]]] if wrong else []
    return [*again, ["explain", paths[0], "--json"]]


def _lower(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    return [["replay", paths[0], "--kernel", kernel["kernel"], "--json"] for kernel in data["kernels"][:1]]


def _check(data: Mapping[str, Any], paths: Sequence[str]) -> _Commands:
    broken = {item["relation"] for item in data["relations"] if item["breaches"]}
    if broken & {"share_kernel", "no_fallback", "traffic"}:
        return [["fusions", paths[0], "--json"]]
    return [["explain", paths[0], "--json"]] if broken else []


_RULES: Mapping[str, _Rule] = {
    "inspector.summary": _summary,
    "inspector.explain": _explain,
    "inspector.fusions": _fusions,
    "inspector.trace": _trace,
    "inspector.replay": _replay,
    "inspector.lower": _lower,
    "inspector.check": _check,
    "inspector.diff": lambda _data, paths: [["explain", paths[-1], "--json"]],
    "inspector.trial": lambda _data, paths: [["explain", paths[0], "--json"]],
}
