"""One registry of everything a user can do. Keys, the footer, the help screen and the palette read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from textual.app import App
from textual.binding import ActiveBinding, Binding, BindingType
from textual.keys import Keys, _character_to_key

from inspector.frozen import dataclass

Scope = Literal[
    "move",
    "text",
    "search",
    "runs",
    "first",
    "run",
    "explain",
    "graph",
    "fusion",
    "form",
    "command",
    "choice",
    "scroll",
    "live",
    "doctor",
    "trace",
    "diff",
    "below",
    "find",
    "index",
    "line",
    "app",
    "everywhere",
]

SCOPE_TITLES: dict[Scope, str] = {
    "runs": "Runs",
    "first": "This run",
    "run": "This run",
    "explain": "Why it is slow",
    "graph": "This graph",
    "fusion": "Fusion",
    "form": "This capture",
    "command": "The command",
    "live": "While it runs",
    "doctor": "This machine",
    "trace": "This trace",
    "diff": "Two runs",
    "below": "Below this kernel",
    "find": "In all graphs",
    "index": "Many runs",
    "line": "This line",
    "text": "Search and copy",
    "search": "While searching",
    "move": "Move",
    "app": "Everywhere",
    "everywhere": "Everywhere",
}


ASKING = (
    "Whatever runs the run's code or your command asks first: y says yes, anything else no. A yes to a run's "
    "code holds while that run is open; a command is asked for each time, and so is leaving one that runs."
)
"""The one rule for what needs a confirmation. Everything that it tells of goes through `navigation.Ask`."""


@dataclass(frozen=True, slots=True)
class Key:
    """What some keys mean, on every screen; `id` is their name in the user's config file."""

    id: str
    keys: tuple[str, ...]
    meaning: str


KEYS: tuple[Key, ...] = (
    Key("open", ("enter",), "Open, follow or start what the cursor is on"),
    Key("back", ("escape", "backspace", "alt+left"), "Back; first ends a search or a selection"),
    Key("forward", ("L", "alt+right"), "Forward again, where going back came from"),
    Key("other", ("tab",), "To the other part of the screen"),
    Key("other_back", ("shift+tab",), "The same, backwards"),
    Key("next", ("right_square_bracket",), "Next finding, or next line of the selection"),
    Key("previous", ("left_square_bracket",), "The one before"),
    Key("explain", ("e",), "Explain: why it is slow, what to change, what that wins"),
    Key("fusion", ("f",), "Fusion: lanes, what was missed, and why"),
    Key("trace", ("T",), "Trace: compile time, guards and stages of each compilation"),
    Key("capture", ("c",), "Capture a program"),
    Key("again", ("A",), "Capture this run's command again, in another mode if wished"),
    Key("doctor", ("d",), "Can this machine compile?"),
    Key("replay", ("r",), "Replay what the cursor is on: times, correctness"),
    Key("replay_all", ("R",), "Replay all that is shown here"),
    Key("try", ("t",), "Try a finding's setting: run the command again with it"),
    Key("edit", ("i",), "What-if: edit the kernel, replay it beside the original"),
    Key("edit_original", ("I",), "What-if: edit, beginning with the original again"),
    Key("stop", ("x",), "Stop what runs; a capture that is asked twice is killed"),
    Key("count", ("number_sign",), "Count kernels and launches of all graphs"),
    Key("rank", ("P",), "Only the next process (rank), then all again"),
    Key("outline", ("o",), "IR as an outline with both sides aligned, or as the whole text"),
    Key("sort", ("s",), "Sort by what comes next"),
    Key("mark", ("M",), "Mark for a comparison; two that are marked are compared"),
    Key("sums", ("S",), "Sum both sides by block, line, module path or kernel"),
    Key("missed", ("m",), "Missed fusions, worst first"),
    Key("boxes", ("b",), "A node's neighbours in boxes"),
    Key("sides", ("a",), "Before and after fusion side by side"),
    Key("partner", ("p",), "To the partner of what was missed here, and back"),
    Key("below", ("B",), "Below a kernel: the stages that it was lowered to"),
    Key("earlier", ("less_than_sign", "comma"), "Fusion a round earlier; below a kernel, the stage before"),
    Key("later", ("greater_than_sign", "full_stop"), "Fusion a round later; below a kernel, the next stage"),
    Key("write", ("w",), "Write the fused graph as SVG and DOT"),
    Key("search", ("slash",), "Search here"),
    Key("find", ("asterisk",), "Search all graphs of the run"),
    Key("next_match", ("n",), "Next match; between two runs, without a search, the next change"),
    Key("previous_match", ("N",), "The one before"),
    Key("everything", ("E",), "Of two runs only what changed, or all"),
    Key("order", ("O",), "Sort the table by its next column; a click on a column's title sorts by that"),
    Key("filter", ("ampersand",), "Only the table's rows with what was searched for, then all again"),
    Key("copy", ("y",), "Copy the line, or the lines selected"),
    Key("whole", ("z",), "The whole line, wrapped, where it has no room"),
    Key("wrap", ("W",), "Long lines of texts go on below, or are cut at the edge"),
    Key("select", ("v",), "Start or end a selection of lines"),
    Key("down", ("j", "down"), "Down"),
    Key("up", ("k", "up"), "Up"),
    Key("half_down", ("ctrl+d",), "Half a page down"),
    Key("half_up", ("ctrl+u",), "Half a page up"),
    Key("page_down", ("pagedown", "ctrl+f", "space"), "A page down"),
    Key("page_up", ("pageup", "ctrl+b"), "A page up"),
    Key("top", ("g", "home"), "First line"),
    Key("bottom", ("G", "end"), "Last line"),
    Key("left", ("h", "left"), "To the left"),
    Key("right", ("l", "right"), "To the right"),
    Key("line_start", ("0",), "Beginning of the line"),
    Key("line_end", ("dollar_sign",), "End of the longest line"),
    Key("palette", ("ctrl+p",), "Palette: find graphs, kernels, panes, themes and actions by name"),
    Key("help", ("question_mark", "f1"), "What can be done here"),
    Key("themes", ("ctrl+t",), "Choose a theme; ansi themes use the terminal's colours"),
    Key("quit", ("q",), "Leave the program"),
)
"""One key means one thing on every screen; the digits from 1 are the panes of a graph. While a text is typed
letters are text, and a question has keys of its own, which it shows."""

