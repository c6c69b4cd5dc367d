"""Values become wider than the model's: float64 that crept in, or half precision computed as float32.

Looks at: conversions in the FX graph whose results reach memory or a matmul, and the bytes they add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inspector.analysis.constants import constant_nodes
from inspector.analysis.traffic import ITEM_BYTES
from inspector.explain.case import Case, GraphCase
from inspector.explain.changes import Change, replace_in
from inspector.explain.claims import on_launch, on_launches
from inspector.explain.estimate import FACTOR
from inspector.explain.launches import given_dtype, library_call
from inspector.explain.least import least_of, machine_of
from inspector.explain.rule import Rule, Stage, severity_of, source_evidence
from inspector.model.account import Claim
from inspector.model.explain import Evidence, Finding
from inspector.model.fx import HALF, FxGraph, FxNode
from inspector.model.source import Size


def find(case: Case) -> Iterable[Finding]:
    """One finding: float64 of all graphs together, else the graph where widened halves cost most."""
    running = [graph for graph in case.graphs if graph.runs]
    wide = [(graph, nodes) for graph in running if (nodes := _doubled(graph))]
    if wide:
        yield _doubles(case, wide)
        return
    findings = [finding for graph in running if (finding := _half_to_single(case, graph)) is not None]
    if findings:
        yield max(findings, key=lambda finding: finding.cost_ms or 0.0)


def _doubled(graph: GraphCase) -> list[FxNode]:
    """Nodes in float64 of a graph that is given anything narrower."""
    fx = graph.artifacts.fx_after
    if fx is None:
        return []
    given = [node for node in fx.placeholders if node.meta is not None and _elements(node) > 1]
    if not any(node.meta and node.meta.dtype in ("float32", "float16", "bfloat16") for node in given):
        return []
    # Torch itself works out a range of numbers in float64 (torch/_refs: arange).
    never = constant_nodes(fx)
    return [
        node
        for node in fx.operations
        if _dtype(node) == "float64" and _elements(node) > 1 and node.name not in never
    ]


def _doubles(case: Case, wide: Sequence[tuple[GraphCase, list[FxNode]]]) -> Finding:
    """float64 computed from float32."""
    machine = machine_of(case)
    claims: list[Claim] = []
    costs: list[float] = []
    for graph, nodes in wide:
        names = {node.name for node in nodes}
        affected = [launch for launch in graph.launches if names & set(launch.fx)]
        costs.append(sum(graph.ms(launch) for launch in affected) / 2)
        for launch in affected:
            # It moves twice the bytes and has half the lanes of float32: half of the time, within a factor.
            # exp and its like take many times as long: all but what half the bytes take at least.
            least, _ = least_of(machine, graph, launch)
            most = max(launch.ms - least[0] / 2, launch.ms / 2)
            ms = (launch.ms / 2 / FACTOR * graph.runs, most * graph.runs)
            claims.append(on_launch(graph, launch, ms, "estimated"))
    cost = sum(costs)
    share = case.share(cost)
    largest, nodes = wide[costs.index(max(costs))]
    names = {node.name for node in nodes}
    # All of them are float64.
    roots = [node for node in nodes if names.isdisjoint(node.inputs)]
    count = sum(len(nodes) for _, nodes in wide)
    return Finding(
        rule="precision_upcast",
        severity=severity_of(share),
        title=f"float32 becomes float64 and stays so through {count} operations",
        graph=largest.name,
        cost_ms=cost,
        claims=tuple(claims),
        evidence=_evidence(case, largest, roots or nodes),
        change=_change(case, roots or nodes),
        advice=(
            "make the constant or array that brings float64 in a float32 one "
            "(dtype=torch.float32), or drop .double()"
        ),
        share=share,
    )


def _half_to_single(case: Case, graph: GraphCase) -> Finding | None:
    """Half precision widened before a matmul, or widened results that are written."""
    fx = graph.artifacts.fx_after
    if fx is None:
        return None
    nodes = {node.name: node for node in fx.nodes}
    widened = [
        node
        for node in fx.operations
        if _dtype(node) == "float32"
        and "convert_element_type" in node.target
        and any(_dtype(nodes[name]) in HALF for name in node.inputs if name in nodes)
        and _elements(node) > 1
    ]
    if not widened:
        return None
    origins = _reach({node.name for node in widened}, fx)
    cost = 0.0
    reached = []
    for launch in graph.launches:
        if launch.role == "library" and library_call(launch.name) and given_dtype(launch) == "float32":
            named = [nodes[name] for name in launch.fx if name in nodes]
            if any(_dtype(node) == "float32" and origins & set(node.inputs) for node in named):
                reached.append(launch)
                # A matmul in half precision takes half of its time in float32 at most.
                cost += graph.ms(launch) / 2
    written = [
        access
        for group in graph.fusion.groups
        if not group.is_wall and any(name in origins for leaf in group.nodes for name in _fx_of(graph, leaf))
        for access in group.writes
    ]
    if not reached:
        return None
    share = case.share(cost)
    return Finding(
        rule="precision_upcast",
        severity=severity_of(share),
        title=(
            f"half precision is widened to float32 before {len(reached)} library calls "
            f"({len(written)} wide buffers)"
        ),
        graph=graph.name,
        cost_ms=cost,
        claims=on_launches(((graph, launch, graph.ms(launch)) for launch in reached), "estimated", cost),
        evidence=_evidence(case, graph, widened),
        advice=(
            "keep the dtype: cast weights once (model.to(torch.bfloat16)), use autocast, and drop .float()"
        ),
        share=share,
    )


def _fx_of(graph: GraphCase, leaf: str) -> tuple[str, ...]:
    return next((node.fx for node in graph.fusion.nodes if node.name == leaf), ())


def _reach(names: set[str], fx: FxGraph) -> set[str]:
    """`names` and what is float32 because of them: results of float32 operations on them."""
    reached = set(names)
    for node in fx.nodes:
        if _dtype(node) == "float32" and reached & set(node.inputs):
            reached.add(node.name)
    return reached


def _dtype(node: FxNode) -> str:
    return node.meta.dtype if node.meta is not None else ""


def _elements(node: FxNode) -> int:
    if node.meta is None or node.meta.dtype not in ITEM_BYTES:
        return 0
    result = 1
    for extent in node.meta.shape:
        result *= _hint(extent)
    return result


def _hint(extent: Size) -> int:
    """A symbolic extent counts as 16: large enough not to hide a tensor, small enough not to make one."""
    return extent if isinstance(extent, int) else 16


def _evidence(case: Case, graph: GraphCase, nodes: list[FxNode]) -> tuple[Evidence, ...]:
    places: dict[str, Evidence] = {}
    for node in nodes:
        place = graph.place("fx_graph_transformed.py", node.line, node.text.strip()[:120])
        if node.source is not None:
            place = source_evidence(case, node.source)
        places.setdefault(f"{place.path}:{place.line}", place)
    return tuple(places.values())[:4]


def _change(case: Case, nodes: list[FxNode]) -> Change:
    for node in nodes:
        for program in case.programs:
            if (
                node.source is not None
                and program.path.rsplit("/", 1)[-1] == node.source.path.rsplit("/", 1)[-1]
            ):
                change = replace_in(
                    program, node.source.line, r"\.double\(\)|\.to\(torch\.float64\)", ".float()"
                )
                if change:
                    return change
    return ()


RULE = Rule("precision_upcast", Stage.PROGRAM, find, other_work=True)
