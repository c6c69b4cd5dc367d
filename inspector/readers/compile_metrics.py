"""The numbers that torch writes at the end of a compilation, and after the first run.

``compilation_metrics``, ``bwd_compilation_metrics`` and, from 2.11 on, each with ``_runtime``
(torch/_dynamo/utils.py: record_compilation_metrics). The fields grow with each version.
"""

from __future__ import annotations

from typing import Any

from inspector.model.compilation import CompileMetrics
from inspector.model.source import SourceLocation
from inspector.model.trace import TraceEvent

from .text import from_json, number
from .trace import Occurrence


def metrics(seen: Occurrence) -> tuple[CompileMetrics, ...]:
    """Nothing where the event's value is not an object."""
    event = seen.event
    return (_metrics(event, event.data),) if isinstance(event.data, dict) else ()


def _metrics(event: TraceEvent, data: dict[str, Any]) -> CompileMetrics:
    backward = event.kind.startswith("bwd_")
    return CompileMetrics(
        compile_id=event.compile_id,
        backward=backward,
        is_runtime=event.kind.endswith("_runtime"),
        line=event.line,
        function=_location(data, "co_filename", "co_firstlineno", data.get("co_name")),
        seconds=_seconds(data, "entire_frame_compile_time_s", "duration_us"),
        backend_seconds=_seconds(data, "backend_compile_time_s", "aot_autograd_cumulative_compile_time_us"),
        inductor_seconds=_seconds(data, "inductor_compile_time_s", "inductor_cumulative_compile_time_us"),
        codegen_seconds=_seconds(data, "code_gen_time_s", "inductor_code_gen_cumulative_compile_time_us"),
        autotune_seconds=_seconds(data, "", "runtime_triton_autotune_time_us"),
        cudagraph_seconds=_seconds(data, "", "runtime_cudagraphify_time_us"),
        cache_size=_integer(data, "cache_size"),
        guard_count=_integer(data, "guard_count"),
        shape_guard_count=_integer(data, "shape_env_guard_count"),
        graph_ops=_integer(data, "graph_op_count"),
        graph_nodes=_integer(data, "graph_node_count"),
        graph_inputs=_integer(data, "graph_input_count"),
        guard_latency_us=number(data.get("guard_latency_us")),
        fail_type=_text(data, "fail_type"),
        fail_reason=_text(data, "fail_reason"),
        fail_location=_location(data, "fail_user_frame_filename", "fail_user_frame_lineno", None),
        restart_reasons=_texts(data.get("restart_reasons")),
        has_guarded_code=value if isinstance(value := data.get("has_guarded_code"), bool) else None,
        cudagraph_skip_reason=_text(data, "cudagraph_skip_reason"),
        raw=data,
    )


def _integer(data: dict[str, Any], key: str) -> int | None:
    value = number(data.get(key))
    return None if value is None else int(value)


def _seconds(data: dict[str, Any], in_seconds: str, in_microseconds: str) -> float | None:
    seconds = number(data.get(in_seconds))
    if seconds is None:
        microseconds = number(data.get(in_microseconds))
        seconds = None if microseconds is None else microseconds / 1e6
    return None if seconds is None or seconds < 0 else seconds


def _text(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def _texts(value: object) -> tuple[str, ...]:
    """A list, or a text that holds one as JSON."""
    if isinstance(value, str) and value.startswith("["):
        text = value
        try:
            value = from_json(text)
        except ValueError:
            return (text,)
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def _location(data: dict[str, Any], path: str, line: str, name: object) -> SourceLocation | None:
    file, number = _text(data, path), _integer(data, line)
    if file is None or number is None:
        return None
    return SourceLocation(file, number, name if isinstance(name, str) else None)
