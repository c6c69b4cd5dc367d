# Radar nowcasting with an encoder-forecaster ConvLSTM: 10 frames in, 10 out. fp16 + GradScaler.
import os

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SMOKE = os.environ.get("SMOKE") == "1"
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
amp_dtype = torch.float16 if device.type == "cuda" else torch.bfloat16

B = 2 if SMOKE else 16
HW = 24 if SMOKE else 96
HID = 8 if SMOKE else 48
T_IN, T_OUT = (3, 3) if SMOKE else (10, 10)
STEPS = 6 if SMOKE else 300


class ConvLSTMCell(nn.Module):
    def __init__(self, cin, hid, k=3):
        super().__init__()
        self.hid = hid
        self.conv = nn.Conv2d(cin + hid, 4 * hid, k, padding=k // 2)
        # peephole weights, one per channel
        self.wi = nn.Parameter(torch.zeros(hid, 1, 1))
        self.wf = nn.Parameter(torch.zeros(hid, 1, 1))
        self.wo = nn.Parameter(torch.zeros(hid, 1, 1))

    def forward(self, x, state):
        h, c = state
        i, f, g, o = self.conv(torch.cat([x, h], 1)).chunk(4, 1)
        i = torch.sigmoid(i + self.wi * c)
        f = torch.sigmoid(f + self.wf * c + 1.0)
        c = f * c + i * torch.tanh(g)
        o = torch.sigmoid(o + self.wo * c)
        return o * torch.tanh(c), c


class Nowcaster(nn.Module):
    def __init__(self, hid=HID):
        super().__init__()
        self.hid = hid
        self.embed = nn.Conv2d(1, hid // 2, 4, stride=2, padding=1)
        self.enc = nn.ModuleList([ConvLSTMCell(hid // 2, hid), ConvLSTMCell(hid, hid)])
        self.dec = nn.ModuleList([ConvLSTMCell(hid // 2, hid), ConvLSTMCell(hid, hid)])
        self.head = nn.Sequential(
            nn.ConvTranspose2d(2 * hid, hid, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(hid, 1, 3, padding=1),
        )

    def forward(self, past, future, use_truth):
        """past (B,T,1,H,W); future likewise, read where use_truth (B,T_out) is set (scheduled sampling)."""
        b, t_in, _, h, w = past.shape
        zero = past.new_zeros(b, self.hid, h // 2, w // 2)
        states = [(zero, zero), (zero, zero)]
        for t in range(t_in):
            x = F.leaky_relu(self.embed(past[:, t]), 0.2)
            for l, cell in enumerate(self.enc):
                states[l] = cell(x, states[l])
                x = states[l][0]
        frame, outs = past[:, -1], []
        for t in range(future.shape[1]):
            x = F.leaky_relu(self.embed(frame), 0.2)
            for l, cell in enumerate(self.dec):
                states[l] = cell(x, states[l])
                x = states[l][0]
            pred = frame + self.head(torch.cat([states[0][0], states[1][0]], 1))
            outs.append(pred)
            frame = torch.where(use_truth[:, t].view(-1, 1, 1, 1), future[:, t], pred.float())
        return torch.stack(outs, 1)


def balanced_loss(pred, target):
    """B-MSE + B-MAE with the usual rain-rate weights."""
    w = torch.ones_like(target)
    for thr, val in ((0.15, 2.0), (0.3, 5.0), (0.5, 10.0), (0.7, 20.0)):
        w = torch.where(target >= thr, val, w)
    d = pred.float() - target
    return (w * d * d).mean() + (w * d.abs()).mean()


class StormGenerator:
    """Gaussian rain cells that drift, grow and decay."""

    def __init__(self, seed):
        self.g = torch.Generator(device=device).manual_seed(seed)
        ax = torch.arange(HW, device=device).float()
        self.yy, self.xx = torch.meshgrid(ax, ax, indexing="ij")

    def sample(self, n, cells=6):
        r = lambda *s: torch.rand(*s, generator=self.g, device=device)
        T = T_IN + T_OUT
        t = torch.arange(T, device=device).float().view(1, T, 1)
        cy, cx = r(n, 1, cells) * HW, r(n, 1, cells) * HW
        vy, vx = (r(n, 1, 1) - 0.5) * 4 + (r(n, 1, cells) - 0.5), (r(n, 1, 1) - 0.5) * 4
        amp = (r(n, 1, cells) * 0.9 + 0.1) * torch.sin(r(n, 1, cells) * 3 + 0.08 * t).abs()
        sig = (r(n, 1, cells) * 0.08 + 0.03) * HW
        y0, x0 = cy + vy * t, cx + vx * t
        out = torch.zeros(n, T, HW, HW, device=device)
        for k in range(cells):
            p = lambda a: a[..., k].reshape(n, -1, 1, 1)
            d2 = (self.yy - p(y0)) ** 2 + (self.xx - p(x0)) ** 2
            out += p(amp) * torch.exp(-0.5 * d2 / p(sig) ** 2)
        return out.clamp_(0, 1).unsqueeze(2)


def skill(pred, obs, thr):
    p, o = pred >= thr, obs >= thr
    hits, miss, fa = (p & o).sum(), (~p & o).sum(), (p & ~o).sum()
    return (hits / (hits + miss + fa).clamp_min(1)).item()


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    train, val = StormGenerator(1), StormGenerator(2)
    model = Nowcaster().to(device)
    compiled = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=6e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    scaler = torch.amp.GradScaler(device.type, enabled=device.type == "cuda")
    running = torch.zeros((), device=device)
    for step in range(STEPS):
        seq = train.sample(B)
        past, fut = seq[:, :T_IN], seq[:, T_IN:]
        eps = max(0.0, 1 - 1.5 * step / STEPS)
        use = torch.from_numpy(np.random.rand(B, T_OUT) < eps).to(device)
        with torch.autocast(device.type, dtype=amp_dtype):
            pred = compiled(past, fut, use)
            loss = balanced_loss(pred, fut)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        sched.step()
        running += loss.detach()
        if (step + 1) % max(1, STEPS // 4) == 0:
            print(f"step {step + 1:4d}  mean loss {running.item() / max(1, STEPS // 4):.5f}  eps {eps:.2f}")
            running.zero_()

    model.eval()
    scores, mse, n = {0.15: 0.0, 0.3: 0.0, 0.5: 0.0}, 0.0, 0
    no_truth = torch.zeros(B, T_OUT, dtype=torch.bool, device=device)
    with torch.no_grad(), torch.autocast(device.type, dtype=amp_dtype):
        for _ in range(2 if SMOKE else 20):
            seq = val.sample(B)
            pred = compiled(seq[:, :T_IN], seq[:, T_IN:], no_truth).float().clamp(0, 1)
            for thr in scores:
                scores[thr] += skill(pred, seq[:, T_IN:], thr)
            mse += F.mse_loss(pred, seq[:, T_IN:]).item()
            n += 1
    print("val mse %.5f" % (mse / n), {k: round(v / n, 4) for k, v in scores.items()})


if __name__ == "__main__":
    main()
