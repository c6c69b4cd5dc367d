"""Greedy generation with a small Llama of transformers and a static cache, as its guide compiles it."""

import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, vocab_size=1000
)
model = LlamaForCausalLM(config).eval()
model.generation_config.cache_implementation = "static"
model.generation_config.pad_token_id = 0
model.forward = torch.compile(model.forward, fullgraph=True)
prompt = torch.randint(0, 1000, (2, 8))
with torch.no_grad():
    for round in range(3):
        start = time.perf_counter()
        out = model.generate(prompt, max_new_tokens=12, do_sample=False)
        print(f"round {round}: {time.perf_counter() - start:.3f} s, {tuple(out.shape)}")
