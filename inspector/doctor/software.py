"""Rules about Python, torch, Triton and the compile caches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from inspector.confinement import words
from inspector.doctor.errors import findings_of, first_useful_line
from inspector.model.doctor import Facts, Finding
from inspector.units import plural, size

FIRST_TORCH, LAST_TORCH = (2, 4), (2, 15)
"""What Inspector's readers were tested with."""

MIB, GIB = 1 << 20, 1 << 30

_torch_ok, _torch_warn, _torch_bad = findings_of("torch")
_triton_ok, _triton_warn, _triton_bad = findings_of("triton")
_caches_ok, _caches_warn, _caches_bad = findings_of("caches")


def release(version: str | None) -> tuple[int, int] | None:
    """(2, 13) for `2.13.0+cpu`; None where there is no such beginning."""
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else None


def check_python(facts: Facts) -> Iterator[Finding]:
    """Dynamo's own word on this interpreter (torch/_dynamo/eval_frame.py: check_if_dynamo_supported)."""
    python = facts["python"]
    threads = ", free-threaded" if python.get("free_threaded") else ""
    machine = f"{python['system']} {python['machine']}"
    text = f"Python {python['version']}{threads} on {machine}: {python['executable']}"
    unsupported = facts["torch"].get("unsupported")
    if unsupported:
        yield Finding(
            "python",
            "bad",
            text,
            f"torch.compile refuses: {unsupported}",
            f"use a Python that torch {facts['torch']['version']} can compile for",
        )
    else:
        yield Finding("python", "ok", text)


def check_torch(facts: Facts) -> Iterator[Finding]:
    failure = facts.failure("torch")
    if failure is not None:
        yield _no_torch(facts, failure)
        return
    torch = facts["torch"]
    build = f"CUDA {torch['cuda']}" if torch["cuda"] else f"ROCm {torch['hip']}" if torch["hip"] else "CPU"
    text = f"torch {torch['version']} ({build} build)"
    version = release(torch["version"])
    if version is None or FIRST_TORCH <= version <= LAST_TORCH:
        yield _torch_ok(text)
        return
    older = version < FIRST_TORCH
    yield _torch_warn(
        text,
        f"{'older' if older else 'newer'} than what Inspector was tested with (2.4 to 2.15): it compiles all "
        "the same, but some of its files may be read in part only",
        "upgrade torch" if older else "look for a newer Inspector",
    )


def check_confinement(facts: Facts) -> Iterator[Finding]:
    """What keeps a run's code from doing harm when it is replayed."""
    active, missing = words(facts["confinement"])
    if missing:
        yield Finding(
            "confinement",
            "warn",
            f"code that is replayed runs without: {', '.join(missing)}",
            "a run that somebody else made could do harm here when it is replayed",
            "replay what you don't trust in a container or a virtual machine",
        )
    if active:
        gpu = "; code for a GPU with limits on time and memory alone" if facts.gpus else ""
        yield Finding("confinement", "ok", f"code that is replayed runs with: {', '.join(active)}{gpu}")


def _no_torch(facts: Facts, failure: str) -> Finding:
    executable = facts["python"].get("executable", "this interpreter")
    if not facts["packages"].get("torch_found"):
        return _torch_bad(
            f"torch is not installed in {executable}",
            "nothing can be compiled or replayed with it; runs of other machines can still be opened",
            "install torch there (https://pytorch.org/get-started/locally), or name the interpreter that has "
            "it with --python",
        )
    version = facts["packages"].get("torch")
    named = f"torch {version}" if version else "torch"
    return _torch_bad(
        f"{named} is installed, but importing it failed: {first_useful_line(failure)}",
        "no program that uses torch runs with this interpreter",
        "if the message names an environment variable, correct it; otherwise install torch anew",
    )


