"""A small Llama (6 layers, width 1024), 4x512 tokens, bfloat16, inference."""

import torch
from transformers import LlamaConfig, LlamaModel

torch.manual_seed(0)
config = LlamaConfig(
    hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16, vocab_size=32000
)
model = LlamaModel(config).eval().to("cuda", dtype=torch.bfloat16)
compiled = torch.compile(model)
tokens = torch.randint(0, 32000, (4, 512), device="cuda")
with torch.no_grad():
    for _ in range(3):
        compiled(tokens, use_cache=False)
