"""Train an episode recommender for a podcast app: user tower over listened shows, BPR loss with popular negatives."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, EPISODES, DIM, HISTORY = 60_000, 120_000, 64, 20


class UserTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.user = nn.Embedding(USERS, dim)
        self.gate = nn.Linear(dim, 1)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, 2 * dim),
            nn.GELU(),
            nn.LayerNorm(2 * dim),
            nn.Dropout(0.1),
            nn.Linear(2 * dim, dim),
        )

    def forward(self, user, history, mask):
        score = self.gate(history).squeeze(-1).masked_fill(~mask, -1e4)
        pooled = (torch.softmax(score, -1).unsqueeze(-1) * history).sum(1)
        return self.mlp(torch.cat([self.user(user), pooled], -1))


class Recommender(nn.Module):
    def __init__(self, dim=DIM):
        super().__init__()
        self.episode = nn.Embedding(EPISODES, dim)
        self.bias = nn.Embedding(EPISODES, 1)
        self.tower = UserTower(dim)
        nn.init.normal_(self.episode.weight, std=0.1)
        nn.init.normal_(self.tower.user.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, user, history, mask, pos, neg):
        u = self.tower(user, self.episode(history), mask)
        sp = (u * self.episode(pos)).sum(-1) + self.bias(pos).squeeze(-1)
        sn = torch.einsum("bd,bnd->bn", u, self.episode(neg)) + self.bias(neg).squeeze(-1)
        loss = -F.logsigmoid(sp.unsqueeze(1) - sn).mean()
        return loss, (sp.unsqueeze(1) > sn).float().mean()


class Listening:
    """Zipf popularity and latent topics; episodes of one topic are contiguous."""

    def __init__(self, topics=40, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.topics = topics
        self.per_topic = EPISODES // topics
        rank = torch.arange(1, self.per_topic + 1, dtype=torch.float)
        self.pop = rank.pow(-1.1)
        self.user_topic = torch.randint(topics, (USERS, 3), generator=self.g)

    def episodes(self, topic):
        pick = torch.multinomial(self.pop, topic.numel(), replacement=True, generator=self.g).view_as(topic)
        return topic * self.per_topic + pick

    def batch(self, size, negatives=8):
        user = torch.randint(USERS, (size,), generator=self.g)
        likes = self.user_topic[user]
        which = torch.randint(3, (size, HISTORY + 1), generator=self.g)
        ep = self.episodes(torch.gather(likes, 1, which))
        length = torch.randint(3, HISTORY + 1, (size, 1), generator=self.g)
        mask = torch.arange(HISTORY) < length
        neg = self.episodes(torch.randint(self.topics, (size, negatives), generator=self.g))
        return user, ep[:, :HISTORY], mask, ep[:, HISTORY], neg


@torch.no_grad()
def evaluate(model, data, batches=3):
    model.eval()
    auc = sum(float(model(*data.batch(512))[1]) for _ in range(batches)) / batches
    model.train()
    return auc


def main():
    torch.manual_seed(0)
    data = Listening()
    model = Recommender()
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-2, total_steps=50)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters")
    running, t0 = 0.0, time.perf_counter()
    for step in range(1, 49):
        loss, auc = compiled(*data.batch(512))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        running = 0.9 * running + 0.1 * loss.item() if step > 1 else loss.item()
        if step % 12 == 0:
            print(
                f"step {step:3d} loss {running:.4f} train auc {auc:.3f} lr {sched.get_last_lr()[0]:.2e}"
                f" {(time.perf_counter() - t0) / step * 1e3:.1f} ms/step"
            )
    print(f"held-out auc {evaluate(model, data):.3f}")


if __name__ == "__main__":
    main()
