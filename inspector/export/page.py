"""The page: the report as markup, each graph's data packed, and a policy that lets nothing else run.

A run's text becomes markup nowhere. Jinja2 escapes whatever a template is handed; a graph's data is base64 of
deflate, in which there is no `<`; the script sets text and never markup, which the policy's Trusted Types
also enforce. The policy names our own script and style by their hashes and allows no request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from inspector.analysis.replay_history import latest
from inspector.contract.bounds import finite
from inspector.model.problem import told
from inspector.model.replay import GraphReplay, ReplayResult
from inspector.readers.graph import CompiledGraph
from inspector.readers.run import Run
from inspector.replay.store import load_results
from inspector.text import clean
from inspector.units import duration, percent, plural
from inspector.version import __version__
from inspector.views.attempt import attempt

from .comparison import OTHER, compared
from .graph import CLASSES, graph_data
from .report import Report, gather_report, link

_FOLDER = Path(__file__).with_name("page")

MOST_BYTES = 4_500_000
"""Of packed graphs, those first in which most time goes; the rest is listed, and read with inspector."""


def export_page(
    run: Run, say: Callable[[str], object], tell: Callable[[str], object], other: Run | None = None
) -> str:
    """The whole file; with what differs from an `other` run, and its graphs too. Reads all and executes
    nothing; `say` hears of what cannot be read, and of what was left out, `tell` what is being done."""
    report = gather_report(run, say, tell)
    sources, comparison = _sources(run, report.replays, report.results), None
    if other is not None:
        tell("comparing both runs")
        comparison = compared(other, run, report.explanation)
        results = load_results(other.root, say) if other.root.is_dir() else ()
        sources |= _sources(other, latest(results), results, OTHER)
    packed = _packed(sources, report, say, tell)
    left_out = sum(bool(source.graph.files) for source in sources.values()) - len(packed)
    style, script = (_own(name) for name in ("style.css", "script.js"))
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return _template().render(
        report=report,
        comparison=comparison,
        packed=packed,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        link=link,
        classes=" ".join(name or "-" for name in CLASSES),
        version=__version__,
        left_out=left_out,
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    environment.filters |= {"duration": duration, "percent": percent}
    return environment.get_template("page.html")


def _cleaned(value: object) -> object:
    """What a template is handed, as one line without what is not ink; our own markup as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _own(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a policy names an inline element: by the very characters between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


class _Source(NamedTuple):
    """What a graph's data is made of."""

    graph: CompiledGraph
    replay: GraphReplay | None
    results: Sequence[ReplayResult]


def _sources(
    run: Run, replays: Mapping[str, GraphReplay], results: Sequence[ReplayResult], prefix: str = ""
) -> dict[str, _Source]:
    """By the graphs' names on the page."""
    return {
        f"{prefix}{graph.ident}": _Source(graph, replays.get(graph.ident), results) for graph in run.graphs
    }


def _packed(
    sources: Mapping[str, _Source],
    report: Report,
    say: Callable[[str], object],
    tell: Callable[[str], object],
) -> dict[str, str]:
    """Each graph's data by its name on the page, in the order of `sources`, as far as there is room."""
    time: dict[str, float] = {}
    for place in report.explanation.places:
        time[place.graph or ""] = time.get(place.graph or "", 0.0) + place.ms
    packed: dict[str, str] = {}
    left, left_out = MOST_BYTES, 0
    for name, source in sorted(sources.items(), key=lambda item: -time.get(item[0].removeprefix(OTHER), 0.0)):
        if not source.graph.files:
            continue
        tell(f"reading {name}")
        data = attempt(partial(graph_data, *source))
        if isinstance(data, Exception):
            say(f"{name} is left out: {told(data)}")
            continue
        text = pack(data)
        if len(text) > left:
            left_out += 1
            continue
        left -= len(text)
        packed[name] = text
    if left_out:
        say(f"{plural(left_out, 'graph')} left out beyond {MOST_BYTES / 1e6:.1f} MB, those that take least")
    return {name: packed[name] for name in sources if name in packed}


def pack(data: object) -> str:
    """JSON, deflated, in base64."""
    text = json.dumps(finite(data), ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()
