"""Denoising of nanobody loop backbones with invariant point attention (invariant-point-attention).

Random smooth chains stand for the loops; the frames of the residues are perturbed and the network moves them back.
Trained with a clamped frame aligned point error.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
from invariant_point_attention import IPABlock
from torch import nn

RES = 72
BATCH = 4
DIM = 64
PAIR = 32
STEPS = 45


def frames_from_chain(ca):
    """Orthonormal frames (rows are axes) from neighbouring C-alpha atoms."""
    fwd = F.normalize(torch.roll(ca, -1, 1) - ca, dim=-1)
    back = F.normalize(torch.roll(ca, 1, 1) - ca, dim=-1)
    e1 = F.normalize(fwd - back, dim=-1)
    e2 = fwd + back
    e2 = F.normalize(e2 - (e2 * e1).sum(-1, keepdim=True) * e1, dim=-1)
    return torch.stack([e1, e2, torch.linalg.cross(e1, e2)], dim=-2)


def sample_loops(n):
    """Chains of 3.8 A bonds with a persistent direction; residue types follow the local curvature."""
    step = torch.randn(n, RES, 3)
    for _ in range(2):
        step = step + 0.8 * torch.roll(step, 1, 1)
    ca = torch.cumsum(3.8 * F.normalize(step, dim=-1), 1)
    ca = ca - ca.mean(1, keepdim=True)
    bend = (F.normalize(step, dim=-1) * F.normalize(torch.roll(step, -1, 1), dim=-1)).sum(-1)
    types = ((bend + 1) * 9.5 + torch.randn(n, RES)).long().clamp(0, 19)
    length = torch.randint(RES - 20, RES + 1, (n, 1))
    mask = torch.arange(RES) < length
    return ca, frames_from_chain(ca), types, mask


def quaternion_to_rotation(v):
    """Small rotation from the imaginary part of a quaternion (1, b, c, d)."""
    q = F.normalize(F.pad(v, (1, 0), value=1.0), dim=-1)
    a, b, c, d = q.unbind(-1)
    rows = [
        a * a + b * b - c * c - d * d,
        2 * (b * c + a * d),
        2 * (b * d - a * c),
        2 * (b * c - a * d),
        a * a - b * b + c * c - d * d,
        2 * (c * d + a * b),
        2 * (b * d + a * c),
        2 * (c * d - a * b),
        a * a - b * b - c * c + d * d,
    ]
    return rearrange(torch.stack(rows, -1), "... (r c) -> ... r c", r=3)


class LoopDenoiser(nn.Module):
    def __init__(self, depth=4):
        super().__init__()
        self.residue = nn.Embedding(20, DIM)
        self.position = nn.Embedding(RES, DIM)
        self.relpos = nn.Embedding(65, PAIR)
        self.dist = nn.Linear(24, PAIR)
        self.pair_norm = nn.LayerNorm(PAIR)
        self.blocks = nn.ModuleList(
            [
                IPABlock(
                    dim=DIM,
                    heads=4,
                    scalar_key_dim=16,
                    scalar_value_dim=16,
                    point_key_dim=4,
                    point_value_dim=4,
                    pairwise_repr_dim=PAIR,
                )
                for _ in range(depth)
            ]
        )
        self.updates = nn.ModuleList([nn.Linear(DIM, 6) for _ in range(depth)])
        for u in self.updates:
            nn.init.normal_(u.weight, std=1e-3)
            nn.init.zeros_(u.bias)
        self.register_buffer("centres", torch.linspace(2.0, 40.0, 24))

    def forward(self, types, mask, ca, rot):
        pos = torch.arange(types.shape[1])
        s = self.residue(types) + self.position(pos)
        rel = (pos[:, None] - pos[None, :]).clamp(-32, 32) + 32
        d = (ca[:, :, None] - ca[:, None]).square().sum(-1).add(1e-6).sqrt()
        rbf = torch.exp(-(((d[..., None] - self.centres) / 2.0) ** 2))
        z = self.pair_norm(self.relpos(rel) + self.dist(rbf))
        t = ca / 10.0
        for block, update in zip(self.blocks, self.updates):
            s = block(s, pairwise_repr=z, rotations=rot.detach(), translations=t, mask=mask)
            delta, quat = update(s).chunk(2, dim=-1)
            t = t + torch.einsum("bnc,bncr->bnr", delta, rot)
            rot = quaternion_to_rotation(quat) @ rot
        return t * 10.0, rot


def fape(ca, rot, ca_true, rot_true, mask, clamp=10.0):
    local = torch.einsum("bijr,bicr->bijc", ca[:, None] - ca[:, :, None], rot)
    local_true = torch.einsum("bijr,bicr->bijc", ca_true[:, None] - ca_true[:, :, None], rot_true)
    err = (local - local_true).square().sum(-1).add(1e-4).sqrt().clamp(max=clamp)
    pair = (mask[:, None] & mask[:, :, None]).float()
    return (err * pair).sum() / pair.sum() / clamp


def main():
    torch.manual_seed(5)
    model = LoopDenoiser()
    net = torch.compile(model)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    window = []
    for step in range(1, STEPS + 1):
        ca, rot, types, mask = sample_loops(BATCH)
        noisy_ca = ca + 1.5 * torch.randn_like(ca)
        noisy_rot = quaternion_to_rotation(0.3 * torch.randn(BATCH, RES, 3)) @ rot
        out_ca, out_rot = net(types, mask, noisy_ca, noisy_rot)
        loss = fape(out_ca, out_rot, ca, rot, mask)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        window.append((loss.item(), fape(noisy_ca, noisy_rot, ca, rot, mask).item()))
        if step % 15 == 0:
            a, b = torch.tensor(window[-15:]).mean(0).tolist()
            print(f"step {step:3d}  FAPE {a:.4f}  (noised input {b:.4f})")


if __name__ == "__main__":
    main()
