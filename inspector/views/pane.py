"""What a pane is: its views, the files of the run behind them, and what yields the views' contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from inspector.frozen import dataclass
from inspector.present.content import Content

if TYPE_CHECKING:
    from inspector.readers.graph import CompiledGraph

    from .fusion import Fusion
    from .loading import Links


class Reading:
    """One graph while it is read in a thread; what several panes need is worked out once."""

    def __init__(self, graph: CompiledGraph) -> None:
        self.graph = graph

    @cached_property
    def links(self) -> Links:
        from .loading import load_links

        return load_links(self.graph)

    @cached_property
    def fusion(self) -> Fusion:
        from .fusion import load_fusion

        return load_fusion(self.graph, self.links.linkage)


Build = Callable[[], Content | None]
"""A view's content; None where its file is not here. What it raises is shown in its place."""
Contents = Iterator[tuple[str, Build]]


@dataclass(frozen=True, slots=True)
class View:
    """`id` is the widget's; `form` says what can be shown in it."""

    id: str
    title: str
    form: Literal["text", "table", "page"] = "text"


@dataclass(frozen=True, slots=True)
class Pane:
    """`key` is its digit, `letter` a second key by its name in the config; `about` the help's sentence.

    `files`: those of a graph that it shows, with the views that show them. The view `first` has the keys when
    the pane is chosen. `contents` yields views of this pane with how to build what they show, in the order in
    which people look at them; `late`: it takes the links between all files.
    """

    id: str
    key: str
    title: str
    about: str
    first: str
    views: tuple[View, ...]
    contents: Callable[[Reading], Contents]
    files: Mapping[str, str] = field(default_factory=dict)
    letter: str = ""
    late: bool = False
