"""Writes RUN/inspector.json, and finds out what machine this is."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path

from inspector.files import write_whole
from inspector.model.run import MANIFEST_NAME, MANIFEST_SCHEMA, Manifest
from inspector.process import output_of

NVIDIA_SECONDS = 5.0


def write_manifest(run: Path, manifest: Manifest) -> None:
    """Raises OSError."""
    data = {"schema": MANIFEST_SCHEMA, **dataclasses.asdict(manifest)}
    write_whole(run / MANIFEST_NAME, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def devices(environment: Mapping[str, str], torch_version: str | None) -> tuple[str, ...]:
    """Names of the GPUs that the child can see, from nvidia-smi; `cpu` where there is none.

    CUDA_VISIBLE_DEVICES may also hold UUIDs; those are not resolved, and all GPUs are named.
    """
    if torch_version is not None and "+cpu" in torch_version:
        return ("cpu",)
    names = _nvidia_names(environment)
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        chosen = [word.strip() for word in visible.split(",") if word.strip()]
        if all(word.lstrip("-").isdigit() for word in chosen):
            names = tuple(names[int(word)] for word in chosen if 0 <= int(word) < len(names))
    return names or ("cpu",)


def _nvidia_names(environment: Mapping[str, str]) -> tuple[str, ...]:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    answer = output_of(command, NVIDIA_SECONDS, environment) or b""
    return tuple(line.strip() for line in answer.decode("utf-8", "replace").splitlines() if line.strip())


def shown_environment(variables: Mapping[str, str], run: Path, caches: Path) -> dict[str, str]:
    """The variables with the run's own path as `RUN`, so that they stay true when the folder moves.

    `caches` is the path that stands for RUN/cache, which a link may hide.
    """
    return {
        name: value.replace(str(caches), "RUN/cache").replace(str(run), "RUN")
        for name, value in sorted(variables.items())
    }


def shown_folder(cwd: Path, run: Path) -> str:
    """The working folder relative to the run where one contains the other, else as it is."""
    if run.is_relative_to(cwd) or cwd.is_relative_to(run):
        return os.path.relpath(cwd, run)
    return str(cwd)
