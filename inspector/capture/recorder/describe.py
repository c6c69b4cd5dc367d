"""Plain data from Inductor's scheduler nodes, buffers and layouts, whichever version of torch made them.

Every function takes torch's objects as they are and changes nothing; none of them adds a guard
(torch/_inductor/sizevars.py: `optimization_hint`, before 2.11 `size_hint`, are made for that).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .calls import CAPTURE

FRAME_LIMIT = 8
_FRAME = re.compile(r'File "(.*?)", line (\d+)')


def node_name(node: Any) -> str:
    """`op3`, `op1_op2` for a group; torch 2.4 names nodes after their buffers."""
    return str(node.get_name())


def members(node: Any) -> list[str]:
    """Names of the scheduler nodes in a group, in their order; the node's own where it is none."""
    return [node_name(member) for member in node.get_nodes()]


def hint(sizevars: Any, expression: Any) -> int | None:
    """The number torch expects for a symbolic expression; None where it has no expectation."""
    if isinstance(expression, int):
        return expression
    for name in ("optimization_hint", "size_hint"):
        function = getattr(sizevars, name, None)
        if function is not None:
            options = {"fallback": -1} if name == "size_hint" else {}
            try:
                return int(function(expression, **options))
            except Exception:
                return None
    return None


def frames(origins: Iterable[Any]) -> list[str]:
    """`FILE:LINE` of the user's frames behind FX nodes, innermost last, each once, at most FRAME_LIMIT."""
    places: dict[str, None] = {}
    for origin in origins:
        for file, line in _FRAME.findall(_stack_trace(origin)):
            if not file.startswith(CAPTURE):
                places[f"{file}:{line}"] = None
    return list(places)[-FRAME_LIMIT:]


def _stack_trace(origin: Any) -> str:
    meta = getattr(origin, "meta", None) or {}
    return str(meta.get("stack_trace") or getattr(origin, "stack_trace", None) or "")


def layout(buffer: Any, sizevars: Any) -> dict[str, Any]:
    """Kind, device, dtype, size and stride, with hints where a size is symbolic; {} where there is none."""
    own = getattr(buffer, "layout", None)
    if own is None:
        return {}
    result: dict[str, Any] = {"layout": type(own).__name__}
    for name in ("device", "dtype"):
        value = getattr(own, name, None)
        if value is not None:
            result[name] = str(value).replace("torch.", "")
    for name in ("size", "stride"):
        values = getattr(own, name, None)
        if values is None:
            continue
        values = list(values)
        result[name] = [str(value) for value in values]
        if not all(str(value).lstrip("-").isdigit() for value in values):
            result[f"{name}_hint"] = [hint(sizevars, value) for value in values]
    size = result.get("size_hint") or [int(text) for text in result.get("size", ())]
    width = getattr(getattr(own, "dtype", None), "itemsize", None)
    if width is not None and "size" in result and None not in size:
        total = int(width)
        for extent in size:
            total *= extent
        result["bytes"] = total
    return result


def buffer(outer: Any, operation: str, sizevars: Any) -> dict[str, Any]:
    """One buffer of a scheduler node: where it comes from in the FX graph and the program, and its layout.

    `outer` is a SchedulerBuffer, or in torch 2.4 the IR buffer itself.
    """
    inner = getattr(outer, "node", None) or outer
    origins = list(getattr(inner, "origins", ()) or ())
    origin = inner.get_origin_node() if hasattr(inner, "get_origin_node") else None
    origin = origin or getattr(inner, "origin_node", None)
    return {
        "name": str(inner.get_name()),
        "node": operation,
        "class": type(inner).__name__,
        "origin": str(origin.name) if origin is not None else None,
        "origins": sorted({str(item.name) for item in origins if hasattr(item, "name")}),
        "stack": frames([*origins, *([origin] if origin is not None else [])]),
        **layout(inner, sizevars),
    }


def buffers(nodes: Iterable[Any], sizevars: Any) -> list[dict[str, Any]]:
    """Every buffer that the leaf nodes write, in the schedule's order."""
    described: list[dict[str, Any]] = []
    for node in nodes:
        for leaf in node.get_nodes():
            outputs = leaf.get_outputs() if hasattr(leaf, "get_outputs") else [leaf.node]
            described.extend(buffer(output, node_name(leaf), sizevars) for output in outputs)
    return described


def inputs(graph: Any) -> list[dict[str, Any]]:
    """The graph's tensor inputs (torch/_inductor/graph.py: GraphLowering.graph_inputs)."""
    described: list[dict[str, Any]] = []
    for name, value in dict(getattr(graph, "graph_inputs", None) or {}).items():
        inner = value
        while getattr(inner, "layout", None) is None and getattr(inner, "data", None) is not None:
            inner = inner.data
        if getattr(inner, "layout", None) is not None:
            described.append({"name": str(name), "node": None, "class": "InputBuffer", "origin": str(name),
                          "origins": [str(name)], "stack": [], **layout(inner, graph.sizevars)})  # fmt: skip
    return described
