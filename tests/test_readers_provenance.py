"""Provenance JSON: the captured files, the trace's form, and files that were cut off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inspector.readers.provenance import parse_provenance

NAME = "inductor_provenance_tracking_node_mappings.json"

SMALL = {
    "preToPost": {"z": ["mm"], "softmax": ["amax", "exp"]},
    "postToPre": {"mm": ["z"], "amax": ["softmax"], "exp": ["softmax"]},
    "cppCodeToPost": {"extern_kernels.mm:1": ["mm"], "cpp_fused__softmax_0:2": ["amax", "exp"]},
    "postToCppCode": {"mm": ["extern_kernels.mm:1"], "amax": ["cpp_fused__softmax_0:2"]},
}
TEXT = json.dumps(SMALL)


def as_lists(mapping: object) -> object:
    return {key: list(names) for key, names in mapping.items()} if hasattr(mapping, "items") else None


def test_captured_files_come_back_whole(corpus: Path) -> None:
    files = sorted(corpus.rglob(NAME))
    assert len(files) > 30
    for file in files:
        text = file.read_text()
        expected = json.loads(text)
        found = parse_provenance(text, str(file))
        assert found.problems == ()
        assert as_lists(found.pre_to_post) == expected["preToPost"]
        assert as_lists(found.post_to_pre) == expected["postToPre"]
        assert as_lists(found.kernel_to_post) == expected["cppCodeToPost"]
        assert as_lists(found.post_to_kernel) == expected["postToCppCode"]


def test_the_form_of_the_trace() -> None:
    trace = parse_provenance(json.dumps({"version": 2.0, **SMALL}), "p")
    assert trace == parse_provenance(TEXT, "p")
    assert trace.kernel_to_post["cpp_fused__softmax_0:2"] == ("amax", "exp")


def test_a_missing_map_is_empty() -> None:
    found = parse_provenance('{"preToPost": {"a": ["b"]}}', "p")
    assert (found.pre_to_post, found.kernel_to_post, found.problems) == ({"a": ("b",)}, {}, ())


@pytest.mark.parametrize("cut", range(len(TEXT)))
def test_a_cut_file_keeps_its_complete_entries(cut: int) -> None:
    found = parse_provenance(TEXT[:cut], "folder/p.json")
    maps = (found.pre_to_post, found.post_to_pre, found.kernel_to_post, found.post_to_kernel)
    for mapping, (section, expected) in zip(maps, SMALL.items(), strict=True):
        start = TEXT.index(f'"{section}"')
        complete = {key: tuple(names) for key, names in expected.items() if _end(start, key, names) <= cut}
        assert mapping == complete
    assert [(problem.path, problem.line) for problem in found.problems] == [("folder/p.json", 1)]


def _end(start: int, key: str, names: list[str]) -> int:
    """Where the entry ends in TEXT, looking from its section's start."""
    entry = f"{json.dumps(key)}: {json.dumps(names)}"
    return TEXT.index(entry, start) + len(entry)


def test_a_cut_between_lines_names_the_line() -> None:
    text = json.dumps(SMALL, indent=1)
    (problem,) = parse_provenance(text[: text.index('"postToPre"')], "p").problems
    assert problem.line == text[: text.index('"postToPre"')].count("\n") + 1
    assert "kept what precedes it" in problem.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty file"),
        ("  \n", "empty file"),
        ("[1, 2]", "expected a JSON object, found list"),
        ('{"preToPost": 3}', "preToPost is not an object"),
        ('{"preToPost": {"a": "b"}}', "preToPost['a'] is not a list of names"),
        ('{"preToPost": {"a": ["b", 1]}}', "preToPost['a'] is not a list of names"),
        ("[" * 100_000, "not complete JSON (nested too deeply); kept what precedes it"),
    ],
)
def test_bad_content_is_a_problem(text: str, message: str) -> None:
    found = parse_provenance(text, "p")
    assert [problem.message for problem in found.problems] == [message]
    assert (found.pre_to_post, found.post_to_pre, found.kernel_to_post, found.post_to_kernel) == (
        {},
        {},
        {},
        {},
    )
