"""Fishing gear from AIS tracks with an x-transformers encoder.

Every vessel track is a sequence of (dt, speed, turn, dx, dy, sin/cos hour) of its own length; a batch is padded to its
longest track.  Five classes of gear, track statistics modelled on published speed / turn behaviour.
"""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from x_transformers import ContinuousTransformerWrapper, Encoder

GEARS = ["trawl", "longline", "purse_seine", "pots", "troll"]
#        fishing speed, turn scale, fraction of time fishing, mean bout length
BEHAVIOUR = torch.tensor(
    [
        [3.6, 0.10, 0.60, 30.0],
        [5.5, 0.05, 0.75, 50.0],
        [2.0, 0.60, 0.25, 8.0],
        [1.2, 0.90, 0.45, 14.0],
        [4.6, 0.25, 0.70, 20.0],
    ]
)
DIM_IN = 7
DIM = 96
BATCH = 8
TRAIN_STEPS = 36


def make_track(gear, gen):
    length = int(torch.empty(1).log_normal_(4.6, 0.45, generator=gen).clamp(24, 300).item())
    speed_f, turn_s, frac, bout = BEHAVIOUR[gear].tolist()
    # two-state (steaming / fishing) bouts
    n_bouts = max(2, int(length / bout) + 2)
    state = (torch.rand(n_bouts, generator=gen) < frac).float()
    state = state.repeat_interleave(int(bout))[:length]
    if state.numel() < length:
        state = F.pad(state, (0, length - state.numel()))
    speed = state * speed_f + (1 - state) * 9.5 + 0.9 * torch.randn(length, generator=gen)
    turn = (state * turn_s + (1 - state) * 0.03) * torch.randn(length, generator=gen)
    heading = torch.cumsum(turn, 0) + 6.28 * torch.rand(1, generator=gen)
    dt = 0.1 + 0.2 * torch.rand(length, generator=gen) + 1.5 * (torch.rand(length, generator=gen) < 0.04)
    hour = torch.cumsum(dt, 0) * 0.2618
    dx, dy = speed * dt * torch.cos(heading), speed * dt * torch.sin(heading)
    return torch.stack(
        [dt, speed / 5.0 - 1.0, turn * 2.0, dx * 0.3, dy * 0.3, torch.sin(hour), torch.cos(hour)], dim=1
    )


def collate(items):
    xs, ys = zip(*items)
    lens = torch.tensor([x.shape[0] for x in xs])
    x = pad_sequence(xs, batch_first=True)
    mask = torch.arange(x.shape[1])[None] < lens[:, None]
    return x, mask, torch.tensor(ys)


class GearClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = ContinuousTransformerWrapper(
            dim_in=DIM_IN,
            max_seq_len=320,
            use_abs_pos_emb=False,
            emb_dropout=0.1,
            attn_layers=Encoder(
                dim=DIM,
                depth=2,
                heads=3,
                attn_dim_head=32,
                rotary_emb_dim=32,
                rotary_pos_emb=True,
                use_rmsnorm=True,
                ff_glu=True,
                ff_swish=True,
                attn_qk_norm=True,
                layer_dropout=0.0,
                attn_dropout=0.0,
                ff_dropout=0.1,
            ),
        )
        self.score = nn.Linear(DIM, 1)
        self.head = nn.Linear(DIM, len(GEARS))

    def forward(self, x, mask):
        h = self.encoder(x, mask=mask)
        w = self.score(h).squeeze(-1).masked_fill(~mask, -1e4).softmax(-1)
        return self.head(torch.einsum("bn,bnd->bd", w, h))


@torch.no_grad()
def evaluate(model, tracks):
    model.eval()
    conf = torch.zeros(len(GEARS), len(GEARS), dtype=torch.long)
    for i in range(0, len(tracks), BATCH):
        x, mask, y = collate(tracks[i : i + BATCH])
        pred = model(x, mask).argmax(-1)
        conf.index_put_((y, pred), torch.ones_like(y), accumulate=True)
    model.train()
    return (conf.diag().sum() / conf.sum()).item(), conf


def main():
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(5)
    tracks = [(make_track(i % 5, gen), i % 5) for i in range(600)]
    order = torch.randperm(len(tracks), generator=gen).tolist()
    val, train = [tracks[i] for i in order[:96]], [tracks[i] for i in order[96:]]

    model = GearClassifier()
    # static shapes give the fastest kernels
    model = torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} M parameters, {len(train)} tracks")

    start, tokens = time.perf_counter(), 0
    for step in range(TRAIN_STEPS):
        pick = torch.randint(len(train), (BATCH,), generator=gen).tolist()
        x, mask, y = collate([train[i] for i in pick])
        for group in optimizer.param_groups:
            group["lr"] = 1e-3 * min(1.0, (step + 1) / 10)
        loss = F.cross_entropy(model(x, mask), y, label_smoothing=0.05)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += int(mask.sum())
        if step % 6 == 5:
            sec = time.perf_counter() - start
            print(
                f"step {step + 1:3d}  loss {loss.item():.3f}  longest {x.shape[1]:3d}  {tokens / sec:8.0f} fixes/s"
            )
        if step == TRAIN_STEPS // 2:
            acc, _ = evaluate(model, val)
            print(f"   validation accuracy {acc:.3f}")
    acc, conf = evaluate(model, val)
    print(f"final validation accuracy {acc:.3f}")
    for name, row in zip(GEARS, conf.tolist()):
        print(f"{name:12s} " + " ".join(f"{v:4d}" for v in row))


if __name__ == "__main__":
    main()
