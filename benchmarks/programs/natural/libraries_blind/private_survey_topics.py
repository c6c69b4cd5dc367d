"""Differentially private topic classifier for free-text survey answers (Opacus)."""

import logging
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
log = logging.getLogger("survey")

VOCAB, MAXLEN, TOPICS = 1200, 40, 6


def synthetic_answers(n, gen):
    """Bags of topic words and filler, zero padded to MAXLEN."""
    y = torch.randint(0, TOPICS, (n,), generator=gen)
    length = torch.randint(8, MAXLEN + 1, (n,), generator=gen)
    filler = torch.randint(1, VOCAB, (n, MAXLEN), generator=gen)
    topical = 1 + y[:, None] * 40 + torch.randint(0, 40, (n, MAXLEN), generator=gen)
    use = torch.rand(n, MAXLEN, generator=gen) < 0.35
    x = torch.where(use, topical, filler)
    x[torch.arange(MAXLEN)[None, :] >= length[:, None]] = 0
    return x, y


class AnswerNet(nn.Module):
    def __init__(self, dim=32, width=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(dim, width, k, padding=k // 2) for k in (1, 3, 5))
        self.norm = nn.GroupNorm(6, 3 * width)
        self.gate = nn.Linear(3 * width, 1)
        self.head = nn.Sequential(nn.Linear(3 * width, 64), nn.GELU(), nn.Linear(64, TOPICS))

    def forward(self, tokens):
        h = self.emb(tokens).transpose(1, 2)
        h = torch.cat([F.gelu(c(h)) for c in self.convs], 1)
        h = self.norm(h).transpose(1, 2)
        score = self.gate(h).squeeze(-1).masked_fill(tokens == 0, -1e4)
        pooled = (torch.softmax(score, 1).unsqueeze(-1) * h).sum(1)
        return self.head(pooled)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hit = total = 0
    for x, y in loader:
        hit += (model(x).argmax(1) == y).sum().item()
        total += len(y)
    model.train()
    return hit / total


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(11)
    train = TensorDataset(*synthetic_answers(2400, gen))
    test = TensorDataset(*synthetic_answers(600, gen))
    train_loader = DataLoader(train, batch_size=48)
    test_loader = DataLoader(test, batch_size=200)

    model = AnswerNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    engine = PrivacyEngine(accountant="rdp")
    model, optimizer, train_loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=train_loader, noise_multiplier=0.8, max_grad_norm=1.0
    )
    criterion = nn.CrossEntropyLoss()
    net = torch.compile(model)

    for epoch in range(3):
        running = torch.zeros(())
        for x, y in train_loader:  # Poisson sampling: a new batch size each step
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
            running += loss.detach()
        log.info(
            "epoch %d loss %.4f test accuracy %.3f epsilon %.2f",
            epoch,
            running.item() / len(train_loader),
            accuracy(net, test_loader),
            engine.get_epsilon(1e-5),
        )
    norms = torch.stack([p.detach().norm() for p in model.parameters()])
    log.info("parameter norm %.4f", norms.norm().item())


if __name__ == "__main__":
    main()
