"""Peaks of GPUs that are not here, out of their vendors' datasheets: dense rates, never those with sparsity.

NVIDIA prints rates of Hopper's and Ada's tensor cores with 2:4 sparsity; they are halved here. Rates of
half-precision products are those with float32 accumulation, which is what torch uses. Sources:

- H200: "NVIDIA H200 Tensor Core GPU" datasheet (SXM, NVL). H100: "NVIDIA H100 Tensor Core GPU" datasheet
  (SXM, PCIe, NVL), and "NVIDIA H100 Tensor Core GPU Architecture" white paper for dense rates and L2.
- A100: "NVIDIA A100 Tensor Core GPU" datasheet (40 GB and 80 GB); L2 from the white paper "NVIDIA A100 Tensor
  Core GPU Architecture".
- A10, L4, L40S, T4: the datasheets "NVIDIA A10 Tensor Core GPU", "NVIDIA L4 Tensor Core GPU", "NVIDIA L40S",
  "NVIDIA T4 Tensor Core GPU"; L2 from the white papers on Ampere GA102, Ada and Turing.
- V100: "NVIDIA V100 Tensor Core GPU" datasheet; L2 from the white paper "NVIDIA Tesla V100 GPU Architecture".
- RTX 3090 and RTX 4090: appendices of the white papers "NVIDIA Ampere GA102 GPU Architecture" and "NVIDIA
  Ada GPU Architecture".
- MI300X: "AMD Instinct MI300X Accelerator" data sheet; the cache is the Infinity Cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from inspector.model.peaks import Peaks

_TERA = 1e12
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class _Sheet:
    """`words`: all of them occur in the name that torch gives the device; `gb_s`: 1e9 bytes a second;
    rates in 1e12 a second, None where the device has no such unit."""

    words: tuple[str, ...]
    name: str
    gb_s: float
    fp64: float | None
    fp32: float
    tf32: float | None
    fp16: float
    bf16: float | None
    fp8: float | None
    int8: float | None
    cache_mib: int


# More words come first: "H100 PCIe" before "H100".
_SHEETS = (
    _Sheet(("H200", "NVL"), "NVIDIA H200 NVL", 4800, 60, 60, 417.5, 835.5, 835.5, 1670.5, 1670.5, 50),
    _Sheet(("H200",), "NVIDIA H200", 4800, 67, 67, 494.7, 989.4, 989.4, 1978.9, 1978.9, 50),
    _Sheet(("H100", "NVL"), "NVIDIA H100 NVL", 3900, 60, 60, 417.5, 835.5, 835.5, 1670.5, 1670.5, 50),
    _Sheet(("H100", "PCIe"), "NVIDIA H100 PCIe", 2000, 51, 51, 378, 756, 756, 1513, 1513, 50),
    _Sheet(("H100",), "NVIDIA H100 SXM", 3350, 67, 67, 494.7, 989.4, 989.4, 1978.9, 1978.9, 50),
    _Sheet(("A100", "PCIE", "80GB"), "NVIDIA A100 80GB PCIe", 1935, 19.5, 19.5, 156, 312, 312, None, 624, 40),
    _Sheet(("A100", "80GB"), "NVIDIA A100 80GB SXM", 2039, 19.5, 19.5, 156, 312, 312, None, 624, 40),
    _Sheet(("A100",), "NVIDIA A100 40GB", 1555, 19.5, 19.5, 156, 312, 312, None, 624, 40),
    _Sheet(("A10",), "NVIDIA A10", 600, None, 31.2, 62.5, 125, 125, None, 250, 6),
    _Sheet(("L40S",), "NVIDIA L40S", 864, None, 91.6, 183, 362.05, 362.05, 733, 733, 96),
    _Sheet(("L4",), "NVIDIA L4", 300, None, 30.3, 60, 121, 121, 242.5, 242.5, 48),
    _Sheet(("T4",), "NVIDIA T4", 320, None, 8.1, None, 65, None, None, 130, 4),
    _Sheet(("V100S",), "NVIDIA V100S PCIe", 1134, 8.2, 16.4, None, 130, None, None, None, 6),
    _Sheet(("V100", "PCIE"), "NVIDIA V100 PCIe", 900, 7, 14, None, 112, None, None, None, 6),
    _Sheet(("V100",), "NVIDIA V100 SXM2", 900, 7.8, 15.7, None, 125, None, None, None, 6),
    _Sheet(("RTX", "3090"), "NVIDIA GeForce RTX 3090", 936, None, 35.6, 35.6, 71, 71, None, 284, 6),
    _Sheet(
        ("RTX", "4090"), "NVIDIA GeForce RTX 4090", 1008, None, 82.6, 82.6, 165.2, 165.2, 330.3, 660.6, 72
    ),
    _Sheet(("MI300X",), "AMD MI300X", 5300, 163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9, 256),
)


def datasheet_peaks(device: str) -> Peaks | None:
    """Peaks of the GPU that torch names `device`, such as ``NVIDIA H100 80GB HBM3``; None for one not listed.

    A word counts as a whole (``A10`` is not ``A100``), letters in any case; relatives that only share a
    number (``RTX 3090 Ti``, ``GH200``) are other devices and are not listed.
    """
    words = set(device.upper().replace("-", " ").split())
    if "TI" in words or "SUPER" in words or "LAPTOP" in words:
        return None
    for sheet in _SHEETS:
        if {word.upper() for word in sheet.words} <= words:
            return _peaks(device, sheet)
    return None


def _peaks(device: str, sheet: _Sheet) -> Peaks:
    rates = {
        "float64": sheet.fp64,
        "float32": sheet.fp32,
        "tf32": sheet.tf32,
        "float16": sheet.fp16,
        "bfloat16": sheet.bf16,
        "float8_e4m3fn": sheet.fp8,
        "float8_e5m2": sheet.fp8,
        "int8": sheet.int8,
    }
    return Peaks(
        device=device,
        source="datasheet",
        bytes_per_s=sheet.gb_s * 1e9,
        flops_per_s={kind: rate * _TERA for kind, rate in rates.items() if rate is not None},
        cache_bytes=sheet.cache_mib * _MIB,
        reference=f"datasheet of the {sheet.name}",
    )
