"""GFlowNet (trajectory balance) that samples short antimicrobial peptides in proportion to a reward."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(11)
AA = "ACDEFGHIKLMNPQRSTVWY"
STOP = len(AA)
LENGTH = 9
BATCH = 128

HYDRO = (
    torch.tensor(
        [
            1.8,
            2.5,
            -3.5,
            -3.5,
            2.8,
            -0.4,
            -3.2,
            4.5,
            -3.9,
            3.8,
            1.9,
            -3.5,
            -1.6,
            -3.5,
            -4.5,
            -0.8,
            -0.7,
            4.2,
            -0.9,
            -1.3,
            0.0,
        ]
    )
    / 4.5
)
CHARGE = torch.zeros(21)
CHARGE[[AA.index(c) for c in "KR"]] = 1.0
CHARGE[[AA.index(c) for c in "DE"]] = -1.0
PAIR = torch.randn(21, 21, generator=torch.Generator().manual_seed(2)) * 0.3
ANGLE = torch.deg2rad(100.0 * torch.arange(LENGTH))


def log_reward(seq):
    """Amphipathic, positively charged, not too short, plus pair preferences (a toy of an assay model)."""
    alive = (seq != STOP).float()
    n = alive.sum(1)
    h = HYDRO[seq] * alive
    moment = torch.sqrt((h * torch.cos(ANGLE)).sum(1) ** 2 + (h * torch.sin(ANGLE)).sum(1) ** 2 + 1e-6)
    charge = (CHARGE[seq] * alive).sum(1)
    pairs = (PAIR[seq[:, :-1], seq[:, 1:]] * alive[:, 1:]).sum(1)
    return 0.9 * moment - 0.35 * (charge - 4).abs() + pairs - 0.5 * F.relu(5 - n)


class ForwardPolicy(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.embed = nn.Embedding(len(AA) + 2, 24)
        self.body = nn.Sequential(
            nn.Linear(24 * LENGTH + LENGTH, hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
            nn.Linear(hidden, len(AA) + 1),
        )
        self.log_z = nn.Parameter(torch.tensor(2.0))

    def logits(self, seq, t):
        where = F.one_hot(torch.full((seq.shape[0],), t), LENGTH).float()
        return self.body(torch.cat([self.embed(seq).flatten(1), where], 1))


def rollout(policy, eps, temperature):
    """Sample a batch of peptides letter by letter; the log-probability of each one's trajectory."""
    seq = torch.full((BATCH, LENGTH), STOP + 1)
    ended = torch.zeros(BATCH, dtype=torch.bool)
    logp = torch.zeros(BATCH)
    entropy = torch.zeros(BATCH)
    for t in range(LENGTH):
        logits = policy.logits(seq, t)
        if t < 3:
            logits = logits.masked_fill(F.one_hot(torch.tensor(STOP), len(AA) + 1).bool(), -1e9)
        lp = F.log_softmax(logits, -1)
        with torch.no_grad():
            p = F.softmax(logits / temperature, -1)
            p = (1 - eps) * p + eps / (len(AA) + (1 if t >= 3 else 0)) * (lp > -1e8)
            a = torch.multinomial(p, 1).squeeze(1)
            a = torch.where(ended, STOP, a)
        step = lp.gather(1, a[:, None]).squeeze(1)
        logp = logp + torch.where(ended, 0.0, step)
        entropy = entropy - torch.where(ended, 0.0, (lp.exp() * lp.clamp_min(-30)).sum(1))
        seq = seq.clone()
        seq[:, t] = a
        ended = ended | (a == STOP)
    return seq, logp, entropy.mean()


rollout = torch.compile(rollout)


def main():
    policy = ForwardPolicy()
    opt = torch.optim.Adam(
        [
            {"params": [p for n, p in policy.named_parameters() if n != "log_z"], "lr": 1e-3},
            {"params": [policy.log_z], "lr": 3e-2},
        ]
    )
    steps = 60
    best = {}
    for it in range(steps):
        eps = max(0.02, 0.2 * (1 - it / steps))
        seq, logp, entropy = rollout(policy, eps, 1.2)
        with torch.no_grad():
            lr = log_reward(seq)
        # every prefix has one parent, so the backward policy is 1
        tb = (policy.log_z + logp - 2.0 * lr).square().mean()
        opt.zero_grad()
        tb.backward()
        opt.step()
        k = int(lr.argmax())
        pep = "".join(AA[c] for c in seq[k].tolist() if c < STOP)
        best[pep] = lr[k].item()
        if it % 20 == 0 or it == steps - 1:
            print(
                f"{it:4d}  tb {tb.item():9.3f}  logZ {policy.log_z.item():.2f}  "
                f"reward {lr.mean().item():.3f}  entropy {entropy.item():.2f}"
            )
    for pep, r in sorted(best.items(), key=lambda kv: -kv[1])[:5]:
        print(f"  {pep:10s} log-reward {r:.3f}")


if __name__ == "__main__":
    main()
