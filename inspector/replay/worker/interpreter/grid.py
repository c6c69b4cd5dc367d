"""Block sizes and grids for kernels that run in Triton's interpreter.

Any block size that the source allows computes the same, so the ones chosen here suit NumPy: few
programs of many elements, yet at least two programs and several turns of a reduction loop where there
is enough work, or a fault in the program's index or in a loop's carried value would not show.
Grids follow torch/_inductor/runtime/triton_heuristics.py: GridExpr and its subclasses (2.7 on), and
grid(), split_scan_grid(), grid_combo_kernels() and cooperative_reduction_grid() (up to 2.6).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

TILE = 1 << 17
"""Elements of one program's block: large enough that NumPy's work outweighs the interpreter's calls."""

_ROW = 1024
"""Elements along x where y or a reduction has blocks too."""

_LOOP_TURNS = 4
"""Turns of a reduction loop, where the reduction is long enough for blocks of `_SMALLEST`."""

_SMALLEST = 4

_MAX_Y_GRID = 65535
"""torch/_inductor/runtime/runtime_utils.py: get_max_y_grid."""

_BLOCK = re.compile(r"(?P<prefix>[XYZ]|R\d_|R)BLOCK(?P<part>_\d+)?$")


class GridError(Exception):
    """No block sizes or no grid can be worked out; the message is one line that says why."""


Grid = tuple[int, int, int]

OlderGrid = Callable[[Mapping[str, int]], Sequence[int]]
"""Up to 2.6: the grid from the block sizes by name."""


@dataclass(frozen=True)
class KernelShape:
    """What a kernel's source says about its launch.

    `parameters` are the function's; `blocks` those of them that are block sizes, `fixed` values that
    its body sets for block sizes; `text` is the source. `meta` is the decorator's inductor_meta.
    """

    parameters: tuple[str, ...]
    text: str
    meta: Mapping[str, Any]

    @property
    def blocks(self) -> tuple[str, ...]:
        """Parameters that a configuration fills: XBLOCK, R0_BLOCK, RSPLIT, XBLOCK_3, ..."""
        return tuple(
            name
            for name in self.parameters
            if _BLOCK.match(name) or name in {"RSPLIT", "RSPLIT_SIZE", "NUM_STAGES"}
        )

    @property
    def fixed(self) -> dict[str, int]:
        """Block sizes that the body sets, as persistent reductions do."""
        matches = re.finditer(r"^\s+(\w+BLOCK\w*)\s*:\s*tl\.constexpr\s*=\s*(\d+)", self.text, re.MULTILINE)
        return {match[1]: int(match[2]) for match in matches}

    def whole_reductions(self, values: Mapping[str, object]) -> dict[str, int]:
        """Blocks along reductions that the body sets itself, by prefix: number or power of two."""
        whole = {_prefix(name): value for name, value in self.fixed.items()}
        whole = {prefix: value for prefix, value in whole.items() if prefix.startswith("r")}
        computed = r"^\s+(R\d_)BLOCK\s*:\s*tl\.constexpr\s*=\s*triton_helpers\."
        for match in re.finditer(computed, self.text, re.MULTILINE):
            prefix = match[1].lower()
            whole[prefix] = _power_of_two(self.numel(prefix, values) or 1)
        return whole

    def masked(self, prefix: str) -> bool:
        """Whether the kernel masks what a block has beyond the range of `prefix` ("x", "r0_", "r")."""
        return re.search(rf"{prefix}mask\w*\s*=\s*{prefix}index\w*\s*<", self.text) is not None

    def numel(self, prefix: str, values: Mapping[str, object]) -> int | None:
        """The length of a range: what the body sets, else what the launch passes."""
        names = (f"{prefix}numel",) if prefix != "r" else ("rnumel", "r0_numel")
        for name in names:
            pattern = rf"^\s+{name}(?:\s*:\s*tl\.constexpr)?\s*=\s*(\d+)\s*$"
            if match := re.search(pattern, self.text, re.MULTILINE):
                return int(match[1])
            passed = values.get(name)
            if isinstance(passed, int):
                return int(passed)
        return None


