"""Slot Attention (Locatello et al. 2020) on synthetic coloured tiles: object-centric auto-encoding.

Each 32x32 image holds two to four solid shapes on a grey background. The model has a small CNN
encoder with a soft position embedding, three rounds of slot attention and a spatial broadcast decoder.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

SEED = 11
RES = 32
BATCH = 16
NUM_SLOTS = 5
STEPS = 50


def make_images(n, gen):
    yy, xx = torch.meshgrid(torch.arange(RES), torch.arange(RES), indexing="ij")
    imgs = torch.full((n, 3, RES, RES), 0.5)
    for i in range(n):
        for _ in range(int(torch.randint(2, 5, (1,), generator=gen))):
            cx, cy = torch.randint(5, RES - 5, (2,), generator=gen)
            r = int(torch.randint(3, 6, (1,), generator=gen))
            if torch.rand(1, generator=gen) < 0.5:
                mask = (xx - cx) ** 2 + (yy - cy) ** 2 <= r * r
            else:
                mask = ((xx - cx).abs() <= r) & ((yy - cy).abs() <= r)
            colour = torch.rand(3, generator=gen)
            imgs[i][:, mask] = colour[:, None]
    return imgs


def build_grid(h, w):
    ys = torch.linspace(0, 1, h)
    xs = torch.linspace(0, 1, w)
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    g = torch.stack([gy, gx], dim=-1)
    return torch.cat([g, 1 - g], dim=-1)[None]


class SoftPositionEmbed(nn.Module):
    def __init__(self, dim, h, w):
        super().__init__()
        self.dense = nn.Linear(4, dim)
        self.register_buffer("grid", build_grid(h, w))

    def forward(self, x):  # x: B H W C
        return x + self.dense(self.grid)


class SlotAttention(nn.Module):
    def __init__(self, num_slots, dim, iters=3, hidden=64, eps=1e-8):
        super().__init__()
        self.num_slots, self.iters, self.eps, self.scale = num_slots, iters, eps, dim**-0.5
        self.mu = nn.Parameter(torch.randn(1, 1, dim))
        self.log_sigma = nn.Parameter(torch.zeros(1, 1, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.norm_in, self.norm_slots, self.norm_mlp = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, inputs):
        b, n, d = inputs.shape
        slots = self.mu + self.log_sigma.exp() * torch.randn(b, self.num_slots, d)
        inputs = self.norm_in(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            prev = slots
            q = self.to_q(self.norm_slots(slots))
            dots = torch.einsum("bid,bjd->bij", q, k) * self.scale
            attn = dots.softmax(dim=1) + self.eps
            attn = attn / attn.sum(dim=-1, keepdim=True)
            updates = torch.einsum("bjd,bij->bid", v, attn)
            slots = self.gru(updates.reshape(-1, d), prev.reshape(-1, d)).reshape(b, -1, d)
            slots = slots + self.mlp(self.norm_mlp(slots))
        return slots


class SlotAutoEncoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        conv = lambda i: nn.Conv2d(i, dim, 5, padding=2)
        self.encoder = nn.Sequential(conv(3), nn.ReLU(), conv(dim), nn.ReLU(), conv(dim), nn.ReLU())
        self.enc_pos = SoftPositionEmbed(dim, RES, RES)
        self.pre = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.slot_attention = SlotAttention(NUM_SLOTS, dim)
        self.dec_pos = SoftPositionEmbed(dim, 8, 8)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(dim, dim, 5, stride=2, padding=2, output_padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(dim, dim, 5, stride=2, padding=2, output_padding=1),
            nn.ReLU(),
            nn.Conv2d(dim, 4, 3, padding=1),
        )

    def forward(self, image):
        b = image.shape[0]
        x = self.enc_pos(self.encoder(image).permute(0, 2, 3, 1)).flatten(1, 2)
        slots = self.slot_attention(self.pre(x))
        s = slots.reshape(-1, 1, 1, slots.shape[-1]).expand(-1, 8, 8, -1)
        out = self.decoder(self.dec_pos(s).permute(0, 3, 1, 2))
        out = out.reshape(b, -1, 4, RES, RES)
        recons, masks = out.split([3, 1], dim=2)
        masks = masks.softmax(dim=1)
        return (recons * masks).sum(dim=1), masks


def main():
    torch.manual_seed(SEED)
    gen = torch.Generator().manual_seed(SEED)
    images = make_images(256, gen)
    model = SlotAutoEncoder()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=4e-4)
    for step in range(STEPS):
        lr = 1e-3 * min(1.0, (step + 1) / 20)
        for g in opt.param_groups:
            g["lr"] = lr
        batch = images[torch.randint(0, len(images), (BATCH,), generator=gen)]
        recon, _ = net(batch)
        loss = F.mse_loss(recon, batch)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step:4d}  mse {loss.item():.5f}")
    with torch.no_grad():
        _, masks = net(images[:BATCH])
    usage = masks.mean(dim=(0, 2, 3, 4))
    print("slot usage", [round(u, 3) for u in usage.tolist()])


if __name__ == "__main__":
    main()
