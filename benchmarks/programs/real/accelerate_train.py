"""A training loop under accelerate, which compiles the model itself."""

import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
accelerator = Accelerator(cpu=True, dynamo_plugin=TorchDynamoPlugin(backend="inductor"))
model = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128), torch.nn.Linear(128, 10)
)
data = DataLoader(TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,))), batch_size=32)
model, optimizer, data = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), data)
for epoch in range(3):
    for features, labels in data:
        loss = torch.nn.functional.cross_entropy(model(features), labels)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(epoch, round(loss.item(), 3))
