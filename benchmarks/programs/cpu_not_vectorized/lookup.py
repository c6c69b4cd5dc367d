import torch


@torch.compile
def hash_features(ids, table):
    mixed = (ids * 2654435761) % 100_003
    mixed = (mixed // 7) ^ (mixed % 13)
    return (mixed % 1000).to(torch.float32) / 1000 + table[0]


ids = torch.randint(0, 1_000_000, (2_000_000,))
table = torch.randn(16)
for _ in range(20):
    hash_features(ids, table)
