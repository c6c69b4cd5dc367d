"""What the child's environment gets: where torch writes, what it logs, which caches it uses."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from inspector.capture.bootstrap.sitecustomize import OVERRIDE
from inspector.capture.command import runs_site
from inspector.frozen import dataclass
from inspector.model.explain import ConfigValue, is_dictionary
from inspector.model.problem import InspectorError

BOOTSTRAP = Path(__file__).parent / "bootstrap"

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""Modes of torch.compile in every version from 2.4 on (torch/_inductor/__init__.py: list_mode_options)."""

ARTIFACTS: tuple[tuple[str, tuple[int, int]], ...] = (
    ("perf_hints", (2, 1)),
    ("graph_breaks", (2, 1)),
    ("recompiles", (2, 1)),
    ("fusion", (2, 4)),
    ("cudagraphs", (2, 4)),
    ("loop_ordering", (2, 5)),
    ("autotuning", (2, 7)),
)
"""Log artifacts and the first version that has them (torch/_logging/_registrations.py of 2.4 to 2.13).

torch raises at import for a name that it doesn't know, so an unknown version gets what 2.4 has.
"""

SHOWN_BY_DEFAULT = frozenset({"graph_breaks", "recompiles", "cudagraphs"})
"""Artifacts that are not `off_by_default`: torch shows their warnings even when TORCH_LOGS is not set."""

CONFIG_VARIABLES = {
    "max_autotune": "TORCHINDUCTOR_MAX_AUTOTUNE",
    "max_autotune_gemm": "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM",
    "max_autotune_pointwise": "TORCHINDUCTOR_MAX_AUTOTUNE_POINTWISE",
    "coordinate_descent_tuning": "TORCHINDUCTOR_COORDINATE_DESCENT_TUNING",
    "benchmark_fusion": "TORCHINDUCTOR_BENCHMARK_FUSION",
    "benchmark_kernel": "TORCHINDUCTOR_BENCHMARK_KERNEL",
    "compile_threads": "TORCHINDUCTOR_COMPILE_THREADS",
    "cpp_wrapper": "TORCHINDUCTOR_CPP_WRAPPER",
    "freezing": "TORCHINDUCTOR_FREEZING",
    "permute_fusion": "TORCHINDUCTOR_PERMUTE_FUSION",
    "shape_padding": "TORCHINDUCTOR_SHAPE_PADDING",
    "triton.cudagraphs": "TORCHINDUCTOR_CUDAGRAPHS",
    "triton.unique_kernel_names": "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES",
}
"""Inductor settings with an environment variable from 2.4 to 2.13 (torch/_inductor/config.py)."""

_CONFIG_MODULES = {
    "dynamo": "torch._dynamo.config",
    "functorch": "torch._functorch.config",
    "inductor": "torch._inductor.config",
}
_REDIRECTING = ("TORCH_COMPILE_DEBUG", "TORCH_COMPILE_DEBUG_DIR", "TORCH_TRACE", "TORCH_LOGS_OUT")
_REPLACED = {
    "TORCH_LOGS_OUT": "the log is in logs/torch_logs.txt",
    "TORCH_TRACE": "the trace is in trace",
    "TORCH_DTRACE": "the trace is in trace",
    "TORCH_COMPILE_DEBUG_DIR": "its files are in torch_compile_debug",
}
_RESHAPING = ("TORCH_LOGS_FORMAT", "TORCH_LOGS_TRACE_ID_FILTER")


@dataclass(frozen=True, slots=True)
class Setting:
    """One torch config value: `key` of `module`, as `torch._inductor.config` and `triton.cudagraphs`."""

    module: str
    key: str
    value: ConfigValue

    @property
    def variable(self) -> tuple[str, str] | None:
        """The environment variable and its text that torch has for it; None where there is none."""
        name = CONFIG_VARIABLES.get(self.key) if self.module == _CONFIG_MODULES["inductor"] else None
        if name is None or not isinstance(self.value, (bool, int)):
            return None
        return name, str(int(self.value))


