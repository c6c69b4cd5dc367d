"""Peaks of GPUs that are not here, out of their vendors' datasheets: dense rates, never those with sparsity.

NVIDIA prints rates of Hopper's, Ada's and Blackwell's tensor cores with 2:4 sparsity; they are halved here.
Rates of half-precision products are those with float32 accumulation, which is what torch uses. Sources:

- B200: "NVIDIA Blackwell Architecture Technical Brief" (HGX B200); it does not tell the cache.
- H200: "NVIDIA H200 Tensor Core GPU" datasheet (SXM, NVL). H100: "NVIDIA H100 Tensor Core GPU" datasheet
  (SXM, PCIe, NVL), and "NVIDIA H100 Tensor Core GPU Architecture" white paper for dense rates and L2.
  GH200: "NVIDIA GH200 Grace Hopper Superchip" datasheet (96 GB of HBM3, 144 GB of HBM3e); no cache either.
- A100: "NVIDIA A100 Tensor Core GPU" datasheet (40 GB and 80 GB); L2 from the white paper "NVIDIA A100 Tensor
  Core GPU Architecture".
- A10, L4, L40, L40S, T4: the datasheets "NVIDIA A10 Tensor Core GPU", "NVIDIA L4 Tensor Core GPU", "NVIDIA
  L40", "NVIDIA L40S", "NVIDIA T4 Tensor Core GPU"; L2 from the white papers on Ampere GA102, Ada and Turing.
- V100: "NVIDIA V100 Tensor Core GPU" datasheet; L2 from the white paper "NVIDIA Tesla V100 GPU Architecture".
- RTX 3090 and RTX 4090: appendices of the white papers "NVIDIA Ampere GA102 GPU Architecture" and "NVIDIA
  Ada GPU Architecture".
- MI300X: "AMD Instinct MI300X Accelerator" data sheet; the cache is the Infinity Cache.
"""

from __future__ import annotations

from inspector.frozen import dataclass
from inspector.model.peaks import Peaks

_VENDORS = ("nvidia", "amd", "tesla")
"""Words before a name that drivers of one time or another write, and others do not."""

_DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "int8")
_Rates = tuple[float | None, float, float | None, float, float | None, float | None, float | None]
"""1e12 operations a second of `_DTYPES`, in that order; None where the device has no such unit."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """`devices`: names that drivers give it, without vendors; `gb_s`: 1e9 bytes a second; `cache_mib`: its
    last cache, None where nobody tells."""

    name: str
    devices: tuple[str, ...]
    gb_s: float
    cache_mib: int | None
    rates: _Rates


_HOPPER_SXM: _Rates = (67, 67, 494.7, 989.4, 989.4, 1978.9, 1978.9)
_HOPPER_NVL: _Rates = (60, 60, 417.5, 835.5, 835.5, 1670.5, 1670.5)
_A100: _Rates = (19.5, 19.5, 156, 312, 312, None, 624)
_RTX_4090: _Rates = (None, 82.6, 82.6, 165.2, 165.2, 330.3, 660.6)
_V100_SXM = tuple(f"V100-{form}GB" for form in ("SXM2-16", "SXM2-32", "SXM3-32", "DGXS-16", "DGXS-32"))
_V100_PCIE = ("V100-PCIE-16GB", "V100-PCIE-32GB")
_MI300X = tuple(f"Instinct MI300X{form}" for form in ("", " OAM", " VF"))

SHEETS = (
    Sheet("NVIDIA B200", ("B200",), 8000, None, (40, 80, 1100, 2250, 2250, 4500, 4500)),
    Sheet("NVIDIA H200", ("H200",), 4800, 50, _HOPPER_SXM),
    Sheet("NVIDIA H200 NVL", ("H200 NVL",), 4800, 50, _HOPPER_NVL),
    Sheet("NVIDIA GH200 96GB", ("GH200 480GB", "GH200 120GB"), 4000, None, _HOPPER_SXM),
    Sheet("NVIDIA GH200 144GB", ("GH200 144G HBM3e",), 4900, None, _HOPPER_SXM),
    Sheet("NVIDIA H100 SXM", ("H100 80GB HBM3",), 3350, 50, _HOPPER_SXM),
    Sheet("NVIDIA H100 NVL", ("H100 NVL",), 3900, 50, _HOPPER_NVL),
    Sheet("NVIDIA H100 PCIe", ("H100 PCIe",), 2000, 50, (51, 51, 378, 756, 756, 1513, 1513)),
    Sheet("NVIDIA A100 80GB SXM", ("A100-SXM4-80GB",), 2039, 40, _A100),
    Sheet("NVIDIA A100 80GB PCIe", ("A100 80GB PCIe",), 1935, 40, _A100),
    Sheet("NVIDIA A100 40GB", ("A100-SXM4-40GB", "A100-PCIE-40GB"), 1555, 40, _A100),
    Sheet("NVIDIA A10", ("A10",), 600, 6, (None, 31.2, 62.5, 125, 125, None, 250)),
    Sheet("NVIDIA L40S", ("L40S",), 864, 96, (None, 91.6, 183, 362.05, 362.05, 733, 733)),
    Sheet("NVIDIA L40", ("L40",), 864, 96, (None, 90.5, 90.5, 181.05, 181.05, 362, 362)),
    Sheet("NVIDIA L4", ("L4",), 300, 48, (None, 30.3, 60, 121, 121, 242.5, 242.5)),
    Sheet("NVIDIA T4", ("T4",), 320, 4, (None, 8.1, None, 65, None, None, 130)),
    Sheet("NVIDIA V100 SXM2", _V100_SXM, 900, 6, (7.8, 15.7, None, 125, None, None, None)),
    Sheet("NVIDIA V100 PCIe", _V100_PCIE, 900, 6, (7, 14, None, 112, None, None, None)),
    Sheet("NVIDIA V100S PCIe", ("V100S-PCIE-32GB",), 1134, 6, (8.2, 16.4, None, 130, None, None, None)),
    Sheet("NVIDIA GeForce RTX 3090", ("GeForce RTX 3090",), 936, 6, (None, 35.6, 35.6, 71, 71, None, 284)),
    Sheet("NVIDIA GeForce RTX 4090", ("GeForce RTX 4090",), 1008, 72, _RTX_4090),
    Sheet("AMD MI300X", _MI300X, 5300, 256, (163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, 2614.9)),
)  # fmt: skip


def datasheet_peaks(device: str) -> Peaks | None:
    """Peaks of the GPU that its driver, and so torch, names `device`, such as ``NVIDIA H100 80GB HBM3``.

    None for one that is not listed. The whole name counts: an ``RTX A1000`` or an ``A100-SXM4-40GB MIG
    1g.5gb`` is no A100, and an ``A10G`` no A10.
    """
    sheet = _BY_DEVICE.get(_plain(device))
    if sheet is None:
        return None
    rates = {kind: rate * 1e12 for kind, rate in zip(_DTYPES, sheet.rates, strict=True) if rate is not None}
    if "float8_e4m3fn" in rates:
        rates["float8_e5m2"] = rates["float8_e4m3fn"]
    return Peaks(
        device=device,
        source="datasheet",
        bytes_per_s=sheet.gb_s * 1e9,
        flops_per_s=rates,
        cache_bytes=sheet.cache_mib << 20 if sheet.cache_mib is not None else None,
        reference=f"datasheet of the {sheet.name}",
    )


def _plain(device: str) -> str:
    """Without vendors, in small letters, words one space apart."""
    words = device.casefold().split()
    while words and words[0] in _VENDORS:
        del words[0]
    return " ".join(words)


_BY_DEVICE = {_plain(device): sheet for sheet in SHEETS for device in sheet.devices}
