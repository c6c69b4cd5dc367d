"""A training step of a small Llama of transformers in bfloat16 with AdamW, logging the loss."""

import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = LlamaConfig(
    vocab_size=16000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=512,
)
model = LlamaForCausalLM(config).to(device, torch.bfloat16).train()
model.config.use_cache = False
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=device == "cuda")
for step in range(30):
    ids = torch.randint(0, 16000, (4, 512), device=device)
    start = time.perf_counter()
    loss = compiled(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 10 == 0:
        print(f"step {step} loss {loss.item():.3f} {1e3 * (time.perf_counter() - start):.1f} ms")
