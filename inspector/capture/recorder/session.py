"""What one Scheduler decides, round by round, put together from the calls that the hooks see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import describe
from .describe import node_name
from .prefilter import Unasked

LOWER_PRIORITY = "lower priority: torch tried fusions of another kind in this round"
NOT_TAKEN_UP = "torch found it possible and did not take it up in this round, without a reason"


class Pair:
    """One ordered pair of a round while torch makes up its mind."""

    __slots__ = (
        "answer", "asked_alone", "benchmark", "confirmed", "cycle", "first", "fused", "reasons", "score",
        "second", "shared", "times",
    )  # fmt: skip

    def __init__(self, first: Any, second: Any) -> None:
        self.first = first
        self.second = second
        self.answer: bool | None = None
        self.asked_alone = False
        """False while it was asked about only for the sake of another pair (foreach, nested reductions)."""
        self.confirmed = False
        self.cycle = False
        self.fused = False
        self.benchmark: bool | None = None
        self.times: list[float] = []
        self.reasons: list[str] = []
        self.score: list[Any] | None = None
        self.shared: int | None = None


class Round:
    """One call of `Scheduler.fuse_nodes_once`. Pairs are kept by the names of their nodes."""

    def __init__(self, number: int, nodes: Sequence[Any]) -> None:
        self.number = number
        self.nodes = list(nodes)
        self.pairs: dict[tuple[str, str], Pair] = {}
        self.possible: set[tuple[str, str]] | None = None
        self.unfusable: set[str] = set()
        self.absorbed: dict[str, str] = {}
        """Node -> its partner, for the fusions of this round."""


class Session:
    """The decisions of one Scheduler. `limit` as in `Unasked`; sizes come from `sizevars`."""

    def __init__(self, scheduler: Any, sizevars: Any, limit: int | None) -> None:
        self.scheduler = scheduler
        self.sizevars = sizevars
        self.limit = limit
        self.buffers: list[dict[str, Any]] = []
        self.inputs: list[dict[str, Any]] = []
        self.score_fields: list[str] = []
        self.benchmarking: Pair | None = None
        self._round: Round | None = None
        self._asking: list[tuple[str, str]] = []
        self._names: dict[str, int] = {}
        self._nodes: list[dict[str, Any]] = []
        self._rounds: list[dict[str, Any]] = []
        self._decisions: list[dict[str, Any]] = []
        self._unasked: set[tuple[str, str, str]] = set()
        self._bytes: dict[Any, int] = {}

    # -- what the hooks see

    def begin_round(self, nodes: Sequence[Any]) -> None:
        """Before `Scheduler.fuse_nodes_once`."""
        self._round = Round(len(self._rounds) + 1, nodes)

    def ask(self, first: Any, second: Any) -> tuple[str, str] | None:
        """Before `Scheduler.can_fuse`; what it returns goes to `answer`."""
        key = (node_name(first), node_name(second))
        self._asking.append(key)
        if self._round is None or first is second:
            return None
        pair = self._pair(first, second)
        pair.asked_alone = pair.asked_alone or len(self._asking) == 1
        return key

    def answer(self, key: tuple[str, str] | None, answer: bool | None) -> None:
        """After `Scheduler.can_fuse`; None where it raised."""
        if self._asking:
            self._asking.pop()
        if key is None or self._round is None or answer is None:
            return
        pair = self._round.pairs[key]
        pair.answer = bool(answer)
        pair.confirmed = pair.confirmed or self._round.possible is not None

    def why(self, first: str, second: str, reason: str) -> None:
        """At `WhyNoFuse.__call__`: torch's reason, formatted as it would log it."""
        if self._round is None:
            return
        pair = self._round.pairs.get((first, second))
        if pair is None:
            # A refusal outside can_fuse names nodes that are known to the schedule.
            known = {node_name(node): node for node in self._round.nodes}
            pair = self._round.pairs[(first, second)] = Pair(known.get(first), known.get(second))
            pair.answer = False
        if reason not in pair.reasons:
            pair.reasons.append(reason)

    def unfusable(self, node: Any, answer: bool) -> None:
        """After `Scheduler.unfusable_node`."""
        if answer and self._round is not None:
            self._round.unfusable.add(node_name(node))

    def possible(self, pairs: Sequence[tuple[Any, Any]]) -> None:
        """After `Scheduler.get_possible_fusions`: what is left to try in this round, best first."""
        if self._round is not None:
            self._round.possible = {(node_name(first), node_name(second)) for first, second in pairs}

    def scored(self, first: Any, second: Any, score: Any) -> None:
        """After `Scheduler.score_fusion_key`."""
        pair = self.known(first, second)
        if pair is None:
            return
        fields = getattr(score, "__dataclass_fields__", None)
        if fields:
            self.score_fields = list(fields)
            pair.score = [_number(getattr(score, name)) for name in fields]
        else:
            pair.score = [_number(part) for part in score]

    def memory(self, first: Any, second: Any, shared: int) -> None:
        """After `Scheduler.score_fusion_memory`, in bytes."""
        pair = self.known(first, second)
        if pair is not None:
            pair.shared = shared

    def cycle(self, first: Any, second: Any) -> None:
        """After `Scheduler.will_fusion_create_cycle` said yes."""
        pair = self.known(first, second)
        if pair is not None:
            pair.cycle = True

    def timed(self, pair: Pair | None, faster: bool) -> None:
        """The outcome of a benchmark decision; False also where torch refused before it measured."""
        if pair is not None and (pair.times or not faster):
            pair.benchmark = faster

    def fuse(self, first: Any, second: Any) -> None:
        """At `Scheduler.fuse_two_nodes` or the backend's `fuse`: the pair becomes one node."""
        if self._round is None:
            return
        self._pair(first, second).fused = True
        self._round.absorbed[node_name(first)] = node_name(second)
        self._round.absorbed[node_name(second)] = node_name(first)

    def end_round(self) -> None:
        """After `Scheduler.fuse_nodes_once`, also where it raised."""
        current, self._round = self._round, None
        if current is None:
            return
        for key, pair in current.pairs.items():
            if pair.asked_alone or pair.answer is False or pair.fused:
                self._decide(current, key, pair)
        missing = Unasked(current.nodes, current.pairs, current.unfusable, self.limit)
        for first, second, reason in missing.pairs():
            fact = (node_name(first), node_name(second), reason)
            # The same nodes meet again in every round; once is enough for what can't change.
            if fact not in self._unasked:
                self._unasked.add(fact)
                self._add(
                    current, first, second, "never_tried", reason, "recorder", self._shared(first, second)
                )
        self._rounds.append(
            {
                "round": current.number,
                "nodes": [self._index(node_name(node), node) for node in current.nodes],
                "possible": len(current.possible) if current.possible is not None else None,
                "truncated": missing.truncated,
            }
        )

    # -- the result

    def result(self) -> dict[str, Any]:
        """Everything so far, as JSON; `first` and `second` count in `nodes`."""
        return {
            "nodes": self._nodes,
            "rounds": self._rounds,
            "decisions": self._decisions,
            "score_fields": self.score_fields,
            "buffers": self.buffers,
            "inputs": self.inputs,
        }

    def _decide(self, current: Round, key: tuple[str, str], pair: Pair) -> None:
        verdict, reason, source = self._verdict(current, key, pair)
        shared = pair.shared if pair.shared is not None else self._shared(pair.first, pair.second)
        decision = self._add(current, key[0], key[1], verdict, reason, source, shared, pair)
        if pair.score is not None:
            decision["score"] = pair.score
        if len(pair.reasons) > 1:
            decision["reasons"] = pair.reasons
        if pair.benchmark is not None:
            decision["benchmark"] = {"fused": pair.benchmark, "times_ms": pair.times}

    def _verdict(
        self, current: Round, key: tuple[str, str], pair: Pair
    ) -> tuple[str, str | None, str | None]:
        """(verdict, reason, who says so)."""
        if pair.fused:
            return "fused", None, None
        if pair.answer is False or pair.cycle or pair.benchmark is False:
            if pair.reasons:
                return "rejected", pair.reasons[-1], "torch"
            return "rejected", self._silent_reason(pair), "recorder"
        for name in key:
            if name in current.absorbed:
                return "never_tried", f"{name} was fused with {current.absorbed[name]} first", "recorder"
        if current.possible is not None and key not in current.possible:
            return "never_tried", LOWER_PRIORITY, "recorder"
        return "rejected", pair.reasons[-1] if pair.reasons else NOT_TAKEN_UP, "recorder"

    def _silent_reason(self, pair: Pair) -> str | None:
        if pair.cycle:
            return "will create cycle"
        if pair.benchmark is False:
            return "slower fused than apart" if pair.times else "refused before it was measured"
        streams = getattr(self.scheduler, "node_to_stream", None) or {}
        if streams and streams.get(pair.first) != streams.get(pair.second):
            return "other stream"
        return None

    def _add(
        self,
        current: Round,
        first: Any,
        second: Any,
        verdict: str,
        reason: str | None,
        source: str | None,
        shared: int | None,
        pair: Pair | None = None,
    ) -> dict[str, Any]:
        nodes = (first, second) if pair is None else (pair.first, pair.second)
        names = (first, second) if pair is not None else (node_name(first), node_name(second))
        decision = {
            "first": self._index(names[0], nodes[0]),
            "second": self._index(names[1], nodes[1]),
            "round": current.number,
            "verdict": verdict,
            "reason": reason,
            "source": source,
            "shared_bytes": shared,
        }
        self._decisions.append(decision)
        return decision

    def _pair(self, first: Any, second: Any) -> Pair:
        assert self._round is not None
        key = (node_name(first), node_name(second))
        if key not in self._round.pairs:
            self._round.pairs[key] = Pair(first, second)
        return self._round.pairs[key]

    def known(self, first: Any, second: Any) -> Pair | None:
        """The pair, where it was asked about in this round."""
        if self._round is None:
            return None
        return self._round.pairs.get((node_name(first), node_name(second)))

    def _index(self, name: str, node: Any) -> int:
        if name not in self._names:
            self._names[name] = len(self._nodes)
            entry: dict[str, Any] = {"name": name}
            if node is not None:
                entry["class"] = type(node).__name__
                inside = describe.members(node)
                if inside != [name]:
                    entry["members"] = inside
            self._nodes.append(entry)
        return self._names[name]

    def _shared(self, first: Any, second: Any) -> int | None:
        """Bytes of the reads and writes that both have with the same index: what a fusion would save once.

        The sum that `Scheduler.score_fusion_memory` makes for the usual pair. It is not called for pairs
        that torch did not score, as some of its special cases add guards.
        """
        if first is None or second is None:
            return None
        own = first.read_writes.reads | first.read_writes.writes
        others = second.read_writes.reads | second.read_writes.writes
        total = 0
        for dependency in own:
            if dependency in others:
                if dependency not in self._bytes:
                    self._bytes[dependency] = int(dependency.numbytes_hint())
                total += self._bytes[dependency]
        return total


def _number(value: Any) -> Any:
    """A part of a score as a plain number; torch has bools, ints and now and then a symbol."""
    return value if isinstance(value, (int, float)) else str(value)
