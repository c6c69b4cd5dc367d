"""What became what: one record for each kernel call, each statement with the evidence it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Evidence = Literal[
    "provenance",  # the provenance JSON's kernel key, by debug handle
    "fragment",  # the graph fragment in the kernel's comment
    "comment",  # the source-node comment over the call or definition
    "buffers",  # names of buffers written by the node and by the call
    "extern target",  # the node's kernel attribute equals the call's target
    "order",  # position: launches follow the schedule
    "origins",  # origins in the fusion log's candidate lines
    "operator",  # the FX node's operator fits the comment's ATen list
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
    readable graph's names; `silent_entries` are entries that launch nothing (MultiOutput, nop)."""

    calls: tuple[CallLink, ...]
    pre_fx: tuple[tuple[str, tuple[str, ...]], ...] = ()
    silent_entries: tuple[str, ...] = ()
    fx_writable: bool = False
    """True where torch wrote evidence for FX nodes (2.11 and later)."""
