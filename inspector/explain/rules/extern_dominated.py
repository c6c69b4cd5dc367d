"""Most of the time is spent in kernels of libraries: little is left to win for code that is generated.

Looks at: matmuls, convolutions and attention against all other launches.
"""

from __future__ import annotations

from collections.abc import Iterable

from inspector.analysis.steady import MOST, SAME
from inspector.analysis.traffic import meta_bytes
from inspector.explain.case import Case, GraphCase, Launch
from inspector.explain.estimate import FAR_OFF
from inspector.explain.in_force import max_autotune
from inspector.explain.launches import given_dtype, is_matmul
from inspector.explain.least import arithmetic, least_of, machine_of
from inspector.explain.rule import Rule, Stage, timed
from inspector.model.explain import Finding, Trial
from inspector.units import percent, size

OF_KERNELS = 1 - SAME
"""Of the kernels' time: the rest, were it free, would hardly be seen."""
_AT_ITS_ROOF = 0.8
"""Of what the machine reaches: the best library calls come as near, and no other kernel is faster."""
_ONE_CALL = "_transformer_encoder_layer_fwd"
_FAST_PATH = (
    "nn.TransformerEncoderLayer is one call here that Inductor can't see into: "
    "torch.backends.mha.set_fastpath_enabled(False) lets it compile the parts"
)


def find(case: Case) -> Iterable[Finding]:
    library, kernels = case.role_ms("library"), case.kernels_ms
    if case.slower:
        return
    if not library or library < OF_KERNELS * kernels:
        return
    wall = case.wall_ms
    share = min(library / wall, 1.0) if wall else 0.0
    if case.sides is not None and case.sides.ledger is not None and wall:
        # What was profiled is of the calls themselves.
        taken = sum(k.taken_ms for b in case.library_blocks for k in b.compiled_kernels if not k.generated)
        if taken < MOST * wall:
            return
    if share < MOST and not (case.times.compiled_ms and not case.kernels_measured and wall > 1.0):
        return
    launches = sorted(
        ((graph.ms(launch), graph, launch) for graph, launch in case.launches() if launch.role == "library"),
        key=lambda item: -item[0],
    )
    names = dict.fromkeys(
        launch.name.rsplit(".", 1)[-1] if "extern" in launch.name else launch.name
        for _, _, launch in launches
    )
    yield Finding(
        rule="extern_dominated",
        severity="medium",
        title=(
            f"{'' if case.kernels_measured else 'an estimated '}{percent(library / kernels)} of the kernels' "
            f"time is library code ({', '.join(list(names)[:3])})"
            + (", as in eager" if _as_in_eager(case) else "")
        ),
        graph=None,
        cost_ms=None,
        evidence=tuple(
            graph.launch_evidence(launch, f"{timed(launch, ms)} {_lines(launch)}".strip())
            for ms, graph, launch in launches[:3]
        ),
        advice=_FAST_PATH if any(_ONE_CALL in name for name in names) else _advice(case, *launches[0][1:]),
        how=case.kernels_how,
        share=share,
        trial=_trial(case, *launches[0][1:]),
    )


def _as_in_eager(case: Case) -> bool:
    """Whether both sides were profiled and the libraries' time hardly differs."""
    if case.sides is None or case.sides.ledger is None:
        return False
    blocks = case.library_blocks
    compiled = sum(k.taken_ms for block in blocks for k in block.compiled_kernels if not k.generated)
    eager = sum(block.eager_ms or 0.0 for block in blocks)
    return abs(compiled - eager) <= SAME * compiled


def _lines(launch: Launch) -> str:
    return launch.sources[0].short if launch.sources else ""


def _advice(case: Case, graph: GraphCase, launch: Launch) -> str:
    """For the longest call, by its own dtype and by what is set already."""
    start = "compiling can't speed these up: use" if _as_in_eager(case) else "use"
    ways = []
    if weights := _weights_alone(case):
        ways.append(
            "more rows in a call (a batch, several requests at once), as most of it is reading "
            f"{size(weights)} of matrices for a few rows each"
        )
    dtype = given_dtype(launch)
    if graph.gpu and dtype in ("float32", "float64"):
        ways.append("a smaller dtype (bfloat16)" if dtype == "float32" else "float32 in place of float64")
    if _at_its_roof(case, graph, launch):
        ways.append("less work: it is as fast as this machine can")
    else:
        ways.append("other sizes" if graph.gpu else "smaller sizes, or more cores")
        if graph.gpu and is_matmul(launch.name) and not max_autotune(case, graph):
            ways.append('mode="max-autotune"')
    return f"{start} {', or '.join(ways)}"


def _at_its_roof(case: Case, graph: GraphCase, launch: Launch) -> bool:
    """Whether a measured call takes about as long as its bytes or its arithmetic must."""
    (least, _), _ = least_of(machine_of(case), graph, launch)
    return launch.measured and least >= _AT_ITS_ROOF * launch.ms


def _weights_alone(case: Case) -> int:
    """Bytes of the matrices that a call multiplies a few rows with; 0 unless such products, which take far
    longer than their arithmetic, take most of the libraries' time."""
    machine = machine_of(case)
    if machine.peaks is None:
        return 0
    taken, weights = 0.0, 0.0
    for graph, launch in case.launches():
        rate = machine.peaks.flops_per_s.get(arithmetic(given_dtype(launch), machine.peaks))
        if launch.role != "library" or not is_matmul(launch.name) or not (launch.flops and rate):
            continue
        most, whole = _largest_factor(graph, launch), launch.bytes or 0
        if most > (1 - SAME) * whole > 0 and launch.ms > FAR_OFF * launch.flops / rate * 1e3:
            taken += graph.ms(launch)
            weights += most * graph.runs
    return round(weights) if taken > MOST * case.role_ms("library") else 0


def _largest_factor(graph: GraphCase, launch: Launch) -> int:
    """Bytes of the largest tensor that a call reads."""
    nodes = graph.artifacts.fx_nodes
    read = (nodes[name] for own in launch.fx if own in nodes for name in nodes[own].inputs if name in nodes)
    return max(map(meta_bytes, read), default=0)


def _trial(case: Case, graph: GraphCase, launch: Launch) -> Trial | None:
    """Templates are for matmuls, of a GPU's convolutions too (torch/_inductor/kernel)."""
    possible = graph.gpu or is_matmul(launch.name)
    if not possible or max_autotune(case, graph) or _at_its_roof(case, graph, launch):
        return None
    return Trial(mode="max-autotune-no-cudagraphs") if graph.gpu else Trial(config=(("max_autotune", True),))


RULE = Rule("extern_dominated", Stage.BOUND, find, place_only=True)
