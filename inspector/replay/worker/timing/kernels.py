"""How long one launch takes, again and again on the same arguments.

CPU: blocks of torch.utils.benchmark's timer, with the threads that the graph has. GPU: as
triton.testing.do_bench does it, events around the launch behind a write that empties the L2 cache and
keeps the device busy while the host prepares the launch. A launch that takes the host longer than that
write is captured in a CUDA graph, whose replay takes the host microseconds; a launch that cannot be
captured gets several such writes.
"""

from __future__ import annotations

import math
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from inspector.hardware.occupancy import Multiprocessor, occupancy
from inspector.model.replay import Restrided
from inspector.replay.protocol import KernelFacts, KernelTimed
from inspector.replay.worker.timing.rounds import FLUSH_BYTES, event_times, timing_of
from inspector.replay.worker.timing.wider import surely_faster

Samples = list[float]
"""Milliseconds, one for each timed launch or block of launches."""
Renew = Callable[[], object]

_GRAPH_LAUNCHES = 20
"""Launches in one CUDA graph where the L2 cache is to stay warm; the time is that of one."""

_MOST_FLUSHES = 16

_PROFILED = 20
"""Launches that the profiler sees, to tell how long events take."""

_BLOCK_S = 1e-3
"""A block of launches on a CPU lasts about this long, so that the clock's grain does not show."""

_LEAST_BLOCKS = 7


class KernelClock:
    """Times launches on one device. `budget_s`: seconds for one launch's timing; `warm`: with a warm L2
    cache as well."""

    def __init__(self, device: str, budget_s: float, warm: bool) -> None:
        self._cuda = device.startswith("cuda")
        self._budget_s = budget_s
        self._warm = warm
        if self._cuda:
            self._flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
            self._flush_ms = statistics.median([_once(self._flush.zero_) for _ in range(7)])
            self._events_ms = self._overhead_ms()

    def measure(self, call: int, launch: Callable[[], object], renew: Renew | None = None) -> KernelTimed:
        """The times of the call with that number. `renew` puts back what each launch counts up, outside of
        the time. Raises what torch raises where it cannot be repeated."""
        if not self._cuda:
            return KernelTimed(call, timing_of(self._cpu(launch, renew)))
        cold = timing_of(self._cold(launch, renew))
        # Launches in one CUDA graph have nothing between them.
        warm = timing_of(self._with_warm_cache(launch)) if self._warm and renew is None else None
        own_ms = None if self._events_ms is None else max(0.0, cold.median_ms - self._events_ms)
        return KernelTimed(call, cold, warm, own_ms)

    def beside_float32(
        self, times: KernelTimed, launch: Callable[[], object], wide: Callable[[], object]
    ) -> KernelTimed:
        """`times` of the launch with that of `wide`, the same in float32, where that is surely faster."""
        try:
            other = self.measure(times.call, wide).time
        except Exception:
            # The operator knows no float32, or memory is short.
            traceback.print_exc()
            return times
        if other.median_ms >= times.time.median_ms:
            return times
        again = self.measure(times.call, launch).time
        return replace(times, time_float32=other) if surely_faster(times.time, other, again) else times

    def beside_eager_strides(
        self,
        times: KernelTimed,
        launch: Callable[[], object],
        other: Callable[[], object],
        restrided: tuple[Restrided, ...],
    ) -> KernelTimed:
        """`times` of the launch with that of `other`, the same with eager's strides. Where that is faster the
        launch is timed once more behind it, and its better time counts."""
        try:
            own = self.measure(times.call, other).time
        except Exception:
            # The library has no kernel for these strides, or memory is short.
            traceback.print_exc()
            return times
        if own.median_ms < times.time.median_ms:
            again = self.measure(times.call, launch)
            if again.time.median_ms < times.time.median_ms:
                times = replace(times, time=again.time, device_ms=again.device_ms)
        return replace(times, time_eager_strides=own, restrided=restrided)

    def _cpu(self, launch: Callable[[], object], renew: Renew | None = None) -> Samples:
        from torch.utils.benchmark import Timer

        names, threads = {"launch": launch, "renew": renew}, torch.get_num_threads()
        if renew is not None:
            own = Timer("renew()", globals=names, num_threads=threads)
            timer = Timer("renew(); launch()", globals=names, num_threads=threads)
        else:
            timer = Timer("launch()", globals=names, num_threads=threads)
        timer.timeit(1)
        once_s = min(timer.timeit(1).mean for _ in range(3))
        number = max(1, min(10_000, math.ceil(_BLOCK_S / max(once_s, 1e-7))))
        samples: Samples = []
        started = time.perf_counter()
        while True:
            taken = timer.timeit(number).mean - (own.timeit(number).mean if renew is not None else 0.0)
            samples.append(max(taken, 0.0) * 1e3)
            spent = time.perf_counter() - started
            if spent > 5 * self._budget_s or (spent > self._budget_s and len(samples) >= _LEAST_BLOCKS):
                return samples

    # -- GPU

    def _cold(self, launch: Callable[[], object], renew: Renew | None = None) -> Samples:
        renew = renew or _nothing
        host_ms = self._host_ms(launch, renew)
        flushes = 1
        if host_ms > 0.8 * self._flush_ms:
            graph = captured(launch, 1, renew)
            if graph is not None:
                launch = graph.replay
            else:
                flushes = min(_MOST_FLUSHES, math.ceil(1.5 * host_ms / self._flush_ms))
        once_ms = event_times(launch, 1, renew)[0] + flushes * self._flush_ms
        count = max(10, min(200, int(self._budget_s * 1e3 / max(once_ms, host_ms))))

        def flush() -> None:
            renew()
            for _ in range(flushes):
                self._flush.zero_()

        return event_times(launch, count, flush)

    def device_kernels(self, launch: Callable[[], object]) -> tuple[str, ...]:
        """Names of the kernels that a launch runs on the device, as CUPTI has them; empty on a CPU, and where
        the profiler sees no device."""
        if not self._cuda:
            return ()
        try:
            return tuple(dict.fromkeys(name for name, _ in _on_device(launch)))
        except RuntimeError:
            return ()

    def _overhead_ms(self) -> float | None:
        """What a pair of events adds to a launch's time: that of a kernel on one element, less the duration
        that CUPTI has for it. None where the profiler sees no device."""
        element = torch.zeros(1, device=self._flush.device)
        launch = element.sin_
        between_ms = statistics.median(self._cold(launch))

        def often() -> None:
            for _ in range(_PROFILED):
                self._flush.zero_()
                launch()

        try:
            durations = [ms for name, ms in _on_device(often) if "sin" in name]
        except RuntimeError:
            return None
        return between_ms - statistics.median(durations) if durations else None

    def _with_warm_cache(self, launch: Callable[[], object]) -> Samples:
        graph = captured(launch, _GRAPH_LAUNCHES)
        if graph is None:
            return [_once(launch) for _ in range(20)]
        graph.replay()
        return [_once(graph.replay) / _GRAPH_LAUNCHES for _ in range(20)]

    @staticmethod
    def _host_ms(launch: Callable[[], object], renew: Renew) -> float:
        """What a launch takes the host; the device works behind it."""
        times = []
        for _ in range(5):
            renew()
            started = time.perf_counter()
            launch()
            times.append((time.perf_counter() - started) * 1e3)
            torch.cuda.synchronize()
        return statistics.median(times)


