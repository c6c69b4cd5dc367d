"""What the environment variables that are set now do to a compilation."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator

from inspector.frozen import dataclass
from inspector.model.doctor import Facts, Finding, Status

Test = Callable[[str], bool]

_GENERIC = re.compile(r"(?:TORCHINDUCTOR|TORCHDYNAMO|TORCH_COMPILE)_\w+")
"""Inductor's and Dynamo's own settings; torch's sources tell which of them exist."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a variable does where `when` holds for its value; the first rule that holds counts."""

    name: str
    when: Test
    status: Status
    effect: str
    remedy: str = ""


def _set(value: str) -> bool:
    return value != ""


def _any(_: str) -> bool:
    return True


def _is(*values: str) -> Test:
    return lambda value: value.strip() in values


def _not(*values: str) -> Test:
    return lambda value: value.strip() not in ("", *values)


def _holds(word: str) -> Test:
    return lambda value: word in value


_OFF = "torch.compile is off: every function runs as it is and nothing is compiled"
_ONLY_ONE = "has no effect: only the value 1 turns torch.compile off"
_NO_CACHE = "every start of the program compiles everything again; nothing is missing because it was cached"
_REMOTE = (
    "graphs may come from a shared cache and then leave no files; a capture's fresh caches don't prevent that"
)
_DEVICES = "torch sees only these GPUs, numbered from 0"
_MINIFIER = "every compilation goes through the minifier's machinery and may write repro scripts"
_CAPTURE_KEEPS = "a capture uses a place of its own"

