"""Arguments that were kept at capture, in RUN/inputs; inspector/capture/recorder/inputs.py writes the files.

Read with ``torch.load(weights_only=True)``, which makes tensors and plain data and runs nothing. What does
not fit is an error before any of it is used: the file may come from anywhere.
"""

from __future__ import annotations

import itertools
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from inspector.replay.worker.events import first_line
from inspector.replay.worker.inputs.arguments import TensorSpec

SCHEMA = "inspector.inputs/1"


class StoredError(Exception):
    """The file cannot be used; the message is one line that says why."""


@dataclass(frozen=True)
class Stored:
    """A graph's arguments as they were. `specs` as `make_specs` gives them; `storages` has for the numbers of
    those storages whose values were kept the elements in one dimension, in the host's memory."""

    specs: tuple[object, ...]
    storages: dict[int, Tensor]
    positions: frozenset[int]
    """Arguments whose values are known."""

    @property
    def complete(self) -> bool:
        return len(self.positions) == len(self.specs)


def is_complete(path: Path) -> bool:
    """Whether the file has the values of every argument; False where it cannot be read."""
    try:
        # Mapped into memory, it is read in no other format than the one that is written.
        data = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return all(
            item["kind"] == "value" or (item["kind"] == "tensor" and item["storage"] in data["storages"])
            for item in data["arguments"]
        )
    except Exception:
        return False


def load_stored(path: Path, specs: Sequence[object]) -> Stored:
    """What the file holds for a graph whose arguments look like `specs`.

    Sizes, strides and integers are those of the captured call, which may differ from `specs` where shapes
    are dynamic; devices are those of `specs`. Raises StoredError.
    """
    try:
        if not zipfile.is_zipfile(path):
            # Before torch 2.6 its older formats run code all the same (CVE-2025-32434).
            raise StoredError(f"{path.name} is no file of saved inputs")
        data = torch.load(path, map_location="cpu", weights_only=True)
        if data["schema"] != SCHEMA:
            raise StoredError(f"{path.name} has the schema {data['schema']!r}, not {SCHEMA!r}")
        arguments, storages = data["arguments"], data["storages"]
        if len(arguments) != len(specs):
            raise StoredError(f"{path.name} holds {len(arguments)} arguments, the graph takes {len(specs)}")
        return _assemble(arguments, storages, specs)
    except StoredError:
        raise
    except Exception as error:
        raise StoredError(
            f"{path.name} cannot be read: {type(error).__name__}: {first_line(error)}"
        ) from error


def _assemble(
    arguments: Sequence[dict[str, Any]], storages: dict[int, Tensor], specs: Sequence[object]
) -> Stored:
    made: list[object] = []
    kept: dict[int, Tensor] = {}
    positions: set[int] = set()
    numbers: dict[object, int] = {}
    private = itertools.count(1_000_000)
    for position, (item, spec) in enumerate(zip(arguments, specs, strict=True)):
        if item["kind"] == "value" and not isinstance(spec, TensorSpec):
            made.append(item["value"])
            positions.add(position)
            continue
        if item["kind"] == "other":
            made.append(spec)
            continue
        dtype = getattr(torch, item["dtype"])
        if not isinstance(spec, TensorSpec) or spec.dtype != dtype or len(item["size"]) != len(spec.size):
            raise StoredError(
                f"argument {position} is a {item.get('dtype', 'value')} in it, not so in the graph"
            )
        start, width = int(item["start"]), dtype.itemsize
        number = numbers.setdefault((item["storage"], dtype, spec.device), len(numbers))
        own = start % 16 != 0
        if own:
            # torch copies an argument that starts there (torch/_inductor/utils.py: clone_preserve_strides).
            number = next(private)
        tensor = TensorSpec(
            tuple(item["size"]),
            tuple(item["stride"]),
            dtype,
            spec.device,
            number,
            0 if own else start // width,
        )
        made.append(tensor)
        content = storages.get(item["storage"])
        if content is None:
            continue
        values = _elements(content, start if own else 0, dtype)
        if values.numel() < tensor.extent:
            raise StoredError(f"argument {position} reaches beyond the memory that was kept")
        kept[number] = values
        positions.add(position)
    return Stored(tuple(made), kept, frozenset(positions))


def _elements(content: Tensor, start: int, dtype: torch.dtype) -> Tensor:
    """The bytes from `start` on as elements, in memory of their own."""
    part = content[start : start + (content.numel() - start) // dtype.itemsize * dtype.itemsize].clone()
    return torch.empty(0, dtype=dtype).set_(
        part.untyped_storage(), 0, (part.numel() // dtype.itemsize,), (1,)
    )
