"""What a capture's manifest says, and what a compiled graph's folder name says."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from inspector.frozen import dataclass

if TYPE_CHECKING:
    from .calls import ProcessCalls
    from .code import OutputCode
    from .fx import FxGraph, FxNode
    from .logs import FusionLog, GraphBreak, Recompile
    from .peaks import Peaks
    from .problem import Problem
    from .provenance import Provenance
    from .record import GraphRecord
    from .schedule import Schedule

MANIFEST_NAME = "inspector.json"
MANIFEST_SCHEMA = "inspector.run/1"

GRAPH_FILES = (
    "fx_graph_readable.py",
    "fx_graph_transformed.py",
    "fx_graph_runnable.py",
    "ir_pre_fusion.txt",
    "ir_post_fusion.txt",
    "output_code.py",
)
"""What every torch version writes for a compiled graph (torch/_inductor/debug.py: DebugFormatter)."""

PROVENANCE_FILE = "inductor_provenance_tracking_node_mappings.json"
"""Written from torch 2.11 on (not looked for in older runs)."""

# model__0_forward_1.0; AOTInductor, which has no AOT id: model___0.0
_FOLDER = re.compile(
    r"^(?P<base>model__(?P<aot>\d*)(?:_(?P<phase>[a-z]+))?_(?P<graph>\d+))(?:\.(?P<order>\d+))?$"
)


@dataclass(frozen=True, slots=True)
class GraphName:
    """``model__N_PHASE_M.K`` taken apart: AOT id (-1: AOTInductor's, always for inference), phase, AOT
    autograd's running number, folder number."""

    name: str
    aot_id: int
    phase: str
    number: int
    order: int

    @classmethod
    def parse(cls, name: str) -> GraphName | None:
        """None where `name` is not a compiled graph's folder name."""
        match = _FOLDER.match(name)
        if match is None:
            return None
        return cls(
            name,
            int(match["aot"] or -1),
            match["phase"] or ("unknown" if match["aot"] else "inference"),
            int(match["graph"]),
            int(match["order"]) if match["order"] is not None else -1,
        )


def forward_of(backward: str, names: Iterable[str]) -> str | None:
    """Of the graphs' `names` beside a backward one the forward one with its AOT id, compiled last before it;
    None for what is no backward graph, or has none."""
    own = GraphName.parse(backward)
    if own is None or own.phase != "backward":
        return None
    parsed = [name for name in map(GraphName.parse, names) if name is not None]
    earlier = [
        (name.order, name.name)
        for name in parsed
        if (name.aot_id, name.phase) == (own.aot_id, "forward") and name.order < own.order
    ]
    return max(earlier)[1] if earlier else None


@dataclass(frozen=True, slots=True)
class Manifest:
    """RUN/inspector.json: what was run, with what, and how it ended.

    `exit_code` is the child's, None while it runs or where it never started; `status` one of
    `running`, `done`, `failed`, `interrupted`. Times are seconds since the epoch and seconds.
    `environment` is what the capture set for the child, not the whole environment. `baseline` has an object
    with `exit_code`, `seconds` and `gpus` for each of RUN/baseline's runs; `gpus` what others did to the GPUs
    that the command used, `before` and `held_down` as in `GpuLoad` by the driver's number. `page_fault_us`
    is what a page fault costs the machine, the least and the most microseconds; empty without a baseline.
    `peaks` are what the devices can do that its code runs on, as measured there; empty where nobody did.
    """

    command: tuple[str, ...]
    status: str
    exit_code: int | None
    started: float
    seconds: float
    python: str = ""
    torch_version: str | None = None
    triton_version: str | None = None
    devices: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    host: str | None = None
    platform: str | None = None
    baseline: Mapping[str, Any] = field(default_factory=dict)
    gpus: Mapping[str, Any] = field(default_factory=dict)
    page_fault_us: tuple[float, ...] = ()
    peaks: tuple[Peaks, ...] = ()


@dataclass(frozen=True, slots=True)
class Content:
    """So many files or entries of one kind in what has no graph folders, and their bytes in all."""

    what: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run as a whole, apart from its graphs.

    `kind` is what was opened (`capture`, `trace`, ...); `devices` are names of GPUs, or `cpu`;
    `ranks` counts distinct ranks, at least 1. `calls` is what the recorder saw of calls in each process;
    `given_up`: what torch logs as graph breaks but doesn't count as such, frames that stay in eager.
    `watched` says that it was in a process that imported torch. `contents` is what a cache or package holds.
    """

    root: str
    kind: str
    torch_version: str | None = None
    devices: tuple[str, ...] = ()
    ranks: int = 1
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    manifest: Manifest | None = None
    cache_events: Mapping[str, int] = field(default_factory=dict)
    event_kinds: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    calls: tuple[ProcessCalls, ...] = ()
    watched: bool = False
    contents: tuple[Content, ...] = ()
    given_up: tuple[GraphBreak, ...] = ()

    @property
    def eager_ran(self) -> bool:
        """Whether the user's program itself ran in eager, for a baseline, which says what eager takes."""
        ran = {} if self.manifest is None else self.manifest.baseline
        entry = ran.get("eager")
        return isinstance(entry, dict) and entry.get("exit_code") == 0


@dataclass(frozen=True, slots=True)
class GraphArtifacts:
    """Everything that was read of one compiled graph; None for what is absent.

    `ident` is unique in the run, `name` the folder's name (two processes may share names).
    `files` are the file names found, `missing` those that its torch version writes and that are
    not here.
    """

    ident: str
    name: str
    phase: str
    compile_id: str | None = None
    rank: int | None = None
    files: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    fx_before: FxGraph | None = None
    fx_after: FxGraph | None = None
    pre: Schedule | None = None
    post: Schedule | None = None
    code: OutputCode | None = None
    provenance: Provenance | None = None
    fusion: FusionLog | None = None
    problems: tuple[Problem, ...] = ()
    record: GraphRecord | None = None

    @property
    def fx_nodes(self) -> dict[str, FxNode]:
        """The nodes of the graph that was lowered, by name; none where it is missing."""
        return {node.name: node for node in self.fx_after.nodes} if self.fx_after is not None else {}
