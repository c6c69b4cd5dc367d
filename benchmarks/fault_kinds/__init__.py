"""Changes of the text of generated C++ and Triton kernels that make faults of them, in named sets.

A change is a kind, a pattern and what takes a match's place (`patterns`). Those of ``VALUES`` are likely to
show for some values only: at ties, for NaN and infinities, for rows of one sign, for large or tiny numbers,
for one number. Whether one is a fault at all is for `fault_oracle` to say. A set is written before replay is
tried on any of it, and after what the sets before it led to; it is not changed afterwards.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from .patterns import Change

KINDS = ("first", "unseen", "third", "fourth", "fifth")
"""The sets, each a module."""

KERNEL = re.compile(
    r"^(?P<name>\w+) = async_compile\.(?P<kind>\w+)\((?P<body>.*?)'''(?:\)|, device_str)",
    re.MULTILINE | re.DOTALL,
)

_EVERYWHERE = {
    "identity 0 of a maximum", "identity 0 of a minimum", "lowest for -inf", "exp without the maximum",
    "one element", "one element 2 % off", "middle block",
}  # fmt: skip
"""Kinds that are planted at all places of the same text: vectors, tail and scalars of one loop."""


@dataclass(frozen=True)
class Fault:
    """A change of one kernel of one graph: stretches of output_code.py, each (start, end, new text)."""

    graph: str
    kernel: str
    kind: str
    edits: tuple[tuple[int, int, str], ...]

    def plant(self, text: str) -> str:
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def _changes(kind: str, name: str, kinds: str) -> tuple[list[Change], list[Change]]:
    module = import_module(f"{__name__}.{kinds}")
    if kind != "triton":
        return module.CPP, module.CPP_VALUES
    return (module.TRITON, module.TRITON_VALUES) if name.startswith("triton_") else (module.USER, [])


def faults_of(graph: str, text: str, most: int, seed: int = 0, kinds: str = "first") -> list[Fault]:
    """At most `most` faults for each kernel, two of three from what depends on values where there is that, of
    as many kinds as there are, at places drawn at random: one, or all that hold the same text.
    `kinds`: of this set."""
    faults = []
    for kernel in KERNEL.finditer(text):
        name, start = kernel["name"], kernel.start("body")
        triton = kernel["kind"] == "triton"
        # Of a Triton source only the functions, not what a decorator says; of C++ what is behind the head.
        inner = text.find("\ndef " if triton else 'extern "C"', start, kernel.end())
        start = max(start, inner)
        body = text[start : kernel.end("body")]
        choice = random.Random(f"{seed}{graph}{name}")
        queues = []
        for changes in _changes(kernel["kind"], name, kinds):
            by_kind: dict[str, dict[str, list[re.Match[str]]]] = {}
            for kind, pattern, _ in changes:
                if kind != "swapped outputs" or "out_ptr1" in body:
                    for match in re.finditer(pattern, body):
                        by_kind.setdefault(kind, {}).setdefault(match[0], []).append(match)
            news = {(kind, pattern): new for kind, pattern, new in changes}
            queue = [
                _fault(graph, name, kind, start, places, news[kind, places[0].re.pattern], choice)
                for kind, texts in by_kind.items()
                for places in texts.values()
            ]
            choice.shuffle(queue)
            seen: dict[str, int] = {}
            ranked: list[tuple[int, int, Fault]] = []
            for fault in queue:
                seen[fault.kind] = seen.get(fault.kind, 0) + 1
                ranked.append((seen[fault.kind], len(ranked), fault))
            queues.append([fault for *_, fault in sorted(ranked, key=lambda item: item[:2])])
        plain, values = ([fault for fault in queue if fault.plant(text) != text] for queue in queues)
        share = most - most // 3
        faults += (values[:share] + plain)[:most]
    return faults


def _fault(
    graph: str,
    kernel: str,
    kind: str,
    start: int,
    places: list[re.Match[str]],
    new: str | Callable[[re.Match[str]], str],
    choice: random.Random,
) -> Fault:
    if kind not in _EVERYWHERE and choice.random() < 0.4:
        places = [choice.choice(places)]
    edits = (
        (start + match.start(), start + match.end(), new(match) if callable(new) else match.expand(new))
        for match in places
    )
    return Fault(graph, kernel, kind, tuple(edits))
