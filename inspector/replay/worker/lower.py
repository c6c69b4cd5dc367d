"""The child that lowers kernels. Triton's: no GPU is needed, as Triton brings ptxas and the disassemblers.

Run as ``python -m inspector.replay.worker.lower REQUEST FD``. A kernel's decorator is Inductor's own, which
makes the configurations; in place of the autotuner that it would hand them to stands a recorder. Compiling is
then what torch/_inductor/runtime/triton_heuristics.py: CachingAutotuner._precompile_config does.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from inspector import confinement
from inspector.replay import loops
from inspector.replay.lower_protocol import LowerJob, LowerRequest
from inspector.replay.protocol import Confined, Done, Failed, KernelLowered, KernelStarted
from inspector.replay.worker.events import NotRunnable, Reporter, describe, first_line

_TEXTS = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
_BINARIES = ("cubin",)
_LONGEST_NAME = 150
_DISASSEMBLY_S, _COMPILE_S = 60, 300
_LINE_TABLES = ("-g1", "-gdwarf-4", "-w")
"""Version 4: what clang inlined is not found by GNU objdump (2.40) in version 5."""
_RESERVED_BYTES = 8 << 30
_KEYWORDS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_CUDA = re.compile(r"sm_(\d{2,3})$")


def main(request_path: str, descriptor: int) -> None:
    """Lowers what the request asks for, one kernel after the other."""
    reporter = Reporter(descriptor)
    request = LowerRequest.read(Path(request_path))
    reporter.stage("loading torch")
    if confinement.STATE and request.memory_bytes is not None:
        confinement.limit_memory(request.memory_bytes + _RESERVED_BYTES)
    active, missing = confinement.words(confinement.STATE)
    reporter.send(Confined(tuple(active), tuple(missing)))
    try:
        lowering = _Lowering(request.folder)
    except ImportError as error:
        reporter.send(Failed(f"{sys.executable} cannot import torch: {first_line(error)}"))
        return
    for index, job in enumerate(request.jobs):
        if index in request.done:
            continue
        reporter.send(KernelStarted(index, job.name))
        started = time.perf_counter()
        notes: list[str] = []
        try:
            key, problem = lowering.run(job, notes), None
        except Exception as error:  # noqa: BLE001
            key, problem = None, _told(error)
        seconds = time.perf_counter() - started
        reporter.send(KernelLowered(index, key, seconds, problem, tuple(notes)))
    reporter.send(Done())


class _Made(NamedTuple):
    """What a kernel's decorator would have handed to the autotuner."""

    function: Any
    configs: list[Any]
    meta: Mapping[str, Any]
    inductor_meta: Mapping[str, Any]


