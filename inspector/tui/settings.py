"""What a user has set: keys and a theme, in one small file in the XDG place for configuration.

    theme = "nord"

    [keys]
    stop = "ctrl+x"
    replay = "r,f5"

A part of TOML is read, on every Python alike: comments, `name = "text"`, and the one table `[keys]`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from inspector.files import home, read_plain, write_whole

from .actions import KEYS, key_name, typed_key

_TABLE = re.compile(r"\[\s*([\w.-]+)\s*\]\s*(?:#.*)?")
_SETTING = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"\\]*)"|'([^']*)')\s*(?:#.*)?""")


@dataclass(slots=True)
class Settings:
    """`keys`: what Textual's keymap takes, by the ids of `actions.KEYS`. `problem`: what is wrong with the
    file, in one line with its path; what else it says counts."""

    theme: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    problem: str = ""


def settings_path() -> Path:
    """`$XDG_CONFIG_HOME/inspector/config.toml`; ~/.config by default and for a relative path."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    config = Path(base) if os.path.isabs(base) else home() / ".config"
    return config / "inspector" / "config.toml"


def load_settings(path: Path) -> Settings:
    """A file that isn't there sets nothing."""
    try:
        text = read_plain(path).decode("utf-8")
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError) as error:
        return Settings(problem=f"{path}: {_reason(error)}; nothing of it counts")
    settings, problems = Settings(), []
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(map(str.strip, text.split("\n")), 1):
        problem = ""
        if match := _TABLE.fullmatch(line):
            table = match[1]
            problem = "" if table == "keys" else f"no table is called {table}; there is [keys]"
        elif match := _SETTING.fullmatch(line):
            name, value = match[1], match[2] if match[2] is not None else match[3]
            if table == "keys":
                lines[name] = number
                problem = _set_keys(settings, name, value)
            elif not table:
                settings.theme = value if name == "theme" else settings.theme
                problem = "" if name == "theme" else f"nothing is called {name}; there is theme, and [keys]"
        elif line and not line.startswith("#"):
            problem = 'not a line of `name = "text"`'
        if problem:
            problems.append((number, problem))
    problems += [(lines[id], problem) for id, problem in _drop_clashes(settings)]
    if problems:
        number, problem = min(problems)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        settings.problem = f"{path}:{number}: {problem}{more}"
    return settings


def _set_keys(settings: Settings, id: str, value: str) -> str:
    """What is wrong with it; nothing is set then."""
    if id not in {key.id for key in KEYS}:
        return f"no action is called {id}; the help names them"
    keys = []
    for name in map(str.strip, value.split(",")):
        key = typed_key(name)
        if key is None:
            return f"{id}: {name or 'nothing'} is no key"
        if key.isdigit() and key != "0":
            return f"{id}: {key} is a pane"
        keys.append(key)
    settings.keys[id] = ",".join(keys)
    return ""


def _drop_clashes(settings: Settings) -> list[tuple[str, str]]:
    """One key means one thing: of two that would share one, what the file sets last keeps its own."""
    clashes = []
    for id in reversed(tuple(settings.keys)):
        here = set(settings.keys[id].split(","))
        for key in KEYS:
            others = settings.keys.get(key.id, ",".join(key.keys)).split(",")
            if key.id != id and (shared := here.intersection(others)):
                del settings.keys[id]
                clashes.append((id, f"{id}: {key_name(min(shared))} is the key of {key.id}"))
                break
    return clashes


def remember_theme(path: Path, name: str) -> str:
    """Write the theme into the file, whose other lines stay; why that failed, and empty where it did not."""
    path = path.resolve()
    line = f'theme = "{name}"'
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = read_plain(path).decode("utf-8").split("\n") if path.exists() else [""]
        top = next((n for n, text in enumerate(lines) if _TABLE.fullmatch(text.strip())), len(lines))
        place = next((n for n in range(top) if re.match(r"\s*theme\s*=", lines[n])), None)
        if place is None:
            lines.insert(0, line)
        else:
            lines[place] = line
        write_whole(path, "\n".join(lines))
    except (OSError, UnicodeDecodeError) as error:
        return f"{path}: the theme is not kept: {_reason(error)}"
    return ""


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "not UTF-8"
