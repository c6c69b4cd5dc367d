"""Whether a machine was too busy for its times to be evidence, and why that is said."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap

from inspector.model.calls import VariantRun
from inspector.model.load import GpuLoad, LoadSample

LEAST_SECONDS = 0.2
"""Between two samples of counters that grow in steps of 10 ms: 20 steps."""
MOST_MISSING = 0.1
"""Of the cores that the program would use, or of its time: twice what two quiet runs differ by."""
LEAST_CLOCK = 0.6
"""Of a core's highest clock: a processor under load is above it unless it is held back (turbo is a third)."""
# rank 1: other processes used 1.8 of 2 cores (eager run, profiled)
_REASON = re.compile(r"(?:rank (?P<rank>\d+): )?(?P<text>.*?)(?: \((?P<run>[^()]*)\))?", re.DOTALL)
_FIGURE = re.compile(r"(?<![\d.])\d+(?:\.\d+)?(?= (?:of \d|% of|times))")
_WHOLE_CORE = 0.75
"""A program that uses 1.3 cores where others work too would have used two."""


def busy_reasons(samples: Sequence[LoadSample], alone: bool = True) -> tuple[str, ...]:
    """Why times between the first and the last sample are not to be trusted; empty where nothing says so.

    `alone` is False where further processes of the same program work on the machine (ranks): these count to
    nobody then. Empty too for less than `LEAST_SECONDS`, which the counters are too coarse for.
    """
    if len(samples) < 2 or samples[-1].at - samples[0].at < LEAST_SECONDS:
        return ()
    first, last = samples[0], samples[-1]
    seconds = last.at - first.at
    reasons = []
    missing, waited, limited = _lost(first, last, alone)
    if missing > MOST_MISSING and (others := _others(first, last, seconds)) is not None:
        used, stolen, cores, _ = others
        who = "the hypervisor and other processes" if stolen > used / 2 else "other processes"
        reasons.append(f"{who} used {used:.1f} of {cores} cores")
    if waited > MOST_MISSING:
        reasons.append(f"it was ready to run and had no core for {waited * 100:.0f} % of the time")
    if limited > MOST_MISSING:
        reasons.append(f"its container's CPU limit held it back for {limited * 100:.0f} % of the time")
    if first.hot is not None and last.hot is not None and last.hot > first.hot:
        reasons.append(f"the processor was slowed down by heat {last.hot - first.hot} times")
    clocks = [item.mhz / item.mhz_most for item in samples if item.mhz and item.mhz_most]
    if clocks and max(clocks) < LEAST_CLOCK:
        reasons.append(f"the processor ran at {max(clocks) * 100:.0f} % of its highest clock at most")
    return tuple(reasons)


def taken_part(samples: Sequence[LoadSample], alone: bool = True) -> float:
    """The part of a program's time, 0 to 1, that others had between the first and the last sample, or may
    have had: all of it where a reason of `busy_reasons` says nothing of how much."""
    if not (reasons := busy_reasons(samples, alone)):
        return 0.0
    parts = _lost(samples[0], samples[-1], alone)
    known = sum(part > MOST_MISSING for part in parts) == len(reasons)
    return min(max(parts), 1.0) if known else 1.0


def gpu_reasons(name: str, load: GpuLoad) -> Iterator[str]:
    """Why times of a GPU are not to be trusted."""
    if load.before is not None and load.before > MOST_MISSING:
        share = f"{load.before * 100:.0f} %"
        yield f"others kept GPU {name} at work for {share} of the time before the program began"
    if load.held_down > MOST_MISSING:
        yield f"GPU {name} was slowed down by heat or power for {load.held_down * 100:.0f} % of the time"


def _lost(first: LoadSample, last: LoadSample, alone: bool) -> tuple[float, float, float]:
    """(the part that others used of the cores that the program would use, of its time the part for which it
    waited for a core, the part for which its container held it back)."""
    seconds, missing = last.at - first.at, 0.0
    if alone and (others := _others(first, last, seconds)) is not None:
        used, _, cores, wanted = others
        missing = (used + wanted - cores) / wanted
    waited = _grown(first.waited, last.waited, seconds)
    return missing, waited, _grown(first.limited, last.limited, seconds)


