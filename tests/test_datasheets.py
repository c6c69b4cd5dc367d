"""Datasheets by the names that drivers give, and figures of some looked up by hand."""

from __future__ import annotations

import pytest

from inspector.hardware.datasheets import SHEETS, datasheet_peaks

NAMES = [
    ("NVIDIA B200", "NVIDIA B200", 8000, 2250),
    ("NVIDIA H200", "NVIDIA H200", 4800, 989.4),
    ("NVIDIA H200 NVL", "NVIDIA H200 NVL", 4800, 835.5),
    ("NVIDIA GH200 480GB", "NVIDIA GH200 96GB", 4000, 989.4),
    ("NVIDIA GH200 144G HBM3e", "NVIDIA GH200 144GB", 4900, 989.4),
    ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM", 3350, 989.4),
    ("NVIDIA H100 NVL", "NVIDIA H100 NVL", 3900, 835.5),
    ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 2000, 756),
    ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB", 1555, 312),
    ("A100-PCIE-40GB", "NVIDIA A100 40GB", 1555, 312),
    ("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB SXM", 2039, 312),
    ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe", 1935, 312),
    ("NVIDIA A10", "NVIDIA A10", 600, 125),
    ("NVIDIA L4", "NVIDIA L4", 300, 121),
    ("NVIDIA L40", "NVIDIA L40", 864, 181.05),
    ("NVIDIA L40S", "NVIDIA L40S", 864, 362.05),
    ("Tesla T4", "NVIDIA T4", 320, None),
    ("Tesla V100-SXM2-16GB", "NVIDIA V100 SXM2", 900, None),
    ("Tesla V100-PCIE-32GB", "NVIDIA V100 PCIe", 900, None),
    ("Tesla V100S-PCIE-32GB", "NVIDIA V100S PCIe", 1134, None),
    ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 3090", 936, 71),
    ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090", 1008, 165.2),
    ("AMD Instinct MI300X", "AMD MI300X", 5300, 1307.4),
]


@pytest.mark.parametrize(("device", "sheet", "gb_s", "bfloat16"), NAMES)
def test_a_datasheet_is_found_by_the_name_that_torch_gives(
    device: str, sheet: str, gb_s: float, bfloat16: float | None
) -> None:
    peaks = datasheet_peaks(device)
    assert peaks is not None and peaks.source == "datasheet" and peaks.device == device
    assert peaks.reference == f"datasheet of the {sheet}"
    assert peaks.bytes_per_s == gb_s * 1e9
    assert peaks.flops_per_s.get("bfloat16") == (bfloat16 * 1e12 if bfloat16 else None)
    assert peaks.flops_per_s["float32"] and peaks.flops_per_s["float16"]


def test_every_row_is_reached_by_a_name_of_its_own() -> None:
    assert {sheet for _, sheet, _, _ in NAMES} == {sheet.name for sheet in SHEETS}
    devices = [device.casefold() for sheet in SHEETS for device in sheet.devices]
    assert len(devices) == len(set(devices)), "a name in two rows would hide the first"
    for sheet in SHEETS:
        for device in sheet.devices:
            peaks = datasheet_peaks(f"NVIDIA {device}")
            assert peaks is not None and peaks.reference.endswith(f" {sheet.name}")


@pytest.mark.parametrize(
    "device",
    [
        "NVIDIA RTX A1000",
        "NVIDIA A1000",
        "NVIDIA A10G",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA L400",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA H20",
        "AMD Instinct MI300A",
        "cpu",
        "NVIDIA",
        "",
    ],
)
def test_a_relative_with_a_like_name_is_another_device(device: str) -> None:
    assert datasheet_peaks(device) is None
