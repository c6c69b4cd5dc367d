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
from collections.abc import Callable
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from inspector import __version__
from inspector.readers.run import Run
from inspector.text import clean
from inspector.units import duration, percent, plural
from inspector.views.attempt import attempt

from .graph import CLASSES, TITLES, graph_data
from .report import Report, gather_report, link

_FOLDER = Path(__file__).with_name("page")

MOST_BYTES = 4_500_000
"""Of packed graphs, those first in which most time goes; the rest is listed, and read with inspector."""


def export_page(run: Run, say: Callable[[str], object], tell: Callable[[str], object]) -> str:
    """The whole file. Reads all of the run and executes nothing; `say` hears of what cannot be read, and of
    what was left out, `tell` what is being done."""
    report = gather_report(run, say, tell)
    packed = _packed(run, report, tell)
    left_out = sum(bool(graph.files) for graph in run.graphs) - len(packed)
    if left_out:
        say(f"{plural(left_out, 'graph')} left out beyond {MOST_BYTES / 1e6:.1f} MB, those that take least")
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
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    environment.filters |= {"duration": duration, "percent": percent}
    return environment.get_template("page.html").render(
        report=report,
        packed=packed,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        link=link,
        classes=" ".join(name or "-" for name in CLASSES),
        titles=TITLES,
        version=__version__,
        left_out=left_out,
    )


def _cleaned(value: object) -> object:
    """What a template is handed, as one line without what is not ink; our own markup as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _own(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """As a policy names an inline element: by the very characters between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _packed(run: Run, report: Report, tell: Callable[[str], object]) -> dict[str, str]:
    """Each graph's data by its ident, in the run's order."""
    time: dict[str, float] = {}
    for place in report.explanation.places:
        time[place.graph or ""] = time.get(place.graph or "", 0.0) + place.ms
    packed: dict[str, str] = {}
    left = MOST_BYTES
    for graph in sorted(run.graphs, key=lambda graph: -time.get(graph.ident, 0.0)):
        if not graph.files:
            continue
        tell(f"reading {graph.ident}")
        data = attempt(lambda graph=graph: graph_data(graph, report.replays.get(graph.ident), report.results))  # type: ignore[misc]
        text = "" if isinstance(data, Exception) else pack(data)
        if isinstance(data, Exception) or len(text) > left:
            continue
        left -= len(text)
        packed[graph.ident] = text
    return {graph.ident: packed[graph.ident] for graph in run.graphs if graph.ident in packed}


def pack(data: object) -> str:
    """JSON, deflated, in base64."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()
