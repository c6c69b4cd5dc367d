import torch


@torch.compile
def interpolate(table, position):
    left = position.floor().long().clamp(0, table.numel() - 2)
    part = position - left
    return table[left] * (1 - part) + table[left + 1] * part


table = torch.randn(20_000_000)
position = torch.rand(3_000_000) * 19_999_990
for _ in range(15):
    interpolate(table, position)
