"""Sentence classification with a BERT of transformers, inference under autocast, batches of padded text."""

import torch
from transformers import BertConfig, BertForSequenceClassification

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536)
model = BertForSequenceClassification(config).to(device).eval()
model = torch.compile(model)
ids = torch.randint(0, config.vocab_size, (16, 128), device=device)
mask = (torch.arange(128, device=device)[None] < torch.randint(40, 128, (16, 1), device=device)).long()

total = 0.0
with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16):
    for step in range(40):
        logits = model(input_ids=ids, attention_mask=mask).logits
        total += logits.float().softmax(-1)[:, 0].sum().item()
print(total)
