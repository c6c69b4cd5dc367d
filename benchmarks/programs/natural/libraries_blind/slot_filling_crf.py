"""BiLSTM-CRF slot tagger for voice-assistant utterances (SNIPS-like BIO label set)."""

import time

import torch
from torch import nn
from torchcrf import CRF

VOCAB_SIZE = 11_000
NUM_SLOTS = 72
MAX_TOKENS = 24
BATCH_SIZE = 64
STEPS = 240
PAD = 0


class SyntheticUtterances:
    """Token streams drawn from a fixed set of slot grammars."""

    def __init__(self, num_templates: int = 400, seed: int = 7):
        gen = torch.Generator().manual_seed(seed)
        self.gen = gen
        self.lengths = torch.randint(5, MAX_TOKENS + 1, (num_templates,), generator=gen)
        self.templates = torch.randint(0, NUM_SLOTS, (num_templates, MAX_TOKENS), generator=gen)
        # every slot owns a slice of the vocabulary
        self.words_per_slot = (VOCAB_SIZE - 1) // NUM_SLOTS

    def batch(self, size: int):
        idx = torch.randint(0, len(self.lengths), (size,), generator=self.gen)
        tags = self.templates[idx]
        offset = torch.randint(0, self.words_per_slot, tags.shape, generator=self.gen)
        tokens = 1 + tags * self.words_per_slot + offset
        mask = torch.arange(MAX_TOKENS).unsqueeze(0) < self.lengths[idx].unsqueeze(1)
        return tokens.masked_fill(~mask, PAD), tags.masked_fill(~mask, 0), mask


class SlotTagger(nn.Module):
    def __init__(self, emb_dim: int = 100, hidden: int = 96):
        super().__init__()
        self.embed = nn.Embedding(VOCAB_SIZE, emb_dim, padding_idx=PAD)
        self.drop = nn.Dropout(0.3)
        self.encoder = nn.LSTM(emb_dim, hidden, bidirectional=True, batch_first=True)
        self.norm = nn.LayerNorm(2 * hidden)
        self.emit = nn.Linear(2 * hidden, NUM_SLOTS)
        self.crf = CRF(NUM_SLOTS, batch_first=True)

    def emissions(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.encoder(self.drop(self.embed(tokens)))
        return self.emit(self.drop(self.norm(hidden)))

    def forward(self, tokens, tags, mask):
        return -self.crf(self.emissions(tokens), tags, mask=mask, reduction="token_mean")

    @torch.no_grad()
    def predict(self, tokens, mask):
        return self.crf.decode(self.emissions(tokens), mask=mask)


def token_accuracy(model: SlotTagger, data: SyntheticUtterances) -> float:
    model.eval()
    tokens, tags, mask = data.batch(32)
    paths = model.predict(tokens, mask)
    correct = total = 0
    for path, gold, length in zip(paths, tags, mask.sum(1).tolist()):
        correct += sum(int(p == g) for p, g in zip(path, gold[:length].tolist()))
        total += length
    model.train()
    return correct / total


def main():
    torch.manual_seed(0)
    data = SyntheticUtterances()
    model = SlotTagger()
    objective = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-3)

    running, started = 0.0, time.perf_counter()
    for step in range(1, STEPS + 1):
        tokens, tags, mask = data.batch(BATCH_SIZE)
        loss = objective(tokens, tags, mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        running += loss.item()
        if step % 30 == 0:
            elapsed = time.perf_counter() - started
            print(f"step {step:4d}  nll/token {running / 30:.4f}  {1e3 * elapsed / 30:.1f} ms/step")
            running, started = 0.0, time.perf_counter()

    print(f"token accuracy on held-out utterances: {token_accuracy(model, data):.3f}")


if __name__ == "__main__":
    main()
