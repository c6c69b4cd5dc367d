"""One registry of everything a user can do. Keys, the footer, the help screen and the palette read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from textual.binding import ActiveBinding, Binding, BindingType

Scope = Literal[
    "move",
    "text",
    "search",
    "runs",
    "run",
    "explain",
    "graph",
    "fusion",
    "form",
    "command",
    "live",
    "doctor",
    "trace",
    "everywhere",
]

SCOPE_TITLES: dict[Scope, str] = {
    "runs": "Runs",
    "run": "This run",
    "explain": "Why it is slow",
    "graph": "This graph",
    "fusion": "Fusion",
    "form": "This capture",
    "command": "The command",
    "live": "While it runs",
    "doctor": "This machine",
    "trace": "This trace",
    "text": "Search and copy",
    "search": "While searching",
    "move": "Move",
    "everywhere": "Everywhere",
}


@dataclass(frozen=True, slots=True)
class Action:
    """`name` is the Textual action behind it; `keys` the first of which is shown; `label` puts it into
    the footer; `palette` offers it there too."""

    name: str
    keys: tuple[str, ...]
    title: str
    scope: Scope
    label: str = ""
    palette: bool = True


ACTIONS: tuple[Action, ...] = (
    Action("open", ("enter",), "Open what the cursor is on", "runs", "open", palette=False),
    Action("capture", ("c",), "Capture a program", "runs", "capture"),
    Action("doctor", ("d",), "Can this machine compile?", "runs", "doctor"),
    Action(
        "open", ("enter",), "Open the graph or source line under the cursor", "run", "open", palette=False
    ),
    Action("explain", ("e",), "Explain: why it is slow, what to change, what that wins", "run", "explain"),
    Action("open_fusion", ("f",), "Open the graph under the cursor at its fusion", "run", "fusion"),
    Action("trace", ("T",), "Trace: compile time, guards and stages of each compilation", "run", "trace"),
    Action("next_rank", ("p",), "Only the next rank's graphs, then all again", "run", "rank"),
    Action("other_part", ("tab", "shift+tab"), "To the details below, and back", "run"),
    Action(
        "replay_graph",
        ("r",),
        "Replay the graph under the cursor: times, correctness",
        "run",
        "replay",
    ),
    Action("replay_all", ("R",), "Replay all graphs: times, correctness", "run"),
    Action("stop_replay", ("x",), "Stop the replay", "run", "stop"),
    Action(
        "count_all", ("c",), "Count kernels and launches of all graphs (reads output_code.py)", "run", "count"
    ),
    Action(
        "go", ("enter",), "Go to the line of evidence under the cursor", "explain", "go there", palette=False
    ),
    Action("next_finding", ("right_square_bracket",), "Next finding", "explain", "next finding"),
    Action("previous_finding", ("left_square_bracket",), "Previous finding", "explain"),
    Action(
        "measure", ("m",), "Measure: replay all kernels for times in place of estimates", "explain", "measure"
    ),
    Action(
        "try_advice", ("t",), "Try the finding's setting: run the command again with it", "explain", "try"
    ),
    Action("stop_work", ("x",), "Stop what is measured or tried", "explain", "stop"),
    Action("other_side", ("tab",), "The findings, or the evidence beside them", "explain", "evidence"),
    Action("pane('fx')", ("1",), "FX: the graph before and after the post-grad passes", "graph"),
    Action("pane('ir')", ("2",), "IR: the schedule before and after fusion", "graph"),
    Action("pane('code')", ("3",), "Code: launches, and output_code.py", "graph"),
    Action("pane('kernels')", ("4",), "Kernels: each kernel and its source", "graph"),
    Action("pane('all')", ("5",), "All: FX, IR, code and kernels at once", "graph"),
    Action("pane('fusion')", ("f", "6"), "Fusion: lanes, what was missed, and why", "graph"),
    Action("pane('explain')", ("7",), "Explain: the findings about this graph", "graph"),
    Action(
        "fusion_view('missed')",
        ("m",),
        "Missed fusions, worst first; enter goes to the two",
        "fusion",
        "missed",
    ),
    Action(
        "fusion_view('boxes')", ("b",), "The node's neighbours in boxes; enter goes to one", "fusion", "boxes"
    ),
    Action("fusion_view('sides')", ("d",), "Before and after fusion side by side", "fusion", "before|after"),
    Action("partner", ("p",), "To the partner of what was missed here, and back", "fusion", "partner"),
    Action(
        "fusion_round(-1)",
        ("less_than_sign", "comma"),
        "Fusion as it was a round earlier",
        "fusion",
        "rounds",
    ),
    Action("fusion_round(1)", ("greater_than_sign", "full_stop"), "Fusion as it was a round later", "fusion"),
    Action("export_fusion", ("w",), "Write the fused graph as SVG and DOT", "fusion", "export"),
    Action("follow", ("enter",), "Follow the selection into the next pane", "graph", "follow", palette=False),
    Action("next_view", ("tab",), "The other half of the pane", "graph", "other half"),
    Action("previous_view", ("shift+tab",), "The other half, backwards", "graph", palette=False),
    Action(
        "toggle_outline",
        ("o",),
        "IR as an outline with both sides aligned, or as the whole text",
        "graph",
        "outline",
    ),
    Action(
        "replay_kernel",
        ("r",),
        "Replay the launch under the cursor: time, correctness",
        "graph",
        "replay",
    ),
    Action("replay_kernels", ("R",), "Replay all kernels of this graph", "graph"),
    Action("stop_replay", ("x",), "Stop the replay", "graph", "stop"),
    Action("edit_kernel", ("e",), "What-if: edit the kernel, replay it beside the original", "graph", "edit"),
    Action("edit_original", ("E",), "What-if: edit, beginning with the original again", "graph"),
    Action(
        "sort",
        ("s",),
        "Sort launches by time, by time above the roofline, or in their order",
        "graph",
        "sort",
    ),
    Action("next_mark", ("right_square_bracket",), "Next line that belongs to the selection", "graph"),
    Action("previous_mark", ("left_square_bracket",), "Previous line that belongs to the selection", "graph"),
    Action("screen.start_capture", ("enter",), "Start the capture", "form", "start", palette=False),
    Action("screen.use_command", ("enter",), "Take this command", "form", "take it", palette=False),
    Action("screen.step(1)", ("tab",), "To the next line", "form", "next", palette=False),
    Action("screen.step(-1)", ("shift+tab",), "To the line before", "form", palette=False),
    Action("screen.form_help", ("f1",), "What can be done here", "form", "help", palette=False),
    Action("recall(1)", ("up",), "Commands captured before", "command", "earlier", palette=False),
    Action("recall(-1)", ("down",), "Back to later ones", "command", palette=False),
    Action("other_half", ("tab",), "Graphs, or what the program prints", "live", "graphs/output"),
    Action("stop_capture", ("x",), "Stop the program as Ctrl-C would", "live", "stop"),
    Action("kill_capture", ("x",), "Kill the program", "live", "kill"),
    Action("examine", ("r",), "Examine this machine again", "doctor", "again"),
    Action(
        "expand", ("enter",), "The stages of a compilation; a stage's text", "trace", "stages", palette=False
    ),
    Action("other_view", ("tab",), "The list, or the text beside it", "trace", "list/text"),
    Action("search", ("slash",), "Search here", "text", "search"),
    Action("submit", ("enter",), "Keep the matches", "search", "keep the matches", palette=False),
    Action("leave", ("escape",), "Drop the search", "search", "drop the search", palette=False),
    Action("next_match", ("n",), "Next match", "text"),
    Action("previous_match", ("N",), "Previous match", "text"),
    Action("copy", ("y",), "Copy the line, or the lines selected", "text", "copy"),
    Action("select_lines", ("v",), "Start or end a selection of lines", "text"),
    Action("cursor_down", ("j", "down"), "Down", "move", palette=False),
    Action("cursor_up", ("k", "up"), "Up", "move", palette=False),
    Action("half_down", ("ctrl+d",), "Half a page down", "move", palette=False),
    Action("half_up", ("ctrl+u",), "Half a page up", "move", palette=False),
    Action("page_down", ("pagedown", "ctrl+f", "space"), "A page down", "move", palette=False),
    Action("page_up", ("pageup", "ctrl+b"), "A page up", "move", palette=False),
    Action("top", ("g", "home"), "First line", "move", palette=False),
    Action("bottom", ("G", "end"), "Last line", "move", palette=False),
    Action("scroll_left", ("h", "left"), "Scroll to the left", "move", palette=False),
    Action("scroll_right", ("l", "right"), "Scroll to the right", "move", palette=False),
    Action("line_start", ("0",), "Beginning of the line", "move", palette=False),
    Action("line_end", ("dollar_sign",), "End of the longest line", "move", palette=False),
    Action(
        "back",
        ("escape", "backspace"),
        "Back; first ends a search or selection",
        "everywhere",
        "back",
        palette=False,
    ),
    Action("help", ("question_mark", "f1"), "What can be done here", "everywhere", "help"),
    Action("themes", ("t",), "Choose a theme; ansi themes use the terminal's colours", "everywhere"),
    Action("quit", ("q",), "Quit", "everywhere", "quit"),
)

_KEY_NAMES = {
    "slash": "/",
    "question_mark": "?",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "dollar_sign": "$",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "comma": ",",
    "full_stop": ".",
    "escape": "esc",
    "pagedown": "pgdn",
    "pageup": "pgup",
    "down": "↓",
    "up": "↑",
    "left": "←",
    "right": "→",
    "ctrl+p": "^p",
}


def bindings(*scopes: Scope) -> list[BindingType]:
    """Textual's bindings of the given scopes, for a class's BINDINGS."""
    return [
        Binding(",".join(action.keys), action.name, action.title, show=bool(action.label))
        for action in ACTIONS
        if action.scope in scopes
    ]


def is_active(action: Action, active: Mapping[str, ActiveBinding]) -> bool:
    """Whether the action is what its key does now, on a screen with these active bindings."""
    here = active.get(action.keys[0])
    return here is not None and here.enabled and here.binding.action == action.name


def key_name(key: str) -> str:
    """A key as people write it."""
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    return key.replace("ctrl+", "^").replace("shift+", "⇧")


def keys_text(action: Action) -> str:
    return " ".join(key_name(key) for key in action.keys)
