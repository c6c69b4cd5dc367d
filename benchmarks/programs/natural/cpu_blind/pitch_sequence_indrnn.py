"""Next-pitch prediction from the pitch sequence of a plate appearance and the innings before it.

A two-layer independently recurrent network (IndRNN, element-wise recurrence) with batch normalisation between the layers
reads pitch type, zone, velocity, count and handedness and predicts the type of the following pitch.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(34)

N_TYPES = 7  # FF, SI, FC, SL, CU, CH, FS
N_ZONES = 14
SEQ = 18


def make_season(n):
    """Pitchers with their own repertoire; types follow a count-dependent Markov chain."""
    trans = torch.softmax(torch.randn(12, N_TYPES, N_TYPES) * 1.5, -1)
    types = torch.randint(0, N_TYPES, (n, SEQ + 1))
    zones = torch.randint(0, N_ZONES, (n, SEQ + 1))
    balls = torch.zeros(n, dtype=torch.long)
    strikes = torch.zeros(n, dtype=torch.long)
    counts = torch.zeros(n, SEQ + 1, dtype=torch.long)
    for t in range(1, SEQ + 1):
        is_strike = torch.rand(n) < 0.55
        strikes = strikes + is_strike
        balls = balls + ~is_strike
        done = (strikes >= 3) | (balls >= 4)
        strikes[done] = 0
        balls[done] = 0
        counts[:, t] = balls * 3 + strikes
        probs = trans[counts[:, t], types[:, t - 1]]
        types[:, t] = torch.multinomial(probs, 1)[:, 0]
    velo = 92 - 2.0 * types.float() + torch.randn(n, SEQ + 1)
    velo = (velo - velo.mean()) / velo.std()
    hand = torch.randint(0, 2, (n, 2)).float()
    return types, zones, counts, velo, hand


class IndRNNLayer(nn.Module):
    def __init__(self, n_in, n_hidden, seq_len):
        super().__init__()
        self.inp = nn.Linear(n_in, n_hidden)
        self.u = nn.Parameter(torch.empty(n_hidden).uniform_(0, 1))
        self.bn = nn.BatchNorm1d(n_hidden)
        self.max_abs = 2 ** (1 / seq_len)

    def clip_recurrent(self):
        with torch.no_grad():
            self.u.clamp_(-self.max_abs, self.max_abs)

    def forward(self, x):
        # x: (B, T, C)
        z = self.inp(x)
        h = torch.zeros_like(z[:, 0])
        outs = []
        for t in range(x.size(1)):
            h = F.relu(z[:, t] + self.u * h)
            outs.append(h)
        out = torch.stack(outs, dim=1)
        return self.bn(out.transpose(1, 2)).transpose(1, 2)


class PitchModel(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.type_emb = nn.Embedding(N_TYPES, 24)
        self.zone_emb = nn.Embedding(N_ZONES, 16)
        self.count_emb = nn.Embedding(12, 16)
        d = 24 + 16 + 16 + 1 + 2
        self.rnn1 = IndRNNLayer(d, hidden, SEQ)
        self.rnn2 = IndRNNLayer(hidden, hidden, SEQ)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(hidden, N_TYPES)

    def forward(self, types, zones, counts, velo, hand):
        static = hand[:, None, :].expand(-1, types.size(1), -1)
        x = torch.cat(
            [self.type_emb(types), self.zone_emb(zones), self.count_emb(counts), velo[..., None], static],
            dim=-1,
        )
        h = self.rnn1(x)
        h = self.drop(h)
        h = h + self.rnn2(h)
        return self.head(h)


def main():
    types, zones, counts, velo, hand = make_season(9000)
    data = TensorDataset(types, zones, counts, velo, hand)
    train, test = torch.utils.data.random_split(data, [8192, 808])
    loader = DataLoader(train, batch_size=128, shuffle=True)
    model = PitchModel()
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(4):
        model.train()
        total = 0.0
        for ty, zo, co, ve, ha in loader:
            # the count before the next pitch is known when it is chosen
            logits = compiled(ty[:, :-1], zo[:, :-1], co[:, 1:], ve[:, :-1], ha)
            loss = F.cross_entropy(logits.reshape(-1, N_TYPES), ty[:, 1:].reshape(-1))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            model.rnn1.clip_recurrent()
            model.rnn2.clip_recurrent()
            total += loss.item()
        print(f"epoch {epoch}  train loss {total / len(loader):.4f}")
    model.eval()
    ty, zo, co, ve, ha = [torch.stack(c) for c in zip(*[test[i] for i in range(len(test))])]
    with torch.no_grad():
        logits = model(ty[:, :-1], zo[:, :-1], co[:, 1:], ve[:, :-1], ha)
    acc = (logits.argmax(-1) == ty[:, 1:]).float().mean()
    base = (ty[:, 1:] == ty[:, 1:].flatten().mode().values).float().mean()
    print(f"next-pitch accuracy {acc:.3f} (most common pitch {base:.3f})")


if __name__ == "__main__":
    main()
