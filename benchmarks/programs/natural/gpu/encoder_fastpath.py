"""nn.TransformerEncoder over padded text, inference with a padding mask."""

import os

import torch
import torch.nn as nn

SMALL = os.environ.get("SMALL") == "1"
BACKEND = os.environ.get("BACKEND", "inductor")


def pick(full, small):
    return small if SMALL else full


class Classifier(nn.Module):
    def __init__(self, vocab=20000, dim=512, depth=4, classes=5):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(512, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 8, 4 * dim, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.out = nn.Linear(dim, classes)

    def forward(self, ids):
        pad = ids == 0
        x = self.embed(ids) + self.pos[: ids.shape[1]]
        x = self.encoder(x, src_key_padding_mask=pad)
        keep = (~pad).unsqueeze(-1).to(x.dtype)
        return self.out((x * keep).sum(1) / keep.sum(1)).softmax(-1)


def build(device, compiled):
    torch.manual_seed(0)
    vocab = pick(20000, 100)
    model = Classifier(vocab).to(device).half().eval()
    if compiled:
        model = torch.compile(model, backend=BACKEND)
    n, length = pick(32, 2), pick(384, 16)
    ids = torch.randint(1, vocab, (n, length), device=device)
    lengths = torch.randint(length // 8, length // 2, (n, 1), device=device)
    lengths[0] = length
    ids = ids.masked_fill(torch.arange(length, device=device)[None] >= lengths, 0)

    @torch.inference_mode()
    def step():
        return model(ids)

    return step


def make(device):
    """Eager and compiled steps, each on its own copy of the same state."""
    return build(device, compiled=False), build(device, compiled=True)


if __name__ == "__main__":
    step = build("cuda" if torch.cuda.is_available() else "cpu", compiled=True)
    for _ in range(30):
        result = step()
    print(torch.as_tensor(result).float().mean().item())
