"""Why compiled code is slow, as data: findings with evidence, and the ledger; `inspector.explain/1`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeGuard

from inspector.frozen import dataclass

from .account import Account, Claim, ClaimHow, Interval
from .calls import CallGroup, Outcome, Steady
from .peaks import Peaks
from .two_sides import Sides

Severity = Literal["high", "medium", "low"]
Quality = Literal["measured", "estimated", "busy"]
How = Literal["measured", "estimated"]
FindingHow = Literal["measured", "replayed", "estimated"]
FindingOf = Literal["call", "run", "remark"]
ConfigValue = bool | int | float | str | None
"""A dictionary is the text that JSON has for it."""


def is_dictionary(value: ConfigValue) -> TypeGuard[str]:
    """Whether a value is the text of one; the bootstrap, which imports nothing of this, asks the same."""
    return isinstance(value, str) and value.startswith("{")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line that a reader can go to: an artifact or the user's source. `line` counts from 1, None for a
    whole file. `text` is what to see there."""

    path: str
    line: int | None
    text: str


KEEP_IN_PLACE = "torch._inductor.fx_passes.reinplace.is_node_realized = lambda _: True"
"""What `Trial.in_place` does, as a line of a program."""
LOOP_VECTORS = 'CXX=./g++-loops, a script of two lines, #!/bin/sh and exec g++ "$@" -ftree-loop-vectorize'
"""What `Trial.loop_vectors` does, as a variable of the environment."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A setting that can be tried by capturing again: options of ``torch.compile`` (`mode`, `dynamic`),
    ``MODULE.KEY=VALUE`` config values and environment variables."""

    mode: str | None = None
    config: tuple[tuple[str, ConfigValue], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    dynamic: bool | None = None
    """The `dynamic` of every ``torch.compile``."""
    whole: tuple[str, ...] = ()
    """Operators of ATen (``aten.cumsum``) that Inductor calls as eager does, and does not generate."""
    kept: tuple[str, ...] = ()
    """Operators of ATen (``aten.acos``) whose results are written to memory, and not computed where they are
    read (torch/_inductor/ir.py: StorageBox.realize)."""
    in_place: bool = False
    """Writes into a part of a tensor stay in place wherever nothing reads the older version; torch asks for
    both tensors to be in memory anyway (torch/_inductor/fx_passes/reinplace.py)."""
    loop_vectors: bool = False
    """g++ makes vectors of plain loops, which Inductor asks it not to (torch/_inductor/cpp_builder.py:
    _get_optimization_cflags)."""
    state: tuple[tuple[str, str], ...] = ()
    """Switches of torch's own, by the names of inspector/capture/bootstrap/sitecustomize.py: STATES."""
    passes: tuple[str, ...] = ()
    """Switched off inside of Inductor, as are `lowerings` and the fusions of the pairs `apart`; names as in
    inspector/capture/recorder/vary.py."""
    lowerings: tuple[str, ...] = ()
    apart: tuple[tuple[str, str], ...] = ()
    listed: bool = False
    """Whether what could be switched off is to be noted down."""

    @property
    def label(self) -> str:
        """`mode="reduce-overhead"`, `max_autotune=True`, `OMP_NUM_THREADS=2`, joined by commas."""
        parts = [f'mode="{self.mode}"'] if self.mode else []
        parts += [f"dynamic={self.dynamic}"] if self.dynamic is not None else []
        parts += [f"{name}={value}" for name, value in (*self.config, *self.environment, *self.state)]
        parts += [f"{' and '.join(self.whole)} left to ATen"] if self.whole else []
        parts += [f"{' and '.join(self.kept)} kept in memory"] if self.kept else []
        parts += ["writes kept in place"] if self.in_place else []
        parts += ["g++ with -ftree-loop-vectorize"] if self.loop_vectors else []
        parts += [f"without {name}" for name in (*self.passes, *self.lowerings)]
        parts += [f"{one} apart from {other}" for one, other in self.apart]
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Host:
    """The machine on which a run is explained; it says something of the run where it also captured it."""

    name: str
    cpus: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    peaks: tuple[Peaks, ...] = ()
    """What its devices reach, as far as that was measured at some time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`rule` names one of inspector.explain.rules. `cost_ms` is milliseconds that following the advice would
    save, None where unknown: of a steady call, or of all that the run paid once, as `account` says; a remark
    is about how the program measures, and costs nothing. `how` says what it rests on: times of this run,
    times of its kernels replayed alone, or an estimate. `graph` is None for a finding about the whole run.
    `trial` is None where the advice is a change of code.

    `claims` are where these milliseconds are. Without any, a finding with a cost claims it of the whole."""

    rule: str
    severity: Severity
    title: str
    graph: str | None
    cost_ms: float | None
    evidence: tuple[Evidence, ...]
    advice: str
    how: FindingHow = "estimated"
    share: float | None = None
    """`cost_ms` over the time of one compiled call, or of all calls of the run."""
    trial: Trial | None = None
    claims: tuple[Claim, ...] = ()
    change: tuple[str, ...] = ()
    """Lines of the user's source to change, as in a diff; empty where the advice is not as plain as that."""
    account: FindingOf = "call"

    @property
    def measured(self) -> bool:
        """Whether `cost_ms` was measured in this run."""
        return self.how == "measured"

    @property
    def saves(self) -> Interval | None:
        """From what is sure to how much it may be of `cost_ms`, by what was granted of the claims."""
        if not self.cost_ms:
            return None
        least, most = (sum(claim.ms[end] for claim in self.claims) for end in (0, 1))
        return (min(least, self.cost_ms), max(most, self.cost_ms)) if self.claims else (self.cost_ms,) * 2


@dataclass(frozen=True, slots=True)
class LedgerPart:
    """Milliseconds per call; `source` says where the number comes from (calls, replay, roofline, ...), `how`
    whether it was measured or is an estimate, which any estimate in it makes it."""

    part: str
    ms: float
    source: str = ""
    how: How = "measured"


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where one steady compiled call's wall time goes.

    `parts` plus `unexplained_ms` is `compiled_ms`, exactly. All None or empty where nothing was measured;
    `missing` then says what would fill it and how to get it. `doubts` are sentences: where two times of the
    same thing disagree, both of them and the likely reasons.
    """

    eager_ms: float | None
    compiled_ms: float | None
    parts: tuple[LedgerPart, ...]
    unexplained_ms: float | None
    compile_s: float | None = None
    compile_source: Literal["calls", "trace"] | None = None
    """What calls that compiled took beyond steady ones, less the same of eager where it was timed; or what
    torch's trace says of a run with debug output."""
    break_even_calls: int | None = None
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    how: How = "measured"
    """Of `compiled_ms`: measured in this run, or the sum of its graphs replayed alone."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the program a steady call's kernels are: `name` is the user's lines, or the block's name.
    `operators` of the program became `kernels` launches a call. `source` is the first of its lines, `launch`
    the line of `graph`'s output_code.py with its first launch."""

    name: str
    ms: float
    how: ClaimHow
    eager_ms: float | None = None
    operators: int = 0
    kernels: int = 0
    graph: str | None = None
    source: Evidence | None = None
    launch: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """`verdict` is one sentence; `findings` are worst first.

    `quality` is `measured` where the wall time and every part of the ledger were, `busy` where the machine
    was too busy for that to be evidence. `remarks` are sentences that stand above everything else: that it
    was busy, that the run did not end.
    """

    verdict: str
    ledger: Ledger
    findings: tuple[Finding, ...] = field(default=())
    quality: Quality = "estimated"
    remarks: tuple[str, ...] = ()
    sides: Sides | None = None
    """Both sides op by op, where they were profiled."""
    faster: float | None = None
    """Eager's time over the compiled one, of calls without a profiler."""
    groups: tuple[CallGroup, ...] = ()
    """Steady calls whose sizes make them take different times, shortest first; empty where all are alike. The
    account is of their mean, or of those of `phase`."""
    account: Account | None = None
    """A steady call's parts, and who claims what of them."""
    places: tuple[Place, ...] = ()
    """Where its kernels are, those that take longest first."""
    outcome: Outcome = "unknown"
    """How compiled compares with eager beyond noise."""
    called: Evidence | None = None
    """Where the program calls ``torch.compile``, as the recorder saw it first."""
    compiled: Steady | None = None
    """Its timed calls without a profiler; None where nobody timed any."""
    eager: Steady | None = None
    again: float | None = None
    """Eager over compiled of the runs that were profiled, where it says something else than `faster`: the
    outcome is unknown then."""
    phase: str | None = None
    """Of calls with gradients and without of the same callable those that the account is of, as most time
    passes in them; None where there are none of both."""
    only: tuple[str, ...] = ()
    """Compiled functions whose calls the account is of, as most time passes in them, where others are called
    only before or after these; empty where all are meant."""