def _others(first: LoadSample, last: LoadSample, seconds: float) -> tuple[float, float, int, int] | None:
    """(cores' worth that others used, the hypervisor's part, cores, cores that the program would use)."""
    if first.busy is None or last.busy is None or not last.cores or first.cores != last.cores:
        return None
    own = (last.own - first.own) / seconds
    used = max((last.busy - first.busy) / seconds - own, 0.0)
    stolen = _grown(first.stolen, last.stolen, seconds)
    return used, stolen, last.cores, max(1, min(last.cores, math.floor(own + _WHOLE_CORE)))


def _grown(first: float | None, last: float | None, seconds: float) -> float:
    return 0.0 if first is None or last is None else max(last - first, 0.0) / seconds


def run_busy(variants: Iterable[VariantRun], timed: bool = True, profiled: bool = True) -> tuple[str, ...]:
    """The reasons of every run of the command, each with the run that it is of: of those whose calls are
    `timed` and compared, and of those that only a profile is of."""
    reasons: dict[str, None] = {}
    for run in variants:
        where = "" if run.variant == "captured" else f" ({run.variant} run)"
        both = (run.processes, where, timed), (run.profiled, f" ({run.variant} run, profiled)", profiled)
        for processes, place, wanted in both:
            for calls in processes if wanted else ():
                texts = busy_reasons(calls.load, len(processes) == 1)
                who = f"rank {calls.rank}: " if len(processes) > 1 and calls.rank is not None else ""
                reasons.update(dict.fromkeys(f"{who}{text}{place}" for text in texts))
        for name, load in run.gpus if timed and _uses_gpu(run) else ():
            reasons.update(dict.fromkeys(f"{text}{where}" for text in gpu_reasons(name, load)))
    return tuple(reasons)


def run_taken(variants: Iterable[VariantRun]) -> float:
    """The most that others had, by `taken_part`, of any run whose calls are timed and compared."""
    parts = [0.0]
    for run in variants:
        parts += [taken_part(calls.load, len(run.processes) == 1) for calls in run.processes]
        parts += [1.0 for name, load in run.gpus for _ in gpu_reasons(name, load) if _uses_gpu(run)]
    return max(parts)


def _uses_gpu(run: VariantRun) -> bool:
    """Not where all that it compiled takes a CPU's tensors: a GPU's memory that grew meanwhile is others'."""
    devices = [item.device for calls in run.processes for item in calls.callables]
    return not devices or any(device is None or not device.startswith("cpu") for device in devices)


def busy_text(reasons: Sequence[str]) -> str:
    """`the machine was busy: ...; ...`; empty without a reason. What differs in its figure, its run or its
    rank alone is said once: `other processes used 1.8 to 3.0 of 4 cores (captured run; eager run)`."""
    alike: dict[str, list[re.Match[str]]] = {}
    for reason in reasons:
        if match := _REASON.fullmatch(reason):
            alike.setdefault(_FIGURE.sub("#", match["text"]), []).append(match)
    said = "; ".join(starmap(_together, alike.items()))
    return f"the machine was busy: {said}" if said else ""


def _together(text: str, matches: Sequence[re.Match[str]]) -> str:
    if len(matches) == 1:
        return matches[0][0]
    figures = sorted((figure for match in matches for figure in _FIGURE.findall(match["text"])), key=float)
    spread = (
        f"{figures[0]} to {figures[-1]}" if figures and figures[0] != figures[-1] else "".join(figures[:1])
    )
    ranks = sorted({match["rank"] for match in matches if match["rank"]})
    runs = list(dict.fromkeys(match["run"] or "captured run" for match in matches))
    named = [f"{len(runs)} runs"] if len(runs) > 2 else runs if runs != ["captured run"] else []
    places = ([f"rank {' and '.join(ranks)}"] if ranks else []) + named
    return text.replace("#", spread) + (f" ({'; '.join(places)})" if places else "")
