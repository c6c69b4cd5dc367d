"""Which of many things make a difference, in few tests of several at once. Executes nothing itself.

What takes back a cause together with others takes it back alone, as a rule, so a group that makes no
difference holds no cause, and one that makes it is halved: n things take log2(n) tests. Causes that are
needed together are found one after the other (QuickXplain, Junker 2004). A group whose test says nothing is
halved, too, as what fails may be one thing of many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

Test = Callable[[frozenset[int]], bool | None]
"""Whether B, with these taken back, is as good as A; None where the run said nothing."""


def smallest(group: Sequence[int], test: Test) -> tuple[int, ...]:
    """The members of `group` that are needed for `test` to be true of it; empty where it is of none.

    The last test is always that of what is returned.
    """
    whole = test(frozenset(group))
    if whole is None and len(group) > 1:
        middle = len(group) // 2
        return smallest(group[:middle], test) or smallest(group[middle:], test)
    if not whole:
        return ()
    needed: list[int] = []
    left = list(group)
    while left:
        low, high = 0, len(left)
        # All of left[:high] and what is needed make the difference, left[:low] do not.
        while high - low > 1:
            middle = (low + high) // 2
            if test(frozenset((*needed, *left[:middle]))):
                high = middle
            else:
                low = middle
        needed.append(left[high - 1])
        left = left[: high - 1]
        if test(frozenset(needed)):
            return tuple(needed)
    return tuple(needed)
