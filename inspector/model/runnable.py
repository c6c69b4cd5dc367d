"""fx_graph_runnable.py: what a script that runs one graph again tells of its machine and settings.

Written by torch/_dynamo/repro/after_aot.py: save_graph_repro. Nothing here is ever executed by a reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from inspector.frozen import dataclass

from .problem import Problem


@dataclass(frozen=True, slots=True)
class RunnableScript:
    """`devices` are (GPU name, how many). `config` are the settings away from their defaults, as (dotted
    name, text of the value). `symbols` are the hints of symbolic sizes."""

    devices: tuple[tuple[str, int], ...] = ()
    config: tuple[tuple[str, str], ...] = ()
    symbols: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
