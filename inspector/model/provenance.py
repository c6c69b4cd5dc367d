"""inductor_provenance_tracking_node_mappings.json.

Written by torch/_inductor/debug.py: create_mapping_pre_post_grad_nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from inspector.frozen import dataclass

from .problem import Problem


@dataclass(frozen=True, slots=True)
class Provenance:
    """Dynamo's node names (`pre`) <-> post-grad FX node names (`post`) <-> kernel keys ``NAME:HANDLE``."""

    path: str
    pre_to_post: Mapping[str, tuple[str, ...]]
    post_to_pre: Mapping[str, tuple[str, ...]]
    kernel_to_post: Mapping[str, tuple[str, ...]]
    post_to_kernel: Mapping[str, tuple[str, ...]]
    problems: tuple[Problem, ...] = ()
