"""The doctor: rules over made-up machines, then the real probe on this one."""

from __future__ import annotations

import copy
import json
import os
import pty
import signal
import subprocess
import sys
import types
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE_S, wait_until, written

from inspector.contract.doctor import SCHEMA, to_json
from inspector.doctor import probe
from inspector.doctor.checks import diagnose, settled
from inspector.doctor.errors import first_useful_line
from inspector.doctor.probe import SECTIONS
from inspector.doctor.run import examine, gather, interpreter
from inspector.doctor.variables import RULES, concerns_compilation
from inspector.model.doctor import Diagnosis, Facts, Finding
from inspector.model.problem import InspectorError
from inspector.present.doctor import lines as words_of
from inspector.present.spans import Span

GIB = 1 << 30

FINE: dict[str, dict[str, Any]] = {
    "environment": {},
    "python": {
        "version": "3.12.1",
        "executable": "/venv/bin/python",
        "free_threaded": False,
        "system": "Linux",
        "machine": "x86_64",
        "cpus": 16,
    },
    "packages": {
        "torch": "2.11.0+cu128",
        "torch_found": True,
        "triton": "3.6.0",
        "triton_package": "triton",
        "requires_triton": ["triton", "3.6.0"],
    },
    "nvidia_smi": {
        "found": True,
        "gpus": [{"name": "NVIDIA H200", "driver": "570.86.15", "capability": "9.0"}],
    },
    "torch": {
        "version": "2.11.0+cu128",
        "cuda": "12.8",
        "hip": None,
        "threads": 16,
        "cpu_capability": "AVX512",
        "matmul_precision": "highest",
    },
    "gpu": {
        "available": True,
        "devices": [
            {
                "name": "NVIDIA H200",
                "capability": [9, 0],
                "multiprocessors": 132,
                "memory": 140 * GIB,
                "big": True,
            }
        ],
        "architectures": ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120"],
        "warnings": [],
    },
    "triton": {"version": "3.6.0", "backends": ["amd", "nvidia"], "has_triton": True},
    "names": {"known": None},
    "caches": {
        "folder": "/tmp/torchinductor_me",
        "fx_graph_cache": True,
        "autograd_cache": True,
        "disabled": False,
        "exists": True,
        "writable": True,
        "noexec": False,
        "free_bytes": 50 * GIB,
        "fx_graphs": 0,
        "aot_graphs": 0,
    },
    "compiler": {
        "found": {"g++": "/usr/bin/g++", "clang++": None, "c++": None},
        "chosen": "g++",
        "version": "g++ (Debian 12.2.0) 12.2.0",
        "c_compiler": "/usr/bin/gcc",
        "include": "/usr/include/python3.12",
        "headers": True,
        "standard": "c++17",
        "builds": True,
        "openmp": True,
    },
    "vectors": {"simdlen": None, "name": "avx512", "bits": 512},
    "compile_cpu": {
        "seconds": 3.0,
        "error_size": 0.0,
        "right": True,
        "graphs": 1,
        "kernels": 1,
        "artifacts": ["ir_post_fusion.txt", "output_code.py"],
    },
    "compile_gpu": {
        "seconds": 2.0,
        "error_size": 0.0,
        "right": True,
        "graphs": 1,
        "kernels": 1,
        "artifacts": ["ir_post_fusion.txt", "output_code.py"],
    },
}
"""An H200 machine on which all is well."""

P100 = {
    "name": "Tesla P100-PCIE-16GB",
    "capability": [6, 0],
    "multiprocessors": 56,
    "memory": 16 * GIB,
    "big": False,
}
T4 = {"name": "Tesla T4", "capability": [7, 5], "multiprocessors": 40, "memory": 16 * GIB, "big": False}


def machine(changes: dict[str, Any] | None = None, without: tuple[str, ...] = ()) -> Diagnosis:
    """The fine machine with `{"section.key": value}` changed, `{"section": {...}}` replaced."""
    sections = copy.deepcopy(FINE)
    for path, value in (changes or {}).items():
        section, _, key = path.partition(".")
        if key:
            sections[section][key] = value
        else:
            sections[section] = value
    for section in without:
        del sections[section]
    diagnosis = diagnose(Facts(sections))
    assert_grows(diagnosis)
    return diagnosis


def assert_grows(diagnosis: Diagnosis) -> None:
    """What is said while sections come is how the answer begins."""
    known: dict[str, Any] = {}
    for name in ("environment", *SECTIONS, "confinement"):
        if name in diagnosis.facts:
            known[name] = diagnosis.facts[name]
            told = settled(Facts(known))
            assert tuple(told) == diagnosis.findings[: len(told)], name


def cpu_only(changes: dict[str, Any] | None = None) -> Diagnosis:
    """The same without a GPU, driver and CUDA."""
    base = {
        "torch.version": "2.13.0+cpu",
        "torch.cuda": None,
        "packages.requires_triton": None,
        "nvidia_smi": {"found": False, "gpus": []},
        "gpu": {"available": False, "devices": [], "architectures": [], "warnings": []},
    }
    return machine({**base, **(changes or {})}, ("compile_gpu",))


def only(diagnosis: Diagnosis, name: str) -> Finding:
    found = [finding for finding in diagnosis.findings if finding.name == name]
    assert len(found) == 1, found
    return found[0]


