"""Performer language model on byte sequences."""

import torch
from performer_pytorch import PerformerLM

torch.manual_seed(0)
model = PerformerLM(num_tokens=256, max_seq_len=512, dim=128, depth=3, heads=4, causal=False).eval()
model = torch.compile(model)
with torch.no_grad():
    for _ in range(15):
        out = model(torch.randint(0, 256, (2, 512)))
print(out.mean().item())