class _Lowering:
    def __init__(self, folder: Path) -> None:
        import torch

        self._torch_version = str(torch.__version__)
        self._folder = folder
        self._made: _Made | None = None

    @cached_property
    def _triton(self) -> Any:  # noqa: ANN401
        import triton
        from torch._inductor.runtime import triton_helpers, triton_heuristics

        triton_helpers.set_driver_to_gpu = lambda: None
        triton_heuristics.cached_autotune = self._record
        return triton

    @property
    def _tools(self) -> Path:
        return Path(self._triton.__file__).parent / "backends" / "nvidia" / "bin"

    def _record(
        self,
        _size_hints: object = None,
        configs: list[Any] | None = None,
        triton_meta: Mapping[str, Any] | None = None,
        *_: object,
        inductor_meta: Mapping[str, Any] | None = None,
        **__: object,
    ) -> Callable[[Any], Any]:
        """In place of ``triton_heuristics.cached_autotune``."""

        def decorate(function: Any) -> Any:  # noqa: ANN401
            self._made = _Made(function, list(configs or ()), triton_meta or {}, inductor_meta or {})
            return function

        return decorate

    def run(self, job: LowerJob, notes: list[str]) -> str:
        """The name of the folder with the kernel's stages."""
        if job.cubin is not None:
            folder = self._folder / job.cubin.parent.name
            folder.mkdir(parents=True, exist_ok=True)
            self._disassemble(job.cubin, folder / job.cubin.stem)
            return folder.name
        if job.cpp:
            return self._compile_cpp(job)
        made = self._load(job)
        config, options = self._configuration(job, made, notes)
        kernel = self._compile(job, made, config, options)
        metadata = kernel.metadata._asdict()
        folder = self._folder / str(metadata["hash"])
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / job.function[:_LONGEST_NAME]
        for name in (*_TEXTS, *_BINARIES):
            if name in kernel.asm:
                data = kernel.asm[name]
                stem.with_name(f"{stem.name}.{name}").write_bytes(
                    data if isinstance(data, bytes) else str(data).encode()
                )
        facts = {
            **{key: metadata.get(key) for key in ("name", "hash", "shared", *_KEYWORDS)},
            "target": vars(metadata["target"]),
            "triton_version": self._triton.__version__,
            "lowered": {
                "config": {**config, **options},
                "notes": notes,
                "torch_version": self._torch_version,
            },
        }
        stem.with_name(f"{stem.name}.json").write_text(json.dumps(facts, default=str), encoding="utf-8")
        if "cubin" in kernel.asm:
            self._disassemble(stem.with_name(f"{stem.name}.cubin"), stem)
        return folder.name

    def _compile_cpp(self, job: LowerJob) -> str:
        """With Inductor's command for this machine, for vectors as wide as the kernel was written for (this
        machine need not have them: nothing is run), and line tables, which change no code; not linked."""
        from torch._inductor import cpp_builder

        from inspector.replay.worker.code.vectors import bits_written_for, vectors_for

        if (isa := vectors_for(job.source)) is None:
            bits = bits_written_for(job.source)
            raise NotRunnable(f"no compiler here makes code for vectors of {bits} bits")
        source = "\n" + job.source
        key = hashlib.sha256(f"{source} {isa}".encode()).hexdigest()
        folder = self._folder / key
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / job.name[:_LONGEST_NAME]
        code, target = stem.with_name(job.file), stem.with_name(f"{stem.name}.o")
        code.write_text(source, encoding="utf-8")
        options = cpp_builder.CppTorchOptions(vec_isa=isa, compile_only=True)
        builder = cpp_builder.CppBuilder(
            name=stem.name, sources=str(code), output_dir=str(folder), BuildOption=options
        )
        command = [*shlex.split(builder.get_command_line()), *_LINE_TABLES]
        command[command.index("-o") + 1] = str(target)
        self._run(command, _COMPILE_S)
        printed = self._run(
            ["objdump", "-dl", "--inlines", "--no-show-raw-insn", str(target)], _DISASSEMBLY_S
        )
        stem.with_name(f"{stem.name}.asm").write_text(printed, encoding="utf-8")
        flags = [word for word in command if word.startswith(("-O", "-f", "-m"))]
        facts = {
            "name": job.function,
            "hash": key,
            "target": {"backend": "cpu", "arch": str(isa) or "scalar"},
            "source": job.file,
            "unvectorised": self._unvectorised(command, target, job.file),
            "vectoriser": Path(command[0]).name,
            "throughput": loops.throughput(printed, job.name),
            "lowered": {
                "config": {"compiler": Path(command[0]).name, "flags": " ".join(flags)},
                "torch_version": self._torch_version,
            },
        }
        stem.with_name(f"{stem.name}.json").write_text(json.dumps(facts), encoding="utf-8")
        return key

    @staticmethod
    def _unvectorised(command: list[str], target: Path, file: str) -> list[tuple[int, str]] | None:
        """By a second compilation, whose code is thrown away; None where it tells nothing."""
        asking = loops.asking(command)
        if asking is None:
            return None
        asking[asking.index("-o") + 1] = str(target.with_suffix(".again"))
        try:
            done = subprocess.run(
                asking, capture_output=True, text=True, timeout=_COMPILE_S, errors="replace"
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return loops.reasons(done.stderr, file) if done.returncode == 0 else None

    @staticmethod
    def _run(command: list[str], seconds: float) -> str:
        """What a program prints; raises NotRunnable with what it complains of."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
        except FileNotFoundError:
            raise NotRunnable(f"there is no {command[0]} here") from None
        if done.returncode:
            said = re.search(r"error: .*", done.stderr)
            why = said[0] if said is not None else first_line(RuntimeError(done.stderr))
            raise NotRunnable(f"{Path(command[0]).name} failed: {why}")
        return done.stdout

    def _load(self, job: LowerJob) -> _Made:
        """The kernel's module, in a file with the name and the lines that Inductor's has."""
        # Before the kernel's module takes the heuristics by their names.
        assert self._triton is not None
        path = self._folder / "source" / job.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n" + job.source, encoding="utf-8")
        self._made = None
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        made = self._made
        if made is None:
            raise NotRunnable("its decorator is none that Inductor's heuristics know")
        return made

    @staticmethod
    def _configuration(job: LowerJob, made: _Made, notes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The block sizes and the compiler's options: as recorded, else the first that Inductor would try."""
        if not made.configs:
            raise NotRunnable("Inductor's heuristics make no configuration for it")
        first = made.configs[0]
        # A configuration of a split scan has an XBLOCK, and the kernel takes none.
        config = {key: value for key, value in first.kwargs.items() if key in made.function.arg_names}
        options = {key: value for key in _KEYWORDS if (value := getattr(first, key, None)) is not None}
        if job.config:
            known = {key: _value(text) for key, text in job.config.items()}
            options |= {key: value for key, value in known.items() if key in _KEYWORDS and value is not None}
            config |= {key: value for key, value in known.items() if key in made.function.arg_names}
        elif len(made.configs) > 1:
            notes.append(
                f"which of {len(made.configs)} configurations ran was not recorded: this is the first of them"
            )
        return config, options

    def _compile(self, job: LowerJob, made: _Made, config: Mapping[str, Any], options: dict[str, Any]) -> Any:  # noqa: ANN401
        from triton.compiler import ASTSource

        function, meta = made.function, made.meta
        constants = {**dict(meta.get("constants", {})), **config}
        for name in ("num_warps", "num_stages"):
            if name in function.arg_names:
                constants.setdefault(name, options[name])
        # torch before 2.6 numbers the arguments.
        named = {
            function.arg_names[key] if isinstance(key, int) else key: value
            for key, value in dict(meta["signature"]).items()
        }
        constants = {
            function.arg_names[key] if isinstance(key, int) else key: value
            for key, value in constants.items()
        }
        signature = {
            name: "constexpr" if name in constants else named.get(name, "constexpr")
            for name in function.arg_names
        }
        places = {(function.arg_names.index(name),): value for name, value in constants.items()}
        target = self._target(job.target, meta)
        cuda = target.backend == "cuda"
        options["sanitize_overflow"] = False
        options["debug"] = bool(made.inductor_meta.get("assert_indirect_indexing", True)) and cuda
        if "enable_fp_fusion" in meta:
            options["enable_fp_fusion"] = meta["enable_fp_fusion"]
        source = ASTSource(function, signature, places, _attributes(meta, function.arg_names))
        return self._triton.compile(source, target=target, options=options)

    @staticmethod
    def _target(name: str | None, meta: Mapping[str, Any]) -> Any:  # noqa: ANN401
        from triton.backends.compiler import GPUTarget

        if name is None:
            device = meta["device"]
            return GPUTarget(device.type, device.cc, getattr(device, "warp_size", None) or 32)
        if (match := _CUDA.match(name)) is not None:
            return GPUTarget("cuda", int(match[1]), 32)
        # AMD's data centre cards have wavefronts of 64, its others of 32.
        return GPUTarget("hip", name, 64 if name.startswith("gfx9") else 32)

    def _disassemble(self, cubin: Path, stem: Path) -> None:
        for tool, arguments, ending in (
            ("nvdisasm", ("-gi", "-c"), "sass"),
            ("cuobjdump", ("-res-usage",), "usage"),
        ):
            printed = self._run([str(self._tools / tool), *arguments, str(cubin)], _DISASSEMBLY_S)
            stem.with_name(f"{stem.name}.{ending}").write_text(printed, encoding="utf-8")


def _told(error: Exception) -> str:
    """One sentence; Triton says what is wrong in the last line, below the source with a caret."""
    if type(error).__name__ == "CompilationError" and (lines := str(error).strip().splitlines()):
        return f"Triton refuses it {lines[0].rstrip(':')}: {lines[-1].strip()}"
    return describe(error)


def _value(text: str) -> Any:  # noqa: ANN401
    """`"1024"` is 1024, `"True"` is true, `"None"` nothing; other texts are as they are."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return {"True": True, "False": False, "None": None}.get(text, text)


def _attributes(meta: Mapping[str, Any], names: list[str]) -> dict[tuple[int, ...], Any]:
    """Which arguments are divisible by 16. torch before 2.7 has Triton's older object for it, whose
    `divisible_by_16` counts arguments."""
    attributes = meta["configs"][0]
    if isinstance(attributes, dict):
        return attributes
    divisible = getattr(attributes, "divisible_by_16", ()) or ()
    return {(index,): [["tt.divisibility", 16]] for index in divisible if index < len(names)}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
