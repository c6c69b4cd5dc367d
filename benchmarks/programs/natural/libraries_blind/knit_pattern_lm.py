"""Character-level language model of knitting patterns.

A LocalTransformer (windowed causal attention) is trained on generated pattern text with gradient
accumulation, validated now and then, and finally asked to write a few rows of its own.
"""

import random

import torch
from local_attention import LocalTransformer
from torch.utils.data import DataLoader, Dataset

NUM_STEPS = 12
BATCH_SIZE = 2
GRADIENT_ACCUMULATE_EVERY = 4
LEARNING_RATE = 6e-4
VALIDATE_EVERY = 4
SEQ_LEN = 384
PRIME_LEN = 96
GENERATE_LENGTH = 80

STITCHES = ["K", "P", "YO", "K2tog", "SSK", "SL1", "M1L", "M1R", "C4F", "C4B"]


def make_pattern(rng):
    cast_on = rng.choice([64, 72, 80, 96, 112])
    lines = [f"Cast on {cast_on} sts.\n"]
    motif = [rng.choice(STITCHES) for _ in range(rng.randint(3, 6))]
    for row in range(1, rng.randint(12, 28)):
        side = "RS" if row % 2 else "WS"
        if side == "WS":
            lines.append(f"Row {row} (WS): P to end.\n")
            continue
        body = ", ".join(s + (str(rng.randint(1, 4)) if s in "KP" else "") for s in motif)
        lines.append(f"Row {row} (RS): K2, *{body}; rep from * to last 2 sts, K2.\n")
        if rng.random() < 0.3:
            motif = motif[1:] + motif[:1]
    lines.append("Bind off loosely.\n\n")
    return "".join(lines)


class PatternDataset(Dataset):
    def __init__(self, data, seq_len):
        super().__init__()
        self.data = data
        self.seq_len = seq_len

    def __getitem__(self, index):
        start = torch.randint(0, self.data.size(0) - self.seq_len - 1, (1,))
        return self.data[start : start + self.seq_len + 1].long()

    def __len__(self):
        return self.data.size(0) // self.seq_len


def cycle(loader):
    while True:
        yield from loader


def decode_tokens(tokens):
    return "".join(chr(max(32, t)) if t != 10 else "\n" for t in tokens)


def main():
    torch.manual_seed(11)
    random.seed(11)
    rng = random.Random(5)
    text = "".join(make_pattern(rng) for _ in range(260))
    corpus = torch.tensor(list(text.encode("ascii")), dtype=torch.uint8)
    split = int(0.9 * len(corpus))
    train_set = PatternDataset(corpus[:split], SEQ_LEN)
    val_set = PatternDataset(corpus[split:], SEQ_LEN)
    train_loader = cycle(DataLoader(train_set, batch_size=BATCH_SIZE))
    val_loader = cycle(DataLoader(val_set, batch_size=BATCH_SIZE))

    model = LocalTransformer(
        num_tokens=128,
        dim=192,
        depth=2,
        heads=4,
        dim_head=48,
        causal=True,
        max_seq_len=SEQ_LEN,
        local_attn_window_size=64,
        ff_dropout=0.1,
    )
    n_params = sum(p.numel() for p in model.parameters())
    net = torch.compile(model)
    optim = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98))

    train_curve, val_curve = [], []
    for step in range(NUM_STEPS):
        model.train()
        total = 0.0
        for _ in range(GRADIENT_ACCUMULATE_EVERY):
            loss = net(next(train_loader), return_loss=True)
            (loss / GRADIENT_ACCUMULATE_EVERY).backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optim.step()
        optim.zero_grad()
        train_curve.append(total / GRADIENT_ACCUMULATE_EVERY)

        if (step + 1) % VALIDATE_EVERY == 0:
            model.eval()
            with torch.no_grad():
                losses = [model(next(val_loader), return_loss=True).item() for _ in range(3)]
            val_curve.append(sum(losses) / len(losses))
            print(f"step {step + 1:3d}  train {train_curve[-1]:.3f}  val {val_curve[-1]:.3f}", flush=True)

    model.eval()
    prime = val_set[0][:PRIME_LEN]
    sample = model.generate(prime[None], GENERATE_LENGTH, temperature=0.8, filter_thres=0.8)
    print(f"{n_params / 1e6:.2f}M parameters, {len(corpus)} characters")
    print(f"first loss {train_curve[0]:.3f}, last loss {train_curve[-1]:.3f}")
    print("sample:", repr(decode_tokens(sample[0].tolist())))


if __name__ == "__main__":
    main()
