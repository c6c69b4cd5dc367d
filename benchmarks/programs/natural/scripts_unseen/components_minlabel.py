"""Connected components of a graph by passing on the least label, with pointer jumping."""

import torch


def sweep(labels, src, dst):
    least = labels.scatter_reduce(0, dst, labels[src], "amin")
    least = least.scatter_reduce(0, src, least[dst], "amin")
    least = least[least]
    return least, (least != labels).any()


torch.manual_seed(0)
n, m = 200_000, 260_000
src, dst = torch.randint(n, (m,)), torch.randint(n, (m,))
run = torch.compile(sweep)
for _ in range(3):
    labels = torch.arange(n)
    for step in range(30):
        labels, changed = run(labels, src, dst)
        if not changed:
            break
print(labels.unique().numel(), step)