def check_triton(facts: Facts) -> Iterator[Finding]:
    """Triton is needed for GPU code only (torch/_inductor/scheduler.py: Scheduler.create_backend)."""
    if "triton" not in facts:
        return
    triton, packages = facts["triton"], facts["packages"]
    needed = bool(facts.gpus)
    wanted = packages.get("requires_triton")
    install = f"pip install {wanted[0]}=={wanted[1]}" if wanted else "pip install triton"
    trouble = facts.failure("triton") or triton.get("error")
    if trouble is not None:
        yield Finding(
            "triton",
            "bad" if needed else "warn",
            f"Triton is installed, but importing it failed: {first_useful_line(trouble)}",
            "no GPU code can be compiled"
            if needed
            else "GPU code could not be compiled; CPU code needs no Triton",
            install,
        )
    elif triton.get("version") is None and needed:
        yield _triton_bad(
            "Triton is not installed",
            "torch.compile raises TritonMissing for every graph on the GPU",
            install,
        )
    elif triton.get("version") is None:
        yield _triton_ok("Triton is not installed, and not needed: there is no GPU for it")
    else:
        yield _triton_version(facts, needed, wanted, install)


def _triton_version(facts: Facts, needed: bool, wanted: list[str] | None, install: str) -> Finding:
    triton = facts["triton"]
    installed = facts["packages"].get("triton") or triton["version"]
    backend = "amd" if facts["torch"].get("hip") else "nvidia"
    text = f"Triton {installed}"
    if needed and backend not in triton["backends"]:
        # torch/_dynamo/device_interface.py: CudaInterface.raise_if_triton_unavailable
        return _triton_bad(
            f"{text} was built without its {backend} backend",
            "no GPU code can be compiled",
            install,
        )
    if wanted is not None and _differs(installed, wanted[1]):
        return _triton_warn(
            f"{text}, but torch {facts['torch'].get('version')} asks for {wanted[1]}",
            "Inductor uses Triton's internals: another version can fail to import, to compile, or be slower",
            install,
        )
    if not needed:
        return _triton_ok(f"{text}; not needed: there is no GPU for it")
    return _triton_ok(text)


def _differs(installed: str, wanted: str) -> bool:
    """Local parts (`+git1234`) count only where torch asks for one."""
    return installed != wanted and ("+" in wanted or installed.partition("+")[0] != wanted)


def check_caches(facts: Facts) -> Iterator[Finding]:
    """A graph from the cache writes no files: seen with torch 2.13, two empty logs are all that it leaves."""
    if "caches" not in facts:
        return
    caches = facts["caches"]
    failure, folder = facts.failure("caches"), caches.get("folder")
    if failure is not None or folder is None:
        yield _caches_warn(
            f"the compile cache could not be looked at: {failure or 'torch does not say where it is'}",
            "whether cached graphs will hide files is not known",
            "inspector capture uses caches of its own all the same",
        )
        return
    if not caches["writable"]:
        yield _caches_bad(
            f"the compile cache {folder} cannot be written",
            "torch.compile fails: it writes every kernel there before it loads it",
            "set TORCHINDUCTOR_CACHE_DIR to a folder that you can write, or correct its permissions",
        )
    elif caches["noexec"]:
        yield _caches_bad(
            f"the compile cache {folder} is on a file system mounted noexec",
            "compiled kernels are shared objects and cannot be loaded from there",
            "set TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR to folders on another file system",
        )
    else:
        yield _cached_graphs(facts)
    yield from _disk(facts)


def _cached_graphs(facts: Facts) -> Finding:
    caches = facts["caches"]
    folder, graphs = caches["folder"], max(caches["fx_graphs"], caches["aot_graphs"])
    if caches["disabled"] or not (caches["fx_graph_cache"] or caches["autograd_cache"]):
        return _caches_ok("the graph caches are off: every graph is compiled and writes its files")
    if graphs:
        return _caches_warn(
            f"{plural(graphs, 'cached graph')} in {folder}",
            "a graph that comes from a cache leaves no files: TORCH_COMPILE_DEBUG=1 alone then shows nothing",
            "inspector capture, which uses fresh caches, or TORCHINDUCTOR_FORCE_DISABLE_CACHES=1",
        )
    return _caches_ok(f"the graph caches are on and empty: {folder}")


def _disk(facts: Facts) -> Iterator[Finding]:
    caches = facts["caches"]
    free = caches.get("free_bytes")
    if free is None or free >= GIB:
        return
    full = free < 100 * MIB
    yield Finding(
        "disk",
        "bad" if full else "warn",
        f"{size(free)} are free for the compile cache {caches['folder']}",
        "a compilation needs up to some hundred MiB: precompiled headers, kernels"
        + (", and fails without" if full else ""),
        "free some space, or set TORCHINDUCTOR_CACHE_DIR to a folder elsewhere",
    )
