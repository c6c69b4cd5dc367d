"""What is timed again and again starts each time from where it started: a place that it counts up stays in
its memory."""

from __future__ import annotations

import statistics

import pytest

torch = pytest.importorskip("torch")

from inspector.replay.worker.timing.kernels import KernelClock  # noqa: E402
from inspector.replay.worker.timing.rounds import Candidate, measure  # noqa: E402


class Cache:
    """Sixteen places, four of which each step fills before it moves on."""

    def __init__(self) -> None:
        self.place = torch.zeros((), dtype=torch.int64)
        self.keys = torch.zeros(16, 8)
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        self.keys.index_copy_(0, self.place + torch.arange(4), torch.ones(4, 8))
        self.place.add_(4)

    def renew(self) -> None:
        self.place.zero_()


@pytest.mark.parametrize("renewed", [True, False])
def test_a_whole_graph_is_timed_from_the_place_where_it_starts(renewed: bool) -> None:
    cache = Cache()
    candidate = Candidate("compiled", cache.step, cache.renew, cache.renew if renewed else None)

    def timed() -> int:
        return measure(
            [candidate],
            "cpu",
            rounds=5,
            warmup=1,
            min_block_ms=1.0,
            budget_s=10.0,
            report=lambda name, rounds: None,
        )

    if renewed:
        assert timed() == len(candidate.rounds) == 5
        # A round in which something else ran may be shorter than what is taken off.
        assert statistics.median(candidate.rounds) > 0
        assert cache.steps > 20
    else:
        with pytest.raises((IndexError, RuntimeError)):
            timed()


@pytest.mark.parametrize("renewed", [True, False])
def test_a_launch_is_timed_from_the_place_where_it_starts(renewed: bool) -> None:
    cache = Cache()
    clock = KernelClock("cpu", budget_s=0.01, warm=False)
    if renewed:
        assert clock.measure(3, cache.step, cache.renew).time.median_ms > 0 and cache.steps > 20
    else:
        with pytest.raises((IndexError, RuntimeError)):
            clock.measure(3, cache.step)
