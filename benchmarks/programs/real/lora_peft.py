"""LoRA fine-tuning of a small GPT-2 with peft."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
base = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=384, n_head=6, vocab_size=8000))
model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=["c_attn"], lora_dropout=0.05))
model.to(device).train()
compiled = torch.compile(model)
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-4)
ids = torch.randint(0, 8000, (8, 256), device=device)
for step in range(25):
    loss = compiled(input_ids=ids, labels=ids).loss
    loss.backward()
    opt.step()
    opt.zero_grad()
    if step % 5 == 0:
        print(step, loss.item())
