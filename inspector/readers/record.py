"""RUN/record/*.jsonl: one JSON object a line, written by inspector/capture/recorder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast, get_args, get_type_hints

from inspector.model.calls import CompiledCallable, Event, GraphRuns, ProcessCalls, SteadySpan
from inspector.model.decision import NO_EVIDENCE, Decision, Evidence, Verdict
from inspector.model.load import LoadSample
from inspector.model.problem import Problem
from inspector.model.record import (
    GraphRecord,
    ProcessRecord,
    RecordedBuffer,
    RecordedChoices,
    RecordedInputs,
    RecordedKernel,
    RecordedRound,
)
from inspector.model.source import SourceLocation, is_ours, without_ours
from inspector.model.state import ProcessState, TorchState

from .record_kernels import finite, parse_choices, parse_inputs, parse_kernel, text
from .text import from_json, number

SCHEMA = "inspector.record/1"
_VERDICTS = frozenset(get_args(Verdict))
_EVENTS = frozenset(get_args(get_type_hints(Event)["kind"]))


def parse_record(text: str, path: str) -> ProcessRecord:
    """A whole file; never raises. A line that can't be read is a problem and the others still count.

    A last line without its end is what a killed process leaves. Kinds and keys that are not known come from a
    newer recorder and are passed over.
    """
    head: dict[str, Any] = {}
    calls: ProcessCalls | None = None
    hooks: dict[str, tuple[str, ...]] = {"hooks": (), "missing": ()}
    graphs: list[GraphRecord] = []
    kernels: dict[Any, RecordedKernel] = {}
    choices: list[RecordedChoices] = []
    inputs: list[RecordedInputs] = []
    problems: list[Problem] = []
    lines = text.split("\n")
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            data = from_json(line)
            if not isinstance(data, dict):
                raise TypeError("not an object")
            if data.get("kind") == "process":
                head = data
            elif data.get("kind") == "graph":
                graphs.append(_graph(data))
            elif data.get("kind") == "calls":
                # Each such line has everything so far, so the newest one counts.
                calls = _calls(data, head)
            elif data.get("kind") == "kernel":
                # A kernel has a line when it is compiled and another when it is tuned.
                kernels[data.get("id", place)] = parse_kernel(data)
            elif data.get("kind") == "choices":
                choices.append(parse_choices(data))
            elif data.get("kind") == "inputs":
                inputs.append(parse_inputs(data))
            for name in hooks:
                hooks[name] = _texts(data.get(name)) or hooks[name]
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
            cut = place == len(lines)
            what = "cut off: the process was killed while it wrote" if cut else f"not readable: {error!r}"
            problems.append(Problem(path, place, f"line of the record {what}"))
    if lines[-1].strip() and not any(problem.line == len(lines) for problem in problems):
        problems.append(Problem(path, len(lines), "the record ends without a line's end: cut off"))
    if head.get("schema", SCHEMA) != SCHEMA:
        problems.append(
            Problem(path, 1, f"schema is {head['schema']!r}, not {SCHEMA!r}: read as far as possible")
        )
    return ProcessRecord(
        path=path,
        pid=_int(head.get("pid")),
        rank=_int(head.get("rank")),
        python=str(head.get("python", "")),
        torch=str(head.get("torch", "")),
        hooks=hooks["hooks"],
        missing=hooks["missing"],
        graphs=tuple(graphs),
        kernels=tuple(kernels.values()),
        choices=tuple(choices),
        inputs=tuple(inputs),
        calls=calls,
        problems=tuple(problems),
    )


def _calls(data: dict[str, Any], head: dict[str, Any]) -> ProcessCalls:
    return ProcessCalls(
        pid=_int(head.get("pid")),
        rank=_int(head.get("rank")),
        callables=tuple(_callable(item) for item in data["callables"]),
        events=tuple(_event(item) for item in data.get("events", ()) if item["kind"] in _EVENTS),
        counters=tuple((str(name), int(value)) for name, value in data.get("counters", {}).items()),
        disabled=text(data.get("disabled")),
        state=_state(data),
        wrappers=tuple((str(place), str(name)) for place, name in data.get("wrappers", {}).items()),
        load=tuple(_load(item) for item in data.get("load", ())),
        steady_span=_span(data["steady_span"]) if data.get("steady_span") else None,
        graph_runs=tuple(
            GraphRuns(
                str(item["graph"]),
                str(item["process"]),
                int(item["runs"]),
                tuple(finite(time) for time in item["ms"]),
                _int(item.get("state")),
                *_same(item.get("same")),
                subnormal=_by_position(item.get("subnormal")),
                sizes=_by_position(item.get("sizes")),
                asked=tuple(tuple(map(int, shape)) for shape in item.get("asked") or ()),
                trained=_int(item.get("trained")),
                span=_first_and_last(item.get("span")),
            )
            for item in data.get("graph_runs", ())
        ),
    )


def _same(data: dict[str, Any] | None) -> tuple[int, int, tuple[int, ...]]:
    """(runs looked at, arguments, positions of those that were the same); older captures have none."""
    if data is None:
        return 0, 0, ()
    return int(data["seen"]), int(data["given"]), tuple(int(position) for position in data["arguments"])


def _first_and_last(data: list[Any] | None) -> tuple[int, int] | None:
    return (int(data[0]), int(data[1])) if data else None


def _by_position(data: dict[str, Any] | None) -> tuple[tuple[int, float], ...]:
    return tuple((int(position), finite(value)) for position, value in (data or {}).items())


def _callable(data: dict[str, Any]) -> CompiledCallable:
    return CompiledCallable(
        name=str(data["name"]),
        location=_optional_location(data.get("location")),
        order=int(data["order"]),
        mode=text(data.get("mode")),
        backend=text(data.get("backend")),
        calls=int(data["calls"]),
        first_ms=None if data.get("first_ms") is None else finite(data["first_ms"]),
        cold_ms=tuple(finite(time) for time in data["cold_ms"]),
        cold_index=tuple(int(index) for index in data["cold_index"]),
        steady_ms=tuple(finite(time) for time in data["steady_ms"]),
        total_ms=finite(data["total_ms"]),
        device=text(data.get("device")),
        grad=_flag(data.get("grad")),
        training=_flag(data.get("training")),
        kind="backward" if data.get("kind") == "backward" else "call",
        setup_ms=finite(data.get("setup_ms") or 0.0),
        states=tuple(position for position in data.get("states", ()) if isinstance(position, int)),
        sizes=tuple(_texts(sizes) for sizes in data.get("sizes", ())),
        steady_sizes=tuple(int(position) for position in data.get("steady_sizes", ())),
        steady_faults=tuple(int(count) for count in data.get("steady_faults", ())),
        span=_first_and_last(data.get("span")),
    )


def _state(data: dict[str, Any]) -> ProcessState | None:
    """Of a recorder that looked at it; values of a kind that no switch has are passed over."""
    if not isinstance(data.get("states"), list):
        return None
    return ProcessState(
        tuple(
            TorchState(
                {
                    str(name): value
                    for name, value in state.items()
                    if value is None or isinstance(value, bool | int | str)
                }
            )
            for state in data["states"]
        ),
        {str(name): str(value) for name, value in dict(data.get("environment") or {}).items()},
        _int(data.get("cpus")),
    )


def _load(data: dict[str, Any]) -> LoadSample:
    """Of numbers only; what is no number is as if the system had not had it."""
    numbers: dict[str, Any] = {
        field.name: value for field in fields(LoadSample) if number(value := data.get(field.name)) is not None
    }
    return LoadSample(**{"at": 0.0, "own": 0.0, **numbers})


def _span(data: dict[str, Any]) -> SteadySpan:
    found = ((_optional_location(place), int(looks)) for place, looks in data.get("lines", ()))
    return SteadySpan(
        calls=int(data["calls"]),
        span_ms=finite(data["span_ms"]),
        inside_ms=finite(data["inside_ms"]),
        looks=int(data.get("looks", 0)),
        lines=tuple((place, looks) for place, looks in found if place is not None),
    )


def _event(data: dict[str, Any]) -> Event:
    return Event(
        kind=data["kind"],
        reason=str(data["reason"]),
        frame=text(data.get("frame")),
        location=_optional_location(data.get("location")),
        count=int(data.get("count", 1)),
        raised=bool(data.get("raised")),
    )


def _optional_location(text: object) -> SourceLocation | None:
    """None too for a place of the recorder's own, where it could not tell another."""
    location = None if text is None else _location(str(text))
    return None if location is None or is_ours(location.path) else location