@dataclass(frozen=True, slots=True)
class HiddenLogs:
    """Which of torch's log lines on standard error exist only because a capture switched them on.

    `artifacts` are hidden below warning level, those of `warnings` at every level; `trace_paths` hides the
    "debug trace:" line of TORCH_COMPILE_DEBUG, `untagged` the information lines of whole modules.
    """

    artifacts: frozenset[str] = frozenset()
    warnings: frozenset[str] = frozenset()
    trace_paths: bool = False
    untagged: bool = False


@dataclass(frozen=True, slots=True)
class ChildEnvironment:
    """`variables` is what the capture set, `full` the child's whole environment, `notes` are for the user."""

    variables: Mapping[str, str]
    full: Mapping[str, str]
    hidden: HiddenLogs
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """What the user asked for. `config` and `env` are (key, value) texts as given on the command line."""

    command: tuple[str, ...]
    out: Path | None = None
    fresh: bool = True
    mode: str | None = None
    config: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    logs: str | None = None
    record: bool = True
    save_inputs: int | None = None
    """Bytes for each graph's arguments; None to keep none."""
    baseline: bool = False
    profile: bool = True
    """Whether a baseline profiles both sides too."""
    peaks: bool = True
    """Whether what the machine can do is measured after a baseline, where nobody did before."""
    quiet: bool = False

    @property
    def settings(self) -> tuple[Setting, ...]:
        """`config`, parsed. Raises InspectorError as `parse_setting`."""
        return tuple(parse_setting(key, value) for key, value in self.config)

    @property
    def injected(self) -> bool:
        """Whether the bootstrap has a mode or config values to set in the child."""
        return self.mode is not None or any(setting.variable is None for setting in self.settings)


def parse_setting(key: str, text: str) -> Setting:
    """`("dynamo.cache_size_limit", "16")` as a setting; without a known prefix the key is Inductor's.

    Values: `true`, `false`, `none`, numbers, and JSON for a dictionary, which stays text until it is set;
    anything else is text. Raises InspectorError for a key that is no dotted name, and for what begins like a
    dictionary and is none.
    """
    key = key.strip()
    head, _, tail = key.partition(".")
    module = _CONFIG_MODULES.get(head) if tail else None
    name = tail if module else key
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
        raise InspectorError(
            f"--config {key}={text}: not a setting's name; example: --config max_autotune=true"
        )
    text = text.strip()
    if is_dictionary(text):
        try:
            json.loads(text)
        except ValueError as error:
            raise InspectorError(
                f"--config {key}={text}: no JSON ({error}); example: "
                """--config 'post_grad_fusion_options={"decompose_mm_pass": {}}'"""
            ) from None
    return Setting(module or _CONFIG_MODULES["inductor"], name, _parse_value(text))


