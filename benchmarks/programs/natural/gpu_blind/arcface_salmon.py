"""Fit an additive-angular-margin head for identifying individual farmed salmon.

The backbone is frozen, its embeddings are cached; only a projector and the class
matrix are trained, in fp16 with loss scaling.
"""

import logging
import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

SMOKE = os.environ.get("SMOKE") == "1"
DEV = "cpu" if SMOKE else "cuda"
AMP = torch.bfloat16 if SMOKE else torch.float16
CFG = dict(
    ids=300 if SMOKE else 200_000,
    feat=32 if SMOKE else 384,
    dim=32 if SMOKE else 512,
    batch=16 if SMOKE else 1024,
    steps=3 if SMOKE else 150,
    margin=0.45,
    scale=48.0,
    lr=0.1,
)
log = logging.getLogger("salmon")


class ArcMarginProduct(nn.Module):
    def __init__(self, dim, classes, s, m):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)
        self.s = s
        self.cos_m, self.sin_m = math.cos(m), math.sin(m)
        self.th = math.cos(math.pi - m)
        self.mm = math.sin(math.pi - m) * m

    def forward(self, x, label):
        cosine = F.linear(F.normalize(x), F.normalize(self.weight)).float()
        sine = torch.sqrt((1.0 - cosine.pow(2)).clamp(1e-7, 1))
        phi = cosine * self.cos_m - sine * self.sin_m
        phi = torch.where(cosine > self.th, phi, cosine - self.mm)
        one_hot = torch.zeros_like(cosine)
        one_hot.scatter_(1, label.view(-1, 1), 1)
        output = (one_hot * phi) + ((1.0 - one_hot) * cosine)
        return output * self.s, cosine


class Projector(nn.Module):
    def __init__(self, feat, dim):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(feat, 2 * dim),
            nn.BatchNorm1d(2 * dim),
            nn.PReLU(),
            nn.Dropout(0.1),
            nn.Linear(2 * dim, dim),
            nn.BatchNorm1d(dim),
        )

    def forward(self, x):
        return self.net(x)


class FishIdentifier(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.projector = Projector(cfg["feat"], cfg["dim"])
        self.head = ArcMarginProduct(cfg["dim"], cfg["ids"], cfg["scale"], cfg["margin"])

    def forward(self, feats, label):
        logits, cosine = self.head(self.projector(feats), label)
        loss = F.cross_entropy(logits, label, label_smoothing=0.02)
        with torch.no_grad():
            hit = (cosine.argmax(dim=1) == label).float().mean()
        return loss, hit


class CachedFeatures:
    """Stand-in for the embedding cache: one noisy prototype per fish."""

    def __init__(self, cfg, gen):
        self.proto = torch.randn(cfg["ids"], cfg["feat"], generator=gen, device=DEV).to(torch.float16)
        self.cfg, self.gen = cfg, gen

    def __iter__(self):
        n = self.cfg["batch"]
        pool = torch.randint(0, self.cfg["ids"], (8 * n,), generator=self.gen, device=DEV)
        for _ in range(self.cfg["steps"]):
            y = pool[torch.randint(0, pool.numel(), (n,), generator=self.gen, device=DEV)]
            noise = torch.randn(n, self.cfg["feat"], generator=self.gen, device=DEV)
            yield self.proto[y].float() + 0.4 * noise, y


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", datefmt="%H:%M:%S")
    torch.manual_seed(3)
    gen = torch.Generator(device=DEV).manual_seed(3)
    model = FishIdentifier(CFG).to(DEV)
    compiled = torch.compile(model)
    head_params = [model.head.weight]
    rest = list(model.projector.parameters())
    opt = torch.optim.SGD(
        [{"params": rest, "weight_decay": 5e-4}, {"params": head_params, "weight_decay": 0.0}],
        lr=CFG["lr"],
        momentum=0.9,
    )
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, CFG["steps"])
    scaler = torch.amp.GradScaler(DEV, enabled=not SMOKE, init_scale=2.0**12)
    hits, start, seen = [], time.perf_counter(), 0
    for step, (x, y) in enumerate(CachedFeatures(CFG, gen)):
        with torch.autocast(DEV, dtype=AMP):
            loss, hit = compiled(x, y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
        sched.step()
        hits.append(hit.detach())
        seen += len(y)
        if step % 25 == 0:
            rate = seen / (time.perf_counter() - start)
            log.info(
                "step %d loss %.3f top1 %.3f scale %.0f  %.0f img/s",
                step,
                loss.item(),
                torch.stack(hits[-25:]).mean().item(),
                scaler.get_scale(),
                rate,
            )
    acc = torch.stack(hits).cpu()
    assert math.isfinite(loss.item())
    log.info(
        "done: loss %.3f, top1 first/last tenth %.3f/%.3f",
        loss.item(),
        acc[: max(1, len(acc) // 10)].mean(),
        acc[-max(1, len(acc) // 10) :].mean(),
    )


if __name__ == "__main__":
    main()
