"""Lines of the user's program, which torch quotes beside its graphs, in stacks, guards and logs: left out.

Generated code stays; it holds the names that the program gave to modules, and kernels that it wrote itself.
"""

from __future__ import annotations

import json
import re

from inspector.pack.form import Form

_LEFT_OUT = "..."
_LONGEST = 1000
_QUOTED_IN = (
    # # File: /home/user/m.py:7 in forward, code: x = x.relu()
    re.compile(r", code: (.+)"),
    # File "/home/user/m.py", line 7, in forward   and in the next line the code (traceback.format_list)
    re.compile(r", line \d+, in [\w<>.]+\n[ \t]*(\S.*)"),
    # TRACE starts_line /home/user/m.py:7 in forward   (torch/_dynamo/symbolic_convert.py: log_starts_line)
    re.compile(r"starts_line [^\n]+\n(?:[^\n]*\] )?[ \t]*(\S.*)"),
    # ..., size=[8, 64])  # if x.sum() > 0: x = x * 2  # m.py:8 in forward   (torch/_dynamo/guards.py)
    re.compile(rf"  # (.{{1,{_LONGEST}}}?)  # [^\n#]+?:\d+ in "),
)
# {"line": 15, "name": "<module>", "filename": 1, "loc": "c(x)"}   (torch/_logging/structured.py)
_FRAME = re.compile(r'"loc": ?"((?:[^"\\]|\\.)*)"')
# V1121 05:08:10.018000 13795 torch/_dynamo/convert_frame.py:303] {"dynamo_start": ...
_JSON_LINE = re.compile(r"\t?(?:[VIWEC]\d{4} [^\]]*\] )?[\t ]*[\[{\"]")
_ENDS = r"(?=[ \t]*(?:\n|\\+n|\\*[\"']|$)|  # )"
_STARTS = (
    r"(?P<before>, code: |(?<!\\)\\*\"loc\\*\": ?\\*\"|  # |, line \d+, in [\w<>.]+(?:\n|\\+n)[ \t]*"
    r"|starts_line [^\n]+\n(?:[^\n]*\] )?[ \t]*|(?<!\\)\\*['\"] {2,})"
)
_NEEDS = ", code:|loc|  # |, line |starts_line |\"  |'  "


class Source:
    """Lines that were quoted somewhere, and those of the program's own files."""

    def __init__(self) -> None:
        self.left_out = 0
        self._lines: set[str] = set()
        self._pattern: Form | None = None

    def learn(self, text: str) -> None:
        """Take note of every line that a text quotes; JSON is read, and JSON in its texts."""
        plain: list[str] = []
        packed: list[str] = []
        for line in text.split("\n"):
            (packed if _JSON_LINE.match(line) and "\\" in line else plain).append(line.removeprefix("\t"))
        for depth in range(4):
            for pattern in _QUOTED_IN:
                for match in pattern.finditer("\n".join(plain)):
                    self.add(match[1])
            if not packed or depth == 3:
                break
            plain = [
                part
                for line in packed
                for string in re.findall(r'"((?:[^"\\]|\\.)*)"', line)
                for part in _unescaped(string).split("\n")
            ]
            packed = [line for line in plain if "\\" in line and '"' in line]
        for match in _FRAME.finditer(text):
            self.add(_unescaped(match[1]))

    def learn_program(self, text: str) -> None:
        """A file of the program."""
        for line in text.split("\n"):
            self.add(line)

    def add(self, line: str) -> None:
        line = line.strip()[:_LONGEST]
        if line and line != _LEFT_OUT:
            self._lines.add(line)

    def clean(self, text: str) -> str:
        """The text with "..." where it quotes one of the lines."""
        if self._pattern is None:
            ways = {way for line in self._lines for way in _escapes(line)}
            lines = "|".join(re.escape(way) for way in sorted(ways, key=lambda way: (-len(way), way)))
            self._pattern = Form(f"{_STARTS}(?:{lines or '(?!)'}){_ENDS}", _NEEDS, between="|")
        return self._pattern.sub(self._instead, text)

    def _instead(self, match: re.Match[str]) -> str:
        self.left_out += 1
        return match["before"] + _LEFT_OUT


def _unescaped(string: str) -> str:
    try:
        return str(json.loads(f'"{string}"', strict=False))
    except ValueError:
        return string


def _escapes(line: str) -> list[str]:
    ways = [line]
    for _ in range(3):
        ways.append(json.dumps(ways[-1])[1:-1])
    return ways