def _parse_value(text: str) -> ConfigValue:
    words: dict[str, ConfigValue] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def artifacts_for(version: str | None) -> tuple[str, ...]:
    """The log artifacts to switch on for a torch version such as `2.13.0+cpu`."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    release = (int(match[1]), int(match[2])) if match else (2, 4)
    return tuple(name for name, since in ARTIFACTS if since <= release)


def merge_logs(own: str, ours: Sequence[str], extra: str | None) -> tuple[str, HiddenLogs]:
    """TORCH_LOGS from the user's own value, the capture's artifacts and the capture's extra logs.

    What the user switched on stays visible. A `+module` of theirs also shows the artifacts of that module
    that are not off by default (torch/_logging/_internal.py: configure_artifact_log).
    """
    theirs = _names(own)
    added = [name for name in (*ours, *_names(extra or "")) if name not in theirs]
    known = {_bare(name) for name in theirs}
    artifacts = {_bare(name) for name in added if "." not in name and name[0] not in "+-"} - known
    if any(name.startswith("+") for name in theirs):
        artifacts -= SHOWN_BY_DEFAULT
    modules = any(
        name[0] in "+-" or "." in name or name in ("dynamo", "inductor", "aot")
        for name in _names(extra or "")
    )
    hidden = HiddenLogs(
        artifacts=frozenset(artifacts),
        warnings=frozenset(artifacts - SHOWN_BY_DEFAULT),
        untagged=modules and not theirs,
    )
    return ",".join(dict.fromkeys((*theirs, *added))), hidden


def _names(logs: str) -> list[str]:
    return [name for name in re.split(r"[,\s]+", logs) if name]


def _bare(name: str) -> str:
    return name.lstrip("+-")


def build(
    base: Mapping[str, str], options: CaptureOptions, *, run: Path, caches: Path, torch_version: str | None
) -> ChildEnvironment:
    """The child's environment; `run` and `caches` are absolute, `base` is usually os.environ.

    What the options' `env` names is never overridden, TORCH_LOGS aside, which is merged.
    """
    given = dict(options.env)
    notes: list[str] = []
    combined = {**base, **given}
    merged, hidden = merge_logs(combined.get("TORCH_LOGS", ""), artifacts_for(torch_version), options.logs)
    ours = {
        "TORCH_COMPILE_DEBUG": "1",
        "TORCH_COMPILE_DEBUG_DIR": str(run),
        "TORCH_TRACE": str(run / "trace"),
        "TORCH_LOGS": merged,
        "TORCH_LOGS_OUT": str(run / "logs" / "torch_logs.txt"),
        # Version 2.4 is without it unless asked, and then every kernel is called `triton_`.
        "TORCHINDUCTOR_UNIQUE_KERNEL_NAMES": "1",
    }
    if "TORCH_DTRACE" in combined:
        # It takes precedence over TORCH_TRACE (torch/_logging/_internal.py: _init_logs).
        ours["TORCH_DTRACE"] = ours["TORCH_TRACE"]
    if options.fresh:
        ours.update(cache_folders(caches))
    else:
        notes.append(
            "your own caches were used (--no-fresh): a graph that comes from a cache leaves no files"
        )
    ours.update(setting.variable for setting in options.settings if setting.variable is not None)
    if (options.injected or options.record) and not runs_site(options.command):
        # What it would find in PYTHONPATH would stay on its sys.path.
        notes.append("python -S lets nothing in: neither the recorder nor --mode and --config")
    elif options.injected or options.record:
        recorder: dict[str, object] = {
            "folder": str(run / "record"),
            "log": str(run / "logs" / "recorder.log"),
            "complete": options.fresh,
        }
        if options.save_inputs is not None:
            recorder.update(inputs=str(run / "inputs"), inputs_limit=options.save_inputs)
        log = run / "logs" / "bootstrap.log"
        ours.update(bootstrapped(combined, log, options, recorder if options.record else None))
    kept = {"TORCH_LOGS", "PYTHONPATH"}
    for name in [name for name in ours if name in given and name not in kept]:
        if name in _REDIRECTING and given[name] != ours[name]:
            notes.append(
                f"--env {name}={given[name]} was kept: what torch writes there is not part of this run"
            )
        del ours[name]
    for name, place in _REPLACED.items():
        if name in ours and base.get(name):
            notes.append(f"{name}={base[name]} was replaced: {place}")
    full = {**combined, **ours}
    for name in _RESHAPING:
        if name in base and name not in given:
            del full[name]
            notes.append(f"{name} was left out: the log can't be read in another format (--env keeps it)")
    hidden = HiddenLogs(
        hidden.artifacts, hidden.warnings, base.get("TORCH_COMPILE_DEBUG") != "1", hidden.untagged
    )
    return ChildEnvironment({**given, **ours}, full, hidden, tuple(notes))


CACHES = "cache"
"""The folder of a capture in which torch keeps its caches."""


def cache_folders(caches: Path) -> dict[str, str]:
    """The variables that have torch keep its caches in a folder."""
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }


def bootstrapped(
    combined: Mapping[str, str], log: Path, options: CaptureOptions, record: Mapping[str, object] | None
) -> dict[str, str]:
    """The variables that let bootstrap/sitecustomize.py in; `record` are the recorder's arguments."""
    # A variable counts once, when torch is imported; what is to win over the program is set again.
    wins = OVERRIDE in combined
    config = [
        [setting.module, setting.key, setting.value]
        for setting in options.settings
        if wins or setting.variable is None
    ]
    request = {"log": str(log), "mode": options.mode, "config": config, "record": record}
    rest = combined.get("PYTHONPATH", "")
    return {
        "INSPECTOR_BOOTSTRAP": json.dumps(request, ensure_ascii=False),
        "PYTHONPATH": str(BOOTSTRAP) + (os.pathsep + rest if rest else ""),
    }
