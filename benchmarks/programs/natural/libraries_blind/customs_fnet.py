"""Assigns chapters of the customs tariff to goods descriptions: FNet from a config, trained from scratch."""

import random
import time
import zlib

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import FNetConfig, FNetForSequenceClassification

SEED = 17
random.seed(SEED)
torch.manual_seed(SEED)
torch.set_num_threads(2)

MAX_LEN = 80
CHAPTERS = {
    "live animals": ["calf", "heifer", "poultry", "breeding", "pedigree", "hatching"],
    "coffee and tea": ["arabica", "green", "beans", "roasted", "leaf", "sachets"],
    "plastics": ["polyethylene", "granules", "film", "sheet", "resin", "mould"],
    "wood": ["sawn", "plywood", "veneer", "oak", "planed", "pallet"],
    "apparel": ["knitted", "cotton", "jersey", "men", "women", "overcoat"],
    "iron and steel": ["hot", "rolled", "coil", "galvanised", "alloy", "billet"],
    "machinery": ["pump", "bearing", "hydraulic", "valve", "gearbox", "parts"],
    "electrical": ["transformer", "cable", "battery", "circuit", "lamp", "relay"],
}
FILLER = (
    "of the in for with cartons net weight kgs origin packed new used article no set size colour per".split()
)
NAMES = list(CHAPTERS)
VOCAB = 2048  # 0 pad, 1 cls, 2 sep, the rest hashed trigrams


def trigrams(text):
    return [3 + zlib.crc32(text[i : i + 3].encode()) % (VOCAB - 3) for i in range(len(text) - 2)]


def describe(chapter):
    words = random.choices(CHAPTERS[NAMES[chapter]], k=3) + random.choices(FILLER, k=6)
    other = random.randrange(len(NAMES))
    words += random.choices(CHAPTERS[NAMES[other]], k=1)
    words += [str(random.randint(1, 9999)) for _ in range(2)]
    random.shuffle(words)
    return " ".join(words)


class Declarations(Dataset):
    def __init__(self, n):
        self.labels = [random.randrange(len(NAMES)) for _ in range(n)]
        self.texts = [describe(c) for c in self.labels]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        ids = [1] + trigrams(self.texts[i])[: MAX_LEN - 2] + [2]
        ids += [0] * (MAX_LEN - len(ids))
        return torch.tensor(ids), self.labels[i]


def build():
    cfg = FNetConfig(
        vocab_size=VOCAB,
        hidden_size=160,
        num_hidden_layers=4,
        intermediate_size=480,
        max_position_embeddings=MAX_LEN,
        type_vocab_size=2,
        hidden_dropout_prob=0.05,
        num_labels=len(NAMES),
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return FNetForSequenceClassification(cfg)


def main():
    train = DataLoader(Declarations(800), batch_size=32, shuffle=True, drop_last=True)
    valid = DataLoader(Declarations(192), batch_size=32)
    model = build()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters")
    model = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=8e-4, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=2 * len(train))

    begin = time.time()
    for epoch in range(2):
        model.train()
        total = 0.0
        for ids, labels in train:
            out = model(input_ids=ids, labels=labels)
            opt.zero_grad()
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            total += out.loss.item()
        model.eval()
        good = 0
        with torch.no_grad():
            for ids, labels in valid:
                good += (model(input_ids=ids).logits.argmax(-1) == labels).sum().item()
        print(f"epoch {epoch}: loss {total / len(train):.4f}, valid accuracy {good / 192:.3f}")
    print(f"{time.time() - begin:.1f} s")


if __name__ == "__main__":
    main()
