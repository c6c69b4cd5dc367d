"""What others did to the GPUs that a command used: their load before it, and clocks held down while it ran.

Looked at through the driver's own library, where there is one. A process may not see whose load it is, as in
a container; so others are what keeps a GPU at work before the command has any memory on it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence, Set
from itertools import takewhile

from inspector.frozen import dataclass
from inspector.model.load import GpuLoad

_LIBRARY = "libnvidia-ml.so.1"
_HELD_DOWN = 0x8 | 0x20 | 0x40 | 0x80
"""nvml.h: nvmlClocksThrottleReason HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrakeSlowdown.
The power cap is none of them: work that needs that much power always meets it."""
_CONTEXT_BYTES = 64 << 20
"""A CUDA context takes several times as much."""
_SETTLED_S = 1.0
"""The driver's utilisation is of up to a second: before, it may be that of the run before."""
_EARLY_S, _EARLY_EVERY_S, _EVERY_S = 10.0, 0.25, 1.0


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment: bytes in use by everybody, share of time at work, whether it is held down."""

    used: int
    work: float
    held_down: bool


class GpuWatch:
    """Samples all GPUs while a command runs: `look` is called often and does something from time to time.
    `visible` are the numbers of those that the command may use, None for all. `after` tells that a run of it
    has just ended, which the driver's first figures may be of."""

    def __init__(
        self,
        after: bool,
        visible: Set[int] | None = None,
        read: Callable[[], Sequence[GpuSample]] | None = None,
    ) -> None:
        self._visible = visible
        self._settled_s = _SETTLED_S if after else 0.0
        self._read = read if read is not None else _driver()
        self._samples: list[tuple[float, Sequence[GpuSample]]] = []
        self.look(0.0)

    def look(self, seconds: float) -> None:
        """`seconds` since the command began."""
        every = _EARLY_EVERY_S if seconds < _EARLY_S else _EVERY_S
        if self._read is None or (self._samples and seconds - self._samples[-1][0] < every):
            return
        try:
            self._samples.append((seconds, self._read()))
        except (OSError, AttributeError):
            self._read = None

    def loads(self) -> dict[int, GpuLoad]:
        """Of each GPU that the command put memory on, by the driver's number."""
        loads = {}
        for number in range(min((len(gpus) for _, gpus in self._samples), default=0)):
            seen = [(at, gpus[number]) for at, gpus in self._samples]
            most = seen[0][1].used + _CONTEXT_BYTES
            begun = next((place for place, (_, gpu) in enumerate(seen) if gpu.used > most), None)
            if begun is None or (self._visible is not None and number not in self._visible):
                continue
            before = [gpu.work for at, gpu in seen[:begun] if at >= self._settled_s]
            held = [gpu.held_down for _, gpu in seen[begun:]]
            loads[number] = GpuLoad(sum(before) / len(before) if before else None, sum(held) / len(held))
        return loads


def visible_gpus(environment: Mapping[str, str]) -> Set[int] | None:
    """The numbers in CUDA_VISIBLE_DEVICES, which ends at the first that is none, as CUDA reads it; None where
    it is not set or names devices in another way."""
    text = environment.get("CUDA_VISIBLE_DEVICES")
    if text is None or text.lstrip().startswith(("GPU-", "MIG-")):
        return None
    return {int(word) for word in takewhile(str.isdecimal, (word.strip() for word in text.split(",")))}


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def _driver() -> Callable[[], Sequence[GpuSample]] | None:
    """Reads all GPUs; None without NVIDIA's driver."""
    try:
        library = ctypes.CDLL(_LIBRARY)
        number = ctypes.c_uint()
        if library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(number)):
            return None
    except (OSError, AttributeError):
        return None
    handles = [ctypes.c_void_p() for _ in range(number.value)]
    for place, handle in enumerate(handles):
        if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(place), ctypes.byref(handle)):
            return None

    def one(handle: ctypes.c_void_p) -> GpuSample:
        memory, work, reasons = _Memory(), _Utilisation(), ctypes.c_ulonglong()
        failed = (
            library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)),
            library.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(work)),
            library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)),
        )
        if failed[0] or failed[1]:
            raise OSError("the driver does not tell")
        return GpuSample(memory.used, work.gpu / 100, not failed[2] and bool(reasons.value & _HELD_DOWN))

    return lambda: [one(handle) for handle in handles]
