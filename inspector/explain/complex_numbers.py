"""Complex numbers, which Inductor has no code for (torch/_inductor/lowering.py: unsupported_output_tensor):
what is done with them is called one operator at a time."""

from __future__ import annotations

from collections.abc import Mapping

from inspector.model.fx import FxNode

from .case import GraphCase, Launch

AS_REAL = (
    "compute complex numbers as pairs of real ones (torch.view_as_real): what is done with them is called "
    "one operator at a time"
)


def is_complex(node: FxNode | None) -> bool:
    return node is not None and node.meta is not None and node.meta.is_complex


def has_complex(nodes: Mapping[str, FxNode]) -> bool:
    """Whether any of a graph's nodes is."""
    return any(map(is_complex, nodes.values()))


def on_complex(graph: GraphCase, launch: Launch) -> bool:
    """Whether a launch calls an operator that gives complex numbers."""
    nodes = graph.artifacts.fx_nodes
    return launch.call.kind == "fallback" and any(is_complex(nodes.get(name)) for name in launch.fx)