def _on_device(action: Callable[[], object]) -> list[tuple[str, float]]:
    """(name, milliseconds) of each event on the device. RuntimeError where the profiler can't be used."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        action()
        torch.cuda.synchronize()
    return [
        (event.name, event.time_range.elapsed_us() / 1e3)
        for event in profiler.events() or ()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]


def repeatable(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> Callable[[], object]:
    """The launch as a call without arguments, on the stream that is current when it is called: the wrapper
    hands Triton kernels the stream that was current then, and a CUDA graph is captured on another one."""
    if "stream" not in kwargs or not torch.cuda.is_available():
        return lambda: function(*args, **kwargs)
    fixed = {key: value for key, value in kwargs.items() if key != "stream"}
    return lambda: function(*args, stream=torch.cuda.current_stream().cuda_stream, **fixed)


def captured(
    action: Callable[[], object], count: int, renew: Renew | None = None
) -> torch.cuda.CUDAGraph | None:
    """A CUDA graph of `count` calls; None where it cannot be captured (it waits for the device, say). `renew`
    comes before each time that they run."""
    renew = renew or _nothing
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    try:
        renew()
        with torch.cuda.stream(side):
            action()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            for _ in range(count):
                action()
        renew()
        graph.replay()
        torch.cuda.synchronize()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph


def time_as_graph(call: Callable[[], object], renew: Renew) -> Samples | None:
    """Device milliseconds of replays of one CUDA graph of `call`; None where it cannot be captured. `renew`
    puts back what a call counts up."""
    graph = captured(call, 1, renew)
    if graph is None:
        return None
    return [event_times(graph.replay, 1, renew)[0] for _ in range(30)]


def _nothing() -> None: ...


def _once(action: Callable[[], object]) -> float:
    return event_times(action, 1)[0]


def launch_facts(function: object) -> KernelFacts:
    """Registers, spills, shared memory and occupancy of a Triton launch ``kernel.run``, or how much of its
    grid ran in the interpreter; nothing for others.

    torch/_inductor/runtime/triton_heuristics.py: CachingAutotuner.launchers, the first after autotuning.
    """
    kernel = getattr(function, "__self__", None)
    launchers = getattr(kernel, "launchers", None)
    if not launchers:
        facts = getattr(kernel, "facts", None)
        return facts if isinstance(facts, KernelFacts) else KernelFacts()
    launcher = launchers[0]

    def number(name: str) -> int | None:
        value = getattr(launcher, name, None)
        return value if isinstance(value, int) and value >= 0 else None

    registers, shared = number("n_regs"), number("shared")
    warps = getattr(getattr(launcher, "config", None), "num_warps", None)
    share = None
    if isinstance(warps, int) and registers is not None and torch.cuda.is_available():
        share = _occupancy(warps, registers, shared or 0)
    return KernelFacts(registers=registers, spills=number("n_spills"), shared_bytes=shared, occupancy=share)


def _occupancy(warps: int, registers: int, shared: int) -> float | None:
    """Warps that fit on one of this GPU's multiprocessors, of those that it can hold."""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    file = getattr(properties, "regs_per_multiprocessor", None)
    memory = getattr(properties, "shared_memory_per_multiprocessor", None)
    if not file or not memory:
        return None
    own = Multiprocessor(file, memory, properties.max_threads_per_multi_processor // 32)
    fits = occupancy(own, warps, registers, shared)
    return fits.share if fits is not None else 0.0
