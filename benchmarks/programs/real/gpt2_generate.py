"""Greedy generation with a small GPT-2 of transformers and a growing cache."""

import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = GPT2Config(n_layer=4, n_embd=256, n_head=8, vocab_size=8000)
model = GPT2LMHeadModel(config).to(device).eval()
model.forward = torch.compile(model.forward)
prompt = torch.randint(0, 8000, (4, 32), device=device)
with torch.no_grad():
    for round in range(3):
        start = time.perf_counter()
        out = model.generate(prompt, max_new_tokens=24, do_sample=False, pad_token_id=0)
        print(f"round {round}: {time.perf_counter() - start:.3f} s, {tuple(out.shape)}")
