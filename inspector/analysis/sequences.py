"""Two sequences of names put beside each other: the longest common subsequence, by Myers' algorithm
("An O(ND) difference algorithm", 1986), which is quick where they hardly differ."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

_MOST_EDITS = 3000
"""At a time: behind them it goes on from the furthest that was reached, as what is kept grows with their
square. Two that differ in more places than they have equal names have nothing to do with each other from
there on."""


def align(first: Sequence[str], second: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of positions with equal names, increasing on both sides; as many as there can be between
    sequences that differ in up to 3,000 places, and nearly as many beyond. Empty names never match."""
    pairs: list[tuple[int, int]] = []
    row = column = 0
    while row < len(first) and column < len(second):
        while row < len(first) and column < len(second) and first[row] == second[column] != "":
            pairs.append((row, column))
            row, column = row + 1, column + 1
        more, rows, columns = _myers(first[row:], second[column:])
        whole = (rows, columns) == (len(first) - row, len(second) - column)
        if not whole and len(more) <= _MOST_EDITS:
            break
        pairs += [(i + row, j + column) for i, j in more]
        row, column = row + rows, column + columns
    return pairs


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


def _myers(first: Sequence[str], second: Sequence[str]) -> tuple[list[tuple[int, int]], int, int]:
    """The pairs of the longest common subsequence of two beginnings, and how long these are: whole where
    there are no more than so many edits, else the furthest that these reach."""
    rows, columns = len(first), len(second)
    most = min(rows + columns, _MOST_EDITS)
    middle = most + 1
    # The furthest row of each diagonal, from -middle on; -1 for those that no edits reach yet.
    reach = array("l", [-1]) * (2 * most + 3)
    reach[middle + 1] = 0
    history: list[array[int]] = []
    for edits in range(most + 1):
        history.append(reach[middle - edits - 1 : middle + edits + 2])
        for diagonal in range(-edits, edits + 1, 2):
            left, right = reach[middle + diagonal - 1], reach[middle + diagonal + 1]
            down = diagonal == -edits or (diagonal != edits and left < right)
            row = right if down else left + 1
            column = row - diagonal
            while row < rows and column < columns and first[row] == second[column] != "":
                row, column = row + 1, column + 1
            reach[middle + diagonal] = row
            if row >= rows and column >= columns:
                return _walk(history, rows, columns), rows, columns
    within = [
        (2 * row - diagonal, row, row - diagonal)
        for diagonal in range(-most, most + 1, 2)
        if (row := reach[middle + diagonal]) <= rows and 0 <= row - diagonal <= columns
    ]
    _, row, column = max(within, default=(0, 0, 0))
    return _walk(history, row, column), row, column


def _walk(history: Sequence[Sequence[int]], row: int, column: int) -> list[tuple[int, int]]:
    pairs = []
    for edits in range(len(history) - 1, -1, -1):
        reach, middle = history[edits], edits + 1
        diagonal = row - column
        left, right = reach[middle + diagonal - 1], reach[middle + diagonal + 1]
        down = diagonal == -edits or (diagonal != edits and left < right)
        row_before = max(right if down else left, 0)
        column_before = row_before - (diagonal + 1 if down else diagonal - 1)
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