def _graph(data: dict[str, Any]) -> GraphRecord:
    names = [str(node["name"]) for node in data["nodes"]]
    members = {str(node["name"]): _texts(node["members"]) for node in data["nodes"] if "members" in node}
    score_names = _texts(data.get("score_fields"))
    return GraphRecord(
        graph=text(data.get("graph")),
        process=text(data.get("process")),
        aot=text(data.get("aot")),
        compile_id=text(data.get("compile_id")),
        part=int(data.get("part", 0)),
        finished=bool(data.get("finished", True)),
        rounds=tuple(
            RecordedRound(
                int(item["round"]),
                tuple(names[index] for index in item["nodes"]),
                _int(item.get("possible")),
                bool(item.get("truncated")),
            )
            for item in data["rounds"]
        ),
        decisions=tuple(_decision(item, names, members, score_names) for item in data["decisions"]),
        buffers=tuple(_buffer(item) for item in data.get("buffers", ())),
        inputs=tuple(_buffer(item) for item in data.get("inputs", ())),
        members=members,
    )


def _decision(
    data: dict[str, Any],
    names: list[str],
    members: Mapping[str, tuple[str, ...]],
    score_names: tuple[str, ...],
) -> Decision:
    verdict = data["verdict"]
    if verdict not in _VERDICTS:
        raise ValueError(f"verdict {verdict!r}")
    first, second = names[data["first"]], names[data["second"]]
    benchmark = data.get("benchmark")
    return Decision(
        first,
        second,
        int(data["round"]),
        cast(Verdict, verdict),
        text(data.get("reason")),
        measured=verdict == "rejected" and benchmark is not None and not benchmark["fused"],
        first_members=members.get(first, ()),
        second_members=members.get(second, ()),
        by_torch=data.get("source") != "recorder",
        evidence=_evidence(data, benchmark, score_names),
    )


