"""Forest cover type from cartographic variables with TabNet (pytorch-tabnet network, own training loop)."""

import time

import torch
import torch.nn.functional as F
from pytorch_tabnet.tab_network import TabNet

torch.manual_seed(17)
N_TRAIN, N_VAL, BATCH, CLASSES = 16384, 4096, 2048, 7
CAT = {10: 4, 11: 40}  # wilderness area, soil type
LAMBDA_SPARSE = 1e-4


def cartographic_table(n):
    elev = torch.rand(n) * 2000 + 1850
    aspect = torch.rand(n) * 360
    slope = torch.rand(n).pow(2) * 60
    hydro_h = torch.rand(n).pow(2) * 1400
    hydro_v = torch.randn(n) * 60 + 40
    roads = torch.rand(n) * 7000
    shade9 = 212 + 25 * torch.sin(aspect / 57.3) - 0.4 * slope
    shade12 = 223 - 0.3 * slope + 5 * torch.randn(n)
    shade3 = 142 - 25 * torch.sin(aspect / 57.3) + 5 * torch.randn(n)
    fire = torch.rand(n) * 7000
    num = torch.stack([elev, aspect, slope, hydro_h, hydro_v, roads, shade9, shade12, shade3, fire], 1)
    area = ((elev - 1850) / 2000 * 3 + torch.rand(n)).long().clamp(0, 3)
    soil = ((elev - 1850) / 50 + 4 * torch.randn(n)).long().clamp(0, 39)
    score = torch.stack(
        [
            -(((elev - 3150) / 200) ** 2),
            -(((elev - 2900) / 230) ** 2) + 0.3,
            -(((elev - 2400) / 200) ** 2),
            -(((elev - 2200) / 150) ** 2) - hydro_h / 400,
            -(((elev - 2750) / 160) ** 2) - 0.5 + torch.cos(aspect / 57.3) * 0.6,
            -(((elev - 2420) / 190) ** 2) + slope / 60,
            -(((elev - 3400) / 160) ** 2) + (soil > 30) * 0.5,
        ],
        1,
    )
    y = (score + 0.3 * torch.randn(n, 7)).argmax(1)
    num = (num - num.mean(0)) / num.std(0)
    return torch.cat([num, area[:, None].float(), soil[:, None].float()], 1), y


def build():
    n_feat = 12
    return TabNet(
        input_dim=n_feat,
        output_dim=CLASSES,
        n_d=32,
        n_a=32,
        n_steps=3,
        gamma=1.5,
        cat_idxs=list(CAT),
        cat_dims=list(CAT.values()),
        cat_emb_dim=[2, 8],
        n_independent=2,
        n_shared=2,
        virtual_batch_size=1024,
        momentum=0.02,
        mask_type="entmax",
        group_attention_matrix=torch.eye(n_feat),
    )


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    hits, conf = 0, torch.zeros(CLASSES, CLASSES, dtype=torch.long)
    for xb, yb in zip(x.split(BATCH), y.split(BATCH)):
        pred = model(xb)[0].argmax(1)
        hits += (pred == yb).sum().item()
        conf += torch.bincount(yb * CLASSES + pred, minlength=CLASSES**2).view(CLASSES, CLASSES)
    recall = conf.diag() / conf.sum(1).clamp(min=1)
    return hits / len(y), recall.mean().item()


def main(epochs=8):
    x, y = cartographic_table(N_TRAIN)
    xv, yv = cartographic_table(N_VAL)
    model = build()
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    sched = torch.optim.lr_scheduler.StepLR(opt, 3, 0.7)

    @torch.compile
    def loss_fn(xb, yb):
        logits, m_loss = model(xb)
        return F.cross_entropy(logits, yb) - LAMBDA_SPARSE * m_loss

    for epoch in range(epochs):
        model.train()
        perm = torch.randperm(N_TRAIN)
        t0, losses = time.perf_counter(), []
        for idx in perm.split(BATCH):
            loss = loss_fn(x[idx], y[idx])
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            losses.append(loss.item())
        dt = time.perf_counter() - t0
        acc, rec = evaluate(model, xv, yv)
        sched.step()
        print(
            f"epoch {epoch + 1}: loss {sum(losses) / len(losses):.4f}  val acc {acc:.4f}  mean recall {rec:.4f}"
            f"  {dt / len(losses) * 1e3:.0f} ms/step"
        )


if __name__ == "__main__":
    main()
