"""A large JSON document read item by item, so that its text is never in memory as a whole."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Any

_CHUNK = 1 << 20
_LONGEST_ITEM = 32 << 20
"""Characters. An item that has not ended by then has no end."""
_SPACE = re.compile(r"[ \t\r\n]*")


class JsonItems:
    """The items of the array under `key` in a document that is one object, or of a document that is an array.

    Iterating gives the items; `rest` has the object's other values when it is over, and `problem` says where
    the text stopped making sense, None for a sound document. What was read before is good all the same.
    """

    def __init__(self, stream: BufferedIOBase, key: str) -> None:
        self.rest: dict[str, Any] = {}
        self.problem: str | None = None
        self._stream = stream
        self._key = key
        self._text = ""
        self._at = 0
        self._ended = False
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._scan = json.JSONDecoder(strict=False).raw_decode

    def __iter__(self) -> Iterator[Any]:
        try:
            first = self._next_character()
            if first == "[":
                yield from self._array()
            elif first == "{":
                yield from self._object()
            else:
                self.problem = "not a JSON object or array"
        except (ValueError, RecursionError, EOFError, OSError) as error:
            self.problem = _said(error)

    def _object(self) -> Iterator[Any]:
        while True:
            character = self._next_character(peek=True)
            if character in ",}":
                self._at += 1
                if character == "}":
                    return
                continue
            name = self._value()
            if self._next_character() != ":":
                raise ValueError("not JSON: a colon is missing")
            if name == self._key and self._next_character(peek=True) == "[":
                self._at += 1
                yield from self._array()
            else:
                self.rest[str(name)] = self._value()

    def _array(self) -> Iterator[Any]:
        while True:
            character = self._next_character(peek=True)
            if character in ",]":
                self._at += 1
                if character == "]":
                    return
                continue
            yield self._value()

    def _next_character(self, peek: bool = False) -> str:
        """The next one that is not white space."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                break
            self._more()
        character = self._text[self._at]
        self._at += not peek
        return character

    def _value(self) -> object:
        self._next_character(peek=True)
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except ValueError:
                if self._ended or len(self._text) - self._at > _LONGEST_ITEM:
                    raise
                self._more()
                continue
            # A number may go on in the next chunk.
            if end < len(self._text) or self._ended or self._text[end - 1] in '}]"':
                self._at = end
                return value
            self._more()

    def _more(self) -> None:
        if self._ended:
            raise EOFError
        # As much again as what has no end yet: an item is looked through a few times, not once a chunk.
        data = self._stream.read1(max(_CHUNK, len(self._text) - self._at))
        self._ended = not data
        self._text = self._text[self._at :] + self._decode.decode(data, final=self._ended)
        self._at = 0


def _said(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "the file ends within the document"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg})"
    return str(error) or type(error).__name__