_BY_ID = {key.id: key for key in KEYS}


@dataclass(frozen=True, slots=True)
class Action:
    """`name` is the Textual action behind a key; `title` says what it does on screens of its scope; `label`
    puts it into the footer; `palette` offers it there too. `only`: keys that cannot be rebound, in place of
    those of `key`."""

    name: str
    key: str
    title: str
    scope: Scope
    label: str = ""
    palette: bool = True
    fixed: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        """As they are without a config file."""
        return (*(_BY_ID[self.key].keys if self.key else ()), *self.fixed)


def _of(key: str, scope: Scope, name: str = "", label: str = "", palette: bool = False) -> Action:
    """An action that does what its key means everywhere."""
    return Action(name or key, key, _BY_ID[key].meaning, scope, label, palette)


ACTIONS: tuple[Action, ...] = (
    Action("open", "open", "Open the run under the cursor", "runs", "open", palette=False),
    _of("capture", "runs", label="capture", palette=True),
    _of("doctor", "runs", label="doctor", palette=True),
    Action("mark", "mark", "Mark this run; with another one marked, compare both", "runs", "mark"),
    Action("sort", "sort", "Sort runs: newest, slowest against eager, longest call, by name", "runs", "sort"),
    Action(
        "open",
        "open",
        "Go to the line of the program that is to blame; open a past run",
        "first",
        "line",
        palette=False,
    ),
    _of("try", "first", "try_advice", "try", palette=True),
    Action("explain", "explain", "Explain in full: findings, evidence, both sides", "first", "explain"),
    Action("graphs", "other", "All that lies in the run: graphs, breaks, recompiles", "first", "graphs"),
    Action("pane('fusion')", "fusion", "The graph under the cursor at its fusion", "first", "fusion"),
    Action("trace", "trace", "Where compiling took its time, and each of its stages", "first", "trace"),
    _of("again", "first", label="again", palette=True),
    Action("replay_all", "replay_all", "Measure: replay all graphs", "first"),
    Action("stop", "stop", "Stop what this screen measures or tries", "first", "stop"),
    Action("open", "open", "Open the graph or source line under the cursor", "run", "open", palette=False),
    _of("explain", "run", label="explain", palette=True),
    Action("open('fusion')", "fusion", "Open the graph under the cursor at its fusion", "run", "fusion"),
    _of("trace", "run", label="trace", palette=True),
    Action("next_rank", "rank", "Only the next rank's graphs, then all again", "run", "rank"),
    Action("other_part", "other", "To the details below, and back", "run"),
    _of("other_back", "run", "other_part"),
    Action("replay", "replay", "Replay the graph under the cursor: times, correctness", "run", "replay"),
    Action("replay_all", "replay_all", "Replay all graphs: times, correctness", "run"),
    Action("stop", "stop", "Stop the replay", "run", "stop"),
    Action(
        "count_all",
        "count",
        "Count kernels and launches of all graphs (reads output_code.py)",
        "run",
        "count",
    ),
    Action(
        "open", "open", "Go to the line of evidence under the cursor", "explain", "go there", palette=False
    ),
    Action("step_finding(1)", "next", "Next finding", "explain", "next finding"),
    Action("step_finding(-1)", "previous", "Previous finding", "explain"),
    _of("sums", "explain", "sum_sides", "by block/line/…", palette=True),
    Action(
        "replay_all",
        "replay_all",
        "Measure: replay all for times in place of estimates",
        "explain",
        "measure",
    ),
    Action(
        "try_advice",
        "try",
        "Run the command again with the finding's setting, or with what bears on its kernels",
        "explain",
        "try",
    ),
    Action("stop", "stop", "Stop what is measured or tried", "explain", "stop"),
    Action("other_part", "other", "The findings, or the evidence beside them", "explain", "evidence"),
    Action(
        "fusion_view('missed')",
        "missed",
        "Missed fusions, worst first; enter goes to the two",
        "fusion",
        "missed",
    ),
    Action(
        "fusion_view('boxes')",
        "boxes",
        "The node's neighbours in boxes; enter goes to one",
        "fusion",
        "boxes",
    ),
    Action("fusion_view('sides')", "sides", "Before and after fusion side by side", "fusion", "before|after"),
    _of("partner", "fusion", label="partner", palette=True),
    Action("fusion_round(-1)", "earlier", "Fusion as it was a round earlier", "fusion", "rounds"),
    Action("fusion_round(1)", "later", "Fusion as it was a round later", "fusion"),
    _of("write", "fusion", "export_fusion", "export", palette=True),
    Action("open", "open", "Follow the selection into the next pane", "graph", "follow", palette=False),
    Action("turn(1)", "other", "The other half of the pane", "graph", "other half"),
    Action("turn(-1)", "other_back", "The other half, backwards", "graph", palette=False),
    _of("outline", "graph", "toggle_outline", "outline", palette=True),
    Action("replay", "replay", "Replay the launch under the cursor: time, correctness", "graph", "replay"),
    Action("replay_all", "replay_all", "Replay all kernels of this graph", "graph"),
    _of("below", "graph", palette=True),
    Action("stop", "stop", "Stop the replay that runs", "graph", "stop"),
    _of("edit", "graph", "edit_kernel", "edit", palette=True),
    _of("edit_original", "graph", "edit_kernel(True)", palette=True),
    Action(
        "sort",
        "sort",
        "Sort launches by time, by time above the roofline, or in their order",
        "graph",
        "sort",
    ),
    Action("step_mark(1)", "next", "Next line that belongs to the selection", "graph"),
    Action("step_mark(-1)", "previous", "Previous line that belongs to the selection", "graph"),
    Action("screen.start_capture", "", "Start the capture", "form", "start", False, ("enter",)),
    Action("screen.open", "", "Take this command", "form", "take it", False, ("enter",)),
    Action("screen.step(1)", "", "To the next line", "form", "next", False, ("tab",)),
    Action("screen.step(-1)", "", "To the line before", "form", "", False, ("shift+tab",)),
    Action("screen.form_help", "", "What can be done here", "form", "help", False, ("f1",)),
    Action("recall(1)", "", "Commands captured before", "command", "earlier", False, ("up",)),
    Action("recall(-1)", "", "Back to later ones", "command", "", False, ("down",)),
    Action("choose(-1)", "left", "The choice before", "choice", "", palette=False),
    Action("choose(1)", "right", "The next choice", "choice", "", palette=False),
    Action("other_part", "other", "Graphs, or what the program prints", "live", "graphs/output"),
    Action("stop", "stop", "Stop the program as Ctrl-C would", "live", "stop"),
    Action("kill", "stop", "Kill the program", "live", "kill"),
    Action("open", "open", "Go to the line under the cursor", "find", "go there", palette=False),
    Action("open", "open", "See the answer; open the run of a row", "index", "open", palette=False),
    Action("other_part", "other", "The questions, or the answer below", "index", "question/answer"),
    _of("back", "line", "close"),
    _of("whole", "line", "close"),
    Action("examine", "doctor", "Examine this machine again", "doctor", "again"),
    Action("open", "open", "The stages of a compilation; a stage's text", "trace", "stages", palette=False),
    Action("other_part", "other", "The list, or the text beside it", "trace", "list/text"),
    Action("other_part", "other", "The stage beside it, or the source", "below", "other part"),
    Action("open", "open", "All rounds of a block that repeats, or the first alone", "below", "unfold"),
    Action("step_stage(1)", "later", "The next stage in this part", "below", "next stage"),
    Action("step_stage(-1)", "earlier", "The stage before, in this part", "below"),
    Action("step_mark(1)", "next", "Next row that is from the selected line", "below", "next row"),
    Action("step_mark(-1)", "previous", "Previous row that is from the selected line", "below"),
    Action(
        "open",
        "open",
        "FX, IR and code of a graph in turn; a kernel's two sides",
        "diff",
        "sides",
        palette=False,
    ),
    Action("other_part", "other", "The list, or both sides below it", "diff", "list/sides"),
    _of("everything", "diff", label="changes/all", palette=True),
    _of("search", "text", label="search", palette=True),
    Action("submit", "", "Keep the matches", "search", "keep the matches", False, ("enter",)),
    Action("leave", "", "Drop the search", "search", "drop the search", False, ("escape",)),
    _of("next_match", "text", "step_match(1)", palette=True),
    _of("previous_match", "text", "step_match(-1)", palette=True),
    _of("find", "text", palette=True),
    _of("order", "text", palette=True),
    _of("filter", "text", palette=True),
    _of("copy", "text", label="copy", palette=True),
    _of("whole", "text", "whole_line", palette=True),
    _of("wrap", "text", label="wrap", palette=True),
    _of("select", "text", "select_lines", palette=True),
    _of("down", "move", "step(1)"),
    _of("up", "move", "step(-1)"),
    _of("half_down", "move", "half_page(1)"),
    _of("half_up", "move", "half_page(-1)"),
    _of("page_down", "move", "page(1)"),
    _of("page_up", "move", "page(-1)"),
    _of("top", "move"),
    _of("bottom", "move"),
    _of("left", "move", "scroll_left"),
    _of("right", "move", "scroll_right"),
    _of("line_start", "move"),
    _of("line_end", "move"),
    _of("down", "scroll", "scroll_down"),
    _of("up", "scroll", "scroll_up"),
    _of("palette", "app", "command_palette"),
    _of("back", "everywhere", label="back"),
    _of("forward", "everywhere", palette=True),
    _of("help", "everywhere", label="help", palette=True),
    _of("themes", "everywhere", palette=True),
    _of("quit", "everywhere", label="quit", palette=True),
)

