"""inductor_provenance_tracking_node_mappings.json, from the file or from the structured trace.

Written by torch/_inductor/debug.py (create_mapping_pre_post_grad_nodes and
create_node_mapping_kernel_to_post_grad): one JSON object with four maps from a name to a list of names. The
trace's copy adds ``"version"``.
"""

from __future__ import annotations

import json
import re
from typing import Any

from inspector.model.problem import Problem, Read
from inspector.model.provenance import Provenance

from .text import from_json

_SECTIONS = ("preToPost", "postToPre", "cppCodeToPost", "postToCppCode")

_STRINGS = frozenset({str})

# ``"preToPost": {``: where a section of a half-written object begins.
_SECTION_HEAD = re.compile(r'"(\w+)"\s*:\s*(?=\{)')


def parse_provenance(text: str, path: str) -> Provenance:
    """The four maps of a provenance file; `path` is only used to name problems.

    Never raises: of a half-written file the complete sections and the complete entries of the cut
    one are kept, and a problem says where it ends.
    """
    problems: tuple[Problem, ...] = ()
    loaded: Any
    try:
        loaded = from_json(text)
    except ValueError as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        what = (
            "empty file"
            if not text.strip()
            else f"not complete JSON ({_reason(error)}); kept what precedes it"
        )
        problems += (Problem(path, line, what),)
        loaded = _salvage(text)
    if not isinstance(loaded, dict):
        problems += (Problem(path, 1, f"expected a JSON object, found {type(loaded).__name__}"),)
        loaded = {}
    sections = [_section(loaded, name, path) for name in _SECTIONS]
    pre_to_post, post_to_pre, kernel_to_post, post_to_kernel = (section for section, _ in sections)
    problems += tuple(problem for _, more in sections for problem in more)
    return Provenance(path, pre_to_post, post_to_pre, kernel_to_post, post_to_kernel, problems)


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"


def _section(loaded: dict[str, Any], name: str, path: str) -> Read[dict[str, tuple[str, ...]]]:
    """One map, its lists as tuples; whatever is not a list of names is left out and reported."""
    section = loaded.get(name, {})
    if not isinstance(section, dict):
        return {}, (Problem(path, 1, f"{name} is not an object"),)
    good = {
        key: tuple(names)
        for key, names in section.items()
        if type(names) is list and _STRINGS.issuperset(map(type, names))
    }
    bad = [key for key in section if key not in good]
    return good, tuple(Problem(path, 1, f"{name}[{key!r}] is not a list of names") for key in bad)


def _salvage(text: str) -> dict[str, Any]:
    """What can still be read of an object that was cut off: section by section, entry by entry."""
    decoder = json.JSONDecoder()
    kept: dict[str, Any] = {}
    head = _SECTION_HEAD.search(text)
    while head is not None:
        start = head.end()
        try:
            kept[head[1]], end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            kept[head[1]] = _complete_entries(text[start:])
            break
        head = _SECTION_HEAD.search(text, end)
    return kept


def _complete_entries(text: str) -> object:
    """The entries of a cut section up to the last list that was closed; `{}` where there is none."""
    end = text.rfind("]")
    if end < 0:
        return {}
    try:
        return from_json(text[: end + 1] + "}")
    except ValueError:
        return {}