def _evidence(
    data: dict[str, Any], benchmark: dict[str, Any] | None, score_names: tuple[str, ...]
) -> Evidence:
    score, reasons = data.get("score"), _texts(data.get("reasons"))
    if score is None and benchmark is None and not reasons:
        return NO_EVIDENCE
    names = (*score_names, *map(str, range(len(score_names), len(score or ()))))
    parts = {
        name: part for name, part in zip(names, score or (), strict=False) if isinstance(part, (int, float))
    }
    times = None if benchmark is None else tuple(finite(time) for time in benchmark["times_ms"])
    return Evidence(parts or None, times or None, reasons or None)


def _buffer(data: dict[str, Any]) -> RecordedBuffer:
    return RecordedBuffer(
        name=str(data["name"]),
        node=text(data.get("node")),
        cls=str(data.get("class", "")),
        origin=text(data.get("origin")),
        origins=_texts(data.get("origins")),
        stack=without_ours(_location(text) for text in _texts(data.get("stack"))),
        layout=text(data.get("layout")),
        device=text(data.get("device")),
        dtype=text(data.get("dtype")),
        size=_texts(data["size"]) if "size" in data else None,
        stride=_texts(data["stride"]) if "stride" in data else None,
        bytes=_int(data.get("bytes")),
    )


def _location(text: str) -> SourceLocation:
    """`/home/me/model.py:12`; a path may hold colons of its own."""
    file, _, line = text.rpartition(":")
    return SourceLocation(file, int(line))


def _texts(values: Iterable[object] | None) -> tuple[str, ...]:
    return tuple(str(value) for value in values or ())


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
