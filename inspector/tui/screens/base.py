"""What all main screens share: bars, search, copy, going back, help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from textual._styles_cache import StylesCache
from textual.app import ComposeResult
from textual.events import Compose, Event, Key, Unmount
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from inspector.frozen import dataclass
from inspector.model.problem import told
from inspector.tui.actions import ACTIONS, Action, bindings, key_text
from inspector.tui.bounded import Bounded, BoundedApp
from inspector.tui.help import help_lines
from inspector.tui.navigation import FindTarget, Forward, HelpTarget, Left, LineTarget, Open, Target, Wrap
from inspector.tui.search import typed_ahead
from inspector.tui.threads import start
from inspector.tui.widgets.bars import ChainBar, Headline, KeyBar
from inspector.tui.widgets.code_view import CodeView
from inspector.tui.widgets.lines_view import LinesView
from inspector.tui.widgets.table_view import TableView
from inspector.units import plural

if TYPE_CHECKING:
    from inspector.tui.widgets.search_box import SearchBox


@dataclass(frozen=True, slots=True)
class Place:
    """Something that the palette goes to: its name, what kind of thing it is, and how to get there."""

    name: str
    kind: str
    go: Callable[[], object]


class InspectorScreen(Bounded, Screen[None]):
    """A headline, a body of views, a line about the selection, and the keys."""

    BINDINGS = bindings("text", "everywhere")
    opens_runs: ClassVar[bool] = False
    """Whether what it reads is read for it alone, and is nobody's when it is left."""
    own_actions: ClassVar[tuple[Action, ...]] = ()
    """What can be done on this screen beside what the registry knows."""
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--title",
        "lines--title-focus",
        "lines--info",
        "lines--gutter",
        "lines--cursor",
        "lines--cursor-focus",
        "lines--mark",
        "lines--sign",
        "lines--range",
        "lines--match",
        "lines--match-current",
        "table--head",
        "syntax--keyword",
        "syntax--name",
        "syntax--function",
        "syntax--string",
        "syntax--number",
        "syntax--comment",
        "syntax--operator",
        "code--note",
        "tone--dim",
        "tone--good",
        "tone--bad",
        "tone--warn",
        "tone--accent",
        "tabs--here",
        "tabs--other",
        "keys--key",
        "keys--label",
    }

    def __init__(self) -> None:
        super().__init__()
        self.headline = Headline(id="headline")
        self.bar = ChainBar(id="chain")
        self.came_by: Target | None = None
        """What it was opened for, to open it again."""
        self._search_origin = 0
        self._search_top = 0.0
        self._search_view: LinesView[Any] | None = None
        self._ahead: list[tuple[str, str | None]] | None = None

    def compose(self) -> ComposeResult:
        yield from self.compose_head()
        yield from self.compose_body()
        yield self.bar
        yield KeyBar(self.actions, id="keys")

    def compose_head(self) -> ComposeResult:
        yield self.headline

    def compose_body(self) -> ComposeResult:
        raise NotImplementedError

    def on_unmount(self) -> None:
        """Textual remembers colours by the cache that asked for them, 1,024 of which it keeps, with all lines
        that widgets of screens long gone have drawn (textual/_styles_cache.py, `get_inner_outer`)."""
        forget = getattr(StylesCache.get_inner_outer, "cache_clear", None)
        if forget is not None:
            forget()
        if isinstance(self.app, BoundedApp):
            self.app.let_go_of_screen(self.opens_runs)

    async def on_event(self, event: Event) -> None:
        """A screen that is taken away before it is composed gets no widgets (Textual's `Widget.mount`): where
        two are opened at once, or one while the program ends. It hears of nothing but its end."""
        if self.children or isinstance(event, (Compose, Unmount)):
            await super().on_event(event)

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Not where this screen is gone by then: whichever is drawn next would make the call."""

        def call() -> object:
            return callback(*args, **kwargs) if self.is_attached else None

        return super().call_after_refresh(call)

    def check_action(self, action: str, _parameters: tuple[object, ...]) -> bool | None:
        """What cannot be done now has no key in the footer and none in the help."""
        if action == "back":
            view = self.view
            busy = view is not None and (view.range_start is not None or view.matches is not None)
            return busy or len(self.app.screen_stack) > 1
        if action == "wrap":
            return isinstance(self.view, CodeView)
        return True

    @property
    def running(self) -> str:
        """What quitting would end, with an article, beside jobs of the app's; empty for nothing."""
        session = getattr(self, "session", None)
        return "a replay" if session is not None and session.running else ""

    def places(self) -> Iterator[Place]:
        """What the palette finds by name while this screen is open."""
        yield from ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """What there is to do, here or anywhere, in the order in which it is shown."""
        return (*self.own_actions, *ACTIONS)

    def key(self, id: str) -> str:
        """A key as people write it, by its name in the config."""
        return key_text(self.app, id)

    @property
    def stopping(self) -> str:
        """What every question says before something runs."""
        return f"While it runs, {self.key('stop')} stops it."

    @property
    def view(self) -> LinesView[Any] | None:
        """The view that keys go to: the focused one, else the first on screen."""
        if isinstance(self.focused, LinesView):
            return self.focused
        return next((view for view in self.query(LinesView) if view.display), None)

    def start(self, work: Callable[[], None], group: str, failed: Callable[[Exception], None]) -> None:
        """Slow work in a thread: it reports by `call_later`; `failed` hears what it raises."""
        start(self, work, group, failed)

    def failed(self, what: str, error: Exception) -> None:
        """A thread met something that nobody foresaw; it becomes a line on the screen."""
        self.bar.remark(f"{what}: {told(error)}", "bad")

    def action_open(self) -> None:
        """What enter and a double click do; nothing where rows lead nowhere."""

    def on_lines_view_opened(self) -> None:
        self.action_open()

    # -- search

    def on_key(self, event: Key) -> None:
        """What is typed right behind the slash belongs to the search, also while its box is being made."""
        if self._ahead is not None:
            event.stop()
            self._ahead.append((event.key, event.character))
        elif self._search_view is not None and event.is_printable:
            event.stop()
            self.query_one("SearchBox").post_message(Key(event.key, event.character))
        elif self.view is not None:
            here = self.active_bindings.get(event.key)
            if here is not None and here.binding.action == "search":
                self._ahead = []

    async def action_search(self) -> None:
        from inspector.tui.widgets.search_box import SearchBox

        view = self.view
        if view is None or self._search_view is not None:
            return
        self._search_view, self._search_origin = view, view.cursor
        self._search_top = view.scroll_offset.y
        self.bar.display = False
        box = SearchBox()
        await self.mount(box, before=self.bar)
        self.set_focus(box)
        ahead, self._ahead = self._ahead or [], None
        typed = typed_ahead(ahead)
        box.value = typed.text
        box.cursor_position = len(typed.text)
        if typed.ended_by:
            view.search(typed.text, self._search_origin)
            await self._leave_search(keep=typed.ended_by == "enter")

    def on_input_changed(self, event: Input.Changed) -> None:
        if self._search_view is not None:
            self._search_view.search(event.value, self._search_origin, self._search_top)

    async def on_search_box_left(self, message: SearchBox.Left) -> None:
        await self._leave_search(message.keep)

    async def _leave_search(self, keep: bool) -> None:
        view = self._search_view
        self._search_view = None
        await self.query("SearchBox").remove()
        self.bar.display = True
        if view is not None:
            if not keep:
                view.search("", self._search_origin, self._search_top)
            self.focus_view(view)
        self.refresh_bindings()

    # -- all graphs

    def action_find(self) -> None:
        """What was searched for here, or is typed there, in all graphs of the run."""
        session, view = getattr(self, "session", None), self.view
        if session is None or not session.is_open:
            self.bar.remark("no run is open here")
            return
        query = view.matches.query if view is not None and view.matches is not None else ""
        self.post_message(Open(FindTarget(session, query)))

    # -- tables

    def action_order(self) -> None:
        """By what of the columns comes next."""
        if isinstance(self.view, TableView) and self.view.source.columns:
            self.view.sort_by_next()
            place = self.view.arrangement.column
            name = self.view.source.columns[place].title if place is not None else ""
            self.bar.remark(f"sorted by {name}" if name else "as it was")

    def action_filter(self) -> None:
        """Only rows with what was searched for; all again."""
        view = self.view
        if not isinstance(view, TableView):
            return
        words = "" if view.arrangement.words else view.matches.query if view.matches is not None else ""
        if not words and not view.arrangement.words:
            self.bar.remark(
                f"{self.key('search')} searches; then {self.key('filter')} leaves only what matches"
            )
            return
        view.rearrange(replace(view.arrangement, words=words))
        rows = f"{view.content.count:,} of {view.source.count:,} rows"
        self.bar.remark(f"{rows}; {self.key('filter')} shows all" if words else "all rows")

    def action_step_match(self, direction: int) -> None:
        if self.view is not None and not self.view.step_match(direction):
            self.bar.remark(f"nothing to step through: {self.key('search')} searches")

    # -- copy

    def action_select_lines(self) -> None:
        if self.view is not None:
            self.view.toggle_selection()
            self.refresh_bindings()
            if self.view.range_start is not None:
                keys = [self.key(id) for id in ("copy", "select", "back")]
                self.bar.remark("selecting lines: move, then {} copies; {} or {} ends".format(*keys))

    def action_copy(self) -> None:
        view = self.view
        text = view.copied_text() if view is not None else ""
        if view is None or not text:
            self.bar.remark("nothing to copy here")
            return
        lines = text.count("\n") + 1
        self.app.copy_to_clipboard(text)
        self.bar.remark(f"copied {plural(lines, 'line')}")
        view.range_start = None
        view.refresh()
        start(self, lambda: self._copy_with_tool(text), "copy")

    @staticmethod
    def _copy_with_tool(text: str) -> None:
        from inspector.tui.clipboard import copy_with_tool

        copy_with_tool(text)

    def action_whole_line(self) -> None:
        view = self.view
        if view is None or not view.content.count:
            return
        parts = [("", view.content.text(view.cursor))]
        if isinstance(view, TableView) and not view.content.rows[view.cursor].wide:
            cells = zip(view.source.columns, view.content.rows[view.cursor].cells, strict=True)
            parts = [(column.title, cell.text) for column, cell in cells if cell.text.strip()]
        self.post_message(Open(LineTarget(tuple(parts))))

    def action_wrap(self) -> None:
        self.post_message(Wrap())

    # -- away

    def action_back(self) -> None:
        """End what is nearest: a selection, a search, the screen."""
        view = self.view
        if view is not None and view.range_start is not None:
            view.range_start = None
            view.refresh()
        elif view is not None and view.matches is not None:
            view.search("", view.cursor)
        elif len(self.app.screen_stack) > 1:
            self.app.post_message(Left(self.came_by))
            self.app.pop_screen()
        self.refresh_bindings()

    def action_forward(self) -> None:
        """Where going back came from."""
        self.app.post_message(Forward())

    def action_help(self) -> None:
        from inspector.present.glossary import terms_in

        view = self.view
        line = view.content.text(view.cursor) if view is not None and view.content.count else ""
        self.post_message(Open(HelpTarget(help_lines(self.actions, self.active_bindings), terms_in(line))))

    def action_themes(self) -> None:
        self.app.search_themes()

    async def action_quit(self) -> None:
        await self.app.action_quit()

    def focus_view(self, view: Widget) -> None:
        self.set_focus(view, scroll_visible=False)
