"""The palette (ctrl+p): actions that work here, panes, graphs, kernels, themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from inspector.frozen import dataclass
from inspector.text import clean

from .actions import keys_of, keys_text
from .screens.base import InspectorScreen


@dataclass(frozen=True, slots=True)
class Command:
    text: str
    help: str
    run: Callable[[], object]


class _ListProvider(Provider):
    """Offers a list of commands; `discover` says whether they show before anything is typed."""

    DISCOVER = False

    def commands(self) -> Iterator[Command]:
        raise NotImplementedError

    async def discover(self) -> Hits:
        for command in self.commands() if self.DISCOVER else ():
            yield DiscoveryHit(Content(command.text), command.run, command.text, command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in self.commands():
            # Not `Matcher.highlight`, to which a name's brackets would be markup.
            shown = Content(clean(command.text))
            score, places = matcher.fuzzy_search.match(query, shown.plain)
            if score > 0:
                for place in places:
                    shown = shown.stylize(matcher.match_style, place, place + 1)
                yield Hit(score, shown, command.run, shown.plain, command.help)


class ActionCommands(_ListProvider):
    """The registry's actions that are active on the screen below."""

    DISCOVER = True

    def commands(self) -> Iterator[Command]:
        active = self.screen.active_bindings
        for action in self.screen.actions if isinstance(self.screen, InspectorScreen) else ():
            if action.palette and (keys := keys_of(action, active)):
                run = partial(self.app.run_action, action.name, active[keys[0]].node)
                yield Command(action.title, f"key {keys_text(keys)}", run)


class PlaceCommands(_ListProvider):
    """What the open screens offer: kernels of the graph that is on top, graphs of its run."""

    def commands(self) -> Iterator[Command]:
        for screen in reversed(self.app.screen_stack):
            if isinstance(screen, InspectorScreen):
                for place in screen.places():
                    yield Command(place.name, place.kind, place.go)


class ThemeCommands(_ListProvider):
    """Textual's themes, those that use the terminal's own colours included."""

    def commands(self) -> Iterator[Command]:
        for name in self.app.available_themes:
            yield Command(f"theme {name}", "theme", partial(setattr, self.app, "theme", name))