_KEY_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "dollar_sign": "$",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "number_sign": "#",
    "asterisk": "*",
    "ampersand": "&",
    "comma": ",",
    "full_stop": ".",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
}


_NAMED = {
    *(key.value for key in Keys if key.value.isalnum()),
    *(_character_to_key(chr(code)) for code in range(33, 127)),
}


def bindings(*scopes: Scope) -> list[BindingType]:
    """Textual's bindings of the given scopes, for a class's BINDINGS."""
    return bindings_of(action for action in ACTIONS if action.scope in scopes)


def bindings_of(actions: Iterable[Action]) -> list[BindingType]:
    return [
        Binding(",".join(keys), action.name, action.title, show=bool(action.label), id=id)
        for action in actions
        for id, keys in ((action.key, _BY_ID[action.key].keys if action.key else ()), (None, action.fixed))
        if keys
    ]


def keys_of(action: Action, active: Mapping[str, ActiveBinding]) -> list[str]:
    """The keys that do this now, on a screen with these active bindings; none where nothing does."""
    return [
        key
        for key, here in active.items()
        if here.enabled and (here.binding.action, here.binding.description) == (action.name, action.title)
    ]


def typed_key(name: str) -> str | None:
    """A key as people write it, or as Textual calls it, by Textual's name; None where it is none."""
    name = {shown: key for key, shown in _KEY_NAMES.items()}.get(name, name)
    if len(name) == 1:
        return _character_to_key(name) if name.isprintable() and not name.isspace() else None
    *modifiers, key = name.replace("^", "ctrl+").replace("⇧", "shift+").split("+")
    known = (len(key) == 1 and key.isprintable()) or key in _NAMED
    return "+".join((*modifiers, key)) if known and set(modifiers) <= {"ctrl", "shift", "alt"} else None


def key_name(key: str) -> str:
    """A key as people write it."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    return key.replace("ctrl+", "^").replace("shift+", "⇧")


def key_text(app: App[Any], id: str) -> str:
    """The key by that name in the config, as people write it, rebound or not."""
    keymap: Mapping[str, str] = getattr(app, "keymap", {})
    return key_name(keymap[id].split(",")[0] if id in keymap else _BY_ID[id].keys[0])


def keys_text(keys: Iterable[str]) -> str:
    return " ".join(map(key_name, keys))
