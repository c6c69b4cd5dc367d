"""Rules about the C++ compiler, vector instructions and threads."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from inspector.doctor.errors import findings_of, first_useful_line
from inspector.model.doctor import Facts, Finding
from inspector.units import plural

_BITS = {"AVX512": 512, "AVX2": 256}
"""Vector widths of what torch.backends.cpu.get_cpu_capability() says of the processor."""

_compiler_ok, _, _compiler_bad = findings_of("compiler")
_vectors_ok, _vectors_warn, _ = findings_of("vectors")
_INSTALL = "install one (Debian, Ubuntu: apt install g++; conda: gxx; macOS: xcode-select --install)"


def check_compiler(facts: Facts) -> Iterator[Finding]:
    """Inductor's for CPU code (torch/_inductor/cpp_builder.py: get_cpp_compiler), and Triton's."""
    if "compiler" not in facts:
        return
    failure = facts.failure("compiler")
    if failure is not None:
        yield _compiler_bad(
            f"trying the C++ compiler did not end: {first_useful_line(failure)}",
            "torch.compile would wait for it in the same way",
            "see whether the compiler answers: g++ --version",
        )
    else:
        yield from _compiler(facts)
    if facts.gpus and failure is None and not facts["compiler"]["c_compiler"]:
        # triton/runtime/build.py: _find_compiler
        yield Finding(
            "c_compiler",
            "bad",
            "there is no C compiler for Triton: CC is not set, and neither gcc nor clang is on PATH",
            "Triton builds a small C module before its first kernel, so nothing compiles for the GPU",
            "install gcc, or set CC",
        )


def _compiler(facts: Facts) -> Iterator[Finding]:
    compiler = facts["compiler"]
    if compiler["chosen"] is None:
        yield _none_found(facts)
        return
    version = compiler.get("version", "")
    named = version if version.startswith(compiler["chosen"]) else f"{compiler['chosen']} {version}".strip()
    # Absent where the probe can't try it: on Windows.
    if compiler.get("builds") is False:
        yield _compiler_bad(
            f"{named} fails on a small {_pretty(compiler['standard'])} program: "
            f"{first_useful_line(compiler['build_error'])}",
            "torch.compile fails for every graph on the CPU",
            "use a newer or complete compiler: install g++ 10 or newer with its standard library, or set CXX",
        )
    else:
        yield _compiler_ok(f"{named}, {_pretty(compiler['standard'])}")
        if compiler.get("openmp") is False:
            yield Finding(
                "openmp",
                "bad",
                f"{named} can't build with -fopenmp: {first_useful_line(compiler['openmp_error'])}",
                "Inductor always passes -fopenmp: torch.compile fails for every graph on the CPU",
                "install OpenMP for the compiler (gcc: libgomp, clang: libomp-dev), or set CXX=g++",
            )
    if not compiler["headers"]:
        yield Finding(
            "headers",
            "bad",
            f"Python.h is not in {compiler['include']}",
            "Inductor's CPU kernels and Triton's launchers include it: neither can be built",
            "install Python's headers (Debian, Ubuntu: apt install python3-dev, for this Python's version)",
        )


def _none_found(facts: Facts) -> Finding:
    asked = facts.environment.get("CXX")
    effect = "torch.compile raises InvalidCxxCompiler for every graph on the CPU"
    if asked is None:
        return _compiler_bad("there is no C++ compiler: g++ is not on PATH", effect, _INSTALL)
    others = [name for name, path in facts["compiler"]["found"].items() if path]
    text = f"CXX={shlex.quote(asked)} does not run"
    if " " in asked.strip():
        text += ": torch takes the whole text as the program's name, so it can't have arguments"
    remedy = f"unset CXX, or set CXX={others[0]}" if others else f"unset CXX; {_INSTALL}"
    return _compiler_bad(text, effect, remedy)


def _pretty(standard: str) -> str:
    return standard.replace("c++", "C++")


def check_vectors(facts: Facts) -> Iterator[Finding]:
    """What Inductor takes (torch/_inductor/cpu_vec_isa.py: pick_vec_isa) against the processor's."""
    if "vectors" not in facts or facts["compiler"].get("builds") is False:
        return
    vectors, capability = facts["vectors"], facts["torch"].get("cpu_capability")
    failure = facts.failure("vectors")
    if failure is not None:
        if facts["compiler"].get("chosen"):
            yield _vectors_warn(
                f"the vector instructions could not be found out: {first_useful_line(failure)}",
                "CPU kernels may be compiled without any",
                "see the compiler's line",
            )
        return
    bits = vectors["bits"]
    if bits == 0:
        yield _vectors_warn(
            "CPU kernels are compiled without vector instructions",
            "they compute one element at a time, several times slower than they could",
            _vectors_remedy(facts),
        )
    elif bits < _BITS.get(capability or "", 0):
        yield _vectors_warn(
            f"CPU kernels use {bits}-bit vectors ({vectors['name']}), but the processor has {capability}",
            "they may be up to twice as slow as they could be",
            _vectors_remedy(facts),
        )
    else:
        yield _vectors_ok(f"CPU kernels use {bits}-bit vectors ({vectors['name']})")


def _vectors_remedy(facts: Facts) -> str:
    if facts["vectors"].get("simdlen") is not None:
        return f"torch._inductor.config.cpp.simdlen is {facts['vectors']['simdlen']}: leave it at None"
    for name in ("ATEN_CPU_CAPABILITY", "TORCHINDUCTOR_VEC_ISA_OK"):
        if facts.environment.get(name):
            return f"unset {name}"
    return "use a newer compiler: torch tries each instruction set with a small program, and these failed"


def check_threads(facts: Facts) -> Iterator[Finding]:
    threads, cpus = facts["torch"].get("threads"), facts["python"].get("cpus")
    if threads is None or cpus is None:
        return
    text = f"{plural(threads, 'thread')} for CPU kernels, {cpus} processors usable"
    variable = facts.environment.get("OMP_NUM_THREADS")
    remedy = "unset OMP_NUM_THREADS" if variable else "call torch.set_num_threads, or set OMP_NUM_THREADS"
    if threads == 1 and cpus > 1:
        yield Finding("threads", "warn", text, "CPU kernels use one core, eager operators as well", remedy)
    elif threads > cpus:
        yield Finding(
            "threads",
            "warn",
            text,
            "threads take the processors from each other: kernels are slower, and times vary",
            remedy,
        )
    else:
        yield Finding("threads", "ok", text)
