"""Character language model with x-transformers."""

import time

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

torch.manual_seed(0)
model = TransformerWrapper(
    num_tokens=256, max_seq_len=128, attn_layers=Decoder(dim=128, depth=4, heads=4, rotary_pos_emb=True)
)
model = AutoregressiveWrapper(model)
step_model = torch.compile(model)
optim = torch.optim.Adam(model.parameters(), lr=3e-4)
data = torch.randint(0, 256, (20000,))
for i in range(25):
    start = time.time()
    at = torch.randint(0, len(data) - 129, (8,)).tolist()
    batch = torch.stack([data[k : k + 129] for k in at])
    loss = step_model(batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optim.step()
    optim.zero_grad()
    if i % 5 == 0:
        print(i, f"{loss.item():.3f}", f"{time.time() - start:.3f} s")