def troubles(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(finding.name, finding.status) for finding in diagnosis.findings if finding.status != "ok"]


# -- the fine machines


def test_a_fine_gpu_machine_has_no_trouble() -> None:
    diagnosis = machine()
    assert troubles(diagnosis) == []
    assert not diagnosis.bad
    assert diagnosis.verdict == "can compile for the CPU and the GPU"
    assert "132 multiprocessors" in only(diagnosis, "gpu").text


def test_a_fine_cpu_machine_needs_neither_gpu_nor_triton() -> None:
    diagnosis = cpu_only({"triton": {"version": None, "backends": [], "missing": "No module named 'triton'"}})
    assert troubles(diagnosis) == []
    assert diagnosis.verdict == "can compile for the CPU"
    assert "not needed" in only(diagnosis, "triton").text


def test_every_trouble_says_what_it_does_and_what_to_do() -> None:
    for diagnosis in (machine(changes, without) for changes, without, *_ in TROUBLES):
        for finding in diagnosis.findings:
            if finding.status != "ok":
                assert finding.effect and finding.remedy, finding


# -- one thing wrong at a time: changes, sections left out, what is found, words of text, effect or remedy

TROUBLES: list[tuple[dict[str, Any], tuple[str, ...], list[tuple[str, str]], str]] = [
    (
        {"torch.unsupported": "Python 3.15+ not yet supported"},
        (),
        [("python", "bad")],
        "3.15+ not yet supported",
    ),
    ({"torch.version": "2.3.1"}, (), [("torch", "warn")], "older than what Inspector"),
    ({"torch.version": "2.16.0"}, (), [("torch", "warn")], "newer than what Inspector"),
    ({"triton": {"version": None, "backends": []}}, (), [("triton", "bad")], "pip install triton==3.6.0"),
    ({"triton.error": "OSError: no libtriton"}, (), [("triton", "bad")], "no libtriton"),
    ({"triton.backends": ["amd"]}, (), [("triton", "bad")], "without its nvidia backend"),
    ({"packages.triton": "3.9.0"}, (), [("triton", "warn")], "asks for 3.6.0"),
    ({"gpu": {"failure": "crashed with SIGSEGV"}}, ("compile_gpu",), [("gpu", "bad")], "SIGSEGV"),
    (
        {"gpu.architectures": ["sm_100", "sm_120"]},
        (),
        [("gpu", "bad")],
        "torch has no code for it (it has sm_100 sm_120)",
    ),
    ({"gpu.devices": [T4]}, (), [("max_autotune", "warn")], "40 multiprocessors"),
    ({"gpu.devices": [FINE["gpu"]["devices"][0], P100]}, (), [("gpu", "warn")], "use NVIDIA H200"),
    (
        {"gpu.devices": [P100, FINE["gpu"]["devices"][0]]},
        ("compile_gpu",),
        [("gpu", "bad")],
        "set CUDA_VISIBLE_DEVICES so that NVIDIA H200 comes first",
    ),
    (
        {"compiler": {"failure": "no answer within 240 s"}},
        (),
        [("compiler", "bad")],
        "no answer within 240 s",
    ),
    (
        {
            "compiler.builds": False,
            "compiler.build_error": "cc1plus: error: no",
            "vectors": {"failure": "no vectors"},
        },
        (),
        [("compiler", "bad")],
        "cc1plus: error: no",
    ),
    ({"compiler.c_compiler": None}, (), [("c_compiler", "bad")], "neither gcc nor clang"),
    ({"compiler.headers": False}, (), [("headers", "bad")], "Python.h is not in /usr/include/python3.12"),
    (
        {
            "compiler.openmp": False,
            "compiler.openmp_error": "ld: cannot find -lgomp\ntrial.cpp:4: fatal error: omp.h",
        },
        (),
        [("openmp", "bad")],
        "fatal error: omp.h",
    ),
    (
        {"compiler.builds": False, "compiler.build_error": "cc1plus: error: unrecognized '-std=c++17'"},
        (),
        [("compiler", "bad")],
        "small C++17 program: cc1plus: error: unrecognized",
    ),
    ({"vectors.bits": 0}, (), [("vectors", "warn")], "use a newer compiler"),
    ({"vectors": {"simdlen": 1, "name": "INVALID", "bits": 0}}, (), [("vectors", "warn")], "simdlen is 1"),
    ({"vectors.bits": 256}, (), [("vectors", "warn")], "but the processor has AVX512"),
    ({"vectors": {"failure": "no answer within 180 s"}}, (), [("vectors", "warn")], "no answer"),
    ({"torch.threads": 1}, (), [("threads", "warn")], "CPU kernels use one core"),
    ({"torch.threads": 64}, (), [("threads", "warn")], "64 threads for CPU kernels, 16 processors"),
    ({"caches": {"failure": "PermissionError"}}, (), [("caches", "warn")], "PermissionError"),
    ({"caches": {"folder": None}}, (), [("caches", "warn")], "torch does not say where it is"),
    ({"caches.fx_graph_cache": False, "caches.aot_graphs": 2}, (), [("caches", "warn")], "2 cached graphs"),
    ({"caches.autograd_cache": False, "caches.fx_graphs": 2}, (), [("caches", "warn")], "2 cached graphs"),
    ({"caches.writable": False}, (), [("caches", "bad")], "cannot be written"),
    ({"caches.noexec": True}, (), [("caches", "bad")], "noexec"),
    ({"caches.fx_graphs": 1412}, (), [("caches", "warn")], "1,412 cached graphs in /tmp/torchinductor_me"),
    ({"caches.aot_graphs": 1}, (), [("caches", "warn")], "1 cached graph in"),
    ({"caches.free_bytes": GIB // 2}, (), [("disk", "warn")], "537 MB are free"),
    ({"caches.free_bytes": GIB // 64}, (), [("disk", "bad")], "16.8 MB are free"),
    ({"compile_cpu": {"failure": "no answer within 240 s"}}, (), [("compile_cpu", "bad")], "no answer"),
    (
        {"compile_gpu.error": "RuntimeError: boom\nat a.py", "compile_gpu.place": "a.py:3 in f"},
        (),
        [("compile_gpu", "bad")],
        "failed: RuntimeError: boom\ntorch.compile",
    ),
    (
        {"compile_gpu.error": "AssertionError: ", "compile_gpu.place": None},
        (),
        [("compile_gpu", "bad")],
        "failed: AssertionError:",
    ),
    (
        {
            "compile_cpu.error": "InductorError: AssertionError: ",
            "compile_cpu.place": "metrics.py:170 in add_row",
        },
        (),
        [("compile_cpu", "bad")],
        "failed: AssertionError at metrics.py:170 in add_row",
    ),
    ({"compile_gpu.kernels": 0}, (), [("compile_gpu", "bad")], "eagerly in disguise"),
    (
        {"compile_gpu.right": False, "compile_gpu.error_size": 0.25},
        (),
        [("compile_gpu", "bad")],
        "off by up to 0.25",
    ),
    ({"compile_cpu.artifacts": ["ir_pre_fusion.txt"]}, (), [("compile_cpu", "warn")], "left no files"),
]


@pytest.mark.parametrize(
    ("changes", "without", "expected", "words"), TROUBLES, ids=lambda value: str(value)[:60]
)
def test_one_thing_wrong(
    changes: dict[str, Any], without: tuple[str, ...], expected: list[tuple[str, str]], words: str
) -> None:
    diagnosis = machine(changes, without)
    assert troubles(diagnosis) == expected
    finding = next(finding for finding in diagnosis.findings if finding.status != "ok")
    assert words in f"{finding.text}\n{finding.effect}\n{finding.remedy}"
    assert diagnosis.bad == any(status == "bad" for _, status in expected)


@pytest.mark.parametrize("version", ["2.4.0", "2.4.1+cu121", "2.15.0.dev20261101", "unknown"])
def test_torch_versions_inside_the_tested_range(version: str) -> None:
    assert only(machine({"torch.version": version}), "torch").status == "ok"


def test_triton_is_called_needed_only_where_it_is() -> None:
    assert "not needed" in only(cpu_only(), "triton").text
    assert "not needed" not in only(machine(), "triton").text


def test_a_torch_that_does_not_tell_its_threads_gets_no_line() -> None:
    assert not [f for f in machine({"torch.threads": None}).findings if f.name == "threads"]


def test_a_local_version_of_triton_fits_unless_torch_names_one() -> None:
    assert troubles(machine({"packages.triton": "3.6.0+git123"})) == []
    wanted = {"packages.requires_triton": ["pytorch-triton", "3.6.0+git9"], "packages.triton": "3.6.0+git123"}
    finding = only(machine(wanted), "triton")
    assert (finding.status, finding.remedy) == ("warn", "pip install pytorch-triton==3.6.0+git9")


def test_broken_triton_only_warns_where_there_is_no_gpu() -> None:
    assert only(cpu_only({"triton.error": "OSError: no"}), "triton").status == "warn"


@pytest.mark.parametrize(
    ("architectures", "status"),
    [
        (["sm_86"], "bad"),
        (["sm_90a"], "ok"),
        (["compute_80"], "ok"),
        (["sm_80", "compute_100"], "bad"),
        (["compute_90"], "ok"),
        ([], "ok"),
    ],
)
def test_which_code_an_h200_can_run(architectures: list[str], status: str) -> None:
    assert only(machine({"gpu.architectures": architectures}), "gpu").status == status


# -- machines that people have


def test_p100_is_refused() -> None:
    error = "GPUTooOldForTriton: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton"
    diagnosis = machine(
        {
            "gpu.devices": [P100],
            "triton.has_triton": False,
            "compile_gpu.error": f"BackendCompilerFailed: backend='inductor' raised:\n{error}",
        }
    )
    assert troubles(diagnosis) == [("gpu", "bad"), ("compile_gpu", "bad")]
    gpu = only(diagnosis, "gpu")
    assert "Tesla P100-PCIE-16GB: compute capability 6.0" in gpu.text
    assert "eager in disguise" in gpu.effect
    assert "GPUTooOldForTriton: Found Tesla P100" in only(diagnosis, "compile_gpu").text
    assert diagnosis.verdict.startswith(
        "can compile for the CPU, but Tesla P100-PCIE-16GB: compute capability 6.0"
    )


def test_p100_whose_errors_are_suppressed_only_looks_compiled() -> None:
    diagnosis = machine(
        {
            "gpu.devices": [P100],
            "environment.TORCHDYNAMO_SUPPRESS_ERRORS": "1",
            "compile_gpu.kernels": 0,
            "compile_gpu.artifacts": [],
        }
    )
    compiled = only(diagnosis, "compile_gpu")
    assert compiled.status == "bad"
    assert "nothing was compiled: the compilation failed, and TORCHDYNAMO_SUPPRESS_ERRORS" in compiled.text
    assert only(diagnosis, "environment").status == "warn"


def test_old_amd_capabilities_are_no_cuda_capabilities() -> None:
    mi = {
        "name": "AMD Instinct MI100",
        "capability": [6, 0],
        "multiprocessors": 120,
        "memory": GIB,
        "big": True,
    }
    diagnosis = machine(
        {
            "torch.cuda": None,
            "torch.hip": "6.2",
            "gpu.devices": [mi],
            "nvidia_smi": {"found": False, "gpus": []},
        }
    )
    assert troubles(diagnosis) == []
    assert "ROCm" in only(diagnosis, "gpu").text


def unseen(changes: dict[str, Any]) -> Finding:
    """The GPU's line where nvidia-smi shows one and torch sees none."""
    gone = {"gpu": {"available": False, "devices": [], "architectures": [], "warnings": []}}
    return only(machine({**gone, **changes}, ("compile_gpu",)), "gpu")


def test_a_cpu_build_beside_a_gpu() -> None:
    finding = unseen({"torch.cuda": None})
    assert (finding.status, "built for the CPU only" in finding.text) == ("warn", True)
    assert "NVIDIA H200" in finding.text


@pytest.mark.parametrize("value", ["", "-1"])
def test_a_hidden_gpu(value: str) -> None:
    finding = unseen({"environment.CUDA_VISIBLE_DEVICES": value})
    assert (finding.status, f"CUDA_VISIBLE_DEVICES={value} hides" in finding.text) == ("warn", True)


@pytest.mark.parametrize(
    ("cuda", "driver", "old"),
    [
        ("12.8", "470.82.01", True),
        ("12.1", "525.60.13", False),
        ("13.0", "570.86.15", True),
        ("11.8", "450.80.02", False),
        ("11.8", "450.51", True),
    ],
)
def test_an_old_driver(cuda: str, driver: str, old: bool) -> None:
    gpus = {"found": True, "gpus": [{"name": "NVIDIA A100", "driver": driver, "capability": "8.0"}]}
    finding = unseen({"torch.cuda": cuda, "nvidia_smi": gpus})
    assert finding.status == "bad"
    assert ("too old" in finding.text) == old


def test_a_gpu_that_torch_cannot_use_says_why_in_torchs_words() -> None:
    words = "CUDA initialization: Unexpected error from cudaGetDeviceCount().\nmore"
    gone = {"available": False, "devices": [], "architectures": [], "warnings": [words]}
    finding = unseen({"gpu": gone})
    assert finding.text.endswith("Unexpected error from cudaGetDeviceCount().")
    finding = unseen({"gpu": {**gone, "error": "No CUDA GPUs are available"}})
    assert finding.text.endswith("can't use it: No CUDA GPUs are available")


def test_a_driver_that_does_not_run() -> None:
    smi = {"found": True, "gpus": [], "error": "NVIDIA-SMI has failed\nbecause"}
    finding = only(cpu_only({"nvidia_smi": smi}), "gpu")
    assert (finding.status, finding.text) == ("warn", "nvidia-smi is here, but fails: NVIDIA-SMI has failed")


def test_tf32_is_a_hint_and_no_trouble() -> None:
    assert "set_float32_matmul_precision('high')" in only(machine(), "tf32").remedy
    assert "for speed: high" in only(machine({"torch.matmul_precision": "high"}), "tf32").text
    assert not [f for f in machine({"gpu.devices": [T4]}).findings if f.name == "tf32"]


@pytest.mark.parametrize(
    ("asked", "others", "words", "remedy"),
    [
        (None, None, "there is no C++ compiler: g++ is not on PATH", "apt install g++"),
        ("icpx", None, "CXX=icpx does not run", "unset CXX; install one"),
        ("icpx", "/usr/bin/g++", "CXX=icpx does not run", "unset CXX, or set CXX=g++"),
        (
            "ccache g++",
            "/usr/bin/g++",
            "CXX='ccache g++' does not run: torch takes the whole text",
            "unset CXX",
        ),
    ],
)
def test_no_compiler(asked: str | None, others: str | None, words: str, remedy: str) -> None:
    compiler = {
        **FINE["compiler"],
        "chosen": None,
        "error": "InvalidCxxCompiler",
        "found": {"g++": others},
        "version": None,
    }
    diagnosis = cpu_only(
        {
            "environment": {} if asked is None else {"CXX": asked},
            "compiler": compiler,
            "compile_cpu.error": "InvalidCxxCompiler: No working C++ compiler found",
        }
    )
    finding = only(diagnosis, "compiler")
    assert finding.status == "bad"
    assert words in finding.text and remedy in finding.remedy
    assert diagnosis.verdict.startswith(f"cannot compile: {words}")


@pytest.mark.parametrize("name", ["ATEN_CPU_CAPABILITY", "TORCHINDUCTOR_VEC_ISA_OK"])
def test_narrow_vectors_name_the_variable_behind_them(name: str) -> None:
    diagnosis = machine({"vectors.bits": 0, "environment": {name: "0"}})
    assert only(diagnosis, "vectors").remedy == f"unset {name}"


def test_threads_name_the_variable_behind_them() -> None:
    diagnosis = machine({"torch.threads": 1, "environment": {"OMP_NUM_THREADS": "1"}})
    assert only(diagnosis, "threads").remedy == "unset OMP_NUM_THREADS"


@pytest.mark.parametrize(
    "changes", [{"caches.disabled": True}, {"caches.fx_graph_cache": False, "caches.autograd_cache": False}]
)
def test_entries_of_a_cache_that_is_off_do_no_harm(changes: dict[str, Any]) -> None:
    assert only(machine({"caches.fx_graphs": 7, **changes}), "caches").status == "ok"


def test_without_torch() -> None:
    sections = {name: FINE[name] for name in ("environment", "python", "packages", "nvidia_smi")}
    sections = {**sections, "torch": {"failure": "ModuleNotFoundError: No module named 'torch'"}}
    sections["packages"] = {"torch": None, "torch_found": False, "triton": None, "requires_triton": None}
    diagnosis = diagnose(Facts(sections))
    assert troubles(diagnosis) == [("torch", "bad")]
    assert diagnosis.verdict == "cannot compile: torch is not installed in /venv/bin/python"
    sections["packages"] = FINE["packages"]
    sections["torch"] = {"failure": "OSError: libcudart.so.12: cannot open shared object file"}
    finding = only(diagnose(Facts(sections)), "torch")
    assert "importing it failed: OSError: libcudart.so.12" in finding.text


# -- environment variables


@pytest.mark.parametrize(
    ("name", "value", "status", "words"),
    [
        ("TORCH_COMPILE_DISABLE", "1", "bad", "torch.compile is off"),
        ("TORCH_COMPILE_DISABLE", "true", "warn", "only the value 1"),
        ("TORCHDYNAMO_DISABLE", "1", "bad", "torch.compile is off"),
        ("TORCHDYNAMO_DISABLE", "true", "warn", "only the value 1"),
        ("TORCHDYNAMO_REPRO_AFTER", "aot", "warn", "minifier"),
        ("TORCHINDUCTOR_AUTOGRAD_REMOTE_CACHE", "1", "warn", "shared cache"),
        ("TORCHINDUCTOR_VEC_ISA_OK", "0", "warn", "no vector instructions"),
        ("TORCH_COMPILE_DEBUG_SAVE_REAL", "1", "warn", "real inputs"),
        ("TORCH_COMPILE_FORCE_DISABLE_CACHES", "1", "warn", "compiles everything again"),
        ("TORCHDYNAMO_DISABLE", "0", "ok", "changes a setting"),
        ("TORCHDYNAMO_SUPPRESS_ERRORS", "0", "warn", "even 0"),
        ("TORCHINDUCTOR_ENABLED_METRIC_TABLES", "slow_fusion,graph_stats", "bad", "AssertionError"),
        ("TORCHINDUCTOR_ENABLED_METRIC_TABLES", "slow_fusion", "ok", "changes a setting"),
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", "warn", "compiles everything again"),
        ("TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", "1", "warn", "shared cache"),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", "1", "ok", "changes a setting"),
        ("TORCH_COMPILE_DEBUG", "1", "ok", "torch_compile_debug"),
        ("TORCH_LOGS", "fusion", "ok", "keeps yours visible"),
        ("TORCH_TRACE", "/tmp/trace", "ok", "structured trace"),
        ("OMP_NUM_THREADS", "4", "ok", "that many threads"),
        ("CUDA_VISIBLE_DEVICES", "", "warn", "hides every GPU"),
        ("CUDA_VISIBLE_DEVICES", "1,0", "ok", "sees only these"),
        ("CUDA_LAUNCH_BLOCKING", "1", "warn", "times say little"),
        ("TRITON_INTERPRET", "1", "warn", "in Python"),
        ("CXX", "clang++", "ok", "compiles CPU kernels with it"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "ok", "what is compiled stays the same"),
    ],
)
def test_what_a_variable_does(name: str, value: str, status: str, words: str) -> None:
    assert concerns_compilation(name)
    finding = only(machine({"environment": {name: value}}), "environment")
    assert (finding.status, finding.text) == (status, f"{name}={value}")
    assert words in finding.effect


def test_long_values_are_cut_and_empty_ones_say_nothing() -> None:
    def text(value: str) -> str:
        return only(machine({"environment": {"TORCH_LOGS": value}}), "environment").text

    assert text("x" * 60) == f"TORCH_LOGS={'x' * 60}"
    assert text("x" * 61) == f"TORCH_LOGS={'x' * 57}..."
    empty = {"environment": {"TORCH_LOGS": "", "TORCHINDUCTOR_MAX_AUTOTUNE": ""}}
    assert not [finding for finding in machine(empty).findings if finding.name == "environment"]


def test_every_rule_can_be_reached_and_troubles_have_a_remedy() -> None:
    values = ("", "0", "1", "-1", "true", "graph_stats", "/tmp/x")
    for rule in RULES:
        first = {next((r for r in RULES if r.name == rule.name and r.when(v)), None) for v in values}
        assert rule in first, rule
        assert rule.status == "ok" or rule.remedy


def test_a_slip_in_a_name_is_noticed() -> None:
    known = ["TORCHINDUCTOR_MAX_AUTOTUNE", "TORCHINDUCTOR_FREEZING"]
    environment = {"TORCHINDUCTOR_MAXAUTOTUNE": "1", "TORCHINDUCTOR_FREEZING": "1"}
    diagnosis = machine({"environment": environment, "names": {"known": known}})
    slip, fine = sorted((f for f in diagnosis.findings if f.name == "environment"), key=lambda f: f.status)[
        ::-1
    ]
    assert (slip.status, slip.remedy) == ("warn", "did you mean TORCHINDUCTOR_MAX_AUTOTUNE?")
    assert (fine.status, fine.text) == ("ok", "TORCHINDUCTOR_FREEZING=1")


def test_disabled_dynamo_is_the_reason_that_nothing_was_compiled() -> None:
    diagnosis = machine({"environment": {"TORCHDYNAMO_DISABLE": "1"}, "compile_cpu.kernels": 0})
    finding = only(diagnosis, "compile_cpu")
    assert finding.text.endswith("nothing was compiled: TORCHDYNAMO_DISABLE=1 turns torch.compile off")
    assert finding.remedy == "unset TORCHDYNAMO_DISABLE"
    diagnosis = machine({"environment": {"TORCHDYNAMO_DISABLE": "1"}})
    assert diagnosis.verdict.endswith(", but TORCHDYNAMO_DISABLE=1 is set")


def test_torchs_long_complaint_about_a_variable_is_cut() -> None:
    failure = "ValueError:  Invalid log settings: nonsense, must be a comma separated list " + "x, " * 400
    text = only(machine({"torch": {"failure": failure}}), "torch").text
    assert "ValueError:  Invalid log settings: nonsense" in text and len(text) < 320


def test_variables_of_other_programs_are_nobodys_business() -> None:
    assert not concerns_compilation("PATH")
    assert not concerns_compilation("TORCHSERVE_TOKEN")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "no message"),
        ("RuntimeError: a\nb", "RuntimeError: a"),
        ("backend='inductor' raised:\nInductorError: ValueError: x\n", "ValueError: x"),
        (
            "InductorError: CppCompileError: C++ compile error\n\nCommand:\ng++ a.cpp\n\nOutput:\n"
            "a.cpp: In function 'f':\na.cpp:3:2: \x1b[31merror: \x1b[0mno omp.h\n",
            "a.cpp:3:2: error: no omp.h",
        ),
        ("x" * 240, "x" * 240),
        ("x" * 241, "x" * 237 + "..."),
    ],
)
def test_the_first_useful_line(text: str, line: str) -> None:
    assert first_useful_line(text) == line


# -- text and JSON


def test_json_has_the_contracts_keys() -> None:
    data = json.loads(json.dumps(to_json(machine({"caches.fx_graphs": 3}))))
    assert data["schema"] == SCHEMA == "inspector.doctor/1"
    assert set(data) == {"schema", "verdict", "checks", "facts"}
    assert all(set(check) == {"name", "status", "text", "effect", "remedy"} for check in data["checks"])
    assert data["verdict"] == "can compile for the CPU and the GPU; 1 warning"
    assert data["facts"]["torch"]["cuda"] == "12.8"


def test_text_begins_with_the_answer_and_fits_the_width() -> None:
    lines = words_of(machine({"caches.fx_graphs": 3}), 80)
    assert lines[0].text == "can compile for the CPU and the GPU; 1 warning"
    (caches,) = (line for line in lines if line.text.startswith("warn    caches          3 cached graphs in"))
    assert caches.spans[0] == Span("warn  ", "warn")
    assert max(line.width for line in lines) <= 80


# -- the probe's sections that need a GPU, with a made-up torch


@pytest.fixture
def made_up_torch(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    properties = types.SimpleNamespace(
        name="Tesla P100", major=6, minor=0, multi_processor_count=56, total_memory=16 * GIB
    )
    torch = types.SimpleNamespace(
        version=types.SimpleNamespace(cuda="12.8", hip=None),
        cuda=types.SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: 1,
            get_arch_list=lambda: ["sm_70"],
            get_device_properties=lambda index: properties,
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    # What Inductor itself says of the GPU, were there one here.
    monkeypatch.setitem(sys.modules, "torch._inductor.utils", None)
    return torch


def test_the_probe_reads_a_gpu(made_up_torch: types.SimpleNamespace) -> None:
    facts = probe.gpu({})
    assert facts["available"]
    assert facts["architectures"] == ["sm_70"]
    assert facts["devices"] == [
        {"name": "Tesla P100", "capability": [6, 0], "multiprocessors": 56, "memory": 16 * GIB, "big": None}
    ]


def test_the_probe_keeps_torchs_words_where_it_sees_no_gpu(made_up_torch: types.SimpleNamespace) -> None:
    def unavailable() -> bool:
        import warnings

        warnings.warn("CUDA initialization: driver too old", stacklevel=1)
        return False

    def init() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old")

    made_up_torch.cuda.is_available = unavailable
    made_up_torch.cuda.init = init
    facts = probe.gpu({})
    assert facts["devices"] == []
    assert facts["warnings"] == ["CUDA initialization: driver too old"]
    assert facts["error"] == "The NVIDIA driver on your system is too old"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def test_the_probe_reads_nvidia_smi_old_and_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    program(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA A100, 535.54.03, 8.0'\n")
    assert probe.nvidia_smi({})["gpus"] == [
        {"name": "NVIDIA A100", "driver": "535.54.03", "capability": "8.0"}
    ]
    old = """#!/bin/sh
case "$1" in *compute_cap*) echo 'Field "compute_cap" is not a valid field'; exit 2;; esac
echo 'Tesla P100-PCIE-16GB, 450.80.02'
"""
    program(tmp_path / "nvidia-smi", old)
    facts = probe.nvidia_smi({})
    assert facts["gpus"] == [{"name": "Tesla P100-PCIE-16GB", "driver": "450.80.02", "capability": None}]
    assert "error" not in facts
    program(tmp_path / "nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    assert probe.nvidia_smi({}) == {"found": True, "gpus": [], "error": "NVIDIA-SMI has failed"}


def test_the_probe_counts_a_cache_without_touching_it(tmp_path: Path) -> None:
    for path in ("fxgraph/ab/fab1", "fxgraph/ab/fab2", "fxgraph/cd/fcd1", "aotautograd/a1"):
        (tmp_path / path).mkdir(parents=True)
    assert probe._count(str(tmp_path / "fxgraph"), 2) == 3
    assert probe._count(str(tmp_path / "aotautograd"), 1) == 1
    assert probe._count(str(tmp_path / "nothing"), 2) == 0


@pytest.mark.parametrize(
    ("script", "builds", "openmp"),
    [
        ('exec g++ "$@"', True, True),
        (
            'case "$*" in *-fopenmp*) echo "error: no omp.h"; exit 1;; esac; exec g++ "$@"',
            True,
            False,
        ),
        ('echo "fatal error: broken" >&2; exit 1', False, False),
    ],
)
def test_the_probe_tries_the_compiler(script: str, builds: bool, openmp: bool, tmp_path: Path) -> None:
    program(tmp_path / "cxx", f"#!/bin/sh\n{script}\n")
    facts = probe._trial(str(tmp_path / "cxx"), "c++17", str(tmp_path))
    assert (facts["builds"], facts["openmp"]) == (builds, openmp)
    assert ("error: no omp.h" in facts.get("openmp_error", "")) == (builds and not openmp)
    assert facts.get("build_error") == (None if builds else "fatal error: broken")


# -- the probe in a process of its own


@pytest.fixture
def clean() -> dict[str, str]:
    """This process's environment without what concerns compilation."""
    return {name: value for name, value in os.environ.items() if not concerns_compilation(name)}


def fake_torch(folder: Path, body: str) -> str:
    """A package that answers to `import torch` when `folder` is on PYTHONPATH."""
    program(folder / "torch" / "__init__.py", body)
    return str(folder)


def test_a_hanging_import_is_stopped_at_the_limit(tmp_path: Path, clean: dict[str, str]) -> None:
    pids = tmp_path / "pid"
    body = f"import os, time\nopen({str(pids)!r}, 'w').write(str(os.getpid()))\ntime.sleep(6000)\n"
    diagnosis = examine(
        environment={**clean, "PYTHONPATH": fake_torch(tmp_path, body)}, limits={"torch": 3.0}
    )
    assert "importing it failed: no answer within 3 s" in only(diagnosis, "torch").text
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def test_a_crashing_import_is_a_finding(tmp_path: Path, clean: dict[str, str]) -> None:
    body = "import os, signal\nos.kill(os.getpid(), signal.SIGILL)\n"
    diagnosis = examine(environment={**clean, "PYTHONPATH": fake_torch(tmp_path, body)})
    assert "crashed with SIGILL" in only(diagnosis, "torch").text
    assert diagnosis.bad


def test_after_a_crash_the_other_sections_are_still_looked_at(tmp_path: Path, clean: dict[str, str]) -> None:
    """nvidia-smi crashes the probe; torch, which comes after it, is another failure of its own."""
    program(tmp_path / "bin" / "nvidia-smi", "#!/bin/sh\nkill -9 $PPID\n")
    environment = {
        **clean,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{clean['PATH']}",
        "PYTHONPATH": fake_torch(tmp_path, "raise OSError('libcudart.so.12 is missing')"),
    }
    facts = gather(sys.executable, environment)
    assert facts["nvidia_smi"]["failure"] == "crashed with SIGKILL"
    assert facts["torch"]["failure"] == "OSError: libcudart.so.12 is missing"


def test_nothing_is_left_behind(
    tmp_path: Path, clean: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    examine(environment={**clean, "PYTHONPATH": fake_torch(tmp_path, "raise ImportError('no')")})
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tmp", "torch"]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    yield str(folder / "bin" / "python")


def inspector(*words: str, env: dict[str, str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "inspector.cli", *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        **options,
    )


def test_an_interpreter_without_torch(bare_python: str, clean: dict[str, str]) -> None:
    answer = inspector("doctor", "--python", bare_python, env=clean)
    assert answer.returncode == 1, answer.stderr
    first = f"cannot compile: torch is not installed in {bare_python}"
    # Wherever the lines break.
    assert "".join(answer.stdout.split()).startswith("".join(first.split()))
    assert answer.stderr == ""
    assert "\x1b" not in answer.stdout


def test_a_link_to_an_interpreter_stays_a_virtual_environment(
    bare_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(bare_python).parent)
    assert interpreter("./python") == bare_python


@pytest.mark.parametrize("python", ["no-such-python", "/bin/false", "/bin/echo"])
def test_what_is_no_interpreter_is_wrong_usage(python: str, clean: dict[str, str]) -> None:
    with pytest.raises(InspectorError) as caught:
        examine(python, environment=clean)
    assert caught.value.exit_code == 2
    assert python in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ctrl_c_ends_the_probe_and_its_children(tmp_path: Path, clean: dict[str, str]) -> None:
    pids = tmp_path / "pid"
    body = f"import os, time\nopen({str(pids)!r}, 'w').write(str(os.getpid()))\ntime.sleep(6000)\n"
    paths = os.pathsep.join(filter(None, (fake_torch(tmp_path, body), clean.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "inspector.cli", "doctor"],
        env={**clean, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: written(pids))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err.strip()) == (130, "", "inspector: interrupted")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.read_text()), 0)


def on_a_terminal(words: list[str], env: dict[str, str]) -> str:
    """Standard output and error of a command that has a terminal for both."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(words, env=env, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    data = b""
    try:
        while chunk := os.read(leader, 4096):
            data += chunk
    except OSError:
        pass
    os.close(leader)
    process.wait(PATIENCE_S)
    return data.decode()


def test_colour_on_a_terminal_unless_no_color(bare_python: str, clean: dict[str, str]) -> None:
    words = [sys.executable, "-m", "inspector.cli", "doctor", "--python", bare_python]
    clean = {name: value for name, value in clean.items() if name != "NO_COLOR"}
    assert "\x1b[31mbad" in on_a_terminal(words, {**clean, "TERM": "xterm"})
    assert "\x1b[31m" not in on_a_terminal(words, {**clean, "TERM": "xterm", "NO_COLOR": "1"})


# -- the real thing


@pytest.fixture(scope="module")
def this_machine() -> dict[str, Any]:
    env = {name: value for name, value in os.environ.items() if not concerns_compilation(name)}
    answer = inspector("doctor", "--json", env={**env, "TORCHINDUCTOR_MAXAUTOTUNE": "1"})
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stderr == ""
    return dict(json.loads(answer.stdout))


@pytest.mark.slow
def test_this_machine_compiles(this_machine: dict[str, Any]) -> None:
    import importlib.metadata

    assert this_machine["verdict"].startswith("can compile for the CPU")
    facts = this_machine["facts"]
    assert (
        facts["torch"]["version"].partition("+")[0] == importlib.metadata.version("torch").partition("+")[0]
    )
    compiled = facts["compile_cpu"]
    assert compiled["kernels"] == 1 and compiled["right"] and compiled["seconds"] > 0
    assert {"output_code.py", "ir_pre_fusion.txt", "ir_post_fusion.txt"} <= set(compiled["artifacts"])
    assert facts["compiler"]["builds"]
    assert facts["vectors"]["bits"] in (0, 128, 256, 512)
    checks = {check["name"] for check in this_machine["checks"]}
    assert {"python", "torch", "triton", "gpu", "compiler", "threads", "caches", "compile_cpu"} <= checks


@pytest.mark.slow
def test_this_torch_knows_its_variables(this_machine: dict[str, Any]) -> None:
    finding = next(check for check in this_machine["checks"] if check["name"] == "environment")
    assert finding["status"] == "warn"
    assert finding["remedy"] == "did you mean TORCHINDUCTOR_MAX_AUTOTUNE?"


@pytest.mark.slow
def test_a_broken_cxx(clean: dict[str, str], tmp_path: Path) -> None:
    """A compiler that says its version and then fails: torch takes it, and fails with it."""
    version = '[ "$1" = --version ] && { echo "brokenc++ 1.0"; exit 0; }'
    script = f'#!/bin/sh\n{version}\necho "fatal error: broken"; exit 1\n'
    program(tmp_path / "brokenc++", script)
    diagnosis = examine(environment={**clean, "CXX": str(tmp_path / "brokenc++"), "CUDA_VISIBLE_DEVICES": ""})
    compiler, compiled = only(diagnosis, "compiler"), only(diagnosis, "compile_cpu")
    assert compiler.status == compiled.status == "bad"
    assert "brokenc++ 1.0" in compiler.text and "fatal error: broken" in compiler.text
    assert "fatal error: broken" in compiled.text
    assert diagnosis.verdict.startswith("cannot compile: ")


@pytest.mark.slow
def test_disabled_dynamo(clean: dict[str, str]) -> None:
    diagnosis = examine(environment={**clean, "TORCHDYNAMO_DISABLE": "1"})
    assert diagnosis.verdict == "cannot compile: TORCHDYNAMO_DISABLE=1 is set"
    assert "turns torch.compile off" in only(diagnosis, "compile_cpu").text


@pytest.mark.gpu
@pytest.mark.slow
def test_a_real_gpu(this_machine: dict[str, Any]) -> None:
    if not this_machine["facts"]["gpu"].get("available"):
        pytest.skip("no CUDA device")
    assert this_machine["facts"]["compile_gpu"]["kernels"] == 1
    assert this_machine["verdict"].startswith("can compile for the CPU and the GPU")
