"""Pairs that share a buffer and that torch never asked about, each with what kept them apart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from .describe import node_name

PAIR_LIMIT = 20_000
"""Pairs looked at in one round: a buffer that thousands of nodes read has millions of them."""


class Unasked:
    """The pairs of one round that were never asked about; `truncated` says that PAIR_LIMIT was reached.

    `asked` holds pairs of names, `unfusable` the names for which `Scheduler.unfusable_node` said yes, `limit`
    is `config.max_fusion_buffer_group_pairwise_attempts`, None where torch has no such setting.
    """

    def __init__(
        self,
        nodes: Sequence[Any],
        asked: Collection[tuple[str, str]],
        unfusable: Collection[str],
        limit: int | None,
    ) -> None:
        self._nodes = nodes
        self._asked = asked
        self._unfusable = unfusable
        self._limit = limit
        self.truncated = False

    def pairs(self) -> Iterator[tuple[Any, Any, str]]:
        """(first node, second node, prefilter), in the schedule's order.

        The groups are those of torch/_inductor/scheduler.py: `Scheduler.get_possible_fusions`, with the nodes
        that it leaves out put back.
        """
        users: dict[str, list[tuple[Any, str]]] = {}
        for node in self._nodes:
            name = node_name(node)
            for buffer in sorted(node.used_buffer_names()):
                users.setdefault(buffer, []).append((node, name))
        seen: set[tuple[str, str]] = set()
        looked_at = 0
        for buffer, group in users.items():
            for index, (first, first_name) in enumerate(group):
                for second, second_name in group[index + 1 :]:
                    looked_at += 1
                    if looked_at > PAIR_LIMIT:
                        self.truncated = True
                        return
                    key = (first_name, second_name)
                    if key in seen or key in self._asked or key[::-1] in self._asked:
                        continue
                    seen.add(key)
                    yield first, second, self._why(first, second, buffer, [name for _, name in group])

    def _why(self, first: Any, second: Any, buffer: str, group: Sequence[str]) -> str:
        for node in (first, second):
            if node_name(node) in self._unfusable:
                return f"unfusable node: {node_name(node)} is {kind(node)}"
        fusable = [name for name in group if name not in self._unfusable]
        distance = fusable.index(node_name(second)) - fusable.index(node_name(first))
        if self._limit is not None and distance > self._limit:
            return (
                f"pairs per buffer: {distance} nodes apart among the users of {buffer}, and torch pairs only "
                f"those up to {self._limit} apart"
            )
        return "not known"


def kind(node: Any) -> str:
    """`an extern kernel (extern_kernels.mm)`, `a no-op`, or the node's class."""
    cls = type(node).__name__
    if cls.startswith("Nop"):
        return "a no-op"
    if cls.startswith("Extern"):
        kernel = getattr(node.node, "python_kernel_name", None)
        return f"an extern kernel ({kernel})" if kernel else "an extern kernel"
    return f"a {cls}"
