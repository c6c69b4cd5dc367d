"""Hooks into torch/_inductor/runtime/triton_heuristics.py: what compiling and tuning each Triton kernel gave.

A `CachingAutotuner` is one kernel. `precompile` makes a launcher of each configuration, in the process that
will launch it; workers only fill Triton's cache (`warm_cache_only`). Where there are several, the first
launch measures them. All hooks are on functions that run before a kernel's launcher is settled, so that a
launch itself costs what it always did.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .guard import Guards
from .identity import current_graph
from .sink import Sink

_PLACEHOLDER = "DESCRIPTIVE_NAME"
"""Part of the name of a kernel that exists only to be measured: a choice for a matrix product, a fusion on
trial (torch/_inductor/utils.py: Placeholder). Such a kernel is in no wrapper."""

_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "num_consumer_groups", "num_buffers_warp_spec")
"""Parts of a configuration beside its `kwargs`, in Triton 3.0 to 3.9."""


def watch_kernels(module: ModuleType, guards: Guards, sink: Sink) -> None:
    """Hook into the heuristics' module once it has been executed."""
    watch = Watch(sink)
    autotuner: Any = module.CachingAutotuner
    around = guards.around
    around(autotuner, "precompile", before=watch.compiling, after=watch.compiled)
    around(autotuner, "bench", before=watch.measuring, after=watch.measured)
    around(autotuner, "autotune_to_one_config", before=watch.tuning, after=watch.tuned)
    around(autotuner, "coordinate_descent_tuning", before=watch.descending, after=watch.descended)


class Kernel:
    """What is known of one autotuner: its names, and each configuration with its milliseconds."""

    def __init__(self, number: int, identity: dict[str, Any]) -> None:
        self.number = number
        self.identity = identity
        self.tried: dict[str, tuple[dict[str, str], float]] = {}
        self.refused: set[str] = set()


class Watch:
    """The hooks' functions. Kernels may be compiled and launched in several threads, each one in one."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._kernels: dict[int, tuple[Any, Kernel]] = {}
        self._count = 0

    def compiling(self, autotuner: Any, warm_cache_only: bool = False, *args: Any, **kwargs: Any) -> Any:
        """Before `CachingAutotuner.precompile`; in a worker there is nothing to say yet."""
        return None if warm_cache_only else autotuner

    def compiled(self, autotuner: Any, result: Any, error: BaseException | None) -> None:
        """After `CachingAutotuner.precompile`: with one launcher the kernel is settled."""
        if autotuner is None or error is not None:
            return
        name = _name(autotuner)
        if name is None or self._find(autotuner) is not None:
            return
        self._count += 1
        compile_id = getattr(autotuner, "compile_id", None)
        identity = {"name": name, **current_graph()}
        identity["compile_id"] = identity["compile_id"] or (None if compile_id is None else str(compile_id))
        kernel = Kernel(self._count, identity)
        key = id(autotuner)
        # Another autotuner may get a dead one's address; by then its entry is gone.
        self._kernels[key] = (weakref.ref(autotuner, lambda dead: self._kernels.pop(key, None)), kernel)
        launchers = autotuner.launchers
        if len(launchers) == 1:
            info = getattr(autotuner, "autotune_cache_info", None) or {}
            cached = info.get("autotune_cache_state") == "hit" or getattr(
                launchers[0].config, "found_by_coordesc", False
            )
            self._write(autotuner, kernel, launchers[0], "cache" if cached else "only")

    def measuring(self, autotuner: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
        """Before `CachingAutotuner.bench`."""
        kernel = self._find(autotuner)
        return None if kernel is None else (kernel, launcher)

    def measured(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `CachingAutotuner.bench`: milliseconds; infinite for what torch did not run."""
        if token is None or error is not None:
            return
        kernel, launcher = token
        config = _config(launcher.config)
        key = repr(sorted(config.items()))
        milliseconds = float(result)
        if math.isfinite(milliseconds):
            kernel.tried[key] = (config, milliseconds)
        else:
            kernel.refused.add(key)

    def tuning(self, autotuner: Any, *args: Any, **kwargs: Any) -> Any:
        """Before `CachingAutotuner.autotune_to_one_config`."""
        return autotuner

    def tuned(self, autotuner: Any, result: Any, error: BaseException | None) -> None:
        """After `CachingAutotuner.autotune_to_one_config`: the fastest launcher is left."""
        kernel = self._find(autotuner)
        if kernel is not None and error is None and len(autotuner.launchers) == 1:
            self._write(autotuner, kernel, autotuner.launchers[0], "measured")

    def descending(self, autotuner: Any, *args: Any, **kwargs: Any) -> Any:
        """Before `CachingAutotuner.coordinate_descent_tuning`, which goes on from the fastest launcher."""
        kernel = self._find(autotuner)
        return None if kernel is None else (autotuner, kernel, len(kernel.tried))

    def descended(self, token: Any, result: Any, error: BaseException | None) -> None:
        """After `CachingAutotuner.coordinate_descent_tuning`, which returns a launcher, new or not."""
        if token is not None and error is None and len(token[1].tried) > token[2]:
            self._write(token[0], token[1], result, "descent")

    def _find(self, autotuner: Any) -> Kernel | None:
        entry = self._kernels.get(id(autotuner))
        return entry[1] if entry is not None else None

    def _write(self, autotuner: Any, kernel: Kernel, launcher: Any, chosen_by: str) -> None:
        """A later line of the same `id` replaces an earlier one."""
        heuristic = getattr(autotuner, "heuristic_type", None)
        self._sink.write(
            {
                "kind": "kernel",
                "id": kernel.number,
                **kernel.identity,
                "heuristic": str(getattr(heuristic, "name", heuristic) or "").lower() or None,
                "config": _config(launcher.config),
                "chosen_by": chosen_by,
                "registers": _count(getattr(launcher, "n_regs", None)),
                "spills": _count(getattr(launcher, "n_spills", None)),
                "shared_bytes": _count(getattr(launcher, "shared", None)),
                "tried": [{"config": config, "ms": time} for config, time in kernel.tried.values()],
                "refused": len(kernel.refused),
            }
        )


def _name(autotuner: Any) -> str | None:
    """The kernel's name in the wrapper; None where it is in none."""
    meta: Mapping[str, Any] = getattr(autotuner, "inductor_meta", None) or {}
    name = str(meta.get("kernel_name") or getattr(autotuner.fn, "__name__", ""))
    return None if name.endswith(_PLACEHOLDER) or name in ("", "triton_") else name


def _config(config: Any) -> dict[str, str]:
    """A `triton.Config` as texts: block sizes by their names, then warps and stages."""
    options = {str(name): str(value) for name, value in dict(config.kwargs).items()}
    for name in _OPTIONS:
        value = getattr(config, name, None)
        # One CTA, no limit of registers and no specialised warps are what every kernel has.
        if value is not None and not (value in (0, 1) and name not in ("num_warps", "num_stages")):
            options[name] = str(value)
    return options


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
