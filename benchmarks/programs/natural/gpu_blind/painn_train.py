"""PaiNN (equivariant message passing) on random molecules, energy and direct force heads."""

import math
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = os.environ.get("DEVICE", "cuda" if torch.cuda.is_available() else "cpu")
SCALE = float(os.environ.get("SCALE", "1.0"))

SMALL = SCALE < 0.5
MOLS = max(4, int(128 * SCALE))
FEAT = max(16, int(128 * SCALE))
LAYERS = 3 if not SMALL else 2
N_RBF = 20
CUTOFF = 5.0
STEPS = 60 if not SMALL else 12


class PaiNNMessage(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(f, f), nn.SiLU(), nn.Linear(f, 3 * f))
        self.filter = nn.Linear(N_RBF, 3 * f)

    def forward(self, s, v, edge_index, rbf, fcut, unit):
        src, dst = edge_index
        w = self.filter(rbf) * fcut[:, None]
        x = self.phi(s)[src] * w
        ds, dv_r, dv_v = x.chunk(3, dim=-1)
        msg_v = v[src] * dv_v[:, None, :] + unit[:, :, None] * dv_r[:, None, :]
        s = s + torch.zeros_like(s).index_add_(0, dst, ds)
        v = v + torch.zeros_like(v).index_add_(0, dst, msg_v)
        return s, v


class PaiNNUpdate(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.uv = nn.Linear(f, 2 * f, bias=False)
        self.mlp = nn.Sequential(nn.Linear(2 * f, f), nn.SiLU(), nn.Linear(f, 3 * f))

    def forward(self, s, v):
        u, w = self.uv(v).chunk(2, dim=-1)
        norm = torch.sqrt((w**2).sum(1) + 1e-8)
        a_ss, a_sv, a_vv = self.mlp(torch.cat([s, norm], -1)).chunk(3, dim=-1)
        s = s + a_ss + a_sv * (u * w).sum(1)
        v = v + a_vv[:, None, :] * u
        return s, v


class PaiNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, FEAT, padding_idx=0)
        self.messages = nn.ModuleList([PaiNNMessage(FEAT) for _ in range(LAYERS)])
        self.updates = nn.ModuleList([PaiNNUpdate(FEAT) for _ in range(LAYERS)])
        self.energy_head = nn.Sequential(nn.Linear(FEAT, FEAT // 2), nn.SiLU(), nn.Linear(FEAT // 2, 1))
        self.force_gate = nn.Sequential(nn.Linear(FEAT, FEAT), nn.SiLU(), nn.Linear(FEAT, FEAT))
        self.force_vec = nn.Linear(FEAT, 1, bias=False)
        self.register_buffer("freqs", torch.arange(1, N_RBF + 1) * math.pi / CUTOFF)

    def forward(self, batch):
        z, pos, edge_index = batch["z"], batch["pos"], batch["edge_index"]
        diff = pos[edge_index[0]] - pos[edge_index[1]]
        dist = diff.norm(dim=-1)
        unit = diff / dist[:, None]
        rbf = torch.sin(dist[:, None] * self.freqs) / dist[:, None]
        fcut = 0.5 * (torch.cos(dist * math.pi / CUTOFF) + 1) * (dist < CUTOFF)
        s = self.embed(z)
        v = s.new_zeros(s.shape[0], 3, s.shape[1])
        for message, update in zip(self.messages, self.updates):
            s, v = message(s, v, edge_index, rbf, fcut, unit)
            s, v = update(s, v)
        atom_e = self.energy_head(s).squeeze(-1)
        energy = torch.zeros(batch["n_mols"], device=z.device).index_add_(0, batch["mol"], atom_e)
        forces = self.force_vec(v * self.force_gate(s)[:, None, :]).squeeze(-1)
        return {"energy": energy, "forces": forces}


def collate(mols):
    z = torch.cat([m["z"] for m in mols])
    pos = torch.cat([m["pos"] for m in mols])
    mol = torch.cat([torch.full((len(m["z"]),), i) for i, m in enumerate(mols)])
    return {
        "z": z,
        "pos": pos,
        "mol": mol,
        "n_mols": len(mols),
        "energy": torch.stack([m["energy"] for m in mols]),
        "forces": torch.cat([m["forces"] for m in mols]),
    }


def radius_graph(pos, mol):
    d = torch.cdist(pos, pos)
    mask = (d < CUTOFF) & (mol[:, None] == mol[None, :])
    mask.fill_diagonal_(False)
    return mask.nonzero().t().contiguous()


def make_molecules(n):
    mols = []
    types = torch.tensor([1, 6, 7, 8, 9])
    for _ in range(n):
        k = int(torch.randint(9, 30, (1,)))
        pos = torch.randn(k, 3) * (k ** (1 / 3)) * 0.9
        d = pos[:, None] - pos[None, :]
        r = d.norm(dim=-1) + torch.eye(k) * 10
        e = (torch.exp(-r) - 0.3 * torch.exp(-0.5 * r)).sum() / k
        f = ((torch.exp(-r) - 0.15 * torch.exp(-0.5 * r)) / r)[..., None] * d
        mols.append({"z": types[torch.randint(0, 5, (k,))], "pos": pos, "energy": e, "forces": f.sum(1)})
    return mols


def main():
    torch.manual_seed(0)
    dataset = make_molecules(10 * MOLS)
    model = PaiNN().to(DEVICE)
    compiled = torch.compile(model)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    ema = [p.detach().clone() for p in model.parameters()]
    t_last = time.perf_counter()
    for step in range(STEPS):
        pick = torch.randint(0, len(dataset), (MOLS,)).tolist()
        batch = collate([dataset[i] for i in pick])
        batch = {k: v.to(DEVICE) if torch.is_tensor(v) else v for k, v in batch.items()}
        batch["edge_index"] = radius_graph(batch["pos"], batch["mol"])
        out = compiled(batch)
        e_loss = F.mse_loss(out["energy"], batch["energy"])
        f_loss = (out["forces"] - batch["forces"]).norm(dim=-1).mean()
        loss = 0.05 * e_loss + 0.95 * f_loss
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        opt.step()
        for e, p in zip(ema, model.parameters()):
            e.lerp_(p.detach(), 0.01)
        if step % 10 == 9:
            now = time.perf_counter()
            print(
                f"step {step + 1} e {e_loss.item():.4f} f {f_loss.item():.4f} "
                f"edges {batch['edge_index'].shape[1]} {(now - t_last) / 10 * 1e3:.1f} ms/step"
            )
            t_last = now
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