RULES: tuple[Rule, ...] = (
    # torch/_dynamo/config.py: disable; torch/_dynamo/eval_frame.py: _optimize
    Rule("TORCH_COMPILE_DISABLE", _is("1"), "bad", _OFF, "unset TORCH_COMPILE_DISABLE"),
    Rule("TORCH_COMPILE_DISABLE", _not("0"), "warn", _ONLY_ONE, "unset it, or set it to 1"),
    Rule("TORCHDYNAMO_DISABLE", _is("1"), "bad", _OFF, "unset TORCHDYNAMO_DISABLE"),
    Rule("TORCHDYNAMO_DISABLE", _not("0"), "warn", _ONLY_ONE, "unset it, or set it to 1"),
    # torch/_dynamo/config.py: bool() of the text
    Rule("TORCHDYNAMO_SUPPRESS_ERRORS", _set, "warn",
         "what fails to compile runs eagerly, a warning at most, and looks compiled; any text counts, even 0",
         "unset TORCHDYNAMO_SUPPRESS_ERRORS to see the errors"),
    Rule("TORCHDYNAMO_REPRO_AFTER", _set, "warn", _MINIFIER, "unset it unless you are minifying a bug"),
    # torch/_inductor/metrics.py; seen to fail with torch 2.11 and 2.13
    Rule("TORCHINDUCTOR_ENABLED_METRIC_TABLES", _holds("graph_stats"), "bad",
         "the table graph_stats makes every compilation fail with an AssertionError (torch 2.11, 2.13)",
         "take graph_stats out of TORCHINDUCTOR_ENABLED_METRIC_TABLES"),
    # torch/compiler/config.py: force_disable_caches
    Rule("TORCHINDUCTOR_FORCE_DISABLE_CACHES", _is("1"), "warn",
         _NO_CACHE,
         "unset it when you have seen enough"),
    Rule("TORCH_COMPILE_FORCE_DISABLE_CACHES", _is("1"), "warn",
         _NO_CACHE,
         "unset it when you have seen enough"),
    Rule("TORCHINDUCTOR_FX_GRAPH_CACHE", _is("0"), "ok",
         "Inductor compiles every graph anew, and each writes its files"),
    Rule("TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", _is("1"), "warn", _REMOTE, "set it to 0 while capturing"),
    Rule("TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE", _is("1"), "warn", _REMOTE, "set it to 0 while capturing"),
    Rule("TORCHINDUCTOR_CACHE_DIR", _set, "ok",
         "compiled graphs and kernels are kept there; a capture uses its own"),
    Rule("TRITON_CACHE_DIR", _set, "ok", "compiled Triton kernels are kept there; a capture uses its own"),
    # torch/_inductor/config.py: _trace
    Rule("TORCH_COMPILE_DEBUG", _is("1"), "ok",
         "every graph that is compiled, not taken from a cache, writes its files into torch_compile_debug"),
    Rule("TORCH_COMPILE_DEBUG_SAVE_REAL", _is("1"), "warn",
         "the real inputs of every graph are written to disk; compilations are reported to crash with it",
         "unset TORCH_COMPILE_DEBUG_SAVE_REAL unless you need real inputs"),
    Rule("TORCH_COMPILE_DEBUG_DIR", _set, "ok", f"torch_compile_debug is written there; {_CAPTURE_KEEPS}"),
    Rule("TORCH_LOGS", _set, "ok", "torch prints these logs; a capture adds its own and keeps yours visible"),
    Rule("TORCH_LOGS_OUT", _set, "ok", "torch also writes its logs to this file; a capture replaces it"),
    Rule("TORCH_TRACE", _set, "ok", f"torch writes its structured trace there; {_CAPTURE_KEEPS}"),
    # torch/_inductor/cpu_vec_isa.py: VecISA.__bool__, pick_vec_isa
    Rule("TORCHINDUCTOR_VEC_ISA_OK", _is("0"), "warn",
         "CPU kernels use no vector instructions",
         "unset TORCHINDUCTOR_VEC_ISA_OK"),
    Rule("ATEN_CPU_CAPABILITY", _set, "ok", "sets the vector instructions of eager and compiled CPU kernels"),
    Rule("OMP_NUM_THREADS", _set, "ok", "CPU kernels use that many threads"),
    Rule("CXX", _any, "ok", "Inductor compiles CPU kernels with it (torch/_inductor/config.py: cpp.cxx)"),
    Rule("CC", _any, "ok", "Triton builds its launchers with it"),
    Rule("CUDA_VISIBLE_DEVICES", _is("", "-1"), "warn",
         "hides every GPU: programs run, and compile, for the CPU",
         "unset CUDA_VISIBLE_DEVICES, or name the GPUs to use"),
    Rule("CUDA_VISIBLE_DEVICES", _set, "ok", _DEVICES),
    Rule("HIP_VISIBLE_DEVICES", _set, "ok", _DEVICES),
    Rule("CUDA_LAUNCH_BLOCKING", _is("1"), "warn",
         "the host waits for every kernel: times say little, and nothing overlaps",
         "unset CUDA_LAUNCH_BLOCKING before you measure"),
    Rule("TRITON_INTERPRET", _is("1"), "warn",
         "Triton kernels run in Python on the CPU, very slowly; Inductor's GPU code isn't made for that",
         "unset TRITON_INTERPRET"),
    Rule("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", _set, "ok", "1 lets float32 matrix products use TF32"),
    Rule("NVIDIA_TF32_OVERRIDE", _is("0"), "ok", "keeps NVIDIA's libraries from TF32, whatever torch says"),
    Rule("PYTORCH_CUDA_ALLOC_CONF", _set, "ok",
         "configures the GPU memory allocator; what is compiled stays the same"),
    Rule("PYTORCH_ALLOC_CONF", _set, "ok",
         "configures the GPU memory allocator; what is compiled stays the same"),
)  # fmt: skip

_NAMES = frozenset(rule.name for rule in RULES)


def concerns_compilation(name: str) -> bool:
    """Whether there is something to say about the variable."""
    return name in _NAMES or _GENERIC.fullmatch(name) is not None


def check_environment(facts: Facts) -> Iterator[Finding]:
    """A line for each variable; one that this torch doesn't know, most often a slip, says so."""
    known = facts["names"].get("known")
    for name, value in sorted(facts.environment.items()):
        text = f"{name}={value}" if len(value) <= 60 else f"{name}={value[:57]}..."
        rule = next((rule for rule in RULES if rule.name == name and rule.when(value)), None)
        if rule is not None:
            yield Finding("environment", rule.status, text, rule.effect, rule.remedy)
        elif known is not None and _GENERIC.fullmatch(name) and name not in known:
            yield _unknown(name, text, known, facts)
        elif _GENERIC.fullmatch(name) and value:
            yield Finding("environment", "ok", text, "changes a setting of Inductor or Dynamo")


def _unknown(name: str, text: str, known: list[str], facts: Facts) -> Finding:
    close = difflib.get_close_matches(name, known, 1, 0.8)
    version = facts["torch"].get("version", "this version")
    return Finding(
        "environment",
        "warn",
        text,
        f"torch {version} knows no such variable: it has no effect",
        f"did you mean {close[0]}?" if close else f"unset {name}",
    )