def choose_blocks(shape: KernelShape, values: Mapping[str, object]) -> dict[str, int]:
    """A value for each of `shape.blocks`; `values` are the launch's arguments by name."""
    wanted = shape.blocks
    result: dict[str, int] = {}
    if any(_part(name) for name in wanted) or "combo_grid_meta" in shape.meta:
        return {name: _combo_block(name, shape) for name in wanted}
    if "NUM_STAGES" in wanted:
        result["NUM_STAGES"] = 1
    if "RSPLIT" in wanted:
        # A cooperative reduction's programs wait for each other, which programs that run one after
        # the other cannot; a single one has nobody to wait for.
        result["RSPLIT"] = 1
    ordered = bool(re.search(r"exclusive_scan_decoupled_lookback", shape.text))
    reductions = [name for name in wanted if _prefix(name).startswith("r")]
    length = 1
    for name in reductions:
        result[name] = _reduction_block(shape, _prefix(name), values, len(reductions))
        length *= result[name]
    for prefix, value in shape.whole_reductions(values).items():
        if f"{prefix.upper()}BLOCK" not in wanted:
            length *= value
    if "RSPLIT_SIZE" in wanted:
        result["RSPLIT_SIZE"] = int(shape.meta.get("RSPLIT_SIZE") or 64)
        result["XBLOCK"] = min(_divisor(result["RSPLIT_SIZE"]), max(1, TILE // length), 64)
        return result
    room = max(1, TILE // length)
    for name in sorted((name for name in wanted if name not in result), reverse=True):
        limit = room if name == "XBLOCK" else max(1, room // _ROW)
        if ordered and name == "XBLOCK":
            limit = 1
        result[name] = _pointwise_block(shape, _prefix(name), values, limit)
        room = max(1, room // result[name])
    if re.search(r"\btl\.dot\(", shape.text):
        result = {name: min(max(value, 16), 64) for name, value in result.items()}
    return result


def _part(name: str) -> bool:
    match = _BLOCK.match(name)
    return match is not None and match["part"] is not None


def _prefix(block: str) -> str:
    match = _BLOCK.match(block)
    return match["prefix"].lower() if match else ""


def _combo_block(name: str, shape: KernelShape) -> int:
    """Combo kernels mix ranges of many lengths: torch's own default suits all of them."""
    default = (shape.meta.get("combo_grid_meta") or {}).get("default_config") or {}
    if name in default:
        return int(default[name])
    prefix = _prefix(name)
    if prefix.startswith("r"):
        return 1024 if shape.masked(prefix) else 8
    return 32 if name.startswith("Y") or any(n.startswith("Y") for n in shape.blocks) else 1024


def _reduction_block(shape: KernelShape, prefix: str, values: Mapping[str, object], dimensions: int) -> int:
    numel = shape.numel(prefix, values)
    if numel is None:
        return 64
    block = _power_of_two(-(-numel // _LOOP_TURNS))
    block = max(block, min(_SMALLEST, _power_of_two(numel)))
    block = min(block, 4096 if dimensions == 1 else 64)
    return block if shape.masked(prefix) else min(block, _divisor(numel))


def _pointwise_block(shape: KernelShape, prefix: str, values: Mapping[str, object], limit: int) -> int:
    numel = shape.numel(prefix, values)
    if numel is None:
        return min(limit, 64)
    # Half, so that there is a second program.
    block = max(1, min(_floor_power(limit), _power_of_two(numel) // 2))
    return block if shape.masked(prefix) else min(block, _divisor(numel))


def _power_of_two(number: int) -> int:
    """The least power of two that is not below `number`."""
    return 1 << max(0, number - 1).bit_length()


def _floor_power(number: int) -> int:
    return 1 << (max(1, number).bit_length() - 1)


def _divisor(number: int) -> int:
    """The largest power of two that divides `number`; 1 for 0."""
    return number & -number if number else 1


def _ceil_div(number: int, block: int | None) -> int:
    return number if not block else -(-number // block)


def launch_grid(shape: KernelShape, blocks: Mapping[str, int], values: Mapping[str, object]) -> Grid:
    """The grid that the launcher of 2.7 and later would use. `values` holds the extra grid arguments.

    Raises GridError for a kind of grid that is not known.
    """
    kind = shape.meta.get("grid_type")
    sizes: dict[str, int | None] = {**shape.fixed, **blocks}
    x, y, z = (shape.numel(prefix, values) for prefix in "xyz")
    if kind == "FixedGrid":
        return _evaluated(shape.meta["fixed_grid"], values, sizes)
    if kind == "PrecomputedGrid":
        for candidate in shape.meta["precomputed_grids"]:
            if all(values.get(name, sizes.get(name)) == value for name, value in candidate["config"].items()):
                return _evaluated(candidate["python"], values, sizes)
        raise GridError("none of the precomputed grids is for this configuration")
    if kind in {"SequentialComboKernelGrid", "RoundRobinComboKernelGrid", "SequentialFlattenComboKernelGrid"}:
        return _combo_grid(str(kind), shape.meta["combo_grid_meta"], sizes, values)
    x_count = _ceil_div(x or 1, sizes.get("XBLOCK"))
    y_count = _ceil_div(y or 1, sizes.get("YBLOCK"))
    z_count = _ceil_div(z or 1, sizes.get("ZBLOCK"))
    if kind in {"Grid1D", "Grid2D", "Grid3D"}:
        return x_count, y_count, z_count
    if kind == "BatchMatmulGrid3D":
        return z_count, y_count, x_count
    if kind == "Grid2DWithYZOverflow":
        return (x_count, *_split_y(y_count))
    if kind == "MixOrderReductionGrid":
        return _ceil_div(x or 1, sizes.get("RSPLIT_SIZE")), 1, 1
    if kind == "CooperativeReductionGrid":
        return int(sizes.get("RSPLIT") or 1), x_count, 1
    if kind == "SplitScanGrid":
        return _ceil_div(shape.numel("r0_", values) or 1, sizes.get("R0_BLOCK")), x or 1, 1
    raise GridError(f"its kind of grid, {kind}, is not known")


def _split_y(count: int) -> tuple[int, int]:
    layers = _ceil_div(count, _MAX_Y_GRID)
    return (_ceil_div(count, layers) if layers else 0), layers


def _evaluated(
    expressions: Sequence[object], values: Mapping[str, object], sizes: Mapping[str, object]
) -> Grid:
    """Grid expressions in Python, over the launch's arguments (2.7 on: precomputed and fixed grids)."""
    scope: dict[str, object] = {**sizes, **values}
    numbers = [item if isinstance(item, int) else eval(str(item), {}, scope) for item in expressions]
    return _three([int(number) for number in numbers])


def _combo_grid(
    kind: str, combo: Mapping[str, Any], sizes: Mapping[str, int | None], values: Mapping[str, Any]
) -> Grid:
    merged = {**(combo.get("default_config") or {}), **sizes}

    def numel(letter: str, number: int) -> int:
        name = f"{letter}numel_{number}"
        return int(combo.get(name) or values[name])

    def block(letter: str, number: int) -> int | None:
        size = merged.get(f"{letter}BLOCK_{number}", merged.get(f"{letter}BLOCK"))
        return None if letter == "X" and combo[f"no_x_dim_{number}"] else size

    numbers = range(int(combo["num_kernels"]))
    counts = [_ceil_div(numel("x", number), block("X", number)) for number in numbers]
    with_y = [number for number in numbers if f"ynumel_{number}" in combo]
    rows = {number: _ceil_div(numel("y", number), block("Y", number)) for number in with_y}
    if kind == "SequentialFlattenComboKernelGrid":
        return max(sum(counts[n] * rows.get(n, 1) for n in numbers), int(combo.get("min_blocks") or 0)), 1, 1
    width = sum(counts) if kind == "SequentialComboKernelGrid" else max(counts) * len(counts)
    width = max(width, int(combo.get("min_blocks") or 0))
    return (width, *_split_y(max(rows.values()))) if rows else (width, 1, 1)


def older_grid(grid: OlderGrid | Sequence[int], meta: Mapping[str, int]) -> Grid:
    """The grid of a launch that passes one (up to 2.6): a tuple, or a function of the block sizes."""
    result = grid(dict(meta)) if callable(grid) else grid
    return _three([int(number) for number in result])


def _three(numbers: Sequence[int]) -> Grid:
    if not 1 <= len(numbers) <= 3:
        raise GridError(f"its grid has {len(numbers)} dimensions")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _older(
    numels: Sequence[int], names: Sequence[str], order: Callable[[list[int]], Sequence[int]]
) -> OlderGrid:
    def grid(meta: Mapping[str, int]) -> Sequence[int]:
        return order([_ceil_div(int(n), meta.get(name)) for n, name in zip(numels, names, strict=False)])

    return grid


def older_grid_functions() -> dict[str, Callable[..., OlderGrid]]:
    """Stand-ins for the functions that wrappers up to 2.6 import from triton_heuristics, by name."""

    def grid(*numels: int | None) -> OlderGrid:
        # Last comes x.
        sizes = [number for number in numels if number is not None][::-1]
        return _older(sizes, ("XBLOCK", "YBLOCK", "ZBLOCK"), _with_y_split)

    def split_scan_grid(xnumel: int, rnumel: int) -> OlderGrid:
        return lambda meta: (_ceil_div(rnumel, meta.get("R0_BLOCK", meta.get("RBLOCK"))), xnumel, 1)

    def grid_combo_kernels(
        *numels: Any,
        num_kernels: int,
        min_blocks: int | None,
        is_sequential: bool,
        default_meta: Mapping[str, int] | None = None,
    ) -> OlderGrid:
        *before, last = numels

        def count(meta: Mapping[str, int]) -> Grid:
            sizes = {**(default_meta or {"XBLOCK": 1024}), **meta}
            lengths = last if isinstance(last, (tuple, list)) else (last,)
            # A negative length is that of a kernel without a block along x.
            blocks = [_ceil_div(abs(n), 1 if n < 0 else sizes["XBLOCK"]) for n in lengths]
            width = sum(blocks) if is_sequential else max(blocks) * num_kernels
            rows = _split_y(_ceil_div(before[-1], sizes.get("YBLOCK"))) if before else (1, 1)
            return (max(width, min_blocks or 0), *rows)

        return count

    def cooperative_reduction_grid(xnumel: int) -> OlderGrid:
        return lambda meta: (meta.get("RSPLIT", 1), _ceil_div(xnumel, meta.get("XBLOCK")), 1)

    return {
        "grid": grid,
        "split_scan_grid": split_scan_grid,
        "grid_combo_kernels": grid_combo_kernels,
        "cooperative_reduction_grid": cooperative_reduction_grid,
    }


def _with_y_split(counts: list[int]) -> Sequence[int]:
    if len(counts) == 2:
        return (counts[0], *_split_y(counts[1]))
    return counts


def program_order(grid: Grid, seed: int, in_turn: bool) -> Iterator[Grid]:
    """Every program once: the first, the last, the middle one, the others in an order that `seed` fixes.

    `in_turn`: in the grid's own order, for programs that build on those before them.
    """
    total = grid[0] * grid[1] * grid[2]
    if in_turn or total <= 2:
        order: Sequence[int] | range = range(total)
    else:
        middle = total // 2
        others = [number for number in range(1, total - 1) if number != middle]
        Random(seed).shuffle(others)
        order = [0, total - 1, middle, *others]
    for number in order:
        yield number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
