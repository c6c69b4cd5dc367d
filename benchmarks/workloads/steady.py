"""Steady calls of two compiled functions by the program's own clock: prints microseconds a call for each."""

import statistics
import time

import torch


@torch.compile
def small(x, y):
    return torch.softmax(x @ y, 1)


@torch.compile
def large(x):
    return torch.relu(torch.tanh(x + 1) * 2 - x) * 0.5


def microseconds(function, *args, rounds=60, calls=50):
    for _ in range(5):
        function(*args)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function(*args)
        times.append((time.perf_counter() - start) / calls * 1e6)
    return statistics.median(times)


# One thread: how several get along on a busy machine would hide what a hook costs.
torch.set_num_threads(1)
print(microseconds(small, torch.ones(100, 100), torch.ones(100, 100)))
print(microseconds(large, torch.ones(1_000_000), rounds=30, calls=10))
