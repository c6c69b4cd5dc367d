"""What became what: one record for each kernel call, each statement with the evidence it rests on."""

from __future__ import annotations

from typing import Literal

from inspector.frozen import dataclass

from .source import LineSpan

Evidence = Literal[
    "subgraph",  # the call is in the subgraph that the node runs
    "provenance",  # the provenance JSON's kernel key, by debug handle
    "fragment",  # the graph fragment in the kernel's comment
    "comment",  # the source-node comment over the call or definition
    "buffers",  # names of buffers written by the node and by the call
    "extern target",  # the node's kernel attribute equals the call's target
    "order",  # position: launches follow the schedule
    "origins",  # origins as the recorder or the fusion log's candidate lines have them
    "operator",  # same operator, same graph inputs
    "dataflow",  # lies between the values that the call reads and writes
]


@dataclass(frozen=True, slots=True)
class CallLink:
    """What one launch stands for.

    `entries`: top-level names in the post-fusion schedule (several where CPU code shares one C++
    kernel, one entry in several calls for foreach). `fx`: post-grad FX node names. Each set
    comes with the kinds of evidence that named it, strongest first; empty: no link was found.
    """

    call: int
    entries: tuple[str, ...]
    entries_evidence: tuple[Evidence, ...]
    fx: tuple[str, ...]
    fx_evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Linkage:
    """All links of one compiled graph. `pre_fx` maps a post-grad FX node to Dynamo's or the
    readable graph's names."""

    calls: tuple[CallLink, ...]
    pre_fx: tuple[tuple[str, tuple[str, ...]], ...] = ()


RefKind = Literal["source", "fx_before", "fx_after", "node", "kernel", "call", "code_line"]


@dataclass(frozen=True, slots=True)
class Ref:
    """One thing a user can point at.

    `key`: ``path:line`` for `source`; a name for FX nodes (of the graph before or after the
    post-grad passes), scheduler nodes (entry, group or leaf) and kernels; the number of a call or
    of a line of output_code.py (from 1), as text.
    """

    kind: RefKind
    key: str


@dataclass(frozen=True, slots=True)
class Related:
    """Everything that one selection stands for, so that each pane can show its own part.

    `sources` are ``path:line``; `entries` top-level post-fusion names, `leaves` the scheduler
    nodes inside; `calls` call numbers; `code` the lines of output_code.py (calls with their
    comments, and kernel definitions).
    """

    sources: frozenset[str] = frozenset()
    fx_before: frozenset[str] = frozenset()
    fx_after: frozenset[str] = frozenset()
    entries: frozenset[str] = frozenset()
    leaves: frozenset[str] = frozenset()
    kernels: frozenset[str] = frozenset()
    calls: frozenset[int] = frozenset()
    code: tuple[LineSpan, ...] = ()
    evidence: tuple[Evidence, ...] = ()
