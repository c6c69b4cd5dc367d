"""Two sequences of names put beside each other: the longest common subsequence, by Myers' algorithm
("An O(ND) difference algorithm", 1986), which is quick where they hardly differ."""

from __future__ import annotations

from collections.abc import Sequence

_MOST_EDITS = 3000
"""Beyond that the two have nothing to do with each other."""


def align(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of positions with equal names, increasing on both sides, as many as there can be. Empty names
    never match. Sequences that differ in more than 3,000 places are matched as far as they begin alike."""
    start = 0
    while start < min(len(first), len(second)) and first[start] == second[start] != "":
        start += 1
    head = [(place, place) for place in range(start)]
    return head + [(i + start, j + start) for i, j in _myers(first[start:], second[start:])]


def period(names: Sequence[str]) -> int:
    """The length of the shortest beginning whose repetition is the whole; the whole where none is."""
    fallback = [0] * len(names)
    for place in range(1, len(names)):
        length = fallback[place - 1]
        while length and names[place] != names[length]:
            length = fallback[length - 1]
        fallback[place] = length + (names[place] == names[length])
    shortest = len(names) - fallback[-1] if names else 0
    return shortest if shortest and len(names) % shortest == 0 else len(names)


def _myers(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    rows, columns = len(first), len(second)
    reach = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(min(rows + columns, _MOST_EDITS) + 1):
        history.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
            )
            row = reach.get(diagonal + 1, 0) if down else reach.get(diagonal - 1, 0) + 1
            column = row - diagonal
            while row < rows and column < columns and first[row] == second[column] != "":
                row, column = row + 1, column + 1
            reach[diagonal] = row
            if row >= rows and column >= columns:
                return _walk(history, rows, columns)
    return []


def _walk(history: list[dict[int, int]], row: int, column: int) -> list[tuple[int, int]]:
    pairs = []
    for edits in range(len(history) - 1, -1, -1):
        reach = history[edits]
        diagonal = row - column
        down = diagonal == -edits or (
            diagonal != edits and reach.get(diagonal - 1, -1) < reach.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        row_before = reach.get(before, 0)
        column_before = row_before - before
        while row > row_before and column > column_before and row > 0 and column > 0:
            row, column = row - 1, column - 1
            pairs.append((row, column))
            if edits == 0 and (row == 0 or column == 0):
                break
        row, column = row_before, column_before
        if edits == 0:
            break
    pairs.reverse()
    return pairs
