"""The baseline of a capture: the same command once more compiled without debug output, and once in eager.

A captured run can't say what compiling costs, as torch writes its debug output in that time, nor what the
user's own eager takes. Both runs have the recorder for calls alone, caches of their own, nothing on standard
input, and their output in RUN/baseline/VARIANT/, as the user has seen it already. What is profiled afterwards
finds in these caches the very kernels that were timed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from inspector.capture.child import gpu_loads, run_apart
from inspector.capture.environment import CaptureOptions, bootstrapped, cache_folders
from inspector.capture.profiles import FOLDER, kernel_profile, plan_profile, profile_request, run_profiles
from inspector.capture.progress import Display
from inspector.frozen import dataclass
from inspector.model.calls import BASELINE_VARIANTS, Variant

_DEBUG = (
    "TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DEBUG_DIR", "TORCH_TRACE", "TORCH_DTRACE",
    "TORCH_LOGS", "TORCH_LOGS_OUT",
)  # fmt: skip
EAGER = {"TORCHDYNAMO_DISABLE": "1"}
"""``torch.compile`` then returns what it was given (torch/_dynamo/eval_frame.py: _optimize, 2.4 to 2.15)."""

SAID = {"compiled": "compiled, without debug output", "eager": "in eager, with Dynamo disabled"}


@dataclass(frozen=True, slots=True)
class BaselineOutcome:
    """`ran` is the manifest's entry for each variant that was run; `notes` are for the user."""

    ran: Mapping[str, Mapping[str, object]]
    interrupted: bool
    notes: tuple[str, ...]


def run_baseline(
    argv: Sequence[str],
    run: Path,
    base: Mapping[str, str],
    screen: Display,
    options: CaptureOptions,
    *,
    live: bool,
) -> BaselineOutcome:
    """Run `argv` in each way that is missing, and with the option `profile` once more in each, a few calls
    profiled; `base` is usually os.environ. A failure becomes a note."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="inspector-", ignore_cleanup_errors=True)
    except OSError as error:
        return BaselineOutcome(
            {}, False, (f"no baseline: no folder for its caches: {error.strerror or error}",)
        )
    with folder as caches:
        own = {variant: Path(caches, variant) if options.fresh else None for variant in BASELINE_VARIANTS}
        return _run(argv, run, base, screen, options, own, live=live)


def _run(
    argv: Sequence[str],
    run: Path,
    base: Mapping[str, str],
    screen: Display,
    options: CaptureOptions,
    caches: Mapping[Variant, Path | None],
    *,
    live: bool,
) -> BaselineOutcome:
    ran: dict[str, dict[str, object]] = {}
    notes: list[str] = []
    for variant in BASELINE_VARIANTS:
        folder = run / "baseline" / variant
        screen.say(f"inspector: running the command again {SAID[variant]}")
        try:
            folder.mkdir(parents=True)
            environment = variant_environment(base, folder, caches[variant], variant, options)
            started = time.time()
            result = run_apart(argv, environment, folder, screen, SAID[variant], live=live)
        except OSError as error:
            notes.append(f"the {variant} run of the baseline could not be started: {error.strerror or error}")
            continue
        ran[variant] = {
            "exit_code": result.exit_code,
            "seconds": round(result.seconds, 3),
            "started": started,
            "interrupted": result.interrupted,
            "gpus": gpu_loads(result),
        }
        if result.interrupted:
            notes.append(f"the baseline was interrupted in its {variant} run")
            return BaselineOutcome(ran, True, tuple(notes))
        if result.exit_code:
            notes.append(
                f"the {variant} run of the baseline failed with exit code {result.exit_code}: "
                f"see baseline/{variant}/stderr.txt"
            )
        elif not any((folder / "record").glob("*.jsonl")):
            notes.append(
                f"the {variant} run of the baseline left no record: torch.compile was not called in it"
            )
    if not options.profile or any(entry["exit_code"] for entry in ran.values()):
        return BaselineOutcome(ran, False, tuple(notes))
    plan, note = plan_profile(run)
    if plan is None:
        return BaselineOutcome(ran, False, (*notes, *filter(None, [note])))
    base = {**base, **kernel_profile(run)}
    environments = {
        variant: variant_environment(
            base,
            run / FOLDER / variant,
            caches[variant],
            variant,
            options,
            profile_request(run, variant, plan),
        )
        for variant in BASELINE_VARIANTS
        if variant in ran
    }
    profiled, more, interrupted = run_profiles(argv, run, screen, environments, plan.order, live=live)
    for name, entry in profiled.items():
        ran[name]["profile"] = entry
    return BaselineOutcome(ran, interrupted, (*notes, *more))


def variant_environment(
    base: Mapping[str, str],
    folder: Path,
    caches: Path | None,
    variant: Variant,
    options: CaptureOptions,
    profile: Mapping[str, object] | None = None,
    results: bool = False,
) -> dict[str, str]:
    """The whole environment of one run; `caches` is None for the user's own caches, `profile` what the
    recorder is asked to profile, `results` whether it is to keep what callables gave.

    The user's debug variables are left out as they would slow the run down, unless the options name them.
    """
    given = dict(options.env)
    full = {name: value for name, value in base.items() if name not in _DEBUG or name in given}
    full.update(given)
    ours = cache_folders(caches) if caches is not None else {}
    full.update({name: value for name, value in ours.items() if name not in given})
    full.update(setting.variable for setting in options.settings if setting.variable is not None)
    record = {
        "folder": str(folder / "record"),
        "log": str(folder / "recorder.log"),
        "calls": True,
        "profile": profile,
        "results": results,
    }
    full.update(bootstrapped(full, folder / "bootstrap.log", options, record))
    if variant == "eager":
        full.update(EAGER)
    return full
